//! From what was seen to what is suggested or refused.

use super::super::moment::Timestamp;
use super::super::units::LONGEST;
use super::evidence::Minutes;
use super::latencies::Sample;
use super::quantile::NotIdentified;
use super::ranks::Rate;
use super::season::{Hours, SlowHour};
use super::seen::{Failures, Pacing};
use super::*;
use proptest::prelude::*;

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn latencies(samples: impl IntoIterator<Item = Sample>) -> Latencies {
    Latencies::from_samples(samples).expect("few samples")
}

fn events(ms: impl IntoIterator<Item = u64>) -> Latencies {
    latencies(ms.into_iter().map(|ms| Sample::Event(Duration::from_millis(ms))))
}

fn given_up(count: usize) -> impl Iterator<Item = Sample> {
    std::iter::repeat_n(Sample::Censored(ms(60_000)), count)
}

/// So many minutes, `apart` minutes between each and the next.
fn minutes(count: i64, apart: i64) -> Minutes {
    let mut minutes = Minutes::default();
    (0..count).for_each(|n| minutes.add(Timestamp::from_unix_ms(n * apart * 60_000)));
    minutes
}

/// A sample every 5 minutes for more than a day, no failures.
fn seen(read: Latencies) -> Seen {
    let minutes = minutes(read.samples() as i64, 5);
    let connect = events([40; 400]);
    let whole = latencies([]);
    let (failures, hours, lag, pacing) = (Failures::default(), Hours::default(), None, Pacing::Open);
    Seen { read, connect, whole, failures, missed: 0, called_off: 0, minutes, hours, lag, pacing }
}

/// Half the answers after 0.44 s, a hundredth after 4.63 s.
fn usual() -> Latencies {
    events([440; 980].into_iter().chain([4_630; 20]))
}

fn suggested(seen: &Seen) -> Suggestion {
    suggest(seen, &Options::default()).expect("a suggestion")
}

fn refused(seen: &Seen) -> Vec<Refusal> {
    suggest(seen, &Options::default()).expect_err("no suggestion")
}

#[test]
fn a_day_of_samples_carries_every_limit_with_its_rule() {
    let found = suggested(&seen(usual()));
    assert_eq!(found.read.to_string(), "5.8s = p99 4.63s + 25 %");
    assert_eq!(
        found.connect.to_string(),
        "1.2s = 1s for a lost packet + p99.9 40ms + 100ms, kept within 1.2s and 4.9s"
    );
    assert_eq!(found.attempt.to_string(), "20s = as it is: too little was measured to change it");
    assert_eq!(found.overall.to_string(), "2m10s = 5 x 20s + 30s of waits");
    assert_eq!((found.evidence.grade, found.evidence.minutes), (Grade::Day, 1_000));
    assert_eq!((found.median, found.typical), (ms(440), ms(480)));
    assert_eq!(found.weaknesses, []);
    let limits = found.timeouts(&Timeouts::default());
    assert_eq!((limits.read, limits.body), (ms(5_800), Timeouts::default().body));
}

#[test]
fn whole_attempts_shorten_the_attempt_and_the_deadline() {
    let found = suggested(&Seen { whole: events([600; 980].into_iter().chain([5_000; 20])), ..seen(usual()) });
    assert_eq!(found.attempt.to_string(), "7s = connect 1.2s + read 5.8s");
    assert_eq!(found.overall.to_string(), "1m5s = 5 x 7s + 30s of waits");
    assert_eq!((found.typical, found.attempts.startable), (ms(600), 5));
    assert_eq!(found.attempts.wanted, Some(2));
}

#[test]
fn consequences_are_told_for_the_limits_in_force_and_the_proposed_ones() {
    let slow = events([440; 975].into_iter().chain([4_630; 20]).chain([12_000; 5]));
    let found = suggested(&seen(slow));
    assert_eq!(found.before.false_timeouts, Rate { hits: 0, of: 1_000 });
    assert_eq!(found.after.false_timeouts, Rate { hits: 0, of: 1_000 }, "{}", found.read);
    let options = Options { percentile: Share::P95, ..Options::default() };
    let found = suggest(&seen(usual()), &options).expect("a suggestion");
    assert_eq!(found.read.to_string(), "880ms = p95 440ms + p50 440ms");
    assert_eq!(found.after.false_timeouts, Rate { hits: 20, of: 1_000 });
    assert!((found.after.doubt_per_thousand - 20.0).abs() < 1e-9);
    assert!((found.before.doubt_per_thousand).abs() < 1e-9);
    let tighter =
        Warning::Tighter { current: ms(15_000), proposed: ms(880), doubt_per_thousand: found.after.doubt_per_thousand };
    assert!(found.warnings.contains(&tighter), "{:?}", found.warnings);
}

