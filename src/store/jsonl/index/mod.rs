//! Where the lines of an operation are, without reading the whole journal.
//!
//! Runs cover the lines up to some place, a tail in memory those behind. Both only say where to look: what a line says
//! is read from the journal and checked again. What is not in an index whose checksums are right is not in the lines
//! that it covers, which were durable when it was made; so nothing that is damaged can look absent:
//!
//! - a damaged page, a missing file, an index of another journal or of an older copy: the index is dropped, and the
//!   whole journal is read (`Trouble::Index`, [`Manifest::load`]);
//! - a damaged line that is looked up: the same, and the whole journal then refuses (`lookup`);
//! - a lost end: the journal is shorter than what is covered, or than this machine remembers (`seen`);
//! - an older copy, lines that were taken out or put in: the last covered line is not where it was ([`manifest::Anchor`]);
//! - damage in covered lines that nobody looks up is left to `abide ledger verify`.

mod entry;
mod hash;
mod manifest;
mod run;
mod tail;
mod upkeep;

pub use entry::{Entry, Kind, UNIT};
pub use hash::{Keyed, Table};
pub use manifest::NAME as MANIFEST;
pub use run::Damaged;
pub use tail::Line;
pub use upkeep::{Effort, Upkeep};

use self::manifest::Manifest;
use self::run::Run;
use self::tail::{Segment, Tail, Tracked};
use super::disk::Disk;
use super::scan::Position;
use crate::store::format::Header;
use std::collections::HashSet;
use std::path::Path;

/// How many bytes behind the runs are read by every process before a new run is written. A ledger that is not longer
/// has no index at all.
///
/// Source: the ledger's reference, section 4.6: about 370 operations, which cost 0.1 ms to read.
pub const TAIL_MAX: u64 = 256 << 10;

/// An index in use.
#[derive(Debug)]
pub struct Index {
    /// The runs, oldest first; none where the tail is everything.
    runs: Vec<Run>,
    /// What they do not.
    pub tail: Tail,
    /// The one on the disk was found to be of no use: it is not built upon.
    is_distrusted: bool,
}

/// An index as it was found, and from where the journal has to be read.
#[derive(Debug)]
pub struct Attached {
    /// The index.
    pub index: Index,
    /// Where the tail begins.
    pub at: Position,
    /// Why what is on the disk is of no use.
    pub dropped: Option<&'static str>,
}

impl Index {
    /// Returns an index of nothing, for a journal that is read from `at` on.
    pub fn empty(header: &Header, at: Position, is_distrusted: bool) -> Index {
        Index { runs: Vec::new(), tail: Tail::new(Keyed::new(&header.id), at.end, 0, 0), is_distrusted }
    }

