//! Whose fault it is, and what to do next: from what a probe saw to one verdict.
//!
//! Source: latency.md 6.1 and 6.3.

pub mod clock;
pub mod past;
pub mod tcp;
