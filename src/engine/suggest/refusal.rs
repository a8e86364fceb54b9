//! When the evidence carries no suggestion, and when it carries only a least one.

use super::evidence::{Evidence, Grade};
use super::latencies::Latencies;
use super::quantile::{Estimate, NotIdentified};
use super::ranks::{Rate, bounded_by_slowest, least_samples};
use super::rounding::{nice_up, show_three_digits};
use super::rules::LEAST_EVENTS;
use super::seen::Seen;
use super::share::Share;
use std::fmt;
use std::time::Duration;

/// Why nothing is suggested.
///
/// Source: latency.md 3.10.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// There are fewer than [`LEAST_EVENTS`] answers.
    FewEvents {
        /// How many there are.
        events: u64,
    },
    /// More than a fifth of all requests failed.
    Failing(Rate),
    /// The run was broken off: so many requests failed one after the other.
    BrokenOff {
        /// How many.
        failures: u32,
    },
    /// More than a twentieth got a 4xx: an error page is being measured.
    ErrorPage(Rate),
    /// More than a twentieth of the requests that were due were not sent.
    Missed(Rate),
    /// Too many samples were given up before the percentile.
    NotIdentified(NotIdentified),
    /// A deadline was given that is shorter than one attempt.
    ShortDeadline {
        /// The deadline.
        overall: Duration,
        /// One attempt.
        attempt: Duration,
    },
}

impl Refusal {
    /// Returns what to do next.
    pub fn hint(&self) -> String {
        match self {
            Refusal::FewEvents { events } => {
                format!("take at least {} more samples", LEAST_EVENTS - events.min(&LEAST_EVENTS))
            }
            Refusal::Failing(_) | Refusal::BrokenOff { .. } => {
                "find out why requests fail before measuring how long they take".into()
            }
            Refusal::ErrorPage(_) => "check the URL, the credentials and the headers: errors are answered fast".into(),
            Refusal::Missed(_) => "take samples at a lower rate, or allow more at once".into(),
            Refusal::NotIdentified(NotIdentified { above, .. }) if above.is_zero() => "take more samples".into(),
            Refusal::NotIdentified(NotIdentified { above, .. }) => {
                let longer = show_three_digits(nice_up(above.saturating_mul(3)));
                format!("wait longer for each answer, for example {longer}, or ask for a lower percentile")
            }
            Refusal::ShortDeadline { attempt, .. } => {
                format!("give at least {}, or ask for a lower percentile", show_three_digits(*attempt))
            }
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let show = show_three_digits;
        match self {
            Refusal::FewEvents { events } => write!(f, "{events} answers are too few: {LEAST_EVENTS} are the least"),
            Refusal::Failing(rate) => write!(f, "{} of {} requests failed", rate.hits, rate.of),
            Refusal::BrokenOff { failures } => write!(f, "the last {failures} requests failed"),
            Refusal::ErrorPage(rate) => {
                write!(f, "{} of {} requests got a 4xx: this measures an error page", rate.hits, rate.of)
            }
            Refusal::Missed(rate) => {
                write!(f, "{} of {} requests that were due were not sent", rate.hits, rate.of)
            }
            Refusal::NotIdentified(NotIdentified { percentile, above }) if above.is_zero() => {
                write!(f, "p{percentile} is unknown: there is no sample")
            }
            Refusal::NotIdentified(NotIdentified { percentile, above }) => {
                write!(f, "p{percentile} is longer than {}: too many requests were given up", show(*above))
            }
            Refusal::ShortDeadline { overall, attempt } => {
                write!(f, "a deadline of {} is shorter than one attempt, {}", show(*overall), show(*attempt))
            }
        }
    }
}

/// Returns why what was seen carries no suggestion for `percentile`, every reason of it; empty where it does.
pub fn refusals(seen: &Seen, percentile: Share) -> Vec<Refusal> {
    let events = seen.read.events();
    let of_tried = |hits| Rate { hits, of: seen.tried() };
    let failing = of_tried(seen.failures.all());
    let error_page = of_tried(seen.failures.client_error);
    let missed = missed(seen);
    let unknown = seen.read.value(percentile).err().filter(|_| seen.read.samples() > 0);
    let reasons = [
        (events < LEAST_EVENTS).then_some(Refusal::FewEvents { events }),
        more_than(failing, 20).then_some(Refusal::Failing(failing)),
        more_than(error_page, 5).then_some(Refusal::ErrorPage(error_page)),
        more_than(missed, 5).then_some(Refusal::Missed(missed)),
        unknown.map(Refusal::NotIdentified),
    ];
    reasons.into_iter().flatten().collect()
}

/// Returns how many of the requests that were due were not sent.
pub(super) fn missed(seen: &Seen) -> Rate {
    Rate { hits: seen.missed, of: seen.tried().saturating_add(seen.missed) }
}

/// Tells whether a rate is above so many percent, in integers.
pub(super) fn more_than(rate: Rate, percent: u64) -> bool {
    u128::from(rate.hits) * 100 > u128::from(rate.of) * u128::from(percent)
}

/// Why a suggestion is a least one.
///
/// Source: latency.md 3.10; decisions 32.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Weakness {
    /// There are too few samples for an upper bound.
    FewSamples {
        /// How many there are.
        samples: u64,
        /// How many are needed.
        needed: u64,
        /// The percentile, as a share of 1, that the slowest of them bounds.
        bounded: f64,
    },
    /// They fell in too few minutes for an upper bound.
    FewMinutes {
        /// How many they are.
        minutes: u64,
        /// How many are needed.
        needed: u64,
    },
    /// The upper bound lies beyond samples that were given up.
    GivenUp {
        /// It is longer than this.
        above: Duration,
    },
    /// The samples describe their own time only.
    Snapshot {
        /// The time from the first to the last; `None` where it is unknown.
        span: Option<Duration>,
    },
}

