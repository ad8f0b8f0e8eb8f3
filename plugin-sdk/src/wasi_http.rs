//! Requests through `wasi:http`, seen from inside the component.
//!
//! Owns the resources of one request and the words for its errors. Refuses to be used by plugins directly: `http` is
//! the way.
//!
//! INVARIANT: the body is written after the request has begun, or a full buffer would wait for ever; its length is said
//! before, and a request without one takes none, since servers commonly refuse a `GET` with an empty chunked body.

use wasip2::http::outgoing_handler;
use wasip2::http::types::{
    ErrorCode, Fields, IncomingResponse, Method, OutgoingBody, OutgoingRequest, Scheme,
};
use wasip2::io::streams::StreamError;

use crate::Error;
use crate::http::{Request, Response};
use crate::url::Url;

/// Bytes that are written at once, the most that `blocking-write-and-flush` takes.
const CHUNK: usize = 4096;

/// Bytes that are read at once.
const READ: u64 = 1 << 16;

/// Sends a request and reads the answer.
pub(crate) fn send(request: &Request, url: &Url) -> Result<Response, Error> {
    let invalid =
        |what: &str| Error::new("request-invalid", format!("{what} of the request to `{url}` isn't valid"));
    let headers = Fields::new();
    for (name, value) in &request.headers {
        let appended = headers.append(name, value.as_bytes());
        appended.map_err(|_| invalid(&format!("the header `{name}`")))?;
    }
    let says_length = request.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("content-length"));
    if !request.body.is_empty() && !says_length {
        let length = request.body.len().to_string();
        headers.append("content-length", length.as_bytes()).map_err(|_| invalid("the length"))?;
    }
    let outgoing = OutgoingRequest::new(headers);
    let scheme = if url.scheme == "https" { Scheme::Https } else { Scheme::Http };
    outgoing.set_method(&method(&request.method)).map_err(|()| invalid("the method"))?;
    outgoing.set_scheme(Some(&scheme)).map_err(|()| invalid("the scheme"))?;
    outgoing.set_authority(Some(&url.authority)).map_err(|()| invalid("the host"))?;
    outgoing.set_path_with_query(Some(&url.path)).map_err(|()| invalid("the path"))?;
    let body = match request.body.is_empty() {
        true => None,
        false => Some(outgoing.body().map_err(|()| invalid("the body"))?),
    };
    let coming = outgoing_handler::handle(outgoing, None).map_err(|error| failure(request, url, &error))?;
    if let Some(body) = body
        && write(&body, &request.body)
    {
        // An answer may come before all of the body was taken; what it says counts.
        let _ = OutgoingBody::finish(body, None);
    }
    coming.subscribe().block();
    match coming.get() {
        Some(Ok(Ok(response))) => read(&response, request, url),
        Some(Ok(Err(error))) => Err(failure(request, url, &error)),
        _ => Err(Error::new("request-failed", format!("the answer of `{url}` was taken before"))),
    }
}

fn method(name: &str) -> Method {
    match name {
        "GET" => Method::Get,
        "HEAD" => Method::Head,
        "POST" => Method::Post,
        "PUT" => Method::Put,
        "DELETE" => Method::Delete,
        "OPTIONS" => Method::Options,
        "PATCH" => Method::Patch,
        other => Method::Other(other.to_owned()),
    }
}

/// Whether all of it was taken.
fn write(body: &OutgoingBody, bytes: &[u8]) -> bool {
    let Ok(stream) = body.write() else { return false };
    bytes.chunks(CHUNK).all(|chunk| stream.blocking_write_and_flush(chunk).is_ok())
}

fn read(response: &IncomingResponse, request: &Request, url: &Url) -> Result<Response, Error> {
    let text = |value: Vec<u8>| String::from_utf8_lossy(&value).into_owned();
    let headers = response.headers().entries().into_iter().map(|(name, value)| (name, text(value))).collect();
    let failed = || Error::new("request-failed", format!("the answer of `{url}` can't be read"));
    let incoming = response.consume().map_err(|()| failed())?;
    let stream = incoming.stream().map_err(|()| failed())?;
    let mut body = Vec::new();
    let most = request.most();
    let truncated = loop {
        match stream.blocking_read(READ) {
            Ok(bytes) => body.extend(bytes),
            Err(StreamError::Closed) => break body.len() > most,
            Err(StreamError::LastOperationFailed(error)) => {
                let message = format!("the answer of `{url}` broke off: {}", error.to_debug_string());
                return Err(Error::new("request-failed", message).retryable(true));
            }
        }
        if body.len() > most {
            break true;
        }
    };
    body.truncate(most);
    Ok(Response { status: response.status(), url: url.to_string(), headers, body, truncated })
}

fn failure(request: &Request, url: &Url, error: &ErrorCode) -> Error {
    let (method, Url { scheme, authority, .. }) = (&request.method, url);
    let (code, message, retryable) = match error {
        ErrorCode::HttpRequestDenied => (
            "request-denied",
            format!(
                "`{method} {scheme}://{authority}` was refused: no grant covers it (`--host RULE`), the tool's effect doesn't allow the method, or a secret in it is for other hosts; the host's log says which"
            ),
            false,
        ),
        ErrorCode::DestinationIpProhibited => (
            "address-refused",
            format!("`{authority}` leads to a private address, and no grant says `private`"),
            false,
        ),
        ErrorCode::HttpRequestUriInvalid | ErrorCode::HttpRequestMethodInvalid => {
            ("request-invalid", format!("`{method} {url}` is no request that can be sent"), false)
        }
        ErrorCode::DnsError(_) | ErrorCode::DnsTimeout | ErrorCode::DestinationNotFound => {
            ("name-unknown", format!("`{authority}` has no address"), true)
        }
        ErrorCode::ConnectionTimeout | ErrorCode::ConnectionReadTimeout | ErrorCode::HttpResponseTimeout => {
            ("timed-out", format!("`{authority}` took too long"), true)
        }
        ErrorCode::ConnectionRefused | ErrorCode::ConnectionTerminated => {
            ("connection-failed", format!("there is no connection to `{authority}`"), true)
        }
        ErrorCode::TlsCertificateError => (
            "certificate-refused",
            format!("`{authority}` doesn't prove its name by a certificate of a trusted authority"),
            false,
        ),
        other => ("request-failed", format!("the request to `{authority}` failed: {other:?}"), true),
    };
    Error::new(code, message).retryable(retryable)
}
