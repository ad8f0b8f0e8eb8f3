//! Glob patterns, as the official server's `minimatch` reads them with its option `dot`.
//!
//! Owns `*`, `?`, `[…]`, `{a,b}`, `{1..3}`, `**`, a leading `!` and escapes. Refuses extended globs such as
//! `+(a|b)`, with an error, and hidden files get no special treatment.
//!
//! INVARIANT: matching never takes exponential time, and there are at most
//! [`MAX_ALTERNATIVES`] alternatives to match.

use t2m_plugin_sdk::Error;

/// What braces may expand to; nested braces multiply.
const MAX_ALTERNATIVES: usize = 1000;

/// A pattern ready to match.
#[derive(Debug)]
pub(crate) struct Glob {
    negated: bool,
    alternatives: Vec<Vec<Part>>,
}

/// Tells whether a character belongs to a named class.
type Test = fn(&char) -> bool;

#[derive(Debug)]
enum Part {
    /// Any number of whole path parts.
    Deep,
    Name(Vec<Token>),
}

#[derive(Debug)]
enum Token {
    Many,
    One,
    Exactly(char),
    Class { negated: bool, ranges: Vec<(char, char)>, named: Vec<Test> },
}

impl Glob {
    /// Reads a pattern.
    pub(crate) fn new(pattern: &str) -> Result<Self, Error> {
        if has_extended(pattern) {
            return Err(Error::invalid_arguments(format!(
                "`{pattern}` holds an extended glob, which is not supported: use {{a,b}} for alternatives"
            )));
        }
        if pattern.starts_with('#') {
            return Ok(Self { negated: false, alternatives: Vec::new() });
        }
        let body = pattern.trim_start_matches('!');
        let negated = (pattern.len() - body.len()) % 2 == 1;
        let mut expanded = Vec::new();
        expand(body, &mut expanded)?;
        let alternatives = expanded.iter().map(|text| parts(text)).collect();
        Ok(Self { negated, alternatives })
    }

    /// Reads many patterns.
    pub(crate) fn all(patterns: &[String]) -> Result<Vec<Self>, Error> {
        patterns.iter().map(|pattern| Self::new(pattern)).collect()
    }

    /// Tells whether a relative path matches.
    pub(crate) fn matches(&self, path: &str) -> bool {
        let names: Vec<Vec<char>> = path.split('/').map(|name| name.chars().collect()).collect();
        self.alternatives.iter().any(|parts| matches_parts(parts, &names)) != self.negated
    }
}

fn has_extended(pattern: &str) -> bool {
    let mut before = ' ';
    let mut escaped = false;
    for c in pattern.chars() {
        if c == '(' && !escaped && "?*+@!".contains(before) {
            return true;
        }
        escaped = c == '\\' && !escaped;
        before = c;
    }
    false
}

/// Replaces the first brace group by each of its alternatives, until there is none.
fn expand(pattern: &str, out: &mut Vec<String>) -> Result<(), Error> {
    let Some((before, inside, after)) = group(pattern) else {
        if out.len() >= MAX_ALTERNATIVES {
            return Err(Error::invalid_arguments(format!(
                "a pattern may have {MAX_ALTERNATIVES} alternatives"
            )));
        }
        out.push(pattern.to_owned());
        return Ok(());
    };
    for alternative in inside {
        expand(&format!("{before}{alternative}{after}"), out)?;
    }
    Ok(())
}

/// Finds the first brace group that has alternatives: what stands before it, they, and what stands after.
fn group(pattern: &str) -> Option<(&str, Vec<String>, &str)> {
    let mut from = 0;
    loop {
        let open = from + unescaped(pattern.get(from..)?, '{')?;
        let rest = pattern.get(open + 1..)?;
        if let Some((inside, after)) = close(rest) {
            return Some((pattern.get(..open)?, inside, after));
        }
        from = open + 1;
    }
}

fn unescaped(text: &str, wanted: char) -> Option<usize> {
    let mut escaped = false;
    for (index, c) in text.char_indices() {
        if c == wanted && !escaped {
            return Some(index);
        }
        escaped = c == '\\' && !escaped;
    }
    None
}

