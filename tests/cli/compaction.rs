//! A ledger that is long and mostly of no use: who makes it shorter, and what stands in the way.

use crate::sandbox::{Host, Sandbox};
use abide::rehearse::partner::Fault;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::io::{BufRead, BufReader};
use std::process::Stdio;

/// When everything that was sent is older than 30 days.
const LATE: &str = "2027-01-30T10:00:00Z";

struct Long {
    sandbox: Sandbox,
    host: Host,
}

impl Long {
    /// A ledger of more than 64 MiB: one operation again and again, under other keys.
    fn new() -> Long {
        Long::by("version = 1\n")
    }

    /// The same, sent by the rules of a profile.
    fn by(profile: &str) -> Long {
        let long = Long { sandbox: Sandbox::new(), host: Host::start(Fault::Fine.script()) };
        long.sandbox.write("p.toml", profile);
        long.sandbox.write("order.json", &format!("{{\"text\":\"{}\"}}", "x".repeat(15_000)));
        assert!(long.send("k1").ends_with("exit 0"));
        let text = long.sandbox.read("l.jsonl");
        let (header, story) = text.split_once('\n').expect("a header");
        let mut all = format!("{header}\n");
        for n in 1..=4_500 {
            for line in story.lines() {
                let (line, _) = line.rsplit_once(",\"d\":").expect("a line");
                let line = line.split_once(",\"o\":").map_or(line, |(line, _)| line);
                let body = line.replacen("\"n\":1,\"k\":\"k1\"", &format!("\"n\":{n},\"k\":\"k{n}\""), 1) + ",\"d\":0";
                all += &format!("{body},\"crc\":\"{:08x}\"}}\n", crc32fast::hash(body.as_bytes()));
            }
        }
        long.sandbox.write("l.jsonl", &all);
        // Whoever writes to it next makes an index.
        assert!(long.send("last").ends_with("exit 0"));
        assert!(long.len() > 64 << 20);
        long
    }

    fn send(&self, key: &str) -> String {
        let args = ["send", &self.host.url("/orders"), "-p", "./p.toml", "--json", "@order.json", "--key", key];
        self.late(&args)
    }

    fn late(&self, args: &[&str]) -> String {
        let args = [args, &["--ledger", "l.jsonl"]].concat();
        let now = if args.contains(&"k1") { crate::sandbox::NOW } else { LATE };
        self.sandbox.shown(&self.sandbox.abide(&args).env("ABIDE_TEST_NOW", now).output().expect("the binary runs"))
    }

    fn len(&self) -> u64 {
        std::fs::metadata(self.sandbox.path().join("l.jsonl")).expect("a file").len()
    }
}

#[test]
fn a_replay_makes_a_long_ledger_shorter_when_it_is_done() {
    let long = Long::new();
    let len = long.len();
    // A send has no time for it, and nor has who must be done by some time.
    let sent = long.late(&["send", &long.host.url("/orders"), "--json", "{}", "--key", "new", "-v"]);
    assert!(sent.contains("`abide ledger compact` would free about 6") && sent.ends_with("exit 0"), "{sent}");
    assert!(!long.late(&["replay", "-v", "--total-deadline", "1m"]).contains("compacting"));
    assert!(long.len() > len);
    // What goes wrong is a warning.
    let link = long.sandbox.path().join("link");
    std::fs::hard_link(long.sandbox.path().join("l.jsonl"), &link).expect("a link");
    let linked = long.late(&["replay", "-v"]);
    let words = "warning: the ledger could not be made shorter: [DIR]/l.jsonl has other hard links";
    assert!(linked.contains(words) && linked.ends_with("exit 0"), "{linked}");
    assert!(!linked.contains("compacting"), "the ledger is read for nothing: {linked}");
    std::fs::remove_file(link).expect("removes");
    assert!(long.len() > len);

    let replayed = long.late(&["replay", "-v"]);
    assert!(replayed.contains("compacting the ledger: about 6") && replayed.ends_with("exit 0"), "{replayed}");
    assert!(long.len() < len / 10, "{}", long.len());
    assert!(!long.late(&["replay", "-v"]).contains("compacting"), "once is enough");
    let verified = long.late(&["ledger", "verify"]);
    assert!(verified.ends_with("exit 0"), "{verified}");
    let known = long.late(&["status", "k4000"]);
    assert!(known.contains("confirmed") && known.ends_with("exit 0"), "{known}");
}

#[test]
fn a_signal_ends_it_and_the_ledger_is_as_it_was_or_shorter() {
    let long = Long::new();
    let (path, len) = (long.sandbox.path().join("l.jsonl"), long.len());
    let mut replay = long
        .sandbox
        .abide(&["replay", "-v", "--ledger", "l.jsonl"])
        .env("ABIDE_TEST_NOW", LATE)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("starts");
    let mut said = BufReader::new(replay.stderr.take().expect("piped")).lines().map(|line| line.expect("text"));
    assert!(said.any(|line| line.starts_with("compacting the ledger")));
    kill(Pid::from_raw(replay.id().try_into().expect("a pid")), Signal::SIGINT).expect("ours");
    let stopped = said.any(|line| line.ends_with("is not compacted: a signal came; it is as it was"));
    let status = replay.wait().expect("it ends").code();
    assert!(status == Some(130) || (status == Some(0) && !stopped), "{status:?}");
    assert_eq!(long.len() == len, stopped);
    assert!(!path.with_extension("jsonl.new").exists());
    assert!(long.late(&["ledger", "verify"]).ends_with("exit 0"));
}

#[test]
fn a_compaction_that_a_signal_stops_says_so_and_leaves_no_draft() {
    let long = Long::new();
    let (draft, len) = (long.sandbox.path().join("l.jsonl.new"), long.len());
    let args = ["ledger", "compact", "--ledger", "l.jsonl"];
    let compact = long
        .sandbox
        .abide(&args)
        .env("ABIDE_TEST_NOW", LATE)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("starts");
    while !draft.exists() && long.len() == len {
        std::thread::yield_now();
    }
    kill(Pid::from_raw(compact.id().try_into().expect("a pid")), Signal::SIGINT).expect("ours");
    let ended = compact.wait_with_output().expect("it ends");
    let said = String::from_utf8_lossy(&ended.stderr);
    match ended.status.code() {
        Some(130) => assert!(said.contains("is not compacted: a signal came; it is as it was") && long.len() == len),
        // It was quicker.
        code => assert!(code == Some(0) && long.len() < len, "{code:?} {said}"),
    }
    assert!(!draft.exists());
}

/// A clock that is far ahead would make all keys look old, and what is forgotten does not come back.
#[test]
fn a_replay_forgets_no_key_by_itself() {
    let long = Long::by("version = 1\n[ledger]\nkeep_full = '1d'\nforget_after = '2d'\n");
    let replayed = long.late(&["replay", "-v"]);
    assert!(replayed.contains("compacting the ledger") && replayed.ends_with("exit 0"), "{replayed}");
    assert!(long.late(&["status", "k4000"]).ends_with("exit 0"));
    assert!(long.late(&["ledger", "compact"]).ends_with("exit 0"));
    assert!(long.late(&["status", "k4000"]).ends_with("exit 2"), "who asks for it gets it");
}
