//! Latencies of one kind, counted with three significant digits.

use crate::engine::suggest::latencies::{Cell, Latencies, NotLatencies, Sample};
use hdrhistogram::Histogram;
use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

/// Latencies below are told apart no further, in nanoseconds.
///
/// Source: latency.md 3.3.
const SHORTEST_NS: u64 = 1_000;
/// The longest latency that is counted, in nanoseconds.
const LONGEST_NS: u64 = 3_600_000_000_000;
/// The longest latency that is counted: a longer wait counts as given up then.
///
/// Source: latency.md 3.3.
pub const LONGEST: Duration = Duration::from_nanos(LONGEST_NS);
/// The significant digits of a latency. The bounds and the digits never change: files of all times can be added up.
///
/// Source: latency.md 3.3.
pub(super) const DIGITS: u8 = 3;

/// Latencies counted in bins of at most a thousandth of their value. Takes 200 kB however many there are.
#[derive(Clone, Debug, PartialEq)]
pub struct Counted {
    pub(super) histogram: Histogram<u64>,
}

/// The samples between two latencies that are not told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bin {
    /// The shortest latency that counts here.
    pub low: Duration,
    /// The longest latency that counts here.
    pub high: Duration,
    /// How many there are; above zero.
    pub count: u64,
}

/// A latency above [`LONGEST`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooLong;

impl fmt::Display for TooLong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a latency is longer than {}s", LONGEST.as_secs())
    }
}

impl std::error::Error for TooLong {}

impl Default for Counted {
    fn default() -> Counted {
        let histogram = Histogram::new_with_bounds(SHORTEST_NS, LONGEST_NS, DIGITS);
        Counted { histogram: histogram.expect("the bounds are a thousandfold and more apart, the digits at most 5") }
    }
}

impl Counted {
    /// Counts a latency.
    ///
    /// # Errors
    /// [`TooLong`]; it is not counted then, never as a shorter one.
    ///
    /// Source: decisions 31.
    pub fn record(&mut self, latency: Duration) -> Result<(), TooLong> {
        if latency > LONGEST {
            return Err(TooLong);
        }
        let nanos = u64::try_from(latency.as_nanos()).map_err(|_| TooLong)?;
        self.histogram.record(nanos).map_err(|_| TooLong)
    }

    /// Counts the samples of bins that were written by one like this.
    ///
    /// # Errors
    /// [`NotLatencies::Disorder`] where a bin is none of this; those before it are counted then.
    fn restore(&mut self, bins: &[Bin]) -> Result<(), NotLatencies> {
        for bin in bins {
            let nanos = u64::try_from(bin.high.as_nanos()).map_err(|_| NotLatencies::Disorder)?;
            let edges = (self.histogram.lowest_equivalent(nanos), self.histogram.highest_equivalent(nanos));
            if edges.0 != u64::try_from(bin.low.as_nanos()).unwrap_or(u64::MAX) || edges.1 != nanos {
                return Err(NotLatencies::Disorder);
            }
            self.histogram.record_n(nanos, bin.count).map_err(|_| NotLatencies::Disorder)?;
        }
        Ok(())
    }

    /// Adds what another counted.
    pub fn add(&mut self, other: &Counted) {
        self.histogram.add(&other.histogram).expect("all have the same bounds and digits");
    }

    /// Returns how many were counted.
    pub fn samples(&self) -> u64 {
        self.histogram.len()
    }

    /// Returns the bins that hold samples, in order.
    pub fn bins(&self) -> impl Iterator<Item = Bin> + '_ {
        self.histogram.iter_recorded().map(|at| Bin {
            low: Duration::from_nanos(self.histogram.lowest_equivalent(at.value_iterated_to())),
            high: Duration::from_nanos(self.histogram.highest_equivalent(at.value_iterated_to())),
            count: at.count_at_value(),
        })
    }
}

/// What was measured of one stage: answers and samples that were given up, with the exact extremes of the answers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StageCounts {
    events: Counted,
    censored: Counted,
    extremes: Option<(Duration, Duration)>,
}

impl StageCounts {
    /// Counts a sample. What took longer than [`LONGEST`] counts as given up then.
    ///
    /// Source: latency.md 3.1.
    pub fn record(&mut self, sample: Sample) {
        match sample {
            Sample::Event(after) if self.events.record(after).is_ok() => {
                let (least, most) = self.extremes.unwrap_or((after, after));
                self.extremes = Some((least.min(after), most.max(after)));
            }
            Sample::Event(after) | Sample::Censored(after) => {
                self.censored.record(after.min(LONGEST)).expect("it is not longer than the longest");
            }
        }
    }

