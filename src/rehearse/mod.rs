//! A partner that misbehaves on purpose, for people who rehearse and for the tests of the wire.

pub mod partner;
pub mod play;
