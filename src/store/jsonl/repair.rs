//! Mends what can be mended without losing anything: a failed sync, and bytes that nobody was told are durable.

use super::Options;
use super::core::{Wrap, twin};
use super::direct::{BLOCK, CHUNK, Direct};
use super::disk::{Disk, read_range, write_all};
use super::journal::{Journal, Reading};
use super::locks::{Append, Locks};
use super::place::{Place, failed};
use super::seen::Seen;
use super::sick::{recover, sick, tell_sick};
use crate::store::{StoreError, Warning};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// How often, and how long, the append lock is waited for: 10 s in all.
const TRIES: u32 = 10_000;
const TRY_WAIT: Duration = Duration::from_millis(1);
/// How much is written past the cache, in bytes: as much as one sync can have failed for, a batch of the longest lines.
const PAST_CACHE_MAX: u64 = 64 << 20;

/// What a repair did.
#[derive(Debug)]
pub struct Repaired {
    /// The bytes that were written again and synced after a failed sync; none where only names were synced again.
    pub rewritten: Option<(u64, u64)>,
    /// Whether they were read back from the disk itself. False where the file system reads through its cache only.
    pub read_back: bool,
    /// What was set aside, as recovery does it.
    pub set_aside: Vec<Warning>,
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
    if !options.unsafe_fs {
        place.check_file_system()?;
    }
    let mut repaired = Repaired { rewritten: None, read_back: false, set_aside: Vec::new() };
    // Of what holds nothing yet, only the name and those of the folders above can be concerned.
    let named =
        || recover(&place).map(|()| Repaired { rewritten: Some((0, 0)), read_back: false, set_aside: Vec::new() });
    match place.open_to_read() {
        // The power was cut before the name of a new ledger was durable: there is nothing else to mend.
        Err(StoreError::Missing { .. }) if sick(&place)?.is_some() => return named(),
        // It is not made where it is missing.
        found => drop(found?),
    }
    let file = place.open_to_write()?;
    let marked = twin(&place, &file)?;
    let disk = wrap(file);
    if Journal::is_blank(&place, &*disk)? {
        return if sick(&place)?.is_some() { named() } else { Ok(repaired) };
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
        recover(&place)?;
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
        disk.sync().map_err(|source| {
            tell_sick(&place, &options.boot, &source, (journal.durable(), journal.end()));
            StoreError::Unsynced { path: place.ledger().into(), source }
        })?;
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

/// What the disk itself has.
enum OnDisk {
    /// What the file says.
    Same,
    /// Something else at this byte.
    Other(u64),
    /// The file system cannot be asked.
    Untold,
}

/// Compares the file with what the disk itself has, and writes what is not there past the cache. Returns false where the
/// file system cannot be asked.
///
/// ext4 can keep taking a block of the reserve for one that was never written, after its first write failed: later
/// writes and syncs of it end well, and what is read without the cache, or after a crash, are zeros.
///
/// Source: Linux 6.18, "failed to convert unwritten extents to written extents -- potential data loss"; `tests/power`.
fn is_on_disk(place: &Place, disk: &dyn Disk, from: u64, to: u64) -> Result<bool, StoreError> {
    let not_there = |byte| StoreError::NotPersisted { path: place.ledger().into(), byte };
    let Some(mut direct) = Direct::open(place.ledger()) else { return Ok(false) };
    let at = match compare(place, disk, &mut direct, (from, to))? {
        OnDisk::Same => return Ok(true),
        OnDisk::Untold => return Ok(false),
        OnDisk::Other(byte) if to - byte > PAST_CACHE_MAX => return Err(not_there(byte)),
        OnDisk::Other(byte) => byte / BLOCK * BLOCK,
    };
    // All of it before the first write: that lets the cache forget whatever it keeps together with what is written.
    let bytes = read_range(disk, at, to).map_err(|error| failed("read", place.ledger(), error))?;
    for (index, part) in bytes.chunks(CHUNK as usize).enumerate() {
        let written = direct.write(part, at + index as u64 * CHUNK);
        written.map_err(|error| failed("write to the disk under", place.ledger(), error))?;
    }
    // Whole blocks were written: the last one may end beyond the end.
    disk.truncate(to).map_err(|error| failed("write", place.ledger(), error))?;
    disk.sync().map_err(|source| StoreError::Unsynced { path: place.ledger().into(), source })?;
    match compare(place, disk, &mut direct, (at, to))? {
        OnDisk::Same => Ok(true),
        OnDisk::Other(byte) => Err(not_there(byte)),
        OnDisk::Untold => Ok(false),
    }
}

/// Compares the bytes from one offset to another, the first rounded down to a block.
fn compare(place: &Place, disk: &dyn Disk, direct: &mut Direct, range: (u64, u64)) -> Result<OnDisk, StoreError> {
    let (mut at, to) = (range.0 / BLOCK * BLOCK, range.1);
    while at < to {
        let theirs = match direct.read(at) {
            Ok([]) => return Ok(OnDisk::Other(at)),
            Ok(theirs) => theirs,
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => return Ok(OnDisk::Untold),
            Err(error) => return Err(failed("read the disk under", place.ledger(), error)),
        };
        let end = to.min(at + theirs.len() as u64);
        let ours = read_range(disk, at, end).map_err(|error| failed("read", place.ledger(), error))?;
        if let Some(index) = ours.iter().zip(theirs).position(|(ours, theirs)| ours != theirs) {
            return Ok(OnDisk::Other(at + index as u64));
        }
        // An unbuffered read must begin at a block again.
        at = if end == to { to } else { end / BLOCK * BLOCK };
    }
    Ok(OnDisk::Same)
}
