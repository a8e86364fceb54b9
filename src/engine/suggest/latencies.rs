//! What was measured of one stage: counts over latencies, so that a histogram feeds it without keeping samples.

use super::distribution::MOST_SAMPLES;
use super::ranks::Rate;
use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

/// The samples between two latencies that are not told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cell {
    /// The shortest latency that counts here.
    pub low: Duration,
    /// The longest latency that counts here; at least `low`.
    pub high: Duration,
    /// The answers that came.
    pub events: u64,
    /// The samples that were given up here, by a time-out or a person: the answer would have taken longer.
    pub censored: u64,
}

/// One sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sample {
    /// The answer came after so long.
    Event(Duration),
    /// The sample was given up after so long.
    Censored(Duration),
}

/// The samples of one stage, in order of latency. They were at most [`MOST_SAMPLES`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Latencies {
    /// In order and apart, each with a sample in it.
    cells: Vec<Cell>,
    events: u64,
    censored: u64,
    /// The exact least and greatest latency of an answer.
    extremes: Option<(Duration, Duration)>,
}

impl Latencies {
    /// Returns the samples that the cells of a histogram count.
    ///
    /// `extremes` are the exact shortest and longest latency of the events, which the cells only hold roughly; `None`
    /// where there was no event. Cells without samples are left out.
    ///
    /// # Errors
    /// [`NotLatencies`] where cells are out of order or overlap, count too many samples, or do not hold the extremes.
    ///
    /// Source: decisions 31.
    pub fn from_cells(cells: Vec<Cell>, extremes: Option<(Duration, Duration)>) -> Result<Latencies, NotLatencies> {
        let cells: Vec<Cell> = cells.into_iter().filter(|cell| cell.events > 0 || cell.censored > 0).collect();
        let ordered = cells.iter().all(|cell| cell.low <= cell.high) && apart(&cells);
        if !ordered {
            return Err(NotLatencies::Disorder);
        }
        let count = |of: fn(&Cell) -> u64| cells.iter().fold(0, |sum: u64, cell| sum.saturating_add(of(cell)));
        let (events, censored) = (count(|cell| cell.events), count(|cell| cell.censored));
        if events.saturating_add(censored) > MOST_SAMPLES {
            return Err(NotLatencies::TooMany);
        }
        let with_events = || cells.iter().filter(|cell| cell.events > 0);
        let holds = |cell: &Cell, latency: Duration| (cell.low..=cell.high).contains(&latency);
        let held = match (extremes, with_events().next(), with_events().next_back()) {
            (None, None, None) => true,
            (Some((least, most)), Some(first), Some(last)) => least <= most && holds(first, least) && holds(last, most),
            _ => false,
        };
        if held { Ok(Latencies { cells, events, censored, extremes }) } else { Err(NotLatencies::Extremes) }
    }

    /// Returns the samples, each with its exact latency.
    ///
    /// # Errors
    /// [`NotLatencies::TooMany`].
    pub fn from_samples(samples: impl IntoIterator<Item = Sample>) -> Result<Latencies, NotLatencies> {
        let mut counts = BTreeMap::<Duration, (u64, u64)>::new();
        for sample in samples {
            match sample {
                Sample::Event(after) => counts.entry(after).or_default().0 += 1,
                Sample::Censored(after) => counts.entry(after).or_default().1 += 1,
            }
        }
        let mut with_events = counts.iter().filter(|(_, (events, _))| *events > 0).map(|(after, _)| *after);
        let least = with_events.next();
        let extremes = least.map(|least| (least, with_events.next_back().unwrap_or(least)));
        let cell = |(at, (events, censored))| Cell { low: at, high: at, events, censored };
        Latencies::from_cells(counts.into_iter().map(cell).collect(), extremes)
    }

    /// Returns the samples of both.
    ///
    /// # Errors
    /// [`NotLatencies::Disorder`] where the cells of the two overlap without being the same: they were counted with
    /// different precision or bounds. [`NotLatencies::TooMany`].
    ///
    /// Source: latency.md 3.7.
    pub fn merged(&self, other: &Latencies) -> Result<Latencies, NotLatencies> {
        let mut cells = BTreeMap::<(Duration, Duration), Cell>::new();
        for cell in self.cells.iter().chain(&other.cells) {
            let sum = cells.entry((cell.low, cell.high)).or_insert(Cell { events: 0, censored: 0, ..*cell });
            sum.events += cell.events;
            sum.censored += cell.censored;
        }
        let extremes = match (self.extremes, other.extremes) {
            (Some((a, b)), Some((c, d))) => Some((a.min(c), b.max(d))),
            (one, other) => one.or(other),
        };
        Latencies::from_cells(cells.into_values().collect(), extremes)
    }

