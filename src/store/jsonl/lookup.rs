//! Reads operations from the lines that the index points at. Every line on the way is checked again.

use super::disk::{Disk, read_range};
use super::index::{Damaged, Spot};
use super::journal::Journal;
use super::operations::{NEVER_OPENED, NOT_UNDERSTOOD, is_known};
use crate::engine::entry::is_final;
use crate::engine::facts::{Fact, History};
use crate::engine::operation::{Fingerprint, IdempotencyKey, PartnerName};
use crate::engine::verdict::Verdict;
use crate::store::StoreError;
use crate::store::format::{self, LINE_MAX};
use std::collections::{BTreeMap, HashSet};

/// The shortest length that a rest at the end of lines may not have: entries round up by less.
const REST_MAX: usize = super::index::UNIT as usize;
/// How much is read first where a line is looked for, in bytes: enough for most.
const LINE_USUAL: u64 = 1_024;
/// What is wrong with a line that the index points at.
const NOT_AS_WRITTEN: &str = "the line is not what was written";

/// Why a look-up failed.
#[derive(Debug)]
pub enum Trouble {
    /// The index, or a line that it covers, is not what it was: it has to be dropped and the whole journal read.
    Index(&'static str),
    /// Anything else.
    Store(StoreError),
}

impl From<StoreError> for Trouble {
    fn from(error: StoreError) -> Trouble {
        Trouble::Store(error)
    }
}

impl From<Damaged> for Trouble {
    fn from(_: Damaged) -> Trouble {
        Trouble::Index("a page of it is damaged")
    }
}

/// One operation as its lines tell it.
#[derive(Clone, Debug, PartialEq)]
pub struct Operation {
    /// Its partner.
    pub partner: PartnerName,
    /// Its key.
    pub key: IdempotencyKey,
    /// Its facts.
    pub history: History,
    /// The number of its newest claim.
    pub newest: u64,
    /// The offset of its first line.
    pub opened_at: u64,
    /// Its claims, each with the offset of its line.
    pub claims: Vec<(u64, u64)>,
}

impl Operation {
    /// Sorts operations by their newest claim, the newest first.
    pub fn newest_first(operations: &mut [Operation]) {
        operations.sort_by_key(|operation| std::cmp::Reverse(operation.newest));
    }
}

/// What a journal has under a key.
#[derive(Debug, Default)]
pub struct Lookup {
    /// The operations, in the order in which they were opened.
    pub operations: Vec<Operation>,
    /// Claims that used it and of which nothing else is left. Without a partner it may be anybody's.
    lost: Vec<(Option<PartnerName>, u64)>,
}

impl Lookup {
    /// Returns the claim of a partner, or of anybody, that used the key and of which nothing else is left.
    pub fn lost(&self, partner: Option<&PartnerName>) -> Option<u64> {
        let same = |whose: &Option<PartnerName>| partner.is_none() || whose.is_none() || whose.as_ref() == partner;
        self.lost.iter().find(|(whose, _)| same(whose)).map(|(_, n)| *n)
    }
}

/// The lines of one partner's operation, by offset.
struct Lines {
    partner: PartnerName,
    claims: Vec<(u64, u64)>,
    texts: Vec<(u64, Vec<u8>)>,
}

impl Journal {
    /// Returns what there is under a key: of one partner, or of everybody.
    pub fn find(&self, key: &IdempotencyKey, partner: Option<&PartnerName>) -> Result<Lookup, Trouble> {
        let mut texts = BTreeMap::new();
        for spot in self.index().with_key(self.keys().key(key))? {
            self.collect(spot, key, &mut texts)?;
        }
        let mut lookup = Lookup::default();
        let mut all: Vec<Lines> = Vec::new();
        for (at, text) in texts {
            let envelope = format::envelope(&text).expect("it was collected because it is whole");
            let n = envelope.n.unwrap_or(0);
            let known = match envelope.t {
                "lost" => {
                    lookup.lost.extend(format::whose(&text).map(|(_, partner)| (partner, n)));
                    continue;
                }
                "opened" | "reopened" | "resolved" => {
                    let identity = format::identity(&text).ok_or_else(|| self.bad_line(at, NOT_UNDERSTOOD))?;
                    let known = all.iter().position(|lines| lines.partner == identity.partner);
                    let index = known.unwrap_or(all.len());
                    if known.is_none() {
                        all.push(Lines { partner: identity.partner, claims: Vec::new(), texts: Vec::new() });
                    }
                    all[index].claims.push((n, at));
                    Some(index)
                }
                // A line whose claim was set aside as never acknowledged belongs to nothing.
                _ => all.iter().position(|lines| lines.claims.iter().any(|(claim, _)| *claim == n)),
            };
            if let Some(index) = known {
                all[index].texts.push((at, text));
            }
        }
        all.retain(|lines| partner.is_none_or(|partner| *partner == lines.partner));
        lookup.operations = all.into_iter().map(|lines| self.read(key, lines)).collect::<Result<_, _>>()?;
        Ok(lookup)
    }

    /// Returns the operation of a partner's key.
    pub fn find_one(&self, partner: &PartnerName, key: &IdempotencyKey) -> Result<Option<Operation>, Trouble> {
        Ok(self.find(key, Some(partner))?.operations.pop())
    }

