//! Secrets that a plugin may use and never sees.
//!
//! Owns the value, the text that stands for it in one call, and both replacements: text by value in a request, value by
//! text in its answer. Refuses to hand the value to anything but a request to a host that the secret is for.
//!
//! **Invariant:** no function of this module returns a value, and no `Debug` prints one.

use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use aho_corasick::{AhoCorasick, MatchKind};
use base64::Engine;
use base64::prelude::{BASE64_STANDARD, BASE64_STANDARD_NO_PAD, BASE64_URL_SAFE_NO_PAD};
use bytes::Bytes;
use http::header::{ACCEPT_ENCODING, AUTHORIZATION, CONTENT_ENCODING, CONTENT_LENGTH, RANGE};
use http::{HeaderMap, HeaderValue, Request, Response, Uri};
use http_body::{Body, Frame};
use http_body_util::BodyExt;
use t2m_core::code::Code;
use tokio_rustls::rustls::crypto::ring;
use wasmtime_wasi_http::{Error, WasiBody};

use super::rule::HostRule;
use super::send::Target;
use crate::error::SandboxError;

/// Shortest value, in bytes. 8: a shorter one would stand in answers by chance.
const SHORTEST: usize = 8;

/// Longest value, in bytes. 8 KiB: what servers take as one header.
const LONGEST: usize = 8 << 10;

/// What every text that stands for a secret begins with.
const PREFIX: &str = "t2m-secret-";

/// Credentials of this scheme hold the secret in base64.
const BASIC: &[u8] = b"Basic ";

/// A secret that a plugin may use.
#[derive(Clone, PartialEq, Eq)]
pub struct SecretGrant {
    name: String,
    value: Arc<str>,
    hosts: Vec<HostRule>,
    in_query: bool,
}

impl SecretGrant {
    /// A secret for requests to these hosts, in their headers and, with `in_query`, in their query.
    ///
    /// # Errors
    /// A value that no header may have, that is shorter than 8 bytes or longer than 8 KiB; no hosts; a host to which
    /// the value would go over the Internet in the clear.
    pub fn new(
        name: impl Into<String>,
        value: &str,
        hosts: Vec<HostRule>,
        in_query: bool,
    ) -> Result<SecretGrant, SandboxError> {
        let name = name.into();
        let refuse =
            |why: &str| Err(SandboxError::new(Code::GrantInvalid, format!("secret `{name}`: {why}")));
        if !(SHORTEST..=LONGEST).contains(&value.len()) {
            return refuse("its value has to have 8 to 8192 bytes");
        }
        if !value.bytes().all(|byte| (0x20..0x7f).contains(&byte)) || value.trim() != value {
            return refuse(
                "its value holds what no header may hold: a line break, or more than printable ASCII",
            );
        }
        if hosts.is_empty() {
            return refuse("it is for no host");
        }
        if let Some(rule) = hosts.iter().find(|rule| rule.is_open_to_all()) {
            let why = format!("`{rule}` would send it over the Internet in the clear; use `https`");
            return refuse(&why);
        }
        Ok(SecretGrant { name, value: value.into(), hosts, in_query })
    }

    /// The name that the plugin knows it by.
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl fmt::Debug for SecretGrant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SecretGrant")
            .field("name", &self.name)
            .field("hosts", &self.hosts)
            .finish_non_exhaustive()
    }
}

/// The secrets of one call.
pub(crate) struct Lent {
    secrets: Vec<(SecretGrant, String)>,
    /// Credentials that were made from a secret, with what stands for them in an answer.
    made: Mutex<Vec<(String, String)>>,
}

impl Lent {
    /// Gives each secret a text of its own, which nobody can guess: one that came with the call's arguments would
    /// otherwise be replaced as well.
    pub(super) fn new(grants: &[SecretGrant]) -> Result<Lent, Error> {
        let secrets = grants.iter().map(|grant| {
            let mut bytes = [0_u8; 16];
            let random = ring::default_provider().secure_random;
            random.fill(&mut bytes).map_err(|_| Error::ConfigurationError)?;
            let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            Ok((grant.clone(), format!("{PREFIX}{hex}")))
        });
        Ok(Lent { secrets: secrets.collect::<Result<_, Error>>()?, made: Mutex::default() })
    }

