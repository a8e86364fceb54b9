//! A ledger that is only read: it never makes, mends or alters anything.

use super::disk::Disk;
use super::journal::{Journal, Reading};
use super::locks::Locks;
use super::place::{Place, failed};
use super::seen::Seen;
use super::{Options, operations::Row};
use crate::engine::entry::{Standing, is_ended, is_final, owner};
use crate::engine::facts::{Fact, History};
use crate::engine::operation::{IdempotencyKey, PartnerName};
use crate::engine::verdict::Verdict;
use crate::store::{StoreError, Warning};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// How often, and how long, a reader waits for a writer to finish its line: 250 ms in all.
const TRIES: u32 = 250;
const TRY_WAIT: Duration = Duration::from_millis(1);

/// A ledger as it is at one moment.
#[derive(Debug)]
pub struct Reader {
    journal: Option<Journal>,
    locks: Option<Locks>,
    boot: Box<str>,
    from: u64,
    warnings: Mutex<Vec<Warning>>,
}

/// One operation.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// Its partner.
    pub partner: PartnerName,
    /// Its key.
    pub key: IdempotencyKey,
    /// Its facts.
    pub history: History,
    /// What is known of its newest run.
    pub standing: Standing,
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
        let (boot, from, warnings) = (options.boot.clone(), 0, Mutex::default());
        let mut reader = Reader { journal: None, locks, boot, from, warnings };
        if Journal::is_blank(&place, &*disk)? {
            return Ok(reader);
        }
        let mut journal = Journal::load(&place, disk)?;
        // Before the file is read: what is written meanwhile is no lost end.
        let record = options.state.as_ref().and_then(|state| Seen::look(state, &journal.header().id));
        if let Some(record) = &record {
            journal.trust(record);
        }
        let damage = reader.read(&mut journal)?;
        let told = damage.bad().iter().filter(|bad| bad.from >= journal.durable());
        let mut warnings = damage.warnings(&journal, told);
        warnings.extend(journal.check().err().map(Warning::Unsendable));
        warnings.extend(record.as_ref().and_then(|record| journal.check_end(record).err()).map(Warning::Unsendable));
        if place.sick().exists() {
            warnings.push(Warning::Unsendable(StoreError::Sick { path: place.sick() }));
        }
        // Whoever reports an outcome makes it durable first, also where another process has written it (P2).
        let synced = journal.disk().sync().map_err(|error| failed("sync", place.ledger(), error));
        warnings.extend(synced.err().map(Warning::Unsynced));
        reader.from = match (&record, &options.state) {
            (Some(record), _) => record.from,
            (None, Some(_)) => journal.operations().newest_n(),
            (None, None) => 0,
        };
        reader.journal = Some(journal);
        reader.warnings = Mutex::new(warnings);
        Ok(reader)
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
        let Some(journal) = &self.journal else { return Ok(Vec::new()) };
        let rows = journal.operations().with_key(key).iter();
        let found: Vec<Found> = rows
            .filter(|&&row| partner.is_none_or(|partner| journal.operations().row(row).partner == *partner))
            .map(|&row| self.found(journal, row))
            .collect::<Result<_, _>>()?;
        match journal.operations().lost(partner, key) {
            Some(n) if found.is_empty() => Err(StoreError::Lost { key: key.clone(), n }),
            _ => Ok(found),
        }
    }

    /// Returns every operation, the one claimed last first. One that cannot be read is left out with a warning.
    pub fn list(&self) -> impl Iterator<Item = Found> {
        self.choose(|_| true)
    }

    /// Returns the key of a partner's newest operation that is known to be confirmed, other than `except`.
    pub fn newest_confirmed(&self, partner: &PartnerName, except: &IdempotencyKey) -> Option<IdempotencyKey> {
        let confirmed =
            self.choose(|row| row.is_confirmed() && row.partner == *partner && row.key != *except).find(|found| {
                is_final(&found.history)
                    && found.history.facts.iter().any(|recorded| match &recorded.fact {
                        Fact::Settled(settled) => settled.verdict == Verdict::Confirmed,
                        _ => false,
                    })
            });
        confirmed.map(|found| found.key)
    }

    fn choose(&self, wanted: impl Fn(&Row) -> bool) -> impl Iterator<Item = Found> {
        self.journal.iter().flat_map(move |journal| {
            let rows = journal.operations().newest_first(&wanted);
            rows.into_iter().filter_map(move |row| match self.found(journal, row) {
                Ok(found) => Some(found),
                Err(error) => {
                    let mut warnings = self.warnings.lock().unwrap_or_else(PoisonError::into_inner);
                    warnings.push(Warning::Unreadable(error));
                    None
                }
            })
        })
    }

    fn found(&self, journal: &Journal, row: usize) -> Result<Found, StoreError> {
        let history = journal.history(row)?;
        let Row { partner, key, newest, .. } = journal.operations().row(row);
        let same_boot = || owner(&history).is_some_and(|owner| !owner.boot.is_empty() && owner.boot == self.boot);
        let standing = if is_ended(&history) {
            Standing::Settled
        } else if self.locks.as_ref().map_or(Ok(false), |locks| locks.lives(*newest))? {
            Standing::Live
        } else if *newest > self.from && same_boot() {
            Standing::DeadSameBoot
        } else {
            Standing::DeadElsewhere
        };
        Ok(Found { partner: partner.clone(), key: key.clone(), history, standing })
    }

    /// Reads the file while nobody writes, so that a line which is being written does not look torn.
    fn read(&self, journal: &mut Journal) -> Result<super::journal::Damage, StoreError> {
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
