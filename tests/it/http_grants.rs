//! A guest that sends what it is told to, against granted hosts.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use t2m_core::code::Code;
use t2m_core::dispatch::{CallError, CallRequest, Origin};
use t2m_core::id::ToolName;
use t2m_core::tool::Reply;
use t2m_sandbox::{
    Grants, HttpLimits, Limits, Network, Plugin, PluginSource, Sandbox, SandboxError, SystemNetwork,
};
use t2m_tests::web::{ScriptedNetwork, WebServer};

use crate::hostile_host::{self, config};

async fn load(
    network: Arc<dyn Network>,
    rules: &[&str],
    http: HttpLimits,
) -> Result<Arc<Plugin>, SandboxError> {
    let sandbox = Sandbox::with_network(config(), network).unwrap();
    let hosts = rules.iter().map(|rule| rule.parse().unwrap()).collect();
    let env = [("GRANTED".to_owned(), "yes".to_owned())].into();
    let wasm = std::fs::read(env!("T2M_PLUGIN_WEB")).unwrap();
    let source = PluginSource {
        grants: Grants { hosts, env, ..Grants::default() },
        limits: Limits { wall: Duration::from_secs(10), http, ..Limits::default() },
        ..PluginSource::new("web".parse().unwrap(), wasm.into())
    };
    sandbox.load(source).await
}

/// A host with the guest.
struct Host(hostile_host::Host);

impl Host {
    async fn new(rules: &[&str]) -> Host {
        Host::with(Arc::new(SystemNetwork), rules, HttpLimits::default()).await
    }

    async fn with(network: Arc<dyn Network>, rules: &[&str], http: HttpLimits) -> Host {
        Host(hostile_host::Host::of(&load(network, rules, http).await.unwrap()))
    }

    async fn call(&self, tool: &str, arguments: Value) -> Result<Reply, CallError> {
        self.0.call_with("run", tool, arguments).await
    }

    /// What the guest was answered: the status and the body, or the name of the error.
    async fn answer(&self, tool: &str, arguments: Value) -> String {
        let value = self.call(tool, arguments).await.unwrap().structured.unwrap();
        match value["error"].as_str() {
            Some("") => format!("{} {}", value["status"], value["body"].as_str().unwrap()),
            Some(error) => error.to_owned(),
            None => panic!("{value}"),
        }
    }

    /// Another call is served as ever.
    async fn serves(&self, server: &WebServer) {
        let to = format!("127.0.0.1:{}", server.address.port());
        assert_eq!(self.answer("ask", get("http", &to, "/served")).await, "200 hello");
        // What was given up may reach the server's list later.
        let seen = server.take_seen();
        assert_eq!(seen.iter().filter(|seen| seen.starts_with("GET /served ")).count(), 1, "{seen:?}");
    }
}

fn get(scheme: &str, authority: &str, path: &str) -> Value {
    json!({"method": "GET", "scheme": scheme, "authority": authority, "path": path})
}

fn with(mut ask: Value, more: Value) -> Value {
    ask.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    ask
}

fn literal(server: &WebServer) -> String {
    format!("http://127.0.0.1:{}", server.address.port())
}

/// P03, P05: without a granted host the interface isn't there, and the plugin is refused when it is loaded.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_plugin_without_a_host_is_refused_by_name() {
    let error = load(Arc::new(SystemNetwork), &[], HttpLimits::default()).await.unwrap_err();
    assert_eq!(error.code(), Code::PluginGrantMissing);
    assert!(error.message().contains("wasi:http/outgoing-handler@0.2"), "{error}");
}

