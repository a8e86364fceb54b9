//! `--hlog`: what is measured, written to a file while it is.

use super::super::Session;
use super::super::exit::Failure;
use super::super::request::system_words;
use abide::engine::moment::Timestamp;
use abide::engine::suggest::sample::Taken;
use abide::measure::recording::Slice;
use abide::measure::{Tally, hgrm, hlog};
use std::fmt::Display;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// What is lost with this machine at most.
///
/// Source: latency.md 3.2 asks for 5 minutes; a line stands for a minute.
const WRITE_EVERY: Duration = Duration::from_secs(60);
/// So many samples are written without waiting for that.
const MOST_UNWRITTEN: usize = 1_000;

/// A file that samples are added to.
#[derive(Debug)]
pub struct Keeper {
    path: PathBuf,
    file: File,
    slice: Slice,
    /// How many requests were known to be missed.
    missed: u64,
    written: Instant,
    /// Why nothing is written any more.
    failed: Option<io::Error>,
}

impl Keeper {
    /// Begins a new file.
    ///
    /// # Errors
    /// There is one of that name, or it cannot be written. Nothing was sent.
    pub fn create(path: &Path, session: &Session) -> Result<Keeper, Failure> {
        let refuse = |path: &Path, why: &dyn Display| Failure::usage(format!("--hlog {}: {why}", path.display()));
        let beside = hgrm_of(path);
        if beside == path {
            return Err(refuse(path, &"this name is for the percentiles beside it").hint("let it end in .hlog"));
        }
        let there = |path: &Path| {
            refuse(path, &"it is there already, and is not overwritten")
                .hint("name another file; --samples-file hlog:FILE reads what was measured before")
        };
        if fs::symlink_metadata(&beside).is_ok() {
            return Err(there(&beside));
        }
        let file = OpenOptions::new().append(true).create_new(true).open(path).map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => there(path),
            _ => refuse(path, &system_words(&error)),
        })?;
        let mut header = Vec::new();
        hlog::write_header(&mut header, session.now().wall).expect("memory takes it");
        let mut keeper = Keeper::of(path.to_owned(), file);
        keeper.file.write_all(&header).map_err(|error| refuse(path, &system_words(&error)))?;
        Ok(keeper)
    }

    fn of(path: PathBuf, file: File) -> Keeper {
        Keeper { path, file, slice: Slice::default(), missed: 0, written: Instant::now(), failed: None }
    }

    /// Adds a sample; `tally` has counted it.
    pub fn add(&mut self, tally: &Tally, taken: &Taken, at: Timestamp) {
        self.slice.add(taken, at);
        self.slice.miss(tally.missed - self.missed);
        self.missed = tally.missed;
        if self.slice.len() >= MOST_UNWRITTEN || self.written.elapsed() >= WRITE_EVERY {
            self.write();
        }
    }

    /// Writes what is not written yet. After a failure nothing more is: half a line would spoil the next.
    fn write(&mut self) {
        self.written = Instant::now();
        let mut lines = Vec::new();
        self.slice.write(&mut lines).expect("memory takes it");
        if self.failed.is_none() && !lines.is_empty() {
            let written = self.file.write_all(&lines).and_then(|()| self.file.sync_data());
            self.failed = written.err();
        }
    }

    /// Writes the rest, and the percentiles beside it.
    ///
    /// # Errors
    /// Something could not be written, now or before.
    pub fn finish(mut self, tally: &Tally, session: &Session) -> Result<(), Failure> {
        self.slice.miss(tally.missed - self.missed);
        self.missed = tally.missed;
        self.write();
        let failed = |path: &Path, error: io::Error| {
            Failure::local(error).while_doing(format!("what was measured is shown, but not in {}", path.display()))
        };
        if let Some(error) = self.failed {
            return Err(failed(&self.path, error));
        }
        let beside = hgrm_of(&self.path);
        write_hgrm(&beside, tally).map_err(|error| failed(&beside, error))?;
        session.screen.talk(&format!("{}, {}: written", self.path.display(), beside.display()));
        if tally.read.censored().samples() > 0 {
            let words = "it has no room for what was given up: its percentiles are those of the answers alone";
            session.screen.warn(&format!("{}: {words}", beside.display()));
        }
        Ok(())
    }
}

fn hgrm_of(path: &Path) -> PathBuf {
    path.with_extension("hgrm")
}

fn write_hgrm(path: &Path, tally: &Tally) -> io::Result<()> {
    let mut lines = Vec::new();
    hgrm::write(&mut lines, tally.read.events())?;
    OpenOptions::new().write(true).create_new(true).open(path)?.write_all(&lines)
}
