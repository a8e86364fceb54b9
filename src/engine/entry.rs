//! Who may work on an operation that the ledger knows: the rule of every store's claim.
//!
//! A store finds the history under its lock, says what it knows of the newest claim's owner, and does what
//! [`enter`] returns before it lets the lock go.

use super::facts::{Fact, Finished, History, Predecessor, Recorded};
use super::moment::Timestamp;
use super::operation::Fingerprint;
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
/// an operation wherever it stands: a late outcome of an older claim counts (decisions 14).
pub fn enter(found: Option<Known<'_>>, wanted: Wanted<'_>) -> Entry {
    let Some(Known { history, standing }) = found else {
        return Entry::Open;
    };
    if history.opened().fp != *wanted.fingerprint {
        return Entry::OtherPayload;
    }
    if is_final(history) {
        return Entry::Final;
    }
    let predecessor = match standing {
        Standing::Live => return Entry::Busy,
        Standing::Settled => Predecessor::Settled,
        Standing::DeadSameBoot if is_accounted(history) => Predecessor::Accounted,
        Standing::DeadSameBoot | Standing::DeadElsewhere => Predecessor::InDoubt,
    };
    let untouched = predecessor != Predecessor::InDoubt && nothing_reached_the_partner(history);
    Entry::Reopen { predecessor, key_until: wanted.key_until.filter(|_| untouched) }
}

