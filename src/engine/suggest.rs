//! Timeouts from measured latency: what was seen, what it proves, and what it does not.
//!
//! Counts of latencies come in, in which samples that were given up are kept apart ([`latencies`], [`seen`]). One rule
//! finds every percentile and its bounds ([`quantile`]); the time that samples span says what they stand for
//! ([`evidence`]). Out comes a refusal ([`refusal`]), or limits with the rule that made each ([`rules`]), what they would
//! do ([`consequences`]), and what weakens them. A later look at the same partner is compared with this one ([`drift`]).
//!
//! ```
//! use abide::engine::suggest::latencies::{Latencies, Sample};
//! use abide::engine::suggest::share::Share;
//! use std::time::Duration;
//!
//! let answers = (1..=295).map(|ms| Sample::Event(Duration::from_millis(ms)));
//! let hangs = std::iter::repeat_n(Sample::Censored(Duration::from_secs(60)), 5);
//! let latencies = Latencies::from_samples(answers.chain(hangs))?;
//!
//! // 1.7 % were given up: p98 is known, p99 is not.
//! assert_eq!(latencies.value(Share::parse_percentile("98")?), Ok(Duration::from_millis(294)));
//! assert!(latencies.value(Share::P99).is_err_and(|not| not.above == Duration::from_secs(60)));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Source: latency.md part A; decisions 31 and 32; product.md section 6.

pub mod closed;
pub mod consequences;
pub mod distribution;
pub mod drift;
pub mod evidence;
pub mod executions;
pub mod formula;
pub mod latencies;
pub mod quantile;
pub mod ranks;
pub mod recorded;
pub mod refusal;
pub mod rounding;
pub mod rules;
pub mod sample;
pub mod season;
pub mod seen;
pub mod shape;
pub mod share;
mod survival;
pub mod warning;

use super::policy::{RetryPolicy, Timeouts};
use consequences::{Attempts, Consequences, Plan};
use evidence::{Evidence, Grade};
use formula::{Formula, Proposal};
use latencies::Latencies;
use quantile::Estimate;
use refusal::{Refusal, Weakness, refusals, weaknesses};
use rounding::nice_up;
use seen::{Options, Seen};
use share::{Headroom, Share};
use std::time::Duration;
use warning::{Told, Warning, warnings};

/// What is suggested, and what it rests on.
#[derive(Clone, Debug, PartialEq)]
pub struct Suggestion {
    /// How much was seen.
    pub evidence: Evidence,
    /// The percentile of reading that the limits go by.
    pub estimate: Estimate,
    /// The median of reading.
    pub median: Duration,
    /// The median of a whole attempt: no attempt is worth starting with less.
    ///
    /// Source: decisions 19.
    pub typical: Duration,
    /// The limit for connecting.
    pub connect: Proposal,
    /// The limit from the last byte sent to the head of the answer.
    pub read: Proposal,
    /// The limit of one attempt.
    pub attempt: Proposal,
    /// The deadline.
    pub overall: Proposal,
    /// How many attempts are worth having.
    pub attempts: Attempts,
    /// What the limits in force do.
    pub before: Consequences,
    /// What the proposed limits would do.
    pub after: Consequences,
    /// Why the limits are to be read as "at least"; empty where they hold as they are.
    pub weaknesses: Vec<Weakness>,
    /// What else a person should know.
    pub warnings: Vec<Warning>,
}

impl Suggestion {
    /// Returns the limits by their names in a profile.
    pub fn limits(&self) -> [(&'static str, &Proposal); 4] {
        [("connect", &self.connect), ("read", &self.read), ("attempt", &self.attempt), ("overall", &self.overall)]
    }

    /// Returns the limits in force with the proposed ones in their place.
    pub fn timeouts(&self, current: &Timeouts) -> Timeouts {
        Timeouts {
            connect: self.connect.proposed,
            read: self.read.proposed,
            attempt: self.attempt.proposed,
            overall: self.overall.proposed,
            ..*current
        }
    }
}

/// Returns the limits that what was seen asks for.
///
/// # Errors
/// Every reason why it carries no suggestion; there is at least one.
///
/// Source: latency.md 3.9 and 3.10.
pub fn suggest(seen: &Seen, options: &Options) -> Result<Suggestion, Vec<Refusal>> {
    let reasons = refusals(seen, options.percentile);
    if !reasons.is_empty() {
        return Err(reasons);
    }
    let evidence = Evidence::new(&seen.read, &seen.minutes);
    let usual = if evidence.grade == Grade::Snapshot { Headroom::SNAPSHOT } else { Headroom::USUAL };
    let headroom = options.headroom.unwrap_or(usual);
    let asked_of = |stage: &Latencies| rules::asked(stage, evidence.minutes, options.percentile, headroom);
    let asked = asked_of(&seen.read).map_err(|not| vec![Refusal::NotIdentified(not)])?;
    let asked = rules::for_every_hour(asked, &seen.hours, &seen.minutes);
    let Options { timeouts, retry, .. } = options;
    let (median, typical) = medians(seen);

    let read =
        Proposal { current: timeouts.read, proposed: nice_up(asked.exact), exact: asked.exact, formula: asked.formula };
    let connect = rules::connect(&seen.connect, headroom, timeouts.connect);
    let whole = asked_of(&seen.whole).ok();
    let attempt = rules::attempt(connect.proposed, read.proposed, whole, timeouts.attempt);
    let overall = deadline(&attempt, options, retry)?;

    let limits = Timeouts { read: read.proposed, attempt: attempt.proposed, overall: overall.proposed, ..*timeouts };
    let plan = Plan::new(&limits, retry, typical);
    let after = Consequences::new(seen, &plan);
    let told = Told { seen, median, typical, estimate: &asked.estimate, read: &read, after: &after };
    Ok(Suggestion {
        warnings: warnings(&told),
        weaknesses: weaknesses(&seen.read, &asked.estimate, &evidence),
        attempts: Attempts::new(seen, &plan),
        before: Consequences::new(seen, &Plan::new(timeouts, retry, typical)),
        evidence,
        estimate: asked.estimate,
        median,
        typical,
        connect,
        read,
        attempt,
        overall,
        after,
    })
}

/// Returns the median of reading, and that of a whole attempt; the latter is the sum of its stages where whole attempts
/// were not measured.
fn medians(seen: &Seen) -> (Duration, Duration) {
    let median = |stage: &Latencies| stage.value(Share::P50).ok();
    let read = median(&seen.read).unwrap_or(Duration::ZERO);
    let stages = || read.saturating_add(median(&seen.connect).unwrap_or(Duration::ZERO));
    (read, median(&seen.whole).unwrap_or_else(stages))
}

/// Returns the deadline that was given, or the one in which all attempts fit.
fn deadline(attempt: &Proposal, options: &Options, retry: &RetryPolicy) -> Result<Proposal, Vec<Refusal>> {
    let current = options.timeouts.overall;
    let Some(given) = options.overall else { return Ok(rules::overall(attempt.proposed, retry, current)) };
    if given < attempt.proposed {
        return Err(vec![Refusal::ShortDeadline { overall: given, attempt: attempt.proposed }]);
    }
    Ok(Proposal { current, proposed: given, exact: given, formula: Formula::Given })
}

#[cfg(test)]
mod tests;
