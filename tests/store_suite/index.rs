//! The index: what it finds is what the whole file says, whatever becomes of its files.

use crate::compact::kept;
use crate::facts::*;
use crate::file::OnDisk;
use crate::suite::*;
use abide::drive::{Claim, Claimed, Durability, EntryRule, Ledger, Resolving, Wish};
use abide::engine::entry::{Known, continues_without_key, is_final};
use abide::engine::facts::{Fact, Opened, Resolved, StoredBody};
use abide::engine::operation::IdempotencyKey;
use abide::engine::verdict::{Evidence, Verdict};
use abide::store::jsonl::{Effort, Found, Jsonl, JsonlClaim, Options, Reader, Which, compact, verify};
use abide::store::{StoreError, Warning};
use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

/// So long that some twenty operations need a run of their own.
const PADDING: usize = 14_000;

pub fn padded(name: &str, payload: &str) -> Wish {
    let body = format!("{payload}{}", "x".repeat(PADDING));
    let opened =
        Opened { body: StoredBody::Text(body.clone().into()), ..opened(payload, StoredBody::Text("".into()), BOOT) };
    wish_of(name, opened, body.as_bytes())
}

fn folder(house: &OnDisk) -> PathBuf {
    house.folder.path().join("ledger.jsonl.idx")
}

fn files(house: &OnDisk) -> Vec<PathBuf> {
    let Ok(folder) = fs::read_dir(folder(house)) else { return Vec::new() };
    let mut files: Vec<PathBuf> = folder.map(|file| file.expect("a file").path()).collect();
    files.sort();
    files
}

fn ends(at: usize) -> Vec<Fact> {
    let verdict = match at % 7 {
        0 => Verdict::InDoubt,
        3 => Verdict::Rejected,
        _ => Verdict::Confirmed,
    };
    vec![started(1), settled(verdict, Some(attempt(1, Evidence::Answered)))]
}

/// Writes `count` operations in one process, with an index at the end.
fn fill(house: &OnDisk, count: usize) {
    let mut ledger = house.process();
    for at in 0..count {
        let (mut held, _) = ours(claim(&mut ledger, &padded(&format!("k{at}"), &format!("k{at}"))));
        append(&mut held, &ends(at));
    }
    assert!(ledger.keep_up(Effort::Short));
}

fn is_dropped(warnings: &[Warning]) -> bool {
    warnings.iter().any(|warning| matches!(warning, Warning::IndexDropped { .. }) && warning.is_detail())
}

/// Compares what is found through the index with what the whole file says.
pub fn compare(house: &OnDisk, context: &str) {
    let (reader, whole) = (house.reader(), house.reader());
    let all: Vec<Found> = whole.list().expect("readable").collect();
    for found in &all {
        assert_eq!(
            reader.find(&found.key, Some(&found.partner)).expect("readable"),
            std::slice::from_ref(found),
            "{context}"
        );
    }
    assert!(reader.find(&key("nobody-has-this"), None).expect("readable").is_empty(), "{context}");
    let undecided: Vec<Found> = reader.undecided().expect("readable").collect();
    let expected: Vec<Found> = all.iter().filter(|found| !is_final(&found.history)).cloned().collect();
    assert_eq!(undecided, expected, "{context}");
    for name in ["acme", "bank"] {
        let is_control = |found: &&Found| {
            let confirmed = |fact: &Fact| matches!(fact, Fact::Settled(end) if end.verdict == Verdict::Confirmed);
            found.partner == partner(name) && found.history.facts.iter().any(|recorded| confirmed(&recorded.fact))
        };
        let controls: Vec<&IdempotencyKey> = all.iter().filter(is_control).map(|found| &found.key).collect();
        let newest = reader.newest_confirmed(&partner(name), &key("other"));
        assert_eq!(newest.is_some(), !controls.is_empty(), "{context}");
        assert!(newest.is_none_or(|newest| controls.contains(&&newest)), "{context}");
    }
}

