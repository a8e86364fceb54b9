//! The vectors of latency.md section 4, the properties of the one rule, and how often its bound is right.

use super::super::latencies::Sample;
use super::*;
use proptest::prelude::*;

/// The right answers: percentile, value, the two ends of the interval, the one-sided bound. Microseconds; 0 for none.
type Row = (Share, u64, [u64; 3]);

const P97: Share = Share::from_millionths(970_000).expect("a share");
const P98: Share = Share::from_millionths(980_000).expect("a share");
const P985: Share = Share::from_millionths(985_000).expect("a share");
const P995: Share = Share::from_millionths(995_000).expect("a share");

/// Each sample in a minute of its own.
const APART: u64 = u64::MAX;

fn us(us: u64) -> Duration {
    Duration::from_micros(us)
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn events(ms: impl IntoIterator<Item = u64>) -> impl Iterator<Item = Sample> {
    ms.into_iter().map(|ms| Sample::Event(Duration::from_millis(ms)))
}

fn censored(count: usize, ms: u64) -> impl Iterator<Item = Sample> {
    std::iter::repeat_n(Sample::Censored(Duration::from_millis(ms)), count)
}

fn latencies(samples: impl IntoIterator<Item = Sample>) -> Latencies {
    Latencies::from_samples(samples).expect("few samples")
}

fn estimate(latencies: &Latencies, percentile: Share) -> Estimate {
    latencies.percentile(percentile, APART, Share::CONFIDENCE).expect("identified")
}

fn check(name: &str, latencies: &Latencies, rows: &[Row]) {
    let or_none = |value: u64| (value > 0).then(|| us(value));
    for (percentile, value, [lower, higher, bound]) in rows {
        let found = estimate(latencies, *percentile);
        assert_eq!(found.value, us(*value), "{name} p{percentile}");
        let ends = (found.lower, found.higher, found.bound);
        assert_eq!(ends, (or_none(*lower), or_none(*higher), or_none(*bound)), "{name} p{percentile}");
    }
}

#[test]
fn v1_a_thousand_different_samples() {
    let found = latencies(events(1..=1_000));
    let rows = [
        (Share::P50, 500, [469, 532, 527]),
        (Share::P90, 900, [881, 919, 916]),
        (Share::P95, 950, [936, 964, 962]),
        (P97, 970, [959, 981, 980]),
        (Share::P99, 990, [983, 997, 996]),
        (Share::P999, 999, [997, 0, 0]),
    ];
    check("V1", &found, &rows.map(|(percentile, value, ends)| (percentile, value * 1_000, ends.map(|ms| ms * 1_000))));
}

/// Returns the cell that a histogram of three digits, in microseconds, counts a latency in.
fn three_digits(us: u64) -> (u64, u64) {
    let width = 1 << us.ilog2().saturating_sub(10);
    (us / width * width, us / width * width + width - 1)
}

#[test]
fn v1_the_same_samples_in_a_histogram_of_three_digits() {
    let mut cells: Vec<Cell> = Vec::new();
    for value in (1..=1_000).map(|ms| ms * 1_000) {
        let (low, high) = three_digits(value);
        match cells.last_mut() {
            Some(last) if last.low == us(low) => last.events += 1,
            _ => cells.push(Cell { low: us(low), high: us(high), events: 1, censored: 0 }),
        }
    }
    let found = Latencies::from_cells(cells, Some((ms(1), ms(1_000)))).expect("latencies");
    let p99 = estimate(&found, Share::P99);
    assert_eq!((p99.value, p99.bound), (us(990_207), Some(us(996_351))));
    assert_eq!((p99.lower, p99.higher), (Some(us(982_528)), Some(us(997_375))));
    assert_eq!(estimate(&found, Share::P999).value, us(999_423), "and not the maximum, 1,000,447");
    let last = Share::from_millionths(999_999).expect("a share");
    assert_eq!(estimate(&found, last).value, ms(1_000), "the exact maximum, not the edge of its cell");
}

#[test]
fn v2_the_least_number_of_samples_for_a_bound() {
    check("V2a", &latencies(events(1..=299)), &[(Share::P99, 297_000, [292_000, 0, 299_000])]);
    check("V2b", &latencies(events(1..=298)), &[(Share::P99, 296_000, [291_000, 0, 0])]);
    check("V2c", &latencies(events(1..=368)), &[(Share::P99, 365_000, [360_000, 368_000, 368_000])]);
}

#[test]
fn v3_fifty_samples_bound_no_p99() {
    let rows = [
        (Share::P99, 150_000, [148_000, 0, 0]),
        (Share::P95, 148_000, [144_000, 0, 0]),
        (Share::P90, 145_000, [141_000, 150_000, 149_000]),
    ];
    check("V3", &latencies(events(101..=150)), &rows);
}

#[test]
fn v4_equal_samples() {
    let rows = [(Share::P50, 200_000, [200_000; 3]), (Share::P99, 200_000, [200_000; 3])];
    check("V4", &latencies(events([200; 400])), &rows);
}

#[test]
fn v5_two_modes() {
    let found = latencies(events([120; 970]).chain(events([4_000; 30])));
    let rows = [
        (Share::P50, 120_000, [120_000; 3]),
        (Share::P95, 120_000, [120_000; 3]),
        (P97, 120_000, [120_000, 4_000_000, 4_000_000]),
        (Share::P99, 4_000_000, [4_000_000; 3]),
    ];
    check("V5", &found, &rows);
}

#[test]
fn v6_a_heavy_tail() {
    let pareto = |i: u32| 50_000.0 * (1.0 - (f64::from(i) - 0.5) / 2_000.0f64).powf(-1.0 / 1.2);
    let found = latencies((1..=2_000).map(|i| Sample::Event(us(pareto(i).round() as u64))));
    let rows = [
        (Share::P50, 89_053, [85_915, 92_534, 91_973]),
        (Share::P99, 2_273_527, [1_678_714, 3_680_556, 3_433_497]),
        (Share::P999, 13_128_396, [6_805_490, 0, 0]),
    ];
    check("V6", &found, &rows);
    assert_eq!(found.slowest(), Some(us(50_198_029)));
}

#[test]
fn v7_two_percent_given_up_hide_the_p99() {
    let found = latencies(events(1..=980).chain(censored(20, 5_000)));
    assert_eq!(estimate(&found, Share::P50).value, ms(500));
    let p95 = estimate(&found, Share::P95);
    assert_eq!((p95.value, p95.bound), (ms(950), Some(ms(962))));
    let p98 = estimate(&found, P98);
    assert_eq!((p98.value, p98.bound), (ms(980), None));
    let p99 = found.percentile(Share::P99, APART, Share::CONFIDENCE);
    assert_eq!(p99, Err(NotIdentified { percentile: Share::P99, above: ms(5_000) }));
    assert!((found.waiting_after(ms(5_000)) - 0.02).abs() < 1e-15);
}

#[test]
fn v8_a_bound_that_was_given_up_is_none() {
    let found = latencies(events(1..=995).chain(censored(5, 5_000)));
    let p99 = estimate(&found, Share::P99);
    assert_eq!((p99.value, p99.effective, p99.ranks.bound, p99.bound), (ms(990), 1_000, Some(996), None));
    assert_eq!((p99.ranks.lower, p99.ranks.higher), (Some(983), Some(997)));
    assert_eq!((p99.lower, p99.higher), (Some(ms(983)), None));
    assert_eq!((estimate(&found, Share::P95).value, estimate(&found, P995).value), (ms(950), ms(995)));
    assert_eq!(found.value(Share::P999), Err(NotIdentified { percentile: Share::P999, above: ms(5_000) }));
}

#[test]
fn v10_samples_given_up_in_the_middle() {
    let quick = events((1..=588).map(|i| 2 * i)).chain(censored(12, 5_000));
    let slow = events((1..=392).map(|i| 3 * i));
    let slowest = events([5_500, 6_000, 7_000, 8_000, 9_000, 12_000, 15_000]).chain(censored(1, 20_000));
    let found = latencies(quick.chain(slow).chain(slowest));
    for (percentile, value, bound) in [(Share::P90, 1_080, 1_100), (Share::P95, 1_140, 1_155), (P98, 1_176, 8_000)] {
        let found = estimate(&found, percentile);
        assert_eq!((found.value, found.bound), (ms(value), Some(ms(bound))), "p{percentile}");
    }
    for (percentile, value) in [(Share::P50, 600), (P985, 6_000), (Share::P99, 8_000), (P995, 12_000)] {
        assert_eq!(estimate(&found, percentile).value, ms(value), "p{percentile}");
    }
    let p99 = estimate(&found, Share::P99);
    assert_eq!((p99.effective, p99.ranks.bound, p99.bound), (568, Some(567), None));
    assert_eq!(found.value(Share::P999), Err(NotIdentified { percentile: Share::P999, above: ms(20_000) }));
    let shares = [
        (4_999, 0.02),
        (5_500, 0.0175),
        (6_000, 0.015),
        (7_000, 0.0125),
        (8_000, 0.01),
        (9_000, 0.0075),
        (12_000, 0.005),
        (15_000, 0.0025),
    ];
    for (at, share) in shares {
        assert!((found.waiting_after(ms(at)) - share).abs() < 1e-15, "{at}");
    }
}

#[test]
fn a_share_that_is_met_exactly_counts_as_met() {
    let early = events(1..=36).chain(censored(91, 100));
    let found = latencies(early.chain(events(201..=473)));
    assert!(found.waiting_after(ms(470)) > 0.01, "in floating point it is a little more");
    assert_eq!(found.value(Share::P99), Ok(ms(470)));
}

#[test]
fn v19_samples_in_one_minute_count_once() {
    let p99 = latencies(events(1..=1_000)).percentile(Share::P99, 12, Share::CONFIDENCE).expect("identified");
    assert_eq!((p99.value, p99.effective, p99.bound), (ms(990), 12, None));
}

#[test]
fn v20_hours_are_merged_cell_by_cell() {
    let hours = [100, 200, 300].map(|n| latencies(events(1..=n)));
    let two = hours[0].merged(&hours[1]).expect("exact cells");
    let merged = two.merged(&hours[2]).expect("exact cells");
    assert_eq!((merged.samples(), Share::P99.rank(merged.samples())), (600, 594));
    assert_eq!(merged.value(Share::P99), Ok(ms(294)));
}

#[test]
fn nothing_measured_is_nothing_known() {
    let nothing = latencies([]);
    assert_eq!(nothing.value(Share::P50), Err(NotIdentified { percentile: Share::P50, above: Duration::ZERO }));
    assert_eq!(nothing.waiting_after(ms(1)), 1.0);
    let given_up = latencies(censored(30, 60_000));
    assert_eq!(given_up.value(Share::P50), Err(NotIdentified { percentile: Share::P50, above: ms(60_000) }));
}

fn any_samples() -> impl Strategy<Value = Vec<(u64, bool)>> {
    proptest::collection::vec((1..3_000u64, proptest::bool::weighted(0.15)), 1..400)
}

fn scaled(samples: &[(u64, bool)], by: u64) -> Latencies {
    latencies(samples.iter().map(|(value, censored)| {
        let after = ms(value * by);
        if *censored { Sample::Censored(after) } else { Sample::Event(after) }
    }))
}

fn share() -> impl Strategy<Value = Share> {
    (1..1_000_000u32).prop_map(|millionths| Share::from_millionths(millionths).expect("a share"))
}

proptest! {
    #[test]
    fn without_censoring_it_is_the_sample_of_its_rank(mut values in proptest::collection::vec(1..900u64, 1..400), percentile in share()) {
        let found = estimate(&latencies(events(values.clone())), percentile);
        values.sort_unstable();
        let n = values.len() as u64;
        let ranked = |rank: u64| ms(values[rank as usize - 1]);
        prop_assert_eq!(found.effective, n);
        prop_assert_eq!(found.value, ranked(percentile.rank(n)));
        prop_assert_eq!(found.ranks, Ranks::new(n, percentile, Share::CONFIDENCE));
        prop_assert_eq!(found.bound, found.ranks.bound.map(ranked));
        prop_assert_eq!(found.lower, found.ranks.lower.map(ranked));
        prop_assert_eq!(found.higher, found.ranks.higher.map(ranked));
    }

    #[test]
    fn scaling_all_samples_scales_all_answers(samples in any_samples(), by in 2..50u64, percentile in share(), minutes in 1..500u64) {
        let plain = scaled(&samples, 1).percentile(percentile, minutes, Share::CONFIDENCE);
        let larger = scaled(&samples, by).percentile(percentile, minutes, Share::CONFIDENCE);
        let up = |value: Duration| value * by as u32;
        let expected = plain.map(|found| Estimate {
            value: up(found.value),
            bound: found.bound.map(up),
            lower: found.lower.map(up),
            higher: found.higher.map(up),
            ..found
        });
        prop_assert_eq!(larger, expected.map_err(|not| NotIdentified { above: up(not.above), ..not }));
    }

    #[test]
    fn surer_bounds_are_wider_and_hold_the_value(
        samples in any_samples(),
        minutes in 1..500u64,
        percentile in share(),
        sure in 500_000..1_000_000u32,
        surer in 500_000..1_000_000u32,
    ) {
        let found = scaled(&samples, 1);
        let ask = |millionths| {
            let confidence = Share::from_millionths(millionths).expect("a share");
            found.percentile(percentile, minutes, confidence)
        };
        if let (Ok(less), Ok(more)) = (ask(sure.min(surer)), ask(sure.max(surer))) {
            let top = |end: Option<Duration>| end.unwrap_or(Duration::MAX);
            prop_assert!(top(less.bound) <= top(more.bound));
            prop_assert!(top(less.higher) <= top(more.higher));
            prop_assert!(less.lower.unwrap_or_default() >= more.lower.unwrap_or_default());
            prop_assert!(less.value <= top(less.bound));
            prop_assert!(less.value <= top(less.higher));
            prop_assert!(less.lower.unwrap_or_default() <= less.value);
        }
    }

    #[test]
    fn higher_percentiles_are_never_shorter(samples in any_samples(), one in share(), other in share()) {
        let found = scaled(&samples, 1);
        let longest = |value: Result<Duration, NotIdentified>| value.unwrap_or(Duration::MAX);
        prop_assert!(longest(found.value(one.min(other))) <= longest(found.value(one.max(other))));
    }

    #[test]
    fn giving_up_samples_later_never_shortens_a_percentile(samples in any_samples(), percentile in share()) {
        let as_events: Vec<_> = samples.iter().map(|(value, _)| (*value, false)).collect();
        let as_if_done = scaled(&as_events, 1).value(percentile);
        prop_assert!(scaled(&samples, 1).value(percentile).unwrap_or(Duration::MAX) >= as_if_done.expect("identified"));
    }
}

/// Evenly mixed numbers in `(0, 1)`: xorshift64*, so that a failure can be repeated.
struct Chance(u64);

impl Chance {
    fn draw(&mut self) -> f64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        ((self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 12) as f64 + 0.5) / (1u64 << 52) as f64
    }
}

