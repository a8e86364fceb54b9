//! The ledger of tests and simulations: the same claims, nothing on the disk.

use super::error::StoreError;
use crate::drive::{Claim, Claimed, Durability, EntryRule, Ledger, Resolving, Wish};
use crate::engine::entry::{Entry, Known, Standing, continues_without_key, enter, is_ended, owner};
use crate::engine::facts::{Fact, History, Owner, Recorded, Reopened, Resolved, StoredBody, Waiting};
use crate::engine::moment::{Moment, Now};
use crate::engine::operation::{IdempotencyKey, PartnerName};
use crate::engine::resolution::{Ruling, rule};
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard};

/// A ledger in memory. Clones share it, as processes share a file.
///
/// A claim lives until it is dropped. A wish whose owner has another boot than the last owner comes "after a reboot".
#[derive(Clone, Debug, Default)]
pub struct Memory {
    shared: Arc<Mutex<Shared>>,
}

#[derive(Debug, Default)]
struct Shared {
    operations: Vec<Held>,
    by_key: HashMap<IdempotencyKey, Vec<usize>>,
    live: HashSet<u64>,
    last_n: u64,
}

#[derive(Debug)]
struct Held {
    partner: PartnerName,
    key: IdempotencyKey,
    history: History,
    body: Arc<[u8]>,
}

/// A key that is worked on until this is dropped.
#[derive(Debug)]
pub struct MemoryClaim {
    shared: Arc<Mutex<Shared>>,
    operation: usize,
    key: IdempotencyKey,
    n: u64,
}

impl Memory {
    /// Returns every operation, in the order in which they were opened.
    pub fn operations(&self) -> Vec<(PartnerName, IdempotencyKey, History)> {
        let shared = lock(&self.shared);
        shared.operations.iter().map(|held| (held.partner.clone(), held.key.clone(), held.history.clone())).collect()
    }

    /// Returns the facts of one operation.
    pub fn history(&self, partner: &PartnerName, key: &IdempotencyKey) -> Option<History> {
        let shared = lock(&self.shared);
        shared.find(partner, key).map(|index| shared.operations[index].history.clone())
    }

    fn take(&self, wish: &Wish, now: Now) -> Claimed<MemoryClaim> {
        let mut shared = lock(&self.shared);
        let found = shared.wanted(wish);
        if found.is_none() && !wish.entry.opens() {
            return Claimed::Unknown(wish.key.clone());
        }
        let entry = {
            let known = found.map(|index| shared.known(index, &wish.opened.owner));
            enter(known, wish.wanted())
        };
        let index = match (entry, found) {
            (Entry::Open, _) | (_, None) => {
                shared.open(wish);
                let index = shared.operations.len() - 1;
                shared.begin(index, Fact::Opened(wish.opened.clone()), now);
                index
            }
            (Entry::Reopen { predecessor, key_until }, Some(index)) => {
                let reopened = Reopened {
                    partner: wish.opened.partner.clone(),
                    deadline: wish.opened.deadline,
                    why: wish.opened.why,
                    predecessor,
                    key_until,
                    owner: wish.opened.owner.clone(),
                };
                shared.begin(index, Fact::Reopened(Arc::new(reopened)), now);
                index
            }
            (refused, Some(index)) => return shared.refusal(refused, index),
        };
        let held = &shared.operations[index];
        let claim =
            MemoryClaim { shared: self.shared.clone(), operation: index, key: held.key.clone(), n: shared.last_n };
        Claimed::Ours(claim, as_seen_by_its_writer(&held.history, now.steady))
    }
}

impl Shared {
    fn find(&self, partner: &PartnerName, key: &IdempotencyKey) -> Option<usize> {
        self.by_key.get(key)?.iter().copied().find(|&index| self.operations[index].partner == *partner)
    }

    /// Finds the operation that the wish is about: by its key, or for a send without one by its payload, newest first.
    fn wanted(&self, wish: &Wish) -> Option<usize> {
        let same_payload = |index: &usize| {
            let held = &self.operations[*index];
            held.partner == wish.opened.partner
                && held.history.opened().fp == wish.opened.fp
                && continues_without_key(self.known(*index, &wish.opened.owner))
        };
        let unsettled = match wish.entry {
            EntryRule::Keyless => (0..self.operations.len())
                .filter(same_payload)
                .max_by_key(|&index| self.operations[index].history.newest_claim()),
            EntryRule::Keyed | EntryRule::Duplicate | EntryRule::Known { .. } => None,
        };
        unsettled.or_else(|| self.find(&wish.opened.partner, &wish.key))
    }

