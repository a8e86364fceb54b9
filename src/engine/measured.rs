//! What was measured of an endpoint before, and what that says about an attempt.

use super::exchange::{Exchange, Fault, Outcome, Stage};
use super::moment::Timestamp;
use std::time::Duration;

/// What was measured of an endpoint, from the last byte sent to the head of the answer, as its profile keeps it. What is
/// not known is `None`, and says nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Measured {
    /// When.
    pub at: Option<Timestamp>,
    /// How many samples there were, given up or not.
    pub samples: Option<u64>,
    /// The 95th percentile.
    pub p95: Option<Duration>,
    /// The 99th percentile.
    pub p99: Option<Duration>,
}

impl Measured {
    /// Returns whether an answer was given up before one in a hundred takes as long: our limit is too short for this
    /// partner, and nothing says that it failed.
    ///
    /// Source: semantics.md 1.6 (`ours_budget`).
    pub fn gave_up_early(&self, exchange: &Exchange) -> bool {
        let Outcome::Unanswered { stage: Stage::FirstByte, fault: Fault::TimedOut(_), .. } = exchange.outcome else {
            return false;
        };
        self.p99.is_some_and(|p99| exchange.waited() < p99)
    }

    /// Returns whether an answer took longer than 99 % of those that were measured.
    ///
    /// Source: latency.md 3.11.
    pub fn is_slow(&self, exchange: &Exchange) -> bool {
        let first_byte = exchange.stages.first_byte_us.map(Duration::from_micros);
        self.p99.zip(first_byte).is_some_and(|(p99, took)| took > p99)
    }
}
