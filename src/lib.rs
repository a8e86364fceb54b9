//! Sends requests to slow, flaky partner APIs and always tells whether they happened.
//!
//! Three layers, one direction:
//!
//! - [`engine`] decides. It is pure: time and chance arrive as arguments, state is a fold over recorded facts, and
//!   what a partner does wrong is a value, never an error.
//! - [`drive`] is the loop between decisions and effects, with the traits through which it reaches the world. It alone
//!   makes a [`drive::Permit`]: after the intent to send is durable, or for [`drive::send_unrecorded`], which only the
//!   sampler of `measure` calls.
//! - Around it, behind the feature `net`: the transport, the ledger, the profiles, and a partner that misbehaves on
//!   purpose. The command line is behind the feature `cli`.
//!
//! The library never reads the environment or the arguments, never prints, and never ends the process.
//!
//! ```
//! use abide::engine::backoff::{Backoff, Jitter};
//! use abide::engine::location::origin;
//! use std::time::Duration;
//!
//! let backoff = Backoff { base: Duration::from_secs(2), cap: Duration::from_secs(300), jitter: Jitter::Equal };
//! assert_eq!(backoff.after(3, 0.0), Duration::from_secs(4));
//! assert_eq!(origin("https://api.acme.example/v1"), origin("https://API.acme.example:443/v2"));
//! ```

pub mod drive;
pub mod engine;
#[cfg(feature = "net")]
pub mod measure;
#[cfg(feature = "net")]
pub mod net;
#[cfg(feature = "net")]
pub mod probe;
#[cfg(feature = "net")]
pub mod profile;
#[cfg(feature = "net")]
pub mod rehearse;
#[cfg(feature = "net")]
pub mod store;
