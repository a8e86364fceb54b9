//! A ledger on a disk that fails.

use super::disk::{Disk, Stat};
use super::*;
use crate::drive::{Claim, Durability, EntryRule};
use crate::engine::facts::*;
use crate::engine::operation::{Fingerprint, IdempotencyKey, PartnerName};
use crate::engine::verdict::{Cause, Verdict};
use crate::store::Left;
use std::cell::Cell;
use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

mod beside;
mod owners;
mod power;

/// What fails from now on. Shared by all disks of a test: each runs on its own thread.
#[derive(Debug, Default)]
struct Plan {
    sync: AtomicBool,
    reserve: AtomicBool,
    /// Writes longer than this many bytes find the disk full; 0 for none.
    write_max: AtomicU64,
    /// Every write takes at most 7 bytes, and every other call is interrupted.
    grudging: AtomicBool,
    syncs: AtomicU64,
    /// Syncs begin, and wait here.
    gate: beside::Gate,
    calls: AtomicU64,
    /// How many bytes were read.
    read: AtomicU64,
}

thread_local! {
    static PLAN: Cell<Option<Arc<Plan>>> = const { Cell::new(None) };
}

#[derive(Debug)]
struct Faulty(File, Arc<Plan>);

impl Faulty {
    fn interrupted(&self) -> io::Result<()> {
        let odd = self.1.calls.fetch_add(1, Ordering::Relaxed) % 2 == 1;
        if odd && self.1.grudging.load(Ordering::Relaxed) { Err(io::ErrorKind::Interrupted.into()) } else { Ok(()) }
    }
}

impl Disk for Faulty {
    fn stat(&self) -> io::Result<Stat> {
        self.0.stat()
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.interrupted()?;
        self.1.read.fetch_add(buffer.len() as u64, Ordering::Relaxed);
        Disk::read_at(&self.0, buffer, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        self.interrupted()?;
        let max = self.1.write_max.load(Ordering::Relaxed);
        if max > 0 && bytes.len() as u64 > max {
            // As a real disk does: some of it is there.
            Disk::write_at(&self.0, &bytes[..5], offset)?;
            return Err(io::ErrorKind::StorageFull.into());
        }
        let len = if self.1.grudging.load(Ordering::Relaxed) { bytes.len().min(7) } else { bytes.len() };
        Disk::write_at(&self.0, &bytes[..len], offset)
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        self.0.truncate(len)
    }

    fn reserve(&self, offset: u64, len: u64) -> io::Result<()> {
        if self.1.reserve.load(Ordering::Relaxed) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.0.reserve(offset, len)
    }

    fn sync(&self) -> io::Result<()> {
        self.1.syncs.fetch_add(1, Ordering::Relaxed);
        self.1.gate.pass();
        if self.1.sync.load(Ordering::Relaxed) { Err(io::Error::other("the disk died")) } else { self.0.sync() }
    }
}

struct House {
    folder: tempfile::TempDir,
    plan: Arc<Plan>,
}

impl House {
    fn new() -> House {
        House { folder: tempfile::tempdir().expect("a folder"), plan: Arc::default() }
    }

    fn options(&self) -> Options {
        let state = Some(self.folder.path().join("state"));
        Options { state, unsafe_fs: false, boot: "here".into(), now: Timestamp::default() }
    }

    fn open(&self) -> Result<Jsonl, StoreError> {
        PLAN.set(Some(self.plan.clone()));
        Core::open(&self.path(), &self.options(), wrap).map(|core| Jsonl { core: Arc::new(core) })
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("l.jsonl")
    }

    fn claim(&self, ledger: &mut Jsonl, key: &str) -> Result<Claimed<JsonlClaim>, StoreError> {
        run(ledger.claim(&wish(key), Now::default()))
    }

    fn ours(&self, ledger: &mut Jsonl, key: &str) -> JsonlClaim {
        match self.claim(ledger, key) {
            Ok(Claimed::Ours(claim, _)) => claim,
            other => panic!("not ours: {other:?}"),
        }
    }
}

/// Puts the plan of this thread's test under a file.
fn wrap(file: File) -> Arc<dyn Disk> {
    let plan = PLAN.take().expect("a plan");
    PLAN.set(Some(plan.clone()));
    Arc::new(Faulty(file, plan))
}

fn run<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime").block_on(future)
}

fn append(claim: &mut JsonlClaim, fact: &Fact, durability: Durability) -> Result<(), StoreError> {
    run(claim.append(Now::default(), fact, durability))
}

fn wish(key: &str) -> Wish {
    let opened = Opened {
        partner: PartnerName::new("acme").expect("a name"),
        profile: None,
        account: None,
        method: "POST".into(),
        url: "http://acme.example/".into(),
        headers: Vec::new(),
        fp: Fingerprint(key.into()),
        body: StoredBody::Text(key.into()),
        contract: "".into(),
        key_until: None,
        valid_until: None,
        tls: None,
        deadline: Timestamp::default(),
        why: Why::Send,
        owner: Owner { host: "".into(), boot: "here".into(), pid: 1 },
    };
    let key = IdempotencyKey::new(key, 255).expect("a key");
    Wish { key, opened: Arc::new(opened), body: b"".as_slice().into(), entry: EntryRule::Keyed }
}