#[test]
fn a_snapshot_gets_more_headroom_and_says_at_least() {
    for minutes in [minutes(17, 1), Minutes::Unknown] {
        let span = minutes.span();
        let found = suggested(&Seen { minutes, ..seen(usual()) });
        assert_eq!(found.read.to_string(), "7s = p99 4.63s + 50 %");
        assert!(found.weaknesses.contains(&Weakness::Snapshot { span }), "{:?}", found.weaknesses);
        assert_eq!(found.estimate.bound.is_some(), span.is_none(), "samples without times count each");
    }
    let options = Options { headroom: Some(Headroom::USUAL), ..Options::default() };
    let found = suggest(&Seen { minutes: minutes(17, 1), ..seen(usual()) }, &options).expect("a suggestion");
    assert_eq!(found.read.to_string(), "5.8s = p99 4.63s + 25 %", "what the user asks for is kept");
}

#[test]
fn v3_few_samples_say_how_many_are_missing() {
    let found = suggested(&seen(events(101..=150)));
    let [Weakness::FewSamples { samples: 50, needed: 299, bounded }] = found.weaknesses[..] else {
        panic!("{:?}", found.weaknesses)
    };
    assert!((bounded - 0.941_844_920_883).abs() < 1e-9);
    assert_eq!(found.weaknesses[0].to_string(), "50 samples bound p94.2 at best: 249 more are needed");
    assert_eq!(found.read.to_string(), "280ms = p99 150ms + p50 125ms");
}

#[test]
fn v19_samples_in_few_minutes_say_so() {
    let found = suggested(&Seen { minutes: minutes(12, 1), ..seen(events(1..=1_000)) });
    let few = Weakness::FewMinutes { minutes: 12, needed: 299 };
    assert_eq!(found.weaknesses, [few, Weakness::Snapshot { span: Some(ms(660_000)) }]);
}

#[test]
fn v8_a_bound_among_given_up_samples_is_no_bound() {
    let samples = (1..=995).map(|i| Sample::Event(ms(i))).chain(given_up(5));
    let found = suggested(&seen(latencies(samples)));
    assert_eq!(found.weaknesses, [Weakness::GivenUp { above: ms(60_000) }]);
    assert_eq!(found.read.to_string(), "1.5s = p99 990ms + p50 500ms");
    assert!((found.after.doubt_per_thousand - 5.0).abs() < 1e-9);
}

#[test]
fn v7_an_unknown_percentile_is_refused() {
    let samples = (1..=980).map(|i| Sample::Event(ms(i))).chain(given_up(20));
    let reasons = refused(&seen(latencies(samples)));
    let not = NotIdentified { percentile: Share::P99, above: ms(60_000) };
    assert_eq!(reasons, [Refusal::NotIdentified(not)]);
    assert_eq!(reasons[0].to_string(), "p99 is longer than 1m: too many requests were given up");
    assert_eq!(reasons[0].hint(), "wait longer for each answer, for example 3m, or ask for a lower percentile");
}

#[test]
fn evidence_that_carries_nothing_is_refused_with_every_reason() {
    let failing = |failures: Failures| Seen { failures, ..seen(usual()) };
    let table = [
        (seen(events(1..=19)), "19 answers are too few: 20 are the least"),
        (failing(Failures { reset: 251, ..Failures::default() }), "251 of 1251 requests failed"),
        (
            failing(Failures { client_error: 53, ..Failures::default() }),
            "53 of 1053 requests got a 4xx: this measures an error page",
        ),
        (Seen { missed: 53, ..seen(usual()) }, "53 of 1053 requests that were due were not sent"),
    ];
    for (seen, message) in table {
        let reasons = refused(&seen);
        assert_eq!(reasons.iter().map(Refusal::to_string).collect::<Vec<_>>(), [message]);
        assert!(!reasons[0].hint().is_empty());
    }
    let all = failing(Failures { client_error: 5_000, ..Failures::default() });
    assert_eq!(refused(&Seen { missed: 9_000, read: events([]), ..all }).len(), 4);
}

