//! Compiles plugin crates of this workspace to WebAssembly components, from a build script.
//!
//! Owns the nested cargo: its folder, its environment, the missing wasm target and what makes it run again.
//! Refuses to know what a component holds; the host reads and checks it.
//!
//! INVARIANT: every build script and every profile gets the same bytes from the same folder, so a plugin is
//! compiled once for all of them.
//!
//! ```no_run
//! fn main() -> Result<(), t2m_plugin_build::Failure> {
//!     t2m_plugin_build::compile(&["plugins/math", "plugin-sdk#hello"])?;
//!     Ok(())
//! }
//! ```
//!
//! The crate then finds the component at `env!("T2M_PLUGIN_MATH")`, for example with `include_bytes!`.

mod nested;
mod place;

use std::fmt;
use std::path::PathBuf;

use nested::Nested;
use place::Source;

/// A compiled plugin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Component {
    /// The last part of its folder, such as `math`, or the name of the example.
    pub name: String,
    /// Where the component lies.
    pub path: PathBuf,
}

/// Why nothing was compiled. `main` may return it: it prints itself as plain text.
pub struct Failure(String);

impl Failure {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Failure {}

/// Compiles plugins and tells cargo about them.
///
/// A source is a crate's folder, relative to the workspace, or `folder#example`. For each one the variable
/// `T2M_PLUGIN_<NAME>` holds the component's path when the calling crate is compiled.
///
/// # Errors
/// A source that isn't there, a wasm target that can't be added, or a failed compilation, whose output is on
/// standard error.
pub fn compile(sources: &[&str]) -> Result<Vec<Component>, Failure> {
    let root = place::workspace(&variable("CARGO_MANIFEST_DIR")?)?;
    let target = place::target_folder(&variable("OUT_DIR")?)?.join("guests");
    let nested = Nested { cargo: variable("CARGO")?, rustc: variable("RUSTC")?, root: root.clone(), target };
    let sources = sources.iter().map(|source| Source::find(&root, source)).collect::<Result<Vec<_>, _>>()?;
    for path in place::inputs(&root, &sources) {
        tell(&format!("cargo:rerun-if-changed={}", path.display()));
    }
    if !nested.has_target()? {
        tell("cargo:warning=adding the target wasm32-wasip2 with rustup, which plugins are compiled for");
        nested.add_target()?;
    }
    let mut components = Vec::new();
    for source in sources {
        let path = nested.build(&source)?;
        tell(&format!("cargo:rustc-env={}={}", place::variable_name(&source.name), path.display()));
        components.push(Component { name: source.name, path });
    }
    Ok(components)
}

fn variable(name: &str) -> Result<PathBuf, Failure> {
    let value = std::env::var_os(name);
    value
        .map(PathBuf::from)
        .ok_or_else(|| Failure::new(format!("{name} is not set: call this from a build script")))
}

#[expect(clippy::print_stdout, reason = "a build script speaks to cargo on standard output")]
fn tell(directive: &str) {
    println!("{directive}");
}
