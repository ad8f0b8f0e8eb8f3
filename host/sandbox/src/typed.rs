//! Components that know nothing of this host: their exported functions become tools.
//!
//! Owns what is found out when such a component is loaded, and the way of one call's values there and back.
//! Refuses functions whose types JSON can't hold, each with the reason; what such a function does is unknown, so
//! a person reviews it and the policy has to allow it.
//!
//! **Invariant:** what a function takes and returns is checked by its WIT types twice, as JSON Schema by the
//! dispatch and here, and nothing is lost on the way: docs/components.md has the rules.

mod docs;
mod names;
pub(crate) mod read;
pub(crate) mod schema;
pub(crate) mod shape;
#[cfg(test)]
mod tests;
pub(crate) mod write;

use serde_json::{Map, Value, json};
use t2m_core::code::Code;
use t2m_core::effect::{Effect, Idempotency};
use t2m_core::id::ToolName;
use t2m_core::tool::{Content, Reply, ToolDescriptor, ToolFailure, Usage};
use wasmtime::Engine;
use wasmtime::component::types::{ComponentFunc, ComponentItem};
use wasmtime::component::{Component, ComponentExportIndex, Val};

use crate::convert;
use crate::error::SandboxError;
use crate::state::printable;
use docs::Docs;
use names::Place;
use read::Room;
use shape::{Budget, Named, Shape};
use write::Unwritten;

pub(crate) use docs::{Key, MAX_SECTION as MAX_DOCS, SECTION as DOCS_SECTION, key};

/// The tool's own code of a function that returned an error without a name.
const ERROR: &str = "error";

/// Longest part of a name that is shown, in characters.
const MAX_SHOWN: usize = 200;

/// Most reasons that a refusal of the whole component lists.
const MAX_REASONS: usize = 20;

/// A function that a component exports and that is no tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeftOut {
    /// The function, behind `#` where an interface has it.
    pub function: String,
    /// Why; lower case, no final period.
    pub reason: String,
}

/// What a function returns.
#[derive(Debug)]
enum Answer {
    Nothing,
    Value(Shape),
    /// A `result`, whose error is the tool's failure.
    Outcome {
        ok: Option<Shape>,
        err: Option<Shape>,
    },
}

/// One function that is a tool.
struct Function {
    name: ToolName,
    index: ComponentExportIndex,
    params: Vec<Named<Shape>>,
    answer: Answer,
}

/// The functions of one component.
pub(crate) struct Functions {
    list: Vec<Function>,
    tools: Vec<ToolDescriptor>,
    left_out: Vec<LeftOut>,
}

/// The values of one call.
pub(crate) struct Arguments {
    function: usize,
    values: Vec<Val>,
}

/// What a function returned.
pub(crate) struct Returned {
    function: usize,
    value: Option<Val>,
}

impl Arguments {
    /// Where the function's place in the list is found, and what to call it with.
    pub(crate) fn parts(&self) -> (usize, &[Val]) {
        (self.function, &self.values)
    }
}

impl Functions {
    /// Finds what a component exports. `section` is what its author wrote about it, `named` the types of its
    /// world, which the engine doesn't tell.
    pub(crate) fn find(
        engine: &Engine,
        component: &Component,
        section: Option<&[u8]>,
        named: &[(String, Key)],
    ) -> Result<Functions, SandboxError> {
        let ty = component.component_type();
        let mut docs = section.map(Docs::read).unwrap_or_default();
        for (name, key) in named {
            docs.note_key(name, key);
        }
        for (name, item) in ty.imports(engine).chain(ty.exports(engine)) {
            note(&mut docs, engine, name, &item.ty);
        }
        let exports = exports(engine, component);
        if exports.len() > convert::MAX_TOOLS {
            let message = format!("{} functions, at most {} are taken", exports.len(), convert::MAX_TOOLS);
            return Err(SandboxError::new(Code::PluginInvalid, message));
        }
        let mut budget = Budget::new();
        let mut functions = Functions { list: Vec::new(), tools: Vec::new(), left_out: Vec::new() };
        // A function that can't be a tool takes no name from one that can.
        let mut fit = Vec::new();
        for export in &exports {
            let place = Place { instance: export.instance.as_deref(), function: &export.name };
            budget.next_function();
            match shapes(place, &export.ty, &docs, &mut budget) {
                Ok((params, answer)) => fit.push((place, export.index, params, answer)),
                Err(reason) => functions.leave_out(place, reason),
            }
        }
        let fitting: Vec<Place<'_>> = fit.iter().map(|(place, ..)| *place).collect();
        for (name, (place, index, params, answer)) in names::of(&fitting).into_iter().zip(fit) {
            let name = name.ok_or_else(|| "another function has the same name".to_owned());
            let name = name.and_then(|name| ToolName::new(name).map_err(|error| error.to_string()));
            match (name, index) {
                (Ok(name), Some(index)) => {
                    let about = docs.function(place.interface(), place.function).unwrap_or_default();
                    functions.tools.push(descriptor(&name, about, &params, &answer));
                    functions.list.push(Function { name, index, params, answer });
                }
                (Ok(_), None) => functions.leave_out(place, "it can't be found again".to_owned()),
                (Err(reason), _) => functions.leave_out(place, reason),
            }
        }
        functions.check()
    }

