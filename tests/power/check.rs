//! What the next process finds after a power cut, and what is still there when it has gone on.

use crate::facts::{key, now, started};
use crate::house::{House, ending, is_forgotten, payload};
use crate::promise::{Promise, Promises};
use crate::workload::run;
use abide::drive::{Claim, Claimed, Durability, Ledger};
use abide::engine::entry::{is_ended, is_final, owner};
use abide::engine::facts::{Fact, History, Predecessor, StoredBody};
use abide::engine::verdict::Verdict;
use abide::store::jsonl::{Effort, Found, Jsonl, Reader, kept_body, verify};
use abide::store::{StoreError, Warning};
use std::collections::BTreeMap;
use std::fmt;

/// The boot of this machine after the power cut.
const NEXT_BOOT: &str = "ea1fce36-0000-4000-8000-000000000002";
/// An operation that was never heard of before.
const FRESH: &str = "long-fresh";

/// What is wrong after a power cut.
#[derive(Debug)]
pub enum Wrong {
    /// A promise is broken.
    Broken(Promise),
    /// A promise is kept, and something about its operation is not as it should be.
    Odd(String, String),
    /// The ledger is refused.
    Refused(StoreError),
    /// Something is said that is only said of a ledger that lost something.
    Warned(Warning),
    /// The whole ledger is not in order.
    Unclean(String),
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Wrong::Broken(Promise::Sent { name, n }) => write!(f, "{name} was sent by claim {n}, which is gone"),
            Wrong::Broken(Promise::Told { name, n, verdict }) => {
                write!(f, "{name} was reported as {verdict} by claim {n}, which is gone")
            }
            Wrong::Broken(Promise::Nothing { name }) => write!(f, "{name} may be forgotten"),
            Wrong::Odd(name, what) => write!(f, "{name}: {what}"),
            Wrong::Refused(error) => write!(f, "refused: {error}"),
            Wrong::Warned(warning) => write!(f, "warned: {warning}"),
            Wrong::Unclean(what) => f.write_str(what),
        }
    }
}

impl From<StoreError> for Wrong {
    fn from(error: StoreError) -> Wrong {
        Wrong::Refused(error)
    }
}

/// Goes on with the ledger of `folder` after a power cut: reads, claims, appends, opens it again, compacts it, and looks
/// each time at what was promised. Returns what is wrong, with when it was found.
pub fn check(folder: &std::path::Path, promises: &Promises) -> Vec<(&'static str, Wrong)> {
    let mut next = Next { house: House::new(folder, NEXT_BOOT), promises: promises.clone(), wrong: Vec::new() };
    // A ledger that is not there yet is made by the first claim.
    if next.house.ledger().exists() {
        next.at("read first", Next::read);
    }
    next.at("claimed", Next::claim);
    next.at("gone on", Next::go_on);
    next.at("read again", Next::read);
    next.at("verified", Next::verify);
    next.at("claimed again", Next::claim);
    next.at("compacted", Next::compact);
    next.at("read after a compaction", Next::read);
    next.at("verified after a compaction", Next::verify);
    next.wrong
}

/// The next process, and those after it.
struct Next {
    house: House,
    promises: Promises,
    wrong: Vec<(&'static str, Wrong)>,
}

impl Next {
    fn at(&mut self, when: &'static str, step: fn(&mut Next) -> Result<Vec<Wrong>, Wrong>) {
        let found = step(self).unwrap_or_else(|wrong| vec![wrong]);
        self.wrong.extend(found.into_iter().map(|wrong| (when, wrong)));
    }

    /// Reads all, by the index and without it.
    fn read(&mut self) -> Result<Vec<Wrong>, Wrong> {
        let reader = Reader::open(&self.house.ledger(), &self.house.options())?;
        let listed: BTreeMap<String, Found> =
            reader.list()?.map(|found| (found.key.as_str().to_owned(), found)).collect();
        let mut wrong = Vec::new();
        for name in self.promises.names() {
            let found = reader.find(&key(name), None)?.pop();
            if found.as_ref() != listed.get(name) {
                wrong.push(Wrong::Odd(name.into(), "the index and the whole file differ".into()));
            }
            let history = found.map(|found| found.history);
            wrong.extend(self.promises.broken(name, history.as_ref()).cloned().map(Wrong::Broken));
        }
        wrong.extend(worse(reader.warnings()));
        Ok(wrong)
    }

