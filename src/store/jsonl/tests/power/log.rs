//! Every call that a workload makes on its files, written down; and calls that fail.

use crate::engine::verdict::Verdict;
use crate::store::jsonl::files::{Call, Watch};
use nix::errno::Errno;
use std::collections::HashMap;
use std::fs::{self, File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard};

/// What happened, in order. Files are numbered; paths are relative to the folder that is watched.
#[derive(Clone, Debug)]
pub enum Event {
    /// All that is there is durable: the workload begins here.
    Baseline(Vec<(String, Option<usize>, Vec<u8>)>),
    /// A new file.
    Made(String, usize),
    /// Bytes, from an offset on.
    Wrote(usize, u64, Vec<u8>),
    /// Another length.
    Cut(usize, u64),
    /// A file is about to be made durable, as it is.
    Syncing(usize),
    /// It is.
    Synced(usize),
    /// The system says that it could not be made durable.
    Unsynced(usize),
    /// A new folder.
    Folder(String),
    /// The names in a folder are durable.
    SyncedFolder(String),
    /// The system says that they could not be made durable.
    UnsyncedFolder(String),
    /// A file has the second name now.
    Renamed(String, String),
    /// A name is gone.
    Removed(String),
    /// Something was promised.
    Promise(Promise),
}

/// What somebody builds upon from now on.
#[derive(Clone, Debug, PartialEq)]
pub enum Promise {
    /// Attempt `.1` of the key may have left.
    Sent(String, u32),
    /// The outcome of the key was reported.
    Told(String, Verdict),
    /// A compaction has begun: payloads and answers of decided operations may be gone.
    Slimming,
    /// The payload of the key is gone for ever.
    Forgotten(String),
    /// A person accepts that the ledger is damaged.
    Accepting,
}

/// How a call fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The disk is broken.
    Broken,
    /// The disk is full.
    Full,
    /// A signal came.
    Interrupted,
    /// A write takes only half.
    Short,
}

/// Which calls fail.
#[derive(Clone, Copy, Debug)]
pub struct Fault {
    /// How.
    pub kind: Kind,
    /// The first one, from 0.
    pub at: usize,
    /// Whether all that follow do too.
    pub lasts: bool,
}

/// The log of one folder.
#[derive(Debug)]
pub struct Log {
    root: PathBuf,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    events: Vec<Event>,
    /// Which number a file has, by device and inode.
    ids: HashMap<(u64, u64), usize>,
    files: usize,
    /// The file that had the path of the call that is being made.
    before: Option<((u64, u64), u64)>,
    /// Nothing is written down, and nothing fails.
    is_quiet: bool,
    /// What was promised in the meantime.
    kept: Vec<Promise>,
    fault: Option<Fault>,
    /// Whether the next sync fails.
    fails_sync: bool,
    /// What each call is that was made so far, the failed ones included.
    calls: Vec<&'static str>,
    hits: Vec<String>,
}

impl Log {
    /// Begins to write down what happens in a folder.
    pub fn new(root: &Path) -> Log {
        Log { root: root.into(), inner: Mutex::default() }
    }

    /// Takes what is in the folder as durable.
    pub fn baseline(&self) {
        let inner = &mut *self.lock();
        let mut found = Vec::new();
        let mut folders = vec![self.root.clone()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(&folder).expect("a folder") {
                let path = entry.expect("a file").path();
                let metadata = fs::metadata(&path).expect("there");
                if metadata.is_dir() {
                    found.push((self.name(&path), None, Vec::new()));
                    folders.push(path);
                } else {
                    let id = *inner.ids.entry(identity(&metadata)).or_insert(inner.files);
                    inner.files = inner.files.max(id + 1);
                    found.push((self.name(&path), Some(id), fs::read(&path).expect("reads")));
                }
            }
        }
        found.sort();
        inner.events.push(Event::Baseline(found));
        inner.events.extend(inner.kept.drain(..).map(Event::Promise));
    }

    /// Writes a promise down.
    pub fn promise(&self, promise: Promise) {
        let inner = &mut *self.lock();
        match inner.is_quiet {
            true => inner.kept.push(promise),
            false => inner.events.push(Event::Promise(promise)),
        }
    }

    /// Lets calls fail.
    pub fn plan(&self, fault: Option<Fault>) {
        let inner = &mut *self.lock();
        (inner.fault, inner.fails_sync) = (fault, false);
    }

    /// Lets the next sync of a file fail.
    pub fn fail_next_sync(&self) {
        self.lock().fails_sync = true;
    }

    /// Begins, or ends, a time in which nothing is written down, and nothing fails.
    pub fn quiet(&self, is_quiet: bool) {
        self.lock().is_quiet = is_quiet;
    }

    /// Returns what happened.
    pub fn events(&self) -> Vec<Event> {
        self.lock().events.clone()
    }

    /// Returns what each call was.
    pub fn calls(&self) -> Vec<&'static str> {
        self.lock().calls.clone()
    }

    /// Returns which calls failed.
    pub fn hits(&self) -> Vec<String> {
        self.lock().hits.clone()
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().expect("no panic")
    }

    /// Folders above are synced too.
    fn is_ours(&self, call: Call<'_>) -> bool {
        !matches!(call, Call::SyncFolder(path) if !path.starts_with(&self.root))
    }

    fn name(&self, path: &Path) -> String {
        let name = path.strip_prefix(&self.root).expect("nothing else is altered");
        name.to_str().expect("a name").into()
    }
}