    fn leave_out(&mut self, place: Place<'_>, reason: String) {
        self.left_out.push(LeftOut { function: short(&place.shown()), reason });
    }

    fn check(self) -> Result<Functions, SandboxError> {
        if !self.list.is_empty() {
            return Ok(self);
        }
        let mut reasons: Vec<String> = self
            .left_out
            .iter()
            .take(MAX_REASONS)
            .map(|out| format!("`{}`: {}", out.function, out.reason))
            .collect();
        if let Some(more) = self.left_out.len().checked_sub(MAX_REASONS).filter(|more| *more > 0) {
            reasons.push(format!("and {more} more"));
        }
        let message = match reasons.is_empty() {
            true => "exports neither `t2m:plugin/handler` nor a function".to_owned(),
            false => format!("none of its functions can be a tool: {}", reasons.join("; ")),
        };
        Err(SandboxError::new(Code::PluginInvalid, message))
    }

    /// The functions as tools.
    pub(crate) fn tools(&self) -> &[ToolDescriptor] {
        &self.tools
    }

    /// The functions that are none.
    pub(crate) fn left_out(&self) -> &[LeftOut] {
        &self.left_out
    }

    /// Where a function is, and how many values it returns.
    pub(crate) fn export(&self, function: usize) -> Option<(&ComponentExportIndex, usize)> {
        let found = self.list.get(function)?;
        Some((&found.index, usize::from(!matches!(found.answer, Answer::Nothing))))
    }

    /// Turns the arguments of a call into values, which may take so many bytes.
    pub(crate) fn arguments(
        &self,
        tool: &ToolName,
        arguments: &Value,
        bytes: usize,
    ) -> Result<Arguments, ToolFailure> {
        let found = self.list.iter().enumerate().find(|(_, function)| function.name == *tool);
        let (at, function) =
            found.ok_or_else(|| ToolFailure::host(Code::ToolUnknown, format!("no function is `{tool}`")))?;
        let values =
            read::arguments(&function.params, arguments, &mut Room::new(bytes)).map_err(|fault| {
                let pointer = fault.pointer();
                let place = if pointer.is_empty() { "the top level" } else { &pointer };
                ToolFailure::host(Code::ArgumentsInvalid, format!("at {place}: {}", fault.message()))
            })?;
        Ok(Arguments { function: at, values })
    }

    /// Turns what a function returned into a result, whose JSON may take so many bytes.
    pub(crate) fn reply(&self, returned: Returned, usage: Usage, bytes: usize) -> Result<Reply, ToolFailure> {
        let Returned { function, value } = returned;
        let mut room = write::Room::new(bytes);
        let unwritten = |why| match why {
            Unwritten::TooLong => ToolFailure::host(
                Code::SandboxTransfer,
                format!("the result takes more than {bytes} bytes as JSON"),
            ),
            Unwritten::Foreign => {
                ToolFailure::host(Code::Internal, "the result isn't of the function's type")
            }
        };
        let found = self.list.get(function).map(|function| &function.answer);
        let result = match (found, value) {
            (Some(Answer::Nothing), None) => None,
            (Some(Answer::Value(shape)), Some(value)) => {
                Some(write::json(shape, value, &mut room).map_err(unwritten)?)
            }
            (Some(Answer::Outcome { ok, .. }), Some(Val::Result(Ok(value)))) => {
                let value = value.map(|value| *value);
                let json = write::optional(ok.as_ref(), value, &mut room).map_err(unwritten)?;
                ok.is_some().then_some(json)
            }
            (Some(Answer::Outcome { err, .. }), Some(Val::Result(Err(value)))) => {
                let value = value.map(|value| *value);
                let name = named(&value);
                let json = write::optional(err.as_ref(), value, &mut room).map_err(unwritten)?;
                return Err(failure(name, json));
            }
            _ => return Err(unwritten(Unwritten::Foreign)),
        };
        let mut map = Map::new();
        if let Some(result) = result {
            map.insert("result".to_owned(), result);
        }
        let structured = Value::Object(map);
        let content = vec![Content::Text { text: structured.to_string() }];
        Ok(Reply { content, structured: Some(structured), usage })
    }
}

impl Returned {
    /// What came back for some arguments.
    pub(crate) fn new(function: usize, values: Vec<Val>) -> Returned {
        Returned { function, value: values.into_iter().next() }
    }
}

