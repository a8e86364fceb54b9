//! How many operations a second are claimed and settled durably.

use super::CLAIMER;
use abide::drive::{Claim, Claimed, Durability, EntryRule, Ledger, Wish};
use abide::engine::facts::{Fact, Opened, Owner, Settled, Started, StoredBody, Why};
use abide::engine::moment::{Moment, Now, Timestamp};
use abide::engine::operation::{Fingerprint, IdempotencyKey, PartnerName};
use abide::engine::verdict::{Cause, Verdict};
use abide::store::jsonl::{Jsonl, Options, this_process};
use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

/// How long each rate is measured.
const WINDOW: Duration = Duration::from_secs(3);
/// How many processes claim at once.
const PROCESSES: usize = 16;
/// As long as the lines of one claim, and of its outcome.
const CLAIM_BYTES: usize = 560;
const OUTCOME_BYTES: usize = 320;

/// Measures one process with more and more tasks, beside appends of as many bytes with as many syncs.
pub fn tasks(folder: &Path, place: &str) {
    for tasks in [1, 32, 256] {
        let path = folder.join(format!("rate-{tasks}.jsonl"));
        let ledger = Jsonl::open(&path, &options(folder)).expect("a new ledger");
        let rate = run(&ledger, tasks, "k", WINDOW);
        let raw = raw(&folder.join("raw"), tasks);
        let target = if tasks == 256 { "30000/s, or 0.50" } else { "" };
        println!(
            "| claim and outcome, {tasks} tasks, {place} | {rate:.0}/s | {raw:.0}/s appended plainly | {:.2} | {target} |",
            rate / raw
        );
    }
}

/// Measures many processes that share a ledger.
pub fn processes(folder: &Path) {
    let path = folder.join("shared.jsonl");
    drop(Jsonl::open(&path, &options(folder)).expect("a new ledger"));
    let mut claimers: Vec<_> = (0..PROCESSES)
        .map(|number| {
            let mut command = Command::new(std::env::current_exe().expect("this program"));
            command.arg(CLAIMER).arg(folder).arg(&path).arg(number.to_string());
            command.stdout(Stdio::piped()).spawn().expect("starts")
        })
        .collect();
    let mut rate = 0.0;
    for claimer in claimers.drain(..) {
        let output = claimer.wait_with_output().expect("ends");
        rate += String::from_utf8_lossy(&output.stdout).trim().parse::<f64>().expect("a rate");
    }
    println!("| claim and outcome, {PROCESSES} processes, disk | {rate:.0}/s | | | |");
}

/// One of those processes: prints its rate.
pub fn claimer(words: &[String]) {
    let [folder, path, number] = words else { panic!("folder, ledger and number: {words:?}") };
    let ledger = Jsonl::open(Path::new(path), &options(Path::new(folder))).expect("a ledger");
    println!("{}", run(&ledger, 1, &format!("p{number}"), WINDOW));
}

fn options(folder: &Path) -> Options {
    Options { state: Some(folder.join("state")), unsafe_fs: false, boot: this_process().boot, now: now().wall }
}

fn now() -> Now {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("after 1970");
    Now { steady: Moment::new(since), wall: Timestamp::from_unix_ms(since.as_millis() as i64) }
}

fn run(ledger: &Jsonl, tasks: usize, prefix: &str, window: Duration) -> f64 {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let began = Instant::now();
    let done: u64 = runtime.block_on(async {
        let running: Vec<_> = (0..tasks)
            .map(|task| tokio::spawn(operate(ledger.clone(), format!("{prefix}-{task}"), began + window)))
            .collect();
        let mut done = 0;
        for task in running {
            done += task.await.expect("no panic");
        }
        done
    });
    done as f64 / began.elapsed().as_secs_f64()
}

async fn operate(mut ledger: Jsonl, prefix: String, until: Instant) -> u64 {
    let mut done = 0;
    while Instant::now() < until {
        let wish = wish(&format!("{prefix}-{done}"));
        let Ok(Claimed::Ours(mut claim, _)) = ledger.claim(&wish, now()).await else { panic!("a new key is ours") };
        let started = Fact::Started(Started { a: 1, addr: None, proxy: None });
        claim.append(now(), &started, Durability::Now).await.expect("room");
        let settled =
            Settled { verdict: Verdict::Rejected, cause: Cause::Answer, retry_at: None, last: None, response: None };
        claim.append(now(), &Fact::Settled(Arc::new(settled)), Durability::Now).await.expect("room");
        done += 1;
    }
    done
}

fn wish(key: &str) -> Wish {
    let body: Arc<[u8]> = format!("{{\"amount\":12900,\"currency\":\"EUR\",\"ref\":\"{key}\"}}").into_bytes().into();
    let now = now().wall;
    let opened = Opened {
        partner: PartnerName::new("bench").expect("a name"),
        profile: None,
        account: None,
        method: "POST".into(),
        url: "http://127.0.0.1:9/v1/pay".into(),
        headers: vec![("Content-Type".into(), "application/json".into())],
        fp: Fingerprint(format!("v1:{key:0>64}").into()),
        body: StoredBody::Text(String::from_utf8_lossy(&body).into()),
        contract: "header:idempotency-key:raw".into(),
        key_until: None,
        valid_until: None,
        tls: None,
        deadline: now.after(Duration::from_secs(150)),
        why: Why::Send,
        owner: Owner::default(),
    };
    let key = IdempotencyKey::new(key, 255).expect("a key");
    Wish { key, opened: Arc::new(opened), body, entry: EntryRule::Keyed }
}

/// Returns how many pairs a second plain appends reach: all claims of a round and a sync, all outcomes and a sync.
fn raw(path: &Path, tasks: usize) -> f64 {
    let mut file = OpenOptions::new().create(true).write(true).truncate(true).open(path).expect("our own folder");
    let (claims, outcomes) = (vec![b'x'; CLAIM_BYTES * tasks], vec![b'x'; OUTCOME_BYTES * tasks]);
    let (began, mut rounds) = (Instant::now(), 0);
    while began.elapsed() < WINDOW {
        for bytes in [&claims, &outcomes] {
            file.write_all(bytes).expect("room");
            file.sync_data().expect("a disk that syncs");
        }
        rounds += 1;
        if rounds % 1_000 == 0 {
            file.set_len(0).expect("our own file");
        }
    }
    let pairs = rounds * tasks;
    pairs as f64 / began.elapsed().as_secs_f64()
}
