//! Decisions: no clock, no chance, no files, no sockets. Time and chance arrive as arguments.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

pub mod backoff;
pub mod deadline;
pub mod exchange;
pub mod facts;
pub mod json;
pub mod moment;
pub mod operation;
pub mod policy;
pub mod reason;
pub mod retry_after;
pub mod secret;
pub mod units;
pub mod verdict;
