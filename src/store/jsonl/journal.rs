//! The journal: one append-only file, read on from where it was left, mended where a writer died.

use super::disk::{Disk, read_range, write_all};
use super::operations::{Operations, Span};
use super::place::{Place, failed, is_full};
use super::scan::{Bad, Next, Piece, Position, scan};
use super::seen::Record;
use crate::engine::facts::History;
use crate::engine::moment::Timestamp;
use crate::store::format::{self, FirstLine, Header, LINE_MAX, SET_ASIDE_MAX, SetAside};
use crate::store::{StoreError, Warning};
use std::sync::Arc;

/// How much disk is kept beyond the end, in bytes: about 4,000 outcomes without bodies.
///
/// Source: the ledger's reference, section 4.7.
const RESERVE: u64 = 2 << 20;
/// How much more is taken at once, so that not every claim has to.
const RESERVE_STEP: u64 = 256 << 10;
/// How many damaged bytes are mended without asking: no crash leaves more.
const MEND_MAX: u64 = 1 << 20;
/// A file that begins so, is shorter than [`HEADER_MAX`] and has no line break is a header whose writer died.
const HEADER_START: &[u8] = b"{\"t\":\"ledger\",\"v\":";
const HEADER_MAX: u64 = 512;
/// The longest first line that is looked at, in bytes: newer versions may say more.
const HEADER_LINE_MAX: u64 = 4_096;

/// A journal that was read up to some point.
#[derive(Debug)]
pub struct Journal {
    place: Place,
    disk: Arc<dyn Disk>,
    header: Header,
    at: Position,
    /// What is known to be durable: by lines, by this machine's record, by our own syncs.
    durable: u64,
    operations: Operations,
    fault: Option<Fault>,
    /// The offset before which a person has accepted what is wrong.
    accepted: u64,
}

/// Why nothing may be claimed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Fault {
    what: &'static str,
    line: u64,
    byte: u64,
}