fn started() -> Fact {
    Fact::Started(Started { a: 1, addr: None, proxy: None })
}

fn settled(answer: usize) -> Fact {
    let body = Some(StoredBody::Text("x".repeat(answer).into()));
    let response = Response { headers: Vec::new(), len: answer as u64, sha: "ab".into(), body, cut: false };
    let (verdict, cause) = (Verdict::InDoubt, Cause::Answer);
    Fact::Settled(Arc::new(Settled { verdict, cause, retry_at: None, last: None, response: Some(Box::new(response)) }))
}

#[test]
fn a_claim_that_cannot_be_synced_says_that_nothing_was_sent() {
    let house = House::new();
    let mut ledger = house.open().expect("opens");
    let mut claim = house.ours(&mut ledger, "k1");
    house.plan.sync.store(true, Ordering::Relaxed);
    let error = append(&mut claim, &started(), Durability::Now).expect_err("not durable");
    assert_eq!(error.left(), Left::Nothing);
    assert!(error.to_string().starts_with("not durable, nothing was sent: cannot sync"), "{error}");
    assert!(house.folder.path().join("l.jsonl.sick").exists());
    // The disk says that all is well now. It is not asked again, and later processes hear of it.
    house.plan.sync.store(false, Ordering::Relaxed);
    let before = house.plan.syncs.load(Ordering::Relaxed);
    assert!(append(&mut claim, &settled(1), Durability::Now).is_err());
    assert_eq!(house.plan.syncs.load(Ordering::Relaxed), before);
    for mut ledger in [ledger, house.open().expect("opens")] {
        assert!(matches!(house.claim(&mut ledger, "k2"), Err(StoreError::Sick { .. })));
    }
}

#[test]
fn an_outcome_that_cannot_be_synced_says_that_the_request_may_have_left() {
    let house = House::new();
    let mut claim = house.ours(&mut house.open().expect("opens"), "k1");
    append(&mut claim, &started(), Durability::Now).expect("durable");
    house.plan.sync.store(true, Ordering::Relaxed);
    let error = append(&mut claim, &settled(1), Durability::Now).expect_err("not durable");
    assert_eq!(error.left(), Left::Perhaps);
    assert!(error.to_string().starts_with("the request may have left; outcome not recorded"), "{error}");
}

#[test]
fn an_outcome_that_another_process_wrote_is_not_reported_undurable() {
    let house = House::new();
    let mut claim = house.ours(&mut house.open().expect("opens"), "k1");
    append(&mut claim, &started(), Durability::Now).expect("durable");
    let Fact::Settled(mut end) = settled(1) else { unreachable!() };
    Arc::make_mut(&mut end).verdict = Verdict::Confirmed;
    append(&mut claim, &Fact::Settled(end), Durability::Later).expect("written");
    house.plan.sync.store(true, Ordering::Relaxed);
    let refused = house.claim(&mut house.open().expect("opens"), "k1");
    assert!(matches!(refused, Err(StoreError::Unsynced { .. })));
}

#[test]
fn a_claim_that_finds_no_room_for_its_outcome_is_refused() {
    let house = House::new();
    let mut ledger = house.open().expect("opens");
    house.plan.reserve.store(true, Ordering::Relaxed);
    let error = house.claim(&mut ledger, "k1").expect_err("full");
    assert!(error.to_string().starts_with("no space left for"), "{error}");
    house.plan.reserve.store(false, Ordering::Relaxed);
    assert_eq!(house.ours(&mut ledger, "k1").n(), 1, "the number is free again");
}

#[test]
fn an_outcome_on_a_full_disk_goes_without_its_answer() {
    let house = House::new();
    let mut claim = house.ours(&mut house.open().expect("opens"), "k1");
    append(&mut claim, &started(), Durability::Now).expect("durable");
    house.plan.write_max.store(400, Ordering::Relaxed);
    append(&mut claim, &settled(5_000), Durability::Now).expect("recorded");
    drop(claim);
    house.plan.write_max.store(0, Ordering::Relaxed);
    let Ok(Claimed::Ours(_, history)) = house.claim(&mut house.open().expect("opens"), "k1") else { panic!() };
    let Some(Fact::Settled(kept)) = history.facts.get(2).map(|recorded| &recorded.fact) else { panic!() };
    let response = kept.response.as_ref().expect("one");
    assert_eq!((&response.body, response.cut, response.len), (&None, true, 5_000));
}

