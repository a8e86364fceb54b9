//! Claims of a ledger file: taken under the lock, worked on until they are dropped.

use super::blobs;
use super::core::{Core, State};
use crate::drive::{Claim, Claimed, Durability, EntryRule, Wish};
use crate::engine::entry::{Entry, Known, Standing, continues_without_key, enter, is_ended, owner};
use crate::engine::facts::{Fact, History, Opened, Recorded, Reopened, Settled, StoredBody};
use crate::engine::moment::Now;
use crate::engine::operation::IdempotencyKey;
use crate::store::format::{self, LINE_MAX};
use crate::store::{Left, StoreError};
use std::sync::Arc;

/// A key that this process works on until this is dropped: the kernel tells the others that it lives.
#[derive(Debug)]
pub struct JsonlClaim {
    core: Arc<Core>,
    n: u64,
    key: IdempotencyKey,
    body: StoredBody,
    /// Whether the claim itself was synced and remembered.
    durable: bool,
    left: Left,
}

/// What the ledger has under a key.
pub struct OnFile {
    row: usize,
    /// Its facts.
    pub history: History,
    /// What is known of its newest run.
    pub standing: Standing,
}

/// What came of looking a key up under the lock.
enum Step {
    Ours { n: u64, key: IdempotencyKey, history: History },
    Final { key: IdempotencyKey, history: History, end: u64 },
    Other(Claimed<JsonlClaim>),
}

/// Claims a key.
pub async fn claim(core: &Arc<Core>, wish: &Wish, now: Now) -> Result<Claimed<JsonlClaim>, StoreError> {
    // Durable before the line that names it, and not under the lock, which nobody may hold while a disk works.
    let opened = with_kept_body(core, wish)?;
    match core.locked(|state| take(core, state, wish, &opened, now)).await? {
        Step::Ours { n, key, history } => {
            let body = history.opened().body.clone();
            let (core, durable, left) = (core.clone(), false, Left::Nothing);
            Ok(Claimed::Ours(JsonlClaim { core, n, key, body, durable, left }, history))
        }
        Step::Final { key, history, end } => {
            // Another process wrote it and may not have synced it; whoever reports it does (P2).
            core.sync(end).await?;
            Ok(Claimed::Final(key, history))
        }
        Step::Other(claimed) => Ok(claimed),
    }
}

fn with_kept_body(core: &Core, wish: &Wish) -> Result<Arc<Opened>, StoreError> {
    let body = match &wish.opened.body {
        StoredBody::Blob { sha, .. } => {
            let kept = blobs::keep(core.place(), &wish.body)?;
            assert!(matches!(&kept, StoredBody::Blob { sha: ours, .. } if ours == sha), "the body is that of the line");
            return Ok(wish.opened.clone());
        }
        body => core.outsource(body)?,
    };
    Ok(match body {
        Some(body) => Arc::new(Opened { body, ..Opened::clone(&wish.opened) }),
        None => wish.opened.clone(),
    })
}

/// Looks the key up and takes it, or says why not. The append lock is held.
fn take(core: &Core, state: &mut State, wish: &Wish, opened: &Arc<Opened>, now: Now) -> Result<Step, StoreError> {
    core.catch_up(state, now.wall)?;
    core.check(state)?;
    let found = wanted(core, state, wish)?;
    let known = found.as_ref().map(|found| Known { history: &found.history, standing: found.standing });
    let entry = enter(known, wish.wanted());
    let Some(OnFile { row, history, .. }) = found else {
        if let Some(n) = state.journal.operations().lost(Some(&opened.partner), &wish.key) {
            return Err(StoreError::Lost { key: wish.key.clone(), n });
        }
        if !wish.entry.opens() {
            return Ok(Step::Other(Claimed::Unknown(wish.key.clone())));
        }
        return begin(core, state, &wish.key, History::default(), Fact::Opened(opened.clone()), now);
    };
    let key = state.journal.operations().row(row).key.clone();
    Ok(match entry {
        Entry::Open => unreachable!("nothing is opened twice"),
        Entry::Reopen { predecessor, key_until } => {
            let reopened = Reopened {
                partner: opened.partner.clone(),
                deadline: opened.deadline,
                why: opened.why,
                predecessor,
                key_until,
                owner: opened.owner.clone(),
            };
            return begin(core, state, &key, history, Fact::Reopened(Box::new(reopened)), now);
        }
        Entry::Final => Step::Final { key, history, end: state.journal.end() },
        Entry::OtherPayload => Step::Other(Claimed::OtherPayload(key, history)),
        Entry::Busy => {
            let owner = owner(&history).cloned().unwrap_or_default();
            Step::Other(Claimed::Busy(key, owner))
        }
    })
}