/// A name as it may stand in a message.
fn short(name: &str) -> String {
    printable(&name.chars().take(MAX_SHOWN).collect::<String>())
}

/// An exported function.
struct Export {
    instance: Option<String>,
    name: String,
    ty: ComponentFunc,
    index: Option<ComponentExportIndex>,
}

/// What a component exports by itself and in instances. Instances in instances are nothing that WIT can say.
fn exports(engine: &Engine, component: &Component) -> Vec<Export> {
    let ty = component.component_type();
    let mut found = Vec::new();
    for (name, item) in ty.exports(engine) {
        let index = component.get_export_index(None, name);
        match item.ty {
            ComponentItem::ComponentFunc(ty) => {
                found.push(Export { instance: None, name: name.to_owned(), ty, index });
            }
            ComponentItem::ComponentInstance(instance) => {
                for (inner, item) in instance.exports(engine) {
                    if let ComponentItem::ComponentFunc(ty) = item.ty {
                        let index = index.as_ref().and_then(|at| component.get_export_index(Some(at), inner));
                        let (instance, name) = (Some(name.to_owned()), inner.to_owned());
                        found.push(Export { instance, name, ty, index });
                    }
                }
            }
            _ => {}
        }
    }
    found
}

/// Lets the words about named types be found where the types are used.
fn note(docs: &mut Docs, engine: &Engine, name: &str, item: &ComponentItem) {
    match item {
        ComponentItem::Type(ty) => docs.note(name, ty),
        ComponentItem::ComponentInstance(instance) => {
            for (name, item) in instance.exports(engine) {
                if let ComponentItem::Type(ty) = item.ty {
                    docs.note(name, &ty);
                }
            }
        }
        _ => {}
    }
}

fn shapes(
    place: Place<'_>,
    function: &ComponentFunc,
    docs: &Docs,
    budget: &mut Budget,
) -> Result<(Vec<Named<Shape>>, Answer), String> {
    if place.function.starts_with('[') {
        return Err("it belongs to a resource, which has no form in JSON".to_owned());
    }
    if function.async_() {
        return Err("it is async, which this host doesn't call".to_owned());
    }
    let mut params = Vec::new();
    for (name, ty) in function.params() {
        let shape = shape::of_type(&ty, docs, budget, 0)
            .map_err(|reason| format!("parameter `{}`: {reason}", short(name)))?;
        params.push(budget.named(name, None, shape)?);
    }
    let mut results = function.results();
    let (first, second) = (results.next(), results.next());
    let answer = match (first, second) {
        (None, _) => Answer::Nothing,
        (Some(ty), None) => {
            match shape::of_type(&ty, docs, budget, 0).map_err(|why| format!("result: {why}"))? {
                Shape::Result { ok, err } => {
                    Answer::Outcome { ok: ok.map(|shape| *shape), err: err.map(|shape| *shape) }
                }
                shape => Answer::Value(shape),
            }
        }
        _ => return Err("it returns several values".to_owned()),
    };
    Ok((params, answer))
}

fn descriptor(name: &ToolName, about: String, params: &[Named<Shape>], answer: &Answer) -> ToolDescriptor {
    let output = match answer {
        Answer::Value(shape) | Answer::Outcome { ok: Some(shape), .. } => {
            schema::only("result", schema::of(shape))
        }
        Answer::Nothing | Answer::Outcome { ok: None, .. } => {
            json!({"type": "object", "properties": {}, "additionalProperties": false})
        }
    };
    ToolDescriptor {
        name: name.clone(),
        title: None,
        description: about,
        input_schema: schema::record(params),
        output_schema: Some(output),
        effect: Effect::Unknown,
        idempotency: Idempotency::Unknown,
        reads: Vec::new(),
        writes: Vec::new(),
    }
}

/// The name that an error has by its type: that of its case.
fn named(error: &Option<Val>) -> Option<String> {
    match error {
        Some(Val::Enum(name) | Val::Variant(name, _)) => Some(name.clone()),
        _ => None,
    }
}

/// The failure that a function returned, its words in front if it has any.
fn failure(name: Option<String>, error: Value) -> ToolFailure {
    let payload = error.as_object().filter(|_| name.is_some()).and_then(|map| map.values().next());
    let words = payload.unwrap_or(&error).as_str().filter(|words| Some(*words) != name.as_deref());
    let message = match (&name, words) {
        (_, Some(words)) if !words.trim().is_empty() => convert::message(words),
        (Some(name), _) => format!("the function returned the error `{name}`"),
        (None, _) => "the function returned an error".to_owned(),
    };
    ToolFailure {
        code: Code::ToolFailed,
        tool_code: Some(convert::tool_code(name.as_deref().unwrap_or(ERROR))),
        message,
        retryable: false,
        details: (!error.is_null()).then_some(error),
    }
}
