//! What is known about an operation at the end of a run.

use serde::{Deserialize, Serialize};
use std::fmt;

/// What one attempt proves about execution.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Evidence {
    /// Provably no byte of the request left.
    NotSent,
    /// Bytes left, the complete request provably did not.
    Partial,
    /// The complete request may have left, and no answer settles what became of it.
    InDoubt,
    /// An answer that means "not executed, for now".
    Refused,
    /// A final answer by the partner.
    Answered,
    /// The partner took it and has not finished.
    Accepted,
}

impl Evidence {
    /// Returns the name used in the ledger and on the screen.
    pub const fn name(self) -> &'static str {
        match self {
            Evidence::NotSent => "not_sent",
            Evidence::Partial => "partial",
            Evidence::InDoubt => "in_doubt",
            Evidence::Refused => "refused",
            Evidence::Answered => "answered",
            Evidence::Accepted => "accepted",
        }
    }

    /// Returns whether an operation with this evidence and no other may have been executed.
    pub const fn is_doubt(self) -> bool {
        matches!(self, Evidence::Partial | Evidence::InDoubt)
    }
}

impl fmt::Display for Evidence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Whose fault it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Side {
    /// This machine, this program, the request itself.
    Ours,
    /// A profile, a URL, a certificate, a credential.
    Configuration,
    /// Something between us and the partner.
    Network,
    /// The partner.
    Theirs,
    /// The evidence does not say.
    Unclear,
}

impl Side {
    /// Returns the name used in the ledger and on the screen.
    pub const fn name(self) -> &'static str {
        match self {
            Side::Ours => "ours",
            Side::Configuration => "configuration",
            Side::Network => "network",
            Side::Theirs => "theirs",
            Side::Unclear => "unclear",
        }
    }
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What is known at the end of a run about an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The partner did it.
    Confirmed,
    /// The partner refused it for good; it did not happen.
    Rejected,
    /// Certainly not executed so far; safe to run again.
    NotDone,
    /// It may have been executed.
    InDoubt,
    /// The partner took it and has not finished.
    Accepted,
}

impl Verdict {
    /// Returns the name used in the ledger and on the screen.
    pub const fn name(self) -> &'static str {
        match self {
            Verdict::Confirmed => "confirmed",
            Verdict::Rejected => "rejected",
            Verdict::NotDone => "not_done",
            Verdict::InDoubt => "in_doubt",
            Verdict::Accepted => "accepted",
        }
    }

    /// Returns whether this verdict ends the operation and not only the run.
    pub const fn is_final(self) -> bool {
        matches!(self, Verdict::Confirmed | Verdict::Rejected)
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Why a run ended with its verdict: a stable slug for the ledger and for scripts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// The partner's answer says so.
    Answer,
    /// A status request says so.
    Status,
    /// A person said so (`abide resolve`).
    Person,
    /// The allowed attempts are used up.
    AttemptsExhausted,
    /// The deadline is over, or too near for another attempt.
    Deadline,
    /// The next wait does not fit into the deadline.
    WaitExceedsDeadline,
    /// The partner asks for a longer wait than the profile allows.
    RetryAfterTooLong,
    /// Nothing that may be done would remove the doubt.
    NothingHelps,
    /// What failed would fail again until somebody changes something.
    NeedsChange,
    /// The credentials were refused.
    Credentials,
    /// `--valid-for` has passed: it must not be sent any more.
    Expired,
    /// A signal ended the run.
    Interrupted,
    /// Lines of the ledger were lost, and a person accepted that.
    Damage,
    /// Written by a newer version.
    #[serde(other)]
    Unknown,
}
