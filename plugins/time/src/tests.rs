//! Zones at fixed moments, and the tools as the host sees them.

use jiff::Timestamp;
use jiff::tz::TimeZoneDatabase;
use t2m_plugin_sdk::serde_json::{Value, from_str, json};
use t2m_plugin_sdk::testing::Harness;

use super::*;
use crate::zones::{convert, current};

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn code(outcome: Result<zones::Conversion, Error>) -> String {
    outcome.unwrap_err().code().to_owned()
}

#[test]
fn the_host_would_take_the_tools() {
    assert_eq!(Harness::<Time>::new().problems(), Vec::<String>::new());
}

#[test]
fn a_result_is_the_same_as_text() {
    let outcome = Harness::<Time>::new().call_with("get_current_time", &json!({"timezone": "UTC"})).unwrap();
    let value: Value = from_str(outcome.structured.as_deref().unwrap()).unwrap();
    assert!(value["datetime"].as_str().unwrap().ends_with("+00:00"), "{value}");
    assert_eq!((&value["timezone"], &value["is_dst"]), (&json!("UTC"), &json!(false)));
    let error =
        Harness::<Time>::new().call_with("get_current_time", &json!({"timezone": "Mars"})).unwrap_err();
    assert_eq!(error.code(), "unknown-timezone");
}

#[test]
fn differences_have_the_digits_they_need() {
    let now = at("2026-01-15T12:00:00Z");
    for (source, target, expected) in [
        ("UTC", "UTC", "+0.0h"),
        ("UTC", "Asia/Tokyo", "+9.0h"),
        ("America/New_York", "Asia/Tokyo", "+14.0h"),
        ("Asia/Kolkata", "UTC", "-5.5h"),
        ("UTC", "Asia/Kathmandu", "+5.75h"),
        ("Asia/Kathmandu", "Asia/Kolkata", "-0.25h"),
        ("America/St_Johns", "America/Sao_Paulo", "+0.5h"),
    ] {
        assert_eq!(
            convert(now, source, "12:00", target).unwrap().time_difference,
            expected,
            "{source} {target}"
        );
    }
}

#[test]
fn today_is_that_of_the_source() {
    // Already the 16th in Tokyo, still the 15th in Honolulu.
    let now = at("2026-01-15T20:00:00Z");
    let target = |source, time| convert(now, source, time, "UTC").unwrap().target.datetime;
    assert_eq!(target("Asia/Tokyo", "08:00"), "2026-01-15T23:00:00+00:00");
    assert_eq!(target("Pacific/Honolulu", "23:30"), "2026-01-16T09:30:00+00:00");
}

#[test]
fn an_hour_that_is_skipped_is_refused_and_of_two_the_first_is_meant() {
    let spring = at("2026-03-29T10:00:00Z");
    let error = convert(spring, "Europe/Berlin", "02:30", "UTC").unwrap_err();
    assert_eq!(error.code(), "time-skipped");
    assert!(
        error.message().contains("02:30") && error.message().contains("2026-03-29"),
        "{}",
        error.message()
    );
    assert!(convert(spring, "Europe/Berlin", "03:00", "UTC").is_ok());
    let autumn = at("2026-10-25T10:00:00Z");
    let found = convert(autumn, "Europe/Berlin", "02:30", "UTC").unwrap();
    assert_eq!(found.target.datetime, "2026-10-25T00:30:00+00:00");
}

#[test]
fn times_of_day_have_hours_and_minutes() {
    let now = at("2026-01-15T12:00:00Z");
    let datetime = |time| convert(now, "UTC", time, "UTC").map(|found| found.target.datetime);
    for (time, expected) in [("00:00", "00:00"), ("23:59", "23:59"), ("9:5", "09:05")] {
        assert_eq!(datetime(time).unwrap(), format!("2026-01-15T{expected}:00+00:00"));
    }
    for bad in [
        "",
        ":",
        "12",
        "24:00",
        "12:60",
        "12:00:00",
        "+1:00",
        "-1:00",
        " 1:00",
        "001:00",
        "1:",
        "12.30",
        "१२:००",
    ] {
        assert_eq!(code(convert(now, "UTC", bad, "UTC")), "invalid-time", "{bad:?}");
    }
}

#[test]
fn a_name_that_is_not_there_leads_to_one_that_is() {
    let now = at("2026-01-15T12:00:00Z");
    for (name, near) in [
        ("Europe/Berln", Some("Europe/Berlin")),
        ("Tokyo", Some("Asia/Tokyo")),
        ("New York", Some("America/New_York")),
        ("xq", None),
        ("", None),
        ("../etc/passwd", None),
        (&"Europe/Berlin".repeat(1000), None),
    ] {
        let error = current(now, name).unwrap_err();
        assert_eq!(error.code(), "unknown-timezone", "{name}");
        let expected = near.map(|near| format!("did you mean `{near}`?"));
        match expected {
            Some(expected) => assert!(error.message().ends_with(&expected), "{}", error.message()),
            None => assert!(!error.message().contains("did you mean"), "{}", error.message()),
        }
    }
    for name in ["Etc/Unknown", "Local", "EST5EDT4"] {
        assert_eq!(current(now, name).unwrap_err().code(), "unknown-timezone", "{name}");
    }
}

#[test]
fn everything_that_is_wrong_is_said_at_once() {
    let error = convert(at("2026-01-15T12:00:00Z"), "Here", "noon", "There").unwrap_err();
    let message = error.message();
    assert_eq!(error.code(), "unknown-timezone");
    assert!(["`Here`", "HH:MM", "`There`"].iter().all(|part| message.contains(part)), "{message}");
}

/// Every zone of the database is there, and leads back to where it came from.
#[test]
fn every_zone_converts_there_and_back() {
    let now = at("2026-06-15T12:00:00Z");
    let names: Vec<String> = TimeZoneDatabase::bundled().available().map(|name| name.to_string()).collect();
    assert!(names.len() > 400, "{}", names.len());
    for name in names {
        let there = convert(now, "UTC", "12:00", &name).unwrap().target.datetime;
        assert_eq!(there, current(now, &name).unwrap().datetime, "{name}");
        let time = there.split_once('T').unwrap().1.get(..5).unwrap().to_owned();
        let back = convert(now, &name, &time, "UTC").unwrap().target.datetime;
        assert!(back.ends_with("T12:00:00+00:00"), "{name}: {back}");
    }
}
