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
struct Greeter;
impl Plugin for Greeter {
    fn tools(tools: &mut Tools) {
        tools.pure("greet", "Greets somebody.", |args: Args| match args.name.as_str() {
            "" => Err(Error::new("name-empty", "say who to greet")),
            name => Ok(Greeting { text: format!("Hello, {name}!") }),
        });
    }
}
export!(Greeter);
