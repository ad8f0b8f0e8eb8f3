//! What can be said of a plugin without running a tool.
//!
//! Owns the checks and their list. Refuses to stop at the first fault.
//!
//! **Invariant:** an error is something that the host would refuse or clients couldn't use; everything else
//! is a warning.

use serde_json::{Value, json};
use t2m_core::code::Code;
use t2m_core::problem::{Place, Problem};
use t2m_core::schema::Schema;
use t2m_core::tool::ToolDescriptor;
use t2m_sandbox::{Capabilities, ComponentInfo, Description};

use super::build::profile_of;
use crate::component::Component;
use crate::manifest::AskedAccess;

/// Size from which a component is called large, in bytes: those of the SDK's plugins are well below.
const LARGE: usize = 1 << 20;

/// Fuel of `describe` from which it is worth a word: each call starts from the same point.
const MUCH_FUEL: u64 = 1_000_000_000;

/// What was found. Places are JSON Pointers: `/TOOL/FIELD`.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    pub(crate) errors: Vec<Problem>,
    pub(crate) warnings: Vec<Problem>,
}

impl Findings {
    pub(crate) fn error(&mut self, code: Code, place: impl Into<String>, message: impl Into<String>) {
        self.errors.push(Problem::at(code, place, message));
    }

    fn warn(&mut self, code: Code, place: impl Into<String>, message: impl Into<String>) {
        self.warnings.push(Problem::at(code, place, message));
    }
}

/// Checks the outside of a component against its manifest.
pub(crate) fn check_outside(
    component: &Component,
    info: &ComponentInfo,
    size: usize,
    findings: &mut Findings,
) {
    findings.errors.extend(
        info.problems(Capabilities::all())
            .iter()
            .map(|error| Problem::new(error.code(), Place::Whole, error.message())),
    );
    let asks = component.manifest.as_ref().map(|manifest| manifest.asks.clone()).unwrap_or_default();
    let needs = info.needs();
    for (field, interface, asked, needed) in [
        ("dirs", "wasi:filesystem", asks.dirs != AskedAccess::None, needs.files),
        ("hosts", "wasi:http", !asks.hosts.is_empty(), needs.http),
        ("kv", "t2m:plugin/kv", asks.kv, needs.kv),
        ("secrets", "t2m:plugin/secrets", !asks.secrets.is_empty(), needs.secrets),
    ] {
        let place = format!("/asks/{field}");
        if needed && !asked {
            let message = format!(
                "the component imports `{interface}`, so it is refused where it has no grant for that; ask for \
                 `{field}` in plugin.toml, or leave out what uses it"
            );
            findings.error(Code::PluginGrantMissing, place, message);
        } else if asked && !needed {
            let message =
                format!("plugin.toml asks for `{field}`, and the component imports nothing that uses them");
            findings.warn(Code::FieldValue, place, message);
        }
    }
    // The other way round nothing is wrong: a program that only measures time imports the same interface.
    if asks.clock && !info.may_read_date() {
        let message = "plugin.toml asks for `clock`, and the component imports nothing that reads a date";
        findings.warn(Code::FieldValue, "/asks/clock", message);
    }
    let wit = component.manifest.as_ref().and_then(|manifest| manifest.wit.as_ref());
    if !info.has_handler()
        && let Some(wit) = wit
    {
        let message = format!("plugin.toml says `{wit}`, and the component has functions of its own");
        findings.warn(Code::PluginVersion, "/wit", message);
    }
    // Without the SDK's section, the manifest alone says what it was built for.
    if let (Some(sdk), Some(wit)) = (&info.sdk, wit)
        && wit.trim_start_matches("t2m:plugin@") != sdk.wit
    {
        let message = format!("plugin.toml says `{wit}`, and the component was built with {}", sdk.wit);
        findings.warn(Code::PluginVersion, "/wit", message);
    }
    if component.manifest.is_none() {
        let message = "there is no plugin.toml beside the component, so it asks for nothing";
        findings.warn(Code::FieldMissing, "", message);
    }
    if info.debug_bytes > 0 {
        let message = format!(
            "{} of {size} bytes are debug information; set `strip = \"debuginfo\"`",
            info.debug_bytes
        );
        findings.warn(Code::FieldValue, "", message);
    } else if size > LARGE {
        let mut message = format!("the component has {size} bytes");
        if let Ok(text) = std::fs::read_to_string(component.folder().join("Cargo.toml")) {
            let profile = profile_of(&text);
            let missing: Vec<&str> = ["opt-level", "lto"]
                .into_iter()
                .filter(|key| profile.as_ref().is_none_or(|profile| profile.get(key).is_none()))
                .collect();
            if !missing.is_empty() {
                message.push_str(&format!(
                    "; `[profile.guest]` of Cargo.toml has no `{}`",
                    missing.join("`, `")
                ));
            }
        }
        findings.warn(Code::FileTooLarge, "", message);
    }
}

/// Checks what a plugin says of its tools.
pub(crate) fn check_tools(description: &Description, findings: &mut Findings) {
    if description.tools.is_empty() {
        findings.error(Code::PluginInvalid, "", "the plugin offers no tool");
    }
    if description.usage.fuel > MUCH_FUEL {
        let message = format!(
            "`describe` used {} fuel; with the SDK, `Plugin::tools` runs before every call and should only add tools",
            description.usage.fuel
        );
        findings.warn(Code::SandboxFuel, "", message);
    }
    for tool in &description.tools {
        check_tool(tool, findings);
    }
    for out in &description.left_out {
        findings.warn(Code::PluginInvalid, "", format!("`{}` is no tool: {}", out.function, out.reason));
    }
}

