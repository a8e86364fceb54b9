//! Whole-file locks, for systems without byte ranges of an open file: one file per claim beside the lock file.
//!
//! A claim's file that is missing cannot tell; such systems also tell no boot, so that the claim counts as in doubt.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// The locks of one open lock file.
#[derive(Debug)]
pub struct Kernel {
    file: File,
    path: PathBuf,
    claims: Mutex<HashMap<u64, File>>,
    rights: Mutex<HashMap<&'static str, File>>,
}

const UPKEEP: &str = "upkeep";
const COMPACTION: &str = "compaction";

impl Kernel {
    pub fn new(file: File, path: &Path) -> Kernel {
        Kernel { file, path: path.into(), claims: Mutex::default(), rights: Mutex::default() }
    }

    /// Whole-file locks cannot tell whether a ledger is used under another name.
    pub fn mark(&self, _ledger: &File) -> io::Result<bool> {
        Ok(true)
    }

    /// Takes the right to append; false while somebody else has it.
    pub fn append_alone(&self) -> io::Result<bool> {
        taken(self.file.try_lock())
    }

    /// Keeps everybody from appending; false while somebody appends.
    pub fn append_shared(&self) -> io::Result<bool> {
        taken(self.file.try_lock_shared())
    }

    pub fn append_free(&self) -> io::Result<()> {
        self.file.unlock()
    }

    /// Takes the right to change the index; false while somebody else has it.
    pub fn upkeep_alone(&self) -> io::Result<bool> {
        self.take(UPKEEP)
    }

    pub fn upkeep_free(&self) -> io::Result<()> {
        self.leave(UPKEEP)
    }

    /// Takes the right to compact; false while somebody else has it.
    pub fn compaction_alone(&self) -> io::Result<bool> {
        self.take(COMPACTION)
    }

    pub fn compaction_free(&self) -> io::Result<()> {
        self.leave(COMPACTION)
    }

    fn take(&self, right: &'static str) -> io::Result<bool> {
        let file = open(&self.beside(right))?;
        let is_ours = taken(file.try_lock())?;
        if is_ours {
            self.rights.lock().unwrap_or_else(PoisonError::into_inner).insert(right, file);
        }
        Ok(is_ours)
    }

    fn leave(&self, right: &'static str) -> io::Result<()> {
        // Closing the file lets its lock go; the file itself stays, for the next one.
        drop(self.rights.lock().unwrap_or_else(PoisonError::into_inner).remove(right));
        Ok(())
    }

    /// Makes claim `n` alive; false where somebody holds it already.
    pub fn hold(&self, n: u64) -> io::Result<bool> {
        let file = open(&self.claim(n))?;
        let held = taken(file.try_lock())?;
        if held {
            self.claims.lock().unwrap_or_else(PoisonError::into_inner).insert(n, file);
        }
        Ok(held)
    }

    pub fn release(&self, n: u64) -> io::Result<()> {
        // Closing the file lets its lock go.
        drop(self.claims.lock().unwrap_or_else(PoisonError::into_inner).remove(&n));
        fs::remove_file(self.claim(n))
    }

    /// Returns whether somebody else holds claim `n`. Not for claims held here.
    pub fn is_held(&self, n: u64) -> io::Result<bool> {
        match File::open(self.claim(n)) {
            Ok(file) => taken(file.try_lock_shared()).map(|free| !free),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn claim(&self, n: u64) -> PathBuf {
        self.beside(&n.to_string())
    }

    fn beside(&self, ending: &str) -> PathBuf {
        let mut name = self.path.clone().into_os_string();
        name.push(format!(".{ending}"));
        name.into()
    }
}

fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path)
}

fn taken(lock: Result<(), TryLockError>) -> io::Result<bool> {
    match lock {
        Ok(()) => Ok(true),
        Err(TryLockError::WouldBlock) => Ok(false),
        Err(TryLockError::Error(error)) => Err(error),
    }
}
