//! Retry-After: how long the partner wants to be left alone.

use super::exchange::Headers;
use super::moment::Timestamp;
use std::time::{Duration, UNIX_EPOCH};

/// What the Retry-After fields of an answer ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetryAfter {
    /// There is no such field.
    Absent,
    /// None of the fields can be read: worth a warning, and the back-off holds as if there were none.
    Malformed,
    /// Nothing may be sent for this long, counted from the answer. Zero asks for nothing beyond the back-off.
    Wait(Duration),
}

/// Reads the Retry-After fields of an answer that came at `now`.
///
/// A field is a number of seconds (decimals are rounded up), a list of them, or an HTTP date; of several readable
/// values the longest wait counts. A number that fits no clock reads as [`Duration::MAX`], a date in the past as zero.
/// A date is taken relative to the answer's own `Date`, so that a wrong clock here does no harm; relative to `now`
/// where the answer has no readable `Date`, or has an `Age`, as an answer from a cache does.
///
/// Whether the field counts for the answer's status is the caller's business.
///
/// Source: RFC 9110 section 10.2.3; reference semantics 3.4.
pub fn read(headers: &Headers, now: Timestamp) -> RetryAfter {
    let mut lines = headers.all("retry-after").peekable();
    if lines.peek().is_none() {
        return RetryAfter::Absent;
    }
    let from = partner_clock(headers).unwrap_or(now);
    lines.filter_map(|line| wait(trimmed(line), from)).max().map_or(RetryAfter::Malformed, RetryAfter::Wait)
}

/// Returns the partner's time at the answer, where the answer tells it freshly.
pub(super) fn partner_clock(headers: &Headers) -> Option<Timestamp> {
    match headers.first("age") {
        Some(_) => None,
        None => date(trimmed(headers.first("date")?)),
    }
}

/// Returns what one field asks for; `None` where it cannot be read as a whole.
fn wait(value: &str, from: Timestamp) -> Option<Duration> {
    match date(value) {
        Some(date) => Some(date.since(from)),
        None => value.split(',').map(|item| seconds(trimmed(item))).try_fold(Duration::ZERO, |longest, item| {
            // A list with an item that is no number is refused: it may be a date that we cannot read.
            Some(longest.max(item?))
        }),
    }
}

/// Reads `12` or `12.5`, rounded up. Digits are checked first: the number parsers also take `+5`, `inf` and `1e9`.
fn seconds(text: &str) -> Option<Duration> {
    let (whole, decimals) = text.split_once('.').unwrap_or((text, "0"));
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    if !digits(whole) || !digits(decimals) {
        return None;
    }
    let started = u64::from(decimals.bytes().any(|b| b != b'0'));
    let seconds = whole.parse::<u64>().ok().and_then(|whole| whole.checked_add(started));
    Some(seconds.map_or(Duration::MAX, Duration::from_secs))
}

/// Reads the three forms of an HTTP date (RFC 9110 section 5.6.7).
fn date(text: &str) -> Option<Timestamp> {
    let since_1970 = httpdate::parse_http_date(text).ok()?.duration_since(UNIX_EPOCH).ok()?;
    Some(Timestamp::from_unix_ms(i64::try_from(since_1970.as_millis()).unwrap_or(i64::MAX)))
}

