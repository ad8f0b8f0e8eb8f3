//! The tools together, on real files.
//!
//! Owns the texts that recordings of the official server hold. Refuses to test the sandbox: natively
//! nothing stops a path but this plugin's own words.
//!
//! INVARIANT: every test has a directory of its own.

use std::fs;
use std::os::unix::fs::symlink;

use serde_json::{Value, json};
use t2m_plugin_sdk::testing::Harness;
use t2m_plugin_sdk::{Content, Effect, Idempotency};
use tempfile::TempDir;

use crate::{Files, roots};

/// A granted directory and a plugin that sees it.
struct Fixture {
    root: String,
    _directory: TempDir,
    harness: Harness<Files>,
}

impl Fixture {
    fn new() -> Self {
        let directory = TempDir::new().unwrap();
        let root = directory.path().canonicalize().unwrap().to_str().unwrap().to_owned();
        roots::native::set(vec![root.clone()]);
        Self { root, _directory: directory, harness: Harness::new() }
    }

    fn with(files: &[(&str, &str)]) -> Self {
        let fixture = Self::new();
        for (name, content) in files {
            let path = fixture.path(name);
            fs::create_dir_all(roots::parent(&path)).unwrap();
            fs::write(path, content).unwrap();
        }
        fixture
    }

    fn path(&self, name: &str) -> String {
        roots::join(&self.root, name)
    }

    /// Calls a tool in whose arguments and result `/ROOT` stands for the granted directory.
    fn call(&mut self, tool: &str, arguments: Value) -> Result<String, String> {
        let arguments = arguments.to_string().replace("/ROOT", &self.root);
        match self.harness.call(tool, &arguments) {
            Ok(outcome) => {
                let text = outcome.text();
                assert_eq!(outcome.data::<Value>().unwrap(), json!({ "content": text }));
                Ok(text.replace(&self.root, "/ROOT"))
            }
            Err(error) => Err(format!("{}: {}", error.code(), error.message()).replace(&self.root, "/ROOT")),
        }
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }
}

fn ok(text: &str) -> Result<String, String> {
    Ok(text.to_owned())
}

fn err(text: &str) -> Result<String, String> {
    Err(text.to_owned())
}

#[test]
fn the_recorded_session_gives_the_recorded_texts() {
    let mut files = Fixture::with(&[(".git/HEAD", ""), ("notes.txt", "line 1\nline 2\nline 3\n")]);
    assert_eq!(files.call("list_allowed_directories", json!({})), ok("Allowed directories:\n/ROOT"));
    assert_eq!(files.call("list_directory", json!({"path": "/ROOT"})), ok("[DIR] .git\n[FILE] notes.txt"));
    let search = json!({"path": "/ROOT", "pattern": "**/*.txt"});
    assert_eq!(files.call("search_files", search), ok("/ROOT/notes.txt"));
    let notes = json!({"path": "/ROOT/notes.txt"});
    assert_eq!(files.call("read_text_file", notes.clone()), ok("line 1\nline 2\nline 3\n"));
    assert_eq!(files.call("read_file", notes.clone()), ok("line 1\nline 2\nline 3\n"));
    let info = files.call("get_file_info", notes).unwrap();
    assert!(info.starts_with("size: 21\ncreated: unknown\nmodified: "), "{info}");
    assert!(info.ends_with("\nisDirectory: false\nisFile: true\npermissions: unknown"), "{info}");
    assert_eq!(
        files.call("read_text_file", json!({"path": "/ROOT/missing.txt"})),
        err("not-found: ENOENT: no such file or directory, open '/ROOT/missing.txt'")
    );
}

#[test]
fn effects_and_keys_are_declared() {
    let harness = Harness::<Files>::new();
    let problems = harness.problems();
    assert_eq!(problems, Vec::<String>::new());
    let readme = include_str!("../README.md");
    for tool in harness.tools() {
        let effect = match tool.effect {
            Effect::Read => "read",
            Effect::Write if tool.idempotency == Idempotency::Idempotent => "write, idempotent",
            Effect::Write => "write",
            other => panic!("{} is {other:?}", tool.name),
        };
        assert!(readme.contains(&format!("| `{}` | {effect} |", tool.name)), "README.md lacks {}", tool.name);
        assert_eq!(tool.input_schema["additionalProperties"], json!(false), "{}", tool.name);
        assert!(tool.output_schema.is_some(), "{}", tool.name);
    }
}

#[test]
fn parts_of_a_file_are_read() {
    let mut files = Fixture::with(&[("f", "a\nb\nc\n"), ("open", "a\r\nb"), ("empty", "")]);
    let mut read = |path: &str, head: u64, tail: u64| {
        files.call("read_text_file", json!({"path": format!("/ROOT/{path}"), "head": head, "tail": tail}))
    };
    assert_eq!(read("f", 2, 0), ok("a\nb"));
    assert_eq!(read("f", 9, 0), ok("a\nb\nc"));
    assert_eq!(read("f", 0, 2), ok("c\n"));
    assert_eq!(read("f", 0, 9), ok("a\nb\nc\n"));
    assert_eq!(read("open", 1, 0), ok("a\r"));
    assert_eq!(read("open", 0, 2), ok("a\nb"));
    assert_eq!(read("empty", 0, 2), ok(""));
    let both = "invalid-arguments: Cannot specify both head and tail parameters simultaneously";
    assert_eq!(read("f", 1, 1), err(both));
}

