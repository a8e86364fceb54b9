//! Forgetting: what is decided and older than a person asked for goes whole, and nothing seems lost.

use crate::compact::{done, kept};
use crate::facts::*;
use crate::file::OnDisk;
use crate::suite::*;
use abide::drive::{Claim, Claimed, EntryRule, Wish};
use abide::engine::facts::{Fact, Opened, StoredBody};
use abide::engine::verdict::{Evidence, Verdict};
use abide::store::StoreError;
use abide::store::jsonl::{Compacted, Effort, Kind, Options, Which, compact, verify, worth_compacting};
use std::cell::Cell;
use std::fs;
use std::time::Duration;

const HOUR: Duration = Duration::from_secs(3_600);

/// Forgets what is an hour old, two hours later: no key protects any more then.
fn forget(house: &OnDisk) -> Result<Compacted, StoreError> {
    forget_with(house, 2 * HOUR, HOUR, &|| false)
}

fn forget_with(
    house: &OnDisk,
    later: Duration,
    forget_after: Duration,
    stop: &dyn Fn() -> bool,
) -> Result<Compacted, StoreError> {
    let options = Options { now: now().wall.after(later), ..house.options() };
    compact(&house.path(), &options, Which::Older(&|_| kept(HOUR / 2, Some(forget_after))), stop)
}

fn keys(house: &OnDisk) -> Vec<String> {
    house.reader().list().expect("readable").map(|found| found.key.to_string()).collect()
}