/// P05: what a rule covers is sent, with the host's own headers, and counted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_granted_request_is_sent_and_counted() {
    let server = WebServer::start().unwrap();
    let (rule, port) = (literal(&server), server.address.port());
    let host = Host::new(&[&rule]).await;
    let headers = json!({"headers": [["X-One", "1"], ["X-One", "2"]]});
    let reply = host.call("ask", with(get("http", &format!("127.0.0.1:{port}"), "/a?b=c"), headers)).await;
    let usage = reply.unwrap().usage;
    let seen = server.take_seen();
    assert!(seen[0].starts_with("GET /a?b=c HTTP/1.1\r\n"), "{seen:?}");
    assert!(seen[0].contains(&format!("host: 127.0.0.1:{port}\r\n")), "{seen:?}");
    assert!(seen[0].contains("x-one: 1\r\nx-one: 2\r\n"), "{seen:?}");
    assert_eq!((usage.http_requests, usage.http_sent_bytes), (1, seen[0].len() as u64));
    assert_eq!(usage.http_received_bytes, "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello".len() as u64);

    let post =
        with(get("http", &format!("127.0.0.1:{port}"), "/"), json!({"method": "POST", "body": 10_000}));
    assert_eq!(host.answer("send", post).await, "200 hello");
    assert!(server.take_seen()[0].matches('x').count() >= 10_000);
    // An odd notation of the same address is that address.
    assert_eq!(host.answer("ask", get("http", &format!("0x7f.1:{port}"), "/")).await, "200 hello");
    assert!(server.take_seen()[0].contains(&format!("host: 127.0.0.1:{port}\r\n")));
}

/// P05: whatever no rule covers is refused before a name is looked up or a connection made.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_no_rule_covers_never_leaves_the_host() {
    let server = WebServer::start().unwrap();
    let port = server.address.port();
    let network = Arc::new(ScriptedNetwork::new(server.address, &[&["127.0.0.1"]]));
    let rules = ["GET https://api.example.com", "GET,POST http://*.example.com:8080"];
    let host = Host::with(Arc::clone(&network) as _, &rules, HttpLimits::default()).await;
    let denied = "ErrorCode::HttpRequestDenied";
    let invalid = "ErrorCode::HttpRequestUriInvalid";
    let post = json!({"method": "POST"});
    let table = [
        ("ask", get("https", "api.example.org", "/"), denied),
        ("ask", get("http", "api.example.com", "/"), denied),
        ("ask", get("https", "api.example.com:8443", "/"), denied),
        ("ask", get("http", "example.com:8080", "/"), denied),
        ("ask", get("http", &format!("127.0.0.1:{port}"), "/"), denied),
        ("ask", get("http", &format!("2130706433:{port}"), "/"), denied),
        ("ask", get("http", &format!("localhost:{port}"), "/"), denied),
        ("send", with(get("https", "api.example.com", "/"), post.clone()), denied),
        // The effect of the contract, whatever was granted.
        ("ask", with(get("http", "a.example.com:8080", "/"), post), denied),
        ("ask_pure", get("https", "api.example.com", "/"), denied),
        ("send", with(get("https", "api.example.com", "/"), json!({"method": "CONNECT"})), denied),
        ("send", with(get("https", "api.example.com", "/"), json!({"method": "TRACE"})), denied),
        ("send", with(get("https", "api.example.com", "/"), json!({"method": "get"})), denied),
        ("ask", get("https", "user@api.example.com", "/"), invalid),
        ("ask", get("https", "api.example.com@127.0.0.1", "/"), invalid),
        ("ask", get("https", "api.example.com.", "/"), invalid),
        ("ask", get("https", "api%2eexample.com", "/"), "authority"),
        ("ask", get("ftp", "api.example.com", "/"), "ErrorCode::HttpProtocolError"),
        ("ask", get("https", "api.example.com", "http://127.0.0.1/"), "path"),
        ("ask", get("https", "api.example.com", "/ HTTP/1.1\r\nx: y"), "path"),
    ];
    for (tool, ask, expected) in table {
        assert_eq!(host.answer(tool, ask.clone()).await, expected, "{tool} {ask}");
    }
    assert!(network.lookups.lock().unwrap().is_empty());
    assert!(network.dialled.lock().unwrap().is_empty());
    assert!(server.take_seen().is_empty());
}

