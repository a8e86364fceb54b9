//! `--hlog`: what is measured, written to a file while it is.

use super::super::exit::Failure;
use super::super::request::system_words;
use super::super::{Session, output};
use abide::engine::moment::Timestamp;
use abide::engine::suggest::sample::Taken;
use abide::measure::recording::Slice;
use abide::measure::{Tally, hgrm, hlog};
use std::fmt::Display;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
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
        check_name(path)?;
        let refuse = |why: &dyn Display| Failure::usage(format!("--hlog {}: {why}", path.display()));
        let file = begun(path);
        let mut header = Vec::new();
        hlog::write_header(&mut header, session.now().wall).expect("memory takes it");
        let mut keeper = Keeper::of(path.to_owned(), file.map_err(|error| refuse(&system_words(&error)))?);
        keeper.file.write_all(&header).map_err(|error| refuse(&system_words(&error)))?;
        Ok(keeper)
    }

    /// Returns one that adds to a file that has been begun.
    pub fn of(path: PathBuf, file: File) -> Keeper {
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
    pub fn finish(self, tally: &Tally, session: &Session) -> Result<(), Failure> {
        let path = self.path.clone();
        self.flush(tally)?;
        publish(&path, tally, session)
    }

    /// Writes the rest.
    ///
    /// # Errors
    /// Something could not be written, now or before.
    pub fn flush(mut self, tally: &Tally) -> Result<(), Failure> {
        self.slice.miss(tally.missed - self.missed);
        self.missed = tally.missed;
        self.write();
        self.failed.map_or(Ok(()), |error| Err(unwritten(&self.path, error)))
    }
}

/// Refuses the name of a file that is there already, or whose percentiles would be.
///
/// # Errors
/// It is; nothing was sent.
pub fn check_name(path: &Path) -> Result<(), Failure> {
    let refuse = |path: &Path, why: &str| Failure::usage(format!("--hlog {}: {why}", path.display()));
    let beside = hgrm_of(path);
    if beside == path {
        return Err(refuse(path, "this name is for the percentiles beside it").hint("let it end in .hlog"));
    }
    output::check("--hlog", path)?;
    for path in [path, &beside] {
        if fs::symlink_metadata(path).is_ok() {
            return Err(refuse(path, "it is there already, and is not overwritten")
                .hint("name another file; --samples-file hlog:FILE reads what was measured before"));
        }
    }
    Ok(())
}

/// Writes what a run was kept as into a file of the user's.
///
/// # Errors
/// It cannot be read or written.
pub fn copy(from: &Path, to: &Path, tally: &Tally, session: &Session) -> Result<(), Failure> {
    let copied = fs::read(from).and_then(|text| begun(to)?.write_all(&text));
    copied.map_err(|error| unwritten(to, error))?;
    publish(to, tally, session)
}

/// Writes the percentiles beside a file, and says so.
fn publish(path: &Path, tally: &Tally, session: &Session) -> Result<(), Failure> {
    let beside = hgrm_of(path);
    write_hgrm(&beside, tally).map_err(|error| unwritten(&beside, error))?;
    session.screen.talk(&format!("{}, {}: written", path.display(), beside.display()));
    if tally.read.censored().samples() > 0 {
        let words = "it has no room for what was not answered: its percentiles are those of the answers alone";
        session.screen.warn(&format!("{}: {words}", beside.display()));
    }
    Ok(())
}

fn unwritten(path: &Path, error: io::Error) -> Failure {
    Failure::local(error).while_doing(format!("what was measured is shown, but not in {}", path.display()))
}

fn hgrm_of(path: &Path) -> PathBuf {
    path.with_extension("hgrm")
}

fn write_hgrm(path: &Path, tally: &Tally) -> io::Result<()> {
    let mut lines = Vec::new();
    hgrm::write(&mut lines, tally.read.events())?;
    begun(path)?.write_all(&lines)
}

/// Begins a new file. How fast partners answer is nobody else's business.
fn begun(path: &Path) -> io::Result<File> {
    OpenOptions::new().append(true).create_new(true).mode(0o600).open(path)
}
