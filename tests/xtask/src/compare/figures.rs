//! What was measured, and how it is printed.
//!
//! It owns medians and percentiles. It refuses to leave out a failure: where a server didn't answer in time,
//! the figure says so.
//!
//! **Invariant:** figures are printed in the order in which they were first measured.

use std::fmt::Write as _;
use std::time::Duration;

use serde_json::{Map, Value, json};

/// The samples of one figure.
struct Samples {
    name: &'static str,
    unit: &'static str,
    values: Vec<f64>,
    failed: usize,
}

/// The figures of one host.
pub(crate) struct Figures {
    host: &'static str,
    all: Vec<Samples>,
}

impl Figures {
    pub(crate) fn new(host: &'static str) -> Self {
        Self { host, all: Vec::new() }
    }

    /// Adds a time.
    pub(crate) fn add(&mut self, name: &'static str, time: Duration) {
        self.number(name, "µs", time.as_secs_f64() * 1e6);
    }

    /// Adds a time, or that there was none.
    pub(crate) fn try_add(&mut self, name: &'static str, time: Option<Duration>) {
        match time {
            Some(time) => self.add(name, time),
            None => self.with(name, "µs", |samples| samples.failed += 1),
        }
    }

    /// Adds a number with its unit.
    pub(crate) fn number(&mut self, name: &'static str, unit: &'static str, value: f64) {
        self.with(name, unit, |samples| samples.values.push(value));
    }

    fn with(&mut self, name: &'static str, unit: &'static str, change: impl FnOnce(&mut Samples)) {
        if let Some(samples) = self.all.iter_mut().find(|samples| samples.name == name) {
            return change(samples);
        }
        let mut samples = Samples { name, unit, values: Vec::new(), failed: 0 };
        change(&mut samples);
        self.all.push(samples);
    }

    fn get(&self, name: &str) -> Option<&Samples> {
        self.all.iter().find(|samples| samples.name == name)
    }

    /// What a call costs beyond a `ping`.
    fn beyond_ping(&self) -> Option<f64> {
        Some(self.get("call")?.percentile(50)? - self.get("ping")?.percentile(50)?)
    }
}

impl Samples {
    fn percentile(&self, percent: usize) -> Option<f64> {
        let mut sorted = self.values.clone();
        sorted.sort_by(f64::total_cmp);
        sorted.get(sorted.len().saturating_sub(1) * percent / 100).copied()
    }

    /// The median, the 99th percentile where there are enough samples, and failures.
    fn show(&self) -> String {
        let mut text = match (self.percentile(50), self.percentile(99)) {
            (Some(median), Some(high)) if self.values.len() >= 100 => {
                format!("{} (p99 {})", number(median, self.unit), number(high, self.unit))
            }
            (Some(median), _) => number(median, self.unit),
            _ => String::new(),
        };
        if self.failed > 0 {
            let space = if text.is_empty() { "" } else { ", " };
            // Writing to a string can't fail.
            let _ = write!(text, "{space}{} × none in time", self.failed);
        }
        text
    }
}

fn number(value: f64, unit: &str) -> String {
    match unit {
        "µs" if value >= 10_000.0 => format!("{:.0} ms", value / 1000.0),
        "µs" if value >= 1_000.0 => format!("{:.1} ms", value / 1000.0),
        "µs" => format!("{value:.0} µs"),
        "MiB" => format!("{value:.1} MiB"),
        _ => format!("{value:.0} {unit}"),
    }
}

/// A table in Markdown: a line per figure, a column per host.
pub(crate) fn table(hosts: &[Figures]) -> String {
    let mut text = String::from("| median |");
    for host in hosts {
        let _ = write!(text, " {} |", host.host);
    }
    text.push_str("\n|---|");
    text.push_str(&"---|".repeat(hosts.len()));
    text.push('\n');
    let longest = hosts.iter().max_by_key(|host| host.all.len());
    for name in longest.into_iter().flat_map(|host| &host.all).map(|samples| samples.name) {
        row(&mut text, name, hosts.iter().map(|host| host.get(name).map(Samples::show)));
        if name == "call" {
            let beyond = hosts.iter().map(|host| host.beyond_ping().map(|value| number(value, "µs")));
            row(&mut text, "call beyond ping", beyond);
        }
    }
    text
}

fn row(text: &mut String, name: &str, cells: impl Iterator<Item = Option<String>>) {
    let _ = write!(text, "| {name} |");
    for cell in cells {
        let _ = write!(text, " {} |", cell.unwrap_or_else(|| "–".to_owned()));
    }
    text.push('\n');
}

/// One JSON object: host, figure, then unit, median, p99, samples and failures.
pub(crate) fn json(hosts: &[Figures]) -> String {
    let all: Map<String, Value> = hosts
        .iter()
        .map(|host| {
            let figures: Map<String, Value> = host
                .all
                .iter()
                .map(|samples| {
                    let value = json!({
                        "unit": samples.unit,
                        "median": samples.percentile(50),
                        "p99": samples.percentile(99),
                        "samples": samples.values.len(),
                        "none_in_time": samples.failed,
                    });
                    (samples.name.to_owned(), value)
                })
                .collect();
            (host.host.to_owned(), Value::Object(figures))
        })
        .collect();
    format!("{:#}\n", Value::Object(all))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_shows_medians_and_what_never_came() {
        let mut one = Figures::new("one");
        for micros in [30, 10, 20] {
            one.add("ping", Duration::from_micros(micros));
            one.add("call", Duration::from_micros(micros * 100));
        }
        let mut two = Figures::new("two");
        two.try_add("ping", None);
        let expected = "| median | one | two |\n|---|---|---|\n| ping | 20 µs | 1 × none in time |\n\
                        | call | 2.0 ms | – |\n| call beyond ping | 2.0 ms | – |\n";
        assert_eq!(table(&[one, two]), expected);
    }

    #[test]
    fn the_99th_percentile_is_of_the_sorted_samples() {
        let mut one = Figures::new("one");
        for micros in (1..=100).rev() {
            one.add("ping", Duration::from_micros(micros));
        }
        let ping = one.get("ping").unwrap();
        assert_eq!((ping.percentile(50), ping.percentile(99)), (Some(50.0), Some(99.0)));
    }
}
