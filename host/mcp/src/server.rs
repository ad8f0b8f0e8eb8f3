//! The protocol handler.
//!
//! Owns `tools/list`, `tools/call` and the word that the list has changed. Refuses everything else that rmcp
//! doesn't answer by itself.
//!
//! **Invariant:** a call is made exactly once, by the dispatcher or a workflow's runner, and stops when the
//! client cancels it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rmcp::handler::server::ServerHandler;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, Implementation, ListToolsResult,
    PaginatedRequestParams, ServerCapabilities, ServerConfig, ServerNotification, SubscriptionFilter, Tool,
    ToolListChangedNotification,
};
use rmcp::service::{NotificationContext, RequestContext, ServerInitializeError, SubscriptionContext};
use rmcp::{ErrorData, RoleServer, ServiceExt};
use serde_json::{Map, Value};
use t2m_core::dispatch::{CallRequest, Dispatcher, Origin};
use t2m_core::id::{NodeId, RunId, ToolName};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;

use crate::catalog::{Catalog, Target};
use crate::convert;
use crate::progress::Progress;
use crate::stdio::StdioTransport;
use crate::workflow::{WorkflowCall, WorkflowRunner};

/// What a model reads about the server as a whole.
const INSTRUCTIONS: &str = "Every tool runs in a WebAssembly sandbox and may do only what the person who started \
this server allowed. A refused call says which grant or approval is missing; only that person can give it.";

/// Serves a catalog of tools and workflows. Clones are the same server.
#[derive(Clone)]
pub struct ToolServer {
    session: RunId,
    catalog: watch::Sender<Arc<Catalog>>,
    calls: Arc<AtomicU64>,
}

impl ToolServer {
    /// A server over this catalog. Each call becomes a run of its own, `SESSION-1` and so on.
    pub fn new(catalog: Catalog, session: RunId) -> ToolServer {
        ToolServer { session, catalog: watch::Sender::new(Arc::new(catalog)), calls: Arc::default() }
    }

    /// Serves another catalog from now on, and tells clients that the list has changed. Calls that run go on
    /// with what they began with.
    pub fn replace(&self, catalog: Catalog) {
        self.catalog.send_replace(Arc::new(catalog));
    }

    fn catalog(&self) -> Arc<Catalog> {
        Arc::clone(&self.catalog.borrow())
    }

    fn next_run(&self) -> Result<RunId, ErrorData> {
        let number = self.calls.fetch_add(1, Ordering::Relaxed) + 1;
        RunId::new(format!("{}-{number}", self.session)).map_err(|error| internal(&error))
    }

