//! The compiler's figures on a public set, without a sandbox: the fast loop while rules change.
//!
//! `cargo run --release -p t2m-core --example inference -- FILE [--seen] [--choices]`
//!
//! Owns an evaluator of the arithmetic functions of program sets. Refuses everything else: `t2m-host bench
//! inference` runs the same measures with real plugins.

use std::collections::BTreeMap;
use std::io::Write;

use serde_json::{Map, Value, json};
use t2m_core::benchmark::{self, Data, Machine};
use t2m_core::compiler::Options;
use t2m_core::id::NodeId;
use t2m_core::workflow::{Scope, Workflow};

struct Local;

impl Machine for Local {
    fn parameters(&mut self, tool: &str) -> Option<Vec<String>> {
        let names: &[&str] = match tool {
            "add" | "subtract" | "multiply" | "divide" => &["a", "b"],
            "power" => &["base", "exponent"],
            "inverse" | "sqrt" => &["a"],
            "speed" => &["distance", "time"],
            "rectangle_area" => &["length", "width"],
            "square_area" | "square_perimeter" => &["side"],
            "triangle_area" => &["base", "height"],
            "volume_cube" => &["edge"],
            "quadrilateral_area" => &["diagonal", "offset_1", "offset_2"],
            "volume_rectangular_prism" => &["length", "width", "height"],
            "volume_cylinder" => &["radius", "height"],
            "circle_area" | "circumface" => &["radius"],
            _ => return None,
        };
        Some(names.iter().map(|name| (*name).to_owned()).collect())
    }

    fn call(&mut self, tool: &str, arguments: &Map<String, Value>) -> Option<Value> {
        let names = self.parameters(tool)?;
        let numbers: Option<Vec<f64>> = names.iter().map(|name| arguments.get(name)?.as_f64()).collect();
        let pi = std::f64::consts::PI;
        let result = match (tool, numbers?.as_slice()) {
            ("add", [a, b]) => a + b,
            ("subtract", [a, b]) => a - b,
            ("multiply" | "rectangle_area", [a, b]) => a * b,
            ("divide" | "speed", [a, b]) if *b != 0.0 => a / b,
            ("power", [a, b]) => a.powf(*b),
            ("inverse", [a]) if *a != 0.0 => 1.0 / a,
            ("sqrt", [a]) => a.sqrt(),
            ("square_area", [a]) => a * a,
            ("square_perimeter", [a]) => 4.0 * a,
            ("triangle_area", [a, b]) => a * b / 2.0,
            ("volume_cube", [a]) => a.powi(3),
            ("quadrilateral_area", [a, b, c]) => a * (b + c) / 2.0,
            ("volume_rectangular_prism", [a, b, c]) => a * b * c,
            ("volume_cylinder", [r, h]) => pi * r * r * h,
            ("circle_area", [r]) => pi * r * r,
            ("circumface", [r]) => 2.0 * pi * r,
            _ => return None,
        };
        if !result.is_finite() {
            return None;
        }
        let whole = result.fract() == 0.0 && result.abs() <= 9e15;
        Some(if whole { json!({"result": result as i64}) } else { json!({ "result": result }) })
    }

    fn run(&mut self, workflow: &Workflow, inputs: &Map<String, Value>, node: &NodeId) -> Option<Value> {
        let mut all: Map<String, Value> = Map::new();
        for (name, input) in &workflow.inputs {
            let value = inputs.get(name).cloned().or_else(|| input.default.clone())?;
            all.insert(name.clone(), value);
        }
        let mut results = BTreeMap::new();
        for node in &workflow.nodes {
            let made = node.arguments.resolve(Scope { inputs: &all, results: &results }).ok()?;
            let result = self.call(node.tool.as_str(), made.as_object()?)?;
            results.insert(node.id.clone(), result);
        }
        results.remove(node)
    }
}

fn tool_of(item: &benchmark::Item, call: usize) -> &str {
    item.calls.get(call).map_or("", |call| call.name.as_str())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let has = |word: &str| words.iter().any(|given| given == word);
    let file = words.first().ok_or("which file?")?;
    let options = Options { bind_list_choices: has("--choices"), ..Options::default() };
    let seen = has("--seen");
    let mut out = std::io::stdout().lock();
    match benchmark::read(&std::fs::read(file)?).map_err(|problems| problems.to_string())? {
        Data::Dataflow(items) => {
            // Halves by template, so that a rule that only helps one half shows.
            let mut templates: Vec<Vec<&str>> = Vec::new();
            let mut fold = Vec::new();
            for item in &items {
                let template = item.template();
                let known = templates.iter().position(|known| *known == template);
                fold.push(known.unwrap_or(templates.len()) % 2);
                if known.is_none() {
                    templates.push(template);
                }
            }
            for part in [None, Some(0), Some(1)] {
                let chosen: Vec<_> = items
                    .iter()
                    .zip(&fold)
                    .filter(|(_, fold)| part.is_none_or(|part| part == **fold))
                    .map(|(item, _)| item.clone())
                    .collect();
                let verbose = seen && part.is_none();
                let mut lines = Vec::new();
                let edges = benchmark::edges(&chosen, &options, &mut |item, gold, found| {
                    if verbose {
                        lines.push(format!(
                            "EDGE {} {} {gold:?} {found:?}",
                            item.id,
                            tool_of(item, gold.call)
                        ));
                    }
                });
                writeln!(out, "{part:?} {:?}", edges.map_err(|problems| problems.to_string())?)?;
                for traces in [1, 3] {
                    let held = benchmark::held_out(&chosen, traces, &options, &mut |from, to, gold, text| {
                        if verbose {
                            let text: String = text.chars().take(200).collect();
                            let call = tool_of(to, gold.call);
                            lines.push(format!(
                                "HELD{traces} {} {} {call} {:?} {text}",
                                from.id, to.id, gold.arg_path
                            ));
                        }
                    });
                    let held = held.map_err(|problems| problems.to_string())?;
                    writeln!(
                        out,
                        "  {traces}: right {:.4} wrong {:.4} missing {:.4} unbound {:.4} literal {:.4} of {} pairs",
                        held.right,
                        held.wrong_value,
                        held.path_missing,
                        held.unbound,
                        held.literal_bound,
                        held.pairs
                    )?;
                    for point in held.curve.iter().filter(|_| part.is_none()) {
                        writeln!(out, "    {point:?}")?;
                    }
                }
                for line in lines {
                    writeln!(out, "{line}")?;
                }
            }
        }
        Data::Programs(programs) => {
            for traces in [1, 2, 3] {
                let mut lines = Vec::new();
                let figures = benchmark::counterfactual(
                    &programs,
                    traces,
                    &options,
                    &mut Local,
                    &mut |program, compiled, flagged| {
                        let shown: Vec<String> = compiled
                            .workflow
                            .nodes
                            .iter()
                            .map(|node| node.arguments.sketch().to_string())
                            .collect();
                        lines.push(format!(
                            "DIFF {traces} {} flagged {flagged} {:?} {:?} {shown:?}",
                            program.id,
                            program.num_list,
                            program.calls.iter().map(|call| (&call.tool, &call.gold)).collect::<Vec<_>>()
                        ));
                    },
                );
                writeln!(out, "{:?}", figures.map_err(|problems| problems.to_string())?)?;
                for line in lines.iter().filter(|_| seen) {
                    writeln!(out, "{line}")?;
                }
            }
        }
    }
    Ok(())
}
