//! The clocks of this machine, and waits that end at the right moment after a suspend or a signal.

use crate::drive::{Clock, Woken};
use crate::engine::moment::{Moment, Now, Timestamp};
use nix::time::{ClockId, clock_gettime};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::sync::Notify;

/// The longest sleep before the boot clock is read again: timers of the runtime stand still in suspend.
///
/// Source: semantics.md 2.4.
pub(super) const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Where the wall-clock time comes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Wall {
    /// The clock of this machine.
    #[default]
    System,
    /// A clock that stands still, for tests whose output is compared.
    Fixed(Timestamp),
}

impl Wall {
    /// Returns the time.
    pub fn now(self) -> Timestamp {
        match self {
            Wall::System => Timestamp::from_unix_ms(unix_ms(SystemTime::now())),
            Wall::Fixed(at) => at,
        }
    }
}

fn unix_ms(time: SystemTime) -> i64 {
    match time.duration_since(UNIX_EPOCH) {
        Ok(since) => i64::try_from(since.as_millis()).unwrap_or(i64::MAX),
        Err(before) => i64::try_from(before.duration().as_millis()).map_or(i64::MIN, |ms| -ms),
    }
}

/// The wish of a signal that the run ends. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Interrupt(Arc<Wish>);

#[derive(Debug, Default)]
struct Wish {
    set: AtomicBool,
    bell: Notify,
}

impl Interrupt {
    /// Ends every wait, and all that come.
    pub fn set(&self) {
        self.0.set.store(true, Ordering::SeqCst);
        self.0.bell.notify_waiters();
    }

    /// Returns whether the run is to end.
    pub fn is_set(&self) -> bool {
        self.0.set.load(Ordering::SeqCst)
    }

    /// Waits until the run is to end; returns at once where that is so already.
    pub async fn wait(&self) {
        let mut bell = std::pin::pin!(self.0.bell.notified());
        // Listening begins before the flag is read, so that no signal falls between the two.
        bell.as_mut().enable();
        if !self.is_set() {
            bell.await;
        }
    }
}

/// The clock of this process: boot time for waits and deadlines, so that a suspend counts.
#[derive(Clone, Debug)]
pub struct SystemClock {
    start: Duration,
    wall: Wall,
    interrupt: Interrupt,
}

impl SystemClock {
    /// Returns a clock that starts now, and whose waits `interrupt` ends.
    pub fn new(wall: Wall, interrupt: Interrupt) -> SystemClock {
        SystemClock { start: boot_time(), wall, interrupt }
    }

    /// Returns a clock with the same start.
    pub fn with(&self, wall: Wall, interrupt: Interrupt) -> SystemClock {
        SystemClock { start: self.start, wall, interrupt }
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Now {
        Now { steady: Moment::new(boot_time().saturating_sub(self.start)), wall: self.wall.now() }
    }

    async fn wait(&mut self, until: Moment) -> Woken {
        loop {
            if self.interrupt.is_set() {
                return Woken::Interrupted;
            }
            let left = until.since(self.now().steady);
            if left.is_zero() {
                return Woken::Reached;
            }
            tokio::select! {
                biased;
                () = self.interrupt.wait() => {}
                () = tokio::time::sleep(left.min(LOOK_EVERY)) => {}
            }
        }
    }

    fn interrupted(&self) -> bool {
        self.interrupt.is_set()
    }
}

/// Returns the time since the machine started, suspends included.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn boot_time() -> Duration {
    read(ClockId::CLOCK_BOOTTIME)
}

/// Returns a time that never steps. Elsewhere than on Linux this clock is taken for one that counts suspends.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn boot_time() -> Duration {
    read(ClockId::CLOCK_MONOTONIC)
}

/// Returns how long the machine has slept since it started, give or take a few microseconds.
pub(super) fn slept() -> Duration {
    // In this order a preemption between the readings can only make the difference smaller.
    let boot = boot_time();
    boot.saturating_sub(read(ClockId::CLOCK_MONOTONIC))
}

fn read(clock: ClockId) -> Duration {
    let time = clock_gettime(clock).expect("every supported kernel has this clock");
    Duration::from(time)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clock() -> (SystemClock, Interrupt) {
        let interrupt = Interrupt::default();
        (SystemClock::new(Wall::System, interrupt.clone()), interrupt)
    }

    #[tokio::test]
    async fn a_wait_ends_at_its_moment_and_not_before() {
        let (mut clock, _) = clock();
        let until = clock.now().steady.after(Duration::from_millis(20));
        assert_eq!(clock.wait(until).await, Woken::Reached);
        assert!(clock.now().steady >= until);
    }

    #[tokio::test]
    async fn a_signal_ends_a_wait_that_has_begun() {
        let (mut clock, interrupt) = clock();
        let until = clock.now().steady.after(Duration::from_secs(60));
        let (woken, ()) = tokio::join!(clock.wait(until), async { interrupt.set() });
        assert_eq!(woken, Woken::Interrupted);
    }

    #[tokio::test]
    async fn a_signal_that_came_before_ends_a_wait_at_once() {
        let (mut clock, interrupt) = clock();
        interrupt.set();
        assert_eq!(clock.wait(Moment::new(Duration::MAX)).await, Woken::Interrupted);
        assert!(clock.interrupted());
        interrupt.wait().await;
    }

    #[test]
    fn the_wall_clock_can_stand_still() {
        let at = Timestamp::from_unix_ms(1_795_946_599_123);
        assert_eq!(Wall::Fixed(at).now(), at);
        assert!(Wall::System.now() > Timestamp::from_unix_ms(1_700_000_000_000));
    }
}
