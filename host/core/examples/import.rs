//! Imports recordings and prints one line about each: counts, speed, and the most memory that was used.
//!
//! Owns the figures about importing in `ARCHITECTURE.md`. Refuses to write traces: `t2m-host import` does.
//!
//! **Invariant:** a file is read as a stream, as the command line does.
#![expect(clippy::print_stdout, reason = "an example's output is what it is for")]

use std::fs::File;
use std::io::BufReader;
use std::time::Instant;

use t2m_core::json::Limits;
use t2m_core::trace::import::{ImportOptions, import};

/// The program's own.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let verbose = std::env::args().any(|argument| argument == "-v");
    for path in std::env::args().skip(1).filter(|path| path != "-v") {
        let limits = Limits { bytes: usize::MAX, ..Limits::default() };
        let options = ImportOptions { limits, ..ImportOptions::default() };
        let reader = BufReader::with_capacity(1 << 18, File::open(&path)?);
        let begun = Instant::now();
        match import(reader, &options) {
            Err(problems) => println!("{path}: {problems}"),
            Ok(made) => {
                let report = &made.report;
                let seconds = begun.elapsed().as_secs_f64();
                println!(
                    "{path}: {} {}/{}/{}/{}/{}/{} {:.0} MB/s, kept {} bytes, most memory {}",
                    made.format,
                    report.calls,
                    report.answered,
                    report.failed,
                    report.unanswered,
                    report.duplicates,
                    report.left_out,
                    report.bytes as f64 / 1e6 / seconds,
                    report.kept_bytes,
                    most_memory(),
                );
                if verbose {
                    report.skipped.iter().for_each(|part| println!("  {}: {}", part.place, part.reason));
                    report.warnings.iter().for_each(|warning| println!("  {warning}"));
                }
            }
        }
    }
    Ok(())
}

/// As the system says it, where it does.
fn most_memory() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.unwrap_or("unknown").trim().to_owned()
}
