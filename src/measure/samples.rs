//! Samples of another tool: a text file with one latency a line.

use super::hlog::BadLine;
use crate::engine::suggest::latencies::{Latencies, NotLatencies, Sample};
use crate::engine::units::LONGEST;
use std::fmt;
use std::time::Duration;

/// More of a wrong line is not quoted, in characters.
const QUOTED: usize = 40;

/// In which unit latencies are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// `s`.
    Seconds,
    /// `ms`.
    Milliseconds,
    /// `us`.
    Microseconds,
}

impl Unit {
    /// Returns the unit of that name.
    pub fn named(name: &str) -> Option<Unit> {
        match name {
            "s" => Some(Unit::Seconds),
            "ms" => Some(Unit::Milliseconds),
            "us" => Some(Unit::Microseconds),
            _ => None,
        }
    }

    fn per_second(self) -> f64 {
        match self {
            Unit::Seconds => 1.0,
            Unit::Milliseconds => 1e3,
            Unit::Microseconds => 1e6,
        }
    }
}

/// Why a file holds no samples.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BadSamples {
    /// There is not one.
    None,
    /// A line is no latency.
    Line {
        /// Its number, from 1.
        line: usize,
        /// Its text, cut where it is long.
        text: Box<str>,
        /// What is wrong.
        why: NotALatency,
    },
    /// They cannot be counted.
    Uncounted(NotLatencies),
    /// No line of an interval log could be read; the first, and why.
    NoLog {
        /// Its number, from 1.
        line: usize,
        /// What is wrong.
        why: BadLine,
    },
    /// All lines of an interval log are tagged, with these.
    OnlyTagged(Vec<Box<str>>),
    /// An interval log of another tool does not say what it counts in.
    NoUnit,
    /// An interval log of abide counts in nanoseconds, whatever unit is named.
    OtherUnit,
}

/// Why a line is no latency.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotALatency {
    /// It is no number.
    NotANumber,
    /// It is a number with a unit.
    WithUnit,
    /// It is no object of `curl -w '%{json}'`.
    NotOfCurl,
    /// It is below zero.
    Negative,
    /// It is NaN, infinite, or longer than a hundred years.
    TooLong,
}

impl fmt::Display for BadSamples {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BadSamples::None => f.write_str("there are no samples in it"),
            BadSamples::Line { line, text, why } => {
                let why = match why {
                    NotALatency::NotANumber => "no number",
                    NotALatency::WithUnit => "a number with a unit: leave it out, since --unit says it for all",
                    NotALatency::NotOfCurl => "nothing that curl -w '%{json}' writes",
                    NotALatency::Negative => "below zero",
                    NotALatency::TooLong => "no time that anybody waits",
                };
                write!(f, "line {line}: `{}` is {why}", text.replace(char::is_control, "?"))
            }
            BadSamples::NoLog { line, why } => write!(f, "no line of it can be read; line {line}: {why}"),
            BadSamples::OnlyTagged(tags) => {
                write!(f, "all its lines are tagged ({}), and those without a tag are read", tags.join(", "))
            }
            BadSamples::NoUnit => f.write_str("in which unit?"),
            BadSamples::OtherUnit => f.write_str("abide wrote it, and it counts in nanoseconds"),
            BadSamples::Uncounted(why) => write!(f, "{why}"),
        }
    }
}

impl std::error::Error for BadSamples {}

impl BadSamples {
    /// Returns that a line is no latency; of `text` no more is kept than is quoted.
    pub(super) fn line(line: usize, text: &str, why: NotALatency) -> BadSamples {
        BadSamples::Line { line, text: text.chars().take(QUOTED).collect::<String>().into(), why }
    }
}

/// Returns the latencies that `text` lists in `unit`: one a line, such as `23.5`. Empty lines, and those that start
/// with a `#`, are left out. Nothing is rounded or cut: a time-out of the tool that wrote it is not told apart.
///
/// # Errors
/// [`BadSamples`]; nothing is left out that cannot be read.
pub fn read(text: &[u8], unit: Unit) -> Result<Latencies, BadSamples> {
    let mut bad = None;
    let lines = text.split(|byte| *byte == b'\n').map(|line| String::from_utf8_lossy(line)).enumerate();
    let samples = lines.map_while(|(at, line)| {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            return Some(None);
        }
        match latency(line, unit) {
            Ok(latency) => Some(Some(Sample::Event(latency))),
            Err(why) => {
                bad = Some(BadSamples::line(at + 1, line, why));
                None
            }
        }
    });
    let found = Latencies::from_samples(samples.flatten()).map_err(BadSamples::Uncounted);
    match (bad, found) {
        (Some(bad), _) => Err(bad),
        (None, Ok(none)) if none.samples() == 0 => Err(BadSamples::None),
        (None, found) => found,
    }
}

fn latency(text: &str, unit: Unit) -> Result<Duration, NotALatency> {
    let number = text.parse().map_err(|_| match text.trim_end_matches(|c: char| c.is_alphabetic()).trim_end() {
        number if number.len() < text.len() && number.parse::<f64>().is_ok() => NotALatency::WithUnit,
        _ => NotALatency::NotANumber,
    })?;
    in_seconds(number, unit.per_second())
}

/// Returns how long `number` is, of which a second holds `per_second`.
pub(super) fn in_seconds(number: f64, per_second: f64) -> Result<Duration, NotALatency> {
    if number < 0.0 {
        return Err(NotALatency::Negative);
    }
    let latency = Duration::try_from_secs_f64(number / per_second).map_err(|_| NotALatency::TooLong)?;
    if latency > LONGEST { Err(NotALatency::TooLong) } else { Ok(latency) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latencies_are_exact_in_every_unit_and_however_long() {
        for (unit, micros) in [("s", 1_500_000), ("ms", 1_500), ("us", 2)] {
            let unit = Unit::named(unit).expect("a unit");
            let found = read(b"# of my tool\n1.5\r\n\n7200000\n", unit).expect("samples");
            assert_eq!(found.samples(), 2);
            assert!(found.fastest().expect("one").abs_diff(Duration::from_micros(micros)) < Duration::from_micros(1));
        }
        let found = read(b"39701", Unit::Milliseconds).expect("a sample");
        assert_eq!(found.slowest(), Some(Duration::from_millis(39_701)));
        assert_eq!(Unit::named("minutes"), None);
    }

    #[test]
    fn a_line_that_is_no_latency_is_named() {
        for (text, why) in [
            ("fast", NotALatency::NotANumber),
            ("12ms", NotALatency::WithUnit),
            ("1.5 s", NotALatency::WithUnit),
            ("ms", NotALatency::NotANumber),
            ("1,5", NotALatency::NotANumber),
            ("-1", NotALatency::Negative),
            ("NaN", NotALatency::TooLong),
            ("inf", NotALatency::TooLong),
            ("1e300", NotALatency::TooLong),
        ] {
            let found = read(format!("1\n2\n{text}\n3").as_bytes(), Unit::Milliseconds);
            assert_eq!(found, Err(BadSamples::Line { line: 3, text: text.into(), why }), "{text}");
        }
        assert_eq!(read(b"\n# nothing\n", Unit::Seconds), Err(BadSamples::None));
        assert!(read(b"1\n\xff\n", Unit::Seconds).is_err());
    }
}
