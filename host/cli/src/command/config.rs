//! `t2m-host config`: the configuration and every file format's schema.
//!
//! Owns showing. Refuses to change a file.
//!
//! **Invariant:** what `show` prints is what the other commands use.

use std::path::Path;

use clap::{Subcommand, ValueEnum};
use serde_json::{Value, json};
use t2m_core::approval::ApprovalBook;
use t2m_core::code::Code;
use t2m_core::contract::Contracts;

use crate::config::{self, DEFAULTS, verify};
use crate::exit::Exit;
use crate::failure::{Failure, Result};
use crate::out::{Out, one_line, pretty};

/// Show, check or describe the configuration.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  t2m-host config show --defaults > t2m.toml
  t2m-host config check
  t2m-host config schema --kind workflow")]
pub(crate) struct ConfigCommand {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Print the configuration in force
    Show {
        /// Print the embedded defaults with their comments instead
        #[arg(long)]
        defaults: bool,
    },
    /// Read the configuration and say whether it is valid, and whether what it names is there
    Check,
    /// Print the JSON Schema of a file format
    Schema {
        /// Which file
        #[arg(long, value_enum, default_value_t = Kind::Config)]
        kind: Kind,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Kind {
    /// t2m.toml
    Config,
    /// A recording
    Trace,
    /// A compiled workflow
    Workflow,
    /// Reviewed contracts
    Contracts,
    /// Approvals given in advance
    Approvals,
    /// plugin.toml
    Plugin,
    /// A test case of a plugin
    PluginCase,
    /// What is known of tools, for `compile --catalog`
    Catalog,
}

impl ConfigCommand {
    pub(crate) async fn run(self, named: Option<&Path>, out: &mut Out) -> Result<Exit> {
        match self.action {
            Action::Show { defaults: true } => out.raw(DEFAULTS),
            Action::Show { defaults: false } => {
                let config = config::load(named, out)?;
                let text = toml::to_string(&config)
                    .map_err(|error| Failure::new(Code::Internal, error.to_string()))?;
                out.data(|| text, || json!(config));
            }
            Action::Check => {
                let config = config::load(named, out)?;
                let warnings = verify::check(named, &config).await?;
                for warning in &warnings {
                    out.note(format!("warning: {}", one_line(warning)));
                }
                out.data(
                    || "the configuration is valid".to_owned(),
                    || json!({"valid": true, "warnings": warnings}),
                );
            }
            Action::Schema { kind } => out.raw(&pretty(&schema(kind))),
        }
        Ok(Exit::Done)
    }
}

fn schema(kind: Kind) -> Value {
    match kind {
        Kind::Config => config::schema(),
        Kind::Trace => t2m_core::trace::json_schema(),
        Kind::Workflow => t2m_core::workflow::json_schema(),
        Kind::Contracts => Contracts::json_schema(),
        Kind::Approvals => ApprovalBook::json_schema(),
        Kind::Plugin => crate::manifest::schema(),
        Kind::PluginCase => crate::author::case::schema(),
        Kind::Catalog => t2m_core::catalog::Catalog::json_schema(),
    }
}
