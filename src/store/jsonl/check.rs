//! Reads a whole ledger and says what is wrong with it, without altering anything.

use super::disk::{Disk, read_range};
use super::finding::{Finding, Kind, Verified};
use super::journal::Journal;
use super::locks::Locks;
use super::operations::{NOT_UNDERSTOOD, Operations, Span, is_known};
use super::place::{Place, failed};
use super::scan::{Bad, Next, Piece, Position, scan};
use super::seen::{Record, Seen};
use super::traces::Traces;
use super::{Options, blobs};
use crate::engine::facts::{Fact, StoredBody};
use crate::engine::operation::IdempotencyKey;
use crate::store::StoreError;
use crate::store::format::{self, Envelope, Header, START};
use memchr::memmem;
use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// How often, and how long, writers are waited for before the end of the file is judged: 10 s in all.
const TRIES: u32 = 10_000;
const TRY_WAIT: Duration = Duration::from_millis(1);
/// How much of damaged bytes is looked at at once.
const PART: u64 = 1 << 20;
/// How many findings are kept. A file with more is no ledger any more.
const FINDINGS_MAX: usize = 100_000;

/// Checks a whole ledger: every checksum, the order and the numbers of its claims, the bodies beside it, this
/// machine's memory of it. Nothing is altered, and others may write meanwhile.
///
/// # Errors
/// What [`super::Reader::open`] refuses. What is wrong inside the file is a finding.
pub fn verify(path: &Path, options: &Options) -> Result<Verified, StoreError> {
    let place = Place::find(path)?;
    let disk: Arc<dyn Disk> = Arc::new(place.open_to_read()?);
    let locks = Locks::open_to_read(&place)?;
    if Journal::is_blank(&place, &*disk)? {
        let mut check = Check::new(&place, None);
        check.findings.extend(super::sick::sick(&place)?);
        return Ok(check.verified(0));
    }
    let mut check = Check::begin(&place, disk, options)?;
    // What is there is read while others write; only the end needs them to be quiet.
    check.read()?;
    if let Some(locks) = &locks {
        let mut tries = 0;
        let _quiet = loop {
            match locks.try_read()? {
                Some(quiet) => break quiet,
                None if tries == TRIES => {
                    return Err(StoreError::Locked { path: locks.path().clone(), waited: TRIES * TRY_WAIT });
                }
                None => std::thread::sleep(TRY_WAIT),
            }
            tries += 1;
        };
        check.read()?;
        return check.conclude();
    }
    check.conclude()
}

/// A check of a ledger, as far as it came.
#[derive(Debug)]
pub struct Check {
    place: Place,
    file: Option<(Arc<dyn Disk>, Header)>,
    /// What this machine remembers.
    pub record: Option<Record>,
    /// What the file holds.
    pub operations: Operations,
    /// What is wrong.
    pub findings: Vec<Finding>,
    /// How far it was read.
    pub at: Position,
    /// The offset before which everything is known to have been durable.
    pub durable: u64,
    /// The highest number that is accounted for, and where the line ends that says so.
    newest: (u64, u64),
    bad: Vec<Bad>,
    /// Where unacknowledged bytes were that recovery set aside.
    set_aside: Vec<u64>,
    /// Gaps with the offsets between which their lines were.
    gaps: Vec<(Finding, u64)>,
    /// Lines of claims that are not there.
    pub strays: Vec<(u64, IdempotencyKey)>,
    bodies: BTreeMap<Box<str>, (u64, Finding)>,
    /// A line was there twice or contradicts others: from here on each is compared.
    merged: bool,
}

impl Check {
    fn new(place: &Place, file: Option<(Arc<dyn Disk>, Header)>) -> Check {
        Check {
            place: place.clone(),
            file,
            record: None,
            operations: Operations::default(),
            findings: Vec::new(),
            at: Position::default(),
            durable: 0,
            newest: (0, 0),
            bad: Vec::new(),
            set_aside: Vec::new(),
            gaps: Vec::new(),
            strays: Vec::new(),
            bodies: BTreeMap::new(),
            merged: false,
        }
    }

