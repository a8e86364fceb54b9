//! Many processes at one ledger, some of them killed: this test binary, started again as a worker.

use crate::compact::kept;
use crate::facts::*;
use crate::file::OnDisk;
use crate::index::padded;
use crate::suite::*;
use abide::drive::{Claim, Claimed};
use abide::engine::entry::{Standing, is_final};
use abide::engine::facts::{Fact, Predecessor, Recorded, StoredBody};
use abide::engine::verdict::{Evidence, Verdict};
use abide::store::StoreError;
use abide::store::jsonl::{Effort, Found, Jsonl, JsonlClaim, Options, Remedy, Which, compact, verify};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

const INSIDE: &str = "ABIDE_TEST_WORKER";
const PROCESSES: usize = 16;
/// How many workers are killed; 1,000 in the long run, by this variable.
const KILLS: (&str, usize) = ("ABIDE_TEST_KILLS", 100);

/// A worker process. Killed when it is dropped: none outlives its test.
struct Worker(Child);

impl Drop for Worker {
    fn drop(&mut self) {
        // It may have ended by itself.
        drop(self.0.kill());
        self.0.wait().expect("it ends");
    }
}

/// Starts a test once more as a worker; what it says comes through the channel with its number.
fn start(test: &str, folder: &Path, number: usize, said: &Sender<(usize, String)>) -> Worker {
    let mut child = Command::new(std::env::current_exe().expect("a path"))
        .args(["--exact", test, "--nocapture"])
        .env(INSIDE, format!("{number}:{}", folder.display()))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("starts");
    let (mut out, said) = (BufReader::new(child.stdout.take().expect("piped")), said.clone());
    // Ends with the worker, whose end of the pipe closes then.
    std::thread::spawn(move || {
        let mut line = String::new();
        // A line that its writer did not live to end is none.
        while out.read_line(&mut line).is_ok_and(|read| read > 0) && line.ends_with('\n') {
            if let Some(message) = line.trim_end().split("> ").nth(1) {
                drop(said.send((number, message.to_owned())));
            }
            line.clear();
        }
    });
    Worker(child)
}

/// Returns the number and the ledger, in a worker.
fn inside() -> Option<(usize, Jsonl)> {
    let (number, path, options) = told()?;
    Some((number, Jsonl::open(&path, &options).expect("a healthy ledger")))
}

fn told() -> Option<(usize, PathBuf, Options)> {
    let told = std::env::var(INSIDE).ok()?;
    let (number, folder) = told.split_once(':').expect("a number and a folder");
    let folder = Path::new(folder);
    let options = Options { state: Some(folder.join("state")), unsafe_fs: false, boot: BOOT.into(), now: now().wall };
    Some((number.parse().expect("a number"), folder.join("ledger.jsonl"), options))
}

fn say(message: &str) {
    let mut out = std::io::stdout();
    // In one piece, behind a mark: the test harness says things as well.
    out.write_all(format!("\n> {message}\n").as_bytes()).and_then(|()| out.flush()).expect("somebody listens");
}

fn confirmed() -> Fact {
    settled(Verdict::Confirmed, Some(attempt(1, Evidence::Answered)))
}

