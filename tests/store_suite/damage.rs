//! Torn tails, rot, lost ends, older copies: noticed, never read as "absent".

use crate::facts::*;
use crate::file::OnDisk;
use crate::suite::*;
use abide::drive::{Claim, Claimed, Durability, Ledger};
use abide::engine::facts::{Fact, Predecessor};
use abide::engine::verdict::{Evidence, Verdict};
use abide::store::jsonl::{Jsonl, Options};
use abide::store::{Left, StoreError, Warning};
use std::fs::{self, OpenOptions};

/// Cuts the file and runs on; the story before must be told truly whatever was lost.
#[test]
fn a_torn_tail_is_set_aside_at_every_length() {
    let house = OnDisk::quick();
    house.confirm("k1");
    let whole = house.bytes().len();
    house.story("k2", &[started(1), finished(1, Evidence::Refused), settled(Verdict::InDoubt, None)]);
    let (full, memory) = (house.bytes(), house.memory());
    let known = fs::read(&memory).expect("a record");
    let started_end = nth_line_end(&full, 6);
    for len in started_end..full.len() {
        house.put(&full[..len]);
        let torn = len - (full[..len].iter().rposition(|byte| *byte == b'\n').expect("a line") + 1);
        let mut ledger = house.process();
        let (mut held, _) = ours(claim(&mut ledger, &wish("k3", "k3")));
        match (torn, &ledger.warnings()[..]) {
            (0, []) => {}
            (_, [Warning::TornTail { byte, len: told, .. }]) if torn > 0 => {
                assert_eq!((*byte as usize, *told as usize), (len - torn, torn));
            }
            other => panic!("{other:?}"),
        }
        append(&mut held, &[started(1), settled(Verdict::Confirmed, Some(attempt(1, Evidence::Answered)))]);
        drop(held);
        recheck(&house, torn);
        fs::write(&memory, &known).expect("writes");
    }
    assert!(whole < started_end);
}

/// A disk that lost some of the sectors that were never synced. Source: T1 of the ledger's design.
#[test]
fn any_of_the_last_sectors_may_be_lost() {
    const SECTOR: usize = 512;
    let house = OnDisk::quick();
    house.confirm("k1");
    let mut facts = vec![started(1)];
    facts.extend((1..8).flat_map(|a| [finished(a, Evidence::Refused), waiting(), started(a + 1)]));
    house.story("k2", &facts);
    let (full, memory) = (house.bytes(), house.memory());
    let known = fs::read(&memory).expect("a record");
    let durable = nth_line_end(&full, 6);
    let last = (full.len() - 1) / SECTOR;
    assert!((last - 5) * SECTOR >= durable, "none of the sectors was acknowledged");
    for lost in 0..64_usize {
        let mut bytes = full.clone();
        for sector in (0..6).filter(|bit| lost >> bit & 1 == 1).map(|bit| last - bit) {
            bytes[sector * SECTOR..].iter_mut().take(SECTOR).for_each(|byte| *byte = 0);
        }
        house.put(&bytes);
        house.confirm("k3");
        assert!(matches!(claim(&mut house.process(), &wish("k1", "k1")), Claimed::Final(..)), "{lost:06b}");
        assert!(matches!(claim(&mut house.process(), &wish("k3", "k3")), Claimed::Final(..)), "{lost:06b}");
        let (_held, history) = ours(claim(&mut house.process(), &wish("k2", "k2")));
        assert!(history.last_attempt() >= 1, "{lost:06b}: it was started, and that was durable");
        assert!(house.reader().warnings().is_empty(), "{lost:06b}");
        for line in house.lines().iter().filter(|line| !line.trim().is_empty()) {
            serde_json::from_str::<serde_json::Value>(line).expect("every line is JSON");
        }
        fs::write(&memory, &known).expect("writes");
    }
}

fn nth_line_end(bytes: &[u8], n: usize) -> usize {
    bytes.iter().enumerate().filter(|(_, byte)| **byte == b'\n').nth(n - 1).expect("a line").0 + 1
}

fn recheck(house: &OnDisk, torn: usize) {
    let lines = house.lines();
    for line in &lines {
        serde_json::from_str::<serde_json::Value>(line).expect("every line is JSON");
    }
    let notes = lines.iter().filter(|line| line.starts_with("{\"t\":\"note\"")).count();
    assert_eq!(notes, usize::from(torn > 0));
    let reader = house.reader();
    let known: Vec<_> = reader
        .list()
        .expect("readable")
        .map(|found| (found.key.to_string(), found.history.settled().is_some()))
        .collect();
    assert_eq!(known.len(), 3);
    for name in ["k1", "k3"] {
        assert!(known.contains(&(name.into(), true)), "{known:?}");
        assert!(matches!(claim(&mut house.process(), &wish(name, name)), Claimed::Final(..)));
    }
    assert!(reader.warnings().is_empty());
}

