//! The real driver and transport against a partner on loopback that misbehaves byte by byte.
//!
//! Every test has a partner of its own and asserts what that partner saw, not only what we believe. Limits are short;
//! times are held from below exactly and from above with ten times the slack (decisions 35).
#![cfg(feature = "net")]

mod faults;
mod late;
mod operations;
mod proxies;
mod relay;
mod reuse;
mod run;
#[path = "../secure/mod.rs"]
mod secure;
mod status;
mod tls;
mod ways;
