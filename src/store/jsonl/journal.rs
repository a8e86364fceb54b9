//! The journal: one append-only file, read on from where it was left, mended where a writer died.

use super::damage::{Damage, Fault, fault_at};
use super::disk::{Disk, read_range, write_all};
use super::index::{Attached, Index, Keyed, Line};
use super::operations::{Operations, Span};
use super::place::{Place, failed};
use super::room;
use super::scan::{Bad, Next, Piece, Position, scan};
use super::seen::Record;
use crate::engine::moment::Timestamp;
use crate::store::format::{self, FirstLine, Header, LINE_MAX, SET_ASIDE_MAX, SetAside};
use crate::store::{StoreError, Warning};
use std::sync::Arc;

/// A file that begins so, is shorter than [`HEADER_MAX`] and has no line break is a header whose writer died.
const HEADER_START: &[u8] = b"{\"t\":\"ledger\",\"v\":";
const HEADER_MAX: u64 = 512;
/// The longest first line that is looked at, in bytes: newer versions may say more.
const HEADER_LINE_MAX: u64 = 4_096;
/// How much is read at once to count lines, in bytes.
const COUNT_STEP: usize = 1 << 20;

/// A journal that was read up to some point.
#[derive(Debug)]
pub struct Journal {
    place: Place,
    disk: Arc<dyn Disk>,
    header: Header,
    keys: Keyed,
    /// Where the first line behind the header begins.
    start: Position,
    at: Position,
    /// What is known to be durable: by lines, by this machine's record, by our own syncs.
    durable: u64,
    /// What this value has synced itself.
    synced: u64,
    index: Index,
    fault: Option<Fault>,
    /// How much disk the file has, as far as was seen since the lock was taken.
    allocated: u64,
}

/// Whether a reader may see a line that is being written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reading {
    /// It may: what is no line is left for later.
    Unlocked,
    /// It may not: the lock is held.
    Locked,
}

impl Journal {
    /// Opens a journal that has a header, to read all of it.
    ///
    /// # Errors
    /// [`StoreError::NotALedger`] and [`StoreError::NewerFormat`]; the file is not altered.
    pub fn load(place: &Place, disk: Arc<dyn Disk>) -> Result<Journal, StoreError> {
        let path = || place.ledger().to_path_buf();
        let len = stat(place, &*disk)?.min(HEADER_LINE_MAX);
        let start = read(place, &*disk, 0, len)?;
        let end = memchr::memchr(b'\n', &start).ok_or_else(|| StoreError::NotALedger { path: path() })?;
        let header = match format::first_line(&start[..end]) {
            FirstLine::Ledger(header) => header,
            FirstLine::Newer(found) => {
                return Err(StoreError::NewerFormat { path: path(), found, known: format::FORGETTING });
            }
            FirstLine::Foreign => return Err(StoreError::NotALedger { path: path() }),
        };
        let at = Position { end: end as u64 + 1, lines: 1 };
        let (keys, index) = (Keyed::new(&header.id), Index::empty(&header, at, false));
        let (start, durable, synced, fault, allocated) = (at, 0, 0, None, 0);
        Ok(Journal { place: place.clone(), disk, header, keys, start, at, durable, synced, index, fault, allocated })
    }

