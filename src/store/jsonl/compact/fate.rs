//! Which operations a compaction touches, and what is left of them.

use super::held::Held;
use super::slim;
use crate::engine::entry::is_final;
use crate::engine::facts::{Fact, History, Opened};
use crate::engine::moment::Timestamp;
use crate::engine::operation::{IdempotencyKey, Method, PartnerName};
use crate::store::StoreError;
use crate::store::jsonl::operations::Operations;
use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

/// How long a decided operation is kept after its last line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    /// How long it stays whole.
    pub keep_full: Duration,
    /// After how long its key goes too, if ever: never before [`Retention::keep_full`], nor before the key has lost its
    /// protection at the partner.
    pub forget_after: Option<Duration>,
}

/// What a ledger's operations are kept for, one by one.
pub type Keep<'a> = &'a dyn Fn(&Opened) -> Retention;

/// Which operations a compaction is about.
#[derive(Clone, Copy)]
pub enum Which<'a> {
    /// Those that are decided and whose time is over.
    Older(Keep<'a>),
    /// One that is decided, at once; its key stays.
    One(&'a PartnerName, &'a IdempotencyKey),
}

/// What becomes of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Its payload and answer go.
    Slimmed,
    /// All of it goes.
    Forgotten,
}

/// Returns what a decided operation has come to at `now`; `None` where all of it stays.
pub fn fate(history: &History, retention: Retention, now: Timestamp) -> Option<Fate> {
    let last = history.facts.iter().map(|recorded| recorded.at).max()?;
    let Retention { keep_full, forget_after } = retention;
    if !is_final(history) || last.after(keep_full) > now {
        return None;
    }
    let protected = history.facts.iter().any(|recorded| match &recorded.fact {
        Fact::Opened(opened) => opened.key_until > Some(now),
        Fact::Reopened(reopened) => reopened.key_until > Some(now),
        _ => false,
    });
    match forget_after.is_some_and(|wait| last.after(wait) <= now) && !protected {
        true => Some(Fate::Forgotten),
        false => slimmed(history),
    }
}

/// Returns that an operation loses what it can do without, if there is something.
pub fn slimmed(history: &History) -> Option<Fate> {
    slim::is_worth_it(history).then_some(Fate::Slimmed)
}

/// Finds the operations that are touched, as rows.
///
/// # Errors
/// A line is not what was written; [`StoreError::Stopped`].
pub fn choose(
    held: &Held<'_>,
    operations: &Operations,
    which: Which<'_>,
    stop: &dyn Fn() -> bool,
) -> Result<BTreeMap<usize, Fate>, StoreError> {
    let rows: Vec<usize> = match which {
        Which::One(partner, key) => operations.find(partner, key).into_iter().collect(),
        Which::Older(_) => operations.newest_first(|_| true),
    };
    let mut chosen = BTreeMap::new();
    let mut undoing = Undoing::new();
    for row in rows {
        if stop() {
            return Err(StoreError::Stopped { path: held.place.ledger().into() });
        }
        let history = read(held, operations, row)?;
        let mut fate = match which {
            Which::Older(keep) => fate(&history, keep(history.opened()), held.options.now),
            Which::One(..) => slimmed(&history).filter(|_| is_final(&history)),
        };
        if fate == Some(Fate::Forgotten) && is_alive(held, &history)? {
            fate = slimmed(&history);
        }
        if fate != Some(Fate::Forgotten) && !operations.row(row).is_confirmed() {
            note(&history, &mut undoing);
        }
        chosen.extend(fate.map(|fate| (row, fate)));
    }
    if !undoing.is_empty() {
        keep_later_writes(held, operations, &undoing, &mut chosen)?;
    }
    Ok(chosen)
}

fn read(held: &Held<'_>, operations: &Operations, row: usize) -> Result<History, StoreError> {
    let journal = &held.journal;
    let history = operations.history(row, &**journal.disk());
    history.map_err(|span| journal.bad_line(span.offset, "the line is not what was written"))
}

/// Returns whether somebody may still tell of one of its attempts: who was fenced off keeps his lock until he has.
fn is_alive(held: &Held<'_>, history: &History) -> Result<bool, StoreError> {
    let mut before = 0;
    for n in history.facts.iter().map(|recorded| recorded.n) {
        if n != std::mem::replace(&mut before, n) && held.locks.lives(n)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The first claims of operations that may be sent again and would undo a later write, by partner and URL.
pub type Undoing = HashMap<(PartnerName, Box<str>), u64>;

/// Notes an operation that is not confirmed.
pub fn note(history: &History, undoing: &mut Undoing) {
    let opened = history.opened();
    if matches!(&*opened.method, "PUT" | "PATCH" | "DELETE") {
        let first = undoing.entry((opened.partner.clone(), opened.url.clone())).or_insert(u64::MAX);
        *first = (*first).min(history.facts[0].n);
    }
}

/// Returns whether an operation that is confirmed tells `replay` that an older write must not be sent any more.
///
/// Source: decisions 13.
pub fn is_later_write(history: &History, undoing: &Undoing) -> bool {
    let opened = history.opened();
    let is_write = Method::new(&opened.method).is_none_or(|method| !method.is_safe());
    let first = undoing.get(&(opened.partner.clone(), opened.url.clone()));
    is_write && first.is_some_and(|first| *first < history.facts[0].n)
}

/// Keeps such operations.
fn keep_later_writes(
    held: &Held<'_>,
    operations: &Operations,
    undoing: &Undoing,
    chosen: &mut BTreeMap<usize, Fate>,
) -> Result<(), StoreError> {
    let gone = chosen.iter().filter(|(row, fate)| **fate == Fate::Forgotten && operations.row(**row).is_confirmed());
    for row in gone.map(|(row, _)| *row).collect::<Vec<_>>() {
        let history = read(held, operations, row)?;
        if is_later_write(&history, undoing) {
            chosen.remove(&row);
            chosen.extend(slimmed(&history).map(|fate| (row, fate)));
        }
    }
    Ok(())
}