/// Returns how often, of `RUNS` calibrations with `n` independent samples each, the one-sided 95 % bound of p99 was not
/// below the true p99. A sample takes `-ln(draw)` to the third seconds, and is given up when `patience` says so.
fn coverage(n: u64, seed: u64, patience: fn(&mut Chance) -> f64) -> f64 {
    const RUNS: u32 = 1_500;
    let truth = Duration::from_secs_f64(100f64.ln().powi(3));
    let mut chance = Chance(seed);
    let mut right = 0;
    for _ in 0..RUNS {
        let mut sample = || {
            let (takes, patient) = ((-chance.draw().ln()).powi(3), patience(&mut chance));
            if takes <= patient {
                Sample::Event(Duration::from_secs_f64(takes))
            } else {
                Sample::Censored(Duration::from_secs_f64(patient))
            }
        };
        let found = latencies((0..n).map(|_| sample()));
        // A bound beyond all samples is not wrong, but a run that is refused says nothing.
        let bound = found.percentile(Share::P99, APART, Share::CONFIDENCE).map(|estimate| estimate.bound);
        right += u32::from(bound.is_ok_and(|bound| bound.is_none_or(|bound| bound >= truth)));
    }
    f64::from(right) / f64::from(RUNS)
}

#[test]
fn the_bound_is_right_as_often_as_it_says() {
    let never = |_: &mut Chance| f64::MAX;
    // 95.05 % by the theory: the fewest samples that carry a bound.
    let fewest = coverage(299, 0x5eed_0001, never);
    assert!((0.93..0.97).contains(&fewest), "{fewest}");
    let more = coverage(1_000, 0x5eed_0002, never);
    assert!((0.93..0.98).contains(&more), "{more}");
}

