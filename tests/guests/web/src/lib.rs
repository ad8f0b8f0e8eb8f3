//! A plugin that sends whatever request it is told to.
//!
//! Owns the raw way to `wasi:http`, so that a test can try what the SDK's client wouldn't send. Refuses to check
//! anything: the host does.
//!
//! **Invariant:** what the host answers comes back as it is, an error by its name.

// It is a guest and nothing else: without the host there is no HTTP.
#![cfg(target_arch = "wasm32")]

use t2m_plugin_sdk::{Deserialize, Error, JsonSchema, NoArguments, Plugin, Serialize, Tools, export};
use wasip2::http::outgoing_handler;
use wasip2::http::types::{
    Fields, IncomingBody, IncomingResponse, Method, OutgoingBody, OutgoingRequest, Scheme,
};
use wasip2::io::streams::StreamError;

/// One request, or the same one several times.
#[derive(Clone, Deserialize, JsonSchema)]
struct Ask {
    method: String,
    scheme: String,
    authority: String,
    path: String,
    #[serde(default)]
    headers: Vec<(String, String)>,
    /// Bytes of the body.
    #[serde(default)]
    body: Option<usize>,
    /// How often to ask; the last answer counts.
    #[serde(default)]
    #[schemars(range(min = 1))]
    times: Option<u32>,
}

/// What came of it.
#[derive(Default, Serialize, JsonSchema)]
struct Answer {
    status: u16,
    headers: Vec<(String, String)>,
    body: String,
    error: String,
}

fn ask(ask: Ask) -> Result<Answer, Error> {
    let mut answer = Answer::default();
    for _ in 0..ask.times.unwrap_or(1) {
        answer = match once(&ask) {
            Ok(answer) => answer,
            Err(error) => Answer { error, ..Answer::default() },
        };
    }
    Ok(answer)
}

fn once(ask: &Ask) -> Result<Answer, String> {
    let headers = Fields::new();
    for (name, value) in &ask.headers {
        headers.append(name, value.as_bytes()).map_err(|error| format!("header: {error:?}"))?;
    }
    let request = OutgoingRequest::new(headers);
    let method = match ask.method.as_str() {
        "GET" => Method::Get,
        "POST" => Method::Post,
        "CONNECT" => Method::Connect,
        "TRACE" => Method::Trace,
        other => Method::Other(other.to_owned()),
    };
    let scheme = match ask.scheme.as_str() {
        "http" => Scheme::Http,
        "https" => Scheme::Https,
        other => Scheme::Other(other.to_owned()),
    };
    request.set_method(&method).map_err(|()| "method".to_owned())?;
    request.set_scheme(Some(&scheme)).map_err(|()| "scheme".to_owned())?;
    request.set_authority(Some(&ask.authority)).map_err(|()| "authority".to_owned())?;
    request.set_path_with_query(Some(&ask.path)).map_err(|()| "path".to_owned())?;
    let body = request.body().map_err(|()| "body".to_owned())?;
    let coming = outgoing_handler::handle(request, None).map_err(|error| format!("{error:?}"))?;
    if let Some(bytes) = ask.body {
        write(&body, bytes)?;
    }
    OutgoingBody::finish(body, None).map_err(|error| format!("{error:?}"))?;
    coming.subscribe().block();
    let response = coming.get().ok_or("not there")?.map_err(|()| "taken")?;
    read(&response.map_err(|error| format!("{error:?}"))?)
}

fn write(body: &OutgoingBody, mut bytes: usize) -> Result<(), String> {
    let stream = body.write().map_err(|()| "stream".to_owned())?;
    while bytes > 0 {
        let chunk = bytes.min(4096);
        stream.blocking_write_and_flush(&vec![b'x'; chunk]).map_err(|error| format!("{error:?}"))?;
        bytes -= chunk;
    }
    Ok(())
}

fn read(response: &IncomingResponse) -> Result<Answer, String> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let headers =
        response.headers().entries().into_iter().map(|(name, value)| (name, text(&value))).collect();
    let body: IncomingBody = response.consume().map_err(|()| "consumed".to_owned())?;
    let stream = body.stream().map_err(|()| "streamed".to_owned())?;
    let mut bytes = Vec::new();
    loop {
        match stream.blocking_read(1 << 16) {
            Ok(more) => bytes.extend(more),
            Err(StreamError::Closed) => break,
            Err(StreamError::LastOperationFailed(error)) => return Err(error.to_debug_string()),
        }
    }
    Ok(Answer { status: response.status(), headers, body: text(&bytes), error: String::new() })
}

fn variables() -> String {
    let variables: Vec<String> = std::env::vars().map(|(name, value)| format!("{name}={value}")).collect();
    variables.join(" ")
}

struct Web;

impl Plugin for Web {
    fn tools(tools: &mut Tools) {
        tools.pure("ask_pure", "Sends a request, and says that it does nothing outside.", ask);
        tools.read("ask", "Sends a request, and says that it only looks.", ask);
        tools.external("send", "Sends a request.", ask);
        tools.read("variables", "Lists its variables.", |_: NoArguments| Ok(variables()));
        tools.pure("variables_pure", "Lists its variables in a tool that is pure.", |_: NoArguments| {
            Ok(variables())
        });
    }
}

export!(Web);