    async fn call(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResult, ErrorData> {
        let catalog = self.catalog();
        // MCP, server/tools, "Error Handling": an unknown tool is an error of the protocol.
        let Some(target) = catalog.target(&request.name) else {
            return Err(ErrorData::invalid_params(catalog.unknown(&request.name), None));
        };
        let arguments = request.arguments.unwrap_or_default();
        let run = self.next_run()?;
        match target {
            Target::Tool(tool) => {
                let call = call_tool(catalog.dispatcher(), run, tool, arguments);
                tokio::select! {
                    result = call => result,
                    // Dropping the call stops its guest. Nobody reads this answer.
                    () = context.ct.cancelled() => Err(ErrorData::internal_error("cancelled", None)),
                }
            }
            Target::Workflow(workflow) => Ok(run_workflow(&*workflow, run, arguments, context).await),
        }
    }
}

async fn call_tool(
    dispatcher: &Arc<Dispatcher>,
    run: RunId,
    tool: ToolName,
    arguments: Map<String, Value>,
) -> Result<CallToolResult, ErrorData> {
    // The node is named after the tool, so that a person can approve the call before it is made again.
    let node = NodeId::new(tool.as_str()).map_err(|error| internal(&error))?;
    let arguments = Value::Object(arguments);
    let call = CallRequest { origin: Origin::Direct, run, node, attempt: 1, tool, arguments, timeout: None };
    Ok(match dispatcher.dispatch(call).await {
        Ok(reply) => convert::result(reply),
        Err(error) => convert::error(&error),
    })
}

async fn run_workflow(
    workflow: &dyn WorkflowRunner,
    run: RunId,
    inputs: Map<String, Value>,
    context: RequestContext<RoleServer>,
) -> CallToolResult {
    let (progress, events) = match context.meta.get_progress_token() {
        Some(token) => {
            let (progress, events) = Progress::new(context.peer, token, workflow.nodes());
            (Some(progress), Some(events))
        }
        None => (None, None),
    };
    let cancelled = Box::pin(context.ct.cancelled_owned());
    let work = workflow.run(WorkflowCall { run, inputs, events, cancelled });
    let outcome = match progress {
        Some(progress) => progress.until(work).await,
        None => work.await,
    };
    match outcome {
        Ok(value) => convert::output(value),
        Err(failure) => convert::workflow_failure(failure),
    }
}

fn internal(error: &dyn std::fmt::Display) -> ErrorData {
    ErrorData::internal_error(error.to_string(), None)
}

impl ServerHandler for ToolServer {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder().enable_tools().enable_tool_list_changed().build();
        ServerConfig::new(capabilities)
            .with_server_info(Implementation::new("t2m-host", env!("CARGO_PKG_VERSION")))
            .with_instructions(INSTRUCTIONS)
    }

    async fn list_tools(
        &self,
        page: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        // One page: common clients don't ask for the next one, and no cursor was ever given.
        if page.is_some_and(|page| page.cursor.is_some()) {
            return Err(ErrorData::invalid_params("this list has one page and no cursor", None));
        }
        Ok(ListToolsResult::with_all_items(self.catalog().tools()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        self.call(request, context).await.map(CallToolResponse::from)
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        self.catalog().tool(name)
    }

    /// 2025-11-25: the client hears of changes from now on.
    async fn on_initialized(&self, context: NotificationContext<RoleServer>) {
        let mut changes = self.catalog.subscribe();
        // Ends with the server, or with the connection.
        tokio::spawn(async move {
            while changes.changed().await.is_ok() {
                if context.peer.notify_tool_list_changed().await.is_err() {
                    return;
                }
            }
        });
    }

    /// 2026-07-28: the client hears of changes if it asks.
    fn accepted_subscription_filter(&self, _: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        Some(SubscriptionFilter::builder().tools_list_changed().build())
    }

    async fn listen(&self, subscription: SubscriptionContext) -> Result<(), ErrorData> {
        let mut changes = self.catalog.subscribe();
        loop {
            tokio::select! {
                () = subscription.cancelled() => return Ok(()),
                changed = changes.changed() => {
                    let note = ToolListChangedNotification::default();
                    let note = ServerNotification::ToolListChangedNotification(note);
                    if changed.is_err() || subscription.sink().send(note).await.is_err() {
                        return Ok(());
                    }
                }
            }
        }
    }
}

/// Serves one client over a pair of streams until it closes its side or is gone. Calls that still run then are
/// stopped when the returned future ends.
///
/// # Errors
/// A client whose first request no era of the protocol allows.
pub async fn serve<R, W>(server: ToolServer, input: R, output: W) -> Result<(), String>
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    let transport = StdioTransport::new(input, output);
    let ended = transport.ended();
    // As a trait object, whose futures are small: the protocol's loop moves each several times.
    let running = match server.into_dyn().serve(transport).await {
        Ok(running) => running,
        // Nobody asked for anything.
        Err(ServerInitializeError::ConnectionClosed(_)) => return Ok(()),
        Err(error) => return Err(error.to_string()),
    };
    // The protocol's own loop waits for calls that run much longer than this transport does.
    tokio::select! {
        () = ended.notified() => Ok(()),
        stopped = running.waiting() => stopped.map(drop).map_err(|error| error.to_string()),
    }
}

#[cfg(test)]
mod tests;