    /// Begins a check behind the header, which must be good.
    pub fn begin(place: &Place, disk: Arc<dyn Disk>, options: &Options) -> Result<Check, StoreError> {
        let journal = Journal::load(place, disk.clone())?;
        let header = journal.header().clone();
        // Before the file is read: what is written meanwhile is no lost end.
        let record = options.state.as_ref().and_then(|state| Seen::look(state, &header.id));
        let durable = record.filter(|record| record.generation == header.generation).map_or(0, |record| record.end);
        let at = Position { end: journal.end(), lines: 1 };
        Ok(Check { record, durable, at, newest: (0, at.end), ..Check::new(place, Some((disk, header))) })
    }

    /// Returns the header; `None` for a blank file.
    pub fn header(&self) -> Option<&Header> {
        self.file.as_ref().map(|(_, header)| header)
    }

    /// Returns the offset behind the newest claim's first line.
    pub fn claims_end(&self) -> u64 {
        self.newest.1
    }

    /// Reads to the end of the file.
    pub fn read(&mut self) -> Result<(), StoreError> {
        let Some((disk, _)) = self.file.clone() else { return Ok(()) };
        let failed = |error| failed("read", self.place.ledger(), error);
        let len = disk.stat().map_err(failed)?.len;
        let mut broken = None;
        let scanned = scan(&*disk, self.at, len, &mut |piece| {
            if let Err(error) = self.piece(piece) {
                broken = Some(error);
            }
            match broken.is_some() || self.findings.len() > FINDINGS_MAX {
                true => Next::Stop,
                false => Next::On,
            }
        });
        self.at = match broken {
            Some(error) => Err(error),
            None => scanned,
        }
        .map_err(|error| super::place::failed("read", self.place.ledger(), error))?;
        Ok(())
    }

    fn piece(&mut self, piece: Piece<'_>) -> io::Result<()> {
        match piece {
            Piece::Bad(bad) => {
                self.bad.push(bad);
                Ok(())
            }
            Piece::Line { offset, line, text, envelope } => {
                self.line(Span { offset, len: text.len() as u32, line }, text, envelope)
            }
        }
    }

    fn line(&mut self, span: Span, text: &[u8], envelope: Envelope<'_>) -> io::Result<()> {
        if envelope.durable > span.offset {
            self.found(Kind::Missing, span, envelope.n, None);
        } else {
            self.durable = self.durable.max(envelope.durable);
        }
        let wrong = match self.wrong(span, text, envelope)? {
            Some(kind) => Some(kind),
            None => self.operations.take(span, text, envelope).err().map(|what| match what {
                NOT_UNDERSTOOD => Kind::Unreadable,
                what => Kind::Contradiction(what),
            }),
        };
        if let Some(kind) = wrong {
            let key = format::whose(text).map(|(key, _)| key);
            self.found(kind, span, envelope.n, key);
            self.merged |= matches!(kind, Kind::Repeated | Kind::Contradiction(_));
            return Ok(());
        }
        match (envelope.t, envelope.n) {
            ("opened" | "reopened" | "resolved", Some(n)) => self.claims(n, n, span),
            ("forgotten", Some(n)) => {
                let (from, _) = format::forgotten(text).expect("it was taken in");
                self.claims(from, n, span);
            }
            ("note", _) => self.note(span, text, envelope.n),
            (_, Some(n)) if self.operations.of_claim(n).is_none() => {
                self.strays.extend(format::whose(text).map(|(key, _)| (n, key)));
            }
            _ => {}
        }
        Ok(())
    }

