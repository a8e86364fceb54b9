//! Goes on after a loss: what may have been lost counts as in doubt, and what is damaged is set aside.

mod pen;
mod plan;

use self::pen::Pen;
use self::plan::Plan;
use super::Options;
use super::check::Check;
use super::core::twin;
use super::disk::Disk;
use super::finding::Remedy;
use super::journal::Journal;
use super::locks::Locks;
use super::operations::NOT_UNDERSTOOD;
use super::place::Place;
use super::repair::append;
use super::sick::sick;
use super::upkeep;
use crate::engine::entry::owner;
use crate::engine::facts::Owner;
use crate::engine::operation::{IdempotencyKey, PartnerName};
use crate::store::StoreError;
use std::path::Path;
use std::sync::Arc;

/// How many of the lost claims are asked about whether somebody still works on them.
const ASKED_MAX: u64 = 4_096;

/// What accepting a loss came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Accepted {
    /// Operations that are in doubt now: something that was lost may have been about them.
    pub in_doubt: Vec<(PartnerName, IdempotencyKey)>,
    /// Keys that were used and of which nothing else is left. They are refused from now on. Read from damaged lines,
    /// some may be wrong. Without a partner the key is refused for every partner.
    pub lost: Vec<(Option<PartnerName>, IdempotencyKey)>,
    /// The first and the last number of lost claims of which not even the key is left.
    ///
    /// This is what cannot be known any more: a key that one of them used, and that no other line names, looks as if
    /// it had never been used.
    pub unknown: Vec<(u64, u64)>,
    /// How many bytes were set aside in notes.
    pub set_aside: u64,
}

/// Accepts that a part of the ledger is lost, so that it can be used again.
///
/// What is damaged is copied into notes and blanked. Every operation that a lost line may have been about counts as in
/// doubt from now on, except what is proven to have happened. Of two copies that were merged the second is set aside:
/// lines that both have are dropped, and operations that only the second one has are in doubt, whatever it knew of them.
/// This machine's memory takes the file as it is. Nothing is done where nothing was lost.
///
/// # Errors
/// [`StoreError::Sick`]: repair first. [`StoreError::InUse`] while a process works with the ledger.
/// [`StoreError::Damaged`] for lines that are whole and that this version cannot understand: they are not lost.
pub fn accept_loss(path: &Path, options: &Options, owner: &Owner) -> Result<Accepted, StoreError> {
    let place = Place::find(path)?;
    if !options.unsafe_fs {
        place.check_file_system()?;
    }
    // It is not made where it is missing.
    drop(place.open_to_read()?);
    let file = place.open_to_write()?;
    let marked = twin(&place, &file)?;
    let disk: Arc<dyn Disk> = Arc::new(file);
    if Journal::is_blank(&place, &*disk)? {
        return Ok(Accepted::default());
    }
    let mut check = Check::begin(&place, disk.clone(), options)?;
    let locks = Locks::open(&place)?;
    locks.mark(&marked, &place)?;
    let _append = append(&locks)?;
    if sick(&place)?.is_some() {
        return Err(StoreError::Sick { path: place.sick() });
    }
    check.read()?;
    let len = check.settle()?;
    if let Some(finding) = check.findings.iter().find(|finding| finding.kind.remedy() == Remedy::OtherVersion) {
        let (line, byte) = (finding.line, finding.byte);
        return Err(StoreError::Damaged { path: place.ledger().into(), what: NOT_UNDERSTOOD, line, byte });
    }
    if !check.findings.iter().any(|finding| finding.kind.remedy() == Remedy::AcceptLoss) {
        return Ok(Accepted::default());
    }
    refuse_while_in_use(&place, &locks, &check, &*disk)?;
    let plan = Plan::make(&place, &*disk, &check)?;
    // It may cover lines that are blanked now.
    upkeep::remove(&place, &locks)?;
    Pen::new(&place, &*disk, options, &check).write(plan, &check, len, owner)
}

fn refuse_while_in_use(place: &Place, locks: &Locks, check: &Check, disk: &dyn Disk) -> Result<(), StoreError> {
    let known = check.operations.newest_n();
    let lost_to = check.record.map_or(known, |record| record.n.min(known.saturating_add(ASKED_MAX)));
    let rows = check.operations.newest_first(|_| true).into_iter();
    let newest = rows.map(|row| (check.operations.row(row).newest, Some(row)));
    for (n, row) in newest.chain((known + 1..=lost_to).map(|n| (n, None))) {
        if locks.lives(n)? {
            let history = row.and_then(|row| check.operations.history(row, disk).ok());
            let pid = history.as_ref().and_then(owner).map_or(0, |owner| owner.pid);
            return Err(StoreError::InUse { path: place.ledger().into(), n, pid });
        }
    }
    Ok(())
}
