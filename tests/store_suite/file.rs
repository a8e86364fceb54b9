//! What only a ledger file must do.

use crate::facts::*;
use crate::suite::*;
use abide::drive::Claimed;
use abide::engine::facts::{Fact, History, Owner, StoredBody};
use abide::engine::operation::{IdempotencyKey, PartnerName};
use abide::engine::verdict::{Evidence, Verdict};
use abide::store::jsonl::{Jsonl, JsonlClaim, Options, Reader};
use abide::store::{StoreError, Warning};
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};
use std::path::PathBuf;
use tempfile::TempDir;

/// A ledger file in a folder of its own, with this machine's memory beside it.
pub struct OnDisk {
    pub folder: TempDir,
}

impl OnDisk {
    pub fn new() -> OnDisk {
        OnDisk { folder: tempfile::tempdir().expect("a folder") }
    }

    /// On a RAM disk where there is one: for tests with thousands of syncs.
    pub fn quick() -> OnDisk {
        match tempfile::tempdir_in("/dev/shm") {
            Ok(folder) => OnDisk { folder },
            Err(_) => OnDisk::new(),
        }
    }

    pub fn path(&self) -> PathBuf {
        self.folder.path().join("ledger.jsonl")
    }

    pub fn options(&self) -> Options {
        let state = Some(self.folder.path().join("state"));
        Options { state, unsafe_fs: false, boot: BOOT.into(), now: now().wall }
    }

    pub fn open(&self) -> Result<Jsonl, StoreError> {
        Jsonl::open(&self.path(), &self.options())
    }

    pub fn reader(&self) -> Reader {
        Reader::open(&self.path(), &self.options()).expect("readable")
    }

    pub fn bytes(&self) -> Vec<u8> {
        fs::read(self.path()).expect("a file")
    }

    /// Puts bytes into the file in place: a file that is truncated and written anew is flushed by some file systems.
    pub fn put(&self, bytes: &[u8]) {
        let file = OpenOptions::new().write(true).create(true).truncate(false).open(self.path()).expect("opens");
        file.write_all_at(bytes, 0).expect("writes");
        file.set_len(bytes.len() as u64).expect("cuts");
    }

    pub fn lines(&self) -> Vec<String> {
        String::from_utf8(self.bytes()).expect("text").lines().map(String::from).collect()
    }

    /// The file in which this machine remembers the ledger.
    pub fn memory(&self) -> PathBuf {
        let folder = fs::read_dir(self.folder.path().join("state/ledgers")).expect("a folder");
        folder.map(|file| file.expect("a file").path()).next().expect("one")
    }

    /// Runs one operation to its end in a process of its own.
    pub fn story(&self, name: &str, facts: &[Fact]) {
        let (mut claim, _) = ours(claim(&mut self.process(), &wish(name, name)));
        append(&mut claim, facts);
    }

    pub fn confirm(&self, name: &str) {
        self.story(name, &[started(1), settled(Verdict::Confirmed, Some(attempt(1, Evidence::Answered)))]);
    }

    pub fn refusal(&self, name: &str) -> StoreError {
        let mut ledger = match self.open() {
            Ok(ledger) => ledger,
            Err(error) => return error,
        };
        match run(abide::drive::Ledger::claim(&mut ledger, &wish(name, name), now())) {
            Err(error) => error,
            Ok(claimed) => panic!("not refused: {claimed:?}"),
        }
    }
}

impl House for OnDisk {
    type Ledger = Jsonl;

    fn process(&self) -> Jsonl {
        self.open().expect("a healthy ledger")
    }

    fn read(&self, partner: &PartnerName, key: &IdempotencyKey) -> Option<History> {
        self.reader().find(key, Some(partner)).expect("readable").pop().map(|found| found.history)
    }
}

fn mode(path: &std::path::Path) -> u32 {
    fs::metadata(path).expect("it is there").permissions().mode() & 0o777
}

