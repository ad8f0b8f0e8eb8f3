//! Adding tools and finding the one that is called.
//!
//! Owns the list of tools and the step from JSON text to a typed call. Refuses to keep anything between
//! calls.
//!
//! INVARIANT: while a call is served no schema is made and no tool but the called one costs more than the
//! comparison of its name.

use schemars::JsonSchema;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::{Error, Outcome, Output, Plugin, schema};

/// What calling a tool may do outside the sandbox. It is a claim, which a person reviews.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// Nothing: the result depends on the arguments alone.
    Pure,
    /// Observes something outside.
    Read,
    /// Creates or changes something outside.
    Write,
    /// Removes something outside.
    Delete,
    /// Acts on a system whose state the host can't see.
    External,
}

/// Whether calling a tool twice with equal arguments does the same as calling it once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Idempotency {
    /// A repeated call changes nothing further.
    Idempotent,
    /// A repeated call acts again.
    NonIdempotent,
    /// Nobody said.
    Unknown,
}

/// What the host is told about one tool.
#[derive(Debug, Clone, PartialEq)]
pub struct Tool {
    /// The name it is called by.
    pub name: String,
    /// A name for people.
    pub title: Option<String>,
    /// What it does.
    pub description: String,
    /// JSON Schema of the arguments.
    pub input_schema: Value,
    /// JSON Schema of the structured data.
    pub output_schema: Option<Value>,
    /// What it may do outside.
    pub effect: Effect,
    /// Whether it may be repeated.
    pub idempotency: Idempotency,
    /// Keys of what it reads.
    pub reads: Vec<String>,
    /// Keys of what it changes.
    pub writes: Vec<String>,
}

/// Arguments of a tool that takes none.
#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
pub struct NoArguments {}

type Run = Box<dyn FnOnce(&str) -> Result<Outcome, Error>>;

/// The tools of a plugin, as [`Plugin::tools`] adds them.
pub struct Tools(Mode);

enum Mode {
    Describe(Vec<Tool>),
    Find { name: String, found: Option<Run> },
}

impl Tools {
    /// Adds a tool whose result depends on its arguments alone. It counts as idempotent.
    pub fn pure<A, R, F>(&mut self, name: &'static str, description: &'static str, run: F) -> ToolOptions<'_>
    where
        A: DeserializeOwned + JsonSchema + 'static,
        R: Output + 'static,
        F: FnOnce(A) -> Result<R, Error> + 'static,
    {
        self.add(Effect::Pure, name, description, run).idempotent()
    }

    /// Adds a tool that observes something outside. It counts as idempotent.
    pub fn read<A, R, F>(&mut self, name: &'static str, description: &'static str, run: F) -> ToolOptions<'_>
    where
        A: DeserializeOwned + JsonSchema + 'static,
        R: Output + 'static,
        F: FnOnce(A) -> Result<R, Error> + 'static,
    {
        self.add(Effect::Read, name, description, run).idempotent()
    }

    /// Adds a tool that creates or changes something outside. Say whether it is idempotent.
    pub fn write<A, R, F>(&mut self, name: &'static str, description: &'static str, run: F) -> ToolOptions<'_>
    where
        A: DeserializeOwned + JsonSchema + 'static,
        R: Output + 'static,
        F: FnOnce(A) -> Result<R, Error> + 'static,
    {
        self.add(Effect::Write, name, description, run)
    }

    /// Adds a tool that removes something outside. Say whether it is idempotent.
    pub fn delete<A, R, F>(
        &mut self,
        name: &'static str,
        description: &'static str,
        run: F,
    ) -> ToolOptions<'_>
    where
        A: DeserializeOwned + JsonSchema + 'static,
        R: Output + 'static,
        F: FnOnce(A) -> Result<R, Error> + 'static,
    {
        self.add(Effect::Delete, name, description, run)
    }

    /// Adds a tool that acts on a system whose state the host can't see. Say whether it is idempotent.
    pub fn external<A, R, F>(
        &mut self,
        name: &'static str,
        description: &'static str,
        run: F,
    ) -> ToolOptions<'_>
    where
        A: DeserializeOwned + JsonSchema + 'static,
        R: Output + 'static,
        F: FnOnce(A) -> Result<R, Error> + 'static,
    {
        self.add(Effect::External, name, description, run)
    }

