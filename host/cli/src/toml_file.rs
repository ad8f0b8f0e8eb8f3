//! TOML files, checked against the schema of what they hold.
//!
//! Owns the way from text to a value with the line of every fault. Refuses to know any file.
//!
//! **Invariant:** a value that is returned matches the schema; otherwise all faults are, at once.

use serde_json::{Value, json};
use t2m_core::code::Code;
use t2m_core::problem::{Place, Problem, Problems};
use toml::de::{DeTable, DeValue};

/// Reads a file's text.
pub(crate) fn read(bytes: &[u8], schema: &Value) -> Result<Value, Problems> {
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let lines = bytes.iter().take(error.valid_up_to()).filter(|byte| **byte == b'\n').count();
        Problem::new(Code::TomlSyntax, Place::Line(lines + 1), "not UTF-8")
    })?;
    let table = DeTable::parse(text).map_err(|error| {
        let place = line_column(text, error.span().map_or(0, |span| span.start));
        Problem::new(Code::TomlSyntax, place, error.message().replace('\n', "; "))
    })?;
    let value = to_json(&DeValue::Table(table.get_ref().clone()));
    let mut problems: Vec<Problem> = t2m_core::schema::problems(schema, &value)
        .into_iter()
        .map(|problem| Problem { place: locate(text, table.get_ref(), &problem.place), ..problem })
        .collect();
    problems.sort_by_key(|problem| match problem.place {
        Place::LineColumn(line, column) => (line, column),
        _ => (0, 0),
    });
    Problems::from_list(problems)?;
    Ok(value)
}

/// Problems with the lines of a file that was read before.
pub(crate) fn placed(bytes: &[u8], problems: Problems) -> Problems {
    let Ok(text) = std::str::from_utf8(bytes) else { return problems };
    let Ok(table) = DeTable::parse(text) else { return problems };
    let placed = problems
        .iter()
        .map(|problem| Problem { place: locate(text, table.get_ref(), &problem.place), ..problem.clone() });
    match Problems::from_list(placed.collect()) {
        Err(placed) => placed,
        Ok(()) => problems,
    }
}

fn to_json(value: &DeValue<'_>) -> Value {
    match value {
        DeValue::String(text) => json!(text),
        DeValue::Boolean(value) => json!(value),
        DeValue::Integer(number) => {
            let parsed = i64::from_str_radix(number.as_str(), number.radix());
            parsed.map_or_else(|_| json!(number.as_str()), |number| json!(number))
        }
        DeValue::Float(number) => {
            number.as_str().parse::<f64>().map_or_else(|_| json!(number.as_str()), |number| json!(number))
        }
        DeValue::Datetime(time) => json!(time.to_string()),
        DeValue::Array(list) => Value::Array(list.iter().map(|item| to_json(item.get_ref())).collect()),
        DeValue::Table(table) => Value::Object(
            table.iter().map(|(key, value)| (key.get_ref().to_string(), to_json(value.get_ref()))).collect(),
        ),
    }
}

/// The line of what a pointer leads to, or of the nearest thing above it that stands in the text.
fn locate(text: &str, table: &DeTable<'_>, place: &Place) -> Place {
    let Place::Pointer(pointer) = place else { return place.clone() };
    let mut offset = 0;
    let mut here: Option<&DeValue<'_>> = None;
    for step in pointer.split('/').skip(1) {
        let step = step.replace("~1", "/").replace("~0", "~");
        let table_here = match here {
            None => Some(table),
            Some(value) => value.as_table(),
        };
        if let Some((key, value)) = table_here.and_then(|table| table.get_key_value(step.as_str())) {
            offset = key.span().start;
            here = Some(value.get_ref());
        } else if let Some(value) =
            here.and_then(DeValue::as_array).and_then(|list| list.get(step.parse::<usize>().ok()?))
        {
            offset = value.span().start;
            here = Some(value.get_ref());
        } else {
            break;
        }
    }
    line_column(text, offset)
}

fn line_column(text: &str, offset: usize) -> Place {
    let before = text.as_bytes().iter().take(offset);
    let line = before.clone().filter(|byte| **byte == b'\n').count() + 1;
    let column = before.rev().take_while(|byte| **byte != b'\n').count() + 1;
    Place::LineColumn(line, column)
}