#[test]
fn files_and_folders_are_private_from_the_start() {
    let house = OnDisk::new();
    let path = house.folder.path().join("new/deep/l.jsonl");
    let mut ledger = Jsonl::open(&path, &house.options()).expect("opens");
    let long = StoredBody::Text("x".repeat(20_000).into());
    ours(claim(&mut ledger, &wish_of("k1", opened("one", long, BOOT), b"")));
    let place = path.parent().expect("a folder");
    assert_eq!(mode(place), 0o700);
    assert_eq!(mode(place.parent().expect("a folder")), 0o700);
    assert_eq!(mode(&place.join("l.jsonl.blobs")), 0o700);
    assert_eq!(mode(&house.folder.path().join("state/ledgers")), 0o700);
    let folders = [place.to_path_buf(), place.join("l.jsonl.blobs"), house.folder.path().join("state/ledgers")];
    let files = folders.iter().flat_map(|folder| fs::read_dir(folder).expect("a folder"));
    let files: Vec<_> = files.map(|file| file.expect("a file").path()).filter(|path| path.is_file()).collect();
    assert_eq!(files.len(), 4, "{files:?}");
    for file in files {
        assert_eq!(mode(&file), 0o600, "{file:?}");
    }
    assert!(ledger.warnings().is_empty());
}

#[test]
fn a_file_that_others_may_read_warns() {
    let house = OnDisk::new();
    File::create(house.path()).expect("a file");
    fs::set_permissions(house.path(), PermissionsExt::from_mode(0o644)).expect("a mode");
    let ledger = house.process();
    assert!(matches!(ledger.warnings()[..], [Warning::Readable { mode: 0o644, .. }]));
    assert_eq!(mode(&house.path()), 0o644);
}

#[test]
fn a_symbolic_link_is_followed_and_kept() {
    let house = OnDisk::new();
    let real = house.folder.path().join("real");
    fs::create_dir(&real).expect("a folder");
    symlink("real/l.jsonl", house.folder.path().join("between")).expect("a link");
    symlink("between", house.path()).expect("a link");
    house.confirm("k1");
    assert!(fs::symlink_metadata(house.path()).expect("a link").is_symlink());
    let mut beside: Vec<_> =
        fs::read_dir(&real).expect("a folder").map(|file| file.expect("a file").file_name()).collect();
    beside.sort();
    assert_eq!(beside, ["l.jsonl", "l.jsonl.lock"]);
    assert!(matches!(claim(&mut house.process(), &wish("k1", "k1")), Claimed::Final(..)));
}

/// As a bind mount of the file alone, which a container gets: the lock file lies beside each name.
#[test]
fn a_ledger_that_is_in_use_under_another_name_is_refused() {
    let house = OnDisk::new();
    house.confirm("k1");
    let other = house.folder.path().join("other");
    fs::create_dir(&other).expect("a folder");
    let link = other.join("l.jsonl");
    fs::hard_link(house.path(), &link).expect("a link");
    let (held, _) = ours(claim(&mut house.process(), &wish("k2", "k2")));
    match Jsonl::open(&link, &house.options()) {
        Err(error @ StoreError::OtherName { .. }) => assert!(error.to_string().contains("another name"), "{error}"),
        other => panic!("not refused: {other:?}"),
    }
    drop(held);
    assert!(matches!(
        claim(&mut Jsonl::open(&link, &house.options()).expect("free"), &wish("k1", "k1")),
        Claimed::Final(..)
    ));
}

#[test]
fn links_that_go_round_are_refused() {
    let house = OnDisk::new();
    symlink("ledger.jsonl", house.path()).expect("a link");
    assert!(matches!(house.open(), Err(StoreError::Io { .. })));
}

#[test]
fn what_is_no_ledger_is_refused_and_left_alone() {
    let foreign: [&[u8]; 8] = [
        b"{\"id\":1}\n{\"id\":2}\n",
        b"\xff\xfe{\x00\"\x00t\x00\"\x00",
        b"\n",
        &[0; 4096],
        b"{\"t\":\"ledger\",\"v\":1,\"id\":\"abc\",\"gen\":0}\n",
        b"{\"t\":\"opened\"",
        b"{",
        b"x",
    ];
    for bytes in foreign {
        let house = OnDisk::new();
        fs::write(house.path(), bytes).expect("writes");
        assert!(matches!(house.open(), Err(StoreError::NotALedger { .. })), "{bytes:?}");
        assert!(matches!(Reader::open(&house.path(), &house.options()), Err(StoreError::NotALedger { .. })));
        assert_eq!(house.bytes(), bytes);
        let names: Vec<_> = fs::read_dir(house.folder.path()).expect("a folder").collect();
        assert_eq!(names.len(), 1, "nothing beside it: {names:?}");
    }
    let house = OnDisk::new();
    fs::create_dir(house.path()).expect("a folder");
    assert!(matches!(house.open(), Err(StoreError::NotAFile { .. })));
}

