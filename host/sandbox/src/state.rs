//! What the host keeps for one instance, and the imports of `t2m:plugin` that it serves from there.
//!
//! Owns the store's data: counters, budgets, handles, captured output and the call being served. Refuses to
//! outlive the call.
//!
//! **Invariant:** when a budget is used up, [`State::stopped`] says which, and the guest never runs on.

use std::sync::Arc;
use std::time::{Duration, Instant};

use t2m_core::code::Code;
use t2m_core::digest::Digest;
use t2m_core::dispatch::ClearedCall;
use t2m_core::effect::Effect;
use t2m_core::id::PluginId;
use t2m_core::terminal::steers;
use wasmtime::component::ResourceTable;
use wasmtime_wasi::filesystem::WasiFilesystemView;
use wasmtime_wasi::p2::pipe::MemoryOutputPipe;
use wasmtime_wasi::{WasiCtx, WasiCtxBuilder, WasiCtxView, WasiView};
use wasmtime_wasi_http::WasiHttpCtxView;

use crate::bindings::{context, log, secrets, tools, types};
use crate::clock::{COARSE_MS, ClockView, Date, Seed, VirtualClock};
use crate::convert;
use crate::disk::{Files, Written};
use crate::grants::OpenGrants;
use crate::http::{Breach, Http, Meter as HttpMeter};
use crate::kv::KvGrant;
use crate::limits::{Limits, Meter};
use crate::ticker::Running;
use crate::workers::Long;

/// Bytes that a log line costs beyond its text, so that empty lines are not free.
const LOG_LINE_COST: u64 = 16;

/// What an instance was made for.
pub(crate) enum Serving {
    /// Nothing yet: it waits for its call.
    Nothing,
    /// To say what the component of this digest offers.
    Describe(Digest),
    /// To run one tool.
    Call(ClearedCall),
}

impl Serving {
    fn node(&self) -> &str {
        match self {
            Serving::Nothing | Serving::Describe(_) => "",
            Serving::Call(call) => call.context().node.as_str(),
        }
    }
}

/// The data of one store.
pub(crate) struct State {
    pub(crate) meter: Meter,
    /// The limit that a host function found broken.
    pub(crate) stopped: Option<Code>,
    /// Bytes logged so far.
    pub(crate) log_bytes: u64,
    /// What is told when the guest has computed for longer than a tick.
    pub(crate) long: Option<Long>,
    log_lines: u32,
    plugin: Arc<PluginId>,
    serving: Serving,
    limits: Limits,
    /// Until when what is being served may run.
    deadline: Option<Instant>,
    table: ResourceTable,
    /// Made when the guest first asks for a folder.
    written: Option<Arc<Written>>,
    /// Made when the guest first asks for it: most calls never do, and its seed takes a hash.
    wasi: Option<Box<WasiCtx>>,
    /// What a call with granted hosts sends. Without one it is made when the guest asks, and refuses everything.
    http: Option<Box<Http>>,
    /// Where a call keeps values, if its plugin may.
    kv: Option<KvGrant>,
    /// The date of a call that may read one that isn't its run's.
    date: Option<Date>,
    clock: VirtualClock,
    /// Standard output and standard error, once the guest can write there.
    output: Option<[MemoryOutputPipe; 2]>,
    /// Bytes of both that were handed to the log.
    reported: [usize; 2],
    /// The guest called a function of the host.
    host_was_used: bool,
    /// The epoch moves while this is there.
    running: Option<Running>,
}

impl State {
    /// A state for which nothing has begun: no call, no grant, no time of its own.
    pub(crate) fn new(plugin: &Arc<PluginId>, limits: Limits) -> State {
        let mut table = ResourceTable::new();
        table.set_max_capacity(limits.handles);
        State {
            meter: Meter::new(limits),
            stopped: None,
            log_bytes: 0,
            long: None,
            log_lines: 0,
            plugin: Arc::clone(plugin),
            serving: Serving::Nothing,
            limits,
            deadline: None,
            table,
            written: None,
            wasi: None,
            http: None,
            kv: None,
            date: None,
            clock: VirtualClock::default(),
            output: None,
            reported: [0; 2],
            host_was_used: false,
            running: None,
        }
    }

