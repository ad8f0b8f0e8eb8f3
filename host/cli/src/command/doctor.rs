//! `t2m-host doctor`: what this machine and program can do.
//!
//! Owns the list of checks. Refuses to mend anything.
//!
//! **Invariant:** each line says what was found, and what it means where it isn't plain.

use serde_json::json;
use t2m_core::code::Code;

use crate::args::PluginArgs;
use crate::config::Config;
use crate::exit::Exit;
use crate::failure::Result;
use crate::out::Out;
use crate::plugins::{self, BUILT_IN};

/// Say what this machine and program can do.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  t2m-host doctor\n  t2m-host doctor --codes")]
pub(crate) struct Doctor {
    /// Print the tables of error codes and exit statuses as Markdown instead
    #[arg(long)]
    codes: bool,
    #[command(flatten)]
    plugins: PluginArgs,
}

impl Doctor {
    pub(crate) async fn run(self, config: Config, out: &mut Out) -> Result<Exit> {
        if self.codes {
            out.raw(&tables());
            return Ok(Exit::Done);
        }
        let sandbox = plugins::sandbox(&self.plugins, &config)?;
        let info = sandbox.info();
        let described = plugins::describe(&sandbox, &self.plugins, &config).await?;
        let cache = plugins::cache_dir(&self.plugins);
        let lines = || {
            let mut lines = vec![
                format!("t2m-host {}", env!("CARGO_PKG_VERSION")),
                format!("engine: wasmtime {}", info.wasmtime),
                format!("instances: {} at once, {}", info.instances, pool(info.pooling, info.pagemap_scan)),
                match &cache {
                    Some(path) => format!("compiled plugins: {}", path.display()),
                    None => "compiled plugins: not kept, since there is no cache folder".to_owned(),
                },
            ];
            for plugin in &described {
                let known = BUILT_IN.iter().find(|known| known.name == plugin.name.as_str());
                let size =
                    known.map(|known| format!(", {} KiB", known.wasm.len() / 1024)).unwrap_or_default();
                lines.push(format!(
                    "plugin {}: {} tools{size}, {}",
                    plugin.name,
                    plugin.tools.len(),
                    plugin.digest
                ));
            }
            lines.join("\n")
        };
        let machine = || {
            let plugins: Vec<_> = described
                .iter()
                .map(|p| json!({"name": p.name, "digest": p.digest, "tools": p.tools.len()}))
                .collect();
            json!({
                "version": env!("CARGO_PKG_VERSION"), "wasmtime": info.wasmtime, "instances": info.instances,
                "pooling": info.pooling, "pagemap_scan": info.pagemap_scan,
                "cache": cache.as_ref().map(|path| path.display().to_string()), "plugins": plugins,
            })
        };
        out.data(lines, machine);
        Ok(Exit::Done)
    }
}

fn pool(pooling: bool, pagemap_scan: bool) -> &'static str {
    match (pooling, pagemap_scan) {
        (true, true) => "from a pool, cleared by the kernel's page map",
        (true, false) => "from a pool; Linux 6.7 would clear them faster",
        (false, _) => "made for each call, about 50 µs slower: this machine has no room for a pool",
    }
}

/// The tables of the README.
fn tables() -> String {
    let mut text = String::from("| code | meaning | blame | a retry helps | exit |\n|---|---|---|---|---|\n");
    for code in Code::ALL {
        text.push_str(&format!(
            "| `{code}` | {} | {} | {} | {} |\n",
            code.meaning().replace("  ", " "),
            json!(code.blame()).as_str().unwrap_or_default(),
            json!(code.retry()).as_str().unwrap_or_default(),
            Exit::of(*code) as u8
        ));
    }
    text.push_str("\n| exit | meaning |\n|---|---|\n");
    for (exit, meaning) in Exit::ALL {
        text.push_str(&format!("| {} | {meaning} |\n", exit as u8));
    }
    text
}