#[test]
fn the_bound_is_right_where_most_samples_were_given_up() {
    // A time-out below p99 for six of ten requests, far above it for the others.
    let patience = |chance: &mut Chance| if chance.draw() < 0.6 { 60.0 } else { 400.0 };
    let found = coverage(1_000, 0x5eed_0003, patience);
    assert!(found >= 0.93, "{found}");
    // Given up by chance at any time, a third of them early.
    let found = coverage(
        1_000,
        0x5eed_0004,
        |chance: &mut Chance| if chance.draw() < 0.3 { 8.0 * chance.draw() } else { 400.0 },
    );
    assert!(found >= 0.93, "{found}");
}

#[test]
fn dropping_what_was_given_up_would_be_wrong() {
    let mut chance = Chance(0x5eed_0005);
    let truth = Duration::from_secs_f64(100f64.ln().powi(3));
    let quick = (0..3_000).map(|_| (-chance.draw().ln()).powi(3)).filter(|takes| *takes <= 60.0);
    let dropped = latencies(quick.map(|takes| Sample::Event(Duration::from_secs_f64(takes))));
    assert!(estimate(&dropped, Share::P99).bound < Some(truth));
}

/// A partner that is slow 3 % of the time, in spells of a minute on average.
struct Spells {
    chance: Chance,
    slow: bool,
    until: f64,
}

