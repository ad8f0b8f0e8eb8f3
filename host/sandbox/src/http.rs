//! Requests of a guest to HTTP servers that it was granted.
//!
//! Owns the check of each request and what a call counts. Refuses everything that no rule covers, and headers that
//! are the connection's own.
//!
//! **Invariant:** a guest has no way to the network but [`Outgoing::send_request`].

mod address;
mod meter;
mod network;
mod rule;
mod secrets;
mod send;

use std::io;
use std::sync::{Arc, OnceLock};

use http::{HeaderName, Request, header};
use t2m_core::effect::Effect;
use t2m_core::id::PluginId;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};
use wasmtime::component::ResourceTable;
use wasmtime_wasi_http::p2::bindings::http::types::ErrorCode;
use wasmtime_wasi_http::{
    DEFAULT_FORBIDDEN_HEADERS, Error, ForbiddenHeaderFilter, RequestOptions, WasiBody, WasiHttpCtx,
    WasiHttpCtxView, WasiHttpHooks,
};

use self::rule::Methods;
use self::secrets::Lent;
use self::send::{Answer, Sending, Target, covering};
use crate::state::printable;

pub use self::meter::HttpLimits;
pub(crate) use self::meter::{Breach, Meter};
pub use self::network::{Network, SystemNetwork};
pub use self::rule::HostRule;
pub use self::secrets::SecretGrant;

/// Headers beside wasi-http's own list that say how this connection is used.
const FORBIDDEN: [HeaderName; 3] = [header::TE, header::TRAILER, header::EXPECT];

/// Bytes of a request's body that are taken from the guest at once. 64 KiB: no copy of much more waits in the host.
const CHUNK: usize = 64 << 10;

/// What all plugins of a sandbox reach the network by.
pub(crate) struct Outside {
    network: Arc<dyn Network>,
    /// Made for the first request with TLS: the roots take a millisecond.
    tls: OnceLock<Arc<ClientConfig>>,
}

impl Outside {
    pub(crate) fn new(network: Arc<dyn Network>) -> Outside {
        Outside { network, tls: OnceLock::new() }
    }

    /// TLS as Mozilla's list of roots trusts it, the same on every machine.
    fn tls(&self) -> Result<Arc<ClientConfig>, Error> {
        if let Some(known) = self.tls.get() {
            return Ok(Arc::clone(known));
        }
        let roots = RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
        let config = client(roots)?;
        Ok(Arc::clone(self.tls.get_or_init(|| Arc::new(config))))
    }
}

fn client(roots: RootCertStore) -> Result<ClientConfig, Error> {
    let versions = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|_| Error::ConfigurationError)?;
    let mut config = versions.with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}

/// The hosts that a plugin was granted.
#[derive(Clone)]
pub(crate) struct HostGrant {
    pub(crate) rules: Arc<[HostRule]>,
    /// What requests to them may hold.
    pub(crate) secrets: Arc<[SecretGrant]>,
    pub(crate) outside: Arc<Outside>,
}

/// The HTTP of one call.
pub(crate) struct Http {
    context: WasiHttpCtx,
    outgoing: Outgoing,
}

impl Http {
    /// What a call may do with its plugin's hosts. Without a grant, nothing.
    pub(crate) fn new(
        grant: Option<(&HostGrant, Effect)>,
        limits: HttpLimits,
        plugin: &Arc<PluginId>,
    ) -> Http {
        let mut context = WasiHttpCtx::new();
        context.set_field_size_limit(limits.header_bytes);
        // A pure tool has nothing outside to show a secret to.
        let lends = grant.filter(|(grant, effect)| *effect != Effect::Pure && !grant.secrets.is_empty());
        let lent = lends.and_then(|(grant, _)| Lent::new(&grant.secrets).ok().map(Arc::new));
        let grant = grant.map(|(grant, effect)| (grant.clone(), Methods::of_effect(effect)));
        let meter = Arc::new(Meter::new(limits));
        let outgoing = Outgoing { grant, lent, limits, meter, plugin: Arc::clone(plugin) };
        Http { context, outgoing }
    }

    /// The counts of the call.
    pub(crate) fn meter(&self) -> &Arc<Meter> {
        &self.outgoing.meter
    }

    /// The text that stands for a secret in this call.
    pub(crate) fn secret(&self, name: &str) -> Option<String> {
        self.outgoing.lent.as_ref()?.text(name)
    }

    /// The way to it, for the linker.
    pub(crate) fn view<'a>(&'a mut self, table: &'a mut ResourceTable) -> WasiHttpCtxView<'a> {
        WasiHttpCtxView { hooks: &mut self.outgoing, table, ctx: &mut self.context }
    }
}

struct Outgoing {
    grant: Option<(HostGrant, Methods)>,
    lent: Option<Arc<Lent>>,
    limits: HttpLimits,
    meter: Arc<Meter>,
    plugin: Arc<PluginId>,
}

impl Outgoing {
    /// Counts a request, checks it against the rules and puts secrets into it.
    fn admit(&self, request: &mut Request<WasiBody>) -> Result<Sending, Error> {
        if !self.meter.begin_request() {
            return Err(Error::ConnectionLimitReached);
        }
        let (plugin, method) = (&self.plugin, request.method().as_str());
        let Some(target) = Target::of(request.uri()) else {
            let shown = printable(request.uri().authority().map_or("", |authority| authority.as_str()));
            tracing::warn!(target: "t2m_sandbox::http", %plugin, "a request to `{shown}` was refused: no such host");
            return Err(Error::HttpRequestUriInvalid);
        };
        // No path: it may hold what the server alone should see.
        let shown =
            format!("{} {}://{}:{}", printable(method), target.scheme.as_str(), target.host, target.port);
        let Some((grant, methods)) = &self.grant else {
            return Err(Error::HttpRequestDenied);
        };
        let rules = covering(&grant.rules, *methods, method, &target);
        if rules.is_empty() {
            let why = match methods.contain(method) {
                true => "no grant covers it",
                false => "the tool's effect doesn't allow the method",
            };
            tracing::warn!(target: "t2m_sandbox::http", %plugin, "{shown} was refused: {why}");
            return Err(Error::HttpRequestDenied);
        }
        tracing::debug!(target: "t2m_sandbox::http", %plugin, "{shown}");
        let (limits, meter, lent) = (self.limits, Arc::clone(&self.meter), self.lent.clone());
        let mut rules = vec![rules];
        if let Some(lent) = &lent {
            rules.extend(lent.spend(request, &target)?);
        }
        Ok(Sending { target, rules, lent, outside: Arc::clone(&grant.outside), limits, meter })
    }
}

