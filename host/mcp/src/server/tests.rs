//! The server over a pair of streams, with a backend that echoes.

use std::collections::BTreeMap;

use serde_json::json;
use t2m_core::contract::Contracts;
use t2m_core::digest::Digest;
use t2m_core::dispatch::{
    BoxFuture, ClearedCall, DispatcherParts, PluginTools, Registry, ToolBackend, Trust,
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
        lacking: BTreeMap::new(),
    };
    let dispatcher = Dispatcher::new(DispatcherParts {
        policy: Policy { effects: BTreeMap::new(), tools: BTreeMap::new() },
        ..DispatcherParts::new(Registry::build([plugin], &Contracts::default()).unwrap())
    });
    let catalog = Catalog::new(dispatcher, [], &[]).unwrap();
    ToolServer::new(catalog, RunId::new("mcp").unwrap())
}

/// P13: a client that speaks the protocol lists and calls tools; a write without approval is refused
/// with its code; an unknown tool is -32602.
#[tokio::test]
async fn a_client_lists_and_calls_tools() {
    let (client, host) = tokio::io::duplex(1 << 16);
    tokio::spawn(async move {
        let (read, write) = tokio::io::split(host);
        serve(server(), read, write).await.unwrap();
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
