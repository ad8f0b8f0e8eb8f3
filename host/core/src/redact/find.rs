//! Secrets inside one text.
//!
//! Owns the reading of shapes, `KEY=VALUE`, `key: value`, header lines, query strings, command lines and
//! quoted JSON. Refuses to look at markers: what was redacted before isn't found again.
//!
//! **Invariant:** every span lies on character boundaries, isn't empty, and holds no whole marker; a text is read
//! a bounded number of times, whatever stands in it.

mod line;

use std::ops::Range;
use std::sync::LazyLock;

use regex::Regex;

use self::line::Line;
use super::looks::{is_credential, is_placeholder, looks_random};
use super::marker;
use super::rules::{KeyRule, Rules, words_of};

/// A secret found in a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Found<'r> {
    pub(super) span: Range<usize>,
    pub(super) kind: &'r str,
    /// Backslashes in it are those of the JSON text around it.
    pub(super) escaped: bool,
    /// The quotes that a marker needs here: it stands where JSON inside the text had a number.
    pub(super) wrap: String,
}

/// A key and the sign behind it. The value is read by hand, because quotes have to match.
static ASSIGNMENT: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(r#"(?P<dash>--?)?\b(?P<key>[A-Za-z_$][A-Za-z0-9_.$-]{0,80})(?:\[\])?(?P<quote>\\*["'`])?[ \t]*(?P<op>=>|:=|={1,3}|:)[ \t]*"#).ok()
});

/// A flag whose value is the next word.
static FLAG: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r#"(?:^|[\s"'`(])--?(?P<key>[A-Za-z][A-Za-z0-9-]{1,60})[ \t]+"#).ok());

pub(super) fn find<'r>(text: &str, rules: &'r Rules) -> Vec<Found<'r>> {
    let mut found = Vec::new();
    // What stands shorter can't hold a secret with its context.
    if text.len() >= 6 {
        shapes(text, rules, &mut found);
        assignments(text, rules, &mut found);
        flags(text, rules, &mut found);
    }
    let marked: Vec<Range<usize>> = marker::spans(text).collect();
    found.retain(|found| !found.span.is_empty() && marker::is_apart(&marked, &found.span));
    found
}

fn shapes<'r>(text: &str, rules: &'r Rules, found: &mut Vec<Found<'r>>) {
    for shape in rules.shapes() {
        for captures in shape.regex.captures_iter(text) {
            let Some(secret) = captures.name("secret").or_else(|| captures.get(0)) else { continue };
            let good = match shape.random {
                true => is_credential(secret.as_str()),
                false => !is_placeholder(secret.as_str()),
            };
            if good {
                found.push(Found {
                    span: secret.range(),
                    kind: &shape.kind,
                    escaped: secret.as_str().contains('\\'),
                    wrap: String::new(),
                });
            }
        }
    }
}

fn assignments<'r>(text: &str, rules: &'r Rules, found: &mut Vec<Found<'r>>) {
    let Some(regex) = ASSIGNMENT.as_ref() else { return };
    let mut line = Line::default();
    let mut around = Around::default();
    for captures in regex.captures_iter(text) {
        let (Some(whole), Some(key), Some(op)) = (captures.get(0), captures.name("key"), captures.name("op"))
        else {
            continue;
        };
        let Some(rule) = rules.key(key.as_str()) else { continue };
        line.read_to(text, whole.start());
        let spaced = text.get(key.end()..op.start()).is_some_and(|gap| !gap.is_empty());
        let shell = op.as_str() == "=" && !spaced && line.is_assignments();
        // An environment variable or a flag with such a name is meant to hold one.
        let named = captures.name("dash").is_some() || (op.as_str() == "=" && is_constant(key.as_str()));
        let rule = KeyRule { only_random: rule.only_random && !(named && rule.kind == "token"), ..rule };
        let quote = captures.name("quote").map_or("", |quote| quote.as_str());
        let context = Context { key: key.as_str(), quote, op: op.as_str(), shell, rule };
        let Some(readable) = around.readable(text, whole.end()) else { continue };
        let Some(value) = Value::read(readable, whole.end(), &context) else { continue };
        let before = found.len();
        value.secrets(text, &context, rules, found);
        around.was_read(&value.span, found.len() > before);
    }
}

