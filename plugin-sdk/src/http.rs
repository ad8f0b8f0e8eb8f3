//! Requests to hosts that the plugin was granted.
//!
//! Owns one request and its answer, redirects if they are asked for, and what went wrong in words of the SDK. Refuses
//! to decide where a request may go: the host checks each one, those after a redirect too.
//!
//! INVARIANT: credentials don't follow a redirect to another origin.
//!
//! ```
//! use t2m_plugin_sdk::{Error, http};
//!
//! fn title(id: u32) -> Result<String, Error> {
//!     let issue: serde_json::Value = http::Request::get(format!("https://api.example.com/issues/{id}"))
//!         .header("accept", "application/json")
//!         .send()?
//!         .success()?
//!         .json()?;
//!     Ok(issue["title"].as_str().unwrap_or_default().to_owned())
//! }
//! ```

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::url::Url;
use crate::{Error, host};

/// Headers that are for one origin alone.
const CREDENTIALS: [&str; 3] = ["authorization", "cookie", "x-api-key"];

/// A request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// The method, such as `GET`.
    pub method: String,
    /// The whole URL.
    pub url: String,
    /// Names and values, in order. `Host`, `Connection` and their like are the host's.
    pub headers: Vec<(String, String)>,
    /// The body, which may be empty.
    pub body: Vec<u8>,
    redirects: u32,
    most: usize,
}

/// An answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Response {
    /// The status, such as 200.
    pub status: u16,
    /// Where it came from, after redirects.
    pub url: String,
    /// Names in lower case and values, in order.
    pub headers: Vec<(String, String)>,
    /// The body, or its beginning.
    pub body: Vec<u8>,
    /// Whether the body goes on beyond [`Request::most_bytes`].
    pub truncated: bool,
}

impl Request {
    /// A request without headers and body.
    pub fn new(method: impl Into<String>, url: impl Into<String>) -> Self {
        let (method, url) = (method.into(), url.into());
        Self { method, url, headers: Vec::new(), body: Vec::new(), redirects: 0, most: usize::MAX }
    }

    /// A request that only looks.
    pub fn get(url: impl Into<String>) -> Self {
        Self::new("GET", url)
    }

    /// A request that sends something.
    pub fn post(url: impl Into<String>) -> Self {
        Self::new("POST", url)
    }

    /// Adds a header.
    #[must_use]
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// Sets the body.
    #[must_use]
    pub fn body(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.body = bytes.into();
        self
    }

    /// Sets the body to JSON, and its content type.
    ///
    /// # Errors
    /// If the value can't be written as JSON.
    pub fn json(self, value: &impl Serialize) -> Result<Self, Error> {
        let bytes = serde_json::to_vec(value)?;
        Ok(self.header("content-type", "application/json").body(bytes))
    }

    /// Follows up to so many redirects. Without this, a redirect is an answer.
    #[must_use]
    pub fn follow_redirects(mut self, most: u32) -> Self {
        self.redirects = most;
        self
    }

    /// Reads no more of the body than this.
    #[must_use]
    pub fn most_bytes(mut self, most: usize) -> Self {
        self.most = most;
        self
    }

    /// Sends it and reads the answer.
    ///
    /// # Errors
    /// `request-denied` if no grant covers it, `address-refused` if its name leads to a private address,
    /// `request-invalid`, `name-unknown`, `connection-failed`, `certificate-refused`, `timed-out`, `too-many-redirects` or `request-failed`.
    /// An answer with a status of failure is an answer; see [`Response::success`].
    pub fn send(mut self) -> Result<Response, Error> {
        let mut url = Url::parse(&self.url)?;
        for left in (0..=self.redirects).rev() {
            self.url = url.to_string();
            let response = host::send(&self, &url)?;
            let location = match response.status {
                301 | 302 | 303 | 307 | 308 if self.redirects > 0 => response.header("location"),
                _ => None,
            };
            let Some(location) = location else { return Ok(response) };
            if left == 0 {
                break;
            }
            let next = url.join(location)?;
            self.go_on(&url, &next, response.status);
            url = next;
        }
        let message =
            format!("`{}` was the last of {} redirects; ask for its target", self.url, self.redirects);
        Err(Error::new("too-many-redirects", message))
    }

