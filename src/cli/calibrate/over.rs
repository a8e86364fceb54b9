//! `--over`: a run of hours or days, kept while it lasts, so that the same command goes on where it ended.

use super::super::Session;
use super::super::exit::Failure;
use super::super::request::system_words;
use super::keep::{self, Keeper};
use super::settings::Settings;
use abide::engine::moment::Timestamp;
use abide::measure::Tally;
use abide::measure::hlog::{self, Unit};
use std::fmt::Display;
use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;
use url::Url;

/// A run whose last sample is older is not continued: the partner may be another by now.
///
/// Source: the founding article on slow services measures two weeks.
const OLDEST: Duration = Duration::from_secs(14 * 86_400);
/// No part of a path is longer, in bytes.
const NAME_MAX: usize = 100;
/// So many files of one day are looked for a free name.
const MOST_A_DAY: u32 = 1_000;

/// A run that is kept while it lasts.
#[derive(Debug)]
pub struct Long {
    /// Where it is kept.
    pub path: PathBuf,
    /// What was measured before this process.
    pub before: Tally,
    /// How many requests were due before this process.
    pub done: u64,
    file: File,
}

impl Long {
    /// Goes on with a run of the same plan that has not ended, or begins one. Nobody else goes on with it meanwhile.
    ///
    /// # Errors
    /// It cannot be kept, or another process is at it. Nothing was sent.
    pub fn begin(settings: &Settings, session: &Session) -> Result<Long, Failure> {
        let folder = folder(settings, session)?;
        let refuse = |path: &Path, error: io::Error| {
            Failure::local(anyhow::anyhow!("{}: {}", path.display(), system_words(&error)))
                .while_doing("what is measured cannot be kept")
        };
        DirBuilder::new().recursive(true).mode(0o700).create(&folder).map_err(|error| refuse(&folder, error))?;
        let (plan, now) = (plan_of(settings), session.now().wall);
        for path in kept(&folder).map_err(|error| refuse(&folder, error))? {
            let unfinished = || unfinished(&path, &plan, settings, now).map_err(|error| refuse(&path, error));
            if unfinished()?.is_none() {
                continue;
            }
            let mut file = open(OpenOptions::new().append(true), &path).map_err(|error| refuse(&path, error))?;
            lock(&file, &path)?;
            // Who held the lock before may have ended it.
            let Some(Unfinished { before, done, is_whole }) = unfinished()? else { continue };
            if !is_whole {
                // A line that was cut must not spoil the next.
                file.write_all(b"\n").map_err(|error| refuse(&path, error))?;
            }
            return Ok(Long { path, before, done, file });
        }
        let (path, mut file) = create(&folder, now).map_err(|error| refuse(&folder, error))?;
        lock(&file, &path)?;
        let mut header = Vec::new();
        hlog::write_header(&mut header, now).expect("memory takes it");
        hlog::write_note(&mut header, &plan).expect("memory takes it");
        file.write_all(&header).and_then(|()| file.sync_all()).map_err(|error| refuse(&path, error))?;
        Ok(Long { path, before: Tally::default(), done: 0, file })
    }

    /// Returns who adds samples to it; `hlog` is to hold all of them at the end.
    ///
    /// # Errors
    /// `hlog` is there already, or the system has no room for another open file.
    pub fn keeper(&self, hlog: Option<&Path>) -> Result<Keeper, Failure> {
        hlog.map_or(Ok(()), keep::check_name)?;
        let file = self.file.try_clone().map_err(Failure::local)?;
        Ok(Keeper::of(self.path.clone(), file))
    }

    /// Adds what was measured before to `tally`, tells how to go on where `wanted` samples are not there yet, and writes
    /// all of it to `hlog`.
    ///
    /// # Errors
    /// `hlog` cannot be written.
    pub fn end(
        &self,
        tally: &mut Tally,
        wanted: Option<u64>,
        hlog: Option<&Path>,
        session: &Session,
    ) -> Result<(), Failure> {
        tally.join(&self.before);
        let due = tally.ended().saturating_add(tally.missed);
        if let Some(wanted) = wanted.filter(|wanted| due < *wanted) {
            let words = "the same command goes on with the others";
            session.screen.say(&format!("{due} of {wanted} requests are in {}: {words}", self.path.display()));
        }
        hlog.map_or(Ok(()), |hlog| keep::copy(&self.path, hlog, tally, session))
    }

    /// Returns what is said about it before the first request.
    pub fn words(&self, samples: Option<u64>) -> String {
        let path = self.path.display();
        match (self.done, samples) {
            (0, _) => format!("kept in {path}: the same command goes on where this one ends"),
            (done, Some(samples)) => format!("going on: {done} of {samples} requests are in {path} already"),
            (done, None) => format!("going on: {done} requests are in {path} already"),
        }
    }
}

