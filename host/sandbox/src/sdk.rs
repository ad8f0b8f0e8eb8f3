//! What a component's bytes say before anything of it is compiled.
//!
//! Owns reading the SDK section, the names of imports and exports, what an author wrote about them, and the
//! comparison of versions. Refuses to check the code inside: the compiler does that.
//!
//! **Invariant:** nothing here runs or allocates in proportion to what a length field of the file claims.

mod types;

use std::collections::BTreeSet;

use serde::Deserialize;
use t2m_core::code::Code;
use wasmparser::{ComponentExternalKind, Encoding, Parser, Payload};

use crate::error::SandboxError;
use crate::imports::{self, Capabilities};
use crate::state::printable;
use crate::typed::{DOCS_SECTION, Key, MAX_DOCS};
use types::Types;

/// Name of the custom section that the SDK puts into a plugin's core module.
const SECTION: &str = "t2m-plugin";

/// Largest such section, in bytes.
const MAX_SECTION: usize = 4 << 10;

/// Most imports, and most exports, that are looked at; a component that links everything WASI 0.2 has, has about 30.
const MAX_IMPORTS: usize = 1_000;

/// What a plugin exports, without the version.
const HANDLER: &str = "t2m:plugin/handler";

/// The version of `wit/` that this host serves.
pub const WIT_VERSION: &str = "0.1.0";

/// The same to compare with.
pub(crate) const HOST: Version = Version { major: 0, minor: 1, patch: 0 };

/// What a plugin was built with, by its own account.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct SdkVersion {
    /// Version of the WIT package `t2m:plugin`.
    pub wit: String,
    /// Version of the SDK, or of whatever else wrote the section.
    #[serde(default)]
    pub sdk: String,
}

/// A version without pre-release or build parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Version {
    major: u64,
    minor: u64,
    patch: u64,
}

impl Version {
    pub(crate) fn parse(text: &str) -> Option<Version> {
        let core = text.split(['-', '+']).next()?;
        let mut parts = core.split('.').map(str::parse);
        let mut next = || parts.next()?.ok();
        let (major, minor, patch) = (next()?, next()?, next()?);
        parts.next().is_none().then_some(Version { major, minor, patch })
    }

    /// Whether something built for `self` works with `other`: below 1.0 the minor number decides.
    pub(crate) fn works_with(self, other: Version) -> bool {
        self.major == other.major && (self.major > 0 || self.minor == other.minor)
    }
}

impl std::fmt::Display for Version {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

/// What a component's bytes say of it. Nothing of it was compiled or run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ComponentInfo {
    /// The SDK section, if there is one.
    pub sdk: Option<SdkVersion>,
    /// Names of all imports of the component itself, not of what is nested in it.
    pub imports: Vec<String>,
    /// Names of all its exports.
    pub exports: Vec<String>,
    /// Bytes of debug information in its core modules.
    pub debug_bytes: usize,
    /// Imports that bring types alone, so that nobody has to serve them.
    types_alone: BTreeSet<String>,
    /// The types of its world, by what they are known by.
    named_types: Vec<(String, Key)>,
    /// Whether it exports functions, or instances that may hold some.
    calls: bool,
    /// What its author wrote about its functions and types.
    docs: Option<Vec<u8>>,
}

impl ComponentInfo {
    /// Reads a component's outside.
    pub fn read(wasm: &[u8]) -> Result<ComponentInfo, SandboxError> {
        read(wasm)
    }

    /// Everything that would stop the component from being loaded, with these grants.
    pub fn problems(&self, granted: Capabilities) -> Vec<SandboxError> {
        let handler = self.check_exports().err();
        let version = self.sdk.as_ref().and_then(|sdk| check_version(&sdk.wit).err());
        let imports = imports::problems(&self.imports, &self.types_alone, granted);
        handler.into_iter().chain(version).chain(imports).collect()
    }

    /// Whether it is written for this host. If not, its exported functions are its tools.
    pub fn has_handler(&self) -> bool {
        handlers(&self.exports).next().is_some()
    }

    /// What its author wrote about its functions and types, as it stands there.
    pub(crate) fn docs(&self) -> Option<&[u8]> {
        self.docs.as_deref()
    }

    /// The types that stand in its world itself.
    pub(crate) fn named_types(&self) -> &[(String, Key)] {
        &self.named_types
    }