    /// Changes what a redirect changes.
    fn go_on(&mut self, from: &Url, to: &Url, status: u16) {
        let looks = self.method == "GET" || self.method == "HEAD";
        if status == 303 && !looks || matches!(status, 301 | 302) && self.method == "POST" {
            "GET".clone_into(&mut self.method);
            self.body.clear();
            self.headers.retain(|(name, _)| !name.to_ascii_lowercase().starts_with("content-"));
        }
        if from.origin() != to.origin() {
            self.headers.retain(|(name, _)| !CREDENTIALS.contains(&name.to_ascii_lowercase().as_str()));
        }
    }

    /// The most bytes of the body that are read.
    pub(crate) fn most(&self) -> usize {
        self.most
    }
}

impl Response {
    /// The first header of a name, in whatever case it is given.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(own, _)| own.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    /// The body as text; what isn't UTF-8 becomes U+FFFD.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The body as JSON.
    ///
    /// # Errors
    /// If it is something else.
    pub fn json<T: DeserializeOwned>(&self) -> Result<T, Error> {
        serde_json::from_slice(&self.body).map_err(|error| {
            Error::new(
                "unexpected-answer",
                format!("the answer of `{}` isn't what was expected: {error}", self.url),
            )
        })
    }

    /// The answer itself, if its status says success.
    ///
    /// # Errors
    /// `http-status`, which may succeed later for 429 and 5xx.
    pub fn success(self) -> Result<Self, Error> {
        if (200..300).contains(&self.status) {
            return Ok(self);
        }
        let message = format!("`{}` answered with the status {}", self.url, self.status);
        Err(Error::new("http-status", message).retryable(self.status == 429 || self.status >= 500))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::double::{self, Host};

    fn with_server<T>(
        server: impl FnMut(&Request) -> Result<Response, Error> + 'static,
        run: impl FnOnce() -> T,
    ) -> T {
        let mut host = Host { server: Some(Box::new(server)), ..Host::default() };
        double::swap(&mut host);
        let result = run();
        double::swap(&mut host);
        result
    }

    fn answer(status: u16, location: &str) -> Response {
        let headers = vec![("location".to_owned(), location.to_owned())];
        Response { status, url: String::new(), headers, body: Vec::new(), truncated: false }
    }

    #[test]
    fn redirects_are_followed_if_asked_for() {
        let hops = |request: &Request| {
            Ok(match request.url.as_str() {
                "https://a.example/1" => answer(302, "/2?x"),
                "https://a.example/2?x" => answer(307, "https://b.example/3"),
                url => {
                    assert_eq!((url, request.method.as_str()), ("https://b.example/3", "GET"));
                    assert_eq!(request.headers, [("accept".to_owned(), "*/*".to_owned())]);
                    answer(200, "")
                }
            })
        };
        let ask = || Request::get("https://a.example/1").header("accept", "*/*").header("Authorization", "x");
        assert_eq!(with_server(hops, || ask().follow_redirects(2).send()).unwrap().status, 200);
        assert_eq!(with_server(hops, || ask().send()).unwrap().status, 302);
        let error = with_server(hops, || ask().follow_redirects(1).send()).unwrap_err();
        assert_eq!(error.code(), "too-many-redirects");
    }

    #[test]
    fn a_redirected_post_becomes_a_get_without_a_body() {
        let hops = |request: &Request| match request.method.as_str() {
            "POST" => Ok(answer(303, "/done")),
            _ => {
                assert!(request.body.is_empty() && request.headers.is_empty());
                Ok(answer(204, ""))
            }
        };
        let ask = Request::post("https://a.example/").json(&1).unwrap().follow_redirects(1);
        assert_eq!(with_server(hops, || ask.send()).unwrap().success().unwrap().status, 204);
    }

    #[test]
    fn a_status_of_failure_is_an_error_where_success_is_asked_for() {
        let error = answer(503, "").success().unwrap_err();
        assert!(error.code() == "http-status" && error.is_retryable());
        assert!(!answer(404, "").success().unwrap_err().is_retryable());
    }
}
