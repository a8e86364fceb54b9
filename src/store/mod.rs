//! The durable memory: the ledger as a file of JSON lines, and the same in memory for tests.
//!
//! Nothing here knows the network. Both stores decide by [`crate::engine::entry`] and pass `tests/store_suite`.

mod error;
pub mod format;
pub mod memory;

pub use error::{Left, StoreError};
