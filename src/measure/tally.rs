//! What a run of samples has seen so far, in as much memory however many there are.

use super::counted::{Counted, StageCounts};
use crate::engine::moment::Timestamp;
use crate::engine::suggest::evidence::Minutes;
use crate::engine::suggest::latencies::{NotLatencies, Sample};
use crate::engine::suggest::sample::Taken;
use crate::engine::suggest::seen::{Failures, Pacing, Seen};
use crate::engine::suggest::share::Share;
use std::time::Duration;

/// What a run of samples has seen so far. Only the minutes that samples fell in add to its size.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Lookup, TCP, proxy CONNECT and TLS together.
    pub connect: StageCounts,
    /// From the last byte sent to the head of the answer.
    pub read: StageCounts,
    /// From the start to the last byte of the answer.
    pub whole: StageCounts,
    /// What failed.
    pub failures: Failures,
    /// Requests that were due and not sent, because too many were under way.
    pub missed: u64,
    /// When samples were taken.
    pub minutes: Minutes,
    /// The first sample.
    pub first: Option<Timestamp>,
    /// The last sample.
    pub last: Option<Timestamp>,
    lag: Counted,
}

impl Tally {
    /// Counts what a request says that began at `at`.
    pub fn add(&mut self, taken: &Taken, at: Timestamp) {
        let stages = [(&mut self.connect, taken.connect), (&mut self.read, taken.read), (&mut self.whole, taken.whole)];
        for (counts, sample) in stages {
            sample.into_iter().for_each(|sample| counts.record(sample));
        }
        if let Some(failing) = taken.failure {
            self.failures.add(failing);
        }
        if taken.read.is_some() || taken.whole.is_some() {
            self.minutes.add(at);
        }
        self.first = Some(self.first.map_or(at, |first| first.min(at)));
        self.last = Some(self.last.map_or(at, |last| last.max(at)));
    }

    /// Counts how late a request left.
    pub fn add_lag(&mut self, lag: Duration) {
        // Later than an hour: this machine slept, and was not busy.
        let _ = self.lag.record(lag);
    }

    /// Returns how many requests came to something.
    pub fn ended(&self) -> u64 {
        self.samples().saturating_add(self.failures.all())
    }

    /// Returns how many were answered or given up.
    pub fn samples(&self) -> u64 {
        let count = |counts: &StageCounts| counts.events().samples() + counts.censored().samples();
        count(&self.read).max(count(&self.whole))
    }

    /// Returns what suggestions are made from.
    ///
    /// # Errors
    /// [`NotLatencies::TooMany`].
    pub fn seen(&self, pacing: Pacing) -> Result<Seen, NotLatencies> {
        let lag = super::latencies(self.lag.bins(), [], None)?;
        Ok(Seen {
            read: self.read.latencies()?,
            connect: self.connect.latencies()?,
            whole: self.whole.latencies()?,
            failures: self.failures,
            missed: self.missed,
            minutes: self.minutes.clone(),
            lag: (pacing == Pacing::Open).then(|| lag.value(Share::P99).ok()).flatten(),
            pacing,
        })
    }

    /// Counts a request that was called off after `waited`.
    ///
    /// How much of that went into connecting is not known: the slowest connection so far is taken for it, which is at
    /// most too little for the stage that it was in.
    pub(super) fn call_off(&mut self, waited: Duration, at: Timestamp) {
        let slowest = self.connect.latencies().ok().and_then(|connect| connect.slowest()).unwrap_or_default();
        let read = waited.checked_sub(slowest).filter(|read| !read.is_zero()).map(Sample::Censored);
        self.add(&Taken { read, whole: Some(Sample::Censored(waited)), ..Taken::default() }, at);
    }
}
