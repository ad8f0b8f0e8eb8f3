//! What a guarded call costs: its stages, beside a bare instance, and how many calls one and two cores make.
//!
//! Every figure is the median over rounds in which all cases take turns, so that what slows the machine slows all
//! of them. `taskset -c 0` shows what one core does, an argument takes only the measurements whose names contain it.

#![expect(clippy::expect_used, reason = "a bench may stop at once")]
#![expect(clippy::print_stdout, reason = "the figures are its output")]

mod host;

use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use host::{dispatcher, request};
use serde_json::{Value, json};
use t2m_core::dispatch::{BoxFuture, CallRequest, ClearedCall, Dispatcher, ToolBackend};
use t2m_core::tool::{Content, Reply, ToolFailure, Usage};
use t2m_sandbox::bench::{self, Parts};
use t2m_sandbox::{Plugin, PluginSource, Sandbox, SandboxConfig};
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinSet;

/// The program's own.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Rounds, and calls of each case in one.
const ROUNDS: usize = 21;
const CALLS: usize = 1_000;

/// Calls in flight of each caller that doesn't wait for the one before.
const IN_FLIGHT: usize = 16;

/// What of the parts of a bare call is measured.
type Part = fn(&Parts) -> Duration;

/// Answers at once, so that what is left is the dispatch.
struct Nothing(Value);

impl ToolBackend for Nothing {
    fn call(&self, _: ClearedCall) -> BoxFuture<'_, Result<Reply, ToolFailure>> {
        Box::pin(async {
            let content = vec![Content::Text { text: "3.0".into() }];
            Ok(Reply { content, structured: Some(self.0.clone()), usage: Usage::default() })
        })
    }
}

/// One guest and the call made to it.
struct Guest {
    name: &'static str,
    wasm: &'static str,
    tool: &'static str,
    arguments: Value,
    /// What it answers.
    answer: Value,
}

/// A guest with everything that calls it.
struct Case {
    guest: Guest,
    /// What a caller has at hand, and its arguments as the bare call has them.
    request: CallRequest,
    text: String,
    plugin: Arc<Plugin>,
    dispatcher: Arc<Dispatcher>,
    checks_only: Arc<Dispatcher>,
}

impl Case {
    fn new(runtime: &Runtime, guest: Guest) -> Case {
        let sandbox = Sandbox::new(SandboxConfig::default()).expect("a sandbox");
        let wasm = std::fs::read(guest.wasm).expect("the guest").into();
        let source = PluginSource::new("guest".parse().expect("a plugin name"), wasm);
        let plugin = runtime.block_on(sandbox.load(source)).expect("the guest loads");
        let checks_only =
            dispatcher(&plugin, |tools| tools.backend = Arc::new(Nothing(guest.answer.clone())));
        let dispatcher = dispatcher(&plugin, |_| ());
        let request = request(guest.tool, &guest.arguments);
        Case { text: guest.arguments.to_string(), request, guest, plugin, dispatcher, checks_only }
    }

    async fn one(&self, dispatcher: &Arc<Dispatcher>) {
        let reply = dispatcher.dispatch(self.request.clone()).await.expect("the call is allowed and works");
        assert!(reply.structured.as_ref() == Some(&self.guest.answer), "{reply:?}");
    }

    /// Calls one after the other.
    async fn in_turn(&self, dispatcher: &Arc<Dispatcher>) {
        for _ in 0..CALLS {
            self.one(dispatcher).await;
        }
    }

    /// Calls that don't wait for each other.
    async fn side_by_side(self: &Arc<Case>) {
        let mut callers = JoinSet::new();
        for _ in 0..IN_FLIGHT {
            let case = Arc::clone(self);
            callers.spawn(async move {
                for _ in 0..CALLS / IN_FLIGHT {
                    case.one(&case.dispatcher).await;
                }
            });
        }
        while let Some(done) = callers.join_next().await {
            done.expect("a caller ends well");
        }
    }

    /// One part of the bare calls.
    async fn part(&self, part: Part) -> Duration {
        let mut sum = Duration::ZERO;
        for _ in 0..CALLS {
            sum += part(&bench::parts(&self.plugin, self.guest.tool, &self.text).await);
        }
        sum
    }