#[test]
fn evidence_at_the_edge_of_refusal_is_taken() {
    let failing = |failures: Failures| Seen { failures, ..seen(usual()) };
    let edge = [
        seen(events(1..=20)),
        failing(Failures { server_error: 250, ..Failures::default() }),
        failing(Failures { client_error: 52, limited: 100, ..Failures::default() }),
        Seen { missed: 52, ..seen(usual()) },
    ];
    for seen in edge {
        assert!(suggest(&seen, &Options::default()).is_ok(), "{seen:?}");
    }
}

#[test]
fn a_given_deadline_is_kept_or_refused() {
    let whole = events([600; 980].into_iter().chain([5_000; 20]));
    let with = |overall: u64| {
        let options = Options { overall: Some(ms(overall)), ..Options::default() };
        suggest(&Seen { whole: whole.clone(), ..seen(usual()) }, &options)
    };
    let found = with(20_000).expect("a suggestion");
    assert_eq!((found.overall.proposed, found.overall.formula), (ms(20_000), Formula::Given));
    assert_eq!((found.attempts.configured, found.attempts.startable), (5, 2));
    let reasons = with(6_000).expect_err("no suggestion");
    assert_eq!(reasons[0].to_string(), "a deadline of 6s is shorter than one attempt, 7s");
}

#[test]
fn what_misleads_is_warned_about() {
    let warned = |seen: &Seen| suggested(seen).warnings.iter().map(Warning::to_string).collect::<Vec<_>>();
    let plain = events((0..1_000).map(|i| 3_000 + i));
    assert_eq!(warned(&seen(plain.clone())), [""; 0]);
    let doubtful = Seen { missed: 20, lag: Some(ms(11)), pacing: Pacing::Closed, ..seen(plain.clone()) };
    let expected = [
        "20 of 1020 requests that were due were not sent: percentiles are at least what is said",
        "requests left up to 11ms late: this machine is too busy to measure",
        "each request waited for the one before: percentiles are at least what is said",
    ];
    assert_eq!(warned(&doubtful), expected);
    assert_eq!(warned(&Seen { missed: 10, lag: Some(ms(10)), ..seen(plain) }), [""; 0]);
    let kinds = seen(events([120; 970].into_iter().chain([4_000; 30])));
    assert_eq!(warned(&kinds)[0], "there are two kinds of answers: 3.0 % take 4s or more, the others 120ms or less");
    let tail = seen(events([100; 970].into_iter().chain([5_100; 30])));
    assert_eq!(warned(&tail)[1], "p99 5.1s is more than 50 times p50 100ms: a queue, not a request");
    assert!(warned(&tail)[2].starts_with("the deadline of 2m10s is more than a hundred times the usual 140ms"));
}

/// A week of 100 requests an hour, of which `slow` take 9 s from 9 to 10 o'clock, and all others 0.44 s.
fn week(slow: usize) -> Seen {
    let hour = |slow: usize| events([440].repeat(700 - slow).into_iter().chain([9_000].repeat(slow)));
    let hours: Vec<_> = (0..24).map(|at| (at, hour(if at == 9 { slow } else { 0 }))).collect();
    let all = hours.iter().map(|(_, seen)| seen.clone()).reduce(|one, other| one.merged(&other).expect("few samples"));
    Seen { minutes: minutes(7 * 24 * 60, 1), hours: Hours::new(hours), ..seen(all.expect("24 hours")) }
}

#[test]
fn an_hour_of_the_day_that_is_too_slow_for_the_limit_gets_its_bound() {
    // 0.8 % of all, and a fifth of that hour.
    let found = suggested(&week(140));
    assert_eq!(found.read.to_string(), "9s = p99 of 09:00 to 10:00 UTC is at most 9s (95 % sure)");
    assert!(!found.warnings.iter().any(|warning| matches!(warning, Warning::Season { .. })), "{:?}", found.warnings);
    assert_eq!(found.estimate.value, ms(440), "the percentile of all stays what it is");
    assert_eq!(suggested(&week(0)).read.proposed, ms(880));
}

