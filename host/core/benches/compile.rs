//! How long compiling takes, by number of events.
//!
//! Owns the figure in `ARCHITECTURE.md`: chained events with results of 20 leaves. Refuses files and
//! threads, so that it measures the compiler alone.
//!
//! **Invariant:** time per event doesn't grow with the number of events.

use std::hint::black_box;

use criterion::{BatchSize, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use t2m_core::compiler::{Claims, Options, compile};

mod chain;

use chain::chain;

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
