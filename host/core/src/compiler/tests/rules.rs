//! Values that are left as recorded although a place holds them: each row is a trace and what must hold.

use serde_json::{Value, json};

use super::{bound, compiled, event, read};
use crate::workflow::Verdict;

/// T05: a path that names the value is a literal in disguise: it is offered, and any other place is better.
#[test]
fn a_path_that_names_its_value_is_a_choice() {
    let variants = || read("product", json!({}), json!({"variants": {"83491": {"item_id": "83491"}}}));
    let rows: Vec<(&str, Vec<Value>, &str, Value, &[&str], Option<&str>)> = vec![
        (
            "a map keyed by id",
            vec![read("user", json!({}), json!({"methods": {"card-95": {"id": "card-95"}}}))],
            "method_id",
            json!("card-95"),
            &[],
            Some("user.methods[\"card-95\"].id"),
        ),
        (
            "a number under the key that spells it",
            vec![read("user", json!({}), json!({"accounts": {"90117": {"account": 90117}}}))],
            "account",
            json!(90117),
            &[],
            Some("user.accounts.90117.account"),
        ),
        (
            "another place is better, even a later one",
            vec![variants(), read("order", json!({}), json!({"item": "83491"}))],
            "item_id",
            json!("83491"),
            &["/item_id <- order.item"],
            None,
        ),
        (
            "another value below the key is data",
            vec![read("user", json!({}), json!({"methods": {"card-95": {"holder": "h-4411"}}}))],
            "holder",
            json!("h-4411"),
            &["/holder <- user.methods[\"card-95\"].holder"],
            None,
        ),
    ];
    for (name, mut events, argument, value, expected, offered) in rows {
        events.push(event("use", json!({argument: value}), json!(null), json!({})));
        let workflow = compiled(json!({}), events);
        assert_eq!(bound(&workflow, "use"), expected, "{name}");
        let decision = &workflow.node(&"use".parse().unwrap()).unwrap().decisions[0];
        if let Some(offered) = offered {
            assert_eq!(decision.verdict, Verdict::Choice, "{name}");
            assert_eq!(decision.candidates[0].to_string(), offered, "{name}");
        }
    }
}