    async fn bare(&self) {
        for _ in 0..CALLS {
            let length = bench::bare(&self.plugin, self.guest.tool, &self.text, false).await;
            assert!(length > 0);
        }
    }
}

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_time().build().expect("a runtime")
}

/// Microseconds a call, in each round.
#[derive(Default)]
struct Figures(Vec<(&'static str, Vec<f64>)>);

impl Figures {
    fn add(&mut self, name: &'static str, whole: Duration) {
        let each = whole.as_secs_f64() * 1e6 / CALLS as f64;
        match self.0.iter_mut().find(|(known, _)| *known == name) {
            Some((_, all)) => all.push(each),
            None => self.0.push((name, vec![each])),
        }
    }

    fn print(mut self, guest: &str) {
        println!("{guest:<44} {:>9} {:>9} {:>9}", "µs", "least", "calls/s");
        for (name, all) in &mut self.0 {
            all.sort_by(f64::total_cmp);
            let (Some(least), Some(median)) = (all.first(), all.get(all.len() / 2)) else { continue };
            println!("  {name:<42} {median:>9.2} {least:>9.2} {:>9.0}", 1e6 / median);
        }
    }
}

/// Both threads start at once, each on a runtime of its own.
fn on_two_threads<F: Future<Output = ()>>(work: impl Fn() -> F + Sync) -> Duration {
    let start = Barrier::new(3);
    std::thread::scope(|scope| {
        let callers = [(); 2].map(|()| {
            scope.spawn(|| {
                let runtime = runtime();
                start.wait();
                runtime.block_on(work());
            })
        });
        start.wait();
        timed(|| callers.map(|caller| caller.join().expect("a caller ends well")))
    })
}

fn timed<T>(work: impl FnOnce() -> T) -> Duration {
    let start = Instant::now();
    drop(work());
    start.elapsed()
}

/// Makes every measurement of a guest once whose name contains `wanted`.
fn round(runtime: &Runtime, case: &Arc<Case>, wanted: &str, figures: &mut Figures) {
    let mut measure = |name: &'static str, work: &dyn Fn() -> Duration| {
        if name.contains(wanted) {
            figures.add(name, work());
        }
    };
    let parts: [(_, Part); 4] = [
        ("bare: store", |parts| parts.store),
        ("bare: instance", |parts| parts.instance),
        ("bare: guest", |parts| parts.guest),
        ("bare: end", |parts| parts.end),
    ];
    for (name, part) in parts {
        measure(name, &|| runtime.block_on(case.part(part)));
    }
    measure("bare", &|| timed(|| runtime.block_on(case.bare())));
    measure("checks alone", &|| timed(|| runtime.block_on(case.in_turn(&case.checks_only))));
    measure("guarded, one after the other", &|| timed(|| runtime.block_on(case.in_turn(&case.dispatcher))));
    measure("guarded, 16 in flight", &|| timed(|| runtime.block_on(case.side_by_side())));
    measure("bare, two threads", &|| on_two_threads(|| case.bare()) / 2);
    measure("guarded, two threads, 16 in flight each", &|| on_two_threads(|| case.side_by_side()) / 2);
}

fn main() {
    // Cargo's own option for benches comes before.
    let wanted = std::env::args().skip(1).find(|argument| argument != "--bench").unwrap_or_default();
    let runtime = runtime();
    let guests = [
        Guest {
            name: "counter (small)",
            wasm: env!("T2M_PLUGIN_COUNTER"),
            tool: "count",
            arguments: json!({"rounds": 0}),
            answer: json!({"count": 1}),
        },
        Guest {
            name: "math (49 tools)",
            wasm: env!("T2M_PLUGIN_MATH"),
            tool: "add",
            arguments: json!({"a": 1, "b": 2}),
            answer: json!({"result": 3}),
        },
    ];
    let cases = guests.map(|guest| Arc::new(Case::new(&runtime, guest)));
    for case in cases {
        let mut figures = Figures::default();
        for _ in 0..ROUNDS {
            round(&runtime, &case, &wanted, &mut figures);
        }
        figures.print(case.guest.name);
    }
}
