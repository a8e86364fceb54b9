//! Which lines of a journal belong to which operation, found by reading the whole file: for what is about all of them,
//! for checks, and to compare the index with.
//!
//! Only places are kept; what a line says is read from the journal itself and checked again.

use super::disk::{Disk, read_range};
use super::index::Table;
use crate::engine::facts::History;
use crate::engine::operation::{IdempotencyKey, PartnerName};
use crate::engine::verdict::Verdict;
use crate::store::format::{self, Envelope, Identity};
use std::collections::HashMap;

/// The highest claim number, so that every one has its own lock byte.
const N_MAX: u64 = 1 << 60;

/// What is wrong with a line that is whole and says nothing that is known.
pub const NOT_UNDERSTOOD: &str = "the line cannot be understood";
/// What is wrong with a claim whose number is not new.
pub const NUMBER_AGAIN: &str = "the claim number was given before: two copies of a ledger were merged";
/// What is wrong with a first claim that is not the first one.
pub const OPENED_AGAIN: &str = "the operation was opened before: two copies of a ledger were merged";
/// What is wrong with a later claim that is the first one.
pub const NEVER_OPENED: &str = "the operation was never opened: its first line is missing";

/// Returns the number of a line; `None` where it belongs to no claim.
///
/// # Errors
/// It is a header, or the number is impossible.
pub fn check_number(envelope: Envelope<'_>) -> Result<Option<u64>, &'static str> {
    if envelope.t == "ledger" {
        return Err("another ledger begins here");
    }
    match envelope.n {
        Some(n) if n > N_MAX || (n == 0 && envelope.t != "note") => Err("the claim number is impossible"),
        n => Ok(n),
    }
}

/// Checks a line about claims that were forgotten, behind claim `newest`.
///
/// # Errors
/// What is wrong with it.
pub fn check_forgotten(text: &[u8], newest: u64) -> Result<(), &'static str> {
    match format::forgotten(text) {
        Some((from, _)) if from > newest => Ok(()),
        Some(_) => Err(NUMBER_AGAIN),
        None => Err(NOT_UNDERSTOOD),
    }
}

/// Where the lines of all operations are.
#[derive(Debug, Default)]
pub struct Operations {
    rows: Vec<Row>,
    by_key: HashMap<IdempotencyKey, Rows>,
    by_claim: Table<usize>,
    newest_claim: u64,
    newest_n: u64,
}

/// The rows of a key: nearly always one, which needs no memory of its own.
#[derive(Debug)]
enum Rows {
    One(usize),
    More(Vec<usize>),
}

impl Rows {
    fn all(&self) -> &[usize] {
        match self {
            Rows::One(row) => std::slice::from_ref(row),
            Rows::More(rows) => rows,
        }
    }

    fn add(&mut self, row: usize) {
        match self {
            Rows::One(first) => *self = Rows::More(vec![*first, row]),
            Rows::More(rows) => rows.push(row),
        }
    }
}

/// One operation.
#[derive(Debug)]
pub struct Row {
    /// Its partner.
    pub partner: PartnerName,
    /// Its key.
    pub key: IdempotencyKey,
    /// The number of its newest claim.
    pub newest: u64,
    /// Whether a run ended with it confirmed.
    settled_confirmed: bool,
    /// Whether a person's newest word is that it happened.
    resolved_confirmed: bool,
    /// Where its lines are, oldest first; never empty.
    pub spans: Vec<Span>,
}

/// Where a line is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// The offset of its first byte.
    pub offset: u64,
    /// Its length without the line break; at most 64 KiB.
    pub len: u32,
    /// Its number, from 1.
    pub line: u64,
}

impl Row {
    /// Returns whether a line says that it happened. Where none does it may still be decided: by a rejection.
    pub fn is_confirmed(&self) -> bool {
        self.settled_confirmed || self.resolved_confirmed
    }
}

