//! `abide probe`: one screen, one document, one line; and the exit statuses.

use crate::sandbox::{Host, Sandbox};
use crate::secure::{ISSUER, Identity, Lane};
use abide::rehearse::partner::{Act, Door, Reply, Script, Turn};
use insta::assert_snapshot;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::process::Stdio;

fn answering(reply: Reply) -> Host {
    Host::start(Script::always(Turn::not_done(Act::Answer(reply))))
}

/// Returns the lines of a screen that say the same in every run: the head without its date, verdict and next step.
fn essence(text: &str) -> String {
    let is_kept =
        |line: &&str| ["VERDICT", "  next", "hint", "error", "----- exit"].iter().any(|s| line.starts_with(s));
    text.lines().filter(is_kept).collect::<Vec<_>>().join("\n")
}

#[test]
fn a_healthy_partner_is_usable_and_gets_one_get_without_a_key() {
    let (sandbox, host) = (Sandbox::new(), answering(Reply::json(200, "{}")));
    let (status, text) = sandbox.status(&["probe", &host.url("/health"), "-H", "X-Token: t0ken", "-v"]);
    assert_eq!(status, 0, "{text}");
    assert_snapshot!(essence(&text), @r"
    VERDICT  OK  the partner answers as it should (usable, confidence high)
      next     nothing needs to be done
    ");
    let seen = host.seen();
    assert_eq!((seen.heads, seen.requests[0].method.as_str()), (1, "GET"));
    assert!(!text.contains("t0ken"));
}

#[test]
fn what_cannot_be_worked_with_is_8_in_every_format() {
    let sandbox = Sandbox::new();
    let closed = Host::start(Script::always(Turn::fine()).behind(Door::Closed));
    let url = closed.url("/health");
    let (status, text) = sandbox.status(&["probe", &url]);
    assert_eq!(status, 8);
    assert!(text.contains("VERDICT  THEIRS  nobody listens on that port of the partner"), "{text}");
    let (status, json) = sandbox.status(&["probe", &url, "--format", "json"]);
    assert_eq!(status, 8);
    let line = json.lines().find(|line| line.starts_with('{')).expect("a document");
    let document: serde_json::Value = serde_json::from_str(line).expect("JSON");
    assert_eq!((&document["schema"], &document["verdict"]["code"]), (&"abide.probe/1".into(), &"tcp.refused".into()));
    assert_eq!(document["proxy"], serde_json::Value::Null);
    let (status, line) = sandbox.status(&["probe", &url, "--nagios"]);
    assert_eq!(status, 2);
    assert!(line.contains("ABIDE CRITICAL - theirs: nobody listens on that port"), "{line}");
}

#[test]
fn degraded_is_usable_unless_it_must_be_perfect() {
    let (sandbox, host) = (Sandbox::new(), answering(Reply::json(200, "{}")));
    let (_, port) = host.url("").rsplit_once(':').map(|(a, b)| (a.to_owned(), b.to_owned())).expect("a port");
    let url = format!("http://partner.test:{port}/health");
    let resolve = format!("partner.test:{port}:127.0.0.1,127.0.0.2");
    let probe = |more: &[&str]| sandbox.status(&[&["probe", &url, "--resolve", &resolve][..], more].concat());
    let (status, text) = probe(&[]);
    assert_eq!(status, 0, "{text}");
    assert!(text.contains("the partner works, and some of its addresses do not (degraded"), "{text}");
    assert_eq!(probe(&["--strict"]).0, 8);
    assert_eq!(probe(&["--nagios"]).0, 1);
}

#[test]
fn an_expired_certificate_is_theirs_and_shown_with_its_date() {
    let sandbox = Sandbox::new();
    sandbox.write("ca.pem", &ISSUER.pem());
    let host = Host::secure(Script::always(Turn::fine()), Lane::showing(&Identity::expired()));
    let (status, text) = sandbox.status(&["probe", &host.url("/"), "--cacert", "ca.pem"]);
    assert_eq!(status, 8);
    assert!(text.contains("VERDICT  THEIRS  the partner's certificate has ended"), "{text}");
}

#[test]
fn rounds_are_told_a_line_each_and_the_last_three_decide() {
    let fine = Turn::not_done(Act::Answer(Reply::json(200, "{}")));
    let script = Script::first([Turn::not_done(Act::Rst), fine.clone()], fine);
    let (sandbox, host) = (Sandbox::new(), Host::start(script));
    let url = host.url("/health");
    let rounds = |count: &str| sandbox.run(&["probe", &url, "--count", count, "--every", "1ms"]);
    let text = rounds("2");
    assert!(text.contains("theirs app.reset") && text.contains("\n  because "), "{text}");
    assert!(text.contains("2 rounds: ok ok 1, theirs app.reset 1; first byte p50 "), "{text}");
    assert!(text.ends_with("----- exit 8"), "{text}");
    assert!(rounds("3").ends_with("----- exit 0"));
    assert_eq!(host.seen().heads, 5);
}

#[test]
fn depth_says_how_many_requests_it_makes_before_and_after() {
    let (sandbox, host) = (Sandbox::new(), answering(Reply::json(200, "{}").header("Connection", "close")));
    let text = sandbox.run(&["probe", &host.url("/health"), "--deep", "-v"]);
    assert!(text.contains("--deep: up to 10 GET in place of one"), "{text}");
    assert!(
        text.contains("\n  connection   closed with the answer\n  requests     2 in all; by the way of `send` 200")
    );
    assert!(text.contains("deep the way of `send`: 200 in ") && text.ends_with("exit 0"), "{text}");
    assert_eq!(host.seen().heads, 2);
}

#[test]
fn a_probe_that_fails_is_repeated_and_a_verdict_that_changes_is_said() {
    let fine = Turn::not_done(Act::Answer(Reply::json(200, "{}")));
    let sandbox = Sandbox::new();
    sandbox.write("p.toml", "[retry]\nbase = \"1ms\"\n");
    let probe = |more: &[&str]| {
        let host = Host::start(Script::first([Turn::not_done(Act::Rst)], fine.clone()));
        sandbox.status(&[&["probe", &host.url("/health"), "-p", "p.toml"][..], more].concat())
    };
    assert_eq!(probe(&[]).0, 8);
    let (status, text) = probe(&["--max-attempts", "5"]);
    assert_eq!(status, 0, "{text}");
    assert!(text.contains("VERDICT  THEIRS  the partner works, and an earlier attempt"), "{text}");
    assert!(text.contains("because  attempt 1: theirs app.reset; attempt 2: ok ok;"), "{text}");
    let closed = Host::start(Script::always(Turn::fine()).behind(Door::Closed));
    let text = sandbox.run(&["probe", &closed.url("/"), "-p", "p.toml", "--max-attempts", "2"]);
    assert!(text.contains("attempt 1 of 2: theirs tcp.refused; again in 0.5ms"), "{text}");
    assert_eq!(probe(&["--max-attempts", "5", "--strict"]).0, 8);
    let (_, json) = probe(&["--max-attempts", "5", "--format", "json"]);
    assert!(json.contains(r#""attempts":[{"side":"theirs","code":"app.reset","standing":"unusable"},{"side":"ok","#));
    assert_eq!(probe(&["--max-attempts", "2", "--nagios"]).0, 1);
}

#[test]
fn what_is_no_probe_is_refused_before_anything_is_sent() {
    let (sandbox, host) = (Sandbox::new(), answering(Reply::json(200, "{}")));
    let url = host.url("/health");
    let probe = |more: &[&str]| essence(&sandbox.run(&[&["probe", &url][..], more].concat()));
    let unprobed = [
        probe(&["--count", "0"]),
        probe(&["--every", "3s"]),
        probe(&["--max-attempts", "0"]),
        probe(&["--deadline", "3"]),
        probe(&["--ledger", "missing.jsonl"]),
        essence(&sandbox.run(&["probe", "/health"])),
    ];
    assert_snapshot!(unprobed.join("\n"), @r"
    error: --count 0: not a number of probes, such as 5
    ----- exit 2
    error: --every is for --watch or --count N
    hint: add --watch: it ends with Ctrl-C
    ----- exit 2
    error: --max-attempts 0: not a number from 1 to 100
    hint: --max-attempts 3 probes up to three times; --watch probes until Ctrl-C
    ----- exit 2
    error: --deadline 3: 3 has no unit: write 3ms or 3s
    ----- exit 2
    error: no ledger at [DIR]/missing.jsonl
    hint: `abide send` makes the ledger; check the path
    ----- exit 2
    error: `/health` is a path, and there is no profile
    hint: give the whole URL, or a profile with base_url
    ----- exit 2
    ");
    let (status, text) = sandbox.status(&["probe", "/health", "--nagios"]);
    assert_eq!(status, 3);
    assert!(text.contains("ABIDE UNKNOWN - "), "{text}");
    assert_eq!(sandbox.status(&["probe", "--nagios", "--help"]).0, 3);
    let (status, text) = sandbox.status(&["probe", "--nagios", "--frobnicate"]);
    assert!(status == 3 && text.starts_with("ABIDE UNKNOWN - "), "{text}");
    let bogus = sandbox.abide(&["probe", "/health", "--nagios"]).env("ABIDE_FORMAT", "bogus").output().expect("runs");
    let said = sandbox.shown(&bogus);
    assert!(said.starts_with("ABIDE UNKNOWN - ") && said.ends_with("exit 3"), "{said}");
    assert_eq!(host.seen().heads, 0);
}

#[test]
fn a_secret_that_the_partner_sends_back_is_nowhere_whole_or_in_parts() {
    let secret = format!("s3cret-{}", "0123456789abcdef".repeat(6));
    let echoed = Reply::status(502).header("Proxy-Status", &format!("{secret}; details=\"{secret}\""));
    let (sandbox, host) = (Sandbox::new(), answering(echoed.header("Server", &secret)));
    let header = format!("X-Api-Key: {secret}");
    for more in [&["-v"][..], &["--format", "json"], &["--nagios"], &["--count", "1"]] {
        let text = sandbox.run(&[&["probe", &host.url("/health"), "-H", &header][..], more].concat());
        assert!(text.to_lowercase().contains("theirs"), "{text}");
        assert!(!text.contains("s3cret-0123"), "{more:?}: {text}");
    }
}

#[test]
fn credentials_of_others_in_an_answer_are_not_shown() {
    let reply = Reply::status(302)
        .header("Location", "https://u:pw-of-others@other.example/x?token=of-others")
        .header("X-Auth-Token", "of-others");
    let (sandbox, host) = (Sandbox::new(), answering(reply));
    let text = sandbox.run(&["probe", &host.url("/health"), "-v"]);
    assert!(text.contains("location: https://other.example/x?***"), "{text}");
    assert!(!text.contains("of-others"), "{text}");
}

#[test]
fn a_secret_that_is_a_word_of_json_leaves_the_document_whole() {
    let (sandbox, host) = (Sandbox::new(), answering(Reply::json(200, "{}")));
    let header = ["-H", "X-Api-Key: null", "--format", "json"];
    let (_, json) = sandbox.status(&[&["probe", &host.url("/health")][..], &header].concat());
    let line = json.lines().find(|line| line.starts_with('{')).expect("a document");
    let document: serde_json::Value = serde_json::from_str(line).expect("JSON");
    assert_eq!(document["proxy"], serde_json::Value::Null);
}

#[test]
fn a_damaged_ledger_that_nobody_named_does_not_stop_a_diagnosis() {
    let (sandbox, host) = (Sandbox::new(), answering(Reply::json(200, "{}")));
    std::fs::create_dir_all(sandbox.path().join(".local/state/abide")).expect("a folder");
    sandbox.write(".local/state/abide/ledger.jsonl", "garbage\n");
    let text = sandbox.run(&["probe", &host.url("/health")]);
    assert!(text.contains("nothing is known of the past") && text.ends_with("exit 0"), "{text}");
}

#[test]
fn a_watch_ends_when_nobody_reads_it_and_a_probe_when_a_signal_comes() {
    let (sandbox, host) = (Sandbox::new(), answering(Reply::json(200, "{}")));
    let mut watch = sandbox.abide(&["probe", &host.url("/health"), "--watch", "--every", "1ms", "-q"]);
    let mut watch = watch.stdout(Stdio::piped()).spawn().expect("starts");
    let mut first = String::new();
    BufReader::new(watch.stdout.take().expect("piped")).read_line(&mut first).expect("a line");
    assert!(first.contains("usable"), "{first}");
    assert!(watch.wait().expect("ends").success(), "a closed stdout ends quietly");
    let hanging = Host::start(Script::always(Turn::not_done(Act::Hang)));
    let mut probe = sandbox.abide(&["probe", &hanging.url("/health"), "--max-attempts", "9", "--format", "json"]);
    let probe = probe.stderr(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("starts");
    let pid = Pid::from_raw(i32::try_from(probe.id()).expect("a number of the kernel's"));
    // Before its handlers stand, the signal ends it as the system does; after that, as it says.
    kill(pid, Signal::SIGTERM).expect("it runs");
    let ended = probe.wait_with_output().expect("ends");
    let status = ended.status;
    assert!(status.code() == Some(143) || status.signal() == Some(15), "{status:?}");
    assert!(ended.stdout.is_empty(), "a probe that was ended found nothing");
}
