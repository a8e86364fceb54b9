//! Compaction: what is decided and old keeps its key, its verdict and its payload's hash; bodies and answers go.
//!
//! The lines that stay are written into a new file, which takes the place of the old one. Every claim line stays, so
//! that no claim number is missing, and every line of an operation that is not decided. The old file is not altered: a
//! crash leaves it or the new one, and whoever has it open reads on in it until he looks at the path again.

mod slim;

use super::Options;
use super::core::twin;
use super::disk::{Disk, stat_of, write_all};
use super::journal::{Journal, Reading};
use super::locks::Locks;
use super::operations::Operations;
use super::place::{Place, failed, private, sync_folder};
use super::repair::append;
use super::scan::{Next, Piece, Position, scan};
use super::seen::{Record, Seen};
use super::{blobs, upkeep};
use crate::engine::entry::is_final;
use crate::engine::facts::Opened;
use crate::engine::moment::Timestamp;
use crate::engine::operation::{IdempotencyKey, PartnerName};
use crate::store::StoreError;
use crate::store::format::{self, Envelope, Header};
use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// How much is written at once, in bytes.
const CHUNK: usize = 1 << 20;
/// How much room must be left beyond what a compaction takes, in bytes: what claims keep for their outcomes.
const ROOM: u64 = 4 << 20;
/// How old a body beside the ledger must be to be removed: a process may have put it there and not written its line yet.
const BODY_AGE: Duration = Duration::from_secs(60);

/// Which operations lose their payloads and answers.
pub enum Which<'a> {
    /// Those that are decided and whose last line is older than what this says of them.
    Older(&'a dyn Fn(&Opened) -> Duration),
    /// One that is decided, at once.
    One(&'a PartnerName, &'a IdempotencyKey),
}

/// What a compaction did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Compacted {
    /// How many operations lost their payload and answer.
    pub operations: u64,
    /// How long the file was, in bytes.
    pub before: u64,
    /// How long it is.
    pub after: u64,
    /// How many bodies beside the ledger were removed.
    pub bodies: u64,
}

/// Compacts a ledger. Where nothing would change, nothing is written.
///
/// # Errors
/// Damage, loss and a failed sync, as a claim would refuse it; [`StoreError::NoSpace`] where the new file would not find
/// room, before it is begun; [`StoreError::Compacting`] while another process does the same, or where an operation that
/// was to be compacted is claimed again meanwhile; [`StoreError::Linked`] where the file has other names, which would
/// keep the old one.
pub fn compact(path: &Path, options: &Options, which: &Which<'_>) -> Result<Compacted, StoreError> {
    let place = Place::find(path)?;
    // A file that is no ledger gets nothing beside it.
    let looked_at: Arc<dyn Disk> = Arc::new(place.open_to_read()?);
    if Journal::is_blank(&place, &*looked_at)? {
        return Ok(Compacted::default());
    }
    Journal::load(&place, looked_at)?;
    let locks = Locks::open(&place)?;
    let Some(_compaction) = locks.try_compaction()? else {
        return Err(StoreError::Compacting { path: place.ledger().into() });
    };
    // Only now: another compaction may just have ended.
    let file = place.open_to_write()?;
    let marked = twin(&place, &file)?;
    locks.mark(&marked, &place)?;
    let mut journal = Journal::load(&place, Arc::new(file))?;
    let record = options.state.as_ref().and_then(|state| Seen::look(state, &journal.header().id));
    if let Some(record) = &record {
        journal.trust(record);
    }
    journal.read_on(Reading::Unlocked)?;
    {
        // What a dead writer left is mended, and what was lost refused, before anything is chosen.
        let _append = append(&locks)?;
        catch_up(&place, options, record.as_ref(), &mut journal)?;
    }
    let operations = journal.all()?;
    let chosen = choose(&journal, &operations, which, options.now)?;
    if chosen.is_empty() {
        let len = journal.end();
        return Ok(Compacted { before: len, after: len, ..Compacted::default() });
    }
    refuse_without_room(&place, &marked, journal.end())?;
    let draft = Draft::begin(&place, &marked, &journal, options.now)?;
    let (gone, marks) = (BTreeSet::new(), Vec::new());
    Compaction { place: &place, options, record, journal, operations, chosen, draft, gone, marks }.finish(&locks)
}

/// Reads what came meanwhile. Nobody appends any more.
///
/// # Errors
/// As a claim would refuse the ledger.
fn catch_up(
    place: &Place,
    options: &Options,
    record: Option<&Record>,
    journal: &mut Journal,
) -> Result<(), StoreError> {
    let there = fs::metadata(place.ledger()).map(|found| stat_of(&found).identity);
    let ours = journal.disk().stat().map(|found| found.identity);
    if there.ok().zip(ours.ok()).is_none_or(|(there, ours)| there != ours) {
        return Err(StoreError::Replaced { path: place.ledger().into() });
    }
    let damage = journal.read_on(Reading::Locked)?;
    if let Some(record) = record {
        journal.check_end(record)?;
    }
    if place.sick().exists() {
        return Err(StoreError::Sick { path: place.sick() });
    }
    journal.check()?;
    if !damage.is_none() {
        journal.mend(&damage, options.now)?;
    }
    Ok(())
}