/// Splits what follows `{` at its commas, up to the `}` that belongs to it.
fn close(rest: &str) -> Option<(Vec<String>, &str)> {
    let (mut depth, mut escaped, mut parts) = (0_u32, false, vec![String::new()]);
    for (index, c) in rest.char_indices() {
        match c {
            _ if escaped => {}
            '{' => depth += 1,
            '}' if depth == 0 => {
                let after = rest.get(index + 1..)?;
                if parts.len() == 1 {
                    parts = range(parts.first()?)?;
                }
                return Some((parts, after));
            }
            '}' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(String::new());
                continue;
            }
            _ => {}
        }
        escaped = c == '\\' && !escaped;
        parts.last_mut()?.push(c);
    }
    None
}

/// Expands `1..3`.
fn range(text: &str) -> Option<Vec<String>> {
    let (from, to) = text.split_once("..")?;
    let (from, to): (i64, i64) = (from.parse().ok()?, to.parse().ok()?);
    if from.abs_diff(to) >= MAX_ALTERNATIVES as u64 {
        return None;
    }
    let numbers = from.min(to)..=from.max(to);
    Some(if from <= to {
        numbers.map(|n| n.to_string()).collect()
    } else {
        numbers.rev().map(|n| n.to_string()).collect()
    })
}

/// Splits at slashes; a row of them counts as one, but one at either end stays.
fn parts(text: &str) -> Vec<Part> {
    let count = text.split('/').count();
    let is_end = |index: usize| index == 0 || index + 1 == count;
    let parts = text.split('/').enumerate();
    parts.filter(|(index, text)| !text.is_empty() || is_end(*index)).map(|(_, text)| part(text)).collect()
}

fn part(text: &str) -> Part {
    if text == "**" {
        return Part::Deep;
    }
    let chars: Vec<char> = text.chars().collect();
    let mut tokens = Vec::new();
    let mut rest = chars.as_slice();
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        tokens.push(match first {
            '*' => Token::Many,
            '?' => Token::One,
            '\\' => match rest.split_first() {
                Some((escaped, after)) => {
                    rest = after;
                    Token::Exactly(*escaped)
                }
                None => Token::Exactly('\\'),
            },
            '[' => match class(rest) {
                Some((class, after)) => {
                    rest = after;
                    class
                }
                None => Token::Exactly('['),
            },
            other => Token::Exactly(*other),
        });
    }
    Part::Name(tokens)
}

/// Reads what follows `[` up to its `]`.
fn class(text: &[char]) -> Option<(Token, &[char])> {
    let (negated, mut rest) = match text.split_first() {
        Some(('!' | '^', rest)) => (true, rest),
        _ => (false, text),
    };
    let (mut ranges, mut named, mut first) = (Vec::new(), Vec::new(), true);
    loop {
        let (c, after) = rest.split_first()?;
        if *c == ']' && !first {
            return Some((Token::Class { negated, ranges, named }, after));
        }
        first = false;
        if let Some((test, after)) = posix(rest) {
            named.push(test);
            rest = after;
            continue;
        }
        let (from, after) = unescape(rest)?;
        rest = after;
        match rest {
            ['-', end, ..] if *end != ']' => {
                let (to, after) = unescape(rest.get(1..)?)?;
                ranges.push((from, to));
                rest = after;
            }
            _ => ranges.push((from, from)),
        }
    }
}

fn unescape(text: &[char]) -> Option<(char, &[char])> {
    match text {
        ['\\', escaped, rest @ ..] => Some((*escaped, rest)),
        [c, rest @ ..] => Some((*c, rest)),
        [] => None,
    }
}

/// Reads `[:alpha:]` and the like.
fn posix(text: &[char]) -> Option<(Test, &[char])> {
    let rest = text.strip_prefix(&['[', ':'])?;
    let end = rest.iter().position(|c| *c == ':')?;
    let name: String = rest.iter().take(end).collect();
    let after = rest.get(end..)?.strip_prefix(&[':', ']'])?;
    let test: Test = match name.as_str() {
        "alpha" => |c| c.is_alphabetic(),
        "digit" => |c| c.is_numeric(),
        "alnum" => |c| c.is_alphanumeric(),
        "upper" => |c| c.is_uppercase(),
        "lower" => |c| c.is_lowercase(),
        "space" => |c| c.is_whitespace(),
        "blank" => |c| *c == ' ' || *c == '\t',
        "punct" => char::is_ascii_punctuation,
        "xdigit" => char::is_ascii_hexdigit,
        "word" => |c| c.is_alphanumeric() || *c == '_',
        _ => return None,
    };
    Some((test, after))
}

