//! A folder with a ledger, the processes that use it, and what they promise.

use super::log::{Log, Promise};
use crate::drive::{Claim, Claimed, Durability, Ledger, Wish};
use crate::engine::entry::is_final;
use crate::engine::facts::{Again, Fact, Finished, History, Opened, Response, Settled, Started, StoredBody};
use crate::engine::moment::{Now, Timestamp};
use crate::engine::reason::Reason;
use crate::engine::verdict::{Cause, Evidence, Verdict};
use crate::store::Warning;
use crate::store::jsonl::tests::{run, wish};
use crate::store::jsonl::{Jsonl, JsonlClaim, Options, Reader, files};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Where a workload runs. Its calls are written down until it is dropped.
pub struct Stage {
    folder: tempfile::TempDir,
    /// What happened.
    pub log: Arc<Log>,
}

impl Stage {
    /// Makes an empty folder and watches it. The names of temporary files depend on `seed` only.
    pub fn new(seed: u64) -> Stage {
        let folder = scratch();
        let log = Arc::new(Log::new(folder.path()));
        fastrand::seed(seed);
        files::watch(Some(log.clone()));
        let stage = Stage { folder, log };
        stage.log.baseline();
        stage
    }

    /// Returns the folder.
    pub fn root(&self) -> &Path {
        self.folder.path()
    }

    /// Returns the ledger's path.
    pub fn path(&self) -> PathBuf {
        ledger_in(self.root())
    }

    /// Returns how its processes open it.
    pub fn options(&self) -> Options {
        options(self.root(), "here")
    }

    /// Does what nobody watches: afterwards it is durable.
    pub fn quiet(&self, work: impl FnOnce()) {
        self.log.quiet(true);
        work();
        self.log.quiet(false);
        self.log.baseline();
    }

    /// Does something elsewhere.
    pub fn elsewhere<T>(&self, work: impl FnOnce() -> T) -> T {
        files::watch(None);
        let done = work();
        files::watch(Some(self.log.clone()));
        done
    }

    /// Begins a process.
    pub fn process(&self) -> Option<Jsonl> {
        Jsonl::open(&self.path(), &self.options()).ok()
    }

    /// Claims a key and begins the next attempt: from then on the request may leave.
    pub fn begin(&self, ledger: &mut Jsonl, key: &str) -> Option<Held> {
        run(self.begins(ledger.clone(), key))
    }

    /// The same, as a task beside others.
    pub async fn begins(&self, mut ledger: Jsonl, key: &str) -> Option<Held> {
        match ledger.claim(&wished(key), Now::default()).await {
            Ok(Claimed::Ours(mut claim, history)) => {
                let a = history.last_attempt() + 1;
                let fact = Fact::Started(Started { a, addr: None, proxy: None });
                claim.append(Now::default(), &fact, Durability::Now).await.ok()?;
                self.log.promise(Promise::Sent(key.into(), a));
                Some(Held { claim, a })
            }
            Ok(Claimed::Final(_, history)) => {
                // It is reported to whoever sends it again.
                self.tell(key, verdict_of(&history)?);
                None
            }
            _ => None,
        }
    }

    /// Records an outcome and reports it.
    pub fn end(&self, held: Held, key: &str, verdict: Verdict) -> Option<()> {
        run(self.ends(held, key, verdict))
    }

    /// The same, as a task beside others.
    pub async fn ends(&self, mut held: Held, key: &str, verdict: Verdict) -> Option<()> {
        held.claim.append(Now::default(), &outcome(key, held.a, verdict), Durability::Now).await.ok()?;
        self.tell(key, verdict);
        Some(())
    }

    /// Sends a request.
    pub fn send(&self, ledger: &mut Jsonl, key: &str, verdict: Verdict) -> Option<()> {
        let held = self.begin(ledger, key)?;
        self.end(held, key, verdict)
    }

    /// Notes what a step on the way says, which nobody waits for.
    pub fn note(&self, held: &mut Held, fact: &Fact) {
        drop(run(held.claim.append(Now::default(), fact, Durability::Later)));
    }