impl WasiHttpHooks for Outgoing {
    fn forbidden_header_filter(&mut self) -> ForbiddenHeaderFilter {
        Arc::new(|name| DEFAULT_FORBIDDEN_HEADERS.contains(name) || FORBIDDEN.contains(name))
    }

    fn send_request(
        &mut self,
        mut request: Request<WasiBody>,
        options: Option<RequestOptions>,
        _processed: Box<dyn Future<Output = Result<(), Error>> + Send>,
    ) -> Box<dyn Future<Output = Result<Answer, Error>> + Send> {
        let admitted = self.admit(&mut request);
        Box::new(async move { admitted?.send(request, options).await })
    }

    fn p2_outgoing_body_chunk_size(&mut self) -> usize {
        CHUNK
    }

    fn p2_error_from_hyper(&mut self, error: &hyper::Error) -> ErrorCode {
        tracing::debug!(target: "t2m_sandbox::http", plugin = %self.plugin, "no HTTP: {error}");
        ErrorCode::HttpProtocolError
    }

    fn p2_error_from_tls(&mut self, error: &io::Error) -> ErrorCode {
        tracing::warn!(target: "t2m_sandbox::http", plugin = %self.plugin, "no TLS: {error}");
        let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<tokio_rustls::rustls::Error>());
        match inner {
            Some(tokio_rustls::rustls::Error::InvalidCertificate(_)) => ErrorCode::TlsCertificateError,
            _ => ErrorCode::TlsProtocolError,
        }
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use http_body_util::{BodyExt, Empty};
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;
    use tokio_rustls::TlsAcceptor;
    use tokio_rustls::rustls::ServerConfig;
    use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};

    use super::*;

    const AUTHORITY: &[u8] = include_bytes!("../testdata/tls/authority.der");
    const LOCALHOST: &[u8] = include_bytes!("../testdata/tls/localhost.der");
    const KEY: &[u8] = include_bytes!("../testdata/tls/localhost.key.der");

    /// A server with the certificate for `localhost` that answers every request with what it was sent.
    async fn serve(listener: TcpListener) {
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(KEY));
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![CertificateDer::from(LOCALHOST)], key)
            .unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        while let Ok((stream, _)) = listener.accept().await {
            let Ok(mut stream) = acceptor.accept(stream).await else { continue };
            let mut head = vec![0; 4096];
            let count = stream.read(&mut head).await.unwrap();
            let answer = format!("HTTP/1.1 200 OK\r\ncontent-length: {count}\r\n\r\n");
            stream.write_all(answer.as_bytes()).await.unwrap();
            stream.write_all(&head[..count]).await.unwrap();
            stream.shutdown().await.unwrap();
        }
    }

    /// What a request got: the body of the answer, or the error.
    async fn ask(outside: &Arc<Outside>, url: &str) -> Result<String, Error> {
        let rules = vec!["https://localhost:*".parse().unwrap(), "https://127.0.0.1:*".parse().unwrap()];
        let (rules, outside) = (rules.into(), Arc::clone(outside));
        let grant = HostGrant { rules, secrets: Arc::new([]), outside };
        let plugin = Arc::new("tls".parse().unwrap());
        let mut http = Http::new(Some((&grant, Effect::Read)), HttpLimits::default(), &plugin);
        let body = Empty::<Bytes>::new().map_err(Error::from).boxed_unsync();
        let request = Request::get(url).body(body).unwrap();
        let sent = http.outgoing.send_request(request, None, Box::new(async { Ok(()) }));
        let (answer, rest) = Box::into_pin(sent).await?;
        let (body, _) = tokio::join!(answer.into_body().collect(), Box::into_pin(rest));
        Ok(String::from_utf8(body?.to_bytes().to_vec()).unwrap())
    }

    /// P05: a server that proves its name gets the request; one with another name, or of an authority that isn't
    /// trusted, doesn't.
    #[tokio::test]
    async fn tls_asks_for_the_name_and_a_trusted_authority() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        tokio::spawn(serve(listener));

        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from(AUTHORITY)).unwrap();
        let trusting = Arc::new(Outside::new(Arc::new(SystemNetwork)));
        trusting.tls.set(Arc::new(client(roots).unwrap())).unwrap();
        let echo = ask(&trusting, &format!("https://localhost:{port}/x?y")).await.unwrap();
        assert!(
            echo.starts_with("GET /x?y HTTP/1.1\r\n")
                && echo.contains(&format!("host: localhost:{port}\r\n"))
        );
        let other = ask(&trusting, &format!("https://127.0.0.1:{port}/")).await;
        assert!(matches!(other, Err(Error::Tls(_))), "{other:?}");

        let usual = Arc::new(Outside::new(Arc::new(SystemNetwork)));
        let unknown = ask(&usual, &format!("https://localhost:{port}/")).await;
        assert!(matches!(unknown, Err(Error::Tls(_))), "{unknown:?}");
    }
}