    /// Begins what the instance is for. `grants` come with the effect that the call may have, and are left out
    /// when a component is only asked what it offers.
    pub(crate) fn begin(
        &mut self,
        serving: Serving,
        start: Instant,
        wall: Duration,
        grants: Option<(&OpenGrants, Effect)>,
        long: Long,
        running: Running,
    ) -> wasmtime::Result<()> {
        self.serving = serving;
        // What a start that ran ahead of its call made knows of no call.
        self.wasi = None;
        self.http = None;
        self.kv = grants.and_then(|(grants, effect)| grants.kv(effect));
        self.date = grants.and_then(|(grants, effect)| grants.date(effect));
        if let Some((grants, effect)) = grants
            && let Some(hosts) = grants.hosts()
        {
            self.http = Some(Box::new(Http::new(Some((hosts, effect)), self.limits.http, &self.plugin)));
        }
        if let Some((grants, effect)) = grants
            && grants.has_wasi()
        {
            let mut wasi = self.wasi_of_call();
            grants.install(&mut wasi, effect)?;
            self.wasi = Some(Box::new(wasi.build()));
        }
        self.deadline = Some(start + wall);
        self.long = Some(long);
        self.running = Some(running);
        Ok(())
    }

    /// Output, chance and time of what is being served; nothing of the host's own but a granted date.
    fn wasi_of_call(&mut self) -> WasiCtxBuilder {
        let mut wasi = WasiCtxBuilder::new();
        let pipe = |()| MemoryOutputPipe::new(self.limits.stdio_bytes);
        let [stdout, stderr] = self.output.get_or_insert_with(|| [(); 2].map(pipe));
        wasi.stdout(stdout.clone()).stderr(stderr.clone());
        let (seed, run) = match &self.serving {
            Serving::Nothing => (Seed::of_call("", "", 0), ""),
            Serving::Describe(component) => (Seed::of_component(*component), ""),
            Serving::Call(call) => {
                let about = call.context();
                let (run, node) = (about.run.as_str(), about.node.as_str());
                (Seed::of_call(run, node, about.attempt), run)
            }
        };
        seed.install(&mut wasi);
        self.clock.install(&mut wasi, run, self.date);
        wasi
    }

    /// Lets an instance start for which no call has come yet.
    pub(crate) fn start(&mut self, long: Long, running: Running) {
        self.long = Some(long);
        self.running = Some(running);
    }

    /// Says that the guest doesn't compute any more.
    pub(crate) fn rest(&mut self) {
        self.running = None;
    }

    /// Whether the guest has called a function of the host, so that what it holds may depend on the answer.
    pub(crate) fn host_was_used(&self) -> bool {
        self.host_was_used
    }

    /// The state itself, for the linker.
    pub(crate) fn of_host(&mut self) -> &mut State {
        self.host_was_used = true;
        self
    }

    /// The way to the clock, for the linker.
    pub(crate) fn clock(&mut self) -> ClockView<'_> {
        self.host_was_used = true;
        ClockView { clock: &self.clock, table: &mut self.table }
    }

    /// The way to granted folders, for the linker.
    pub(crate) fn files(&mut self) -> Files<'_> {
        let limits = self.limits;
        let written = Arc::clone(self.written.get_or_insert_with(|| Written::new(limits)));
        Files { wasi: self.filesystem(), written }
    }

    /// Bytes written in granted folders.
    pub(crate) fn written_bytes(&self) -> u64 {
        self.written.as_ref().map_or(0, |written| written.bytes())
    }

    /// The table of handles, for the linker.
    pub(crate) fn table(&mut self) -> &mut ResourceTable {
        self.host_was_used = true;
        &mut self.table
    }

    /// The way to granted hosts, for the linker.
    pub(crate) fn http(&mut self) -> WasiHttpCtxView<'_> {
        self.host_was_used = true;
        let (limits, plugin) = (self.limits.http, &self.plugin);
        self.http.get_or_insert_with(|| Box::new(Http::new(None, limits, plugin))).view(&mut self.table)
    }

    /// What the call may use.
    pub(crate) fn limits(&self) -> Limits {
        self.limits
    }

    /// The store of the call, if there is one.
    pub(crate) fn kv(&self) -> Option<&KvGrant> {
        self.kv.as_ref()
    }

    /// The counts of a call that may send requests.
    pub(crate) fn http_meter(&self) -> Option<&Arc<HttpMeter>> {
        self.http.as_ref().map(|http| http.meter())
    }

    /// The limit of HTTP that the call broke.
    pub(crate) fn http_breach(&self) -> Option<Breach> {
        self.http_meter()?.breach()
    }

    /// Nested calls that the guest made.
    pub(crate) fn nested_calls(&self) -> u32 {
        match &self.serving {
            Serving::Nothing | Serving::Describe(_) => 0,
            Serving::Call(call) => call.nested().made(),
        }
    }

    /// What the guest wrote to standard error.
    pub(crate) fn stderr_text(&self) -> String {
        let written = self.output.as_ref().map(|[_, stderr]| stderr.contents()).unwrap_or_default();
        String::from_utf8_lossy(&written).into_owned()
    }

    /// Begins to count anew, for an instance that goes on to its next call. What it holds still counts.
    pub(crate) fn renew(&mut self) {
        self.meter.renew();
        self.written = None;
        (self.stopped, self.log_bytes, self.log_lines) = (None, 0, 0);
    }

    /// Hands captured output to the operator's log, each byte once.
    pub(crate) fn report_output(&mut self) {
        let Some(output) = &self.output else { return };
        for ((stream, pipe), reported) in ["stdout", "stderr"].into_iter().zip(output).zip(&mut self.reported)
        {
            let bytes = pipe.contents();
            let bytes = bytes.get(*reported..).unwrap_or_default();
            *reported += bytes.len();
            if !bytes.is_empty() {
                let text = printable(&String::from_utf8_lossy(bytes));
                tracing::debug!(target: "t2m_sandbox::guest", plugin = %self.plugin, node = self.serving.node(), stream, "{text}");
            }
        }
    }

    fn stop(&mut self, code: Code) -> wasmtime::Error {
        self.stopped = Some(code);
        wasmtime::Error::msg(code.as_str())
    }
}

