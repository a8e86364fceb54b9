//! Claims of a ledger file: taken under the lock, worked on until they are dropped.

use super::blobs::{self, Kept};
use super::core::{Core, State};
use super::group::{Before, Done};
use super::lookup::{Operation, Trouble};
use super::reader::Found;
use super::wanted::{OnFile, Wanted, wanted};
use crate::drive::{Claim, Claimed, Durability, Wish};
use crate::engine::entry::{Entry, Known, enter, owner};
use crate::engine::facts::{Fact, History, Opened, Recorded, Reopened, Settled, StoredBody};
use crate::engine::moment::Now;
use crate::engine::operation::{IdempotencyKey, PartnerName};
use crate::store::format::{self, LINE_MAX};
use crate::store::{Left, StoreError};
use std::sync::Arc;

/// How often a body is put beside the ledger, where it is gone again when the line that names it is to be written.
///
/// Each time a compaction, or another writer of the same body, must have come between its sync and the lock: to need two
/// is rare, to need all of them means that something else removes it.
const KEEP_TRIES: u32 = 16;

/// A key that this process works on until this is dropped: the kernel tells the others that it lives.
#[derive(Debug)]
pub struct JsonlClaim {
    core: Arc<Core>,
    held: Held,
    body: StoredBody,
    /// Whether the claim itself was synced and remembered.
    durable: bool,
    left: Left,
}

/// Which claim it is.
#[derive(Clone, Debug)]
struct Held {
    n: u64,
    partner: PartnerName,
    key: IdempotencyKey,
    places: Places,
}

/// Where the lines of a claim are, as long as the file is the same.
#[derive(Clone, Copy, Debug)]
struct Places {
    /// The offset of the operation's first line.
    opened_at: u64,
    /// The offset of the claim's own line.
    claim_at: u64,
    /// How often the file had been replaced.
    replaced: u64,
}

/// Claims a key. What a reader has `found` of it is not read again.
pub async fn claim(
    core: &Arc<Core>,
    wish: &Wish,
    found: Option<&Found>,
    now: Now,
) -> Result<Claimed<JsonlClaim>, StoreError> {
    let mut kept: Option<Kept> = None;
    for _ in 0..=KEEP_TRIES {
        let (ours, wished, body, found) = (core.clone(), wish.clone(), kept.take(), found.cloned());
        let taken =
            core.locked(move |_, state| take(&ours, state, (&wished, found.as_ref()), body.as_ref(), now)).await?;
        if let Some(claimed) = taken {
            return Ok(claimed);
        }
        // Durable before the line that names it, and not under the lock, which nobody may hold while a disk works.
        kept = Some(keep_body(core, wish)?);
    }
    Err(StoreError::Compacting { path: core.place().ledger().into() })
}

fn keep_body(core: &Core, wish: &Wish) -> Result<Kept, StoreError> {
    match &wish.opened.body {
        StoredBody::Blob { sha, .. } => {
            let kept = blobs::keep(core.place(), &wish.body)?;
            let is_same = matches!(&kept.body, StoredBody::Blob { sha: ours, .. } if ours == sha);
            assert!(is_same, "the body is that of the line");
            Ok(kept)
        }
        body => Ok(core.outsource(body)?.expect("only a long body is asked for")),
    }
}

/// Returns the line that opens an operation; `None` where its body has to be put beside the ledger first, or once more.
fn opening(wish: &Wish, kept: Option<&Kept>) -> Option<Arc<Opened>> {
    if !blobs::lies_outside(&wish.opened.body) {
        return Some(wish.opened.clone());
    }
    let body = kept.filter(|kept| kept.is_there())?.body.clone();
    Some(Arc::new(Opened { body, ..Opened::clone(&wish.opened) }))
}

