//! What is wrong with a ledger, as values.

use crate::engine::operation::IdempotencyKey;
use std::fmt;
use std::path::PathBuf;

/// What a check of a whole ledger found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verified {
    /// The file.
    pub path: PathBuf,
    /// Its length in bytes.
    pub bytes: u64,
    /// How many lines it has, blank ones included.
    pub lines: u64,
    /// How many operations it holds.
    pub operations: usize,
    /// The newest claim.
    pub claims: u64,
    /// How many bodies beside it were read and compared with their hashes.
    pub bodies: usize,
    /// Everything before this offset is known to have been durable.
    pub durable: u64,
    /// What is wrong, in the order of the file. What a person accepted before is left out.
    pub findings: Vec<Finding>,
}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// What.
    pub kind: Kind,
    /// The line, from 1; 0 where it is not about a line.
    pub line: u64,
    /// The offset of its first byte, from 0.
    pub byte: u64,
    /// How many bytes are affected; 0 where it is not about bytes that are there.
    pub len: u64,
    /// The claim that it is about.
    pub n: Option<u64>,
    /// The key that it is about. From a damaged line it may be wrong.
    pub key: Option<IdempotencyKey>,
}

/// What can be wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The last line is not whole: its writer died.
    Torn,
    /// Bytes that nobody was told are durable are no line.
    Unacknowledged,
    /// An earlier sync failed: what was written last may not be on the disk.
    Sick,
    /// A line that was acknowledged cannot be read any more.
    Rot,
    /// The line knows of more bytes before it than there are.
    Missing,
    /// Claims up to this one are gone: the finding's `n` is the first of them.
    Gap {
        /// The last one that is gone.
        to: u64,
    },
    /// The line is there twice.
    Repeated,
    /// The line contradicts those before it: two ledgers were merged, or its operation's first line is gone.
    Contradiction(&'static str),
    /// The file ends before what this machine has written to it, or is an older copy.
    LostEnd {
        /// The newest claim that this machine has written.
        recorded: u64,
    },
    /// The line is whole and this version does not understand it.
    Unreadable,
    /// A body beside the ledger is gone.
    BodyMissing,
    /// A body beside the ledger is not what was kept.
    BodyDamaged,
}

/// What helps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remedy {
    /// `abide ledger verify --repair`: nothing is lost.
    Repair,
    /// A good copy, or `abide ledger verify --accept-loss`.
    AcceptLoss,
    /// A good copy of that body; its operation cannot be sent without.
    Body,
    /// The version that wrote it.
    OtherVersion,
}

impl Kind {
    /// Returns the name used in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Kind::Torn => "torn",
            Kind::Unacknowledged => "unacknowledged",
            Kind::Sick => "sick",
            Kind::Rot => "rot",
            Kind::Missing => "missing",
            Kind::Gap { .. } => "gap",
            Kind::Repeated => "repeated",
            Kind::Contradiction(_) => "contradiction",
            Kind::LostEnd { .. } => "lost_end",
            Kind::Unreadable => "unreadable",
            Kind::BodyMissing => "body_missing",
            Kind::BodyDamaged => "body_damaged",
        }
    }

    /// Returns what helps.
    pub const fn remedy(self) -> Remedy {
        match self {
            Kind::Torn | Kind::Unacknowledged | Kind::Sick => Remedy::Repair,
            Kind::Rot
            | Kind::Missing
            | Kind::Gap { .. }
            | Kind::Repeated
            | Kind::Contradiction(_)
            | Kind::LostEnd { .. } => Remedy::AcceptLoss,
            Kind::Unreadable => Remedy::OtherVersion,
            Kind::BodyMissing | Kind::BodyDamaged => Remedy::Body,
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Finding { kind, line, byte, len, n, .. } = self;
        let n = n.unwrap_or(0);
        match kind {
            Kind::Torn => write!(f, "line {line}: the last line is not whole: {len} bytes from byte {byte}"),
            Kind::Unacknowledged => {
                write!(
                    f,
                    "line {line}: {len} bytes from byte {byte} are no line; nobody was told that they are durable"
                )
            }
            Kind::Sick => write!(f, "a sync failed: what was written from byte {byte} may not be on the disk"),
            Kind::Rot => write!(f, "line {line}: {len} acknowledged bytes from byte {byte} cannot be read any more"),
            Kind::Missing => write!(f, "line {line}: bytes before byte {byte} are missing"),
            Kind::Gap { to } if *to == n => write!(f, "line {line}: claim {n} is gone (before byte {byte})"),
            Kind::Gap { to } => write!(f, "line {line}: claims {n} to {to} are gone (before byte {byte})"),
            Kind::Repeated => write!(f, "line {line}: the line was there before (byte {byte})"),
            Kind::Contradiction(what) => write!(f, "line {line}: {what} (byte {byte})"),
            Kind::LostEnd { recorded } => write!(
                f,
                "the end is lost, or this is an older copy: the newest claim is {n}, this machine has written {recorded}"
            ),
            Kind::Unreadable => {
                write!(f, "line {line}: the line is whole and cannot be understood by this version (byte {byte})")
            }
            Kind::BodyMissing => write!(f, "line {line}: the body that it names is gone"),
            Kind::BodyDamaged => write!(f, "line {line}: the body that it names is not what was kept"),
        }?;
        match &self.key {
            Some(key) => write!(f, ": {key}"),
            None => Ok(()),
        }
    }
}