/// A guest's words without characters that move a terminal's cursor or fake a line of the log.
pub(crate) fn printable(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if steers(c) {
            out.extend(c.escape_unicode());
        } else {
            out.push(c);
        }
    }
    out
}

impl WasiView for State {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        self.host_was_used = true;
        let ctx = match self.wasi.take() {
            Some(ctx) => ctx,
            None => Box::new(self.wasi_of_call().build()),
        };
        WasiCtxView { ctx: self.wasi.insert(ctx), table: &mut self.table }
    }
}

impl types::Host for State {}

impl log::Host for State {
    fn log(&mut self, level: log::Level, message: String) -> wasmtime::Result<()> {
        let cost = LOG_LINE_COST.saturating_add(message.len() as u64);
        self.log_bytes = self.log_bytes.saturating_add(cost);
        self.log_lines = self.log_lines.saturating_add(1);
        if self.log_bytes > self.limits.log_bytes || self.log_lines > self.limits.log_lines {
            return Err(self.stop(Code::SandboxLog));
        }
        macro_rules! write {
            ($level:ident) => {
                tracing::event!(
                    target: "t2m_sandbox::guest", tracing::Level::$level,
                    plugin = %self.plugin, node = self.serving.node(), "{}", printable(&message)
                )
            };
        }
        match level {
            log::Level::Trace => write!(TRACE),
            log::Level::Debug => write!(DEBUG),
            log::Level::Info => write!(INFO),
            log::Level::Warn => write!(WARN),
            log::Level::Error => write!(ERROR),
        }
        Ok(())
    }
}

impl secrets::Host for State {
    fn get(&mut self, name: String) -> wasmtime::Result<Option<String>> {
        Ok(self.http.as_ref().and_then(|http| http.secret(&name)))
    }
}

impl context::Host for State {
    fn current(&mut self) -> wasmtime::Result<context::CallContext> {
        let Serving::Call(call) = &self.serving else {
            return Err(wasmtime::Error::msg("no call is being served"));
        };
        let about = call.context();
        let left = self.deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        let left = u64::try_from(left.unwrap_or_default().as_millis()).unwrap_or(u64::MAX);
        Ok(context::CallContext {
            run_id: about.run.to_string(),
            node_id: about.node.to_string(),
            attempt: about.attempt,
            idempotency_key: about.idempotency_key(),
            deadline_ms: left - left % u64::from(COARSE_MS),
        })
    }
}

impl tools::Host for State {
    async fn call(
        &mut self,
        tool: String,
        arguments: String,
    ) -> wasmtime::Result<Result<types::ToolResult, types::ToolError>> {
        let Serving::Call(call) = &self.serving else {
            return Ok(Err(convert::refusal(Code::CallUnverified, "only a call may call tools")));
        };
        let limits = t2m_core::json::Limits { bytes: self.limits.transfer_bytes, ..Default::default() };
        let arguments = match t2m_core::json::parse(arguments.as_bytes(), limits) {
            Ok(arguments) => arguments,
            Err(problems) => {
                return Ok(Err(convert::refusal(Code::ArgumentsInvalid, &problems.to_string())));
            }
        };
        let answer = call.nested().call(&tool, arguments).await;
        Ok(answer.map(convert::to_guest).map_err(convert::error_to_guest))
    }
}
