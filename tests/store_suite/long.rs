//! What is too long for a line.

use crate::facts::*;
use crate::file::OnDisk;
use crate::suite::*;
use abide::drive::{Claim, Ledger, Wish};
use abide::engine::facts::{Fact, StoredBody};
use abide::engine::verdict::{Evidence, Verdict};
use abide::store::StoreError;
use std::fs;
use std::sync::Arc;

#[test]
fn long_bodies_lie_beside_the_ledger() {
    let house = OnDisk::new();
    let body = "x".repeat(100_000);
    let given = opened("one", StoredBody::Text(body.clone().into()), BOOT);
    let (mut held, _) = ours(claim(&mut house.process(), &wish_of("k1", given, body.as_bytes())));
    let mut end = settled(Verdict::Confirmed, Some(attempt(1, Evidence::Answered)));
    let Fact::Settled(settled) = &mut end else { panic!() };
    Arc::make_mut(settled).response.as_mut().expect("one").body = Some(StoredBody::Bytes(vec![0xff; 70_000].into()));
    append(&mut held, &[started(1), end]);
    assert!(house.lines().iter().all(|line| line.len() < 2_000));
    let history = house.read(&partner("acme"), &key("k1")).expect("there");
    let StoredBody::Blob { sha, len: 100_000 } = &history.opened().body else { panic!("no blob") };
    let response = history.settled().expect("settled").response.as_ref().expect("one");
    assert!(matches!(response.body, Some(StoredBody::Blob { len: 70_000, .. })));
    fs::write(house.folder.path().join("ledger.jsonl.blobs").join(&**sha), "y").expect("writes");
    assert!(matches!(run(Claim::body(&held)), Err(StoreError::BlobDamaged { .. })));
}

#[test]
fn an_outcome_too_long_for_a_line_is_kept_without_its_extras() {
    let house = OnDisk::new();
    let (mut held, _) = ours(claim(&mut house.process(), &wish("k1", "k1")));
    let mut last = attempt(1, Evidence::Answered);
    Arc::make_mut(&mut last).error = Some("e".repeat(70_000).into());
    let mut end = settled(Verdict::Confirmed, Some(last));
    let Fact::Settled(told) = &mut end else { panic!() };
    Arc::make_mut(told).response.as_mut().expect("one").headers = vec![("x".into(), "y".repeat(70_000).into())];
    append(&mut held, &[started(1), end]);
    let history = house.read(&partner("acme"), &key("k1")).expect("there");
    let kept = history.settled().expect("settled");
    let response = kept.response.as_ref().expect("one");
    assert_eq!((kept.verdict, response.cut, response.headers.len()), (Verdict::Confirmed, true, 0));
}

#[test]
fn a_request_too_long_for_a_line_is_refused() {
    let house = OnDisk::new();
    let mut given = opened("k1", StoredBody::Text("".into()), BOOT);
    given.url = format!("http://acme.example/{}", "u".repeat(70_000)).into();
    let wish = Wish { opened: given.into(), ..wish("k1", "k1") };
    let mut ledger = house.process();
    let refused = run(Ledger::claim(&mut ledger, &wish, now()));
    assert!(matches!(refused, Err(StoreError::TooLong { .. })));
    assert_eq!(house.lines().len(), 1);
    // The number that was not used is free.
    house.confirm("k2");
}
