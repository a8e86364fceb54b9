//! Decisions: no clock, no chance, no files, no sockets. Time and chance arrive as arguments.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

pub mod backoff;
pub mod classify;
pub mod deadline;
pub mod decide;
pub mod diagnose;
pub mod due;
pub mod entry;
pub mod exchange;
pub mod facts;
pub mod fingerprint;
pub mod gateway;
pub mod json;
pub mod location;
pub mod measured;
pub mod moment;
pub mod operation;
pub mod planted;
pub mod policy;
pub mod proxy;
pub mod reason;
pub mod resolution;
pub mod retry_after;
pub mod secret;
pub mod status;
pub mod suggest;
pub mod units;
pub mod verdict;
pub mod view;

#[cfg(test)]
mod story;