#[test]
fn a_short_ledger_has_no_index() {
    let house = OnDisk::quick();
    house.confirm("k1");
    let ledger = house.process();
    assert!(!ledger.keep_up(Effort::Whole));
    assert!(!folder(&house).exists());
}

#[test]
fn a_long_ledger_is_found_by_its_index() {
    let house = OnDisk::quick();
    fill(&house, 30);
    assert_eq!(files(&house).len(), 2, "a manifest and a run");
    compare(&house, "one run");
    // Not by reading it: with the middle of the journal gone, the ends are still found.
    let whole = house.bytes();
    let mut bytes = whole.clone();
    let middle = bytes.len() / 2;
    bytes[middle..middle + 5_000].fill(0);
    house.put(&bytes);
    let reader = house.reader();
    assert!(reader.warnings().is_empty());
    assert_eq!(reader.find(&key("k1"), None).expect("readable").len(), 1);
    assert!(matches!(claim(&mut house.process(), &padded("k1", "k1")), Claimed::Final(..)));
    house.put(&whole);
    // More runs, which are merged so that there are few.
    for round in 0..12 {
        let mut ledger = house.process();
        for at in 0..20 {
            let name = format!("r{round}-{at}");
            let (mut held, _) = ours(claim(&mut ledger, &padded(&name, &name)));
            append(&mut held, &ends(at));
        }
        ledger.keep_up(Effort::Short);
    }
    let runs = files(&house).len() - 1;
    assert!((1..=4).contains(&runs), "{runs}");
    compare(&house, "many runs");
    assert!(house.reader().warnings().is_empty());
}

#[test]
fn damage_in_the_index_never_makes_an_operation_absent() {
    let house = OnDisk::quick();
    fill(&house, 45);
    let journal = house.bytes();
    for path in files(&house) {
        let whole = fs::read(&path).expect("reads");
        let flips = (0..whole.len()).step_by(whole.len() / 60 + 1).map(|at| {
            let mut bytes = whole.clone();
            bytes[at] ^= 1 << (at % 8);
            bytes
        });
        let cuts = [0, 1, whole.len() / 2, whole.len() - 1].map(|len| whole[..len].to_vec());
        let zeroed = vec![0; whole.len()];
        for bytes in flips.chain(cuts).chain([zeroed]) {
            fs::write(&path, &bytes).expect("writes");
            let mut ledger = house.process();
            for at in [0, 7, 44] {
                let name = format!("k{at}");
                match (claim(&mut ledger, &padded(&name, &name)), at % 7) {
                    (Claimed::Ours(_, history), 0) => assert!(history.facts.len() >= 4),
                    (Claimed::Final(..), 1..) => {}
                    other => panic!("{other:?}"),
                }
            }
            let (_new, history) = ours(claim(&mut ledger, &padded("new", "new")));
            assert_eq!(history.facts.len(), 1);
            drop(ledger);
            house.put(&journal);
        }
        fs::write(&path, &whole).expect("writes");
    }
}

#[test]
fn an_index_that_cannot_be_used_is_dropped_and_made_anew() {
    let house = OnDisk::quick();
    fill(&house, 30);
    let manifest = folder(&house).join("MANIFEST");
    let text = fs::read_to_string(&manifest).expect("text");
    let sealed = |body: &str| format!("{body},\"crc\":\"{:08x}\"}}\n", crc32fast::hash(body.as_bytes()));
    let body = &text[..text.len() - 19];
    assert_eq!(sealed(body), text);
    let run = files(&house).into_iter().find(|path| *path != manifest).expect("a run");
    let bytes = fs::read(&run).expect("reads");
    let useless = [
        sealed(&body.replacen("\"v\":1", "\"v\":2", 1)),
        sealed(&body.replacen("\"gen\":0", "\"gen\":1", 1)),
        sealed(&body.replacen("\"id\":\"", "\"id\":\"0", 1)),
        sealed(&body.replacen("\"sum\":", "\"sum\":1", 1)),
        sealed("{\"v\":7,\"whatever\":1"),
        text.replacen("\"covered\"", "\"Covered\"", 1),
        String::new(),
    ];
    for manifest_text in useless.iter().map(Some).chain([None]) {
        match manifest_text {
            Some(text) => fs::write(&manifest, text).expect("writes"),
            // A run that is not there.
            None => fs::remove_file(&run).expect("removes"),
        }
        assert!(is_dropped(&house.reader().warnings()), "{manifest_text:?}");
        let mut ledger = house.process();
        assert!(matches!(claim(&mut ledger, &padded("k1", "k1")), Claimed::Final(..)));
        assert!(is_dropped(&ledger.warnings()), "{manifest_text:?}");
        assert!(ledger.keep_up(Effort::Short), "{manifest_text:?}");
        assert!(house.reader().warnings().is_empty(), "{manifest_text:?}");
        compare(&house, "made anew");
        for path in files(&house) {
            fs::remove_file(path).expect("removes");
        }
        fs::write(&manifest, &text).expect("writes");
        fs::write(&run, &bytes).expect("writes");
        assert!(house.reader().warnings().is_empty(), "as it was");
    }
}

