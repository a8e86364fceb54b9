//! How long the append lock is waited for.

use std::time::Duration;

/// How long the append lock is waited for. Holders only read and write a little under it.
pub const LOCK_WAIT: Duration = Duration::from_secs(10);

/// How long to wait for a lock, time after time: short at first.
#[derive(Debug, Default)]
pub struct Waits {
    tries: u32,
    waited: Duration,
}

impl Waits {
    /// Returns the next wait; `None` when [`LOCK_WAIT`] is used up.
    pub fn next(&mut self) -> Option<Duration> {
        self.tries += 1;
        let wait = match self.tries {
            0..=10 => Duration::from_micros(50),
            11..=20 => Duration::from_millis(1),
            _ => Duration::from_millis(5),
        };
        self.waited += wait;
        (self.waited <= LOCK_WAIT).then_some(wait)
    }
}
