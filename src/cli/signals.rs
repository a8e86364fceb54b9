//! SIGINT and SIGTERM (decisions 21): the first ends waits, the second ends the process.
//!
//! They are blocked and taken by a thread of their own, so that they count even while the disk is slow, and also
//! where they were inherited as ignored: a blocked signal is kept although nobody would handle it.

use super::exit::{Exit, Failure};
use super::screen::Screen;
use abide::engine::operation::IdempotencyKey;
use nix::sys::signal::{SigSet, Signal};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

/// What the thread that takes signals and the run know of each other. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Signals(Arc<Mutex<Seen>>);

#[derive(Debug, Default)]
struct Seen {
    first: Option<Signal>,
    in_flight: HashMap<IdempotencyKey, InFlight>,
    account: Option<String>,
}

/// The attempt that cannot be called back.
#[derive(Clone, Copy, Debug)]
pub struct InFlight {
    /// Its number; `None` for a sample, which is no attempt of a recorded operation.
    pub a: Option<u32>,
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
        let words = {
            let mut seen = self.lock();
            seen.first = Some(first);
            words(first, &seen.in_flight)
        };
        interrupt();
        if let Some(words) = words {
            screen.say(&words);
        }
        let Ok(second) = set.wait() else { return };
        screen.calm();
        let seen = self.lock();
        match (seen.in_flight.len(), &seen.account) {
            (0, Some(account)) => screen.say(&format!("stopped: {account}")),
            (under_way, Some(account)) => screen.say(&format!("stopped: {account}; {under_way} more in doubt")),
            (0, None) => {}
            (1, None) => screen.say("stopped: the attempt in flight reads as in doubt"),
            (count, None) => screen.say(&format!("stopped: {count} attempts in flight read as in doubt")),
        }
        std::process::exit(Exit::Signal(second).code());
    }

    /// Tells what became of all that has ended and is recorded nowhere: the last words, if a second signal comes.
    pub fn account(&self, words: String) {
        self.lock().account = Some(words);
    }

    /// Tells that an attempt of an operation is in flight.
    pub fn departed(&self, key: &IdempotencyKey, attempt: InFlight) {
        self.lock().in_flight.insert(key.clone(), attempt);
    }

    /// Tells that a sample is in flight no more, and what became of all that have ended: in one step, so that none counts
    /// twice.
    pub fn accounted(&self, key: &IdempotencyKey, words: String) {
        let mut seen = self.lock();
        seen.in_flight.remove(key);
        seen.account = Some(words);
    }

    /// Tells that no attempt of an operation is in flight any more.
    pub fn landed(&self, key: &IdempotencyKey) {
        self.lock().in_flight.remove(key);
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
fn words(signal: Signal, in_flight: &HashMap<IdempotencyKey, InFlight>) -> Option<String> {
    let until = in_flight.values().map(|attempt| attempt.until).max()?;
    // Rounded up, so that the promise is kept.
    let left = until.saturating_duration_since(Instant::now()).as_millis().div_ceil(1000);
    let mut attempts = in_flight.values();
    let (what, has, it) = match (attempts.next(), attempts.next()) {
        (Some(InFlight { a: Some(a), .. }), None) => (format!("attempt {a}"), "has", "it"),
        (Some(InFlight { a: None, .. }), None) => ("1 request".into(), "has", "it"),
        (Some(InFlight { a: None, .. }), _) => (format!("{} requests", in_flight.len()), "have", "them"),
        _ => (format!("{} attempts", in_flight.len()), "have", "them"),
    };
    Some(format!(
        "{}: {what} may have reached the partner and {has} up to {left}s left; \
         a second signal stops at once and leaves {it} in doubt",
        signal.as_str(),
    ))
}
