//! What is noted of a story while it is played, for the promises to be checked against.

use abide::engine::moment::Moment;
use abide::engine::operation::Request;
use abide::engine::verdict::{Evidence, Verdict};
use std::sync::Arc;
use std::time::Duration;

/// A broken promise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken {
    /// Which promise.
    pub promise: &'static str,
    /// How.
    pub how: String,
}

/// A send: the moment at which bytes may leave.
#[derive(Clone, Debug)]
pub struct Send {
    /// The process.
    pub process: u32,
    /// The entry of the ledger.
    pub place: usize,
    /// The attempt.
    pub a: u32,
    /// When it began.
    pub began: Moment,
    /// When the wire showed something.
    pub ended: Option<Moment>,
    /// It follows a redirect.
    pub is_hop: bool,
    /// What the wire showed does not tell whether it was executed; so it is until the wire shows something.
    pub ambiguous: bool,
    /// The wire showed a 202.
    pub accepted: bool,
    /// The wire showed a genuine success.
    pub fine: bool,
    /// The wire showed something against which "absent" proves nothing: a 2xx, or work in progress.
    pub contradicts_absence: bool,
}

/// A Retry-After that was written down.
#[derive(Clone, Debug)]
pub struct Floor {
    /// Nothing may be sent before.
    pub until: Moment,
    /// When it was written.
    pub born: Moment,
    /// The process that saw it.
    pub process: u32,
    /// The line that holds it.
    pub line: u64,
    /// An attempt brought it, not a question.
    pub for_attempts: bool,
}

/// What a line says of a send.
#[derive(Clone, Copy, Debug)]
pub struct Told {
    /// Which send.
    pub send: usize,
    /// What it proves.
    pub evidence: Evidence,
    /// Whether the partner did it.
    pub done: Option<bool>,
    /// The line.
    pub line: u64,
}

/// What a run said at its end.
#[derive(Clone, Debug)]
pub struct Said {
    /// Its verdict.
    pub verdict: Verdict,
    /// When.
    pub at: Moment,
    /// How many sends there had been.
    pub sends: usize,
    /// The process, where a later claim had fenced it off: it speaks for its own sends only.
    pub late: Option<u32>,
}

/// Everything that is watched.
#[derive(Debug, Default)]
pub struct Watch {
    /// Every send, oldest first.
    pub sends: Vec<Send>,
    /// A process died, or the power went, and left something open: reason enough for doubt.
    pub lost: bool,
    /// A status answer told of work in progress.
    pub saw_progress: bool,
    /// What is broken first.
    pub broken: Option<Broken>,
    /// When the last attempt of a claim ended.
    pub last_finished: Option<(u64, Moment)>,
    /// The request as it was first sent for an entry of the ledger.
    pub first: Option<(usize, Arc<Request>)>,
    /// Every Retry-After.
    pub floors: Vec<Floor>,
    /// What was told of the sends.
    pub told: Vec<Told>,
    /// What runs said at their ends.
    pub said: Vec<Said>,
    /// How many sends, counted over the story, are in doubt no more.
    pub cleared: usize,
    /// Second executions that somebody has accepted.
    pub granted: usize,
    trace: Option<Vec<String>>,
}

impl Watch {
    /// Returns a watch; with `trace` it keeps the story for people.
    pub fn new(trace: bool) -> Watch {
        Watch { trace: trace.then(Vec::new), ..Watch::default() }
    }

    /// Adds a line to the story, where it is kept.
    pub fn note(&mut self, now: Moment, line: impl FnOnce() -> String) {
        if let Some(trace) = &mut self.trace {
            trace.push(format!("{:>12.3} {}", now.since_start().as_secs_f64(), line()));
        }
    }

    /// Returns the story, where it was kept.
    pub fn story(&self) -> &[String] {
        self.trace.as_deref().unwrap_or_default()
    }

    /// Returns whether a Retry-After holds for longer than `long`.
    pub fn waits_longer_than(&self, now: Moment, long: Duration) -> bool {
        self.floors.iter().any(|floor| floor.until.since(now) > long)
    }

    /// Notes that what was sent so far is in doubt no more: it did not happen.
    pub fn nothing_happened(&mut self) {
        self.cleared = self.sends.len();
    }

    /// Forgets what was written and did not survive.
    pub fn power_cut(&mut self, keeps: u64) {
        self.lost = true;
        self.floors.retain(|floor| floor.line < keeps);
        self.told.retain(|told| told.line < keeps);
    }
}