    /// Adds a tool of any effect. The first tool of a name counts.
    pub fn add<A, R, F>(
        &mut self,
        effect: Effect,
        name: &'static str,
        description: &'static str,
        run: F,
    ) -> ToolOptions<'_>
    where
        A: DeserializeOwned + JsonSchema + 'static,
        R: Output + 'static,
        F: FnOnce(A) -> Result<R, Error> + 'static,
    {
        match &mut self.0 {
            Mode::Describe(tools) => {
                tools.push(Tool {
                    name: name.to_owned(),
                    title: None,
                    description: description.to_owned(),
                    input_schema: schema::input(A::json_schema),
                    output_schema: R::schema(),
                    effect,
                    idempotency: Idempotency::Unknown,
                    reads: Vec::new(),
                    writes: Vec::new(),
                });
                ToolOptions(tools.last_mut())
            }
            Mode::Find { name: wanted, found } => {
                if found.is_none() && wanted == name {
                    *found = Some(Box::new(move |json| run(arguments(json)?)?.finish()));
                }
                ToolOptions(None)
            }
        }
    }
}

/// Says more about the tool that was just added. While a call is served it does nothing.
pub struct ToolOptions<'a>(Option<&'a mut Tool>);

impl ToolOptions<'_> {
    /// Gives the tool a name for people.
    pub fn title(self, title: &str) -> Self {
        self.set(|tool| tool.title = Some(title.to_owned()))
    }

    /// Says that a repeated call changes nothing further.
    pub fn idempotent(self) -> Self {
        self.set(|tool| tool.idempotency = Idempotency::Idempotent)
    }

    /// Says that a repeated call acts again.
    pub fn non_idempotent(self) -> Self {
        self.set(|tool| tool.idempotency = Idempotency::NonIdempotent)
    }

    /// Names what the tool reads, such as `file:{path}`; `{name}` stands for the argument of that name.
    pub fn reads(self, keys: &[&str]) -> Self {
        self.set(|tool| tool.reads.extend(keys.iter().map(|key| (*key).to_owned())))
    }

    /// Names what the tool changes, in the same form. Calls whose keys meet keep their order.
    pub fn writes(self, keys: &[&str]) -> Self {
        self.set(|tool| tool.writes.extend(keys.iter().map(|key| (*key).to_owned())))
    }

    /// Replaces the input schema made from the argument type, for tools that come from a table. The schema
    /// is sent as it is, so it should forbid additional properties itself.
    pub fn input_schema(self, schema: impl FnOnce() -> Value) -> Self {
        self.set(|tool| tool.input_schema = schema())
    }

    fn set(mut self, change: impl FnOnce(&mut Tool)) -> Self {
        if let Some(tool) = &mut self.0 {
            change(tool);
        }
        self
    }
}

/// Lists the tools of a plugin.
pub(crate) fn describe<P: Plugin>() -> Vec<Tool> {
    let mut tools = Tools(Mode::Describe(Vec::new()));
    P::tools(&mut tools);
    match tools.0 {
        Mode::Describe(list) => list,
        Mode::Find { .. } => Vec::new(),
    }
}

/// Runs one tool of a plugin.
pub(crate) fn call<P: Plugin>(name: String, json: &str) -> Result<Outcome, Error> {
    let mut tools = Tools(Mode::Find { name, found: None });
    P::tools(&mut tools);
    match tools.0 {
        Mode::Find { found: Some(run), .. } => run(json),
        Mode::Find { name, found: None } => {
            Err(Error::new("unknown-tool", format!("this plugin has no tool `{name}`")))
        }
        Mode::Describe(_) => Err(Error::new("unknown-tool", "this plugin replaced its list of tools")),
    }
}

#[inline(never)] // one copy per type of arguments instead of one per tool
fn arguments<A: DeserializeOwned>(json: &str) -> Result<A, Error> {
    // serde would also take a list for a struct.
    if !json.trim_start().starts_with('{') {
        return Err(Error::invalid_arguments("the arguments must be a JSON object"));
    }
    let mut reader = serde_json::Deserializer::from_str(json);
    let value = serde_path_to_error::deserialize(&mut reader).map_err(|error| {
        let path = error.path().to_string();
        unfit(&path, error.into_inner())
    })?;
    reader.end().map_err(|error| unfit(".", error))?;
    Ok(value)
}