#[test]
fn the_tail_of_a_long_file_is_read_in_chunks() {
    let long: String = (0..40_000).map(|n| format!("línea {n}\n")).collect();
    let mut files = Fixture::with(&[("f", &long)]);
    let tail = files.call("read_text_file", json!({"path": "/ROOT/f", "tail": 20_001})).unwrap();
    assert!(tail.starts_with("línea 20000\n") && tail.ends_with("línea 39999\n"));
}

#[test]
fn one_unreadable_file_does_not_stop_the_others() {
    let mut files = Fixture::with(&[("a", "1"), ("b", "2\n")]);
    let arguments = json!({"paths": ["/ROOT/a", "/ROOT/x", "/etc/x", "b"]});
    let expected = "/ROOT/a:\n1\n\n---\n/ROOT/x: Error - ENOENT: no such file or directory, open '/ROOT/x'\n---\n\
        /etc/x: Error - Access denied - path outside allowed directories: /etc/x not in /ROOT\n---\nb:\n2\n\n";
    assert_eq!(files.call("read_multiple_files", arguments), ok(expected));
}

#[test]
fn media_come_as_blocks_and_as_base64() {
    let mut files = Fixture::with(&[("p.png", "abc"), ("d.bin", "abc")]);
    let arguments = json!({ "path": files.path("p.png") });
    let picture = files.harness.call_with("read_media_file", &arguments).unwrap();
    assert!(matches!(picture.content.as_slice(), [Content::Image(media)] if media.data == b"abc"));
    let block = json!({"type": "image", "data": "YWJj", "mimeType": "image/png"});
    assert_eq!(picture.data::<Value>().unwrap(), json!({"content": [block]}));
    let arguments = json!({ "path": files.path("d.bin") });
    let data = files.harness.call_with("read_media_file", &arguments).unwrap();
    let uri = format!("file://{}", files.path("d.bin"));
    let resource = json!({"uri": uri, "mimeType": "application/octet-stream", "blob": "YWJj"});
    assert_eq!(
        data.data::<Value>().unwrap(),
        json!({"content": [{"type": "resource", "resource": resource}]})
    );
}

#[test]
fn writing_replaces_the_whole_and_leaves_nothing_behind() {
    let mut files = Fixture::with(&[("old", "long content")]);
    symlink("old", files.path("link")).unwrap();
    let write = json!({"path": "/ROOT/link", "content": "new"});
    assert_eq!(files.call("write_file", write), ok("Successfully wrote to /ROOT/link"));
    assert_eq!(files.read("old"), "new");
    assert!(fs::symlink_metadata(files.path("link")).unwrap().is_symlink());
    assert_eq!(files.call("list_directory", json!({"path": "/ROOT"})), ok("[FILE] link\n[FILE] old"));
    assert_eq!(
        files.call("write_file", json!({"path": "/ROOT/no/x", "content": ""})),
        err("not-found: ENOENT: no such file or directory, open '/ROOT/no/x'")
    );
    assert_eq!(
        files.call("write_file", json!({"path": "/ROOT", "content": ""})),
        err("is-a-directory: EISDIR: illegal operation on a directory, open '/ROOT'")
    );
}

#[test]
fn links_that_lead_out_are_refused() {
    let mut files = Fixture::new();
    symlink("/etc/passwd", files.path("out")).unwrap();
    symlink("loop", files.path("loop")).unwrap();
    let denied =
        "not-permitted: Access denied - symlink target outside allowed directories: /etc/passwd not in /ROOT";
    assert_eq!(files.call("read_text_file", json!({"path": "/ROOT/out"})), err(denied));
    assert_eq!(files.call("write_file", json!({"path": "/ROOT/out", "content": ""})), err(denied));
    let endless = files.call("read_text_file", json!({"path": "/ROOT/loop"})).unwrap_err();
    assert!(endless.starts_with("failed: ELOOP"), "{endless}");
}

