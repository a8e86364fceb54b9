//! What a person decided: a claim that ends with its own line.

use super::claim::{on_file, write};
use super::core::{Core, State};
use super::lookup::Trouble;
use crate::drive::Resolving;
use crate::engine::entry::{Known, owner};
use crate::engine::facts::{Fact, Resolved};
use crate::engine::moment::Now;
use crate::engine::operation::IdempotencyKey;
use crate::engine::resolution::{Ruling, rule};
use crate::store::StoreError;
use std::sync::Arc;

/// What has to be synced before the answer is told: the end of the line, and the claim's number where one was made.
type Told = (Resolving, Option<u64>, u64);

/// Records a person's word.
pub async fn resolve(
    core: &Core,
    key: &IdempotencyKey,
    resolved: &Resolved,
    now: Now,
) -> Result<Resolving, StoreError> {
    let (resolving, n, end) = core.locked(|state| take(core, state, key, resolved, now)).await?;
    // Also what another process wrote is durable before it is reported (P2).
    core.sync(end).await?;
    if let Some(n) = n {
        core.remember(n, end);
    }
    Ok(resolving)
}

fn take(core: &Core, state: &mut State, key: &IdempotencyKey, resolved: &Resolved, now: Now) -> Result<Told, Trouble> {
    core.catch_up(state, now.wall)?;
    core.check(state)?;
    let end = state.journal.end();
    let mut lookup = state.journal.find(key, Some(&resolved.partner))?;
    let Some(operation) = lookup.operations.pop() else {
        return match lookup.lost(Some(&resolved.partner)) {
            Some(n) => Err(StoreError::Lost { key: key.clone(), n }.into()),
            None => Ok((Resolving::Unknown, None, end)),
        };
    };
    let n = state.journal.newest_n() + 1;
    let found = on_file(core, state, operation)?;
    let history = found.operation.history;
    let ruling = rule(Known { history: &history, standing: found.standing }, resolved.verdict);
    Ok(match ruling {
        Ruling::Record => {
            core.reserve(state)?;
            let end = write(state, n, key, &Fact::Resolved(Arc::new(resolved.clone())), None, now)?;
            (Resolving::Recorded(history), Some(n), end)
        }
        Ruling::Already => (Resolving::Already(history), None, end),
        Ruling::Against(proof) => (Resolving::Against(proof, history), None, end),
        Ruling::Busy => (Resolving::Busy(owner(&history).cloned().unwrap_or_default()), None, end),
    })
}