/// Looks the key up and takes it, or says why not; `None` where the body must be kept first. The append lock is held.
fn take(
    core: &Arc<Core>,
    state: &mut State,
    (wish, found): (&Wish, Option<&Found>),
    kept: Option<&Kept>,
    now: Now,
) -> Result<Done<Option<Claimed<JsonlClaim>>>, Trouble> {
    core.catch_up(state, now.wall)?;
    core.check(state)?;
    let plain = |value| Ok(Done { value: Some(value), before: Before::Nothing });
    let found = match wanted(core, state, wish, found)? {
        Wanted::There(found) => found,
        Wanted::Lost(n) => return Err(StoreError::Lost { key: wish.key.clone(), n }.into()),
        Wanted::Absent if !wish.entry.opens() => return plain(Claimed::Unknown(wish.key.clone())),
        Wanted::Absent => {
            let Some(opened) = opening(wish, kept) else {
                return Ok(Done { value: None, before: Before::Nothing });
            };
            let (partner, key) = (opened.partner.clone(), wish.key.clone());
            let run = Beginning { partner, key, opened_at: state.journal.end(), history: History::default() };
            return plain(begin(core, state, run, Fact::Opened(opened), now)?);
        }
    };
    let opened = &wish.opened;
    let OnFile { operation: Operation { key, history, opened_at, .. }, standing } = *found;
    match enter(Some(Known { history: &history, standing }), wish.wanted()) {
        Entry::Open => unreachable!("nothing is opened twice"),
        Entry::Reopen { predecessor, key_until } => {
            let partner = opened.partner.clone();
            let reopened = Reopened {
                partner: partner.clone(),
                deadline: opened.deadline,
                why: opened.why,
                predecessor,
                key_until,
                owner: opened.owner.clone(),
            };
            let run = Beginning { partner, key, opened_at, history };
            plain(begin(core, state, run, Fact::Reopened(Arc::new(reopened)), now)?)
        }
        // Another process wrote it and may not have synced it; whoever reports it does (P2).
        Entry::Final => Ok(Done { value: Some(Claimed::Final(key, history)), before: Before::Synced }),
        Entry::OtherPayload => plain(Claimed::OtherPayload(key, history)),
        Entry::Busy => {
            let owner = owner(&history).cloned().unwrap_or_default();
            plain(Claimed::Busy(key, owner))
        }
    }
}

/// A run that is to begin.
struct Beginning {
    partner: PartnerName,
    key: IdempotencyKey,
    /// The offset of the operation's first line: where it is, or will be.
    opened_at: u64,
    /// What was there before.
    history: History,
}

/// Writes the line that begins a run; its owner lives before anybody can see it.
fn begin(
    core: &Arc<Core>,
    state: &mut State,
    run: Beginning,
    fact: Fact,
    now: Now,
) -> Result<Claimed<JsonlClaim>, StoreError> {
    let Beginning { partner, key, opened_at, mut history } = run;
    core.reserve(state)?;
    let n = state.journal.newest_n() + 1;
    let places = Places { opened_at, claim_at: state.journal.end(), replaced: state.replaced };
    if !core.locks().hold(n)? {
        return Err(core.locked_for(std::time::Duration::ZERO));
    }
    if let Err(error) = write(state, n, &key, &fact, None, now) {
        core.locks().release(n);
        return Err(error);
    }
    history.facts.push(Recorded { n, at: now.wall, steady: Some(now.steady), fact });
    let (held, body) = (Held { n, partner, key, places }, history.opened().body.clone());
    let claim = JsonlClaim { core: core.clone(), held, body, durable: false, left: Left::Nothing };
    Ok(Claimed::Ours(claim, history))
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
        &self.held.key
    }

    fn n(&self) -> u64 {
        self.held.n
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
        let before = match durability {
            Durability::Later => Before::Nothing,
            Durability::Now if self.durable => Before::Synced,
            Durability::Now => Before::Remembered(self.held.n),
        };
        for left in (0..=KEEP_TRIES).rev() {
            let (fact, kept) = match left {
                0 => (lighter(fact).expect("only the body of an answer is kept, and it can be left out"), None),
                _ => with_kept_answer(&self.core, fact).unwrap_or_else(|| (fact.clone(), None)),
            };
            if self.write(now, fact, kept, before).await? {
                break;
            }
        }
        self.durable |= durability == Durability::Now;
        Ok(())
    }

    /// Writes one line. Returns false, and has written nothing, where the body that it names was removed meanwhile.
    async fn write(&mut self, now: Now, fact: Fact, kept: Option<Kept>, before: Before) -> Result<bool, StoreError> {
        let mut held = self.held.clone();
        let write = move |core: &Core, state: &mut State| {
            if kept.as_ref().is_some_and(|kept| !kept.is_there()) {
                return Ok(Done { value: None, before: Before::Nothing });
            }
            held.write(core, state, now, &fact)?;
            Ok(Done { value: Some(held.places), before })
        };
        let places = self.core.locked(write).await?;
        self.held.places = places.unwrap_or(self.held.places);
        Ok(places.is_some())
    }
}