    fn known(&self, index: usize, us: &Owner) -> Known<'_> {
        let history = &self.operations[index].history;
        let standing = if is_ended(history) {
            Standing::Settled
        } else if self.live.contains(&history.newest_claim()) {
            Standing::Live
        } else if owner(history).is_some_and(|owner| owner.boot == us.boot) {
            Standing::DeadSameBoot
        } else {
            Standing::DeadElsewhere
        };
        Known { history, standing }
    }

    fn open(&mut self, wish: &Wish) {
        self.by_key.entry(wish.key.clone()).or_default().push(self.operations.len());
        self.operations.push(Held {
            partner: wish.opened.partner.clone(),
            key: wish.key.clone(),
            history: History::default(),
            body: wish.body.clone(),
        });
    }

    fn begin(&mut self, index: usize, fact: Fact, now: Now) {
        self.last_n += 1;
        self.live.insert(self.last_n);
        let recorded = Recorded { n: self.last_n, at: now.wall, steady: None, fact };
        self.operations[index].history.facts.push(recorded);
    }

    fn refusal(&self, entry: Entry, index: usize) -> Claimed<MemoryClaim> {
        let Held { key, history, .. } = &self.operations[index];
        match entry {
            Entry::OtherPayload => Claimed::OtherPayload(key.clone(), history.clone()),
            Entry::Busy => Claimed::Busy(key.clone(), owner(history).cloned().unwrap_or_default()),
            _ => Claimed::Final(key.clone(), history.clone()),
        }
    }
}

/// Gives the newest fact the steady time of the process that has just written it.
fn as_seen_by_its_writer(history: &History, steady: Moment) -> History {
    let mut history = history.clone();
    if let Some(newest) = history.facts.last_mut() {
        newest.steady = Some(steady);
    }
    history
}

fn lock(shared: &Mutex<Shared>) -> MutexGuard<'_, Shared> {
    shared.lock().expect("nothing panics while it holds the lock")
}

impl Ledger for Memory {
    type Claim = MemoryClaim;
    type Error = StoreError;

    async fn claim(&mut self, wish: &Wish, now: Now) -> Result<Claimed<MemoryClaim>, StoreError> {
        Ok(self.take(wish, now))
    }

    async fn resolve(&mut self, key: &IdempotencyKey, resolved: &Resolved, now: Now) -> Result<Resolving, StoreError> {
        let mut shared = lock(&self.shared);
        let Some(index) = shared.find(&resolved.partner, key) else { return Ok(Resolving::Unknown) };
        let history = shared.operations[index].history.clone();
        // Whether the owner's boot is ours decides nothing here.
        Ok(match rule(shared.known(index, &Owner::default()), resolved.verdict) {
            Ruling::Record => {
                shared.last_n += 1;
                let (n, fact) = (shared.last_n, Fact::Resolved(Arc::new(resolved.clone())));
                shared.operations[index].history.facts.push(Recorded { n, at: now.wall, steady: None, fact });
                Resolving::Recorded(history)
            }
            Ruling::Already => Resolving::Already(history),
            Ruling::Against(proof) => Resolving::Against(proof, history),
            Ruling::Busy => Resolving::Busy(owner(&history).cloned().unwrap_or_default()),
        })
    }
}

impl Claim for MemoryClaim {
    type Error = StoreError;

    fn key(&self) -> &IdempotencyKey {
        &self.key
    }

    fn n(&self) -> u64 {
        self.n
    }

    async fn body(&self) -> Result<Option<Arc<[u8]>>, StoreError> {
        let body = lock(&self.shared).operations[self.operation].history.opened().body.clone();
        self.read(&body).await
    }

    async fn read(&self, body: &StoredBody) -> Result<Option<Arc<[u8]>>, StoreError> {
        let shared = lock(&self.shared);
        Ok(match body {
            StoredBody::Text(text) => Some(text.as_bytes().into()),
            StoredBody::Bytes(bytes) => Some(bytes[..].into()),
            // Only a request's body comes so; answers stand in their facts.
            StoredBody::Blob { .. } => Some(shared.operations[self.operation].body.clone()),
            StoredBody::Hash { .. } => None,
        })
    }

    async fn append(&mut self, now: Now, fact: &Fact, _durability: Durability) -> Result<(), StoreError> {
        assert!(!fact.is_claim(), "a claim is made by the ledger, never appended");
        let mut shared = lock(&self.shared);
        let history = &mut shared.operations[self.operation].history;
        let newest = history.newest_claim();
        if matches!(fact, Fact::Started(_)) && newest != self.n {
            return Err(StoreError::Fenced { key: self.key.clone(), n: self.n, newest });
        }
        let fact = match fact {
            // As in a file, where the clock of another process means nothing.
            Fact::Waiting(waiting) => Fact::Waiting(Waiting { until_steady: None, ..waiting.clone() }),
            fact => fact.clone(),
        };
        history.facts.push(Recorded { n: self.n, at: now.wall, steady: None, fact });
        Ok(())
    }
}

impl Drop for MemoryClaim {
    fn drop(&mut self) {
        // A poisoned lock means that a test is failing already.
        if let Ok(mut shared) = self.shared.lock() {
            shared.live.remove(&self.n);
        }
    }
}