    /// The text that stands for a secret.
    pub(super) fn text(&self, name: &str) -> Option<String> {
        self.secrets.iter().find(|(grant, _)| grant.name == name).map(|(_, text)| text.clone())
    }

    /// Puts values in the place of their texts, and returns for each secret used the rules that cover the request.
    pub(super) fn spend(
        &self,
        request: &mut Request<WasiBody>,
        target: &Target,
    ) -> Result<Vec<Vec<HostRule>>, Error> {
        let mut used = Vec::new();
        for (grant, text) in &self.secrets {
            let mut found = false;
            for (name, value) in request.headers_mut().iter_mut() {
                let basic = (name == AUTHORIZATION).then(|| inside_basic(value, text)).flatten();
                if let Some(credentials) = basic {
                    *value = self.basic(&credentials, grant, text)?;
                    found = true;
                } else if contains(value.as_bytes(), text.as_bytes()) {
                    let spent =
                        String::from_utf8_lossy(value.as_bytes()).replace(text.as_str(), &grant.value);
                    *value = secret_header(&spent)?;
                    found = true;
                }
            }
            if grant.in_query
                && let Some(uri) = in_query(request.uri(), text, &grant.value)
            {
                *request.uri_mut() = uri?;
                found = true;
            }
            if found {
                let covers = |rule: &&HostRule| target.covered_by(rule, request.method().as_str());
                let rules: Vec<HostRule> = grant.hosts.iter().filter(covers).cloned().collect();
                if rules.is_empty() {
                    tracing::warn!(
                        target: "t2m_sandbox::http",
                        "a request to `{}:{}` was refused: the secret `{}` isn't for it", target.host, target.port, grant.name
                    );
                    return Err(Error::HttpRequestDenied);
                }
                used.push(rules);
            }
        }
        // Whatever a server says back has to be readable here, or a value could pass by compressed.
        if !self.secrets.is_empty() {
            request.headers_mut().insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
            // Of two parts, neither holds the value.
            request.headers_mut().remove(RANGE);
        }
        Ok(used)
    }

    fn basic(&self, credentials: &str, grant: &SecretGrant, text: &str) -> Result<HeaderValue, Error> {
        let encoded = BASE64_STANDARD.encode(credentials.replace(text, &grant.value));
        let header = secret_header(&format!("Basic {encoded}"))?;
        let stands_for_it = BASE64_STANDARD.encode(credentials);
        self.made.lock().unwrap_or_else(PoisonError::into_inner).push((encoded, stands_for_it));
        Ok(header)
    }

    /// Puts texts in the place of values, in an answer's headers and its body as it comes.
    pub(super) fn hide(&self, answer: Response<WasiBody>) -> Result<Response<WasiBody>, Error> {
        if self.secrets.is_empty() {
            return Ok(answer);
        }
        let finder = Arc::new(Finder::new(self)?);
        let (mut head, body) = answer.into_parts();
        let encoding = head.headers.get(CONTENT_ENCODING);
        if encoding.is_some_and(|encoding| !encoding.as_bytes().eq_ignore_ascii_case(b"identity")) {
            return Err(Error::HttpResponseContentCoding(None));
        }
        // The length may change.
        head.headers.remove(CONTENT_LENGTH);
        finder.hide_in(&mut head.headers);
        let body = Hidden { body, hiding: Hiding::new(finder), later: None, ended: false };
        Ok(Response::from_parts(head, body.boxed_unsync()))
    }
}

fn contains(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}

/// The credentials in a `Basic` header, if they hold this text.
fn inside_basic(value: &HeaderValue, text: &str) -> Option<String> {
    let (scheme, encoded) = value.as_bytes().split_at_checked(BASIC.len())?;
    let decoded = BASE64_STANDARD.decode(encoded.trim_ascii()).ok()?;
    let credentials = String::from_utf8(decoded).ok()?;
    (scheme.eq_ignore_ascii_case(BASIC) && credentials.contains(text)).then_some(credentials)
}

fn secret_header(text: &str) -> Result<HeaderValue, Error> {
    let mut value = HeaderValue::from_str(text).map_err(|_| Error::HttpRequestDenied)?;
    value.set_sensitive(true);
    Ok(value)
}

