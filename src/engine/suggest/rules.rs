//! From percentiles to limits.

use super::super::backoff::Backoff;
use super::super::policy::RetryPolicy;
use super::super::units::LONGEST;
use super::evidence::Minutes;
use super::formula::{Formula, Proposal};
use super::latencies::Latencies;
use super::quantile::{Estimate, NotIdentified};
use super::ranks::Rate;
use super::rounding::nice_up;
use super::season::Hours;
use super::share::{Headroom, Share};
use std::time::Duration;

/// Added where all answers are about as fast, so that a slower network is survived.
///
/// Source: latency.md 3.9.
pub const PADDING: Duration = Duration::from_millis(100);

/// Fewer answers carry no suggestion.
///
/// Source: latency.md 3.10.
pub const LEAST_EVENTS: u64 = 20;

/// A connection that takes so long lost a packet: the first one is sent again after a second.
///
/// Source: latency.md 3.9.
pub const LOST_PACKET: Duration = Duration::from_millis(900);

/// The limits of the limit for connecting. The upper one is not 5 s: see [`RESENDS`].
///
/// Source: latency.md 3.9.
pub const CONNECT_WITHIN: (Duration, Duration) = (Duration::from_millis(1_200), Duration::from_millis(4_900));

/// When the kernel sends the first packet again, in seconds: a limit of exactly that gives up as it leaves.
///
/// Source: latency.md 0, finding 5 (Linux, measured).
pub const RESENDS: [u64; 6] = [1, 2, 3, 4, 5, 7];

/// What a percentile asks of a limit, before rounding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asked {
    /// The limit.
    pub exact: Duration,
    /// The rule that decided.
    pub formula: Formula,
    /// The percentile and its bounds.
    pub estimate: Estimate,
}

/// Returns what `latencies` ask of a limit: the longest of the percentile's upper bound, the percentile with its
/// headroom, the percentile and the median, and the percentile and [`PADDING`].
///
/// Where no bound is known the slowest answer stands for it: the limit is then to be read as "at least".
/// `minutes` is the number of distinct minutes that samples fell in.
///
/// # Errors
/// [`NotIdentified`] where too many samples were given up.
///
/// Source: latency.md 3.9; product.md section 6.
pub fn asked(
    latencies: &Latencies,
    minutes: u64,
    percentile: Share,
    headroom: Headroom,
) -> Result<Asked, NotIdentified> {
    let confidence = Share::CONFIDENCE;
    let estimate = latencies.percentile(percentile, minutes, confidence)?;
    let median = latencies.value(Share::P50.min(percentile))?;
    let value = estimate.value;
    let at_most = match estimate.bound {
        Some(bound) => (bound, Formula::Bound { percentile, bound, confidence }),
        None => {
            let slowest = latencies.slowest().unwrap_or(value);
            (slowest, Formula::Slowest { slowest })
        }
    };
    let rules = [
        (headroom.above(value), Formula::Headroom { percentile, value, headroom }),
        (value.saturating_add(median), Formula::Doubled { percentile, value, median }),
        (value.saturating_add(PADDING), Formula::Padded { percentile, value, padding: PADDING }),
        at_most,
    ];
    let longest = rules.into_iter().reduce(|best, rule| if rule.0 > best.0 { rule } else { best });
    let (exact, formula) = longest.expect("there are four rules");
    Ok(Asked { exact, formula, estimate })
}

/// Returns what is asked of the limit for reading where an hour of the day is too slow for it: the highest upper bound
/// that the percentile has in an hour, should that be more.
///
/// Source: latency.md 3.7.
pub fn for_every_hour(asked: Asked, hours: &Hours, minutes: &Minutes) -> Asked {
    let (percentile, confidence) = (asked.estimate.percentile, Share::CONFIDENCE);
    if hours.above(asked.exact, percentile.complement()).is_empty() {
        return asked;
    }
    match hours.highest_bound(percentile, minutes).filter(|(_, bound)| *bound > asked.exact) {
        Some((hour, bound)) => {
            Asked { exact: bound, formula: Formula::Hour { hour, percentile, bound, confidence }, ..asked }
        }
        None => asked,
    }
}

/// Returns the limit for connecting to one address: the time of a resend and of a connection without one.
///
/// The resend is that after 1 s, or that after 3 s where more than 0.5 % of the connections lost a packet. Where fewer
/// than [`LEAST_EVENTS`] connections were made without losing one, `current` is kept.
///
/// Source: latency.md 3.9. Each attempt dials one address, so that nothing is divided (decisions 18).
pub fn connect(latencies: &Latencies, headroom: Headroom, current: Duration) -> Proposal {
    let quick = latencies.below(LOST_PACKET);
    if quick.events() < LEAST_EVENTS {
        return kept(current);
    }
    let value = quick.value(Share::P999).ok().or(quick.slowest()).unwrap_or(LOST_PACKET);
    let slow = latencies.samples() - quick.samples();
    let lost = Rate { hits: slow, of: slow + quick.events() };
    let resend = Duration::from_secs(if lost.hits * 1_000 > lost.of * 5 { 3 } else { 1 });
    let margin = headroom.above(value).max(value + PADDING) - value;
    let (least, most) = CONNECT_WITHIN;
    let asked = resend + value + margin;
    let exact = asked.clamp(least, most);
    let formula = Formula::Connect { resend, value, margin, kept_within: exact != asked };
    Proposal { current, proposed: beside_resends(nice_up(exact)), exact, formula }
}

