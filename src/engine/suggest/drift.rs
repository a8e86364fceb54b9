//! Has the partner become slower since? Two sets of samples side by side.

mod stored;

use super::distribution::{Distribution, MOST_SAMPLES};
use super::latencies::{Latencies, NotLatencies};
use super::ranks::Rate;
use super::rules::LEAST_EVENTS;
use super::share::Share;
use super::survival::Survival;
use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

/// Less likely tails are an alarm.
///
/// Source: latency.md 3.8.
pub const ALARM: f64 = 0.01;

/// Ratios of p95 within these are no alarm, however sure they are.
///
/// Source: latency.md 3.8.
pub const SIZE_WITHIN: (f64, f64) = (0.8, 1.25);

/// How sure both ends of the interval of the rate above the read limit are together.
///
/// Source: latency.md 3.8 and V12: each end is 97.5 % sure.
const EACH_END: Share = Share::from_millionths(975_000).expect("a share");

/// How many samples lie above a percentile of all samples, before and since.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tail {
    /// The percentile.
    pub percentile: Share,
    /// Its value among the samples of both sets, or the old ones where they are not kept one by one.
    pub value: Duration,
    /// Those above it before.
    pub old: Rate,
    /// Those above it since.
    pub new: Rate,
    /// How likely so many since would be without a change, corrected for looking twice (Holm).
    pub likelihood: f64,
}

/// What the read limit in force means for the new samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fit {
    /// More than twice the accepted share of answers would come too late, for sure.
    TooTight,
    /// It holds.
    Fits,
    /// Half of it would do, for sure.
    CouldBeHalved,
}

/// What changed between two sets of samples.
///
/// Source: latency.md 3.8.
#[derive(Clone, Debug, PartialEq)]
pub struct Drift {
    /// The tails above p95 and p99, as far as the samples reach them.
    pub tails: Vec<Tail>,
    /// The new p95 as a multiple of the old; infinite where only the old one is known, 0 where only the new one is,
    /// `None` where neither is.
    pub ratio: Option<f64>,
    /// The new answers that take longer than the read limit, of those where that is known.
    pub above_read: Rate,
    /// What the limit means for them.
    pub fit: Fit,
    /// How likely a new sample takes longer than an old one, equal ones counted half: 0.5 without a change. For people;
    /// `None` where not all old samples are known.
    pub slower: Option<f64>,
    /// The greatest difference of the shares still waiting, 0 to 1. For people; `None` as above.
    pub distance: Option<f64>,
}

impl Drift {
    /// Returns what changed from `old` to `new`, when answers are waited for `read`, and `accepted` of them may come too
    /// late.
    ///
    /// # Errors
    /// [`NoComparison`].
    ///
    /// Source: latency.md 3.8 (Fisher's exact test, Holm's correction, Clopper and Pearson's interval).
    pub fn new(old: &Latencies, new: &Latencies, read: Duration, accepted: Share) -> Result<Drift, NoComparison> {
        let few = |events| NoComparison::FewEvents { events };
        if let Some(events) = [old.events(), new.events()].into_iter().find(|events| *events < LEAST_EVENTS) {
            return Err(few(events));
        }
        let both = old.merged(new).map_err(NoComparison::Mixed)?;
        let tail = |percentile| {
            let value = both.value(percentile).ok()?;
            let rates = match (old.above(value), new.above(value)) {
                // The slowest are all equal: beyond them is nothing, whoever has more of them.
                (old_above, new_above) if old_above.hits + new_above.hits == 0 => {
                    (old.at_least(value), new.at_least(value))
                }
                rates => rates,
            };
            let (old, new) = rates;
            Some(Tail { percentile, value, old, new, likelihood: more_by_chance(old, new) })
        };
        let mut tails: Vec<Tail> = [Share::P95, Share::P99].into_iter().filter_map(tail).collect();
        correct(&mut tails);
        let p95 = |latencies: &Latencies| latencies.value(Share::P95).ok().map(|value| value.as_secs_f64());
        let ratio = match (p95(old), p95(new)) {
            (Some(old), Some(new)) => Some(if new == old { 1.0 } else { new / old }),
            (Some(_), None) => Some(f64::INFINITY),
            (None, Some(_)) => Some(0.0),
            (None, None) => None,
        };
        let above_read = new.above(read);
        let fit = fit(above_read, new.above(read / 2), accepted.as_f64());
        let (slower, distance) = (Some(slower(old, new)), Some(distance(old, new)));
        Ok(Drift { tails, ratio, above_read, fit, slower, distance })
    }

