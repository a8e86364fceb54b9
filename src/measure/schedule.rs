//! When requests are due: not when the ones before have come back, or a stall of the partner would hide itself.

use std::time::Duration;
use tokio::time::Instant;

/// Arrivals at a rate, each at a random moment of its own interval: none is in step with the partner's cron or garbage
/// collection, and never are more than two closer than an interval.
///
/// Source: latency.md 3.2.
#[derive(Clone, Copy, Debug)]
pub(super) struct Schedule {
    base: Instant,
    interval: Duration,
}

impl Schedule {
    /// Returns arrivals from `base` on, one each `interval`.
    pub fn new(base: Instant, interval: Duration) -> Schedule {
        Schedule { base, interval }
    }

    /// Returns when the next request is due; `draw` is uniform in `[0, 1)`.
    pub fn next(&mut self, draw: f64) -> Instant {
        let at = self.base + self.interval.mul_f64(draw);
        self.base += self.interval;
        at
    }

    /// Lets nothing be due before `until`, and half as many from then on.
    pub fn slow_down(&mut self, until: Instant) {
        *self = Schedule::new(self.base.max(until), self.interval.saturating_mul(2));
    }

    /// Lets everything be due later by `late`.
    pub fn shift(&mut self, late: Duration) {
        self.base += late;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn each_arrival_lies_in_its_own_interval() {
        let start = Instant::now();
        let mut schedule = Schedule::new(start, SECOND);
        let due: Vec<Duration> = [0.0, 0.5, 0.25].map(|draw| schedule.next(draw) - start).into();
        assert_eq!(due, [Duration::ZERO, Duration::from_millis(1_500), Duration::from_millis(2_250)]);
    }

    #[test]
    fn a_pause_shifts_what_follows_and_halves_the_rate() {
        let start = Instant::now();
        let mut schedule = Schedule::new(start, SECOND);
        schedule.next(0.9);
        schedule.slow_down(start + 10 * SECOND);
        assert_eq!(schedule.next(0.5) - start, 11 * SECOND);
        assert_eq!(schedule.next(0.0) - start, 12 * SECOND);
        schedule.slow_down(start + 3 * SECOND);
        assert_eq!(schedule.next(0.0) - start, 14 * SECOND, "a pause that is over takes nothing back");
    }
}
