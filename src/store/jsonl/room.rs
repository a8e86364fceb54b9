//! The disk that is kept beyond the end of a ledger, so that outcomes find room on a full one.

use super::disk::Disk;
use super::place::{failed, is_full};
use crate::store::StoreError;
use std::path::Path;

/// How much disk is kept beyond the end, in bytes: about 4,000 outcomes without bodies.
///
/// Source: the ledger's reference, section 4.7.
const RESERVE: u64 = 2 << 20;
/// How much more is taken at once, so that not every claim has to.
const RESERVE_STEP: u64 = 256 << 10;

/// Keeps disk beyond the `end` of a file. Returns false where that cannot be done.
///
/// `allocated` is how much disk the file certainly has, in bytes; it is looked up where that is not enough.
///
/// # Errors
/// [`StoreError::NoSpace`]: nothing may be claimed.
pub fn reserve(disk: &dyn Disk, end: u64, path: &Path, allocated: &mut u64) -> Result<bool, StoreError> {
    if *allocated < end + RESERVE {
        *allocated = disk.stat().map_err(|error| failed("look at", path, error))?.allocated;
    }
    if *allocated >= end + RESERVE {
        return Ok(true);
    }
    let mut taken = disk.reserve(end, RESERVE + RESERVE_STEP);
    if taken.as_ref().is_err_and(is_full) {
        taken = disk.reserve(end, RESERVE);
    }
    match taken {
        Ok(()) => Ok(true),
        Err(error) if is_full(&error) => Err(failed("keep room in", path, error)),
        Err(_) => Ok(false),
    }
}
