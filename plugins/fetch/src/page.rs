//! From a page's HTML to Markdown.
//!
//! Owns what of a page is left out. Refuses to look for the main part of a page: what guesses wrong hides what was asked
//! for.
//!
//! INVARIANT: no script, style or markup of the page's frame is in the text.

use htmd::HtmlToMarkdown;
use t2m_plugin_sdk::Error;

/// Elements whose content is no text of the page, or its frame.
const LEFT_OUT: [&str; 13] = [
    "head", "script", "style", "noscript", "template", "svg", "iframe", "object", "nav", "footer", "form",
    "button", "dialog",
];

/// The page as Markdown.
pub(crate) fn to_markdown(html: &str) -> Result<String, Error> {
    let converter = HtmlToMarkdown::builder().skip_tags(LEFT_OUT.to_vec()).build();
    let text = converter.convert(html)?;
    Ok(text.trim().to_owned())
}