/// What reading on found besides lines.
#[derive(Debug, Default)]
pub struct Damage {
    bad: Vec<Bad>,
    /// The bytes after the last line break.
    torn: u64,
    /// There is so much of it that reading ended.
    gave_up: bool,
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
    /// Opens a journal that has a header.
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
                return Err(StoreError::NewerFormat { path: path(), found, known: format::VERSION });
            }
            FirstLine::Foreign => return Err(StoreError::NotALedger { path: path() }),
        };
        let at = Position { end: end as u64 + 1, lines: 1 };
        let (durable, accepted, operations, fault) = (0, 0, Operations::default(), None);
        Ok(Journal { place: place.clone(), disk, header, at, durable, operations, fault, accepted })
    }

    /// Returns whether a file holds nothing yet: no byte, or a header whose writer died.
    pub fn is_blank(place: &Place, disk: &dyn Disk) -> Result<bool, StoreError> {
        let len = stat(place, disk)?;
        if len == 0 || len >= HEADER_MAX {
            return Ok(len == 0);
        }
        let bytes = read(place, disk, 0, len)?;
        let begun = bytes.starts_with(HEADER_START) || (len > 5 && HEADER_START.starts_with(&bytes));
        Ok(begun && !bytes.contains(&b'\n'))
    }

    /// Makes a blank file a ledger. The lock must be held, and the folder durable.
    pub fn begin(place: &Place, disk: &dyn Disk, header: &Header, now: Timestamp) -> Result<(), StoreError> {
        let line = format::header_line(header, now);
        let written = disk.truncate(0).and_then(|()| write_all(disk, &line, 0));
        written.map_err(|error| failed("write", place.ledger(), error))
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
        let Journal { disk, at, durable, operations, fault, accepted, .. } = self;
        let mut damage = Damage::default();
        let scanned = scan(&**disk, *at, len, &mut |piece| match piece {
            Piece::Bad(_) if reading == Reading::Unlocked => Next::Stop,
            Piece::Bad(bad) => damage.take(bad, fault),
            Piece::Line { offset, line, text, envelope } => {
                let span = Span { offset, len: text.len().min(LINE_MAX) as u32, line };
                match envelope.durable > offset {
                    true => fault_at(fault, "bytes before this line are missing", line, offset),
                    false => *durable = (*durable).max(envelope.durable),
                }
                if let Err(what) = operations.take(span, text, envelope) {
                    fault_at(fault, what, line, offset);
                }
                if envelope.t == "note" && format::note(text).is_some_and(|note| note.what == "accepted") {
                    // A person has accepted what is wrong before, and what that left in doubt was written down.
                    *accepted = offset;
                    *fault = None;
                }
                Next::On
            }
        });
        self.at = scanned.map_err(|error| failed("read", self.place.ledger(), error))?;
        if reading == Reading::Locked && !damage.gave_up {
            damage.torn = len.saturating_sub(self.at.end);
        }
        for bad in damage.bad.iter().filter(|bad| (self.accepted..self.durable).contains(&bad.from)) {
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
        let bad: Vec<&Bad> = damage.bad.iter().filter(|bad| bad.from >= self.durable).collect();
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
            // Half a line would be cut by the next process; cut now, it cannot be taken for one.
            if stat(&self.place, &*self.disk).is_ok_and(|len| len > self.at.end) {
                drop(self.disk.truncate(self.at.end));
            }
            return Err(failed("write to", self.place.ledger(), error));
        }
        let text = &line[..line.len() - 1];
        let span = Span { offset: self.at.end, len: text.len() as u32, line: self.at.lines + 1 };
        let envelope = format::envelope(text).expect("it was sealed by us");
        if let Err(what) = self.operations.take(span, text, envelope) {
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
        let stat = self.disk.stat().map_err(|error| failed("look at", self.place.ledger(), error))?;
        if stat.allocated >= self.at.end + RESERVE {
            return Ok(true);
        }
        let mut taken = self.disk.reserve(self.at.end, RESERVE + RESERVE_STEP);
        if taken.as_ref().is_err_and(is_full) {
            taken = self.disk.reserve(self.at.end, RESERVE);
        }
        match taken {
            Ok(()) => Ok(true),
            Err(error) if is_full(&error) => Err(failed("keep room in", self.place.ledger(), error)),
            Err(_) => Ok(false),
        }
    }

    /// Reads the facts of one operation.
    pub fn history(&self, row: usize) -> Result<History, StoreError> {
        self.operations.history(row, &*self.disk).map_err(|span| {
            self.damaged(Fault { what: "the line is not what was written", line: span.line, byte: span.offset })
        })
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
        let (found, same) = (self.operations.newest_n(), record.generation == self.header.generation);
        if record.generation > self.header.generation || record.n > found || (same && record.end > self.at.end) {
            return Err(StoreError::LostEnd { path: self.place.ledger().into(), found, recorded: record.n });
        }
        Ok(())
    }

    /// Notes that everything before `end` was synced.
    pub fn synced(&mut self, end: u64) {
        self.durable = self.durable.max(end);
    }

    /// Returns the offset up to which the file is known to be durable.
    pub fn durable(&self) -> u64 {
        self.durable
    }

    /// Returns the offset after the last line.
    pub fn end(&self) -> u64 {
        self.at.end
    }

    /// Returns the operations that were read.
    pub fn operations(&self) -> &Operations {
        &self.operations
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

impl Damage {
    /// Returns whether everything was a line.
    pub fn is_none(&self) -> bool {
        self.bad.is_empty() && self.torn == 0 && !self.gave_up
    }

    fn take(&mut self, bad: Bad, fault: &mut Option<Fault>) -> Next {
        self.bad.push(bad);
        let bytes: u64 = self.bad.iter().map(|bad| bad.to - bad.from).sum();
        if bytes <= MEND_MAX && self.bad.len() <= 4_096 {
            return Next::On;
        }
        fault_at(fault, "more of the file is damaged than a crash explains", bad.line, bad.from);
        self.bad.pop();
        self.gave_up = true;
        Next::Stop
    }

    /// Returns what a person should know about the damage, `bad` being the part that is worth telling.
    pub fn warnings<'a>(&self, journal: &Journal, bad: impl Iterator<Item = &'a Bad>) -> Vec<Warning> {
        let path = || journal.place.ledger().to_path_buf();
        let mut warnings: Vec<Warning> = bad
            .map(|bad| Warning::BadLine { path: path(), line: bad.line, byte: bad.from, len: bad.to - bad.from })
            .collect();
        if self.torn > 0 {
            warnings.push(Warning::TornTail { path: path(), byte: journal.at.end, len: self.torn });
        }
        warnings
    }

    /// Returns the bytes that are no line.
    pub fn bad(&self) -> &[Bad] {
        &self.bad
    }
}

/// Keeps the first fault.
fn fault_at(fault: &mut Option<Fault>, what: &'static str, line: u64, byte: u64) {
    fault.get_or_insert(Fault { what, line, byte });
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