/// What was read of values in which further ones may begin, as in `password=password=...`.
#[derive(Default)]
struct Around {
    end: usize,
    is_secret: bool,
    /// Values that began in it.
    inside: usize,
}

impl Around {
    /// Values inside one value that are read to their ends; nobody writes as many by hand.
    const WHOLE: usize = 64;

    /// How much is read of each further one.
    const PART: usize = 256;

    /// The text up to where a value that begins at `start` may be read; nothing if it is hidden already.
    fn readable<'t>(&mut self, text: &'t str, start: usize) -> Option<&'t str> {
        if start >= self.end {
            *self = Around::default();
            return Some(text);
        }
        self.inside += 1;
        if self.inside <= Around::WHOLE {
            return Some(text);
        }
        if self.is_secret {
            return None;
        }
        text.get(..text.floor_char_boundary(start.saturating_add(Around::PART)))
    }

    fn was_read(&mut self, span: &Range<usize>, is_secret: bool) {
        #[cfg(test)]
        tests::count(span.len());
        // What hides a part only doesn't hide the rest.
        self.is_secret = is_secret && (self.is_secret || span.end >= self.end);
        self.end = self.end.max(span.end);
    }
}

fn flags<'r>(text: &str, rules: &'r Rules, found: &mut Vec<Found<'r>>) {
    let Some(regex) = FLAG.as_ref() else { return };
    for captures in regex.captures_iter(text) {
        let (Some(whole), Some(key)) = (captures.get(0), captures.name("key")) else { continue };
        let Some(rule) = rules.key(key.as_str()).filter(|rule| flag_takes_secret(rule)) else { continue };
        let rule = KeyRule { only_random: false, ..rule };
        let context = Context { key: key.as_str(), quote: "", op: "=", shell: true, rule };
        let Some(value) = Value::read(text, whole.end(), &context) else { continue };
        if !text.get(value.span.clone()).is_some_and(|value| value.starts_with('-')) {
            value.secrets(text, &context, rules, found);
        }
    }
}

/// Whether the word behind a flag is its secret. `--session x` and `--key x` name things more often.
pub(super) fn flag_takes_secret(rule: &KeyRule<'_>) -> bool {
    !rule.only_random || rule.kind == "token"
}

/// `SOME_NAME`
fn is_constant(key: &str) -> bool {
    key.contains('_') && key.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_')
}

/// What stands before a value.
struct Context<'t, 'r> {
    key: &'t str,
    /// The quote behind the key.
    quote: &'t str,
    op: &'t str,
    /// A word of a shell or of an `.env` file.
    shell: bool,
    rule: KeyRule<'r>,
}

/// The value of an assignment.
struct Value {
    span: Range<usize>,
    quoted: bool,
    /// Quoted inside a quoted text.
    escaped: bool,
}

impl Value {
    fn read(text: &str, start: usize, context: &Context<'_, '_>) -> Option<Value> {
        let rest = text.get(start..)?;
        let slashes = rest.len() - rest.trim_start_matches('\\').len();
        let after = rest.get(slashes..)?;
        let quote = after.chars().next()?;
        if matches!(quote, '"' | '\'' | '`') {
            let inner = start + slashes + 1;
            let body = text.get(inner..)?;
            let end = end_of_quoted(body, quote, slashes)
                // It is cut off: what is there may be most of it.
                .unwrap_or_else(|| body.find('\n').unwrap_or(body.len()));
            return Some(Value {
                span: inner..inner + end,
                quoted: true,
                escaped: slashes > 0 || quote == '"',
            });
        }
        if context.rule.kind == "cookie" && context.op == ":" && !rest.starts_with(['{', '[']) {
            let end = rest.find(['\n', '\r', '"', '\'', '\\']).unwrap_or(rest.len());
            return Some(Value { span: start..start + end, quoted: true, escaped: false });
        }
        let scheme = scheme(rest);
        let word = rest.get(scheme..)?;
        let ends = |c: char| {
            c.is_whitespace()
                || matches!(c, '"' | '\'' | '`' | '\\' | '<' | '>')
                || (!context.shell && matches!(c, ',' | ';' | '&' | '|' | '(' | ')' | '[' | ']' | '{' | '}'))
                || (context.shell && c == '|')
        };
        let mut end = word.find(ends).unwrap_or(word.len());
        if let Some(next) = word.get(..end).and_then(next_parameter) {
            end = next;
        }
        end = word.get(..end).map_or(end, |word| word.trim_end_matches(';').len());
        Some(Value { span: start..start + scheme + end, quoted: false, escaped: false })
    }

