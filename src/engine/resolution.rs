//! Whether a person's word about an operation is taken: never against proof.
//!
//! What a person said before may be changed by a person. What the partner said may not.

use super::entry::{Known, Standing, is_final};
use super::facts::{About, Fact, Finished, History, Predecessor, Recorded, Says, Settled};
use super::planted::{Bug, planted};
use super::verdict::{Cause, Evidence, Verdict};
use std::collections::BTreeSet;

/// What becomes of a person's word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ruling {
    /// It is recorded: write `resolved`.
    Record,
    /// The partner has said the same, and the operation is decided. Nothing is written.
    Already,
    /// A live process is working on the operation.
    Busy,
    /// The partner has said otherwise: `Confirmed` or `Rejected`.
    Against(Verdict),
}

/// Returns what becomes of a person's word, `Confirmed`, `Rejected` or `NotDone`.
///
/// What is proven to have happened can only be confirmed. What is proven to be refused cannot be confirmed; it may be
/// called not done, so that it is tried again.
///
/// # Panics
/// On another verdict: nobody decides that something is in doubt.
pub fn rule(known: Known<'_>, word: Verdict) -> Ruling {
    assert!(
        matches!(word, Verdict::Confirmed | Verdict::Rejected | Verdict::NotDone),
        "a person decides, and {word} decides nothing"
    );
    let proof = proven(known.history);
    let against = match proof {
        Some(Verdict::Confirmed) => word != Verdict::Confirmed,
        Some(_) => word == Verdict::Confirmed,
        None => false,
    };
    match (known.standing, proof) {
        (_, Some(proof)) if against && !planted(Bug::WordAgainstProof) => Ruling::Against(proof),
        (Standing::Live, _) => Ruling::Busy,
        (_, Some(proof)) if proof == word && is_final(known.history) => Ruling::Already,
        _ => Ruling::Record,
    }
}

/// Returns what the partner's own words prove, whoever wrote them down: `Confirmed`, `Rejected`, or nothing.
///
/// Persons prove nothing, so that a rejection which follows a doubt that only a person has removed is no proof.
pub fn proven(history: &History) -> Option<Verdict> {
    let mut proof = Proof::default();
    let mut newest = 0;
    for recorded in &history.facts {
        if recorded.fact.is_claim() {
            newest = newest.max(recorded.n);
        }
        proof.fold(recorded, recorded.n == newest);
    }
    if proof.happened {
        return Some(Verdict::Confirmed);
    }
    (proof.refused && !proof.doubt && proof.open.is_empty()).then_some(Verdict::Rejected)
}

#[derive(Default)]
struct Proof {
    happened: bool,
    /// The partner refused it for good.
    refused: bool,
    /// Something may have happened, and no answer has settled it since.
    doubt: bool,
    /// A person has removed a doubt: what a later run concludes rests on that.
    person: bool,
    /// Attempts that no line tells the end of.
    open: BTreeSet<u32>,
}

impl Proof {
    fn fold(&mut self, recorded: &Recorded, current: bool) {
        match &recorded.fact {
            Fact::Started(started) => {
                self.open.insert(started.a);
            }
            Fact::Finished(finished) => self.attempt(finished),
            Fact::Asked(asked) if asked.about == About::Operation => match asked.says {
                Says::Confirmed => self.happened = true,
                Says::Rejected => self.settle(true),
                Says::InProgress | Says::Absent | Says::Unclear => {}
            },
            Fact::Settled(settled) => self.end(settled, current),
            Fact::Reopened(reopened) => self.doubt |= reopened.predecessor == Predecessor::InDoubt,
            Fact::Resolved(_) => self.person |= self.doubt,
            Fact::Opened(_) | Fact::Asked(_) | Fact::Waiting(_) => {}
        }
    }

    fn attempt(&mut self, finished: &Finished) {
        self.open.remove(&finished.a);
        match finished.evidence {
            Evidence::Answered if finished.done == Some(true) => self.happened = true,
            // A stored answer is the answer to the first attempt, and speaks for all.
            Evidence::Answered if finished.replayed => self.settle(true),
            Evidence::Answered => self.refused |= !self.doubt,
            Evidence::Accepted | Evidence::Partial | Evidence::InDoubt => self.doubt = true,
            Evidence::NotSent | Evidence::Refused => {}
        }
    }

    fn end(&mut self, settled: &Settled, current: bool) {
        if let Some(last) = &settled.last {
            self.attempt(last);
        }
        match settled.verdict {
            Verdict::Confirmed => self.happened |= settled.cause != Cause::Person,
            Verdict::InDoubt | Verdict::Accepted => self.doubt = true,
            Verdict::Rejected | Verdict::NotDone if current && !self.person && settled.cause != Cause::Person => {
                self.settle(settled.verdict == Verdict::Rejected);
            }
            Verdict::Rejected | Verdict::NotDone => {}
        }
    }

    fn settle(&mut self, refused: bool) {
        *self = Proof { happened: self.happened, refused, ..Proof::default() };
    }
}

#[cfg(test)]
mod tests;
