//! What the lines say that no run covers yet: kept in memory while they are read.

use super::entry::{CONTROLS, Kind, SEGMENT_MAX};
use super::hash::{Keyed, Table};
use crate::engine::operation::{Fingerprint, PartnerName};
use crate::engine::verdict::Verdict;
use crate::store::format::{self, Envelope, Identity};
use crate::store::jsonl::disk::Disk;
use crate::store::jsonl::lookup::first_line;
use crate::store::jsonl::operations::{self, NOT_UNDERSTOOD, check_number};

/// One line of a journal.
#[derive(Clone, Copy, Debug)]
pub struct Line<'a> {
    /// The offset of its first byte.
    pub at: u64,
    /// Its bytes, without the line break.
    pub text: &'a [u8],
    /// What it says about itself.
    pub envelope: Envelope<'a>,
}

/// Lines near each other that belong to one claim, or to a claim that is not known.
#[derive(Clone, Copy, Debug)]
pub struct Segment {
    /// The hash of the key.
    pub hash: u64,
    /// The offset of the first line.
    pub at: u64,
    /// The offset behind the last line.
    pub end: u64,
    /// What it begins with.
    pub kind: Kind,
    /// The segment before with the same hash, as its index plus one; 0 for none.
    before: u32,
}

/// A claim that has not ended.
#[derive(Clone, Copy, Debug)]
struct Open {
    /// Where its newest lines are; `None` where a run covers them.
    segment: Option<u32>,
    key: u64,
    operation: u64,
    partner: u64,
}

/// An operation that is not known to be confirmed.
#[derive(Clone, Copy, Debug)]
pub struct Tracked {
    /// The number of its newest claim.
    pub newest: u64,
    /// The offset of that claim's line.
    pub claim_at: u64,
    /// The hash of its payload; `None` where its first line was not among those that were read.
    pub payload: Option<u64>,
    /// The offset of its first line, where that was read.
    opened_at: u64,
    /// Whether its newest claim ended with a last word.
    pub is_decided: bool,
    /// Whether something of this is not in a run yet.
    pub is_new: bool,
}

/// The lines behind the runs.
#[derive(Debug)]
pub struct Tail {
    keys: Keyed,
    /// Where they begin.
    from: u64,
    segments: Vec<Segment>,
    heads: Table<u32>,
    open: Table<Open>,
    tracked: Table<Tracked>,
    decided: Vec<u64>,
    strays: Vec<(u64, u64)>,
    controls: Table<Vec<(u64, u64)>>,
    last_partner: Option<(PartnerName, u64)>,
    newest_n: u64,
    newest_claim: u64,
    last: Option<(u64, u32)>,
}

impl Tail {
    /// Returns a tail that begins at `from`, behind claim `newest_claim` and lines with numbers up to `newest_n`.
    pub fn new(keys: Keyed, from: u64, newest_claim: u64, newest_n: u64) -> Tail {
        Tail {
            keys,
            from,
            segments: Vec::new(),
            heads: Table::default(),
            open: Table::default(),
            tracked: Table::default(),
            decided: Vec::new(),
            strays: Vec::new(),
            controls: Table::default(),
            last_partner: None,
            newest_n,
            newest_claim,
            last: None,
        }
    }

    /// Notes bytes that were not taken in: no segment reaches over them.
    pub fn interrupt(&mut self) {
        self.open.values_mut().for_each(|open| open.segment = None);
    }