#[test]
fn a_newer_format_is_refused_naming_both() {
    let house = OnDisk::new();
    house.confirm("k1");
    let newer = String::from_utf8(house.bytes()).expect("text").replacen("\"v\":1", "\"v\":7", 1);
    fs::write(house.path(), &newer).expect("writes");
    for error in
        [house.open().expect_err("refused"), Reader::open(&house.path(), &house.options()).expect_err("refused")]
    {
        assert!(error.to_string().ends_with("has ledger format 7, this abide knows up to 2"), "{error}");
    }
    assert_eq!(house.bytes(), newer.as_bytes());
}

#[test]
fn an_empty_file_and_one_with_half_a_header_become_ledgers() {
    let house = OnDisk::new();
    house.confirm("k1");
    let header = house.bytes().split(|byte| *byte == b'\n').next().expect("a line").to_vec();
    let halves = [0, 6, 17, 40, header.len()].map(|len| header[..len].to_vec());
    // A power cut may leave a length without its bytes.
    for begun in halves.into_iter().chain([vec![0; header.len() + 1]]) {
        let (house, len) = (OnDisk::new(), begun.len());
        fs::write(house.path(), begun).expect("writes");
        assert!(house.reader().list().expect("readable").next().is_none(), "{len}");
        house.confirm("k1");
        assert_eq!(house.lines().len(), 4, "{len}");
        assert!(house.read(&partner("acme"), &key("k1")).is_some());
    }
}

#[test]
fn reading_makes_nothing() {
    let house = OnDisk::new();
    assert!(matches!(Reader::open(&house.path(), &house.options()), Err(StoreError::Missing { .. })));
    assert_eq!(fs::read_dir(house.folder.path()).expect("a folder").count(), 0);
}

#[test]
fn an_unwritable_ledger_is_refused_with_its_path() {
    let house = OnDisk::new();
    let path = std::path::Path::new("/proc/no-such-folder/l.jsonl");
    match Jsonl::open(path, &house.options()) {
        Err(error @ StoreError::Io { .. }) => assert!(error.to_string().contains("/proc/no-such-folder"), "{error}"),
        other => panic!("not refused: {other:?}"),
    }
}

#[test]
fn a_claim_and_its_outcome_cost_two_syncs() {
    let house = OnDisk::new();
    let mut ledger = house.process();
    let (mut claim, _) = ours(claim(&mut ledger, &wish("k1", "one")));
    assert_eq!(ledger.syncs(), 0);
    append(&mut claim, &[started(1)]);
    assert_eq!(ledger.syncs(), 1);
    append(&mut claim, &[finished(1, Evidence::Refused), waiting(), asked(), started(2)]);
    assert_eq!(ledger.syncs(), 1);
    append(&mut claim, &[settled(Verdict::Confirmed, Some(attempt(2, Evidence::Answered)))]);
    assert_eq!(ledger.syncs(), 2);
}

#[test]
fn an_outcome_of_another_process_is_synced_before_it_is_reported() {
    let house = OnDisk::new();
    house.confirm("k1");
    let mut ledger = house.process();
    assert!(matches!(claim(&mut ledger, &wish("k1", "k1")), Claimed::Final(..)));
    assert_eq!(ledger.syncs(), 1);
}

#[test]
fn a_watermark_tells_what_was_durable() {
    let house = OnDisk::new();
    house.confirm("k1");
    house.story("k2", &[]);
    let watermark = |line: &String| {
        let value: serde_json::Value = serde_json::from_str(line).expect("JSON");
        value["d"].as_u64().expect("a number")
    };
    let lines = house.lines();
    let ends: Vec<u64> = lines
        .iter()
        .scan(0, |end, line| {
            *end += line.len() as u64 + 1;
            Some(*end)
        })
        .collect();
    let watermarks: Vec<u64> = lines.iter().map(watermark).collect();
    // Header (synced), opened, started (synced), settled (synced by its process), opened of a process that knows the
    // record.
    assert_eq!(watermarks, [0, ends[0], ends[0], ends[2], ends[2]]);
}

