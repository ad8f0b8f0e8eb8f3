//! How long compiling takes, by number of events.
//!
//! Owns the figure in `ARCHITECTURE.md`: chained events with results of 20 leaves. Refuses files and
//! threads, so that it measures the compiler alone.
//!
//! **Invariant:** time per event doesn't grow with the number of events.

use std::hint::black_box;

use criterion::{BatchSize, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use serde_json::{Map, Value, json};
use t2m_core::compiler::{Claims, Options, compile};
use t2m_core::trace::{Trace, from_value};

/// Each event uses two values of the one before it.
fn chain(count: usize) -> Trace {
    let result = |index: usize| -> Map<String, Value> {
        (0..20)
            .map(|leaf| {
                let value = match leaf % 4 {
                    0 => json!(format!("value-{index}-{leaf}")),
                    1 => json!(index * 1000 + leaf),
                    2 => json!(leaf % 8 == 2),
                    _ => json!("a text that every result has"),
                };
                (format!("field_{leaf}"), value)
            })
            .collect()
    };
    let events: Vec<Value> = (0..count)
        .map(|index| {
            let arguments = match index.checked_sub(1) {
                Some(before) => {
                    json!({"token": format!("value-{before}-0"), "number": before * 1000 + 1, "page": 1})
                }
                None => json!({"query": "start"}),
            };
            json!({"id": format!("e{index}"), "tool": "step", "arguments": arguments, "result": result(index),
                   "side_effect": "read"})
        })
        .collect();
    from_value(&json!({"inputs": {"query": "start"}, "events": events})).unwrap_or_default()
}

fn compile_chains(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("compile");
    group.sample_size(20);
    let options = Options { claims: Claims::Believe, ..Options::default() };
    for count in [250, 500, 1000, 2000] {
        let trace = chain(count);
        group.throughput(Throughput::Elements(count as u64));
        group.bench_with_input(BenchmarkId::from_parameter(count), &trace, |bencher, trace| {
            // The result is dropped outside the measurement and before the next one, as a program would.
            bencher.iter_batched(
                || trace.clone(),
                |trace| compile(black_box(trace), &options),
                BatchSize::PerIteration,
            );
        });
    }
    group.finish();
}

criterion_group!(benches, compile_chains);
criterion_main!(benches);
