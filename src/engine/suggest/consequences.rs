//! What limits would do, which is what a person decides on.

use super::super::backoff::Backoff;
use super::super::policy::{RetryPolicy, Timeouts};
use super::ranks::Rate;
use super::seen::Seen;
use super::share::Share;
use std::time::Duration;

/// More attempts than these are not looked at.
pub const MOST_ATTEMPTS: u32 = 1_000;

/// How sure it should be that one attempt of an operation succeeds.
///
/// Source: latency.md 3.9.
pub const TARGET: Share = Share::P999;

/// Attempts are suggested within these.
///
/// Source: latency.md 3.9.
pub const ATTEMPTS_WITHIN: std::ops::RangeInclusive<u32> = 2..=7;

/// The limits and repetitions of an operation, as far as its attempts go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// From the last byte sent to the head of the answer.
    pub read: Duration,
    /// One attempt.
    pub attempt: Duration,
    /// The deadline.
    pub overall: Duration,
    /// How many attempts there are, at most [`MOST_ATTEMPTS`] of which count.
    pub attempts: u32,
    /// The waits between them.
    pub backoff: Backoff,
    /// No attempt starts with less time than this.
    pub least: Duration,
}

impl Plan {
    /// Returns the plan that a policy makes, for attempts that usually take `typical`.
    pub fn new(timeouts: &Timeouts, retry: &RetryPolicy, typical: Duration) -> Plan {
        Plan {
            read: timeouts.read,
            attempt: timeouts.attempt,
            overall: timeouts.overall,
            attempts: retry.max_attempts,
            backoff: retry.backoff,
            least: typical,
        }
    }

    /// Returns the time that each attempt has when those before ran to their limit and all waits were the longest.
    ///
    /// Attempts that would have less than [`Plan::least`] never start; the first one does, whatever it has.
    ///
    /// Source: latency.md 3.9 and V15; decisions 19.
    pub fn starts(&self) -> impl Iterator<Item = Duration> + '_ {
        let mut left = self.overall;
        (1..=self.attempts.min(MOST_ATTEMPTS)).map_while(move |n| {
            let has = left;
            left = left.saturating_sub(self.attempt).saturating_sub(self.backoff.before_jitter(n));
            let starts = n == 1 || (has >= self.least && !has.is_zero());
            starts.then_some(has.min(self.attempt))
        })
    }
}

/// What a plan would do to operations, if the partner stays as it was seen.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Consequences {
    /// The answers that would come too late for the read limit, of those where that is known. [`Rate::lower`] and
    /// [`Rate::upper`] say which rates these samples allow.
    pub false_timeouts: Rate,
    /// The operations of a thousand whose first attempt would end in doubt, where an answer that is missed leaves one.
    pub doubt_per_thousand: f64,
    /// The attempts that would fail, of all.
    pub failing: Rate,
    /// The attempts of an operation, on average.
    pub attempts_expected: f64,
    /// How many times its usual load the partner gets while it answers nobody.
    pub outage_load: u32,
    /// The longest that an operation takes.
    pub longest: Duration,
    /// The share of operations that are done by the deadline, where attempts fail independently of each other.
    pub done: f64,
}

impl Consequences {
    /// Returns what `plan` would do.
    ///
    /// Source: latency.md 3.9 and V15.
    pub fn new(seen: &Seen, plan: &Plan) -> Consequences {
        let failing = 1.0 - succeeding(seen, plan.read, plan.attempt);
        let attempts = plan.attempts.clamp(1, MOST_ATTEMPTS);
        let undone = plan.starts().map(|has| 1.0 - succeeding(seen, plan.read, has)).product::<f64>();
        Consequences {
            false_timeouts: seen.read.above(plan.read),
            doubt_per_thousand: 1_000.0 * seen.read.waiting_after(plan.read),
            failing: failing_within(seen, plan.attempt),
            attempts_expected: attempts_expected(failing, attempts),
            outage_load: attempts,
            longest: plan.overall,
            done: 1.0 - undone,
        }
    }
}

/// Returns the share of attempts that would succeed with these limits.
fn succeeding(seen: &Seen, read: Duration, attempt: Duration) -> f64 {
    let answered = 1.0 - Rate { hits: seen.failures.all(), of: seen.tried() }.seen();
    let late = seen.read.waiting_after(read.min(attempt)).max(seen.longest_known().waiting_after(attempt));
    answered * (1.0 - late)
}

/// Returns how many attempts failed or would not have ended within `limit`, of all where that is known.
pub(super) fn failing_within(seen: &Seen, limit: Duration) -> Rate {
    let late = seen.longest_known().above(limit);
    let failed = seen.failures.all();
    Rate { hits: late.hits.saturating_add(failed), of: late.of.saturating_add(failed) }
}

/// Returns the mean number of attempts when each fails with likelihood `failing`.
///
/// Source: latency.md 3.9.
pub fn attempts_expected(failing: f64, attempts: u32) -> f64 {
    (0..attempts.min(MOST_ATTEMPTS)).map(|n| failing.powf(f64::from(n))).sum()
}

/// Returns the fewest attempts, within [`ATTEMPTS_WITHIN`], of which one succeeds with likelihood `target` or more when
/// each fails with likelihood `failing`; `None` where the most are not enough.
///
/// It takes failures to be independent, which those of an outage are not.
///
/// Source: latency.md 3.9 and V15.
pub fn attempts_wanted(failing: f64, target: Share) -> Option<u32> {
    /// What the likelihood may miss its mark by, for rounding.
    const TOLERANCE: f64 = 1e-12;
    ATTEMPTS_WITHIN.into_iter().find(|n| failing.powf(f64::from(*n)) <= target.complement().as_f64() + TOLERANCE)
}

