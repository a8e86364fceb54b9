//! How often a disk is waited for.
//!
//! Source: T10 of the ledger's design: two syncs per claim, and for each long body or answer one of its file and one of
//! the folder that it lies in.

use super::stage::{LEDGER, Stage};
use super::work::SLIM;
use crate::drive::Ledger;
use crate::engine::moment::Now;
use crate::engine::verdict::Verdict::Confirmed;
use crate::store::jsonl::tests::{run, wish};
use crate::store::jsonl::{Jsonl, compact};
use std::fs;

/// Returns how often files and folders are synced by some work.
fn syncs(stage: &Stage, work: impl FnOnce()) -> (usize, usize) {
    let before = stage.log.calls().len();
    work();
    let calls = stage.log.calls();
    let count = |what: &str| calls[before..].iter().filter(|call| **call == what).count();
    (count("sync"), count("sync folder"))
}

fn send(stage: &Stage, ledger: &mut Jsonl, key: &str) {
    stage.send(ledger, key, Confirmed).expect("is sent");
}

/// Returns the same of a process that sends one request.
fn cost(stage: &Stage, key: &str) -> (usize, usize) {
    syncs(stage, || send(stage, &mut stage.process().expect("opens"), key))
}

fn compacted(stage: &Stage) {
    stage.quiet(|| {
        send(stage, &mut stage.process().expect("opens"), "k0");
        compact(&stage.path(), &stage.options(), SLIM, &|| false).expect("compacts");
    });
}

fn claim(ledger: &mut Jsonl, key: &str) {
    drop(run(ledger.claim(&wish(key), Now::default())).expect("works"));
}

#[test]
fn a_new_ledger_costs_its_header_and_the_names_above() {
    let stage = Stage::new(1);
    let folders = LEDGER.split('/').count();
    assert_eq!(cost(&stage, "k1"), (3, folders), "each folder up to the one that was there");
    assert_eq!(cost(&stage, "k2"), (2, 0));
}

#[test]
fn long_bodies_cost_a_sync_of_their_file_and_of_their_folder() {
    let stage = Stage::new(1);
    stage.quiet(|| send(&stage, &mut stage.process().expect("opens"), "k1"));
    // Body and answer; the folder is new.
    assert_eq!(cost(&stage, "long1"), (4, 3));
    assert_eq!(cost(&stage, "long2"), (4, 2));
    assert_eq!(cost(&stage, "long2-b"), (4, 2), "the same body again");
    stage.quiet(|| fs::remove_dir_all(stage.path().with_extension("jsonl.blobs")).expect("removes"));
    assert_eq!(cost(&stage, "long3"), (4, 3), "the folder is new again");
}

#[test]
fn after_a_compaction_a_claim_costs_what_it_did() {
    let stage = Stage::new(1);
    compacted(&stage);
    assert_eq!(cost(&stage, "k1"), (2, 0));
}

/// Who has never seen a compacted ledger cannot know that its name is durable: whoever compacted it may have died before.
#[test]
fn the_name_of_a_compacted_ledger_is_synced_before_it_counts_as_durable() {
    let stage = Stage::new(1);
    compacted(&stage);
    stage.quiet(|| fs::remove_dir_all(stage.root().join("state")).expect("removes"));
    // It sees the ledger first, and dies before it has synced anything.
    assert_eq!(syncs(&stage, || claim(&mut stage.process().expect("opens"), "k1")), (0, 0));
    let mut ledger = stage.process().expect("opens");
    assert_eq!(syncs(&stage, || send(&stage, &mut ledger, "k2")), (2, 1));
    assert_eq!(syncs(&stage, || send(&stage, &mut ledger, "k3")), (2, 0));
    assert_eq!(cost(&stage, "k4"), (2, 0), "this machine remembers");
}
