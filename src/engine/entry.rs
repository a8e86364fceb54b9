//! Who may work on an operation that the ledger knows: the rule of every store's claim.
//!
//! A store finds the history under its lock, says what it knows of the newest claim's owner, and does what
//! [`enter`] returns before it lets the lock go.

use super::facts::{Fact, Finished, History, Owner, Predecessor, Recorded};
use super::moment::Timestamp;
use super::operation::Fingerprint;
use super::planted::{Bug, planted};
use super::verdict::{Cause, Evidence, Verdict};

/// What a store knows of the run that the newest claim began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It ended: its `settled` line is there, or the claim is a person's `resolved`.
    Settled,
    /// Its owner lives, by the lock.
    Live,
    /// Its owner is gone, and this machine has not rebooted since: every line that it wrote can be read.
    DeadSameBoot,
    /// Its owner is gone, and lines that it wrote may be gone as well: a reboot, another machine, a copied ledger.
    DeadElsewhere,
}

/// What the ledger has under the key.
#[derive(Clone, Copy, Debug)]
pub struct Known<'a> {
    /// All facts.
    pub history: &'a History,
    /// What is known of the newest run.
    pub standing: Standing,
}

/// What somebody wants to send.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    /// The fingerprint of the payload.
    pub fingerprint: &'a Fingerprint,
    /// Until when the key is trusted if it reaches the partner for the first time now.
    pub key_until: Option<Timestamp>,
    /// Whether an operation that was rejected is tried again: somebody asked for that.
    pub rejected_too: bool,
}

/// What a claim does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// A new operation: write `opened`.
    Open,
    /// An unsettled operation: write `reopened`.
    Reopen {
        /// What is known of the run before.
        predecessor: Predecessor,
        /// A new end of the key's protection, where nothing has reached the partner so far.
        key_until: Option<Timestamp>,
    },
    /// It is decided. Nothing is to be sent.
    Final,
    /// The key was used with another payload. Nothing is to be sent.
    OtherPayload,
    /// A live process is working on it.
    Busy,
}

/// Returns what a claim does with what the ledger has under the key (`None`: nothing).
///
/// Another payload is refused whatever became of the first one, also while its owner lives. Proof of execution ends
/// an operation wherever it stands: a late outcome of an older claim counts (decisions 14). A rejection is tried again
/// only where that is asked for.
pub fn enter(found: Option<Known<'_>>, wanted: Wanted<'_>) -> Entry {
    let Some(Known { history, standing }) = found else {
        return Entry::Open;
    };
    if history.opened().fp != *wanted.fingerprint {
        return Entry::OtherPayload;
    }
    let tried_again = (wanted.rejected_too || planted(Bug::RefusedTriedAgain)) && !is_confirmed(history);
    if is_final(history) && !tried_again {
        return Entry::Final;
    }
    let predecessor = match standing {
        Standing::Live => return Entry::Busy,
        Standing::Settled => Predecessor::Settled,
        Standing::DeadSameBoot if is_accounted(history) => Predecessor::Accounted,
        Standing::DeadElsewhere if planted(Bug::RebootLosesNothing) && is_accounted(history) => Predecessor::Accounted,
        Standing::DeadSameBoot | Standing::DeadElsewhere => Predecessor::InDoubt,
    };
    let untouched = predecessor != Predecessor::InDoubt && nothing_reached_the_partner(history);
    Entry::Reopen { predecessor, key_until: wanted.key_until.filter(|_| untouched) }
}

/// Returns whether an operation is decided: some run proved that it happened, or the newest one ended with a final
/// verdict (a person's word included, which a person may take back).
pub fn is_final(history: &History) -> bool {
    let newest = history.newest_claim();
    is_confirmed(history)
        || history.facts.iter().any(|recorded| recorded.n == newest && verdict(recorded) == Some(Verdict::Rejected))
}

