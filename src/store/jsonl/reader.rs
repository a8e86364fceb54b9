//! A ledger that is only read: it never makes, mends or alters anything. Where the disk fails it says so beside the
//! ledger.

use super::Options;
use super::damage::Damage;
use super::disk::{Disk, stat_of};
use super::journal::{Journal, Reading};
use super::known::{Extent, Traced};
use super::locks::Locks;
use super::lookup::{Operation, Trouble};
use super::operations::Operations;
use super::place::{Place, failed};
use super::seen::{Record, Seen};
use super::sick::{is_of_the_disk, sync_names, tell_sick};
use crate::engine::entry::{Standing, is_ended, is_final, owner};
use crate::engine::facts::History;
use crate::engine::operation::{IdempotencyKey, PartnerName};
use crate::store::{StoreError, Warning};
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

/// How often, and how long, a reader waits for a writer to finish its line: 250 ms in all.
const TRIES: u32 = 250;
const TRY_WAIT: Duration = Duration::from_millis(1);

/// How often a file is read again at most, because somebody wrote while it was looked at.
const LOOKS_MAX: u32 = 16;

/// A ledger as it is at one moment.
#[derive(Debug)]
pub struct Reader {
    journal: Option<Journal>,
    /// The journal as it is read without its index, where that turned out to be of no use.
    whole: OnceLock<Journal>,
    /// All operations, where somebody asks for them.
    all: OnceLock<Operations>,
    /// How far the file was read, also where more of it was read later; `None` for a blank one.
    extent: Option<Arc<Extent>>,
    record: Option<Record>,
    locks: Option<Locks>,
    place: Place,
    options: Options,
    /// The file's length when it was read.
    len: u64,
    /// How often it was read again because somebody wrote meanwhile.
    looks: AtomicU32,
    from: u64,
    warnings: Mutex<Vec<Warning>>,
}

/// One operation. Two are the same where they say the same, wherever that was read.
#[derive(Clone, Debug)]
pub struct Found {
    /// Its partner.
    pub partner: PartnerName,
    /// Its key.
    pub key: IdempotencyKey,
    /// Its facts.
    pub history: History,
    /// What is known of its newest run.
    pub standing: Standing,
    /// Where it was read.
    pub(super) traced: Traced,
}

impl PartialEq for Found {
    fn eq(&self, other: &Found) -> bool {
        let Found { partner, key, history, standing, traced: _ } = self;
        *partner == other.partner && *key == other.key && *history == other.history && *standing == other.standing
    }
}

impl Reader {
    /// Reads a ledger. An empty file is one without operations.
    ///
    /// # Errors
    /// [`StoreError::Missing`], and what [`super::Jsonl::open`] refuses except network file systems. Damage is a
    /// warning: what can be read is shown.
    pub fn open(path: &Path, options: &Options) -> Result<Reader, StoreError> {
        let place = Place::find(path)?;
        let disk: Arc<dyn Disk> = Arc::new(place.open_to_read()?);
        let locks = Locks::open_to_read(&place)?;
        let len = disk.stat().map_err(|error| failed("look at", place.ledger(), error))?.len;
        let mut reader = Reader {
            journal: None,
            whole: OnceLock::new(),
            all: OnceLock::new(),
            extent: None,
            record: None,
            locks,
            place: place.clone(),
            options: options.clone(),
            len,
            looks: AtomicU32::new(0),
            from: 0,
            warnings: Mutex::default(),
        };
        if Journal::is_blank(&place, &*disk)? {
            return Ok(reader);
        }
        let mut journal = Journal::load(&place, disk)?;
        // Before the file is read: what is written meanwhile is no lost end.
        reader.record = options.state.as_ref().and_then(|state| Seen::look(state, &journal.header().id));
        let mut warnings = Vec::new();
        warnings.extend(journal.attach()?.map(|why| Warning::IndexDropped { path: place.index(), why }));
        warnings.extend(reader.read(&mut journal)?);
        warnings
            .extend(reader.record.as_ref().and_then(|record| journal.check_end(record).err()).map(Warning::Unsendable));
        warnings.extend(reader.sync(&place, &journal));
        reader.from = match (&reader.record, &options.state) {
            (Some(record), _) => record.from,
            (None, Some(_)) => journal.newest_n(),
            (None, None) => 0,
        };
        reader.extent = Some(Arc::new(Extent::of(&journal)));
        reader.journal = Some(journal);
        reader.warnings = Mutex::new(warnings);
        Ok(reader)
    }

