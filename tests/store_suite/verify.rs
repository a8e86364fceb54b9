//! Checking a whole ledger, repairing it, and going on after a loss.

use crate::facts::*;
use crate::file::OnDisk;
use crate::suite::*;
use abide::drive::{Claimed, Ledger};
use abide::engine::facts::{Fact, History, Owner, Predecessor, StoredBody};
use abide::engine::verdict::{Evidence, Verdict};
use abide::store::jsonl::{Accepted, Kind, Remedy, Verified, accept_loss, repair, verify};
use abide::store::{StoreError, Warning};
use std::fs;

fn check(house: &OnDisk) -> Verified {
    verify(&house.path(), &house.options()).expect("readable")
}

fn kinds(house: &OnDisk) -> Vec<Kind> {
    check(house).findings.iter().map(|finding| finding.kind).collect()
}

fn accept(house: &OnDisk) -> Accepted {
    let owner = Owner { host: "build-7".into(), boot: BOOT.into(), pid: 7 };
    let accepted = accept_loss(&house.path(), &house.options(), &owner).expect("it can be accepted");
    let again = check(house);
    assert_eq!(again.findings, [], "{accepted:?}");
    for line in house.lines().iter().filter(|line| !line.trim().is_empty()) {
        serde_json::from_str::<serde_json::Value>(line).expect("every line is JSON");
    }
    accepted
}

fn keys(found: &[(abide::engine::operation::PartnerName, abide::engine::operation::IdempotencyKey)]) -> Vec<&str> {
    let mut keys: Vec<&str> = found.iter().map(|(_, key)| key.as_str()).collect();
    keys.sort();
    keys
}

/// How a key looks to a send.
#[derive(Debug, PartialEq)]
enum Looks {
    Confirmed,
    InDoubt,
    /// It would be sent again as if nothing had been sent.
    Free,
    Absent,
    Refused,
}

fn looks(house: &OnDisk, name: &str) -> Looks {
    match run(house.process().claim(&wish(name, name), now())) {
        Ok(Claimed::Final(..)) => Looks::Confirmed,
        Ok(Claimed::Ours(_, history)) if history.facts.len() == 1 => Looks::Absent,
        Ok(Claimed::Ours(_, history)) if is_in_doubt(&history) => Looks::InDoubt,
        Ok(Claimed::Ours(..)) => Looks::Free,
        Err(StoreError::Lost { .. }) => Looks::Refused,
        other => panic!("{other:?}"),
    }
}

fn is_in_doubt(history: &History) -> bool {
    history.facts.iter().any(|recorded| match &recorded.fact {
        Fact::Reopened(reopened) => reopened.predecessor == Predecessor::InDoubt,
        Fact::Settled(settled) => settled.verdict == Verdict::InDoubt,
        _ => false,
    })
}

/// One operation of each sort, each of which may have been executed.
fn household() -> OnDisk {
    let house = OnDisk::quick();
    house.confirm("yes");
    house.story("doubt", &[started(1), finished(1, Evidence::InDoubt), settled(Verdict::InDoubt, None)]);
    house.story("dead", &[started(1)]);
    house.confirm("late");
    house
}

/// A ledger on the same machine with other bytes.
fn like(original: &OnDisk, bytes: &[u8]) -> OnDisk {
    let house = OnDisk::quick();
    let memory = original.memory();
    let folder = house.folder.path().join("state/ledgers");
    fs::create_dir_all(&folder).expect("a folder");
    fs::copy(&memory, folder.join(memory.file_name().expect("a name"))).expect("copies");
    house.put(bytes);
    house
}

