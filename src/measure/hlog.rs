//! Interval logs of HdrHistogram (`.hlog`): a histogram a line, as text.
//!
//! What is written is read by the tools for Java and Python. What is read may come from them, and may be damaged: each
//! line stands for itself, and bad ones are named.

mod unpack;

use super::counted::{Bin, Counted};
use crate::engine::moment::Timestamp;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::serialization::{Serializer, V2DeflateSerializer};
use std::fmt;
use std::io::{self, Write};
use std::time::Duration;
use unpack::{Packed, unpacked};

/// Says in files of abide what they count in.
const VALUES: &str = "#[Values: nanoseconds, 1us to 1h, 3 significant digits; times since the epoch]";
/// Begins a comment of abide.
const NOTE: &str = "#[Abide: ";

/// Writes what stands at the beginning of a file: once, though lines are added later.
///
/// # Errors
/// What `out` fails with.
///
/// Source: latency.md 2.1 and 3.3.
pub fn write_header(out: &mut impl Write, start: Timestamp) -> io::Result<()> {
    writeln!(out, "#[Histogram log format version 1.3]")?;
    writeln!(out, "#[StartTime: {} (seconds since epoch), {start}]", Seconds(start.unix_ms()))?;
    writeln!(out, "{VALUES}")?;
    writeln!(out, r#""StartTimestamp","Interval_Length","Interval_Max","Interval_Compressed_Histogram""#)
}

/// Writes a comment that [`read`] finds again, and other tools skip; nothing where it is empty. It holds no line break.
///
/// # Errors
/// What `out` fails with.
pub fn write_note(out: &mut impl Write, words: &str) -> io::Result<()> {
    if words.is_empty() { Ok(()) } else { writeln!(out, "{NOTE}{words}]") }
}

/// Returns whether a file was written by abide.
pub fn is_own(text: &[u8]) -> bool {
    text.split(|byte| *byte == b'\n').any(|line| line.trim_ascii_end() == VALUES.as_bytes())
}

/// Writes a line.
///
/// The samples began at `start` and lasted for `length`. `tag` names what they are and holds no blank, comma or line
/// break; the samples without one are what other tools show.
///
/// # Errors
/// What `out` fails with.
///
/// # Panics
/// Where the tag holds what it may not.
pub fn write_line(
    out: &mut impl Write,
    tag: Option<&str>,
    start: Timestamp,
    length: Duration,
    counted: &Counted,
) -> io::Result<()> {
    /// Nanoseconds of the unit of the longest value: other tools take it for milliseconds.
    const DIVISOR: f64 = 1e6;
    let mut packed = Vec::new();
    V2DeflateSerializer::new().serialize(&counted.histogram, &mut packed).map_err(io::Error::other)?;
    if let Some(tag) = tag {
        let legible = !tag.is_empty() && tag.bytes().all(|byte| byte.is_ascii_graphic() && byte != b',');
        assert!(legible, "a tag ends at a blank or comma");
        write!(out, "Tag={tag},")?;
    }
    let length = Seconds(i64::try_from(length.as_millis()).unwrap_or(i64::MAX));
    let longest = counted.histogram.max() as f64 / DIVISOR;
    writeln!(out, "{},{length},{longest:.3},{}", Seconds(start.unix_ms()), STANDARD.encode(packed))
}

/// Milliseconds, written as seconds.
struct Seconds(i64);

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:03}", self.0.div_euclid(1_000), self.0.rem_euclid(1_000))
    }
}

/// A line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interval {
    /// What the samples are; `None` for those that other tools show.
    pub tag: Option<Box<str>>,
    /// When they began.
    pub start: Timestamp,
    /// How long they were taken.
    pub length: Duration,
    /// How many there were of which latency.
    pub bins: Vec<Bin>,
}

/// What a file holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Log {
    /// The lines that could be read, in order.
    pub intervals: Vec<Interval>,
    /// The others, by their number, which starts at 1.
    pub bad: Vec<(usize, BadLine)>,
    /// The comments of abide, in order.
    pub notes: Vec<Box<str>>,
}

/// The unit in which a file counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// As abide writes them.
    Nanoseconds,
    /// As many other tools do.
    Microseconds,
    /// Milliseconds.
    Milliseconds,
}

