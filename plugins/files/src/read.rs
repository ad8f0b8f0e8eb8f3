//! Reading files.
//!
//! Owns text, parts of text and media. Refuses to detect encodings: text is UTF-8, and bytes that aren't
//! become U+FFFD, as in the official server.
//!
//! INVARIANT: reading the first or last lines holds only about those lines in memory.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::Path;

use base64::prelude::{BASE64_STANDARD, Engine};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use t2m_plugin_sdk::{Error, Media, Reply};

use crate::{PathArgs, Text, failure, roots, text};

#[derive(Deserialize, JsonSchema)]
pub(crate) struct ReadArgs {
    path: String,
    /// If provided, returns only the last N lines of the file
    #[serde(default)]
    tail: Option<u64>,
    /// If provided, returns only the first N lines of the file
    #[serde(default)]
    head: Option<u64>,
}

#[derive(Deserialize, JsonSchema)]
pub(crate) struct ReadManyArgs {
    /// Array of file paths to read. Each path must be a string pointing to a valid file within allowed
    /// directories.
    #[schemars(length(min = 1))]
    paths: Vec<String>,
}

/// The result of reading media, in the shape of MCP's content blocks.
#[derive(Serialize, JsonSchema)]
pub(crate) struct MediaResult {
    content: Vec<Block>,
}

