//! What all claims of one open ledger share: the journal under its locks, syncs, and this machine's memory of it.

use super::Options;
use super::blobs::{self, Kept};
use super::disk::{Disk, stat_of};
use super::group::Group;
use super::journal::{Journal, Reading};
use super::locks::Locks;
use super::place::{Place, failed};
use super::seen::{Record, Seen};
use super::sick::{is_of_the_disk, sync_name, sync_names, tell_sick};
use super::syncs::{Due, Syncs};
use super::waits::{LOCK_WAIT, Waits};
use crate::engine::facts::StoredBody;
use crate::engine::moment::Timestamp;
use crate::store::format::{Header, VERSION};
use crate::store::{StoreError, Warning};
use std::fs::File;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

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
    syncs: Syncs,
    group: Group,
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
    /// The journal was read to its end under the lock that is held.
    is_fresh: bool,
    /// The file's name is durable: a compaction that put it there may have died before it was.
    is_named: bool,
    /// Nobody has told of a failed sync, as far as was seen under the lock that is held.
    is_well: bool,
    no_reserve: bool,
    warnings: Vec<Warning>,
}

impl State {
    /// Keeps a warning for whoever asks.
    pub fn warn(&mut self, warning: Warning) {
        self.warnings.push(warning);
    }

    /// Notes that the append lock was taken: others may have written before.
    pub fn begin_batch(&mut self) {
        (self.is_fresh, self.is_well) = (false, false);
        self.journal.begin_batch();
    }

    /// Returns what has to be synced so that everything that was read and written is durable.
    pub fn due(&self) -> Due {
        let State { journal, is_named, replaced, .. } = self;
        let (from, to, generation) = (journal.durable(), journal.end(), journal.header().generation);
        Due { disk: journal.disk().clone(), is_named: *is_named, from, to, generation, replaced: *replaced }
    }

    /// Notes that what was due is durable.
    pub fn synced(&mut self, due: &Due) {
        // Else it was the file from before a compaction. The new one has the same lines, durable, at other places.
        if due.is_needed() && due.replaced == self.replaced {
            self.is_named = true;
            self.journal.synced(due.to);
        }
    }
}

impl Core {
    /// Opens a ledger, and makes it where it is missing.
    pub fn open(path: &Path, options: &Options, wrap: Wrap) -> Result<Core, StoreError> {
        let place = Place::find(path)?;
        if !options.unsafe_fs {
            place.check_file_system()?;
        }
        place.make_folder()?;
        let file = place.open_to_write()?;
        let mode = file.metadata().map_or(0, |found| found.permissions().mode() & 0o777);
        let twin = twin(&place, &file)?;
        let disk = wrap(file);
        // Before the lock file is made: a file that is no ledger gets nothing beside it.
        let blank = Journal::is_blank(&place, &*disk)?;
        let mut journal = if blank { None } else { Some(Journal::load(&place, disk.clone())?) };
        let locks = Locks::open(&place)?;
        locks.mark(&twin, &place)?;
        let is_begun = blank && begin(&place, &locks, &*disk, options)?;
        let mut journal = match journal.take() {
            Some(journal) => journal,
            None => Journal::load(&place, disk)?,
        };
        if is_begun {
            journal.synced(journal.end());
        }
        let mut warnings = Vec::new();
        warnings.extend(journal.attach()?.map(|why| Warning::IndexDropped { path: place.index(), why }));
        journal.read_on(Reading::Unlocked)?;
        if mode & 0o077 != 0 {
            warnings.push(Warning::Readable { path: place.ledger().into(), mode });
        }
        let (seen, compared, no_reserve) = (None, false, false);
        let (is_fresh, is_well) = (false, false);
        let (from, replaced, is_named) = (0, 0, false);
        let state =
            State { journal, from, replaced, seen, compared, is_fresh, is_named, is_well, no_reserve, warnings };
        let (options, state, syncs) = (options.clone(), Mutex::new(state), Syncs::default());
        Ok(Core { place, options, wrap, locks, state, syncs, group: Group::default() })
    }

    /// Brings the journal up to date and mends what a dead writer left. The lock must be held.
    pub fn catch_up(&self, state: &mut State, now: Timestamp) -> Result<(), StoreError> {
        if state.is_fresh {
            return Ok(());
        }
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
        // The name of a ledger that was never compacted was made durable before its header.
        if !state.compared {
            state.is_named = record.map_or(0, |record| record.generation) >= state.journal.header().generation;
            if record.is_none() {
                self.see_first(state);
            }
        }
        state.compared = true;
        if state.journal.is_empty() {
            // Its writer may have died before it was durable, and lines without it would be no ledger.
            self.refuse_sick(state)?;
            self.sync_ourselves(state)?;
        }
        if !damage.is_none() {
            state.warnings.extend(state.journal.mend(&damage, now)?);
        }
        state.is_fresh = true;
        Ok(())
    }

    /// Refuses to claim where a promise could not be held. The lock must be held and the journal up to date.
    pub fn check(&self, state: &mut State) -> Result<(), StoreError> {
        self.refuse_sick(state)?;
        state.journal.check()
    }

    fn refuse_sick(&self, state: &mut State) -> Result<(), StoreError> {
        if !state.is_well {
            let path = self.place.sick();
            state.is_well = !path.try_exists().map_err(|error| failed("look at", &path, error))?;
        }
        if state.is_well && !self.syncs.have_failed() { Ok(()) } else { Err(self.sick()) }
    }

