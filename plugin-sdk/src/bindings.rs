//! The WIT package `t2m:plugin`, seen from inside the component.
//!
//! Owns the generated bindings, their conversion to the SDK's types and the version section. Refuses to be
//! used by plugins directly: `export!` and the SDK's modules are the way.
//!
//! INVARIANT: unsafe code of a plugin lies in this module and in what `export!` expands to.
#![expect(
    unsafe_code,
    reason = "calls across the component boundary and the placing of a section are unsafe by nature"
)]

use std::marker::PhantomData;
use std::time::Duration;

use crate::context::Context;
use crate::kv::Refused;
use crate::log::Level;
use crate::{Content, Effect, Error, Idempotency, Media, Outcome, Plugin, SECTION, Tool, tool};

mod generated {
    #![expect(missing_docs, reason = "generated")]
    wit_bindgen::generate!({
        world: "plugin",
        path: "../wit",
        pub_export_macro: true,
        export_macro_name: "export_component",
        default_bindings_module: "t2m_plugin_sdk::bindings",
        runtime_path: "wit_bindgen::rt",
    });
}

use generated::exports::t2m::plugin::handler::Guest;
use generated::t2m::plugin::{
    context as wit_context, kv as wit_kv, log as wit_log, secrets as wit_secrets, tools as wit_tools,
    types as wit,
};
pub use generated::{export_component, exports};

#[used]
#[unsafe(link_section = "t2m-plugin")]
static VERSIONS: [u8; SECTION.len()] = {
    let mut bytes = [0; SECTION.len()];
    bytes.copy_from_slice(SECTION.as_bytes());
    bytes
};

/// What `export!` exports for a plugin.
pub struct Component<P>(PhantomData<P>);

impl<P: Plugin> Guest for Component<P> {
    fn describe() -> Vec<wit::Tool> {
        tool::describe::<P>().into_iter().map(to_tool).collect()
    }

    fn call(tool: String, arguments: String) -> Result<wit::ToolResult, wit::ToolError> {
        tool::call::<P>(tool, &arguments).map(to_result).map_err(to_error)
    }
}

pub(crate) use crate::wasi_http::send;

pub(crate) fn secret(name: &str) -> Option<String> {
    wit_secrets::get(name)
}

fn refused(error: wit_kv::Error) -> Refused {
    match error {
        wit_kv::Error::KeyInvalid => Refused::Key,
        wit_kv::Error::ValueTooLarge => Refused::Value,
        wit_kv::Error::Full => Refused::Full,
        wit_kv::Error::NotPermitted => Refused::Permission,
        wit_kv::Error::Unavailable => Refused::Unavailable,
    }
}

pub(crate) fn kv_get(key: &str) -> Result<Option<Vec<u8>>, Refused> {
    wit_kv::get(key).map_err(refused)
}

pub(crate) fn kv_set(key: &str, value: &[u8]) -> Result<(), Refused> {
    wit_kv::set(key, value).map_err(refused)
}

pub(crate) fn kv_delete(key: &str) -> Result<bool, Refused> {
    wit_kv::delete(key).map_err(refused)
}

pub(crate) fn kv_swap(key: &str, expected: Option<&[u8]>, value: Option<&[u8]>) -> Result<bool, Refused> {
    wit_kv::swap(key, expected, value).map_err(refused)
}

pub(crate) fn kv_keys(prefix: &str) -> Result<Vec<String>, Refused> {
    wit_kv::list_keys(prefix).map_err(refused)
}

pub(crate) fn log(level: Level, message: &str) {
    let level = match level {
        Level::Trace => wit_log::Level::Trace,
        Level::Debug => wit_log::Level::Debug,
        Level::Info => wit_log::Level::Info,
        Level::Warn => wit_log::Level::Warn,
        Level::Error => wit_log::Level::Error,
    };
    wit_log::log(level, message);
}

pub(crate) fn context() -> Context {
    let context = wit_context::current();
    Context {
        run_id: context.run_id,
        node_id: context.node_id,
        attempt: context.attempt,
        idempotency_key: context.idempotency_key,
        time_left: Duration::from_millis(context.deadline_ms),
    }
}

pub(crate) fn call_tool(name: &str, json: &str) -> Result<Outcome, Error> {
    wit_tools::call(name, json).map(from_result).map_err(from_error)
}

fn to_tool(tool: Tool) -> wit::Tool {
    wit::Tool {
        name: tool.name,
        title: tool.title,
        description: tool.description,
        input_schema: tool.input_schema.to_string(),
        output_schema: tool.output_schema.map(|schema| schema.to_string()),
        effect: match tool.effect {
            Effect::Pure => wit::Effect::Pure,
            Effect::Read => wit::Effect::Read,
            Effect::Write => wit::Effect::Write,
            Effect::Delete => wit::Effect::Delete,
            Effect::External => wit::Effect::ExternalSideEffect,
        },
        idempotency: match tool.idempotency {
            Idempotency::Idempotent => wit::Idempotency::Idempotent,
            Idempotency::NonIdempotent => wit::Idempotency::NonIdempotent,
            Idempotency::Unknown => wit::Idempotency::Unknown,
        },
        reads: tool.reads,
        writes: tool.writes,
    }
}

fn to_result(outcome: Outcome) -> wit::ToolResult {
    let to_media = |media: Media| wit::Media { mime_type: media.mime_type, data: media.data };
    let content = outcome.content.into_iter().map(|block| match block {
        Content::Text(text) => wit::Content::Text(text),
        Content::Image(media) => wit::Content::Image(to_media(media)),
        Content::Audio(media) => wit::Content::Audio(to_media(media)),
        Content::Resource { uri, media } => {
            wit::Content::Resource(wit::EmbeddedResource { uri, media: to_media(media) })
        }
    });
    wit::ToolResult { content: content.collect(), structured: outcome.structured }
}

fn from_result(result: wit::ToolResult) -> Outcome {
    let from_media = |media: wit::Media| Media { mime_type: media.mime_type, data: media.data };
    let content = result.content.into_iter().map(|block| match block {
        wit::Content::Text(text) => Content::Text(text),
        wit::Content::Image(media) => Content::Image(from_media(media)),
        wit::Content::Audio(media) => Content::Audio(from_media(media)),
        wit::Content::Resource(resource) => {
            Content::Resource { uri: resource.uri, media: from_media(resource.media) }
        }
    });
    Outcome { content: content.collect(), structured: result.structured }
}

fn to_error(error: Error) -> wit::ToolError {
    wit::ToolError {
        code: error.code().to_owned(),
        message: error.message().to_owned(),
        retryable: error.is_retryable(),
        details: error.detail().map(ToString::to_string),
    }
}

fn from_error(error: wit::ToolError) -> Error {
    let mut converted = Error::new(error.code, error.message).retryable(error.retryable);
    // Details that aren't JSON are the other plugin's fault and not worth hiding its error for.
    if let Some(details) =
        error.details.and_then(|json| serde_json::from_str::<serde_json::Value>(&json).ok())
    {
        converted = converted.details(details);
    }
    converted
}
