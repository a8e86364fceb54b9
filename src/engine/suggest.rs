//! Timeouts from measured latency: what was seen, what it proves, and what it does not.
//!
//! Counts of latencies come in, in which samples that were given up are kept apart ([`latencies`]). One rule finds every
//! percentile and its bounds ([`quantile`]).
//!
//! Source: latency.md part A; decisions 31 and 32; product.md section 6.

pub mod distribution;
pub mod latencies;
pub mod quantile;
pub mod ranks;
pub mod share;
mod survival;
