//! What goes on at the ledger while its disk is recorded: everything that the store does to its files.

use crate::disk::{Disk, Recorder};
use crate::facts::{BOOT, asked, finished, key, now, partner, started, waiting};
use crate::house::{House, ending};
use crate::promise::{Promise, told};
use abide::drive::{Claim, Claimed, Durability, Ledger, Resolving};
use abide::engine::facts::{Fact, Resolved};
use abide::engine::verdict::{Evidence, Verdict};
use abide::store::jsonl::{Effort, Jsonl, JsonlClaim, Reader};
use nix::fcntl::{PosixFadviseAdvice, posix_fadvise};
use std::fs::File;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// How many processes want the same keys at once, and how many keys.
const CROWD: usize = 4;
const KEYS: usize = 10;
/// How many tasks of one process share their syncs; so wide that an index is due.
const TASKS: usize = 24;
/// How long a flush takes while many work: long enough for others to read what is not durable yet.
const SLOW: Duration = Duration::from_millis(2);
/// How often the system writes what nobody has synced.
const WRITE_BACK: Duration = Duration::from_millis(1);

pub fn run<T>(future: impl Future<Output = T>) -> T {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_time().build().expect("a runtime").block_on(future)
}

/// Works with a ledger in `folder`, which lies on `disk`.
pub fn work(disk: &Disk, folder: &Path) {
    let site = Site { house: House::new(folder, BOOT), recorder: disk.recorder() };
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let system = scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                site.write_back();
                thread::sleep(WRITE_BACK);
            }
        });
        let _over = Over(&is_over);
        site.one_after_another();
        disk.flush_takes(SLOW);
        site.crowd("first", || {});
        site.batch();
        site.crowd("second", || site.compact(&["gone-yes", "gone-no"]));
        disk.flush_takes(Duration::ZERO);
        is_over.store(true, Ordering::Relaxed);
        system.join().expect("no panic");
        site.quietly_compact();
    });
    // What nobody has synced is on the disk in the end as well.
    let top = File::open(folder).expect("a folder");
    nix::unistd::syncfs(&top).expect("syncs");
}

/// Ends the system's writing also where something fails.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The ledger, and what notes its promises.
#[derive(Clone)]
struct Site {
    house: House,
    recorder: Recorder,
}

impl Site {
    /// Opens the ledger as a process of its own.
    fn process(&self) -> Jsonl {
        Jsonl::open(&self.house.ledger(), &self.house.options()).expect("a healthy ledger")
    }

    /// The kernel writes a page whenever it likes. It does so now.
    fn write_back(&self) {
        for file in self.house.files().iter().filter_map(|path| File::open(path).ok()) {
            posix_fadvise(&file, 0, 0, PosixFadviseAdvice::POSIX_FADV_DONTNEED).expect("a file");
        }
    }

    /// Whatever one process can do, and the next after it.
    fn one_after_another(&self) {
        self.send("yes", &[Verdict::Confirmed]);
        self.send("no", &[Verdict::Rejected]);
        self.send("again", &[Verdict::InDoubt, Verdict::NotDone, Verdict::Confirmed]);
        self.send("gone-yes", &[Verdict::InDoubt, Verdict::Confirmed]);
        self.send("gone-no", &[Verdict::Rejected]);
        self.send("doubt", &[Verdict::InDoubt, Verdict::InDoubt]);
        self.send("long-yes", &[Verdict::Confirmed]);
        self.send("long-again", &[Verdict::InDoubt, Verdict::Confirmed]);
        self.attempts("attempts");
        self.attempts("long-attempts");
        drop(run(claim(&mut self.process(), &self.house, "never-sent")));
        for verdict in [Verdict::NotDone, Verdict::Confirmed] {
            self.send("word", &[Verdict::InDoubt]);
            self.resolve("word", verdict);
        }
        for name in ["yes", "no", "word", "again", "doubt"] {
            self.read(name);
        }
    }

    /// Runs an operation once for each verdict, each run by another process.
    fn send(&self, name: &str, verdicts: &[Verdict]) {
        for verdict in verdicts {
            run(self.operate(self.process(), name, *verdict));
        }
    }

    /// Claims, sends, settles and reports; or reports what others have found out.
    async fn operate(&self, mut ledger: Jsonl, name: &str, verdict: Verdict) {
        match claim(&mut ledger, &self.house, name).await {
            Claimed::Ours(mut held, history) => {
                let a = history.last_attempt() + 1;
                append(&mut held, &started(a)).await;
                self.recorder.promised(Promise::Sent { name: name.into(), n: held.n() });
                append(&mut held, &ending(name, a, verdict)).await;
                self.recorder.promised(Promise::Told { name: name.into(), n: held.n(), verdict });
            }
            Claimed::Final(_, history) => told(name, &history).for_each(|promise| self.recorder.promised(promise)),
            Claimed::Busy(..) => {}
            other => panic!("{name}: {other:?}"),
        }
    }

