//! How far the partner's clock is from ours.

use crate::engine::exchange::Headers;
use crate::engine::moment::Timestamp;
use crate::engine::retry_after;
use crate::engine::units::show_rounded;
use std::time::Duration;

/// A `Date` is cut to a second: on average it was half a second ago.
const HALF_SECOND: Duration = Duration::from_millis(500);

/// A difference is worth a warning from here on, beyond its uncertainty.
///
/// Source: latency.md 6.1.
const NOTABLE: Duration = Duration::from_secs(2);

/// From here on a clock is a reason for a certificate to look invalid, and for a signature to be refused.
///
/// Source: latency.md 6.5 rule 9; signatures commonly hold for five minutes.
const BREAKING: Duration = Duration::from_secs(5 * 60);

/// How far the partner's clock is from ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Skew {
    /// How far it is ahead, in milliseconds; negative where it is behind.
    pub ahead_ms: i64,
    /// The truth is within this of [`Skew::ahead_ms`], either way.
    pub uncertainty: Duration,
}

impl Skew {
    /// Returns the difference that the `Date` of an answer shows: `Date` plus half a second, less the middle between
    /// sending the request and the first byte of the answer.
    ///
    /// `sent` is our wall clock when the last byte of the request was handed over, `round_trip` the time from then to
    /// the first byte of the answer. The uncertainty is half a second and half the round trip. `None` without a
    /// readable `Date`, and with an `Age`: a cache answered then, with an old `Date`.
    ///
    /// Source: latency.md 6.1.
    pub fn of(headers: &Headers, sent: Timestamp, round_trip: Duration) -> Option<Skew> {
        let date = retry_after::partner_clock(headers)?.after(HALF_SECOND);
        let middle = sent.after(round_trip / 2);
        let ahead_ms = date.unix_ms().saturating_sub(middle.unix_ms());
        Some(Skew { ahead_ms, uncertainty: HALF_SECOND.saturating_add(round_trip / 2) })
    }

    /// Returns how far the clocks are apart, whichever is ahead.
    pub fn size(self) -> Duration {
        Duration::from_millis(self.ahead_ms.unsigned_abs())
    }

    /// Returns whether the clocks differ by more than two seconds beyond the uncertainty.
    pub fn is_notable(self) -> bool {
        self.size() > self.uncertainty.saturating_add(NOTABLE)
    }

    /// Returns whether the clocks differ by more than five minutes beyond the uncertainty: enough for a certificate to
    /// look invalid, and for a signature to be refused.
    pub fn is_breaking(self) -> bool {
        self.size() > self.uncertainty.saturating_add(BREAKING)
    }

    /// Returns the partner's time at our time `ours`.
    pub fn partner_time(self, ours: Timestamp) -> Timestamp {
        Timestamp::from_unix_ms(ours.unix_ms().saturating_add(self.ahead_ms))
    }

    /// Returns the difference in words: `the partner's clock is 12s ahead of ours (give or take 0.5s)`.
    pub fn words(self) -> String {
        let (size, within) = (show_rounded(self.size()), show_rounded(self.uncertainty));
        let way = if self.ahead_ms < 0 { "behind" } else { "ahead of" };
        format!("the partner's clock is {size} {way} ours (give or take {within})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(fields: &[(&str, &str)]) -> Headers {
        Headers(fields.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect())
    }

    fn at(text: &str) -> Timestamp {
        text.parse().expect("a time")
    }

    const DATE: (&str, &str) = ("date", "Mon, 30 Nov 2026 10:00:00 GMT");

    #[test]
    fn the_middle_of_the_round_trip_is_compared_with_the_middle_of_the_second() {
        for (sent, round_trip_ms, ahead_ms, uncertainty_ms) in [
            ("2026-11-30T10:00:00.500Z", 0, 0, 500),
            ("2026-11-30T10:00:00.400Z", 200, 0, 600),
            ("2026-11-30T10:00:02.500Z", 0, -2_000, 500),
            ("2026-11-30T09:59:50.000Z", 1_000, 10_000, 1_000),
        ] {
            let skew = Skew::of(&headers(&[DATE]), at(sent), Duration::from_millis(round_trip_ms)).expect("a date");
            assert_eq!(skew, Skew { ahead_ms, uncertainty: Duration::from_millis(uncertainty_ms) }, "{sent}");
        }
    }

    #[test]
    fn an_answer_from_a_cache_and_one_without_a_date_say_nothing() {
        let skew = |fields: &[(&str, &str)]| Skew::of(&headers(fields), at("2026-11-30T10:00:00Z"), Duration::ZERO);
        assert_eq!(skew(&[]), None);
        assert_eq!(skew(&[("date", "yesterday")]), None);
        assert_eq!(skew(&[DATE, ("age", "0")]), None);
        assert!(skew(&[DATE]).is_some());
    }

    #[test]
    fn a_difference_counts_beyond_its_uncertainty_only() {
        let skew = |ahead_ms, uncertainty_ms| Skew { ahead_ms, uncertainty: Duration::from_millis(uncertainty_ms) };
        assert!(!skew(2_500, 500).is_notable());
        assert!(skew(2_501, 500).is_notable());
        assert!(skew(-2_501, 500).is_notable());
        assert!(!skew(-300_500, 500).is_breaking());
        assert!(skew(-300_501, 500).is_breaking());
        assert_eq!(skew(i64::MIN, 0).size(), Duration::from_millis(1 << 63));
    }

    #[test]
    fn the_words_tell_who_is_ahead() {
        let skew = |ahead_ms| Skew { ahead_ms, uncertainty: Duration::from_millis(600) };
        assert_eq!(skew(12_000).words(), "the partner's clock is 12s ahead of ours (give or take 600ms)");
        assert_eq!(skew(-300).words(), "the partner's clock is 300ms behind ours (give or take 600ms)");
        assert_eq!(skew(-1_000).partner_time(at("2026-11-30T10:00:00Z")), at("2026-11-30T09:59:59Z"));
    }
}
