//! The share that is still waiting, by the product-limit estimate of Kaplan and Meier.

use super::latencies::{Cell, Latencies};
use super::share::Share;
use std::time::Duration;

/// What a share may miss its mark by, for rounding.
///
/// Source: latency.md 3.4 and V10, where 0.0100000 is 1 %.
const TOLERANCE: f64 = 1e-9;
/// What a number of samples may miss the whole number by, for rounding.
///
/// Source: latency.md 3.4.
const WHOLE: f64 = 1e-6;

/// Walks the cells in order. Between two cells with censored samples the product is a mere quotient, so that without
/// any it is a fraction of whole numbers.
pub(super) struct Survival<'a> {
    cells: std::slice::Iter<'a, Cell>,
    all: u64,
    /// The samples not yet passed.
    at: u64,
    /// Those after the last cell with censored samples, the estimate there, and Greenwood's sum there.
    since: (u64, f64, f64),
}

/// The estimate behind the events of one cell.
pub(super) struct Step<'a> {
    pub(super) cell: &'a Cell,
    all: u64,
    /// The samples not yet passed, those censored in this cell included.
    left: u64,
    since: (u64, f64, f64),
}

impl<'a> Survival<'a> {
    pub(super) fn of(latencies: &'a Latencies) -> Survival<'a> {
        let all = latencies.samples();
        Survival { cells: latencies.cells().iter(), all, at: all, since: (all, 1.0, 0.0) }
    }

    /// Returns the share that waits longer than `limit`: 1 where there is no sample.
    pub(super) fn at(latencies: &Latencies, limit: Duration) -> f64 {
        let passed = |step: &Step<'_>| step.cell.high <= limit || latencies.slowest().is_none_or(|most| most <= limit);
        Survival::of(latencies).take_while(passed).last().map_or(1.0, |step| step.share())
    }
}

impl<'a> Iterator for Survival<'a> {
    type Item = Step<'a>;

    /// Events come before what is censored in the same cell.
    fn next(&mut self) -> Option<Step<'a>> {
        let cell = self.cells.next()?;
        let step = Step { cell, all: self.all, left: self.at - cell.events, since: self.since };
        self.at = step.left - cell.censored;
        if cell.censored > 0 {
            self.since = (self.at, step.share(), step.greenwood());
        }
        Some(step)
    }
}

impl Step<'_> {
    /// Returns the share that is still waiting.
    pub(super) fn share(&self) -> f64 {
        let (start, base, _) = self.since;
        base * (self.left as f64 / start as f64)
    }

    /// Returns Greenwood's sum; only where some are left.
    fn greenwood(&self) -> f64 {
        let (start, _, sum) = self.since;
        sum + (1.0 / self.left as f64 - 1.0 / start as f64)
    }

    /// Nothing was censored before this cell: the estimate is a fraction.
    fn is_fraction(&self) -> bool {
        self.since.0 == self.all
    }

    /// Tells whether the percentile is reached.
    pub(super) fn reaches(&self, percentile: Share) -> bool {
        if self.is_fraction() {
            percentile.reached(self.left, self.all)
        } else {
            self.share() <= percentile.complement().as_f64() + TOLERANCE
        }
    }

    /// Tells whether the sample of `rank` among `of` is reached; `rank` is at most `of`.
    pub(super) fn reaches_rank(&self, rank: u64, of: u64) -> bool {
        let missing = of - rank;
        if self.is_fraction() {
            u128::from(self.left) * u128::from(of) <= u128::from(missing) * u128::from(self.all)
        } else {
            self.share() <= missing as f64 / of as f64 + TOLERANCE
        }
    }

    /// Returns how many uncensored samples would say as much (Peto): all where nothing was censored before. At least one
    /// event must have been passed.
    ///
    /// Source: latency.md 3.4. Written so that it holds where none are left.
    pub(super) fn effective(&self) -> u64 {
        if self.is_fraction() {
            return self.all;
        }
        let (start, base, sum) = self.since;
        let (start, left) = (start as f64, self.left as f64);
        // The share times Greenwood's sum.
        let spread = base / start * (left * (sum - 1.0 / start) + 1.0);
        ((1.0 - self.share()) / spread + WHOLE).floor() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::super::latencies::Sample;
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn v9_the_textbook_example() {
        let at = |tenths: u64| Duration::from_millis(100 * tenths);
        let events = [10, 20, 30, 40, 60, 80].map(|tenths| Sample::Event(at(tenths)));
        let censored = [25, 50, 70, 90].map(|tenths| Sample::Censored(at(tenths)));
        let latencies = Latencies::from_samples(events.into_iter().chain(censored)).expect("latencies");
        let shares = [
            (0, 1.0),
            (10, 0.9),
            (20, 0.8),
            (25, 0.8),
            (30, 0.685_714_285_714_285_5),
            (40, 0.571_428_571_428_571_2),
            (50, 0.571_428_571_428_571_2),
            (60, 0.428_571_428_571_428_4),
            (70, 0.428_571_428_571_428_4),
            (80, 0.214_285_714_285_714_2),
            (90, 0.214_285_714_285_714_2),
        ];
        for (tenths, share) in shares {
            assert!((Survival::at(&latencies, at(tenths)) - share).abs() < 1e-15, "{tenths}");
        }
        let median = Survival::of(&latencies).find(|step| step.reaches(Share::P50)).map(|step| step.cell.high);
        assert_eq!(median, Some(at(60)));
    }

    /// The product and the sum as the textbook writes them, cell by cell.
    fn by_the_book(latencies: &Latencies) -> Vec<(f64, f64)> {
        let (mut at, mut share, mut sum) = (latencies.samples() as f64, 1.0, 0.0);
        let book = latencies.cells().iter().map(|cell| {
            let events = cell.events as f64;
            share *= 1.0 - events / at;
            sum += events / (at * (at - events));
            at -= events + cell.censored as f64;
            (share, sum)
        });
        book.collect()
    }

    proptest! {
        #[test]
        fn the_shortcut_is_the_product(samples in proptest::collection::vec((0..40u64, any::<bool>()), 1..200)) {
            let sample = |(ms, censored)| {
                let after = Duration::from_millis(ms);
                if censored { Sample::Censored(after) } else { Sample::Event(after) }
            };
            let latencies = Latencies::from_samples(samples.into_iter().map(sample)).expect("latencies");
            for (step, (share, sum)) in Survival::of(&latencies).zip(by_the_book(&latencies)) {
                prop_assert!((step.share() - share).abs() < 1e-12);
                if share > 1e-9 && share < 1.0 {
                    let effective = ((1.0 - share) / (share * sum) + WHOLE).floor() as u64;
                    prop_assert_eq!(step.effective(), effective);
                }
                if share < 1.0 {
                    prop_assert!((1..=latencies.samples()).contains(&step.effective()));
                }
            }
        }

        #[test]
        fn without_censoring_it_is_the_share_of_slower_samples(
            samples in proptest::collection::vec(0..40u64, 1..200), limit in 0..41u64,
        ) {
            let events = samples.iter().map(|ms| Sample::Event(Duration::from_millis(*ms)));
            let latencies = Latencies::from_samples(events).expect("latencies");
            let slower = samples.iter().filter(|ms| **ms > limit).count() as f64 / samples.len() as f64;
            prop_assert_eq!(Survival::at(&latencies, Duration::from_millis(limit)), slower);
        }
    }
}
