//! What the ledger has of the operation that a wish is about. The append lock is held.

use super::core::{Core, State};
use super::lookup::{Operation, Trouble};
use super::reader::Found;
use crate::drive::{EntryRule, Wish};
use crate::engine::entry::{Known, Standing, continues_without_key, is_ended, owner};
use crate::engine::facts::Opened;
use crate::store::StoreError;

/// What the ledger has under a key.
pub struct OnFile {
    /// Its lines.
    pub operation: Operation,
    /// What is known of its newest run.
    pub standing: Standing,
}

/// What a wish is about.
pub enum Wanted {
    There(Box<OnFile>),
    /// Only the claim that used the key is known.
    Lost(u64),
    Absent,
}

/// Finds the operation that the wish is about: by its key, or for a send without one by its payload, newest first.
pub fn wanted(core: &Core, state: &State, wish: &Wish, found: Option<&Found>) -> Result<Wanted, Trouble> {
    let Opened { partner, fp, .. } = &*wish.opened;
    if let Some(found) = found.filter(|found| found.key == wish.key && found.partner == *partner)
        && let Some(operation) = found.traced.still(found, &state.journal)?
    {
        return Ok(Wanted::There(Box::new(on_file(core, state, operation)?)));
    }
    if wish.entry == EntryRule::Keyless {
        let mut same = Vec::new();
        for named in state.journal.undecided(Some((partner, fp)))? {
            let found = state.journal.find_one(partner, &named.key)?;
            same.extend(found.filter(|found| found.history.opened().fp == *fp));
        }
        // A line of an older claim may stand behind a newer claim: only the numbers tell which one is the newest.
        Operation::newest_first(&mut same);
        for operation in same {
            let found = on_file(core, state, operation)?;
            if continues_without_key(Known { history: &found.operation.history, standing: found.standing }) {
                return Ok(Wanted::There(Box::new(found)));
            }
        }
    }
    let mut lookup = state.journal.find(&wish.key, Some(partner))?;
    Ok(match (lookup.operations.pop(), lookup.lost(Some(partner))) {
        (Some(operation), _) => Wanted::There(Box::new(on_file(core, state, operation)?)),
        (None, Some(n)) => Wanted::Lost(n),
        (None, None) => Wanted::Absent,
    })
}

/// Asks the lock whether an operation's owner lives. The append lock is held.
pub fn on_file(core: &Core, state: &State, operation: Operation) -> Result<OnFile, StoreError> {
    let Operation { newest, history, .. } = &operation;
    let standing = if is_ended(history) {
        Standing::Settled
    } else if core.locks().lives(*newest)? {
        Standing::Live
    } else if *newest > state.from && owner(history).is_some_and(|owner| core.is_this_boot(&owner.boot)) {
        Standing::DeadSameBoot
    } else {
        Standing::DeadElsewhere
    };
    Ok(OnFile { operation, standing })
}