    /// Returns the cells that hold samples, in order.
    pub fn cells(&self) -> &[Cell] {
        &self.cells
    }

    /// Returns how many answers came.
    pub fn events(&self) -> u64 {
        self.events
    }

    /// Returns how many samples were given up.
    pub fn censored(&self) -> u64 {
        self.censored
    }

    /// Returns the number of samples, given up or not.
    pub fn samples(&self) -> u64 {
        self.events + self.censored
    }

    /// Returns the exact shortest latency of an answer.
    pub fn fastest(&self) -> Option<Duration> {
        self.extremes.map(|(least, _)| least)
    }

    /// Returns the exact longest latency of an answer.
    pub fn slowest(&self) -> Option<Duration> {
        self.extremes.map(|(_, most)| most)
    }

    /// Returns the longest that was waited, for an answer or in vain; zero where there is no sample.
    pub fn longest_wait(&self) -> Duration {
        match self.cells.last() {
            Some(last) if last.censored == 0 => self.slowest().unwrap_or(last.high),
            Some(last) => last.high,
            None => Duration::ZERO,
        }
    }

    /// Returns how many samples took longer than `limit`, of those where that is known: those that were given up before
    /// are left out. A cell that holds `limit` counts as longer.
    pub fn above(&self, limit: Duration) -> Rate {
        let (mut hits, mut of) = (0, self.events);
        for cell in self.cells.iter().rev().take_while(|cell| cell.high >= limit) {
            hits += cell.censored;
            of += cell.censored;
            if cell.high > limit && self.slowest() > Some(limit) {
                hits += cell.events;
            }
        }
        Rate { hits, of }
    }

    /// Returns how many samples took as long as `limit` or longer, of those where that is known. A cell that holds `limit`
    /// counts as longer.
    pub(super) fn at_least(&self, limit: Duration) -> Rate {
        let cells = self.cells.iter().rev().take_while(|cell| cell.high >= limit);
        let (events, censored) =
            cells.fold((0, 0), |(events, censored), cell| (events + cell.events, censored + cell.censored));
        Rate { hits: events + censored, of: self.events + censored }
    }

    /// Returns the samples, given up or not, of the cells that end before `limit`.
    pub(super) fn below(&self, limit: Duration) -> Latencies {
        let cells: Vec<Cell> = self.cells.iter().copied().take_while(|cell| cell.high < limit).collect();
        let count = |of: fn(&Cell) -> u64| cells.iter().map(of).sum::<u64>();
        let (events, censored) = (count(|cell| cell.events), count(|cell| cell.censored));
        let last = cells.iter().rfind(|cell| cell.events > 0).map(|cell| cell.high);
        let extremes = self.extremes.zip(last).map(|((least, most), last)| (least, most.min(last)));
        Latencies { cells, events, censored, extremes }
    }
}

/// Tells whether each cell ends before the next begins.
fn apart(cells: &[Cell]) -> bool {
    cells.windows(2).all(|pair| pair[0].high < pair[1].low)
}

/// Why counts are no latencies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotLatencies {
    /// Cells are out of order or overlap: what was merged had different units, precision or bounds.
    Disorder,
    /// There are more than [`MOST_SAMPLES`] samples.
    TooMany,
    /// The exact extremes do not lie in the first and last cell with an event.
    Extremes,
}

impl fmt::Display for NotLatencies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NotLatencies::Disorder => f.write_str("the histograms have different units, precision or bounds"),
            NotLatencies::TooMany => write!(f, "there are more than {MOST_SAMPLES} samples"),
            NotLatencies::Extremes => f.write_str("the shortest and longest latency are not among those counted"),
        }
    }
}