#[test]
fn a_torn_outcome_leaves_its_operation_in_doubt() {
    let house = OnDisk::new();
    house.confirm("k1");
    house.confirm("k2");
    let file = OpenOptions::new().write(true).open(house.path()).expect("opens");
    file.set_len(house.bytes().len() as u64 - 9).expect("cuts");
    let before = house.bytes();
    let reader = house.reader();
    assert!(matches!(reader.warnings()[..], [Warning::TornTail { .. }]));
    assert!(reader.find(&key("k2"), None).expect("readable")[0].history.settled().is_none());
    assert_eq!(house.bytes(), before, "reading alters nothing");
    let (_claim, history) = ours(claim(&mut house.process(), &wish("k2", "k2")));
    let Some(Fact::Reopened(reopened)) = history.facts.last().map(|recorded| &recorded.fact) else { panic!() };
    assert_eq!(reopened.predecessor, Predecessor::InDoubt);
}

#[test]
fn a_damaged_line_that_was_acknowledged_stops_every_send() {
    let house = OnDisk::new();
    for name in ["k1", "k2", "k3"] {
        house.confirm(name);
    }
    let full = house.bytes();
    // The line that opened k2, then the one that settled k1.
    for line in [5, 4] {
        let mut bytes = full.clone();
        let start = nth_line_end(&bytes, line - 1);
        bytes[start + 30] ^= 4;
        house.put(&bytes);
        match house.refusal("k9") {
            error @ StoreError::Damaged { line: told, byte, .. } => {
                assert_eq!((told, byte), (line as u64, start as u64));
                assert!(error.to_string().contains("ledger damaged"), "{error}");
            }
            other => panic!("{other:?}"),
        }
        assert_eq!(house.bytes(), bytes, "acknowledged bytes are left as they are");
        let reader = house.reader();
        assert!(matches!(reader.warnings()[..], [Warning::Unsendable(StoreError::Damaged { .. })]));
        assert!(reader.find(&key("k3"), None).expect("readable").len() == 1);
    }
}

#[test]
fn an_open_claim_records_its_outcome_in_a_damaged_ledger() {
    let house = OnDisk::new();
    house.confirm("k1");
    house.confirm("k2");
    let (mut held, _) = ours(claim(&mut house.process(), &wish("k3", "k3")));
    append(&mut held, &[started(1)]);
    let mut bytes = house.bytes();
    let start = nth_line_end(&bytes, 3);
    bytes[start + 30] ^= 4;
    // In place: the claim has the file open.
    house.put(&bytes);
    append(&mut held, &[settled(Verdict::Confirmed, Some(attempt(1, Evidence::Answered)))]);
    assert!(matches!(house.refusal("k9"), StoreError::Damaged { .. }));
    assert!(house.read(&partner("acme"), &key("k3")).expect("there").settled().is_some());
}

#[test]
fn a_damaged_line_that_nobody_was_told_of_is_set_aside() {
    let house = OnDisk::new();
    house.confirm("k1");
    house.story("k2", &[started(1), finished(1, Evidence::Refused), waiting(), asked()]);
    let mut bytes = house.bytes();
    // The `waiting` line: written, never synced; a whole line follows it.
    let (start, end) = (nth_line_end(&bytes, 7), nth_line_end(&bytes, 8) - 1);
    assert!(bytes[start..].starts_with(b"{\"t\":\"waiting\""));
    bytes[start + 40] ^= 1;
    let damaged = bytes[start..end].to_vec();
    house.put(&bytes);
    assert!(matches!(house.reader().warnings()[..], [Warning::BadLine { line: 8, .. }]));
    let mut ledger = house.process();
    let (_held, history) = ours(claim(&mut ledger, &wish("k2", "k2")));
    assert!(matches!(ledger.warnings()[..], [Warning::BadLine { line: 8, .. }]));
    assert!(history.facts.iter().any(|recorded| matches!(recorded.fact, Fact::Asked(_))), "what follows stays");
    assert!(!history.facts.iter().any(|recorded| matches!(recorded.fact, Fact::Waiting(_))));
    let lines = house.lines();
    assert_eq!(lines[7], " ".repeat(damaged.len()));
    let note: serde_json::Value = serde_json::from_str(&lines[9]).expect("JSON");
    use base64::Engine as _;
    let kept = base64::engine::general_purpose::STANDARD.decode(note["b64"].as_str().expect("text")).expect("base64");
    assert_eq!((kept, note["offset"].as_u64()), (damaged, Some(start as u64)));
    assert!(house.reader().warnings().is_empty());
}

