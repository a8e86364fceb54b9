//! One suite for every ledger.

use crate::facts::*;
use abide::drive::{Claim, Claimed, Durability, EntryRule, Ledger, Wish};
use abide::engine::facts::{Fact, History, Predecessor, StoredBody, Waiting};
use abide::engine::operation::{IdempotencyKey, PartnerName};
use abide::engine::verdict::{Evidence, Verdict};
use abide::store::StoreError;

/// A place with one ledger that several processes open.
pub trait House {
    type Ledger: Ledger<Error = StoreError, Claim: std::fmt::Debug>;

    /// Opens the ledger as a process of its own.
    fn process(&self) -> Self::Ledger;

    /// Reads one operation as `abide status` does.
    fn read(&self, partner: &PartnerName, key: &IdempotencyKey) -> Option<History>;
}

pub fn run<T>(future: impl Future<Output = T>) -> T {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_time().build().expect("a runtime").block_on(future)
}

pub fn claim<L: Ledger<Error = StoreError>>(ledger: &mut L, wish: &Wish) -> Claimed<L::Claim> {
    run(ledger.claim(wish, now())).expect("a healthy ledger")
}

pub fn ours<C>(claimed: Claimed<C>) -> (C, History) {
    match claimed {
        Claimed::Ours(claim, history) => (claim, history),
        Claimed::Final(key, _) => panic!("{key} is final"),
        Claimed::OtherPayload(key, _) => panic!("{key} has another payload"),
        Claimed::Busy(key, owner) => panic!("{key} is busy: {owner:?}"),
        Claimed::Unknown(key) => panic!("{key} is unknown"),
    }
}

pub fn append<C: Claim<Error = StoreError>>(claim: &mut C, facts: &[Fact]) {
    for fact in facts {
        let durability = match fact {
            Fact::Settled(_) => Durability::Now,
            Fact::Started(started) if started.a == 1 => Durability::Now,
            _ => Durability::Later,
        };
        run(claim.append(now(), fact, durability)).expect("a healthy ledger");
    }
}

/// Runs one operation to its end in a process of its own.
pub fn story<H: House>(house: &H, wish: &Wish, facts: &[Fact]) -> u64 {
    let (mut claim, _) = ours(claim(&mut house.process(), wish));
    append(&mut claim, facts);
    claim.n()
}

pub fn predecessor(history: &History) -> Predecessor {
    match &history.facts.last().expect("facts").fact {
        Fact::Reopened(reopened) => reopened.predecessor,
        other => panic!("not reopened: {other:?}"),
    }
}

/// Returns the facts of a history as they must be read back.
fn facts(history: &History) -> Vec<Fact> {
    history.facts.iter().map(|recorded| recorded.fact.clone()).collect()
}

pub fn a_new_key_is_ours_with_its_opened_line<H: House>(house: &H) {
    let wish = wish("k1", "one");
    let (claim, history) = ours(claim(&mut house.process(), &wish));
    assert_eq!((claim.key().as_str(), claim.n()), ("k1", 1));
    assert_eq!(facts(&history), [Fact::Opened(wish.opened.clone())]);
    assert_eq!(history.facts[0].steady, Some(now().steady));
    assert_eq!(history.facts[0].at, now().wall);
}

pub fn a_second_claim_meets_the_live_owner<H: House>(house: &H) {
    let (first, mut process) = (house.process(), house.process());
    let mut first = first;
    let (held, _) = ours(claim(&mut first, &wish("k1", "one")));
    // In another process, and in the same one.
    for ledger in [&mut process, &mut first] {
        match claim(ledger, &wish("k1", "one")) {
            Claimed::Busy(key, owner) => assert_eq!((key.as_str(), owner.pid), ("k1", 4821)),
            other => panic!("not busy: {other:?}"),
        }
    }
    drop(held);
    ours(claim(&mut process, &wish("k1", "one")));
}

pub fn a_dropped_claim_without_started_is_accounted<H: House>(house: &H) {
    story(house, &wish("k1", "one"), &[]);
    let (_claim, history) = ours(claim(&mut house.process(), &wish("k1", "one")));
    assert_eq!(predecessor(&history), Predecessor::Accounted);
    let Fact::Reopened(reopened) = &history.facts[1].fact else { panic!("not reopened") };
    assert_eq!(reopened.key_until, wish("k1", "one").opened.key_until, "the partner has not seen the key");
}

