//! One rule for every percentile and its bounds, with and without samples that were given up.

use super::latencies::{Cell, Latencies};
use super::ranks::Ranks;
use super::share::Share;
use super::survival::Survival;
use std::time::Duration;

/// A percentile, and how far it can be trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Estimate {
    /// The percentile.
    pub percentile: Share,
    /// The latency that was seen for it.
    pub value: Duration,
    /// How many uncensored samples the evidence is worth: at most the minutes that samples fell in.
    pub effective: u64,
    /// The ranks of the bounds among [`Estimate::effective`] samples.
    pub ranks: Ranks,
    /// The one-sided upper bound; `None`: the data cannot carry one.
    pub bound: Option<Duration>,
    /// The lower end of the two-sided interval; `None`: the data cannot carry one.
    pub lower: Option<Duration>,
    /// The upper end of the two-sided interval; `None`: the data cannot carry one.
    pub higher: Option<Duration>,
}

/// A percentile that the samples do not reach: too many were given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotIdentified {
    /// The percentile.
    pub percentile: Share,
    /// It is longer than this, the longest that was waited; zero where there is no sample.
    pub above: Duration,
}

impl Latencies {
    /// Returns a percentile with its bounds.
    ///
    /// The value and the upper ends are the upper edges of their cells, the lower end is a lower edge; none is outside
    /// the exact extremes. `minutes` is the number of distinct minutes that samples fell in: requests in one minute
    /// share the partner's fate and count once for the bounds. `confidence` holds for the one-sided bound, and for the
    /// interval as a whole. Without censored samples the value is the sample of rank [`Share::rank`].
    ///
    /// # Errors
    /// [`NotIdentified`] where the percentile lies beyond the samples that were given up, and where there is none.
    ///
    /// Source: latency.md 3.4 and 3.5 (Kaplan and Meier, Peto's effective number, exact binomial ranks).
    pub fn percentile(&self, percentile: Share, minutes: u64, confidence: Share) -> Result<Estimate, NotIdentified> {
        let reached = Survival::of(self).find(|step| step.cell.events > 0 && step.reaches(percentile));
        let Some(step) = reached else { return Err(NotIdentified { percentile, above: self.longest_wait() }) };
        let effective = step.effective().min(minutes);
        let ranks = Ranks::new(effective, percentile, confidence);
        let cell = |rank: Option<u64>| rank.and_then(|rank| self.ranked(rank, effective));
        let value = self.upper_edge(step.cell);
        Ok(Estimate {
            percentile,
            value,
            effective,
            ranks,
            bound: cell(ranks.bound).map(|cell| self.upper_edge(cell)),
            // A rank beyond the value neither makes the lower end later nor takes it away.
            lower: ranks.lower.map(|_| {
                let own = self.lower_edge(step.cell);
                cell(ranks.lower).map_or(own, |cell| own.min(self.lower_edge(cell)))
            }),
            higher: cell(ranks.higher).map(|cell| self.upper_edge(cell)),
        })
    }

    /// Returns a percentile without its bounds.
    ///
    /// # Errors
    /// As [`Latencies::percentile`].
    pub fn value(&self, percentile: Share) -> Result<Duration, NotIdentified> {
        self.percentile(percentile, 0, Share::CONFIDENCE).map(|estimate| estimate.value)
    }

    /// Returns the share of operations that would wait longer than `limit`, by the product-limit estimate; 1 where
    /// there is no sample.
    ///
    /// Source: latency.md 3.9.
    pub fn waiting_after(&self, limit: Duration) -> f64 {
        Survival::at(self, limit)
    }

    /// Returns the cell of the sample of `rank` among `of`; `None` where too many were given up before.
    fn ranked(&self, rank: u64, of: u64) -> Option<&Cell> {
        let mut steps = Survival::of(self);
        steps.find(|step| step.cell.events > 0 && step.reaches_rank(rank, of)).map(|step| step.cell)
    }

    fn upper_edge(&self, cell: &Cell) -> Duration {
        self.slowest().map_or(cell.high, |most| most.min(cell.high))
    }

    fn lower_edge(&self, cell: &Cell) -> Duration {
        self.fastest().map_or(cell.low, |least| least.max(cell.low))
    }
}

#[cfg(test)]
mod tests;
