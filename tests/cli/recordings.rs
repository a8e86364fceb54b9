//! `abide calibrate` with files: what was measured is kept, read again, and told apart from what is none.

use crate::sandbox::{Host, Sandbox};
use abide::rehearse::partner::{Act, Reply, Script, Turn};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use std::io::{BufRead, BufReader, Read};
use std::process::Stdio;
use std::time::Duration;

/// Returns what a run says as JSON, and its status.
fn measured(sandbox: &Sandbox, args: &[&str]) -> (i32, Value) {
    let (code, text) = sandbox.status(&[&["calibrate", "--format", "json", "-q"], args].concat());
    (code, serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}")))
}

#[test]
fn what_was_measured_is_kept_and_says_the_same_when_it_is_read_again() {
    let turns: Vec<Turn> = (0..30).map(|_| Turn::not_done(Act::Answer(Reply::json(200, "{}")))).collect();
    let (sandbox, host) = (Sandbox::new(), Host::start(Script::first(turns, Turn::not_done(Act::Hang))));
    let url = host.url("/ping");
    let args = ["calibrate", &url, "--closed", "--samples", "31", "--timeout", "200ms", "--percentile", "50"];
    let said = sandbox.run(&[&args[..], &["--hlog", "a.hlog"]].concat());
    assert!(said.contains("a.hlog, a.hgrm: written") && said.contains("a.hgrm: it has no room for"), "{said}");
    let (code, again) = measured(&sandbox, &["--samples-file", "hlog:a.hlog", "--percentile", "50"]);
    assert_eq!((code, &again["counts"]["answered"], &again["counts"]["given_up"]), (0, &30.into(), &1.into()));
    assert_eq!((&again["plan"]["source"], &again["evidence"]["minutes"]), (&"hlog".into(), &1.into()));
    assert_eq!(again["stages"]["connect"]["samples"], 31);
    assert!(sandbox.read("a.hgrm").contains("Total count    =           30]"));
    let said = sandbox.run(&[&args[..], &["--hlog", "a.hlog"]].concat());
    assert!(said.contains("a.hlog: it is there already") && said.ends_with("exit 2"), "{said}");
    assert_eq!(host.seen().whole, 31, "nothing was sent for a file that is not overwritten");
}

#[test]
fn lines_of_curl_are_measured_with_their_time_outs() {
    let sandbox = Sandbox::new();
    let line = |exit: u32, status: u16, first: f64, total: f64| {
        let times = format!(
            "\"time_connect\":0.01,\"time_appconnect\":0,\"time_pretransfer\":0.01,\"time_starttransfer\":{first}"
        );
        format!(
            "{{\"exitcode\":{exit},\"response_code\":{status},\"scheme\":\"HTTP\",\"num_connects\":1,{times},\"time_total\":{total}}}\n"
        )
    };
    let text = [line(0, 200, 0.11, 0.2).repeat(97), line(28, 0, 0.0, 5.0).repeat(3)].concat();
    sandbox.write("c.txt", &text);
    let (code, found) = measured(&sandbox, &["--samples-file", "curl:c.txt"]);
    assert_eq!((code, &found["counts"]["answered"], &found["counts"]["given_up"]), (8, &97.into(), &3.into()));
    let p99 = &found["stages"]["read"]["percentiles"][2];
    assert_eq!((&p99["value_ms"], &p99["at_least_ms"]), (&Value::Null, &4990.0.into()), "time-outs count");
    assert_eq!(found["stages"]["connect"]["samples"], 100);
    let (code, _) = measured(&sandbox, &["--samples-file", "curl:c.txt", "--percentile", "95"]);
    assert_eq!(code, 0);
    sandbox.write("none.txt", &line(28, 0, 0.0, 5.0).repeat(30));
    let (code, found) = measured(&sandbox, &["--samples-file", "curl:none.txt"]);
    assert_eq!((code, &found["counts"]["given_up"], &found["suggestion"]), (8, &30.into(), &Value::Null));
}

