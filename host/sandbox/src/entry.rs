//! The two ways into a component: the host's own handler, or functions of the component's own.
//!
//! Owns the difference between them. Refuses everything that is the same for both: loading, limits, grants and
//! the life of an instance know nothing of it.
//!
//! **Invariant:** which way a component is entered is settled when it is loaded.

use t2m_core::dispatch::ClearedCall;
use t2m_core::id::ToolName;
use t2m_core::tool::{Reply, ToolDescriptor, ToolFailure, Usage};
use wasmtime::Store;
use wasmtime::component::{Component, Instance, InstancePre, Linker, Val};

use crate::bindings::{Plugin, PluginPre, Tool, types};
use crate::convert;
use crate::state::State;
use crate::typed::{Arguments, Functions, LeftOut, Returned};

/// A linked component, to be instantiated.
pub(crate) enum Entry {
    Handler(PluginPre<State>),
    Functions(InstancePre<State>, Functions),
}

/// An instance.
pub(crate) enum Entered {
    Handler(Plugin),
    Functions(Instance),
}

/// What a call hands over.
pub(crate) enum Input {
    Handler { tool: ToolName, arguments: String },
    Function(Arguments),
}

/// What it gets back.
pub(crate) enum Output {
    Handler(Result<types::ToolResult, types::ToolError>),
    Function(Returned),
}

impl Entry {
    /// Links a component. Its functions are found before.
    pub(crate) fn link(
        linker: &Linker<State>,
        component: &Component,
        functions: Option<Functions>,
    ) -> wasmtime::Result<Entry> {
        let pre = linker.instantiate_pre(component)?;
        Ok(match functions {
            Some(functions) => Entry::Functions(pre, functions),
            None => Entry::Handler(PluginPre::new(pre)?),
        })
    }

    pub(crate) async fn instantiate_async(&self, store: &mut Store<State>) -> wasmtime::Result<Entered> {
        Ok(match self {
            Entry::Handler(pre) => Entered::Handler(pre.instantiate_async(store).await?),
            Entry::Functions(pre, _) => Entered::Functions(pre.instantiate_async(store).await?),
        })
    }

    /// What a call hands over, of at most so many bytes.
    pub(crate) fn input(&self, call: &ClearedCall, bytes: usize) -> Result<Input, ToolFailure> {
        match self {
            Entry::Handler(_) => {
                Ok(Input::Handler { tool: call.tool().clone(), arguments: call.arguments().to_string() })
            }
            Entry::Functions(_, functions) => {
                functions.arguments(call.tool(), call.arguments(), bytes).map(Input::Function)
            }
        }
    }

    /// Calls a tool.
    pub(crate) async fn call(
        &self,
        store: &mut Store<State>,
        entered: &Entered,
        input: Input,
    ) -> wasmtime::Result<Output> {
        match (self, entered, input) {
            (Entry::Handler(_), Entered::Handler(plugin), Input::Handler { tool, arguments }) => {
                let handler = plugin.t2m_plugin_handler();
                Ok(Output::Handler(handler.call_call(store, tool.as_str(), &arguments).await?))
            }
            (Entry::Functions(_, functions), Entered::Functions(instance), Input::Function(arguments)) => {
                let (at, values) = arguments.parts();
                let found = functions.export(at);
                let found =
                    found.and_then(|(index, count)| Some((instance.get_func(&mut *store, index)?, count)));
                let (function, count) = found.ok_or_else(|| wasmtime::Error::msg("the function is gone"))?;
                let mut results = vec![Val::Bool(false); count];
                function.call_async(store, values, &mut results).await?;
                Ok(Output::Function(Returned::new(at, results)))
            }
            _ => Err(wasmtime::Error::msg("the instance is of another kind")),
        }
    }

    /// What the call gave, as the core sees it.
    pub(crate) fn reply(&self, output: Output, usage: Usage, bytes: usize) -> Result<Reply, ToolFailure> {
        match (self, output) {
            (_, Output::Handler(Ok(result))) => convert::reply(result, usage, bytes),
            (_, Output::Handler(Err(error))) => Err(convert::failure(error, bytes)),
            (Entry::Functions(_, functions), Output::Function(returned)) => {
                functions.reply(returned, usage, bytes)
            }
            (Entry::Handler(_), Output::Function(_)) => {
                Err(ToolFailure::host(t2m_core::code::Code::Internal, "the result is of another kind"))
            }
        }
    }

    /// Asks the handler what it offers; functions say it by their types.
    pub(crate) async fn describe(
        &self,
        store: &mut Store<State>,
        entered: &Entered,
    ) -> wasmtime::Result<Vec<Tool>> {
        match entered {
            Entered::Handler(plugin) => plugin.t2m_plugin_handler().call_describe(store).await,
            Entered::Functions(_) => Ok(Vec::new()),
        }
    }

    /// What is said of a component that fails before it is called.
    pub(crate) fn failed(&self) -> &'static str {
        match self {
            Entry::Handler(_) => "`describe` failed",
            Entry::Functions(..) => "its start failed",
        }
    }

    /// What the component offers, after what it said of it.
    pub(crate) fn tools(
        &self,
        described: Vec<Tool>,
        bytes: usize,
    ) -> Result<Vec<ToolDescriptor>, Vec<String>> {
        match self {
            Entry::Handler(_) => convert::descriptors(described, bytes),
            Entry::Functions(_, functions) => Ok(functions.tools().to_vec()),
        }
    }

    /// Exported functions that are no tools.
    pub(crate) fn left_out(&self) -> &[LeftOut] {
        match self {
            Entry::Handler(_) => &[],
            Entry::Functions(_, functions) => functions.left_out(),
        }
    }
}
