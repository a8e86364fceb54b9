//! What all claims of one open ledger share: the journal under its locks, syncs, and this machine's memory of it.

use super::disk::{Disk, stat_of};
use super::journal::{Journal, Reading};
use super::locks::Locks;
use super::lookup::Trouble;
use super::place::{Place, failed, private, sync_folder};
use super::seen::{Record, Seen};
use super::{Options, blobs};
use crate::engine::facts::StoredBody;
use crate::engine::moment::Timestamp;
use crate::store::format::{Header, VERSION};
use crate::store::{StoreError, Warning};
use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

/// How long the append lock is waited for. Holders only read and write a little under it.
const LOCK_WAIT: Duration = Duration::from_secs(10);

/// How a file becomes a disk; tests put faults in between.
pub type Wrap = fn(File) -> Arc<dyn Disk>;

/// An open ledger.
#[derive(Debug)]
pub struct Core {
    place: Place,
    options: Options,
    wrap: Wrap,
    locks: Locks,
    state: Mutex<State>,
    syncs: AtomicU64,
}

/// What changes while a ledger is open.
#[derive(Debug)]
pub struct State {
    /// The file.
    pub journal: Journal,
    /// Claims up to this one were there when this machine saw the ledger first.
    pub from: u64,
    /// How often the file was replaced: offsets from before mean nothing.
    pub replaced: u64,
    seen: Option<Seen>,
    /// The record was compared with the file.
    compared: bool,
    /// A sync failed: none is ever made again.
    sick: bool,
    no_reserve: bool,
    warnings: Vec<Warning>,
}

impl State {
    /// Keeps a warning for whoever asks.
    pub fn warn(&mut self, warning: Warning) {
        self.warnings.push(warning);
    }
}

impl Core {
    /// Opens a ledger, and makes it where it is missing.
    pub fn open(path: &Path, options: &Options, wrap: Wrap) -> Result<Core, StoreError> {
        let place = Place::find(path)?;
        place.make_folder()?;
        if !options.unsafe_fs {
            place.check_file_system()?;
        }
        let file = place.open_to_write()?;
        let mode = file.metadata().map_or(0, |found| found.permissions().mode() & 0o777);
        let twin = twin(&place, &file)?;
        let disk = wrap(file);
        // Before the lock file is made: a file that is no ledger gets nothing beside it.
        let blank = Journal::is_blank(&place, &*disk)?;
        let mut journal = if blank { None } else { Some(Journal::load(&place, disk.clone())?) };
        let locks = Locks::open(&place)?;
        locks.mark(&twin, &place)?;
        if blank {
            begin(&place, &locks, &*disk, options)?;
        }
        let mut journal = match journal.take() {
            Some(journal) => journal,
            None => Journal::load(&place, disk)?,
        };
        let mut warnings = Vec::new();
        warnings.extend(journal.attach()?.map(|why| Warning::IndexDropped { path: place.index(), why }));
        journal.read_on(Reading::Unlocked)?;
        if mode & 0o077 != 0 {
            warnings.push(Warning::Readable { path: place.ledger().into(), mode });
        }
        let (seen, compared, sick, no_reserve) = (None, false, false, false);
        let state = State { journal, from: 0, replaced: 0, seen, compared, sick, no_reserve, warnings };
        let (options, state, syncs) = (options.clone(), Mutex::new(state), AtomicU64::new(0));
        Ok(Core { place, options, wrap, locks, state, syncs })
    }

    /// Does `work` while nobody else appends, in this process or in another. Where it finds that the index is of no
    /// use, before it has done anything, the whole file is read and `work` done again.
    ///
    /// # Errors
    /// [`StoreError::Locked`] where the lock cannot be had within 10 s; else what `work` gives.
    pub async fn locked<T>(&self, mut work: impl FnMut(&mut State) -> Result<T, Trouble>) -> Result<T, StoreError> {
        let mut waits = Waits::default();
        loop {
            {
                let mut state = self.state();
                let append = self.locks.try_append()?;
                let done = append.is_some().then(|| work(&mut state));
                // The others need not wait while the whole file is read.
                drop(append);
                match done {
                    Some(Ok(done)) => return Ok(done),
                    Some(Err(Trouble::Store(error))) => return Err(error),
                    Some(Err(Trouble::Index(why))) => {
                        state.warn(Warning::IndexDropped { path: self.place.index(), why });
                        state.journal.drop_index();
                        state.journal.read_on(Reading::Unlocked)?;
                        continue;
                    }
                    None => {}
                }
            }
            match waits.next() {
                // Shorter than the runtime's timer can wait; the lock is held for some 20 µs.
                Some(wait) if wait < Duration::from_millis(1) => std::thread::sleep(wait),
                Some(wait) => tokio::time::sleep(wait).await,
                None => return Err(StoreError::Locked { path: self.locks.path().clone(), waited: LOCK_WAIT }),
            }
        }
    }

