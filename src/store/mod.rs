//! The durable memory: the ledger as a file of JSON lines, and the same in memory for tests.
//!
//! Nothing here knows the network. Both stores decide by [`crate::engine::entry`] and pass `tests/store_suite`.

mod error;
pub mod format;
pub mod jsonl;
pub mod memory;
mod warning;

pub use error::{Left, StoreError};
pub use warning::Warning;
