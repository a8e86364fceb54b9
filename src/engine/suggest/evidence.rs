//! How much the samples can say about other hours than their own.

use super::super::moment::Timestamp;
use super::latencies::Latencies;
use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

/// The distinct minutes that samples fell in: requests in one minute share the partner's fate and count once.
///
/// Source: latency.md 3.5; decisions 31.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Minutes {
    /// Minutes since the epoch, UTC.
    Known(BTreeSet<i64>),
    /// The samples came without times: each counts as a minute of its own, and the grade is [`Grade::Snapshot`].
    Unknown,
}

impl Default for Minutes {
    /// Returns no minutes, for samples with times.
    fn default() -> Minutes {
        Minutes::Known(BTreeSet::new())
    }
}

impl Minutes {
    /// Adds the minute of a sample. Without times it stays without.
    pub fn add(&mut self, at: Timestamp) {
        if let Minutes::Known(minutes) = self {
            minutes.insert(at.unix_ms().div_euclid(60_000));
        }
    }

    /// Returns the minutes of both; unknown where one of them is.
    pub fn merged(&self, other: &Minutes) -> Minutes {
        match (self, other) {
            (Minutes::Known(one), Minutes::Known(other)) => Minutes::Known(one | other),
            _ => Minutes::Unknown,
        }
    }

    /// Returns how many minutes `samples` count for, at most as many as there are samples.
    pub fn count(&self, samples: u64) -> u64 {
        match self {
            Minutes::Known(minutes) => samples.min(minutes.len() as u64),
            Minutes::Unknown => samples,
        }
    }

    /// Returns how many of the minutes lie in an hour of the day, 0 to 23, UTC; [`u64::MAX`] where they are unknown.
    pub fn within(&self, hour: u8) -> u64 {
        let Minutes::Known(minutes) = self else { return u64::MAX };
        minutes.iter().filter(|minute| hour_of(**minute) == hour).count() as u64
    }

    /// Returns the time from the first minute to the last; `None` without times or samples.
    pub fn span(&self) -> Option<Duration> {
        let Minutes::Known(minutes) = self else { return None };
        let whole = minutes.last()?.abs_diff(*minutes.first()?);
        Some(Duration::from_secs(whole.saturating_mul(60)))
    }

    /// Returns the hours of the day, 0 to 23, UTC, in which no sample fell; all where that is unknown.
    pub fn hours_unseen(&self) -> Vec<u8> {
        let mut seen = [false; 24];
        if let Minutes::Known(minutes) = self {
            for minute in minutes {
                seen[usize::from(hour_of(*minute))] = true;
            }
        }
        (0..24).filter(|hour| !seen[usize::from(*hour)]).collect()
    }
}

/// Returns the hour of the day, 0 to 23, UTC, in which a minute since the epoch lies.
fn hour_of(minute: i64) -> u8 {
    minute.div_euclid(60).rem_euclid(24) as u8
}

/// What the samples stand for, by the time they span.
///
/// Source: latency.md 3.5, which simulated a partner with slow spells: 300 requests in 5 minutes gave a right bound in
/// 16 % of all runs, the same number over 24 hours in 95.5 %.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Grade {
    /// Less than an hour, fewer than 30 minutes, or times unknown: it says nothing about other hours.
    Snapshot,
    /// Some hours.
    Hours,
    /// 23 hours or more, 299 minutes or more.
    Day,
    /// Seven days or more, every hour of the day, 2,000 minutes or more.
    Weeks,
}

impl Grade {
    /// Returns the grade as it is written in profiles and reports.
    pub const fn as_str(self) -> &'static str {
        match self {
            Grade::Snapshot => "snapshot",
            Grade::Hours => "hours",
            Grade::Day => "day",
            Grade::Weeks => "weeks",
        }
    }

    fn of(minutes: &Minutes, count: u64) -> Grade {
        const HOUR: Duration = Duration::from_secs(3_600);
        let Some(span) = minutes.span() else { return Grade::Snapshot };
        if span < HOUR || count < 30 {
            Grade::Snapshot
        } else if span >= 7 * 24 * HOUR && count >= 2_000 && minutes.hours_unseen().is_empty() {
            Grade::Weeks
        } else if span >= 23 * HOUR && count >= 299 {
            Grade::Day
        } else {
            Grade::Hours
        }
    }
}