fn check_tool(tool: &ToolDescriptor, findings: &mut Findings) {
    let at = |field: &str| format!("/{}/{field}", tool.name);
    if tool.description.trim().is_empty() {
        findings.warn(
            Code::FieldMissing,
            at("description"),
            "a model can't know when to call a tool without one",
        );
    }
    if let Err(message) = Schema::compile(&tool.input_schema) {
        findings.error(Code::PluginInvalid, at("input_schema"), message);
    }
    if !is_object(&tool.input_schema) {
        let message =
            "`type` isn't `object`; arguments are always one, and MCP clients refuse another schema";
        findings.error(Code::PluginInvalid, at("input_schema"), message);
    }
    if let Some(schema) = &tool.output_schema {
        if let Err(message) = Schema::compile(schema) {
            findings.error(Code::PluginInvalid, at("output_schema"), message);
        }
        if !is_object(schema) {
            let message = "`type` isn't `object`; clients of MCP 2025-11-25 and before can't see such a result as structured";
            findings.warn(Code::PluginInvalid, at("output_schema"), message);
        }
    }
    let arguments = tool.input_schema.get("properties").and_then(Value::as_object);
    if let Some(arguments) = arguments {
        for (name, schema) in arguments {
            if schema.get("description").is_none() && schema.get("$ref").is_none() {
                let place = format!("/{}/input_schema/properties/{name}", tool.name);
                findings.warn(Code::FieldMissing, place, format!("argument `{name}` has no description"));
            }
        }
    }
    for (field, keys) in [("reads", &tool.reads), ("writes", &tool.writes)] {
        for name in keys.iter().flat_map(|key| placeholders(key)) {
            if !arguments.is_some_and(|arguments| arguments.contains_key(name)) {
                let message = format!("`{{{name}}}` is no argument of the tool");
                findings.error(Code::ReferenceUnknown, at(field), message);
            }
        }
    }
    if tool.effect.is_read_only() && !tool.writes.is_empty() {
        let message = format!("the effect is `{}`, and `writes` says that it changes something", tool.effect);
        findings.error(Code::FieldValue, at("writes"), message);
    }
}

fn is_object(schema: &Value) -> bool {
    schema.get("type") == Some(&json!("object"))
}

/// The names in braces of a key.
fn placeholders(key: &str) -> impl Iterator<Item = &str> {
    key.split('{').skip(1).filter_map(|part| part.split_once('}').map(|(name, _)| name))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use t2m_core::digest::Digest;
    use t2m_core::effect::{Effect, Idempotency};
    use t2m_core::tool::Usage;

    use super::*;

    fn tool(name: &str) -> ToolDescriptor {
        ToolDescriptor {
            name: name.parse().unwrap(),
            title: None,
            description: "Does it.".into(),
            input_schema: json!({"type": "object", "properties": {"path": {"type": "string", "description": "p"}}}),
            output_schema: None,
            effect: Effect::Write,
            idempotency: Idempotency::Idempotent,
            reads: vec![],
            writes: vec!["file:{path}".into()],
        }
    }

    fn places(list: &[Problem]) -> Vec<String> {
        list.iter().map(|problem| problem.place.to_string()).collect()
    }

    /// P09: every fault of every tool is named, errors and warnings apart.
    #[test]
    fn every_fault_of_every_tool_is_found() {
        let good = tool("good");
        let tools = vec![
            good.clone(),
            ToolDescriptor { description: " ".into(), ..tool("silent") },
            ToolDescriptor { reads: vec!["file:{from}".into(), "x".into()], ..tool("lost") },
            ToolDescriptor { effect: Effect::Read, ..tool("sly") },
            ToolDescriptor { output_schema: Some(json!({"type": "array"})), ..tool("list") },
            ToolDescriptor { output_schema: Some(json!({"type": "objec"})), ..tool("typo") },
            ToolDescriptor { input_schema: json!(true), writes: vec![], ..tool("any") },
            ToolDescriptor {
                input_schema: json!({"type": "object", "properties": {"path": {}}}),
                ..tool("bare")
            },
        ];
        let description = Description {
            digest: Digest::of_bytes(b""),
            sdk: None,
            tools,
            left_out: vec![],
            usage: Usage::default(),
            time: Duration::ZERO,
        };
        let mut found = Findings::default();
        check_tools(&description, &mut found);
        assert_eq!(
            places(&found.errors),
            ["/lost/reads", "/sly/writes", "/typo/output_schema", "/any/input_schema"]
        );
        assert_eq!(
            places(&found.warnings),
            [
                "/silent/description",
                "/list/output_schema",
                "/typo/output_schema",
                "/bare/input_schema/properties/path"
            ]
        );
        let nothing = Description { tools: vec![], ..description.clone() };
        let mut found = Findings::default();
        check_tools(&nothing, &mut found);
        assert_eq!(found.errors.len(), 1);
        let one = Description { tools: vec![good], ..description };
        let mut found = Findings::default();
        check_tools(&one, &mut found);
        assert!(found.errors.is_empty() && found.warnings.is_empty());
    }
}
