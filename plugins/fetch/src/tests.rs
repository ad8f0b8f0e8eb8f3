//! `fetch` against scripted servers.

use serde_json::{Value, json};
use t2m_plugin_sdk::serde_json;
use t2m_plugin_sdk::testing::Harness;

use super::*;

const PAGE: &str = "<!doctype html><html><head><title>T</title><script>var x = 1;</script></head><body>\
    <nav>Menu</nav><h1>Title</h1><p>Some <b>bold</b> text, a <a href=\"/next\">link</a>.</p>\
    <ul><li>one</li><li>two</li></ul><style>p{}</style></body></html>";

fn page(status: u16, kind: &str, body: &str) -> Response {
    let headers = vec![("content-type".to_owned(), kind.to_owned())];
    Response { status, url: String::new(), headers, body: body.into(), truncated: false }
}

fn fetch_of(response: &Response, more: Value) -> Result<(String, Value), Error> {
    let response = response.clone();
    let mut arguments = json!({"url": "https://a.example/p"});
    arguments.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let mut harness = Harness::<Fetch>::new().server(move |_| Ok(response.clone()));
    let outcome = harness.call_with("fetch", &arguments)?;
    let structured = serde_json::from_str(outcome.structured.as_deref().unwrap()).unwrap();
    Ok((outcome.text(), structured))
}

#[test]
fn the_host_would_take_the_tool() {
    assert_eq!(Harness::<Fetch>::new().problems(), Vec::<String>::new());
}

#[test]
fn a_page_becomes_markdown() {
    let (text, value) = fetch_of(&page(200, "text/html; charset=utf-8", PAGE), json!({})).unwrap();
    let content = "# Title\n\nSome **bold** text, a [link](/next).\n\n*   one\n*   two";
    assert_eq!(text, format!("Contents of https://a.example/p:\n{content}"));
    assert_eq!(value["content"], content);
    assert_eq!((&value["status"], &value["next_index"]), (&json!(200), &Value::Null));
}

#[test]
fn raw_and_what_is_no_page_stay_as_they_are() {
    let (text, _) = fetch_of(&page(200, "text/html", PAGE), json!({"raw": true})).unwrap();
    assert_eq!(text, format!("Contents of https://a.example/p:\n{PAGE}"));
    let (text, _) = fetch_of(&page(200, "application/json", "{\"a\":1}"), json!({})).unwrap();
    let prefix =
        "Content type application/json cannot be simplified to markdown, but here is the raw content:\n";
    assert_eq!(text, format!("{prefix}Contents of https://a.example/p:\n{{\"a\":1}}"));
}

#[test]
fn a_long_page_comes_in_parts() {
    let long = page(200, "text/plain", "äbcdef");
    let (text, value) = fetch_of(&long, json!({"max_length": 4})).unwrap();
    assert!(text.ends_with("äbcd\n\n<error>Content truncated. Call the fetch tool with a start_index of 4 to get more content.</error>"), "{text}");
    assert_eq!(value["next_index"], 4);
    let (text, value) = fetch_of(&long, json!({"max_length": 4, "start_index": 4})).unwrap();
    assert!(text.ends_with(":\nef") && value["next_index"].is_null(), "{text}");
    let (text, _) = fetch_of(&long, json!({"start_index": 6})).unwrap();
    assert!(text.ends_with(NO_MORE), "{text}");
}

#[test]
fn a_status_of_failure_is_an_error() {
    let error = fetch_of(&page(404, "text/html", PAGE), json!({})).unwrap_err();
    assert_eq!((error.code(), error.is_retryable()), ("http-status", false));
    assert_eq!(error.message(), "Failed to fetch https://a.example/p - status code 404");
    assert_eq!(
        fetch_of(&page(200, "", ""), json!({"max_length": "x"})).unwrap_err().code(),
        "invalid-arguments"
    );
}