impl Operations {
    /// Takes a line in.
    ///
    /// # Errors
    /// What is wrong with it, as [`Operations::judge`] says. It is left out then.
    pub fn take(&mut self, span: Span, text: &[u8], envelope: Envelope<'_>) -> Result<(), &'static str> {
        let claim = self.judge(text, envelope)?;
        let Some(n) = envelope.n else { return Ok(()) };
        match (envelope.t, claim) {
            (_, Some((identity, known))) => self.begin(n, span, identity, known),
            ("note", _) => {}
            ("forgotten", _) => self.newest_claim = n,
            ("lost", _) => drop(format::whose(text).ok_or(NOT_UNDERSTOOD)?),
            // A line whose claim was set aside as never acknowledged belongs to nothing.
            _ => {
                if let Some(&row) = self.by_claim.get(&n) {
                    self.rows[row].spans.push(span);
                }
            }
        }
        if matches!(envelope.t, "settled" | "resolved")
            && let Some(&row) = self.by_claim.get(&n)
        {
            let (row, confirmed) = (&mut self.rows[row], format::verdict(text) == Some(Verdict::Confirmed));
            match envelope.t {
                "settled" => row.settled_confirmed |= confirmed,
                _ => row.resolved_confirmed = confirmed,
            }
        }
        self.newest_n = self.newest_n.max(n);
        Ok(())
    }

    /// Returns whose a claim's line is, and the operation where it is known; `None` for other lines.
    ///
    /// # Errors
    /// What is wrong with the line, where it contradicts those before it.
    fn judge(&self, text: &[u8], envelope: Envelope<'_>) -> Result<Option<(Identity, Option<usize>)>, &'static str> {
        let Some(n) = check_number(envelope)? else { return Ok(None) };
        let first = match envelope.t {
            "opened" => true,
            "reopened" | "resolved" => false,
            "forgotten" => return check_forgotten(text, self.newest_claim).map(|()| None),
            _ => return Ok(None),
        };
        if n <= self.newest_claim {
            return Err(NUMBER_AGAIN);
        }
        let identity = format::identity(text).ok_or(NOT_UNDERSTOOD)?;
        match (self.find(&identity.partner, &identity.key), first) {
            (Some(_), true) => Err(OPENED_AGAIN),
            (None, false) => Err(NEVER_OPENED),
            (None, true) if identity.fp.is_none() => Err(NOT_UNDERSTOOD),
            (known, _) => Ok(Some((identity, known))),
        }
    }

    fn begin(&mut self, n: u64, span: Span, identity: Identity, known: Option<usize>) {
        let row = match (known, identity) {
            (Some(row), _) => row,
            (None, Identity { key, partner, fp: Some(_) }) => self.open(key, partner),
            (None, Identity { fp: None, .. }) => unreachable!("it was judged: an operation begins with its payload"),
        };
        self.rows[row].newest = n;
        self.rows[row].spans.push(span);
        self.by_claim.insert(n, row);
        self.newest_claim = n;
    }

    fn open(&mut self, key: IdempotencyKey, partner: PartnerName) -> usize {
        let index = self.rows.len();
        self.by_key.entry(key.clone()).and_modify(|rows| rows.add(index)).or_insert(Rows::One(index));
        let (settled_confirmed, resolved_confirmed, spans) = (false, false, Vec::with_capacity(4));
        self.rows.push(Row { partner, key, newest: 0, settled_confirmed, resolved_confirmed, spans });
        index
    }

    /// Returns whether a line is that of a claim whose number was given before.
    pub fn is_claimed(&self, envelope: Envelope<'_>) -> bool {
        matches!(envelope.t, "opened" | "reopened" | "resolved") && envelope.n.is_some_and(|n| n <= self.newest_claim)
    }

    /// Returns the operation of a partner's key.
    pub fn find(&self, partner: &PartnerName, key: &IdempotencyKey) -> Option<usize> {
        self.with_key(key).iter().copied().find(|&row| self.rows[row].partner == *partner)
    }

    /// Returns the operations with a key, of whatever partner.
    pub fn with_key(&self, key: &IdempotencyKey) -> &[usize] {
        self.by_key.get(key).map_or(&[], Rows::all)
    }

    /// Returns how many operations there are.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Returns the operations that `wanted` chooses, the one claimed last first.
    pub fn newest_first(&self, wanted: impl Fn(&Row) -> bool) -> Vec<usize> {
        let mut rows: Vec<usize> = (0..self.rows.len()).filter(|&row| wanted(&self.rows[row])).collect();
        rows.sort_unstable_by_key(|&row| std::cmp::Reverse(self.rows[row].newest));
        rows
    }

    /// Returns the operation that a claim is for.
    pub fn of_claim(&self, n: u64) -> Option<usize> {
        self.by_claim.get(&n).copied()
    }

    /// Returns one operation.
    pub fn row(&self, row: usize) -> &Row {
        &self.rows[row]
    }

    /// Returns the highest claim number on any line; 0 without one.
    pub fn newest_n(&self) -> u64 {
        self.newest_n
    }

    /// Reads the facts of one operation from the journal.
    ///
    /// # Errors
    /// The place of the first line that is not what it was when it was taken in.
    pub fn history(&self, row: usize, disk: &dyn Disk) -> Result<History, Span> {
        let row = &self.rows[row];
        let mut history = History { facts: Vec::with_capacity(row.spans.len() + 1) };
        for span in &row.spans {
            let text = read_range(disk, span.offset, span.offset + u64::from(span.len)).map_err(|_| *span)?;
            // A kind of line that only newer versions know has no meaning here.
            match format::fact(&text) {
                Some((key, recorded)) if key == row.key => history.facts.push(recorded),
                None if format::envelope(&text).is_some_and(|envelope| !is_known(envelope.t)) => {}
                _ => return Err(*span),
            }
        }
        Ok(history)
    }
}

/// Returns whether this version knows a kind of line that tells of an operation.
pub fn is_known(t: &str) -> bool {
    matches!(t, "opened" | "started" | "finished" | "asked" | "waiting" | "settled" | "reopened" | "resolved")
}
