//! Runs a plugin natively, for its unit tests.
//!
//! Owns the harness: list, call, script the host. Refuses to stand in for the sandbox: limits, grants and
//! full schema checks are the host's, and `t2m-host plugin test` has them.
//!
//! INVARIANT: the plugin sees nothing that the test didn't set or the defaults don't say.

use std::marker::PhantomData;

use serde::Serialize;
use serde_json::Value;

use crate::context::Context;
use crate::double::{self, Host};
use crate::http::{Request, Response};
use crate::log::Level;
use crate::{Error, Outcome, Output, Plugin, Tool, tool};

/// A native host for one plugin.
pub struct Harness<P> {
    host: Host,
    plugin: PhantomData<P>,
}

impl<P: Plugin> Harness<P> {
    /// Makes a host with a made-up context and no other tools.
    pub fn new() -> Self {
        Self { host: Host::default(), plugin: PhantomData }
    }

    /// Lists the plugin's tools.
    pub fn tools(&self) -> Vec<Tool> {
        tool::describe::<P>()
    }

    /// Sets what [`crate::context::current`] returns.
    #[must_use]
    pub fn context(mut self, context: Context) -> Self {
        self.host.context = context;
        self
    }

    /// Scripts another tool of the host.
    #[must_use]
    pub fn script<R: Output>(
        mut self,
        name: &str,
        mut run: impl FnMut(Value) -> Result<R, Error> + 'static,
    ) -> Self {
        self.host.scripts.insert(name.to_owned(), Box::new(move |arguments| run(arguments)?.finish()));
        self
    }

    /// Answers the plugin's requests.
    #[must_use]
    pub fn server(mut self, run: impl FnMut(&Request) -> Result<Response, Error> + 'static) -> Self {
        self.host.server = Some(Box::new(run));
        self
    }

    /// Lends the plugin a secret, for which `t2m-secret-NAME` stands.
    #[must_use]
    pub fn secret(mut self, name: &str) -> Self {
        self.host.secrets.push(name.to_owned());
        self
    }

    /// Runs a tool with arguments as JSON text.
    ///
    /// # Errors
    /// What the tool fails with. Like the host, the harness refuses arguments the schema doesn't name.
    pub fn call(&mut self, name: &str, arguments: &str) -> Result<Outcome, Error> {
        self.refuse_unknown(name, arguments)?;
        double::swap(&mut self.host);
        let outcome = tool::call::<P>(name.to_owned(), arguments);
        double::swap(&mut self.host);
        outcome
    }

    /// Runs a tool with arguments that serde can write, such as those of `serde_json::json!`.
    ///
    /// # Errors
    /// As [`Harness::call`].
    pub fn call_with(&mut self, name: &str, arguments: &impl Serialize) -> Result<Outcome, Error> {
        let json = serde_json::to_string(arguments)?;
        self.call(name, &json)
    }

    /// What the plugin logged so far.
    pub fn messages(&self) -> &[(Level, String)] {
        &self.host.messages
    }

    /// The nested calls the plugin made so far.
    pub fn calls(&self) -> &[(String, Value)] {
        &self.host.calls
    }

    /// Lists what the host would refuse about the plugin's tools; a plugin's tests should expect nothing.
    pub fn problems(&self) -> Vec<String> {
        let tools = self.tools();
        let mut problems = Vec::new();
        for (index, tool) in tools.iter().enumerate() {
            let name = &tool.name;
            if !is_tool_name(name) {
                problems.push(format!("`{name}` must be 1 to 128 of A-Z a-z 0-9 _ - ."));
            }
            if tools.iter().take(index).any(|other| other.name == *name) {
                problems.push(format!("`{name}` is there twice"));
            }
            if tool.description.is_empty() {
                problems.push(format!("`{name}` has no description"));
            }
            for key in tool.reads.iter().chain(&tool.writes) {
                for argument in placeholders(key) {
                    if tool.input_schema.pointer(&format!("/properties/{argument}")).is_none() {
                        problems.push(format!("`{name}` has the key `{key}`, but no argument `{argument}`"));
                    }
                }
            }
        }
        problems
    }

    fn refuse_unknown(&self, name: &str, arguments: &str) -> Result<(), Error> {
        let tools = self.tools();
        let Some(tool) = tools.iter().find(|tool| tool.name == name) else {
            return Ok(());
        };
        let Ok(Value::Object(arguments)) = serde_json::from_str(arguments) else {
            return Ok(());
        };
        let Some(known) = tool.input_schema.get("properties").and_then(Value::as_object) else {
            return Ok(());
        };
        if tool.input_schema.get("additionalProperties") != Some(&Value::Bool(false)) {
            return Ok(());
        }
        match arguments.keys().find(|key| !known.contains_key(*key)) {
            Some(key) => Err(Error::invalid_arguments(format!("unknown argument `{key}`"))),
            None => Ok(()),
        }
    }
}

impl<P: Plugin> Default for Harness<P> {
    fn default() -> Self {
        Self::new()
    }
}

fn is_tool_name(name: &str) -> bool {
    (1..=128).contains(&name.len()) && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-.".contains(&b))
}

fn placeholders(key: &str) -> impl Iterator<Item = &str> {
    key.split('{').skip(1).filter_map(|part| part.split_once('}').map(|(name, _)| name))
}

#[cfg(test)]
mod tests {
    use schemars::JsonSchema;
    use serde::Deserialize;
    use serde_json::json;

    use super::Harness;
    use crate::log::Level;
    use crate::{Error, Plugin, Tools, context, log, tools};

    #[derive(Deserialize, JsonSchema)]
    struct Sum {
        numbers: Vec<i64>,
    }

    fn sum(args: Sum) -> Result<String, Error> {
        log::info(format!("{} numbers", args.numbers.len()));
        let mut total = 0;
        for number in args.numbers {
            total = tools::call("add", &json!({"a": total, "b": number}))?;
        }
        Ok(format!("{}: {total}", context::current().run_id))
    }

    struct Sums;

    impl Plugin for Sums {
        fn tools(tools: &mut Tools) {
            tools.read("sum", "Adds numbers.", sum).reads(&["number:{number}"]);
            tools.read("sum", "", sum);
        }
    }

    #[test]
    fn a_plugin_uses_the_scripted_host() {
        let mut harness = Harness::<Sums>::new().script("add", |arguments| {
            Ok(arguments["a"].as_i64().unwrap() + arguments["b"].as_i64().unwrap())
        });
        let outcome = harness.call("sum", r#"{"numbers":[1,2]}"#).unwrap();
        assert_eq!(outcome.text(), "test-run: 3");
        assert_eq!(harness.messages(), [(Level::Info, "2 numbers".to_owned())]);
        assert_eq!(harness.calls()[1], ("add".to_owned(), json!({"a": 1, "b": 2})));
    }

    #[test]
    fn an_unscripted_tool_is_unknown() {
        let error = Harness::<Sums>::new().call("sum", r#"{"numbers":[1]}"#).unwrap_err();
        assert_eq!(error.code(), "unknown-tool");
    }

    #[test]
    fn unknown_arguments_are_refused() {
        let error = Harness::<Sums>::new().call("sum", r#"{"numbers":[],"more":1}"#).unwrap_err();
        assert_eq!(error.message(), "unknown argument `more`");
    }

    #[test]
    fn problems_are_listed() {
        let problems = Harness::<Sums>::new().problems();
        assert_eq!(
            problems,
            [
                "`sum` has the key `number:{number}`, but no argument `number`",
                "`sum` is there twice",
                "`sum` has no description"
            ]
        );
    }
}
