//! What was promised, and to be kept through every power cut.

use abide::engine::entry::is_final;
use abide::engine::facts::{Fact, History, Recorded};
use abide::engine::verdict::Verdict;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What somebody was told, or what left on the word of the ledger.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Promise {
    /// The first byte of claim `n` left.
    Sent { name: String, n: u64 },
    /// It was reported how claim `n` ended: by whoever did it, or by whoever read it.
    Told { name: String, n: u64, verdict: Verdict },
    /// Nothing any more: from now on the operation may be forgotten.
    Nothing { name: String },
}

impl Promise {
    fn name(&self) -> &str {
        match self {
            Promise::Sent { name, .. } | Promise::Told { name, .. } | Promise::Nothing { name } => name,
        }
    }
}

/// Returns what somebody is told who is shown a history.
pub fn told<'a>(name: &'a str, history: &'a History) -> impl Iterator<Item = Promise> + 'a {
    let ended = history.facts.iter().filter_map(|recorded| verdict(recorded).map(|verdict| (recorded.n, verdict)));
    ended.map(|(n, verdict)| Promise::Told { name: name.into(), n, verdict })
}

fn verdict(recorded: &Recorded) -> Option<Verdict> {
    match &recorded.fact {
        Fact::Settled(settled) => Some(settled.verdict),
        Fact::Resolved(resolved) => Some(resolved.verdict),
        _ => None,
    }
}

/// Promises by the names of their operations.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Promises(BTreeMap<String, Vec<Promise>>);

impl Promises {
    pub fn add(&mut self, promise: &Promise) {
        match promise {
            Promise::Nothing { name } => drop(self.0.remove(name)),
            promise => self.0.entry(promise.name().into()).or_default().push(promise.clone()),
        }
    }

    /// Returns the operations about which something was promised.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// Returns the promises about an operation that its history (`None`: the ledger does not know it) does not keep.
    pub fn broken<'a>(&'a self, name: &str, history: Option<&'a History>) -> impl Iterator<Item = &'a Promise> {
        let promises = self.0.get(name).map_or(&[][..], Vec::as_slice);
        promises.iter().filter(move |promise| !history.is_some_and(|history| keeps(history, promise)))
    }
}

fn keeps(history: &History, promise: &Promise) -> bool {
    let of = |n: u64| history.facts.iter().filter(move |recorded| recorded.n == n);
    match promise {
        Promise::Sent { n, .. } => {
            // What is decided may have been compacted, which drops everything but its claims and how they ended.
            let started = is_final(history) || of(*n).any(|recorded| matches!(recorded.fact, Fact::Started(_)));
            started && of(*n).any(|recorded| recorded.fact.is_claim())
        }
        Promise::Nothing { .. } => true,
        Promise::Told { n, verdict: told, .. } => of(*n).any(|recorded| verdict(recorded) == Some(*told)),
    }
}