    /// Claims everything that was promised, each as a repeated send does.
    fn claim(&mut self) -> Result<Vec<Wrong>, Wrong> {
        let mut ledger = self.open()?;
        let mut wrong = Vec::new();
        for name in self.promises.names() {
            let (history, odd) = self.claim_one(&mut ledger, name)?;
            wrong.extend(odd.map(|odd| Wrong::Odd(name.into(), odd)));
            wrong.extend(self.promises.broken(name, Some(&history)).cloned().map(Wrong::Broken));
        }
        wrong.extend(worse(ledger.warnings()));
        Ok(wrong)
    }

    /// Returns what is known of an operation, and what is odd about that.
    fn claim_one(&self, ledger: &mut Jsonl, name: &str) -> Result<(History, Option<String>), StoreError> {
        let (history, body) = match run(ledger.claim(&self.house.wish(name), now()))? {
            Claimed::Final(_, history) if is_final(&history) => {
                let body = kept_body(&self.house.ledger(), &history.opened().body)?;
                (history, body)
            }
            Claimed::Ours(held, mut history) => {
                let body = run(held.body())?.map(|body| body.to_vec());
                let Some(Fact::Reopened(again)) = history.facts.pop().map(|recorded| recorded.fact) else {
                    return Ok((History::default(), Some("the ledger does not know it".into())));
                };
                // Nobody can know what an owner of before the power cut did.
                let expected = match owner(&history) {
                    _ if is_ended(&history) => Predecessor::Settled,
                    Some(owner) if *owner.boot == *NEXT_BOOT => Predecessor::Accounted,
                    _ => Predecessor::InDoubt,
                };
                if again.predecessor != expected || is_final(&history) {
                    return Ok((history, Some(format!("claimed after {:?}", again.predecessor))));
                }
                (history, body)
            }
            other => return Ok((History::default(), Some(format!("{other:?}")))),
        };
        let is_compacted = is_final(&history) && matches!(history.opened().body, StoredBody::Hash { .. });
        let is_same = body.is_some_and(|body| body == payload(name).as_bytes());
        let odd = (!is_same && !is_compacted).then(|| "its body is not what was given".into());
        Ok((history, odd))
    }

    /// Sends something new, and brings the index up to date where that is due.
    fn go_on(&mut self) -> Result<Vec<Wrong>, Wrong> {
        let mut ledger = self.open()?;
        let Claimed::Ours(mut held, history) = run(ledger.claim(&self.house.wish(FRESH), now()))? else {
            return Err(Wrong::Odd(FRESH.into(), "it is there already".into()));
        };
        if history.facts.len() != 1 {
            return Err(Wrong::Odd(FRESH.into(), "it was there before".into()));
        }
        let (n, verdict) = (held.n(), Verdict::Confirmed);
        run(held.append(now(), &started(1), Durability::Now))?;
        self.promises.add(&Promise::Sent { name: FRESH.into(), n });
        run(held.append(now(), &ending(FRESH, 1, verdict), Durability::Now))?;
        self.promises.add(&Promise::Told { name: FRESH.into(), n, verdict });
        drop(held);
        ledger.keep_up(Effort::Short);
        Ok(worse(ledger.warnings()).collect())
    }

    fn verify(&mut self) -> Result<Vec<Wrong>, Wrong> {
        let verified = verify(&self.house.ledger(), &self.house.options())?;
        Ok(verified.findings.iter().map(|finding| Wrong::Unclean(finding.to_string())).collect())
    }

    fn compact(&mut self) -> Result<Vec<Wrong>, Wrong> {
        let gone: Vec<String> = self.promises.names().filter(|name| is_forgotten(name)).map(String::from).collect();
        gone.into_iter().for_each(|name| self.promises.add(&Promise::Nothing { name }));
        let is_nothing = self.house.compact()?.operations == 0;
        Ok(is_nothing.then(|| Wrong::Odd(FRESH.into(), "it was not compacted".into())).into_iter().collect())
    }

    fn open(&self) -> Result<Jsonl, StoreError> {
        Jsonl::open(&self.house.ledger(), &self.house.options())
    }
}

/// Returns the warnings that are more than what a power cut may leave: a torn line, an index to be made anew, a memory
/// of this machine that is gone.
fn worse(warnings: Vec<Warning>) -> impl Iterator<Item = Wrong> {
    let is_usual = |warning: &Warning| {
        warning.is_detail()
            || matches!(warning, Warning::TornTail { .. } | Warning::BadLine { .. } | Warning::FirstSeen { .. })
    };
    warnings.into_iter().filter(move |warning| !is_usual(warning)).map(Wrong::Warned)
}
