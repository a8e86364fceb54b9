//! Byte ranges of one lock file, held by its open file description (Linux `F_OFD_*`).
//!
//! Byte 0 is the right to append, byte 1 that to change the index, byte 2 that to compact; byte 2^40 + n says that
//! claim n is alive.

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, fcntl};
use nix::libc;
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

const APPEND: u64 = 0;
const UPKEEP: u64 = 1;
const COMPACTION: u64 = 2;
const LIVENESS: u64 = 1 << 40;
/// Bytes of the ledger's own file, far beyond its end: each stands for a lock file.
const MARKS: (u64, u64) = (1 << 50, (1 << 50) + (1 << 20));

/// The locks of one open lock file.
#[derive(Debug)]
pub struct Kernel(File);

/// How a range is held.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Shared,
    Alone,
    Free,
}

impl Kernel {
    pub fn new(file: File, _path: &Path) -> Kernel {
        Kernel(file)
    }

    /// Takes the right to append; false while somebody else has it.
    pub fn append_alone(&self) -> io::Result<bool> {
        self.set(Kind::Alone, APPEND)
    }

    /// Keeps everybody from appending; false while somebody appends.
    pub fn append_shared(&self) -> io::Result<bool> {
        self.set(Kind::Shared, APPEND)
    }

    pub fn append_free(&self) -> io::Result<()> {
        self.set(Kind::Free, APPEND).map(drop)
    }

    /// Takes the right to change the index; false while somebody else has it.
    pub fn upkeep_alone(&self) -> io::Result<bool> {
        self.set(Kind::Alone, UPKEEP)
    }

    pub fn upkeep_free(&self) -> io::Result<()> {
        self.set(Kind::Free, UPKEEP).map(drop)
    }

    /// Takes the right to compact; false while somebody else has it.
    pub fn compaction_alone(&self) -> io::Result<bool> {
        self.set(Kind::Alone, COMPACTION)
    }

    pub fn compaction_free(&self) -> io::Result<()> {
        self.set(Kind::Free, COMPACTION).map(drop)
    }

    /// Makes claim `n` alive; false where somebody holds it already.
    pub fn hold(&self, n: u64) -> io::Result<bool> {
        self.set(Kind::Alone, LIVENESS + n)
    }

    pub fn release(&self, n: u64) -> io::Result<()> {
        self.set(Kind::Free, LIVENESS + n).map(drop)
    }

    /// Returns whether somebody else holds claim `n`. Not for claims held here: it would let them go.
    pub fn is_held(&self, n: u64) -> io::Result<bool> {
        // Asked as a reader, so that two who ask at once do not take each other for the owner.
        let free = self.set(Kind::Shared, LIVENESS + n)?;
        if free {
            self.release(n)?;
        }
        Ok(!free)
    }

    /// Marks a ledger's file as used with this lock file, as long as it is open; false where somebody uses it with
    /// another one.
    ///
    /// Locks belong to a file whatever it is called: a ledger that is reached through a hard link or a bind mount has
    /// its lock file elsewhere, and nobody there hears of ours.
    pub fn mark(&self, ledger: &File) -> io::Result<bool> {
        let ours = self.0.metadata()?;
        let byte = MARKS.0 + ours.dev().wrapping_mul(31).wrapping_add(ours.ino()) % (MARKS.1 - MARKS.0);
        fcntl(ledger, FcntlArg::F_OFD_SETLK(&range(libc::F_RDLCK, byte, byte + 1)))?;
        for (from, to) in [(MARKS.0, byte), (byte + 1, MARKS.1)] {
            // A length of 0 would mean: to the end.
            if from == to {
                continue;
            }
            let mut other = range(libc::F_WRLCK, from, to);
            fcntl(ledger, FcntlArg::F_OFD_GETLK(&mut other))?;
            if other.l_type != libc::F_UNLCK as libc::c_short {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn set(&self, kind: Kind, byte: u64) -> io::Result<bool> {
        let kind = match kind {
            Kind::Shared => libc::F_RDLCK,
            Kind::Alone => libc::F_WRLCK,
            Kind::Free => libc::F_UNLCK,
        };
        match fcntl(&self.0, FcntlArg::F_OFD_SETLK(&range(kind, byte, byte + 1))) {
            Ok(_) => Ok(true),
            Err(Errno::EAGAIN | Errno::EACCES) => Ok(false),
            Err(errno) => Err(errno.into()),
        }
    }
}

fn range(kind: libc::c_int, from: u64, to: u64) -> libc::flock {
    libc::flock {
        l_type: kind as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: from as libc::off_t,
        l_len: (to - from) as libc::off_t,
        l_pid: 0,
    }
}
