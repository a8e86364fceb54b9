//! Compaction: what is decided and old keeps its key, its verdict and its payload's hash; bodies and answers go. Where a
//! person has set a time for it, the key goes too.
//!
//! The lines that stay are written into a new file, which takes the place of the old one: every line of an operation that
//! is not decided, and every claim line of one that keeps its key. The numbers of claims that go are written down, so
//! that none is missing. The old file is not altered: a crash leaves it or the new one, and whoever has it open reads on
//! in it until he looks at the path again.

mod draft;
mod fate;
mod held;
mod slim;
mod sweep;
mod worth;

use super::disk::Disk;
use super::files;
use super::journal::Journal;
use super::locks::Locks;
use super::operations::Operations;
use super::place::{Place, failed};
use super::repair::append;
use super::scan::{Next, Piece, Position, scan};
use super::seen::Seen;
use super::sick::sync_names;
use super::{Effort, Jsonl, Options, blobs, upkeep};
use crate::store::StoreError;
use crate::store::format::{self, Envelope};
use draft::Draft;
use fate::{Fate, choose};
pub use fate::{Keep, Retention, Which};
use held::Held;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use sweep::sweep;
pub use worth::{COMPACT_MAX, COMPACT_MIN, Worth, worth_compacting};

/// How much room must be left beyond what a compaction takes, in bytes: what claims keep for their outcomes.
const ROOM: u64 = 4 << 20;

/// What a compaction did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Compacted {
    /// How many operations lost their payload and answer.
    pub operations: u64,
    /// How many are not there any more, their keys neither.
    pub forgotten: u64,
    /// How long the file was, in bytes.
    pub before: u64,
    /// How long it is.
    pub after: u64,
    /// How many bodies beside the ledger were removed, whoever had left them there.
    pub bodies: u64,
    /// How many bodies of these operations are still there, because other operations have the same.
    pub shared: u64,
}

/// Compacts a ledger, and removes the bodies beside it that no line names, however young. Where nothing would change,
/// nothing is written.
///
/// # Errors
/// Damage, loss and a failed sync, as a claim would refuse it; [`StoreError::NoSpace`] where the new file would not find
/// room, before it is begun; [`StoreError::Compacting`] while another process does the same, or where an operation that
/// was to be compacted is claimed again meanwhile; [`StoreError::Linked`] where the file has other names, which would
/// keep the old one; [`StoreError::Stopped`] once `stop` says so, the old file still in its place;
/// [`StoreError::Unswept`] where all that is done, and bodies are left.
pub fn compact(
    path: &Path,
    options: &Options,
    which: Which<'_>,
    stop: &dyn Fn() -> bool,
) -> Result<Compacted, StoreError> {
    let place = Place::find(path)?;
    if !options.unsafe_fs {
        place.check_file_system()?;
    }
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
    let mut held = Held::open(&place, options, &locks)?;
    {
        // What a dead writer left is mended, and what was lost refused, before anything is chosen.
        let _append = append(&locks)?;
        held.catch_up()?;
    }
    let operations = held.journal.all()?;
    let chosen = choose(&held, &operations, which, stop)?;
    let len = held.journal.end();
    let (mut compacted, mut gone) = (Compacted { before: len, after: len, ..Compacted::default() }, BTreeSet::new());
    let swept = if chosen.is_empty() {
        sweep(&mut held)
    } else {
        refuse_without_room(&place, &held.marked, len)?;
        (compacted, gone) = Compaction::begin(held, operations, chosen, stop)?.finish()?;
        // The index was that of the old file: the next claim would have to read all of this one.
        if let Ok(new) = Jsonl::open(path, options) {
            new.keep_up(Effort::Whole);
        }
        Held::open(&place, options, &locks).and_then(|mut new| sweep(&mut new))
    };
    let unswept = |source| StoreError::Unswept { path: place.blobs(), source: Box::new(source) };
    compacted.bodies = swept.map_err(unswept)?;
    compacted.shared = gone.iter().filter(|name| place.blobs().join(&***name).exists()).count() as u64;
    Ok(compacted)
}

