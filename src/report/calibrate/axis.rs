//! A logarithmic axis of latencies, whatever it is drawn with.

use abide::engine::suggest::latencies::Latencies;
use abide::engine::units::show_duration;
use std::time::Duration;

/// A logarithmic axis between two round latencies.
#[derive(Clone, Copy, Debug)]
pub(super) struct Axis {
    pub(super) low: Duration,
    pub(super) high: Duration,
}

impl Axis {
    /// Returns an axis on which all latencies lie, and the limit with a little room behind it.
    pub(super) fn new(latencies: &Latencies, limit: Option<Duration>) -> Axis {
        let limit = limit.unwrap_or_default();
        let least = latencies.cells().first().map_or(Duration::ZERO, |cell| cell.low);
        Axis::between(least, latencies.longest_wait().max(limit.saturating_add(limit / 10)))
    }

    /// Returns an axis on which both lie.
    pub(super) fn between(least: Duration, most: Duration) -> Axis {
        let least = least.max(Duration::from_micros(1));
        let most = most.max(least);
        let marks = marks();
        let low = marks.iter().rev().find(|mark| **mark <= least).copied().unwrap_or(least);
        let high = marks.iter().find(|mark| **mark >= most && **mark > low).copied().unwrap_or(most);
        Axis { low, high }
    }

    /// Returns where a latency lies: 0 at the low end, 1 at the high one, never outside.
    pub(super) fn share(&self, at: Duration) -> f64 {
        let part = |at: Duration| at.as_secs_f64().max(1e-9).ln();
        let share = (part(at) - part(self.low)) / (part(self.high) - part(self.low));
        share.clamp(0.0, 1.0)
    }

    /// Returns the round latencies on it, those that matter most first: the ends, powers of ten, their halves, their
    /// fifths.
    pub(super) fn marks(&self) -> Vec<Duration> {
        let inside: Vec<Duration> = marks().into_iter().filter(|mark| (self.low..=self.high).contains(mark)).collect();
        let leading = |digit: u128| {
            let of = |mark: &&Duration| mark.as_nanos() / 10u128.pow(mark.as_nanos().ilog10()) == digit;
            inside.iter().filter(of).copied().collect::<Vec<_>>()
        };
        [vec![self.low, self.high], leading(1), leading(5), leading(2)].concat()
    }
}

/// Returns the round durations from 1 us to 10 h: 1, 2 and 5 of each power of ten.
fn marks() -> Vec<Duration> {
    let powers = (0..11).map(|power| Duration::from_micros(10u64.pow(power)));
    powers.flat_map(|one| [one, one * 2, one * 5]).collect()
}

/// Returns a round duration as short as can be.
pub(super) fn short(mark: Duration) -> String {
    if mark < Duration::from_millis(1) { format!("{}us", mark.as_micros()) } else { show_duration(mark) }
}
