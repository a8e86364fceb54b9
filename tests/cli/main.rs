//! The binary: arguments in; stdout, stderr and the exit status out. Seed and clock are fixed, folders are empty.

mod calibrate;
mod calibrate_executed;
mod calibrate_report;
mod calibrate_whole;
mod compaction;
mod killed;
mod ledger;
mod operations;
mod probe;
mod processes;
mod reading;
mod recordings;
mod replay;
mod sandbox;
#[path = "../secure/mod.rs"]
#[expect(dead_code, reason = "the wire floor has more ways to fail than are shown here")]
mod secure;
mod tls;
mod usage;
mod ways;