/// A run that has not ended.
struct Unfinished {
    before: Tally,
    done: u64,
    /// Its last line was not cut.
    is_whole: bool,
}

/// Returns what a file holds; `None` where it is another run, or one that has ended or is too old.
fn unfinished(path: &Path, plan: &str, settings: &Settings, now: Timestamp) -> io::Result<Option<Unfinished>> {
    let text = fs::read(path)?;
    let log = hlog::read(&text, Unit::Nanoseconds);
    if log.notes.first().is_none_or(|note| **note != *plan) {
        return Ok(None);
    }
    let Ok(before) = Tally::restored(&log) else { return Ok(None) };
    let done = before.ended().saturating_add(before.missed);
    let has_ended = settings.plan.samples.is_some_and(|samples| done >= samples) || is_old(&before, now);
    Ok((!has_ended).then_some(Unfinished { before, done, is_whole: text.last() == Some(&b'\n') }))
}

/// Returns what makes two runs the same.
fn plan_of(settings: &Settings) -> String {
    let plan = &settings.plan;
    let subject: String = settings.shown.chars().map(|c| if c.is_whitespace() || c == ']' { '_' } else { c }).collect();
    format!(
        "plan={subject} samples={} over_ms={} timeout_ms={}",
        plan.samples.unwrap_or(0),
        settings.over.unwrap_or_default().as_millis(),
        plan.timeout.as_millis()
    )
}

/// Source: latency.md 3.3: `STATE/latency/<partner>/<endpoint>/YYYY-MM-DD.hlog`.
fn folder(settings: &Settings, session: &Session) -> Result<PathBuf, Failure> {
    let method = &settings.subject.policy.method;
    let path = settings.shown.split_once(' ').and_then(|(_, url)| Url::parse(url).ok());
    let path = path.as_ref().map_or("/", |url| url.path());
    let home = session.context.state_home().map_err(|_| {
        let refusal = Failure::usage("--over: there is no home folder to keep what is measured in");
        refusal.hint("set HOME or XDG_STATE_HOME to an absolute path")
    })?;
    let latency = home.join("abide").join("latency");
    Ok(latency.join(name(settings.partner.as_str())).join(name(&format!("{method}{path}"))))
}

/// Returns `text` as the name of a folder.
fn name(text: &str) -> String {
    let legible = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-');
    let name: String = text.chars().map(|c| if legible(c) { c } else { '_' }).take(NAME_MAX).collect();
    if name.starts_with('.') { format!("_{name}") } else { name }
}

/// Returns the runs in a folder, the newest first.
fn kept(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder)?.collect::<io::Result<Vec<_>>>()?;
    let mut paths: Vec<PathBuf> = entries.into_iter().map(|entry| entry.path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "hlog"));
    paths.sort();
    paths.reverse();
    Ok(paths)
}

fn is_old(tally: &Tally, now: Timestamp) -> bool {
    tally.last.is_some_and(|last| now.since(last) > OLDEST)
}

fn open(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    options.mode(0o600).open(path)
}

/// Creates a file that is named after the day.
fn create(folder: &Path, now: Timestamp) -> io::Result<(PathBuf, File)> {
    let day = now.to_string().chars().take(10).collect::<String>();
    for n in 1..=MOST_A_DAY {
        let name = if n == 1 { format!("{day}.hlog") } else { format!("{day}-{n}.hlog") };
        let path = folder.join(name);
        match open(OpenOptions::new().append(true).create_new(true), &path) {
            Ok(file) => return Ok((path, file)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::Error::other("there are too many files of this day"))
}

fn lock(file: &File, path: &Path) -> Result<(), Failure> {
    let failed = |why: &dyn Display| Failure::local(anyhow::anyhow!("{}: {why}", path.display()));
    match file.try_lock() {
        Ok(()) => Ok(()),
        Err(TryLockError::WouldBlock) => {
            Err(failed(&"another process is measuring this already").hint("let it end, or stop it and run this again"))
        }
        // A file system without locks: whoever starts two at once measures twice.
        Err(TryLockError::Error(error)) if error.kind() == io::ErrorKind::Unsupported => Ok(()),
        Err(TryLockError::Error(error)) => Err(failed(&system_words(&error))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_folders_hold_nothing_that_leads_elsewhere() {
        assert_eq!(name("127.0.0.1:8080"), "127.0.0.1_8080");
        assert_eq!(name("GET/orders/*"), "GET_orders__");
        assert_eq!(name("../.."), "_.._..");
        assert_eq!(name(&"x".repeat(300)).len(), NAME_MAX);
    }
}