pub fn a_dropped_claim_with_an_open_attempt_is_in_doubt<H: House>(house: &H) {
    story(house, &wish("k1", "one"), &[started(1)]);
    let (_claim, history) = ours(claim(&mut house.process(), &wish("k1", "one")));
    assert_eq!(predecessor(&history), Predecessor::InDoubt);
    let Fact::Reopened(reopened) = &history.facts[2].fact else { panic!("not reopened") };
    assert_eq!(reopened.key_until, None);
}

pub fn a_dropped_claim_with_a_finished_attempt_is_accounted<H: House>(house: &H) {
    story(house, &wish("k1", "one"), &[started(1), finished(1, Evidence::Refused)]);
    let (_claim, history) = ours(claim(&mut house.process(), &wish("k1", "one")));
    assert_eq!(predecessor(&history), Predecessor::Accounted);
}

pub fn a_reboot_leaves_everything_in_doubt<H: House>(house: &H) {
    let before = opened("one", StoredBody::Text("one".into()), "ea1fce36-0000-4000-8000-00000000dead");
    story(house, &wish_of("k1", before, b"one"), &[]);
    let (_claim, history) = ours(claim(&mut house.process(), &wish("k1", "one")));
    assert_eq!(predecessor(&history), Predecessor::InDoubt);
}

pub fn an_unsettled_run_is_continued_with_its_facts<H: House>(house: &H) {
    let run = [started(1), finished(1, Evidence::InDoubt), asked(), settled(Verdict::InDoubt, None)];
    story(house, &wish("k1", "one"), &run);
    let (again, history) = ours(claim(&mut house.process(), &wish("k1", "one")));
    assert_eq!(predecessor(&history), Predecessor::Settled);
    assert_eq!(facts(&history)[1..5], run);
    assert_eq!((again.n(), history.newest_claim(), history.last_attempt()), (2, 2, 1));
}

pub fn a_settled_key_is_final<H: House>(house: &H) {
    let end = settled(Verdict::Confirmed, Some(attempt(1, Evidence::Answered)));
    story(house, &wish("k1", "one"), &[started(1), end.clone()]);
    match claim(&mut house.process(), &wish("k1", "one")) {
        Claimed::Final(key, history) => {
            assert_eq!(key.as_str(), "k1");
            assert_eq!(facts(&history)[2], end);
            assert!(history.settled().is_some());
        }
        other => panic!("not final: {other:?}"),
    }
}

pub fn a_rejected_key_is_final<H: House>(house: &H) {
    let end = settled(Verdict::Rejected, Some(attempt(1, Evidence::Answered)));
    story(house, &wish("k1", "one"), &[started(1), end]);
    assert!(matches!(claim(&mut house.process(), &wish("k1", "one")), Claimed::Final(..)));
}

pub fn another_payload_is_refused<H: House>(house: &H) {
    let mut process = house.process();
    let (held, _) = ours(claim(&mut process, &wish("k1", "one")));
    let refused = |claimed| match claimed {
        Claimed::OtherPayload(key, history) => {
            let history: History = history;
            assert_eq!((key.as_str(), &*history.opened().fp.0), ("k1", "v1:one"));
        }
        other => panic!("not refused: {other:?}"),
    };
    refused(claim(&mut house.process(), &wish("k1", "two")));
    drop(held);
    refused(claim(&mut house.process(), &wish("k1", "two")));
}

pub fn the_same_key_of_another_partner_is_another_operation<H: House>(house: &H) {
    story(house, &wish("k1", "one"), &[started(1)]);
    let mut other = opened("two", StoredBody::Text("two".into()), BOOT);
    other.partner = partner("bank");
    let (claim, history) = ours(claim(&mut house.process(), &wish_of("k1", other, b"two")));
    assert_eq!((claim.n(), history.facts.len()), (2, 1));
}

fn keyless(name: &str, payload: &str) -> Wish {
    Wish { entry: EntryRule::Keyless, ..wish(name, payload) }
}

