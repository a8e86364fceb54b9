//! What a person decides: a claim like any other, for every ledger.

use crate::facts::*;
use crate::file::OnDisk;
use crate::suite::*;
use abide::drive::{Claim, Claimed, EntryRule, Ledger, Resolving, Wish};
use abide::engine::facts::{Fact, Predecessor, Resolved, StoredBody};
use abide::engine::verdict::{Evidence, Verdict};
use abide::store::StoreError;
use std::fs;
use std::sync::Arc;

fn word(verdict: Verdict) -> Resolved {
    Resolved { partner: partner("acme"), verdict, by: "ann".into(), note: "they say so".into() }
}

fn resolve<L: Ledger<Error = StoreError>>(ledger: &mut L, name: &str, verdict: Verdict) -> Resolving {
    run(ledger.resolve(&key(name), &word(verdict), now())).expect("a healthy ledger")
}

fn in_doubt<H: House>(house: &H) {
    story(house, &wish("k1", "one"), &[started(1), settled(Verdict::InDoubt, None)]);
}

pub fn a_word_is_recorded_with_what_was_there_before<H: House>(house: &H) {
    in_doubt(house);
    let Resolving::Recorded(before) = resolve(&mut house.process(), "k1", Verdict::Confirmed) else { panic!() };
    assert_eq!(before.facts.len(), 3);
    assert!(before.settled().is_some());
    let history = house.read(&partner("acme"), &key("k1")).expect("it is there");
    let last = history.facts.last().expect("facts");
    assert_eq!((last.n, &last.fact), (2, &Fact::Resolved(Arc::new(word(Verdict::Confirmed)))));
    for entry in [EntryRule::Keyed, EntryRule::Known { rejected: true }] {
        let again = Wish { entry, ..wish("k1", "one") };
        assert!(matches!(claim(&mut house.process(), &again), Claimed::Final(..)));
    }
    // The next claim takes the next number.
    assert_eq!(story(house, &wish("k2", "two"), &[]), 3);
}

pub fn a_word_waits_for_a_live_owner<H: House>(house: &H) {
    let (mut held, _) = ours(claim(&mut house.process(), &wish("k1", "one")));
    append(&mut held, &[started(1)]);
    match resolve(&mut house.process(), "k1", Verdict::NotDone) {
        Resolving::Busy(owner) => assert_eq!(owner.pid, 4821),
        other => panic!("not busy: {other:?}"),
    }
    drop(held);
    assert!(matches!(resolve(&mut house.process(), "k1", Verdict::NotDone), Resolving::Recorded(_)));
    let (held, history) = ours(claim(&mut house.process(), &wish("k1", "one")));
    assert_eq!((held.n(), predecessor(&history)), (3, Predecessor::Settled));
}

pub fn a_word_against_proof_is_refused<H: House>(house: &H) {
    for (name, done) in [("yes", Verdict::Confirmed), ("no", Verdict::Rejected)] {
        let mut last = attempt(1, Evidence::Answered);
        Arc::make_mut(&mut last).done = Some(done == Verdict::Confirmed);
        story(house, &wish(name, name), &[started(1), settled(done, Some(last))]);
    }
    let mut process = house.process();
    for (name, against, proof) in [
        ("yes", Verdict::NotDone, Verdict::Confirmed),
        ("yes", Verdict::Rejected, Verdict::Confirmed),
        ("no", Verdict::Confirmed, Verdict::Rejected),
    ] {
        match resolve(&mut process, name, against) {
            Resolving::Against(told, before) => assert_eq!((told, before.facts.len()), (proof, 3), "{name}"),
            other => panic!("not refused: {other:?}"),
        }
    }
    assert!(matches!(resolve(&mut process, "yes", Verdict::Confirmed), Resolving::Already(_)));
    assert!(matches!(resolve(&mut process, "no", Verdict::Rejected), Resolving::Already(_)));
    assert!(matches!(resolve(&mut process, "no", Verdict::NotDone), Resolving::Recorded(_)));
    ours(claim(&mut process, &wish("no", "no")));
}