/// Finds the operation that the wish is about: by its key, or for a send without one by its payload, newest first.
fn wanted(core: &Core, state: &State, wish: &Wish) -> Result<Option<OnFile>, StoreError> {
    let operations = state.journal.operations();
    if wish.entry == EntryRule::Keyless {
        let opened = &wish.opened;
        let same =
            operations.newest_first(|row| row.partner == opened.partner && row.fp == opened.fp && !row.is_confirmed());
        for row in same {
            let found = on_file(core, state, row)?;
            if continues_without_key(Known { history: &found.history, standing: found.standing }) {
                return Ok(Some(found));
            }
        }
    }
    operations.find(&wish.opened.partner, &wish.key).map(|row| on_file(core, state, row)).transpose()
}

/// Reads an operation, and asks the lock whether its owner lives. The append lock is held.
pub fn on_file(core: &Core, state: &State, row: usize) -> Result<OnFile, StoreError> {
    let history = state.journal.history(row)?;
    let newest = state.journal.operations().row(row).newest;
    let standing = if is_ended(&history) {
        Standing::Settled
    } else if core.locks().lives(newest)? {
        Standing::Live
    } else if newest > state.from && owner(&history).is_some_and(|owner| core.is_this_boot(&owner.boot)) {
        Standing::DeadSameBoot
    } else {
        Standing::DeadElsewhere
    };
    Ok(OnFile { row, history, standing })
}

/// Writes the line that begins a run; its owner lives before anybody can see it.
fn begin(
    core: &Core,
    state: &mut State,
    key: &IdempotencyKey,
    mut history: History,
    fact: Fact,
    now: Now,
) -> Result<Step, StoreError> {
    core.reserve(state)?;
    let n = state.journal.operations().newest_n() + 1;
    if !core.locks().hold(n)? {
        return Err(StoreError::Locked { path: core.locks().path().clone(), waited: std::time::Duration::ZERO });
    }
    if let Err(error) = write(state, n, key, &fact, None, now) {
        core.locks().release(n);
        return Err(error);
    }
    history.facts.push(Recorded { n, at: now.wall, steady: Some(now.steady), fact });
    Ok(Step::Ours { n, key: key.clone(), history })
}

/// Writes one line and returns its end. `opened_at` is the offset of the operation's first line, for `settled`.
pub fn write(
    state: &mut State,
    n: u64,
    key: &IdempotencyKey,
    fact: &Fact,
    opened_at: Option<u64>,
    now: Now,
) -> Result<u64, StoreError> {
    let entry = format::Entry { n, key, at: now.wall, fact, opened_at, durable: state.journal.durable() };
    let line = format::fact_line(&entry);
    match line.len() {
        len if len > LINE_MAX => Err(StoreError::TooLong { len, max: LINE_MAX }),
        _ => state.journal.append(&line),
    }
}

impl Claim for JsonlClaim {
    type Error = StoreError;

    fn key(&self) -> &IdempotencyKey {
        &self.key
    }

    fn n(&self) -> u64 {
        self.n
    }

    async fn body(&self) -> Result<Option<Arc<[u8]>>, StoreError> {
        self.read(&self.body).await
    }

