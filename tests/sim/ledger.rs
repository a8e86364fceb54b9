//! The ledger as a process holds it: the book behind the two traits of `drive`.

use crate::world::{Shared, World};
use abide::drive::{Claim, Claimed, Durability, EntryRule, Ledger, Resolving, Wish};
use abide::engine::entry::{Entry, Known, Standing, continues_without_key, enter, is_ended, owner};
use abide::engine::facts::{Fact, Predecessor, Recorded, Reopened, Resolved, StoredBody};
use abide::engine::moment::Now;
use abide::engine::operation::IdempotencyKey;
use abide::engine::resolution::{Ruling, rule};
use std::fmt;
use std::sync::Arc;

/// Why the ledger takes no line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The disk is full.
    DiskFull,
    /// A later claim works on the key: no attempt may start.
    Fenced,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Refused::DiskFull => "the disk is full",
            Refused::Fenced => "a later claim works on it",
        })
    }
}

impl std::error::Error for Refused {}

/// A process's way to the book.
#[derive(Debug)]
pub struct Shelf {
    /// The world.
    pub world: Shared,
    /// The process.
    pub who: usize,
}

/// A key that a process works on, until it ends or dies.
#[derive(Debug)]
pub struct Held {
    world: Shared,
    who: usize,
    process: u32,
    /// Which entry of the book.
    pub place: usize,
    key: IdempotencyKey,
    n: u64,
}

impl Ledger for Shelf {
    type Claim = Held;
    type Error = Refused;

    async fn claim(&mut self, wish: &Wish, now: Now) -> Result<Claimed<Held>, Refused> {
        self.world.hazard(self.who).await;
        let claimed = self.world.lock().claim(&self.world, self.who, wish, now)?;
        self.world.hazard(self.who).await;
        Ok(claimed)
    }

    async fn resolve(&mut self, key: &IdempotencyKey, resolved: &Resolved, now: Now) -> Result<Resolving, Refused> {
        let mut world = self.world.lock();
        let place = world.book.place(key);
        let Some(known) = world.known(place) else { return Ok(Resolving::Unknown) };
        let (ruling, history) = (rule(known, resolved.verdict), known.history.clone());
        Ok(match ruling {
            Ruling::Record => {
                world.write(self.who)?;
                let (n, fact) = (world.book.next_claim(), Fact::Resolved(Arc::new(resolved.clone())));
                world.line(self.who, place, Recorded { n, at: now.wall, steady: None, fact: fact.clone() }, &fact);
                world.book.sync();
                Resolving::Recorded(history)
            }
            Ruling::Already => Resolving::Already(history),
            Ruling::Against(proof) => Resolving::Against(proof, history),
            Ruling::Busy => Resolving::Busy(owner(&history).cloned().unwrap_or_default()),
        })
    }
}

impl World {
    fn claim(&mut self, shared: &Shared, who: usize, wish: &Wish, now: Now) -> Result<Claimed<Held>, Refused> {
        let place = self.wanted(wish);
        if self.known(place).is_none() && !wish.entry.opens() {
            return Ok(Claimed::Unknown(wish.key.clone()));
        }
        let entry = {
            let known = self.known(place);
            enter(known, wish.wanted())
        };
        let fact = match entry {
            Entry::Open => Fact::Opened(Arc::clone(&wish.opened)),
            Entry::Reopen { predecessor, key_until } => {
                self.watch.lost |= self.book.has_open_attempts();
                self.watch_takeover(place, predecessor);
                let opened = &wish.opened;
                Fact::Reopened(Arc::new(Reopened {
                    partner: opened.partner.clone(),
                    deadline: opened.deadline,
                    why: opened.why,
                    predecessor,
                    key_until,
                    owner: opened.owner.clone(),
                }))
            }
            refused => return Ok(self.refusal(place, refused)),
        };
        self.write(who)?;
        let n = self.book.next_claim();
        self.line(who, place, Recorded { n, at: now.wall, steady: None, fact: fact.clone() }, &fact);
        let process = self.processes[who].id;
        self.processes[who].claim = n;
        let entry = self.book.entry_mut(place);
        entry.owner = Some(process);
        entry.is_elsewhere = false;
        let (key, mut history) = (entry.key.clone(), entry.history.clone());
        history.facts.last_mut().expect("it was written just now").steady = Some(now.steady);
        history.facts.reserve(16);
        Ok(Claimed::Ours(Held { world: shared.clone(), who, process, place, key, n }, history))
    }

