//! Run files: entries in hash pages that are never altered, each page with a checksum of its own.
//!
//! A page of another run, of another place, torn or rotten does not pass: the checksum begins with the run's random
//! seed and the page's number.

use super::entry::{ENTRY, Entry, Kind};
use crate::store::jsonl::files::{self, Written};
use crate::store::jsonl::place::make;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{self, BufWriter, Write as _};
use std::os::unix::fs::FileExt;
use std::path::Path;

/// How long a page is, in bytes.
pub const PAGE: usize = 4_096;
/// Checksum, count, whether the next page goes on.
const HEAD: usize = 8;
/// How many entries a page holds.
const PAGE_ENTRIES: usize = (PAGE - HEAD) / ENTRY;
/// How many entries a page gets on average, so that few overflow. 20 bytes an operation.
///
/// Source: the mean of a Poisson distribution that passes 255 once in 10,000 pages.
pub const PAGE_TARGET: u64 = 200;
/// A run longer than this is synced before it is named, in bytes: losing it in a power cut would cost a long rebuild.
///
/// Source: the ledger's reference, section 4.6.
const UNSYNCED_MAX: u64 = 8 << 20;

/// What a manifest says about a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Meta {
    /// The file's name.
    pub file: Box<str>,
    /// How many pages entries are found in by their hash.
    pub pages: u64,
    /// How many pages there are before the list, those that took what overflowed included.
    pub data: u64,
    /// How many entries they hold.
    pub entries: u64,
    /// How many entries the list holds.
    pub listed: u64,
    /// The offset of the journal from which it covers lines.
    pub from: u64,
    /// The offset up to which it does.
    pub to: u64,
    /// What its checksums begin with.
    pub seed: u32,
}

impl Meta {
    /// Returns the length of the file in bytes.
    pub fn len(&self) -> u64 {
        (self.data + self.listed.div_ceil(PAGE_ENTRIES as u64)) * PAGE as u64
    }
}

/// A run that is open.
#[derive(Debug)]
pub struct Run {
    /// What the manifest says.
    pub meta: Meta,
    file: File,
}

/// What a run is made of.
#[derive(Debug, Default)]
pub struct Content {
    /// What is found by its hash; sorted.
    pub entries: Vec<Entry>,
    /// Operations that are not decided, or were not in older runs; by place.
    pub listed: Vec<Entry>,
}

/// Why a run is of no use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Damaged;

impl Run {
    /// Opens a run of a folder.
    pub fn open(folder: &Path, meta: &Meta) -> io::Result<Run> {
        Ok(Run { meta: meta.clone(), file: File::open(folder.join(&*meta.file))? })
    }

    /// Writes a run into a folder under a name that nobody has used.
    pub fn write(folder: &Path, content: &Content, from: u64, to: u64) -> io::Result<Run> {
        let seed = fastrand::u32(..);
        let file: Box<str> = format!("{from:x}-{to:x}-{:016x}.run", fastrand::u64(..)).into();
        let path = folder.join(&*file);
        let opened = make(&path, folder)?;
        let mut out = BufWriter::with_capacity(64 * PAGE, Written::new(opened));
        let entries = &content.entries[..];
        let pages = (entries.len() as u64).div_ceil(PAGE_TARGET);
        let (mut data, mut written) = (0, 0);
        while data < pages || written < entries.len() {
            let here = entries[written..].iter().take_while(|entry| page_of(entry.hash, pages) <= data);
            // One more than fits is enough to know that the page overflows.
            let count = here.take(PAGE_ENTRIES + 1).count();
            let fits = count.min(PAGE_ENTRIES);
            out.write_all(&page(&entries[written..written + fits], count > fits, seed, data))?;
            (data, written) = (data + 1, written + fits);
        }
        for (number, part) in content.listed.chunks(PAGE_ENTRIES).enumerate() {
            out.write_all(&page(part, false, seed, data + number as u64))?;
        }
        let opened = out.into_inner().map_err(io::IntoInnerError::into_error)?.into_file();
        let (entries, listed) = (entries.len() as u64, content.listed.len() as u64);
        let meta = Meta { file, pages, data, entries, listed, from, to, seed };
        if meta.len() > UNSYNCED_MAX {
            files::sync_data(&opened)?;
        }
        Ok(Run { meta, file: opened })
    }

    /// Adds the entries with a hash to `found`.
    pub fn find(&self, hash: u64, found: &mut Vec<Entry>) -> Result<(), Damaged> {
        if self.meta.pages == 0 {
            return Ok(());
        }
        let mut bytes = [0; PAGE];
        let mut number = page_of(hash, self.meta.pages);
        loop {
            self.file.read_exact_at(&mut bytes, number * PAGE as u64).map_err(|_| Damaged)?;
            let (entries, goes_on) = open(&bytes, self.meta.seed, number)?;
            found.extend(entries.filter(|entry| entry.hash == hash));
            number += 1;
            if !goes_on {
                return Ok(());
            }
            if number >= self.meta.data {
                return Err(Damaged);
            }
        }
    }