#[test]
fn a_healthy_ledger_has_no_findings() {
    let house = household();
    let long = StoredBody::Text("x".repeat(20_000).into());
    ours(claim(&mut house.process(), &wish_of("long", opened("long", long, BOOT), b"")));
    let verified = check(&house);
    assert_eq!(verified.findings, []);
    assert_eq!((verified.operations, verified.claims, verified.bodies), (5, 5, 1));
    assert_eq!((verified.bytes, verified.lines), (house.bytes().len() as u64, house.lines().len() as u64));
    assert_eq!(
        accept_loss(&house.path(), &house.options(), &Owner::default()).expect("nothing to do"),
        Accepted::default()
    );
    fs::write(house.folder.path().join("empty"), "").expect("writes");
    assert_eq!(verify(&house.folder.path().join("empty"), &house.options()).expect("blank").lines, 0);
    let missing = house.folder.path().join("no-such");
    assert!(matches!(verify(&missing, &house.options()), Err(StoreError::Missing { .. })));
    assert!(matches!(repair(&missing, &house.options()), Err(StoreError::Missing { .. })));
    assert!(matches!(accept_loss(&missing, &house.options(), &Owner::default()), Err(StoreError::Missing { .. })));
    assert!(!missing.exists());
}

/// Every line in turn, at its start, in its middle, in its checksum; then a whole page.
#[test]
fn rot_is_found_where_it_is_and_never_reads_as_absent() {
    let original = household();
    let (bytes, lines) = (original.bytes(), original.lines());
    let mut start = lines[0].len() + 1;
    for (index, line) in lines.iter().enumerate().skip(1) {
        for place in [2, line.len() / 2, line.len() - 4] {
            let mut damaged = bytes.clone();
            damaged[start + place] ^= 1;
            let house = like(&original, &damaged);
            rotten(&house, start, index as u64 + 1, &lines);
        }
        start += line.len() + 1;
    }
}

fn rotten(house: &OnDisk, start: usize, line: u64, lines: &[String]) {
    let found = check(house).findings;
    assert!(
        found.iter().any(|finding| finding.line == line && finding.byte == start as u64 && finding.len > 0),
        "{found:?}"
    );
    if found.iter().all(|finding| finding.kind.remedy() == Remedy::Repair) {
        // The last line was never acknowledged.
        repair(&house.path(), &house.options()).expect("repairs");
        assert_eq!(check(house).findings, []);
        return;
    }
    assert!(matches!(house.refusal("new"), StoreError::Damaged { .. } | StoreError::LostEnd { .. }));
    let accepted = accept(house);
    let text = &lines[line as usize - 1];
    for name in ["yes", "doubt", "dead", "late"] {
        let is_its_first = text.starts_with("{\"t\":\"opened\"") && text.contains(&format!("\"k\":\"{name}\""));
        let looks = looks(house, name);
        match (name, looks) {
            ("yes" | "late", Looks::Confirmed) | (_, Looks::InDoubt) => {}
            (_, Looks::Refused) if is_its_first => {}
            (name, looks) => panic!("{name}: {looks:?} after {text} was damaged: {accepted:?}"),
        }
    }
    assert_eq!(looks(house, "new"), Looks::Absent);
}

#[test]
fn what_is_damaged_after_a_loss_was_accepted_never_reads_as_absent() {
    let original = household();
    let (mut bytes, lines) = (original.bytes(), original.lines());
    let first = lines[0].len() + 1;
    bytes[first + 2] ^= 1;
    let house = like(&original, &bytes);
    accept(&house);
    house.confirm("later");
    // An older line, which was well when the loss was accepted.
    let (mut bytes, lines) = (house.bytes(), house.lines());
    let is_other = |line: &String| line.contains("\"t\":\"opened\"") && line.contains("\"k\":\"doubt\"");
    let number = lines.iter().position(is_other).expect("there");
    let start: usize = lines[..number].iter().map(|line| line.len() + 1).sum();
    bytes[start + 2] ^= 1;
    let house = like(&house, &bytes);
    assert!(kinds(&house).contains(&Kind::Rot));
    assert!(matches!(house.refusal("doubt"), StoreError::Damaged { .. }));
    accept(&house);
    assert!(matches!(looks(&house, "doubt"), Looks::Refused | Looks::InDoubt));
}

