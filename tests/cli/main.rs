//! The binary: arguments in; stdout, stderr and the exit status out. Seed and clock are fixed, folders are empty.

mod killed;
mod ledger;
mod operations;
mod processes;
mod reading;
mod replay;
mod sandbox;
mod usage;
mod ways;