/// Returns `limit`, or a little more where a packet is sent again at that very moment.
fn beside_resends(limit: Duration) -> Duration {
    let met = RESENDS.iter().any(|seconds| limit == Duration::from_secs(*seconds));
    if met { limit + Duration::from_millis(100) } else { limit }
}

/// Returns the limit of one attempt: connecting and reading, or what whole attempts ask for, whichever is longer.
///
/// `whole` is `None` where whole attempts were not measured: `current` is then not shortened, since nothing is known
/// about the bodies of answers, and a limit that cuts one leaves a doubt.
///
/// Source: latency.md 3.9.
pub fn attempt(connect: Duration, read: Duration, whole: Option<Asked>, current: Duration) -> Proposal {
    let stages = (connect.saturating_add(read), Formula::Stages { connect, read });
    let other = whole.map_or((current, Formula::Kept), |whole| (whole.exact, whole.formula));
    let (exact, formula) = if other.0 > stages.0 { other } else { stages };
    let proposed = if formula == Formula::Kept { exact } else { nice_up(exact) };
    Proposal { current, proposed, exact, formula }
}

/// Returns the deadline in which every attempt fits, each as long as it may get, with the longest waits.
///
/// Source: latency.md 3.9.
pub fn overall(attempt: Duration, retry: &RetryPolicy, current: Duration) -> Proposal {
    let attempts = retry.max_attempts.max(1);
    let waits = longest_waits(&retry.backoff, attempts);
    let exact = attempt.saturating_mul(attempts).saturating_add(waits).min(LONGEST);
    Proposal { current, proposed: nice_up(exact), exact, formula: Formula::Attempts { attempts, attempt, waits } }
}

/// Returns a limit that is not changed.
pub(super) fn kept(current: Duration) -> Proposal {
    Proposal { current, proposed: current, exact: current, formula: Formula::Kept }
}

