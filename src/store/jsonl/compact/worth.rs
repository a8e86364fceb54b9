//! Whether a compaction is worth it, as a sample of the file says: no ledger is read for it.

use super::fate::{Fate, Keep, Undoing, fate, is_later_write, note, slimmed};
use super::slim;
use crate::engine::entry::is_final;
use crate::engine::facts::History;
use crate::engine::moment::Timestamp;
use crate::store::format::{self, LINE_MAX};
use crate::store::jsonl::Options;
use crate::store::jsonl::disk::{Disk, read_range};
use crate::store::jsonl::journal::{Journal, Reading};
use crate::store::jsonl::lookup::{Operation, first_line};
use crate::store::jsonl::place::Place;
use crate::store::jsonl::seen::Seen;
use crate::store::jsonl::upkeep::INLINE_TAIL_MAX;
use std::cell::OnceCell;
use std::path::Path;
use std::sync::Arc;

/// A ledger up to this length is never compacted without being asked for, in bytes.
///
/// Source: the ledger's design, and its reference, section 4.8.
pub const COMPACT_MIN: u64 = 64 << 20;
/// Nor is a longer one than this, in bytes: a compaction takes some 500 bytes of memory for each operation.
pub const COMPACT_MAX: u64 = 1 << 30;
/// How many places of the file are looked at: the share of what could go is then met to within a tenth.
const SAMPLES: u64 = 256;
/// How far back the start of a line is looked for first, in bytes: enough for most.
const LINE_USUAL: u64 = 1_024;

/// How many operations without a last word are looked at for older writes.
const UNDOING_MAX: usize = 1_000;

/// What a compaction would be worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Worth {
    /// How many bytes it would drop, about.
    pub dead: u64,
    /// How long the file is, in bytes.
    pub len: u64,
}

/// Returns what a compaction would be worth, where that is over half of a file that is longer than `least` bytes. `None`
/// where it is not, and where it cannot be told at once: without an index, or with damage.
///
/// A few hundred lines are read and looked up, however long the file is.
pub fn worth_compacting(path: &Path, options: &Options, keep: Keep<'_>, least: u64) -> Option<Worth> {
    let place = Place::find(path).ok()?;
    let disk: Arc<dyn Disk> = Arc::new(place.open_to_read().ok()?);
    let len = disk.stat().ok()?.len;
    if len <= least {
        return None;
    }
    let mut journal = Journal::load(&place, disk).ok()?;
    // Where nothing is remembered of it, a lost end would become part of a file that is in order.
    if options.state.as_ref().is_some_and(|state| Seen::look(state, &journal.header().id).is_none()) {
        return None;
    }
    journal.attach().ok()?;
    if len - journal.end() > INLINE_TAIL_MAX {
        return None;
    }
    journal.read_on(Reading::Unlocked).ok()?;
    journal.check().ok()?;
    let start = journal.start().end;
    let part = (journal.end() - start) / SAMPLES;
    // The middles of equal parts: each line counts as long as it is.
    let offsets = (0..SAMPLES).map(|at| start + at * part + part / 2);
    let sample = Sample { journal: &journal, keep, now: options.now, undoing: OnceCell::new() };
    let dead: u64 = offsets.map(|offset| sample.dead(offset, part).unwrap_or(0)).sum();
    (dead > len / 2).then_some(Worth { dead, len })
}

/// A journal that is looked at here and there.
struct Sample<'a> {
    journal: &'a Journal,
    keep: Keep<'a>,
    now: Timestamp,
    /// What later writes are kept for; `None` where there is too much of it, or it cannot be read.
    undoing: OnceCell<Option<Undoing>>,
}

impl Sample<'_> {
    /// Returns how many bytes of a part of the file would go, if all of it were as the line at `offset`.
    fn dead(&self, offset: u64, part: u64) -> Option<u64> {
        let text = line_around(self.journal, offset)?;
        let n = format::envelope(&text)?.n?;
        let (key, partner) = format::whose(&text)?;
        let lookup = self.journal.find(&key, partner.as_ref()).ok()?;
        let is_its = |operation: &&Operation| operation.claims.iter().any(|(claim, _)| *claim == n);
        let history = &lookup.operations.iter().find(is_its)?.history;
        let left = match self.fate(history)? {
            Fate::Slimmed => slim::line(&text, 0).0.map_or(0, |line| line.len()),
            Fate::Forgotten => 0,
        };
        let len = text.len() as u64 + 1;
        Some(part * len.saturating_sub(left as u64) / len)
    }

    fn fate(&self, history: &History) -> Option<Fate> {
        let fate = fate(history, (self.keep)(history.opened()), self.now)?;
        if fate == Fate::Slimmed {
            return Some(fate);
        }
        let undoing = self.undoing.get_or_init(|| self.undoing());
        match undoing.as_ref().is_none_or(|undoing| is_later_write(history, undoing)) {
            true => slimmed(history),
            false => Some(fate),
        }
    }

    /// Finds older writes that may be sent again, as far as they are undecided: most of them are.
    fn undoing(&self) -> Option<Undoing> {
        let named = self.journal.undecided(None).ok().filter(|named| named.len() <= UNDOING_MAX)?;
        let mut undoing = Undoing::new();
        for one in named {
            let found = self.journal.find(&one.key, one.partner.as_ref()).ok()?;
            let histories = found.operations.iter().map(|found| &found.history);
            histories.filter(|history| !is_final(history)).for_each(|history| note(history, &mut undoing));
        }
        Some(undoing)
    }
}

/// Reads the line in which `offset` lies, without its line break.
fn line_around(journal: &Journal, offset: u64) -> Option<Vec<u8>> {
    let (disk, start) = (&**journal.disk(), journal.start().end);
    for most in [LINE_USUAL, LINE_MAX as u64] {
        let from = offset.saturating_sub(most).max(start);
        let before = read_range(disk, from, offset).ok()?;
        match memchr::memrchr(b'\n', &before) {
            Some(at) => return first_line(disk, from + at as u64 + 1, journal.end()),
            None if from == start => return first_line(disk, start, journal.end()),
            None => {}
        }
    }
    None
}