impl std::error::Error for NotLatencies {}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn cell(low: u64, high: u64, events: u64, censored: u64) -> Cell {
        Cell { low: ms(low), high: ms(high), events, censored }
    }

    #[test]
    fn samples_are_counted_in_order() {
        let samples = [Sample::Event(ms(3)), Sample::Censored(ms(9)), Sample::Event(ms(1)), Sample::Event(ms(3))];
        let latencies = Latencies::from_samples(samples).expect("latencies");
        assert_eq!(latencies.cells(), [cell(1, 1, 1, 0), cell(3, 3, 2, 0), cell(9, 9, 0, 1)]);
        assert_eq!((latencies.events(), latencies.censored(), latencies.samples()), (3, 1, 4));
        assert_eq!((latencies.fastest(), latencies.slowest()), (Some(ms(1)), Some(ms(3))));
        assert_eq!(latencies.longest_wait(), ms(9));
        let nothing = Latencies::from_samples([]).expect("latencies");
        assert_eq!((nothing.fastest(), nothing.longest_wait(), nothing.samples()), (None, Duration::ZERO, 0));
    }

    #[test]
    fn cells_that_are_no_histogram_are_refused() {
        let refused = |cells: &[Cell], extremes| Latencies::from_cells(cells.to_vec(), extremes).expect_err("no cells");
        let one = Some((ms(1), ms(2)));
        assert_eq!(refused(&[cell(2, 1, 1, 0)], one), NotLatencies::Disorder);
        assert_eq!(refused(&[cell(1, 2, 1, 0), cell(2, 3, 1, 0)], one), NotLatencies::Disorder);
        assert_eq!(refused(&[cell(4, 5, 1, 0), cell(1, 2, 1, 0)], one), NotLatencies::Disorder);
        assert_eq!(refused(&[cell(1, 2, u64::MAX, u64::MAX)], one), NotLatencies::TooMany);
        assert_eq!(refused(&[cell(1, 2, 1, 0)], None), NotLatencies::Extremes);
        assert_eq!(refused(&[cell(1, 2, 0, 1)], one), NotLatencies::Extremes);
        assert_eq!(refused(&[cell(1, 2, 1, 0)], Some((ms(1), ms(3)))), NotLatencies::Extremes);
        assert_eq!(refused(&[cell(1, 2, 2, 0)], Some((ms(2), ms(1)))), NotLatencies::Extremes);
        let kept =
            Latencies::from_cells(vec![cell(9, 3, 0, 0), cell(1, 2, 1, 0)], one).expect("empty cells do not count");
        assert_eq!(kept.cells(), [cell(1, 2, 1, 0)]);
    }

    #[test]
    fn v20_merging_adds_cells_and_refuses_mixed_ones() {
        let counted = |cells: &[Cell], least, most| {
            Latencies::from_cells(cells.to_vec(), Some((ms(least), ms(most)))).expect("latencies")
        };
        let one = counted(&[cell(1, 2, 1, 0), cell(5, 8, 2, 1)], 2, 6);
        let other = counted(&[cell(3, 4, 1, 0), cell(5, 8, 3, 0)], 3, 8);
        let both = one.merged(&other).expect("the same cells");
        assert_eq!(both, counted(&[cell(1, 2, 1, 0), cell(3, 4, 1, 0), cell(5, 8, 5, 1)], 2, 8));
        assert_eq!(other.merged(&one), Ok(both));
        assert_eq!(one.merged(&counted(&[cell(4, 7, 1, 0)], 4, 4)), Err(NotLatencies::Disorder));
    }

    #[test]
    fn what_was_given_up_before_a_limit_says_nothing_about_it() {
        let latencies = Latencies::from_cells(
            vec![cell(1, 2, 4, 0), cell(3, 4, 2, 5), cell(7, 9, 3, 0), cell(60, 60, 0, 1)],
            Some((ms(1), ms(8))),
        )
        .expect("latencies");
        assert_eq!(latencies.above(ms(1)), Rate { hits: 15, of: 15 });
        assert_eq!(latencies.above(ms(2)), Rate { hits: 11, of: 15 });
        assert_eq!(latencies.above(ms(5)), Rate { hits: 4, of: 10 });
        assert_eq!(latencies.above(ms(7)), Rate { hits: 4, of: 10 });
        assert_eq!(latencies.above(ms(8)), Rate { hits: 1, of: 10 });
        assert_eq!(latencies.above(ms(60)), Rate { hits: 1, of: 10 });
        assert_eq!(latencies.above(ms(61)), Rate { hits: 0, of: 9 });
    }
}
