//! The protocol handler.
//!
//! Owns `tools/list` and `tools/call`. Refuses everything else that rmcp doesn't answer by itself.
//!
//! **Invariant:** a call is dispatched exactly once, as [`Origin::Direct`].

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rmcp::handler::server::ServerHandler;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ListToolsResult, PaginatedRequestParams,
    ServerCapabilities, ServerConfig, Tool,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer};
use serde_json::Value;
use t2m_core::dispatch::{Bound, CallRequest, Dispatcher, Origin};
use t2m_core::id::{NodeId, RunId, ToolName};

use crate::convert;

/// Serves the tools of one dispatcher.
pub struct ToolServer {
    dispatcher: Arc<Dispatcher>,
    run: RunId,
    tools: Vec<Tool>,
    calls: AtomicU64,
}

impl ToolServer {
    /// A server over every tool that is bound to a reviewed contract. Its calls belong to `run`.
    pub fn new(dispatcher: Arc<Dispatcher>, run: RunId) -> ToolServer {
        let tools = dispatcher
            .registry()
            .iter()
            .filter_map(|registered| match &registered.bound {
                Bound::Reviewed { contract, .. } => {
                    let tool = serde_json::from_value(convert::tool(registered, contract));
                    tool.inspect_err(|error| tracing::warn!("tool is not shown: {error}")).ok()
                }
                _ => None,
            })
            .collect();
        ToolServer { dispatcher, run, tools, calls: AtomicU64::new(0) }
    }

    async fn dispatch(&self, request: CallToolRequestParams) -> Result<CallToolResult, ErrorData> {
        // MCP, server/tools, "Error Handling": an unknown tool is an error of the protocol.
        let unknown = |name: &str| ErrorData::invalid_params(format!("unknown tool `{name}`"), None);
        let known = self.tools.iter().any(|tool| tool.name == request.name);
        let tool = ToolName::new(request.name.as_ref()).ok().filter(|_| known);
        let Some(tool) = tool else { return Err(unknown(&request.name)) };
        let number = self.calls.fetch_add(1, Ordering::Relaxed) + 1;
        let internal = |error: &dyn std::fmt::Display| ErrorData::internal_error(error.to_string(), None);
        let call = CallRequest {
            origin: Origin::Direct,
            run: self.run.clone(),
            node: NodeId::new(format!("{tool}#{number}")).map_err(|error| internal(&error))?,
            attempt: 1,
            tool,
            arguments: Value::Object(request.arguments.unwrap_or_default()),
            timeout: None,
        };
        let value = match self.dispatcher.dispatch(call).await {
            Ok(reply) => convert::result(reply),
            Err(error) => convert::error(&error),
        };
        serde_json::from_value(value).map_err(|error| internal(&error))
    }
}

impl ServerHandler for ToolServer {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(self.tools.clone()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        self.dispatch(request).await.map(CallToolResponse::from)
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        self.tools.iter().find(|tool| tool.name == name).cloned()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use rmcp::ServiceExt;
    use serde_json::json;
    use t2m_core::contract::Contracts;
    use t2m_core::digest::Digest;
    use t2m_core::dispatch::{
        BoxFuture, ClearedCall, DispatcherParts, NestedLimits, PluginTools, Registry, ToolBackend, Trust,
    };
    use t2m_core::effect::{Effect, Idempotency};
    use t2m_core::id::PluginId;
    use t2m_core::policy::Policy;
    use t2m_core::tool::{Content, Reply, ToolDescriptor, ToolFailure, Usage};
    use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};

    use super::*;

    struct Echo;

    impl ToolBackend for Echo {
        fn call(&self, call: ClearedCall) -> BoxFuture<'_, Result<Reply, ToolFailure>> {
            let structured = Some(call.arguments().clone());
            let content = vec![Content::Image { mime_type: "image/png".into(), data: vec![1, 2, 3] }];
            Box::pin(std::future::ready(Ok(Reply { content, structured, usage: Usage::default() })))
        }
    }

    fn server() -> ToolServer {
        let tool = |name: &str, effect| ToolDescriptor {
            name: ToolName::new(name).unwrap(),
            title: Some("Title".into()),
            description: "Says it again".into(),
            input_schema: json!({"type": "object", "required": ["x"]}),
            output_schema: Some(json!({"type": "object"})),
            effect,
            idempotency: Idempotency::Idempotent,
            reads: vec![],
            writes: vec![],
        };
        let plugin = PluginTools {
            plugin: PluginId::new("echo").unwrap(),
            handler: Digest::of_bytes(b"echo"),
            trust: Trust::BuiltIn,
            tools: vec![tool("echo", Effect::Pure), tool("store", Effect::Write)],
            backend: Arc::new(Echo),
        };
        let dispatcher = Dispatcher::new(DispatcherParts {
            registry: Registry::build([plugin], &Contracts::default()).unwrap(),
            policy: Policy { effects: BTreeMap::new(), tools: BTreeMap::new() },
            approvals: None,
            guard: None,
            events: None,
            nested: NestedLimits::default(),
        });
        ToolServer::new(dispatcher, RunId::new("mcp").unwrap())
    }

    /// P13: a client that speaks the protocol lists and calls tools; a write without approval is refused
    /// with its code; an unknown tool is -32602.
    #[tokio::test]
    async fn a_client_lists_and_calls_tools() {
        let (client, host) = tokio::io::duplex(1 << 16);
        tokio::spawn(async move {
            let running = server().serve(tokio::io::split(host)).await.unwrap();
            running.waiting().await.unwrap();
        });
        let (read, mut write) = tokio::io::split(client);
        let mut lines = BufReader::new(read).lines();
        let messages = [
            json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
                "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "0"}}}),
            json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
            json!({"jsonrpc": "2.0", "id": 2, "method": "tools/list"}),
            json!({"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": {"name": "echo", "arguments": {"x": 1}}}),
            json!({"jsonrpc": "2.0", "id": 4, "method": "tools/call", "params": {"name": "store", "arguments": {"x": 1}}}),
            json!({"jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": {"name": "none", "arguments": {}}}),
        ];
        let mut answers = BTreeMap::new();
        for message in messages {
            write.write_all(format!("{message}\n").as_bytes()).await.unwrap();
            let Some(id) = message.get("id").and_then(Value::as_u64) else { continue };
            let line = lines.next_line().await.unwrap().unwrap();
            answers.insert(id, serde_json::from_str::<Value>(&line).unwrap());
        }
        let tools = answers[&2]["result"]["tools"].as_array().unwrap();
        assert_eq!(tools.len(), 2);
        assert_eq!(tools[0]["annotations"]["readOnlyHint"], json!(true));
        assert_eq!(tools[1]["annotations"]["readOnlyHint"], json!(false));
        assert_eq!(tools[0]["outputSchema"], json!({"type": "object"}));
        let echoed = &answers[&3]["result"];
        assert_eq!(echoed["structuredContent"], json!({"x": 1}));
        assert_eq!(echoed["content"][0]["data"], json!("AQID"));
        let refused = &answers[&4]["result"];
        assert_eq!(refused["isError"], json!(true));
        assert_eq!(refused["_meta"]["t2m-host/error"]["code"], json!("approval-required"));
        assert_eq!(answers[&5]["error"]["code"], json!(-32602));
    }
}