impl Held {
    /// Writes one line, with less in it where it does not fit into the line or onto the disk. Returns its end.
    fn write(&mut self, core: &Core, state: &mut State, now: Now, fact: &Fact) -> Result<u64, Trouble> {
        core.catch_up(state, now.wall)?;
        let newest = self.newest(core, state)?;
        if matches!(fact, Fact::Started(_)) && newest != self.n {
            return Err(StoreError::Fenced { key: self.key.clone(), n: self.n, newest }.into());
        }
        let (mut fact, opened_at) = (fact.clone(), Some(self.places.opened_at));
        loop {
            let written = write(state, self.n, &self.key, &fact, opened_at, now);
            fact = match (written, lighter(&fact)) {
                (Err(StoreError::TooLong { .. } | StoreError::NoSpace { .. }), Some(lighter)) => lighter,
                (written, _) => return Ok(written?),
            };
        }
    }

    /// Returns the newest claim of the operation. Looks it up only where it may be another one.
    fn newest(&mut self, core: &Core, state: &State) -> Result<u64, Trouble> {
        let hash = state.journal.keys().key(&self.key);
        let is_same_file = self.places.replaced == state.replaced;
        if is_same_file && !state.journal.index().may_be_claimed_behind(hash, self.places.claim_at) {
            return Ok(self.n);
        }
        let found = state.journal.find_one(&self.partner, &self.key)?;
        let ours = |found: &Operation| found.claims.iter().find(|(n, _)| *n == self.n).map(|(_, at)| *at);
        let Some((found, claim_at)) = found.and_then(|found| ours(&found).map(|at| (found, at))) else {
            return Err(StoreError::Replaced { path: core.place().ledger().into() }.into());
        };
        self.places = Places { opened_at: found.opened_at, claim_at, replaced: state.replaced };
        Ok(found.newest)
    }
}

/// Puts a long answer beside the ledger; where that fails, the outcome goes without it. `None` where nothing is long.
fn with_kept_answer(core: &Core, fact: &Fact) -> Option<(Fact, Option<Kept>)> {
    let Fact::Settled(settled) = fact else { return None };
    let body = settled.response.as_ref()?.body.as_ref()?;
    match core.outsource(body) {
        Ok(None) => None,
        Ok(Some(kept)) => {
            let mut settled: Settled = (**settled).clone();
            settled.response.as_mut()?.body = Some(kept.body.clone());
            Some((Fact::Settled(Arc::new(settled)), Some(kept)))
        }
        Err(_) => Some((lighter(fact)?, None)),
    }
}

/// Returns the fact with its longest dispensable part left out; `None` where nothing is.
fn lighter(fact: &Fact) -> Option<Fact> {
    let mut fact = fact.clone();
    match &mut fact {
        Fact::Settled(settled) => {
            let settled = Arc::make_mut(settled);
            if let Some(response) = &mut settled.response
                && (response.body.is_some() || !response.headers.is_empty())
            {
                if response.body.take().is_none() {
                    response.headers.clear();
                }
                response.cut = true;
                return Some(fact);
            }
            Arc::make_mut(settled.last.as_mut()?).error.take()?;
        }
        Fact::Finished(finished) => drop(Arc::make_mut(finished).error.take()?),
        Fact::Asked(asked) => drop(asked.note.take()?),
        _ => return None,
    }
    Some(fact)
}

impl Drop for JsonlClaim {
    fn drop(&mut self) {
        self.core.locks().release(self.held.n);
    }
}
