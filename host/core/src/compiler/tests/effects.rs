//! Where the effect of a call comes from.

use serde_json::{Value, json};

use super::event;
use crate::catalog::{CATALOG_FORMAT, Catalog};
use crate::compiler::{Claims, Options, ToolFacts, compile};
use crate::effect::{Effect, Idempotency};
use crate::id::ToolName;
use crate::trace;
use crate::workflow::{EffectSource, Workflow, explain};

fn compiled(events: Vec<Value>, hints: Value, options: &Options) -> Workflow {
    let metadata = json!({"untrusted_tool_hints": hints});
    let trace = trace::from_value(&json!({"inputs": {}, "events": events, "metadata": metadata})).unwrap();
    compile(trace, options).unwrap().workflow
}

/// T14: what a recording claims is not believed; a plugin wins over catalogues, and one's own over the built-in.
#[test]
fn the_most_trusted_source_decides_and_claims_only_raise() {
    let own = json!({"format": CATALOG_FORMAT, "tool": [
        {"names": ["crm_*", "Read"], "effect": "write", "reason": "our own word"},
    ]});
    let options = Options {
        known_tools: [(
            ToolName::new("crm_get").unwrap(),
            ToolFacts { effect: Effect::Read, ..ToolFacts::default() },
        )]
        .into(),
        catalogs: vec![Catalog::own(own).unwrap(), Catalog::built_in().unwrap()],
        ..Options::default()
    };
    let call = |tool: &str, claim: &str| {
        event(
            tool,
            json!({"file_path": "/a", "command": "ls"}),
            json!(null),
            json!({"tool": tool, "side_effect": claim}),
        )
    };
    let hints = json!({"Write": {"annotations": {"destructiveHint": true}}, "odd": {"annotations": {"readOnlyHint": true}}});
    let workflow = compiled(
        vec![
            call("crm_get", "delete"),
            call("crm_set", "read"),
            call("Read", "pure"),
            call("Edit", "read"),
            call("NotebookRead", "read"),
            call("Bash", "unknown"),
            call("WebFetch", "delete"),
            call("Write", "write"),
            call("odd", "pure"),
        ],
        hints,
        &options,
    );
    let found: Vec<(&str, Effect, EffectSource)> = workflow
        .nodes
        .iter()
        .map(|node| {
            let basis = workflow.source.effects.iter().find(|basis| basis.tool == node.tool).unwrap();
            assert_eq!(basis.effect, node.effect);
            (node.id.as_str(), node.effect, basis.source)
        })
        .collect();
    assert_eq!(
        found,
        [
            ("crm_get", Effect::Read, EffectSource::Plugin),
            ("crm_set", Effect::Write, EffectSource::Catalog),
            ("Read", Effect::Write, EffectSource::Catalog),
            ("Edit", Effect::Write, EffectSource::BuiltInCatalog),
            ("NotebookRead", Effect::Unknown, EffectSource::Nothing),
            ("Bash", Effect::Read, EffectSource::BuiltInCatalog),
            ("WebFetch", Effect::Delete, EffectSource::BuiltInCatalog),
            ("Write", Effect::Delete, EffectSource::BuiltInCatalog),
            ("odd", Effect::Unknown, EffectSource::Nothing),
        ]
    );
    let lines = explain(&workflow).lines().join("\n");
    for line in [
        "crm_set is write: our own word",
        "WebFetch is delete: Claude Code: looks at the web, which changes by itself; the recording says `delete`",
        "odd is unknown: no loaded plugin and no catalogue knows it",
    ] {
        assert!(lines.contains(line), "{line}\n{lines}");
    }
}

/// T06, T14: claimed keys and repeatability neither reorder writes nor drop reads, unless a person trusts them.
#[test]
fn claims_order_nothing_unless_a_person_trusts_the_recorder() {
    let get = |id: &str| {
        event(
            id,
            json!({"k": "v-1"}),
            json!({"x": 1}),
            json!({"tool": "get", "idempotency": "idempotent", "reads": ["a"]}),
        )
    };
    let set = event("set", json!({}), json!(null), json!({"side_effect": "write", "writes": ["b"]}));
    let count = |claims| {
        let options = Options { claims, ..Options::default() };
        let workflow = compiled(vec![get("one"), set.clone(), get("two")], json!({}), &options);
        assert!(
            workflow
                .nodes
                .iter()
                .all(|node| (node.idempotency == Idempotency::Idempotent) <= (claims == Claims::Believe))
        );
        (workflow.nodes.len(), workflow.nodes[1].after.len())
    };
    assert_eq!(count(Claims::Raise), (3, 1), "all unknown, all in their order");
    assert_eq!(count(Claims::Believe), (2, 0));
}
