//! `abide calibrate` with files: what was measured is kept, read again, and told apart from what is none.

use crate::sandbox::{Host, Sandbox};
use abide::rehearse::partner::{Act, Reply, Script, Turn};
use serde_json::Value;

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
    assert!(said.contains("a.hgrm: it is there already") && said.ends_with("exit 2"), "{said}");
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
