//! What a closed loop hides: while one request stalls, the next are not sent, and nobody sees them wait.

use super::latencies::{Cell, Latencies, NotLatencies};
use super::quantile::NotIdentified;
use super::share::Share;
use std::collections::BTreeMap;
use std::time::Duration;

/// No more samples are put in for one calibration.
pub const MOST_PUT_IN: u64 = 1_000_000;

/// Samples of a closed loop with those put in that a stall kept from being sent.
///
/// It has percentiles and no bounds: samples that were made up are no evidence.
///
/// Source: latency.md 2.4.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackFilled(Latencies);

impl BackFilled {
    /// Returns the samples, and for each that took two intervals or more further ones, each an interval less than the one
    /// before, down to one interval. It takes the stall to be the partner's, and requests to be due every `interval`.
    ///
    /// `None` where that would be more than [`MOST_PUT_IN`], and for no interval.
    ///
    /// Source: latency.md V11.
    pub fn new(latencies: &Latencies, interval: Duration) -> Option<BackFilled> {
        if interval.is_zero() {
            return None;
        }
        // The upper edge of a cell, but never more than the slowest answer took.
        let top = |cell: &Cell| match latencies.slowest() {
            Some(slowest) if cell.events > 0 => slowest.min(cell.high),
            _ => cell.high,
        };
        let put_in = |cell: &Cell| (top(cell).as_nanos() / interval.as_nanos()).saturating_sub(1);
        let of_cell = |cell: &Cell| put_in(cell).saturating_mul(u128::from(cell.events + cell.censored));
        let sum = latencies.cells().iter().map(of_cell).fold(0, u128::saturating_add);
        if sum > u128::from(MOST_PUT_IN) {
            return None;
        }
        let mut counts = BTreeMap::<Duration, (u64, u64)>::new();
        for cell in latencies.cells() {
            let mut after = top(cell);
            for _ in 0..=put_in(cell) {
                let count = counts.entry(after).or_default();
                *count = (count.0 + cell.events, count.1 + cell.censored);
                after = after.saturating_sub(interval);
            }
        }
        let cell = |(at, (events, censored))| Cell { low: at, high: at, events, censored };
        let cells: Vec<Cell> = counts.into_iter().map(cell).collect();
        let at = |cell: &Cell| cell.high;
        let mut with_events = cells.iter().filter(|cell| cell.events > 0).map(at);
        let least = with_events.next();
        let extremes = least.map(|least| (least, with_events.next_back().unwrap_or(least)));
        let made: Result<Latencies, NotLatencies> = Latencies::from_cells(cells, extremes);
        made.ok().map(BackFilled)
    }

    /// Returns how many samples there are, those put in included.
    pub fn samples(&self) -> u64 {
        self.0.samples()
    }

    /// Returns a percentile.
    ///
    /// # Errors
    /// [`NotIdentified`] where too many samples were given up.
    pub fn value(&self, percentile: Share) -> Result<Duration, NotIdentified> {
        self.0.value(percentile)
    }
}

#[cfg(test)]
mod tests {
    use super::super::latencies::Sample;
    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn latencies(samples: impl IntoIterator<Item = Sample>) -> Latencies {
        Latencies::from_samples(samples).expect("few samples")
    }

    fn event(ms: u64) -> Sample {
        Sample::Event(Duration::from_millis(ms))
    }

    #[test]
    fn v11_a_stall_hides_what_it_held_up() {
        let raw = latencies(std::iter::repeat_n(event(200), 297).chain([event(30_000)]));
        assert_eq!((raw.samples(), raw.value(Share::P99), raw.slowest()), (298, Ok(ms(200)), Some(ms(30_000))));
        let corrected = BackFilled::new(&raw, ms(1_000)).expect("few are put in");
        assert_eq!((corrected.samples(), Share::P99.rank(327)), (327, 324));
        assert_eq!(corrected.value(Share::P99), Ok(ms(27_000)));
        assert_eq!(corrected.value(Share::P95), Ok(ms(14_000)));
        assert_eq!(corrected.value(Share::P90), Ok(ms(200)));
    }

    #[test]
    fn tenes_example_of_a_long_stall() {
        let raw = latencies(std::iter::repeat_n(event(1), 10_000).chain([event(100_000)]));
        let corrected = BackFilled::new(&raw, ms(10)).expect("few are put in");
        assert_eq!(corrected.samples(), 20_000);
        assert_eq!(corrected.value(Share::from_millionths(750_000).expect("a share")), Ok(ms(50_000)));
        assert_eq!(corrected.value(Share::P99), Ok(ms(98_000)));
    }

    #[test]
    fn samples_below_two_intervals_hide_none() {
        let counted = |took: u64| BackFilled::new(&latencies([event(took)]), ms(1_000)).expect("few").samples();
        assert_eq!([counted(999), counted(1_999), counted(2_000), counted(5_000)], [1, 1, 2, 5]);
        let cell = Cell { low: ms(1_900), high: ms(2_100), events: 1, censored: 0 };
        let rough = Latencies::from_cells(vec![cell], Some((ms(1_950), ms(1_950)))).expect("a cell");
        assert_eq!(BackFilled::new(&rough, ms(1_000)).expect("few").samples(), 1, "the exact value counts");
        let given_up = latencies([Sample::Censored(ms(5_000))]);
        assert_eq!(BackFilled::new(&given_up, ms(1_000)).expect("few").samples(), 5);
    }

    #[test]
    fn too_much_is_not_put_in() {
        let long = latencies([event(3_600_000)]);
        assert_eq!(BackFilled::new(&long, Duration::from_micros(1)), None);
        assert_eq!(BackFilled::new(&long, Duration::ZERO), None);
        assert_eq!(BackFilled::new(&latencies([]), ms(1)).expect("none").samples(), 0);
    }
}