#[test]
fn what_is_lost_with_its_key_is_said_to_be_unknown() {
    let house = household();
    let lines = house.lines();
    let (opened, settled) = (&lines[1], &lines[3]);
    let (from, to) = (lines[0].len() + 1, lines[0].len() + 1 + opened.len() + lines[2].len() + settled.len() + 2);
    let mut bytes = house.bytes();
    bytes[from..to].fill(0);
    house.put(&bytes);
    let accepted = accept(&house);
    assert_eq!(accepted.unknown, [(1, 1)]);
    assert_eq!((keys(&accepted.in_doubt), accepted.lost.len()), (vec![], 0));
    assert_eq!(accepted.set_aside, (to - from) as u64);
    // Nothing in the ledger tells that it was ever used.
    assert_eq!(looks(&house, "yes"), Looks::Absent);
    assert_eq!(looks(&house, "late"), Looks::Confirmed);
}

#[test]
fn a_lost_end_of_every_length_leaves_its_operation_in_doubt() {
    let original = household();
    let full = original.bytes();
    let from = full.len() - original.lines().iter().rev().take(4).map(|line| line.len() + 1).sum::<usize>();
    for len in (from..full.len()).step_by(7).chain([full.len() - 1]) {
        let house = like(&original, &full[..len]);
        if !kinds(&house).contains(&Kind::LostEnd { recorded: 4 }) {
            // Only the outcome is gone: its claim is there, and tells.
            repair(&house.path(), &house.options()).expect("repairs");
            assert_eq!((looks(&house, "late"), kinds(&house)), (Looks::InDoubt, vec![]), "{len}");
            continue;
        }
        let accepted = accept(&house);
        for (name, expected) in [("yes", Looks::Confirmed), ("doubt", Looks::InDoubt), ("dead", Looks::InDoubt)] {
            assert_eq!(looks(&house, name), expected, "{len}: {accepted:?}");
        }
        let late = looks(&house, "late");
        let told = late == Looks::InDoubt || late == Looks::Refused;
        assert!(told || accepted.unknown == [(4, 4)], "{len}: {late:?} {accepted:?}");
    }
}

#[test]
fn an_older_copy_is_accepted_with_what_it_has_in_doubt() {
    let house = OnDisk::new();
    house.confirm("k1");
    house.story("k2", &[settled(Verdict::NotDone, None)]);
    house.story("k3", &[started(1), settled(Verdict::Rejected, Some(attempt(1, Evidence::Answered)))]);
    let old = house.bytes();
    // Since then k2 was sent, and somebody tried k3 again.
    house.story("k2", &[started(1), settled(Verdict::Confirmed, Some(attempt(1, Evidence::Answered)))]);
    house.put(&old);
    assert_eq!(kinds(&house), [Kind::LostEnd { recorded: 4 }]);
    let accepted = accept(&house);
    assert_eq!((keys(&accepted.in_doubt), &accepted.unknown[..]), (vec!["k2", "k3"], &[(4, 4)][..]));
    assert_eq!(looks(&house, "k1"), Looks::Confirmed);
    assert_eq!(looks(&house, "k2"), Looks::InDoubt);
    assert_eq!(looks(&house, "k3"), Looks::InDoubt);
    // The numbers of what was lost are not given again.
    let (held, _) = ours(claim(&mut house.process(), &wish("k9", "k9")));
    assert!(abide::drive::Claim::n(&held) > 6);
}

#[test]
fn two_copies_that_went_apart_are_accepted_with_the_second_in_doubt() {
    let house = OnDisk::new();
    house.confirm("both");
    let common = house.bytes();
    house.confirm("first");
    let first = house.bytes();
    let other = OnDisk::new();
    other.put(&common);
    other.story("second", &[started(1), settled(Verdict::Confirmed, Some(attempt(1, Evidence::Answered)))]);
    other.story("both2", &[started(1)]);
    house.put(&[first, other.bytes()].concat());
    let found = kinds(&house);
    assert_eq!(found.iter().filter(|kind| **kind == Kind::Repeated).count(), 4, "{found:?}");
    assert!(found.iter().any(|kind| matches!(kind, Kind::Contradiction(_))));
    assert!(matches!(house.refusal("new"), StoreError::Damaged { .. }));
    let accepted = accept(&house);
    assert!(keys(&accepted.in_doubt).contains(&"second"));
    for (name, expected) in
        [("both", Looks::Confirmed), ("first", Looks::Confirmed), ("second", Looks::InDoubt), ("both2", Looks::InDoubt)]
    {
        assert_eq!(looks(&house, name), expected, "{name}: {accepted:?}");
    }
}

