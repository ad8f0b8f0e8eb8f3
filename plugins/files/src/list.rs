//! Listing directories and searching below them.
//!
//! Owns the order and the look of lists. Refuses to follow links to directories while it descends.
//!
//! INVARIANT: entries come in the order of their bytes unless the caller asks otherwise, so equal
//! directories give equal results.

use std::fs;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use t2m_plugin_sdk::{Error, Reply};

use crate::glob::Glob;
use crate::{PathArgs, Text, collate, failure, format, roots, text};

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SizesArgs {
    path: String,
    /// Sort entries by name or size
    #[serde(default)]
    sort_by: SortBy,
}

#[derive(Deserialize, Serialize, JsonSchema, Default)]
#[serde(rename_all = "lowercase")]
enum SortBy {
    #[default]
    Name,
    Size,
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TreeArgs {
    path: String,
    #[serde(default)]
    exclude_patterns: Vec<String>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SearchArgs {
    path: String,
    pattern: String,
    #[serde(default)]
    exclude_patterns: Vec<String>,
}

/// One entry of a directory. A link counts as a file, whatever it leads to.
struct Entry {
    name: String,
    is_directory: bool,
    is_link: bool,
}

#[derive(Serialize)]
struct Node {
    name: String,
    #[serde(rename = "type")]
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    children: Option<Vec<Node>>,
}

pub(crate) fn list_directory(args: PathArgs) -> Result<Reply<Text>, Error> {
    let lines = entries(&roots::resolve(&args.path)?)?;
    let lines = lines.iter().map(|entry| format!("{} {}", label(entry.is_directory), entry.name));
    Ok(text(lines.collect::<Vec<String>>().join("\n")))
}

pub(crate) fn list_directory_with_sizes(args: SizesArgs) -> Result<Reply<Text>, Error> {
    let path = roots::resolve(&args.path)?;
    let mut sized: Vec<(Entry, u64)> = Vec::new();
    for entry in entries(&path)? {
        let size = fs::metadata(roots::join(&path, &entry.name)).map_or(0, |metadata| metadata.len());
        sized.push((entry, size));
    }
    match args.sort_by {
        SortBy::Name => sized.sort_by(|(a, _), (b, _)| collate::compare(&a.name, &b.name)),
        SortBy::Size => sized.sort_by_key(|(_, size)| std::cmp::Reverse(*size)),
    }
    let mut lines: Vec<String> = sized
        .iter()
        .map(|(entry, size)| {
            let size =
                if entry.is_directory { String::new() } else { format!("{:>10}", format::size(*size)) };
            format!("{} {} {size}", label(entry.is_directory), format::pad_end(&entry.name, 30))
        })
        .collect();
    let files: Vec<u64> =
        sized.iter().filter(|(entry, _)| !entry.is_directory).map(|(_, size)| *size).collect();
    lines.push(String::new());
    lines.push(format!("Total: {} files, {} directories", files.len(), sized.len() - files.len()));
    lines.push(format!("Combined size: {}", format::size(files.iter().sum())));
    Ok(text(lines.join("\n")))
}

pub(crate) fn directory_tree(args: TreeArgs) -> Result<Reply<Text>, Error> {
    let mut excluded = Glob::all(&args.exclude_patterns)?;
    // A pattern without `*` also excludes what has that name at any depth.
    for pattern in args.exclude_patterns.iter().filter(|pattern| !pattern.contains('*')) {
        excluded.push(Glob::new(&format!("**/{pattern}"))?);
        excluded.push(Glob::new(&format!("**/{pattern}/**"))?);
    }
    let tree = children(&roots::resolve(&args.path)?, "", &excluded)?;
    Ok(text(serde_json::to_string_pretty(&tree)?))
}

fn children(path: &str, relative: &str, excluded: &[Glob]) -> Result<Vec<Node>, Error> {
    let mut nodes = Vec::new();
    for entry in entries(path)? {
        let below = format!("{relative}{}", entry.name);
        if excluded.iter().any(|glob| glob.matches(&below)) {
            continue;
        }
        let (kind, children) = if entry.is_directory {
            ("directory", Some(children(&roots::join(path, &entry.name), &format!("{below}/"), excluded)?))
        } else {
            ("file", None)
        };
        nodes.push(Node { name: entry.name, kind, children });
    }
    Ok(nodes)
}

pub(crate) fn search_files(args: SearchArgs) -> Result<Reply<Text>, Error> {
    let path = roots::resolve(&args.path)?;
    let wanted = Glob::new(&args.pattern)?;
    let excluded = Glob::all(&args.exclude_patterns)?;
    let mut found = Vec::new();
    search(&path, "", &wanted, &excluded, &mut found)?;
    Ok(text(if found.is_empty() { "No matches found".to_owned() } else { found.join("\n") }))
}

fn search(
    path: &str,
    relative: &str,
    wanted: &Glob,
    excluded: &[Glob],
    found: &mut Vec<String>,
) -> Result<(), Error> {
    for entry in entries(path)? {
        let full = roots::join(path, &entry.name);
        // A link that leads nowhere or out of the granted directories isn't there for the caller.
        if entry.is_link && fs::metadata(&full).is_err() {
            continue;
        }
        let below = format!("{relative}{}", entry.name);
        if excluded.iter().any(|glob| glob.matches(&below)) {
            continue;
        }
        if wanted.matches(&below) {
            found.push(full.clone());
        }
        if entry.is_directory {
            // A directory that can't be listed doesn't stop the search in the others.
            drop(search(&full, &format!("{below}/"), wanted, excluded, found));
        }
    }
    Ok(())
}

fn entries(path: &str) -> Result<Vec<Entry>, Error> {
    let refused = |error| failure::io(&error, "scandir", path);
    let mut entries = Vec::new();
    for entry in fs::read_dir(path).map_err(refused)? {
        let entry = entry.map_err(refused)?;
        let kind = entry.file_type().map_err(refused)?;
        entries.push(Entry {
            name: entry.file_name().to_string_lossy().into_owned(),
            is_directory: kind.is_dir(),
            is_link: kind.is_symlink(),
        });
    }
    entries.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(entries)
}

fn label(is_directory: bool) -> &'static str {
    if is_directory { "[DIR]" } else { "[FILE]" }
}
