//! Redacted recordings: markers aren't matched, and whoever runs the workflow gives the secrets.

use serde_json::{Value, json};

use super::{compiled, read};
use crate::redact;
use crate::trace;
use crate::workflow::{bind_inputs, parse, to_json};

/// T13: `result.session_id` and an unrelated `api_key` are no data flow, also where one fixed text stands for both.
#[test]
fn markers_are_inputs_and_never_references() {
    let one = "[T2M-REDACTED:api-key:1]";
    let two = "[T2M-REDACTED:token:2]";
    let workflow = compiled(
        json!({"key": "[T2M-REDACTED:api-key:3]", "given": one}),
        vec![
            read(
                "login",
                json!({"user": "ann-smith"}),
                json!({"session": two, "old": "[REDACTED]", "id": "u-778811"}),
            ),
            read(
                "a",
                json!({"api_key": one, "id": "u-778811"}),
                json!({"text": format!("token {two} used")}),
            ),
            read("b", json!({"token": two, "auth": {"password": ["x", "[REDACTED]"]}}), json!(null)),
            read(
                "c",
                json!({"token": "[T2M-REDACTED:token:4]", "header": format!("Bearer {two}")}),
                json!(null),
            ),
            read("d", json!({"token": two, "password": "[REDACTED]"}), json!(null)),
        ],
    );
    let sources = |id: &str| super::bound(&workflow, id);
    assert_eq!(sources("a"), ["/api_key <- input given", "/id <- login.id"]);
    assert_eq!(sources("b"), ["/auth/password/1 <- input password", "/token <- input token"]);
    assert_eq!(sources("c"), ["/token <- input token_2"], "another secret, another input");
    assert_eq!(sources("d"), ["/password <- input password_2", "/token <- input token"]);
    let inputs = &workflow.workflow().inputs;
    for name in ["given", "key", "token", "token_2", "password", "password_2"] {
        assert_eq!(inputs[name].default, None, "{name}");
        assert_eq!(inputs[name].schema, json!({"type": "string", "writeOnly": true}), "{name}");
    }
    let problems = bind_inputs(&workflow, serde_json::Map::new()).unwrap_err();
    assert_eq!(problems.iter().count(), 6);
    assert!(problems.iter().all(|problem| problem.code == crate::code::Code::InputMissing));

    let text = to_json(workflow.workflow()).to_string();
    assert_eq!(&parse(text.as_bytes(), crate::json::Limits::default()).unwrap().0, workflow.workflow());
}

/// T13: pagination goes on after redaction, while the secret beside it is an input.
#[test]
fn redacted_pagination_still_compiles_with_its_references() {
    let page = |id: &str, token: Value, next: &str| {
        read(
            id,
            json!({"api_key": "k-9f8e7d6c", "page_token": token, "max_tokens": 4096}),
            json!({"items": [id], "next_page_token": next, "token_count": 12}),
        )
    };
    let events = vec![
        page("p1", json!(null), "CAUQAA-1x9y8z7w"),
        page("p2", json!("CAUQAA-1x9y8z7w"), "CAUQAA-2x9y8z7w"),
        page("p3", json!("CAUQAA-2x9y8z7w"), "CAUQAA-3x9y8z7w"),
    ];
    let recorded = trace::from_value(&json!({"inputs": {}, "events": events})).unwrap();
    let copy = redact::redact(&recorded, &redact::Options::default()).unwrap().trace;
    let copied = trace::to_json(&copy);
    assert!(!copied.to_string().contains("k-9f8e7d6c"));
    let workflow = compiled(json!({}), copied["events"].as_array().unwrap().clone());
    assert_eq!(
        super::bound(&workflow, "p3"),
        ["/api_key <- input api_key", "/page_token <- p2.next_page_token"]
    );
    assert_eq!(workflow.workflow().inputs.len(), 1, "one secret, one input");
}

/// T13: calls that one fixed placeholder makes look equal aren't each other's repeats.
#[test]
fn anonymous_markers_make_no_repeats() {
    let get = |id: &str, mark: &str| {
        super::event(
            id,
            json!({"api_key": mark}),
            json!({"ok": 1}),
            json!({"tool": "get", "idempotency": "idempotent"}),
        )
    };
    let count = |mark: &str| compiled(json!({}), vec![get("a", mark), get("b", mark)]).workflow().nodes.len();
    assert_eq!(count("[REDACTED]"), 2);
    assert_eq!(count("[T2M-REDACTED:api-key:1]"), 1);
}
