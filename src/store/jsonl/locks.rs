//! Who may append, and which owners live: byte-range locks on `ledger.jsonl.lock`, held by the open file.
//!
//! The kernel lets them go when the process ends, however it ends. Process ids are shown to people and decide
//! nothing: in a container, process 1 of another one looks like ours.

#[cfg_attr(target_os = "linux", path = "locks/ofd.rs")]
#[cfg_attr(not(target_os = "linux"), path = "locks/flock.rs")]
mod kernel;

use super::place::{Place, failed, open_or_make};
use crate::store::StoreError;
use kernel::Kernel;
use std::collections::HashSet;
use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The lock file of a ledger, opened once: all its locks belong to this value.
#[derive(Debug)]
pub struct Locks {
    kernel: Kernel,
    path: PathBuf,
    /// The claims held here. A lock never conflicts with others of its own file: asked through it, they look free.
    held: Mutex<HashSet<u64>>,
}

/// The right to append, until it is dropped.
#[derive(Debug)]
pub struct Append<'a>(&'a Locks);

/// The right to change the index, until it is dropped. Never taken before the right to append.
#[derive(Debug)]
pub struct Upkeep<'a>(&'a Locks);

/// The right to compact, until it is dropped. Taken before the right to append.
#[derive(Debug)]
pub struct Compaction<'a>(&'a Locks);

impl Locks {
    /// Opens the lock file, and makes it where it is missing.
    pub fn open(place: &Place) -> Result<Locks, StoreError> {
        let path = place.lock();
        let file = open_or_make(&path, place.ledger()).map_err(|error| failed("open", &path, error))?;
        Ok(Locks::new(file, path))
    }

    /// Opens the lock file for readers; `None` where there is none, and so no live owner.
    pub fn open_to_read(place: &Place) -> Result<Option<Locks>, StoreError> {
        let path = place.lock();
        match File::open(&path) {
            Ok(file) => Ok(Some(Locks::new(file, path))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(failed("open", &path, error)),
        }
    }

    fn new(file: File, path: PathBuf) -> Locks {
        Locks { kernel: Kernel::new(file, &path), path, held: Mutex::default() }
    }

    /// Returns the path of the lock file.
    pub fn path(&self) -> &PathBuf {
        &self.path
    }

    /// Refuses a ledger's file that somebody uses under another name: his locks are elsewhere. Holds for as long as the
    /// file is open.
    pub fn mark(&self, ledger: &File, place: &Place) -> Result<(), StoreError> {
        match self.tell(self.kernel.mark(ledger))? {
            true => Ok(()),
            false => Err(StoreError::OtherName { path: place.ledger().into() }),
        }
    }

    /// Takes the right to append; `None` while another process has it. Not for two at once through one value.
    pub fn try_append(&self) -> Result<Option<Append<'_>>, StoreError> {
        Ok(self.tell(self.kernel.append_alone())?.then_some(Append(self)))
    }

    /// Keeps everybody from appending, for a reader; `None` while a process appends.
    pub fn try_read(&self) -> Result<Option<Append<'_>>, StoreError> {
        Ok(self.tell(self.kernel.append_shared())?.then_some(Append(self)))
    }

    /// Takes the right to change the index; `None` while another process has it. Not for two at once through one value.
    pub fn try_upkeep(&self) -> Result<Option<Upkeep<'_>>, StoreError> {
        Ok(self.tell(self.kernel.upkeep_alone())?.then_some(Upkeep(self)))
    }

    /// Takes the right to compact; `None` while another process has it. Not for two at once through one value.
    pub fn try_compaction(&self) -> Result<Option<Compaction<'_>>, StoreError> {
        Ok(self.tell(self.kernel.compaction_alone())?.then_some(Compaction(self)))
    }

    /// Makes claim `n` alive. Returns false where somebody holds it already.
    pub fn hold(&self, n: u64) -> Result<bool, StoreError> {
        let mut held = self.held();
        let taken = !held.contains(&n) && self.tell(self.kernel.hold(n))?;
        if taken {
            held.insert(n);
        }
        Ok(taken)
    }

    /// Ends claim `n`.
    pub fn release(&self, n: u64) {
        if self.held().remove(&n) {
            // Where it fails, the owner looks alive until this process ends: the safe side.
            drop(self.kernel.release(n));
        }
    }

    /// Returns whether the owner of claim `n` lives.
    pub fn lives(&self, n: u64) -> Result<bool, StoreError> {
        // Kept until the end: a claim that is taken meanwhile must not be asked about, which would let it go.
        let held = self.held();
        if held.contains(&n) {
            return Ok(true);
        }
        self.tell(self.kernel.is_held(n))
    }

    fn held(&self) -> MutexGuard<'_, HashSet<u64>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tell<T>(&self, asked: io::Result<T>) -> Result<T, StoreError> {
        asked.map_err(|error| failed("lock", &self.path, error))
    }
}