    /// Reads everything.
    pub fn content(&self) -> Result<Content, Damaged> {
        let entries = self.read(0, self.meta.data, self.meta.entries)?;
        let content = Content { entries, listed: self.listed()? };
        content.entries.is_sorted().then_some(content).ok_or(Damaged)
    }

    /// Reads the list.
    pub fn listed(&self) -> Result<Vec<Entry>, Damaged> {
        self.read(self.meta.data, self.meta.listed.div_ceil(PAGE_ENTRIES as u64), self.meta.listed)
    }

    fn read(&self, first: u64, pages: u64, count: u64) -> Result<Vec<Entry>, Damaged> {
        /// How many pages are read at once.
        const PART: u64 = 256;
        let mut all = Vec::with_capacity(count.min(pages * PAGE_ENTRIES as u64) as usize);
        let mut bytes = vec![0; PART.min(pages) as usize * PAGE];
        for from in (0..pages).step_by(PART as usize) {
            let part = &mut bytes[..PART.min(pages - from) as usize * PAGE];
            self.file.read_exact_at(part, (first + from) * PAGE as u64).map_err(|_| Damaged)?;
            for (number, page) in part.chunks_exact(PAGE).enumerate() {
                all.extend(open(page, self.meta.seed, first + from + number as u64)?.0);
            }
        }
        (all.len() as u64 == count).then_some(all).ok_or(Damaged)
    }
}

impl Content {
    /// Makes one content of several, the older ones first. `is_oldest`: nothing lies before them.
    pub fn merge(parts: Vec<Content>, is_oldest: bool) -> Content {
        let (mut entries, mut listed) = (Vec::new(), Vec::<Entry>::new());
        let mut known = std::collections::HashSet::new();
        for part in parts.iter().rev() {
            // What newer runs say of an operation counts.
            listed.extend(part.listed.iter().filter(|entry| !known.contains(&entry.hash)));
            known.extend(part.listed.iter().map(|entry| entry.hash));
        }
        if is_oldest {
            listed.retain(|entry| entry.kind().is(Kind::UNDECIDED));
        }
        entries.extend(parts.into_iter().flat_map(|part| part.entries));
        let mut content = Content { entries, listed };
        content.tidy();
        content
    }

    /// Sorts all, and leaves out payloads of what is decided and controls that are too many.
    pub fn tidy(&mut self) {
        self.listed.sort_unstable_by_key(|entry| entry.at());
        let undecided = self.listed.iter().filter(|entry| entry.kind().is(Kind::UNDECIDED));
        let claims: std::collections::HashSet<u64> = undecided.map(|entry| entry.at()).collect();
        self.entries.retain(|entry| !entry.kind().is(Kind::PAYLOAD) || claims.contains(&entry.at()));
        // Runs are sorted already, which a stable sort makes use of.
        self.entries.sort();
        self.entries.dedup();
        let mut controls: Vec<Entry> =
            self.entries.iter().filter(|entry| entry.kind().is(Kind::CONTROL)).copied().collect();
        if controls.len() > super::entry::CONTROLS {
            controls = newest_of_each(controls);
            self.entries.retain(|entry| !entry.kind().is(Kind::CONTROL) || controls.binary_search(entry).is_ok());
        }
    }
}

/// Keeps the last ones of each hash; `controls` are sorted.
fn newest_of_each(controls: Vec<Entry>) -> Vec<Entry> {
    let is_kept = |at: usize| {
        let fourth_next = controls.get(at + super::entry::CONTROLS);
        fourth_next.is_none_or(|next| next.hash != controls[at].hash)
    };
    (0..controls.len()).filter(|at| is_kept(*at)).map(|at| controls[at]).collect()
}

fn page_of(hash: u64, pages: u64) -> u64 {
    ((u128::from(hash) * u128::from(pages)) >> 64) as u64
}

fn page(entries: &[Entry], goes_on: bool, seed: u32, number: u64) -> [u8; PAGE] {
    let mut bytes = [0; PAGE];
    for (entry, room) in entries.iter().zip(bytes[HEAD..].chunks_exact_mut(ENTRY)) {
        entry.write(room);
    }
    bytes[4..6].copy_from_slice(&(entries.len() as u16).to_le_bytes());
    bytes[6] = u8::from(goes_on);
    let sum = checksum(&bytes, seed, number);
    bytes[..4].copy_from_slice(&sum.to_le_bytes());
    bytes
}

/// Returns the entries of a page, and whether the next page goes on.
fn open(bytes: &[u8], seed: u32, number: u64) -> Result<(impl Iterator<Item = Entry>, bool), Damaged> {
    let count = usize::from(u16::from_le_bytes([bytes[4], bytes[5]]));
    if bytes[..4] != checksum(bytes, seed, number).to_le_bytes() || count > PAGE_ENTRIES {
        return Err(Damaged);
    }
    Ok((bytes[HEAD..HEAD + count * ENTRY].chunks_exact(ENTRY).map(Entry::read), bytes[6] == 1))
}