    /// Tells whether the partner got slower: more of the tail than chance explains and a p95 that differs in size, or a
    /// read limit that is too tight now.
    pub fn is_alarm(&self) -> bool {
        let (least, most) = SIZE_WITHIN;
        let sized = self.ratio.is_some_and(|ratio| !(least..=most).contains(&ratio));
        let sure = self.tails.iter().any(|tail| tail.likelihood < ALARM);
        (sure && sized) || self.fit == Fit::TooTight
    }

    /// Returns the lowest and the highest rate above the read limit that the new samples allow, 95 % sure together.
    pub fn above_read_within(&self) -> (f64, f64) {
        (self.above_read.lower(EACH_END), self.above_read.upper(EACH_END))
    }
}

/// Returns how likely it is that `new` has so many hits or more when both have the same rate (Fisher, one-sided).
///
/// Together they are at most [`MOST_SAMPLES`]; where there are more, 1 is returned.
pub fn more_by_chance(old: Rate, new: Rate) -> f64 {
    let all = old.of.saturating_add(new.of);
    if all > MOST_SAMPLES {
        return 1.0;
    }
    Distribution::hypergeometric(all, old.hits + new.hits, new.of).at_least(new.hits)
}

/// Corrects the likelihoods for their number, after Holm.
fn correct(tails: &mut [Tail]) {
    let looked = tails.len();
    let mut order: Vec<&mut Tail> = tails.iter_mut().collect();
    order.sort_by(|one, other| one.likelihood.total_cmp(&other.likelihood));
    let mut least = 0.0f64;
    for (n, tail) in order.into_iter().enumerate() {
        least = least.max(tail.likelihood * (looked - n) as f64).min(1.0);
        tail.likelihood = least;
    }
}

fn fit(above: Rate, above_half: Rate, accepted: f64) -> Fit {
    if above.lower(EACH_END) > 2.0 * accepted {
        Fit::TooTight
    } else if above_half.upper(EACH_END) < accepted {
        Fit::CouldBeHalved
    } else {
        Fit::Fits
    }
}

/// Returns how likely a new sample takes longer than an old one, equal ones counted half (Mann and Whitney). Samples that
/// were given up count with what they had waited.
fn slower(old: &Latencies, new: &Latencies) -> f64 {
    let mut news = new.cells().iter().peekable();
    let (mut passed, mut sum) = (0, 0.0);
    for cell in old.cells() {
        let count = (cell.events + cell.censored) as f64;
        while let Some(faster) = news.next_if(|new| new.high < cell.low) {
            passed += faster.events + faster.censored;
        }
        let equal = news.next_if(|new| new.low == cell.low).map_or(0, |equal| equal.events + equal.censored);
        sum += count * ((new.samples() - passed) as f64 - equal as f64 / 2.0);
        passed += equal;
    }
    sum / (old.samples() as f64 * new.samples() as f64)
}

/// Returns the greatest difference of the shares still waiting (Kolmogorov and Smirnov).
fn distance(old: &Latencies, new: &Latencies) -> f64 {
    let ends = |latencies: &Latencies| latencies.cells().iter().map(|cell| cell.high).collect::<Vec<_>>();
    let all: BTreeSet<Duration> = ends(old).into_iter().chain(ends(new)).collect();
    let (mut olds, mut news) = (Survival::of(old).peekable(), Survival::of(new).peekable());
    let (mut one, mut other, mut greatest) = (1.0, 1.0, 0.0f64);
    for end in all {
        if let Some(step) = olds.next_if(|step| step.cell.high <= end) {
            one = step.share();
        }
        if let Some(step) = news.next_if(|step| step.cell.high <= end) {
            other = step.share();
        }
        greatest = greatest.max(f64::abs(one - other));
    }
    greatest
}