#[test]
fn a_file_that_is_not_what_it_is_said_to_be_is_refused_with_what_it_may_be() {
    let sandbox = Sandbox::new();
    sandbox.write("c.txt", "{\"time_total\":1}\n");
    sandbox.write("log.txt", "#[Histogram log format version 1.3]\n1.0,2.0,3.0,AAAA\n");
    sandbox.write("text.txt", "12ms\n");
    sandbox.write("empty", "");
    for (args, expected) in [
        (&["c.txt", "--unit", "ms"][..], "hint: is it --samples-file curl:c.txt?"),
        (&["log.txt", "--unit", "ms"], "hint: is it --samples-file hlog:log.txt?"),
        (&["run.hlog"], "hint: is it --samples-file hlog:run.hlog?"),
        (&["text.txt", "--unit", "ms"], "line 1: `12ms` is a number with a unit"),
        (&["curl:c.txt"], "line 1: `{\"time_total\":1}` is nothing that curl -w '%{json}' writes"),
        (&["curl:c.txt", "--unit", "s"], "--unit: curl writes seconds"),
        (&["curl:empty"], "there are no samples in it"),
        (&["hlog:empty"], "there are no samples in it"),
        (&["hlog:text.txt"], "no line of it can be read; line 1: no line of an interval log"),
        (&["hlog:log.txt", "--unit", "s"], "the units are ns, us and ms"),
        (&["hlog:log.txt"], "line 2: a damaged histogram"),
        (&["hlog:none"], "--samples-file hlog:none: no such file"),
        (&["hlog:"], "the file's name is missing"),
    ] {
        let said = sandbox.run(&[&["calibrate", "--samples-file"], args].concat());
        assert!(said.contains(expected) && said.ends_with("exit 2"), "{args:?}: {said}");
    }
}

#[test]
fn a_ledger_is_kept_as_a_recording_and_a_copy_is_not() {
    let (sandbox, host) = (Sandbox::new(), Host::start(Script::always(Turn::fine())));
    let url = host.url("/orders");
    let send = ["send", "POST", &url, "--json", "{}", "--key", "k-1", "--ledger", "l.jsonl"];
    assert_eq!(sandbox.status(&send).0, 0);
    let (code, _) = measured(&sandbox, &["POST", &url, "--from-ledger", "--ledger", "l.jsonl", "--hlog", "l.hlog"]);
    assert_eq!(code, 8);
    let (_, found) = measured(&sandbox, &["--samples-file", "hlog:l.hlog"]);
    assert_eq!(found["counts"]["answered"], 1);
    let said = sandbox.run(&["calibrate", "--samples-file", "hlog:l.hlog", "--hlog", "m.hlog"]);
    assert!(said.contains("cannot be used with") && said.ends_with("exit 2"), "{said}");
}

/// A profile whose endpoint was measured before: one answer in a hundred took longer than `p99`.
fn profile(base: &str, p95: &str, p99: &str) -> String {
    format!(
        "version = 1\nbase_url = '{base}'\n[retry]\nmax_attempts = 1\n[[endpoint]]\nmethod = 'GET'\npath = '/ping'\n\
         [endpoint.measured]\nat = '2026-11-29T10:00:00.000Z'\nsamples = 300\np50 = '1ms'\np95 = '{p95}'\np99 = '{p99}'\n"
    )
}

