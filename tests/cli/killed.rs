//! Processes that die, and what the next one makes of it.

use crate::replay::Shop;
use crate::sandbox::{Host, NOW, Sandbox};
use abide::drive::{Claimed, EntryRule, Ledger, Wish};
use abide::engine::facts::{Owner, Why};
use abide::engine::moment::{Moment, Now};
use abide::profile::compose::{Composed, Draft, KeySource, TimeoutFlags, compose};
use abide::rehearse::partner::{Act, Execution, Fault, Reply, Script, StatusEndpoint, Turn};
use abide::store::jsonl::{Jsonl, Options, this_process};
use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Long enough for a loaded machine, short enough to fail in time.
const PATIENCE: Duration = Duration::from_secs(20);

/// Returns an order to `url` that `owner` is to send.
fn order(url: &str, owner: Owner) -> Composed {
    let draft = Draft {
        method: None,
        target: url.into(),
        headers: vec![],
        user: None,
        body: Some(b"{}".as_slice().into()),
        json: true,
        key: KeySource::Given("k1".into()),
        key_header: None,
        account: None,
        deadline: None,
        valid_until: None,
        max_attempts: None,
        timeouts: TimeoutFlags::default(),
        now: NOW.parse().expect("a time"),
        why: Why::Send,
        owner,
    };
    compose(None, &draft).expect("composes")
}

/// Leaves a claim behind whose owner died before it started anything.
fn abandoned(sandbox: &Sandbox, url: &str, owner: Owner) {
    let now = Now { steady: Moment::START, wall: NOW.parse().expect("a time") };
    let state = Some(sandbox.path().join(".local/state/abide"));
    let options = Options { state, unsafe_fs: true, boot: this_process().boot, now: now.wall };
    let mut ledger = Jsonl::open(&sandbox.path().join("l.jsonl"), &options).expect("opens");
    let Composed { operation, opened, .. } = order(url, owner);
    let body = Arc::clone(&operation.request.body);
    let wish = Wish { key: operation.key, opened, body, entry: EntryRule::Keyed };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let claimed = runtime.block_on(ledger.claim(&wish, now)).expect("claims");
    assert!(matches!(claimed, Claimed::Ours(..)));
    // The kernel lets go of its locks here, as it does for a process that is killed.
}

#[test]
fn an_owner_is_dead_by_its_lock_and_not_by_its_pid() {
    // (the boot of the owner, whether the lines that it wrote can all be read)
    let cases = [(this_process().boot, true), ("another boot".into(), false)];
    for (boot, is_complete) in cases {
        let sandbox = Sandbox::new();
        let host = Host::start(Fault::Fine.script());
        let url = host.url("/orders");
        // Process 1 lives always: the number is taken again.
        abandoned(&sandbox, &url, Owner { boot, pid: 1, ..this_process() });
        let send = ["send", "POST", &url, "--json", "{}", "--ledger", "l.jsonl", "--key", "k1"];
        let (code, _) = sandbox.status(&["status", "k1", "--ledger", "l.jsonl"]);
        let (sent, _) = sandbox.status(&send);
        // Before anything was started, it is sent once; where lines may be gone, it is in doubt.
        assert_eq!((code, sent), if is_complete { (3, 0) } else { (4, 4) }, "complete: {is_complete}");
        assert_eq!(host.seen().executions, u32::from(is_complete));
    }
}

#[test]
fn what_was_claimed_and_never_started_is_replayed_only_by_its_key() {
    let sandbox = Sandbox::new();
    let host = Host::start(Fault::Fine.script());
    abandoned(&sandbox, &host.url("/orders"), this_process());
    let replay = |more: &[&str]| sandbox.status(&[&["replay", "--ledger", "l.jsonl"], more].concat());
    assert_eq!(replay(&[]), (0, "0 operations due\n".into()));
    assert_eq!(replay(&["--only", "pending", "--dry-run"]).0, 0);
    assert_eq!(replay(&["k1"]).0, 0);
    assert_eq!(host.seen().executions, 1);
}

/// How a partner lets doubt be removed.
#[derive(Clone, Copy, Debug)]
enum Help {
    Key,
    Status,
}

fn rules(help: Help) -> String {
    let common = "[timeouts]\nread = \"5s\"\n[retry]\nmax_attempts = 4\nbase = \"10ms\"\ncap = \"50ms\"\n\
                  [classify]\nrefused = [503]\n";
    let help = match help {
        Help::Key => "[idempotency]\nsupported = true\nretention = \"24h\"\n",
        Help::Status => {
            "[status]\nurl = \"/status/{key}\"\nsettle = \"400ms\"\n\
             confirmed = { pointer = \"/state\", equals = [\"done\"] }\n\
             absent = { status = 404, pointer = \"/error/code\", equals = [\"not_found\"] }\n"
        }
    };
    format!("{common}{help}")
}