/// Source: T8 of the ledger's design.
#[test]
fn sixteen_processes_and_three_hundred_keys_have_three_hundred_winners() {
    const KEYS: usize = 300;
    if let Some((number, mut ledger)) = inside() {
        say("ready");
        std::io::stdin().read_line(&mut String::new()).expect("told to go");
        let winners = (0..KEYS).filter(|index| wins(&mut ledger, (index + number * 7) % KEYS)).count();
        return say(&format!("won {winners} {}", ledger.syncs()));
    }
    let house = OnDisk::quick();
    let (send, said) = channel();
    let test = "crowd::sixteen_processes_and_three_hundred_keys_have_three_hundred_winners";
    let mut workers: Vec<Worker> =
        (0..PROCESSES).map(|number| start(test, house.folder.path(), number, &send)).collect();
    drop(send);
    for _ in 0..PROCESSES {
        assert_eq!(said.recv().expect("every worker says so").1, "ready");
    }
    for worker in &mut workers {
        worker.0.stdin.as_mut().expect("piped").write_all(b"go\n").expect("it waits");
    }
    let mut won = 0;
    for _ in 0..PROCESSES {
        let (_, message) = said.recv().expect("every worker says so");
        let numbers: Vec<u64> = message.split(' ').skip(1).map(|number| number.parse().expect("a number")).collect();
        won += numbers[0];
        // Two for each claim, and one for each outcome of others that it tells.
        assert!(numbers[1] <= 2 * numbers[0] + (KEYS as u64 - numbers[0]), "{message}");
    }
    assert_eq!(won, KEYS as u64);
    let verified = verify(&house.path(), &house.options()).expect("readable");
    assert_eq!((verified.findings, verified.operations, verified.claims), (vec![], KEYS, KEYS as u64));
    assert_eq!(house.lines().len(), 1 + 3 * KEYS);
}

fn wins(ledger: &mut Jsonl, index: usize) -> bool {
    let name = format!("k{index}");
    match claim(ledger, &wish(&name, &name)) {
        Claimed::Ours(mut held, history) => {
            assert_eq!(history.facts.len(), 1, "a live owner is never taken over");
            append(&mut held, &[started(1), confirmed()]);
            true
        }
        Claimed::Busy(..) | Claimed::Final(..) => false,
        other => panic!("{other:?}"),
    }
}

/// Source: T4 of the ledger's design. What a worker says is what the world has seen: a request that was sent once its
/// claim was durable, an outcome that was told once it was.
#[test]
fn killed_writers_lose_nothing_and_send_nothing_twice() {
    if let Some((number, mut ledger)) = inside() {
        return work(number, &mut ledger);
    }
    let kills = std::env::var(KILLS.0).map_or(KILLS.1, |kills| kills.parse().expect("a number"));
    let house = OnDisk::quick();
    let began = Instant::now();
    let (send, said) = channel();
    let test = "crowd::killed_writers_lose_nothing_and_send_nothing_twice";
    let begin = |number| start(test, house.folder.path(), number, &send);
    let mut workers: Vec<Worker> = (0..PROCESSES).map(begin).collect();
    let mut seen = Seen::default();
    for kill in 0..kills {
        // Not by the clock: after some more has happened, which differs from kill to kill.
        for _ in 0..3 + kill % 11 {
            seen.take(&said);
        }
        let victim = kill * 5 % PROCESSES;
        // The new one after the old one is gone.
        drop(std::mem::replace(&mut workers[victim], begin(victim)));
    }
    drop(workers);
    drop(send);
    while seen.take(&said) {}
    eprintln!("{kills} kills, {} sent, {} told: {:?}", seen.sent.len(), seen.told.len(), began.elapsed());
    seen.check(&house);
}

fn work(number: usize, ledger: &mut Jsonl) {
    // Ends by a kill: the parent drops every worker.
    for index in 0.. {
        // Two workers share each row of keys, so that they meet.
        let name = format!("r{}-{index}", number / 2);
        // Long bodies, so that kills meet an index that is being written as well.
        ledger.keep_up(Effort::Short);
        if number.is_multiple_of(4) && index % 8 == 7 {
            compact_meanwhile();
        }
        let (mut held, history) = match claim(ledger, &padded(&name, &name)) {
            Claimed::Ours(held, history) => (held, history),
            Claimed::Final(..) | Claimed::Busy(..) => continue,
            other => panic!("{other:?}"),
        };
        match &history.facts.last().expect("facts").fact {
            Fact::Reopened(reopened) if reopened.predecessor != Predecessor::Accounted => {
                append(&mut held, &[settled(Verdict::InDoubt, None)]);
            }
            _ if history.last_attempt() > 0 => append(&mut held, &[settled(Verdict::InDoubt, None)]),
            _ => execute(&mut held, &name),
        }
    }
}

