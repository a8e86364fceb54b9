//! Compaction: what is decided and old loses its payload, and nothing else changes.

use crate::facts::*;
use crate::file::OnDisk;
use crate::suite::*;
use abide::drive::{Claim, Claimed, Durability, EntryRule, Wish};
use abide::engine::entry::{is_ended, is_final};
use abide::engine::facts::{Fact, Opened, StoredBody};
use abide::engine::verdict::{Evidence, Verdict};
use abide::store::StoreError;
use abide::store::jsonl::{
    Compacted, Effort, Found, Jsonl, Options, Retention, Which, Worth, compact, verify, worth_compacting,
};
use std::cell::Cell;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::time::Duration;

pub fn kept(keep_full: Duration, forget_after: Option<Duration>) -> Retention {
    Retention { keep_full, forget_after }
}

pub fn all(house: &OnDisk) -> Result<Compacted, StoreError> {
    compact(&house.path(), &house.options(), Which::Older(&|_| kept(Duration::ZERO, None)), &|| false)
}

/// Drops the payload and the answer of one operation.
pub fn one(house: &OnDisk, name: &str) -> Result<Compacted, StoreError> {
    compact(&house.path(), &house.options(), Which::One(&partner("acme"), &key(name)), &|| false)
}

pub fn done(verdict: Verdict) -> Vec<Fact> {
    vec![started(1), settled(verdict, Some(attempt(1, Evidence::Answered)))]
}

/// Returns how much disk the ledger has beyond its end, in bytes; 0 where the file system keeps none.
fn reserve(house: &OnDisk) -> u64 {
    let found = fs::metadata(house.path()).expect("a file");
    (found.blocks() * 512).saturating_sub(found.len())
}

fn list(house: &OnDisk) -> Vec<Found> {
    let reader = house.reader();
    let found = reader.list().expect("readable").collect();
    assert!(reader.warnings().is_empty());
    found
}