    /// Keeps room for outcomes; a file system that cannot is noted once.
    pub fn reserve(&self, state: &mut State) -> Result<(), StoreError> {
        if !state.no_reserve && !state.journal.reserve()? {
            state.no_reserve = true;
            state.warnings.push(Warning::NoReserve { path: self.place.ledger().into() });
        }
        Ok(())
    }

    /// Makes everything that was read and written durable by a sync of our own, whatever others have synced.
    pub fn sync_ourselves(&self, state: &mut State) -> Result<(), StoreError> {
        let due = state.due();
        if state.journal.own_synced() < due.to {
            self.sync_now(&due)?;
            state.is_named = true;
            state.journal.synced(due.to);
        }
        Ok(())
    }

    /// Makes durable what is due, once per range: a failed sync is never tried again. Whoever asks need not hold the
    /// state: what is written meanwhile is left for the next one.
    ///
    /// Source: the ledger's reference, section 3.1: after a failed sync the next one says that all is well.
    pub fn sync(&self, due: &Due) -> Result<(), StoreError> {
        if due.is_needed() { self.sync_now(due) } else { Ok(()) }
    }

    fn sync_now(&self, due: &Due) -> Result<(), StoreError> {
        if self.syncs.have_failed() {
            return Err(self.sick());
        }
        if !due.is_named
            && let Err(error) = sync_names(&self.place, &self.place.folder())
        {
            // A disk that fails may not even take that it did.
            if !matches!(&error, StoreError::Io { source, .. } if !is_of_the_disk(source)) {
                self.syncs.stop();
            }
            return Err(error);
        }
        let tell = |source: &_| tell_sick(&self.place, &self.options.boot, source, (due.from, due.to));
        let synced = self.syncs.sync(&*due.disk, tell).ok_or_else(|| self.sick())?;
        synced.map_err(|source| self.unsynced(source))
    }

    /// Remembers that claim `n` and everything that was due are durable.
    pub fn remember(&self, state: &mut State, n: u64, due: &Due) {
        if let Some(Err(error)) = state.seen.as_ref().map(|seen| seen.advance(due.generation, n, due.to)) {
            state.warnings.push(Warning::Unremembered(error));
        }
    }

    /// Returns the error that something could not be made durable.
    pub fn unsynced(&self, source: std::io::Error) -> StoreError {
        StoreError::Unsynced { path: self.place.ledger().into(), source }
    }

    /// Returns the error that an earlier sync failed.
    pub fn sick(&self) -> StoreError {
        StoreError::Sick { path: self.place.sick() }
    }

    /// Returns the error that the append lock was waited for in vain.
    pub fn locked_for(&self, waited: Duration) -> StoreError {
        StoreError::Locked { path: self.locks.path().clone(), waited }
    }

    /// Returns what the tasks of this process want done.
    pub fn group(&self) -> &Group {
        &self.group
    }

    /// Puts a body that is too long for a line beside the ledger.
    pub fn outsource(&self, body: &StoredBody) -> Result<Option<Kept>, StoreError> {
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
        self.syncs.made()
    }

    /// Takes the warnings.
    pub fn take_warnings(&self) -> Vec<Warning> {
        std::mem::take(&mut self.state().warnings)
    }

    /// Returns what changes, for a look without the append lock.
    pub fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nothing panics while it holds the state")
    }

    /// Returns whether the path still names the file that was read.
    pub fn is_current(&self, state: &State) -> bool {
        let there = std::fs::metadata(self.place.ledger()).map(|found| stat_of(&found).identity);
        let ours = state.journal.disk().stat().map(|found| found.identity);
        there.ok().zip(ours.ok()).is_some_and(|(there, ours)| there == ours)
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
        state.is_named = false;
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
        // Of a file that a compaction put there the name may not be durable yet: the first sync says that it is.
        let record = match generation {
            0 => Record { generation, n, end: state.journal.durable(), from: n },
            _ => Record { generation: 0, n, end: 0, from: n },
        };
        if let Some(Err(error)) = state.seen.as_ref().map(|seen| seen.begin(record)) {
            state.warnings.push(Warning::Unremembered(error));
        }
    }
}

/// Makes a blank file a ledger: name durable first, then this machine's memory, then the header.
///
/// A process that sees the header may claim at once, so nothing that a claim needs may come after it. Returns whether it
/// was done here.
fn begin(place: &Place, locks: &Locks, disk: &dyn Disk, options: &Options) -> Result<bool, StoreError> {
    sync_name(place)?;
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
        return Ok(false);
    }
    let id = format!("{:032x}", fastrand::u128(..));
    // An unwritable state folder warns at the first claim.
    if let Some(state) = &options.state
        && let Ok((seen, None)) = Seen::open(state, &id)
    {
        drop(seen.begin(Record::default()));
    }
    Journal::begin(place, disk, &Header { v: VERSION, id: id.into(), generation: 0 }, options.now)?;
    Ok(true)
}

/// Opens the same file description once more: locks that are taken through one hold until both are closed.
pub fn twin(place: &Place, file: &File) -> Result<File, StoreError> {
    file.try_clone().map_err(|error| failed("open", place.ledger(), error))
}