#[derive(Serialize, JsonSchema)]
#[serde(tag = "type", rename_all = "lowercase")]
enum Block {
    #[serde(rename_all = "camelCase")]
    Image {
        data: String,
        mime_type: String,
    },
    #[serde(rename_all = "camelCase")]
    Audio {
        data: String,
        mime_type: String,
    },
    Resource {
        resource: Blob,
    },
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Blob {
    uri: String,
    mime_type: String,
    blob: String,
}

pub(crate) fn read_text_file(args: ReadArgs) -> Result<Reply<Text>, Error> {
    let path = roots::resolve(&args.path)?;
    let (head, tail) = (args.head.unwrap_or(0), args.tail.unwrap_or(0));
    match (head, tail) {
        (0, 0) => Ok(text(whole(&path)?)),
        (head, 0) => Ok(text(first_lines(&path, head)?)),
        (0, tail) => Ok(text(last_lines(&path, tail)?)),
        _ => Err(Error::invalid_arguments("Cannot specify both head and tail parameters simultaneously")),
    }
}

pub(crate) fn read_multiple_files(args: ReadManyArgs) -> Result<Reply<Text>, Error> {
    if args.paths.is_empty() {
        return Err(Error::invalid_arguments("At least one file path must be provided"));
    }
    let files =
        args.paths.iter().map(|path| match roots::resolve(path).and_then(|resolved| whole(&resolved)) {
            Ok(content) => format!("{path}:\n{content}\n"),
            Err(error) => format!("{path}: Error - {error}"),
        });
    Ok(text(files.collect::<Vec<String>>().join("\n---\n")))
}

pub(crate) fn read_media_file(args: PathArgs) -> Result<Reply<MediaResult>, Error> {
    let path = roots::resolve(&args.path)?;
    let data = bytes(&path)?;
    let mime_type = mime_type(&path).to_owned();
    let encoded = BASE64_STANDARD.encode(&data);
    let media = Media { mime_type: mime_type.clone(), data };
    let reply = |block| Reply::structured(MediaResult { content: vec![block] });
    Ok(if mime_type.starts_with("image/") {
        reply(Block::Image { data: encoded, mime_type }).image(media)
    } else if mime_type.starts_with("audio/") {
        reply(Block::Audio { data: encoded, mime_type }).audio(media)
    } else {
        let uri = file_uri(&path);
        reply(Block::Resource { resource: Blob { uri: uri.clone(), mime_type, blob: encoded } })
            .resource(uri, media)
    })
}

/// All bytes of a file at a resolved path.
pub(crate) fn bytes(path: &str) -> Result<Vec<u8>, Error> {
    let mut file = open(path, "open")?;
    let mut data = Vec::new();
    file.read_to_end(&mut data).map_err(|error| failure::io(&error, "read", path))?;
    Ok(data)
}

fn whole(path: &str) -> Result<String, Error> {
    Ok(lossy(bytes(path)?))
}

/// Opens a file; `action` is what an error says was tried.
fn open(path: &str, action: &str) -> Result<File, Error> {
    // Asked first, because what opening and reading a directory says differs between systems.
    if let Ok(about) = fs::metadata(path) {
        if about.is_dir() {
            return Err(failure::is_directory("read"));
        }
        if !about.is_file() {
            // Opening a named pipe waits for its other end, and nothing can end that wait.
            return Err(failure::not_regular(path));
        }
    }
    File::open(path).map_err(|error| failure::io(&error, action, path))
}

fn lossy(data: Vec<u8>) -> String {
    String::from_utf8(data).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

fn first_lines(path: &str, count: u64) -> Result<String, Error> {
    let mut reader = BufReader::new(open(path, "open")?);
    let mut data = Vec::new();
    for _ in 0..count {
        let read = reader.read_until(b'\n', &mut data).map_err(|error| failure::io(&error, "read", path))?;
        if read == 0 {
            break;
        }
    }
    if data.last() == Some(&b'\n') {
        data.pop();
    }
    Ok(lossy(data))
}

fn last_lines(path: &str, count: u64) -> Result<String, Error> {
    let mut file = open(path, "stat")?;
    let data = tail(&mut file, count).map_err(|error| failure::io(&error, "read", path))?;
    let text = lossy(data).replace("\r\n", "\n");
    // What follows the last line feed counts as a line, even if it is empty.
    let count = usize::try_from(count).unwrap_or(usize::MAX);
    let skipped = text.split('\n').count().saturating_sub(count);
    Ok(text.split('\n').skip(skipped).collect::<Vec<&str>>().join("\n"))
}

/// Reads whole chunks from the end until they hold a number of line feeds.
fn tail(file: &mut File, count: u64) -> io::Result<Vec<u8>> {
    const CHUNK: u64 = 64 * 1024;
    let mut position = file.seek(SeekFrom::End(0))?;
    let mut chunks = Vec::new();
    let mut found = 0;
    while position > 0 && found < count {
        let size = position.min(CHUNK);
        position -= size;
        file.seek(SeekFrom::Start(position))?;
        let mut chunk = Vec::new();
        file.by_ref().take(size).read_to_end(&mut chunk)?;
        found += chunk.iter().filter(|byte| **byte == b'\n').count() as u64;
        chunks.push(chunk);
    }
    chunks.reverse();
    Ok(chunks.concat())
}

fn mime_type(path: &str) -> &'static str {
    let extension = Path::new(path).extension().map(|extension| extension.to_string_lossy().to_lowercase());
    match extension.as_deref() {
        Some("png") => "image/png",
        Some("jpg" | "jpeg") => "image/jpeg",
        Some("gif") => "image/gif",
        Some("webp") => "image/webp",
        Some("bmp") => "image/bmp",
        Some("svg") => "image/svg+xml",
        Some("mp3") => "audio/mpeg",
        Some("wav") => "audio/wav",
        Some("ogg") => "audio/ogg",
        Some("flac") => "audio/flac",
        _ => "application/octet-stream",
    }
}

fn file_uri(path: &str) -> String {
    let mut uri = String::from("file://");
    for byte in path.bytes() {
        // What Node's `pathToFileURL` encodes.
        if byte.is_ascii_graphic() && !b"\"#%<>?[\\]^`{|}~".contains(&byte) {
            uri.push(char::from(byte));
        } else {
            uri.push_str(&format!("%{byte:02X}"));
        }
    }
    uri
}

#[cfg(test)]
mod tests {
    use super::{file_uri, mime_type};

    #[test]
    fn uris_are_encoded() {
        assert_eq!(file_uri("/a b/é#?%.bin"), "file:///a%20b/%C3%A9%23%3F%25.bin");
    }

    #[test]
    fn extensions_tell_the_type() {
        assert_eq!(mime_type("/a/b.PNG"), "image/png");
        assert_eq!(mime_type("/a/.png"), "application/octet-stream");
    }
}
