//! The plugin `memory` through the real program: what it keeps, for whom, and what it may do.

use std::time::Duration;

use serde_json::json;
use t2m_tests::{HostCli, McpClient, Outcome, TestEnv};

fn serve(env: &TestEnv, args: &[&str]) -> Outcome<McpClient> {
    let mut command = HostCli::new(env)?.arg("serve").args(args).into_command();
    let mut client = McpClient::start(&mut command, Duration::from_secs(60))?;
    client.initialize()?;
    Ok(client)
}

/// P03, P06: what is kept outlives the process, belongs to one workspace, and needs the effect that was reviewed.
#[test]
fn a_graph_outlives_the_process_and_stays_in_its_workspace() -> Outcome<()> {
    let env = TestEnv::new()?;
    env.write("t2m.toml", "[policy.effects]\nwrite = \"allow\"\n")?;
    let entity = json!({"name": "Ann", "entityType": "person", "observations": ["reads"]});
    let mut client = serve(&env, &["--tool", "memory", "--kv"])?;
    let made = client.call_tool("create_entities", &json!({"entities": [entity]}))?;
    assert_eq!(made["result"]["structuredContent"], json!({"entities": [entity]}), "{made}");
    let denied = client.call_tool("delete_entities", &json!({"entityNames": ["Ann"]}))?;
    assert_eq!(denied["result"]["_meta"]["t2m-host/error"]["code"], "policy-denied", "{denied}");
    drop(client);

    let mut client = serve(&env, &["--tool", "memory", "--kv"])?;
    let graph = client.call_tool("read_graph", &json!({}))?;
    assert_eq!(
        graph["result"]["structuredContent"],
        json!({"entities": [entity], "relations": []}),
        "{graph}"
    );
    let ids: Vec<_> = (0..8)
        .map(|at| {
            let entity = json!({"name": format!("n{at}"), "entityType": "t", "observations": []});
            let arguments = json!({"entities": [entity]});
            client.begin("tools/call", &json!({"name": "create_entities", "arguments": arguments}))
        })
        .collect::<Outcome<_>>()?;
    for id in ids {
        client.answer(&json!(id))?;
    }
    let graph = client.call_tool("read_graph", &json!({}))?;
    let entities = graph["result"]["structuredContent"]["entities"].as_array().map(Vec::len);
    assert_eq!(entities, Some(9), "calls at once lose nothing: {graph}");

    let other = TestEnv::new()?;
    let mut client = serve(&other, &["--tool", "memory", "--kv"])?;
    let graph = client.call_tool("read_graph", &json!({}))?;
    assert_eq!(graph["result"]["structuredContent"], json!({"entities": [], "relations": []}), "{graph}");
    let unapproved = client.call_tool("create_entities", &json!({"entities": []}))?;
    assert_eq!(unapproved["result"]["_meta"]["t2m-host/error"]["code"], "approval-required", "{unapproved}");

    let without = HostCli::new(&env)?.args(["serve", "--tool", "memory"]).output()?;
    assert!(
        without.stderr.contains("plugin-grant-missing") && without.stderr.contains("`--kv`"),
        "{without:?}"
    );
    Ok(())
}
