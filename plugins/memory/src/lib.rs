//! The tools of the official MCP memory server, sandboxed.
//!
//! Owns names, arguments and results, which are those of `@modelcontextprotocol/server-memory`. Refuses files of its own:
//! the host keeps the graph, for the workspace that it works for.
//!
//! INVARIANT: a call changes the graph as a whole or not at all, whatever other calls do meanwhile.

mod graph;
#[cfg(test)]
mod tests;

use graph::{Entity, Graph, Relation};
use t2m_plugin_sdk::{
    Deserialize, Error, JsonSchema, NoArguments, Output, Plugin, Reply, Serialize, Tools, export, kv,
    serde_json,
};

/// Where the graph is kept.
const KEY: &str = "graph";

/// What the tools read and change, for the order of calls.
const KEYS: &[&str] = &["memory:graph"];

#[derive(Deserialize, Serialize, JsonSchema)]
struct Entities {
    entities: Vec<Entity>,
}

#[derive(Deserialize, Serialize, JsonSchema)]
struct Relations {
    relations: Vec<Relation>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Names {
    /// An array of entity names to delete
    entity_names: Vec<String>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Addition {
    /// The name of the entity to add the observations to
    entity_name: String,
    /// An array of observation contents to add
    contents: Vec<String>,
}

#[derive(Deserialize, JsonSchema)]
struct Additions {
    observations: Vec<Addition>,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Added {
    entity_name: String,
    added_observations: Vec<String>,
}

#[derive(Serialize, JsonSchema)]
struct AllAdded {
    results: Vec<Added>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Deletion {
    /// The name of the entity containing the observations
    entity_name: String,
    /// An array of observations to delete
    observations: Vec<String>,
}

#[derive(Deserialize, JsonSchema)]
struct Deletions {
    deletions: Vec<Deletion>,
}

#[derive(Deserialize, JsonSchema)]
struct Query {
    /// The search query to match against entity names, types, and observation content
    query: String,
}

#[derive(Deserialize, JsonSchema)]
struct Open {
    /// An array of entity names to retrieve
    names: Vec<String>,
}

#[derive(Serialize, JsonSchema)]
struct Done {
    success: bool,
    message: String,
}

/// The graph, empty before anything was kept.
fn graph() -> Result<Graph, Error> {
    Ok(kv::get_json(KEY)?.unwrap_or_default())
}

/// A result whose text is its JSON, as the official server has it.
fn told<T: Serialize + JsonSchema>(value: T, shown: &impl Serialize) -> Result<Reply<T>, Error> {
    let text = serde_json::to_string_pretty(shown)?;
    Ok(Reply::structured(value).text(text))
}

fn done(message: &str) -> Result<Reply<Done>, Error> {
    Ok(Reply::structured(Done { success: true, message: message.to_owned() }).text(message))
}

fn create_entities(args: Entities) -> Result<impl Output, Error> {
    let entities = kv::update(KEY, |graph: &mut Graph| Ok(graph.create_entities(&args.entities)))?;
    let text = entities.clone();
    told(Entities { entities }, &text)
}

fn create_relations(args: Relations) -> Result<impl Output, Error> {
    let relations = kv::update(KEY, |graph: &mut Graph| Ok(graph.create_relations(&args.relations)))?;
    let text = relations.clone();
    told(Relations { relations }, &text)
}

fn add_observations(args: Additions) -> Result<impl Output, Error> {
    let results = kv::update(KEY, |graph: &mut Graph| {
        let add = |addition: &Addition| {
            let added_observations = graph.observe(&addition.entity_name, &addition.contents)?;
            Ok(Added { entity_name: addition.entity_name.clone(), added_observations })
        };
        args.observations.iter().map(add).collect::<Result<Vec<_>, Error>>()
    })?;
    let text = serde_json::to_string_pretty(&results)?;
    Ok(Reply::structured(AllAdded { results }).text(text))
}

fn delete_entities(args: Names) -> Result<impl Output, Error> {
    kv::update(KEY, |graph: &mut Graph| {
        graph.delete_entities(&args.entity_names);
        Ok(())
    })?;
    done("Entities deleted successfully")
}

fn delete_observations(args: Deletions) -> Result<impl Output, Error> {
    kv::update(KEY, |graph: &mut Graph| {
        args.deletions
            .iter()
            .for_each(|deletion| graph.forget(&deletion.entity_name, &deletion.observations));
        Ok(())
    })?;
    done("Observations deleted successfully")
}

fn delete_relations(args: Relations) -> Result<impl Output, Error> {
    kv::update(KEY, |graph: &mut Graph| {
        graph.delete_relations(&args.relations);
        Ok(())
    })?;
    done("Relations deleted successfully")
}

fn read_graph(_: NoArguments) -> Result<impl Output, Error> {
    let graph = graph()?;
    told(graph.clone(), &graph)
}

fn search_nodes(args: Query) -> Result<impl Output, Error> {
    let found = graph()?.search(&args.query);
    told(found.clone(), &found)
}

fn open_nodes(args: Open) -> Result<impl Output, Error> {
    let found = graph()?.open(&args.names);
    told(found.clone(), &found)
}

struct Memory;

impl Plugin for Memory {
    fn tools(tools: &mut Tools) {
        tools
            .write("create_entities", "Create multiple new entities in the knowledge graph", create_entities)
            .title("Create Entities")
            .idempotent()
            .reads(KEYS)
            .writes(KEYS);
        tools
            .write(
                "create_relations",
                "Create multiple new relations between entities in the knowledge graph. Relations should be in active \
                 voice",
                create_relations,
            )
            .title("Create Relations")
            .idempotent()
            .reads(KEYS)
            .writes(KEYS);
        tools
            .write(
                "add_observations",
                "Add new observations to existing entities in the knowledge graph",
                add_observations,
            )
            .title("Add Observations")
            .idempotent()
            .reads(KEYS)
            .writes(KEYS);
        tools
            .delete(
                "delete_entities",
                "Delete multiple entities and their associated relations from the knowledge graph",
                delete_entities,
            )
            .title("Delete Entities")
            .idempotent()
            .writes(KEYS);
        tools
            .delete(
                "delete_observations",
                "Delete specific observations from entities in the knowledge graph",
                delete_observations,
            )
            .title("Delete Observations")
            .idempotent()
            .writes(KEYS);
        tools
            .delete(
                "delete_relations",
                "Delete multiple relations from the knowledge graph",
                delete_relations,
            )
            .title("Delete Relations")
            .idempotent()
            .writes(KEYS);
        looking(tools);
    }
}

fn looking(tools: &mut Tools) {
    tools.read("read_graph", "Read the entire knowledge graph", read_graph).title("Read Graph").reads(KEYS);
    tools
        .read("search_nodes", "Search for nodes in the knowledge graph based on a query", search_nodes)
        .title("Search Nodes")
        .reads(KEYS);
    tools
        .read("open_nodes", "Open specific nodes in the knowledge graph by their names", open_nodes)
        .title("Open Nodes")
        .reads(KEYS);
}

export!(Memory);
