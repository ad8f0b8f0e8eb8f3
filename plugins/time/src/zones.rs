//! Time zones, and moments in them.
//!
//! Owns finding a zone by its name, what is said of a moment, and the conversion. Refuses to ask what time it is.
//!
//! INVARIANT: an hour that doesn't exist on its day is refused, never moved; of one that comes twice the first is meant.

use jiff::civil::Time;
use jiff::tz::{AmbiguousOffset, TimeZone, TimeZoneDatabase};
use jiff::{Timestamp, Zoned};
use t2m_plugin_sdk::{Error, JsonSchema, Serialize};

/// Longest name for which a near one is looked for, in bytes: the longest zone has 32.
const MAX_NEAR: usize = 64;

/// A moment in a zone.
#[derive(Debug, PartialEq, Serialize, JsonSchema)]
pub(crate) struct Moment {
    /// The zone's name
    timezone: String,
    /// Date, time and offset in ISO 8601, to the second
    pub(crate) datetime: String,
    /// Day of the week, in English
    day_of_week: String,
    /// Whether daylight saving time holds
    is_dst: bool,
}

/// One moment in two zones.
#[derive(Debug, PartialEq, Serialize, JsonSchema)]
pub(crate) struct Conversion {
    /// The moment in the zone that it was given in
    source: Moment,
    /// The same moment in the zone that was wanted
    pub(crate) target: Moment,
    /// Hours that the second zone is ahead of the first, such as `+9.0h` or `-3.5h`
    pub(crate) time_difference: String,
}

/// What it is now in a zone.
pub(crate) fn current(now: Timestamp, name: &str) -> Result<Moment, Error> {
    Ok(moment(&now.to_zoned(zone(name)?), name))
}

/// What a time of today in one zone is in another.
pub(crate) fn convert(now: Timestamp, source: &str, time: &str, target: &str) -> Result<Conversion, Error> {
    let (from, at, to) = match (zone(source), time_of_day(time), zone(target)) {
        (Ok(from), Ok(at), Ok(to)) => (from, at, to),
        (from, at, to) => return Err(all([from.err(), at.err(), to.err()])),
    };
    let today = now.to_zoned(from.clone()).date();
    let there = from.into_ambiguous_zoned(today.to_datetime(at));
    if let AmbiguousOffset::Gap { .. } = there.offset() {
        let message =
            format!("{time} doesn't exist in `{source}` on {today}: clocks are set forward over it");
        return Err(Error::new("time-skipped", message));
    }
    let there = there.earlier()?;
    let here = there.with_time_zone(to);
    let seconds = here.offset().seconds() - there.offset().seconds();
    Ok(Conversion {
        source: moment(&there, source),
        target: moment(&here, target),
        time_difference: hours(seconds),
    })
}

fn moment(at: &Zoned, name: &str) -> Moment {
    Moment {
        timezone: name.to_owned(),
        datetime: at.strftime("%Y-%m-%dT%H:%M:%S%:z").to_string(),
        day_of_week: at.strftime("%A").to_string(),
        is_dst: at.time_zone().to_offset_info(at.timestamp()).dst().is_dst(),
    }
}

/// Seconds as hours: one digit after the point, two where one isn't enough.
fn hours(seconds: i32) -> String {
    let hours = f64::from(seconds) / 3600.0;
    let text = format!("{hours:+.2}");
    format!("{}h", text.strip_suffix('0').unwrap_or(&text))
}

fn time_of_day(text: &str) -> Result<Time, Error> {
    let number = |digits: &str| {
        let is_number = matches!(digits.len(), 1 | 2) && digits.bytes().all(|byte| byte.is_ascii_digit());
        is_number.then(|| digits.parse::<i8>().ok()).flatten()
    };
    let time =
        text.split_once(':').and_then(|(hour, minute)| Time::new(number(hour)?, number(minute)?, 0, 0).ok());
    time.ok_or_else(|| {
        let message =
            "`time` isn't a time of day; write hours and minutes as `HH:MM`, from `00:00` to `23:59`";
        Error::new("invalid-time", message)
    })
}

fn zone(name: &str) -> Result<TimeZone, Error> {
    let known = TimeZoneDatabase::bundled();
    let found = known.get(name).ok().filter(|zone| !zone.is_unknown());
    found.ok_or_else(|| {
        let hint = near(&known, name).map(|near| format!("; did you mean `{near}`?")).unwrap_or_default();
        Error::new("unknown-timezone", format!("there is no time zone `{name}` in the IANA database{hint}"))
    })
}

/// The zone whose name, or the city in it, is most like what was asked for.
fn near(known: &TimeZoneDatabase, name: &str) -> Option<String> {
    if name.len() > MAX_NEAR {
        return None;
    }
    let wanted = name.trim().replace(' ', "_").to_ascii_lowercase();
    let likeness = |zone: &str| {
        let zone = zone.to_ascii_lowercase();
        let city = zone.rsplit('/').next().unwrap_or_default();
        strsim::jaro_winkler(&zone, &wanted).max(strsim::jaro_winkler(city, &wanted))
    };
    let zones = known.available().map(|zone| (likeness(zone.as_str()), zone.to_string()));
    let best = zones.reduce(|best, next| if next.0 > best.0 { next } else { best })?;
    (best.0 >= 0.9).then_some(best.1)
}

/// Everything that is wrong, under the code of the first.
fn all(errors: [Option<Error>; 3]) -> Error {
    let errors: Vec<Error> = errors.into_iter().flatten().collect();
    let code = errors.first().map_or("failed", Error::code);
    let messages: Vec<&str> = errors.iter().map(Error::message).collect();
    Error::new(code, messages.join("; "))
}