fn matches_parts(parts: &[Part], names: &[Vec<char>]) -> bool {
    let one = |part: &Part, name: &Vec<char>| match part {
        Part::Deep => false,
        Part::Name(tokens) => {
            // `*` alone stands for a name, so it needs one.
            matches_row(tokens, name, |token, c| token.matches(*c), |token| matches!(token, Token::Many))
                && (tokens.is_empty() || !name.is_empty())
        }
    };
    // `**` at the end stands for at least one name: `a/**` is what lies in `a`, not `a`.
    if let [before @ .., Part::Deep] = parts {
        return (0..names.len()).any(|end| {
            let head = names.get(..end).unwrap_or_default();
            matches_row(before, head, one, |part| matches!(part, Part::Deep))
        });
    }
    matches_row(parts, names, one, |part| matches!(part, Part::Deep))
}

/// Matches a row of items against a row of tests, some of which stand for any number of items. Going back
/// to the last of those is enough, as an earlier one could only take what the last one can.
fn matches_row<T, I>(
    tests: &[T],
    items: &[I],
    one: impl Fn(&T, &I) -> bool,
    many: impl Fn(&T) -> bool,
) -> bool {
    let (mut test, mut item, mut back) = (0, 0, None);
    loop {
        match (tests.get(test), items.get(item)) {
            (Some(t), _) if many(t) => {
                back = Some((test, item));
                test += 1;
                continue;
            }
            (Some(t), Some(i)) if one(t, i) => {
                test += 1;
                item += 1;
                continue;
            }
            (None, None) => return true,
            _ => {}
        }
        match back {
            Some((many, taken)) if taken < items.len() => {
                back = Some((many, taken + 1));
                test = many + 1;
                item = taken + 1;
            }
            _ => return false,
        }
    }
}

impl Token {
    fn matches(&self, c: char) -> bool {
        match self {
            Self::Many => false,
            Self::One => true,
            Self::Exactly(wanted) => *wanted == c,
            Self::Class { negated, ranges, named } => {
                let listed = ranges.iter().any(|(from, to)| (*from..=*to).contains(&c));
                (listed || named.iter().any(|test| test(&c))) != *negated
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Glob;

    #[test]
    fn patterns_match_as_in_the_official_server() {
        let cases = [
            ("a", "a/**", false),
            ("a/b", "a/**", true),
            ("a/b/c", "**/c", true),
            ("c", "**/c", true),
            (".git/x", "**", true),
            (".x", "*", true),
            ("a/b", "*", false),
            ("a/b", "a**", false),
            ("ab/c", "a**/c", true),
            ("a/b/d/c", "a/**/c", true),
            ("a/c", "a/**/c", true),
            ("foo.js", "*.{js,ts}", true),
            ("foo.js", "*.{js}", false),
            ("a1", "a{1..3}", true),
            ("a", "!b", true),
            ("b", "!b", false),
            ("#a", "#a", false),
            ("a", "[!b]", true),
            ("a", "[^b]", true),
            ("a[", "a[", true),
            ("a*", "a\\*", true),
            ("ab", "a\\*", false),
            ("A", "a", false),
            ("a-c", "a[a-]c", true),
            ("node_modules/x", "node_modules", false),
            ("é", "?", true),
            ("x/node_modules/y", "**/node_modules/**", true),
            ("x/node_modules", "**/node_modules/**", false),
            ("{a}", "{a}", true),
            ("b", "{a,b", false),
            ("a", "a{,b}", true),
            ("a/b", "a{/b,}", true),
            ("ac", "{a{b,c},d}", true),
            ("x.txt", "/x.txt", false),
            ("a", "a/", false),
            ("a/b", "a//b", true),
            ("a", "[[:alpha:]]", true),
            ("1", "[[:alpha:]]", false),
            ("aXbXc", "a*b*c", true),
            ("aXbX", "a*b*c", false),
        ];
        for (path, pattern, expected) in cases {
            assert_eq!(Glob::new(pattern).unwrap().matches(path), expected, "{path} {pattern}");
        }
    }

    #[test]
    fn what_is_not_supported_says_so() {
        assert_eq!(Glob::new("+(a|b)").unwrap_err().code(), "invalid-arguments");
        assert_eq!(Glob::new(&"{a,b}".repeat(12)).unwrap_err().code(), "invalid-arguments");
    }
}
