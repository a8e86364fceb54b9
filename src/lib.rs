//! abide
pub mod drive;
pub mod engine;
#[cfg(feature = "net")]
pub mod net;
#[cfg(feature = "net")]
pub mod store;
