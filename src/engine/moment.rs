//! Time as the engine sees it: told, never asked.

use serde::de::Visitor;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// A reading of a clock that never steps, since an arbitrary start of the process.
///
/// It counts time spent in suspend (decisions 20). Arithmetic saturates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment(Duration);

impl Moment {
    /// The start of the clock.
    pub const START: Moment = Moment(Duration::ZERO);

    /// Returns the moment `since_start` after the start of the clock.
    pub const fn new(since_start: Duration) -> Moment {
        Moment(since_start)
    }

    /// Returns how long after the start of the clock this moment is.
    pub const fn since_start(self) -> Duration {
        self.0
    }

    /// Returns the moment `wait` later; the far future where that overflows.
    pub const fn after(self, wait: Duration) -> Moment {
        Moment(self.0.saturating_add(wait))
    }

    /// Returns the time from `earlier` to this moment; zero where `earlier` is later.
    pub const fn since(self, earlier: Moment) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}

/// A wall-clock time: UTC milliseconds since 1970, from the year 0 to the year 9999.
///
/// Read and written as RFC 3339 with milliseconds (`2026-11-30T10:03:19.123Z`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(i64);

/// 9999-12-31T23:59:59.999Z, the last time that RFC 3339 can write.
const LAST_MS: i64 = 253_402_300_799_999;
/// 0000-01-01T00:00:00.000Z.
const FIRST_MS: i64 = -62_167_219_200_000;
const DAY_MS: i64 = 86_400_000;

impl Timestamp {
    /// The last time that can be written.
    pub const LAST: Timestamp = Timestamp(LAST_MS);

    /// Returns the time `unix_ms` milliseconds after 1970, clamped to the years that can be written.
    pub const fn from_unix_ms(unix_ms: i64) -> Timestamp {
        if unix_ms > LAST_MS {
            Timestamp(LAST_MS)
        } else if unix_ms < FIRST_MS {
            Timestamp(FIRST_MS)
        } else {
            Timestamp(unix_ms)
        }
    }

    /// Returns the milliseconds since 1970; negative before it.
    pub const fn unix_ms(self) -> i64 {
        self.0
    }

    /// Returns the time `wait` later, rounded down to a millisecond, at most [`Timestamp::LAST`].
    pub fn after(self, wait: Duration) -> Timestamp {
        let wait_ms = i64::try_from(wait.as_millis()).unwrap_or(i64::MAX);
        Timestamp::from_unix_ms(self.0.saturating_add(wait_ms))
    }

    /// Returns the time `earlier_by` earlier.
    pub fn before(self, earlier_by: Duration) -> Timestamp {
        let ms = i64::try_from(earlier_by.as_millis()).unwrap_or(i64::MAX);
        Timestamp::from_unix_ms(self.0.saturating_sub(ms))
    }

    /// Returns the time from `earlier` to this; zero where `earlier` is later.
    pub fn since(self, earlier: Timestamp) -> Duration {
        Duration::from_millis(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }
}

/// The length of a time as it is written.
const WRITTEN: usize = "2026-11-30T10:03:19.123Z".len();

/// Writes a time, without the formatter: a ledger has several on each line.
fn written(at: Timestamp, text: &mut [u8; WRITTEN]) -> &str {
    let (year, month, day) = civil_from_days(at.0.div_euclid(DAY_MS));
    let ms = at.0.rem_euclid(DAY_MS);
    let (hour, minute, second) = (ms / 3_600_000, ms / 60_000 % 60, ms / 1_000 % 60);
    *text = *b"0000-00-00T00:00:00.000Z";
    let parts = [(year, 4), (month, 7), (day, 10), (hour, 13), (minute, 16), (second, 19), (ms % 1_000, 23)];
    for (number, end) in parts {
        let (mut left, mut at) = (number, end);
        while left > 0 {
            at -= 1;
            text[at] = b'0' + (left % 10) as u8;
            left /= 10;
        }
    }
    std::str::from_utf8(text).expect("digits and marks are ASCII")
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(written(*self, &mut [0; WRITTEN]))
    }
}

/// The text is not `YYYY-MM-DDThh:mm:ss[.fff]Z`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotATimestamp;

impl fmt::Display for NotATimestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not a UTC time such as 2026-11-30T10:03:19.123Z")
    }
}

impl std::error::Error for NotATimestamp {}

impl FromStr for Timestamp {
    type Err = NotATimestamp;