    fn secrets<'r>(
        &self,
        text: &str,
        context: &Context<'_, 'r>,
        rules: &'r Rules,
        found: &mut Vec<Found<'r>>,
    ) {
        let Some(value) = text.get(self.span.clone()) else { return };
        if !self.quoted && !self.is_plausible(text, value, context) {
            return;
        }
        let is_number = !self.quoted && context.quote.ends_with('"') && value.parse::<f64>().is_ok();
        for part in parts_of(value, context.rule, rules) {
            let span = self.span.start + part.start..self.span.start + part.end;
            let wrap = if is_number { context.quote.to_owned() } else { String::new() };
            found.push(Found { span, kind: context.rule.kind, escaped: self.escaped, wrap });
        }
    }

    /// Whether a bare word may be a secret and no code, type or sentence.
    fn is_plausible(&self, text: &str, value: &str, context: &Context<'_, '_>) -> bool {
        let core = value.get(scheme(value)..).unwrap_or_default();
        if core.is_empty() || core.starts_with([':', '=', '/', '+']) || is_type(core) {
            return false;
        }
        let words = words_of(core);
        let key = words_of(context.key);
        if words == key || key.ends_with(&format!(" {words}")) || words.ends_with(&format!(" {key}")) {
            return false;
        }
        if context.shell {
            return true;
        }
        let after = text.get(self.span.end..).unwrap_or_default();
        let is_word = |c: char| c.is_alphanumeric() || c == '_';
        let is_name = core.starts_with(|c: char| c.is_alphabetic() || c == '_')
            && core.chars().all(|c| is_word(c) || c == '.')
            && !core.contains(|c: char| c.is_ascii_digit());
        if is_name && (core.contains('.') || after.starts_with(['(', '[', '{'])) {
            return false;
        }
        // `password: must be long` is a sentence, `password: swordfish` at the end of a line is not.
        let blank = |c: char| c.is_whitespace() && c != '\n';
        let goes_on = after.starts_with(' ') && after.trim_start_matches(blank).starts_with(is_word);
        !(goes_on && context.op == ":" && core.chars().all(|c| c.is_lowercase()))
    }
}

/// The end of a quoted text: the next quote with as many backslashes before it as the first one had.
fn end_of_quoted(body: &str, quote: char, slashes: usize) -> Option<usize> {
    let mut run = 0;
    for (at, c) in body.char_indices() {
        if c == '\\' {
            run += 1;
            continue;
        }
        // Inside JSON in a text a quote of the value has more backslashes; outside an escaped one has an odd run.
        let closes = if slashes == 0 { run % 2 == 0 } else { run == slashes };
        if c == quote && closes {
            return Some(at - if slashes == 0 { 0 } else { run });
        }
        run = 0;
    }
    None
}