#[test]
fn a_line_that_was_taken_out_is_noticed_by_its_number() {
    let house = household();
    let mut lines = house.lines();
    // All of "doubt".
    lines.drain(4..8);
    house.put(format!("{}\n", lines.join("\n")).as_bytes());
    let found = check(&house).findings;
    let gap = found.iter().find(|finding| matches!(finding.kind, Kind::Gap { to: 2 })).expect("a gap");
    assert_eq!(gap.n, Some(2));
    let accepted = accept(&house);
    assert_eq!(accepted.unknown, [(2, 2)]);
    assert_eq!(looks(&house, "yes"), Looks::Confirmed);
    assert_eq!(looks(&house, "dead"), Looks::InDoubt);
    assert_eq!(looks(&house, "late"), Looks::Confirmed);
}

#[test]
fn a_loss_is_not_accepted_while_somebody_works() {
    let house = household();
    let (held, _) = ours(claim(&mut house.process(), &wish("live", "live")));
    let mut bytes = house.bytes();
    bytes[house.lines()[0].len() + 40] ^= 1;
    house.put(&bytes);
    match accept_loss(&house.path(), &house.options(), &Owner::default()) {
        Err(error @ StoreError::InUse { n: 5, pid: 4821, .. }) => assert!(error.to_string().contains("process 4821")),
        other => panic!("{other:?}"),
    }
    assert_eq!(house.bytes(), bytes);
    drop(held);
    accept(&house);
}

#[test]
fn what_nobody_was_told_of_is_repaired() {
    let house = household();
    let whole = house.bytes();
    house.story("k5", &[started(1), waiting(), asked()]);
    let full = house.bytes();
    let mut bytes = full.clone();
    let asked_at = full[..full.len() - 1].iter().rposition(|byte| *byte == b'\n').expect("a line") + 1;
    bytes[asked_at - 30] ^= 1;
    bytes.truncate(full.len() - 5);
    house.put(&bytes);
    assert_eq!(kinds(&house), [Kind::Unacknowledged, Kind::Torn]);
    assert!(whole.len() < asked_at);
    let repaired = repair(&house.path(), &house.options()).expect("repairs");
    assert!(matches!(repaired.set_aside[..], [Warning::BadLine { .. }, Warning::TornTail { .. }]));
    assert_eq!((repaired.rewritten, kinds(&house)), (None, vec![]));
    assert_eq!(looks(&house, "k5"), Looks::InDoubt);
}

#[test]
fn a_failed_sync_is_repaired_by_writing_again() {
    let house = household();
    let sick = house.folder.path().join("ledger.jsonl.sick");
    let (bytes, len) = (house.bytes(), house.bytes().len() as u64);
    for (says, from) in [("{\"from\":900,\"to\":2000}", 900), ("?", 0)] {
        fs::write(&sick, says).expect("writes");
        assert_eq!(kinds(&house), [Kind::Sick]);
        let owner = Owner::default();
        assert!(matches!(accept_loss(&house.path(), &house.options(), &owner), Err(StoreError::Sick { .. })));
        let repaired = repair(&house.path(), &house.options()).expect("repairs");
        assert_eq!((repaired.rewritten, sick.exists()), (Some((from, len)), false));
        assert_eq!((house.bytes() == bytes, kinds(&house)), (true, vec![]));
    }
    assert_eq!(looks(&house, "new"), Looks::Absent);
}

#[test]
fn a_repair_accepts_no_loss() {
    let house = household();
    let mut bytes = house.bytes();
    bytes[house.lines()[0].len() + 40] ^= 1;
    house.put(&bytes);
    assert!(matches!(repair(&house.path(), &house.options()), Err(StoreError::Damaged { .. })));
    assert_eq!(house.bytes(), bytes);
}

