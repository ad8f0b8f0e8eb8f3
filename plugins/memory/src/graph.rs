//! The graph: entities with observations, and relations between them.
//!
//! Owns each change and each view of it. Refuses to know where it is kept.
//!
//! INVARIANT: no two entities have one name, and no relation stands twice.

use schemars::JsonSchema;
use t2m_plugin_sdk::{Deserialize, Error, Serialize};

/// Something that is known.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Entity {
    /// The name of the entity
    pub(crate) name: String,
    /// The type of the entity
    pub(crate) entity_type: String,
    /// An array of observation contents associated with the entity
    pub(crate) observations: Vec<String>,
}

/// How two entities belong together, in active voice.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Relation {
    /// The name of the entity where the relation starts
    pub(crate) from: String,
    /// The name of the entity where the relation ends
    pub(crate) to: String,
    /// The type of the relation
    pub(crate) relation_type: String,
}

/// All that is known, or a part of it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Graph {
    pub(crate) entities: Vec<Entity>,
    pub(crate) relations: Vec<Relation>,
}

impl Graph {
    /// Adds entities whose names are new, and returns those.
    pub(crate) fn create_entities(&mut self, entities: &[Entity]) -> Vec<Entity> {
        let mut created = Vec::new();
        for entity in entities {
            if self.entity(&entity.name).is_none() {
                self.entities.push(entity.clone());
                created.push(entity.clone());
            }
        }
        created
    }

    /// Adds relations that are new, and returns those.
    pub(crate) fn create_relations(&mut self, relations: &[Relation]) -> Vec<Relation> {
        let mut created = Vec::new();
        for relation in relations {
            if !self.relations.contains(relation) {
                self.relations.push(relation.clone());
                created.push(relation.clone());
            }
        }
        created
    }

    /// Adds what is new about an entity, and returns that.
    pub(crate) fn observe(&mut self, name: &str, contents: &[String]) -> Result<Vec<String>, Error> {
        let Some(entity) = self.entity(name) else {
            return Err(Error::new("not-found", format!("Entity with name {name} not found")));
        };
        let mut added = Vec::new();
        for content in contents {
            if !entity.observations.contains(content) {
                entity.observations.push(content.clone());
                added.push(content.clone());
            }
        }
        Ok(added)
    }

    /// Removes entities, and the relations that they are part of.
    pub(crate) fn delete_entities(&mut self, names: &[String]) {
        self.entities.retain(|entity| !names.contains(&entity.name));
        self.relations.retain(|relation| !names.contains(&relation.from) && !names.contains(&relation.to));
    }

    /// Removes observations of an entity, if it is there.
    pub(crate) fn forget(&mut self, name: &str, observations: &[String]) {
        if let Some(entity) = self.entity(name) {
            entity.observations.retain(|observation| !observations.contains(observation));
        }
    }

    /// Removes relations.
    pub(crate) fn delete_relations(&mut self, relations: &[Relation]) {
        self.relations.retain(|relation| !relations.contains(relation));
    }

    /// The entities in whose name, type or observations a text stands, in whatever case.
    pub(crate) fn search(self, query: &str) -> Graph {
        let query = query.to_lowercase();
        let has = |text: &String| text.to_lowercase().contains(&query);
        self.part(|entity| {
            has(&entity.name) || has(&entity.entity_type) || entity.observations.iter().any(has)
        })
    }

    /// The entities of these names.
    pub(crate) fn open(self, names: &[String]) -> Graph {
        self.part(|entity| names.contains(&entity.name))
    }

    /// Some entities, with the relations that lead from or to one of them.
    fn part(self, is_wanted: impl Fn(&Entity) -> bool) -> Graph {
        let entities: Vec<Entity> = self.entities.into_iter().filter(is_wanted).collect();
        let is_there = |name: &String| entities.iter().any(|entity| entity.name == *name);
        let touches = |relation: &Relation| is_there(&relation.from) || is_there(&relation.to);
        let relations = self.relations.into_iter().filter(touches).collect();
        Graph { entities, relations }
    }

    fn entity(&mut self, name: &str) -> Option<&mut Entity> {
        self.entities.iter_mut().find(|entity| entity.name == name)
    }
}
