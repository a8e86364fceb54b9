//! What this machine remembers of a ledger, outside of it: a lost end or an older copy put back is noticed.

use super::disk::write_all;
use super::place::{failed, make_folder, open_or_make};
use crate::store::StoreError;
use serde::{Deserialize, Serialize};
use std::cmp::Ordering;
use std::fs::{File, TryLockError};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The length of a record in bytes: one sector at most, so that it is written whole or not at all.
const RECORD: usize = 160;
/// How often, and how long, another process that moves the record on is waited for: 20 ms in all.
const LOCK_TRIES: u32 = 20;
const LOCK_TRY_WAIT: Duration = Duration::from_millis(1);

/// What this machine has written to a ledger.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// How often the ledger had been compacted.
    #[serde(rename = "gen")]
    pub generation: u64,
    /// The newest claim that was synced.
    pub n: u64,
    /// The offset up to which the file was durable then.
    pub end: u64,
    /// The newest claim that was there when this machine saw the ledger first; 0 for one that it made.
    pub from: u64,
}

/// The file with the record of one ledger.
#[derive(Debug)]
pub struct Seen {
    file: File,
    path: PathBuf,
}

impl Seen {
    /// Opens the record of the ledger `id` in the state folder, and makes it where it is missing.
    ///
    /// Returns what it says: `None` where it was missing or cannot be understood, e.g. after a power cut.
    pub fn open(state: &Path, id: &str) -> Result<(Seen, Option<Record>), StoreError> {
        let folder = state.join("ledgers");
        make_folder(&folder)?;
        let path = folder.join(id);
        let opened = open_or_make(&path, &folder);
        let file = opened.map_err(|error| failed("remember the ledger in", &path, error))?;
        let seen = Seen { file, path };
        let record = seen.read()?;
        Ok((seen, record))
    }

    /// Reads the record of a ledger without making one; `None` where there is none.
    pub fn look(state: &Path, id: &str) -> Option<Record> {
        let path = state.join("ledgers").join(id);
        let file = File::open(&path).ok()?;
        Seen { file, path }.read().ok()?
    }

    /// Writes a first record.
    pub fn begin(&self, record: Record) -> Result<(), StoreError> {
        self.write(record)
    }

    /// Moves the record on; what another process has written meanwhile never moves back.
    pub fn advance(&self, generation: u64, n: u64, end: u64) -> Result<(), StoreError> {
        self.lock()?;
        let moved = self.read().and_then(|known| {
            let known = known.unwrap_or_default();
            let moved = match known.generation.cmp(&generation) {
                Ordering::Less => Record { generation, n, end, ..known },
                Ordering::Equal => Record { n: known.n.max(n), end: known.end.max(end), ..known },
                // Synced in the file from before a compaction: the claim was copied, its offset means nothing now.
                Ordering::Greater => Record { n: known.n.max(n), ..known },
            };
            self.write(moved)
        });
        // Where it fails, closing the file lets the lock go.
        drop(self.file.unlock());
        moved
    }

    /// Waits a little: a stopped process must not stop this one, and the record is a second line of defence.
    fn lock(&self) -> Result<(), StoreError> {
        for _ in 0..LOCK_TRIES {
            match self.file.try_lock() {
                Ok(()) => return Ok(()),
                Err(TryLockError::WouldBlock) => std::thread::sleep(LOCK_TRY_WAIT),
                Err(TryLockError::Error(error)) => return Err(failed("lock", &self.path, error)),
            }
        }
        Err(StoreError::Locked { path: self.path.clone(), waited: LOCK_TRY_WAIT * LOCK_TRIES })
    }

    fn read(&self) -> Result<Option<Record>, StoreError> {
        let mut bytes = [0; RECORD];
        let len = self.file.read_at(&mut bytes, 0).map_err(|error| failed("read", &self.path, error))?;
        Ok(serde_json::from_slice(&bytes[..len]).ok())
    }

    fn write(&self, record: Record) -> Result<(), StoreError> {
        let text = serde_json::to_string(&record).expect("numbers are JSON");
        let padded = format!("{text:<width$}\n", width = RECORD - 1);
        write_all(&self.file, padded.as_bytes(), 0).map_err(|error| failed("write", &self.path, error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_moves_on_and_never_back() {
        let state = tempfile::tempdir().expect("a folder");
        let (seen, missing) = Seen::open(state.path(), "abc").expect("opens");
        assert_eq!(missing, None);
        seen.begin(Record { generation: 0, n: 4, end: 90, from: 4 }).expect("writes");
        seen.advance(0, 6, 200).expect("writes");
        seen.advance(0, 5, 150).expect("writes");
        let expected = Record { generation: 0, n: 6, end: 200, from: 4 };
        assert_eq!(Seen::open(state.path(), "abc").expect("opens").1, Some(expected));
        // After a compaction the file is shorter.
        seen.advance(1, 7, 100).expect("writes");
        assert_eq!(Seen::look(state.path(), "abc"), Some(Record { generation: 1, n: 7, end: 100, from: 4 }));
        // A claim of the old file that tells of it late.
        seen.advance(0, 8, 220).expect("writes");
        assert_eq!(Seen::look(state.path(), "abc"), Some(Record { generation: 1, n: 8, end: 100, from: 4 }));
    }

    #[test]
    fn the_longest_record_fits() {
        let longest = Record { generation: u64::MAX, n: u64::MAX, end: u64::MAX, from: u64::MAX };
        assert!(serde_json::to_string(&longest).expect("JSON").len() < RECORD);
    }

    #[test]
    fn what_is_no_record_is_none() {
        let state = tempfile::tempdir().expect("a folder");
        make_folder(&state.path().join("ledgers")).expect("a folder");
        std::fs::write(state.path().join("ledgers/abc"), [0; RECORD]).expect("writes");
        assert_eq!(Seen::open(state.path(), "abc").expect("opens").1, None);
        assert_eq!(Seen::look(state.path(), "xyz"), None);
    }
}