    /// Lines that were not synced die with the machine: only a run of this boot can account for what it did.
    fn watch_takeover(&mut self, place: usize, predecessor: Predecessor) {
        let rebooted = self.book.entry(place).boot != self.book.boots;
        if predecessor == Predecessor::Accounted && rebooted {
            self.broke("a run that a power cut ended leaves doubt", || format!("{predecessor:?}"));
        }
    }

    fn wanted(&mut self, wish: &Wish) -> usize {
        let same = |place: usize| {
            let known = self.known(place).expect("it has facts");
            known.history.opened().fp == wish.opened.fp && continues_without_key(known)
        };
        let unsettled = match wish.entry {
            EntryRule::Keyless => {
                let places = self.book.entries().map(|(place, _)| place).filter(|place| same(*place));
                places.max_by_key(|place| self.book.entry(*place).history.newest_claim())
            }
            EntryRule::Keyed | EntryRule::Duplicate | EntryRule::Known { .. } => None,
        };
        unsettled.unwrap_or_else(|| self.book.place(&wish.key))
    }

    /// Returns what the ledger has at a place; `None` where that is nothing.
    pub fn known(&self, place: usize) -> Option<Known<'_>> {
        let entry = self.book.entry(place);
        let history = &entry.history;
        if history.facts.is_empty() {
            return None;
        }
        let standing = if is_ended(history) {
            Standing::Settled
        } else if entry.owner.is_some() {
            Standing::Live
        } else if entry.boot == self.book.boots && !entry.is_elsewhere {
            Standing::DeadSameBoot
        } else {
            Standing::DeadElsewhere
        };
        Some(Known { history, standing })
    }

    fn refusal(&mut self, place: usize, refused: Entry) -> Claimed<Held> {
        // Whoever reads an outcome makes it durable before he tells it.
        self.book.sync();
        let entry = self.book.entry(place);
        let (key, history) = (entry.key.clone(), entry.history.clone());
        match refused {
            Entry::OtherPayload => Claimed::OtherPayload(key, history),
            Entry::Busy => Claimed::Busy(key, owner(&history).cloned().unwrap_or_default()),
            _ => Claimed::Final(key, history),
        }
    }

    /// Fails where the disk is full.
    fn write(&mut self, who: usize) -> Result<(), Refused> {
        let Some(left) = self.disk_full_in else { return Ok(()) };
        self.disk_full_in = left.checked_sub(1);
        if self.disk_full_in.is_some() {
            return Ok(());
        }
        self.processes[who].write_failed = true;
        self.note(|| "the disk is full".into());
        Err(Refused::DiskFull)
    }

    fn line(&mut self, who: usize, place: usize, recorded: Recorded, fact: &Fact) {
        let (process, n) = (self.processes[who].id, recorded.n);
        let line = self.book.write(place, recorded);
        self.watch_line(process, place, n, fact, line);
    }
}

impl Claim for Held {
    type Error = Refused;

    fn key(&self) -> &IdempotencyKey {
        &self.key
    }

    fn n(&self) -> u64 {
        self.n
    }

    async fn body(&self) -> Result<Option<Arc<[u8]>>, Refused> {
        Ok(None)
    }

    async fn read(&self, body: &StoredBody) -> Result<Option<Arc<[u8]>>, Refused> {
        Ok(match body {
            StoredBody::Text(text) => Some(text.as_bytes().into()),
            StoredBody::Bytes(bytes) => Some(bytes[..].into()),
            StoredBody::Blob { .. } | StoredBody::Hash { .. } => None,
        })
    }

    async fn append(&mut self, now: Now, fact: &Fact, durability: Durability) -> Result<(), Refused> {
        self.world.hazard(self.who).await;
        {
            let mut world = self.world.lock();
            let newest = world.book.entry(self.place).history.newest_claim();
            if matches!(fact, Fact::Started(_)) && newest != self.n {
                world.processes[self.who].write_failed = true;
                world.note(|| format!("claim {} is fenced off by claim {newest}", self.n));
                return Err(Refused::Fenced);
            }
            world.write(self.who)?;
            let recorded = Recorded { n: self.n, at: now.wall, steady: None, fact: fact.clone() };
            world.line(self.who, self.place, recorded, fact);
        }
        self.world.hazard(self.who).await;
        if durability == Durability::Now {
            let mut world = self.world.lock();
            let takes = world.chance.ms(0, 3);
            world.pass(takes);
            world.book.sync();
        }
        self.world.hazard(self.who).await;
        Ok(())
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let mut world = self.world.lock();
        let entry = world.book.entry_mut(self.place);
        entry.owner = entry.owner.filter(|owner| *owner != self.process);
    }
}
