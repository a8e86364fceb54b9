//! The exit status: made from types, never from texts.

use abide::engine::verdict::Verdict;
use abide::store::{Left, StoreError};
use nix::sys::signal::Signal;
use std::fmt;

/// How the process ends. The numbers are the contract of product.md section 2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// Confirmed, or a command that did what it was asked.
    Fine,
    /// Refused for good by the partner.
    Rejected,
    /// Usage or profile error; nothing was sent.
    Usage,
    /// Certainly not executed.
    NotDone,
    /// It may have been executed.
    InDoubt,
    /// Taken and not finished, or another live process is working on it.
    Accepted,
    /// The ledger, the disk, rights.
    Local,
    /// The key was used with another payload.
    OtherPayload,
    /// A check did not pass.
    Unmet,
    /// A status of monitoring plugins, asked for with `--nagios`.
    Plugin(u8),
    /// A bug in abide.
    Bug,
    /// A signal ended the run, after the ledger was synced.
    Signal(Signal),
}

impl Exit {
    /// Returns the number that the shell sees.
    pub fn code(self) -> i32 {
        match self {
            Exit::Fine => 0,
            Exit::Rejected => 1,
            Exit::Usage => 2,
            Exit::NotDone => 3,
            Exit::InDoubt => 4,
            Exit::Accepted => 5,
            Exit::Local => 6,
            Exit::OtherPayload => 7,
            Exit::Unmet => 8,
            Exit::Plugin(status) => i32::from(status),
            Exit::Bug => 70,
            // Source: the convention of shells, 128 plus the signal's number.
            Exit::Signal(signal) => 128 + signal as i32,
        }
    }
}

impl Exit {
    /// Returns how bad a member of a batch is: the batch ends as its worst one.
    ///
    /// Source: product.md section 2: the order 70, 6, 4, 1, 7, 3, 5, 0.
    pub fn badness(self) -> u8 {
        match self {
            Exit::Fine => 0,
            Exit::Accepted => 1,
            Exit::NotDone => 2,
            Exit::OtherPayload => 3,
            Exit::Rejected => 4,
            Exit::InDoubt => 5,
            Exit::Local => 6,
            Exit::Bug => 7,
            // These end a batch as a whole, whatever its members came to.
            Exit::Usage | Exit::Unmet | Exit::Plugin(_) | Exit::Signal(_) => 8,
        }
    }
}

impl From<Verdict> for Exit {
    fn from(verdict: Verdict) -> Exit {
        match verdict {
            Verdict::Confirmed => Exit::Fine,
            Verdict::Rejected => Exit::Rejected,
            Verdict::NotDone => Exit::NotDone,
            Verdict::InDoubt => Exit::InDoubt,
            Verdict::Accepted => Exit::Accepted,
        }
    }
}

/// Why a command could not do what it was asked, with the status to leave with.
#[derive(Debug)]
pub struct Failure {
    /// The status.
    pub exit: Exit,
    /// What was tried on what, and why it failed.
    pub error: anyhow::Error,
    /// What to do next.
    pub hint: Option<String>,
}

impl Failure {
    /// Returns a usage error: nothing was sent.
    pub fn usage(message: impl fmt::Display) -> Failure {
        Failure { exit: Exit::Usage, error: anyhow::anyhow!("{message}"), hint: None }
    }

    /// Returns a failure of this machine.
    pub fn local(error: impl Into<anyhow::Error>) -> Failure {
        Failure { exit: Exit::Local, error: error.into(), hint: None }
    }

    /// Returns a failure of the ledger.
    pub fn of_store(error: &StoreError) -> Failure {
        let exit = match error {
            StoreError::Missing { .. } => Exit::Usage,
            _ => Exit::Local,
        };
        Failure { exit, error: anyhow::anyhow!("{error}"), hint: error.hint().map(str::to_owned) }
    }

    /// Returns a failure of the ledger during a run. What may have left is said first.
    pub fn unrecorded(error: &StoreError, may_have_left: bool) -> Failure {
        let failure = Failure::of_store(error);
        // What the store knows already, it says itself.
        if may_have_left && error.left() == Left::Nothing {
            return Failure { exit: Exit::Local, ..failure }.while_doing("the request may have left");
        }
        Failure { exit: Exit::Local, ..failure }
    }

    /// Adds what to do next.
    pub fn hint(mut self, hint: impl Into<String>) -> Failure {
        self.hint = Some(hint.into());
        self
    }

    /// Adds while doing what.
    pub fn while_doing(mut self, what: impl fmt::Display + Send + Sync + 'static) -> Failure {
        self.error = self.error.context(what);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_have_left_is_said_first() {
        let error = || StoreError::NoSpace { path: "l.jsonl".into() };
        let said = |error: &StoreError, left| format!("{:#}", Failure::unrecorded(error, left).error);
        assert_eq!(said(&error(), true), "the request may have left: no space left for l.jsonl");
        assert_eq!(said(&error(), false), "no space left for l.jsonl");
        let told = StoreError::Unrecorded { left: Left::Perhaps, source: Box::new(error()) };
        assert_eq!(said(&told, true), "the request may have left; outcome not recorded: no space left for l.jsonl");
    }

    #[test]
    fn a_batch_ends_as_its_worst_member() {
        let order =
            [Exit::Bug, Exit::Local, Exit::InDoubt, Exit::Rejected, Exit::OtherPayload, Exit::NotDone, Exit::Accepted];
        assert_eq!(order.map(Exit::code), [70, 6, 4, 1, 7, 3, 5]);
        assert!(order.windows(2).all(|pair| pair[0].badness() > pair[1].badness()));
        assert!(Exit::Accepted.badness() > Exit::Fine.badness());
    }

    #[test]
    fn every_verdict_has_the_status_of_the_contract() {
        let cases = [
            (Verdict::Confirmed, 0),
            (Verdict::Rejected, 1),
            (Verdict::NotDone, 3),
            (Verdict::InDoubt, 4),
            (Verdict::Accepted, 5),
        ];
        for (verdict, code) in cases {
            assert_eq!(Exit::from(verdict).code(), code, "{verdict}");
        }
        assert_eq!(Exit::Signal(Signal::SIGINT).code(), 130);
        assert_eq!(Exit::Signal(Signal::SIGTERM).code(), 143);
    }
}
