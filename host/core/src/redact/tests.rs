//! What is redacted, what survives, and that nothing planted anywhere stays.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::code::Code;

fn trace_of(events: Value) -> Trace {
    trace::from_value(&json!({"inputs": {}, "events": events})).unwrap()
}

/// One event with these arguments, redacted: its arguments and the report.
fn redacted(arguments: Value) -> (Value, RedactReport) {
    let trace = trace_of(json!([{"id": "a", "tool": "t", "arguments": arguments}]));
    let done = redact(&trace, &Options::default()).unwrap();
    (Value::Object(done.trace.events[0].arguments.clone()), done.report)
}

fn mark(kind: &str, number: usize) -> String {
    marker::marker(kind, number)
}

/// T13: a secret that is a number is found as a number, as text, and inside JSON text, which stays JSON.
#[test]
fn a_number_that_is_a_secret_is_replaced_everywhere() {
    let text = json!({"other": 98765432, "near": "98765432"}).to_string();
    let (arguments, _) = redacted(json!({"password": 98765432, "other": 98765432, "text": text}));
    let marker = mark("password", 1);
    assert_eq!(arguments["password"], marker);
    assert_eq!(arguments["other"], marker);
    let inner: Value = serde_json::from_str(arguments["text"].as_str().unwrap()).unwrap();
    assert_eq!(inner, json!({"other": marker, "near": marker}));
}

