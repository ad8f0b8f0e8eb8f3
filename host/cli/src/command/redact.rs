//! `t2m-host redact`: a copy of a recording that can be shown to others.
//!
//! Owns the options and the report for people. Refuses to write over the recording, and to show a secret.
//!
//! **Invariant:** with `--check` nothing is written, and the exit status says whether something would be redacted.

use std::path::PathBuf;

use serde_json::json;
use t2m_core::code::Code;
use t2m_core::redact::{self, Options, RedactReport};
use t2m_core::trace;

use super::import::{ImportArgs, note_report, write_or_print};
use crate::exit::Exit;
use crate::failure::{Failure, InFile, Result};
use crate::files;
use crate::out::{Out, one_line};

/// Most secrets that are shown to a person, and most keys.
const MAX_SHOWN: usize = 20;

/// Make a copy of a recording without its secrets.
///
/// A secret becomes a marker such as `[T2M-REDACTED:api-key:1]`: the same secret has the same marker
/// everywhere, a different one another. Secrets are found by the names of keys (whole words: `api_key` and
/// `Authorization`, but not `next_page_token` or `max_tokens`) and by their shape, and replaced wherever they
/// stand. The copy compiles like the recording; secrets become inputs that have to be given.
///
/// No rule finds every secret: read the copy before you share it.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  t2m-host redact trace.json --out shared.json
  t2m-host redact session.jsonl --also internal_code --also '/EMP-(?P<secret>[0-9]+)/' --out shared.json
  t2m-host redact shared.json --check")]
pub(crate) struct Redact {
    /// The recording, in any format that `import` reads; `-` reads standard input
    file: PathBuf,
    #[command(flatten)]
    import: ImportArgs,
    /// A key whose values are no secrets here; shapes of secrets count all the same. Repeat for more
    #[arg(long, value_name = "KEY")]
    keep: Vec<String>,
    /// A key whose values are secrets, or a regular expression between slashes; its group `secret`, if it
    /// has one, is the secret. Repeat for more
    #[arg(long, value_name = "KEY|/REGEX/")]
    also: Vec<String>,
    /// Write nothing; fail if there is something to redact
    #[arg(long, conflicts_with = "out")]
    check: bool,
    /// Where to write the copy, readable by you alone [default: standard output]
    #[arg(long, short, value_name = "FILE")]
    out: Option<PathBuf>,
}

impl Redact {
    pub(crate) fn run(self, out: &mut Out) -> Result<Exit> {
        files::refuse_overwrite(self.out.as_deref(), &[&self.file])?;
        let imported = self.import.read(&self.file, out)?;
        let mut options = Options { keep: self.keep, ..Options::default() };
        for text in self.also {
            match text.strip_prefix('/').and_then(|text| text.strip_suffix('/')) {
                Some(regex) => options.also_shapes.push(regex.to_owned()),
                None => options.also_keys.push(text),
            }
        }
        let done = redact::redact(&imported.trace, &options).in_file(&self.file)?;
        if !self.check {
            note_report(&imported, out);
        }
        show(&done.report, out);
        if self.check {
            if out.is_json() {
                out.data(String::new, || json!({"clean": done.report.is_clean(), "report": done.report}));
            }
            if done.report.is_clean() {
                return Ok(Exit::Done);
            }
            let message = format!("{} secrets would be redacted", done.report.secrets.len());
            return Err(Failure::of_file(&self.file, Code::SecretFound, message));
        }
        write_or_print(
            self.out.as_deref(),
            &trace::to_json(&done.trace),
            out,
            |path| json!({"trace": path, "format": imported.format, "report": done.report}),
        )?;
        Ok(Exit::Done)
    }
}

/// Says what was redacted, on standard error: markers and places, no values.
fn show(report: &RedactReport, out: &mut Out) {
    if report.is_clean() {
        out.note("no secrets found");
    } else {
        let kinds: Vec<String> = report.kinds.iter().map(|(kind, count)| format!("{count} {kind}")).collect();
        out.note(format!("{} secrets: {}", report.secrets.len(), kinds.join(", ")));
    }
    for secret in report.secrets.iter().take(MAX_SHOWN) {
        let places: Vec<String> = secret.places.iter().take(3).map(|place| one_line(place)).collect();
        let more = if secret.places.len() > places.len() { ", ..." } else { "" };
        let only = if secret.everywhere { "" } else { "; too short or common to be looked for elsewhere" };
        out.note(format!("  {} {} times: {}{more}{only}", secret.marker, secret.count, places.join(", ")));
    }
    more(report.secrets.len(), "secrets", out);
    for kept in report.kept.iter().take(MAX_SHOWN) {
        let (key, pointer) = (one_line(&kept.key), one_line(&kept.pointer));
        out.note(format!("  kept: {} values under `{key}`, first at {pointer}: {}", kept.count, kept.reason));
    }
    more(report.kept.len(), "keys with values that were kept", out);
}

/// Says how many aren't shown.
fn more(all: usize, what: &str, out: &mut Out) {
    if let Some(more) = all.checked_sub(MAX_SHOWN).filter(|more| *more > 0) {
        out.note(format!("  and {more} more {what}; `--out FILE --format json` lists all"));
    }
}
