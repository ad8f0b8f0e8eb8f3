//! The parts of a URL that a request needs.
//!
//! Owns splitting, escaping and following a reference. Refuses to judge a host: the host program gives it its canonical
//! form and checks it.
//!
//! INVARIANT: a parsed URL holds no control character and no space, so it is one part of a request line.

use std::fmt;

use crate::Error;

/// A URL of HTTP.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Url {
    pub(crate) scheme: String,
    pub(crate) authority: String,
    /// Path and query; it begins with `/`.
    pub(crate) path: String,
}

impl Url {
    /// Splits an absolute URL. The fragment is left out, since no server sees it.
    pub(crate) fn parse(text: &str) -> Result<Url, Error> {
        let invalid = |why: &str| Error::new("request-invalid", format!("`{text}` {why}"));
        let (scheme, rest) = text.trim().split_once("://").ok_or_else(|| invalid("is no absolute URL"))?;
        let scheme = scheme.to_ascii_lowercase();
        if scheme != "http" && scheme != "https" {
            return Err(invalid("is neither `http` nor `https`"));
        }
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at_checked(end).unwrap_or((rest, ""));
        if authority.is_empty() || !authority.is_ascii() {
            return Err(invalid("has no host in ASCII; write other letters in punycode"));
        }
        let path = path.split('#').next().unwrap_or_default();
        let slash = if path.starts_with('/') { "" } else { "/" };
        Ok(Url { scheme, authority: authority.to_owned(), path: escape(&format!("{slash}{path}")) })
    }

    /// Where a reference on this page leads.
    pub(crate) fn join(&self, reference: &str) -> Result<Url, Error> {
        let reference = reference.trim();
        let own = |path: &str| Url::parse(&format!("{}://{}{path}", self.scheme, self.authority));
        let file = self.path.split('?').next().unwrap_or_default();
        let scheme = reference.split_once("://").map(|(scheme, _)| scheme);
        if scheme.is_some_and(|scheme| scheme.bytes().all(|byte| byte.is_ascii_alphanumeric())) {
            Url::parse(reference)
        } else if reference.starts_with("//") {
            Url::parse(&format!("{}:{reference}", self.scheme))
        } else if reference.starts_with('/') {
            own(&without_dots(reference))
        } else if reference.starts_with('?') {
            own(&format!("{file}{reference}"))
        } else {
            let folder = file.rsplit_once('/').map_or("", |(folder, _)| folder);
            own(&without_dots(&format!("{folder}/{reference}")))
        }
    }

    /// Scheme and authority.
    pub(crate) fn origin(&self) -> (&str, &str) {
        (&self.scheme, &self.authority)
    }
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}{}", self.scheme, self.authority, self.path)
    }
}

fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_graphic() && !b"\"<>\\^`{|}".contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

fn without_dots(path: &str) -> String {
    let (path, query) = path.find(['?', '#']).and_then(|at| path.split_at_checked(at)).unwrap_or((path, ""));
    let mut parts: Vec<&str> = Vec::new();
    let mut steps = path.split('/').skip(1).peekable();
    while let Some(step) = steps.next() {
        let is_last = steps.peek().is_none();
        match step {
            "." if is_last => parts.push(""),
            "." => {}
            ".." => {
                parts.pop();
                if is_last {
                    parts.push("");
                }
            }
            step => parts.push(step),
        }
    }
    format!("/{}{query}", parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::Url;

    #[test]
    fn a_url_is_split_and_escaped() {
        for (text, expected) in [
            ("HTTPS://a.example", Some("https://a.example/")),
            ("http://a.example:80/x y?q=ü#f", Some("http://a.example:80/x%20y?q=%C3%BC")),
            ("http://a.example?q", Some("http://a.example/?q")),
            ("http://a.example/\r\nx: y", Some("http://a.example/%0D%0Ax:%20y")),
            ("http://a.example/%20", Some("http://a.example/%20")),
            ("ftp://a.example/", None),
            ("a.example", None),
            ("http:///x", None),
            ("http://bücher.example/", None),
        ] {
            assert_eq!(Url::parse(text).ok().map(|url| url.to_string()).as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn a_reference_leads_somewhere() {
        let base = Url::parse("https://a.example/b/c/d?q").unwrap();
        for (reference, expected) in [
            ("https://x.example/y", "https://x.example/y"),
            ("//x.example", "https://x.example/"),
            ("/y?z", "https://a.example/y?z"),
            ("y", "https://a.example/b/c/y"),
            ("../y#f", "https://a.example/b/y"),
            ("../../../..", "https://a.example/"),
            ("./", "https://a.example/b/c/"),
            ("?r", "https://a.example/b/c/d?r"),
            ("y?u=http://z", "https://a.example/b/c/y?u=http://z"),
        ] {
            assert_eq!(base.join(reference).unwrap().to_string(), expected, "{reference}");
        }
        assert!(base.join("javascript://x").is_err());
    }
}
