//! One request, from the check of its target to the answer's body.
//!
//! Owns the order: rule, name, addresses, connection, TLS, HTTP/1.1. Refuses redirects, proxies, upgrades and kept
//! connections: a guest that follows a redirect makes a request of its own, which is checked like any other.
//!
//! **Invariant:** a name is looked up once, and the connection goes to an address of that very answer which a rule
//! leads to.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONNECTION, HOST};
use http::{HeaderValue, Request, Response, StatusCode, Uri};
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::client::conn::http1;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep, sleep, timeout};
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_util::task::AbortOnDropHandle;
use url::Host;
use wasmtime_wasi_http::io::TokioIo;
use wasmtime_wasi_http::{Error, RequestOptions, WasiBody};

use super::Outside;
use super::meter::{Counted, HttpLimits, Meter};
use super::rule::{HostRule, Methods, Scheme, parse_host};
use super::secrets::Lent;

/// Most addresses of one name that are tried. 4: two of each kind, within the wait for a connection.
const MOST_ADDRESSES: usize = 4;

/// Longest answer head that is read, in bytes; hyper wants 8 KiB at least.
const MIN_HEAD: usize = 8 << 10;

/// An answer, and what keeps its connection going.
pub(super) type Answer = (Response<WasiBody>, Box<dyn Future<Output = Result<(), Error>> + Send>);

/// Where a request goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) scheme: Scheme,
    pub(super) host: Host<String>,
    pub(super) port: u16,
}

impl Target {
    /// Reads the target of a request, in its canonical form.
    pub(super) fn of(uri: &Uri) -> Option<Target> {
        let scheme = match uri.scheme_str() {
            Some("http") => Scheme::Http,
            Some("https") => Scheme::Https,
            _ => return None,
        };
        let authority = uri.authority()?;
        // A user name could pass for the host, and an escaped one for another host.
        if authority.as_str().contains(['@', '%', '\\']) {
            return None;
        }
        let port = match authority.port() {
            Some(port) if port.as_u16() > 0 => port.as_u16(),
            None if !authority.as_str().ends_with(':') => scheme.port(),
            _ => return None,
        };
        Some(Target { scheme, host: parse_host(authority.host())?, port })
    }

    /// Whether a rule covers a request with this method here.
    pub(super) fn covered_by(&self, rule: &HostRule, method: &str) -> bool {
        rule.covers(method, self.scheme, &self.host, self.port)
    }

    fn host_header(&self) -> Option<HeaderValue> {
        let text = match self.port == self.scheme.port() {
            true => self.host.to_string(),
            false => format!("{}:{}", self.host, self.port),
        };
        HeaderValue::from_str(&text).ok()
    }

    fn server_name(&self) -> Option<ServerName<'static>> {
        match &self.host {
            Host::Domain(name) => ServerName::try_from(name.clone()).ok(),
            Host::Ipv4(address) => Some(IpAddr::V4(*address).into()),
            Host::Ipv6(address) => Some(IpAddr::V6(*address).into()),
        }
    }
}

/// A request that rules cover, on its way.
pub(super) struct Sending {
    pub(super) target: Target,
    /// The rules that cover it, and those of each secret in it. One of each has to lead to the address.
    pub(super) rules: Vec<Vec<HostRule>>,
    /// Secrets that its answer may hold.
    pub(super) lent: Option<Arc<Lent>>,
    pub(super) outside: Arc<Outside>,
    pub(super) limits: HttpLimits,
    pub(super) meter: Arc<Meter>,
}

/// The rules that cover a request, if its effect allows the method at all.
pub(super) fn covering(rules: &[HostRule], methods: Methods, method: &str, target: &Target) -> Vec<HostRule> {
    let covers = |rule: &&HostRule| target.covered_by(rule, method);
    let rules = rules.iter().filter(covers).cloned();
    if methods.contain(method) { rules.collect() } else { Vec::new() }
}

impl Sending {
    /// Sends the request and waits for the head of the answer.
    pub(super) async fn send(
        self,
        mut request: Request<WasiBody>,
        options: Option<RequestOptions>,
    ) -> Result<Answer, Error> {
        let asked = |wait: fn(&RequestOptions) -> Option<Duration>, most: Duration| {
            options.as_ref().and_then(wait).map_or(most, |wait| wait.min(most))
        };
        let connect = asked(|options| options.connect_timeout, self.limits.connect);
        let first_byte = asked(|options| options.first_byte_timeout, self.limits.idle);
        let between_bytes = asked(|options| options.between_bytes_timeout, self.limits.idle);

        self.prepare(&mut request)?;
        let connected = timeout(connect, self.connect()).await;
        let stream = connected.map_err(|_| Error::ConnectionTimeout)??;
        let head = self.limits.header_bytes.max(MIN_HEAD);
        let handshake = http1::Builder::new().max_buf_size(head).handshake(TokioIo::new(stream)).await;
        let (mut sender, connection) = handshake?;
        // A task, since the guest may write the request's body while nobody waits for the answer.
        let connection = AbortOnDropHandle::new(tokio::spawn(connection));
        let answer = timeout(first_byte, sender.send_request(request)).await;
        let answer = answer.map_err(|_| Error::ConnectionReadTimeout)??;
        if answer.status() == StatusCode::SWITCHING_PROTOCOLS {
            return Err(Error::HttpUpgradeFailed);
        }
        let mut answer = answer.map(|body| Patient::new(body, between_bytes).boxed_unsync());
        if let Some(lent) = &self.lent {
            answer = lent.hide(answer)?;
        }
        let rest = async move {
            match connection.await {
                Ok(ended) => ended.map_err(Error::from),
                Err(_) => Err(Error::ConnectionTerminated),
            }
        };
        Ok((answer, Box::new(rest)))
    }