    /// Returns the operations that are not decided, the one claimed last first, as far as they may be wanted: those of
    /// a payload, or all. Each has to be looked up.
    pub fn undecided(&self, payload: Option<(&PartnerName, &Fingerprint)>) -> Result<Vec<Named>, Trouble> {
        let hash = payload.map(|(partner, fp)| self.keys().payload(partner, fp));
        let mut told = HashSet::new();
        let mut named = Vec::new();
        for at in self.index().undecided(hash)? {
            let one = self.named(at)?;
            if told.insert(one.clone()) {
                named.push(one);
            }
        }
        Ok(named)
    }

    /// Returns the operation of a partner that was confirmed last, other than `except`.
    pub fn newest_confirmed(
        &self,
        partner: &PartnerName,
        except: &IdempotencyKey,
    ) -> Result<Option<Operation>, Trouble> {
        for at in self.index().confirming(self.keys().partner(partner))? {
            let named = self.named(at)?;
            if named.key == *except {
                continue;
            }
            let found = self.find_one(partner, &named.key)?.filter(|found| is_confirmed_by_partner(&found.history));
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }

    /// Returns whom the line at `at` names.
    fn named(&self, at: u64) -> Result<Named, Trouble> {
        let text = first_line(&**self.disk(), at, self.end());
        let whole = text.filter(|text| format::envelope(text).is_some());
        let (key, partner) =
            whole.as_deref().and_then(format::whose).ok_or_else(|| self.trouble(at, NOT_AS_WRITTEN))?;
        Ok(Named { key, partner })
    }

    /// Collects the lines about a key, by offset.
    fn collect(&self, spot: Spot, key: &IdempotencyKey, texts: &mut BTreeMap<u64, Vec<u8>>) -> Result<(), Trouble> {
        let bytes = read_range(&**self.disk(), spot.at, spot.end.min(self.end()))
            .map_err(|_| self.trouble(spot.at, NOT_AS_WRITTEN))?;
        let (mut rest, mut at) = (&bytes[..], spot.at);
        while let Some(len) = memchr::memchr(b'\n', rest) {
            let blanks = rest[..len].iter().take_while(|byte| **byte == b' ').count();
            let text = &rest[blanks..len];
            if !text.is_empty() {
                if format::envelope(text).is_none() {
                    return Err(self.trouble(at, NOT_AS_WRITTEN));
                }
                if format::is_about(text, key) == Some(true) {
                    texts.insert(at + blanks as u64, text.to_vec());
                }
            }
            (rest, at) = (&rest[len + 1..], at + len as u64 + 1);
        }
        let is_cut = if spot.is_exact { !rest.is_empty() } else { rest.len() >= REST_MAX };
        if is_cut { Err(self.trouble(at, NOT_AS_WRITTEN)) } else { Ok(()) }
    }

    fn read(&self, key: &IdempotencyKey, lines: Lines) -> Result<Operation, Trouble> {
        let Lines { partner, claims, texts } = lines;
        let mut history = History { facts: Vec::with_capacity(texts.len() + 1) };
        for (at, text) in &texts {
            match format::fact(text) {
                Some((_, recorded)) => history.facts.push(recorded),
                // A kind of line that only newer versions know has no meaning here.
                None if format::envelope(text).is_some_and(|envelope| !is_known(envelope.t)) => {}
                None => return Err(self.bad_line(*at, NOT_AS_WRITTEN).into()),
            }
        }
        let (opened_at, newest) = (texts[0].0, claims.iter().map(|(n, _)| *n).max().unwrap_or(0));
        if !history.facts.iter().any(|recorded| matches!(recorded.fact, Fact::Opened(_))) {
            return Err(self.trouble(opened_at, NEVER_OPENED));
        }
        Ok(Operation { partner, key: key.clone(), history, newest, opened_at, claims })
    }

    /// What a run says is judged by reading the whole journal; what was read from the journal itself is its damage.
    fn trouble(&self, at: u64, what: &'static str) -> Trouble {
        match at < self.index().tail.from() {
            true => Trouble::Index("a line that it names is not there any more"),
            false => self.bad_line(at, what).into(),
        }
    }
}

/// Whom a line names.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Named {
    /// The key.
    pub key: IdempotencyKey,
    /// The partner, where the line names one.
    pub partner: Option<PartnerName>,
}

/// Returns whether a partner has confirmed an operation, and nobody has taken that back.
pub fn is_confirmed_by_partner(history: &History) -> bool {
    is_final(history)
        && history.facts.iter().any(|recorded| match &recorded.fact {
            Fact::Settled(settled) => settled.verdict == Verdict::Confirmed,
            _ => false,
        })
}

/// Reads the line that begins at `at`, without its line break; `None` where none ends before `end`.
pub fn first_line(disk: &dyn Disk, at: u64, end: u64) -> Option<Vec<u8>> {
    for most in [LINE_USUAL, LINE_MAX as u64] {
        let bytes = read_range(disk, at, end.min(at + most)).ok()?;
        if let Some(len) = memchr::memchr(b'\n', &bytes) {
            return Some(bytes[..len].to_vec());
        }
    }
    None
}
