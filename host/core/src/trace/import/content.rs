//! Results as our replies have them.
//!
//! Owns the way from a `CallToolResult` to [`Reply`], the one from the content that chat formats record to
//! a reply's value, and base64. Refuses to interpret text: JSON in a text stays text.
//!
//! **Invariant:** no result is refused: a block that can't be read counts as bytes of unknown type.

use serde_json::{Map, Value, json};

use crate::tool::{Content, Reply, Usage};

/// The reply that an MCP `CallToolResult` stands for. The broker and the importers share it, so that a
/// recorded result and a live one have one form.
pub fn reply_of_mcp_result(result: &Value) -> Reply {
    let blocks = result.get("content").and_then(Value::as_array);
    Reply {
        content: blocks.into_iter().flatten().map(block).collect(),
        structured: result.get("structuredContent").filter(|value| !value.is_null()).cloned(),
        usage: Usage::default(),
    }
}

fn block(block: &Value) -> Content {
    let text = |key: &str| block.get(key).and_then(Value::as_str).unwrap_or_default();
    let media = |value: &Value, default: &str| {
        let found = value.get("mimeType").and_then(Value::as_str);
        found.unwrap_or(default).to_owned()
    };
    match text("type") {
        "text" => Content::Text { text: text("text").to_owned() },
        "image" => {
            Content::Image { mime_type: media(block, "application/octet-stream"), data: bytes(text("data")) }
        }
        "audio" => {
            Content::Audio { mime_type: media(block, "application/octet-stream"), data: bytes(text("data")) }
        }
        "resource" => {
            let inner = block.get("resource").unwrap_or(&Value::Null);
            let part = |key: &str| inner.get(key).and_then(Value::as_str);
            let (default, data) = match (part("text"), part("blob")) {
                (Some(text), _) => ("text/plain", text.as_bytes().to_vec()),
                (None, blob) => ("application/octet-stream", bytes(blob.unwrap_or_default())),
            };
            Content::Resource {
                uri: part("uri").unwrap_or_default().to_owned(),
                mime_type: media(inner, default),
                data,
            }
        }
        // A link carries no bytes; nor does a block of a kind that this version doesn't know.
        _ => Content::Resource {
            uri: text("uri").to_owned(),
            mime_type: media(block, "application/octet-stream"),
            data: Vec::new(),
        },
    }
}

/// The value that [`Reply::value`] gives for the content that a chat format records, and how many blocks of
/// bytes were counted but not kept. A text is `{"text": ...}`; an object is a structured result already.
pub(super) fn value_of_content(content: Value) -> (Value, usize) {
    match content {
        Value::Null => (of_text(String::new()), 0),
        Value::String(text) => (of_text(text), 0),
        Value::Array(blocks) => of_blocks(blocks),
        other => (other, 0),
    }
}

/// The value of a result that is a text.
pub(super) fn of_text(text: String) -> Value {
    let mut map = Map::new();
    map.insert("text".into(), Value::String(text));
    Value::Object(map)
}

/// The text of a value that [`value_of_content`] made.
pub(super) fn text_of(value: &Value) -> &str {
    value.get("text").and_then(Value::as_str).unwrap_or_default()
}

fn of_blocks(blocks: Vec<Value>) -> (Value, usize) {
    let (mut text, mut others): (Option<String>, Vec<Value>) = (None, Vec::new());
    let mut count = 0;
    for block in blocks {
        match text_of_block(block) {
            Ok(more) => match &mut text {
                None => text = Some(more),
                Some(text) => {
                    text.push('\n');
                    text.push_str(&more);
                }
            },
            Err(block) if holds_bytes(&block) => {
                count += 1;
                others.push(bytes_of_block(&block));
            }
            // Such as what a server's own search found: data, as it stands.
            Err(block) => others.push(block),
        }
    }
    let mut value = of_text(text.unwrap_or_default());
    if let Some(map) = value.as_object_mut().filter(|_| !others.is_empty()) {
        map.insert("blocks".into(), Value::Array(others));
    }
    (value, count)
}

fn text_of_block(block: Value) -> Result<String, Value> {
    match block {
        Value::String(text) => Ok(text),
        Value::Object(mut map) => match (map.get("type").and_then(Value::as_str), map.get("text")) {
            (Some("text" | "input_text" | "output_text"), Some(Value::String(_))) => {
                match map.remove("text") {
                    Some(Value::String(text)) => Ok(text),
                    _ => Err(Value::Object(map)),
                }
            }
            _ => Err(Value::Object(map)),
        },
        other => Err(other),
    }
}

/// Whether a block that is no text is a picture or other bytes.
fn holds_bytes(block: &Value) -> bool {
    let kind = block.get("type").and_then(Value::as_str).unwrap_or_default();
    let kinds = ["image", "audio", "video", "document", "file"];
    let keys = ["data", "blob", "image_url", "mimeType", "mime_type", "media_type", "file_data"];
    kinds.iter().any(|word| kind.contains(word))
        || keys.iter().any(|key| block.get(*key).is_some())
        || block.get("source").is_some_and(Value::is_object)
        || !block.is_object()
}

