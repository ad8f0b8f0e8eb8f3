//! `t2m-host plugin build`: from sources to a component.
//!
//! Owns building and the check that follows. Refuses to load or run the result as a tool.
//!
//! **Invariant:** it succeeds only with a component beside `plugin.toml` that passes `plugin check`.

use std::path::PathBuf;

use super::check;
use crate::args::PluginArgs;
use crate::author;
use crate::component::Component;
use crate::config::Config;
use crate::exit::Exit;
use crate::failure::Result;
use crate::out::Out;
use crate::plugins;

/// Make a plugin's component and check it.
///
/// Cargo builds it for wasm32-wasip2 with the profile `guest`, or `release` if Cargo.toml has none. A `[build]`
/// table of plugin.toml names another command. The component is put beside plugin.toml.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  t2m-host plugin build\n  t2m-host plugin build my-plugin")]
pub(crate) struct Build {
    /// The plugin's folder
    #[arg(default_value = ".", value_name = "DIR")]
    path: PathBuf,
    /// Folder for compiled plugins [default: `t2m-host` in the user's cache folder]
    #[arg(long, env = "T2M_CACHE_DIR", value_name = "DIR")]
    cache_dir: Option<PathBuf>,
}

impl Build {
    pub(crate) async fn run(self, config: &Config, out: &mut Out) -> Result<Exit> {
        let component = Component::find(&self.path)?;
        author::build::build(&component, out).await?;
        let args = PluginArgs { cache_dir: self.cache_dir, ..PluginArgs::default() };
        let checked = check::check(&component, &plugins::sandbox(&args, config)?).await?;
        Ok(checked.show(&component, out))
    }
}