#[test]
fn edits_apply_all_or_none_and_show_a_diff() {
    let mut files = Fixture::with(&[("f", "a\r\n  b\r\nc\r\n")]);
    let edit = |old: &str, new: &str| json!({"oldText": old, "newText": new});
    let preview = json!({"path": "/ROOT/f", "edits": [edit("b", "B")], "dryRun": true});
    let diff = "```diff\nIndex: /ROOT/f\n===================================================================\n\
        --- /ROOT/f\toriginal\n+++ /ROOT/f\tmodified\n@@ -1,3 +1,3 @@\n a\n-  b\n+  B\n c\n```\n\n";
    assert_eq!(files.call("edit_file", preview), ok(diff));
    assert_eq!(files.read("f"), "a\r\n  b\r\nc\r\n");
    let half = json!({"path": "/ROOT/f", "edits": [edit("b", "B"), edit("absent", "x")]});
    assert_eq!(files.call("edit_file", half), err("no-match: Could not find exact match for edit:\nabsent"));
    assert_eq!(files.read("f"), "a\r\n  b\r\nc\r\n");
    let whole = json!({"path": "/ROOT/f", "edits": [edit("b\nc", "x\ny")]});
    assert!(files.call("edit_file", whole).unwrap().contains("-  b\n-c\n+  x\n+y\n"));
    assert_eq!(files.read("f"), "a\n  x\ny\n");
}

#[test]
fn an_edit_does_not_damage_other_encodings() {
    let mut files = Fixture::new();
    fs::write(files.path("f"), [b'a', 0xff]).unwrap();
    let error = files.call("edit_file", json!({"path": "/ROOT/f", "edits": []})).unwrap_err();
    assert!(error.starts_with("invalid-data: "), "{error}");
    assert_eq!(files.call("read_text_file", json!({"path": "/ROOT/f"})), ok("a\u{fffd}"));
}

#[test]
fn directories_are_made_and_things_moved() {
    let mut files = Fixture::with(&[("a", "1"), ("b", "2")]);
    let make = json!({"path": "/ROOT/x/y"});
    assert_eq!(files.call("create_directory", make.clone()), ok("Successfully created directory /ROOT/x/y"));
    assert_eq!(files.call("create_directory", make), ok("Successfully created directory /ROOT/x/y"));
    let moved = json!({"source": "/ROOT/a", "destination": "/ROOT/x/y/a"});
    let missing = "not-found: ENOENT: no such file or directory, rename '/ROOT/a' -> '/ROOT/x/y/a'";
    assert_eq!(files.call("move_file", moved.clone()), ok("Successfully moved /ROOT/a to /ROOT/x/y/a"));
    fs::rename(files.path("x/y/a"), files.path("x/a")).unwrap();
    assert_eq!(files.call("move_file", moved), err(missing));
    assert_eq!(
        files.call("move_file", json!({"source": "/ROOT/b", "destination": "/ROOT/x/a"})),
        err("already-exists: Destination already exists: /ROOT/x/a")
    );
}

#[test]
fn trees_leave_out_what_is_excluded() {
    let mut files = Fixture::with(&[("src/a.rs", ""), ("src/node_modules/x", ""), ("b.log", "")]);
    fs::create_dir(files.path("empty")).unwrap();
    let tree = json!({"path": "/ROOT", "excludePatterns": ["node_modules", "*.log"]});
    let expected = json!([
        {"name": "empty", "type": "directory", "children": []},
        {"name": "src", "type": "directory", "children": [{"name": "a.rs", "type": "file"}]},
    ]);
    let text = files.call("directory_tree", tree).unwrap();
    assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), expected);
    assert!(text.starts_with(
        "[\n  {\n    \"name\": \"empty\",\n    \"type\": \"directory\",\n    \"children\": []\n  }"
    ));
}

#[test]
fn searches_descend_but_skip_dead_links() {
    let mut files = Fixture::with(&[("src/a.rs", ""), ("src/deep/b.rs", ""), ("c.rs", "")]);
    symlink("nowhere.rs", files.path("dead.rs")).unwrap();
    let search = json!({"path": "/ROOT", "pattern": "**/*.rs", "excludePatterns": ["**/deep"]});
    assert_eq!(files.call("search_files", search), ok("/ROOT/c.rs\n/ROOT/src/a.rs"));
    assert_eq!(
        files.call("search_files", json!({"path": "/ROOT", "pattern": "*.py"})),
        ok("No matches found")
    );
    assert_eq!(
        files.call("search_files", json!({"path": "/ROOT/c.rs", "pattern": "*"})),
        err("not-a-directory: ENOTDIR: not a directory, scandir '/ROOT/c.rs'")
    );
}

#[test]
fn sizes_are_listed_in_columns() {
    let mut files = Fixture::with(&[("B", &"x".repeat(2048)), ("a", "1")]);
    let line = |name: &str, size: &str| format!("[FILE] {name:<30} {size:>10}\n");
    let (small, large) = (line("a", "1 B"), line("B", "2.00 KB"));
    let total = "\nTotal: 2 files, 0 directories\nCombined size: 2.00 KB";
    let by_name = files.call("list_directory_with_sizes", json!({"path": "/ROOT"}));
    assert_eq!(by_name, Ok(format!("{small}{large}{total}")));
    let by_size = files.call("list_directory_with_sizes", json!({"path": "/ROOT", "sortBy": "size"}));
    assert_eq!(by_size, Ok(format!("{large}{small}{total}")));
}