impl Watch for Log {
    fn before(&self, call: Call<'_>) -> io::Result<()> {
        let inner = &mut *self.lock();
        if inner.is_quiet || !self.is_ours(call) {
            return Ok(());
        }
        let number = inner.calls.len();
        inner.calls.push(kind_of(call));
        if let Call::Open(path) = call {
            inner.before = fs::metadata(path).ok().map(|found| (identity(&found), found.len()));
        }
        let is_new = inner.before.is_none();
        let mut error = inner.fault.and_then(|fault| fault.error(number, call, is_new));
        if matches!(call, Call::Sync(_)) && std::mem::take(&mut inner.fails_sync) {
            error = Some(Errno::EIO);
        }
        if let Call::Sync(file) = call {
            let id = inner.id(file);
            inner.events.push(Event::Syncing(id));
        }
        let Some(error) = error else { return Ok(()) };
        inner.hits.push(format!("{number}: {}", self.describe(call)));
        if let Call::Sync(file) = call {
            let id = inner.id(file);
            inner.events.push(Event::Unsynced(id));
        }
        if let Call::SyncFolder(path) = call {
            inner.events.push(Event::UnsyncedFolder(self.name(path)));
        }
        Err(error.into())
    }

    fn after(&self, call: Call<'_>) {
        let inner = &mut *self.lock();
        if inner.is_quiet || !self.is_ours(call) {
            return;
        }
        let event = match call {
            Call::Open(path) => {
                let now = fs::metadata(path).expect("it was opened");
                match inner.before {
                    Some((id, len)) if id == identity(&now) && len == now.len() => return,
                    Some((id, _)) if id == identity(&now) => Event::Cut(inner.ids[&id], now.len()),
                    _ => Event::Made(self.name(path), inner.number(&now)),
                }
            }
            Call::Write(file, bytes, at) => Event::Wrote(inner.id(file), at, bytes.into()),
            Call::Truncate(file, len) => Event::Cut(inner.id(file), len),
            Call::Reserve(_) => return,
            Call::Sync(file) => Event::Synced(inner.id(file)),
            Call::SyncFolder(path) => Event::SyncedFolder(self.name(path)),
            Call::Rename(from, to) => Event::Renamed(self.name(from), self.name(to)),
            Call::Remove(path) => Event::Removed(self.name(path)),
            Call::MakeFolder(path) => Event::Folder(self.name(path)),
        };
        inner.events.push(event);
    }

    fn room(&self, len: usize) -> usize {
        let inner = self.lock();
        let number = inner.calls.len();
        let is_short = |fault: &Fault| fault.kind == Kind::Short && fault.hits(number) && !inner.is_quiet;
        if inner.fault.as_ref().is_some_and(is_short) { len.div_ceil(2) } else { len }
    }
}

impl Log {
    fn describe(&self, call: Call<'_>) -> String {
        match call {
            Call::Open(path) | Call::Remove(path) | Call::SyncFolder(path) | Call::MakeFolder(path) => {
                format!("{} {}", kind_of(call), self.name(path))
            }
            Call::Rename(from, to) => format!("rename {} to {}", self.name(from), self.name(to)),
            Call::Write(file, ..) | Call::Truncate(file, _) | Call::Reserve(file) | Call::Sync(file) => {
                format!("{} of a file with {} bytes", kind_of(call), file.metadata().expect("there").len())
            }
        }
    }
}

impl Inner {
    fn id(&self, file: &File) -> usize {
        self.ids[&identity(&file.metadata().expect("open"))]
    }

    fn number(&mut self, file: &Metadata) -> usize {
        self.ids.insert(identity(file), self.files);
        self.files += 1;
        self.files - 1
    }
}

impl Fault {
    fn hits(&self, number: usize) -> bool {
        number == self.at || (self.lasts && number > self.at)
    }

    /// Returns what such a disk answers to a call; `None` where it is well, or such a call never fails so.
    fn error(&self, number: usize, call: Call<'_>, is_new: bool) -> Option<Errno> {
        if !self.hits(number) {
            return None;
        }
        match (self.kind, call) {
            (Kind::Broken, _) => Some(Errno::EIO),
            (Kind::Full, Call::Remove(_) | Call::Truncate(..)) => None,
            (Kind::Full, Call::Open(_)) => is_new.then_some(Errno::ENOSPC),
            (Kind::Full, _) => Some(Errno::ENOSPC),
            // Once only: whatever tries again forever would hang. The standard library tries the others again itself.
            (Kind::Interrupted, Call::Write(..) | Call::Reserve(_)) => (number == self.at).then_some(Errno::EINTR),
            (Kind::Interrupted | Kind::Short, _) => None,
        }
    }
}

fn kind_of(call: Call<'_>) -> &'static str {
    match call {
        Call::Open(_) => "open",
        Call::Write(..) => "write",
        Call::Truncate(..) => "cut",
        Call::Reserve(_) => "reserve",
        Call::Sync(_) => "sync",
        Call::SyncFolder(_) => "sync folder",
        Call::Rename(..) => "rename",
        Call::Remove(_) => "remove",
        Call::MakeFolder(_) => "make folder",
    }
}

fn identity(file: &Metadata) -> (u64, u64) {
    (file.dev(), file.ino())
}
