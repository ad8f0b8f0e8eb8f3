//! The smallest plugin.
use t2m_plugin_sdk::{Deserialize, JsonSchema, Plugin, Serialize, Tools, export};

#[derive(Deserialize, JsonSchema)]
struct Args {
    /// Who to greet.
    name: String,
}
#[derive(Serialize, JsonSchema)]
struct Greeting {
    text: String,
}
struct Hello;
impl Plugin for Hello {
    fn tools(tools: &mut Tools) {
        tools.pure("greet", "Greets somebody.", |args: Args| {
            let text = format!("Hello, {}!", args.name);
            Ok(Greeting { text })
        });
    }
}
export!(Hello);

#[cfg(test)]
mod tests {
    use t2m_plugin_sdk::testing::Harness;

    #[test]
    fn greets_by_name() {
        let mut harness = Harness::<super::Hello>::new();
        assert_eq!(harness.problems(), Vec::<String>::new());
        let outcome = harness.call("greet", r#"{"name": "Ada"}"#).unwrap();
        assert_eq!(outcome.structured.as_deref(), Some(r#"{"text":"Hello, Ada!"}"#));
    }
}