/// P05: a name may lead where it likes; a request goes only where its rule leads, and to the address that was checked.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_name_that_leads_inside_is_refused_and_a_checked_address_is_kept() {
    let server = WebServer::start().unwrap();
    let prohibited = "ErrorCode::DestinationIpProhibited";
    for inside in [
        "127.0.0.1",
        "10.1.2.3",
        "192.168.0.1",
        "172.20.0.1",
        "100.64.0.1",
        "169.254.169.254",
        "0.0.0.0",
        "::1",
        "::",
        "fe80::1",
        "fd00::1",
        "::ffff:127.0.0.1",
        "::ffff:8.8.8.8",
        "64:ff9b::7f00:1",
        "2002:7f00:1::",
        "224.0.0.1",
        "255.255.255.255",
    ] {
        let network = Arc::new(ScriptedNetwork::new(server.address, &[&[inside]]));
        let host = Host::with(Arc::clone(&network) as _, &["http://*:*"], HttpLimits::default()).await;
        assert_eq!(host.answer("ask", get("http", "a.example", "/")).await, prohibited, "{inside}");
        let spelled = if inside.contains(':') { format!("[{inside}]") } else { inside.to_owned() };
        assert_eq!(host.answer("ask", get("http", &spelled, "/")).await, prohibited, "{inside}");
        assert!(network.dialled.lock().unwrap().is_empty(), "{inside}");
    }
    assert!(server.take_seen().is_empty());

    // The name is first the Internet's and then this machine's. One lookup is one request.
    let answers: &[&[&str]] = &[&["127.0.0.1", "8.8.8.8"], &["127.0.0.1"]];
    let network = Arc::new(ScriptedNetwork::new(server.address, answers));
    let host = Host::with(Arc::clone(&network) as _, &["http://a.example"], HttpLimits::default()).await;
    assert_eq!(host.answer("ask", get("http", "a.example", "/")).await, "200 hello");
    assert_eq!(*network.dialled.lock().unwrap(), ["8.8.8.8:80".parse().unwrap()]);
    assert_eq!(server.take_seen().len(), 1);
    assert_eq!(host.answer("ask", get("http", "a.example", "/")).await, prohibited);
    assert_eq!(network.lookups.lock().unwrap().len(), 2);
    assert_eq!(network.dialled.lock().unwrap().len(), 1);
    assert!(server.take_seen().is_empty());

    // The operator's own word opens a private network.
    let network = Arc::new(ScriptedNetwork::new(server.address, &[&["10.1.2.3"]]));
    let host =
        Host::with(Arc::clone(&network) as _, &["http://a.example private"], HttpLimits::default()).await;
    assert_eq!(host.answer("ask", get("http", "a.example", "/")).await, "200 hello");
}

/// P05: a redirect is an answer like any other; where it leads is checked anew.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redirect_is_not_followed() {
    let server = WebServer::start().unwrap();
    let network = Arc::new(ScriptedNetwork::new(server.address, &[&["8.8.8.8"]]));
    let host = Host::with(Arc::clone(&network) as _, &["http://a.example"], HttpLimits::default()).await;
    let path = format!("/redirect?http://127.0.0.1:{}/secret", server.address.port());
    assert_eq!(host.answer("ask", get("http", "a.example", &path)).await, "302 ");
    assert_eq!(server.take_seen().len(), 1);
    let inside = get("http", &format!("127.0.0.1:{}", server.address.port()), "/secret");
    assert_eq!(host.answer("ask", inside).await, "ErrorCode::HttpRequestDenied");
    assert!(server.take_seen().is_empty());
}

/// P05: a header is one header, and the connection's own are the host's.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn headers_can_neither_be_split_nor_replace_the_hosts() {
    let server = WebServer::start().unwrap();
    let host = Host::new(&[&literal(&server)]).await;
    let to = format!("127.0.0.1:{}", server.address.port());
    for (name, value, expected) in [
        ("x-a", "b\r\nx-evil: 1", "header: HeaderError::InvalidSyntax"),
        ("x-a\r\nx-evil", "1", "header: HeaderError::InvalidSyntax"),
        ("x a", "1", "header: HeaderError::InvalidSyntax"),
        ("Host", "evil.example", "header: HeaderError::Forbidden"),
        ("connection", "keep-alive", "header: HeaderError::Forbidden"),
        ("Transfer-Encoding", "chunked", "header: HeaderError::Forbidden"),
        ("upgrade", "websocket", "header: HeaderError::Forbidden"),
        ("proxy-authorization", "x", "header: HeaderError::Forbidden"),
        ("te", "trailers", "header: HeaderError::Forbidden"),
    ] {
        let ask = with(get("http", &to, "/"), json!({"headers": [[name, value]]}));
        assert_eq!(host.answer("ask", ask).await, expected, "{name:?}: {value:?}");
    }
    assert!(server.take_seen().is_empty());
    host.serves(&server).await;
}