    /// A run of several attempts, whose process dies.
    fn attempts(&self, name: &str) {
        let mut ledger = self.process();
        let Claimed::Ours(mut held, _) = run(claim(&mut ledger, &self.house, name)) else { panic!("{name} is taken") };
        run(append(&mut held, &started(1)));
        self.recorder.promised(Promise::Sent { name: name.into(), n: held.n() });
        for fact in [finished(1, Evidence::Refused), asked(), waiting(), started(2)] {
            run(held.append(now(), &fact, Durability::Later)).expect("a healthy ledger");
        }
    }

    fn resolve(&self, name: &str, verdict: Verdict) {
        let word = Resolved { partner: partner("acme"), verdict, by: "ann".into(), note: "they say so".into() };
        let resolving = run(self.process().resolve(&key(name), &word, now())).expect("a healthy ledger");
        let Resolving::Recorded(before) = resolving else { panic!("{name}: {resolving:?}") };
        let reader = Reader::open(&self.house.ledger(), &self.house.options()).expect("readable");
        let found = reader.find(&key(name), None).expect("readable").pop().expect("it is there");
        assert!(found.history.newest_claim() > before.newest_claim());
        told(name, &found.history).for_each(|promise| self.recorder.promised(promise));
    }

    /// Reports as `abide status` does.
    fn read(&self, name: &str) {
        let reader = Reader::open(&self.house.ledger(), &self.house.options()).expect("readable");
        for found in reader.find(&key(name), None).expect("readable") {
            told(name, &found.history).for_each(|promise| self.recorder.promised(promise));
        }
    }

    /// Several processes want the same keys, others read, and something else goes on.
    fn crowd(&self, round: &str, something: impl FnOnce() + Send) {
        let names: Vec<String> = (0..KEYS).map(|at| format!("{round}-{at}")).collect();
        thread::scope(|scope| {
            for process in 0..CROWD {
                let names = &names;
                scope.spawn(move || {
                    let ledger = self.process();
                    // Each begins elsewhere, and meets the others all the time.
                    for at in 0..2 * KEYS {
                        let name = &names[(at + process) % KEYS];
                        run(self.operate(ledger.clone(), name, Verdict::Confirmed));
                    }
                });
            }
            scope.spawn(|| names.iter().cycle().take(4 * KEYS).for_each(|name| self.read(name)));
            scope.spawn(something);
        });
    }

    /// Many tasks of one process, whose lines then get an index.
    fn batch(&self) {
        let ledger = self.process();
        let names: Vec<String> = (0..TASKS).map(|at| format!("wide-{at}")).collect();
        let verdict = |at: usize| if at.is_multiple_of(5) { Verdict::InDoubt } else { Verdict::Confirmed };
        run(async {
            let tasks: Vec<_> = names
                .into_iter()
                .enumerate()
                .map(|(at, name)| {
                    let (site, ledger) = (self.clone(), ledger.clone());
                    tokio::spawn(async move { site.operate(ledger, &name, verdict(at)).await })
                })
                .collect();
            for task in tasks {
                task.await.expect("no panic");
            }
        });
        assert!(ledger.keep_up(Effort::Short), "an index is due");
        self.write_back();
        self.recorder.corner();
    }

    fn compact(&self, forgotten: &[&str]) {
        for name in forgotten {
            self.recorder.promised(Promise::Nothing { name: (*name).into() });
        }
        let compacted = self.house.compact().expect("a healthy ledger");
        assert!(compacted.operations > 0, "nothing was compacted");
        assert_eq!(compacted.forgotten, forgotten.len() as u64);
    }

    /// Nobody else syncs anything: only the compaction itself makes its new file's name durable.
    fn quietly_compact(&self) {
        self.send("quiet", &[Verdict::Confirmed]);
        self.send("gone-quiet", &[Verdict::Confirmed]);
        self.compact(&["gone-quiet"]);
        // The record lies in place: to write it takes no entry in the file system's journal.
        for path in self.house.files().iter().filter(|path| path.parent().is_some_and(|it| it.ends_with("ledgers"))) {
            File::open(path).and_then(|record| record.sync_data()).expect("syncs");
        }
        self.recorder.corner();
        self.send("late", &[Verdict::Confirmed]);
    }
}

async fn claim(ledger: &mut Jsonl, house: &House, name: &str) -> Claimed<JsonlClaim> {
    ledger.claim(&house.wish(name), now()).await.expect("a healthy ledger")
}

async fn append(held: &mut JsonlClaim, fact: &Fact) {
    held.append(now(), fact, Durability::Now).await.expect("a healthy ledger");
}