    fn check_exports(&self) -> Result<(), SandboxError> {
        if self.has_handler() {
            return check_handlers(&self.exports);
        }
        if self.calls {
            return Ok(());
        }
        Err(invalid(format!("exports neither `{HANDLER}` nor a function")))
    }

    /// What it needs a grant for.
    pub fn needs(&self) -> Capabilities {
        let imports = |package| self.imports.iter().any(|import| import.starts_with(package));
        Capabilities {
            files: imports("wasi:filesystem/"),
            http: imports("wasi:http/"),
            secrets: imports("t2m:plugin/secrets"),
            kv: imports("t2m:plugin/kv"),
        }
    }

    /// Whether it can read a date. One that only measures time may import the same interface, so this doesn't say that
    /// it wants the real one.
    pub fn may_read_date(&self) -> bool {
        let is_date = |import: &String| import.starts_with("wasi:clocks/wall-clock@");
        self.imports.iter().any(|import| is_date(import) && !self.types_alone.contains(import))
    }
}

fn invalid(message: impl Into<String>) -> SandboxError {
    SandboxError::new(Code::PluginInvalid, message)
}

fn read(wasm: &[u8]) -> Result<ComponentInfo, SandboxError> {
    let mut info = ComponentInfo {
        sdk: None,
        imports: Vec::new(),
        exports: Vec::new(),
        debug_bytes: 0,
        types_alone: BTreeSet::new(),
        named_types: Vec::new(),
        calls: false,
        docs: None,
    };
    let mut types = Types::default();
    let mut depth = 0_u32;
    for payload in Parser::new(0).parse_all(wasm) {
        let payload = payload.map_err(|error| {
            // Some messages go over several lines.
            let words: Vec<&str> = error.message().split_whitespace().collect();
            invalid(format!("not a component: {}", printable(&words.join(" "))))
        })?;
        match payload {
            Payload::Version { encoding, .. } if depth == 0 && encoding != Encoding::Component => {
                return Err(invalid(
                    "a core module, not a component; build it for the target `wasm32-wasip2`",
                ));
            }
            Payload::ModuleSection { .. } | Payload::ComponentSection { .. } => depth += 1,
            Payload::End(_) => depth = depth.saturating_sub(1),
            Payload::CustomSection(custom) if custom.name() == SECTION => {
                let found = read_section(custom.data())?;
                if info.sdk.as_ref().is_some_and(|earlier| *earlier != found) {
                    return Err(invalid(format!("two sections `{SECTION}` that differ")));
                }
                info.sdk = Some(found);
            }
            Payload::CustomSection(custom) if custom.name().starts_with(".debug_") => {
                info.debug_bytes = info.debug_bytes.saturating_add(custom.data().len());
            }
            // The component's own comes last, and wins over one of a module inside.
            Payload::CustomSection(custom)
                if custom.name() == DOCS_SECTION
                    && custom.data().len() <= MAX_DOCS
                    && (depth == 0 || info.docs.is_none()) =>
            {
                info.docs = Some(custom.data().to_vec());
            }
            Payload::ComponentTypeSection(reader) if depth == 0 => {
                for ty in reader {
                    types.defined(&ty.map_err(|error| invalid(error.message()))?);
                }
            }
            Payload::ComponentAliasSection(reader) if depth == 0 => {
                for alias in reader {
                    types.aliased(&alias.map_err(|error| invalid(error.message()))?);
                }
            }
            Payload::ComponentImportSection(reader) if depth == 0 => {
                for import in reader {
                    let import = import.map_err(|error| invalid(error.message()))?;
                    if info.imports.len() == MAX_IMPORTS {
                        return Err(invalid(format!("more than {MAX_IMPORTS} imports")));
                    }
                    types.imported(&import);
                    info.imports.push(import.name.name.to_owned());
                }
            }
            Payload::ComponentExportSection(reader) if depth == 0 => {
                for export in reader {
                    let export = export.map_err(|error| invalid(error.message()))?;
                    if info.exports.len() == MAX_IMPORTS {
                        return Err(invalid(format!("more than {MAX_IMPORTS} exports")));
                    }
                    types.exported(export.kind);
                    info.calls |=
                        matches!(export.kind, ComponentExternalKind::Func | ComponentExternalKind::Instance);
                    info.exports.push(export.name.name.to_owned());
                }
            }
            _ => {}
        }
    }
    (info.types_alone, info.named_types) = (types.imports, types.named);
    Ok(info)
}

