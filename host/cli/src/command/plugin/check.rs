//! `t2m-host plugin check`: what is wrong with a plugin, without running a tool.
//!
//! Owns the order of the checks and how they are shown. Refuses to build.
//!
//! **Invariant:** every fault that can be found is shown; the exit status is that of the first error.

use std::path::PathBuf;

use serde_json::{Value, json};
use t2m_core::digest::Digest;
use t2m_core::id::PluginId;
use t2m_core::problem::{Place, Problem};
use t2m_core::tool::ToolDescriptor;
use t2m_sandbox::{Capabilities, ComponentInfo, Description, Sandbox};

use crate::args::PluginArgs;
use crate::author::findings::{self, Findings};
use crate::author::trial::cases_of;
use crate::component::Component;
use crate::config::Config;
use crate::exit::Exit;
use crate::failure::Result;
use crate::out::{Out, one_line};
use crate::plugins;

/// Say what is wrong with a component, its manifest and its cases, without running a tool.
///
/// The component is asked what it offers, without any grant. Errors are what this host would refuse or clients
/// couldn't use; the exit status tells whether there are any.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  t2m-host plugin check\n  t2m-host plugin check my-plugin.wasm --format json"
)]
pub(crate) struct Check {
    /// The plugin's folder, or a component file
    #[arg(default_value = ".", value_name = "DIR|FILE")]
    path: PathBuf,
    /// Folder for compiled plugins [default: `t2m-host` in the user's cache folder]
    #[arg(long, env = "T2M_CACHE_DIR", value_name = "DIR")]
    cache_dir: Option<PathBuf>,
}

impl Check {
    pub(crate) async fn run(self, config: &Config, out: &mut Out) -> Result<Exit> {
        let component = Component::find(&self.path)?;
        let args = PluginArgs { cache_dir: self.cache_dir, ..PluginArgs::default() };
        let checked = check(&component, &plugins::sandbox(&args, config)?).await?;
        Ok(checked.show(&component, out))
    }
}

/// What was found, and what the component is.
pub(crate) struct Checked {
    digest: Digest,
    size: usize,
    info: Option<ComponentInfo>,
    description: Option<Description>,
    findings: Findings,
}

/// Checks a component that is there.
pub(crate) async fn check(component: &Component, sandbox: &Sandbox) -> Result<Checked> {
    let wasm = component.read()?;
    let (digest, size) = (Digest::of_bytes(&wasm), wasm.len());
    let mut findings = Findings::default();
    let mut checked = Checked { digest, size, info: None, description: None, findings: Findings::default() };
    match ComponentInfo::read(&wasm) {
        Ok(info) => {
            findings::check_outside(component, &info, size, &mut findings);
            let loads = info.problems(Capabilities::all()).is_empty();
            checked.info = Some(info);
            if loads {
                let described = match PluginId::new(component.name()) {
                    Ok(name) => sandbox.describe(name, wasm).await,
                    Err(error) => {
                        findings.error(t2m_core::code::Code::PluginInvalid, "", error.to_string());
                        return Ok(Checked { findings, ..checked });
                    }
                };
                match described {
                    Ok(description) => {
                        findings::check_tools(&description, &mut findings);
                        checked.description = Some(description);
                    }
                    Err(error) => findings.error(error.code(), "", error.message()),
                }
            }
        }
        Err(error) => findings.error(error.code(), "", error.message()),
    }
    check_cases(component, checked.description.as_ref(), &mut findings);
    Ok(Checked { findings, ..checked })
}

fn check_cases(component: &Component, description: Option<&Description>, findings: &mut Findings) {
    let tools: Option<&[ToolDescriptor]> = description.map(|description| description.tools.as_slice());
    match cases_of(component, None) {
        Ok(cases) => {
            for case in cases {
                if let Some(tools) = tools
                    && !tools.iter().any(|tool| tool.name == case.case.tool)
                {
                    let message = format!(
                        "case `{}` calls `{}`, which is no tool of the plugin",
                        case.name, case.case.tool
                    );
                    findings.error(t2m_core::code::Code::ToolUnknown, "", message);
                }
            }
        }
        Err(failures) => {
            for failure in failures {
                let file = failure.file.as_ref().map(|file| file.display().to_string()).unwrap_or_default();
                for problem in failure.problems.iter() {
                    let message = format!("{file} at {}: {}", problem.place, problem.message);
                    findings.errors.push(Problem::new(problem.code, Place::Whole, message));
                }
            }
        }
    }
}

impl Checked {
    /// Shows everything and gives the exit status.
    pub(crate) fn show(&self, component: &Component, out: &mut Out) -> Exit {
        out.data(|| self.text(component), || self.json(component));
        self.findings.errors.first().map_or(Exit::Done, |first| Exit::of(first.code))
    }

    fn text(&self, component: &Component) -> String {
        let mut lines = vec![format!("{}  {} bytes  {}", component.wasm.display(), self.size, self.digest)];
        if let Some(description) = &self.description {
            let micros = description.time.as_micros();
            lines.push(format!(
                "{} tools; describing them used {} fuel and {micros} µs",
                description.tools.len(),
                description.usage.fuel
            ));
        }
        for (kind, list) in [("error", &self.findings.errors), ("warning", &self.findings.warnings)] {
            for problem in list {
                let place = match &problem.place {
                    Place::Pointer(pointer) if !pointer.is_empty() => format!("{pointer}: "),
                    _ => String::new(),
                };
                lines.push(one_line(&format!("{kind}[{}]: {place}{}", problem.code, problem.message)));
            }
        }
        let count = |list: &[Problem], what: &str| {
            format!("{} {what}{}", list.len(), if list.len() == 1 { "" } else { "s" })
        };
        let Findings { errors, warnings, .. } = &self.findings;
        lines.push(format!("{}, {}", count(errors, "error"), count(warnings, "warning")));
        lines.join("\n")
    }

    fn json(&self, component: &Component) -> Value {
        let describe = self.description.as_ref().map(
            |found| json!({"tools": found.tools.len(), "fuel": found.usage.fuel, "micros": found.time.as_micros() as u64}),
        );
        json!({
            "plugin": component.name(),
            "component": component.wasm.display().to_string(),
            "digest": self.digest,
            "bytes": self.size,
            "debug_bytes": self.info.as_ref().map(|info| info.debug_bytes),
            "describe": describe,
            "errors": self.findings.errors,
            "warnings": self.findings.warnings,
        })
    }
}