#[test]
fn an_index_that_is_deleted_is_made_anew_without_a_word() {
    let house = OnDisk::quick();
    fill(&house, 30);
    fs::remove_dir_all(folder(&house)).expect("a folder");
    let mut ledger = house.process();
    assert!(matches!(claim(&mut ledger, &padded("k1", "k1")), Claimed::Final(..)));
    assert!(ledger.keep_up(Effort::Short));
    assert!(ledger.warnings().is_empty());
    compare(&house, "made anew");
}

#[test]
fn what_killed_processes_leave_is_swept() {
    let house = OnDisk::quick();
    fill(&house, 30);
    for name in ["0-1-0000000000000000.run", "MANIFEST.0000000000000000.new"] {
        fs::write(folder(&house).join(name), "half").expect("writes");
    }
    let mut ledger = house.process();
    for at in 100..125 {
        let (mut held, _) = ours(claim(&mut ledger, &padded(&format!("k{at}"), "p")));
        append(&mut held, &ends(1));
    }
    assert!(ledger.keep_up(Effort::Short));
    assert_eq!(files(&house).len(), 2);
    compare(&house, "swept");
}

/// Source: T7 of the ledger's design.
#[test]
fn rot_in_covered_lines_is_found_by_whoever_looks_them_up() {
    let house = OnDisk::quick();
    fill(&house, 30);
    let whole = house.bytes();
    let lines = house.lines();
    let k5: usize = lines.iter().take_while(|line| !line.contains("\"k\":\"k5\"")).map(|line| line.len() + 1).sum();
    let of_k5: usize = lines.iter().filter(|line| line.contains("\"k\":\"k5\"")).map(|line| line.len() + 1).sum();
    for at in (k5..k5 + of_k5).step_by(97).chain([k5 + of_k5 - 1]) {
        let mut bytes = whole.clone();
        bytes[at] ^= 8;
        house.put(&bytes);
        let refused = run(Ledger::claim(&mut house.process(), &padded("k5", "k5"), now()));
        assert!(matches!(refused, Err(StoreError::Damaged { .. })), "{at}: {refused:?}");
        let reader = house.reader();
        let found = reader.find(&key("k5"), None);
        let told = reader.warnings();
        let is_told = told.iter().any(|warning| matches!(warning, Warning::Unsendable(StoreError::Damaged { .. })));
        assert!(found.is_err() || is_told, "{at}: {found:?}, {told:?}");
    }
}

#[test]
fn an_older_copy_put_back_is_refused_although_the_index_knows_more() {
    let house = OnDisk::quick();
    fill(&house, 25);
    let old = house.bytes();
    fill_more(&house, 25);
    fs::write(house.path(), &old).expect("writes");
    assert!(matches!(house.refusal("k49"), StoreError::LostEnd { found: 25, recorded: 50, .. }));
    // Also one that went on elsewhere, to the same length and beyond.
    let memory = fs::read(house.memory()).expect("a record");
    fs::write(house.memory(), "").expect("forgets");
    for at in 0..40 {
        house.confirm(&format!("elsewhere-{at}"));
        let name = format!("e{at}");
        story(&house, &padded(&name, &name), &ends(1));
    }
    fs::write(house.memory(), &memory).expect("remembers");
    let reader = house.reader();
    assert!(is_dropped(&reader.warnings()));
    assert!(reader.find(&key("k49"), None).expect("readable").is_empty());
}