    /// Makes use of the index, where there is a good one: only what it does not cover will be read. Returns why one that
    /// is there cannot be used.
    ///
    /// What it covers was durable and without a fault when it was made.
    pub fn attach(&mut self) -> Result<Option<&'static str>, StoreError> {
        let len = stat(&self.place, &*self.disk)?;
        let attached = Index::attach(&self.place.index(), &self.header, self.start, &*self.disk, len);
        let Attached { index, at, dropped } = attached;
        (self.index, self.at) = (index, at);
        if at.end > self.start.end {
            self.durable = self.durable.max(at.end);
        }
        Ok(dropped)
    }

    /// Drops the index, so that the whole file is read.
    pub fn drop_index(&mut self) {
        self.index = Index::empty(&self.header, self.start, true);
        (self.at, self.fault) = (self.start, None);
    }

    /// Returns whether a file holds nothing yet: no byte, or a header whose writer died. A power cut may leave its length
    /// without its bytes.
    pub fn is_blank(place: &Place, disk: &dyn Disk) -> Result<bool, StoreError> {
        let len = stat(place, disk)?;
        if len == 0 || len >= HEADER_MAX {
            return Ok(len == 0);
        }
        let bytes = read(place, disk, 0, len)?;
        let begun = bytes.starts_with(HEADER_START) || (len > 5 && HEADER_START.starts_with(&bytes));
        Ok(begun && !bytes.contains(&b'\n') || bytes.iter().all(|byte| *byte == 0))
    }

    /// Makes a blank file a ledger. The lock must be held, and the folder durable.
    ///
    /// The header is synced while nobody can write behind it: a power cut that left lines without it would leave a file
    /// that is no ledger.
    pub fn begin(place: &Place, disk: &dyn Disk, header: &Header, now: Timestamp) -> Result<(), StoreError> {
        let line = format::header_line(header, now);
        let written = disk.truncate(0).and_then(|()| write_all(disk, &line, 0));
        written.map_err(|error| failed("write", place.ledger(), error))?;
        disk.sync().map_err(|source| {
            // Blank again: whoever comes next writes it anew, so that his sync is not the second one of these bytes.
            drop(disk.truncate(0));
            StoreError::Unsynced { path: place.ledger().into(), source }
        })
    }

    /// Reads the lines that were written since, and returns what is no line.
    ///
    /// # Errors
    /// [`StoreError::Replaced`] where the file is shorter than it was.
    pub fn read_on(&mut self, reading: Reading) -> Result<Damage, StoreError> {
        let len = stat(&self.place, &*self.disk)?;
        if len < self.at.end {
            return Err(StoreError::Replaced { path: self.place.ledger().into() });
        }
        let Journal { disk, at, durable, index, fault, .. } = self;
        let mut damage = Damage::default();
        let scanned = scan(&**disk, *at, len, &mut |piece| match piece {
            Piece::Bad(_) if reading == Reading::Unlocked => Next::Stop,
            Piece::Bad(bad) => {
                index.tail.interrupt();
                damage.take(bad, fault)
            }
            Piece::Line { offset, line, text, envelope } => {
                match envelope.durable > offset {
                    true => fault_at(fault, "bytes before this line are missing", line, offset),
                    false => *durable = (*durable).max(envelope.durable),
                }
                if let Err(what) = index.take(Line { at: offset, text, envelope }, &**disk) {
                    index.tail.interrupt();
                    fault_at(fault, what, line, offset);
                }
                if envelope.t == "note" && format::note(text).is_some_and(|note| note.what == "accepted") {
                    // A person has accepted what is wrong before, and what that left in doubt was written down. What
                    // was no line is blank since: what is none now was damaged later.
                    *fault = None;
                }
                Next::On
            }
        });
        self.at = scanned.map_err(|error| failed("read", self.place.ledger(), error))?;
        if reading == Reading::Locked && !damage.gave_up {
            damage.torn = len.saturating_sub(self.at.end);
        }
        for bad in damage.bad().iter().filter(|bad| bad.from < self.durable) {
            fault_at(&mut self.fault, "a line that was acknowledged cannot be read any more", bad.line, bad.from);
        }
        Ok(damage)
    }

    /// Sets damage aside: copies it into notes, cuts a torn tail, blanks what is no line. The lock must be held.
    ///
    /// What was acknowledged is left as it is.
    ///
    /// # Errors
    /// [`StoreError::Damaged`] where reading ended before the end: nothing can be appended then.
    pub fn mend(&mut self, damage: &Damage, now: Timestamp) -> Result<Vec<Warning>, StoreError> {
        if damage.gave_up {
            self.check()?;
        }
        let mut notes = Vec::new();
        let bad: Vec<&Bad> = damage.bad().iter().filter(|bad| bad.from >= self.durable).collect();
        for bad in &bad {
            let bytes = read(&self.place, &*self.disk, bad.from, bad.to)?;
            for (index, part) in bytes.chunks(SET_ASIDE_MAX).enumerate() {
                let (offset, len) = (bad.from + (index * SET_ASIDE_MAX) as u64, part.len() as u64);
                let aside = SetAside { what: "bad", offset, len, bytes: part };
                notes.extend(format::note_line(&aside, now, self.durable));
            }
        }
        if damage.torn > 0 {
            let kept = damage.torn.min(SET_ASIDE_MAX as u64);
            let bytes = read(&self.place, &*self.disk, self.at.end, self.at.end + kept)?;
            let aside = SetAside { what: "torn", offset: self.at.end, len: damage.torn, bytes: &bytes };
            notes.extend(format::note_line(&aside, now, self.durable));
        }
        let warnings = damage.warnings(self, bad.iter().copied());
        let (end, notes_len) = (self.at.end, notes.len() as u64);
        self.allocated = 0;
        let mended = write_all(&*self.disk, &notes, end)
            // A cut gives the reserve back to the file system, so it is made only where a note does not cover the tail.
            .and_then(|()| if damage.torn > notes_len { self.disk.truncate(end + notes_len) } else { Ok(()) })
            .and_then(|()| bad.iter().try_for_each(|bad| blank(&*self.disk, bad)));
        mended.map_err(|error| failed("mend", self.place.ledger(), error))?;
        self.read_on(Reading::Locked)?;
        Ok(warnings)
    }

    /// Appends one line, as [`format`] makes it. The lock must be held and everything read. Returns its end.
    pub fn append(&mut self, line: &[u8]) -> Result<u64, StoreError> {
        if let Err(error) = write_all(&*self.disk, line, self.at.end) {
            // A cut gives the reserve back.
            self.allocated = 0;
            // Half a line would be cut by the next process; cut now, it cannot be taken for one.
            if stat(&self.place, &*self.disk).is_ok_and(|len| len > self.at.end) {
                drop(self.disk.truncate(self.at.end));
            }
            return Err(failed("write to", self.place.ledger(), error));
        }
        let text = &line[..line.len() - 1];
        let envelope = format::envelope(text).expect("it was sealed by us");
        if let Err(what) = self.index.take(Line { at: self.at.end, text, envelope }, &*self.disk) {
            unreachable!("our own line contradicts what was read under the lock: {what}");
        }
        self.at = Position { end: self.at.end + line.len() as u64, lines: self.at.lines + 1 };
        Ok(self.at.end)
    }

    /// Keeps disk beyond the end, so that outcomes find room on a full disk. Returns false where that cannot be done.
    ///
    /// # Errors
    /// [`StoreError::NoSpace`]: nothing may be claimed.
    pub fn reserve(&mut self) -> Result<bool, StoreError> {
        let (disk, end, path) = (&*self.disk, self.at.end, self.place.ledger());
        room::reserve(disk, end, path, &mut self.allocated)
    }

    /// Notes that others may have written before, and cut the file.
    pub fn begin_batch(&mut self) {
        self.allocated = 0;
    }

    /// Reads the whole file, as far as it was read before, and returns all operations.
    pub fn all(&self) -> Result<Operations, StoreError> {
        let mut operations = Operations::default();
        let scanned = scan(&*self.disk, self.start, self.at.end, &mut |piece| {
            if let Piece::Line { offset, line, text, envelope } = piece {
                let span = Span { offset, len: text.len().min(LINE_MAX) as u32, line };
                // What contradicts is left out, and was told when it was read first.
                let _ = operations.take(span, text, envelope);
            }
            Next::On
        });
        scanned.map_err(|error| failed("read", self.place.ledger(), error))?;
        Ok(operations)
    }

    /// Returns the error about the line at `byte`; its number is counted, which takes a while.
    pub fn bad_line(&self, byte: u64, what: &'static str) -> StoreError {
        let mut line = 1;
        for from in (0..byte).step_by(COUNT_STEP) {
            let part = read_range(&*self.disk, from, byte.min(from + COUNT_STEP as u64)).unwrap_or_default();
            line += memchr::memchr_iter(b'\n', &part).count() as u64;
        }
        self.damaged(Fault { what, line, byte })
    }

    /// Refuses a journal that lost acknowledged lines.
    pub fn check(&self) -> Result<(), StoreError> {
        self.fault.map_or(Ok(()), |fault| Err(self.damaged(fault)))
    }

    /// Takes over what this machine knows to be durable; before the damage is judged.
    pub fn trust(&mut self, record: &Record) {
        if record.generation == self.header.generation {
            self.durable = self.durable.max(record.end);
        }
    }

    /// Refuses a journal that ends before what this machine has written.
    pub fn check_end(&self, record: &Record) -> Result<(), StoreError> {
        let (found, same) = (self.newest_n(), record.generation == self.header.generation);
        if record.generation > self.header.generation || record.n > found || (same && record.end > self.at.end) {
            return Err(StoreError::LostEnd { path: self.place.ledger().into(), found, recorded: record.n });
        }
        Ok(())
    }

    /// Notes that everything before `end` was synced by us.
    pub fn synced(&mut self, end: u64) {
        self.durable = self.durable.max(end);
        self.synced = self.synced.max(end);
    }

    /// Returns the offset up to which this value has synced the file itself.
    pub fn own_synced(&self) -> u64 {
        self.synced
    }

    /// Returns whether so much is behind the index that every process would read it again.
    pub fn has_long_tail(&self, longest: u64) -> bool {
        self.fault.is_none() && self.at.end - self.index.tail.from() > longest
    }

    /// Returns the offset up to which the file is known to be durable.
    pub fn durable(&self) -> u64 {
        self.durable
    }

    /// Returns the offset after the last line.
    pub fn end(&self) -> u64 {
        self.at.end
    }

    /// Returns the highest claim number on any line; 0 without one.
    pub fn newest_n(&self) -> u64 {
        self.index.tail.newest_n()
    }

    /// Returns where lines are to be found.
    pub fn index(&self) -> &Index {
        &self.index
    }

    /// Returns the same, to be brought up to date.
    pub fn index_mut(&mut self) -> &mut Index {
        &mut self.index
    }

    /// Returns whether there is nothing but the header.
    pub fn is_empty(&self) -> bool {
        self.at.end == self.start.end
    }

    /// Returns where the first line behind the header begins.
    pub fn start(&self) -> Position {
        self.start
    }

    /// Returns how far the file was read.
    pub fn at(&self) -> Position {
        self.at
    }

    /// Returns the hashes of this ledger.
    pub fn keys(&self) -> Keyed {
        self.keys
    }

    /// Returns where the ledger lies.
    pub fn place(&self) -> &Place {
        &self.place
    }

    /// Returns the header.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Returns the file.
    pub fn disk(&self) -> &Arc<dyn Disk> {
        &self.disk
    }

    fn damaged(&self, fault: Fault) -> StoreError {
        let Fault { what, line, byte } = fault;
        StoreError::Damaged { path: self.place.ledger().into(), what, line, byte }
    }
}

fn blank(disk: &dyn Disk, bad: &Bad) -> std::io::Result<()> {
    write_all(disk, &vec![b' '; (bad.to - bad.from) as usize], bad.from)
}

fn stat(place: &Place, disk: &dyn Disk) -> Result<u64, StoreError> {
    disk.stat().map(|stat| stat.len).map_err(|error| failed("look at", place.ledger(), error))
}

fn read(place: &Place, disk: &dyn Disk, from: u64, to: u64) -> Result<Vec<u8>, StoreError> {
    read_range(disk, from, to).map_err(|error| failed("read", place.ledger(), error))
}
