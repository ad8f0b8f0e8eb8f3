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

use std::sync::{Arc, OnceLock};

use http::{HeaderName, Request, header};
use t2m_core::effect::Effect;
use t2m_core::id::PluginId;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};
use wasmtime::component::ResourceTable;
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
        let versions = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|_| Error::ConfigurationError)?;
        let mut config = versions.with_root_certificates(roots).with_no_client_auth();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Arc::clone(self.tls.get_or_init(|| Arc::new(config))))
    }
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
            tracing::warn!(target: "t2m_sandbox::http", %plugin, "{shown} was refused: no grant covers it, or the tool's effect doesn't");
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
}