/// Returns the longest that the waits between `attempts` attempts can be together; it saturates.
pub fn longest_waits(backoff: &Backoff, attempts: u32) -> Duration {
    let mut sum = Duration::ZERO;
    for n in 1..attempts {
        let wait = backoff.before_jitter(n);
        if wait == backoff.cap {
            // All that follow are as long: no need to count them one by one.
            return sum.saturating_add(wait.saturating_mul(attempts - n));
        }
        sum = sum.saturating_add(wait);
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::super::latencies::Sample;
    use super::*;
    use crate::engine::backoff::Jitter;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn events(ms: impl IntoIterator<Item = u64>) -> Latencies {
        let samples = ms.into_iter().map(|ms| Sample::Event(Duration::from_millis(ms)));
        Latencies::from_samples(samples).expect("few samples")
    }

    fn p99_of(latencies: &Latencies) -> Asked {
        asked(latencies, latencies.samples(), Share::P99, Headroom::USUAL).expect("identified")
    }

    fn says(asked: Asked) -> String {
        let (current, proposed) = (Duration::ZERO, nice_up(asked.exact));
        Proposal { current, proposed, exact: asked.exact, formula: asked.formula }.to_string()
    }

    #[test]
    fn v4_equal_samples_are_doubled() {
        let found = p99_of(&events([200; 400]));
        assert_eq!(found.exact, ms(400));
        assert_eq!(says(found), "400ms = p99 200ms + p50 200ms");
    }

    #[test]
    fn v5_a_bound_that_is_the_value_leaves_the_headroom() {
        let found = p99_of(&events([120; 970].into_iter().chain([4_000; 30])));
        assert_eq!(found.exact, ms(5_000));
        assert_eq!(says(found), "5s = p99 4s + 25 %");
    }

    #[test]
    fn v6_the_bound_of_a_heavy_tail_decides() {
        let pareto = |i: u32| 50_000.0 * (1.0 - (f64::from(i) - 0.5) / 2_000.0f64).powf(-1.0 / 1.2);
        let samples = (1..=2_000).map(|i| Sample::Event(Duration::from_micros(pareto(i).round() as u64)));
        let found = p99_of(&Latencies::from_samples(samples).expect("few samples"));
        assert_eq!((found.exact, nice_up(found.exact)), (Duration::from_micros(3_433_497), ms(3_500)));
        assert_eq!(says(found), "3.5s = p99 is at most 3.43s (95 % sure)");
    }

    #[test]
    fn without_a_bound_the_slowest_answer_stands_for_it() {
        let found = p99_of(&events((1..50).map(|i| 10 + i).chain([9_000])));
        assert_eq!((found.estimate.value, found.estimate.bound), (ms(9_000), None));
        assert_eq!(found.exact, ms(11_250), "headroom on the slowest");
        let found = asked(&events([90; 990].into_iter().chain([20_000; 10])), 12, Share::P99, Headroom::USUAL);
        assert_eq!(says(found.expect("identified")), "20s = the slowest answer, 20s");
    }

    #[test]
    fn fast_answers_are_padded() {
        assert_eq!(says(p99_of(&events([3; 300]))), "110ms = p99 3ms + 100ms");
    }

    #[test]
    fn the_seed_of_the_rule_is_kept() {
        // 12 s become 15 s.
        let found = p99_of(&events([12_000; 300].into_iter().chain([900; 400])));
        assert_eq!(says(found), "15s = p99 12s + 25 %");
        let found = p99_of(&events([4_630; 300].into_iter().chain([440; 400])));
        assert_eq!(says(found), "5.8s = p99 4.63s + 25 %");
    }

    #[test]
    fn v18_connecting_survives_a_lost_packet_or_three() {
        let quick = [200; 1_000];
        let one = connect(&events(quick), Headroom::USUAL, ms(3_000));
        assert_eq!((one.proposed, one.exact), (ms(1_300), ms(1_300)));
        assert_eq!(one.to_string(), "1.3s = 1s for a lost packet + p99.9 200ms + 100ms");
        let few = connect(&events([200; 995].into_iter().chain([1_200; 5])), Headroom::USUAL, ms(3_000));
        assert_eq!(few.proposed, ms(1_300), "5 of 1,000 are not more than 0.5 %");
        let more = connect(&events(quick.into_iter().chain([1_200; 6])), Headroom::USUAL, ms(3_000));
        assert_eq!(more.proposed, ms(3_300));
    }

    #[test]
    fn connecting_keeps_off_the_resends_and_within_its_limits() {
        let near = connect(&events([2; 1_000]), Headroom::USUAL, ms(3_000));
        assert_eq!((near.proposed, near.exact), (ms(1_200), ms(1_200)));
        assert!(near.to_string().ends_with("kept within 1.2s and 4.9s"), "{near}");
        let met = connect(&events([800; 1_000]), Headroom::USUAL, ms(3_000));
        assert_eq!((met.exact, met.proposed), (ms(2_000), ms(2_100)));
        let far = connect(
            &events([890; 100].into_iter().chain([2_000; 20])),
            Headroom::parse("150%").expect("one"),
            ms(3_000),
        );
        assert_eq!(far.proposed, ms(4_900));
        for seconds in RESENDS {
            assert!(beside_resends(Duration::from_secs(seconds)) > Duration::from_secs(seconds));
        }
        assert_eq!(beside_resends(Duration::from_secs(6)), Duration::from_secs(6));
    }

    #[test]
    fn few_or_only_slow_connections_change_nothing() {
        for seen in [events([]), events([20; 19]), events([950; 500])] {
            let found = connect(&seen, Headroom::USUAL, ms(3_000));
            assert_eq!((found.proposed, found.formula), (ms(3_000), Formula::Kept));
        }
    }

    #[test]
    fn an_attempt_holds_its_stages_and_what_whole_ones_took() {
        let stages = attempt(ms(1_300), ms(5_800), Some(p99_of(&events([200; 400]))), ms(20_000));
        assert_eq!((stages.proposed, stages.to_string().as_str()), (ms(7_100), "7.1s = connect 1.3s + read 5.8s"));
        let whole = attempt(ms(1_300), ms(5_800), Some(p99_of(&events([8_000; 400]))), ms(20_000));
        assert_eq!(whole.to_string(), "16s = p99 8s + p50 8s");
        let kept = attempt(ms(1_300), ms(5_800), None, ms(20_123));
        assert_eq!((kept.proposed, kept.formula), (ms(20_123), Formula::Kept));
        assert_eq!(attempt(ms(3_000), ms(40_000), None, ms(20_000)).proposed, ms(43_000));
    }

    #[test]
    fn the_deadline_holds_all_attempts_and_waits() {
        let found = overall(ms(20_000), &RetryPolicy::default(), ms(150_000));
        assert_eq!(found.to_string(), "2m10s = 5 x 20s + 30s of waits");
        let backoff = Backoff { base: ms(500), cap: ms(1_000), jitter: Jitter::Equal };
        let v15 = overall(ms(2_000), &RetryPolicy { max_attempts: 3, backoff, ..RetryPolicy::default() }, ms(0));
        assert_eq!(v15.exact, ms(7_500));
        let endless = overall(ms(2_000), &RetryPolicy { max_attempts: u32::MAX, ..RetryPolicy::default() }, ms(0));
        assert_eq!(endless.proposed, LONGEST);
    }

    #[test]
    fn waits_are_summed_as_they_come() {
        let backoff = Backoff { base: ms(2_000), cap: ms(30_000), jitter: Jitter::Full };
        let one_by_one = |attempts| (1..attempts).map(|n| backoff.before_jitter(n)).sum::<Duration>();
        for attempts in 0..40 {
            assert_eq!(longest_waits(&backoff, attempts), one_by_one(attempts), "{attempts}");
        }
    }
}
