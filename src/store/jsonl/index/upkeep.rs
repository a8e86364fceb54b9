//! Brings an index on the disk up to date: a run for what is new, merged with runs that are not much longer.

use super::Index;
use super::entry::{COVER_MAX, Entry, Kind};
use super::manifest::{self, Anchor, Manifest};
use super::run::{Content, PAGE, PAGE_TARGET, Run};
use crate::store::format::Header;
use crate::store::jsonl::disk::{Disk, read_range};
use crate::store::jsonl::scan::Position;
use std::io;
use std::path::Path;

/// How many runs a look-up may have to read.
const RUNS_MAX: usize = 32;
/// A run is merged with the one before it unless that is this many times as long. Source: git's `repack --geometric`.
const FACTOR: u64 = 2;
/// The longest run that a process makes by merging which has somebody waiting for its end, in bytes.
const SHORT_MAX: u64 = 8 << 20;

/// How much work an upkeep may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effort {
    /// One short step: somebody waits.
    Short,
    /// Whatever makes later look-ups quick.
    Whole,
}

/// An index's files, and the journal that they are about. The right to change them is held.
#[derive(Clone, Copy, Debug)]
pub struct Upkeep<'a> {
    /// The folder.
    pub folder: &'a Path,
    /// The journal's header.
    pub header: &'a Header,
    /// The journal.
    pub disk: &'a dyn Disk,
    /// How far it was read, which is durable.
    pub at: Position,
    /// How much work it may be.
    pub effort: Effort,
}

impl Index {
    /// Returns what is in the tail, with `listed`: the operations whose state is not in a run yet, and `payloads`: those
    /// of the undecided ones.
    pub fn content(&self, payloads: Vec<Entry>, listed: Vec<Entry>) -> Content {
        let segments = self.tail.segments().iter();
        let mut entries: Vec<Entry> =
            segments.map(|segment| Entry::new(segment.hash, segment.at, segment.end, segment.kind)).collect();
        entries.extend(self.tail.all_controls().map(|(partner, at)| Entry::new(partner, at, at, Kind::CONTROL)));
        entries.extend(payloads);
        let mut content = Content { entries, listed };
        content.tidy();
        content
    }

    /// Writes the tail down and forgets it. Returns whether that was done: not where the files on the disk go on
    /// elsewhere.
    ///
    /// # Errors
    /// The files are as they were before, or not named by anything.
    pub fn write(&mut self, content: Content, upkeep: Upkeep<'_>) -> io::Result<bool> {
        let Upkeep { folder, header, disk, at, .. } = upkeep;
        let is_whole = self.runs.is_empty();
        let found = match (is_whole, self.is_distrusted) {
            (true, true) => manifest::Found::Nothing,
            _ => Manifest::load(folder, header, disk, at.end),
        };
        let (mut manifest, mut runs) = match found {
            // Somebody was quicker, or has built upon what we know.
            manifest::Found::Index(manifest, _) if manifest.covered >= at.end => return Ok(false),
            manifest::Found::Index(manifest, runs) if manifest.covered >= self.tail.from() => (*manifest, runs),
            _ if is_whole => (Manifest::new(header, Position { end: self.tail.from(), lines: 1 }), Vec::new()),
            _ => return Ok(false),
        };
        if at.end >= COVER_MAX {
            return Ok(false);
        }
        let (last, len) = self.tail.last().expect("a tail that is written down has lines");
        let anchor = Anchor::of(last, &read_range(disk, last, last + u64::from(len))?);
        let from = manifest.covered;
        let run = merged(&mut runs, content, folder, (from, at.end), upkeep.effort)?;
        runs.push(run);
        manifest.runs = runs.iter().map(|run| run.meta.clone()).collect();
        (manifest.covered, manifest.lines, manifest.anchor) = (at.end, at.lines, anchor);
        (manifest.n, manifest.claim) = (self.tail.newest_n(), self.tail.newest_claim());
        manifest.publish(folder)?;
        // What stays is named by nothing, and removed the next time.
        drop(manifest.sweep(folder));
        self.runs = runs;
        self.is_distrusted = false;
        self.tail.cover(at.end);
        Ok(true)
    }
}

/// Writes a run of the new content and of the newest runs, which are taken out.
fn merged(
    runs: &mut Vec<Run>,
    content: Content,
    folder: &Path,
    (mut from, to): (u64, u64),
    effort: Effort,
) -> io::Result<Run> {
    let mut entries = content.entries.len() as u64;
    let is_crowded = runs.len() >= RUNS_MAX;
    let mut kept = runs.len();
    while let Some(before) = kept.checked_sub(1).map(|at| &runs[at]) {
        let all = entries + before.meta.entries;
        let is_short = before.meta.entries < FACTOR * entries;
        let is_cheap = effort == Effort::Whole || is_crowded || all / PAGE_TARGET * PAGE as u64 <= SHORT_MAX;
        if !is_short || !is_cheap {
            break;
        }
        (entries, kept) = (all, kept - 1);
    }
    if is_crowded && kept == runs.len() {
        kept -= 1;
    }
    let taken = runs.split_off(kept);
    let mut parts = Vec::with_capacity(taken.len() + 1);
    for run in &taken {
        from = from.min(run.meta.from);
        parts.push(run.content().map_err(|_| io::Error::from(io::ErrorKind::InvalidData))?);
    }
    parts.push(content);
    Run::write(folder, &Content::merge(parts, kept == 0), from, to)
}