    /// Makes what was read durable: whoever reports an outcome does so first, also where another process has written it
    /// (P2). Never after a sync that failed, and if this one does, the next process hears of it. Returns why what is
    /// shown may not be durable.
    fn sync(&self, place: &Place, journal: &Journal) -> Option<Warning> {
        if place.sick().exists() {
            return Some(Warning::Unsendable(StoreError::Sick { path: place.sick() }));
        }
        if let Err(source) = journal.disk().sync() {
            if is_of_the_disk(&source) {
                tell_sick(place, &self.options.boot, &source, (journal.durable(), journal.end()));
            }
            return Some(Warning::Unsynced(failed("sync", place.ledger(), source)));
        }
        let is_named = self.record.map_or(0, |record| record.generation) >= journal.header().generation;
        if is_named { None } else { sync_names(place, &place.folder()).err().map(Warning::Unsynced) }
    }

    /// Takes what was noticed since the last call; each to be shown once.
    pub fn warnings(&self) -> Vec<Warning> {
        std::mem::take(&mut *self.warnings.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns the operations with a key: of one partner, or of every partner that has it.
    ///
    /// # Errors
    /// [`StoreError::Damaged`] where one of them cannot be read, [`StoreError::Lost`] where only the key is left: it must
    /// not look absent.
    pub fn find(&self, key: &IdempotencyKey, partner: Option<&PartnerName>) -> Result<Vec<Found>, StoreError> {
        let Some(lookup) = self.ask(|journal| journal.find(key, partner))? else { return Ok(Vec::new()) };
        match lookup.lost(partner) {
            Some(n) if lookup.operations.is_empty() => Err(StoreError::Lost { key: key.clone(), n }),
            _ => lookup.operations.into_iter().map(|operation| self.found(operation)).collect(),
        }
    }

    /// Returns every operation, the one claimed last first. One that cannot be read is left out with a warning.
    ///
    /// The whole file is read for it.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn list(&self) -> Result<impl Iterator<Item = Found>, StoreError> {
        let all = self.all()?;
        let rows = all.map(|(_, all)| all.newest_first(|_| true)).unwrap_or_default();
        Ok(rows.into_iter().filter_map(move |row| {
            let (journal, all) = all?;
            let history = all
                .history(row, &**journal.disk())
                .map_err(|span| journal.bad_line(span.offset, "the line is not what was written"));
            let row = all.row(row);
            let whose = (&row.partner, &row.key);
            let opened_at = row.spans[0].offset;
            let found = history.and_then(|history| self.stands(whose, history, row.newest, opened_at));
            self.or_warn(found)
        }))
    }

    /// Returns the operations that have no final verdict, the one claimed last first. One that cannot be read is left
    /// out with a warning.
    ///
    /// They are found in the index: how many others there are makes no difference.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn undecided(&self) -> Result<impl Iterator<Item = Found>, StoreError> {
        let named = self.ask(|journal| journal.undecided(None))?.unwrap_or_default();
        let mut all = Vec::with_capacity(named.len());
        for one in named {
            match self.ask(|journal| journal.find(&one.key, one.partner.as_ref())) {
                Ok(lookup) => all.extend(lookup.map(|lookup| lookup.operations).unwrap_or_default()),
                Err(error) => self.warn(Warning::Unreadable(error)),
            }
        }
        all.retain(|operation| !is_final(&operation.history));
        Operation::newest_first(&mut all);
        all.dedup_by_key(|operation| operation.newest);
        let found = all.into_iter().filter_map(|operation| self.or_warn(self.found(operation)));
        Ok(found.filter(|found| !is_final(&found.history)))
    }

    /// Returns the key of a partner's operation that was confirmed last, other than `except`. What cannot be read is
    /// none.
    pub fn newest_confirmed(&self, partner: &PartnerName, except: &IdempotencyKey) -> Option<IdempotencyKey> {
        let confirmed = self.ask(|journal| journal.newest_confirmed(partner, except)).ok()??;
        confirmed.map(|operation| operation.key)
    }

    /// Looks something up, and once more without the index where that is of no use; `None` in a blank file.
    fn ask<T>(&self, look: impl Fn(&Journal) -> Result<T, Trouble>) -> Result<Option<T>, StoreError> {
        let Some(journal) = self.journal() else { return Ok(None) };
        let trouble = match look(journal) {
            Ok(found) => return Ok(Some(found)),
            Err(trouble) => trouble,
        };
        let why = match trouble {
            Trouble::Store(error) => return Err(error),
            Trouble::Index(why) => why,
        };
        let mut whole = Journal::load(journal.place(), journal.disk().clone())?;
        let warnings = self.read(&mut whole)?;
        self.warn(Warning::IndexDropped { path: journal.place().index(), why });
        warnings.into_iter().for_each(|warning| self.warn(warning));
        let whole = self.whole.get_or_init(|| whole);
        match look(whole) {
            Ok(found) => Ok(Some(found)),
            Err(Trouble::Store(error)) => Err(error),
            Err(Trouble::Index(why)) => unreachable!("no index was used: {why}"),
        }
    }

