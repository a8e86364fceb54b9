//! A process that is killed: the kernel lets its locks go, and the next one takes over.

use crate::compact::kept;
use crate::facts::*;
use crate::suite::*;
use abide::drive::Claimed;
use abide::engine::facts::{Fact, Predecessor};
use abide::engine::verdict::Verdict;
use abide::store::StoreError;
use abide::store::jsonl::{Jsonl, Options, Which, compact, verify};
use std::cell::Cell;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

const INSIDE: &str = "ABIDE_TEST_OWNER";
const NAME: &str = "killed::a_killed_owner_is_taken_over_and_its_open_attempt_is_in_doubt";
const COMPACTING: &str = "killed::a_killed_compaction_leaves_the_old_file_and_the_next_one_is_whole";

fn options(folder: &Path) -> Options {
    Options { state: Some(folder.join("state")), unsafe_fs: false, boot: BOOT.into(), now: now().wall }
}

fn open(folder: &Path) -> Jsonl {
    Jsonl::open(&folder.join("l.jsonl"), &options(folder)).expect("a healthy ledger")
}

#[test]
fn a_killed_owner_is_taken_over_and_its_open_attempt_is_in_doubt() {
    if let Some(folder) = std::env::var_os(INSIDE) {
        return own_until_killed(Path::new(&folder));
    }
    let folder = tempfile::tempdir().expect("a folder");
    let mut owner = start(NAME, folder.path());
    let mut ledger = open(folder.path());
    for name in ["idle", "open"] {
        assert!(matches!(claim(&mut ledger, &wish(name, name)), Claimed::Busy(..)), "{name}");
    }
    owner.kill().expect("ours to kill");
    owner.wait().expect("it ends");
    for (name, expected) in [("idle", Predecessor::Accounted), ("open", Predecessor::InDoubt)] {
        let (_claim, history) = ours(claim(&mut ledger, &wish(name, name)));
        let Some(Fact::Reopened(reopened)) = history.facts.last().map(|recorded| &recorded.fact) else { panic!() };
        assert_eq!(reopened.predecessor, expected, "{name}");
    }
}

#[test]
fn a_killed_compaction_leaves_the_old_file_and_the_next_one_is_whole() {
    if let Some(folder) = std::env::var_os(INSIDE) {
        let folder = Path::new(&folder);
        let (path, options) = (folder.join("l.jsonl"), options(folder));
        let asked = Cell::new(0);
        let stop = || {
            // In the middle of the lines that it writes.
            if asked.replace(asked.get() + 1) == 20 {
                stay_until_killed();
            }
            false
        };
        compact(&path, &options, Which::Older(&|_| kept(Duration::ZERO, None)), &stop).expect("it is killed before");
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let mut ledger = open(folder.path());
    for at in 0..10 {
        let name = format!("k{at}");
        let (mut held, _) = ours(claim(&mut ledger, &wish(&name, &name)));
        append(&mut held, &[started(1), settled(Verdict::Confirmed, None)]);
    }
    let whole = std::fs::read(folder.path().join("l.jsonl")).expect("reads");
    let mut compacting = start(COMPACTING, folder.path());
    let (path, options) = (folder.path().join("l.jsonl"), options(folder.path()));
    let again = || compact(&path, &options, Which::Older(&|_| kept(Duration::ZERO, None)), &|| false);
    assert!(matches!(again(), Err(StoreError::Compacting { .. })));
    assert!(matches!(claim(&mut ledger, &wish("k1", "k1")), Claimed::Final(..)), "others go on");
    compacting.kill().expect("ours to kill");
    compacting.wait().expect("it ends");
    assert_eq!(std::fs::read(&path).expect("reads"), whole);
    assert!(folder.path().join("l.jsonl.new").exists());
    drop(ours(claim(&mut ledger, &wish("k10", "k10"))));
    assert_eq!(again().expect("compacts").operations, 10);
    assert!(!folder.path().join("l.jsonl.new").exists());
    assert_eq!(verify(&path, &options).expect("readable").findings, []);
}

/// Starts a test once more in a process of its own, and returns when it has come to the point.
fn start(name: &str, folder: &Path) -> Child {
    let mut owner = Command::new(std::env::current_exe().expect("a path"))
        .args(["--exact", name, "--nocapture"])
        .env(INSIDE, folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("starts");
    let mut said = BufReader::new(owner.stdout.take().expect("piped")).lines();
    assert!(said.any(|line| line.expect("text").ends_with("ready")), "the process has come to the point");
    owner
}

fn own_until_killed(folder: &Path) {
    let mut ledger = open(folder);
    let (_idle, _) = ours(claim(&mut ledger, &wish("idle", "idle")));
    let (mut attempt, _) = ours(claim(&mut ledger, &wish("open", "open")));
    append(&mut attempt, &[started(1)]);
    stay_until_killed();
}

fn stay_until_killed() {
    let mut out = std::io::stdout();
    out.write_all(b"ready\n").and_then(|()| out.flush()).expect("somebody listens");
    // Ends with the parent, should that die first.
    std::io::stdin().read_to_end(&mut Vec::new()).expect("reads");
}
