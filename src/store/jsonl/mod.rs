//! The ledger as a file: JSON lines, appended and never edited, shared by processes through locks.
//!
//! The rules are those of the ledger's design: intent is durable before a byte leaves, an outcome before it is
//! reported; damage is never read as "absent".

mod accept;
mod blobs;
mod check;
mod claim;
mod compact;
mod core;
mod damage;
mod direct;
mod disk;
mod files;
mod finding;
mod group;
mod index;
mod journal;
mod known;
mod locks;
mod lookup;
mod operations;
mod place;
mod reader;
mod repair;
mod resolve;
mod room;
mod scan;
mod seen;
mod sick;
mod syncs;
mod traces;
mod upkeep;
mod waits;
mod wanted;

pub use accept::{Accepted, accept_loss};
pub use check::verify;
pub use claim::JsonlClaim;
pub use compact::{
    COMPACT_MAX, COMPACT_MIN, Compacted, Keep, Retention, Which, Worth, compact, may_compact, worth_compacting,
};
pub use finding::{Finding, Kind, Remedy, Verified};
pub use index::Effort;
pub use known::Informed;
pub use reader::{Found, Reader};
pub use repair::{Repaired, repair};

use self::core::Core;
use super::{StoreError, Warning};
use crate::drive::{Claimed, Ledger, Resolving, Wish};
use crate::engine::facts::{Owner, Resolved, StoredBody};
use crate::engine::moment::{Now, Timestamp};
use crate::engine::operation::IdempotencyKey;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// How a ledger is opened.
#[derive(Clone, Debug)]
pub struct Options {
    /// The folder in which this machine remembers its ledgers (`$XDG_STATE_HOME/abide`). `None` for a ledger that is
    /// thrown away: a lost end goes unnoticed then.
    pub state: Option<PathBuf>,
    /// Whether network file systems are taken (`--ledger-unsafe-fs`).
    pub unsafe_fs: bool,
    /// The boot of this machine, as [`this_process`] gives it. Empty: no owner is known to be of this boot.
    pub boot: Box<str>,
    /// The time that a new ledger's first line gets.
    pub now: Timestamp,
}

/// A ledger file that is written to. One value is one process in the eyes of the locks.
///
/// Clones share it, for the workers of one process: the file is read once, claims of one are alive to the others, and
/// what several have written is synced at once.
#[derive(Clone, Debug)]
pub struct Jsonl {
    core: Arc<Core>,
}

impl Jsonl {
    /// Opens a ledger, and makes it and its folder where they are missing. An empty file becomes a ledger.
    ///
    /// # Errors
    /// [`StoreError::NotALedger`], [`StoreError::NewerFormat`], [`StoreError::NotAFile`] and
    /// [`StoreError::NetworkFileSystem`] leave everything as it is; [`StoreError::NoSpace`] and [`StoreError::Io`] name
    /// what could not be made.
    pub fn open(path: &Path, options: &Options) -> Result<Jsonl, StoreError> {
        Core::open(path, options, |file| Arc::new(file)).map(|core| Jsonl { core: Arc::new(core) })
    }

    /// Takes what was noticed since the last call; each to be shown once.
    pub fn warnings(&self) -> Vec<Warning> {
        self.core.take_warnings()
    }

    /// Brings the index up to date where that is due: for the end of a process, when nobody waits for an outcome any
    /// more. Returns whether it was.
    pub fn keep_up(&self, effort: Effort) -> bool {
        upkeep::keep_up(&self.core, &mut self.core.state(), effort)
    }

    /// Lets a thread make the syncs: for many tasks that have something to do while the disk works. One task alone would
    /// only wait longer.
    pub fn sync_beside(&self) {
        self.core.group().sync_beside();
    }

    /// Returns how often this value has synced the ledger's file.
    pub fn syncs(&self) -> u64 {
        self.core.syncs()
    }
}

impl Ledger for Jsonl {
    type Claim = JsonlClaim;
    type Error = StoreError;

    async fn claim(&mut self, wish: &Wish, now: Now) -> Result<Claimed<JsonlClaim>, StoreError> {
        claim::claim(&self.core, wish, None, now).await
    }

    async fn resolve(&mut self, key: &IdempotencyKey, resolved: &Resolved, now: Now) -> Result<Resolving, StoreError> {
        resolve::resolve(&self.core, key, resolved, now).await
    }
}

/// Returns a body that the ledger at `path` keeps, in a line or beside the file; `None` where only its hash is kept.
///
/// # Errors
/// [`StoreError::BlobDamaged`] where it is not what was kept, [`StoreError::Io`] where it cannot be read.
pub fn kept_body(path: &Path, body: &StoredBody) -> Result<Option<Vec<u8>>, StoreError> {
    match body {
        StoredBody::Blob { sha, len } => blobs::read(&place::Place::find(path)?, sha, *len).map(Some),
        body => Ok(blobs::inline(body).map(Into::into)),
    }
}

/// Returns who this process is: for the owner of its claims, and for [`Options::boot`].
///
/// What the system does not tell stays empty.
pub fn this_process() -> Owner {
    let host = nix::unistd::gethostname().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    // Source: proc_sys_kernel(5). It does not exist elsewhere, where every dead owner then counts as rebooted.
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    Owner { host: host.into(), boot: boot.trim().into(), pid: std::process::id() }
}

#[cfg(test)]
mod tests;