#[test]
fn bodies_beside_the_ledger_are_checked() {
    let house = OnDisk::new();
    for name in ["gone", "changed", "fine"] {
        let long = StoredBody::Text(name.repeat(9_000).into());
        ours(claim(&mut house.process(), &wish_of(name, opened(name, long, BOOT), b"")));
    }
    let folder = house.folder.path().join("ledger.jsonl.blobs");
    for file in fs::read_dir(folder).expect("a folder").map(|file| file.expect("a file").path()) {
        match fs::read(&file).expect("a body") {
            body if body.starts_with(b"gone") => fs::remove_file(&file).expect("removes"),
            body if body.starts_with(b"changed") => fs::write(&file, "x").expect("writes"),
            _ => {}
        }
    }
    let found: Vec<_> = check(&house).findings.into_iter().map(|finding| (finding.kind, finding.key)).collect();
    assert_eq!(found, [(Kind::BodyMissing, Some(key("gone"))), (Kind::BodyDamaged, Some(key("changed")))]);
}

/// Source: T7 of the ledger's design: a flipped bit or a zeroed page is never a silent "absent".
#[test]
fn random_rot_is_never_silent() {
    let original = household();
    let full = original.bytes();
    let mut random = fastrand_of(7);
    for trial in 0..150 {
        let mut bytes = full.clone();
        let header = original.lines()[0].len() + 1;
        let at = header + random(bytes.len() - header);
        match trial % 3 {
            0 => bytes[at] ^= 1 << random(8),
            1 => bytes[at..].iter_mut().take(512).for_each(|byte| *byte = 0),
            _ => bytes.drain(at..(at + 1 + random(600)).min(full.len())).for_each(drop),
        }
        let house = like(&original, &bytes);
        let broken = kinds(&house);
        assert!(!broken.is_empty(), "trial {trial}: nothing was noticed at {at}");
        if broken.iter().all(|kind| kind.remedy() == Remedy::Repair) {
            repair(&house.path(), &house.options()).expect("repairs");
            assert_eq!(kinds(&house), []);
            continue;
        }
        let accepted = accept(&house);
        for name in ["yes", "doubt", "dead", "late"] {
            let looks = looks(&house, name);
            let told = !accepted.unknown.is_empty() || !accepted.lost.is_empty();
            let fine = match name {
                "yes" | "late" => matches!(looks, Looks::Confirmed | Looks::InDoubt | Looks::Refused),
                _ => matches!(looks, Looks::InDoubt | Looks::Refused),
            };
            assert!(fine || (looks == Looks::Absent && told), "trial {trial} at {at}: {name} {looks:?} {accepted:?}");
        }
    }
}

/// Numbers that look random, the same in every run (xorshift64).
fn fastrand_of(seed: u64) -> impl FnMut(usize) -> usize {
    let mut state = seed;
    move |below| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % below as u64) as usize
    }
}

/// The bound is ten times below the target, which is printed beside it (decisions 35).
#[test]
#[ignore = "a measurement, for `cargo test --release`"]
fn a_check_reads_hundreds_of_megabytes_a_second() {
    use abide::store::format::{Entry, fact_line};
    let house = OnDisk::quick();
    house.confirm("first");
    let body = format!("{{\"amount\":12900,\"currency\":\"EUR\",\"note\":\"{}\"}}", "x".repeat(400));
    let mut bytes = house.bytes();
    for n in 2..200_000 {
        let key = key(&format!("order-{n:09}"));
        let opened = Fact::Opened(opened("one", StoredBody::Text(body.as_str().into()), BOOT).into());
        let end = settled(Verdict::Confirmed, Some(attempt(1, Evidence::Answered)));
        let durable = bytes.len() as u64;
        for fact in [opened, started(1), end] {
            bytes.extend(fact_line(&Entry { n, key: &key, at: now().wall, fact: &fact, opened_at: None, durable }));
        }
    }
    house.put(&bytes);
    // The processor's time: others may be at work on the machine.
    let spent = || {
        let clock = nix::time::ClockId::CLOCK_THREAD_CPUTIME_ID;
        std::time::Duration::from(nix::time::clock_gettime(clock).expect("a clock"))
    };
    let began = spent();
    let verified = check(&house);
    let speed = bytes.len() as f64 / 1e6 / (spent() - began).as_secs_f64();
    assert_eq!((verified.findings, verified.operations), (vec![], 199_999));
    eprintln!("{} MB at {speed:.0} MB/s", bytes.len() / 1_000_000);
    assert!(speed >= 30.0, "{speed:.0} MB/s");
}