// Apart from `arguments`, so that it isn't compiled once per argument type.
fn unfit(path: &str, error: serde_json::Error) -> Error {
    if !error.is_data() {
        return Error::invalid_arguments(format!("the arguments are not JSON: {error}"));
    }
    let message = error.to_string();
    // The place in the text helps nobody: a client made the text from an object.
    let message = message.rsplit_once(" at line ").map_or(message.as_str(), |(message, _)| message);
    Error::invalid_arguments(if path == "." { message.to_owned() } else { format!("`{path}`: {message}") })
}

#[cfg(test)]
mod tests {
    use schemars::JsonSchema;
    use serde::Deserialize;

    use super::{Effect, Idempotency, NoArguments, Tools, call, describe};
    use crate::{Error, Plugin, Reply};

    #[derive(Deserialize, JsonSchema)]
    struct Line {
        text: String,
    }

    #[derive(Deserialize, JsonSchema)]
    struct Page {
        lines: Vec<Line>,
    }

    struct Pages;

    impl Plugin for Pages {
        fn tools(tools: &mut Tools) {
            tools.read("first", "First line.", |page: Page| {
                let line = page.lines.into_iter().next().ok_or(Error::new("empty", "no line"))?;
                Ok(line.text)
            });
            tools
                .write("append", "Adds a line.", |_: Page| Ok(()))
                .title("Append")
                .non_idempotent()
                .reads(&["page:{lines}"])
                .writes(&["page:{lines}"]);
            tools.external("ping", "Pings.", |_: NoArguments| Ok(Reply::new().text("pong")));
        }
    }

    fn run(name: &str, json: &str) -> Result<String, String> {
        call::<Pages>(name.to_owned(), json)
            .map(|outcome| outcome.text())
            .map_err(|error| format!("{}: {}", error.code(), error.message()))
    }

    #[test]
    fn the_named_tool_runs() {
        assert_eq!(run("first", r#"{"lines":[{"text":"a"}]}"#), Ok("a".into()));
        assert_eq!(run("ping", "{}"), Ok("pong".into()));
        assert_eq!(run("first", r#"{"lines":[]}"#), Err("empty: no line".into()));
    }

    #[test]
    fn an_unknown_name_is_refused() {
        assert_eq!(run("last", "{}"), Err("unknown-tool: this plugin has no tool `last`".into()));
    }

    #[test]
    fn bad_arguments_name_their_place() {
        let cases = [
            (
                r#"{"lines":[{"text":"a"},{"text":1}]}"#,
                "`lines[1].text`: invalid type: integer `1`, expected a string",
            ),
            (r#"{"lines":[{}]}"#, "`lines[0]`: missing field `text`"),
            ("{}", "missing field `lines`"),
            ("[[]]", "the arguments must be a JSON object"),
            ("", "the arguments must be a JSON object"),
            (r#"{"lines""#, "the arguments are not JSON: EOF while parsing an object at line 1 column 8"),
            (r#"{"lines":[]} x"#, "the arguments are not JSON: trailing characters at line 1 column 14"),
        ];
        for (json, message) in cases {
            assert_eq!(run("append", json), Err(format!("invalid-arguments: {message}")), "{json}");
        }
    }

    #[test]
    fn options_reach_the_list() {
        let tools = describe::<Pages>();
        assert_eq!(tools.len(), 3);
        assert_eq!((tools[0].effect, tools[0].idempotency), (Effect::Read, Idempotency::Idempotent));
        assert_eq!((tools[1].effect, tools[1].idempotency), (Effect::Write, Idempotency::NonIdempotent));
        assert_eq!((tools[2].effect, tools[2].idempotency), (Effect::External, Idempotency::Unknown));
        assert_eq!(tools[1].title.as_deref(), Some("Append"));
        assert_eq!(tools[1].writes, ["page:{lines}"]);
    }
}
