//! What is usual with a partner, from the attempts that a ledger holds.

use super::past::{Before, Past, Usual};
use crate::engine::exchange::Stages;
use crate::engine::facts::{Fact, Finished, History};
use crate::engine::moment::Timestamp;
use std::time::Duration;

/// With fewer times nobody knows what 99 of 100 took.
pub const LEAST: usize = 100;

/// No more times are kept of a stage, the first that are added.
const KEPT: usize = 10_000;

/// Attempts, gathered one operation after the other; the newest operation comes first.
#[derive(Clone, Debug, Default)]
pub struct Gathered {
    resolve: Times,
    connect: Times,
    tls: Times,
    first_byte: Times,
    whole: Times,
    attempts: u64,
    answered: Option<Timestamp>,
}

impl Gathered {
    /// Adds every attempt of an operation. Stored answers and redirects say nothing about a first answer.
    pub fn add(&mut self, history: &History) {
        for recorded in &history.facts {
            match &recorded.fact {
                Fact::Finished(finished) => self.attempt(finished, recorded.at),
                // The last attempt of a run stands in the line of its verdict.
                Fact::Settled(settled) => settled.last.iter().for_each(|last| self.attempt(last, recorded.at)),
                _ => {}
            }
        }
    }

    fn attempt(&mut self, finished: &Finished, at: Timestamp) {
        if finished.replayed || finished.hop.is_some() {
            return;
        }
        self.attempts += 1;
        let stages: Stages = finished.stages.as_deref().copied().unwrap_or_default();
        self.resolve.add(stages.resolve_us);
        self.connect.add(stages.connect_us);
        self.tls.add(stages.tls_us);
        self.first_byte.add(stages.first_byte_us);
        if finished.http.is_some() {
            self.whole.add(Some(finished.ms.saturating_mul(1_000)));
            self.answered = self.answered.max(Some(at));
        }
    }

    /// Returns what is known at `now`.
    pub fn past(&self, now: Timestamp) -> Past {
        let worked = self.answered.map(|at| Before::Worked { ago: now.since(at) });
        let never = (self.attempts > 0).then_some(Before::Never);
        Past {
            before: worked.or(never),
            resolve: self.resolve.usual(),
            connect: self.connect.usual(),
            tls: self.tls.usual(),
            first_byte: self.first_byte.usual(),
            whole: self.whole.usual(),
            ..Past::default()
        }
    }
}

/// The times of one stage, in microseconds.
#[derive(Clone, Debug, Default)]
struct Times(Vec<u64>);

impl Times {
    fn add(&mut self, us: Option<u64>) {
        self.0.extend(us.filter(|_| self.0.len() < KEPT));
    }

    /// Returns the two percentiles by rank; `None` where there are too few times.
    fn usual(&self) -> Option<Usual> {
        if self.0.len() < LEAST {
            return None;
        }
        let mut sorted = self.0.clone();
        sorted.sort_unstable();
        let ranked = |percent: usize| Duration::from_micros(sorted[(sorted.len() * percent).div_ceil(100) - 1]);
        Some(Usual { p50: ranked(50), p99: ranked(99) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::facts::{Again, Recorded};
    use crate::engine::reason::Reason;
    use crate::engine::verdict::Evidence;
    use std::sync::Arc;

    fn at(secs: i64) -> Timestamp {
        Timestamp::from_unix_ms(secs * 1_000)
    }

    fn attempt(first_byte_us: Option<u64>) -> Finished {
        let stages = Stages { first_byte_us, ..Stages::default() };
        Finished {
            a: 1,
            evidence: Evidence::Answered,
            done: Some(true),
            again: Again::No,
            reason: Reason::Ok,
            stage: None,
            side: None,
            http: first_byte_us.map(|_| 200),
            ms: 5,
            stages: Some(Box::new(stages)),
            error: None,
            not_before: None,
            replayed: false,
            slow: false,
            hop: None,
        }
    }

    fn gathered(attempts: impl IntoIterator<Item = Finished>) -> Gathered {
        let mut gathered = Gathered::default();
        attempts.into_iter().for_each(|finished| gathered.attempt(&finished, at(100)));
        gathered
    }

    #[test]
    fn a_hundred_times_tell_what_99_of_100_took_and_fewer_tell_nothing() {
        let times = |count: u64| gathered((1..=count).map(|us| attempt(Some(us)))).past(at(160));
        let usual = Usual { p50: Duration::from_micros(50), p99: Duration::from_micros(99) };
        assert_eq!(times(100).first_byte, Some(usual));
        assert_eq!(times(99).first_byte, None);
        assert_eq!(times(100).connect, None, "it was never measured");
        assert_eq!(times(1).before, Some(Before::Worked { ago: Duration::from_secs(60) }));
    }

    #[test]
    fn what_says_nothing_about_a_first_answer_is_left_out() {
        let stored = Finished { replayed: true, ..attempt(Some(1)) };
        let redirect = Finished { hop: Some("http://b.example/".into()), ..attempt(Some(1)) };
        assert_eq!(gathered([stored, redirect]).past(at(160)), Past::default());
        assert_eq!(gathered([attempt(None)]).past(at(160)).before, Some(Before::Never));
    }

    #[test]
    fn the_first_times_are_kept() {
        let new = (0..KEPT).map(|_| attempt(Some(7)));
        let old = (0..KEPT).map(|_| attempt(Some(1)));
        let usual = gathered(new.chain(old)).past(at(160)).first_byte.expect("many times");
        assert_eq!(usual, Usual { p50: Duration::from_micros(7), p99: Duration::from_micros(7) });
    }

    #[test]
    fn every_attempt_of_an_operation_counts() {
        let fact = Fact::Finished(Arc::new(attempt(Some(1))));
        let recorded = Recorded { n: 1, at: at(100), steady: None, fact };
        let mut gathered = Gathered::default();
        gathered.add(&History { facts: vec![recorded.clone(), recorded] });
        assert_eq!(gathered.attempts, 2);
    }
}
