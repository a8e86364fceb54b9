//! Power cuts on a real file system: a disk in this process records all that reaches it, and every state that a power cut
//! could leave is mounted, recovered, checked, used and checked again.
//!
//! They need root, /dev/fuse and `mkfs`, and are skipped loudly elsewhere. `ABIDE_TEST_POWER_CUTS=5000` asks for that many
//! states, `ABIDE_TEST_POWER_FS` for another file system (`ext4`, `ext4-writeback`, `btrfs`), `ABIDE_TEST_POWER_SEED` for
//! other choices, and `ABIDE_TEST_POWER_AGAIN=FOLDER` checks a state again that was found wrong.
#![cfg(target_os = "linux")]

mod alone;
mod check;
mod cut;
mod disk;
mod failing;
mod house;
mod kept;
mod machine;
mod promise;
mod run;
mod workload;
// The same facts as in the suite of every store.
#[path = "../store_suite/facts.rs"]
mod facts;

use alone::alone;
use run::Asked;

#[test]
fn nothing_that_was_promised_is_lost_in_a_power_cut() {
    let asked = Asked::by_environment();
    let name = "nothing_that_was_promised_is_lost_in_a_power_cut";
    alone(name, asked.kind, asked.limit(), |place| run::cut_the_power(&asked, &place));
}

#[test]
fn what_is_promised_before_it_is_durable_is_noticed() {
    let asked = Asked::by_environment();
    let name = "what_is_promised_before_it_is_durable_is_noticed";
    alone(name, asked.kind, asked.limit(), |place| run::notice(&asked, &place));
}

#[test]
fn a_failed_write_is_told_and_nothing_is_sent_until_it_is_mended() {
    let asked = Asked::by_environment();
    let name = "a_failed_write_is_told_and_nothing_is_sent_until_it_is_mended";
    alone(name, asked.kind, asked.limit(), |place| failing::fail(asked.kind, &place));
}
