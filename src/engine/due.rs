//! Which unsettled operations a batch takes up, and why not the others.

use super::facts::History;
use super::moment::{Now, Timestamp};
use super::planted::{Bug, planted};
use super::policy::Policy;
use super::view::View;
use std::time::Duration;

/// Whether an operation is taken up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    /// Yes.
    Now,
    /// Not before this time, which is later than the run would wait for.
    NotBefore(Timestamp),
    /// No, until somebody decides.
    Not(Obstacle),
}

/// Why an operation is not taken up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Obstacle {
    /// It must not be sent any more, and nobody can be asked about it.
    Expired,
    /// Its key may be forgotten by the partner (`--older` takes it up all the same).
    KeyExpired,
    /// A later write to the same URL is confirmed: it would be undone.
    LaterWrite,
}

impl Obstacle {
    /// Returns the words for people.
    pub const fn words(self) -> &'static str {
        match self {
            Obstacle::Expired => "it is no longer valid, and there is no status endpoint to ask",
            Obstacle::KeyExpired => "the partner may have forgotten its key: --older takes it up",
            Obstacle::LaterWrite => {
                "a later write to the same URL is confirmed: --accept-duplicate sends it all the same"
            }
        }
    }
}

/// What a batch goes by.
#[derive(Clone, Copy, Debug)]
pub struct Batch<'a> {
    /// The rules of the partner; [`Policy::accept_duplicate`] counts.
    pub policy: &'a Policy,
    /// The time.
    pub now: Now,
    /// How long one operation may wait for the time to come back.
    pub patience: Duration,
    /// Take up what is past its key's retention as well (`--older`).
    pub older: bool,
    /// The ledger holds a confirmed write to the same URL that was opened later.
    pub later_write: bool,
}

/// Returns whether a batch takes an operation up that is neither settled for good nor worked on.
///
/// Source: product.md section 3, `replay`; decisions 13 and 16.
pub fn due(history: &History, batch: &Batch<'_>) -> Due {
    let view = View::new(history, batch.policy, batch.now);
    let wall = batch.now.wall;
    let can_ask = batch.policy.status.is_some() && (view.doubt.is_some() || view.accepted);
    if view.expired(wall) && !can_ask {
        return Due::Not(Obstacle::Expired);
    }
    let forgotten = view.key_until().is_some_and(|until| until <= wall);
    if !batch.older && forgotten && !planted(Bug::ForgottenKeyIsDue) {
        return Due::Not(Obstacle::KeyExpired);
    }
    let replaces = matches!(batch.policy.method.as_str(), "PUT" | "PATCH" | "DELETE") && view.unconditional();
    let protected = view.protects(batch.policy, batch.now) || batch.policy.accept_duplicate;
    if batch.later_write && replaces && !protected && !planted(Bug::LaterWriteUndone) {
        return Due::Not(Obstacle::LaterWrite);
    }
    match view.come_back(batch.now) {
        Some(wait) if wait > batch.patience && !planted(Bug::DistantIsDue) => Due::NotBefore(wall.after(wait)),
        _ => Due::Now,
    }
}

#[cfg(test)]
mod tests;