/// Returns whether an operation is decided: some line proves that it happened, or its newest run ended with a
/// final verdict (a person's word included).
pub fn is_final(history: &History) -> bool {
    let newest = history.newest_claim();
    history.facts.iter().any(|recorded| match verdict(recorded) {
        Some(Verdict::Confirmed) => true,
        Some(Verdict::Rejected) => recorded.n == newest,
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
mod tests {
    use super::super::facts::*;
    use super::super::operation::PartnerName;
    use super::super::reason::Reason;
    use super::*;
    use std::sync::Arc;

    const FRESH: Timestamp = Timestamp::from_unix_ms(9_000);

    fn opened() -> Fact {
        Fact::Opened(Arc::new(Opened {
            partner: PartnerName::new("acme").expect("a name"),
            profile: None,
            account: None,
            method: "POST".into(),
            url: "http://acme.example/".into(),
            headers: Vec::new(),
            fp: Fingerprint("v1:one".into()),
            body: StoredBody::Text("".into()),
            contract: "".into(),
            key_until: None,
            valid_until: None,
            deadline: Timestamp::default(),
            why: Why::Send,
            owner: Owner::default(),
        }))
    }

    fn reopened(predecessor: Predecessor) -> Fact {
        Fact::Reopened(Box::new(Reopened {
            partner: PartnerName::new("acme").expect("a name"),
            deadline: Timestamp::default(),
            why: Why::Replay,
            predecessor,
            key_until: None,
            owner: Owner::default(),
        }))
    }

    fn resolved(verdict: Verdict) -> Fact {
        let partner = PartnerName::new("acme").expect("a name");
        Fact::Resolved(Box::new(Resolved { partner, verdict, by: "ann".into(), note: "asked them".into() }))
    }

    fn started(a: u32) -> Fact {
        Fact::Started(Started { a, addr: None })
    }

    fn attempt(a: u32, evidence: Evidence) -> Box<Finished> {
        Box::new(Finished {
            a,
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
            hop: None,
        })
    }

    fn finished(a: u32, evidence: Evidence) -> Fact {
        Fact::Finished(attempt(a, evidence))
    }

    fn settled(verdict: Verdict, last: Option<Box<Finished>>) -> Fact {
        let cause = Cause::Deadline;
        Fact::Settled(Box::new(Settled { verdict, cause, retry_at: None, last, response: None }))
    }

    fn interrupted() -> Fact {
        let (verdict, cause) = (Verdict::NotDone, Cause::Interrupted);
        Fact::Settled(Box::new(Settled { verdict, cause, retry_at: None, last: None, response: None }))
    }

    fn asked(says: Says) -> Fact {
        let about = About::Operation;
        Fact::Asked(Asked { says, about, by_body: false, http: None, ms: 1, not_before: None, note: None })
    }

    /// Facts with the number of their claim.
    fn history(facts: &[(u64, Fact)]) -> History {
        let recorded =
            |(n, fact): &(u64, Fact)| Recorded { n: *n, at: Timestamp::default(), steady: None, fact: fact.clone() };
        History { facts: facts.iter().map(recorded).collect() }
    }

    fn entry(facts: &[(u64, Fact)], standing: Standing) -> Entry {
        let fingerprint = Fingerprint("v1:one".into());
        let wanted = Wanted { fingerprint: &fingerprint, key_until: Some(FRESH) };
        enter(Some(Known { history: &history(facts), standing }), wanted)
    }

    const ALL: [Standing; 4] = [Standing::Settled, Standing::Live, Standing::DeadSameBoot, Standing::DeadElsewhere];

    #[test]
    fn nothing_known_opens() {
        let fingerprint = Fingerprint("v1:one".into());
        assert_eq!(enter(None, Wanted { fingerprint: &fingerprint, key_until: None }), Entry::Open);
    }

    #[test]
    fn another_payload_is_refused_however_the_first_one_stands() {
        let fingerprint = Fingerprint("v1:two".into());
        let wanted = Wanted { fingerprint: &fingerprint, key_until: Some(FRESH) };
        for end in [started(1), settled(Verdict::Confirmed, None), settled(Verdict::NotDone, None)] {
            for standing in ALL {
                let known = history(&[(1, opened()), (1, end.clone())]);
                assert_eq!(enter(Some(Known { history: &known, standing }), wanted), Entry::OtherPayload);
            }
        }
    }

    #[test]
    fn a_decided_operation_stays_decided() {
        let stories: &[&[(u64, Fact)]] = &[
            &[(1, opened()), (1, settled(Verdict::Confirmed, None))],
            &[(1, opened()), (1, settled(Verdict::Rejected, None))],
            &[(1, opened()), (2, resolved(Verdict::Confirmed))],
            &[(1, opened()), (2, resolved(Verdict::Rejected))],
            // A late outcome of a claim that was taken over.
            &[(1, opened()), (2, reopened(Predecessor::InDoubt)), (1, settled(Verdict::Confirmed, None))],
            &[(1, opened()), (2, resolved(Verdict::NotDone)), (1, settled(Verdict::Confirmed, None))],
            &[(1, opened()), (1, settled(Verdict::Confirmed, None)), (2, reopened(Predecessor::Settled))],
        ];
        for story in stories {
            for standing in ALL {
                assert_eq!(entry(story, standing), Entry::Final, "{story:?} {standing:?}");
            }
        }
    }

    #[test]
    fn a_live_owner_is_left_alone() {
        for end in [started(1), finished(1, Evidence::NotSent), asked(Says::Unclear)] {
            assert_eq!(entry(&[(1, opened()), (1, end)], Standing::Live), Entry::Busy);
        }
    }

    #[test]
    fn an_unsettled_run_that_ended_is_continued() {
        for verdict in [Verdict::NotDone, Verdict::InDoubt, Verdict::Accepted] {
            for end in [(1, settled(verdict, None)), (2, resolved(verdict))] {
                let Entry::Reopen { predecessor, .. } = entry(&[(1, opened()), end], Standing::Settled) else {
                    panic!("not continued after {verdict}");
                };
                assert_eq!(predecessor, Predecessor::Settled);
            }
        }
    }

    #[test]
    fn a_rejection_before_a_person_tried_again_decides_nothing() {
        let story = [(1, opened()), (1, settled(Verdict::Rejected, None)), (2, reopened(Predecessor::Settled))];
        let again = Entry::Reopen { predecessor: Predecessor::Accounted, key_until: None };
        assert_eq!(entry(&story, Standing::DeadSameBoot), again);
    }

    #[test]
    fn what_a_dead_owner_left_open_is_in_doubt() {
        use Predecessor::{Accounted, InDoubt};
        let cases: &[(&[(u64, Fact)], Predecessor)] = &[
            (&[(1, opened())], Accounted),
            (&[(1, opened()), (1, started(1))], InDoubt),
            (&[(1, opened()), (1, started(1)), (1, finished(1, Evidence::Refused))], Accounted),
            (&[(1, opened()), (1, started(1)), (1, finished(1, Evidence::InDoubt))], Accounted),
            (&[(1, opened()), (1, started(1)), (1, finished(1, Evidence::Refused)), (1, started(2))], InDoubt),
            (&[(1, opened()), (1, finished(1, Evidence::NotSent))], Accounted),
            // Doubt of an earlier run is in its own facts; this one started nothing.
            (&[(1, opened()), (1, started(1)), (2, reopened(InDoubt))], Accounted),
        ];
        for (story, expected) in cases {
            for (standing, expected) in [(Standing::DeadSameBoot, *expected), (Standing::DeadElsewhere, InDoubt)] {
                let Entry::Reopen { predecessor, .. } = entry(story, standing) else {
                    panic!("not continued: {story:?}");
                };
                assert_eq!(predecessor, expected, "{story:?} {standing:?}");
            }
        }
    }

    #[test]
    fn the_key_is_fresh_only_while_nothing_reached_the_partner() {
        use Evidence::{Accepted, Answered, InDoubt, NotSent, Partial, Refused};
        let fresh = |story: &[(u64, Fact)], standing| match entry(story, standing) {
            Entry::Reopen { key_until, .. } => key_until == Some(FRESH),
            other => panic!("not continued: {other:?}"),
        };
        let run = |evidence| [(1, opened()), (1, started(1)), (1, finished(1, evidence))];
        assert!(fresh(&run(NotSent), Standing::DeadSameBoot));
        assert!(!fresh(&run(NotSent), Standing::DeadElsewhere));
        for evidence in [Partial, InDoubt, Refused, Answered, Accepted] {
            assert!(!fresh(&run(evidence), Standing::DeadSameBoot), "{evidence}");
            let ended = [(1, opened()), (1, started(1)), (1, settled(Verdict::NotDone, Some(attempt(1, evidence))))];
            assert!(!fresh(&ended, Standing::Settled), "{evidence}");
        }
        let ended = [(1, opened()), (1, settled(Verdict::NotDone, Some(attempt(1, NotSent))))];
        assert!(fresh(&ended, Standing::Settled));
        let person = [(1, opened()), (1, started(1)), (2, resolved(Verdict::NotDone))];
        assert!(!fresh(&person, Standing::Settled));
        let doubt_before = [(1, opened()), (2, reopened(Predecessor::InDoubt)), (2, settled(Verdict::NotDone, None))];
        assert!(!fresh(&doubt_before, Standing::Settled));
        assert!(!fresh(&[(1, opened()), (1, settled(Verdict::InDoubt, None))], Standing::Settled));
        assert!(!fresh(&[(1, opened()), (1, asked(Says::Absent))], Standing::DeadSameBoot));
    }

    #[test]
    fn a_send_without_a_key_continues_what_may_have_been_started() {
        let cases: &[(&[(u64, Fact)], [bool; 4])] = &[
            // In the order of ALL: settled, live, dead in the same boot, dead elsewhere.
            (&[(1, opened())], [true, true, false, true]),
            (&[(1, opened()), (1, finished(1, Evidence::NotSent))], [true, true, false, true]),
            (&[(1, opened()), (1, started(1))], [true, true, true, true]),
            (&[(1, opened()), (2, reopened(Predecessor::InDoubt))], [true, true, true, true]),
            (&[(1, opened()), (1, settled(Verdict::NotDone, None))], [true, true, false, true]),
            (&[(1, opened()), (1, interrupted())], [false, true, false, true]),
            (&[(1, opened()), (1, started(1)), (1, interrupted())], [true, true, true, true]),
            (&[(1, opened()), (2, resolved(Verdict::NotDone))], [true, true, false, true]),
            (&[(1, opened()), (1, settled(Verdict::Confirmed, None))], [false; 4]),
            (&[(1, opened()), (2, resolved(Verdict::Rejected))], [false; 4]),
        ];
        for (story, expected) in cases {
            let history = history(story);
            let continued = ALL.map(|standing| continues_without_key(Known { history: &history, standing }));
            assert_eq!(continued, *expected, "{story:?}");
        }
    }
}
