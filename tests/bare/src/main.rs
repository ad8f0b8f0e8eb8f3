//! An MCP server on rmcp alone: what a call costs before any sandbox, policy or plugin.
//!
//! Owns one tool, `add`, which answers with the sum of `first` and `second`. Refuses everything else.
//!
//! **Invariant:** it does nothing that rmcp doesn't need, so that the difference to `t2m-host serve` is ours.

use std::process::ExitCode;
use std::sync::Arc;

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ErrorData, ListToolsResult,
    PaginatedRequestParams, ServerCapabilities, ServerConfig, Tool,
};
use rmcp::service::RequestContext;
use rmcp::{RoleServer, ServerHandler, ServiceExt as _};
use serde_json::{Map, Value, json};

#[derive(Clone)]
struct Bare {
    schema: Arc<Map<String, Value>>,
}

impl ServerHandler for Bare {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let tool = Tool::new("add", "Adds two numbers.", Arc::clone(&self.schema));
        Ok(ListToolsResult::with_all_items(vec![tool]))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let number = |name: &str| {
            let value = request.arguments.as_ref().and_then(|arguments| arguments.get(name));
            value.and_then(Value::as_i64)
        };
        let (Some(first), Some(second)) = (number("first"), number("second")) else {
            return Err(ErrorData::invalid_params("`first` and `second` are integers", None));
        };
        let sum = json!({"result": first.wrapping_add(second)});
        Ok(CallToolResponse::from(CallToolResult::structured(sum)))
    }
}

fn main() -> ExitCode {
    let number = json!({"type": "integer"});
    let schema = json!({
        "type": "object",
        "properties": {"first": number, "second": number},
        "required": ["first", "second"],
    });
    let schema = Arc::new(schema.as_object().cloned().unwrap_or_default());
    let Ok(runtime) = tokio::runtime::Builder::new_multi_thread().enable_all().build() else {
        return ExitCode::FAILURE;
    };
    let served = runtime.block_on(async {
        let service = Bare { schema }.serve(rmcp::transport::stdio()).await.ok()?;
        service.waiting().await.ok()
    });
    // A blocked read of standard input must not hold the program up.
    runtime.shutdown_background();
    if served.is_some() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