    /// Reads RFC 3339 in UTC (`Z` only), with up to nine digits of a second, cut to milliseconds.
    fn from_str(text: &str) -> Result<Timestamp, NotATimestamp> {
        let bytes = text.as_bytes();
        let shaped = bytes.len() >= 20
            && [(4, b'-'), (7, b'-'), (10, b'T'), (13, b':'), (16, b':')].iter().all(|&(at, mark)| bytes[at] == mark);
        if !shaped || !text.is_ascii() {
            return Err(NotATimestamp);
        }
        let number = |from: usize, to: usize| number(&bytes[from..to]);
        let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
        let (hour, minute, second) = (number(11, 13)?, number(14, 16)?, number(17, 19)?);
        let fraction_ms = fraction_ms(text[19..].strip_suffix('Z').ok_or(NotATimestamp)?)?;
        let days = days_from_civil(year, month, day);
        let real_day = (1..=12).contains(&month) && day >= 1 && civil_from_days(days) == (year, month, day);
        if !real_day || hour > 23 || minute > 59 || second > 59 {
            return Err(NotATimestamp);
        }
        Ok(Timestamp(days * DAY_MS + hour * 3_600_000 + minute * 60_000 + second * 1_000 + fraction_ms))
    }
}

fn fraction_ms(text: &str) -> Result<i64, NotATimestamp> {
    let Some(digits) = text.strip_prefix('.') else {
        return if text.is_empty() { Ok(0) } else { Err(NotATimestamp) };
    };
    if !(1..=9).contains(&digits.len()) {
        return Err(NotATimestamp);
    }
    let nanoseconds = number(digits.as_bytes())? * 10_i64.pow(9 - digits.len() as u32);
    Ok(nanoseconds / 1_000_000)
}

/// Reads up to nine digits.
fn number(digits: &[u8]) -> Result<i64, NotATimestamp> {
    digits.iter().try_fold(0, |number, digit| match digit {
        b'0'..=b'9' => Ok(number * 10 + i64::from(digit - b'0')),
        _ => Err(NotATimestamp),
    })
}

/// Returns (year, month, day) of a day counted from 1970-01-01 in the Gregorian calendar.
///
/// Source: Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms", `civil_from_days`.
fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

/// Returns the day counted from 1970-01-01; the inverse of [`civil_from_days`].
fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = year - i64::from(month <= 2);
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * (if month > 2 { month - 3 } else { month + 9 }) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(written(*self, &mut [0; WRITTEN]))
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Timestamp, D::Error> {
        deserializer.deserialize_str(Text)
    }
}

/// Reads the text of a time where it stands.
struct Text;

impl Visitor<'_> for Text {
    type Value = Timestamp;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Timestamp, E> {
        text.parse().map_err(E::custom)
    }
}

/// Both clocks, read together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Now {
    /// For waits and deadlines.
    pub steady: Moment,
    /// For what is written down and for what outlives the process.
    pub wall: Timestamp,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn known_times_are_written_as_rfc_3339() {
        let cases = [
            (0, "1970-01-01T00:00:00.000Z"),
            (1_795_946_599_123, "2026-11-29T10:03:19.123Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (-1, "1969-12-31T23:59:59.999Z"),
            (LAST_MS, "9999-12-31T23:59:59.999Z"),
            (FIRST_MS, "0000-01-01T00:00:00.000Z"),
        ];
        for (ms, text) in cases {
            assert_eq!(Timestamp(ms).to_string(), text);
            assert_eq!(text.parse(), Ok(Timestamp(ms)));
        }
    }

    #[test]
    fn more_or_fewer_digits_of_a_second_are_cut_or_filled() {
        let parts = [
            ("", 0),
            (".1", 100),
            (".12", 120),
            (".1239", 123),
            (".001999999", 1),
            (".999999999", 999),
            (".000000001", 0),
        ];
        for (fraction, ms) in parts {
            assert_eq!(format!("1970-01-01T00:00:01{fraction}Z").parse(), Ok(Timestamp(1_000 + ms)), "{fraction}");
        }
        for fraction in [".", ".1234567890", ".12a", ".-12", ".+1"] {
            assert_eq!(
                format!("1970-01-01T00:00:01{fraction}Z").parse::<Timestamp>(),
                Err(NotATimestamp),
                "{fraction}"
            );
        }
    }

    #[test]
    fn what_is_no_time_is_refused() {
        for text in [
            "",
            "2026-02-30T00:00:00Z",
            "2026-13-01T00:00:00Z",
            "2026-01-01 00:00:00Z",
            "2026-01-01T24:00:00Z",
            "2026-01-01T00:00:00",
            "2026-01-01T00:00:00+01:00",
            "2026-01-01T00:00:00.Z",
            "+026-01-01T00:00:00Z",
            "2026-01-01T00:00:é0Z",
        ] {
            assert_eq!(text.parse::<Timestamp>(), Err(NotATimestamp), "{text}");
        }
    }

    #[test]
    fn arithmetic_saturates() {
        assert_eq!(Timestamp(5).after(Duration::MAX), Timestamp::LAST);
        assert_eq!(Timestamp(5).since(Timestamp(9)), Duration::ZERO);
        assert_eq!(Moment::new(Duration::MAX).after(Duration::MAX), Moment::new(Duration::MAX));
        assert_eq!(Moment::START.since(Moment::new(Duration::from_secs(1))), Duration::ZERO);
    }

    proptest! {
        #[test]
        fn every_time_survives_being_written(ms in FIRST_MS..=LAST_MS) {
            prop_assert_eq!(Timestamp(ms).to_string().parse(), Ok(Timestamp(ms)));
        }
    }
}
