//! Who may append, and which owners live: byte-range locks on `ledger.jsonl.lock`, held by the open file.
//!
//! The kernel lets them go when the process ends, however it ends. Process ids are shown to people and decide
//! nothing: in a container, process 1 of another one looks like ours.

use super::place::{Place, failed, private};
use crate::store::StoreError;
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, fcntl};
use nix::libc;
use std::collections::HashSet;
use std::fs::{File, OpenOptions};
use std::io;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

/// The byte that whoever appends holds.
const APPEND: u64 = 0;
/// Claim `n` is alive while byte `LIVENESS + n` is held.
const LIVENESS: u64 = 1 << 40;

/// The lock file of a ledger, opened once: all its locks belong to this value.
#[derive(Debug)]
pub struct Locks {
    file: File,
    path: PathBuf,
    /// The claims held here. A lock never conflicts with others of its own file: asked through it, they look free.
    held: Mutex<HashSet<u64>>,
}

/// The right to append, until it is dropped.
#[derive(Debug)]
pub struct Append<'a>(&'a Locks);

#[derive(Clone, Copy, Debug)]
enum Kind {
    Read = libc::F_RDLCK as isize,
    Write = libc::F_WRLCK as isize,
    Free = libc::F_UNLCK as isize,
}

impl Locks {
    /// Opens the lock file, and makes it where it is missing.
    pub fn open(place: &Place) -> Result<Locks, StoreError> {
        let path = place.lock();
        let file = private(OpenOptions::new().read(true).write(true).create(true))
            .open(&path)
            .map_err(|error| failed("open", &path, error))?;
        Ok(Locks { file, path, held: Mutex::default() })
    }

    /// Opens the lock file for readers; `None` where there is none, and so no live owner.
    pub fn open_to_read(place: &Place) -> Result<Option<Locks>, StoreError> {
        let path = place.lock();
        match File::open(&path) {
            Ok(file) => Ok(Some(Locks { file, path, held: Mutex::default() })),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(failed("open", &path, error)),
        }
    }

    /// Returns the path of the lock file.
    pub fn path(&self) -> &PathBuf {
        &self.path
    }

    /// Takes the right to append; `None` while another process has it. Not for two at once through one value.
    pub fn try_append(&self) -> Result<Option<Append<'_>>, StoreError> {
        Ok(self.set(Kind::Write, APPEND)?.then_some(Append(self)))
    }

    /// Keeps everybody from appending, for a reader; `None` while a process appends.
    pub fn try_read(&self) -> Result<Option<Append<'_>>, StoreError> {
        Ok(self.set(Kind::Read, APPEND)?.then_some(Append(self)))
    }

    /// Makes claim `n` alive. Returns false where somebody holds it already.
    pub fn hold(&self, n: u64) -> Result<bool, StoreError> {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let taken = !held.contains(&n) && self.set(Kind::Write, LIVENESS + n)?;
        if taken {
            held.insert(n);
        }
        Ok(taken)
    }

    /// Ends claim `n`.
    pub fn release(&self, n: u64) {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        if held.remove(&n) {
            // Where it fails, the owner looks alive until this process ends: the safe side.
            drop(self.set(Kind::Free, LIVENESS + n));
        }
    }

    /// Returns whether the owner of claim `n` lives.
    pub fn lives(&self, n: u64) -> Result<bool, StoreError> {
        let held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        if held.contains(&n) {
            return Ok(true);
        }
        // Asked as a reader, so that two who ask at once do not take each other for the owner.
        let dead = self.set(Kind::Read, LIVENESS + n)?;
        if dead {
            self.set(Kind::Free, LIVENESS + n)?;
        }
        Ok(!dead)
    }

    fn set(&self, kind: Kind, byte: u64) -> Result<bool, StoreError> {
        let range = libc::flock {
            l_type: kind as libc::c_short,
            l_whence: libc::SEEK_SET as libc::c_short,
            l_start: byte as libc::off_t,
            l_len: 1,
            l_pid: 0,
        };
        match fcntl(&self.file, FcntlArg::F_OFD_SETLK(&range)) {
            Ok(_) => Ok(true),
            Err(Errno::EAGAIN | Errno::EACCES) => Ok(false),
            Err(errno) => Err(failed("lock", &self.path, errno.into())),
        }
    }
}

impl Drop for Append<'_> {
    fn drop(&mut self) {
        // It cannot fail on an open file; if it did, the next one would wait and say so.
        drop(self.0.set(Kind::Free, APPEND));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn two() -> (tempfile::TempDir, Locks, Locks) {
        let folder = tempfile::tempdir().expect("a folder");
        let place = Place::find(&folder.path().join("l.jsonl")).expect("a place");
        let (one, other) = (Locks::open(&place).expect("opens"), Locks::open(&place).expect("opens"));
        (folder, one, other)
    }

    #[test]
    fn one_process_appends_at_a_time() {
        let (_folder, one, other) = two();
        let append = one.try_append().expect("works").expect("free");
        assert!(other.try_append().expect("works").is_none());
        assert!(other.try_read().expect("works").is_none());
        drop(append);
        let _append = other.try_append().expect("works").expect("free again");
    }

    #[test]
    fn a_claim_lives_until_it_is_released_or_its_file_closed() {
        let (_folder, one, other) = two();
        assert!(one.hold(7).expect("works"));
        assert!(!one.hold(7).expect("works"));
        assert!(!other.hold(7).expect("works"));
        for locks in [&one, &other] {
            assert!(locks.lives(7).expect("works"));
            assert!(!locks.lives(8).expect("works"));
        }
        assert!(other.lives(7).expect("works"), "asking takes nothing away");
        one.release(7);
        assert!(!other.lives(7).expect("works"));
        assert!(other.hold(7).expect("works"));
        drop(other);
        assert!(!one.lives(7).expect("works"));
    }
}
