//! Measured latency: histograms that take any number of samples, and the files that other tools read.
//!
//! Memory does not grow with the number of samples. What is derived from them is decided in
//! [`crate::engine::suggest`].

mod alarm;
mod counted;
pub mod curl;
pub mod hgrm;
pub mod hlog;
pub mod recording;
pub mod sampler;
pub mod samples;
mod schedule;
mod tally;

pub use counted::{Bin, Counted, LONGEST, StageCounts, TooLong, counted, latencies};
pub use tally::Tally;
