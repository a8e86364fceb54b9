//! The facts of one operation in their order.

use super::{Fact, Opened, Settled};
use crate::engine::moment::{Moment, Timestamp};
use std::sync::Arc;

/// A fact with its place in the ledger.
#[derive(Clone, Debug, PartialEq)]
pub struct Recorded {
    /// The claim that it belongs to: numbered over the whole ledger, from 1.
    pub n: u64,
    /// When it was written, by the wall clock.
    pub at: Timestamp,
    /// When it was written, by the clock of this process; `None` for facts of other processes.
    pub steady: Option<Moment>,
    /// What happened.
    pub fact: Fact,
}

/// The facts of one operation, oldest first.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct History {
    /// The facts.
    pub facts: Vec<Recorded>,
}

impl History {
    /// Returns what was claimed first.
    ///
    /// # Panics
    /// On an empty history: a store never hands one out.
    pub fn opened(&self) -> &Arc<Opened> {
        self.facts
            .iter()
            .find_map(|recorded| match &recorded.fact {
                Fact::Opened(opened) => Some(opened),
                _ => None,
            })
            .expect("the first fact of an operation is `opened`")
    }

    /// Returns the number of the newest claim; 0 for an empty history.
    pub fn newest_claim(&self) -> u64 {
        self.facts.iter().filter(|recorded| recorded.fact.is_claim()).map(|recorded| recorded.n).max().unwrap_or(0)
    }

    /// Returns how the newest claim ended, if it did.
    pub fn settled(&self) -> Option<&Settled> {
        let n = self.newest_claim();
        self.facts.iter().rev().filter(|recorded| recorded.n == n).find_map(|recorded| match &recorded.fact {
            Fact::Settled(settled) => Some(&**settled),
            _ => None,
        })
    }

    /// Returns how many attempts were counted so far, over all runs.
    pub fn last_attempt(&self) -> u32 {
        let number = |recorded: &Recorded| match &recorded.fact {
            Fact::Started(started) => Some(started.a),
            Fact::Finished(finished) => Some(finished.a),
            Fact::Settled(settled) => settled.last.as_ref().map(|last| last.a),
            _ => None,
        };
        self.facts.iter().filter_map(number).max().unwrap_or(0)
    }
}
