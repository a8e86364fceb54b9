//! Keeps the index up to date, after what somebody waits for is done.

use super::core::{Core, State};
use super::files;
use super::index::{self, Effort, Entry, Kind, TAIL_MAX, Upkeep};
use super::journal::Journal;
use super::locks::Locks;
use super::lookup::{Named, Operation, Trouble, first_line, is_confirmed_by_partner};
use super::operations::OPENED_AGAIN;
use super::place::{Place, failed, make_folder_beside};
use crate::engine::entry::is_final;
use crate::store::format;
use crate::store::{StoreError, Warning};
use std::collections::HashSet;
use std::io;
use std::time::Duration;

/// How often, and how long, the right to change the index is waited for: 10 s in all.
const TRIES: u32 = 10_000;
const TRY_WAIT: Duration = Duration::from_millis(1);
/// The tail beyond which a process that goes on brings the index up to date while it works, in bytes.
///
/// Source: the ledger's reference, section 4.6.
pub const INLINE_TAIL_MAX: u64 = 4 << 20;

/// What an index gets for a tail.
#[derive(Default)]
struct News {
    payloads: Vec<Entry>,
    listed: Vec<Entry>,
}

/// Writes a run where every process would read a long tail again. Returns whether there is one more.
///
/// Nothing depends on it: what fails is a warning at most, and the next process tries again.
pub fn keep_up(core: &Core, state: &mut State, effort: Effort) -> bool {
    if !state.journal.has_long_tail(TAIL_MAX) || core.check(state).is_err() {
        return false;
    }
    match write(core, state, effort) {
        Ok(written) => written,
        Err(Trouble::Index(why)) => {
            // Nobody shall build upon it; the next process reads everything, and refuses what is wrong.
            drop(files::remove(&core.place().index().join(index::MANIFEST)));
            state.warn(Warning::IndexDropped { path: core.place().index(), why });
            false
        }
        Err(Trouble::Store(error)) => {
            state.warn(Warning::Unindexed(error));
            false
        }
    }
}

fn write(core: &Core, state: &mut State, effort: Effort) -> Result<bool, Trouble> {
    // Only what this process has synced is covered: no power cut can take it back.
    core.sync_ourselves(state)?;
    let folder = core.place().index();
    make_folder_beside(core.place(), &folder)?;
    let Some(_upkeep) = core.locks().try_upkeep()? else { return Ok(false) };
    if !core.is_current(state) {
        // The file that a compaction has put there has an index of its own.
        return Ok(false);
    }
    let journal = &mut state.journal;
    let news = news(journal)?;
    let content = journal.index().content(news.payloads, news.listed);
    let (header, disk) = (journal.header().clone(), journal.disk().clone());
    let at = journal.at();
    let upkeep = Upkeep { folder: &folder, header: &header, disk: &*disk, at, effort };
    journal.index_mut().write(content, upkeep).map_err(|error| match error.kind() {
        io::ErrorKind::InvalidData => Trouble::Index("a page of it is damaged"),
        _ => failed("write the index in", &folder, error).into(),
    })
}

/// Finds out where the operations of the tail stand.
fn news(journal: &mut Journal) -> Result<News, Trouble> {
    opened_once(journal)?;
    let mut news = News::default();
    let mut unknown: Vec<Named> = Vec::new();
    let tail = &journal.index().tail;
    for (hash, tracked) in tail.tracked().filter(|(_, tracked)| tracked.is_new) {
        match tracked.payload {
            None => unknown.extend(named(journal, tracked.claim_at)),
            Some(payload) if !tracked.is_decided => news.undecided(hash, payload, tracked.claim_at),
            Some(_) if tail.is_born_here(tracked) => {}
            Some(_) => news.decided(hash),
        }
    }
    tail.decided().iter().for_each(|hash| news.decided(*hash));
    unknown.extend(tail.strays().iter().filter_map(|(_, at)| named(journal, *at)));
    let mut told = HashSet::new();
    let mut learnt = Vec::new();
    for Named { key, partner } in unknown.into_iter().filter(|named| told.insert(named.clone())) {
        for operation in journal.find(&key, partner.as_ref())?.operations {
            learnt.extend(news.take(journal, &operation));
        }
    }
    for (hash, payload) in learnt {
        journal.index_mut().tail.learn(hash, payload);
    }
    Ok(news)
}

/// Compares first claims with what runs have: nothing else looks there for lines that others wrote.
fn opened_once(journal: &Journal) -> Result<(), Trouble> {
    let from = journal.index().tail.from();
    let first = |at: u64| {
        let text = first_line(&**journal.disk(), at, journal.end());
        text.and_then(|text| format::identity(&text)).map(|identity| (identity.partner, identity.key))
    };
    for segment in journal.index().tail.segments().iter().filter(|segment| segment.kind.is(Kind::OPENED)) {
        let spots = journal.index().covered(segment.hash)?;
        let older = spots.iter().filter(|spot| spot.kind.is(Kind::OPENED) && spot.at < from);
        if older.map(|spot| first(spot.at)).any(|identity| identity.is_none() || identity == first(segment.at)) {
            return Err(Trouble::Index(OPENED_AGAIN));
        }
    }
    Ok(())
}

fn named(journal: &Journal, at: u64) -> Option<Named> {
    let text = first_line(&**journal.disk(), at, journal.end())?;
    format::whose(&text).map(|(key, partner)| Named { key, partner })
}

impl News {
    fn undecided(&mut self, hash: u64, payload: u64, claim_at: u64) {
        self.listed.push(Entry::new(hash, claim_at, claim_at, Kind::UNDECIDED));
        self.payloads.push(Entry::new(payload, claim_at, claim_at, Kind::PAYLOAD));
    }

    fn decided(&mut self, hash: u64) {
        self.listed.push(Entry::new(hash, 0, 0, Kind::DECIDED));
    }

    /// Takes an operation of which not all lines are in the tail. Returns its hash and that of its payload.
    fn take(&mut self, journal: &Journal, operation: &Operation) -> Option<(u64, u64)> {
        let Operation { partner, key, history, newest, claims, .. } = operation;
        let keys = journal.keys();
        let (hash, payload) = (keys.operation(partner, key), keys.payload(partner, &history.opened().fp));
        let claim_at = claims.iter().find(|(n, _)| n == newest).map(|(_, at)| *at)?;
        self.listed.retain(|entry| entry.hash != hash);
        match is_final(history) {
            true => self.decided(hash),
            false => self.undecided(hash, payload, claim_at),
        }
        if is_confirmed_by_partner(history) {
            // The line is somewhere in it; any line of it names the key.
            self.payloads.push(Entry::new(keys.partner(partner), claim_at, claim_at, Kind::CONTROL));
        }
        Some((hash, payload))
    }
}

/// Removes the index, before its journal is altered in place.
///
/// # Errors
/// It is still there: nothing may be altered.
pub fn remove(place: &Place, locks: &Locks) -> Result<(), StoreError> {
    let path = place.index().join(index::MANIFEST);
    if !path.try_exists().map_err(|error| failed("look at", &path, error))? {
        return Ok(());
    }
    for _ in 0..TRIES {
        if let Some(_upkeep) = locks.try_upkeep()? {
            return files::remove(&path).map_err(|error| failed("remove the index in", &path, error));
        }
        std::thread::sleep(TRY_WAIT);
    }
    Err(StoreError::Locked { path: locks.path().clone(), waited: TRIES * TRY_WAIT })
}