fn fill_more(house: &OnDisk, count: usize) {
    let mut ledger = house.process();
    for at in 25..25 + count {
        let (mut held, _) = ours(claim(&mut ledger, &padded(&format!("k{at}"), "p")));
        append(&mut held, &ends(1));
    }
    assert!(ledger.keep_up(Effort::Short));
}

#[test]
fn two_copies_that_were_merged_are_refused_with_an_index() {
    let house = OnDisk::quick();
    fill(&house, 30);
    let lines = house.lines();
    let opened = lines.iter().find(|line| line.contains("\"k\":\"k9\"")).expect("a line");
    fs::write(house.path(), format!("{}\n{opened}\n", lines.join("\n"))).expect("writes");
    assert!(matches!(house.refusal("new"), StoreError::Damaged { .. }));
    // A line taken out from the middle: the last covered line is not where it was.
    let without: Vec<&String> = lines.iter().filter(|line| *line != opened).collect();
    let text: String = without.iter().map(|line| format!("{line}\n")).collect();
    fs::write(house.path(), text).expect("writes");
    assert!(matches!(house.refusal("new"), StoreError::Damaged { .. } | StoreError::LostEnd { .. }));
}

#[test]
fn every_length_of_a_lost_end_is_noticed_with_an_index() {
    let house = OnDisk::quick();
    fill(&house, 25);
    house.confirm("last");
    let full = house.bytes();
    for len in (full.len() - 3_000..full.len() - 700).step_by(41) {
        house.put(&full[..len]);
        match run(Ledger::claim(&mut house.process(), &padded("k9", "k9"), now())) {
            Err(StoreError::LostEnd { .. }) => {}
            other => panic!("{len}: {other:?}"),
        }
    }
}

/// Source: T10 of the ledger's design.
#[test]
fn an_index_costs_a_claim_no_sync() {
    let house = OnDisk::quick();
    fill(&house, 25);
    let mut ledger = house.process();
    for at in 0..25 {
        let (mut held, _) = ours(claim(&mut ledger, &padded(&format!("n{at}"), "p")));
        append(&mut held, &ends(1));
    }
    assert!(ledger.keep_up(Effort::Short));
    assert_eq!(ledger.syncs(), 50);
}

#[test]
fn a_claim_that_a_run_covers_goes_on() {
    let house = OnDisk::quick();
    fill(&house, 25);
    let mut ledger = house.process();
    let (mut held, _) = ours(claim(&mut ledger, &padded("long", "long")));
    append(&mut held, &[started(1), finished(1, Evidence::Refused)]);
    for at in 0..25 {
        let (mut other, _) = ours(claim(&mut ledger, &padded(&format!("n{at}"), "p")));
        append(&mut other, &ends(1));
    }
    assert!(ledger.keep_up(Effort::Short));
    append(&mut held, &[waiting(), started(2)]);
    assert!(matches!(claim(&mut house.process(), &padded("long", "long")), Claimed::Busy(..)));
    let end = settled(Verdict::Confirmed, Some(attempt(2, Evidence::Answered)));
    append(&mut held, &[end]);
    let history = house.read(&partner("acme"), &key("long")).expect("there");
    let names: Vec<_> = history.facts.iter().map(|recorded| recorded.fact.name()).collect();
    assert_eq!(names, ["opened", "started", "finished", "waiting", "started", "settled"]);
    compare(&house, "before");
    fill_on(&mut ledger, "m");
    assert!(ledger.keep_up(Effort::Short));
    compare(&house, "after");
}

fn fill_on(ledger: &mut Jsonl, name: &str) {
    for at in 0..25 {
        let (mut held, _) = ours(claim(ledger, &padded(&format!("{name}{at}"), "p")));
        append(&mut held, &ends(1));
    }
}