#[test]
fn eight_processes_and_fifty_keys_have_fifty_winners() {
    let house = OnDisk::new();
    let winners = std::thread::scope(|scope| {
        let processes: Vec<_> = (0..8)
            .map(|_| {
                scope.spawn(|| {
                    let mut ledger = house.process();
                    (0..50).filter(|index| wins(&mut ledger, &format!("k{index}"))).count()
                })
            })
            .collect();
        processes.into_iter().map(|process| process.join().expect("no panic")).sum::<usize>()
    });
    assert_eq!(winners, 50);
    let reader = house.reader();
    assert_eq!(reader.list().expect("readable").filter(|found| found.history.settled().is_some()).count(), 50);
    assert!(reader.warnings().is_empty());
    assert_eq!(house.lines().len(), 1 + 50 * 3);
}

fn wins(ledger: &mut Jsonl, name: &str) -> bool {
    match claim(ledger, &wish(name, name)) {
        Claimed::Ours(mut held, history) => {
            assert_eq!(history.facts.len(), 1, "a live owner is never taken over");
            append(&mut held, &[started(1), settled(Verdict::Confirmed, Some(attempt(1, Evidence::Answered)))]);
            true
        }
        Claimed::Busy(..) | Claimed::Final(..) => false,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_reader_sees_who_lives() {
    let house = OnDisk::new();
    house.confirm("old");
    house.story("dead", &[started(1)]);
    let (held, _) = ours(claim(&mut house.process(), &wish("live", "live")));
    use abide::engine::entry::Standing::{DeadSameBoot, Live, Settled};
    let reader = house.reader();
    let listed: Vec<_> =
        reader.list().expect("readable").map(|found| (found.key.to_string(), found.standing)).collect();
    let expected = [("live", Live), ("dead", DeadSameBoot), ("old", Settled)];
    assert_eq!(listed, expected.map(|(name, standing)| (name.to_owned(), standing)));
    drop(held);
    assert_eq!(reader.list().expect("readable").next().expect("one").standing, DeadSameBoot);
    let confirmed = |except| reader.newest_confirmed(&partner("acme"), &key(except));
    assert_eq!(confirmed("live"), Some(key("old")));
    assert_eq!(confirmed("old"), None);
    assert_eq!(reader.newest_confirmed(&partner("bank"), &key("x")), None);
}

#[test]
fn a_key_that_several_partners_have_is_found_with_each() {
    let house = OnDisk::new();
    house.confirm("k1");
    let mut other = opened("two", StoredBody::Text("two".into()), BOOT);
    other.partner = partner("bank");
    ours(claim(&mut house.process(), &wish_of("k1", other, b"two")));
    let reader = house.reader();
    assert_eq!(reader.find(&key("k1"), None).expect("readable").len(), 2);
    let found = reader.find(&key("k1"), Some(&partner("bank"))).expect("readable");
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].partner, partner("bank"));
}

#[test]
fn room_for_outcomes_is_kept_beyond_the_end() {
    let house = OnDisk::new();
    let mut ledger = house.process();
    let (_held, _) = ours(claim(&mut ledger, &wish("k1", "k1")));
    if ledger.warnings().iter().any(|warning| matches!(warning, Warning::NoReserve { .. })) {
        eprintln!("SKIPPED: the temporary folder's file system has no fallocate");
        return;
    }
    let found = fs::metadata(house.path()).expect("a file");
    assert!(found.blocks() * 512 >= found.len() + (2 << 20));
}

#[test]
fn this_process_knows_its_boot() {
    let Owner { host, boot, pid } = abide::store::jsonl::this_process();
    assert_eq!(pid, std::process::id());
    assert!(!host.is_empty());
    if cfg!(target_os = "linux") {
        assert_eq!(boot.len(), 36, "{boot}");
    }
}

/// Claims are sent between threads by a runtime.
#[test]
fn claims_are_send() {
    fn send<T: Send>() {}
    send::<JsonlClaim>();
    send::<Jsonl>();
}