impl Unit {
    /// Returns the unit of that name.
    pub fn named(name: &str) -> Option<Unit> {
        match name {
            "ns" => Some(Unit::Nanoseconds),
            "us" => Some(Unit::Microseconds),
            "ms" => Some(Unit::Milliseconds),
            _ => None,
        }
    }

    fn nanos(self) -> u64 {
        match self {
            Unit::Nanoseconds => 1,
            Unit::Microseconds => 1_000,
            Unit::Milliseconds => 1_000_000,
        }
    }
}

/// Why a line cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadLine {
    /// It is no list of a time, a length, a value and a histogram.
    Fields,
    /// A time or length is no number of seconds.
    Time,
    /// The histogram is damaged, or of a kind that is not read.
    Histogram,
    /// The histogram is larger than any that is read.
    TooLarge,
}

impl fmt::Display for BadLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            BadLine::Fields => "no line of an interval log",
            BadLine::Time => "a time that is no number of seconds",
            BadLine::Histogram => "a damaged histogram, or one of another version",
            BadLine::TooLarge => "a histogram that is too large",
        })
    }
}

impl std::error::Error for BadLine {}

/// Returns what a file holds whose values are in `unit`.
///
/// Lines that cannot be read are named and left out; a last line that was cut is one of them. Times are taken as since
/// the epoch, or as since the `BaseTime` of the file, or as since its `StartTime` where they are more than a year below.
///
/// Source: latency.md 1 and 2.1.
pub fn read(text: &[u8], unit: Unit) -> Log {
    const YEAR: f64 = 365.0 * 86_400.0;
    let (mut log, mut start, mut base) = (Log::default(), 0.0, None);
    for (n, line) in text.split(|byte| *byte == b'\n').enumerate() {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if let Some(seconds) = header(line, "#[StartTime:") {
            start = seconds;
        } else if let Some(seconds) = header(line, "#[BaseTime:") {
            base = Some(seconds);
        } else if let Some(words) = note(line) {
            log.notes.push(words.into());
        } else if !matches!(line.first(), None | Some(b'#' | b'"')) {
            let from = |at: f64| base.unwrap_or(if at < start - YEAR { start } else { 0.0 }) + at;
            match interval(line, unit, from) {
                Ok(interval) => log.intervals.push(interval),
                Err(why) => log.bad.push((n + 1, why)),
            }
        }
    }
    log
}

/// Returns the words of a comment of abide.
fn note(line: &[u8]) -> Option<&str> {
    std::str::from_utf8(line).ok()?.strip_prefix(NOTE)?.strip_suffix(']')
}

/// Returns the seconds of a header.
fn header(line: &[u8], name: &str) -> Option<f64> {
    let value = std::str::from_utf8(line).ok()?.strip_prefix(name)?.trim_start();
    seconds(&value[..value.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(value.len())])
}

fn interval(line: &[u8], unit: Unit, from: impl Fn(f64) -> f64) -> Result<Interval, BadLine> {
    let line = std::str::from_utf8(line).map_err(|_| BadLine::Fields)?;
    let (tag, rest) = match line.strip_prefix("Tag=") {
        Some(tagged) => tagged.split_once(',').map(|(tag, rest)| (Some(tag), rest)).ok_or(BadLine::Fields)?,
        None => (None, line),
    };
    let fields: Vec<&str> = rest.split(',').map(str::trim).collect();
    let [at, length, _, packed] = fields[..] else { return Err(BadLine::Fields) };
    let (at, length) = (seconds(at).ok_or(BadLine::Time)?, seconds(length).ok_or(BadLine::Time)?);
    let nanos = unit.nanos();
    let bin = |Packed { low, high, count }: Packed| {
        let low = Duration::from_nanos(low.saturating_mul(nanos));
        // All that is rounded down to a whole unit.
        let high = Duration::from_nanos(high.saturating_add(1).saturating_mul(nanos) - 1);
        Bin { low, high, count }
    };
    Ok(Interval {
        tag: tag.map(Into::into),
        start: Timestamp::from_unix_ms((from(at) * 1_000.0).round() as i64),
        length: Duration::from_secs_f64(length),
        bins: unpacked(packed)?.into_iter().map(bin).collect(),
    })
}

/// Returns a number of seconds, at most those of ten thousand years.
fn seconds(text: &str) -> Option<f64> {
    const MOST: f64 = 1e4 * 366.0 * 86_400.0;
    text.parse().ok().filter(|seconds| (0.0..=MOST).contains(seconds))
}

#[cfg(test)]
mod tests;