#[test]
fn an_owner_that_was_taken_over_is_fenced_off_by_what_a_run_covers() {
    let house = OnDisk::quick();
    fill(&house, 25);
    let mut ledger = house.process();
    let (mut old, _) = ours(claim(&mut ledger, &padded("k", "k")));
    append(&mut old, &[started(1), settled(Verdict::InDoubt, None)]);
    let (new, _) = ours(claim(&mut house.process(), &padded("k", "k")));
    fill_on(&mut ledger, "n");
    assert!(ledger.keep_up(Effort::Short));
    match run(old.append(now(), &started(2), Durability::Now)) {
        Err(StoreError::Fenced { n, newest, .. }) => assert_eq!((n, newest), (old.n(), new.n())),
        other => panic!("a fenced claim may not start: {other:?}"),
    }
    // What it has to tell counts all the same.
    append(&mut old, &[settled(Verdict::Confirmed, Some(attempt(1, Evidence::Answered)))]);
    drop((old, new));
    assert!(matches!(claim(&mut house.process(), &padded("k", "k")), Claimed::Final(..)));
    compare(&house, "taken over");
}

/// Source: T9 of the ledger's design. Runs of random steps; after some of them everything is compared.
#[test]
fn whatever_happens_the_index_says_what_the_whole_file_says() {
    let cases = std::env::var("ABIDE_TEST_CASES").map_or(12, |cases| cases.parse().expect("a number"));
    for seed in 0..cases {
        Model { house: OnDisk::quick(), random: fastrand::Rng::with_seed(seed), held: BTreeMap::new(), ledger: None }
            .play(seed);
    }
}

struct Model {
    house: OnDisk,
    random: fastrand::Rng,
    held: BTreeMap<u64, JsonlClaim>,
    ledger: Option<Jsonl>,
}

impl Model {
    fn play(&mut self, seed: u64) {
        for step in 0..90 {
            self.step();
            if step % 9 == 0 {
                compare(&self.house, &format!("seed {seed}, step {step}"));
            }
        }
        compare(&self.house, &format!("seed {seed}"));
        assert_eq!(verify(&self.house.path(), &self.house.options()).expect("readable").findings, [], "seed {seed}");
    }

    fn step(&mut self) {
        let mut ledger = self.ledger.take().unwrap_or_else(|| self.house.process());
        match self.random.u8(0..20) {
            0..=9 => self.claim(&mut ledger),
            10..=11 => self.keyless(&mut ledger),
            12..=13 => self.go_on(),
            14 => self.resolve(&mut ledger),
            15..=16 => drop(ledger.keep_up(if self.random.bool() { Effort::Short } else { Effort::Whole })),
            17 => self.harm(),
            18 => self.compact(),
            _ => {
                // A process dies; its claims with it.
                self.held.clear();
                return;
            }
        }
        self.ledger = Some(ledger);
    }

    fn wish(&mut self) -> Wish {
        let (name, payload) = (format!("k{}", self.random.u8(0..60)), format!("p{}", self.random.u8(0..4)));
        let mut wish = padded(&name, &payload);
        if self.random.u8(0..5) == 0 {
            wish.opened = Opened { partner: partner("bank"), ..Opened::clone(&wish.opened) }.into();
        }
        if self.random.u8(0..4) == 0 {
            wish.entry = EntryRule::Known { rejected: true };
        }
        wish
    }

    fn claim(&mut self, ledger: &mut Jsonl) {
        let wish = self.wish();
        if let Claimed::Ours(held, _) = claim(ledger, &wish) {
            self.work(held);
        }
    }

    fn keyless(&mut self, ledger: &mut Jsonl) {
        let wish = Wish { entry: EntryRule::Keyless, key: key(&format!("f{}", self.random.u32(..))), ..self.wish() };
        let all: Vec<Found> = self.house.reader().list().expect("readable").collect();
        let continued = all.iter().find(|found| {
            let known = Known { history: &found.history, standing: found.standing };
            let same = found.partner == wish.opened.partner && found.history.opened().fp == wish.opened.fp;
            same && continues_without_key(known)
        });
        let expected = continued.map_or(&wish.key, |found| &found.key);
        match claim(ledger, &wish) {
            Claimed::Ours(held, _) => {
                assert_eq!(Claim::key(&held), expected);
                self.work(held);
            }
            Claimed::Busy(key, _) => assert_eq!(key, *expected),
            other => panic!("{other:?}"),
        }
    }

