//! Texts of which parts come from inputs or earlier results: `/repos/{input owner}/issues`.
//!
//! Owns their resolution and their text form. Refuses to print values: only texts are put in, and numbers where
//! the reference converts them.
//!
//! **Invariant:** reading a template's text gives the template back, and no reference has such a text.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde_json::{Map, Value};

use super::expr::{Expr, Part, PathMissing, Reference, Scope, Source, Template};
use super::text::InvalidReference;
use crate::json::kind;

/// How the text of a template begins.
const PREFIX: &str = "template ";

impl Part {
    fn resolve(&self, scope: Scope<'_>) -> Result<String, PathMissing> {
        match self {
            Part::Text(text) => Ok(text.clone()),
            Part::Ref(reference) => text_at(reference, scope.start(&reference.source)),
        }
    }
}

/// The text that a reference leads to.
fn text_at(reference: &Reference, start: Option<&Value>) -> Result<String, PathMissing> {
    match reference.follow(start)?.into_owned() {
        Value::String(text) => Ok(text),
        other => {
            let found = format!("{} where a part of a text is needed", kind(&other));
            Err(PathMissing { reference: reference.clone(), found })
        }
    }
}

impl Template {
    /// A template of these parts: texts that stand side by side become one, empty ones are left out.
    pub fn of(parts: impl IntoIterator<Item = Part>) -> Template {
        let mut joined: Vec<Part> = Vec::new();
        for part in parts {
            match (joined.last_mut(), part) {
                (_, Part::Text(text)) if text.is_empty() => {}
                (Some(Part::Text(before)), Part::Text(text)) => before.push_str(&text),
                (_, part) => joined.push(part),
            }
        }
        Template(joined)
    }

    /// Every reference in it.
    pub fn references(&self) -> impl Iterator<Item = &Reference> {
        self.0.iter().filter_map(|part| match part {
            Part::Text(_) => None,
            Part::Ref(reference) => Some(reference),
        })
    }

    /// The text.
    pub fn resolve(&self, scope: Scope<'_>) -> Result<String, PathMissing> {
        self.0.iter().map(|part| part.resolve(scope)).collect()
    }

    /// The text, with the values that references start at.
    pub(crate) fn follow<'v>(
        &self,
        start: &impl Fn(&Source) -> Option<&'v Value>,
    ) -> Result<String, PathMissing> {
        let part = |part: &Part| match part {
            Part::Text(text) => Ok(text.clone()),
            Part::Ref(reference) => text_at(reference, start(&reference.source)),
        };
        self.0.iter().map(part).collect()
    }

    /// The same with inputs filled in; data if nothing is left open.
    pub(super) fn fill_inputs(&self, inputs: &Map<String, Value>) -> Result<Expr, PathMissing> {
        let results = BTreeMap::new();
        let filled = self.0.iter().map(|part| match part {
            Part::Ref(reference) if matches!(reference.source, Source::Input(_)) => {
                part.resolve(Scope { inputs, results: &results }).map(Part::Text)
            }
            part => Ok(part.clone()),
        });
        let filled = Template::of(filled.collect::<Result<Vec<_>, _>>()?);
        Ok(match filled.0.as_slice() {
            [] => Expr::Literal(Value::String(String::new())),
            [Part::Text(text)] => Expr::Literal(Value::String(text.clone())),
            _ => Expr::Template(filled),
        })
    }

    /// For people, with `<reference>` where a text isn't known yet.
    pub(super) fn sketch(&self) -> String {
        let part = |part: &Part| match part {
            Part::Text(text) => text.clone(),
            Part::Ref(reference) => format!("<{reference}>"),
        };
        self.0.iter().map(part).collect()
    }

    /// What `find` finds in its texts. What one part begins and another ends is seen once inputs are filled in.
    pub(super) fn find_in_texts(&self, find: &dyn Fn(&Value) -> Option<String>) -> Option<String> {
        self.0.iter().find_map(|part| match part {
            Part::Text(text) => find(&Value::String(text.clone())),
            Part::Ref(_) => None,
        })
    }
}

impl fmt::Display for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(PREFIX)?;
        for part in &self.0 {
            match part {
                Part::Text(text) => f.write_str(&text.replace('{', "{{").replace('}', "}}"))?,
                Part::Ref(reference) => write!(f, "{{{reference}}}")?,
            }
        }
        Ok(())
    }
}

/// Longest text of a template, in bytes: a person writes it, and finding where a reference ends may read it once for
/// each brace.
const MAX_TEXT: usize = 4096;

impl FromStr for Template {
    type Err = InvalidReference;

