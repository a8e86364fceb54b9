//! Bodies beside the ledger that nothing names: removed at once, and never under a writer's hands.

use crate::compact::{all, done};
use crate::facts::*;
use crate::file::OnDisk;
use crate::suite::*;
use abide::drive::{Claim, Claimed, Durability, Ledger, Wish};
use abide::engine::facts::{Fact, StoredBody};
use abide::engine::verdict::{Evidence, Verdict};
use abide::store::StoreError;
use abide::store::jsonl::{kept_body, verify};
use std::fs;
use std::future::poll_fn;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::task::Poll;

/// How many operations each of two writers begins while somebody compacts.
const RACES: usize = 60;

/// A body that does not fit into a line, and no other one is like.
fn long(name: &str) -> String {
    format!("{name} ").repeat(20_000 / name.len())
}

fn long_wish(name: &str, body: &str) -> Wish {
    wish_of(name, opened(name, StoredBody::Text(body.into()), BOOT), body.as_bytes())
}

/// An end whose answer does not fit into a line.
fn answered(verdict: Verdict, body: &str) -> Fact {
    let mut end = settled(verdict, Some(attempt(1, Evidence::Answered)));
    let Fact::Settled(told) = &mut end else { panic!("a settled") };
    Arc::make_mut(told).response.as_mut().expect("one").body = Some(StoredBody::Text(body.into()));
    end
}

fn folder(house: &OnDisk) -> PathBuf {
    house.folder.path().join("ledger.jsonl.blobs")
}

fn count(house: &OnDisk) -> usize {
    fs::read_dir(folder(house)).map_or(0, |entries| entries.count())
}

/// Goes on with what somebody does until a body more is there, which no line names yet.
fn until_kept<T>(house: &OnDisk, doing: &mut Pin<Box<impl Future<Output = T>>>) {
    let before = count(house);
    run(poll_fn(|context| {
        for _ in 0..100 {
            if count(house) > before {
                return Poll::Ready(());
            }
            assert!(doing.as_mut().poll(context).is_pending(), "it ended first");
        }
        panic!("no body was kept")
    }));
}

#[test]
fn a_body_of_a_killed_writer_goes_with_the_next_compaction() {
    let house = OnDisk::new();
    house.confirm("k1");
    all(&house).expect("compacts");
    let (mut ledger, given) = (house.process(), long_wish("k2", &long("k2")));
    let mut claiming = Box::pin(ledger.claim(&given, now()));
    until_kept(&house, &mut claiming);
    drop(claiming);
    fs::write(folder(&house).join("0123456789abcdef.new"), "half of it").expect("writes");
    fs::write(folder(&house).join("README"), "not ours").expect("writes");
    let (lines, compacted) = (house.lines(), all(&house).expect("sweeps"));
    assert_eq!((compacted.operations, compacted.bodies), (0, 2));
    assert_eq!(house.lines(), lines, "nothing was to be compacted");
    assert_eq!(count(&house), 1, "what is no body stays");
}

#[test]
fn a_body_that_two_operations_have_stays_until_both_are_forgotten() {
    let house = OnDisk::new();
    let body = long("the same");
    for name in ["k1", "k2"] {
        story(&house, &long_wish(name, &body), &done(Verdict::Confirmed));
    }
    let forget = |name| crate::compact::one(&house, name);
    let first = forget("k1").expect("compacts");
    assert_eq!((first.operations, first.bodies, first.shared), (1, 0, 1));
    let other = house.read(&partner("acme"), &key("k2")).expect("there").opened().body.clone();
    assert_eq!(kept_body(&house.path(), &other).expect("there"), Some(body.into_bytes()));
    let second = forget("k2").expect("compacts");
    assert_eq!((second.operations, second.bodies, second.shared), (1, 1, 0));
    assert_eq!(count(&house), 0);
}

