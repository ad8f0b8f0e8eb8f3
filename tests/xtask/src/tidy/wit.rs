//! Every item of the plugin contract is documented.
//!
//! It owns a line reader that knows blocks, comments and parameter lists. It refuses to check the grammar;
//! the build of any plugin does.
//!
//! **Invariant:** an enum or flags block on one line is documented as one item; on several lines each case
//! has its own doc.

use super::{Fault, Tree};

/// Words that begin an item with a name of its own.
const ITEMS: [&str; 8] = ["interface", "world", "record", "variant", "enum", "flags", "resource", "type"];

/// Words that begin a statement without one.
const PLAIN: [&str; 5] = ["package", "use", "import", "export", "include"];

/// Checks every `.wit` file.
pub(crate) fn check(tree: &Tree) -> Vec<Fault> {
    let mut faults = Vec::new();
    for (path, text) in tree.ending(".wit") {
        let mut reader = Reader::default();
        for (at, line) in text.lines().enumerate() {
            if let Some(item) = reader.line(line) {
                let message = format!("`{item}` has no `///` before it");
                faults.push(Fault::new(path, at + 1, "wit-doc", message));
            }
        }
    }
    faults
}

#[derive(Default)]
struct Reader {
    /// Open `(`, `<` and one-line braces: inside them no item begins.
    nested: i32,
    /// Whether the lines just before were a doc.
    documented: bool,
    /// Whether a statement goes on from the line before.
    open: bool,
}

impl Reader {
    /// Reads one line and returns the item that begins on it without a doc.
    fn line<'a>(&mut self, line: &'a str) -> Option<&'a str> {
        let line = line.trim();
        if line.starts_with("///") {
            self.documented = true;
            return None;
        }
        let code = line.split_once("//").map_or(line, |(code, _)| code).trim();
        // An attribute such as @since stands between a doc and its item.
        if code.is_empty() || (code.starts_with('@') && code.ends_with(')')) {
            return None;
        }
        let begins = self.nested == 0 && !self.open && !code.starts_with('}');
        let missing = begins && !self.documented && needs_doc(code);
        self.documented = false;
        let count = |open: char, close: char| {
            let number = |sign: char| i32::try_from(code.matches(sign).count()).unwrap_or(i32::MAX);
            number(open) - number(close)
        };
        let arrows = i32::try_from(code.matches("->").count()).unwrap_or(i32::MAX);
        self.nested += count('(', ')') + count('<', '>') + arrows;
        self.open = self.nested == 0 && !code.ends_with(['{', '}', ';', ',']);
        missing.then(|| item_name(code))
    }
}

fn needs_doc(code: &str) -> bool {
    let word = first_word(code);
    // `world x { import y; }` documents y where it is declared; `import f: func()` declares it here.
    !PLAIN.contains(&word) || code.contains("func(")
}

fn item_name(code: &str) -> &str {
    let word = first_word(code);
    let rest = if ITEMS.contains(&word) || PLAIN.contains(&word) {
        code.strip_prefix(word).unwrap_or(code).trim_start()
    } else {
        code
    };
    first_word(rest)
}

fn first_word(code: &str) -> &str {
    code.split(|sign: char| !(sign.is_alphanumeric() || sign == '-' || sign == '%')).next().unwrap_or(code)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{places, tree};
    use super::*;

    const GOOD: &str = "\
/// The contract.
package a:b@0.1.0;

/// Tools.
@since(version = 0.1.0)
interface tools {
    use types.{tool, tool-error};

    /// How it went.
    enum level { low, high }

    // Not a doc.
    /// Two fields.
    record pair {
        /// The first.
        first: list<tuple<string, u8>>,
        /// The second.
        %second: option<string>,
    }

    /// Calls.
    call: func(
        name: string,
        arguments: string,
    ) -> result<pair, tool-error>;
}
/// The world.
world w {
    import tools;
    export tools;
}
";

    #[test]
    fn a_documented_file_passes() {
        assert_eq!(check(&tree(&[("a.wit", GOOD)])), []);
    }

    #[test]
    fn every_kind_of_item_without_a_doc_is_named() {
        // Taking away any one doc line must be noticed, except the one of the package.
        let docs: Vec<usize> =
            GOOD.lines().enumerate().filter(|(_, l)| l.trim().starts_with("///")).map(|(at, _)| at).collect();
        assert_eq!(docs.len(), 8);
        for at in docs.into_iter().skip(1) {
            let text: Vec<&str> =
                GOOD.lines().enumerate().map(|(n, l)| if n == at { "" } else { l }).collect();
            let found = check(&tree(&[("a.wit", &text.join("\n"))]));
            assert_eq!(found.len(), 1, "line {}: {found:?}", at + 1);
        }
    }

    #[test]
    fn cases_of_a_block_need_docs_and_a_parameter_does_not() {
        let text = "\
/// E.
enum e {
    /// One.
    one,
    two,
}
/// R.
resource r {
    constructor(
        a: string,
    );
}
/// W.
world w {
    import f: func(a: string);
}
";
        let found = check(&tree(&[("a.wit", text)]));
        assert_eq!(places(&found), ["a.wit:5 wit-doc", "a.wit:9 wit-doc", "a.wit:15 wit-doc"]);
        assert_eq!(found[0].message, "`two` has no `///` before it");
    }
}
