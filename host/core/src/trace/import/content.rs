//! MCP results as our replies.
//!
//! Owns the way from a `CallToolResult` to [`Reply`], and base64. Refuses to interpret text.
//!
//! **Invariant:** no result is refused: a block that can't be read counts as bytes of unknown type.

use serde_json::Value;

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
