//! What a tool returns when it succeeds.
//!
//! Owns the rule that turns a Rust value into content blocks and structured JSON. Refuses to render for
//! people beyond compact JSON: a tool that wants prose says so with [`Reply`].
//!
//! INVARIANT: what is made here as `structured` is the text of a JSON object.

use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::{Error, schema};

/// Bytes with a media type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Media {
    /// Media type, such as `image/png`.
    pub mime_type: String,
    /// The bytes, not encoded.
    pub data: Vec<u8>,
}

/// One block of a result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Content {
    /// Plain text.
    Text(String),
    /// A picture.
    Image(Media),
    /// Sound.
    Audio(Media),
    /// Any other bytes.
    Resource {
        /// What the bytes are of.
        uri: String,
        /// The bytes.
        media: Media,
    },
}

/// A finished result: of a tool under test, or of another tool that was called.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Blocks for people and models.
    pub content: Vec<Content>,
    /// A JSON object as text.
    pub structured: Option<String>,
}

impl Outcome {
    /// All text blocks, one per line.
    pub fn text(&self) -> String {
        let blocks: Vec<&str> = self
            .content
            .iter()
            .filter_map(|block| match block {
                Content::Text(text) => Some(text.as_str()),
                _ => None,
            })
            .collect();
        blocks.join("\n")
    }

    /// Reads the result into a type: the structured object if there is one, otherwise the text, as JSON if
    /// it is that and as a string if not.
    ///
    /// # Errors
    /// `unexpected-result` if the type doesn't fit.
    pub fn data<T: DeserializeOwned>(&self) -> Result<T, Error> {
        let unfit = |error: serde_json::Error| {
            Error::new("unexpected-result", format!("the result has another shape: {error}"))
        };
        if let Some(json) = &self.structured {
            return serde_json::from_str(json).map_err(unfit);
        }
        let text = self.text();
        serde_json::from_str(&text).or_else(|_| serde_json::from_value(Value::String(text)).map_err(unfit))
    }
}

/// A result with content blocks of the tool's own choice.
///
/// ```
/// use t2m_plugin_sdk::{Media, Reply};
///
/// let dot = Media { mime_type: "image/png".into(), data: vec![0x89] };
/// let reply = Reply::new().text("a dot").image(dot);
/// # let _ = reply;
/// ```
#[derive(Debug, Clone)]
pub struct Reply<T = ()> {
    content: Vec<Content>,
    structured: Option<T>,
}

impl Reply<()> {
    /// A result without structured data.
    pub fn new() -> Self {
        Self { content: Vec::new(), structured: None }
    }
}

impl Default for Reply<()> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Reply<T> {
    /// A result with structured data. Without further blocks its JSON becomes the text as well.
    pub fn structured(data: T) -> Self {
        Self { content: Vec::new(), structured: Some(data) }
    }

    /// Adds a block.
    #[must_use]
    pub fn block(mut self, block: Content) -> Self {
        self.content.push(block);
        self
    }

    /// Adds plain text.
    #[must_use]
    pub fn text(self, text: impl Into<String>) -> Self {
        self.block(Content::Text(text.into()))
    }

    /// Adds a picture.
    #[must_use]
    pub fn image(self, media: Media) -> Self {
        self.block(Content::Image(media))
    }

    /// Adds sound.
    #[must_use]
    pub fn audio(self, media: Media) -> Self {
        self.block(Content::Audio(media))
    }

    /// Adds any other bytes.
    #[must_use]
    pub fn resource(self, uri: impl Into<String>, media: Media) -> Self {
        self.block(Content::Resource { uri: uri.into(), media })
    }
}

/// What a tool function may return: any type that serde can write and schemars describe, a [`Reply`], or the
/// [`Outcome`] of another tool as it is.
///
/// A value that is written as a JSON object becomes structured data and a text block of the same JSON. A
/// string becomes a text block, `()` and other nulls nothing, and everything else a text block of JSON.
pub trait Output {
    /// Finishes the result.
    ///
    /// # Errors
    /// `failed` if serde can't write the value.
    fn finish(self) -> Result<Outcome, Error>;

    /// The schema of the structured data, if every value has some.
    fn schema() -> Option<Value>;
}

impl<T: Serialize + JsonSchema> Output for T {
    #[inline(never)] // one copy per type of result instead of one per tool
    fn finish(self) -> Result<Outcome, Error> {
        of_json(serde_json::to_string(&self)?)
    }

    fn schema() -> Option<Value> {
        schema::output(T::json_schema)
    }
}

impl Output for Outcome {
    fn finish(self) -> Result<Outcome, Error> {
        Ok(self)
    }

    fn schema() -> Option<Value> {
        None
    }
}

fn of_json(json: String) -> Result<Outcome, Error> {
    let text = |text| vec![Content::Text(text)];
    Ok(if json.starts_with('{') {
        Outcome { content: text(json.clone()), structured: Some(json) }
    } else if json.starts_with('"') {
        Outcome { content: text(serde_json::from_str(&json)?), structured: None }
    } else if json == "null" {
        Outcome::default()
    } else {
        Outcome { content: text(json), structured: None }
    })
}

impl<T: Serialize + JsonSchema> Output for Reply<T> {
    #[inline(never)]
    fn finish(self) -> Result<Outcome, Error> {
        let Some(data) = self.structured else {
            return Ok(Outcome { content: self.content, structured: None });
        };
        let mut outcome = data.finish()?;
        if !self.content.is_empty() {
            outcome.content = self.content;
        }
        Ok(outcome)
    }

    fn schema() -> Option<Value> {
        schema::output(T::json_schema)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::{Content, Media, Output, Reply};

    #[test]
    fn an_object_is_structured_and_text() {
        let outcome = BTreeMap::from([("a", 1)]).finish().unwrap();
        assert_eq!(outcome.structured.as_deref(), Some(r#"{"a":1}"#));
        assert_eq!(outcome.content, [Content::Text(r#"{"a":1}"#.into())]);
    }

    #[test]
    fn what_is_no_object_is_text_only() {
        assert_eq!("a\n\"b\"".finish().unwrap().content, [Content::Text("a\n\"b\"".into())]);
        assert_eq!(vec![1, 2].finish().unwrap().content, [Content::Text("[1,2]".into())]);
        assert!(().finish().unwrap().content.is_empty());
        assert_eq!(vec![1, 2].finish().unwrap().structured, None);
    }

    #[test]
    fn own_blocks_replace_the_json_text() {
        let media = Media { mime_type: "image/png".into(), data: vec![1] };
        let reply = Reply::structured(BTreeMap::from([("a", 1)])).text("one").image(media.clone());
        let outcome = reply.finish().unwrap();
        assert_eq!(outcome.structured.as_deref(), Some(r#"{"a":1}"#));
        assert_eq!(outcome.content, [Content::Text("one".into()), Content::Image(media)]);
    }

    #[test]
    fn text_is_read_as_json_or_as_a_string() {
        let outcome = Reply::new().text("5").finish().unwrap();
        assert_eq!(outcome.data::<u8>().unwrap(), 5);
        assert_eq!(outcome.data::<String>().unwrap(), "5");
        assert_eq!(outcome.data::<Vec<u8>>().unwrap_err().code(), "unexpected-result");
    }
}
