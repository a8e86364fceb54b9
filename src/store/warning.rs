//! What the ledger noticed and went on: for the caller to show once.

use super::error::StoreError;
use std::fmt;
use std::path::PathBuf;

/// What the ledger noticed and went on.
#[derive(Debug)]
pub enum Warning {
    /// The last line was not whole: a writer died. It is kept in a `note` line.
    TornTail {
        /// The file.
        path: PathBuf,
        /// Where the line begins.
        byte: u64,
        /// How many bytes there were.
        len: u64,
    },
    /// Bytes that nobody was told are durable are no line. They are kept in a `note` line.
    BadLine {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: u64,
        /// Where the bytes begin.
        byte: u64,
        /// How many bytes there are.
        len: u64,
    },
    /// This machine has no memory of the ledger: what is unsettled in it counts as in doubt.
    FirstSeen {
        /// The file.
        path: PathBuf,
    },
    /// The state folder cannot be written: a lost end of the ledger would go unnoticed.
    Unremembered(StoreError),
    /// The file system keeps no room for outcomes when the disk is full.
    NoReserve {
        /// The file.
        path: PathBuf,
    },
    /// The index cannot be used. It is made anew.
    IndexDropped {
        /// Its folder.
        path: PathBuf,
        /// What is wrong with it.
        why: &'static str,
    },
    /// The index cannot be brought up to date: every process reads a little more.
    Unindexed(StoreError),
    /// Others may read the file.
    Readable {
        /// The file.
        path: PathBuf,
        /// Its mode: the permission bits.
        mode: u32,
    },
    /// Reading goes on, a send would be refused.
    Unsendable(StoreError),
    /// A line that was read cannot be read again, or cannot be understood: the operation is not shown.
    Unreadable(StoreError),
    /// What is shown may not be durable: the sync failed.
    Unsynced(StoreError),
}

impl Warning {
    /// Returns whether it is worth telling only a person who asked for details.
    pub const fn is_detail(&self) -> bool {
        matches!(self, Warning::NoReserve { .. } | Warning::IndexDropped { .. } | Warning::Unindexed(_))
    }
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Warning::TornTail { path, byte, len } => write!(
                f,
                "{}: the last line is not whole; its {len} bytes from byte {byte} are set aside",
                path.display()
            ),
            Warning::BadLine { path, line, byte, len } => {
                write!(f, "{}:{line}: {len} bytes from byte {byte} are no line; they are set aside", path.display())
            }
            Warning::FirstSeen { path } => write!(
                f,
                "{} is new to this machine: what an earlier owner left unsettled counts as in doubt",
                path.display()
            ),
            Warning::Unremembered(error) => write!(f, "a lost end of the ledger would go unnoticed: {error}"),
            Warning::NoReserve { path } => {
                write!(f, "the file system of {} cannot keep room for outcomes on a full disk", path.display())
            }
            Warning::IndexDropped { path, why } => {
                write!(f, "the index in {} is made anew: {why}", path.display())
            }
            Warning::Unindexed(error) => write!(f, "the index is not up to date: {error}"),
            Warning::Readable { path, mode } => {
                write!(f, "others may read {} (mode {mode:03o}): it holds payloads and answers", path.display())
            }
            Warning::Unsendable(error) => write!(f, "nothing can be sent with this ledger: {error}"),
            Warning::Unreadable(error) => write!(f, "an operation is left out: {error}"),
            Warning::Unsynced(error) => write!(f, "what is shown may not be durable: {error}"),
        }
    }
}
