//! The tool of the official MCP fetch server, sandboxed.
//!
//! Owns the tool's name, arguments and the shape of its text, which are those of `mcp-server-fetch`. Refuses to decide
//! which hosts may be asked: the host grants them, and checks each redirect.
//!
//! INVARIANT: lengths and places count characters, so no text is cut inside one.

mod page;
#[cfg(test)]
mod tests;

use t2m_plugin_sdk::http::{Request, Response};
use t2m_plugin_sdk::{Deserialize, Error, JsonSchema, Plugin, Reply, Serialize, Tools, export};

/// Redirects that are followed. 20, as browsers do.
const REDIRECTS: u32 = 20;

/// Bytes of a page that are read. 4 MiB: a larger one takes more memory as a tree than a call has.
const MOST_BYTES: usize = 4 << 20;

/// What the server is told of who asks.
const USER_AGENT: &str = concat!("t2m-host-fetch/", env!("CARGO_PKG_VERSION"));

/// What is said where there is nothing left.
const NO_MORE: &str = "<error>No more content available.</error>";

/// Arguments of `fetch`.
#[derive(Deserialize, JsonSchema)]
struct Args {
    /// URL to fetch
    #[schemars(extend("format" = "uri", "minLength" = 1))]
    url: String,
    /// Maximum number of characters to return.
    #[serde(default = "usual_length")]
    #[schemars(extend("exclusiveMinimum" = 0, "exclusiveMaximum" = 1_000_000))]
    max_length: u32,
    /// On return output starting at this character index, useful if a previous fetch was truncated and more context is
    /// required.
    #[serde(default)]
    start_index: u32,
    /// Get the actual HTML content of the requested page, without simplification.
    #[serde(default)]
    raw: bool,
}

fn usual_length() -> u32 {
    5_000
}

/// The structured result of `fetch`.
#[derive(Serialize, JsonSchema)]
struct Page {
    /// Where it came from, after redirects.
    url: String,
    /// The status of the answer.
    status: u16,
    /// What the server says it is.
    content_type: String,
    /// The part that was asked for.
    content: String,
    /// Where the next part begins, if there is one.
    next_index: Option<u32>,
}

fn fetch(args: Args) -> Result<Reply<Page>, Error> {
    let response = Request::get(args.url.as_str())
        .header("user-agent", USER_AGENT)
        .header("accept", "text/html, text/markdown, text/plain, application/json;q=0.9, */*;q=0.8")
        .follow_redirects(REDIRECTS)
        .most_bytes(MOST_BYTES)
        .send()?;
    if response.status >= 400 {
        let message = format!("Failed to fetch {} - status code {}", response.url, response.status);
        let later = response.status == 429 || response.status >= 500;
        return Err(Error::new("http-status", message).retryable(later));
    }
    let content_type = response.header("content-type").unwrap_or_default().to_owned();
    let (content, prefix) = simplify(&response, &content_type, args.raw)?;
    let (part, next_index) = part(&content, args.start_index, args.max_length);
    let note = match next_index {
        Some(next) => format!(
            "\n\n<error>Content truncated. Call the fetch tool with a start_index of {next} to get more content.</error>"
        ),
        None if response.truncated => {
            format!("\n\n<error>Only the first {MOST_BYTES} bytes of the page were read.</error>")
        }
        None => String::new(),
    };
    let shown = part.as_deref().unwrap_or(NO_MORE);
    let text = format!("{prefix}Contents of {}:\n{shown}{note}", response.url);
    let content = part.unwrap_or_default();
    let page = Page { url: response.url, status: response.status, content_type, content, next_index };
    Ok(Reply::structured(page).text(text))
}

/// The page's content and what is said before it.
fn simplify(response: &Response, content_type: &str, raw: bool) -> Result<(String, String), Error> {
    let text = response.text();
    let begin: String = text.chars().take(100).collect::<String>().to_ascii_lowercase();
    let is_html = content_type.contains("text/html") || content_type.is_empty() || begin.contains("<html");
    if is_html && !raw {
        return Ok((page::to_markdown(&text)?, String::new()));
    }
    let prefix = format!(
        "Content type {content_type} cannot be simplified to markdown, but here is the raw content:\n"
    );
    Ok((text, if raw && is_html { String::new() } else { prefix }))
}

/// A part of a text, by characters, and where the next one begins.
fn part(content: &str, start: u32, length: u32) -> (Option<String>, Option<u32>) {
    let mut rest = content.chars().skip(usize::try_from(start).unwrap_or(usize::MAX));
    let part: String = rest.by_ref().take(usize::try_from(length).unwrap_or(usize::MAX)).collect();
    let next = rest.next().map(|_| start.saturating_add(length));
    ((!part.is_empty()).then_some(part), next)
}

struct Fetch;

impl Plugin for Fetch {
    fn tools(tools: &mut Tools) {
        tools
            .read(
                "fetch",
                "Fetches a URL from the internet and optionally extracts its contents as markdown. Only hosts that \
                 the operator granted can be reached.",
                fetch,
            )
            .title("Fetch")
            .reads(&["url:{url}"]);
    }
}

export!(Fetch);