/// Finds the operations that are slimmed, as rows.
fn choose(
    journal: &Journal,
    operations: &Operations,
    which: &Which<'_>,
    now: Timestamp,
) -> Result<BTreeSet<usize>, StoreError> {
    let rows: Vec<usize> = match which {
        Which::One(partner, key) => operations.find(partner, key).into_iter().collect(),
        Which::Older(_) => operations.newest_first(|_| true),
    };
    let mut chosen = BTreeSet::new();
    for row in rows {
        let history = operations
            .history(row, &**journal.disk())
            .map_err(|span| journal.bad_line(span.offset, "the line is not what was written"))?;
        let last = history.facts.last().map(|recorded| recorded.at).unwrap_or(now);
        let is_due = match which {
            Which::Older(keep) => last.after(keep(history.opened())) <= now,
            Which::One(..) => true,
        };
        if is_due && is_final(&history) && slim::is_worth_it(&history) {
            chosen.insert(row);
        }
    }
    Ok(chosen)
}

/// The new file never needs more than the old one.
fn refuse_without_room(place: &Place, file: &File, len: u64) -> Result<(), StoreError> {
    let found = file.metadata().map_err(|error| failed("look at", place.ledger(), error))?;
    if found.nlink() > 1 {
        return Err(StoreError::Linked { path: place.ledger().into() });
    }
    let stat = nix::sys::statvfs::statvfs(&place.folder())
        .map_err(|error| failed("look at the file system of", place.ledger(), error.into()))?;
    // Their width differs between systems.
    let free = (stat.blocks_available() as u64).saturating_mul(stat.fragment_size() as u64);
    match free < len + ROOM {
        true => Err(StoreError::NoSpace { path: place.draft() }),
        false => Ok(()),
    }
}

/// The new file.
struct Draft {
    file: File,
    buffer: Vec<u8>,
    /// Where the next line begins.
    end: u64,
    /// The offset up to which it is durable.
    durable: u64,
}

impl Draft {
    fn begin(place: &Place, old: &File, journal: &Journal, now: Timestamp) -> Result<Draft, StoreError> {
        let path = place.draft();
        let make = || -> std::io::Result<File> {
            let file = private(OpenOptions::new().read(true).write(true).create(true).truncate(true)).open(&path)?;
            let found = old.metadata()?;
            // Whoever owns the ledger keeps it, also where an administrator compacts it.
            if file.metadata()?.uid() != found.uid() || file.metadata()?.gid() != found.gid() {
                std::os::unix::fs::fchown(&file, Some(found.uid()), Some(found.gid()))?;
            }
            file.set_permissions(found.permissions())?;
            Ok(file)
        };
        let file = make().map_err(|error| failed("write", &path, error))?;
        let mut draft = Draft { file, buffer: Vec::with_capacity(CHUNK), end: 0, durable: 0 };
        let Header { v, id, generation } = journal.header().clone();
        let header = Header { v, id, generation: generation + 1 };
        draft.line(place, &format::header_line(&header, now))?;
        Ok(draft)
    }

    fn line(&mut self, place: &Place, line: &[u8]) -> Result<(), StoreError> {
        self.buffer.extend_from_slice(line);
        self.end += line.len() as u64;
        if self.buffer.len() >= CHUNK { self.flush(place) } else { Ok(()) }
    }

    fn flush(&mut self, place: &Place) -> Result<(), StoreError> {
        let at = self.end - self.buffer.len() as u64;
        write_all(&self.file, &self.buffer, at).map_err(|error| failed("write", &place.draft(), error))?;
        self.buffer.clear();
        Ok(())
    }

    fn sync(&mut self, place: &Place) -> Result<(), StoreError> {
        self.flush(place)?;
        self.file.sync_data().map_err(|source| StoreError::Unsynced { path: place.draft(), source })?;
        self.durable = self.end;
        Ok(())
    }
}

struct Compaction<'a> {
    place: &'a Place,
    options: &'a Options,
    record: Option<Record>,
    journal: Journal,
    operations: Operations,
    chosen: BTreeSet<usize>,
    draft: Draft,
    /// Bodies beside the ledger that slimmed lines named.
    gone: BTreeSet<Box<str>>,
    /// Where each claim's line began, and where it ends now.
    marks: Vec<(u64, u64)>,
}

