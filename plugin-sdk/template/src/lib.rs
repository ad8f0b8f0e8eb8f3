//! Greets people.
use t2m_plugin_sdk::{Deserialize, Error, JsonSchema, Plugin, Serialize, Tools, export};

#[derive(Deserialize, JsonSchema)]
struct Args {
    /// Who to greet.
    name: String,
}
#[derive(Serialize, JsonSchema)]
struct Greeting {
    text: String,
}
fn greet(Args { name }: Args) -> Result<Greeting, Error> {
    if name.is_empty() {
        return Err(Error::new("name-empty", "say who to greet"));
    }
    Ok(Greeting { text: format!("Hello, {name}!") })
}
struct Greeter;
impl Plugin for Greeter {
    fn tools(tools: &mut Tools) {
        tools.pure("greet", "Greets somebody.", greet);
    }
}
export!(Greeter);