    /// Takes a line in. `has_past`: lines before the tail are known elsewhere.
    ///
    /// # Errors
    /// What is wrong with it, as [`operations::Operations::take`] says; an operation that was opened in the past is not
    /// looked for there. It is left out then.
    pub fn take(&mut self, line: Line<'_>, has_past: bool, disk: &dyn Disk) -> Result<(), &'static str> {
        let Line { at, text, envelope } = line;
        self.last = Some((at, text.len() as u32));
        let Some(n) = check_number(envelope)? else { return Ok(()) };
        match envelope.t {
            "opened" | "reopened" | "resolved" => self.claim(n, line, has_past, disk)?,
            "note" => {}
            "forgotten" => {
                operations::check_forgotten(text, self.newest_claim)?;
                self.newest_claim = n;
            }
            "lost" => {
                let (key, _) = format::whose(text).ok_or(NOT_UNDERSTOOD)?;
                self.add(self.keys.key(&key), line, Kind::LOST);
            }
            _ => self.fact(n, line),
        }
        self.newest_n = self.newest_n.max(n);
        Ok(())
    }

    fn claim(&mut self, n: u64, line: Line<'_>, has_past: bool, disk: &dyn Disk) -> Result<(), &'static str> {
        if n <= self.newest_claim {
            return Err(operations::NUMBER_AGAIN);
        }
        let identity = format::identity(line.text).ok_or(NOT_UNDERSTOOD)?;
        let key = self.keys.key(&identity.key);
        let is_first = line.envelope.t == "opened";
        match (self.was_opened(key, &identity, disk), is_first) {
            (true, true) => return Err(operations::OPENED_AGAIN),
            (false, false) if !has_past => return Err(operations::NEVER_OPENED),
            (false, true) if identity.fp.is_none() => return Err(NOT_UNDERSTOOD),
            _ => {}
        }
        let segment = Some(self.add(key, line, if is_first { Kind::OPENED } else { Kind::CLAIM }));
        let operation = self.keys.operation(&identity.partner, &identity.key);
        let payload = identity.fp.filter(|_| is_first).map(|fp| (identity.partner.clone(), fp));
        // A person's word is one line.
        if line.envelope.t != "resolved" {
            let partner = self.partner(identity.partner);
            self.open.insert(n, Open { segment, key, operation, partner });
        }
        let is_decided = line.envelope.t == "resolved" && format::verdict(line.text).is_some_and(Verdict::is_final);
        self.track(n, line.at, operation, payload, is_decided);
        self.newest_claim = n;
        Ok(())
    }

    fn track(
        &mut self,
        n: u64,
        at: u64,
        operation: u64,
        payload: Option<(PartnerName, Fingerprint)>,
        is_decided: bool,
    ) {
        let first = payload.map(|(partner, fp)| self.keys.payload(&partner, &fp));
        let known = self.tracked.get(&operation).copied().unwrap_or(Tracked {
            newest: n,
            claim_at: at,
            payload: first,
            opened_at: if first.is_some() { at } else { 0 },
            is_decided,
            is_new: true,
        });
        self.tracked.insert(operation, Tracked { newest: n, claim_at: at, is_decided, is_new: true, ..known });
    }

    fn partner(&mut self, name: PartnerName) -> u64 {
        match &self.last_partner {
            Some((last, hash)) if *last == name => *hash,
            _ => {
                let hash = self.keys.partner(&name);
                self.last_partner = Some((name, hash));
                hash
            }
        }
    }

    fn fact(&mut self, n: u64, line: Line<'_>) {
        let end = line.at + line.text.len() as u64 + 1;
        let Some(open) = self.open.get(&n).copied() else { return self.stray(line) };
        match open.segment.map(|index| &mut self.segments[index as usize]) {
            Some(segment) if end - segment.at <= SEGMENT_MAX => segment.end = end,
            _ => {
                let segment = Some(self.add(open.key, line, Kind::LINES));
                self.open.insert(n, Open { segment, ..open });
            }
        }
        if line.envelope.t == "settled" {
            self.open.remove(&n);
            self.settled(n, open, line);
        }
    }

    fn settled(&mut self, n: u64, open: Open, line: Line<'_>) {
        match format::verdict(line.text) {
            Some(Verdict::Confirmed) => {
                let newest = self.controls.entry(open.partner).or_default();
                newest.retain(|(operation, _)| *operation != open.operation);
                newest.push((open.operation, line.at));
                if newest.len() > CONTROLS {
                    newest.remove(0);
                }
                // Proof that it happened is never taken back.
                if let Some(gone) = self.tracked.remove(&open.operation)
                    && (gone.payload.is_none() || gone.opened_at < self.from)
                {
                    self.decided.push(open.operation);
                }
            }
            verdict => {
                if let Some(tracked) = self.tracked.get_mut(&open.operation)
                    && tracked.newest == n
                {
                    (tracked.is_decided, tracked.is_new) = (verdict.is_some_and(Verdict::is_final), true);
                }
            }
        }
    }

    /// Takes a line of a claim that was not read, or that has ended: only its key says whose it is.
    fn stray(&mut self, line: Line<'_>) {
        let Some((key, _)) = format::whose(line.text) else { return };
        let hash = self.keys.key(&key);
        self.add(hash, line, Kind::LINES);
        self.strays.push((hash, line.at));
    }

    fn add(&mut self, hash: u64, line: Line<'_>, kind: Kind) -> u32 {
        let index = u32::try_from(self.segments.len()).expect("memory ends before");
        let before = self.heads.insert(hash, index).map_or(0, |before| before + 1);
        self.segments.push(Segment { hash, at: line.at, end: line.at + line.text.len() as u64 + 1, kind, before });
        index
    }

    fn was_opened(&self, key: u64, identity: &Identity, disk: &dyn Disk) -> bool {
        self.with_key(key).filter(|segment| segment.kind.is(Kind::OPENED)).any(|segment| {
            let first = first_line(disk, segment.at, segment.end).and_then(|text| format::identity(&text));
            // One that cannot be read any more counts as the same: nothing is opened twice.
            first.is_none_or(|first| first.key == identity.key && first.partner == identity.partner)
        })
    }

    /// Returns the segments whose key has this hash, newest first.
    pub fn with_key(&self, hash: u64) -> impl Iterator<Item = &Segment> {
        let at = |index: u32| Some(&self.segments[index as usize]);
        let head = self.heads.get(&hash).and_then(|index| at(*index));
        std::iter::successors(head, move |segment| segment.before.checked_sub(1).and_then(at))
    }

    /// Returns the operations that are not known to be confirmed, by their hashes.
    pub fn tracked(&self) -> impl Iterator<Item = (u64, &Tracked)> {
        self.tracked.iter().map(|(operation, tracked)| (*operation, tracked))
    }

    /// Returns whether an operation was first opened among these lines.
    pub fn is_born_here(&self, tracked: &Tracked) -> bool {
        tracked.payload.is_some() && tracked.opened_at >= self.from
    }

    /// Returns the operations from before that became confirmed.
    pub fn decided(&self) -> &[u64] {
        &self.decided
    }

    /// Returns the hash of the key and the offset of lines whose claim is not known.
    pub fn strays(&self) -> &[(u64, u64)] {
        &self.strays
    }

    /// Returns the offsets of the newest lines that confirm an operation of a partner, oldest first.
    pub fn controls(&self, partner: u64) -> impl Iterator<Item = u64> {
        self.controls.get(&partner).into_iter().flatten().map(|(_, at)| *at)
    }

    /// Returns the same for every partner, each with its hash.
    pub fn all_controls(&self) -> impl Iterator<Item = (u64, u64)> {
        self.controls.iter().flat_map(|(partner, lines)| lines.iter().map(|(_, at)| (*partner, *at)))
    }

    /// Returns all segments.
    pub fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// Returns where the tail begins.
    pub fn from(&self) -> u64 {
        self.from
    }

    /// Returns the highest number on any line.
    pub fn newest_n(&self) -> u64 {
        self.newest_n
    }

    /// Returns the number of the newest claim.
    pub fn newest_claim(&self) -> u64 {
        self.newest_claim
    }

    /// Returns the offset and the length of the last line; `None` where there is none.
    pub fn last(&self) -> Option<(u64, u32)> {
        self.last
    }

    /// Takes the payload's hash of an operation that was opened before.
    pub fn learn(&mut self, operation: u64, payload: u64) {
        if let Some(tracked) = self.tracked.get_mut(&operation) {
            tracked.payload = Some(payload);
        }
    }

    /// Forgets what runs cover from now on. What is in the making is still known.
    pub fn cover(&mut self, to: u64) {
        self.from = to;
        self.segments = Vec::new();
        self.heads = Table::default();
        self.controls = Table::default();
        (self.decided, self.strays) = (Vec::new(), Vec::new());
        self.interrupt();
        self.tracked.retain(|_, tracked| !tracked.is_decided && tracked.payload.is_some());
        for tracked in self.tracked.values_mut() {
            tracked.is_new = false;
        }
    }
}