/// T13: one table of texts, with what each becomes.
#[test]
fn secrets_in_texts_are_replaced_and_what_is_around_them_stays() {
    let key = "k7Jd93hXq2LmZp8vT4wB";
    let cases: Vec<(String, String)> = vec![
        (
            format!("Authorization: Bearer {key}"),
            format!("Authorization: Bearer {}", mark("authorization", 1)),
        ),
        (
            format!("curl -H 'Authorization: token {key}' https://a.b"),
            format!("curl -H 'Authorization: token {}' https://a.b", mark("authorization", 1)),
        ),
        (
            format!("x-api-key: {key}\r\nAccept: */*"),
            format!("x-api-key: {}\r\nAccept: */*", mark("api-key", 1)),
        ),
        (
            format!("https://a.b/c?access_token={key}&page=2"),
            format!("https://a.b/c?access_token={}&page=2", mark("token", 1)),
        ),
        ("postgres://app:s3cr3t/x@db:5432/main".into(), "postgres://app:s3cr3t/x@db:5432/main".into()),
        (
            "postgres://app:s3cr3tx@db:5432/main".into(),
            format!("postgres://app:{}@db:5432/main", mark("url-password", 1)),
        ),
        (
            "Server=db;User Id=sa;Password=Passw0rd!x;".into(),
            format!("Server=db;User Id=sa;Password={};", mark("password", 1)),
        ),
        (
            "deploy --password hunter22 --verbose".into(),
            format!("deploy --password {} --verbose", mark("password", 1)),
        ),
        (
            "deploy --token=hunter22 --max-tokens 500".into(),
            format!("deploy --token={} --max-tokens 500", mark("token", 1)),
        ),
        (
            "export FOO_TOKEN=abc-123\nexport PAGE=3".into(),
            format!("export FOO_TOKEN={}\nexport PAGE=3", mark("token", 1)),
        ),
        (
            "# env\nDB_PASSWORD=\"a b;c\"\nPORT=80".into(),
            format!("# env\nDB_PASSWORD=\"{}\"\nPORT=80", mark("password", 1)),
        ),
        (
            "Set-Cookie: sid=9x8y7z6w5v; Path=/; HttpOnly".into(),
            format!("Set-Cookie: sid={}; Path=/; HttpOnly", mark("cookie", 1)),
        ),
        (
            "Cookie: a=11223344; b=55667788".into(),
            format!("Cookie: a={}; b={}", mark("cookie", 1), mark("cookie", 2)),
        ),
        (
            r#"{"password": "pa\"ss1", "user": "ann"}"#.into(),
            format!(r#"{{"password": "{}", "user": "ann"}}"#, mark("password", 1)),
        ),
        (
            r#"say "{\"password\": \"swordfish\"}""#.into(),
            format!(r#"say "{{\"password\": \"{}\"}}""#, mark("password", 1)),
        ),
        (
            r#"{"cookies": {"a": "x1"}, "b": "x1"}"#.into(),
            format!(r#"{{"cookies": {{"a": "{0}"}}, "b": "{0}"}}"#, mark("cookie", 1)),
        ),
        (
            r#"{"passcode": 4711, "n": 4711}"#.into(),
            format!(r#"{{"passcode": "{}", "n": 4711}}"#, mark("password", 1)),
        ),
        ("password: swordfish".into(), format!("password: {}", mark("password", 1))),
        (
            "curl -u ann:hunter22 https://a.b".into(),
            format!("curl -u ann:{} https://a.b", mark("basic-auth", 1)),
        ),
        ("key AKIAABCDEFGHIJKLMNOP is used".into(), format!("key {} is used", mark("aws-key", 1))),
        (format!("a ghp_{} b", "a1B2".repeat(9)), format!("a {} b", mark("github-token", 1))),
        (format!("sk-ant-api03-{}", "a1-B2_".repeat(6)), mark("anthropic-key", 1)),
        ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.abc_DEF-123".into(), mark("jwt", 1)),
        (
            "-----BEGIN RSA PRIVATE KEY-----\nMIIx\n-----END RSA PRIVATE KEY-----\nrest".into(),
            format!("{}\nrest", mark("private-key", 1)),
        ),
        ("-----BEGIN PRIVATE KEY-----\nMIIx\ncut".into(), mark("private-key", 1)),
    ];
    for (text, expected) in cases {
        let (arguments, _) = redacted(json!({"text": text}));
        assert_eq!(arguments["text"], json!(expected), "{text}");
    }
}

/// T13: texts and keys that look alike and hold no secret survive.
#[test]
fn what_only_looks_like_a_secret_survives() {
    let texts = [
        "max_tokens=4096",
        "next_page_token=CAUQAA-x9y8z7w6v5u4t3s2r1",
        "the password must be long",
        "password: must have 8 letters",
        "fn password(token: String) -> bool",
        "password = get_password()",
        "let token = tokenizer.next(text);",
        "api_key=api_key",
        "self.password = password",
        "api_key = os.environ[\"API_KEY\"]",
        "token: $TOKEN",
        "export API_KEY=$KEY",
        "--password-stdin < file",
        "Bearer authentication is used",
        "basic understanding",
        "https://a.b:8080/c@d",
        "secretary: Ann Smith",
        "password: str, user: str",
        "cookie_policy: strict",
        "git commit -m 'Add token'",
        "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        "secrets::manager()",
        "id: 123e4567-e89b-12d3-a456-426614174000",
    ];
    for text in texts {
        let (arguments, report) = redacted(json!({"text": text}));
        assert_eq!(arguments["text"], json!(text));
        assert!(report.is_clean(), "{report:?}");
    }
    let kept = json!({
        "max_tokens": 4096, "next_page_token": "CAUQAA9x8y7z6w5v4u3t", "token_count": 17, "secretary": "Ann Smith",
        "cookie_policy": "lax-and-strict", "tokenizer": "cl100k_base", "total_tokens": 99, "token_type": "Bearer",
        "public_key": "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAA", "cursor": "eyJwYWdlIjoyfQ9x8y7z", "session_id": 48230,
        "token": "word", "password": null, "authorization": true, "api_key": "", "client_secret": "${SECRET}",
        "schema": {"type": "object", "properties": {"password": {"type": "string", "description": "the password"}},
            "required": ["password", "api_key", "username"]},
    });
    let (arguments, report) = redacted(kept.clone());
    assert_eq!(arguments, kept, "{report:?}");
}

/// T13: the consequences that one fixed placeholder and key fragments have elsewhere.
#[test]
fn values_under_telling_keys_are_redacted_in_every_shape() {
    let (arguments, report) = redacted(json!({
        "api_key": "k-one-1", "apiKey": "k-two-2", "again": "k-one-1", "text": "use k-one-1 and k-two-2.",
        "url": "https://a.b/?q=k%2Done%2D1", "headers": [{"name": "Authorization", "value": "Bearer t-three-3"}],
        "env": [{"key": "DB_PASSWORD", "value": "p-four-4"}], "argv": ["login", "--password", "p-five-5"],
        "pairs": [["X-Api-Key", "k9x8c7v6"]], "cookies": [{"name": "sid", "value": "c-six-66", "path": "/"}],
        "credentials": {"username": "ann", "login": "c-seven-7"}, "pin_code": 123_456, "note": "pin 123456",
        "session_id": "9x8y7z6w5v4u3t2s1r0q", "secrets": ["s-eight-8", "s-nine-99"],
    }));
    let text = arguments.to_string();
    for secret in [
        "one-1", "two-2", "three-3", "four-4", "five-5", "k9x8", "six-66", "seven-7", "123456", "123_456",
        "9x8y7z", "eight-8", "nine-99", "Done",
    ] {
        assert!(!text.contains(secret), "{secret}: {text}");
        assert!(!serde_json::to_string(&report).unwrap().contains(secret), "{secret}: {report:?}");
    }
    for (name, kind) in
        [("/again", "api-key"), ("/headers/0/value", "authorization"), ("/env/0/value", "password")]
    {
        assert!(arguments.pointer(name).unwrap().as_str().unwrap().contains(kind), "{name}: {text}");
    }
    assert_eq!(arguments["api_key"], arguments["again"]);
    assert_ne!(arguments["api_key"], arguments["apiKey"]);
    assert_eq!(arguments["credentials"]["username"], "ann");
    assert_eq!(arguments["cookies"][0]["path"], "/");
    assert!(is_marker(arguments["pin_code"].as_str().unwrap()));
    assert!(arguments["headers"][0]["value"].as_str().unwrap().starts_with("Bearer [T2M-"));
}

/// T13: the report tells where, how many and what stayed, and the numbers are in order of occurrence.
#[test]
fn the_report_names_places_and_what_was_kept() {
    let trace = trace_of(json!([
        {"id": "a", "tool": "t", "arguments": {"password": "hunter22"}, "result": {"text": "hunter22 is set"}},
        {"id": "b", "tool": "t", "arguments": {"pin_code": "12", "token": "not-a-secret"}, "result": {"x": 12}},
        {"id": "c", "tool": "t", "arguments": {"token": "nor-this-one"}},
    ]));
    let report = redact(&trace, &Options::default()).unwrap().report;
    assert_eq!(report.kinds, [("password".to_owned(), 2)].into());
    assert_eq!(report.secrets[0].marker, mark("password", 1));
    assert_eq!(report.secrets[0].count, 2);
    assert_eq!(report.secrets[0].places, ["/events/0/arguments/password", "/events/0/result/text"]);
    assert!(report.secrets[0].everywhere && !report.secrets[1].everywhere);
    let kept: Vec<_> = report.kept.iter().map(|k| (k.key.as_str(), k.pointer.as_str(), k.count)).collect();
    assert_eq!(kept, [("token", "/events/1/arguments/token", 2)]);
}

/// T13: a person keeps and adds.
#[test]
fn options_keep_and_add() {
    let trace = trace_of(json!([{"id": "a", "tool": "t", "arguments":
        {"api_key": "k-one-1", "internal": "plain", "text": "for EMP-123456"}}]));
    let options = Options {
        keep: vec!["api_key".into()],
        also_keys: vec!["internal".into()],
        also_shapes: vec!["EMP-(?P<secret>[0-9]+)".into()],
    };
    let arguments = &redact(&trace, &options).unwrap().trace.events[0].arguments;
    assert_eq!(arguments["api_key"], "k-one-1");
    assert_eq!(arguments["internal"], mark("named", 1));
    assert_eq!(arguments["text"], format!("for EMP-{}", mark("named", 2)));
}

#[test]
fn ids_stay_unique_or_the_recording_is_refused() {
    let trace = trace_of(json!([
        {"id": "x hunter2+2", "tool": "t", "arguments": {"password": "hunter2+2"}},
        {"id": "y", "tool": "t", "arguments": {}, "dependencies": ["x hunter2+2"]},
    ]));
    let copy = redact(&trace, &Options::default()).unwrap().trace;
    assert_eq!(copy.events[0].id, copy.events[1].dependencies[0]);
    assert!(!copy.events[0].id.as_str().contains("hunter2"));
    let clash = trace_of(json!([
        {"id": "hunter2+2", "tool": "t", "arguments": {"password": "hunter2+2"}},
        {"id": "hunter2%2B2", "tool": "t", "arguments": {}},
    ]));
    let problems = redact(&clash, &Options::default()).unwrap_err();
    assert_eq!(problems.code(), Code::IdDuplicate);
    assert!(!format!("{problems:?}").contains("hunter2"));
}

/// Texts that look like secrets of people and of generators.
fn secret() -> impl Strategy<Value = String> {
    prop_oneof![
        "[A-Za-z0-9]{8,40}".prop_filter("needs a digit", |s| s.bytes().any(|b| b.is_ascii_digit())),
        "[a-z]{3,8}[0-9]{2,4}[!#*+-]{1,2}[A-Z]{1,3}",
        "[A-Za-z0-9]{4}[ \"\\\\/+=:ä]{1,2}[A-Za-z0-9]{5,12}",
    ]
}

/// Where a rule finds a secret.
fn planted(secret: &str, place: usize) -> Value {
    let quoted = json!(secret).to_string();
    let no_blank = !secret.contains([' ', '"', '\\', '/', ':']);
    match place % 9 {
        0 => json!({"password": secret}),
        1 => json!({"deep": [{"x": {"client_secret": secret}}]}),
        2 => json!({"text": format!("{{\"api_key\": {quoted}}}")}),
        3 => json!({"text": json!({"body": format!("{{\"access_token\": {quoted}}}")}).to_string()}),
        4 => json!({"headers": [{"name": "X-Api-Key", "value": secret}]}),
        5 if no_blank => json!({"text": format!("PASSWORD={secret}\nA=1")}),
        6 if no_blank => json!({"url": format!("https://ann:{secret}@host/path")}),
        7 if no_blank => json!({"text": format!("GET / HTTP/1.1\nX-Api-Key: {secret}\nAccept: a")}),
        _ => json!({"credentials": {"login": secret}}),
    }
}

/// Where no rule would find it.
fn hidden(secret: &str, place: usize) -> Value {
    let json_text = json!({"note": format!("see {secret} there")}).to_string();
    match place % 6 {
        0 => json!(format!("it was {secret} then")),
        1 => json!({"list": [1, [secret]]}),
        2 => json!(json_text),
        3 => json!(json!([json_text]).to_string()),
        4 => {
            let bytes = secret.bytes().map(|b| {
                if b.is_ascii_alphanumeric() { char::from(b).to_string() } else { format!("%{b:02X}") }
            });
            json!(format!("https://a.b/c?q={}&r=1", bytes.collect::<String>()))
        }
        _ => {
            let mut map = serde_json::Map::new();
            map.insert(format!("key {secret}"), json!(1));
            Value::Object(map)
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, rng_seed: proptest::test_runner::RngSeed::Fixed(7), ..ProptestConfig::default() })]

    /// T13: a secret that any rule finds stands nowhere in the copy, in no form, nor in the report.
    #[test]
    fn no_planted_secret_survives(one in secret(), two in secret(), at in 0usize..9, other in 0usize..9, places in (0usize..6, 0usize..6)) {
        prop_assume!(!one.contains(&two) && !two.contains(&one));
        let trace = trace_of(json!([
            {"id": "a", "tool": "t", "arguments": planted(&one, at), "result": hidden(&two, places.0)},
            {"id": "b", "tool": "t", "arguments": planted(&two, other), "result": hidden(&one, places.1), "note": one},
        ]));
        let done = redact(&trace, &Options::default()).unwrap();
        let text = trace::to_json(&done.trace).to_string() + &serde_json::to_string(&done.report).unwrap();
        for secret in [&one, &two] {
            let escaped = json!(secret).to_string();
            for form in [secret.as_str(), escaped.trim_matches('"')] {
                prop_assert!(!text.contains(form), "{secret:?} in {text}");
            }
            // The longest piece of letters and digits shows parts that stayed.
            let piece = secret.split(|c: char| !c.is_ascii_alphanumeric()).max_by_key(|piece| piece.len()).unwrap();
            prop_assert!(piece.len() < 8 || !text.contains(piece), "{piece:?} of {secret:?} in {text}");
        }
        let markers = |value: &Value| marker::numbers(&value.to_string()).collect::<std::collections::BTreeSet<_>>();
        let (first, second) = (&done.trace.events[0], &done.trace.events[1]);
        let arguments = |event: &trace::Event| markers(&Value::Object(event.arguments.clone()));
        // A secret with quotes or backslashes that a rule finds inside JSON inside JSON gets a marker of its own
        // there: a known gap, which hides nothing less.
        if ![&one, &two].iter().any(|secret| secret.contains(['"', '\\'])) {
            prop_assert_eq!(arguments(first), markers(&second.result), "equal secrets, equal markers");
            prop_assert_eq!(arguments(second), markers(&first.result));
        }
        prop_assert!(arguments(first).is_disjoint(&arguments(second)), "different secrets, different markers");

        let again = redact(&done.trace, &Options::default()).unwrap();
        prop_assert_eq!(&again.trace, &done.trace, "redacting a copy changes nothing");
        prop_assert!(again.report.is_clean());
    }

    /// Whatever a text is, redacting ends, and doing it again changes nothing.
    #[test]
    fn redacting_twice_is_redacting_once(text in "(password|token|Cookie|api_key|Authorization|--secret|[a-zA-Z0-9.,;:=\"'\\\\ \n{}\\[\\]&%/$@-]{0,6}){0,12}") {
        let trace = trace_of(json!([{"id": "a", "tool": "t", "arguments": {"text": text, "auth": text}}]));
        let once = redact(&trace, &Options::default()).unwrap().trace;
        let twice = redact(&once, &Options::default()).unwrap().trace;
        prop_assert_eq!(twice, once);
    }
}
