//! What a person should know beside a suggestion.

use super::consequences::Consequences;
use super::formula::Proposal;
use super::quantile::Estimate;
use super::ranks::Rate;
use super::refusal::{missed, more_than};
use super::rounding::show_three_digits;
use super::season::{SlowHour, show_hour};
use super::seen::{Pacing, Seen};
use super::shape::{Gap, gap};
use super::share::Share;
use std::fmt;
use std::time::Duration;

/// What a person should know beside a suggestion.
///
/// Source: latency.md 2.4, 3.1 and 3.10.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Warning {
    /// More than 1 % of the requests that were due were not sent: percentiles are too low.
    Missed(Rate),
    /// Requests left late: this machine is too busy to measure.
    Busy {
        /// The 99th percentile of how late they left.
        lag: Duration,
    },
    /// Requests waited for each other: a stall hides itself, and percentiles are too low.
    Closed,
    /// The deadline is more than a hundred times what is usual.
    LongDeadline {
        /// The deadline.
        overall: Duration,
        /// The median of whole attempts.
        typical: Duration,
    },
    /// The read limit gets shorter, and more than 5 operations of a thousand would end in doubt.
    Tighter {
        /// The limit in force.
        current: Duration,
        /// The proposed one.
        proposed: Duration,
        /// The operations of a thousand that would end in doubt.
        doubt_per_thousand: f64,
    },
    /// In some hours of the day more answers take longer than the read limit than is accepted.
    Season {
        /// The slowest of them.
        slowest: SlowHour,
        /// How many there are, the slowest included.
        hours: usize,
    },
    /// There are two kinds of answers.
    TwoKinds(Gap),
    /// The percentile is more than 50 times the median: a queue, not a request.
    HeavyTail {
        /// The median.
        median: Duration,
        /// The percentile.
        percentile: Share,
        /// Its value.
        value: Duration,
    },
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let show = show_three_digits;
        match *self {
            Warning::Missed(Rate { hits, of }) => {
                write!(f, "{hits} of {of} requests that were due were not sent: percentiles are at least what is said")
            }
            Warning::Busy { lag } => {
                write!(f, "requests left up to {} late: this machine is too busy to measure", show(lag))
            }
            Warning::Closed => {
                f.write_str("each request waited for the one before: percentiles are at least what is said")
            }
            Warning::LongDeadline { overall, typical } => write!(
                f,
                "the deadline of {} is more than a hundred times the usual {}: while the partner hangs, much waits",
                show(overall),
                show(typical)
            ),
            Warning::Tighter { current, proposed, doubt_per_thousand } => write!(
                f,
                "read {} is less than {}, and {doubt_per_thousand:.0} of 1,000 operations would end in doubt",
                show(proposed),
                show(current)
            ),
            Warning::Season { slowest: SlowHour { hour, above, .. }, hours } => {
                let share = 100.0 * above.seen();
                write!(f, "from {} {share:.0} % of the answers take longer than the read limit", show_hour(hour))?;
                match hours {
                    1 => Ok(()),
                    2 => f.write_str(", and another hour is too slow, too"),
                    _ => write!(f, ", and {} other hours are too slow, too", hours - 1),
                }
            }
            Warning::TwoKinds(Gap { below, above, slow }) => write!(
                f,
                "there are two kinds of answers: {:.1} % take {} or more, the others {} or less",
                slow * 100.0,
                show(above),
                show(below)
            ),
            Warning::HeavyTail { median, percentile, value } => write!(
                f,
                "p{percentile} {} is more than 50 times p50 {}: a queue, not a request",
                show(value),
                show(median)
            ),
        }
    }
}

/// Requests may leave so late on an idle machine, however fast the partner is: latencies count from when they left.
///
/// Source: the target for the sampler at 100 requests a second.
const USUAL_LAG: Duration = Duration::from_millis(2);

/// What warnings go by, beside what was seen.
pub(super) struct Told<'a> {
    pub(super) seen: &'a Seen,
    pub(super) median: Duration,
    pub(super) typical: Duration,
    pub(super) estimate: &'a Estimate,
    pub(super) read: &'a Proposal,
    pub(super) after: &'a Consequences,
}

/// Returns what a person should know, most doubtful first.
pub(super) fn warnings(told: &Told<'_>) -> Vec<Warning> {
    let Told { seen, median, typical, estimate, read, after } = *told;
    let missed = missed(seen);
    let late = |lag: &Duration| *lag > Duration::from_millis(10) || *lag > USUAL_LAG.max(median / 20);
    let tighter = Warning::Tighter {
        current: read.current,
        proposed: read.proposed,
        doubt_per_thousand: after.doubt_per_thousand,
    };
    let slow = seen.hours.above(read.proposed, estimate.percentile.complement());
    let season = slow.first().map(|slowest| Warning::Season { slowest: *slowest, hours: slow.len() });
    let (percentile, value) = (estimate.percentile, estimate.value);
    let all = [
        more_than(missed, 1).then_some(Warning::Missed(missed)),
        seen.lag.filter(late).map(|lag| Warning::Busy { lag }),
        (seen.pacing == Pacing::Closed).then_some(Warning::Closed),
        season,
        gap(&seen.read).map(Warning::TwoKinds),
        (value > median.saturating_mul(50)).then_some(Warning::HeavyTail { median, percentile, value }),
        (read.proposed < read.current && after.doubt_per_thousand > 5.0).then_some(tighter),
        (after.longest > typical.saturating_mul(100))
            .then_some(Warning::LongDeadline { overall: after.longest, typical }),
    ];
    all.into_iter().flatten().collect()
}
