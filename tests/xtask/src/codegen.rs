//! The generated parts of the repository: code tables in README.md and the JSON Schemas.
//!
//! It owns which file or part comes from which command of the built binary. It refuses to know the content:
//! the binary prints its own tables and schemas, so they can't differ from what it does.
//!
//! **Invariant:** everything is generated before anything is written, so a failure leaves the tree as it was.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, bail};

use crate::shell::{Repo, program, read, say};

const README: &str = "README.md";
const SCHEMAS: &str = "schemas";
const BEGIN: &str = "<!-- codes:begin -->";
const END: &str = "<!-- codes:end -->";

/// File formats that have a published schema, as `t2m-host config schema --kind` names them.
const KINDS: [&str; 8] =
    ["workflow", "contracts", "approvals", "trace", "config", "plugin", "plugin-case", "catalog"];

/// Writes the generated parts, or compares them if `check` is set.
pub(crate) fn run(repo: &Repo, check: bool, binary: Option<&Path>) -> Result<()> {
    let binary = match binary {
        Some(binary) => std::path::absolute(binary)?,
        None => {
            repo.build()?;
            repo.binary()
        }
    };
    let wanted = generate(&repo.root, |args| {
        read(program(&binary.to_string_lossy()).args(args).current_dir(&repo.root))
    })?;
    let differing = compare(&repo.root, &wanted)?;
    if check {
        if !differing.is_empty() {
            bail!(
                "generated parts are out of date; run `cargo xtask codegen` and commit:\n{}",
                differing.join("\n")
            );
        }
        return Ok(());
    }
    for line in differing {
        say(&format!("xtask: writing {line}"));
    }
    write(&repo.root, &wanted)
}

/// Every generated file with its content; `None` is a file that shouldn't be there.
type Wanted = BTreeMap<String, Option<String>>;

fn generate(root: &Path, mut ask: impl FnMut(&[&str]) -> Result<String>) -> Result<Wanted> {
    let mut wanted = Wanted::new();
    for old in schemas_in(root)? {
        wanted.insert(old, None);
    }
    for kind in KINDS {
        let text = ask(&["config", "schema", "--kind", kind])?;
        serde_json::from_str::<serde_json::Value>(&text)
            .with_context(|| format!("`config schema --kind {kind}` didn't print JSON"))?;
        wanted.insert(format!("{SCHEMAS}/{kind}.schema.json"), Some(format!("{}\n", text.trim_end())));
    }
    let tables = ask(&["doctor", "--codes"])?;
    if tables.trim().is_empty() {
        bail!("`doctor --codes` printed nothing");
    }
    let path = root.join(README);
    let readme = fs::read_to_string(&path).with_context(|| format!("can't read `{}`", path.display()))?;
    wanted.insert(README.to_owned(), Some(splice(&readme, &tables)?));
    Ok(wanted)
}

/// Replaces what stands between the markers.
fn splice(readme: &str, tables: &str) -> Result<String> {
    let markers =
        "README.md needs the markers `<!-- codes:begin -->` and `<!-- codes:end -->`, once, in order";
    let (before, rest) = readme.split_once(BEGIN).context(markers)?;
    let (_, after) = rest.split_once(END).context(markers)?;
    if before.contains(END) || after.contains(BEGIN) || after.contains(END) {
        bail!(markers);
    }
    Ok(format!("{before}{BEGIN}\n\n{}\n\n{END}{after}", tables.trim()))
}

fn schemas_in(root: &Path) -> Result<Vec<String>> {
    let folder = root.join(SCHEMAS);
    if !folder.is_dir() {
        return Ok(Vec::new());
    }
    let mut found = Vec::new();
    for entry in fs::read_dir(&folder).with_context(|| format!("can't list `{}`", folder.display()))? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if name.ends_with(".json") {
            found.push(format!("{SCHEMAS}/{name}"));
        }
    }
    Ok(found)
}

