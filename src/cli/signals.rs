//! SIGINT and SIGTERM (decisions 21): the first ends waits, the second ends the process.
//!
//! They are blocked and taken by a thread of their own, so that they count even while the disk is slow, and also
//! where they were inherited as ignored: a blocked signal is kept although nobody would handle it.

use super::exit::{Exit, Failure};
use super::screen::Screen;
use nix::sys::signal::{SigSet, Signal};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

/// What the thread that takes signals and the run know of each other. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Signals(Arc<Mutex<Seen>>);

#[derive(Debug, Default)]
struct Seen {
    first: Option<Signal>,
    in_flight: Option<InFlight>,
}

/// The attempt that cannot be called back.
#[derive(Clone, Copy, Debug)]
pub struct InFlight {
    /// Its number.
    pub a: u32,
    /// When its limits end it.
    pub until: Instant,
}

impl Signals {
    /// Takes SIGINT and SIGTERM from now on. `interrupt` is called once, on another thread, at the first.
    ///
    /// To be called before other threads start: they inherit which signals are blocked.
    ///
    /// # Errors
    /// The signals cannot be blocked, or no thread can be started.
    pub fn take(screen: Screen, interrupt: impl FnOnce() + Send + 'static) -> Result<Signals, Failure> {
        let mut set = SigSet::empty();
        set.add(Signal::SIGINT);
        set.add(Signal::SIGTERM);
        set.thread_block().map_err(|error| Failure::local(error).while_doing("signals cannot be taken"))?;
        let signals = Signals::default();
        let thread_signals = signals.clone();
        std::thread::Builder::new()
            .name("signals".into())
            .spawn(move || thread_signals.watch(set, &screen, interrupt))
            .map_err(|error| Failure::local(error).while_doing("no thread for signals"))?;
        Ok(signals)
    }

    fn watch(&self, set: SigSet, screen: &Screen, interrupt: impl FnOnce()) {
        let Ok(first) = set.wait() else { return };
        let in_flight = {
            let mut seen = self.lock();
            seen.first = Some(first);
            seen.in_flight
        };
        interrupt();
        if let Some(words) = words(first, in_flight) {
            screen.say(&words);
        }
        let Ok(second) = set.wait() else { return };
        screen.calm();
        if self.lock().in_flight.is_some() {
            screen.say("stopped: the attempt in flight reads as in doubt");
        }
        std::process::exit(Exit::Signal(second).code());
    }

    /// Tells which attempt is in flight.
    pub fn in_flight(&self, attempt: Option<InFlight>) {
        self.lock().in_flight = attempt;
    }

    /// Returns the first signal that came.
    pub fn first(&self) -> Option<Signal> {
        self.lock().first
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Seen> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns what there is to say: why the process does not end at once, if it does not.
fn words(signal: Signal, in_flight: Option<InFlight>) -> Option<String> {
    let attempt = in_flight?;
    // Rounded up, so that the promise is kept.
    let left = attempt.until.saturating_duration_since(Instant::now()).as_millis().div_ceil(1000);
    Some(format!(
        "{}: attempt {} may have reached the partner and has up to {left}s left; \
         a second signal stops at once and leaves it in doubt",
        signal.as_str(),
        attempt.a
    ))
}
