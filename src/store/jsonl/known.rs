//! What a reader has read of an operation: as long as nothing was written about it since, its claim need not read it
//! again.

use super::Jsonl;
use super::claim::{self, JsonlClaim};
use super::journal::Journal;
use super::lookup::{Operation, Trouble};
use super::reader::Found;
use crate::drive::{Claimed, Ledger, Resolving, Wish};
use crate::engine::facts::Resolved;
use crate::engine::moment::Now;
use crate::engine::operation::IdempotencyKey;
use crate::store::StoreError;
use std::sync::Arc;

/// How far a ledger was read.
#[derive(Debug)]
pub struct Extent {
    id: Box<str>,
    generation: u64,
    end: u64,
}

impl Extent {
    /// Returns how far a journal was read.
    pub fn of(journal: &Journal) -> Extent {
        let header = journal.header();
        Extent { id: header.id.clone(), generation: header.generation, end: journal.end() }
    }
}

/// Where an operation was read.
#[derive(Clone, Debug)]
pub struct Traced {
    /// How far the ledger was read.
    pub extent: Arc<Extent>,
    /// The offset of the operation's first line.
    pub opened_at: u64,
}

impl Traced {
    /// Returns the operation if it still is what was found, as far as the journal was read: every line that can change it
    /// names its key.
    pub fn still(&self, found: &Found, journal: &Journal) -> Result<Option<Operation>, Trouble> {
        let Traced { extent, opened_at } = self;
        let header = journal.header();
        let is_same_file = extent.id == header.id && extent.generation == header.generation;
        let hash = journal.keys().key(&found.key);
        if !is_same_file || journal.end() < extent.end || journal.index().may_have_behind(hash, extent.end)? {
            return Ok(None);
        }
        let (partner, key, history) = (found.partner.clone(), found.key.clone(), found.history.clone());
        let newest = history.newest_claim();
        Ok(Some(Operation { partner, key, history, newest, opened_at: *opened_at, claims: Vec::new() }))
    }
}

/// A ledger together with what a reader has found of the operation that is to be claimed.
#[derive(Debug)]
pub struct Informed<'a> {
    /// The ledger.
    pub ledger: &'a mut Jsonl,
    /// What was found in it.
    pub found: &'a Found,
}

impl Ledger for Informed<'_> {
    type Claim = JsonlClaim;
    type Error = StoreError;

    async fn claim(&mut self, wish: &Wish, now: Now) -> Result<Claimed<JsonlClaim>, StoreError> {
        claim::claim(&self.ledger.core, wish, Some(self.found), now).await
    }

    async fn resolve(&mut self, key: &IdempotencyKey, resolved: &Resolved, now: Now) -> Result<Resolving, StoreError> {
        self.ledger.resolve(key, resolved, now).await
    }
}
