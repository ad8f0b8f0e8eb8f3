//! `t2m-host bench`: measurements that a user would compare.
//!
//! Owns reading the data, the plugin that programs run in, and the table. Refuses to judge: it prints figures.
//!
//! **Invariant:** programs run as every workflow does, through the dispatch and in the sandbox.

use std::fmt::Write as _;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use serde_json::{Map, Value, json};
use t2m_core::benchmark::{self, Data, Dataflow, Machine, Measured};
use t2m_core::code::Code;
use t2m_core::compiler::Options;
use t2m_core::contract::Contracts;
use t2m_core::dispatch::{CallRequest, Dispatcher, DispatcherParts, Origin};
use t2m_core::id::{NodeId, RunId, ToolName};
use t2m_core::workflow::{Workflow, bind_inputs, verify};
use t2m_runtime::{Cancel, MemoryJournal, RunOptions};
use tokio::runtime::Runtime;

use crate::args::PluginArgs;
use crate::config::Config;
use crate::exit::Exit;
use crate::failure::{Failure, InFile, Result};
use crate::out::Out;
use crate::{files, plugins};

/// Largest data file, unpacked, in bytes.
const MAX_BYTES: u64 = 1 << 30;

/// First bytes of a gzip file (RFC 1952, section 2.3.1).
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// Measure this program.
#[derive(Debug, clap::Args)]
pub(crate) struct BenchCommand {
    #[command(subcommand)]
    bench: Bench,
}

#[derive(Debug, clap::Subcommand)]
enum Bench {
    /// How well the compiler finds where arguments come from
    Inference(Inference),
}

/// How well the compiler finds where arguments come from.
///
/// The data is JSON lines, gzip or not, of one of two kinds: recorded calls with a gold producer for each
/// argument (ComplexFuncBench's shape), or programs that can be run again (MathQA's). Of the first kind it
/// measures sources and, with `--held-out`, what a workflow makes of other recordings; programs run with changed
/// inputs in the sandbox. A value that is left to a person, with its candidates, counts as flagged.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  t2m-host bench inference --data complexfuncbench.jsonl.gz --held-out --traces 3
  t2m-host bench inference --data mathqa.jsonl.gz --traces 2 --format json")]
struct Inference {
    /// The data
    #[arg(long, value_name = "FILE")]
    data: PathBuf,
    /// Recordings that each workflow is compiled from
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=20))]
    traces: u8,
    /// Also bind each workflow against other recordings of the same calls
    #[arg(long)]
    held_out: bool,
    #[command(flatten)]
    plugins: PluginArgs,
}

impl BenchCommand {
    pub(crate) fn run(self, config: &Config, out: &mut Out) -> Result<Exit> {
        match self.bench {
            Bench::Inference(bench) => bench.run(config, out),
        }
    }
}

impl Inference {
    fn run(self, config: &Config, out: &mut Out) -> Result<Exit> {
        let data = benchmark::read(&unpacked(&self.data)?).in_file(&self.data)?;
        let traces = usize::from(self.traces);
        let start = Instant::now();
        let mut measured = Measured::default();
        match data {
            Data::Dataflow(items) => {
                let options = Options::default();
                let edges = benchmark::edges(&items, &options, &mut |_, _, _| {}).in_file(&self.data)?;
                let held_out = if self.held_out {
                    let held = benchmark::held_out(&items, traces, &options, &mut |_, _, _, _| {});
                    Some(held.in_file(&self.data)?)
                } else {
                    None
                };
                measured.items = items.len();
                measured.dataflow = Some(Dataflow { edges, held_out });
            }
            Data::Programs(programs) => {
                out.note(format!("running {} programs in the sandbox", programs.len()));
                let mut sandboxed = Sandboxed::new(&self.plugins, config)?;
                let options =
                    Options { known_tools: plugins::facts(&sandboxed.described), ..Options::default() };
                let found =
                    benchmark::counterfactual(&programs, traces, &options, &mut sandboxed, &mut |_, _, _| {});
                measured.items = programs.len();
                measured.counterfactual = Some(found.in_file(&self.data)?);
            }
        }
        let seconds = start.elapsed().as_secs_f64();
        out.data(|| table(&measured, seconds), || machine(&measured, seconds));
        Ok(Exit::Done)
    }
}