/// Some of the kills meet a compaction.
fn compact_meanwhile() {
    let (_, path, options) = told().expect("a worker");
    match compact(&path, &options, Which::Older(&|_| kept(Duration::ZERO, None)), &|| false) {
        Ok(_) | Err(StoreError::Compacting { .. }) => {}
        // The parent knows no such message.
        Err(error) => say(&format!("a compaction failed: {error}")),
    }
}

fn execute(held: &mut JsonlClaim, name: &str) {
    append(held, &[started(1)]);
    say(&format!("sent {name} {}", held.n()));
    append(held, &[confirmed()]);
    say(&format!("told {name}"));
}

/// What the world has seen.
#[derive(Default)]
struct Seen {
    sent: BTreeMap<String, Vec<u64>>,
    told: BTreeSet<String>,
}

impl Seen {
    /// Takes one message; false where nobody is left to say anything.
    fn take(&mut self, said: &Receiver<(usize, String)>) -> bool {
        let Ok((_, message)) = said.recv() else { return false };
        let words: Vec<&str> = message.split(' ').collect();
        match words[..] {
            ["sent", name, n] => {
                self.sent.entry(name.into()).or_default().push(n.parse().expect("a number"));
            }
            ["told", name] => assert!(self.told.insert(name.into()), "{name} was told twice"),
            _ => panic!("{message}"),
        }
        true
    }

    fn check(&self, house: &OnDisk) {
        let found: BTreeMap<String, Found> =
            house.reader().list().expect("readable").map(|found| (found.key.to_string(), found)).collect();
        for (name, claims) in &self.sent {
            let [n] = claims[..] else { panic!("{name} was sent by {claims:?}") };
            let facts = &found.get(name).unwrap_or_else(|| panic!("{name} was sent and is not there")).history.facts;
            let is_its = |recorded: &&Recorded| recorded.n == n && matches!(recorded.fact, Fact::Started(_));
            // A compaction drops the attempts of what is decided.
            let is_compacted = matches!(found[name].history.opened().body, StoredBody::Hash { .. });
            assert_eq!(facts.iter().filter(is_its).count(), usize::from(!is_compacted), "{name}");
        }
        let reader = house.reader();
        for name in self.sent.keys() {
            assert_eq!(reader.find(&key(name), None).expect("readable"), std::slice::from_ref(&found[name]), "{name}");
        }
        for name in &self.told {
            assert_eq!(found[name].standing, Standing::Settled, "{name}");
            assert!(found[name].history.settled().is_some_and(|end| end.verdict == Verdict::Confirmed), "{name}");
        }
        let findings = verify(&house.path(), &house.options()).expect("readable").findings;
        assert!(findings.iter().all(|finding| finding.kind.remedy() == Remedy::Repair), "{findings:?}");
        assert!(self.told.len() >= 50, "only {} outcomes were told", self.told.len());
        // And it goes on.
        house.confirm("after");
        assert_eq!(verify(&house.path(), &house.options()).expect("readable").findings, []);
    }
}

/// Who asks whether an owner lives after he has ended would take him for dead, and the operation for abandoned.
#[test]
fn what_ends_while_it_is_read_does_not_look_abandoned() {
    let house = OnDisk::new();
    for is_compacted in [false, true] {
        let name = format!("k{is_compacted}");
        let (mut held, _) = ours(claim(&mut house.process(), &wish(&name, &name)));
        append(&mut held, &[started(1)]);
        let readers = [house.reader(), house.reader(), house.reader()];
        append(&mut held, &[settled(Verdict::Confirmed, Some(attempt(1, Evidence::Answered)))]);
        drop(held);
        if is_compacted {
            crate::compact::all(&house).expect("compacts");
        }
        let [one, two, three] = &readers;
        let found = one.find(&key(&name), None).expect("readable");
        let listed: Vec<_> = two.list().expect("readable").collect();
        for found in [&found[0], listed.iter().find(|found| found.key == key(&name)).expect("it is there")] {
            assert_eq!(found.standing, Standing::Settled);
            assert!(is_final(&found.history));
        }
        assert_eq!(three.undecided().expect("readable").count(), 0);
    }
}
