//! Mends what can be mended without losing anything: a failed sync, and bytes that nobody was told are durable.

use super::Options;
use super::core::{Wrap, twin};
use super::disk::{Disk, read_range, write_all};
use super::files;
use super::finding::{Finding, Kind};
use super::journal::{Journal, Reading};
use super::locks::{Append, Locks};
use super::place::{Place, failed, sync_folder};
use super::seen::Seen;
use crate::store::{StoreError, Warning};
use serde::Deserialize;
use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// How often, and how long, the append lock is waited for: 10 s in all.
const TRIES: u32 = 10_000;
const TRY_WAIT: Duration = Duration::from_millis(1);
/// How much is written again, or compared, at once, in bytes.
const CHUNK: u64 = 1 << 20;
/// What an unbuffered read must be aligned to. Source: open(2), O_DIRECT; no block is longer where it is to be had.
const BLOCK: u64 = 4_096;

/// What a repair did.
#[derive(Debug)]
pub struct Repaired {
    /// The bytes that were written again and synced after a failed sync.
    pub rewritten: Option<(u64, u64)>,
    /// Whether they were read back from the disk itself. False where the file system reads through its cache only.
    pub read_back: bool,
    /// What was set aside, as recovery does it.
    pub set_aside: Vec<Warning>,
}

/// What the file says that a failed sync leaves.
#[derive(Deserialize)]
struct Sick {
    #[serde(default)]
    from: u64,
}

/// Returns the finding that an earlier sync failed.
pub fn sick(place: &Place) -> Result<Option<Finding>, StoreError> {
    let path = place.sick();
    match fs::read(&path) {
        Ok(bytes) => {
            // A file that cannot be understood says as much: all of the ledger may be concerned.
            let byte = serde_json::from_slice(&bytes).map_or(0, |Sick { from }| from);
            Ok(Some(Finding { kind: Kind::Sick, line: 0, byte, len: 0, n: None, key: None }))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(failed("read", &path, error)),
    }
}

/// Writes what a failed sync left in doubt again, syncs it once, compares it with the disk, and removes `.sick`; then
/// sets aside what recovery would: a torn last line, and bytes that nobody was told are durable.
///
/// # Errors
/// [`StoreError::Unsynced`] and [`StoreError::NotPersisted`] where the disk is still bad: `.sick` stays. Damage and loss
/// of what was acknowledged, as a claim would refuse it: that takes [`super::accept_loss`].
pub fn repair(path: &Path, options: &Options) -> Result<Repaired, StoreError> {
    repair_on(path, options, |file| Arc::new(file))
}

/// Repairs a ledger on a disk that tests choose.
pub fn repair_on(path: &Path, options: &Options, wrap: Wrap) -> Result<Repaired, StoreError> {
    let place = Place::find(path)?;
    // It is not made where it is missing.
    drop(place.open_to_read()?);
    let file = place.open_to_write()?;
    let marked = twin(&place, &file)?;
    let disk = wrap(file);
    let mut repaired = Repaired { rewritten: None, read_back: false, set_aside: Vec::new() };
    if Journal::is_blank(&place, &*disk)? {
        return Ok(repaired);
    }
    let mut journal = Journal::load(&place, disk.clone())?;
    let locks = Locks::open(&place)?;
    locks.mark(&marked, &place)?;
    let _append = append(&locks)?;
    if let Some(sick) = sick(&place)? {
        let to = disk.stat().map_err(|error| failed("look at", place.ledger(), error))?.len;
        let from = sick.byte.min(to);
        write_again(&place, &*disk, from, to)?;
        repaired.read_back = is_on_disk(&place, &*disk, from, to)?;
        repaired.rewritten = Some((from, to));
        files::remove(&place.sick()).map_err(|error| failed("remove", &place.sick(), error))?;
        sync_folder(&place.folder())?;
    }
    let record = options.state.as_ref().and_then(|state| Seen::look(state, &journal.header().id));
    if let Some(record) = &record {
        journal.trust(record);
    }
    let damage = journal.read_on(Reading::Locked)?;
    if let Some(record) = &record {
        journal.check_end(record)?;
    }
    if !damage.is_none() {
        repaired.set_aside = journal.mend(&damage, options.now)?;
        disk.sync().map_err(|source| StoreError::Unsynced { path: place.ledger().into(), source })?;
    }
    journal.check()?;
    Ok(repaired)
}

/// Waits for the right to append.
pub fn append(locks: &Locks) -> Result<Append<'_>, StoreError> {
    for _ in 0..TRIES {
        if let Some(append) = locks.try_append()? {
            return Ok(append);
        }
        std::thread::sleep(TRY_WAIT);
    }
    Err(StoreError::Locked { path: locks.path().clone(), waited: TRIES * TRY_WAIT })
}

/// The same bytes make the pages dirty again: a sync after a failed one writes nothing otherwise.
///
/// Source: the ledger's reference, sections 3.1 and 4.4.
fn write_again(place: &Place, disk: &dyn Disk, from: u64, to: u64) -> Result<(), StoreError> {
    let mut at = from;
    while at < to {
        let end = to.min(at + CHUNK);
        let bytes = read_range(disk, at, end).map_err(|error| failed("read", place.ledger(), error))?;
        write_all(disk, &bytes, at).map_err(|error| failed("write", place.ledger(), error))?;
        at = end;
    }
    disk.sync().map_err(|source| StoreError::Unsynced { path: place.ledger().into(), source })
}

/// Compares the file with what the disk itself has. Returns false where the file system cannot be asked.
#[cfg(target_os = "linux")]
fn is_on_disk(place: &Place, disk: &dyn Disk, from: u64, to: u64) -> Result<bool, StoreError> {
    let opened = OpenOptions::new().read(true).custom_flags(nix::libc::O_DIRECT).open(place.ledger());
    // A memory file system has no disk to read from.
    let Ok(direct) = opened else { return Ok(false) };
    let mut room = vec![0; (CHUNK + BLOCK) as usize];
    let start = room.as_ptr().align_offset(BLOCK as usize);
    let aligned = &mut room[start..start + CHUNK as usize];
    let mut at = from / BLOCK * BLOCK;
    while at < to {
        let read = match FileExt::read_at(&direct, aligned, at) {
            Ok(0) => return Err(StoreError::NotPersisted { path: place.ledger().into(), byte: at }),
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => return Ok(false),
            Err(error) => return Err(failed("read the disk under", place.ledger(), error)),
        };
        let end = to.min(at + read as u64);
        let cached = read_range(disk, at, end).map_err(|error| failed("read", place.ledger(), error))?;
        if let Some(index) = cached.iter().zip(aligned.iter()).position(|(ours, theirs)| ours != theirs) {
            return Err(StoreError::NotPersisted { path: place.ledger().into(), byte: at + index as u64 });
        }
        // An unbuffered read must begin at a block again.
        at = if end == to { to } else { end / BLOCK * BLOCK };
    }
    Ok(true)
}

#[cfg(not(target_os = "linux"))]
fn is_on_disk(_place: &Place, _disk: &dyn Disk, _from: u64, _to: u64) -> Result<bool, StoreError> {
    Ok(false)
}