    /// Brings the journal up to date and mends what a dead writer left. The lock must be held.
    pub fn catch_up(&self, state: &mut State, now: Timestamp) -> Result<(), StoreError> {
        self.follow(state)?;
        let record = if state.compared { None } else { self.record(state) };
        if let Some(record) = &record {
            state.journal.trust(record);
        }
        let damage = state.journal.read_on(Reading::Locked)?;
        if let Some(record) = &record {
            state.journal.check_end(record)?;
            state.from = record.from;
        }
        if !state.compared && record.is_none() {
            self.see_first(state);
        }
        state.compared = true;
        if !damage.is_none() {
            state.warnings.extend(state.journal.mend(&damage, now)?);
        }
        Ok(())
    }

    /// Refuses to claim where a promise could not be held. The lock must be held and the journal up to date.
    pub fn check(&self, state: &State) -> Result<(), StoreError> {
        let path = self.place.sick();
        let sick = state.sick || path.try_exists().map_err(|error| failed("look at", &path, error))?;
        if sick {
            return Err(StoreError::Sick { path });
        }
        state.journal.check()
    }

    /// Keeps room for outcomes; a file system that cannot is noted once.
    pub fn reserve(&self, state: &mut State) -> Result<(), StoreError> {
        if !state.no_reserve && !state.journal.reserve()? {
            state.no_reserve = true;
            state.warnings.push(Warning::NoReserve { path: self.place.ledger().into() });
        }
        Ok(())
    }

    /// Makes everything before `end` durable, once per range: a failed sync is never tried again.
    ///
    /// The other tasks of this process come first: what they have to write goes into the same sync.
    ///
    /// Source: the ledger's reference, section 3.1: after a failed sync the next one says that all is well.
    pub async fn sync(&self, end: u64) -> Result<(), StoreError> {
        tokio::task::yield_now().await;
        let (disk, end) = {
            let state = self.state();
            if state.journal.durable() >= end {
                return Ok(());
            }
            if state.sick {
                return Err(StoreError::Sick { path: self.place.sick() });
            }
            (state.journal.disk().clone(), end.max(state.journal.end()))
        };
        self.syncs.fetch_add(1, Ordering::Relaxed);
        let synced = disk.sync();
        self.note_sync(&mut self.state(), synced, end)
    }

    /// Makes everything that was read durable by a sync of our own. Returns false where none may be made any more.
    pub fn sync_all(&self, state: &mut State) -> Result<bool, StoreError> {
        let end = state.journal.end();
        if state.sick || self.place.sick().exists() {
            return Ok(false);
        }
        if state.journal.own_synced() >= end {
            return Ok(true);
        }
        self.syncs.fetch_add(1, Ordering::Relaxed);
        let synced = state.journal.disk().sync();
        self.note_sync(state, synced, end)?;
        Ok(true)
    }

    fn note_sync(&self, state: &mut State, synced: std::io::Result<()>, end: u64) -> Result<(), StoreError> {
        match synced {
            Ok(()) => {
                state.journal.synced(end);
                Ok(())
            }
            Err(source) => {
                state.sick = true;
                self.tell_sick(&source, state.journal.durable(), end);
                Err(StoreError::Unsynced { path: self.place.ledger().into(), source })
            }
        }
    }

    /// Remembers that claim `n` and everything before `end` are durable.
    pub fn remember(&self, n: u64, end: u64) {
        let mut state = self.state();
        let generation = state.journal.header().generation;
        if let Some(Err(error)) = state.seen.as_ref().map(|seen| seen.advance(generation, n, end)) {
            state.warnings.push(Warning::Unremembered(error));
        }
    }

    /// Puts a body that is too long for a line beside the ledger.
    pub fn outsource(&self, body: &StoredBody) -> Result<Option<StoredBody>, StoreError> {
        match blobs::inline(body) {
            Some(bytes) if blobs::is_long(body) => blobs::keep(&self.place, bytes).map(Some),
            _ => Ok(None),
        }
    }

    /// Returns the locks.
    pub fn locks(&self) -> &Locks {
        &self.locks
    }

    /// Returns where the ledger lies.
    pub fn place(&self) -> &Place {
        &self.place
    }

    /// Returns whether an owner's boot is this machine's.
    pub fn is_this_boot(&self, boot: &str) -> bool {
        !boot.is_empty() && *boot == *self.options.boot
    }

    /// Returns how often the file was synced.
    pub fn syncs(&self) -> u64 {
        self.syncs.load(Ordering::Relaxed)
    }

    /// Takes the warnings.
    pub fn take_warnings(&self) -> Vec<Warning> {
        std::mem::take(&mut self.state().warnings)
    }

