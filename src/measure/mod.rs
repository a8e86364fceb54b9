//! Measured latency: histograms that take any number of samples.
//!
//! Memory does not grow with the number of samples. What is derived from them is decided in
//! [`crate::engine::suggest`].

mod counted;

pub use counted::{Bin, Counted, LONGEST, StageCounts, TooLong, latencies};