    /// Finds the index of a journal that has `len` bytes, its header ending at `at`. A short one is not looked for.
    pub fn attach(folder: &Path, header: &Header, at: Position, disk: &dyn Disk, len: u64) -> Attached {
        let nothing = |dropped: Option<&'static str>| {
            let index = Index::empty(header, at, dropped.is_some());
            Attached { index, at, dropped }
        };
        if len <= TAIL_MAX {
            return nothing(None);
        }
        match Manifest::load(folder, header, disk, len) {
            manifest::Found::Nothing => nothing(None),
            manifest::Found::Useless(why) => nothing(Some(why)),
            manifest::Found::Index(manifest, runs) => {
                let at = Position { end: manifest.covered, lines: manifest.lines };
                let tail = Tail::new(Keyed::new(&header.id), at.end, manifest.claim, manifest.n);
                Attached { index: Index { runs, tail, is_distrusted: false }, at, dropped: None }
            }
        }
    }

    /// Takes a line in.
    ///
    /// # Errors
    /// What is wrong with it. It is left out then.
    pub fn take(&mut self, line: Line<'_>, disk: &dyn Disk) -> Result<(), &'static str> {
        self.tail.take(line, !self.runs.is_empty(), disk)
    }

    /// Returns where lines of a key are, by its hash: also of other keys with the same one.
    pub fn with_key(&self, hash: u64) -> Result<Vec<Spot>, Damaged> {
        let mut spots = self.covered(hash)?;
        let ours = self.tail.with_key(hash).map(|segment| Spot {
            at: segment.at,
            end: segment.end,
            kind: segment.kind,
            is_exact: true,
        });
        spots.extend(ours);
        spots.sort_unstable_by_key(|spot| spot.at);
        Ok(spots)
    }

    /// Returns where runs have lines of a key, by its hash.
    pub fn covered(&self, hash: u64) -> Result<Vec<Spot>, Damaged> {
        self.found(hash, Kind::LINES)
    }

    /// Returns the lines of claims that may be the newest of an undecided operation, newest first: all of them, or those
    /// with a payload's hash. They have to be looked up: some are decided, or nothing that is known.
    pub fn undecided(&self, payload: Option<u64>) -> Result<Vec<u64>, Damaged> {
        let mut claims: Vec<u64> = match payload {
            Some(payload) => self.found(payload, Kind::PAYLOAD)?.iter().map(|spot| spot.at).collect(),
            None => self.listed()?,
        };
        let fits = |tracked: &Tracked| payload.is_none_or(|hash| tracked.payload.is_none_or(|its| its == hash));
        let tracked = self.tail.tracked().filter(|(_, tracked)| !tracked.is_decided && fits(tracked));
        claims.extend(tracked.map(|(_, tracked)| tracked.claim_at));
        claims.extend(self.tail.strays().iter().map(|(_, at)| *at));
        claims.sort_unstable();
        claims.dedup();
        claims.reverse();
        Ok(claims)
    }

    /// Returns lines that confirm an operation of a partner, by its hash, the newest first; lines of claims that are not
    /// known among them.
    pub fn confirming(&self, partner: u64) -> Result<Vec<u64>, Damaged> {
        let mut lines: Vec<u64> = self.found(partner, Kind::CONTROL)?.iter().map(|spot| spot.at).collect();
        lines.extend(self.tail.controls(partner));
        lines.extend(self.tail.strays().iter().map(|(_, at)| *at));
        lines.sort_unstable();
        lines.dedup();
        lines.reverse();
        Ok(lines)
    }

    /// Returns whether a key may have a claim behind `at`.
    pub fn may_be_claimed_behind(&self, hash: u64, at: u64) -> bool {
        let is_later = |segment: &&Segment| segment.at > at;
        at < self.tail.from()
            || self.tail.with_key(hash).take_while(is_later).any(|segment| segment.kind.is(Kind::CLAIM))
    }

    /// Returns whether a line with a key, by its hash, may end behind `at`.
    pub fn may_have_behind(&self, hash: u64, at: u64) -> Result<bool, Damaged> {
        let is_later = self.tail.with_key(hash).any(|segment| segment.end > at);
        Ok(is_later || (at < self.tail.from() && self.covered(hash)?.iter().any(|spot| spot.end > at)))
    }

    /// Returns what runs have as undecided and nothing newer contradicts.
    fn listed(&self) -> Result<Vec<u64>, Damaged> {
        let mut newer: HashSet<u64> = self.tail.tracked().map(|(operation, _)| operation).collect();
        newer.extend(self.tail.decided());
        let mut claims = Vec::new();
        for run in self.runs.iter().rev() {
            for entry in run.listed()? {
                if newer.insert(entry.hash) && entry.kind().is(Kind::UNDECIDED) {
                    claims.push(entry.at());
                }
            }
        }
        Ok(claims)
    }

    fn found(&self, hash: u64, kind: Kind) -> Result<Vec<Spot>, Damaged> {
        let mut entries = Vec::new();
        for run in &self.runs {
            run.find(hash, &mut entries)?;
        }
        let wanted = entries.iter().filter(|entry| entry.kind().is(kind));
        Ok(wanted.map(|entry| Spot { at: entry.at(), end: entry.end(), kind: entry.kind(), is_exact: false }).collect())
    }
}

/// Where lines of a key are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spot {
    /// The offset of the first one.
    pub at: u64,
    /// The offset behind the last one.
    pub end: u64,
    /// What it begins with.
    pub kind: Kind,
    /// Whether `end` is exact; else it may be up to one unit too high.
    pub is_exact: bool,
}
