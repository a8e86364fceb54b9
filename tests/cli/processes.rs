//! Several processes, signals, and processes that die.

use crate::sandbox::{Host, Sandbox, filters};
use abide::rehearse::partner::{Act, Fault, Script, Turn};
use insta::assert_snapshot;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

/// Long enough for a loaded machine, short enough to fail in time.
const PATIENCE: Duration = Duration::from_secs(20);

fn pid(child: &Child) -> Pid {
    Pid::from_raw(i32::try_from(child.id()).expect("a process id"))
}

/// Starts a send whose partner takes the request and never answers, and waits until the attempt is recorded.
fn in_flight(sandbox: &Sandbox, host: &Host, more: &[&str]) -> Child {
    let url = host.url("/orders");
    let args = ["send", "POST", &url, "--json", "{}", "--ledger", "l.jsonl", "--key", "k1", "--events", "events.jsonl"];
    let mut command = sandbox.abide(&[&args[..], more].concat());
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the binary runs");
    let started = Instant::now();
    while started.elapsed() < PATIENCE {
        let events = std::fs::read_to_string(sandbox.path().join("events.jsonl")).unwrap_or_default();
        if events.contains("\"started\"") {
            return child;
        }
        std::thread::yield_now();
    }
    child.kill().expect("it runs");
    panic!("the attempt did not start: {:?}", child.wait_with_output());
}

#[test]
fn the_first_signal_lets_the_attempt_in_flight_end_and_the_ledger_knows_it() {
    for (signal, code) in [(Signal::SIGINT, 130), (Signal::SIGTERM, 143)] {
        let sandbox = Sandbox::new();
        let host = Host::start(Fault::ExecutedThenSilent.script());
        let mut child = in_flight(&sandbox, &host, &["--read-timeout", "2s"]);
        kill(pid(&child), signal).expect("it runs");
        let mut stderr = BufReader::new(child.stderr.take().expect("piped"));
        let mut said = String::new();
        while !said.contains("left; a second signal stops at once") {
            assert!(stderr.read_line(&mut said).expect("reads") > 0, "it ended without a word: {said}");
        }
        stderr.read_to_string(&mut said).expect("reads");
        assert_eq!(child.wait().expect("ends").code(), Some(code), "{said}");
        assert!(said.contains("k1: in doubt: it may have been executed"), "{said}");
        assert!(said.contains("a signal ended the run"), "{said}");
        assert_eq!(sandbox.status(&["status", "k1", "--ledger", "l.jsonl"]).0, 4);
        assert_eq!(host.seen().executions, 1);
    }
}

#[test]
fn a_signal_ends_a_wait_at_once_and_nothing_new_is_sent() {
    let sandbox = Sandbox::new();
    let host = Host::start(Fault::Refused.script());
    sandbox.write("p.toml", "[retry]\nbase = \"60s\"\n");
    let url = host.url("/orders");
    let args = ["send", "POST", &url, "--json", "{}", "--ledger", "l.jsonl", "--key", "k1", "-p", "p.toml"];
    let mut child = sandbox.abide(&args).stderr(Stdio::piped()).spawn().expect("the binary runs");
    let mut stderr = BufReader::new(child.stderr.take().expect("piped"));
    let mut said = String::new();
    while !said.contains("waiting") {
        assert!(stderr.read_line(&mut said).expect("reads") > 0, "it ended: {said}");
    }
    let signalled = Instant::now();
    kill(pid(&child), Signal::SIGINT).expect("it runs");
    assert_eq!(child.wait().expect("ends").code(), Some(130));
    assert!(signalled.elapsed() < Duration::from_secs(10), "{:?}", signalled.elapsed());
    assert_eq!(sandbox.status(&["status", "k1", "--ledger", "l.jsonl"]).0, 3);
}

#[test]
fn a_second_signal_ends_at_once_and_the_attempt_reads_as_in_doubt() {
    let sandbox = Sandbox::new();
    let host = Host::start(Fault::ExecutedThenSilent.script());
    let mut child = in_flight(&sandbox, &host, &["--read-timeout", "60s", "--attempt-timeout", "60s"]);
    kill(pid(&child), Signal::SIGINT).expect("it runs");
    let mut stderr = BufReader::new(child.stderr.take().expect("piped"));
    let mut said = String::new();
    while !said.contains("a second signal") {
        assert!(stderr.read_line(&mut said).expect("reads") > 0, "it ended: {said}");
    }
    kill(pid(&child), Signal::SIGINT).expect("it runs");
    assert_eq!(child.wait().expect("ends").code(), Some(130));
    let (code, status) = sandbox.status(&["status", "k1", "--ledger", "l.jsonl"]);
    assert_eq!(code, 4, "{status}");
    assert!(status.contains("ended without recording how it went"), "{status}");
}

#[test]
fn a_killed_send_is_running_while_it_lives_and_in_doubt_afterwards() {
    let sandbox = Sandbox::new();
    let host = Host::start(Fault::ExecutedThenSilent.script());
    let mut child = in_flight(&sandbox, &host, &[]);
    let living = sandbox.run(&["status", "k1", "--ledger", "l.jsonl"]);
    let url = host.url("/orders");
    let busy = sandbox.run(&["send", "POST", &url, "--json", "{}", "--ledger", "l.jsonl", "--key", "k1", "--no-wait"]);
    child.kill().expect("it runs");
    child.wait().expect("ends");
    let dead = sandbox.run(&["status", "k1", "--ledger", "l.jsonl"]);
    let again = sandbox.run(&["send", "POST", &url, "--json", "{}", "--ledger", "l.jsonl", "--key", "k1"]);
    insta::with_settings!({filters => filters()}, {
        assert_snapshot!("killed", format!("{living}\n\n{busy}\n\n{dead}\n\n{again}"));
    });
    assert_eq!(host.seen().executions, 1);
}

#[test]
fn two_processes_with_one_key_execute_once_and_both_print_the_answer() {
    let sandbox = Sandbox::new();
    let slow = abide::rehearse::partner::Reply::json(201, "{\"state\":\"done\"}").after(Duration::from_millis(300));
    let host = Host::start(Script::always(Turn::done(Act::Answer(slow))));
    let url = host.url("/orders");
    let args = ["send", "POST", &url, "--json", "{}", "--ledger", "l.jsonl", "--key", "same"];
    let spawn = || sandbox.abide(&args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("runs");
    let children: Vec<Child> = (0..4).map(|_| spawn()).collect();
    for child in children {
        let output = child.wait_with_output().expect("ends");
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(output.stdout, b"{\"state\":\"done\"}");
    }
    assert_eq!(host.seen().executions, 1);
}

#[test]
fn a_closed_stdout_ends_quietly() {
    let sandbox = Sandbox::new();
    let host = Host::start(Fault::Fine.script());
    let url = host.url("/orders");
    let args = ["send", "POST", &url, "--json", "{}", "--ledger", "l.jsonl", "--key", "k1", "-q"];
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let output = sandbox.abide(&args).stdout(writer).output().expect("runs");
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}