#[test]
fn a_partner_that_has_become_slower_is_drift_and_a_file_says_the_same() {
    let sandbox = Sandbox::new();
    sandbox.write("p.toml", &profile("http://127.0.0.1:9", "250ms", "260ms"));
    sandbox.write("same.txt", &[&"200\n".repeat(290)[..], &"260\n".repeat(10)].concat());
    sandbox.write("slow.txt", &"600\n".repeat(300));
    let against = |file: &str| {
        measured(&sandbox, &["-p", "./p.toml", "/ping", "--samples-file", file, "--unit", "ms", "--compare"])
    };
    let (code, found) = against("same.txt");
    assert_eq!((code, &found["compared"]["drifted"]), (0, &false.into()), "{}", found["compared"]);
    assert_eq!(found["compared"]["with"], "[measured] of ./p.toml, 2026-11-29 10:00:00");
    let (code, found) = against("slow.txt");
    assert_eq!((code, &found["compared"]["drifted"]), (8, &true.into()), "{}", found["compared"]);
    assert_eq!((&found["compared"]["p95_ratio"], &found["compared"]["slower"]), (&2.4.into(), &Value::Null));
    let text = sandbox.run(&[
        "calibrate",
        "-p",
        "./p.toml",
        "/ping",
        "--samples-file",
        "slow.txt",
        "--unit",
        "ms",
        "--compare",
    ]);
    assert!(text.contains("drifted: the partner has become slower") && text.ends_with("exit 8"), "{text}");
    assert!(text.contains("p95 is 2.4 x what it was"), "{text}");
    let refused = |args: &[&str]| sandbox.run(&[&["calibrate", "-p", "./p.toml"], args].concat());
    let said = refused(&["/other", "--compare"]);
    assert!(said.contains("./p.toml has no [measured] for this endpoint") && said.ends_with("exit 2"), "{said}");
    let said = refused(&["/ping", "--compare=none.hlog"]);
    assert!(said.contains("--compare hlog:none.hlog: no such file") && said.ends_with("exit 2"), "{said}");
    let said = refused(&["/ping", "--compare", "--write"]);
    assert!(said.contains("cannot be used with") && said.ends_with("exit 2"), "{said}");
}

#[test]
fn two_recordings_of_the_same_partner_have_not_drifted() {
    let sandbox = Sandbox::new();
    let host = Host::start(Script::always(Turn::not_done(Act::Answer(Reply::json(200, "{}")))));
    let url = host.url("/ping");
    let run = ["calibrate", &url, "--samples", "40", "--rate", "200/s", "--timeout", "5s"];
    assert_eq!(sandbox.status(&[&run[..], &["--hlog", "a.hlog"]].concat()).0, 0);
    let (code, found) = measured(&sandbox, &["--samples-file", "hlog:a.hlog", "--compare=a.hlog"]);
    assert_eq!((code, &found["compared"]["drifted"], &found["compared"]["slower"]), (0, &false.into(), &0.5.into()));
    sandbox.write("slow.txt", &"9000\n".repeat(40));
    let (code, found) = measured(&sandbox, &["--samples-file", "slow.txt", "--unit", "ms", "--compare=a.hlog"]);
    assert_eq!((code, &found["compared"]["drifted"]), (8, &true.into()), "{}", found["compared"]);
}

#[test]
fn a_limit_below_the_measured_p99_is_our_own_fault_and_a_slow_answer_is_called_slow() {
    let turns = [
        Turn::not_done(Act::Hang),
        Turn::not_done(Act::Answer(Reply::json(200, "{}").after(Duration::from_millis(20)))),
    ];
    let (sandbox, host) = (Sandbox::new(), Host::start(Script::first(turns, Turn::fine())));
    sandbox.write("short.toml", &profile(&host.url(""), "4s", "5s"));
    sandbox.write("slow.toml", &profile(&host.url(""), "1ms", "2ms"));
    let send = ["send", "/ping", "--ledger", "l.jsonl", "--read-timeout", "100ms"];
    let said = sandbox.run(&[&send[..], &["-p", "./short.toml", "--key", "short"]].concat());
    assert!(said.contains("no answer within the read limit, which is shorter than the measured p99"), "{said}");
    assert!(said.contains("(our side)"), "{said}");
    let (_, shown) = sandbox.status(&["ledger", "show", "short", "--ledger", "l.jsonl", "--format", "json"]);
    assert!(shown.contains("\"reason\":\"read_limit_short\"") && shown.contains("\"side\":\"ours\""), "{shown}");
    let said = sandbox.run(&[&send[..4], &["-p", "./slow.toml", "--key", "slow"]].concat());
    assert!(said.contains("slower than 99 % of the past") && said.ends_with("exit 0"), "{said}");
    let (_, shown) = sandbox.status(&["ledger", "show", "slow", "--ledger", "l.jsonl", "--format", "json"]);
    assert!(shown.contains("\"slow\":true"), "{shown}");
}