impl Compaction<'_> {
    fn finish(mut self, locks: &Locks) -> Result<Compacted, StoreError> {
        let written = self.write(locks);
        if written.is_err() {
            // Where it took the old one's place already, there is none.
            drop(fs::remove_file(self.place.draft()));
        }
        let before = written?;
        let bodies = self.remove_bodies()?;
        Ok(Compacted { operations: self.chosen.len() as u64, before, after: self.draft.end, bodies })
    }

    /// Writes the new file and puts it in the place of the old one, whose length is returned.
    fn write(&mut self, locks: &Locks) -> Result<u64, StoreError> {
        let middle = self.journal.at();
        self.copy(self.journal.start(), middle.end)?;
        self.draft.sync(self.place)?;
        // From here on nobody appends to the old file: only what came meanwhile is still to be copied.
        let _append = append(locks)?;
        catch_up(self.place, self.options, self.record.as_ref(), &mut self.journal)?;
        let before = self.journal.end();
        self.copy(middle, before)?;
        let note = format::compacted_line(self.options.now, self.draft.durable);
        self.draft.line(self.place, &note)?;
        self.draft.sync(self.place)?;
        upkeep::remove(self.place, locks)?;
        fs::rename(self.place.draft(), self.place.ledger())
            .map_err(|error| failed("put the new file in the place of", self.place.ledger(), error))?;
        sync_folder(&self.place.folder())?;
        self.remember()?;
        Ok(before)
    }

    /// Copies the lines from `from` to `to`; those of chosen operations slimmed.
    fn copy(&mut self, from: Position, to: u64) -> Result<(), StoreError> {
        let disk = self.journal.disk().clone();
        let mut result = Ok(());
        let scanned = scan(&*disk, from, to, &mut |piece| {
            let Piece::Line { offset, text, envelope, .. } = piece else { return Next::On };
            result = self.line(offset, text, envelope);
            if result.is_ok() { Next::On } else { Next::Stop }
        });
        scanned.map_err(|error| failed("read", self.place.ledger(), error))?;
        result
    }

    fn line(&mut self, offset: u64, text: &[u8], envelope: Envelope<'_>) -> Result<(), StoreError> {
        let is_claim = matches!(envelope.t, "opened" | "reopened" | "resolved");
        let row = envelope.n.and_then(|n| self.operations.of_claim(n));
        if is_claim && row.is_none() {
            self.refuse_new_claim(text)?;
        }
        let durable = self.draft.durable;
        let line = match row.is_some_and(|row| self.chosen.contains(&row)) {
            true => {
                let (line, body) = slim::line(text, durable);
                self.gone.extend(body);
                line
            }
            false if envelope.t == "note" => slim::note(text, |old| self.moved(old), durable),
            false => Some(format::moved_line(text, durable)),
        };
        if let Some(line) = line {
            self.draft.line(self.place, &line)?;
        }
        if is_claim {
            self.marks.push((offset, self.draft.end));
        }
        Ok(())
    }

    /// An operation that is claimed again needs what is about to be dropped.
    fn refuse_new_claim(&self, text: &[u8]) -> Result<(), StoreError> {
        let row = format::identity(text).and_then(|whose| self.operations.find(&whose.partner, &whose.key));
        match row.is_some_and(|row| self.chosen.contains(&row)) {
            true => Err(StoreError::Compacting { path: self.place.ledger().into() }),
            false => Ok(()),
        }
    }

    /// Returns the offset that stands between the same claims as an old one did.
    fn moved(&self, old: u64) -> u64 {
        let behind = self.marks.partition_point(|(at, _)| *at <= old);
        behind.checked_sub(1).map_or(0, |index| self.marks[index].1)
    }

    fn remember(&self) -> Result<(), StoreError> {
        let Some((state, _)) = self.options.state.as_ref().zip(self.record) else { return Ok(()) };
        let header = self.journal.header();
        let (seen, _) = Seen::open(state, &header.id)?;
        seen.advance(header.generation + 1, self.journal.newest_n(), self.draft.end)
    }

    /// Removes the bodies beside the ledger that nothing names any more.
    fn remove_bodies(&mut self) -> Result<u64, StoreError> {
        if self.gone.is_empty() {
            return Ok(0);
        }
        let disk: Arc<dyn Disk> = Arc::new(self.place.open_to_read()?);
        let mut journal = Journal::load(self.place, disk.clone())?;
        journal.read_on(Reading::Unlocked)?;
        let gone = &mut self.gone;
        let scanned = scan(&*disk, journal.start(), journal.end(), &mut |piece| {
            if let Piece::Line { text, .. } = piece {
                for sha in blobs::named(text) {
                    gone.remove(sha);
                }
            }
            Next::On
        });
        scanned.map_err(|error| failed("read", self.place.ledger(), error))?;
        blobs::remove(self.place, gone.iter(), BODY_AGE)
    }
}