pub fn a_word_can_be_taken_back<H: House>(house: &H) {
    in_doubt(house);
    let mut process = house.process();
    for verdict in [Verdict::Confirmed, Verdict::Rejected, Verdict::Confirmed, Verdict::NotDone] {
        assert!(matches!(resolve(&mut process, "k1", verdict), Resolving::Recorded(_)), "{verdict}");
    }
    let keyless = Wish { entry: EntryRule::Keyless, ..wish("fresh", "one") };
    let (held, _) = ours(claim(&mut house.process(), &keyless));
    assert_eq!((held.key().as_str(), held.n()), ("k1", 6));
}

pub fn a_word_of_another_partner_is_unknown<H: House>(house: &H) {
    in_doubt(house);
    let mut other = word(Verdict::NotDone);
    other.partner = partner("bank");
    let resolving = run(house.process().resolve(&key("k1"), &other, now())).expect("a healthy ledger");
    assert!(matches!(resolving, Resolving::Unknown));
    assert!(matches!(resolve(&mut house.process(), "k9", Verdict::NotDone), Resolving::Unknown));
}

#[test]
fn a_word_is_durable_before_it_is_told() {
    let house = OnDisk::new();
    in_doubt(&house);
    let mut ledger = house.process();
    resolve(&mut ledger, "k1", Verdict::NotDone);
    assert_eq!(ledger.syncs(), 1);
    // This machine knows of the claim: a copy without it is an older one.
    let bytes = house.bytes();
    let end = bytes[..bytes.len() - 1].iter().rposition(|byte| *byte == b'\n').expect("a line") + 1;
    fs::write(house.path(), &bytes[..end]).expect("writes");
    assert!(matches!(house.refusal("k1"), StoreError::LostEnd { found: 1, recorded: 2, .. }));
}

#[test]
fn a_stored_answer_is_read_back_where_it_went() {
    let house = OnDisk::new();
    let (mut held, _) = ours(claim(&mut house.process(), &wish("k1", "one")));
    let Fact::Settled(mut end) = settled(Verdict::Accepted, Some(attempt(1, Evidence::Accepted))) else { panic!() };
    let long = "y".repeat(40_000);
    Arc::make_mut(&mut end).response.as_mut().expect("one").body = Some(StoredBody::Text(long.as_str().into()));
    append(&mut held, &[started(1), Fact::Settled(end)]);
    drop(held);
    let (held, history) = ours(claim(&mut house.process(), &wish("k1", "one")));
    let Fact::Settled(kept) = &history.facts[2].fact else { panic!() };
    let body = kept.response.as_ref().and_then(|response| response.body.clone()).expect("kept");
    assert!(matches!(body, StoredBody::Blob { .. }));
    assert_eq!(run(held.read(&body)).expect("readable").as_deref(), Some(long.as_bytes()));
}

#[test]
fn sixteen_workers_of_one_process_share_their_syncs() {
    let house = OnDisk::new();
    house.confirm("before");
    let ledger = house.process();
    let work = |index: u32| {
        let mut ledger = ledger.clone();
        async move {
            let name = format!("k{index}");
            let (mut held, _) = ours(ledger.claim(&wish(&name, &name), now()).await.expect("a healthy ledger"));
            assert!(matches!(ledger.claim(&wish(&name, &name), now()).await, Ok(Claimed::Busy(..))));
            let end = settled(Verdict::Confirmed, Some(attempt(1, Evidence::Answered)));
            for fact in [started(1), end] {
                held.append(now(), &fact, abide::drive::Durability::Now).await.expect("a healthy ledger");
            }
        }
    };
    let local = tokio::task::LocalSet::new();
    for index in 0..16 {
        local.spawn_local(work(index));
    }
    run(local);
    assert_eq!(house.reader().list().expect("readable").filter(|found| found.history.settled().is_some()).count(), 17);
    // Two for one operation, and no more for sixteen that go side by side.
    assert!((1..=4).contains(&ledger.syncs()), "{} syncs", ledger.syncs());
}
