//! MathQA programs: each becomes a trace, is compiled, and runs in the sandbox; the answer is the set's.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Map, Value, json};
use t2m_core::compiler::{Claims, Options, compile};
use t2m_core::contract::Contracts;
use t2m_core::dispatch::{Dispatcher, DispatcherParts, Registry, Trust};
use t2m_core::tool::ToolDescriptor;
use t2m_core::trace;
use t2m_core::workflow::{bind_inputs, verify};
use t2m_runtime::{Cancel, MemoryJournal, RunOptions, run};
use t2m_sandbox::{PluginSource, Sandbox, SandboxConfig};
use t2m_tests::{cache_dir, data_dir};

/// How many programs of the public set are run.
const PROGRAMS: usize = 200;

/// The public set lies beside the project; where it doesn't, ten programs of our own stand in.
fn programs() -> Vec<Value> {
    let beside = data_dir("").join("../../../shared/data/mathqa.jsonl.gz");
    let path: PathBuf = std::env::var_os("T2M_MATHQA").map_or(beside, PathBuf::from);
    let own = data_dir("mathqa").join("own.jsonl");
    let text = if path.exists() { unpack(&path) } else { std::fs::read_to_string(own).unwrap() };
    text.lines().take(PROGRAMS).map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn unpack(path: &Path) -> String {
    let mut text = String::new();
    flate2::read::GzDecoder::new(std::fs::File::open(path).unwrap()).read_to_string(&mut text).unwrap();
    text
}

/// The set names arguments by position; the plugin's schema lists its own names in that order.
fn arguments(tool: &ToolDescriptor, call: &Value) -> Map<String, Value> {
    let names = tool.input_schema["required"].as_array().unwrap();
    let values = call["arguments"].as_object().unwrap();
    assert_eq!(names.len(), values.len(), "{}", tool.name);
    let name = |index: usize| names[index].as_str().unwrap().to_owned();
    (0..names.len()).map(|index| (name(index), values[&format!("arg_{index}")].clone())).collect()
}

fn trace_of(program: &Value, tools: &[ToolDescriptor]) -> Value {
    let inputs: Map<String, Value> = program["num_list"]
        .as_array()
        .unwrap()
        .iter()
        .enumerate()
        .map(|(index, value)| (format!("n{index}"), value.clone()))
        .collect();
    let events: Vec<Value> = program["calls"]
        .as_array()
        .unwrap()
        .iter()
        .enumerate()
        .map(|(index, call)| {
            let tool = tools.iter().find(|tool| tool.name.as_str() == call["tool"]).unwrap();
            json!({
                "id": format!("c{index}"), "tool": tool.name, "arguments": arguments(tool, call),
                "result": {"result": call["result"]}, "side_effect": "pure",
            })
        })
        .collect();
    json!({"version": "1", "name": program["id"], "inputs": inputs, "events": events})
}

/// The set's answers are rounded: the result has to round to the decimals that the answer shows.
fn rounds_to(result: f64, answer: &str) -> bool {
    let decimals = answer.split_once('.').map_or(0, |(_, decimals)| decimals.len());
    let half = 0.5 / 10f64.powi(i32::try_from(decimals).unwrap());
    let answer = answer.parse::<f64>().unwrap();
    // An answer shown in full may differ in its last bit.
    (result - answer).abs() <= half + 1e-12 * answer.abs()
}

/// T05, T09: compiled programs give the set's answers when they run in the sandbox.
#[tokio::test(flavor = "multi_thread")]
async fn compiled_programs_give_the_answers_of_the_set() {
    let config = SandboxConfig { cache_dir: Some(cache_dir()), slots: 8, ..SandboxConfig::default() };
    let wasm = std::fs::read(env!("T2M_PLUGIN_MATH")).unwrap();
    let source = PluginSource::new("math".parse().unwrap(), wasm.into());
    let plugin = Sandbox::new(config).unwrap().load(source).await.unwrap();
    let registry = Registry::build([plugin.registration(Trust::BuiltIn)], &Contracts::default()).unwrap();
    let dispatcher = Dispatcher::new(DispatcherParts::new(registry));
    let programs = programs();
    assert!(programs.len() >= 10);
    for program in &programs {
        let id = program["id"].as_str().unwrap();
        let trace = trace::from_value(&trace_of(program, plugin.tools())).unwrap();
        let last = trace.events.last().unwrap().id.clone();
        let compiled = compile(trace, &Options { claims: Claims::Believe, ..Options::default() }).unwrap();
        let verified = Arc::new(verify(compiled.workflow, None).unwrap());
        let options = RunOptions {
            run: id.parse().unwrap(),
            inputs: Arc::new(bind_inputs(&verified, Map::new()).unwrap()),
            concurrency: 4,
            timeout: None,
            cancel: Cancel::default(),
            events: None,
        };
        let report = run(&dispatcher, &verified, &options, &mut MemoryJournal::default()).await.unwrap();
        report.outcome.unwrap_or_else(|(code, message)| panic!("{id}: {code}: {message}"));
        // A last call that repeats an earlier one is deduplicated; its result is the kept node's.
        let dropped = &verified.workflow().source.dropped;
        let same = dropped.iter().find(|d| d.event == last.as_str()).and_then(|d| d.same_as.clone());
        let result = &report.state.results()[&same.unwrap_or(last)]["result"];
        let recorded = &program["calls"].as_array().unwrap().last().unwrap()["result"];
        assert_eq!(result.as_f64(), recorded.as_f64(), "{id}");
        assert!(rounds_to(result.as_f64().unwrap(), &program["answer"].to_string()), "{id}: {result}");
    }
}
