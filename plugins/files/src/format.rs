//! Sizes, dates and columns in the look of the official server.
//!
//! Owns what ECMAScript's `toFixed`, `padEnd` and `Date` print. Refuses time zones: dates are UTC.
//!
//! INVARIANT: no clock and no environment is read.

use std::time::{SystemTime, UNIX_EPOCH};

/// Prints a number of bytes with two decimals and a unit.
pub(crate) fn size(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["KB", "MB", "GB", "TB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let (mut unit, mut name) = (1024_u128, "KB");
    for next in UNITS.iter().skip(1) {
        if u128::from(bytes) < unit * 1024 {
            break;
        }
        (unit, name) = (unit * 1024, next);
    }
    // In whole numbers, because a half is rounded up here and to even by `format!`.
    let hundredths = (u128::from(bytes) * 200 + unit) / (2 * unit);
    format!("{}.{:02} {name}", hundredths / 100, hundredths % 100)
}

/// Fills a name with spaces up to a number of UTF-16 units.
pub(crate) fn pad_end(name: &str, width: usize) -> String {
    let missing = width.saturating_sub(name.encode_utf16().count());
    format!("{name}{}", " ".repeat(missing))
}

/// Prints a moment such as `Sun Nov 29 2026 20:53:18 GMT+0000 (Coordinated Universal Time)`.
pub(crate) fn date(time: SystemTime) -> String {
    let seconds = match time.duration_since(UNIX_EPOCH) {
        Ok(after) => i64::try_from(after.as_secs()).unwrap_or(0),
        Err(before) => -i64::try_from(before.duration().as_secs()).unwrap_or(0),
    };
    let (days, rest) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    // 1970-01-01 was a Thursday.
    let weekday = match (days + 4).rem_euclid(7) {
        0 => "Sun",
        1 => "Mon",
        2 => "Tue",
        3 => "Wed",
        4 => "Thu",
        5 => "Fri",
        _ => "Sat",
    };
    let (year, month, day) = civil(days);
    let (hour, minute, second) = (rest / 3600, rest / 60 % 60, rest % 60);
    format!(
        "{weekday} {month} {day:02} {year:04} {hour:02}:{minute:02}:{second:02} GMT+0000 (Coordinated Universal Time)"
    )
}

/// Turns days since 1970-01-01 into a date of the Gregorian calendar.
fn civil(days: i64) -> (i64, &'static str, i64) {
    let is_leap = |year: i64| year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    // 400 years have 146,097 days; what remains is less than 400 steps.
    let mut year = 1970 + days.div_euclid(146_097) * 400;
    let mut day = days.rem_euclid(146_097);
    loop {
        let length = if is_leap(year) { 366 } else { 365 };
        if day < length {
            break;
        }
        day -= length;
        year += 1;
    }
    let february = if is_leap(year) { 29 } else { 28 };
    let months = [
        ("Jan", 31),
        ("Feb", february),
        ("Mar", 31),
        ("Apr", 30),
        ("May", 31),
        ("Jun", 30),
        ("Jul", 31),
        ("Aug", 31),
        ("Sep", 30),
        ("Oct", 31),
        ("Nov", 30),
    ];
    for (name, length) in months {
        if day < length {
            return (year, name, day + 1);
        }
        day -= length;
    }
    (year, "Dec", day + 1)
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use super::{date, pad_end, size};

    #[test]
    fn sizes() {
        let cases = [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1.00 KB"),
            (1152, "1.13 KB"),
            (1_048_575, "1024.00 KB"),
            (1_048_576, "1.00 MB"),
            (1 << 50, "1024.00 TB"),
        ];
        for (bytes, text) in cases {
            assert_eq!(size(bytes), text);
        }
    }

    #[test]
    fn dates() {
        let text = |seconds| date(UNIX_EPOCH + Duration::from_secs(seconds));
        assert_eq!(text(0), "Thu Jan 01 1970 00:00:00 GMT+0000 (Coordinated Universal Time)");
        assert_eq!(text(1_795_985_598), "Sun Nov 29 2026 20:53:18 GMT+0000 (Coordinated Universal Time)");
        assert_eq!(text(951_782_400), "Tue Feb 29 2000 00:00:00 GMT+0000 (Coordinated Universal Time)");
        let before = date(UNIX_EPOCH - Duration::from_secs(1));
        assert_eq!(before, "Wed Dec 31 1969 23:59:59 GMT+0000 (Coordinated Universal Time)");
    }

    #[test]
    fn columns() {
        assert_eq!(pad_end("é", 3), "é  ");
        assert_eq!(pad_end("long", 3), "long");
    }
}