#[test]
fn half_a_line_on_a_full_disk_is_cut_at_once() {
    let house = House::new();
    let mut ledger = house.open().expect("opens");
    house.plan.write_max.store(100, Ordering::Relaxed);
    let before = std::fs::read(house.path()).expect("a file");
    assert!(matches!(house.claim(&mut ledger, "k1"), Err(StoreError::NoSpace { .. })));
    assert_eq!(std::fs::read(house.path()).expect("a file"), before);
    house.plan.write_max.store(0, Ordering::Relaxed);
    house.ours(&mut ledger, "k1");
    assert!(ledger.warnings().is_empty());
}

#[test]
fn short_writes_and_interruptions_lose_nothing() {
    let house = House::new();
    house.plan.grudging.store(true, Ordering::Relaxed);
    let mut claim = house.ours(&mut house.open().expect("opens"), "k1");
    append(&mut claim, &started(), Durability::Now).expect("durable");
    append(&mut claim, &settled(900), Durability::Now).expect("durable");
    drop(claim);
    let mut ledger = house.open().expect("opens");
    let Ok(Claimed::Ours(_, history)) = house.claim(&mut ledger, "k1") else { panic!() };
    assert_eq!(history.facts[2].fact, settled(900));
    assert!(ledger.warnings().is_empty());
}

fn repair(house: &House) -> Result<Repaired, StoreError> {
    let options = house.options();
    PLAN.set(Some(house.plan.clone()));
    repair::repair_on(&house.path(), &options, wrap)
}

/// Source: T5 of the ledger's design.
#[test]
fn whichever_sync_fails_the_ledger_stops_until_it_is_repaired() {
    for failing in 0..4 {
        let house = House::new();
        let mut ledger = house.open().expect("opens");
        let told = two_operations(&house, &mut ledger, failing);
        assert_eq!(told.len(), failing, "an outcome or a claim is told for every sync that worked");
        let sick = house.folder.path().join("l.jsonl.sick");
        assert!(sick.exists());
        assert!(matches!(house.claim(&mut house.open().expect("opens"), "k9"), Err(StoreError::Sick { .. })));
        assert!(matches!(repair(&house), Err(StoreError::Unsynced { .. })), "the disk is still bad");
        assert!(sick.exists());
        house.plan.sync.store(false, Ordering::Relaxed);
        let syncs = house.plan.syncs.load(Ordering::Relaxed);
        let repaired = repair(&house).expect("the disk is well");
        assert_eq!(house.plan.syncs.load(Ordering::Relaxed), syncs + 1, "once");
        let (from, to) = repaired.rewritten.expect("something was written again");
        assert!(from < to);
        assert!(!sick.exists());
        let mut ledger = house.open().expect("opens");
        for key in told {
            let claimed = house.claim(&mut ledger, key).expect("well");
            let Claimed::Ours(_, history) = claimed else { panic!("{key}: {claimed:?}") };
            assert!(history.last_attempt() == 1 || history.settled().is_some(), "{key} was told of");
        }
        house.ours(&mut ledger, "k9");
    }
}

/// Runs two operations on a disk whose sync fails after so many, and returns what was told of.
fn two_operations(house: &House, ledger: &mut Jsonl, failing: usize) -> Vec<&'static str> {
    let mut told = Vec::new();
    let syncs = |told: &Vec<&str>| house.plan.sync.store(told.len() == failing, Ordering::Relaxed);
    for key in ["k1", "k2"] {
        let Ok(Claimed::Ours(mut claim, _)) = house.claim(ledger, key) else { break };
        for fact in [started(), settled(1)] {
            syncs(&told);
            if append(&mut claim, &fact, Durability::Now).is_ok() {
                told.push(key);
            }
        }
    }
    told
}

/// Source: T10 of the ledger's design: the cost of a claim does not grow with the ledger.
#[test]
fn a_claim_reads_no_more_of_a_long_ledger_than_its_tail() {
    let house = House::new();
    let mut ledger = house.open().expect("opens");
    for index in 0..2_500 {
        let mut claim = house.ours(&mut ledger, &format!("k{index}"));
        let mut end = settled(1);
        let Fact::Settled(told) = &mut end else { panic!() };
        Arc::make_mut(told).verdict = Verdict::Confirmed;
        append(&mut claim, &end, Durability::Later).expect("writes");
    }
    assert!(ledger.keep_up(Effort::Short));
    drop(ledger);
    let len = std::fs::metadata(house.path()).expect("there").len();
    assert!(len > 3 * index::TAIL_MAX, "{len}");
    house.plan.read.store(0, Ordering::Relaxed);
    let mut ledger = house.open().expect("opens");
    for key in ["new", "k7", "k2499"] {
        house.claim(&mut ledger, key).expect("works");
    }
    let read = house.plan.read.load(Ordering::Relaxed);
    assert!(read < 64 << 10, "{read}");
    assert_eq!(house.plan.syncs.load(Ordering::Relaxed), 3, "for the header, the index, and the answers that are told");
}
