//! A ledger that nobody else compacts.

use crate::store::StoreError;
use crate::store::jsonl::Options;
use crate::store::jsonl::core::twin;
use crate::store::jsonl::disk::stat_of;
use crate::store::jsonl::journal::{Journal, Reading};
use crate::store::jsonl::locks::Locks;
use crate::store::jsonl::place::Place;
use crate::store::jsonl::seen::{Record, Seen};
use std::fs::{self, File};
use std::sync::Arc;

/// The file that the path names now. The right to compact is held.
pub struct Held<'a> {
    pub place: &'a Place,
    pub options: &'a Options,
    pub locks: &'a Locks,
    /// Marks the file as used under this name.
    pub marked: File,
    pub record: Option<Record>,
    pub journal: Journal,
}

impl<'a> Held<'a> {
    /// Opens the file and reads it. Others may append meanwhile.
    pub fn open(place: &'a Place, options: &'a Options, locks: &'a Locks) -> Result<Held<'a>, StoreError> {
        let file = place.open_to_write()?;
        let marked = twin(place, &file)?;
        locks.mark(&marked, place)?;
        let mut journal = Journal::load(place, Arc::new(file))?;
        let record = options.state.as_ref().and_then(|state| Seen::look(state, &journal.header().id));
        if let Some(record) = &record {
            journal.trust(record);
        }
        journal.read_on(Reading::Unlocked)?;
        Ok(Held { place, options, locks, marked, record, journal })
    }

    /// Reads what came meanwhile, and mends what a dead writer left. The append lock is held.
    ///
    /// # Errors
    /// As a claim would refuse the ledger.
    pub fn catch_up(&mut self) -> Result<(), StoreError> {
        let (place, journal) = (self.place, &mut self.journal);
        let there = fs::metadata(place.ledger()).map(|found| stat_of(&found).identity);
        let ours = journal.disk().stat().map(|found| found.identity);
        if there.ok().zip(ours.ok()).is_none_or(|(there, ours)| there != ours) {
            return Err(StoreError::Replaced { path: place.ledger().into() });
        }
        let damage = journal.read_on(Reading::Locked)?;
        if let Some(record) = &self.record {
            journal.check_end(record)?;
        }
        if place.sick().exists() {
            return Err(StoreError::Sick { path: place.sick() });
        }
        journal.check()?;
        if !damage.is_none() {
            journal.mend(&damage, self.options.now)?;
        }
        Ok(())
    }
}