impl fmt::Display for Weakness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Weakness::FewSamples { samples, needed, bounded } => {
                let more = needed.saturating_sub(*samples);
                write!(f, "{samples} samples bound p{:.1} at best: {more} more are needed", bounded * 100.0)
            }
            Weakness::FewMinutes { minutes: 1, needed } => {
                write!(f, "the samples fell in one minute: they count once, and {needed} minutes are needed")
            }
            Weakness::FewMinutes { minutes, needed } => {
                write!(f, "the samples fell in {minutes} minutes: they count once each, and {needed} are needed")
            }
            Weakness::GivenUp { above } => {
                write!(f, "the upper bound is longer than {}: too many were given up", show_three_digits(*above))
            }
            Weakness::Snapshot { span: Some(span) } => {
                write!(f, "the samples describe {} only, and no other hours", show_three_digits(*span))
            }
            Weakness::Snapshot { span: None } => {
                f.write_str("the samples came without times, and may describe a few minutes only")
            }
        }
    }
}

/// Returns why a suggestion by `estimate` is a least one, every reason of it; empty where it holds as it is.
pub fn weaknesses(latencies: &Latencies, estimate: &Estimate, evidence: &Evidence) -> Vec<Weakness> {
    let needed = least_samples(estimate.percentile, Share::CONFIDENCE);
    let (samples, minutes) = (evidence.samples(), evidence.minutes);
    let mut found = Vec::new();
    if estimate.bound.is_none() {
        if samples < needed {
            let bounded = bounded_by_slowest(samples, Share::CONFIDENCE);
            found.push(Weakness::FewSamples { samples, needed, bounded });
        }
        if minutes < needed.min(samples) {
            found.push(Weakness::FewMinutes { minutes, needed });
        }
        if found.is_empty() {
            found.push(Weakness::GivenUp { above: latencies.longest_wait() });
        }
    }
    if evidence.grade == Grade::Snapshot {
        found.push(Weakness::Snapshot { span: evidence.span });
    }
    found
}