/// P02, P05: each limit stops the call with one code, and the next call is served.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_limit_of_http_stops_the_call() {
    let server = WebServer::start().unwrap();
    let few = HttpLimits { requests: 3, sent_bytes: 50_000, received_bytes: 50_000, ..HttpLimits::default() };
    let host = Host::with(Arc::new(SystemNetwork), &[&literal(&server), "http://127.0.0.2"], few).await;
    let to = format!("127.0.0.1:{}", server.address.port());
    let post = json!({"method": "POST", "body": 1_000_000});
    for (tool, ask, words, most_seen) in [
        ("ask", with(get("http", &to, "/"), json!({"times": 4})), "more than 3 HTTP requests", 3),
        // Refused requests count as well, or a guest could try every address.
        ("ask", with(get("http", "a.example", "/"), json!({"times": 4})), "more than 3 HTTP requests", 0),
        ("send", with(get("http", &to, "/"), post), "sent more than 50000 bytes", 1),
        ("ask", get("http", &to, "/big"), "received more than 50000 bytes", 1),
    ] {
        let path = ask["path"].as_str().unwrap().to_owned();
        let error = host.call(tool, ask).await.unwrap_err();
        assert_eq!(error.code, Code::SandboxHttp, "{error:?}");
        assert!(error.message.contains(words), "{error:?}");
        let seen = server.take_seen();
        let first = format!(" {path} ");
        assert!(seen.iter().filter(|seen| seen.contains(&first)).count() <= most_seen, "{seen:?}");
        host.serves(&server).await;
    }
}

/// P05: a server that says nothing, too little or nonsense costs the call's time at most.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_misbehaves_is_given_up() {
    let server = WebServer::start().unwrap();
    let impatient =
        HttpLimits { idle: Duration::from_millis(200), received_bytes: 200_000, ..HttpLimits::default() };
    let host = Host::with(Arc::new(SystemNetwork), &[&literal(&server)], impatient).await;
    let to = format!("127.0.0.1:{}", server.address.port());
    let asked = |path| get("http", &to, path);
    assert_eq!(host.answer("ask", asked("/silent")).await, "ErrorCode::ConnectionReadTimeout");
    assert!(host.answer("ask", asked("/slow")).await.contains("timeout"));
    assert_eq!(host.answer("ask", asked("/garbage")).await, "ErrorCode::HttpProtocolError");
    assert_eq!(host.answer("ask", asked("/headers")).await, "ErrorCode::HttpProtocolError");
    let upgraded = host.answer("ask", asked("/upgrade")).await;
    assert!(upgraded.starts_with("ErrorCode::"), "{upgraded}");
    host.serves(&server).await;

    let patient = HttpLimits { idle: Duration::from_secs(60), ..HttpLimits::default() };
    let host = Host::with(Arc::new(SystemNetwork), &[&literal(&server)], patient).await;
    let mut request = CallRequest {
        origin: Origin::Direct,
        run: "run".parse().unwrap(),
        node: "node".parse().unwrap(),
        attempt: 1,
        tool: ToolName::new("ask").unwrap(),
        arguments: asked("/slow"),
        timeout: Some(Duration::from_millis(300)),
    };
    assert_eq!(host.0.dispatcher.dispatch(request.clone()).await.unwrap_err().code, Code::SandboxTimeout);
    request.arguments = asked("/silent");
    assert_eq!(host.0.dispatcher.dispatch(request).await.unwrap_err().code, Code::SandboxTimeout);
    host.serves(&server).await;
}

/// P05: TLS trusts public roots only, and what isn't TLS gets no request.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_not_tls_gets_no_request() {
    let server = WebServer::start().unwrap();
    let port = server.address.port();
    let host = Host::new(&[&format!("https://127.0.0.1:{port}"), &literal(&server)]).await;
    let answer = host.answer("ask", get("https", &format!("127.0.0.1:{port}"), "/private")).await;
    assert_eq!(answer, "ErrorCode::TlsProtocolError");
    assert!(server.take_seen().iter().all(|seen| !seen.contains("/private")));
    host.serves(&server).await;
}

/// P03: a guest sees the variables that were granted and no other, and a pure tool none.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_guest_sees_granted_variables_alone() {
    assert!(std::env::vars().count() > 1);
    let host = Host::new(&["http://127.0.0.1"]).await;
    for (tool, expected) in [("variables", "GRANTED=yes"), ("variables_pure", "")] {
        let value = host.call(tool, json!({})).await.unwrap().value();
        assert_eq!(value, json!({"text": expected}), "{tool}");
    }
}