#[test]
fn a_long_run_goes_on_where_it_ended_and_begins_again_when_it_is_done() {
    let fine = Turn::not_done(Act::Answer(Reply::json(200, "{}")));
    let fails = Turn::not_done(Act::Answer(Reply::status(500)));
    let turns = [vec![fine.clone(); 3], vec![fails; 5]].concat();
    let (sandbox, host) = (Sandbox::new(), Host::start(Script::first(turns, fine)));
    let url = host.url("/ping?api_key=sk-live-77aa");
    let args = ["calibrate", &url, "--over", "1s", "--samples", "12"];
    let said = sandbox.run(&args);
    assert!(said.contains("stopped early: 5 requests failed") && said.ends_with("exit 8"), "{said}");
    assert!(said.contains("the same command goes on where this one ends"), "{said}");
    assert!(said.contains("8 of 12 requests are in [DIR]/.local/state/abide/latency/127.0.0.1_"), "{said}");
    let path = said.split("requests are in [DIR]/").nth(1).and_then(|rest| rest.split(": the same").next());
    let path = path.expect("a path").to_owned();
    sandbox.write(&path, &format!("{}1795000000.000,0.0", sandbox.read(&path)));
    let other = sandbox.run(&["calibrate", &url, "--over", "100ms", "--samples", "1"]);
    assert!(!other.contains("going on"), "another plan is another run: {other}");
    let said = sandbox.run(&[&args[..], &["--hlog", "all.hlog"]].concat());
    assert!(said.contains("going on: 8 of 12 requests are in [DIR]"), "{said}");
    assert!(said.contains(": 7 answers, 5 failed (5xx 5)") && said.contains("all.hlog, all.hgrm: written"), "{said}");
    let (_, copied) = measured(&sandbox, &["--samples-file", "hlog:all.hlog"]);
    assert_eq!((&copied["counts"]["answered"], &copied["counts"]["failed"]), (&7.into(), &5.into()));
    assert!(!sandbox.run(&args).contains("going on"), "what is done is done");
    let said = sandbox.run(&["calibrate", "--samples-file", &format!("hlog:{path}")]);
    assert!(said.contains("1 line is left out; line ") && said.contains(": 7 answers"), "{said}");
    assert_eq!(host.seen().whole, 8 + 1 + 4 + 12);
    assert!(!sandbox.read("all.hlog").contains("sk-live-77aa"));
}

#[test]
fn a_long_run_is_not_measured_by_two_at_once() {
    let sandbox = Sandbox::new();
    let args = ["calibrate", "http://127.0.0.1:9/ping", "--over", "14d", "--samples", "3"];
    let mut first = sandbox.abide(&args).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("the binary runs");
    let mut stderr = BufReader::new(first.stderr.take().expect("piped"));
    stderr.read_line(&mut String::new()).expect("it says where it is kept");
    let said = sandbox.run(&args);
    assert!(said.contains("another process is measuring this already") && said.ends_with("exit 6"), "{said}");
    kill(Pid::from_raw(first.id().try_into().expect("a pid")), Signal::SIGINT).expect("ours");
    assert_eq!(first.wait().expect("it ends").code(), Some(130));
    let mut rest = String::new();
    stderr.read_to_string(&mut rest).expect("text");
    assert!(rest.contains("0 of 3 requests are in ") && rest.contains("the same command goes on"), "{rest}");
}
