//! Programs that can be run again with other inputs.
//!
//! Owns the counterfactual measure: a program is recorded, compiled, and both run with changed inputs; the
//! workflow is equivalent if the last result is the same. Refuses to know any function: a [`Machine`] calls
//! them and runs workflows.
//!
//! **Invariant:** inputs change by a fixed rule, so equal data gives equal figures.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Number, Value, json};

use super::fraction;
use crate::compiler::{Compiled, Options, compile_all};
use crate::id::NodeId;
use crate::problem::Problems;
use crate::trace::{self, Trace};
use crate::workflow::{Verdict, Workflow};

/// Other inputs that each workflow is tried with.
const TRIALS: u64 = 4;

/// Rules of change tried to find inputs for which a program has a value.
const ATTEMPTS: u64 = 64;

/// Recordings never use the changes that trials use.
const FIRST_TRIAL: u64 = 1000;

/// What calls functions and runs workflows.
pub trait Machine {
    /// The names of a function's arguments, in order.
    fn parameters(&mut self, tool: &str) -> Option<Vec<String>>;
    /// Calls a function; nothing if it has no value there.
    fn call(&mut self, tool: &str, arguments: &Map<String, Value>) -> Option<Value>;
    /// Runs a workflow and gives the result of one node.
    fn run(&mut self, workflow: &Workflow, inputs: &Map<String, Value>, node: &NodeId) -> Option<Value>;
}

/// One program.
#[derive(Debug, Clone, Deserialize)]
pub struct Program {
    /// Its name in the set.
    pub id: String,
    /// Its inputs.
    pub num_list: Vec<f64>,
    /// Its calls.
    pub calls: Vec<Step>,
}

/// One call of a program.
#[derive(Debug, Clone, Deserialize)]
pub struct Step {
    /// The function.
    pub tool: String,
    /// Where each argument comes from: `#k`, `nI`, or a constant.
    pub gold: Vec<String>,
    /// The recorded values, `arg_0` and so on.
    pub arguments: Map<String, Value>,
}

/// Programs under changed inputs, as fractions of 1.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Default)]
pub struct Counterfactual {
    /// Recordings that each workflow is compiled from.
    pub traces: usize,
    /// Programs that could be recorded so often and tried.
    pub programs: usize,
    /// Of those without a value that was left to a person, those that give the true results.
    pub equivalent: f64,
    /// Of all, those with a value that was left to a person.
    pub flagged: f64,
    /// Of the flagged ones, those that give the true results.
    pub flagged_equivalent: f64,
}