    /// Returns what is wrong with a line whose checksum is right and which the operations alone would take in.
    fn wrong(&mut self, span: Span, text: &[u8], envelope: Envelope<'_>) -> io::Result<Option<Kind>> {
        let known = envelope.n.and_then(|n| self.operations.of_claim(n));
        if envelope.t == "ledger" {
            let first = Span { offset: 0, len: span.len, line: 1 };
            return Ok(Some(match self.is_same(first, text)? {
                true => Kind::Repeated,
                false => Kind::Contradiction("another ledger begins here"),
            }));
        }
        if let (true, Some(row)) = (self.merged || self.operations.is_claimed(envelope), known) {
            let spans = self.operations.row(row).spans.clone();
            for earlier in spans.into_iter().filter(|earlier| earlier.len == span.len) {
                if self.is_same(earlier, text)? {
                    return Ok(Some(Kind::Repeated));
                }
            }
        }
        // A line whose checksum is right is what was written: it is parsed only where something depends on it.
        let about = known.and_then(|row| format::is_about(text, &self.operations.row(row).key));
        if is_known(envelope.t) {
            let ends = matches!(envelope.t, "settled" | "resolved");
            let begins = matches!(envelope.t, "opened" | "reopened" | "resolved");
            match about {
                _ if ends && format::verdict(text).is_none() => return Ok(Some(Kind::Unreadable)),
                None if known.is_some() => return Ok(Some(Kind::Unreadable)),
                Some(false) if !begins => {
                    return Ok(Some(Kind::Contradiction("the line names another key than its claim: two were merged")));
                }
                _ => {}
            }
            if blobs::are_named(text) {
                let Some((key, recorded)) = format::fact(text) else { return Ok(Some(Kind::Unreadable)) };
                self.body(span, &key, recorded.n, &recorded.fact);
            }
        }
        Ok(None)
    }

    fn is_same(&self, earlier: Span, text: &[u8]) -> io::Result<bool> {
        let (disk, _) = self.file.as_ref().expect("a line was read from it");
        read_range(&**disk, earlier.offset, earlier.offset + u64::from(earlier.len)).map(|bytes| bytes == text)
    }

    /// Takes the claims `from` to `to`, of which a line tells.
    fn claims(&mut self, from: u64, to: u64, span: Span) {
        let (newest, behind) = self.newest;
        if from > newest + 1 {
            let kind = Kind::Gap { to: from - 1 };
            let finding = Finding { kind, line: span.line, byte: span.offset, len: 0, n: Some(newest + 1), key: None };
            self.gaps.push((finding, behind));
        }
        self.newest = (to, span.offset + u64::from(span.len));
    }

    fn note(&mut self, span: Span, text: &[u8], n: Option<u64>) {
        match format::note(text) {
            Some(note) if note.what == "accepted" => {
                // What was wrong before was accepted, and what it left in doubt was written down. What was no line is
                // blank since: what is none now was damaged later, and the gap in the numbers may be its own.
                self.findings.clear();
                if self.bad.is_empty() {
                    self.gaps.clear();
                    self.strays.clear();
                }
                self.newest = (self.newest.0.max(n.unwrap_or(0)), span.offset);
            }
            Some(note) if matches!(&*note.what, "bad" | "torn") => self.set_aside.push(note.offset),
            _ => {}
        }
    }

    fn body(&mut self, span: Span, key: &IdempotencyKey, n: u64, fact: &Fact) {
        let body = match fact {
            Fact::Opened(opened) => Some(&opened.body),
            Fact::Settled(settled) => settled.response.as_ref().and_then(|response| response.body.as_ref()),
            _ => None,
        };
        if let Some(StoredBody::Blob { sha, len }) = body {
            let kind = Kind::BodyMissing;
            let (line, byte) = (span.line, span.offset);
            let finding = Finding { kind, line, byte, len: *len, n: Some(n), key: Some(key.clone()) };
            self.bodies.entry(sha.clone()).or_insert((*len, finding));
        }
    }

    fn found(&mut self, kind: Kind, span: Span, n: Option<u64>, key: Option<IdempotencyKey>) {
        let len = u64::from(span.len);
        self.findings.push(Finding { kind, line: span.line, byte: span.offset, len, n, key });
    }

    /// Judges what can be judged only at the end. Writers must be quiet.
    pub fn conclude(mut self) -> Result<Verified, StoreError> {
        let len = self.settle()?;
        self.check_bodies()?;
        Ok(self.verified(len))
    }