#[test]
fn an_older_copy_put_back_is_refused() {
    let house = OnDisk::new();
    house.confirm("k1");
    let old = house.bytes();
    house.confirm("k2");
    fs::write(house.path(), &old).expect("writes");
    match house.refusal("k2") {
        error @ StoreError::LostEnd { found: 1, recorded: 2, .. } => {
            assert!(error.to_string().contains("lost its end or is an older copy"), "{error}");
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(house.bytes(), old);
    assert!(matches!(house.reader().warnings()[..], [Warning::Unsendable(StoreError::LostEnd { .. })]));
}

#[test]
fn every_length_of_a_lost_end_is_noticed_or_in_doubt() {
    let house = OnDisk::quick();
    house.confirm("k1");
    house.confirm("k2");
    let full = house.bytes();
    let claimed = nth_line_end(&full, 6);
    for len in nth_line_end(&full, 1)..full.len() {
        house.put(&full[..len]);
        let mut ledger = house.process();
        match run(Ledger::claim(&mut ledger, &wish("k2", "k2"), now())) {
            Err(StoreError::LostEnd { .. }) => assert!(len < claimed, "{len}"),
            Ok(Claimed::Ours(_, history)) => {
                assert!(len >= claimed, "{len}");
                assert_eq!(history.facts.len(), 3, "{len}");
                drop(ledger);
            }
            other => panic!("{len}: {other:?}"),
        }
    }
}

#[test]
fn a_ledger_from_elsewhere_is_in_doubt_and_says_so_once() {
    let house = OnDisk::new();
    house.story("k1", &[]);
    fs::remove_dir_all(house.folder.path().join("state")).expect("a folder");
    let mut ledger = house.process();
    let (_claim, history) = ours(claim(&mut ledger, &wish("k1", "k1")));
    let Some(Fact::Reopened(reopened)) = history.facts.last().map(|recorded| &recorded.fact) else { panic!() };
    assert_eq!(reopened.predecessor, Predecessor::InDoubt);
    assert!(matches!(ledger.warnings()[..], [Warning::FirstSeen { .. }]));
    let mut again = house.process();
    ours(claim(&mut again, &wish("k2", "k2")));
    assert!(again.warnings().is_empty());
}

#[test]
fn an_unwritable_state_folder_warns() {
    let house = OnDisk::new();
    let options = Options { state: Some("/proc/no-such-folder".into()), ..house.options() };
    let mut ledger = Jsonl::open(&house.path(), &options).expect("opens");
    ours(claim(&mut ledger, &wish("k1", "k1")));
    assert!(matches!(ledger.warnings()[..], [Warning::Unremembered(_)]));
}

#[test]
fn merged_copies_are_refused() {
    let house = OnDisk::new();
    house.confirm("k1");
    let lines = house.lines();
    for extra in [&lines[0], &lines[1]] {
        fs::write(house.path(), format!("{}\n{extra}\n", lines.join("\n"))).expect("writes");
        assert!(matches!(house.refusal("k9"), StoreError::Damaged { line: 5, .. }));
    }
    // A line taken out: what follows knows that more was there.
    fs::write(house.path(), format!("{}\n{}\n{}\n", lines[0], lines[1], lines[3])).expect("writes");
    assert!(matches!(house.refusal("k9"), StoreError::Damaged { .. } | StoreError::LostEnd { .. }));
}

#[test]
fn a_file_that_is_cut_or_replaced_under_a_claim_is_noticed() {
    let house = OnDisk::new();
    let mut ledger = house.process();
    let (mut held, _) = ours(claim(&mut ledger, &wish("k1", "k1")));
    append(&mut held, &[started(1)]);
    let bytes = house.bytes();
    fs::remove_file(house.path()).expect("removes");
    let lost = |error: StoreError| {
        assert_eq!(error.left(), Left::Perhaps);
        assert!(error.to_string().starts_with("the request may have left; outcome not recorded"), "{error}");
    };
    lost(run(Claim::append(&mut held, now(), &asked(), Durability::Later)).expect_err("gone"));
    // A copy with the same content is the same ledger.
    house.put(&bytes);
    append(&mut held, &[asked()]);
    fs::write(house.path(), &bytes[..bytes.len() - 20]).expect("writes");
    lost(run(Claim::append(&mut held, now(), &asked(), Durability::Later)).expect_err("cut"));
}

#[test]
fn after_a_failed_sync_nothing_is_claimed() {
    let house = OnDisk::new();
    house.confirm("k1");
    fs::write(house.folder.path().join("ledger.jsonl.sick"), "{}\n").expect("writes");
    assert!(matches!(house.refusal("k2"), StoreError::Sick { .. }));
    assert!(matches!(house.reader().warnings()[..], [Warning::Unsendable(StoreError::Sick { .. })]));
}