/// Media type and size of a picture or another block of bytes, wherever a format puts them.
fn bytes_of_block(block: &Value) -> Value {
    let source = block.get("source").unwrap_or(block);
    let text = |keys: &[&str]| keys.iter().find_map(|key| source.get(*key).and_then(Value::as_str));
    let url = text(&["image_url", "url"])
        .or_else(|| block.get("image_url").and_then(|image| image.get("url")).and_then(Value::as_str));
    let (mime, data) = match url.and_then(|url| url.strip_prefix("data:")?.split_once(";base64,")) {
        Some((mime, data)) => (Some(mime), Some(data)),
        None => (text(&["media_type", "mimeType", "mime_type"]), text(&["data"])),
    };
    json!({
        "mime_type": mime.unwrap_or("application/octet-stream"),
        "bytes": data.map_or(0, |data| data.trim_end_matches('=').len() * 3 / 4),
    })
}

/// Decoded base64, or the text's own bytes if it isn't base64.
fn bytes(text: &str) -> Vec<u8> {
    decode(text).unwrap_or_else(|| text.as_bytes().to_vec())
}

fn decode(text: &str) -> Option<Vec<u8>> {
    let digits = text.trim_end_matches('=');
    let mut out = Vec::with_capacity(digits.len() / 4 * 3 + 3);
    let (mut buffer, mut bits) = (0u32, 0u32);
    for byte in digits.bytes().filter(|byte| !byte.is_ascii_whitespace()) {
        let digit = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' | b'-' => 62,
            b'/' | b'_' => 63,
            _ => return None,
        };
        buffer = (buffer << 6) | u32::from(digit);
        bits += 6;
        if bits >= 8 {
            bits -= 8;
            out.push(u8::try_from((buffer >> bits) & 0xff).ok()?);
        }
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn base64_gives_the_bytes() {
        for (text, expected) in
            [("", ""), ("Zg==", "f"), ("Zm8=", "fo"), ("Zm9v", "foo"), ("Zm9v\nYg", "foob")]
        {
            assert_eq!(decode(text).as_deref(), Some(expected.as_bytes()), "{text}");
        }
        assert_eq!(decode("a.b"), None);
    }

    /// T02: the same result has the same value, whichever format recorded it.
    #[test]
    fn content_of_chat_formats_has_the_value_of_a_reply() {
        let png = json!({"mime_type": "image/png", "bytes": 3});
        for (content, expected) in [
            (json!(null), json!({"text": ""})),
            (json!("{\"id\": 1.50}"), json!({"text": "{\"id\": 1.50}"})),
            (json!({"id": 1}), json!({"id": 1})),
            (
                json!([{"type": "text", "text": "a"}, {"type": "input_text", "text": "b"}, "c"]),
                json!({"text": "a\nb\nc"}),
            ),
            (
                json!([{"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "Zm9v"}}]),
                json!({"text": "", "blocks": [png]}),
            ),
            (
                json!([{"type": "text", "text": "a"}, {"type": "image", "mimeType": "image/png", "data": "Zm9v"}]),
                json!({"text": "a", "blocks": [png]}),
            ),
            (
                json!([{"type": "input_image", "image_url": "data:image/png;base64,Zm9v"}]),
                json!({"text": "", "blocks": [png]}),
            ),
            (
                json!([{"type": "image_url", "image_url": {"url": "data:image/png;base64,Zm9v"}}, 7]),
                json!({"text": "", "blocks": [png, {"mime_type": "application/octet-stream", "bytes": 0}]}),
            ),
        ] {
            assert_eq!(value_of_content(content.clone()).0, expected, "{content}");
        }
    }

    #[test]
    fn every_block_has_a_value() {
        let value = |result: Value| reply_of_mcp_result(&result).value();
        assert_eq!(
            value(json!({"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]})),
            json!({"text": "a\nb"})
        );
        assert_eq!(
            value(json!({"content": [{"type": "text", "text": "{}"}], "structuredContent": {"n": 1}})),
            json!({"n": 1})
        );
        assert_eq!(
            value(json!({"content": [
                {"type": "image", "mimeType": "image/png", "data": "Zm9v"},
                {"type": "resource", "resource": {"uri": "a:b", "text": "four"}},
                {"type": "resource_link", "uri": "a:c", "name": "c"},
            ]})),
            json!({"text": "", "blocks": [
                {"mime_type": "image/png", "bytes": 3},
                {"mime_type": "text/plain", "bytes": 4},
                {"mime_type": "application/octet-stream", "bytes": 0},
            ]})
        );
        assert_eq!(value(json!(null)), json!({"text": ""}));
    }
}
