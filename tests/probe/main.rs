//! The real dialler against partners that are broken on purpose: each must be told by its side and its code.

mod deep;
mod matrix;
mod names;
mod namespaces;
mod run;
mod scenarios;
#[path = "../secure/mod.rs"]
#[expect(dead_code, reason = "other floors have other ways to fail")]
mod secure;
