//! An owner that is killed: the kernel lets its locks go, and the next process takes over.

use crate::facts::*;
use crate::suite::*;
use abide::drive::Claimed;
use abide::engine::facts::{Fact, Predecessor};
use abide::store::jsonl::{Jsonl, Options};
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};

const INSIDE: &str = "ABIDE_TEST_OWNER";
const NAME: &str = "killed::a_killed_owner_is_taken_over_and_its_open_attempt_is_in_doubt";

fn open(folder: &Path) -> Jsonl {
    let options = Options { state: Some(folder.join("state")), unsafe_fs: false, boot: BOOT.into(), now: now().wall };
    Jsonl::open(&folder.join("l.jsonl"), &options).expect("a healthy ledger")
}

#[test]
fn a_killed_owner_is_taken_over_and_its_open_attempt_is_in_doubt() {
    if let Some(folder) = std::env::var_os(INSIDE) {
        return own_until_killed(Path::new(&folder));
    }
    let folder = tempfile::tempdir().expect("a folder");
    let mut owner = start(folder.path());
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

/// Starts this test once more as an owner, and returns when it has its claims.
fn start(folder: &Path) -> Child {
    let mut owner = Command::new(std::env::current_exe().expect("a path"))
        .args(["--exact", NAME, "--nocapture"])
        .env(INSIDE, folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("starts");
    let mut said = BufReader::new(owner.stdout.take().expect("piped")).lines();
    assert!(said.any(|line| line.expect("text").ends_with("claimed")), "the owner has its claims");
    owner
}

fn own_until_killed(folder: &Path) {
    let mut ledger = open(folder);
    let (_idle, _) = ours(claim(&mut ledger, &wish("idle", "idle")));
    let (mut attempt, _) = ours(claim(&mut ledger, &wish("open", "open")));
    append(&mut attempt, &[started(1)]);
    let mut out = std::io::stdout();
    out.write_all(b"claimed\n").and_then(|()| out.flush()).expect("somebody listens");
    // Ends with the parent, should that die first.
    std::io::stdin().read_to_end(&mut Vec::new()).expect("reads");
}