/// Where the next parameter of a query string begins, at its `&`.
fn next_parameter(value: &str) -> Option<usize> {
    value.match_indices('&').map(|(at, _)| at).find(|at| {
        let rest = value.get(at + 1..).unwrap_or_default();
        let ends = |c: char| !(c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.'));
        rest.find(ends)
            .is_some_and(|end| end > 0 && rest.get(end..).is_some_and(|rest| rest.starts_with('=')))
    })
}

/// Words of type annotations and code that stand where a value could.
fn is_type(word: &str) -> bool {
    let word = word.trim_end_matches(['?', '!', '.', '*']);
    matches!(
        word.to_ascii_lowercase().as_str(),
        "str"
            | "string"
            | "bool"
            | "boolean"
            | "int"
            | "integer"
            | "number"
            | "float"
            | "option"
            | "optional"
            | "none"
            | "null"
            | "nil"
            | "undefined"
            | "any"
            | "bytes"
            | "object"
            | "true"
            | "false"
            | "self"
            | "this"
            | "new"
            | "await"
            | "text"
            | "varchar"
            | "char"
            | "list"
            | "dict"
            | "array"
            | "required"
            | "unknown"
            | "never"
            | "void"
            | "yes"
            | "no"
    )
}

/// The length of the scheme at the front of a credential, with the blanks behind it.
pub(super) fn scheme(value: &str) -> usize {
    const SCHEMES: [&str; 9] =
        ["bearer", "basic", "token", "digest", "negotiate", "apikey", "api-key", "ntlm", "aws4-hmac-sha256"];
    // No scheme is longer; what follows may be a whole text.
    let head = value.get(..value.floor_char_boundary(20)).unwrap_or_default();
    let end = head.find([' ', '\t']).unwrap_or(head.len());
    let known =
        value.get(..end).is_some_and(|word| SCHEMES.iter().any(|scheme| word.eq_ignore_ascii_case(scheme)));
    let rest = value.get(end..).unwrap_or_default();
    let blanks = rest.len() - rest.trim_start_matches([' ', '\t']).len();
    if known && blanks > 0 { end + blanks } else { 0 }
}

/// The secret parts of a value below a key: the credential without its scheme, the values of cookies.
pub(super) fn parts_of(value: &str, rule: KeyRule<'_>, rules: &Rules) -> Vec<Range<usize>> {
    if rule.only_random {
        let trimmed = trimmed(value, 0..value.len());
        let random = value.get(trimmed.clone()).is_some_and(|value| looks_random(value, rule.keep_uuid));
        return if random { vec![trimmed] } else { Vec::new() };
    }
    let whole = trimmed(value, scheme(value)..value.len());
    let parts = match rule.kind {
        "cookie" if value.contains('=') => cookie_values(value, rules),
        _ => vec![whole],
    };
    parts
        .into_iter()
        .filter(|part| value.get(part.clone()).is_some_and(|part| !is_placeholder(part)))
        .collect()
}

fn trimmed(value: &str, span: Range<usize>) -> Range<usize> {
    let Some(text) = value.get(span.clone()) else { return 0..0 };
    let start = span.start + (text.len() - text.trim_start().len());
    start..(span.end - (text.len() - text.trim_end().len())).max(start)
}

/// The values of `a=b; c=d; Path=/`, without attributes.
fn cookie_values(value: &str, rules: &Rules) -> Vec<Range<usize>> {
    let mut start = 0;
    let mut found = Vec::new();
    for pair in value.split(';') {
        if let Some((name, text)) = pair.split_once('=')
            && !rules.is_descriptive(name.trim())
        {
            let from = start + name.len() + 1;
            found.push(trimmed(value, from..from + text.len()));
        }
        start += pair.len() + 1;
    }
    found
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::super::rules::{Options, Rules};
    use super::*;

    thread_local! {
        static READ: Cell<usize> = const { Cell::new(0) };
    }

    /// Counts what was read of values.
    pub(super) fn count(bytes: usize) {
        READ.set(READ.get() + bytes);
    }

    /// T13: what is read, and what is found, grows with the text and not with its square.
    #[test]
    fn a_text_is_read_a_bounded_number_of_times() {
        let rules = Rules::new(&Options::default()).unwrap();
        for part in [
            "password=",
            "password=/",
            "password=\"x",
            "password: ",
            "Cookie: a=",
            "password=a&b=",
            "-----BEGIN PRIVATE KEY-----\n",
            "curl -u a:b ",
            "[T2M-REDACTED:",
            "[T2M-REDACTED:a:1]token=",
        ] {
            let text = part.repeat(20_000 / part.len());
            READ.set(0);
            let found = find(&text, &rules);
            let hidden: usize = found.iter().map(|found| found.span.len()).sum();
            let most = (2 * Around::WHOLE + Around::PART) * text.len();
            assert!(READ.get() <= most, "{part}: {} bytes read of {}", READ.get(), text.len());
            assert!(hidden <= most, "{part}: {hidden} bytes hidden of {}", text.len());
        }
    }

    /// T13: what stands inside a value that is no secret itself is still found, however many stand before it.
    #[test]
    fn many_values_inside_one_hide_none() {
        let rules = Rules::new(&Options::default()).unwrap();
        let text = format!("password={}token=k7Jd93hXq2LmZp8vT4wB", "/password=".repeat(500));
        let found = find(&text, &rules);
        assert!(
            found.iter().any(|found| text.get(found.span.clone()).unwrap().contains("k7Jd93hXq2LmZp8vT4wB"))
        );
    }
}
