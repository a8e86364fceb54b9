//! Where the ledger lies on the disk, and what each operation is, by its name.

use crate::facts::{opened, settled, wish_of};
use abide::drive::Wish;
use abide::engine::facts::{Fact, Opened, Settled, StoredBody};
use abide::engine::verdict::Verdict;
use abide::store::StoreError;
use abide::store::jsonl::{Compacted, Options, Retention, Which, compact};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// So long that it lies beside the ledger, in bytes.
const LONG: usize = 20_000;
/// So long that some twenty operations need a run of the index, in bytes.
const WIDE: usize = 14_000;

/// A ledger and this machine's memory of it, on one disk.
#[derive(Clone, Debug)]
pub struct House {
    folder: PathBuf,
    boot: Box<str>,
}

impl House {
    /// Takes the ledger in a folder, for processes of one boot of this machine.
    pub fn new(folder: &Path, boot: &str) -> House {
        House { folder: folder.into(), boot: boot.into() }
    }

    pub fn ledger(&self) -> PathBuf {
        self.folder.join("ledger.jsonl")
    }

    pub fn options(&self) -> Options {
        let state = Some(self.folder.join("state"));
        Options { state, unsafe_fs: false, boot: self.boot.clone(), now: crate::facts::now().wall }
    }

    /// Returns what is sent under a name: always the same.
    pub fn wish(&self, name: &str) -> Wish {
        let body = payload(name);
        let plain = opened(name, StoredBody::Text(body.clone().into()), &self.boot);
        // While the partner still knows the key, nothing is forgotten.
        let opened = Opened { key_until: plain.key_until.filter(|_| !is_forgotten(name)), ..plain };
        wish_of(name, opened, body.as_bytes())
    }

    /// Drops payloads and answers of what is decided, and forgets what may be forgotten.
    pub fn compact(&self) -> Result<Compacted, StoreError> {
        let keep = |opened: &Opened| {
            let may_go = opened.fp.0.strip_prefix("v1:").is_some_and(is_forgotten);
            Retention { keep_full: Duration::ZERO, forget_after: may_go.then_some(Duration::ZERO) }
        };
        compact(&self.ledger(), &self.options(), Which::Older(&keep), &|| false)
    }

    /// Returns the files on the disk whose writes the system may do when it likes.
    pub fn files(&self) -> Vec<PathBuf> {
        let folders =
            ["", "state/ledgers", "ledger.jsonl.idx", "ledger.jsonl.blobs"].map(|name| self.folder.join(name));
        let entries = folders.into_iter().filter_map(|folder| folder.read_dir().ok()).flatten();
        entries.filter_map(|entry| Some(entry.ok()?.path())).filter(|path| path.is_file()).collect()
    }
}

/// Returns whether a compaction forgets an operation that is decided, by its name.
pub fn is_forgotten(name: &str) -> bool {
    name.starts_with("gone-")
}

/// Returns the body of an operation, by its name.
pub fn payload(name: &str) -> String {
    let len = match name.split('-').next() {
        Some("long") => LONG,
        Some("wide") => WIDE,
        _ => 0,
    };
    format!("{name}{}", "x".repeat(len))
}

/// Returns how a run ends; the answer of a long operation is as long as it.
pub fn ending(name: &str, a: u32, verdict: Verdict) -> Fact {
    let Fact::Settled(end) = settled(verdict, Some(crate::facts::attempt(a, evidence(verdict)))) else {
        unreachable!("that is what it makes")
    };
    let mut end: Settled = (*end).clone();
    if let Some(response) = &mut end.response {
        response.body = Some(StoredBody::Text(payload(name).into()));
    }
    Fact::Settled(Arc::new(end))
}

fn evidence(verdict: Verdict) -> abide::engine::verdict::Evidence {
    use abide::engine::verdict::Evidence;
    if verdict == Verdict::InDoubt { Evidence::InDoubt } else { Evidence::Answered }
}