    fn journal(&self) -> Option<&Journal> {
        self.whole.get().or(self.journal.as_ref())
    }

    fn all(&self) -> Result<Option<(&Journal, &Operations)>, StoreError> {
        let Some(journal) = self.journal() else { return Ok(None) };
        if self.all.get().is_none() {
            drop(self.all.set(journal.all()?));
        }
        Ok(self.all.get().map(|all| (journal, all)))
    }

    fn found(&self, operation: Operation) -> Result<Found, StoreError> {
        let Operation { partner, key, history, newest, opened_at, .. } = operation;
        self.stands((&partner, &key), history, newest, opened_at)
    }

    fn stands(
        &self,
        (partner, key): (&PartnerName, &IdempotencyKey),
        history: History,
        newest: u64,
        opened_at: u64,
    ) -> Result<Found, StoreError> {
        let same_boot =
            || owner(&history).is_some_and(|owner| !owner.boot.is_empty() && owner.boot == self.options.boot);
        let standing = if is_ended(&history) {
            Standing::Settled
        } else if self.locks.as_ref().map_or(Ok(false), |locks| locks.lives(newest))? {
            Standing::Live
        } else if let Some(later) = self.look_again(partner, key)? {
            return Ok(later);
        } else if newest > self.from && same_boot() {
            Standing::DeadSameBoot
        } else {
            Standing::DeadElsewhere
        };
        let extent = self.extent.clone().expect("nothing is found in a blank file");
        let traced = Traced { extent, opened_at };
        Ok(Found { partner: partner.clone(), key: key.clone(), history, standing, traced })
    }

    /// Reads an operation again whose owner is gone, if somebody has written since: he may have ended it before. What he
    /// wrote was there when he let go.
    fn look_again(&self, partner: &PartnerName, key: &IdempotencyKey) -> Result<Option<Found>, StoreError> {
        let looks = self.looks.fetch_add(1, Ordering::Relaxed);
        if looks >= LOOKS_MAX || self.is_current() {
            return Ok(None);
        }
        let later = Reader::open(self.place.ledger(), &self.options)?;
        later.looks.store(looks + 1, Ordering::Relaxed);
        let found = later.find(key, Some(partner))?.pop();
        later.warnings().into_iter().for_each(|warning| self.warn(warning));
        Ok(found)
    }

    /// Returns whether the file is the one that was read, and no longer.
    fn is_current(&self) -> bool {
        let there = std::fs::metadata(self.place.ledger()).map(|found| stat_of(&found)).ok();
        let ours = self.journal().and_then(|journal| journal.disk().stat().ok());
        there.zip(ours).is_some_and(|(there, ours)| there.identity == ours.identity && there.len == self.len)
    }

    fn or_warn(&self, found: Result<Found, StoreError>) -> Option<Found> {
        found.map_err(|error| self.warn(Warning::Unreadable(error))).ok()
    }

    fn warn(&self, warning: Warning) {
        self.warnings.lock().unwrap_or_else(PoisonError::into_inner).push(warning);
    }

    /// Reads a journal, and returns what is wrong with it.
    fn read(&self, journal: &mut Journal) -> Result<Vec<Warning>, StoreError> {
        if let Some(record) = &self.record {
            journal.trust(record);
        }
        let damage = self.read_on(journal)?;
        let told = damage.bad().iter().filter(|bad| bad.from >= journal.durable());
        let mut warnings = damage.warnings(journal, told);
        warnings.extend(journal.check().err().map(Warning::Unsendable));
        Ok(warnings)
    }

    /// Reads the file while nobody writes, so that a line which is being written does not look torn.
    fn read_on(&self, journal: &mut Journal) -> Result<Damage, StoreError> {
        let Some(locks) = &self.locks else { return journal.read_on(Reading::Locked) };
        for _ in 0..TRIES {
            if let Some(_append) = locks.try_read()? {
                return journal.read_on(Reading::Locked);
            }
            std::thread::sleep(TRY_WAIT);
        }
        // A stopped writer holds the lock: what is whole is shown, the rest is not judged.
        journal.read_on(Reading::Unlocked)
    }
}
