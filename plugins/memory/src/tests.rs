//! The graph through its tools.

use t2m_plugin_sdk::serde_json::{Value, from_str, json};
use t2m_plugin_sdk::testing::Harness;

use super::*;

struct Graphs(Harness<Memory>);

impl Graphs {
    fn call(&mut self, tool: &str, arguments: Value) -> Value {
        let outcome = self.0.call_with(tool, &arguments).unwrap();
        from_str(outcome.structured.as_deref().unwrap()).unwrap()
    }

    fn graph(&mut self) -> Value {
        self.call("read_graph", json!({}))
    }
}

fn entity(name: &str, observations: &[&str]) -> Value {
    json!({"name": name, "entityType": "person", "observations": observations})
}

fn relation(from: &str, to: &str) -> Value {
    json!({"from": from, "to": to, "relationType": "knows"})
}

#[test]
fn the_host_would_take_the_tools() {
    assert_eq!(Harness::<Memory>::new().problems(), Vec::<String>::new());
}

#[test]
fn what_is_created_twice_is_there_once() {
    let mut graphs = Graphs(Harness::new());
    assert_eq!(graphs.graph(), json!({"entities": [], "relations": []}));
    let both = json!({"entities": [entity("Ann", &["reads"]), entity("Bob", &[])]});
    assert_eq!(graphs.call("create_entities", both.clone()), both);
    assert_eq!(graphs.call("create_entities", both), json!({"entities": []}));
    let relations = json!({"relations": [relation("Ann", "Bob")]});
    assert_eq!(graphs.call("create_relations", relations.clone()), relations);
    assert_eq!(graphs.call("create_relations", relations), json!({"relations": []}));
    let added = json!({"observations": [{"entityName": "Ann", "contents": ["reads", "writes"]}]});
    let results = json!({"results": [{"entityName": "Ann", "addedObservations": ["writes"]}]});
    assert_eq!(graphs.call("add_observations", added), results);
    assert_eq!(graphs.graph()["entities"][0]["observations"], json!(["reads", "writes"]));
}

#[test]
fn an_unknown_entity_changes_nothing() {
    let mut graphs = Graphs(Harness::new());
    graphs.call("create_entities", json!({"entities": [entity("Ann", &[])]}));
    let args = json!({"observations": [
        {"entityName": "Ann", "contents": ["x"]}, {"entityName": "Cat", "contents": ["y"]}
    ]});
    let error = graphs.0.call_with("add_observations", &args).unwrap_err();
    assert_eq!((error.code(), error.message()), ("not-found", "Entity with name Cat not found"));
    assert_eq!(graphs.graph()["entities"][0]["observations"], json!([]));
}

#[test]
fn what_is_deleted_takes_its_relations_along() {
    let mut graphs = Graphs(Harness::new());
    graphs.call("create_entities", json!({"entities": [entity("Ann", &["a", "b"]), entity("Bob", &[])]}));
    graphs.call("create_relations", json!({"relations": [relation("Ann", "Bob"), relation("Bob", "Ann")]}));
    graphs.call("delete_relations", json!({"relations": [relation("Bob", "Ann"), relation("x", "y")]}));
    assert_eq!(graphs.graph()["relations"], json!([relation("Ann", "Bob")]));
    let forget = json!({"deletions": [
        {"entityName": "Ann", "observations": ["a"]}, {"entityName": "Cat", "observations": ["a"]}
    ]});
    assert_eq!(graphs.call("delete_observations", forget)["success"], json!(true));
    assert_eq!(graphs.graph()["entities"][0], entity("Ann", &["b"]));
    graphs.call("delete_entities", json!({"entityNames": ["Bob"]}));
    assert_eq!(graphs.graph(), json!({"entities": [entity("Ann", &["b"])], "relations": []}));
}

#[test]
fn nodes_are_found_in_whatever_case() {
    let mut graphs = Graphs(Harness::new());
    graphs.call("create_entities", json!({"entities": [entity("Ann", &["Likes Tea"]), entity("Bob", &[])]}));
    graphs.call("create_relations", json!({"relations": [relation("Ann", "Bob")]}));
    let found = graphs.call("search_nodes", json!({"query": "tea"}));
    assert_eq!(found["entities"], json!([entity("Ann", &["Likes Tea"])]));
    assert_eq!(found["relations"], json!([relation("Ann", "Bob")]));
    assert_eq!(
        graphs.call("open_nodes", json!({"names": ["Cat"]})),
        json!({"entities": [], "relations": []})
    );
}