impl Drop for Append<'_> {
    fn drop(&mut self) {
        // It cannot fail on an open file; if it did, the next one would wait and say so.
        drop(self.0.kernel.append_free());
    }
}

impl Drop for Upkeep<'_> {
    fn drop(&mut self) {
        // As above.
        drop(self.0.kernel.upkeep_free());
    }
}

impl Drop for Compaction<'_> {
    fn drop(&mut self) {
        // As above.
        drop(self.0.kernel.compaction_free());
    }
}

/// Compiled and tested here too, for the systems that use it.
#[cfg(all(test, target_os = "linux"))]
#[path = "locks/flock.rs"]
mod elsewhere;

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

    #[test]
    fn a_file_that_is_used_with_another_lock_file_is_refused() {
        let (folder, one, other) = two();
        let path = folder.path().join("l.jsonl");
        let place = Place::find(&path).expect("a place");
        std::fs::write(&path, "").expect("a file");
        let (ours, theirs) = (File::open(&path).expect("opens"), File::open(&path).expect("opens"));
        one.mark(&ours, &place).expect("alone");
        other.mark(&theirs, &place).expect("the same lock file");
        let link = folder.path().join("link.jsonl");
        std::fs::hard_link(&path, &link).expect("a link");
        let elsewhere = Place::find(&link).expect("a place");
        let (locks, file) = (Locks::open(&elsewhere).expect("opens"), File::open(&link).expect("opens"));
        assert!(matches!(locks.mark(&file, &elsewhere), Err(StoreError::OtherName { .. })));
        drop((ours, theirs));
        locks.mark(&file, &elsewhere).expect("nobody else");
    }

    type Right<T> = fn(&super::elsewhere::Kernel) -> io::Result<T>;

    fn rights() -> [(Right<bool>, Right<()>); 2] {
        use super::elsewhere::Kernel;
        [(Kernel::upkeep_alone, Kernel::upkeep_free), (Kernel::compaction_alone, Kernel::compaction_free)]
    }

    #[test]
    fn one_process_changes_the_index_and_one_compacts() {
        let (_folder, one, other) = two();
        let (upkeep, compaction) = (one.try_upkeep().expect("works"), other.try_compaction().expect("works"));
        assert!(upkeep.is_some() && compaction.is_some());
        assert!(other.try_upkeep().expect("works").is_none() && one.try_compaction().expect("works").is_none());
        let _append = one.try_append().expect("works").expect("free");
        drop((upkeep, compaction));
        assert!(other.try_upkeep().expect("works").is_some() && one.try_compaction().expect("works").is_some());
    }

    #[test]
    fn whole_file_locks_tell_the_same() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("l.lock");
        let open = || super::elsewhere::Kernel::new(File::create(&path).expect("a file"), &path);
        let (one, other) = (open(), open());
        assert!(one.mark(&File::create(folder.path().join("l")).expect("a file")).expect("works"));
        assert!(one.append_alone().expect("works"));
        assert!(!other.append_shared().expect("works"));
        one.append_free().expect("works");
        assert!(other.append_alone().expect("works"));
        for (take, leave) in rights() {
            assert!(take(&one).expect("works"));
            assert!(!take(&other).expect("works"));
            leave(&one).expect("works");
            assert!(take(&other).expect("works"));
            leave(&other).expect("works");
        }
        assert!(one.hold(7).expect("works"));
        assert!(other.is_held(7).expect("works"));
        assert!(!other.is_held(8).expect("works"));
        assert!(!other.hold(7).expect("works"));
        one.release(7).expect("works");
        assert!(!other.is_held(7).expect("works"));
        assert!(other.hold(7).expect("works"));
        drop(other);
        assert!(!one.is_held(7).expect("works"));
    }
}