#[test]
fn a_body_that_goes_before_its_claim_is_written_is_kept_again() {
    let house = OnDisk::new();
    house.confirm("k1");
    let (mut ledger, body) = (house.process(), long("k2"));
    let given = long_wish("k2", &body);
    let mut claiming = Box::pin(ledger.claim(&given, now()));
    until_kept(&house, &mut claiming);
    assert_eq!(all(&house).expect("compacts").bodies, 1);
    assert_eq!(count(&house), 0);
    let (held, _) = ours(run(claiming).expect("claimed"));
    assert_eq!(run(Claim::body(&held)).expect("there").as_deref(), Some(body.as_bytes()));
    // Now a line names it.
    assert_eq!(all(&house).expect("compacts").bodies, 0);
    assert_eq!(count(&house), 1);
}

#[test]
fn an_answer_that_goes_before_its_line_is_written_is_kept_again() {
    let house = OnDisk::new();
    let (mut held, _) = ours(claim(&mut house.process(), &wish("k1", "k1")));
    append(&mut held, &[started(1)]);
    let end = answered(Verdict::InDoubt, &long("answer"));
    let mut recording = Box::pin(held.append(now(), &end, Durability::Now));
    until_kept(&house, &mut recording);
    assert_eq!(all(&house).expect("sweeps").bodies, 1);
    run(recording).expect("recorded");
    assert_eq!(count(&house), 1);
    assert_eq!(verify(&house.path(), &house.options()).expect("readable").findings, []);
}

#[test]
fn a_body_that_cannot_be_removed_is_told_and_goes_the_next_time() {
    let house = OnDisk::new();
    story(&house, &long_wish("k1", &long("k1")), &done(Verdict::Confirmed));
    let obstacle = folder(&house).join("0".repeat(64));
    fs::create_dir(&obstacle).expect("a folder where a body should be");
    let error = all(&house).expect_err("not everything can be removed");
    assert!(matches!(&error, StoreError::Unswept { .. }), "{error}");
    assert!(error.to_string().starts_with("not everything is erased"), "{error}");
    fs::remove_dir(obstacle).expect("removes");
    let again = all(&house).expect("sweeps");
    assert_eq!((again.operations, again.bodies, count(&house)), (0, 1, 0));
}

#[test]
fn no_body_is_removed_while_its_operation_is_being_claimed() {
    let house = OnDisk::quick();
    house.confirm("first");
    let (begun, begins) = channel();
    std::thread::scope(|scope| {
        for writer in ["a", "b"] {
            let (begun, house) = (begun.clone(), &house);
            scope.spawn(move || {
                let mut ledger = house.process();
                for at in 0..RACES {
                    let name = format!("{writer}{at}");
                    let body = long(&name);
                    begun.send(()).expect("somebody compacts");
                    let (mut held, _) = ours(claim(&mut ledger, &long_wish(&name, &body)));
                    let read = run(Claim::body(&held)).expect("there");
                    assert_eq!(read.as_deref(), Some(body.as_bytes()), "{name}");
                    let verdict = if at % 2 == 0 { Verdict::Confirmed } else { Verdict::InDoubt };
                    append(&mut held, &[started(1), answered(verdict, &long(&format!("answer {name}")))]);
                }
            });
        }
        drop(begun);
        // At most once for every operation, so that nobody is kept from his work for ever.
        for () in begins {
            all(&house).expect("compacts");
        }
    });
    all(&house).expect("compacts");
    assert_eq!(verify(&house.path(), &house.options()).expect("readable").findings, []);
    assert_eq!(count(&house), 2 * RACES, "a payload and an answer of every second operation");
    for found in house.reader().list().expect("readable").filter(|found| found.key.as_str() != "first") {
        let body = kept_body(&house.path(), &found.history.opened().body).expect("readable");
        let is_decided = !matches!(found.history.settled().expect("ended").verdict, Verdict::InDoubt);
        let expected = (!is_decided).then(|| long(found.key.as_str()).into_bytes());
        assert_eq!(body, expected, "{}", found.key);
    }
}

#[test]
fn who_meets_what_is_there_leaves_no_body() {
    let house = OnDisk::new();
    let given = long_wish("k1", &long("k1"));
    story(&house, &given, &done(Verdict::Confirmed));
    let other = Wish { opened: opened("k1", StoredBody::Text(long("other").into()), BOOT).into(), ..given.clone() };
    for again in [given, other] {
        assert!(matches!(claim(&mut house.process(), &again), Claimed::Final(..)));
    }
    assert_eq!(count(&house), 1);
}
