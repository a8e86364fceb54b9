//! Where an operation stands, from its facts and what the store knows of its owner.

use super::args::StateFilter;
use crate::report::known::State;
use abide::engine::decide::conclude;
use abide::engine::entry::{Entry, Known, Standing, Wanted, continues_without_key, enter, owner};
use abide::engine::facts::{Fact, History, Predecessor};
use abide::engine::moment::Now;
use abide::engine::operation::Method;
use abide::engine::policy::Policy;
use abide::engine::verdict::{Cause, Verdict};

/// Returns where an operation stands at `now`, by the rule that a claim would follow.
pub fn of(history: &History, standing: Standing, now: Now) -> State {
    let wanted = Wanted { fingerprint: &history.opened().fp, key_until: None, rejected_too: false };
    let known = Known { history, standing };
    match enter(Some(known), wanted) {
        // What a send without a key does not continue must not be sent by others either (decisions 12).
        Entry::Reopen { .. } if !continues_without_key(known) => State::Pending,
        Entry::Busy => State::Running(owner(history).cloned().unwrap_or_default()),
        Entry::Final => State::Settled(final_verdict(history)),
        Entry::Reopen { predecessor: Predecessor::Settled, .. } => State::Settled(newest_verdict(history)),
        Entry::Reopen { predecessor: Predecessor::Accounted, .. } => accounted(history, now),
        Entry::Reopen { predecessor: Predecessor::InDoubt, .. } => State::Abandoned(lost(history)),
        Entry::Open | Entry::OtherPayload => unreachable!("the operation is known, with its own fingerprint"),
    }
}

/// Proof of execution wherever it stands; else what the newest run ended with.
fn final_verdict(history: &History) -> Verdict {
    let confirmed = verdicts(history).any(|(_, verdict)| verdict == Verdict::Confirmed);
    if confirmed { Verdict::Confirmed } else { newest_verdict(history) }
}

fn newest_verdict(history: &History) -> Verdict {
    let newest = history.newest_claim();
    let found = verdicts(history).filter(|(n, _)| *n == newest).last();
    found.map_or(Verdict::InDoubt, |(_, verdict)| verdict)
}

fn verdicts(history: &History) -> impl Iterator<Item = (u64, Verdict)> {
    history.facts.iter().filter_map(|recorded| match &recorded.fact {
        Fact::Settled(settled) => Some((recorded.n, settled.verdict)),
        Fact::Resolved(resolved) => Some((recorded.n, resolved.verdict)),
        _ => None,
    })
}

/// A run whose owner died between attempts: what its facts prove.
fn accounted(history: &History, now: Now) -> State {
    let policy = Policy::unprofiled(method(history), "");
    State::Abandoned(conclude(history, &policy, now, Cause::Interrupted).verdict)
}

/// A run whose owner died while something may have been on its way. A safe method is never in doubt (decisions 2).
fn lost(history: &History) -> Verdict {
    if method(history).is_safe() { Verdict::NotDone } else { Verdict::InDoubt }
}

fn method(history: &History) -> Method {
    // A line that this version cannot read the method of counts as unsafe.
    Method::new(&history.opened().method).unwrap_or_else(|| Method::new("POST").expect("a method"))
}

impl StateFilter {
    /// Returns whether an operation that stands so is meant.
    pub fn fits(self, state: &State) -> bool {
        let verdict = match self {
            StateFilter::Running => return matches!(state, State::Running(_)),
            StateFilter::Pending => return *state == State::Pending,
            StateFilter::Confirmed => Verdict::Confirmed,
            StateFilter::Rejected => Verdict::Rejected,
            StateFilter::NotDone => Verdict::NotDone,
            StateFilter::InDoubt => Verdict::InDoubt,
            StateFilter::Accepted => Verdict::Accepted,
        };
        state.verdict() == Some(verdict)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use abide::engine::facts::{Again, Finished, Opened, Owner, Recorded, Settled, Started, StoredBody, Why};
    use abide::engine::moment::Timestamp;
    use abide::engine::operation::{Fingerprint, PartnerName};
    use abide::engine::reason::Reason;
    use abide::engine::verdict::Evidence;
    use std::sync::Arc;

    fn history(method: &str, facts: Vec<Fact>) -> History {
        let opened = Opened {
            partner: PartnerName::new("acme").expect("a name"),
            profile: None,
            account: None,
            method: method.into(),
            url: "http://h/".into(),
            headers: vec![],
            fp: Fingerprint("v1:0".into()),
            body: StoredBody::Text("".into()),
            contract: "none".into(),
            key_until: None,
            valid_until: None,
            tls: None,
            deadline: Timestamp::default(),
            why: Why::Send,
            owner: Owner { pid: 7, ..Owner::default() },
        };
        let facts = std::iter::once(Fact::Opened(Arc::new(opened))).chain(facts);
        let recorded = |fact| Recorded { n: 1, at: Timestamp::default(), steady: None, fact };
        History { facts: facts.map(recorded).collect() }
    }

    fn started() -> Fact {
        Fact::Started(Started { a: 1, addr: None, proxy: None })
    }

    fn finished(evidence: Evidence) -> Fact {
        Fact::Finished(Arc::new(Finished {
            a: 1,
            evidence,
            done: None,
            again: Again::Yes,
            reason: Reason::Unavailable,
            stage: None,
            side: None,
            http: None,
            ms: 1,
            stages: None,
            error: None,
            not_before: None,
            replayed: false,
            slow: false,
            hop: None,
        }))
    }

    fn settled(verdict: Verdict) -> Fact {
        ended(verdict, Cause::AttemptsExhausted)
    }

    fn ended(verdict: Verdict, cause: Cause) -> Fact {
        Fact::Settled(Arc::new(Settled { verdict, cause, retry_at: None, last: None, response: None }))
    }

    #[test]
    fn an_operation_stands_where_its_facts_and_its_owner_put_it() {
        let owner = Owner { pid: 7, ..Owner::default() };
        let (settled_now, live) = (Standing::Settled, Standing::Live);
        let (dead, elsewhere) = (Standing::DeadSameBoot, Standing::DeadElsewhere);
        let abandoned = State::Abandoned;
        let cases = [
            ("POST", vec![settled(Verdict::NotDone)], settled_now, State::Settled(Verdict::NotDone)),
            ("POST", vec![ended(Verdict::NotDone, Cause::Interrupted)], settled_now, State::Pending),
            (
                "POST",
                vec![started(), finished(Evidence::Refused), ended(Verdict::NotDone, Cause::Interrupted)],
                settled_now,
                State::Settled(Verdict::NotDone),
            ),
            ("POST", vec![settled(Verdict::Confirmed)], settled_now, State::Settled(Verdict::Confirmed)),
            ("POST", vec![started()], live, State::Running(owner)),
            ("POST", vec![], dead, State::Pending),
            ("POST", vec![], elsewhere, abandoned(Verdict::InDoubt)),
            ("POST", vec![started()], dead, abandoned(Verdict::InDoubt)),
            ("POST", vec![started(), finished(Evidence::Refused)], dead, abandoned(Verdict::NotDone)),
            ("POST", vec![started(), finished(Evidence::InDoubt)], dead, abandoned(Verdict::InDoubt)),
            ("POST", vec![started(), finished(Evidence::Refused)], elsewhere, abandoned(Verdict::InDoubt)),
            ("GET", vec![started()], dead, abandoned(Verdict::NotDone)),
        ];
        for (method, facts, standing, expected) in cases {
            let shown = format!("{method} {facts:?} {standing:?}");
            assert_eq!(of(&history(method, facts), standing, Now::default()), expected, "{shown}");
        }
    }
}