/// The data, unpacked if it is gzip.
fn unpacked(path: &Path) -> Result<Vec<u8>> {
    let most = usize::try_from(MAX_BYTES).unwrap_or(usize::MAX);
    let bytes = files::read(path, most)?;
    if !bytes.starts_with(&GZIP) {
        return Ok(bytes);
    }
    let mut plain = Vec::new();
    let mut unpacking = flate2::read::MultiGzDecoder::new(bytes.as_slice()).take(MAX_BYTES + 1);
    unpacking
        .read_to_end(&mut plain)
        .map_err(|error| Failure::of_file(path, Code::FileUnreadable, format!("broken gzip: {error}")))?;
    if plain.len() > most {
        let message = format!("larger than {MAX_BYTES} bytes when unpacked");
        return Err(Failure::of_file(path, Code::FileTooLarge, message));
    }
    Ok(plain)
}

/// Runs programs with the loaded plugins.
struct Sandboxed {
    runtime: Runtime,
    dispatcher: Arc<Dispatcher>,
    described: Vec<plugins::Described>,
    runs: u64,
}

impl Sandboxed {
    fn new(args: &PluginArgs, config: &Config) -> Result<Sandboxed> {
        let runtime = super::runtime()?;
        let sandbox = plugins::sandbox(args, config)?;
        let (loaded, described) = runtime.block_on(async {
            let described = plugins::describe(&sandbox, args, config).await?;
            Ok::<_, Failure>((
                plugins::load(&sandbox, args, config, plugins::Lacking::Fails).await?,
                described,
            ))
        })?;
        let dispatcher =
            Dispatcher::new(DispatcherParts::new(plugins::registry(&loaded, &Contracts::default())?));
        Ok(Sandboxed { runtime, dispatcher, described, runs: 0 })
    }

    fn next_run(&mut self) -> Option<RunId> {
        self.runs += 1;
        RunId::new(format!("bench-{}", self.runs)).ok()
    }
}

impl Machine for Sandboxed {
    fn parameters(&mut self, tool: &str) -> Option<Vec<String>> {
        let mut tools = self.described.iter().flat_map(|plugin| &plugin.tools);
        let schema = &tools.find(|known| known.name.as_str() == tool)?.input_schema;
        let names = schema.get("required")?.as_array()?;
        names.iter().map(|name| name.as_str().map(str::to_owned)).collect()
    }

    fn call(&mut self, tool: &str, arguments: &Map<String, Value>) -> Option<Value> {
        let call = CallRequest {
            origin: Origin::Direct,
            run: self.next_run()?,
            node: NodeId::new(tool).ok()?,
            attempt: 1,
            tool: ToolName::new(tool).ok()?,
            arguments: Value::Object(arguments.clone()),
            timeout: None,
        };
        self.runtime.block_on(self.dispatcher.dispatch(call)).ok().map(|reply| reply.value())
    }

    fn run(&mut self, workflow: &Workflow, inputs: &Map<String, Value>, node: &NodeId) -> Option<Value> {
        let verified = Arc::new(verify(workflow.clone(), None).ok()?);
        let options = RunOptions {
            run: self.next_run()?,
            inputs: Arc::new(bind_inputs(&verified, inputs.clone()).ok()?),
            concurrency: 1,
            timeout: None,
            cancel: Cancel::default(),
            events: None,
        };
        let mut journal = MemoryJournal::default();
        let report = self
            .runtime
            .block_on(t2m_runtime::run(&self.dispatcher, &verified, &options, &mut journal))
            .ok()?;
        report.outcome.ok()?;
        report.state.results().get(node).cloned()
    }
}

fn machine(measured: &Measured, seconds: f64) -> Value {
    let mut value = serde_json::to_value(measured).unwrap_or_default();
    if let Some(map) = value.as_object_mut() {
        map.insert("seconds".to_owned(), json!(seconds));
    }
    value
}

fn table(measured: &Measured, seconds: f64) -> String {
    let mut text = String::new();
    let mut line = |name: &str, value: f64| {
        let _ = writeln!(text, "{name:<44} {:6.2} %", value * 100.0);
    };
    if let Some(Dataflow { edges, held_out }) = &measured.dataflow {
        line("edge precision", edges.edge_precision);
        line("edge recall", edges.edge_recall);
        line("path precision", edges.path_precision);
        line("path recall", edges.path_recall);
        line("flagged of all scored arguments", edges.flagged);
        if let Some(held) = held_out {
            line("held out: right", held.right);
            line("held out: wrong value", held.wrong_value);
            line("held out: path missing", held.path_missing);
            line("held out: unbound", held.unbound);
            line("held out: literal bound", held.literal_bound);
            for point in &held.curve {
                line(&format!("  right at confidence {:.2}", point.confidence), point.right);
                line("    wrong value", point.wrong_value);
            }
        }
    }
    if let Some(found) = &measured.counterfactual {
        line("equivalent of programs without a flag", found.equivalent);
        line("flagged programs", found.flagged);
    }
    let _ = write!(text, "{} items in {seconds:.1} s", measured.items);
    text
}
