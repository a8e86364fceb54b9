//! What a person decided: a claim that ends with its own line.

use super::claim::write;
use super::core::{Core, State};
use super::group::{Before, Done};
use super::lookup::Trouble;
use super::wanted::on_file;
use crate::drive::Resolving;
use crate::engine::entry::{Known, owner};
use crate::engine::facts::{Fact, Resolved};
use crate::engine::moment::Now;
use crate::engine::operation::IdempotencyKey;
use crate::engine::resolution::{Ruling, rule};
use crate::store::StoreError;
use std::sync::Arc;

/// Records a person's word.
pub async fn resolve(
    core: &Arc<Core>,
    key: &IdempotencyKey,
    resolved: &Resolved,
    now: Now,
) -> Result<Resolving, StoreError> {
    let (key, resolved) = (key.clone(), resolved.clone());
    core.locked(move |core, state| take(core, state, &key, &resolved, now)).await
}

fn take(
    core: &Core,
    state: &mut State,
    key: &IdempotencyKey,
    resolved: &Resolved,
    now: Now,
) -> Result<Done<Resolving>, Trouble> {
    core.catch_up(state, now.wall)?;
    core.check(state)?;
    let mut lookup = state.journal.find(key, Some(&resolved.partner))?;
    let Some(operation) = lookup.operations.pop() else {
        return match lookup.lost(Some(&resolved.partner)) {
            Some(n) => Err(StoreError::Lost { key: key.clone(), n }.into()),
            None => Ok(Done { value: Resolving::Unknown, before: Before::Synced }),
        };
    };
    let n = state.journal.newest_n() + 1;
    let found = on_file(core, state, operation)?;
    let history = found.operation.history;
    let ruling = rule(Known { history: &history, standing: found.standing }, resolved.verdict);
    // Also what another process wrote is durable before it is reported (P2).
    let mut before = Before::Synced;
    let value = match ruling {
        Ruling::Record => {
            core.reserve(state)?;
            write(state, n, key, &Fact::Resolved(Arc::new(resolved.clone())), None, now)?;
            before = Before::Remembered(n);
            Resolving::Recorded(history)
        }
        Ruling::Already => Resolving::Already(history),
        Ruling::Against(proof) => Resolving::Against(proof, history),
        Ruling::Busy => Resolving::Busy(owner(&history).cloned().unwrap_or_default()),
    };
    Ok(Done { value, before })
}
