//! The directories the operator granted, and which path lies in one.
//!
//! Owns the step from a path as given to an absolute path inside a granted directory. Refuses to be the
//! wall: the sandbox stops every path that leaves, this only says so in good words.
//!
//! INVARIANT: a resolved path is absolute, without `.`, `..` and empty parts, and inside a granted directory.

use std::fs;
use std::io::ErrorKind;

use t2m_plugin_sdk::Error;

use crate::failure;

/// As many links as Linux follows.
const MAX_LINKS: usize = 40;

/// The granted directories, normalised.
pub(crate) fn list() -> Vec<String> {
    granted().iter().map(|root| normalize(root)).collect()
}

#[cfg(target_arch = "wasm32")]
fn granted() -> Vec<String> {
    wasip2::filesystem::preopens::get_directories().into_iter().map(|(_, path)| path).collect()
}

#[cfg(not(target_arch = "wasm32"))]
fn granted() -> Vec<String> {
    native::ROOTS.with_borrow(Clone::clone)
}

/// Stands in for the grants in native tests.
#[cfg(not(target_arch = "wasm32"))]
pub(crate) mod native {
    use std::cell::RefCell;

    thread_local! {
        pub(super) static ROOTS: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
    }

    #[cfg(test)]
    pub(crate) fn set(roots: Vec<String>) {
        ROOTS.set(roots);
    }
}

/// Resolves a path as given by the caller, and follows the link it may be.
pub(crate) fn resolve(requested: &str) -> Result<String, Error> {
    follow(place(requested)?)
}

/// Resolves a path as given by the caller to the place it names, be that a link or not.
pub(crate) fn place(requested: &str) -> Result<String, Error> {
    if requested == "~" || requested.starts_with("~/") {
        return Err(Error::invalid_arguments(format!(
            "the sandbox has no home directory: give an absolute path instead of {requested}"
        )));
    }
    if is_windows(requested) {
        return Err(denied(format!("Windows-style path received on a POSIX host: {requested}")));
    }
    let roots = list();
    let absolute = if requested.starts_with('/') {
        normalize(requested)
    } else {
        let mut candidates = roots.iter().map(|root| normalize(&format!("{root}/{requested}")));
        let first = candidates.next().unwrap_or_else(|| normalize(requested));
        if inside(&first, &roots) {
            first
        } else {
            candidates.find(|path| inside(path, &roots)).unwrap_or(first)
        }
    };
    if absolute.contains('\0') || !inside(&absolute, &roots) {
        return Err(denied(format!(
            "path outside allowed directories: {absolute} not in {}",
            roots.join(", ")
        )));
    }
    Ok(absolute)
}

/// Follows links by hand: only so does replacing a file leave the link to it alone, and an error can say
/// where a link leads.
fn follow(path: String) -> Result<String, Error> {
    let roots = list();
    let mut current = path;
    for _ in 0..MAX_LINKS {
        match fs::symlink_metadata(&current) {
            Ok(metadata) if metadata.is_symlink() => {}
            Err(error) if error.kind() == ErrorKind::NotADirectory => {
                return Err(failure::io(&error, "realpath", &current));
            }
            // Whatever else is wrong with it, what is about to be done will say so.
            _ => return Ok(current),
        }
        let outside = |target: &str| {
            denied(format!(
                "symlink target outside allowed directories: {target} not in {}",
                roots.join(", ")
            ))
        };
        // The sandbox doesn't tell where an absolute link leads.
        let target = fs::read_link(&current).map_err(|_| outside(&current))?;
        let target = target.to_string_lossy();
        let target = if target.starts_with('/') {
            normalize(&target)
        } else {
            normalize(&join(parent(&current), &target))
        };
        if !inside(&target, &roots) {
            return Err(outside(&target));
        }
        current = target;
    }
    Err(Error::new("failed", format!("ELOOP: too many symbolic links encountered, realpath '{current}'")))
}

/// The directory a resolved path lies in.
pub(crate) fn parent(path: &str) -> &str {
    match path.rsplit_once('/') {
        Some(("", _)) | None => "/",
        Some((parent, _)) => parent,
    }
}

/// Puts a name below a resolved path.
pub(crate) fn join(directory: &str, name: &str) -> String {
    if directory == "/" { format!("/{name}") } else { format!("{directory}/{name}") }
}

fn denied(why: String) -> Error {
    Error::new("not-permitted", format!("Access denied - {why}"))
}

/// Makes a path absolute and takes out `.`, `..` and empty parts, without a look at the disk.
fn normalize(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    format!("/{}", parts.join("/"))
}

fn inside(path: &str, roots: &[String]) -> bool {
    roots.iter().any(|root| match path.strip_prefix(root.as_str()) {
        Some(rest) => root == "/" || rest.is_empty() || rest.starts_with('/'),
        None => false,
    })
}

fn is_windows(path: &str) -> bool {
    let mut chars = path.chars();
    chars.next().is_some_and(|drive| drive.is_ascii_alphabetic())
        && chars.next() == Some(':')
        && matches!(chars.next(), None | Some('/' | '\\'))
}

#[cfg(test)]
mod tests {
    use super::{native, resolve};

    #[test]
    fn paths_inside_are_normalised() {
        native::set(vec!["/data/a".into(), "/data/b/".into()]);
        for (requested, resolved) in [
            ("/data/a", "/data/a"),
            ("/data/a/./x//y/../z/", "/data/a/x/z"),
            ("/data/b", "/data/b"),
            ("x/y", "/data/a/x/y"),
            ("../b/x", "/data/b/x"),
            ("", "/data/a"),
        ] {
            assert_eq!(resolve(requested).unwrap(), resolved);
        }
    }

    #[test]
    fn paths_outside_are_named() {
        native::set(vec!["/data/a".into(), "/data/b".into()]);
        for (requested, message) in [
            ("/etc/passwd", "path outside allowed directories: /etc/passwd not in /data/a, /data/b"),
            ("/data/ab", "path outside allowed directories: /data/ab not in /data/a, /data/b"),
            ("/data/a/../../etc", "path outside allowed directories: /etc not in /data/a, /data/b"),
            ("../../etc", "path outside allowed directories: /etc not in /data/a, /data/b"),
            ("C:\\x", "Windows-style path received on a POSIX host: C:\\x"),
        ] {
            let error = resolve(requested).unwrap_err();
            assert_eq!(error.code(), "not-permitted");
            assert_eq!(error.message(), format!("Access denied - {message}"));
        }
        assert_eq!(resolve("~/x").unwrap_err().code(), "invalid-arguments");
    }

    #[test]
    fn everything_lies_in_a_granted_root() {
        native::set(vec!["/".into()]);
        assert_eq!(resolve("/etc/passwd").unwrap(), "/etc/passwd");
    }
}
