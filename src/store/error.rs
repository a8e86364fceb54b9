//! Why the ledger failed, with what a person needs to act.

use crate::engine::operation::IdempotencyKey;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What may have left this machine before the ledger failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Left {
    /// Nothing was sent by this run.
    Nothing,
    /// An attempt was started: the request may have left.
    Perhaps,
}

/// Why the ledger failed.
#[derive(Debug)]
pub enum StoreError {
    /// There is no such file, and reading never makes one.
    Missing {
        /// Where it was looked for.
        path: PathBuf,
    },
    /// The path names a folder, a pipe or a device.
    NotAFile {
        /// The path.
        path: PathBuf,
    },
    /// The file does not begin with a valid `ledger` line. It was not altered.
    NotALedger {
        /// The file.
        path: PathBuf,
    },
    /// The file was written by a newer version. It was not altered.
    NewerFormat {
        /// The file.
        path: PathBuf,
        /// The version that it has.
        found: u64,
        /// The newest version that is known here.
        known: u64,
    },
    /// The file lies on a file system whose locks and syncs cannot be trusted.
    NetworkFileSystem {
        /// The file.
        path: PathBuf,
        /// What the file system is called.
        kind: &'static str,
    },
    /// The operating system refused something.
    Io {
        /// What was tried: completes "cannot …".
        doing: &'static str,
        /// On what.
        path: PathBuf,
        /// Its words.
        source: io::Error,
    },
    /// The disk, or a quota on it, is full.
    NoSpace {
        /// The file that could not grow.
        path: PathBuf,
    },
    /// A line that was acknowledged cannot be read any more, or two ledgers were merged.
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        what: &'static str,
        /// The line, from 1.
        line: u64,
        /// The offset of its first byte, from 0.
        byte: u64,
    },
    /// The file ends before what this machine has written to it.
    LostEnd {
        /// The file.
        path: PathBuf,
        /// The newest claim in it.
        found: u64,
        /// The newest claim that this machine has synced.
        recorded: u64,
    },
    /// An earlier sync of the file failed.
    Sick {
        /// The file that says so.
        path: PathBuf,
    },
    /// What was written cannot be made durable.
    Unsynced {
        /// The file.
        path: PathBuf,
        /// The operating system's words.
        source: io::Error,
    },
    /// Another process held the append lock for too long.
    Locked {
        /// The lock file.
        path: PathBuf,
        /// How long was waited.
        waited: Duration,
    },
    /// The file was removed, replaced or cut while it was in use.
    Replaced {
        /// The file.
        path: PathBuf,
    },
    /// The claim was taken over, so that nothing may be sent for it any more.
    Fenced {
        /// The key.
        key: IdempotencyKey,
        /// The claim.
        n: u64,
        /// The claim that took over.
        newest: u64,
    },
    /// A fact does not fit into a line, however much is left out.
    TooLong {
        /// The line's length in bytes.
        len: usize,
        /// The longest that is written.
        max: usize,
    },
    /// The key was used, and what became of it was lost with a part of the ledger.
    Lost {
        /// The key.
        key: IdempotencyKey,
        /// The claim that used it.
        n: u64,
    },
    /// A live process works with the ledger, which must be left alone for this.
    InUse {
        /// The file.
        path: PathBuf,
        /// A claim that is alive.
        n: u64,
        /// The process that made it.
        pid: u32,
    },
    /// Another process uses the same file under another name, where it has other locks.
    OtherName {
        /// The file.
        path: PathBuf,
    },
    /// What was written again is not on the disk.
    NotPersisted {
        /// The file.
        path: PathBuf,
        /// The offset of the first byte that differs.
        byte: u64,
    },
    /// Another process compacts the ledger, or has claimed an operation that was to be compacted.
    Compacting {
        /// The file.
        path: PathBuf,
    },
    /// A compaction was told to stop; the file is as it was.
    Stopped {
        /// The file.
        path: PathBuf,
    },
    /// The ledger itself is compacted; bodies beside it that nothing names any more may still be there.
    Unswept {
        /// The folder.
        path: PathBuf,
        /// Why.
        source: Box<StoreError>,
    },
    /// The file has several names: the others would keep the old one.
    Linked {
        /// The file.
        path: PathBuf,
    },
    /// A body that was kept beside the ledger is not what it was.
    BlobDamaged {
        /// Its file.
        path: PathBuf,
    },
    /// A fact is not recorded, or not certainly.
    Unrecorded {
        /// What may have left before.
        left: Left,
        /// Why.
        source: Box<StoreError>,
    },
}

impl StoreError {
    /// Returns what may have left this machine before the ledger failed.
    pub const fn left(&self) -> Left {
        match self {
            StoreError::Unrecorded { left, .. } => *left,
            _ => Left::Nothing,
        }
    }

