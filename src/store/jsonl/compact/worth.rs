//! Whether a compaction is worth it, as a sample of the file says: no ledger is read for it.

use super::fate::{Fate, Keep, fate};
use super::slim;
use crate::engine::moment::Timestamp;
use crate::store::format::{self, LINE_MAX};
use crate::store::jsonl::Options;
use crate::store::jsonl::disk::{Disk, read_range};
use crate::store::jsonl::journal::{Journal, Reading};
use crate::store::jsonl::lookup::first_line;
use crate::store::jsonl::place::Place;
use crate::store::jsonl::seen::Seen;
use crate::store::jsonl::upkeep::INLINE_TAIL_MAX;
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
    let dead: u64 = offsets.map(|offset| dead(&journal, offset, part, keep, options.now).unwrap_or(0)).sum();
    (dead > len / 2).then_some(Worth { dead, len })
}

/// Returns how many bytes of a part of the file would go, if all of it were as the line at `offset`.
fn dead(journal: &Journal, offset: u64, part: u64, keep: Keep<'_>, now: Timestamp) -> Option<u64> {
    let text = line_around(journal, offset)?;
    let n = format::envelope(&text)?.n?;
    let (key, partner) = format::whose(&text)?;
    let lookup = journal.find(&key, partner.as_ref()).ok()?;
    let operation = lookup.operations.iter().find(|operation| operation.claims.iter().any(|(claim, _)| *claim == n))?;
    let left = match fate(&operation.history, keep(operation.history.opened()), now)? {
        Fate::Slimmed => slim::line(&text, 0).0.map_or(0, |line| line.len()),
        Fate::Forgotten => 0,
    };
    let len = text.len() as u64 + 1;
    Some(part * len.saturating_sub(left as u64) / len)
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