impl fmt::Display for Grade {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// How much was seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Evidence {
    /// The samples with an answer.
    pub events: u64,
    /// The samples that were given up.
    pub censored: u64,
    /// The distinct minutes they count for.
    pub minutes: u64,
    /// The time from the first to the last; `None` where it is unknown.
    pub span: Option<Duration>,
    /// The hours of the day, UTC, that no sample fell in.
    pub hours_unseen: Vec<u8>,
    /// What the samples stand for.
    pub grade: Grade,
}

impl Evidence {
    /// Returns what `latencies` that fell in `minutes` are worth.
    pub fn new(latencies: &Latencies, minutes: &Minutes) -> Evidence {
        let count = minutes.count(latencies.samples());
        Evidence {
            events: latencies.events(),
            censored: latencies.censored(),
            minutes: count,
            span: minutes.span(),
            hours_unseen: minutes.hours_unseen(),
            grade: Grade::of(minutes, count),
        }
    }

    /// Returns the number of samples, given up or not.
    pub fn samples(&self) -> u64 {
        self.events + self.censored
    }
}

#[cfg(test)]
mod tests {
    use super::super::latencies::Sample;
    use super::*;

    fn minutes(of: impl IntoIterator<Item = i64>) -> Minutes {
        let mut minutes = Minutes::default();
        of.into_iter().for_each(|minute| minutes.add(Timestamp::from_unix_ms(minute * 60_000 + 59_999)));
        minutes
    }

    fn grade(of: Minutes, samples: u64) -> Grade {
        let samples = (0..samples).map(|_| Sample::Event(Duration::from_millis(7)));
        Evidence::new(&Latencies::from_samples(samples).expect("latencies"), &of).grade
    }

    #[test]
    fn grades_go_by_the_time_that_was_spanned() {
        let day = 24 * 60;
        let table = [
            (minutes([]), 1_000, Grade::Snapshot),
            (Minutes::Unknown, 1_000_000, Grade::Snapshot),
            (minutes(0..60), 1_000, Grade::Snapshot),
            (minutes(0..=60), 1_000, Grade::Hours),
            (minutes((0..29).map(|i| i * 60)), 1_000, Grade::Snapshot),
            (minutes((0..30).map(|i| i * 60)), 1_000, Grade::Hours),
            (minutes((0..300).map(|i| i * 4)), 300, Grade::Hours),
            (minutes((0..299).map(|i| i * 5)), 299, Grade::Day),
            (minutes((0..299).map(|i| i * 5)), 298, Grade::Hours),
            (minutes((0..2_017).map(|i| i * 5)), 2_017, Grade::Weeks),
            (minutes((0..2_016).map(|i| i * 5)), 2_016, Grade::Day),
            (minutes((0..=7).flat_map(|d| (0..400).map(move |i| d * day + i))), 4_000, Grade::Day),
        ];
        for (minutes, samples, expected) in table {
            let (span, count) = (minutes.span(), minutes.count(samples));
            assert_eq!(grade(minutes, samples), expected, "{count} minutes over {span:?}");
        }
    }

    #[test]
    fn minutes_count_once_and_never_more_than_samples() {
        let twice = minutes([5, 5, 6]);
        assert_eq!((twice.count(9), twice.count(1)), (2, 1));
        assert_eq!((Minutes::Unknown.count(9), Minutes::Unknown.span()), (9, None));
        assert_eq!(twice.merged(&minutes([6, 7])), minutes([5, 6, 7]));
        assert_eq!(twice.merged(&Minutes::Unknown), Minutes::Unknown);
        let mut unknown = Minutes::Unknown;
        unknown.add(Timestamp::from_unix_ms(0));
        assert_eq!(unknown, Minutes::Unknown);
    }

    #[test]
    fn hours_without_a_sample_are_named() {
        assert_eq!(minutes([-1, 0, 61]).hours_unseen(), (2..23).collect::<Vec<u8>>());
        assert_eq!(Minutes::Unknown.hours_unseen().len(), 24);
    }
}
