//! A disk that is really full: a small RAM disk in a mount namespace of this test's own.

use crate::facts::*;
use crate::suite::*;
use abide::drive::{Claimed, Ledger};
use abide::engine::verdict::{Evidence, Verdict};
use abide::store::StoreError;
use abide::store::jsonl::{Jsonl, Options, Reader};
use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

const INSIDE: &str = "ABIDE_TEST_FULL_DISK";

/// Runs itself again where it may mount; the inner run does the test.
#[test]
fn a_full_disk_refuses_claims_and_records_outcomes() {
    if let Some(disk) = std::env::var_os(INSIDE) {
        return fill_and_go_on(&PathBuf::from(disk));
    }
    let folder = tempfile::tempdir().expect("a folder");
    let script = "mount -t tmpfs -o size=3m none \"$1\" || exit 99; shift; exec \"$@\"";
    let itself = std::env::current_exe().expect("a path");
    let run = Command::new("unshare")
        .args(["-rm", "sh", "-c", script, "sh"])
        .arg(folder.path())
        .arg(itself)
        .args(["--exact", "full::a_full_disk_refuses_claims_and_records_outcomes"])
        .env(INSIDE, folder.path())
        .output();
    match run {
        Ok(output) if output.status.success() => {}
        Ok(output) if matches!(output.status.code(), Some(1 | 99 | 126 | 127)) => {
            eprintln!("SKIPPED: no mount namespace here: {}", String::from_utf8_lossy(&output.stderr));
        }
        Ok(output) => panic!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr)),
        Err(error) => eprintln!("SKIPPED: no unshare here: {error}"),
    }
}

fn fill_and_go_on(disk: &Path) {
    let options = Options { state: None, unsafe_fs: false, boot: BOOT.into(), now: now().wall };
    let path = disk.join("a.jsonl");
    let mut ledger = Jsonl::open(&path, &options).expect("room");
    let (mut held, _) = ours(claim(&mut ledger, &wish("k1", "one")));
    append(&mut held, &[started(1)]);
    fill(&disk.join("fill"));
    let before = fs::read(&path).expect("a file");
    // A claim that eats into the reserve is refused; one in another ledger finds no room at all.
    let refused = |ledger: &mut Jsonl| match run(ledger.claim(&wish("k2", "two"), now())) {
        Err(error @ StoreError::NoSpace { .. }) => {
            assert!(error.to_string().starts_with("no space left for"), "{error}");
            assert!(error.to_string().contains(".jsonl"), "{error}");
        }
        other => panic!("not refused: {other:?}"),
    };
    while Reserve::of(&path) >= Reserve::FULL {
        append(&mut held, &[asked()]);
    }
    let grown = fs::read(&path).expect("a file");
    refused(&mut ledger);
    assert!(matches!(Jsonl::open(&disk.join("b.jsonl"), &options), Err(StoreError::NoSpace { .. })));
    assert_eq!(fs::read(&path).expect("a file"), grown);
    assert!(grown.starts_with(&before));
    // Thousands of outcomes fit.
    for a in 2..2_000 {
        append(&mut held, &[finished(a, Evidence::Refused)]);
    }
    append(&mut held, &[settled(Verdict::Confirmed, Some(attempt(2_000, Evidence::Answered)))]);
    let reader = Reader::open(&path, &options).expect("readable");
    assert!(reader.list().expect("readable").next().expect("one").history.settled().is_some());
    assert!(matches!(claim(&mut ledger, &wish("k1", "one")), Claimed::Final(..)));
}

/// How much disk a file has beyond its end.
struct Reserve;

impl Reserve {
    const FULL: u64 = 2 << 20;

    fn of(path: &Path) -> u64 {
        use std::os::unix::fs::MetadataExt;
        let found = fs::metadata(path).expect("a file");
        (found.blocks() * 512).saturating_sub(found.len())
    }
}

fn fill(path: &Path) {
    let mut file = File::create(path).expect("a file");
    let block = [0; 1024];
    for _ in 0..8_192 {
        if file.write_all(&block).is_err() {
            return;
        }
    }
    panic!("the disk is not small");
}
