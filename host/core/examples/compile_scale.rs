//! How compiling grows with the number of events: time, processor time and memory, as a table.
//!
//! Owns the measurement of chained events with results of 20 leaves. Refuses to measure two sizes in one
//! process, since the second would find the first one's memory.
//!
//! **Invariant:** each figure comes from a process of its own, and reading or making the trace doesn't count.
//!
//! `cargo run --release -p t2m-core --example compile_scale [-- COUNT...]`

use std::io::Write as _;
use std::process::Command;
use std::time::Instant;

use t2m_core::compiler::{Options, compile};
use t2m_core::trace::Trace;

#[path = "../benches/chain/mod.rs"]
mod chain;

use chain::chain;

/// Sizes that are measured if none is named.
const SIZES: [usize; 7] = [1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000];

/// Small sizes are repeated, and the least time counts: anything else that runs only adds.
const ROUNDS: usize = 3;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let mut out = std::io::stdout();
    if let [flag, count] = arguments.as_slice()
        && flag == "--one"
    {
        writeln!(out, "{}", measure(count.parse()?)?)?;
        return Ok(());
    }
    let named: Vec<usize> = arguments.iter().map(|text| text.parse()).collect::<Result<_, _>>()?;
    let sizes = if named.is_empty() { SIZES.to_vec() } else { named };
    writeln!(
        out,
        "{:>8} {:>9} {:>9} {:>9} {:>9} {:>9}",
        "events", "s", "µs/event", "cpu s", "trace MB", "peak MB"
    )?;
    for size in sizes {
        let (mut seconds, mut cpu, mut before, mut peak) = (f64::MAX, f64::MAX, f64::MAX, f64::MAX);
        for _ in 0..ROUNDS {
            let output =
                Command::new(std::env::current_exe()?).args(["--one", &size.to_string()]).output()?;
            let text = String::from_utf8(output.stdout)?;
            let figures: Vec<f64> = text.split_whitespace().map(str::parse).collect::<Result<_, _>>()?;
            let [took, used, started, most] = figures.as_slice() else {
                return Err(String::from_utf8_lossy(&output.stderr).into());
            };
            (seconds, cpu) = (seconds.min(*took), cpu.min(*used));
            (before, peak) = (before.min(*started), peak.min(*most));
        }
        let each = seconds * 1e6 / size as f64;
        writeln!(out, "{size:>8} {seconds:>9.4} {each:>9.2} {cpu:>9.4} {before:>9.1} {peak:>9.1}")?;
    }
    Ok(())
}

/// Seconds, those of processors, and the memory in MB before and at most.
fn measure(count: usize) -> Result<String, Box<dyn std::error::Error>> {
    // The system counts in hundredths of a second, so small sizes are repeated.
    let rounds = (20_000 / count).max(1);
    let mut traces: Vec<Trace> = (0..rounds).map(|_| chain(count)).collect();
    let before = memory("VmRSS:")?;
    let mut last = None;
    let (clock, start) = (Instant::now(), cpu_seconds()?);
    while let Some(trace) = traces.pop() {
        last = Some(compile(
            trace,
            &Options { claims: t2m_core::compiler::Claims::Believe, ..Options::default() },
        ));
    }
    let seconds = clock.elapsed().as_secs_f64() / rounds as f64;
    let cpu = (cpu_seconds()? - start) / rounds as f64;
    let compiled = last.ok_or("nothing was compiled")?;
    let compiled = compiled.map_err(|problems| problems.to_string())?;
    // The number of the second event is too small to be known again.
    if compiled.report.references + 3 != 2 * count {
        return Err(format!("{} references", compiled.report.references).into());
    }
    Ok(format!("{seconds} {cpu} {before} {}", memory("VmHWM:")?))
}

/// Processor time of this process outside the kernel, so that whatever else runs doesn't count.
fn cpu_seconds() -> Result<f64, Box<dyn std::error::Error>> {
    let text = std::fs::read_to_string("/proc/self/stat")?;
    // The fields behind the program's name, which may hold blanks.
    let rest = text.rsplit_once(')').map_or("", |(_, rest)| rest);
    let ticks: f64 = rest.split_whitespace().nth(11).unwrap_or_default().parse()?;
    Ok(ticks / 100.0)
}

fn memory(field: &str) -> Result<f64, Box<dyn std::error::Error>> {
    let text = std::fs::read_to_string("/proc/self/status")?;
    let line = text.lines().find_map(|line| line.strip_prefix(field)).unwrap_or_default();
    let kib: f64 = line.trim().trim_end_matches(" kB").parse()?;
    Ok(kib * 1024.0 / 1e6)
}