fn checksum(bytes: &[u8], seed: u32, number: u64) -> u32 {
    let mut sum = crc32fast::Hasher::new_with_initial(seed);
    sum.update(&number.to_le_bytes());
    sum.update(&bytes[4..]);
    sum.finalize()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(count: u64) -> Vec<Entry> {
        let mut rng = fastrand::Rng::with_seed(7);
        let mut entries: Vec<Entry> =
            (0..count).map(|at| Entry::new(rng.u64(..), at * 700, at * 700 + 500, Kind::OPENED)).collect();
        entries.sort();
        entries
    }

    fn found(run: &Run, hash: u64) -> Vec<Entry> {
        let mut found = Vec::new();
        run.find(hash, &mut found).expect("good");
        found
    }

    #[test]
    fn what_was_written_is_found_and_nothing_else() {
        let folder = tempfile::tempdir().expect("a folder");
        for count in [0, 1, 199, 5_000] {
            let content = Content { entries: entries(count), listed: entries(count / 3) };
            let run = Run::write(folder.path(), &content, 10, 20).expect("writes");
            assert_eq!(std::fs::metadata(folder.path().join(&*run.meta.file)).expect("there").len(), run.meta.len());
            let run = Run::open(folder.path(), &run.meta).expect("opens");
            for entry in &content.entries {
                assert_eq!(found(&run, entry.hash), [*entry]);
                assert_eq!(found(&run, entry.hash ^ 1), []);
            }
            let read = run.content().expect("good");
            assert_eq!((read.entries, read.listed), (content.entries, content.listed));
        }
    }

    #[test]
    fn entries_with_one_hash_overflow_into_the_next_pages() {
        let folder = tempfile::tempdir().expect("a folder");
        let same: Vec<Entry> = (0..2_000).map(|at| Entry::new(u64::MAX, at * 100, at * 100, Kind::LINES)).collect();
        let mut all = [entries(300), same.clone()].concat();
        all.sort();
        let run = Run::write(folder.path(), &Content { entries: all, listed: vec![] }, 0, 1).expect("writes");
        assert!(run.meta.data > run.meta.pages);
        assert_eq!(found(&run, u64::MAX), same);
    }

    #[test]
    fn every_flipped_bit_and_every_cut_is_noticed() {
        let folder = tempfile::tempdir().expect("a folder");
        let content = Content { entries: entries(150), listed: entries(9) };
        let run = Run::write(folder.path(), &content, 0, 1).expect("writes");
        let path = folder.path().join(&*run.meta.file);
        let whole = std::fs::read(&path).expect("reads");
        for at in (0..whole.len()).step_by(37) {
            let mut bytes = whole.clone();
            bytes[at] ^= 1 << (at % 8);
            std::fs::write(&path, &bytes).expect("writes");
            assert!(Run::open(folder.path(), &run.meta).expect("opens").content().is_err(), "{at}");
        }
        for len in [0, PAGE, whole.len() - 1] {
            std::fs::write(&path, &whole[..len]).expect("writes");
            assert!(Run::open(folder.path(), &run.meta).expect("opens").content().is_err(), "{len}");
        }
        // A page at another place.
        std::fs::write(&path, [&whole[PAGE..], &whole[..PAGE]].concat()).expect("writes");
        assert!(Run::open(folder.path(), &run.meta).expect("opens").content().is_err());
    }

    #[test]
    fn a_merge_keeps_the_newest_word_on_each_operation() {
        let listed = |at: u64, kind: Kind| Entry::new(9, at, at, kind);
        let old = Content {
            entries: vec![Entry::new(5, 100, 100, Kind::PAYLOAD)],
            listed: vec![listed(100, Kind::UNDECIDED), Entry::new(8, 90, 90, Kind::UNDECIDED)],
        };
        let new = Content { entries: vec![], listed: vec![listed(300, Kind::DECIDED)] };
        let merged = Content::merge(vec![old, new], false);
        assert_eq!(merged.entries, [], "its payload is of no use any more");
        assert_eq!(merged.listed, [Entry::new(8, 90, 90, Kind::UNDECIDED), listed(300, Kind::DECIDED)]);
        let first = Content::merge(vec![merged], true);
        assert_eq!(first.listed, [Entry::new(8, 90, 90, Kind::UNDECIDED)]);
    }

    #[test]
    fn only_the_newest_controls_of_a_partner_are_kept() {
        let control = |hash: u64, at: u64| Entry::new(hash, at, at, Kind::CONTROL);
        let mut content = Content { entries: vec![], listed: vec![] };
        content.entries.extend((0..9).map(|at| control(1, at)));
        content.entries.extend((0..2).map(|at| control(2, at)));
        content.tidy();
        assert_eq!(
            content.entries.iter().map(|entry| (entry.hash, entry.at())).collect::<Vec<_>>(),
            [(1, 5), (1, 6), (1, 7), (1, 8), (2, 0), (2, 1)]
        );
    }
}
