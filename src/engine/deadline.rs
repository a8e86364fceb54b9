//! The one deadline, and how what is left of it is split over the stages of an attempt.

use super::exchange::Limit;
use super::moment::Moment;
use super::policy::Timeouts;
use std::time::Duration;

/// The moment by which the whole operation ends: attempts, waits, status requests, reading the body.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Deadline(pub Moment);

/// What is kept of a run's time for recording and reporting its end, at most [`ROOM_SHARE`] of it.
///
/// Source: benches/transport measures it: a last look at the socket, timers that tick in milliseconds, one synced
/// line, and leaving take 6 to 12 ms together. A limit that ends with the exchange would be overshot by them.
const ROOM: Duration = Duration::from_millis(10);

/// The part of a short run that may be kept: one in so many.
const ROOM_SHARE: u32 = 20;

impl Deadline {
    /// Returns when the last exchange of a run must be over that began at `begun` and is to be over, its end recorded
    /// and told, `overall` later.
    pub fn of_run(begun: Moment, overall: Duration) -> Deadline {
        Deadline(begun.after(overall - ROOM.min(overall / ROOM_SHARE)))
    }

    /// Returns what is left at `now`; zero when it is over.
    pub fn left(self, now: Moment) -> Duration {
        self.0.since(now)
    }
}

/// The limits of one attempt or one status request. All are counted by the transport, which returns what it knows
/// when one runs out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Lookup, TCP, proxy CONNECT and TLS together.
    pub connect: Duration,
    /// Idle time while the request goes out.
    pub write: Duration,
    /// From the last byte handed over to the head of the answer.
    pub read: Duration,
    /// Idle time between bytes of the answer's body.
    pub body: Duration,
    /// Everything together.
    pub whole: Duration,
    /// What `whole` stands for: [`Limit::Attempt`] or [`Limit::Deadline`].
    pub whole_is: Limit,
}

impl Limits {
    /// Returns the limits of an attempt that may use `left` in all.
    pub fn new(timeouts: &Timeouts, left: Duration) -> Limits {
        let (whole, whole_is) =
            if left < timeouts.attempt { (left, Limit::Deadline) } else { (timeouts.attempt, Limit::Attempt) };
        Limits {
            connect: timeouts.connect,
            write: timeouts.write,
            read: timeouts.read,
            body: timeouts.body,
            whole,
            whole_is,
        }
    }

    /// Returns what is left of the limits when `spent` has gone by before the connection began.
    pub fn after(self, spent: Duration) -> Limits {
        Limits { connect: self.connect.saturating_sub(spent), whole: self.whole.saturating_sub(spent), ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_keeps_time_to_record_its_end() {
        let begun = Moment::new(Duration::from_secs(1));
        for (overall, exchanges_ms) in [(150_000, 149_990), (200, 190), (100, 95), (1, 0)] {
            let Deadline(ends) = Deadline::of_run(begun, Duration::from_millis(overall));
            assert_eq!(ends.since(begun).as_millis(), exchanges_ms, "{overall} ms");
        }
        assert_eq!(Deadline::of_run(begun, Duration::MAX), Deadline(Moment::new(Duration::MAX)));
    }
}