/// The versions of the handlers that are exported.
fn handlers(exports: &[String]) -> impl Iterator<Item = &str> {
    let named = exports.iter().map(|export| export.split_once('@').unwrap_or((export, "")));
    named.filter_map(|(name, version)| (name == HANDLER).then_some(version))
}

fn read_section(bytes: &[u8]) -> Result<SdkVersion, SandboxError> {
    if bytes.len() > MAX_SECTION {
        return Err(invalid(format!("section `{SECTION}` is larger than {MAX_SECTION} bytes")));
    }
    serde_json::from_slice(bytes)
        .map_err(|error| invalid(format!("section `{SECTION}` can't be read: {error}")))
}

fn check_handlers(exports: &[String]) -> Result<(), SandboxError> {
    let versions: Vec<&str> = handlers(exports).collect();
    let fits = |text: &&str| Version::parse(text).is_some_and(|v| v.works_with(HOST));
    if versions.iter().any(fits) {
        return Ok(());
    }
    check_version(&versions.join(", "))
}

fn check_version(text: &str) -> Result<(), SandboxError> {
    if Version::parse(text).is_some_and(|version| version.works_with(HOST)) {
        return Ok(());
    }
    let message =
        format!("built for `t2m:plugin` {}; this host has {WIT_VERSION}", crate::state::printable(text));
    Err(SandboxError::new(Code::PluginVersion, message))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn component(export: &str, section: &str) -> Vec<u8> {
        let section = section.replace('"', "\\\"");
        let text = format!(
            r#"(component
                 (core module (@custom "{SECTION}" "{section}"))
                 (import "t2m:plugin/log@0.1.0" (instance))
                 (instance $i)
                 (component (import "hidden:one/here" (instance)))
                 (export "{export}" (instance $i)))"#
        );
        wat::parse_str(text).unwrap()
    }

    fn code(wasm: &[u8]) -> Result<Option<String>, Code> {
        let found = ComponentInfo::read(wasm).map_err(|error| error.code())?;
        match found.problems(Capabilities::default()).first() {
            Some(error) => Err(error.code()),
            None => Ok(found.sdk.map(|sdk| sdk.wit)),
        }
    }

    #[test]
    fn the_version_is_one() {
        assert_eq!(Version::parse(WIT_VERSION), Some(HOST));
    }

    /// P01: a plugin of an older or newer patch version loads, one of another minor version doesn't.
    #[test]
    fn the_minor_version_decides() {
        for (export, wit, expected) in [
            ("t2m:plugin/handler@0.1.0", "0.1.0", Ok(Some("0.1.0".into()))),
            ("t2m:plugin/handler@0.1.7", "0.1.7", Ok(Some("0.1.7".into()))),
            ("t2m:plugin/handler@0.1.0", "0.2.0", Err(Code::PluginVersion)),
            ("t2m:plugin/handler@0.2.0", "0.1.0", Err(Code::PluginVersion)),
            ("t2m:plugin/handler@1.1.0", "0.1.0", Err(Code::PluginVersion)),
            ("t2m:plugin/other@0.1.0", "0.1.0", Ok(Some("0.1.0".into()))),
            ("t2m:plugin/handler", "0.1.0", Err(Code::PluginVersion)),
        ] {
            let section = format!(r#"{{"wit":"{wit}","sdk":"0.1.0","later":1}}"#);
            assert_eq!(code(&component(export, &section)), expected, "{export} {wit}");
        }
        assert_eq!(code(&component("t2m:plugin/handler@0.1.0", "{}{}")), Err(Code::PluginInvalid));
    }

    /// P03: only what the component itself imports counts, and all of it is seen.
    #[test]
    fn imports_of_nested_components_are_not_imports() {
        let found =
            ComponentInfo::read(&component("t2m:plugin/handler@0.1.0", r#"{"wit":"0.1.0"}"#)).unwrap();
        assert_eq!(found.imports, ["t2m:plugin/log@0.1.0"]);
    }

    /// P01: what is no component is refused with one code.
    #[test]
    fn what_is_no_component_is_refused() {
        for bytes in [b"".as_slice(), b"\0asm", b"\0asm\x01\0\0\0", b"hello", b"\0asm\x0d\0\x01\0garbage"] {
            assert_eq!(code(bytes), Err(Code::PluginInvalid), "{bytes:?}");
        }
    }
}