    /// Returns what to do next, where something is known to help.
    pub fn hint(&self) -> Option<&'static str> {
        Some(match self {
            StoreError::Missing { .. } => "`abide send` makes the ledger; check the path",
            StoreError::NotAFile { .. } | StoreError::NotALedger { .. } => "give --ledger another path",
            StoreError::NewerFormat { .. } => "use the newer abide that wrote it",
            StoreError::NetworkFileSystem { .. } => "choose a local path, or pass --ledger-unsafe-fs at your own risk",
            StoreError::NoSpace { .. } => "free some space, then run the same command again",
            StoreError::Damaged { .. } => {
                "put a good copy back, or see `abide ledger verify`: with --accept-loss what was lost counts as in doubt"
            }
            StoreError::LostEnd { .. } => {
                "put the newest copy back: an older one does not know what was sent since. \
                 `abide ledger verify --accept-loss` goes on without it"
            }
            StoreError::Sick { .. } => "check the disk, then run `abide ledger verify --repair`",
            StoreError::NotPersisted { .. } => "copy the ledger to another disk",
            StoreError::Lost { .. } => "ask the partner whether it happened; another key sends it again",
            StoreError::OtherName { .. } => "a hard link or a bind mount: give every process the same path",
            StoreError::InUse { .. } => "wait until that process ends, then run the same command again",
            StoreError::Compacting { .. } => "run the same command again a little later",
            StoreError::Linked { .. } => "remove its other hard links",
            StoreError::Locked { .. } => "look for a stopped abide process",
            StoreError::Unswept { source, .. } => {
                return source.hint().or(Some("mend that, then run the same command again: it erases what is left"));
            }
            StoreError::Unrecorded { source, .. } => return source.hint(),
            _ => return None,
        })
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StoreError::Missing { path } => write!(f, "no ledger at {}", path.display()),
            StoreError::NotAFile { path } => write!(f, "{} is not a regular file", path.display()),
            StoreError::NotALedger { path } => {
                write!(f, "{} does not begin with a valid ledger line; it was left as it is", path.display())
            }
            StoreError::NewerFormat { path, found, known } => {
                write!(f, "{} has ledger format {found}, this abide knows up to {known}", path.display())
            }
            StoreError::NetworkFileSystem { path, kind } => {
                write!(f, "{} is on {kind}, where locks and syncs cannot be trusted", path.display())
            }
            StoreError::Io { doing, path, source } => write!(f, "cannot {doing} {}: {source}", path.display()),
            StoreError::NoSpace { path } => write!(f, "no space left for {}", path.display()),
            StoreError::Damaged { path, what, line, byte } => {
                write!(f, "ledger damaged: {}:{line}: {what} (byte {byte})", path.display())
            }
            StoreError::LostEnd { path, found, recorded } => write!(
                f,
                "{} has lost its end or is an older copy: its newest claim is {found}, this machine has written {recorded}",
                path.display()
            ),
            StoreError::Sick { path } => write!(f, "an earlier sync of the ledger failed, says {}", path.display()),
            StoreError::Unsynced { path, source } => write!(f, "cannot sync {}: {source}", path.display()),
            StoreError::Locked { path, waited } => {
                write!(f, "{} stayed locked for {} ms", path.display(), waited.as_millis())
            }
            StoreError::Replaced { path } => told(f, path, "was removed, replaced or cut while it was in use"),
            StoreError::Fenced { key, n, newest } => {
                write!(f, "claim {n} of {key} was taken over by claim {newest}")
            }
            StoreError::TooLong { len, max } => write!(f, "a ledger line of {len} bytes is longer than {max}"),
            StoreError::Lost { key, n } => {
                write!(f, "{key} was used by claim {n}, whose lines were lost: it may have been executed")
            }
            StoreError::InUse { path, n, pid } => {
                write!(f, "process {pid} works with {}: its claim {n} is alive", path.display())
            }
            StoreError::OtherName { path } => told(f, path, "is in use under another name, whose locks are elsewhere"),
            StoreError::NotPersisted { path, byte } => {
                write!(f, "{} was written again, and is not on the disk from byte {byte}", path.display())
            }
            StoreError::Compacting { path } => told(f, path, "is being compacted, or was used while that began"),
            StoreError::Stopped { path } => told(f, path, "is not compacted: a signal came; it is as it was"),
            StoreError::Unswept { path, source } => {
                write!(f, "not everything is erased: bodies may be left in {}: {source}", path.display())
            }
            StoreError::Linked { path } => told(f, path, "has other hard links, which would keep the old file"),
            StoreError::BlobDamaged { path } => {
                write!(f, "the body in {} is not what was stored", path.display())
            }
            StoreError::Unrecorded { left: Left::Nothing, source } => {
                write!(f, "not durable, nothing was sent: {source}")
            }
            StoreError::Unrecorded { left: Left::Perhaps, source } => {
                write!(f, "the request may have left; outcome not recorded: {source}")
            }
        }
    }
}

fn told(f: &mut fmt::Formatter<'_>, path: &Path, words: &str) -> fmt::Result {
    write!(f, "{} {words}", path.display())
}

impl std::error::Error for StoreError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            StoreError::Io { source, .. } | StoreError::Unsynced { source, .. } => Some(source),
            StoreError::Unrecorded { source, .. } | StoreError::Unswept { source, .. } => Some(&**source),
            _ => None,
        }
    }
}
