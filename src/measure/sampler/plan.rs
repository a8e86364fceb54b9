//! How samples are taken.

use crate::engine::deadline::Limits;
use crate::engine::exchange::Limit;
use crate::engine::suggest::seen::Pacing;
use std::time::Duration;

/// No more requests are ever under way at once.
///
/// Source: product.md section 6.
pub const MOST_IN_FLIGHT: u64 = 1_000;

/// How requests follow each other.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pace {
    /// One each interval, whatever has become of the others.
    Open {
        /// The interval; above zero.
        interval: Duration,
    },
    /// So many at a time, each after the one before.
    Closed {
        /// How many at a time; at least 1.
        jobs: u16,
        /// At most one each interval; `None`: as fast as they come back.
        interval: Option<Duration>,
    },
}

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Plan {
    /// How requests follow each other.
    pub pace: Pace,
    /// How many are due at most; `None`: as many as the time allows.
    pub samples: Option<u64>,
    /// When the last is due at the latest; `None`: when there are enough.
    pub duration: Option<Duration>,
    /// How long a sample may take to connect, and then to be answered, before it is given up.
    pub timeout: Duration,
    /// The seed of the moments at which requests leave.
    pub seed: u64,
}

impl Plan {
    /// Returns how many requests may be under way at once: as many as are due before the first is given up.
    ///
    /// Source: product.md section 6.
    pub fn in_flight_max(&self) -> u64 {
        match self.pace {
            Pace::Closed { jobs, .. } => jobs.into(),
            Pace::Open { interval } => {
                let due = self.timeout.as_nanos().div_ceil(interval.as_nanos().max(1));
                u64::try_from(due).unwrap_or(u64::MAX).clamp(1, MOST_IN_FLIGHT)
            }
        }
    }

    /// Returns what is assumed of the pace.
    pub fn pacing(&self) -> Pacing {
        match self.pace {
            Pace::Open { .. } => Pacing::Open,
            Pace::Closed { .. } => Pacing::Closed,
        }
    }

    /// Returns the time from one request to the next, where there is one.
    pub fn interval(&self) -> Option<Duration> {
        match self.pace {
            Pace::Open { interval } => Some(interval),
            Pace::Closed { interval, .. } => interval,
        }
    }

    /// Returns how many requests are made at most, where that is known.
    pub fn most(&self) -> Option<u64> {
        let fit = self.duration.zip(self.interval()).map(|(duration, interval)| {
            u64::try_from(duration.as_nanos().div_ceil(interval.as_nanos().max(1))).unwrap_or(u64::MAX)
        });
        self.samples.into_iter().chain(fit).min()
    }

    /// Returns how long the run takes, where that is known: answers that are waited for at its end do not count. A closed
    /// loop that takes a number of samples may take longer.
    pub fn expected(&self) -> Option<Duration> {
        let enough = self.interval().zip(self.samples).map(|(interval, samples)| {
            Duration::try_from_secs_f64(interval.as_secs_f64() * samples as f64).unwrap_or(Duration::MAX)
        });
        enough.into_iter().chain(self.duration).min()
    }

    /// Returns what one request may take.
    pub fn limits(&self) -> Limits {
        let each = self.timeout;
        let (connect, write, read, body) = (each, each, each, each);
        Limits { connect, write, read, body, whole: each.saturating_mul(3), whole_is: Limit::Attempt }
    }
}