    fn from_str(text: &str) -> Result<Template, InvalidReference> {
        let invalid = |rest: &str| InvalidReference { rest: rest.to_owned() };
        let mut rest = text.strip_prefix(PREFIX).ok_or_else(|| invalid(text))?;
        if text.len() > MAX_TEXT {
            return Err(invalid("a text of more than 4,096 bytes"));
        }
        let mut parts = Vec::new();
        while let Some(at) = rest.find(['{', '}']) {
            let (before, brace) = rest.split_at_checked(at).ok_or_else(|| invalid(rest))?;
            parts.push(Part::Text(before.to_owned()));
            if let Some(after) = brace.strip_prefix("{{").or_else(|| brace.strip_prefix("}}")) {
                parts.push(Part::Text(brace.chars().take(1).collect()));
                rest = after;
                continue;
            }
            // A quoted name may hold a brace, so the end is the first one at which a reference can be read.
            let inside = brace.strip_prefix('{').ok_or_else(|| invalid(brace))?;
            let ends = inside.match_indices('}').filter_map(|(end, _)| {
                let reference = inside.get(..end)?.parse().ok()?;
                Some((reference, inside.get(end + 1..)?))
            });
            let (reference, after) = ends.take(1).next().ok_or_else(|| invalid(brace))?;
            parts.push(Part::Ref(reference));
            rest = after;
        }
        parts.push(Part::Text(rest.to_owned()));
        let template = Template::of(parts);
        if template.references().next().is_none() {
            return Err(invalid(text));
        }
        Ok(template)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::document::Report;
    use crate::workflow::parse::{read_expr, write_expr};

    fn template(text: &str) -> Template {
        text.parse().unwrap()
    }

    #[test]
    fn templates_are_read_filled_and_made() {
        let text = "template /r/{input owner}/{{x}}/{a.ids[0] as string}";
        let made = template(text);
        assert_eq!(made.to_string(), text);
        assert_eq!(made.sketch(), "/r/<input owner>/{x}/<a.ids[0] as string>");
        let inputs = json!({"owner": "ann"}).as_object().unwrap().clone();
        let results = BTreeMap::from([("a".parse().unwrap(), json!({"ids": [7]}))]);
        assert_eq!(made.resolve(Scope { inputs: &inputs, results: &results }), Ok("/r/ann/{x}/7".into()));
        let open = Expr::Template(made.clone()).fill_inputs(&inputs).unwrap();
        assert_eq!(open, Expr::Template(template("template /r/ann/{{x}}/{a.ids[0] as string}")));
        // Only texts are put in: how another value is printed is nobody's promise.
        let plain = template("template n{a.ids}");
        let error = plain.resolve(Scope { inputs: &inputs, results: &results }).unwrap_err();
        assert_eq!(error.to_string(), "`a.ids` leads nowhere: a list where a part of a text is needed");
        let filled = Expr::Template(template("template hi {input owner}")).fill_inputs(&inputs).unwrap();
        assert_eq!(filled, Expr::Literal(json!("hi ann")));
        for wrong in ["a", "template x", "template {", "template }", "template {a", "template {a b}", "{a}"] {
            assert!(wrong.parse::<Template>().is_err(), "{wrong}");
        }
        assert!("template as string".parse::<Template>().is_err());
    }

    /// T13: what a marker would look like is seen in the text and across filled parts.
    #[test]
    fn markers_are_seen_in_texts_and_across_parts() {
        let find = |made: &Expr| made.find_in_literals(&crate::redact::find_marker);
        let whole = Expr::Template(template("template Bearer [T2M-REDACTED:token:1] {a}"));
        assert_eq!(find(&whole), Some(String::new()));
        let inputs = json!({"end": "1]"}).as_object().unwrap().clone();
        let split = Expr::Template(template("template [T2M-REDACTED:token:{input end} {a}"));
        assert_eq!(find(&split), None);
        assert_eq!(find(&split.fill_inputs(&inputs).unwrap()), Some(String::new()));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]

        /// T08: a template reads back from its text and from its file, whatever its parts hold.
        #[test]
        fn every_template_reads_back(
            parts in prop::collection::vec(("[{}a /\\[\"]{0,4}", "[{}a.\"]{1,4}"), 1..4)
        ) {
            let parts = parts.into_iter().flat_map(|(text, name)| {
                let source = Source::Input(name);
                [Part::Text(text), Part::Ref(Reference { source, path: Vec::new(), convert: None })]
            });
            let made = Template::of(parts);
            prop_assert_eq!(made.to_string().parse(), Ok(made.clone()));
            prop_assert!(made.to_string().parse::<Reference>().is_err());
            let expr = Expr::Template(made);
            let report = Report::default();
            prop_assert_eq!(read_expr(&write_expr(&expr), "", &report), Some(expr));
        }
    }
}