    /// Puts the request into the form that goes to a server rather than a proxy.
    fn prepare(&self, request: &mut Request<WasiBody>) -> Result<(), Error> {
        let path = request.uri().path_and_query().map_or("/", |path| path.as_str());
        let uri = Uri::builder().path_and_query(path).build();
        *request.uri_mut() = uri.map_err(|_| Error::HttpRequestUriInvalid)?;
        let host = self.target.host_header().ok_or(Error::HttpRequestUriInvalid)?;
        request.headers_mut().insert(HOST, host);
        request.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        Ok(())
    }

    async fn connect(&self) -> Result<Counted<Box<dyn Stream>>, Error> {
        let addresses = self.addresses().await?;
        let stream = self.first_of(&addresses).await?;
        let _ = stream.set_nodelay(true);
        let stream: Box<dyn Stream> = match self.target.scheme {
            Scheme::Http => Box::new(stream),
            Scheme::Https => {
                let name = self.target.server_name().ok_or(Error::HttpRequestUriInvalid)?;
                let tls = TlsConnector::from(self.outside.tls()?);
                Box::new(tls.connect(name, stream).await.map_err(Error::Tls)?)
            }
        };
        Ok(Counted::new(stream, Arc::clone(&self.meter)))
    }

    /// The addresses that a rule leads to, of all that the name has.
    async fn addresses(&self) -> Result<Vec<IpAddr>, Error> {
        let found = match &self.target.host {
            Host::Ipv4(address) => vec![IpAddr::V4(*address)],
            Host::Ipv6(address) => vec![IpAddr::V6(*address)],
            Host::Domain(name) => self.outside.network.resolve(name).await.map_err(|error| {
                tracing::debug!(target: "t2m_sandbox::http", "`{name}` has no address: {error}");
                Error::DnsError { rcode: None, info_code: None }
            })?,
        };
        let leads = |address: &IpAddr| {
            self.rules.iter().all(|rules| rules.iter().any(|rule| rule.leads_to(*address)))
        };
        let checked: Vec<IpAddr> = found.iter().copied().filter(leads).take(MOST_ADDRESSES).collect();
        if checked.is_empty() && !found.is_empty() {
            tracing::warn!(
                target: "t2m_sandbox::http",
                "a request to `{}` was refused: its addresses are private, and no grant says `private`",
                self.target.host
            );
            return Err(Error::DestinationIpProhibited);
        }
        if checked.is_empty() { Err(Error::DestinationNotFound) } else { Ok(checked) }
    }

    async fn first_of(&self, addresses: &[IpAddr]) -> Result<TcpStream, Error> {
        let mut last = io::Error::from(io::ErrorKind::NotFound);
        for address in addresses {
            match self.outside.network.connect(SocketAddr::new(*address, self.target.port)).await {
                Ok(stream) => return Ok(stream),
                Err(error) => last = error,
            }
        }
        tracing::debug!(target: "t2m_sandbox::http", "no connection to `{}`: {last}", self.target.host);
        Err(Error::ConnectionRefused)
    }
}

trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

/// An answer's body that gives up when nothing comes for too long.
struct Patient {
    body: Incoming,
    wait: Duration,
    until: Pin<Box<Sleep>>,
}

impl Patient {
    fn new(body: Incoming, wait: Duration) -> Patient {
        Patient { body, wait, until: Box::pin(sleep(wait)) }
    }
}

impl Body for Patient {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        if let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(context) {
            let until = Instant::now() + self.wait;
            self.until.as_mut().reset(until);
            return Poll::Ready(frame.map(|frame| frame.map_err(Error::from)));
        }
        self.until.as_mut().poll(context).map(|()| Some(Err(Error::ConnectionReadTimeout)))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(uri: &str) -> Option<String> {
        let target = Target::of(&uri.parse::<Uri>().ok()?)?;
        let host = target.host_header()?;
        Some(format!("{} {} {}", target.scheme.as_str(), host.to_str().ok()?, target.port))
    }

    /// P05: odd notations of a host become its usual one, or are refused.
    #[test]
    fn a_target_has_one_form() {
        let table = [
            ("https://Example.COM/x?y", Some("https example.com 443")),
            ("http://example.com:8080", Some("http example.com:8080 8080")),
            ("http://2130706433/", Some("http 127.0.0.1 80")),
            ("http://0x7f.1/", Some("http 127.0.0.1 80")),
            ("http://0177.0.0.1/", Some("http 127.0.0.1 80")),
            ("http://127.1/", Some("http 127.0.0.1 80")),
            ("http://[0:0:0::1]/", Some("http [::1] 80")),
            ("http://[::ffff:127.0.0.1]/", Some("http [::ffff:7f00:1] 80")),
            ("http://user@example.com/", None),
            ("http://example.com@127.0.0.1/", None),
            ("http://example.com./", None),
            ("http://example.com:0/", None),
            ("http://127.0.0.1.5/", None),
            ("http://999.1.1.1/", None),
            ("http://a%2eb/", None),
            ("ftp://example.com/", None),
            ("/path", None),
        ];
        for (uri, expected) in table {
            assert_eq!(target(uri).as_deref(), expected, "{uri}");
        }
    }
}