/// Why two sets of samples cannot be compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoComparison {
    /// One has fewer than [`LEAST_EVENTS`] answers.
    FewEvents {
        /// How many it has.
        events: u64,
    },
    /// They were counted in different ways.
    Mixed(NotLatencies),
    /// Of the old ones neither number nor percentiles are known.
    NotMeasured,
}

impl fmt::Display for NoComparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NoComparison::FewEvents { events } => {
                write!(f, "{events} answers are too few to compare: {LEAST_EVENTS} are the least")
            }
            NoComparison::Mixed(why) => write!(f, "the samples cannot be compared: {why}"),
            NoComparison::NotMeasured => f.write_str("samples, p95 and p99 of what was measured before are not known"),
        }
    }
}

impl std::error::Error for NoComparison {}

#[cfg(test)]
mod tests {
    use super::super::latencies::Sample;
    use super::*;
    use proptest::prelude::*;

    const ONE_PERCENT: Share = Share::P99.complement();

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn events(ms: impl IntoIterator<Item = u64>) -> Latencies {
        let samples = ms.into_iter().map(|ms| Sample::Event(Duration::from_millis(ms)));
        Latencies::from_samples(samples).expect("few samples")
    }

    fn drift(old: &Latencies, new: &Latencies) -> Drift {
        Drift::new(old, new, ms(2_000), ONE_PERCENT).expect("a comparison")
    }

    fn close(one: f64, other: f64) {
        assert!((one - other).abs() < 1e-9, "{one} is not {other}");
    }

    #[test]
    fn v12_and_v13_more_of_a_tail_than_chance_explains() {
        let old = Rate { hits: 10, of: 1_000 };
        close(old.lower(EACH_END), 0.004_805_510_691_049_309);
        close(old.upper(EACH_END), 0.018_313_243_055_112_45);
        let v12 = Rate { hits: 18, of: 500 };
        close(more_by_chance(old, v12), 0.000_702_820_765_884_618);
        close(v12.lower(EACH_END), 0.021_472_856_586_093_284);
        close(v12.upper(EACH_END), 0.056_300_176_201_791_07);
        let v13 = Rate { hits: 8, of: 500 };
        close(more_by_chance(old, v13), 0.222_016_350_974_832_83);
        close(v13.lower(EACH_END), 0.006_932_321_202_483_6);
        close(v13.upper(EACH_END), 0.031_282_001_689_853_08);
    }

    /// So many samples of which the last `above` take 3 s, the others 0.1 s to just above 1 s.
    fn with_tail(samples: u64, above: u64) -> Latencies {
        events((0..samples - above).map(|i| 100 + i * 1_000 / samples).chain((0..above).map(|_| 3_000)))
    }

    #[test]
    fn v12_a_limit_that_became_too_tight_is_an_alarm() {
        let found = drift(&with_tail(1_000, 10), &with_tail(500, 18));
        assert_eq!((found.above_read, found.fit), (Rate { hits: 18, of: 500 }, Fit::TooTight));
        assert!(found.is_alarm(), "{found:?}");
        let (lower, upper) = found.above_read_within();
        close(lower, 0.021_472_856_586_093_284);
        close(upper, 0.056_300_176_201_791_07);
    }

    #[test]
    fn v13_a_little_more_is_none() {
        let found = drift(&with_tail(1_000, 10), &with_tail(500, 8));
        assert_eq!(found.fit, Fit::Fits);
        assert!(!found.is_alarm(), "{found:?}");
    }

    #[test]
    fn the_same_samples_have_not_drifted() {
        let same = events((0..1_000).map(|i| 100 + i));
        let found = drift(&same, &same);
        close(found.slower.expect("both are known"), 0.5);
        close(found.distance.expect("both are known"), 0.0);
        assert_eq!((found.ratio, found.is_alarm()), (Some(1.0), false));
        assert_eq!(found.fit, Fit::Fits, "half of 2 s would cut the slowest tenth");
    }