impl Spells {
    /// Returns how long an answer takes that is asked for at so many seconds, which never go back.
    fn answer(&mut self, at: f64) -> f64 {
        while at >= self.until {
            self.slow = !self.slow;
            let usual = if self.slow { 60.0 } else { 60.0 * 97.0 / 3.0 };
            self.until += -self.chance.draw().ln() * usual;
        }
        if self.slow { 1.0 + 1.5 * self.chance.draw() } else { -self.chance.draw().ln() * 0.1 }
    }
}

/// Returns how often the bound of p99 was not below the true one, of runs of `n` samples `apart` seconds: with samples in
/// one minute counted once, and with each counted.
fn coverage_of_spells(n: u32, apart: f64) -> (f64, f64) {
    const RUNS: u32 = 600;
    // A third of the slow answers take longer, and one in a million of the others.
    let truth = Duration::from_secs(2);
    let (mut once, mut each) = (0, 0);
    for run in 0..RUNS {
        let mut spells = Spells { chance: Chance(0x5eed_0006 + u64::from(run) * 7_919), slow: true, until: 0.0 };
        // Any moment of an hour before the first sample.
        let begin = spells.chance.draw() * 3_600.0;
        let times: Vec<f64> = (0..n).map(|k| begin + (f64::from(k) + spells.chance.draw()) * apart).collect();
        let minutes: std::collections::BTreeSet<u64> = times.iter().map(|at| (at / 60.0) as u64).collect();
        let found = latencies(times.iter().map(|at| Sample::Event(Duration::from_secs_f64(spells.answer(*at)))));
        let right = |minutes| {
            let bound = found.percentile(Share::P99, minutes, Share::CONFIDENCE).expect("identified").bound;
            u32::from(bound.is_none_or(|bound| bound >= truth))
        };
        once += right(minutes.len() as u64);
        each += right(APART);
    }
    (f64::from(once) / f64::from(RUNS), f64::from(each) / f64::from(RUNS))
}

#[test]
fn samples_that_share_a_slow_minute_count_once_or_the_bound_is_wrong() {
    let (once, each) = coverage_of_spells(300, 1.0);
    assert!(once >= 0.93, "five minutes: {once}");
    assert!(each < 0.5, "five minutes, each counted: {each}");
    let (once, each) = coverage_of_spells(3_000, 1.0);
    assert!(once >= 0.93, "fifty minutes: {once}");
    assert!(each < 0.8, "fifty minutes, each counted: {each}");
    let (once, _) = coverage_of_spells(300, 288.0);
    assert!(once >= 0.93, "a day: {once}");
}