pub fn a_keyless_send_continues_the_newest_with_its_payload<H: House>(house: &H) {
    let end = settled(Verdict::InDoubt, None);
    for name in ["old", "new"] {
        story(house, &wish(name, "one"), &[started(1), end.clone()]);
    }
    story(house, &wish("other", "two"), &[started(1), end]);
    let (again, history) = ours(claim(&mut house.process(), &keyless("fresh", "one")));
    assert_eq!(again.key().as_str(), "new");
    assert_eq!(predecessor(&history), Predecessor::Settled);
}

pub fn a_keyless_send_leaves_alone_what_never_started<H: House>(house: &H) {
    story(house, &wish("old", "one"), &[finished(1, Evidence::NotSent)]);
    let (claim, history) = ours(claim(&mut house.process(), &keyless("fresh", "one")));
    assert_eq!((claim.key().as_str(), history.facts.len()), ("fresh", 1));
}

pub fn a_keyless_send_leaves_alone_what_is_decided<H: House>(house: &H) {
    for (name, verdict) in [("a", Verdict::Confirmed), ("b", Verdict::Rejected)] {
        story(house, &wish(name, "one"), &[started(1), settled(verdict, Some(attempt(1, Evidence::Answered)))]);
    }
    let (claim, _) = ours(claim(&mut house.process(), &keyless("fresh", "one")));
    assert_eq!(claim.key().as_str(), "fresh");
}

pub fn a_keyless_send_meets_a_live_owner<H: House>(house: &H) {
    let mut process = house.process();
    let (_held, _) = ours(claim(&mut process, &keyless("first", "one")));
    match claim(&mut house.process(), &keyless("second", "one")) {
        Claimed::Busy(key, _) => assert_eq!(key.as_str(), "first"),
        other => panic!("not busy: {other:?}"),
    }
}

pub fn an_accepted_duplicate_opens_another<H: House>(house: &H) {
    story(house, &wish("old", "one"), &[started(1), settled(Verdict::InDoubt, None)]);
    let duplicate = Wish { entry: EntryRule::Duplicate, ..wish("fresh", "one") };
    let (claim, history) = ours(claim(&mut house.process(), &duplicate));
    assert_eq!((claim.key().as_str(), claim.n(), history.facts.len()), ("fresh", 2, 1));
}

fn known(name: &str, rejected: bool) -> Wish {
    Wish { entry: EntryRule::Known { rejected }, ..wish(name, "one") }
}

pub fn a_replay_begins_nothing<H: House>(house: &H) {
    for rejected in [false, true] {
        match claim(&mut house.process(), &known("k1", rejected)) {
            Claimed::Unknown(key) => assert_eq!(key.as_str(), "k1"),
            other => panic!("not unknown: {other:?}"),
        }
    }
    assert_eq!(house.read(&partner("acme"), &key("k1")), None);
}

pub fn a_replay_continues_what_is_unsettled<H: House>(house: &H) {
    story(house, &wish("k1", "one"), &[started(1), settled(Verdict::InDoubt, None)]);
    let mut process = house.process();
    let (held, history) = ours(claim(&mut process, &known("k1", false)));
    assert_eq!(predecessor(&history), Predecessor::Settled);
    assert!(matches!(claim(&mut house.process(), &known("k1", true)), Claimed::Busy(..)));
    drop(held);
    assert!(matches!(claim(&mut house.process(), &wish("k1", "two")), Claimed::OtherPayload(..)));
}

pub fn a_replay_tries_a_rejection_again_only_where_told<H: House>(house: &H) {
    let end = settled(Verdict::Rejected, Some(attempt(1, Evidence::Answered)));
    story(house, &wish("k1", "one"), &[started(1), end]);
    assert!(matches!(claim(&mut house.process(), &known("k1", false)), Claimed::Final(..)));
    let (mut held, history) = ours(claim(&mut house.process(), &known("k1", true)));
    assert_eq!(predecessor(&history), Predecessor::Settled);
    append(&mut held, &[started(2), settled(Verdict::Confirmed, Some(attempt(2, Evidence::Answered)))]);
    assert!(matches!(claim(&mut house.process(), &known("k1", true)), Claimed::Final(..)));
}