    #[test]
    fn a_sure_shift_without_size_is_no_alarm_and_with_size_it_is() {
        let old = events((0..1_000).map(|i| 500 + i / 2));
        let shifted = drift(&old, &events((0..1_000).map(|i| 600 + i / 2)));
        assert!(shifted.tails.iter().all(|tail| tail.likelihood < 1e-6), "{shifted:?}");
        assert_eq!((shifted.fit, shifted.is_alarm()), (Fit::Fits, false));
        let slower = drift(&old, &events((0..1_000).map(|i| 900 + i / 2)));
        assert!(slower.is_alarm(), "{slower:?}");
        let faster = drift(&old, &events((0..1_000).map(|i| 100 + i / 2)));
        assert_eq!((faster.fit, faster.is_alarm()), (Fit::CouldBeHalved, false), "faster is no alarm");
        close(
            slower.slower.expect("both are known")
                + drift(&events((0..1_000).map(|i| 900 + i / 2)), &old).slower.expect("both are known"),
            1.0,
        );
        close(
            faster.slower.expect("both are known"),
            1.0 - drift(&events((0..1_000).map(|i| 100 + i / 2)), &old).slower.expect("both are known"),
        );
    }

    #[test]
    fn a_partner_that_always_takes_the_same_long_time_now_is_an_alarm() {
        let old = events((0..40).map(|i| 100 + i));
        let found = drift(&old, &events((0..40).map(|_| 1_900)));
        assert_eq!((found.tails[0].old, found.tails[0].new), (Rate { hits: 0, of: 40 }, Rate { hits: 40, of: 40 }));
        assert!(found.is_alarm(), "{found:?}");
        let same = events((0..40).map(|_| 200));
        assert!(!drift(&same, &same).is_alarm());
    }

    #[test]
    fn time_outs_that_hide_the_new_p95_are_an_alarm() {
        let fast = (0..900).map(|i| Sample::Event(ms(100 + i)));
        let new = Latencies::from_samples(fast.chain((0..100).map(|_| Sample::Censored(ms(60_000))))).expect("few");
        let found = drift(&events((0..1_000).map(|i| 100 + i)), &new);
        assert_eq!((found.ratio, found.fit), (Some(f64::INFINITY), Fit::TooTight));
        assert!(found.is_alarm());
    }

    #[test]
    fn looking_twice_is_paid_for() {
        let nothing = Rate { hits: 0, of: 0 };
        let tail = |likelihood| Tail { percentile: Share::P95, value: ms(1), old: nothing, new: nothing, likelihood };
        let mut tails = [tail(0.009), tail(0.004)];
        correct(&mut tails);
        assert_eq!(tails.map(|tail| tail.likelihood), [0.009, 0.008]);
        let mut tails = [tail(0.006), tail(0.007)];
        correct(&mut tails);
        assert_eq!(tails.map(|tail| tail.likelihood), [0.012, 0.012], "never less than a surer one");
    }

    #[test]
    fn what_cannot_be_compared_says_why() {
        let (some, few) = (events(100..200), events(100..119));
        let why =
            |old: &Latencies, new: &Latencies| Drift::new(old, new, ms(1), ONE_PERCENT).expect_err("none").to_string();
        assert_eq!(why(&some, &few), "19 answers are too few to compare: 20 are the least");
        let cell = super::super::latencies::Cell { low: ms(100), high: ms(150), events: 30, censored: 0 };
        let coarse = Latencies::from_cells(vec![cell], Some((ms(100), ms(150)))).expect("a cell");
        let mixed = "the samples cannot be compared: the histograms have different units, precision or bounds";
        assert_eq!(why(&some, &coarse), mixed);
    }

    proptest! {
        #[test]
        fn comparing_is_counting_pairs(
            olds in proptest::collection::vec(1..60u64, 20..60), news in proptest::collection::vec(1..60u64, 20..60),
        ) {
            let found = drift(&events(olds.clone()), &events(news.clone()));
            let pair = |old: &u64, new: &u64| if new > old { 1.0 } else if new == old { 0.5 } else { 0.0 };
            let pairs: f64 = olds.iter().flat_map(|old| news.iter().map(move |new| pair(old, new))).sum();
            prop_assert!((found.slower.expect("both are known") - pairs / (olds.len() * news.len()) as f64).abs() < 1e-12);
            let share = |of: &[u64], limit: u64| of.iter().filter(|ms| **ms > limit).count() as f64 / of.len() as f64;
            let apart = (0..60).map(|limit| f64::abs(share(&olds, limit) - share(&news, limit))).fold(0.0, f64::max);
            prop_assert!((found.distance.expect("both are known") - apart).abs() < 1e-12);
        }
    }
}