    /// Shows an operation to a person, as far as nothing says that it may not be durable.
    pub fn show(&self, key: &str) -> Option<()> {
        let reader = Reader::open(&self.path(), &self.options()).ok()?;
        let doubtful = |warning: &Warning| matches!(warning, Warning::Unsynced(_) | Warning::Unsendable(_));
        if reader.warnings().iter().any(doubtful) {
            return None;
        }
        let found = reader.find(&wish(key).key, None).ok()?;
        let history = &found.first()?.history;
        if is_final(history) {
            self.tell(key, verdict_of(history)?);
        }
        Some(())
    }

    fn tell(&self, key: &str, verdict: Verdict) {
        self.log.promise(Promise::Told(key.into(), verdict));
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        files::watch(None);
    }
}

/// A key that is worked on.
pub struct Held {
    claim: JsonlClaim,
    /// The newest attempt.
    pub a: u32,
}

/// Makes a folder, in memory where there is such a file system.
pub fn scratch() -> tempfile::TempDir {
    let memory = Path::new("/dev/shm");
    let made = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
    made.expect("a folder")
}

/// Where the ledger lies in the folder: under others that have to be made.
pub const LEDGER: &str = "house/room/l.jsonl";

/// Returns where the ledger of a folder lies.
pub fn ledger_in(root: &Path) -> PathBuf {
    root.join(LEDGER)
}

/// Returns where something beside the ledger of a folder lies.
pub fn beside(root: &Path, ending: &str) -> PathBuf {
    root.join(format!("{LEDGER}{ending}"))
}

/// Returns how the ledger of a folder is opened.
pub fn options(root: &Path, boot: &str) -> Options {
    Options { state: Some(root.join("state")), unsafe_fs: true, boot: boot.into(), now: Timestamp::default() }
}

/// Returns a request with the body that belongs to a key.
pub fn wished(key: &str) -> Wish {
    let (body, plain) = (body_of(key), wish(key));
    let opened = Opened { body: StoredBody::Text(body.as_str().into()), ..Opened::clone(&plain.opened) };
    Wish { opened: Arc::new(opened), body: body.as_bytes().into(), ..plain }
}

/// Returns the body of a key: long ones lie beside the ledger, and `long1` and `long1-b` have the same.
pub fn body_of(key: &str) -> String {
    let name = key.split('-').next().expect("a name");
    match name {
        name if name.starts_with("long") => format!("body of {name};").repeat(1_500),
        name if name.starts_with("fat") => format!("body of {name};").repeat(1_000),
        name => format!("body of {name};"),
    }
}

/// Returns the answer to a key.
pub fn answer_of(key: &str) -> String {
    body_of(key).replace("body of", "answer to")
}

/// Returns the last word about an operation.
fn verdict_of(history: &History) -> Option<Verdict> {
    history.facts.iter().rev().find_map(|recorded| match &recorded.fact {
        Fact::Settled(settled) => Some(settled.verdict),
        Fact::Resolved(resolved) => Some(resolved.verdict),
        _ => None,
    })
}

/// Returns how a key ended with its attempt `a`.
pub fn outcome(key: &str, a: u32, verdict: Verdict) -> Fact {
    let answer = answer_of(key);
    let body = Some(StoredBody::Text(answer.as_str().into()));
    let response = Response { headers: Vec::new(), len: answer.len() as u64, sha: "ab".into(), body, cut: false };
    let (response, last) = (Some(Box::new(response)), Some(Arc::new(finished(a))));
    Fact::Settled(Arc::new(Settled { verdict, cause: Cause::Answer, retry_at: None, last, response }))
}

/// Returns what an attempt came to that nobody knows anything about.
pub fn finished(a: u32) -> Finished {
    let (evidence, again, reason) = (Evidence::InDoubt, Again::Yes, Reason::ReadTimeout);
    let (stage, side, http, stages, error, not_before) = (None, None, None, None, None, None);
    let (ms, done, replayed, slow, hop) = (5, None, false, false, None);
    Finished { a, evidence, done, again, reason, stage, side, http, ms, stages, error, not_before, replayed, slow, hop }
}