    /// Adds what another counted.
    pub fn add(&mut self, other: &StageCounts) {
        self.extremes = match (self.extremes(), other.extremes()) {
            (Some((a, b)), Some((c, d))) => Some((a.min(c), b.max(d))),
            (one, other) => one.or(other),
        };
        self.events.add(&other.events);
        self.censored.add(&other.censored);
    }

    /// Counts the samples of bins that were written before.
    ///
    /// # Errors
    /// [`NotLatencies::Disorder`] where they were counted in another way.
    pub(super) fn restore(&mut self, bins: &[Bin], censored: bool) -> Result<(), NotLatencies> {
        if censored { self.censored.restore(bins) } else { self.events.restore(bins) }
    }

    /// Takes it that answers as short and as long as `extremes` are among those that were restored. What does not lie in
    /// their first and last bin is not believed: where these are all that is known, their edges stand for the extremes.
    pub(super) fn widen(&mut self, extremes: (Duration, Duration)) {
        let (least, most) = self.extremes.unwrap_or(extremes);
        self.extremes = Some((least.min(extremes.0), most.max(extremes.1)));
    }

    /// Returns the exact shortest and longest answer.
    pub fn extremes(&self) -> Option<(Duration, Duration)> {
        let mut bins = self.events.bins();
        let first = bins.next()?;
        let last = bins.last().unwrap_or(first);
        let holds = |bin: Bin, latency: Duration| (bin.low..=bin.high).contains(&latency);
        let known = self.extremes.filter(|(least, most)| holds(first, *least) && holds(last, *most));
        Some(known.unwrap_or((first.low, last.high)))
    }

    /// Returns the answers.
    pub fn events(&self) -> &Counted {
        &self.events
    }

    /// Returns the samples that were given up, by the time they had waited.
    pub fn censored(&self) -> &Counted {
        &self.censored
    }

    /// Returns what suggestions are made from.
    ///
    /// # Errors
    /// [`NotLatencies::TooMany`].
    pub fn latencies(&self) -> Result<Latencies, NotLatencies> {
        latencies(self.events.bins(), self.censored.bins(), self.extremes())
    }
}

/// Returns what suggestions are made from, of bins in any order, those of several files too.
///
/// `extremes` are the exact shortest and longest answer; where they are unknown the edges of their bins stand for them.
///
/// # Errors
/// [`NotLatencies::Disorder`] where bins overlap without being the same: they come from histograms of different units,
/// precision or bounds. [`NotLatencies::TooMany`], [`NotLatencies::Extremes`].
pub fn latencies(
    events: impl IntoIterator<Item = Bin>,
    censored: impl IntoIterator<Item = Bin>,
    extremes: Option<(Duration, Duration)>,
) -> Result<Latencies, NotLatencies> {
    let mut cells = BTreeMap::<(Duration, Duration), (u64, u64)>::new();
    for bin in events {
        let count = &mut cells.entry((bin.low, bin.high)).or_default().0;
        *count = count.saturating_add(bin.count);
    }
    for bin in censored {
        let count = &mut cells.entry((bin.low, bin.high)).or_default().1;
        *count = count.saturating_add(bin.count);
    }
    let mut with_events = cells.iter().filter(|(_, (events, _))| *events > 0).map(|(edges, _)| *edges);
    let first = with_events.next();
    let edges = first.map(|first| (first.0, with_events.next_back().unwrap_or(first).1));
    let cell = |((low, high), (events, censored))| Cell { low, high, events, censored };
    Latencies::from_cells(cells.into_iter().map(cell).collect(), extremes.or(edges))
}