pub fn claims_are_numbered_without_gaps<H: House>(house: &H) {
    for expected in 1..=9_u64 {
        let name = ["a", "b", "c"][expected as usize % 3];
        assert_eq!(story(house, &wish(name, "one"), &[started(1), settled(Verdict::InDoubt, None)]), expected);
    }
}

pub fn the_history_is_what_was_appended<H: House>(house: &H) {
    let run = [
        finished(1, Evidence::NotSent),
        waiting(),
        started(2),
        finished(2, Evidence::Refused),
        asked(),
        started(3),
        settled(Verdict::Accepted, Some(attempt(3, Evidence::Accepted))),
    ];
    let wish = wish("k1", "one");
    story(house, &wish, &run);
    let mut expected = vec![Fact::Opened(wish.opened.clone())];
    expected.extend(run.into_iter().map(|fact| match fact {
        Fact::Waiting(waiting) => Fact::Waiting(Waiting { until_steady: None, ..waiting }),
        fact => fact,
    }));
    let history = house.read(&partner("acme"), &key("k1")).expect("it is there");
    assert_eq!(facts(&history), expected);
    assert!(history.facts.iter().all(|recorded| recorded.n == 1 && recorded.steady.is_none()));
    assert!(history.facts.iter().all(|recorded| recorded.at == now().wall));
    assert_eq!(house.read(&partner("acme"), &key("k2")), None);
}

pub fn bodies_come_back_byte_for_byte<H: House>(house: &H) {
    let bodies: [(&str, Vec<u8>); 5] = [
        ("empty", Vec::new()),
        ("text", "{\"id\": 9007199254740993, \"n\":\"caf\u{e9} \\u00e9\"}\r\n".as_bytes().to_vec()),
        ("binary", (0..=255).collect()),
        ("long", vec![b'x'; 16 * 1024 + 1]),
        ("control", vec![1; 16 * 1024]),
    ];
    for (name, body) in bodies {
        let stored = match String::from_utf8(body.clone()) {
            Ok(text) => StoredBody::Text(text.into()),
            Err(_) => StoredBody::Bytes(body.clone().into()),
        };
        let wish = wish_of(name, opened(name, stored, BOOT), &body);
        let (first, _) = ours(claim(&mut house.process(), &wish));
        assert_eq!(run(first.body()).expect("readable").as_deref(), Some(&body[..]), "{name}");
        drop(first);
        let (again, _) = ours(claim(&mut house.process(), &wish));
        assert_eq!(run(again.body()).expect("readable").as_deref(), Some(&body[..]), "{name}");
    }
    let hash = StoredBody::Hash { sha: "ab".repeat(32).into(), len: 3 };
    let (claim, _) = ours(claim(&mut house.process(), &wish_of("hash", opened("hash", hash, BOOT), b"abc")));
    assert_eq!(run(claim.body()).expect("readable"), None);
}

pub fn only_the_newest_claim_may_start<H: House>(house: &H) {
    let (mut old, _) = ours(claim(&mut house.process(), &wish("k1", "one")));
    append(&mut old, &[started(1), settled(Verdict::InDoubt, None)]);
    let (mut new, _) = ours(claim(&mut house.process(), &wish("k1", "one")));
    match run(old.append(now(), &started(2), Durability::Now)) {
        Err(error) => assert!(error.to_string().contains("claim 1 of k1 was taken over by claim 2"), "{error}"),
        Ok(()) => panic!("a fenced claim may not start"),
    }
    append(&mut new, &[started(2)]);
}

pub fn a_late_confirmation_of_an_older_claim_is_final<H: House>(house: &H) {
    let (mut old, _) = ours(claim(&mut house.process(), &wish("k1", "one")));
    append(&mut old, &[started(1), settled(Verdict::InDoubt, None)]);
    story(house, &wish("k1", "one"), &[started(2)]);
    append(&mut old, &[settled(Verdict::Confirmed, Some(attempt(1, Evidence::Answered)))]);
    assert!(matches!(claim(&mut house.process(), &wish("k1", "one")), Claimed::Final(..)));
}