    async fn read(&self, body: &StoredBody) -> Result<Option<Arc<[u8]>>, StoreError> {
        Ok(match body {
            StoredBody::Blob { sha, len } => Some(blobs::read(self.core.place(), sha, *len)?.into()),
            body => blobs::inline(body).map(Into::into),
        })
    }

    async fn append(&mut self, now: Now, fact: &Fact, durability: Durability) -> Result<(), StoreError> {
        assert!(!fact.is_claim(), "a claim is made by the ledger, never appended");
        self.record(now, fact, durability).await.map_err(|error| match error {
            fenced @ StoreError::Fenced { .. } => fenced,
            error => StoreError::Unrecorded { left: self.left, source: Box::new(error) },
        })?;
        if matches!(fact, Fact::Started(_)) {
            self.left = Left::Perhaps;
        }
        Ok(())
    }
}

impl JsonlClaim {
    async fn record(&mut self, now: Now, fact: &Fact, durability: Durability) -> Result<(), StoreError> {
        let lighter = with_kept_answer(&self.core, fact);
        let fact = lighter.as_ref().unwrap_or(fact);
        let end = self.core.locked(|state| self.write(state, now, fact)).await?;
        if durability == Durability::Later {
            return Ok(());
        }
        self.core.sync(end).await?;
        if !self.durable {
            self.durable = true;
            self.core.remember(self.n, end);
        }
        Ok(())
    }

    /// Writes one line, with less in it where it does not fit into the line or onto the disk. Returns its end.
    fn write(&self, state: &mut State, now: Now, fact: &Fact) -> Result<u64, StoreError> {
        self.core.catch_up(state, now.wall)?;
        let operations = state.journal.operations();
        let row = operations.of_claim(self.n).map(|row| operations.row(row));
        let Some(row) = row else {
            return Err(StoreError::Replaced { path: self.core.place().ledger().into() });
        };
        let (newest, opened_at) = (row.newest, Some(row.spans[0].offset));
        if matches!(fact, Fact::Started(_)) && newest != self.n {
            return Err(StoreError::Fenced { key: self.key.clone(), n: self.n, newest });
        }
        let mut fact = fact.clone();
        loop {
            let written = write(state, self.n, &self.key, &fact, opened_at, now);
            fact = match (written, lighter(&fact)) {
                (Err(StoreError::TooLong { .. } | StoreError::NoSpace { .. }), Some(lighter)) => lighter,
                (written, _) => return written,
            };
        }
    }
}

/// Puts a long answer beside the ledger; where that fails, the outcome goes without it.
fn with_kept_answer(core: &Core, fact: &Fact) -> Option<Fact> {
    let Fact::Settled(settled) = fact else { return None };
    let body = settled.response.as_ref()?.body.as_ref()?;
    match core.outsource(body) {
        Ok(None) => None,
        Ok(Some(kept)) => {
            let mut settled: Settled = (**settled).clone();
            settled.response.as_mut()?.body = Some(kept);
            Some(Fact::Settled(Box::new(settled)))
        }
        Err(_) => lighter(fact),
    }
}

/// Returns the fact with its longest dispensable part left out; `None` where nothing is.
fn lighter(fact: &Fact) -> Option<Fact> {
    let mut fact = fact.clone();
    match &mut fact {
        Fact::Settled(settled) => {
            if let Some(response) = &mut settled.response
                && (response.body.is_some() || !response.headers.is_empty())
            {
                if response.body.take().is_none() {
                    response.headers.clear();
                }
                response.cut = true;
                return Some(fact);
            }
            settled.last.as_mut()?.error.take()?;
        }
        Fact::Finished(finished) => drop(finished.error.take()?),
        Fact::Asked(asked) => drop(asked.note.take()?),
        _ => return None,
    }
    Some(fact)
}

impl Drop for JsonlClaim {
    fn drop(&mut self) {
        self.core.locks().release(self.n);
    }
}