/// Kills replays of sixteen workers, then lets one end; the partner executes late.
fn killed_replays(help: Help) {
    let (times, orders) = size();
    let refusal = Turn::not_done(Act::Answer(Reply::status(503)));
    let answer = Act::Answer(Reply::json(201, "{\"state\":\"done\"}").after(Duration::from_millis(90)));
    let late = Turn { execution: Execution::After(Duration::from_millis(60)), act: answer };
    let script = Script::first(vec![refusal; orders], late);
    let script = match help {
        Help::Key => script.honouring_keys(),
        Help::Status => script.with_status(StatusEndpoint::Works { lag: Duration::ZERO }),
    };
    let shop = Shop::new(script, &rules(help));
    for at in 0..orders {
        assert_eq!(shop.send(&format!("k{at}"), &[]), 3);
    }
    let args = ["replay", "--ledger", "l.jsonl", "--jobs", "16", "--events", "events.jsonl", "-q"];
    let events = || std::fs::read_to_string(shop.sandbox.path().join("events.jsonl")).unwrap_or_default();
    for round in 0..times {
        shop.sandbox.write("events.jsonl", "");
        let mut child = shop.sandbox.abide(&args).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("runs");
        let began = Instant::now();
        // Killed at other places each time: after the first, second, … event of some attempt or question.
        while began.elapsed() < PATIENCE && events().lines().count() <= 3 * round {
            if child.try_wait().expect("waits").is_some() {
                break;
            }
            std::thread::yield_now();
        }
        child.kill().expect("can be killed, or has ended");
        child.wait().expect("ends");
    }
    let (code, said) = shop.sandbox.status(&["replay", "--ledger", "l.jsonl", "--jobs", "16"]);
    let list = shop.sandbox.status(&["ledger", "list", "--ledger", "l.jsonl"]).1;
    assert_eq!(code, 0, "{help:?}: {said}\n{list}");
    assert!(list.contains(&format!("{orders} operations: {orders} confirmed")), "{help:?}: {list}");
    let (code, verified) = shop.sandbox.status(&["ledger", "verify", "--ledger", "l.jsonl"]);
    assert_eq!(code, 0, "{verified}");
    assert_eq!(shop.host.seen().executions as usize, orders, "{help:?}");
}

/// How many replays are killed, and how many operations there are.
fn size() -> (usize, usize) {
    std::env::var("ABIDE_LONG").map_or((5, 24), |_| (20, 120))
}

#[test]
fn killed_replays_execute_every_keyed_operation_exactly_once() {
    killed_replays(Help::Key);
}

#[test]
fn killed_replays_execute_every_operation_that_can_be_asked_about_exactly_once() {
    killed_replays(Help::Status);
}

#[test]
fn a_signal_ends_a_replay_at_once_and_loses_nothing() {
    use nix::sys::signal::{Signal, kill};
    use std::io::{BufRead, BufReader, Read};
    let refusal = Turn::not_done(Act::Answer(Reply::status(503)));
    let wait = Turn::not_done(Act::Answer(Reply::status(503).header("Retry-After", "60")));
    let shop = Shop::new(
        Script::first([vec![refusal; 3], vec![Turn::fine(), wait]].concat(), Turn::fine()),
        "[retry]\nmax_attempts = 3\n[timeouts]\noverall = \"5m\"\n[classify]\nrefused = [503]\n",
    );
    for key in ["k1", "k2", "k3"] {
        assert_eq!(shop.send(key, &[]), 3);
    }
    let args = ["replay", "--ledger", "l.jsonl", "-v", "--format", "json"];
    let mut child = shop.sandbox.abide(&args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("runs");
    let mut stderr = BufReader::new(child.stderr.take().expect("piped"));
    let mut said = String::new();
    while !said.contains("k2: waiting") {
        assert!(stderr.read_line(&mut said).expect("reads") > 0, "it ended: {said}");
    }
    let signalled = Instant::now();
    kill(nix::unistd::Pid::from_raw(child.id().cast_signed()), Signal::SIGINT).expect("it runs");
    stderr.read_to_string(&mut said).expect("reads");
    let output = child.wait_with_output().expect("ends");
    assert!(signalled.elapsed() < Duration::from_secs(10), "{:?}", signalled.elapsed());
    assert_eq!(output.status.code(), Some(130), "{said}");
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).expect("one document");
    assert_eq!((&document["signal"], &document["run"]), (&"SIGINT".into(), &2.into()), "{document}");
    assert_eq!([shop.state("k1"), shop.state("k2"), shop.state("k3")], [0, 3, 3]);
    let later = shop.replay(&["--deadline", "5s"]);
    assert!(later.contains("k2: not done; not sent: not due before"), "{later}");
    let keys: Vec<_> = shop.host.seen().requests[3..].iter().map(|request| request.key().map(str::to_owned)).collect();
    assert_eq!(keys, [Some("k1".to_owned()), Some("k2".to_owned()), Some("k3".to_owned())]);
}