    fn work(&mut self, mut held: JsonlClaim) {
        let verdict =
            [Verdict::Confirmed, Verdict::Rejected, Verdict::InDoubt, Verdict::NotDone][self.random.usize(0..4)];
        let end = settled(verdict, Some(attempt(1, Evidence::Answered)));
        match self.random.u8(0..6) {
            0 => {}
            1 => append(&mut held, &[started(1)]),
            2 => {
                append(&mut held, &[started(1), finished(1, Evidence::Refused)]);
                self.held.insert(Claim::n(&held), held);
            }
            // Another may take over while this one has still something to tell.
            3 => {
                append(&mut held, &[started(1), settled(Verdict::InDoubt, None)]);
                self.held.insert(Claim::n(&held), held);
            }
            _ => append(&mut held, &[started(1), end]),
        }
    }

    fn go_on(&mut self) {
        let Some((n, mut held)) = self.held.pop_first() else { return };
        append(&mut held, &[asked(), waiting()]);
        let verdict = [Verdict::Confirmed, Verdict::Rejected, Verdict::InDoubt][self.random.usize(0..3)];
        match self.random.bool() {
            true => append(&mut held, &[settled(verdict, Some(attempt(1, Evidence::Answered)))]),
            false => drop(self.held.insert(n, held)),
        }
    }

    fn resolve(&mut self, ledger: &mut Jsonl) {
        let verdict = [Verdict::Confirmed, Verdict::Rejected, Verdict::NotDone][self.random.usize(0..3)];
        let word = Resolved { partner: partner("acme"), verdict, by: "ann".into(), note: "seen".into() };
        let key = key(&format!("k{}", self.random.u8(0..60)));
        let resolving: Resolving = run(ledger.resolve(&key, &word, now())).expect("a healthy ledger");
        drop(resolving);
    }

    fn compact(&mut self) {
        // Every other time what is done is forgotten, when no key protects any more.
        let hours = self.random.u64(0..2);
        let options = Options { now: now().wall.after(Duration::from_secs(hours * 3_600)), ..self.house.options() };
        let keep = |_: &Opened| kept(Duration::ZERO, Some(Duration::from_secs(3_600)));
        let before: Vec<Found> = self.house.reader().list().expect("readable").collect();
        let compacted = compact(&self.house.path(), &options, Which::Older(&keep), &|| false).expect("compacts");
        let reader = self.house.reader();
        let mut gone = 0;
        for found in before {
            match &reader.find(&found.key, Some(&found.partner)).expect("readable")[..] {
                [now] if is_final(&found.history) => assert!(is_final(&now.history)),
                [now] => assert_eq!(*now, found),
                _ => {
                    assert!(is_final(&found.history) && hours == 1, "{}", found.key);
                    gone += 1;
                }
            }
        }
        assert_eq!(compacted.forgotten, gone);
    }

    fn harm(&mut self) {
        let files = files(&self.house);
        let Some(path) = self.random.choice(&files) else { return };
        let mut bytes = fs::read(path).expect("reads");
        match self.random.u8(0..4) {
            0 => fs::remove_dir_all(folder(&self.house)).expect("a folder"),
            1 => fs::remove_file(path).expect("removes"),
            2 => fs::write(path, &bytes[..self.random.usize(0..bytes.len())]).expect("writes"),
            _ => {
                let at = self.random.usize(0..bytes.len());
                bytes[at] ^= 1 << self.random.u8(0..8);
                fs::write(path, bytes).expect("writes");
            }
        }
    }
}

/// Only for its type: a reader is asked through `&`.
#[test]
fn a_reader_is_shared_between_threads() {
    fn shared<T: Sync>() {}
    shared::<Reader>();
}