/// Returns `text` without the blanks that HTTP allows around a value: spaces and tabs only.
fn trimmed(text: &str) -> &str {
    text.trim_matches([' ', '\t'])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// 2026-11-30T10:00:00.400Z, a Monday.
    fn ten() -> Timestamp {
        "2026-11-30T10:00:00.400Z".parse().expect("a time")
    }

    fn headers(fields: &[(&str, &str)]) -> Headers {
        Headers(fields.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect())
    }

    fn read_one(value: &str) -> RetryAfter {
        read(&headers(&[("retry-after", value)]), ten())
    }

    fn seconds(seconds: u64) -> RetryAfter {
        RetryAfter::Wait(Duration::from_secs(seconds))
    }

    #[test]
    fn an_answer_without_the_field_asks_for_nothing() {
        assert_eq!(read(&headers(&[("date", "Mon, 30 Nov 2026 10:00:00 GMT")]), ten()), RetryAfter::Absent);
    }

    #[test]
    fn seconds_are_read_and_decimals_rounded_up() {
        let cases = [
            ("0", 0),
            ("0.0", 0),
            ("000", 0),
            ("120", 120),
            (" \t120 ", 120),
            ("007", 7),
            ("1.5", 2),
            ("0.314", 1),
            ("299.997", 300),
            ("60.000", 60),
            ("0.0000000000000000000000000000001", 1),
            ("18446744073709551615", u64::MAX),
            ("9223372037", 9_223_372_037),
        ];
        for (value, expected) in cases {
            assert_eq!(read_one(value), seconds(expected), "{value}");
        }
    }

    #[test]
    fn seconds_that_fit_no_clock_are_for_ever_and_never_none() {
        for value in ["18446744073709551616", "18446744073709551615.1", &"9".repeat(30), &"9".repeat(4_000)] {
            assert_eq!(read_one(value), RetryAfter::Wait(Duration::MAX), "{value}");
        }
        assert_eq!(ten().after(Duration::MAX), Timestamp::LAST);
    }

    #[test]
    fn what_is_no_number_and_no_date_is_malformed() {
        let garbage = [
            "", " ", "-1", "+5", "5s", "²", "٣", "inf", "Infinity", "nan", "1e400", "1e9", "0x10", "1_000", "5.", ".5",
            "1.5.2", "1,5s", ",", "5,", "5;60", "5 60", "\u{a0}5", "Mon, 5", "soon",
        ];
        for value in garbage {
            assert_eq!(read_one(value), RetryAfter::Malformed, "{value:?}");
        }
    }

    #[test]
    fn dates_in_all_three_forms_count_from_the_local_clock_without_the_partners() {
        let expected = RetryAfter::Wait(Duration::from_millis(59_600));
        for value in ["Mon, 30 Nov 2026 10:01:00 GMT", "Monday, 30-Nov-26 10:01:00 GMT", "Mon Nov 30 10:01:00 2026"] {
            assert_eq!(read_one(value), expected, "{value}");
        }
    }

    #[test]
    fn dates_that_http_does_not_know_are_malformed() {
        for value in [
            "Tue, 30 Nov 2026 10:01:00 GMT",
            "Mon, 30 Nov 2026 10:01:00 UTC",
            "Mon, 30 Nov 2026 10:01:00 +0300",
            "Mon, 30 Nov 2026 10:01:60 GMT",
            "Tue, 31 Nov 2026 10:01:00 GMT",
            "2026-11-30T10:01:00Z",
        ] {
            assert_eq!(read_one(value), RetryAfter::Malformed, "{value}");
        }
    }

    #[test]
    fn a_date_in_the_past_asks_for_no_wait_and_one_in_the_year_9999_for_a_long_one() {
        assert_eq!(read_one("Mon, 30 Nov 2026 09:59:59 GMT"), seconds(0));
        assert_eq!(read_one("Sun, 06 Nov 1994 08:49:37 GMT"), seconds(0));
        let RetryAfter::Wait(wait) = read_one("Fri, 31 Dec 9999 23:59:59 GMT") else { panic!("a date") };
        assert!(wait > Duration::from_secs(7_900 * 365 * 86_400), "{wait:?}");
    }

    #[test]
    fn a_date_counts_from_the_partners_clock_however_wrong_ours_is() {
        let answer =
            headers(&[("date", "Mon, 30 Nov 2026 10:00:00 GMT"), ("retry-after", "Mon, 30 Nov 2026 10:01:00 GMT")]);
        let ten_minutes = Duration::from_secs(600);
        for now in [ten(), ten().before(ten_minutes), ten().after(ten_minutes)] {
            assert_eq!(read(&answer, now), seconds(60), "{now}");
        }
    }

    #[test]
    fn the_clock_of_a_cached_or_unreadable_date_is_not_trusted() {
        let ahead = ("retry-after", "Mon, 30 Nov 2026 10:01:00 GMT");
        let local = RetryAfter::Wait(Duration::from_millis(59_600));
        let cached = headers(&[("date", "Mon, 30 Nov 2026 09:00:00 GMT"), ("age", "3600"), ahead]);
        assert_eq!(read(&cached, ten()), local);
        let unreadable = headers(&[("date", "yesterday"), ahead]);
        assert_eq!(read(&unreadable, ten()), local);
    }

    #[test]
    fn of_several_values_the_longest_wait_counts() {
        let cases: [(&[&str], RetryAfter); 7] = [
            (&["5", "60"], seconds(60)),
            (&["60", "5"], seconds(60)),
            (&["5, 60"], seconds(60)),
            (&["60 ,5", "7"], seconds(60)),
            (&["soon", "5"], seconds(5)),
            (&["soon", "-1"], RetryAfter::Malformed),
            (&["5", "Mon, 30 Nov 2026 10:01:00 GMT"], RetryAfter::Wait(Duration::from_millis(59_600))),
        ];
        for (values, expected) in cases {
            let fields: Vec<_> = values.iter().map(|value| ("retry-after", *value)).collect();
            assert_eq!(read(&headers(&fields), ten()), expected, "{values:?}");
        }
    }

    proptest! {
        #[test]
        fn no_field_panics(value in "\\PC{0,40}", date in "\\PC{0,40}") {
            let answer = headers(&[("retry-after", &value), ("date", &date)]);
            prop_assert_ne!(read(&answer, ten()), RetryAfter::Absent);
        }

        #[test]
        fn a_wait_is_never_shorter_than_asked(whole in 0u64..1 << 40, thousandths in 0u32..1_000) {
            let asked = Duration::from_secs(whole) + Duration::from_millis(thousandths.into());
            let RetryAfter::Wait(wait) = read_one(&format!("{whole}.{thousandths:03}")) else { panic!("a number") };
            prop_assert!(wait >= asked);
            prop_assert!(wait < asked + Duration::from_secs(1));
        }
    }
}
