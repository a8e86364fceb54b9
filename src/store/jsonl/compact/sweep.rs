//! Bodies beside the ledger that no line names any more, or yet.
//!
//! A writer puts a body there first and under no lock. Then, under the append lock, he looks whether it is still there,
//! and writes the line that names it only if it is; else he keeps it again. So whoever has that lock and has read every
//! line may remove what none of them names, however young it is, and whether its writer lives or not.

use super::held::Held;
use crate::store::StoreError;
use crate::store::jsonl::blobs;
use crate::store::jsonl::place::failed;
use crate::store::jsonl::repair::append;
use crate::store::jsonl::scan::{Next, Piece, Position, scan};
use crate::store::jsonl::sick::sync_names;
use std::collections::BTreeSet;

/// How many bodies are removed under one lock, so that nobody waits long to append.
const BATCH: usize = 64;

/// Removes the bodies that no line names, and drafts. Returns how many there were.
///
/// # Errors
/// As a claim would refuse the ledger, and where a file cannot be removed: nothing is sure about the others then.
pub fn sweep(held: &mut Held<'_>) -> Result<u64, StoreError> {
    // First the names, then the lines: a body that comes later is left to the next sweep, or gets its line.
    let mut unnamed = blobs::all(held.place)?;
    let mut removed = 0;
    if unnamed.is_empty() {
        return Ok(removed);
    }
    // Most of the file is read while others append.
    let mut from = strike(held, held.journal.start(), held.journal.end(), &mut unnamed)?;
    while !unnamed.is_empty() {
        let _append = append(held.locks)?;
        held.catch_up()?;
        from = strike(held, from, held.journal.end(), &mut unnamed)?;
        for _ in 0..BATCH {
            let Some(name) = unnamed.pop_first() else { break };
            removed += u64::from(blobs::remove(held.place, &name)?);
        }
    }
    if removed > 0 {
        sync_names(held.place, &held.place.blobs())?;
    }
    Ok(removed)
}

/// Strikes out the bodies that the lines from `from` to `to` name. Returns how far it came.
fn strike(held: &Held<'_>, from: Position, to: u64, unnamed: &mut BTreeSet<Box<str>>) -> Result<Position, StoreError> {
    let mut each = |piece: Piece<'_>| {
        // What is no line was accepted as lost, or the ledger was refused.
        if let Piece::Line { text, .. } = piece {
            for sha in blobs::named(text) {
                unnamed.remove(sha);
            }
        }
        Next::On
    };
    scan(&**held.journal.disk(), from, to, &mut each).map_err(|error| failed("read", held.place.ledger(), error))
}