#[test]
fn an_hour_of_the_day_that_is_too_slow_and_bounds_nothing_is_told() {
    // 125 minutes of each hour.
    let few = Seen { minutes: minutes(3_000, 3), ..week(60) };
    let told = suggested(&few).warnings.iter().map(Warning::to_string).collect::<Vec<_>>();
    assert_eq!(told[0], "from 09:00 to 10:00 UTC 9 % of the answers take longer than the read limit");
    let (above, by_chance) = (Rate { hits: 1, of: 2 }, 0.0);
    let more = Warning::Season { slowest: SlowHour { hour: 23, above, by_chance }, hours: 3 };
    assert!(more.to_string().starts_with("from 23:00 to 00:00 UTC 50 %"), "{more}");
    assert!(more.to_string().ends_with(", and 2 other hours are too slow, too"), "{more}");
}

/// Any latency, the absurd ones included.
fn any_latency() -> impl Strategy<Value = Duration> {
    prop_oneof![
        4 => (1..20_000u64).prop_map(Duration::from_millis),
        1 => any::<Duration>(),
        1 => Just(Duration::ZERO),
        1 => Just(Duration::MAX),
    ]
}

fn any_stage() -> impl Strategy<Value = Latencies> {
    let sample = (any_latency(), proptest::bool::weighted(0.02));
    let one =
        sample.prop_map(|(after, given_up)| if given_up { Sample::Censored(after) } else { Sample::Event(after) });
    proptest::collection::vec(one, 0..120).prop_map(latencies)
}

fn any_count() -> impl Strategy<Value = u64> {
    prop_oneof![8 => 0..4u64, 1 => any::<u64>()]
}

fn any_seen() -> impl Strategy<Value = Seen> {
    let stages = (any_stage(), any_stage(), any_stage());
    let counts = (any_count(), any_count(), any_count());
    (stages, counts, 0..400i64, proptest::option::of(any_latency())).prop_map(|(stages, counts, apart, lag)| Seen {
        hours: Hours::new([(9, stages.2.clone()), (10, stages.0.clone())]),
        read: stages.0,
        connect: stages.1,
        whole: stages.2,
        failures: Failures { reset: counts.0, client_error: counts.1, ..Failures::default() },
        missed: counts.2,
        called_off: 0,
        minutes: minutes(100, apart),
        lag,
        pacing: Pacing::Closed,
    })
}

fn any_options() -> impl Strategy<Value = Options> {
    let percentile = (1..1_000_000u32).prop_map(|millionths| Share::from_millionths(millionths).expect("a share"));
    let headroom = (0..10_000_000u32).prop_map(Headroom::from_millionths);
    (percentile, headroom, proptest::option::of(any_latency()), any::<u32>()).prop_map(
        |(percentile, headroom, overall, max_attempts)| Options {
            percentile,
            headroom,
            overall,
            retry: RetryPolicy { max_attempts, ..RetryPolicy::default() },
            ..Options::default()
        },
    )
}

proptest! {
    #[test]
    fn whatever_was_seen_is_suggested_from_or_refused(seen in any_seen(), options in any_options()) {
        match suggest(&seen, &options) {
            Err(reasons) => {
                prop_assert!(!reasons.is_empty());
                prop_assert!(reasons.iter().all(|reason| !reason.to_string().is_empty() && !reason.hint().is_empty()));
            }
            Ok(found) => {
                let least = |exact: Duration| exact.min(LONGEST);
                prop_assert!(found.read.proposed >= least(found.estimate.value));
                prop_assert!(found.attempt.proposed >= least(found.connect.proposed + found.read.proposed));
                prop_assert!(found.overall.proposed >= least(found.attempt.proposed));
                prop_assert!(!found.read.proposed.is_zero());
                prop_assert!((1..=1_000).contains(&found.attempts.startable) || options.retry.max_attempts == 0);
                for told in [found.before, found.after] {
                    prop_assert!((0.0..=1.0).contains(&told.done), "{told:?}");
                    prop_assert!((0.0..=1_000.0).contains(&told.doubt_per_thousand), "{told:?}");
                    prop_assert!((1.0..=1_000.0).contains(&told.attempts_expected), "{told:?}");
                }
                let words = found.weaknesses.iter().map(Weakness::to_string);
                prop_assert!(words.chain(found.warnings.iter().map(Warning::to_string)).all(|text| !text.is_empty()));
            }
        }
    }
}