/// Refuses at once what [`compact`] refuses once it has read everything and found something to do.
///
/// # Errors
/// [`StoreError::Linked`] and [`StoreError::NoSpace`] as there; the file is missing or cannot be looked at.
pub fn may_compact(path: &Path) -> Result<(), StoreError> {
    let place = Place::find(path)?;
    let file = place.open_to_read()?;
    let found = file.metadata().map_err(|error| failed("look at", place.ledger(), error))?;
    refuse_without_room(&place, &file, found.len())
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

struct Compaction<'a> {
    held: Held<'a>,
    operations: Operations,
    chosen: BTreeMap<usize, Fate>,
    stop: &'a dyn Fn() -> bool,
    draft: Draft,
    /// The end of the file when it was chosen from.
    seen: u64,
    /// Bodies beside the ledger that lines named which are slimmed or gone.
    gone: BTreeSet<Box<str>>,
    /// Where each claim's line began, and where the line ends now that tells of it, without its line break.
    marks: Vec<(u64, u64)>,
    forgotten: Option<Forgotten>,
}

/// Claims that are forgotten, and of which no line tells yet.
#[derive(Clone, Copy)]
struct Forgotten {
    from: u64,
    to: u64,
    /// Where the line of the first one began.
    offset: u64,
}

impl<'a> Compaction<'a> {
    fn begin(
        held: Held<'a>,
        operations: Operations,
        chosen: BTreeMap<usize, Fate>,
        stop: &'a dyn Fn() -> bool,
    ) -> Result<Compaction<'a>, StoreError> {
        let forgets = chosen.values().any(|fate| *fate == Fate::Forgotten);
        let (draft, seen) = (Draft::begin(&held, forgets)?, held.journal.end());
        let (gone, marks, forgotten) = (BTreeSet::new(), Vec::new(), None);
        Ok(Compaction { held, operations, chosen, stop, draft, seen, gone, marks, forgotten })
    }

    /// Returns also which bodies beside the ledger the lines named that are slimmed or gone.
    fn finish(mut self) -> Result<(Compacted, BTreeSet<Box<str>>), StoreError> {
        let written = self.write();
        if written.is_err() {
            // Where it took the old one's place already, there is none.
            drop(files::remove(&self.held.place.draft()));
        }
        let before = written?;
        let forgotten = self.chosen.values().filter(|fate| **fate == Fate::Forgotten).count() as u64;
        let (operations, after) = (self.chosen.len() as u64 - forgotten, self.draft.end);
        let compacted = Compacted { operations, forgotten, before, after, ..Compacted::default() };
        Ok((compacted, self.gone))
    }

    /// Writes the new file and puts it in the place of the old one, whose length is returned.
    fn write(&mut self) -> Result<u64, StoreError> {
        let (place, locks) = (self.held.place, self.held.locks);
        let middle = self.held.journal.at();
        self.copy(self.held.journal.start(), middle.end)?;
        self.draft.sync(place)?;
        // From here on nobody appends to the old file: only what came meanwhile is still to be copied.
        let _append = append(locks)?;
        self.held.catch_up()?;
        let before = self.held.journal.end();
        self.copy(middle, before)?;
        self.tell_forgotten()?;
        if self.draft.end > self.draft.durable {
            // The note says that all before it is durable: what is damaged there later was acknowledged.
            self.draft.sync(place)?;
        }
        let note = format::compacted_line(self.held.options.now, self.draft.durable);
        self.draft.line(place, &note)?;
        self.draft.sync(place)?;
        self.draft.reserve(place)?;
        upkeep::remove(place, locks)?;
        files::rename(&place.draft(), place.ledger())
            .map_err(|error| failed("put the new file in the place of", place.ledger(), error))?;
        sync_names(place, &place.folder())?;
        // What this machine remembers of the old file holds for the new one, too.
        drop(self.remember());
        Ok(before)
    }

    /// Copies the lines from `from` to `to`, as far as they stay.
    fn copy(&mut self, from: Position, to: u64) -> Result<(), StoreError> {
        let disk = self.held.journal.disk().clone();
        let mut result = Ok(());
        let scanned = scan(&*disk, from, to, &mut |piece| {
            let Piece::Line { offset, text, envelope, .. } = piece else { return Next::On };
            result = match (self.stop)() {
                true => Err(StoreError::Stopped { path: self.held.place.ledger().into() }),
                false => self.line(offset, text, envelope),
            };
            if result.is_ok() { Next::On } else { Next::Stop }
        });
        scanned.map_err(|error| failed("read", self.held.place.ledger(), error))?;
        result
    }

    fn line(&mut self, offset: u64, text: &[u8], envelope: Envelope<'_>) -> Result<(), StoreError> {
        let is_claim = matches!(envelope.t, "opened" | "reopened" | "resolved");
        // A number on these is no claim of theirs.
        let n = envelope.n.filter(|_| !matches!(envelope.t, "note" | "lost"));
        let row = n.and_then(|n| self.operations.of_claim(n));
        if is_claim && row.is_none() {
            self.refuse_new_claim(text)?;
        }
        let fate = row.and_then(|row| self.chosen.get(&row)).copied();
        if fate == Some(Fate::Forgotten) {
            return self.forget(offset, text, envelope.n.filter(|_| is_claim));
        }
        if let ("forgotten", Some((from, to))) = (envelope.t, format::forgotten(text)) {
            return self.forget_claims(Forgotten { from, to, offset });
        }
        let note = Some(text).filter(|_| envelope.t == "note").and_then(format::note);
        if note.as_ref().is_some_and(slim::is_needless) {
            return Ok(());
        }
        if is_claim || note.is_some() {
            self.tell_forgotten()?;
        }
        let durable = self.draft.durable;
        let line = match (fate, note) {
            (Some(_), _) => {
                let (line, body) = slim::line(text, durable);
                self.gone.extend(body);
                line
            }
            (None, Some(note)) => Some(slim::note(text, &note, |old| self.moved(old), durable)),
            (None, None) => Some(format::moved_line(text, durable)),
        };
        if let Some(line) = line {
            self.draft.line(self.held.place, &line)?;
        }
        if is_claim {
            self.marks.push((offset, self.draft.end - 1));
        }
        Ok(())
    }

    /// Drops a line of an operation that is forgotten; `claim` is the number of the claim that it begins.
    fn forget(&mut self, offset: u64, text: &[u8], claim: Option<u64>) -> Result<(), StoreError> {
        if offset >= self.seen {
            // Somebody has told something of it meanwhile.
            return Err(StoreError::Compacting { path: self.held.place.ledger().into() });
        }
        self.gone.extend(blobs::named(text).map(Into::into));
        match claim {
            Some(n) => self.forget_claims(Forgotten { from: n, to: n, offset }),
            None => Ok(()),
        }
    }

    fn forget_claims(&mut self, claims: Forgotten) -> Result<(), StoreError> {
        match &mut self.forgotten {
            Some(before) if before.to + 1 == claims.from => before.to = claims.to,
            _ => {
                self.tell_forgotten()?;
                self.forgotten = Some(claims);
            }
        }
        Ok(())
    }

    /// Writes down which claims are gone, so that none seems lost.
    fn tell_forgotten(&mut self) -> Result<(), StoreError> {
        let Some(Forgotten { from, to, offset }) = self.forgotten.take() else { return Ok(()) };
        let line = format::forgotten_line(from, to, self.held.options.now, self.draft.durable);
        self.draft.line(self.held.place, &line)?;
        self.marks.push((offset, self.draft.end - 1));
        Ok(())
    }

    /// An operation that is claimed again needs what is about to be dropped.
    fn refuse_new_claim(&self, text: &[u8]) -> Result<(), StoreError> {
        let row = format::identity(text).and_then(|whose| self.operations.find(&whose.partner, &whose.key));
        match row.is_some_and(|row| self.chosen.contains_key(&row)) {
            true => Err(StoreError::Compacting { path: self.held.place.ledger().into() }),
            false => Ok(()),
        }
    }

    /// Returns the offset that stands between the same claims as an old one did.
    fn moved(&self, old: u64) -> u64 {
        let behind = self.marks.partition_point(|(at, _)| *at <= old);
        behind.checked_sub(1).map_or(0, |index| self.marks[index].1)
    }

    fn remember(&self) -> Result<(), StoreError> {
        let Some((state, _)) = self.held.options.state.as_ref().zip(self.held.record) else { return Ok(()) };
        let header = self.held.journal.header();
        let (seen, _) = Seen::open(state, &header.id)?;
        seen.advance(header.generation + 1, self.held.journal.newest_n(), self.draft.end)
    }
}