impl Program {
    /// The inputs changed by the `seed`th rule; the recorded ones for 0. Equal inputs become unequal.
    fn inputs(&self, seed: u64) -> Vec<f64> {
        let changed = |(index, value): (usize, &f64)| {
            if seed == 0 {
                return *value;
            }
            let mixed = (seed * 31 + index as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let step = (mixed >> 40) % 97 + 1;
            // Whole numbers stay whole, fractions keep their order of size.
            if value.fract() == 0.0 { value + step as f64 } else { value * (1.0 + step as f64 / 128.0) }
        };
        self.num_list.iter().enumerate().map(changed).collect()
    }

    /// The calls with their results under some inputs; nothing if a function has no value there.
    fn record(&self, inputs: &[f64], machine: &mut dyn Machine) -> Option<(Trace, Value)> {
        let mut results: Vec<Value> = Vec::new();
        let mut events = Vec::new();
        for (index, step) in self.calls.iter().enumerate() {
            let names = machine.parameters(&step.tool)?;
            let mut arguments = Map::new();
            for (position, (name, gold)) in names.into_iter().zip(&step.gold).enumerate() {
                let value = if let Some(call) = gold.strip_prefix('#') {
                    results.get(call.parse::<usize>().ok()?)?.get("result")?.clone()
                } else if let Some(input) = gold.strip_prefix('n').and_then(|at| at.parse::<usize>().ok()) {
                    number(*inputs.get(input)?)?
                } else {
                    step.arguments.get(&format!("arg_{position}"))?.clone()
                };
                arguments.insert(name, value);
            }
            let result = machine.call(&step.tool, &arguments)?;
            events.push(json!({
                "id": format!("c{index}"), "tool": step.tool, "arguments": arguments, "result": result,
                "side_effect": "pure",
            }));
            results.push(result);
        }
        let last = results.pop()?.get("result")?.clone();
        let document = json!({"name": self.id, "inputs": named(inputs)?, "events": events});
        Some((trace::from_value(&document).ok()?, last))
    }
}

fn number(value: f64) -> Option<Value> {
    Number::from_f64(value).map(Value::Number)
}

fn named(inputs: &[f64]) -> Option<Map<String, Value>> {
    let pair = |(index, value): (usize, &f64)| Some((format!("n{index}"), number(*value)?));
    inputs.iter().enumerate().map(pair).collect()
}

/// Compiles each program from its recording and `traces - 1` further ones with changed inputs, and compares
/// it with the program for other inputs. `seen` is told of each program that differs, and whether it was
/// flagged.
pub fn counterfactual(
    programs: &[Program],
    traces: usize,
    options: &Options,
    machine: &mut dyn Machine,
    seen: &mut dyn FnMut(&Program, &Compiled, bool),
) -> Result<Counterfactual, Problems> {
    let (mut tried, mut flagged, mut equivalent, mut flagged_equivalent) = (0, 0, 0, 0);
    for program in programs {
        let recordings: Vec<Trace> = (0..FIRST_TRIAL)
            .take(ATTEMPTS as usize)
            .filter_map(|seed| program.record(&program.inputs(seed), machine))
            .map(|(trace, _)| trace)
            .take(traces)
            .collect();
        if recordings.len() < traces {
            continue;
        }
        let compiled = compile_all(recordings, options)?;
        let Some(same) = is_equivalent(program, &compiled.workflow, machine) else { continue };
        tried += 1;
        let is_flagged = is_flagged(&compiled.workflow);
        flagged += usize::from(is_flagged);
        match (same, is_flagged) {
            (true, true) => flagged_equivalent += 1,
            (true, false) => equivalent += 1,
            (false, _) => seen(program, &compiled, is_flagged),
        }
    }
    Ok(Counterfactual {
        traces,
        programs: tried,
        equivalent: fraction(equivalent, tried - flagged),
        flagged: fraction(flagged, tried),
        flagged_equivalent: fraction(flagged_equivalent, flagged),
    })
}

fn is_flagged(workflow: &Workflow) -> bool {
    let left = |verdict| matches!(verdict, Verdict::Ambiguous | Verdict::Choice);
    workflow.nodes.iter().flat_map(|node| &node.decisions).any(|decision| left(decision.verdict))
}

/// Whether program and workflow agree; nothing if the program has no value for any changed inputs.
fn is_equivalent(program: &Program, workflow: &Workflow, machine: &mut dyn Machine) -> Option<bool> {
    let last = NodeId::new(format!("c{}", program.calls.len().checked_sub(1)?)).ok()?;
    let repeated = workflow.source.dropped.iter().find(|dropped| dropped.event == last.as_str());
    let node = repeated.and_then(|dropped| dropped.same_as.clone()).unwrap_or(last);
    let (mut trials, mut same) = (0, true);
    for seed in FIRST_TRIAL..FIRST_TRIAL + ATTEMPTS {
        if trials == TRIALS {
            break;
        }
        let inputs = program.inputs(seed);
        let Some((_, wanted)) = program.record(&inputs, machine) else { continue };
        trials += 1;
        let found = machine.run(workflow, &named(&inputs)?, &node);
        let found = found.as_ref().and_then(|found| found.get("result"));
        same &= found.is_some_and(|found| found.as_f64() == wanted.as_f64());
    }
    (trials > 0).then_some(same)
}
