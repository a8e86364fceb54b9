//! The manifest: which runs make up the index, and up to which line of which journal.

use super::run::{Meta, Run};
use crate::store::format::Header;
use crate::store::jsonl::disk::{Disk, read_range, write_all};
use crate::store::jsonl::files;
use crate::store::jsonl::place::make;
use crate::store::jsonl::scan::Position;
use serde::{Deserialize, Serialize};
use std::fs;
use std::io;
use std::path::Path;

/// Its name in the index's folder.
pub const NAME: &str = "MANIFEST";
/// The version of the index. Another one is dropped and rebuilt.
const VERSION: u64 = 1;
/// How often a manifest that is replaced while its runs are opened is read again.
const TRIES: u32 = 100;
/// What follows the text: `,"crc":"01234567"}` and a line break.
const SEAL: usize = 19;

/// What a manifest says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    v: u64,
    id: Box<str>,
    #[serde(rename = "gen")]
    generation: u64,
    /// The journal is covered up to here.
    pub covered: u64,
    /// How many line breaks come before.
    pub lines: u64,
    /// The highest number on any covered line.
    pub n: u64,
    /// The number of the newest covered claim.
    pub claim: u64,
    /// The last covered line: the journal must still have it there.
    pub anchor: Anchor,
    /// The runs, oldest first.
    pub runs: Vec<Meta>,
}

/// A line that tells whether a journal is the one that was indexed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Anchor {
    /// Its offset.
    pub at: u64,
    /// Its length without the line break.
    pub len: u32,
    /// The CRC-32 of its bytes.
    pub sum: u32,
}

/// What was found in an index's folder.
#[derive(Debug)]
pub enum Found {
    /// Nothing.
    Nothing,
    /// An index that cannot be used, and why.
    Useless(&'static str),
    /// An index of this journal, its runs open.
    Index(Box<Manifest>, Vec<Run>),
}

impl Manifest {
    /// Returns a manifest without runs, for a journal that is covered up to `at`.
    pub fn new(header: &Header, at: Position) -> Manifest {
        let Header { id, generation, .. } = header.clone();
        let (covered, lines, anchor, runs) = (at.end, at.lines, Anchor::default(), Vec::new());
        Manifest { v: VERSION, id, generation, covered, lines, n: 0, claim: 0, anchor, runs }
    }

    /// Looks for an index of a journal that has `len` bytes.
    pub fn load(folder: &Path, header: &Header, disk: &dyn Disk, len: u64) -> Found {
        let mut before = Vec::new();
        for _ in 0..TRIES {
            let bytes = match fs::read(folder.join(NAME)) {
                Ok(bytes) => bytes,
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Found::Nothing,
                Err(_) => return Found::Useless("its manifest cannot be read"),
            };
            if bytes == before {
                return Found::Useless("a file of it is missing");
            }
            let manifest = match Manifest::judge(&bytes, header, disk, len) {
                Ok(manifest) => manifest,
                Err(why) => return Found::Useless(why),
            };
            // A run that is gone was merged into another one: the manifest says which.
            let runs: io::Result<Vec<Run>> = manifest.runs.iter().map(|meta| Run::open(folder, meta)).collect();
            match runs {
                Ok(runs) => return Found::Index(Box::new(manifest), runs),
                Err(_) => before = bytes,
            }
        }
        Found::Useless("it is replaced all the time")
    }

    /// Reads a manifest, and compares it with the journal.
    fn judge(bytes: &[u8], header: &Header, disk: &dyn Disk, len: u64) -> Result<Manifest, &'static str> {
        let damaged = "its manifest is damaged";
        let (text, seal) = bytes.split_at_checked(bytes.len().saturating_sub(SEAL)).ok_or(damaged)?;
        if seal != seal_of(text).as_bytes() {
            return Err(damaged);
        }
        let whole = serde_json::from_slice::<Manifest>(&[text, b"}"].concat());
        let manifest = whole.map_err(|_| "it is of another version")?;
        if manifest.v != VERSION {
            return Err("it is of another version");
        }
        if manifest.id != header.id {
            return Err("it is of another ledger");
        }
        if manifest.generation != header.generation {
            return Err("the ledger was compacted since");
        }
        let mut to = manifest.runs.first().map_or(manifest.covered, |run| run.from);
        for run in &manifest.runs {
            if run.from != to {
                return Err("a part of it is missing");
            }
            to = run.to;
        }
        if manifest.covered != to || manifest.covered > len || !manifest.anchor.holds(disk) {
            return Err("the ledger is not the one that it was made of");
        }
        Ok(manifest)
    }

    /// Puts the manifest in the place of the one before.
    pub fn publish(&self, folder: &Path) -> io::Result<()> {
        let mut text = serde_json::to_vec(self).expect("numbers and names are JSON");
        text.pop();
        let seal = seal_of(&text);
        text.extend_from_slice(seal.as_bytes());
        let draft = folder.join(format!("{NAME}.{:016x}.new", fastrand::u64(..)));
        make(&draft, folder)
            .and_then(|file| write_all(&file, &text, 0))
            .and_then(|()| files::rename(&draft, &folder.join(NAME)))
            .inspect_err(|_| drop(files::remove(&draft)))
    }

    /// Removes the files of a folder that the manifest does not name: what a killed process left, and merged runs.
    pub fn sweep(&self, folder: &Path) -> io::Result<()> {
        for file in fs::read_dir(folder)? {
            let name = file?.file_name();
            let name = name.to_string_lossy();
            let is_ours = name.ends_with(".run") || name.ends_with(".new");
            if is_ours && !self.runs.iter().any(|run| *run.file == *name) {
                files::remove(&folder.join(&*name))?;
            }
        }
        Ok(())
    }
}

impl Anchor {
    /// Returns the anchor of a line.
    pub fn of(at: u64, text: &[u8]) -> Anchor {
        Anchor { at, len: text.len() as u32, sum: crc32fast::hash(text) }
    }

    fn holds(self, disk: &dyn Disk) -> bool {
        let Some(end) = self.at.checked_add(u64::from(self.len) + 1) else { return false };
        let read = read_range(disk, self.at, end);
        read.is_ok_and(|bytes| {
            let (text, end) = bytes.split_at(self.len as usize);
            end == b"\n" && crc32fast::hash(text) == self.sum
        })
    }
}

fn seal_of(text: &[u8]) -> String {
    format!(",\"crc\":\"{:08x}\"}}\n", crc32fast::hash(text))
}