/// Says which files differ and where.
fn compare(root: &Path, wanted: &Wanted) -> Result<Vec<String>> {
    let mut differing = Vec::new();
    for (name, content) in wanted {
        let path = root.join(name);
        let have = if path.exists() {
            Some(fs::read_to_string(&path).with_context(|| format!("can't read `{}`", path.display()))?)
        } else {
            None
        };
        match (&have, content) {
            (None, Some(_)) => differing.push(format!("{name}: missing")),
            (Some(_), None) => differing.push(format!("{name}: nothing generates this file")),
            (Some(have), Some(want)) if have != want => {
                differing.push(format!("{name}:{}: differs", first_difference(have, want)));
            }
            _ => {}
        }
    }
    Ok(differing)
}

fn first_difference(have: &str, want: &str) -> usize {
    have.lines().zip(want.lines()).take_while(|(have, want)| have == want).count() + 1
}

fn write(root: &Path, wanted: &Wanted) -> Result<()> {
    for (name, content) in wanted {
        let path = root.join(name);
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).with_context(|| format!("can't create `{}`", folder.display()))?;
        }
        match content {
            Some(content) => fs::write(&path, content),
            None => fs::remove_file(&path),
        }
        .with_context(|| format!("can't write `{}`", path.display()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fake(args: &[&str]) -> Result<String> {
        match args {
            ["config", "schema", "--kind", kind] => Ok(format!("{{\"title\": \"{kind}\"}}")),
            ["doctor", "--codes"] => Ok("| code | meaning |\n".to_owned()),
            other => bail!("unexpected {other:?}"),
        }
    }

    fn tree() -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join(README), format!("# x\n\n{BEGIN}\nold\n{END}\n\nend\n")).unwrap();
        dir
    }

    #[test]
    fn written_files_pass_the_check_and_a_changed_one_is_named_with_its_line() {
        let dir = tree();
        let wanted = generate(dir.path(), fake).unwrap();
        assert_eq!(compare(dir.path(), &wanted).unwrap().len(), KINDS.len() + 1);
        write(dir.path(), &wanted).unwrap();

        let again = generate(dir.path(), fake).unwrap();
        assert_eq!(compare(dir.path(), &again).unwrap(), Vec::<String>::new());

        let readme = fs::read_to_string(dir.path().join(README)).unwrap();
        assert!(readme.starts_with("# x\n") && readme.ends_with("\n\nend\n"), "{readme}");
        fs::write(dir.path().join(README), readme.replace("meaning", "sense")).unwrap();
        let last = generate(dir.path(), fake).unwrap();
        assert_eq!(compare(dir.path(), &last).unwrap(), ["README.md:5: differs"]);
    }

    #[test]
    fn a_schema_that_nothing_generates_is_reported_and_removed() {
        let dir = tree();
        write(dir.path(), &generate(dir.path(), fake).unwrap()).unwrap();
        let stale = dir.path().join("schemas/old.schema.json");
        fs::write(&stale, "{}").unwrap();
        let wanted = generate(dir.path(), fake).unwrap();
        assert_eq!(
            compare(dir.path(), &wanted).unwrap(),
            ["schemas/old.schema.json: nothing generates this file"]
        );
        write(dir.path(), &wanted).unwrap();
        assert!(!stale.exists());
    }

    #[test]
    fn a_readme_without_its_markers_is_refused() {
        for readme in ["", BEGIN, END, &format!("{END}{BEGIN}"), &format!("{BEGIN}{END}{BEGIN}{END}")] {
            assert!(splice(readme, "x").is_err(), "`{readme}` was accepted");
        }
    }

    #[test]
    fn a_binary_that_prints_no_tables_or_no_json_is_refused() {
        let dir = tree();
        let silent = |args: &[&str]| {
            if args == ["doctor", "--codes"] { Ok(String::new()) } else { fake(args) }
        };
        assert!(generate(dir.path(), silent).is_err());
        assert!(generate(dir.path(), |_: &[&str]| Ok("not json".to_owned())).is_err());
    }
}
