//! Which rule made a limit, in figures that a person can add up.

use super::rounding::show_three_digits;
use super::season::show_hour;
use super::share::{Headroom, Share};
use std::fmt;
use std::time::Duration;

/// A limit: what is in force, what is proposed, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Proposal {
    /// What is in force.
    pub current: Duration,
    /// What is proposed: [`Proposal::exact`] rounded up.
    pub proposed: Duration,
    /// What the rule gives.
    pub exact: Duration,
    /// The rule that decided.
    pub formula: Formula,
}

impl fmt::Display for Proposal {
    /// Writes what is proposed and why: `5.8s = p99 4.63s + 25 %`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} = {}", show_three_digits(self.proposed), self.formula)
    }
}

/// How a limit came about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Formula {
    /// A percentile and a part of it.
    Headroom {
        /// The percentile.
        percentile: Share,
        /// Its value.
        value: Duration,
        /// The part.
        headroom: Headroom,
    },
    /// A percentile and the median: a partner that gets twice as slow is survived.
    Doubled {
        /// The percentile.
        percentile: Share,
        /// Its value.
        value: Duration,
        /// The median.
        median: Duration,
    },
    /// A percentile and a fixed time, where all answers are about as fast.
    Padded {
        /// The percentile.
        percentile: Share,
        /// Its value.
        value: Duration,
        /// The fixed time.
        padding: Duration,
    },
    /// The upper bound of a percentile.
    Bound {
        /// The percentile.
        percentile: Share,
        /// The bound.
        bound: Duration,
        /// How sure it is.
        confidence: Share,
    },
    /// The upper bound of a percentile in the slowest hour of the day.
    Hour {
        /// The hour, 0 to 23, UTC.
        hour: u8,
        /// The percentile.
        percentile: Share,
        /// The bound.
        bound: Duration,
        /// How sure it is.
        confidence: Share,
    },
    /// The slowest answer, where no bound is known.
    Slowest {
        /// How long it took.
        slowest: Duration,
    },
    /// The time after which a lost packet is sent again, and that of a connection.
    Connect {
        /// The former.
        resend: Duration,
        /// The 99.9th percentile of connections without a lost packet.
        value: Duration,
        /// What is added to it.
        margin: Duration,
        /// The rule's own limits decided.
        kept_within: bool,
    },
    /// Connecting and reading, one after the other.
    Stages {
        /// The limit of connecting.
        connect: Duration,
        /// The limit of reading.
        read: Duration,
    },
    /// Attempts and the longest waits between them.
    Attempts {
        /// How many attempts.
        attempts: u32,
        /// The limit of one.
        attempt: Duration,
        /// All waits together.
        waits: Duration,
    },
    /// The user gave it.
    Given,
    /// Nothing was measured that would change it.
    Kept,
}

impl fmt::Display for Formula {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let show = show_three_digits;
        match *self {
            Formula::Headroom { percentile, value, headroom } => {
                write!(f, "p{percentile} {} + {headroom} %", show(value))
            }
            Formula::Doubled { percentile, value, median } => {
                write!(f, "p{percentile} {} + p50 {}", show(value), show(median))
            }
            Formula::Padded { percentile, value, padding } => {
                write!(f, "p{percentile} {} + {}", show(value), show(padding))
            }
            Formula::Bound { percentile, bound, confidence } => {
                write!(f, "p{percentile} is at most {} ({confidence} % sure)", show(bound))
            }
            Formula::Hour { hour, percentile, bound, confidence } => {
                let hour = show_hour(hour);
                write!(f, "p{percentile} of {hour} is at most {} ({confidence} % sure)", show(bound))
            }
            Formula::Slowest { slowest } => write!(f, "the slowest answer, {}", show(slowest)),
            Formula::Connect { resend, value, margin, kept_within } => {
                write!(f, "{} for a lost packet + p99.9 {} + {}", show(resend), show(value), show(margin))?;
                f.write_str(if kept_within { ", kept within 1.2s and 4.9s" } else { "" })
            }
            Formula::Stages { connect, read } => write!(f, "connect {} + read {}", show(connect), show(read)),
            Formula::Attempts { attempts, attempt, waits } => {
                write!(f, "{attempts} x {} + {} of waits", show(attempt), show(waits))
            }
            Formula::Given => f.write_str("as given"),
            Formula::Kept => f.write_str("as it is: too little was measured to change it"),
        }
    }
}
