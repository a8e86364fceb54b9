//! Syncs of the ledger's file: one at a time, and none after one that failed.

use super::disk::Disk;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Makes the syncs of an open ledger, for whichever thread wants one.
#[derive(Debug, Default)]
pub struct Syncs {
    /// Held while the disk works.
    ///
    /// Two syncs at once would hide a failure: the system tells it once per open file, and the other one ends well.
    /// Source: Linux, `errseq_check_and_advance` as `file_check_and_advance_wb_err` calls it.
    turn: Mutex<()>,
    failed: AtomicBool,
    made: AtomicU64,
}

/// What a sync has to make durable, as it was when it became due.
#[derive(Clone, Debug)]
pub struct Due {
    /// The file.
    pub disk: Arc<dyn Disk>,
    /// Whether its name is durable.
    pub is_named: bool,
    /// What was known to be durable before: an offset.
    pub from: u64,
    /// Where the file ended.
    pub to: u64,
    /// How often the ledger had been compacted.
    pub generation: u64,
    /// How often the file had been replaced while it was open.
    pub replaced: u64,
}

impl Due {
    /// Returns whether anything is due.
    pub fn is_needed(&self) -> bool {
        self.from < self.to
    }
}

impl Syncs {
    /// Syncs a file; `None` where an earlier sync failed. `tell` is told of a failure before anybody else can sync.
    ///
    /// Source: the ledger's reference, section 3.1: after a failed sync the next one says that all is well.
    pub fn sync(&self, disk: &dyn Disk, tell: impl FnOnce(&io::Error)) -> Option<io::Result<()>> {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        if self.have_failed() {
            return None;
        }
        self.made.fetch_add(1, Ordering::Relaxed);
        let synced = disk.sync();
        if let Err(error) = &synced {
            self.failed.store(true, Ordering::Release);
            tell(error);
        }
        Some(synced)
    }

    /// Lets no more be made.
    pub fn stop(&self) {
        self.failed.store(true, Ordering::Release);
    }

    /// Returns whether one has failed: none is made any more. Waits for nothing.
    pub fn have_failed(&self) -> bool {
        self.failed.load(Ordering::Acquire)
    }

    /// Returns how many were made.
    pub fn made(&self) -> u64 {
        self.made.load(Ordering::Relaxed)
    }
}
