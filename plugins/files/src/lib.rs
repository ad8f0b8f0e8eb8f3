//! The tools of the official MCP filesystem server, sandboxed.
//!
//! Owns names, arguments and result texts, which are those of `@modelcontextprotocol/server-filesystem`
//! 2026.8. Refuses to check grants itself: every access goes through `std::fs` and so through WASI, which
//! knows nothing but the granted directories.
//!
//! INVARIANT: a result's text and its structured `content` are equal.

mod collate;
mod diff;
mod edit;
mod failure;
mod format;
mod glob;
mod info;
mod list;
mod read;
mod roots;
#[cfg(test)]
mod tests;
mod write;

use t2m_plugin_sdk::{Deserialize, JsonSchema, Plugin, Reply, Serialize, Tools, export};

/// The plugin.
pub struct Files;

/// Arguments of a tool that takes one path.
#[derive(Deserialize, JsonSchema)]
struct PathArgs {
    path: String,
}

/// The structured result of every tool but `read_media_file`.
#[derive(Serialize, JsonSchema)]
struct Text {
    content: String,
}

fn text(content: String) -> Reply<Text> {
    Reply::structured(Text { content: content.clone() }).text(content)
}

impl Plugin for Files {
    fn tools(tools: &mut Tools) {
        reading(tools);
        writing(tools);
        looking(tools);
    }
}

export!(Files);

const FILE: &[&str] = &["file:{path}"];

fn reading(tools: &mut Tools) {
    tools
        .read(
            "read_file",
            "Read the complete contents of a file as text. DEPRECATED: Use read_text_file instead.",
            read::read_text_file,
        )
        .title("Read File (Deprecated)")
        .reads(FILE);
    tools
        .read(
            "read_text_file",
            "Read the complete contents of a file as UTF-8 text, whatever its extension. Use 'head' to read \
             only the first N lines or 'tail' to read only the last N lines. Only works within allowed \
             directories.",
            read::read_text_file,
        )
        .title("Read Text File")
        .reads(FILE);
    tools
        .read(
            "read_media_file",
            "Read a file and return its bytes with their MIME type: images and audio as such, any other file \
             as an embedded resource. Only works within allowed directories.",
            read::read_media_file,
        )
        .title("Read Media File")
        .reads(FILE);
    tools
        .read(
            "read_multiple_files",
            "Read several files at once. Each file's content is returned with its path; a file that can't be \
             read doesn't stop the others. Only works within allowed directories.",
            read::read_multiple_files,
        )
        .title("Read Multiple Files")
        .reads(&["file:{paths}"]);
}

fn writing(tools: &mut Tools) {
    tools
        .write(
            "write_file",
            "Create a file or replace all of an existing file, without warning. Only works within allowed \
             directories.",
            write::write_file,
        )
        .title("Write File")
        .idempotent()
        .writes(FILE);
    tools
        .write(
            "edit_file",
            "Replace text in a file. Each edit replaces the first place where its old text stands, exactly or \
             else with other whitespace around the lines. Returns a git-style diff of the changes. Only works \
             within allowed directories.",
            edit::edit_file,
        )
        .title("Edit File")
        .non_idempotent()
        .reads(FILE)
        .writes(FILE);
    tools
        .write(
            "create_directory",
            "Create a directory and those above it, or do nothing if it exists. Only works within allowed \
             directories.",
            write::create_directory,
        )
        .title("Create Directory")
        .idempotent()
        .writes(FILE);
    tools
        .write(
            "move_file",
            "Move or rename a file or directory. Fails if the destination exists. Both must be within allowed \
             directories.",
            write::move_file,
        )
        .title("Move File")
        .non_idempotent()
        .writes(&["file:{source}", "file:{destination}"]);
}

fn looking(tools: &mut Tools) {
    tools
        .read(
            "list_directory",
            "List what a directory holds, each name with [FILE] or [DIR] before it. Only works within allowed \
             directories.",
            list::list_directory,
        )
        .title("List Directory")
        .reads(FILE);
    tools
        .read(
            "list_directory_with_sizes",
            "List what a directory holds with sizes, each name with [FILE] or [DIR] before it. Only works \
             within allowed directories.",
            list::list_directory_with_sizes,
        )
        .title("List Directory with Sizes")
        .reads(FILE);
    tools
        .read(
            "directory_tree",
            "Get all that lies below a directory as JSON. Each entry has 'name' and 'type' (file or \
             directory), and a directory has 'children'. Only works within allowed directories.",
            list::directory_tree,
        )
        .title("Directory Tree")
        .reads(FILE);
    tools
        .read(
            "search_files",
            "Search below a directory for files and directories whose path from there matches a glob pattern: \
             '*.ext' for the directory itself, '**/*.ext' for all below. Returns full paths. Only searches \
             within allowed directories.",
            list::search_files,
        )
        .title("Search Files")
        .reads(FILE);
    tools
        .read(
            "get_file_info",
            "Get the size, times and type of a file or directory. Only works within allowed directories.",
            info::get_file_info,
        )
        .title("Get File Info")
        .reads(FILE);
    tools
        .read(
            "list_allowed_directories",
            "List the directories this plugin may access. What lies below them is accessible too.",
            info::list_allowed_directories,
        )
        .title("List Allowed Directories");
}
