use super::*;
use crate::engine::facts::*;
use crate::engine::operation::PartnerName;
use crate::engine::reason::Reason;
use std::sync::Arc;

type Story = [(u64, Fact)];

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
        tls: None,
        deadline: Timestamp::default(),
        why: Why::Send,
        owner: Owner::default(),
    }))
}

fn reopened(predecessor: Predecessor) -> Fact {
    Fact::Reopened(Arc::new(Reopened {
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
    Fact::Resolved(Arc::new(Resolved { partner, verdict, by: "ann".into(), note: "asked them".into() }))
}

fn started(a: u32) -> Fact {
    Fact::Started(Started { a, addr: None, proxy: None })
}

fn attempt(a: u32, evidence: Evidence) -> Arc<Finished> {
    Arc::new(Finished {
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
        slow: false,
        hop: None,
    })
}

fn finished(a: u32, evidence: Evidence) -> Fact {
    Fact::Finished(attempt(a, evidence))
}

fn settled(verdict: Verdict, last: Option<Arc<Finished>>) -> Fact {
    let cause = Cause::Deadline;
    Fact::Settled(Arc::new(Settled { verdict, cause, retry_at: None, last, response: None }))
}

fn interrupted() -> Fact {
    let (verdict, cause) = (Verdict::NotDone, Cause::Interrupted);
    Fact::Settled(Arc::new(Settled { verdict, cause, retry_at: None, last: None, response: None }))
}

fn asked(says: Says) -> Fact {
    let about = About::Operation;
    Fact::Asked(Asked { says, about, by_body: false, http: None, ms: 1, not_before: None, note: None })
}

/// Facts with the number of their claim.
fn history(facts: &Story) -> History {
    let recorded =
        |(n, fact): &(u64, Fact)| Recorded { n: *n, at: Timestamp::default(), steady: None, fact: fact.clone() };
    History { facts: facts.iter().map(recorded).collect() }
}

fn entry(facts: &Story, standing: Standing) -> Entry {
    let fingerprint = Fingerprint("v1:one".into());
    let wanted = Wanted { fingerprint: &fingerprint, key_until: Some(FRESH), rejected_too: false };
    enter(Some(Known { history: &history(facts), standing }), wanted)
}

fn again(facts: &Story, standing: Standing) -> Entry {
    let fingerprint = Fingerprint("v1:one".into());
    let wanted = Wanted { fingerprint: &fingerprint, key_until: Some(FRESH), rejected_too: true };
    enter(Some(Known { history: &history(facts), standing }), wanted)
}

const ALL: [Standing; 4] = [Standing::Settled, Standing::Live, Standing::DeadSameBoot, Standing::DeadElsewhere];

#[test]
fn nothing_known_opens() {
    let fingerprint = Fingerprint("v1:one".into());
    assert_eq!(enter(None, Wanted { fingerprint: &fingerprint, key_until: None, rejected_too: false }), Entry::Open);
}

#[test]
fn another_payload_is_refused_however_the_first_one_stands() {
    let fingerprint = Fingerprint("v1:two".into());
    let wanted = Wanted { fingerprint: &fingerprint, key_until: Some(FRESH), rejected_too: false };
    for end in [started(1), settled(Verdict::Confirmed, None), settled(Verdict::NotDone, None)] {
        for standing in ALL {
            let known = history(&[(1, opened()), (1, end.clone())]);
            assert_eq!(enter(Some(Known { history: &known, standing }), wanted), Entry::OtherPayload);
        }
    }
}

#[test]
fn a_decided_operation_stays_decided() {
    let stories: &[&Story] = &[
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
fn a_rejection_is_tried_again_only_where_that_is_asked_for() {
    let rejected = [settled(Verdict::Rejected, None), resolved(Verdict::Rejected)];
    for (n, end) in (1..).zip(rejected) {
        let story = [(1, opened()), (n, end)];
        let reopens = Entry::Reopen { predecessor: Predecessor::Settled, key_until: None };
        assert_eq!(again(&story, Standing::Settled), reopens);
        assert_eq!(entry(&story, Standing::Settled), Entry::Final);
    }
    let tried = [(1, opened()), (1, settled(Verdict::Rejected, None)), (2, reopened(Predecessor::Settled))];
    assert_eq!(again(&tried, Standing::Live), Entry::Busy);
    let late = [(1, opened()), (2, resolved(Verdict::Rejected)), (1, settled(Verdict::Confirmed, None))];
    for standing in ALL {
        assert_eq!(again(&late, standing), Entry::Final);
        assert_eq!(again(&[(1, opened()), (1, settled(Verdict::Confirmed, None))], standing), Entry::Final);
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
fn a_word_that_a_person_took_back_decides_nothing() {
    for word in [Verdict::Confirmed, Verdict::Rejected] {
        let story = [(1, opened()), (2, resolved(word)), (3, resolved(Verdict::NotDone))];
        let known = Known { history: &history(&story), standing: Standing::Settled };
        assert!(!is_final(known.history), "{word}");
        assert!(continues_without_key(known), "{word}");
        assert!(matches!(entry(&story, Standing::Settled), Entry::Reopen { .. }), "{word}");
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
    let cases: &[(&Story, Predecessor)] = &[
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
    let fresh = |story: &Story, standing| match entry(story, standing) {
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
    let cases: &[(&Story, [bool; 4])] = &[
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