/// Returns exact samples as they would have been counted, so that they can be put beside counted ones; `None` where they
/// are not exact.
///
/// # Errors
/// [`NotLatencies::TooMany`].
pub fn counted(exact: &Latencies) -> Option<Result<Latencies, NotLatencies>> {
    let mut counts = StageCounts::default();
    for Cell { low, high, events, censored } in exact.cells() {
        if low != high {
            return None;
        }
        (0..*events).for_each(|_| counts.record(Sample::Event(*low)));
        (0..*censored).for_each(|_| counts.record(Sample::Censored(*low)));
    }
    Some(counts.latencies())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::suggest::share::Share;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn nanos(nanos: u64) -> Duration {
        Duration::from_nanos(nanos)
    }

    #[test]
    fn percentiles_are_upper_edges_of_bins_and_extremes_are_exact() {
        let mut counts = StageCounts::default();
        (1..=1_000).for_each(|i| counts.record(Sample::Event(ms(i))));
        let found = counts.latencies().expect("few samples");
        assert_eq!((found.events(), found.fastest(), found.slowest()), (1_000, Some(ms(1)), Some(ms(1_000))));
        let p99 = found.percentile(Share::P99, 1_000, Share::CONFIDENCE).expect("identified");
        assert!((ms(990)..ms(991)).contains(&p99.value), "{p99:?}");
        assert!(p99.bound.is_some_and(|bound| (ms(996)..ms(997)).contains(&bound)), "{p99:?}");
        assert!(p99.lower.is_some_and(|lower| (ms(982)..=ms(983)).contains(&lower)), "{p99:?}");
        assert_eq!(found.value(Share::from_millionths(999_999).expect("a share")), Ok(ms(1_000)));
    }

    #[test]
    fn exact_samples_can_be_put_beside_counted_ones() {
        let samples = || (1..=300).map(|n| Sample::Event(ms(n))).chain([Sample::Censored(ms(5_000))]);
        let exact = Latencies::from_samples(samples()).expect("few samples");
        let mut counts = StageCounts::default();
        samples().for_each(|sample| counts.record(sample));
        let binned = counts.latencies().expect("few samples");
        assert_eq!(counted(&exact), Some(Ok(binned.clone())));
        assert_eq!(counted(&binned), None);
        assert!(
            exact.merged(&binned).is_err() && counted(&exact).expect("exact").expect("few").merged(&binned).is_ok()
        );
    }

    #[test]
    fn bins_are_as_fine_as_they_are_said_to_be() {
        let mut counted = Counted::default();
        counted.record(ms(200)).expect("short enough");
        let expected = Bin { low: nanos(199_884_800), high: nanos(200_015_871), count: 1 };
        assert_eq!(counted.bins().collect::<Vec<_>>(), [expected]);
        assert_eq!(counted.histogram.distinct_values(), 24_576);
    }

    #[test]
    fn what_took_too_long_counts_as_given_up_and_never_as_shorter() {
        let mut counts = StageCounts::default();
        counts.record(Sample::Event(LONGEST));
        counts.record(Sample::Event(LONGEST + nanos(1)));
        counts.record(Sample::Event(Duration::MAX));
        counts.record(Sample::Censored(Duration::MAX));
        counts.record(Sample::Event(Duration::ZERO));
        let found = counts.latencies().expect("few samples");
        assert_eq!((found.events(), found.censored()), (2, 3));
        assert_eq!((found.fastest(), found.slowest()), (Some(Duration::ZERO), Some(LONGEST)));
        assert_eq!(Counted::default().record(LONGEST + nanos(1)), Err(TooLong));
    }

    #[test]
    fn v20_hours_add_up_to_the_sum_of_their_bins() {
        let hour = |n: u64| {
            let mut counts = StageCounts::default();
            (1..=n).for_each(|i| counts.record(Sample::Event(ms(i))));
            counts
        };
        let hours = [hour(100), hour(200), hour(300)];
        let p99s = [99_020_000, 198_050_000, 297_010_000];
        let mut sum = StageCounts::default();
        for (hour, p99) in hours.iter().zip(p99s) {
            let found = hour.latencies().expect("few samples").value(Share::P99).expect("identified");
            assert!(found.abs_diff(nanos(p99)) < nanos(5_000), "{found:?}");
            sum.add(hour);
        }
        let merged = sum.latencies().expect("few samples");
        assert_eq!(merged.samples(), 600);
        assert!((ms(294)..nanos(294_300_000)).contains(&merged.value(Share::P99).expect("identified")));
        let one_by_one = hours[1..].iter().fold(hours[0].latencies(), |sum, hour| sum?.merged(&hour.latencies()?));
        assert_eq!(one_by_one, Ok(merged));
    }

    #[test]
    fn unknown_extremes_are_the_edges_of_their_bins() {
        let bin = |low: u64, high: u64| Bin { low: ms(low), high: ms(high), count: 2 };
        let found = latencies([bin(5, 6), bin(1, 2)], [bin(9, 10)], None).expect("bins");
        assert_eq!((found.fastest(), found.slowest(), found.longest_wait()), (Some(ms(1)), Some(ms(6)), ms(10)));
        assert_eq!(latencies([bin(5, 6), bin(6, 7)], [], None), Err(NotLatencies::Disorder));
        assert_eq!(latencies([], [bin(5, 6)], None).map(|none| none.slowest()), Ok(None));
    }
}