/// How many attempts are worth having, and how many there is time for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attempts {
    /// The attempts that fail within the proposed limit, of all.
    pub failing: Rate,
    /// The fewest that reach [`TARGET`], should as many fail as is still likely; `None`: none within
    /// [`ATTEMPTS_WITHIN`] do.
    pub wanted: Option<u32>,
    /// The attempts in force.
    pub configured: u32,
    /// Those of them that can start before the deadline, when all before take as long as they may.
    pub startable: u32,
}

impl Attempts {
    /// Returns the attempts for `plan`.
    pub fn new(seen: &Seen, plan: &Plan) -> Attempts {
        let failing = failing_within(seen, plan.attempt);
        Attempts {
            failing,
            wanted: attempts_wanted(failing.upper(Share::CONFIDENCE), TARGET),
            configured: plan.attempts,
            startable: plan.starts().count() as u32,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::backoff::Jitter;
    use super::super::evidence::Minutes;
    use super::super::latencies::{Latencies, Sample};
    use super::super::season::Hours;
    use super::super::seen::{Failures, Pacing};
    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    /// Of 100 answers 95 come after 0.3 s, the others never.
    fn v15() -> Seen {
        let answers = std::iter::repeat_n(Sample::Event(ms(300)), 95);
        let hangs = std::iter::repeat_n(Sample::Censored(ms(60_000)), 5);
        let read = Latencies::from_samples(answers.chain(hangs)).expect("few samples");
        let nothing = Latencies::from_samples([]).expect("few samples");
        Seen {
            read,
            connect: nothing.clone(),
            whole: nothing,
            failures: Failures::default(),
            missed: 0,
            called_off: 0,
            minutes: Minutes::Unknown,
            hours: Hours::default(),
            lag: None,
            pacing: Pacing::Open,
        }
    }

    fn plan(overall: u64) -> Plan {
        let backoff = Backoff { base: ms(500), cap: ms(1_000), jitter: Jitter::Equal };
        Plan { read: ms(2_000), attempt: ms(2_000), overall: ms(overall), attempts: 3, backoff, least: ms(300) }
    }

    fn close(one: f64, other: f64) {
        assert!((one - other).abs() < 1e-12, "{one} is not {other}");
    }

    #[test]
    fn v15_what_three_attempts_do() {
        let found = Consequences::new(&v15(), &plan(7_500));
        close(found.done, 0.999_875);
        close(found.attempts_expected, 1.0525);
        close(found.doubt_per_thousand, 50.0);
        assert_eq!((found.outage_load, found.longest), (3, ms(7_500)));
        assert_eq!(found.false_timeouts, Rate { hits: 5, of: 100 });
        assert_eq!(attempts_wanted(0.05, TARGET), Some(3));
    }

    #[test]
    fn v15_a_short_deadline_takes_attempts_away() {
        let full = [ms(2_000), ms(2_000), ms(2_000)];
        let table: [(u64, &[Duration], f64); 6] = [
            (7_500, &full, 0.999_875),
            (5_000, &full[..2], 0.997_5),
            (2_800, &[ms(2_000), ms(300)], 0.997_5),
            (2_799, &[ms(2_000)], 0.95),
            (2_600, &[ms(2_000)], 0.95),
            (200, &[ms(200)], 0.0),
        ];
        for (overall, starts, done) in table {
            assert_eq!(plan(overall).starts().collect::<Vec<_>>(), starts, "{overall}");
            close(Consequences::new(&v15(), &plan(overall)).done, done);
            assert_eq!(Attempts::new(&v15(), &plan(overall)).startable as usize, starts.len(), "{overall}");
        }
    }

    #[test]
    fn failures_are_attempts_that_a_repetition_may_mend() {
        let failures = Failures { server_error: 15, reset: 10, ..Failures::default() };
        let found = Consequences::new(&Seen { failures, ..v15() }, &plan(7_500));
        assert_eq!(found.failing, Rate { hits: 30, of: 125 });
        close(found.done, 1.0 - 0.24f64.powi(3));
        close(found.doubt_per_thousand, 50.0);
    }

    #[test]
    fn a_slow_body_fails_an_attempt_but_leaves_no_doubt_about_the_head() {
        let whole = Latencies::from_samples((0..100).map(|i| Sample::Event(ms(300 + 100 * i)))).expect("few samples");
        let found = Consequences::new(&Seen { whole, ..v15() }, &plan(2_000));
        assert_eq!(found.failing, Rate { hits: 82, of: 100 });
        close(found.done, 0.18);
        close(found.doubt_per_thousand, 50.0);
    }

    #[test]
    fn attempts_are_wanted_until_the_target_is_met() {
        let table = [(0.0, Some(2)), (0.03, Some(2)), (0.0317, Some(3)), (0.1, Some(3)), (0.3, Some(6)), (0.5, None)];
        for (failing, wanted) in table {
            assert_eq!(attempts_wanted(failing, TARGET), wanted, "{failing}");
        }
        assert_eq!(Attempts::new(&v15(), &plan(7_500)).wanted, Some(4), "as many may fail as 5 of 100 allow");
    }

    #[test]
    fn endless_attempts_are_bounded() {
        let endless = Plan { attempts: u32::MAX, overall: Duration::MAX, ..plan(0) };
        assert_eq!(endless.starts().count(), MOST_ATTEMPTS as usize);
        close(attempts_expected(1.0, u32::MAX), f64::from(MOST_ATTEMPTS));
        let instant = Plan { least: Duration::ZERO, ..plan(2_000) };
        assert_eq!(instant.starts().count(), 1, "nothing starts with no time left");
    }
}