    /// Judges damage by what is known to have been durable. Returns the length of the file.
    pub fn settle(&mut self) -> Result<u64, StoreError> {
        let Some((disk, header)) = self.file.clone() else { return Ok(0) };
        let len = disk.stat().map_err(|error| failed("look at", self.place.ledger(), error))?.len;
        if len > self.at.end {
            self.bad.push(Bad { from: self.at.end, to: len, line: self.at.lines + 1 });
        }
        for bad in std::mem::take(&mut self.bad) {
            let kind = match (bad.from < self.durable, bad.to == len) {
                (true, _) => Kind::Rot,
                (false, true) => Kind::Torn,
                (false, false) => Kind::Unacknowledged,
            };
            let Traces { n, key, .. } = self.traces(&bad)?.into_iter().next().unwrap_or_default();
            self.findings.push(Finding { kind, line: bad.line, byte: bad.from, len: bad.to - bad.from, n, key });
        }
        for (gap, behind) in std::mem::take(&mut self.gaps) {
            if !self.set_aside.iter().any(|offset| (behind..gap.byte).contains(offset)) {
                self.findings.push(gap);
            }
        }
        let (newest, behind) = self.newest;
        let to = self.operations.newest_n();
        if to > newest && !self.set_aside.iter().any(|offset| *offset >= behind) {
            // A later line of a claim is there, the one that began it is not.
            let (kind, line, byte) = (Kind::Gap { to }, self.at.lines, self.at.end);
            self.findings.push(Finding { kind, line, byte, len: 0, n: Some(newest + 1), key: None });
        }
        if let Some(record) = self.record {
            let same = record.generation == header.generation;
            let newest = self.operations.newest_n();
            if record.generation > header.generation || record.n > newest || (same && record.end > self.at.end) {
                let (kind, line) = (Kind::LostEnd { recorded: record.n }, self.at.lines);
                self.findings.push(Finding { kind, line, byte: self.at.end, len: 0, n: Some(newest), key: None });
            }
        }
        self.findings.extend(super::sick::sick(&self.place)?);
        self.findings.sort_by_key(|finding| finding.byte);
        Ok(len)
    }

    /// Returns what can still be read in damaged bytes: nothing of it is sure.
    pub fn traces(&self, bad: &Bad) -> Result<Vec<Traces>, StoreError> {
        let Some((disk, _)) = &self.file else { return Ok(Vec::new()) };
        let mut traces = Vec::new();
        let mut at = bad.from;
        while at < bad.to {
            // A line that begins in this part may end in the next.
            let to = bad.to.min(at + PART + format::LINE_MAX as u64);
            let bytes = read_range(&**disk, at, to).map_err(|error| failed("read", self.place.ledger(), error))?;
            let begun = memmem::find_iter(&bytes, START).take_while(|&begin| (begin as u64) < PART);
            traces.extend(begun.map(|begin| Traces::read(&bytes[begin..])));
            at += PART;
        }
        Ok(traces)
    }

    fn check_bodies(&mut self) -> Result<(), StoreError> {
        for (sha, (len, finding)) in &self.bodies {
            let kind = match blobs::read(&self.place, sha, *len) {
                Ok(_) => continue,
                Err(StoreError::BlobDamaged { .. }) => Kind::BodyDamaged,
                Err(StoreError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => Kind::BodyMissing,
                Err(error) => return Err(error),
            };
            self.findings.push(Finding { kind, ..finding.clone() });
        }
        Ok(())
    }

    fn verified(self, bytes: u64) -> Verified {
        let verified = Verified {
            path: self.place.ledger().into(),
            bytes,
            lines: self.at.lines,
            operations: self.operations.len(),
            claims: self.operations.newest_n(),
            bodies: self.bodies.len(),
            durable: self.durable,
            findings: self.findings,
        };
        let operations = self.operations;
        // To give a million operations back takes a third of the time that all else takes. Nobody has to wait for that.
        drop(std::thread::Builder::new().spawn(move || drop(operations)));
        verified
    }
}
