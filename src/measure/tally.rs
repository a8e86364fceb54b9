//! What a run of samples has seen so far, in as much memory however many there are.

use super::counted::{Counted, StageCounts};
use crate::engine::moment::Timestamp;
use crate::engine::suggest::evidence::Minutes;
use crate::engine::suggest::executions::Executions;
use crate::engine::suggest::latencies::{NotLatencies, Sample};
use crate::engine::suggest::sample::Taken;
use crate::engine::suggest::season::Hours;
use crate::engine::suggest::seen::{Failures, Pacing, Seen};
use crate::engine::suggest::share::Share;
use std::collections::BTreeMap;
use std::time::Duration;

/// What a run of samples has seen so far. Only the minutes and hours of the day that samples fell in add to its size: 24
/// times 400 kB at most for the latter.
#[derive(Clone, Debug, Default, PartialEq)]
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
    /// Requests that were called off when the run was interrupted; they count as given up, too.
    pub called_off: u64,
    /// What became of those that were operations.
    pub executions: Executions,
    /// When samples were taken.
    pub minutes: Minutes,
    /// The first sample.
    pub first: Option<Timestamp>,
    /// The last sample.
    pub last: Option<Timestamp>,
    /// Reading by the hour of the day, UTC.
    pub(super) hours: BTreeMap<u8, StageCounts>,
    pub(super) lag: Counted,
}

impl Tally {
    /// Counts what a request says that began at `at`.
    pub fn add(&mut self, taken: &Taken, at: Timestamp) {
        let stages = [(&mut self.connect, taken.connect), (&mut self.read, taken.read), (&mut self.whole, taken.whole)];
        for (counts, sample) in stages {
            sample.into_iter().for_each(|sample| counts.record(sample));
        }
        if let Some(read) = taken.read {
            self.hours.entry(hour(at)).or_default().record(read);
        }
        if let Some(failing) = taken.failure {
            self.failures.add(failing);
        }
        self.called_off = self.called_off.saturating_add(taken.called_off.into());
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
        let hours = self.hours.iter().map(|(hour, counts)| Ok((*hour, counts.latencies()?)));
        let lag = super::latencies(self.lag.bins(), [], None)?;
        Ok(Seen {
            read: self.read.latencies()?,
            connect: self.connect.latencies()?,
            whole: self.whole.latencies()?,
            failures: self.failures,
            missed: self.missed,
            called_off: self.called_off,
            minutes: self.minutes.clone(),
            hours: Hours::new(hours.collect::<Result<Vec<_>, _>>()?),
            lag: (pacing == Pacing::Open).then(|| lag.value(Share::P99).ok()).flatten(),
            pacing,
        })
    }

    /// Counts a request that was called off after `waited`, and returns what it says.
    ///
    /// How much of that went into connecting is not known: the slowest connection so far is taken for it, which is at
    /// most too little for the stage that it was in.
    pub(super) fn call_off(&mut self, waited: Duration, at: Timestamp) -> Taken {
        let slowest = self.connect.latencies().ok().and_then(|connect| connect.slowest()).unwrap_or_default();
        let read = waited.checked_sub(slowest).filter(|read| !read.is_zero()).map(Sample::Censored);
        let taken = Taken { read, whole: Some(Sample::Censored(waited)), called_off: true, ..Taken::default() };
        self.add(&taken, at);
        taken
    }
}

/// Returns the hour of the day, UTC.
pub(super) fn hour(at: Timestamp) -> u8 {
    at.unix_ms().div_euclid(3_600_000).rem_euclid(24) as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_does_not_grow_with_the_number_of_samples() {
        let mut tally = Tally::default();
        // Two days, three samples a second, each latency another: up to an hour and longer.
        for n in 0..500_000u64 {
            let latency = Sample::Event(Duration::from_micros(n * 7_919 % 4_000_000_000));
            let taken = Taken { connect: Some(latency), read: Some(latency), whole: Some(latency), ..Taken::default() };
            tally.add(&taken, Timestamp::from_unix_ms(n as i64 * 346));
            tally.add_lag(Duration::from_micros(n));
        }
        let (bins, days_of_minutes) = (24_576, 3 * 1_440);
        for counts in [&tally.connect, &tally.read, &tally.whole].into_iter().chain(tally.hours.values()) {
            let held = counts.events().bins().count() + counts.censored().bins().count();
            assert!(held <= 2 * bins, "{held}");
        }
        assert_eq!((tally.hours.len(), tally.lag.samples()), (24, 500_000));
        assert!(tally.minutes.count(u64::MAX) <= days_of_minutes, "{}", tally.minutes.count(u64::MAX));
        let seen = tally.seen(Pacing::Open).expect("few enough");
        assert!(seen.read.cells().len() <= bins && seen.read.samples() == 500_000);
        assert_eq!(seen.hours.iter().map(|(_, hour)| hour.samples()).sum::<u64>(), 500_000);
    }

    #[test]
    fn samples_are_counted_in_the_hour_in_which_they_left() {
        let mut tally = Tally::default();
        let read = |ms| Taken { read: Some(Sample::Event(Duration::from_millis(ms))), ..Taken::default() };
        for (hours, ms) in [(9, 100), (33, 300), (10, 500), (-1, 700)] {
            tally.add(&read(ms), Timestamp::from_unix_ms(hours * 3_600_000 + 1));
        }
        let seen = tally.seen(Pacing::Open).expect("few enough");
        let found: Vec<_> = seen.hours.iter().map(|(hour, seen)| (hour, seen.samples())).collect();
        assert_eq!(found, [(9, 2), (10, 1), (23, 1)]);
    }
}
