//! Times as recorders write them.
//!
//! Owns the three spellings that Trace v1 allows: seconds or milliseconds since 1970, or ISO 8601 text.
//! Refuses to know the present time.
//!
//! **Invariant:** a [`Timestamp`] always has an instant, and writes back exactly the value it was read from.

use serde_json::Value;

use crate::document::shown;

/// From here on a number means milliseconds: as seconds it would be the year 5138.
const FIRST_MILLISECOND: f64 = 1e11;

/// Beyond this a number is neither.
const LAST_MILLISECOND: f64 = 1e14;

/// A recorded time.
#[derive(Debug, Clone, PartialEq)]
pub struct Timestamp {
    value: Value,
    unix_ms: f64,
}

impl Timestamp {
    /// Reads a recorded value; the error says what is wrong with it.
    pub fn read(value: &Value) -> Result<Timestamp, String> {
        let unix_ms = match value {
            Value::Number(number) => from_number(number.as_f64().unwrap_or(f64::NAN)),
            Value::String(text) => from_iso(text),
            _ => None,
        };
        match unix_ms {
            Some(unix_ms) => Ok(Timestamp { value: value.clone(), unix_ms }),
            None => Err(format!(
                "expected seconds or milliseconds since 1970, or a time like `2026-01-31T12:00:00Z`, found {}",
                shown(value)
            )),
        }
    }

    /// Milliseconds since 1970. A text without an offset counts as UTC.
    pub fn unix_ms(&self) -> f64 {
        self.unix_ms
    }

    /// The value as recorded.
    pub fn value(&self) -> &Value {
        &self.value
    }
}

fn from_number(number: f64) -> Option<f64> {
    match number {
        n if !(0.0..LAST_MILLISECOND).contains(&n) => None,
        n if n >= FIRST_MILLISECOND => Some(n),
        n => Some(n * 1000.0),
    }
}

/// `2026-01-31T12:00:00.5+01:00`; a blank may stand for the `T`, and the time may be missing.
fn from_iso(text: &str) -> Option<f64> {
    let mut rest = text.trim();
    let year = digits(&mut rest, 4)?;
    literal(&mut rest, '-')?;
    let month = digits(&mut rest, 2).filter(|month| (1..=12).contains(month))?;
    literal(&mut rest, '-')?;
    let day = digits(&mut rest, 2).filter(|day| (1..=days_of(year, month)).contains(day))?;
    let days = days_since_1970(year, month, day);
    let mut seconds = 0.0;
    if !rest.is_empty() {
        rest = rest.strip_prefix(['T', 't', ' '])?;
        let hour = digits(&mut rest, 2).filter(|hour| *hour < 24)?;
        literal(&mut rest, ':')?;
        let minute = digits(&mut rest, 2).filter(|minute| *minute < 60)?;
        let mut second = 0.0;
        if literal(&mut rest, ':').is_some() {
            // 60 is a leap second.
            second = f64::from(u32::try_from(digits(&mut rest, 2).filter(|s| *s <= 60)?).ok()?);
            second += fraction(&mut rest)?;
        }
        seconds = (hour * 3600 + minute * 60 - offset(rest)? * 60) as f64 + second;
    }
    Some((days as f64 * 86_400.0 + seconds) * 1000.0)
}

fn digits(rest: &mut &str, count: usize) -> Option<i64> {
    let (head, tail) = rest.split_at_checked(count)?;
    if !head.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    *rest = tail;
    head.parse().ok()
}

fn literal(rest: &mut &str, expected: char) -> Option<()> {
    *rest = rest.strip_prefix(expected)?;
    Some(())
}

fn fraction(rest: &mut &str) -> Option<f64> {
    let Some(tail) = rest.strip_prefix(['.', ',']) else {
        return Some(0.0);
    };
    let end = tail.find(|c: char| !c.is_ascii_digit()).unwrap_or(tail.len());
    let (head, tail) = tail.split_at_checked(end)?;
    *rest = tail;
    format!("0.{head}").parse().ok().filter(|_| !head.is_empty())
}

/// Minutes east of Greenwich.
fn offset(text: &str) -> Option<i64> {
    if text.is_empty() || text == "Z" || text == "z" {
        return Some(0);
    }
    let sign = if text.starts_with('-') { -1 } else { 1 };
    let mut rest = text.strip_prefix(['+', '-'])?;
    let hours = digits(&mut rest, 2).filter(|hours| *hours < 24)?;
    let rest_of = rest.strip_prefix(':').unwrap_or(rest);
    let mut rest = rest_of;
    let minutes = if rest.is_empty() { 0 } else { digits(&mut rest, 2).filter(|minutes| *minutes < 60)? };
    rest.is_empty().then_some(sign * (hours * 60 + minutes))
}

fn is_leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

fn days_of(year: i64, month: i64) -> i64 {
    match month {
        2 if is_leap(year) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
    let leaps_before = |year: i64| {
        let last = year - 1;
        last.div_euclid(4) - last.div_euclid(100) + last.div_euclid(400)
    };
    let years = (year - 1970) * 365 + leaps_before(year) - leaps_before(1970);
    let months: i64 = (1..month).map(|month| days_of(year, month)).sum();
    years + months + day - 1
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn three_spellings_name_one_instant() {
        for value in [
            json!(1_767_225_600),
            json!(1_767_225_600_000_i64),
            json!(1_767_225_600.0),
            json!("2026-01-01T00:00:00Z"),
            json!("2026-01-01"),
            json!("2026-01-01 01:00:00.000+01:00"),
            json!("2025-12-31T19:00:00-0500"),
            json!("2026-01-01T00:00"),
        ] {
            assert_eq!(Timestamp::read(&value).map(|t| t.unix_ms()), Ok(1_767_225_600_000.0), "{value}");
        }
        let fine = Timestamp::read(&json!("2024-02-29T12:34:56.789012Z")).unwrap();
        assert!((fine.unix_ms() - 1_709_210_096_789.012).abs() < 0.001);
        assert_eq!(Timestamp::read(&json!("1969-12-31T23:59:59Z")).unwrap().unix_ms(), -1000.0);
    }

    #[test]
    fn what_is_no_time_is_refused() {
        for value in [
            json!(true),
            json!(null),
            json!([]),
            json!(-1),
            json!(1e20),
            json!(""),
            json!("now"),
            json!("2026-13-01"),
            json!("2026-02-29"),
            json!("2026-01-01T24:00:00Z"),
            json!("2026-01-01T00:00:00X"),
            json!("2026-01-01T00:00:00.Z"),
            json!("20260101"),
            json!("12:00"),
            json!("2026-01-01T00:00:00+1"),
        ] {
            assert!(Timestamp::read(&value).is_err(), "{value}");
        }
    }
}