fn ranges(house: &OnDisk) -> Vec<String> {
    let lines = house.lines().into_iter().filter(|line| line.starts_with(r#"{"t":"forgotten""#));
    lines.map(|line| line.split(r#","at""#).next().expect("a start").replace(r#"{"t":"forgotten","#, "")).collect()
}

fn check(house: &OnDisk) {
    assert_eq!(verify(&house.path(), &house.options()).expect("readable").findings, []);
    assert!(house.reader().warnings().is_empty());
}

#[test]
fn what_is_decided_and_old_goes_with_its_key_and_no_claim_seems_lost() {
    let house = OnDisk::new();
    house.story("yes", &done(Verdict::Confirmed));
    house.story("no", &done(Verdict::Rejected));
    house.story("doubt", &done(Verdict::InDoubt));
    house.story("open", &[started(1)]);
    house.confirm("last");
    assert_eq!(forget(&house).expect("compacts").forgotten, 3);
    assert_eq!(keys(&house), ["open", "doubt"]);
    assert_eq!(ranges(&house), [r#""n":2,"from":1"#, r#""n":5,"from":5"#]);
    assert!(house.lines()[0].contains(r#""v":2,"#), "older readers refuse it");
    assert!(!String::from_utf8_lossy(&house.bytes()).contains("last"));
    check(&house);
    // A key that was forgotten is a new one, behind all that were given.
    let (mut held, history) = ours(claim(&mut house.process(), &wish("yes", "other")));
    assert_eq!((held.n(), history.facts.len()), (6, 1));
    append(&mut held, &done(Verdict::Confirmed));
    drop(held);
    check(&house);
    // And once more: what follows what was forgotten joins it.
    assert_eq!(forget(&house).expect("compacts").forgotten, 1);
    assert_eq!(ranges(&house), [r#""n":2,"from":1"#, r#""n":6,"from":5"#]);
    check(&house);
}

#[test]
fn a_ledger_of_which_all_is_forgotten_goes_on() {
    let house = OnDisk::new();
    for name in ["k1", "k2", "k3"] {
        house.confirm(name);
    }
    assert_eq!(forget(&house).expect("compacts").forgotten, 3);
    assert_eq!((house.lines().len(), ranges(&house)), (3, vec![r#""n":3,"from":1"#.to_owned()]));
    check(&house);
    assert_eq!(forget(&house).expect("nothing").forgotten, 0);
    assert_eq!(ours(claim(&mut house.process(), &wish("k1", "k1"))).0.n(), 4);
    check(&house);
}

#[test]
fn nothing_is_forgotten_before_its_time() {
    let house = OnDisk::new();
    house.confirm("k1");
    let forgotten = |later, after| forget_with(&house, later, after, &|| false).expect("compacts").forgotten;
    // Its time is not over; its key still protects at the partner; its payload is still kept.
    assert_eq!(forgotten(2 * HOUR, 3 * HOUR), 0);
    assert_eq!(forgotten(HOUR * 9 / 10, HOUR / 10), 0);
    assert_eq!(forgotten(HOUR / 3, HOUR / 10), 0);
    assert!(house.lines()[0].contains(r#""v":1,"#), "an older reader still reads it");
    assert_eq!(forgotten(2 * HOUR, 2 * HOUR), 1);
}

#[test]
fn what_an_owner_who_was_fenced_off_may_still_tell_of_is_not_forgotten() {
    let house = OnDisk::new();
    let mut ledger = house.process();
    let (mut old, _) = ours(claim(&mut ledger, &wish("k1", "k1")));
    append(&mut old, &[started(1), settled(Verdict::InDoubt, None)]);
    let (mut new, _) = ours(claim(&mut house.process(), &wish("k1", "k1")));
    append(&mut new, &done(Verdict::Rejected));
    drop(new);
    let compacted = forget(&house).expect("compacts");
    assert_eq!((compacted.operations, compacted.forgotten), (1, 0));
    append(&mut old, &[settled(Verdict::Confirmed, Some(attempt(1, Evidence::Answered)))]);
    drop(old);
    assert!(matches!(claim(&mut ledger, &wish("k1", "k1")), Claimed::Final(..)));
    assert_eq!(forget(&house).expect("compacts").forgotten, 1);
    check(&house);
}

#[test]
fn what_is_told_after_it_was_chosen_is_not_forgotten() {
    let house = OnDisk::new();
    let (mut old, _) = ours(claim(&mut house.process(), &wish("k1", "k1")));
    append(&mut old, &[started(1), settled(Verdict::InDoubt, None)]);
    house.story("k1", &done(Verdict::Rejected));
    let late = Cell::new(Some(old));
    let stop = || {
        if let Some(mut old) = late.take() {
            append(&mut old, &[settled(Verdict::Confirmed, Some(attempt(1, Evidence::Answered)))]);
        }
        false
    };
    assert!(matches!(forget_with(&house, 2 * HOUR, HOUR, &stop), Err(StoreError::Compacting { .. })));
    let known = house.reader().find(&key("k1"), None).expect("readable").pop().expect("there");
    let last = known.history.facts.last().map(|recorded| &recorded.fact);
    assert!(matches!(last, Some(Fact::Settled(settled)) if settled.verdict == Verdict::Confirmed), "{last:?}");
    check(&house);
}

#[test]
fn who_is_told_of_meanwhile_is_not_forgotten() {
    let house = OnDisk::new();
    house.story("no", &done(Verdict::Rejected));
    house.confirm("yes");
    let (whole, told) = (house.bytes(), Cell::new(0));
    let again = || {
        told.set(told.get() + 1);
        if told.get() == 5 {
            let rejected_too = Wish { entry: EntryRule::Known { rejected: true }, ..wish("no", "no") };
            ours(claim(&mut house.process(), &rejected_too));
        }
        false
    };
    assert!(matches!(forget_with(&house, 2 * HOUR, HOUR, &again), Err(StoreError::Compacting { .. })));
    assert!(told.get() > 5 && house.bytes().starts_with(&whole) && house.bytes().len() > whole.len());
    assert_eq!(forget(&house).expect("compacts").forgotten, 1);
    assert_eq!(keys(&house), ["no"]);
    check(&house);
}

#[test]
fn a_compaction_that_is_stopped_leaves_the_file_as_it_was() {
    let house = OnDisk::new();
    house.confirm("k1");
    house.confirm("k2");
    let whole = house.bytes();
    for at in 1..=8 {
        let asked = Cell::new(0);
        let stop = || asked.replace(asked.get() + 1) + 1 == at;
        assert!(matches!(forget_with(&house, 2 * HOUR, HOUR, &stop), Err(StoreError::Stopped { .. })), "{at}");
        assert_eq!(house.bytes(), whole);
        assert!(!house.folder.path().join("ledger.jsonl.new").exists());
    }
    assert_eq!(forget(&house).expect("compacts").forgotten, 2);
}

#[test]
fn a_process_with_the_old_file_open_sees_that_a_key_was_forgotten() {
    let house = OnDisk::quick();
    let mut ledger = house.process();
    for at in 0..30 {
        let name = format!("k{at}");
        let (mut held, _) = ours(claim(&mut ledger, &crate::index::padded(&name, &name)));
        append(&mut held, &done(if at % 3 == 0 { Verdict::InDoubt } else { Verdict::Confirmed }));
    }
    assert!(ledger.keep_up(Effort::Short));
    let reader = house.reader();
    assert_eq!(forget(&house).expect("compacts").forgotten, 20);
    assert_eq!(reader.list().expect("readable").count(), 30, "who has the old file open reads it");
    crate::index::compare(&house, "forgotten");
    for at in 0..30 {
        let name = format!("k{at}");
        let (held, history) = ours(claim(&mut ledger, &crate::index::padded(&name, &name)));
        assert_eq!((history.facts.len() == 1, held.n()), (at % 3 != 0, 31 + at), "{name}");
    }
    ledger.keep_up(Effort::Short);
    crate::index::compare(&house, "and claimed again");
    check(&house);
}

#[test]
fn a_body_beside_the_ledger_goes_with_its_operation() {
    let house = OnDisk::new();
    let long = "y".repeat(40_000);
    let given = wish_of("k1", opened("k1", StoredBody::Text(long.clone().into()), BOOT), long.as_bytes());
    story(&house, &given, &done(Verdict::Confirmed));
    let compacted = forget(&house).expect("compacts");
    assert_eq!((compacted.forgotten, compacted.bodies, compacted.shared), (1, 1, 0));
}

fn put(house: &OnDisk, name: &str, url: &str, verdict: Verdict) {
    let opened = Opened { method: "PUT".into(), url: url.into(), ..opened(name, StoredBody::Text(name.into()), BOOT) };
    story(house, &wish_of(name, opened, name.as_bytes()), &done(verdict));
}

/// It would be advised again and again.
#[test]
fn what_is_kept_for_an_older_write_is_not_worth_a_compaction() {
    let options = |house: &OnDisk| Options { now: now().wall.after(2 * HOUR), ..house.options() };
    for (url, is_worth_it) in [("http://a.example/1", false), ("http://a.example/2", true)] {
        let house = OnDisk::quick();
        put(&house, "old", url, Verdict::InDoubt);
        for at in 0..30 {
            put(&house, &format!("k{at}"), "http://a.example/1", Verdict::Confirmed);
        }
        crate::compact::all(&house).expect("compacts");
        let worth = worth_compacting(&house.path(), &options(&house), &|_| kept(HOUR / 2, Some(HOUR)), 1);
        assert_eq!(worth.is_some(), is_worth_it);
        assert_eq!(forget(&house).expect("compacts").forgotten, if is_worth_it { 30 } else { 0 });
    }
}

#[test]
fn a_write_that_an_older_one_would_undo_is_still_known() {
    let house = OnDisk::new();
    let put = |name: &str, url: &str, verdict| put(&house, name, url, verdict);
    put("before", "http://a.example/1", Verdict::Confirmed);
    put("old", "http://a.example/1", Verdict::NotDone);
    put("later", "http://a.example/1", Verdict::Confirmed);
    put("elsewhere", "http://a.example/2", Verdict::Confirmed);
    let compacted = forget(&house).expect("compacts");
    assert_eq!((compacted.operations, compacted.forgotten), (1, 2));
    assert_eq!(keys(&house), ["later", "old"]);
    check(&house);
}

/// A line whose writer knew nothing to be durable.
fn unsynced(line: &str) -> String {
    let body = format!("{},\"d\":0", line.split(",\"d\":").next().expect("a start"));
    format!("{body},\"crc\":\"{:08x}\"}}\n", crc32fast::hash(body.as_bytes()))
}

#[test]
fn claims_that_were_set_aside_leave_no_gap_among_those_that_are_forgotten() {
    let house = OnDisk::new();
    for name in ["k1", "k2", "k3"] {
        house.confirm(name);
    }
    // Three tasks have claimed at once. The first syncs came too late: a part in the middle never reached the disk.
    let lines = house.lines();
    let mut bytes: Vec<u8> = [0, 1, 4, 7, 2, 3, 8, 9].map(|at: usize| unsynced(&lines[at])).concat().into_bytes();
    let second = memchr::memmem::find(&bytes, b"\"n\":2,").expect("a claim");
    bytes[second..second + 200].fill(0);
    house.put(&bytes);
    fs::remove_dir_all(house.folder.path().join("state")).expect("removes");
    let mut ledger = house.process();
    assert!(matches!(claim(&mut ledger, &wish("k1", "k1")), Claimed::Final(..)));
    assert_eq!(house.lines().iter().filter(|line| line.contains(r#""what":"bad""#)).count(), 1);
    check(&house);
    crate::compact::all(&house).expect("compacts");
    check(&house);
    assert_eq!(forget(&house).expect("compacts").forgotten, 2);
    assert_eq!(ranges(&house), [r#""n":1,"from":1"#, r#""n":3,"from":3"#]);
    check(&house);
}

#[test]
fn a_line_about_what_was_forgotten_is_missed_and_contradicts_what_comes_back() {
    let house = OnDisk::new();
    house.confirm("k1");
    let old: Vec<String> = house.lines();
    forget(&house).expect("compacts");
    let lines = house.lines();
    let text = |lines: &[String]| lines.iter().map(|line| format!("{line}\n")).collect::<String>();
    let kinds = |text: &str| {
        house.put(text.as_bytes());
        let verified = verify(&house.path(), &house.options()).expect("readable");
        verified.findings.iter().map(|finding| finding.kind).collect::<Vec<_>>()
    };
    assert!(lines[1].contains("forgotten"));
    let without: Vec<String> = lines.iter().filter(|line| !line.contains("forgotten")).cloned().collect();
    assert_eq!(kinds(&text(&without)), [Kind::Missing, Kind::LostEnd { recorded: 1 }]);
    assert!(matches!(house.refusal("k3"), StoreError::LostEnd { .. }));
    for more in [text(&old[1..]), format!("{}\n", lines[1])] {
        let merged = format!("{}{more}", text(&lines));
        assert!(kinds(&merged).iter().any(|kind| matches!(kind, Kind::Contradiction(_))), "{more}");
        assert!(matches!(house.refusal("k3"), StoreError::Damaged { .. }), "{more}");
    }
    // Also where later claims tell that nothing is lost at the end.
    house.put(text(&lines).as_bytes());
    house.confirm("k2");
    let without: Vec<String> = house.lines().into_iter().filter(|line| !line.contains("forgotten")).collect();
    assert!(kinds(&text(&without)).contains(&Kind::Gap { to: 1 }));
}
