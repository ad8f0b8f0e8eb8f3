//! `t2m-host plugin watch`: test again whenever something changes.
//!
//! Owns the rounds. Refuses to end at a broken build or a failing case.
//!
//! **Invariant:** a change during a round leads to one more round, and a round by itself to none.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde_json::json;

use super::super::run::asked_to_stop;
use super::test;
use crate::author;
use crate::author::sources::{OwnWork, Snapshot, shown};
use crate::component::Component;
use crate::config::Config;
use crate::exit::Exit;
use crate::failure::Result;
use crate::out::Out;

/// How often the files are looked at: sooner than a person expects an answer.
const LOOK: Duration = Duration::from_millis(200);

/// Test again whenever a file of the plugin changes.
///
/// Each round builds the plugin and runs its cases: one line, and the failures. Ctrl-C ends it.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  t2m-host plugin watch my-plugin")]
pub(crate) struct Watch {
    /// The plugin's folder
    #[arg(default_value = ".", value_name = "DIR")]
    path: PathBuf,
    /// Only cases whose name contains this
    #[arg(long, value_name = "TEXT")]
    filter: Option<String>,
    /// Folder for compiled plugins [default: `t2m-host` in the user's cache folder]
    #[arg(long, env = "T2M_CACHE_DIR", value_name = "DIR")]
    cache_dir: Option<PathBuf>,
}

impl Watch {
    pub(crate) async fn run(self, config: &Config, out: &mut Out) -> Result<Exit> {
        // A folder that is no plugin is a mistake now; later its manifest may be broken for a while.
        Component::find(&self.path)?;
        let rounds = self.rounds(config, out);
        tokio::select! {
            ended = rounds => ended,
            () = asked_to_stop() => Ok(Exit::Done),
        }
    }

    async fn rounds(&self, config: &Config, out: &mut Out) -> Result<Exit> {
        let mut own = OwnWork::default();
        let mut component = Component::find(&self.path)?;
        for number in 1_u64.. {
            let before = Snapshot::take(&component);
            let start = Instant::now();
            let line = self.round(config, out).await;
            report(number, start.elapsed(), line, out);
            // The manifest may name other outputs by now.
            if let Ok(found) = Component::find(&self.path) {
                component = found;
            }
            let mut seen = Snapshot::take(&component);
            if own.calls_for_round(before.changes(&seen)) {
                continue;
            }
            loop {
                tokio::time::sleep(LOOK).await;
                let now = Snapshot::take(&component);
                let changes = seen.changes(&now);
                if let Some(first) = changes.first() {
                    own.changed_alone(&changes);
                    let more = if changes.len() > 1 {
                        format!(" and {} more", changes.len() - 1)
                    } else {
                        String::new()
                    };
                    out.note(format!("changed: {}{more}", shown(first, &component)));
                    break;
                }
                seen = now;
            }
        }
        Ok(Exit::Done)
    }

    async fn round(&self, config: &Config, out: &mut Out) -> Result<Option<test::Round>> {
        let component = Component::find(&self.path)?;
        author::build::build(&component, out).await?;
        test::round(&component, config, self.cache_dir.clone(), self.filter.as_deref(), false, out).await
    }
}

fn report(number: u64, time: Duration, round: Result<Option<test::Round>>, out: &mut Out) {
    let took = test::seconds(time);
    match round {
        Ok(Some(round)) if out.is_json() => {
            let mut value = round.json();
            if let Some(map) = value.as_object_mut() {
                map.insert("round".into(), json!(number));
            }
            out.raw(&value.to_string());
        }
        Ok(Some(round)) => {
            let lines = std::iter::once(format!("round {number}: {} ({took})", round.summary()));
            out.raw(&lines.chain(round.failures()).collect::<Vec<_>>().join("\n"));
        }
        broken => {
            let code = match broken {
                Err(failure) => {
                    out.failure(&failure);
                    Some(failure.problems.code())
                }
                // What is wrong with the cases was told when they were read.
                Ok(_) => None,
            };
            if out.is_json() {
                out.raw(&json!({"round": number, "error": code}).to_string());
            } else {
                let reason = code.map_or("the cases can't be read".to_owned(), |code| code.to_string());
                out.raw(&format!("round {number}: {reason} ({took})"));
            }
        }
    }
}