fn in_query(uri: &Uri, text: &str, value: &str) -> Option<Result<Uri, Error>> {
    let query = uri.query().filter(|query| query.contains(text))?;
    let path = format!("{}?{}", uri.path(), query.replace(text, &percent(value)));
    let mut parts = uri.clone().into_parts();
    parts.path_and_query = match path.parse() {
        Ok(path) => Some(path),
        Err(_) => return Some(Err(Error::HttpRequestUriInvalid)),
    };
    Some(Uri::from_parts(parts).map_err(|_| Error::HttpRequestUriInvalid))
}

fn percent(value: &str) -> String {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._~".contains(byte);
    let encode = |byte: u8| if plain(&byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    value.bytes().map(encode).collect()
}

/// Finds values in any of the forms that a server may say them back in.
struct Finder {
    forms: AhoCorasick,
    texts: Vec<String>,
    longest: usize,
}

impl Finder {
    fn new(lent: &Lent) -> Result<Finder, Error> {
        let mut forms: Vec<(String, String)> = Vec::new();
        for (grant, text) in &lent.secrets {
            let value = &grant.value;
            let json = serde_json::Value::from(value.as_ref()).to_string();
            let escaped = json.trim_matches('"').to_owned();
            let encoded = [
                BASE64_STANDARD_NO_PAD.encode(value.as_ref()),
                BASE64_URL_SAFE_NO_PAD.encode(value.as_ref()),
            ];
            let all = [value.to_string(), percent(value), percent(value).to_lowercase(), escaped].into_iter();
            forms.extend(all.chain(encoded).map(|form| (form, text.clone())));
        }
        forms.extend(lent.made.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned());
        let longest = forms.iter().map(|(form, _)| form.len()).max().unwrap_or(1);
        let built = AhoCorasick::builder()
            .match_kind(MatchKind::LeftmostLongest)
            .build(forms.iter().map(|(form, _)| form))
            .map_err(|_| Error::ConfigurationError)?;
        Ok(Finder { forms: built, texts: forms.into_iter().map(|(_, text)| text).collect(), longest })
    }

    fn hide_in(&self, headers: &mut HeaderMap) {
        for value in headers.values_mut() {
            if self.forms.is_match(value.as_bytes()) {
                let hidden = self.forms.replace_all_bytes(value.as_bytes(), &self.texts);
                *value = HeaderValue::from_bytes(&hidden).unwrap_or(HeaderValue::from_static(""));
            }
        }
    }
}

/// Replaces values in bytes that come in pieces.
struct Hiding {
    finder: Arc<Finder>,
    /// The end of what came, which may be the beginning of a value.
    held: Vec<u8>,
}

impl Hiding {
    fn new(finder: Arc<Finder>) -> Hiding {
        Hiding { finder, held: Vec::new() }
    }

    /// What can be said for certain once this came. At the end everything can.
    fn push(&mut self, bytes: &[u8], is_end: bool) -> Bytes {
        self.held.extend_from_slice(bytes);
        let finder = &self.finder;
        // A match that begins later may turn out to be a longer one.
        let back = if is_end { 0 } else { finder.longest.saturating_sub(1) };
        let certain = self.held.len().saturating_sub(back);
        let mut out = Vec::with_capacity(self.held.len());
        let mut at = 0;
        for found in finder.forms.find_iter(&self.held) {
            if found.start() >= certain {
                break;
            }
            out.extend_from_slice(self.held.get(at..found.start()).unwrap_or_default());
            out.extend_from_slice(
                finder.texts.get(found.pattern().as_usize()).map_or(b"", |text| text.as_bytes()),
            );
            at = found.end();
        }
        out.extend_from_slice(self.held.get(at..certain).unwrap_or_default());
        self.held.drain(..at.max(certain));
        out.into()
    }
}

/// An answer's body without values.
struct Hidden {
    body: WasiBody,
    hiding: Hiding,
    /// Trailers, which come behind what was held.
    later: Option<Frame<Bytes>>,
    ended: bool,
}

impl Body for Hidden {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        loop {
            if self.ended {
                return Poll::Ready(self.later.take().map(Ok));
            }
            let frame = match Pin::new(&mut self.body).poll_frame(context) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Some(Err(error))) => return Poll::Ready(Some(Err(error))),
                Poll::Ready(Some(Ok(frame))) => Some(frame),
                Poll::Ready(None) => None,
            };
            let bytes = match frame.map(Frame::into_data) {
                Some(Ok(bytes)) => self.hiding.push(&bytes, false),
                other => {
                    self.ended = true;
                    if let Some(Err(trailers)) = other {
                        let finder = Arc::clone(&self.hiding.finder);
                        self.later = trailers.into_trailers().ok().map(|mut trailers| {
                            finder.hide_in(&mut trailers);
                            Frame::trailers(trailers)
                        });
                    }
                    self.hiding.push(&[], true)
                }
            };
            if !bytes.is_empty() {
                return Poll::Ready(Some(Ok(Frame::data(bytes))));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn lent(values: &[&str]) -> Lent {
        let hosts = vec!["https://a.example".parse().unwrap()];
        let grant = |(at, value): (usize, &&str)| {
            let grant = SecretGrant::new(format!("s{at}"), value, hosts.clone(), false).unwrap();
            (grant, format!("<{at}>"))
        };
        Lent { secrets: values.iter().enumerate().map(grant).collect(), made: Mutex::default() }
    }

    fn hide(lent: &Lent, pieces: &[&[u8]]) -> String {
        let mut hiding = Hiding::new(Arc::new(Finder::new(lent).unwrap()));
        let mut out = Vec::new();
        for piece in pieces {
            out.extend_from_slice(&hiding.push(piece, false));
        }
        out.extend_from_slice(&hiding.push(&[], true));
        String::from_utf8(out).unwrap()
    }

    /// P06: a value is found in each form, wherever it is cut, and the longest of two that begin alike.
    #[test]
    fn a_value_is_hidden_in_every_form() {
        let lent = lent(&["key/with+8", "key/with+8-and-more"]);
        let text = "a key/with+8 b key%2Fwith%2B8 c key%2fwith%2b8 d a2V5L3dpdGgrOA== e key/with+8-and-more f key/with+8";
        let expected = "a <0> b <0> c <0> d <0>== e <1> f <0>";
        for size in 1..text.len() {
            let pieces: Vec<&[u8]> = text.as_bytes().chunks(size).collect();
            assert_eq!(hide(&lent, &pieces), expected, "pieces of {size}");
        }
        assert_eq!(hide(&lent, &[b"nothing here"]), "nothing here");
    }

    proptest! {
        /// P06: where the pieces end makes no difference.
        #[test]
        fn pieces_make_no_difference(text in "[ab]{0,80}", cut in 1_usize..20) {
            let lent = lent(&["abababab", "aaaabbbbaaaa"]);
            let pieces: Vec<&[u8]> = text.as_bytes().chunks(cut).collect();
            let whole = hide(&lent, &[text.as_bytes()]);
            prop_assert_eq!(hide(&lent, &pieces), whole.clone());
            prop_assert!(!whole.contains("abababab"));
        }
    }

    /// P06: what can't be kept out of answers, or off the open Internet, is no secret here.
    #[test]
    fn a_secret_that_could_not_be_kept_is_refused() {
        let https = || vec!["https://a.example".parse().unwrap()];
        let http = |rule: &str| vec![rule.parse().unwrap()];
        assert!(SecretGrant::new("s", "12345678", https(), false).is_ok());
        assert!(SecretGrant::new("s", "12345678", http("http://localhost"), false).is_ok());
        for (value, hosts, word) in [
            ("short", https(), "8 to 8192"),
            ("two\nlines", https(), "line break"),
            ("schlüssel", https(), "ASCII"),
            ("12345678 ", https(), "header"),
            ("12345678", vec![], "no host"),
            ("12345678", http("http://a.example"), "in the clear"),
        ] {
            let error = SecretGrant::new("s", value, hosts, false).unwrap_err();
            assert_eq!(error.code(), Code::GrantInvalid);
            assert!(error.message().contains(word) && !error.message().contains(value), "{error}");
        }
        let shown = format!("{:?}", SecretGrant::new("s", "12345678", https(), false).unwrap());
        assert!(!shown.contains("12345678"), "{shown}");
    }
}