    /// Returns what changes, for a look without the append lock.
    pub fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nothing panics while it holds the state")
    }

    /// Opens the file anew where the path names another one: a compaction, or an editor that saved a copy.
    fn follow(&self, state: &mut State) -> Result<(), StoreError> {
        let replaced = || StoreError::Replaced { path: self.place.ledger().into() };
        let there = std::fs::metadata(self.place.ledger()).map_err(|_| replaced())?;
        let ours = state.journal.disk().stat().map_err(|error| failed("look at", self.place.ledger(), error))?;
        if stat_of(&there).identity == ours.identity {
            return Ok(());
        }
        let file = self.place.open_to_write()?;
        self.locks.mark(&file, &self.place)?;
        let disk = (self.wrap)(file);
        let mut journal = Journal::load(&self.place, disk)?;
        let (old, new) = (state.journal.header(), journal.header());
        if old.id != new.id || old.generation > new.generation {
            return Err(replaced());
        }
        let known = state.journal.newest_n();
        let dropped = journal.attach()?;
        state.warnings.extend(dropped.map(|why| Warning::IndexDropped { path: self.place.index(), why }));
        state.journal = journal;
        state.replaced += 1;
        state.journal.read_on(Reading::Unlocked)?;
        state.compared = false;
        if state.journal.newest_n() < known { Err(replaced()) } else { Ok(()) }
    }

    /// Reads what this machine remembers of the ledger; `None` where it remembers nothing.
    fn record(&self, state: &mut State) -> Option<Record> {
        let folder = self.options.state.as_ref()?;
        match Seen::open(folder, &state.journal.header().id) {
            Ok((seen, record)) => {
                state.seen = Some(seen);
                record
            }
            Err(error) => {
                state.warnings.push(Warning::Unremembered(error));
                None
            }
        }
    }

    /// Begins to remember a ledger that others have written.
    fn see_first(&self, state: &mut State) {
        if self.options.state.is_none() {
            return;
        }
        let (n, generation) = (state.journal.newest_n(), state.journal.header().generation);
        state.from = n;
        if n > 0 {
            state.warnings.push(Warning::FirstSeen { path: self.place.ledger().into() });
        }
        let record = Record { generation, n, end: state.journal.durable(), from: n };
        if let Some(Err(error)) = state.seen.as_ref().map(|seen| seen.begin(record)) {
            state.warnings.push(Warning::Unremembered(error));
        }
    }

    /// Tells later processes, to whom the system reports nothing any more.
    fn tell_sick(&self, source: &std::io::Error, from: u64, to: u64) {
        let text =
            serde_json::json!({ "from": from, "to": to, "error": source.to_string(), "boot": self.options.boot });
        // Where it cannot be written, this process still refuses; the error that is returned says what happened.
        drop(
            private(OpenOptions::new().write(true).create(true).truncate(true))
                .open(self.place.sick())
                .and_then(|mut file| writeln!(file, "{text}").and_then(|()| file.sync_all())),
        );
    }
}

/// Makes a blank file a ledger: name durable first, then this machine's memory, then the header.
///
/// A process that sees the header may claim at once, so nothing that a claim needs may come after it.
fn begin(place: &Place, locks: &Locks, disk: &dyn Disk, options: &Options) -> Result<(), StoreError> {
    sync_folder(&place.folder())?;
    let mut waits = Waits::default();
    let _append = loop {
        if let Some(append) = locks.try_append()? {
            break append;
        }
        match waits.next() {
            Some(wait) => std::thread::sleep(wait),
            None => return Err(StoreError::Locked { path: locks.path().clone(), waited: LOCK_WAIT }),
        }
    };
    if !Journal::is_blank(place, disk)? {
        return Ok(());
    }
    let id = format!("{:032x}", fastrand::u128(..));
    // An unwritable state folder warns at the first claim.
    if let Some(state) = &options.state
        && let Ok((seen, None)) = Seen::open(state, &id)
    {
        drop(seen.begin(Record::default()));
    }
    Journal::begin(place, disk, &Header { v: VERSION, id: id.into(), generation: 0 }, options.now)
}

/// Opens the same file description once more: locks that are taken through one hold until both are closed.
pub fn twin(place: &Place, file: &File) -> Result<File, StoreError> {
    file.try_clone().map_err(|error| failed("open", place.ledger(), error))
}

/// How long to wait for a lock, time after time: short at first.
#[derive(Debug, Default)]
struct Waits {
    tries: u32,
    waited: Duration,
}

impl Waits {
    /// Returns the next wait; `None` when [`LOCK_WAIT`] is used up.
    fn next(&mut self) -> Option<Duration> {
        self.tries += 1;
        let wait = match self.tries {
            0..=10 => Duration::from_micros(50),
            11..=20 => Duration::from_millis(1),
            _ => Duration::from_millis(5),
        };
        self.waited += wait;
        (self.waited <= LOCK_WAIT).then_some(wait)
    }
}
