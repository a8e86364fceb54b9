//! abide
pub mod drive;
pub mod engine;