#[test]
fn what_is_decided_keeps_its_key_and_verdict_and_the_rest_stays_whole() {
    let house = OnDisk::new();
    house.story("yes", &done(Verdict::Confirmed));
    house.story("no", &done(Verdict::Rejected));
    house.story("doubt", &done(Verdict::InDoubt));
    house.story("open", &[started(1), finished(1, Evidence::Refused), waiting(), asked()]);
    let kept_free = reserve(&house);
    let (inode, before) = (fs::metadata(house.path()).expect("a file").ino(), list(&house));
    let compacted = all(&house).expect("compacts");
    assert_eq!(compacted.operations, 2);
    assert!(compacted.after < compacted.before);
    assert_eq!(house.bytes().len() as u64, compacted.after);
    assert!(reserve(&house) >= kept_free.min(2 << 20), "claims under way have lost their room");
    let found = fs::metadata(house.path()).expect("a file");
    assert!(found.ino() != inode && found.permissions().mode() & 0o777 == 0o600);
    let after = list(&house);
    assert_eq!(after.len(), before.len());
    for (old, new) in before.iter().zip(&after) {
        assert_eq!((&old.key, old.standing, is_ended(&old.history)), (&new.key, new.standing, is_ended(&new.history)));
        assert_eq!(is_final(&old.history), is_final(&new.history));
        if !is_final(&old.history) {
            assert_eq!(old, new);
        }
    }
    let with = |text: &str| house.lines().iter().filter(|line| line.contains(text)).count();
    assert_eq!((with(r#""s":"yes""#), with(r#""s":"doubt""#), with(r#"id\":77"#)), (0, 1, 1));
    assert_eq!(verify(&house.path(), &house.options()).expect("readable").findings, []);
    for name in ["yes", "no"] {
        let Claimed::Final(_, history) = claim(&mut house.process(), &wish(name, name)) else { panic!("{name}") };
        assert!(matches!(history.opened().body, StoredBody::Hash { .. }));
        assert!(matches!(claim(&mut house.process(), &wish(name, "other")), Claimed::OtherPayload(..)), "{name}");
    }
    let (held, history) = ours(claim(&mut house.process(), &wish("doubt", "doubt")));
    assert_eq!((held.n(), history.facts.len()), (5, 4));
    drop(held);
    // And once more: nothing is left to drop.
    assert_eq!(all(&house).expect("compacts").operations, 0);
}

#[test]
fn only_what_is_older_than_asked_for_is_compacted() {
    let house = OnDisk::new();
    house.confirm("k1");
    let later = Options { now: now().wall.after(Duration::from_secs(3_600)), ..house.options() };
    let older = |keep: u64| {
        let keep = |_: &Opened| kept(Duration::from_secs(keep), None);
        compact(&house.path(), &later, Which::Older(&keep), &|| false).expect("compacts")
    };
    let long = older(3_601);
    assert_eq!((long.operations, long.before), (0, long.after));
    assert_eq!(older(3_600).operations, 1);
}

#[test]
fn one_operation_is_forgotten_with_its_body_beside_the_ledger() {
    let house = OnDisk::new();
    let long = "y".repeat(40_000);
    let given = wish_of("k1", opened("k1", StoredBody::Text(long.clone().into()), BOOT), long.as_bytes());
    story(&house, &given, &done(Verdict::Confirmed));
    house.confirm("k2");
    let blobs = house.folder.path().join("ledger.jsonl.blobs");
    let body = fs::read_dir(&blobs).expect("a folder").next().expect("one").expect("a file").path();
    let forgotten = one(&house, "k1").expect("compacts");
    assert_eq!((forgotten.operations, forgotten.bodies), (1, 1));
    assert!(!body.exists());
    // Who sends it again does not bring it back.
    assert!(matches!(claim(&mut house.process(), &given), Claimed::Final(..)));
    assert_eq!(fs::read_dir(&blobs).expect("a folder").count(), 0);
    let k2 = house.read(&partner("acme"), &key("k2")).expect("there");
    assert_eq!(k2.opened().body, StoredBody::Text("k2".into()));
    // One that is not decided keeps what it needs.
    house.story("k3", &done(Verdict::InDoubt));
    let forgotten = one(&house, "k3").expect("nothing");
    assert_eq!(forgotten.operations, 0);
}

#[test]
fn claims_that_are_held_go_on_in_the_new_file() {
    let house = OnDisk::new();
    house.confirm("k1");
    let mut ledger = house.process();
    let (mut held, _) = ours(claim(&mut ledger, &wish("k2", "k2")));
    append(&mut held, &[started(1)]);
    let reader = house.reader();
    all(&house).expect("compacts");
    assert_eq!(reader.list().expect("readable").count(), 2, "who has the old file open reads it");
    assert!(matches!(claim(&mut house.process(), &wish("k2", "k2")), Claimed::Busy(..)));
    append(&mut held, &[finished(1, Evidence::Refused), started(2)]);
    append(&mut held, &[settled(Verdict::Confirmed, Some(attempt(2, Evidence::Answered)))]);
    drop(held);
    let names: Vec<_> =
        house.read(&partner("acme"), &key("k2")).expect("there").facts.iter().map(|r| r.fact.name()).collect();
    assert_eq!(names, ["opened", "started", "finished", "started", "settled"]);
    let (other, _) = ours(claim(&mut ledger, &wish("k3", "k3")));
    assert_eq!(other.n(), 3);
    assert!(matches!(claim(&mut ledger, &wish("k1", "k1")), Claimed::Final(..)));
    assert_eq!(verify(&house.path(), &house.options()).expect("readable").findings, []);
}

#[test]
fn a_rejection_can_still_be_tried_again_by_whoever_has_its_payload() {
    let house = OnDisk::new();
    house.story("no", &done(Verdict::Rejected));
    all(&house).expect("compacts");
    let again = Wish { entry: EntryRule::Known { rejected: true }, ..wish("no", "no") };
    let (mut held, history) = ours(claim(&mut house.process(), &again));
    assert!(matches!(history.opened().body, StoredBody::Hash { .. }));
    run(held.append(now(), &started(2), Durability::Now)).expect("recorded");
    drop(held);
    // It is not decided any more.
    assert_eq!(all(&house).expect("compacts").operations, 0);
}

#[test]
fn set_aside_claims_leave_no_gap_behind() {
    let house = OnDisk::new();
    house.confirm("k1");
    house.story("k2", &[]);
    // The claim was never synced, and half of it is lost.
    let bytes = house.bytes();
    house.put(&bytes[..bytes.len() - 40]);
    house.confirm("k3");
    assert_eq!(verify(&house.path(), &house.options()).expect("readable").findings, []);
    assert_eq!(all(&house).expect("compacts").operations, 2);
    assert_eq!(verify(&house.path(), &house.options()).expect("readable").findings, []);
    assert_eq!(list(&house).len(), 2);
}

#[test]
fn a_damaged_ledger_and_one_with_two_names_are_refused() {
    let house = OnDisk::new();
    house.confirm("k1");
    house.confirm("k2");
    let whole = house.bytes();
    fs::hard_link(house.path(), house.folder.path().join("link")).expect("a link");
    assert!(matches!(all(&house), Err(StoreError::Linked { .. })));
    fs::remove_file(house.folder.path().join("link")).expect("removes");
    let mut bytes = whole.clone();
    bytes[300] ^= 1;
    house.put(&bytes);
    assert!(matches!(all(&house), Err(StoreError::Damaged { .. })));
    assert_eq!(house.bytes(), bytes);
    house.put(&whole);
    fs::write(house.folder.path().join("ledger.jsonl.sick"), "{}").expect("writes");
    assert!(matches!(all(&house), Err(StoreError::Sick { .. })));
    assert!(!house.folder.path().join("ledger.jsonl.new").exists());
}

#[test]
fn what_a_killed_compaction_left_is_written_over() {
    let house = OnDisk::new();
    house.confirm("k1");
    fs::write(house.folder.path().join("ledger.jsonl.new"), "x".repeat(100_000)).expect("writes");
    assert!(matches!(claim(&mut house.process(), &wish("k1", "k1")), Claimed::Final(..)));
    all(&house).expect("compacts");
    assert_eq!(verify(&house.path(), &house.options()).expect("readable").findings, []);
    assert_eq!(list(&house).len(), 1);
}

#[test]
fn an_older_copy_from_before_a_compaction_is_refused() {
    let house = OnDisk::new();
    house.confirm("k1");
    let old = house.bytes();
    all(&house).expect("compacts");
    fs::remove_file(house.path()).expect("removes");
    fs::write(house.path(), old).expect("writes");
    assert!(matches!(house.refusal("k2"), StoreError::LostEnd { .. }));
}

/// What came meanwhile was acknowledged in the old file: it counts as that in the new one, too.
#[test]
fn lines_that_came_meanwhile_are_not_taken_for_what_nobody_was_told_of() {
    let house = OnDisk::new();
    house.confirm("old");
    let came = Cell::new(false);
    let stop = || {
        if !came.replace(true) {
            house.story("new", &done(Verdict::InDoubt));
        }
        false
    };
    let older = Which::Older(&|_| kept(Duration::ZERO, None));
    assert_eq!(compact(&house.path(), &house.options(), older, &stop).expect("compacts").operations, 1);
    // Only the lines themselves tell what was acknowledged: this machine remembers nothing.
    fs::remove_dir_all(house.folder.path().join("state")).expect("removes");
    let mut bytes = house.bytes();
    let opened = memchr::memmem::find(&bytes, br#"{"t":"opened","n":2,"#).expect("it is there");
    bytes[opened + 60] ^= 1;
    house.put(&bytes);
    let refused = house.refusal("new");
    assert!(matches!(refused, StoreError::Damaged { .. }), "{refused}");
    assert_eq!(house.bytes(), bytes);
}

/// Adds 60 operations, a third of them in doubt.
pub fn fill(ledger: &mut Jsonl) {
    for at in 0..60 {
        let name = format!("k{at}");
        let (mut held, _) = ours(claim(ledger, &crate::index::padded(&name, &name)));
        append(&mut held, &done(if at % 3 == 0 { Verdict::InDoubt } else { Verdict::Confirmed }));
    }
}

#[test]
fn who_still_has_the_old_file_leaves_the_index_of_the_new_one_alone() {
    let house = OnDisk::quick();
    let mut late = house.process();
    fill(&mut late);
    all(&house).expect("compacts");
    let manifest = || fs::read_to_string(house.folder.path().join("ledger.jsonl.idx/MANIFEST")).expect("an index");
    let made = manifest();
    assert!(!late.keep_up(Effort::Whole));
    assert_eq!(manifest(), made);
}

#[test]
fn an_index_follows_a_compaction() {
    let house = OnDisk::quick();
    let mut ledger = house.process();
    fill(&mut ledger);
    assert!(ledger.keep_up(Effort::Short));
    let compacted = all(&house).expect("compacts");
    assert!(compacted.after * 2 < compacted.before);
    let text = fs::read_to_string(house.folder.path().join("ledger.jsonl.idx/MANIFEST")).expect("an index");
    assert!(text.contains(r#""gen":1,"#), "nobody has to read the new file for it: {text}");
    for at in 0..60 {
        let name = format!("k{at}");
        match claim(&mut ledger, &crate::index::padded(&name, &name)) {
            Claimed::Final(..) => assert_ne!(at % 3, 0),
            Claimed::Ours(..) => assert_eq!(at % 3, 0),
            other => panic!("{other:?}"),
        }
    }
    crate::index::compare(&house, "compacted");
}

#[test]
fn what_a_compaction_is_worth_is_known_from_a_sample() {
    let house = OnDisk::quick();
    let later = Options { now: now().wall.after(Duration::from_secs(7_200)), ..house.options() };
    let worth = |keep: Retention| worth_compacting(&house.path(), &later, &|_| keep, 1 << 20);
    let (full, slim) = (Duration::from_secs(86_400), Duration::from_secs(3_600));
    let mut ledger = house.process();
    let mut fill = |from: usize, count: usize, verdict| {
        for at in from..from + count {
            let name = format!("k{at}");
            let (mut held, _) = ours(claim(&mut ledger, &crate::index::padded(&name, &name)));
            append(&mut held, &done(verdict));
        }
        ledger.keep_up(Effort::Whole);
    };
    fill(0, 60, Verdict::Confirmed);
    assert_eq!(worth(kept(slim, None)), None, "it is not long");
    fill(60, 60, Verdict::Confirmed);
    assert_eq!(worth(kept(full, None)), None, "nothing is old");
    let Worth { dead: slimmed, len } = worth(kept(slim, None)).expect("most of it");
    let Worth { dead: forgotten, .. } = worth(kept(slim, Some(slim))).expect("all of it");
    assert_eq!(house.bytes().len() as u64, len);
    assert!(len * 9 / 10 < slimmed && slimmed < forgotten && forgotten <= len, "{slimmed} {forgotten} {len}");
    // What is not decided stays.
    fill(120, 130, Verdict::InDoubt);
    assert_eq!(worth(kept(slim, Some(slim))), None);
    fill(250, 40, Verdict::Rejected);
    let Worth { dead, .. } = worth(kept(slim, None)).expect("over half");
    let (index, aside) = (house.folder.path().join("ledger.jsonl.idx"), house.folder.path().join("aside"));
    fs::rename(&index, &aside).expect("moves");
    assert_eq!(worth(kept(slim, None)), None, "without an index the whole file would have to be read");
    fs::rename(&aside, &index).expect("moves back");
    let state = house.folder.path().join("state");
    fs::rename(&state, &aside).expect("moves");
    assert_eq!(worth(kept(slim, None)), None, "nobody could tell whether its end was lost");
    fs::rename(&aside, &state).expect("moves back");
    let before = house.bytes().len() as u64;
    let after = compact(&house.path(), &later, Which::Older(&|_| kept(slim, None)), &|| false).expect("compacts").after;
    assert!((before - after).abs_diff(dead) < before / 10, "{before} {after} {dead}");
    assert_eq!(worth(kept(slim, None)), None);
}
