//! `cargo xtask compare`: `t2m-host serve` beside other MCP servers, measured in one run.
//!
//! It owns the plan: which hosts, how many rounds, what is measured of each. It refuses to judge: it prints
//! figures, and no check depends on them.
//!
//! **Invariant:** hosts take turns within a round, so what slows the machine slows all of them; nothing waits
//! without a limit.

mod figures;
mod hosts;
mod lean;
mod wassette;

use std::io::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};

use crate::shell::{Repo, say};
use figures::Figures;
use hosts::Host;
use lean::Server;

/// How much is measured; the whole takes two to three minutes.
const ROUNDS: usize = 5;
const CALLS: usize = 2_000;
const STARTS: usize = 5;
const MEMORY_CALLS: usize = 1_000;
const IN_FLIGHT: usize = 16;
const BUSY_CALLS: usize = 100;

/// A server that never answers costs every limit, so this part has fewer rounds.
const BUSY_ROUNDS: usize = 3;

/// For everything that a server does by itself.
const LIMIT: Duration = Duration::from_secs(20);

/// For an answer, an end or silence while guests never return: a server that needs longer has failed.
const BUSY_LIMIT: Duration = Duration::from_secs(2);

/// Measures and prints, as one JSON value if `json` is set.
pub(crate) fn run(repo: &Repo, binary: Option<&Path>, json: bool) -> Result<()> {
    let hosts = hosts::all(repo, binary)?;
    let mut figures: Vec<Figures> = hosts.iter().map(|host| Figures::new(host.name)).collect();
    for round in 1..=ROUNDS {
        for (host, figures) in hosts.iter().zip(&mut figures) {
            say(&format!("xtask: round {round} of {ROUNDS}: {}", host.name));
            starts(host, figures).with_context(|| format!("starting {}", host.name))?;
            quiet(host, figures).with_context(|| format!("calling {}", host.name))?;
            if host.spins && round <= BUSY_ROUNDS {
                busy(host, figures).with_context(|| format!("{} while guests spin", host.name))?;
            }
        }
    }
    let text = if json { figures::json(&figures) } else { figures::table(&figures) };
    std::io::stdout().lock().write_all(text.as_bytes()).context("can't write the figures")
}

/// Start to the reply to `initialize`, and to the first result of a tool.
fn starts(host: &Host, figures: &mut Figures) -> Result<()> {
    for _ in 0..STARTS {
        let start = Instant::now();
        let mut server = Server::start(host, LIMIT)?;
        server.initialize()?;
        figures.add("start to initialize", start.elapsed());
        server.first_result(host)?;
        figures.add("start to first result", start.elapsed());
    }
    Ok(())
}

/// Round trips one after another, then side by side, then memory.
fn quiet(host: &Host, figures: &mut Figures) -> Result<()> {
    let mut server = ready(host, LIMIT)?;
    for _ in 0..MEMORY_CALLS {
        server.call(&host.add)?;
    }
    let memory = server.memory()?;
    figures.number("memory after 1,000 calls", "MiB", memory.resident);
    figures.number("of that not of files", "MiB", memory.anonymous);
    for (name, cpu_name, line) in [("ping", "ping: processor", PING), ("call", "call: processor", &host.add)]
    {
        let cpu = server.cpu()?;
        for _ in 0..CALLS {
            let start = Instant::now();
            server.call(line)?;
            figures.add(name, start.elapsed());
        }
        let used = server.cpu()?.saturating_sub(cpu);
        figures.add(cpu_name, used / u32::try_from(CALLS).unwrap_or(1));
    }
    let start = Instant::now();
    server.pipelined(&host.add, CALLS, IN_FLIGHT)?;
    let seconds = start.elapsed().as_secs_f64();
    figures.number("16 calls in flight", "calls/s", count(CALLS) / seconds);
    server.close_input();
    let closed = Instant::now();
    figures.try_add("end of input to exit", server.exit(BUSY_LIMIT).then(|| closed.elapsed()));
    Ok(())
}

/// The same while one guest per core never returns.
fn busy(host: &Host, figures: &mut Figures) -> Result<()> {
    let cores = std::thread::available_parallelism().map_or(2, Into::into);
    let mut server = ready(host, LIMIT)?;
    let ids = server.spin(host, cores, BUSY_LIMIT)?;
    for (name, line) in [("ping, all cores spin", PING), ("call, all cores spin", &host.add)] {
        for _ in 0..BUSY_CALLS {
            let start = Instant::now();
            let answered = server.call_within(line, BUSY_LIMIT)?;
            figures.try_add(name, answered.then(|| start.elapsed()));
            if !answered {
                break;
            }
        }
    }
    figures.try_add("cancel to idle, at most", server.cancel(&ids, BUSY_LIMIT)?);

    let mut server = ready(host, LIMIT)?;
    server.spin(host, cores, BUSY_LIMIT)?;
    server.close_input();
    let closed = Instant::now();
    figures
        .try_add("end of input to exit, all cores spin", server.exit(BUSY_LIMIT).then(|| closed.elapsed()));
    Ok(())
}

/// A server that has answered once.
fn ready(host: &Host, limit: Duration) -> Result<Server> {
    let mut server = Server::start(host, limit)?;
    server.initialize()?;
    server.first_result(host)?;
    Ok(server)
}

const PING: &str = r#""method":"ping""#;

fn count(number: usize) -> f64 {
    u32::try_from(number).map_or(f64::MAX, f64::from)
}