fn is_confirmed(history: &History) -> bool {
    let newest = history.newest_claim();
    history.facts.iter().any(|recorded| match &recorded.fact {
        Fact::Settled(_) if planted(Bug::LateSuccessUnheard) && recorded.n != newest => false,
        Fact::Settled(settled) => settled.verdict == Verdict::Confirmed,
        Fact::Resolved(_) if planted(Bug::WordUnheard) => false,
        Fact::Resolved(resolved) => resolved.verdict == Verdict::Confirmed && recorded.n == newest,
        _ => false,
    })
}

/// Returns whether the newest run ended: with a `settled` line, or as a person's `resolved`.
pub fn is_ended(history: &History) -> bool {
    let newest = history.newest_claim();
    history.facts.iter().any(|recorded| recorded.n == newest && verdict(recorded).is_some())
}

/// Returns whether a send without a key may continue an operation with the same payload (decisions 12).
///
/// What is decided is not continued. What was interrupted before anything was started is due only by its key;
/// while its owner lives, or where its lines may be lost, it counts as started.
pub fn continues_without_key(known: Known<'_>) -> bool {
    let facts = &known.history.facts;
    let started = |recorded: &Recorded| match &recorded.fact {
        Fact::Started(_) => true,
        Fact::Reopened(reopened) => reopened.predecessor == Predecessor::InDoubt,
        _ => false,
    };
    if is_final(known.history) {
        return false;
    }
    match known.standing {
        Standing::Live | Standing::DeadElsewhere => true,
        Standing::DeadSameBoot => facts.iter().any(started),
        Standing::Settled => {
            let interrupted = known.history.settled().is_some_and(|settled| settled.cause == Cause::Interrupted);
            !interrupted || facts.iter().any(started)
        }
    }
}

/// Returns who made the newest claim; `None` where that was a person.
pub fn owner(history: &History) -> Option<&Owner> {
    let newest = history.facts.iter().rev().find(|recorded| recorded.fact.is_claim())?;
    match &newest.fact {
        Fact::Opened(opened) => Some(&opened.owner),
        Fact::Reopened(reopened) => Some(&reopened.owner),
        _ => None,
    }
}

fn verdict(recorded: &Recorded) -> Option<Verdict> {
    match &recorded.fact {
        Fact::Settled(settled) => Some(settled.verdict),
        Fact::Resolved(resolved) => Some(resolved.verdict),
        _ => None,
    }
}

/// Returns whether every attempt that the newest run started is followed by what it came to.
fn is_accounted(history: &History) -> bool {
    let newest = history.newest_claim();
    history.facts.iter().enumerate().all(|(index, recorded)| match &recorded.fact {
        Fact::Started(started) if recorded.n == newest => {
            history.facts[index..].iter().any(|later| finished(later).is_some_and(|finished| finished.a == started.a))
        }
        _ => true,
    })
}

/// Returns whether no byte of any run can have reached the partner, so that the key is still unknown to it.
fn nothing_reached_the_partner(history: &History) -> bool {
    let not_sent = |a: u32| {
        let mut told = history.facts.iter().filter_map(finished).filter(|finished| finished.a == a).peekable();
        told.peek().is_some() && told.all(|finished| finished.evidence == Evidence::NotSent)
    };
    history.facts.iter().all(|recorded| match &recorded.fact {
        Fact::Started(started) => not_sent(started.a),
        Fact::Finished(finished) => finished.evidence == Evidence::NotSent,
        Fact::Settled(settled) => {
            settled.verdict == Verdict::NotDone
                && settled.last.as_ref().is_none_or(|last| last.evidence == Evidence::NotSent)
        }
        Fact::Reopened(reopened) => reopened.predecessor != Predecessor::InDoubt,
        Fact::Resolved(resolved) => resolved.verdict == Verdict::NotDone,
        // A question was asked because something may have arrived.
        Fact::Asked(_) => false,
        Fact::Opened(_) | Fact::Waiting(_) => true,
    })
}

fn finished(recorded: &Recorded) -> Option<&Finished> {
    match &recorded.fact {
        Fact::Finished(finished) => Some(finished),
        Fact::Settled(settled) => settled.last.as_deref(),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
