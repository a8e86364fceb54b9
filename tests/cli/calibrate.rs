//! `abide calibrate`: what it announces, says and ends with.

use crate::sandbox::{Host, Sandbox, filters};
use abide::rehearse::partner::{Act, Reply, Script, Turn};
use insta::assert_snapshot;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::process::Stdio;

fn fine() -> Script {
    Script::always(Turn::not_done(Act::Answer(Reply::json(200, "{}"))))
}

fn answers(status: u16) -> Script {
    Script::always(Turn::not_done(Act::Answer(Reply::status(status))))
}

/// Returns what a run says as JSON, and its status.
fn measured(sandbox: &Sandbox, args: &[&str]) -> (i32, Value) {
    let (code, text) = sandbox.status(&[&["calibrate", "--format", "json", "-q"], args].concat());
    (code, serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}")))
}

const QUICK: [&str; 6] = ["--samples", "40", "--rate", "400/s", "--timeout", "5s"];

#[test]
fn a_run_is_announced_and_suggests_limits_with_their_evidence() {
    let (sandbox, host) = (Sandbox::new(), Host::start(fine()));
    let url = host.url("/ping?api_key=sk-live-77aa");
    let output = sandbox.abide(&[&["calibrate", &url], &QUICK[..]].concat()).output().expect("the binary runs");
    let (text, said) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{text}{said}");
    insta::with_settings!({filters => filters()}, { assert_snapshot!(said, @"GET http://127.0.0.1:[PORT]/ping?api_key=***: 40 requests, one each 2.5ms, until 10:00:01 (100ms); at most 1000 under way; each is given up after [TIME]; seed 7; nothing is recorded"); });
    for words in [
        "40 answers, 10:00:00 to 10:00:00",
        "answered after",
        "p99 ",
        "Suggested limits: at least, since the evidence is thin",
        "connect  3s",
        "OF 1,000 OPERATIONS",
        "Evidence: a snapshot: it describes 10:00:00 to 10:00:00 only",
        "40 samples bound p92.8 at best: 259 more are needed",
    ] {
        assert!(text.contains(words), "{words} is not in\n{text}");
    }
    let picture = text.lines().skip(2).take(6);
    assert!(picture.into_iter().all(|line| line.chars().count() <= 80), "{text}");
    assert!(!format!("{text}{said}").contains("sk-live-77aa"));
    let seen = host.seen();
    assert_eq!((seen.connections, seen.whole), (40, 40), "each sample is cold");
    assert!(seen.requests.iter().all(|request| request.key().is_none()), "a sample is no operation");
    assert!(!sandbox.path().join(".local").exists(), "nothing is recorded");
}

#[test]
fn machines_get_the_same_facts_and_null_for_what_is_not_known() {
    let (sandbox, host) = (Sandbox::new(), Host::start(fine()));
    let (code, found) = measured(&sandbox, &[&[&*host.url("/ping")], &QUICK[..]].concat());
    assert_eq!((code, &found["schema"], &found["exit"]), (0, &"abide.calibrate/1".into(), &0.into()));
    assert_eq!(found["counts"]["answered"], 40);
    assert_eq!(found["evidence"]["grade"], "snapshot");
    assert_eq!(found["evidence"]["samples_needed"], 299);
    assert_eq!(found["suggestion"]["at_least"], true);
    assert_eq!(found["plan"]["seed"], 7);
    assert_eq!(found["plan"]["pacing"], "open");
    let p99 = &found["stages"]["read"]["percentiles"][2];
    assert_eq!((&p99["percentile"], &p99["bound_ms"]), (&"99".into(), &Value::Null));
    assert!(p99["value_ms"].as_f64().is_some_and(|ms| ms > 0.0), "{p99}");
    assert_eq!(found["back_filled"], Value::Null);
}

#[test]
fn thin_evidence_is_refused_with_strict() {
    let (sandbox, host) = (Sandbox::new(), Host::start(fine()));
    let (code, found) = measured(&sandbox, &[&[&*host.url("/ping"), "--strict"], &QUICK[..]].concat());
    assert_eq!((code, &found["suggestion"]["at_least"]), (8, &true.into()));
}

#[test]
fn a_partner_that_fails_is_left_alone_and_nothing_is_suggested() {
    let (sandbox, host) = (Sandbox::new(), Host::start(answers(404)));
    let args = ["calibrate", &host.url("/ping"), "--closed", "--samples", "100"];
    let text = sandbox.run(&args);
    insta::with_settings!({filters => filters()}, { assert_snapshot!(text, @"
    GET http://127.0.0.1:[PORT]/ping: 0 answers, 5 failed (4xx 5), 10:00:00 to 10:00:00
    stopped early: 5 requests failed, one after the other

    No limits are suggested
      the last 5 requests failed
        find out why requests fail before measuring how long they take
      5 of 5 requests got a 4xx: this measures an error page
        check the URL, the credentials and the headers: errors are answered fast
      n = 0: an upper bound of p99 takes 299 samples
    ----- stderr
    GET http://127.0.0.1:[PORT]/ping: 100 requests, 1 at a time; each is given up after 1m; seed 7; nothing is recorded
    ----- exit 8
    "); });
    assert_eq!(host.seen().whole, 5);
}

#[test]
fn a_time_out_is_given_up_and_never_a_fast_answer() {
    let turns: Vec<Turn> = (0..30).map(|_| Turn::not_done(Act::Answer(Reply::json(200, "{}")))).collect();
    let script = Script::first(turns, Turn::not_done(Act::Hang));
    let (sandbox, host) = (Sandbox::new(), Host::start(script));
    let args = [&*host.url("/ping"), "--closed", "--samples", "32", "--timeout", "200ms"];
    let (code, found) = measured(&sandbox, &args);
    assert_eq!((code, &found["counts"]["given_up"], &found["suggestion"]), (8, &2.into(), &Value::Null));
    let p99 = &found["stages"]["read"]["percentiles"][2];
    assert_eq!(p99["value_ms"], Value::Null);
    assert!(p99["at_least_ms"].as_f64().is_some_and(|ms| (199.0..400.0).contains(&ms)), "{p99}");
}

#[test]
fn what_is_no_calibration_is_refused_with_a_sentence() {
    let sandbox = Sandbox::new();
    let url = "http://127.0.0.1:9/ping";
    let refusal = |args: &[&str]| sandbox.run(&[&["calibrate"], args].concat());
    let cases: [(&[&str], &str); 10] = [
        (&["POST", url], "POST may be executed"),
        (&[url, "--percentile", "0.999"], "did you mean 99.9?"),
        (&[url, "--percentile", "100"], "too large"),
        (&[url, "--headroom", "25"], "--headroom 25: "),
        (&[url, "--false-timeouts", "0"], "--false-timeouts 0: "),
        (&[url, "--rate", "0/s"], "--rate 0/s: "),
        (&[url, "--samples", "0"], "--samples 0: from 1"),
        (&[url, "--timeout", "5"], "--timeout 5: "),
        (&[url, "-L"], "follow no redirect"),
        (&[url, "--write"], "there is no profile to write to"),
    ];
    for (args, expected) in cases {
        let said = refusal(args);
        assert!(said.contains(expected) && said.ends_with("exit 2"), "{args:?}: {said}");
    }
    let said = refusal(&[url, "--compare"]);
    assert!(said.contains("there is no profile with [measured]") && said.ends_with("exit 2"), "{said}");
}

#[test]
fn an_interruption_shows_what_was_measured_and_leaves_with_130() {
    let (sandbox, host) = (Sandbox::new(), Host::start(Script::always(Turn::not_done(Act::Hang))));
    let mut command = sandbox.abide(&["calibrate", &host.url("/ping"), "--closed"]);
    let mut run = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the binary runs");
    let mut said = String::new();
    let mut stderr = BufReader::new(run.stderr.take().expect("piped"));
    stderr.read_line(&mut said).expect("it announces itself");
    kill(Pid::from_raw(run.id().try_into().expect("a pid")), Signal::SIGINT).expect("ours");
    let output = run.wait_with_output().expect("it ends");
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(130), "{said}{text}");
    assert!(text.contains("stopped early: interrupted") && text.contains("No limits are suggested"), "{text}");
}

/// Returns the value of a percentile of reading, in milliseconds.
fn read_ms(found: &Value, percentile: &str) -> Option<f64> {
    let all = found["stages"]["read"]["percentiles"].as_array().expect("a list");
    all.iter().find(|one| one["percentile"] == percentile).expect("is shown")["value_ms"].as_f64()
}

#[test]
fn samples_of_another_tool_keep_their_ranks_and_their_maximum() {
    let sandbox = Sandbox::new();
    let lines = |counts: &[(usize, u64)]| {
        counts.iter().flat_map(|(count, ms)| vec![format!("{ms}\n"); *count]).collect::<String>()
    };
    sandbox.write("s.txt", &lines(&[(990, 20), (9, 500), (1, 60_000)]));
    let args = ["--samples-file", "s.txt", "--unit", "ms"];
    let (code, found) = measured(&sandbox, &[&args[..], &["--percentile", "99.9"]].concat());
    assert_eq!((code, read_ms(&found, "99"), read_ms(&found, "99.9")), (0, Some(20.0), Some(500.0)));
    assert_eq!(found["stages"]["read"]["max_ms"], 60_000.0);
    sandbox.write("few.txt", "692\n693\n694\n142\n5332\n7200000\n");
    let (code, found) = measured(&sandbox, &["--samples-file", "few.txt", "--unit", "ms"]);
    assert_eq!((code, &found["counts"]["answered"], &found["suggestion"]), (8, &6.into(), &Value::Null));
    assert_eq!((read_ms(&found, "99"), &found["stages"]["connect"]), (Some(7_200_000.0), &Value::Null));
}

#[test]
fn a_file_that_holds_no_samples_is_refused_with_its_line() {
    let sandbox = Sandbox::new();
    for (text, more, expected) in [
        ("1\n-2\n", &["--unit", "ms"][..], "s.txt: line 2: `-2` is below zero"),
        ("1\n\nfast\n", &["--unit", "ms"], "s.txt: line 3: `fast` is no number"),
        ("NaN\n", &["--unit", "s"], "s.txt: line 1: `NaN` is no time that anybody waits"),
        ("", &["--unit", "ms"], "s.txt: there are no samples in it"),
        ("1\n", &[], "in which unit?"),
        ("1\n", &["--unit", "min"], "the units are ms, s and us"),
    ] {
        sandbox.write("s.txt", text);
        let said = sandbox.run(&[&["calibrate", "--samples-file", "s.txt"], more].concat());
        assert!(said.contains(expected) && said.ends_with("exit 2"), "{said}");
    }
    let said = sandbox.run(&["calibrate", "--samples-file", "none.txt", "--unit", "ms"]);
    assert!(said.contains("no such file") && said.ends_with("exit 2"), "{said}");
}

#[test]
fn a_ledger_is_measured_by_its_first_attempts_of_that_path() {
    let sandbox = Sandbox::new();
    let host = Host::start(Script::always(Turn::fine()));
    for (path, count) in [("/orders", 3), ("/other", 1)] {
        for n in 0..count {
            let (url, key) = (host.url(path), format!("{n}{path}").replace('/', "-"));
            let args = ["send", "POST", &url, "--json", "{}", "--key", &key, "--ledger", "l.jsonl"];
            assert_eq!(sandbox.status(&args).0, 0);
        }
    }
    let url = host.url("/orders?page=2");
    let (code, found) = measured(&sandbox, &["POST", &url, "--from-ledger", "--ledger", "l.jsonl"]);
    assert_eq!((code, &found["counts"]["answered"], &found["plan"]["source"]), (8, &3.into(), &"ledger".into()));
    let url = host.url("/*");
    let (_, found) = measured(&sandbox, &["POST", &url, "--from-ledger", "--ledger", "l.jsonl"]);
    assert_eq!(found["counts"]["answered"], 4);
    let (code, _) = sandbox.status(&["calibrate", "POST", &url, "--from-ledger", "--ledger", "none.jsonl"]);
    assert_eq!(code, 2);
}

const PROFILE: &str = "\
base_url = \"http://127.0.0.1:9\"

[[endpoint]]
path = \"/orders\" # the slow one
timeouts = { read = \"40s\" } # by hand
";

#[test]
fn limits_are_written_into_the_endpoint_and_comments_stay() {
    let sandbox = Sandbox::new();
    sandbox.write("p.toml", PROFILE);
    sandbox.write("s.txt", &"200\n".repeat(400));
    let args = ["-p", "p.toml", "POST", "/orders", "--samples-file", "s.txt", "--unit", "ms", "--write"];
    let (code, _) = measured(&sandbox, &args);
    assert_eq!((code, sandbox.read("p.toml")), (8, PROFILE.into()), "thin evidence is not written");
    let said = sandbox.run(&[&["calibrate"], &args[..], &["--accept-thin"]].concat());
    assert!(said.ends_with("exit 0") && said.contains("  - timeouts = { read = \"40s\" } # by hand"), "{said}");
    let text = sandbox.read("p.toml");
    assert!(text.contains("path = \"/orders\" # the slow one"), "{text}");
    assert!(text.contains("read = \"400ms\"") && text.contains("# by hand"), "{text}");
    assert!(text.contains("grade = \"snapshot, at least\"") && text.contains("p99 = \"200ms\""), "{text}");
    assert_eq!(sandbox.status(&["profile", "check", "p.toml"]).0, 0);
    let names: Vec<_> = std::fs::read_dir(sandbox.path()).expect("a folder").collect();
    assert_eq!(names.len(), 2, "no draft is left: {names:?}");
}

#[test]
fn what_reads_take_is_not_written_where_it_would_limit_writes() {
    let sandbox = Sandbox::new();
    let profile = "version = 1\nbase_url = 'http://127.0.0.1:9'\n[[endpoint]]\npath = '/*'\n";
    sandbox.write("p.toml", profile);
    sandbox.write("s.txt", &"200\n".repeat(400));
    let args =
        ["calibrate", "-p", "./p.toml", "/a", "--samples-file", "s.txt", "--unit", "ms", "--write", "--accept-thin"];
    let said = sandbox.run(&args);
    assert!(said.contains("the endpoint that fits has no method") && said.ends_with("exit 2"), "{said}");
    assert_eq!(sandbox.read("p.toml"), profile);
    sandbox.write("p.toml", &profile.replace("path", "method = 'GET'\npath"));
    let said = sandbox.run(&args);
    assert!(said.ends_with("exit 0") && sandbox.read("p.toml").contains("read ="), "{said}");
}

#[test]
fn a_profile_that_may_not_be_written_to_is_refused_before_anything_is_sent() {
    let sandbox = Sandbox::new();
    sandbox.write("p.toml", PROFILE);
    let path = sandbox.path().join("p.toml");
    let mut rights = std::fs::metadata(&path).expect("a file").permissions();
    rights.set_readonly(true);
    std::fs::set_permissions(&path, rights).expect("ours");
    let said = sandbox.run(&["calibrate", "-p", "p.toml", "/orders", "--write"]);
    assert!(said.contains("--write p.toml: the file is read-only") && said.ends_with("exit 2"), "{said}");
    let said = sandbox.run(&["calibrate", "-p", "p.toml", "--samples-file", "s.txt", "--unit", "ms", "--write"]);
    assert!(said.contains("for which endpoint?"), "{said}");
}

#[test]
fn a_profile_whose_form_is_not_edited_is_refused_before_anything_is_sent() {
    let (sandbox, host) = (Sandbox::new(), Host::start(fine()));
    let text = format!("version = 1\nbase_url = '{}'\nendpoint = [{{ method = 'GET', path = '/a' }}]\n", host.url(""));
    sandbox.write("p.toml", &text);
    let said = sandbox.run(&["calibrate", "-p", "./p.toml", "/a", "--write", "--samples", "5", "--rate", "100/s"]);
    assert!(said.contains("a list in brackets, which is not edited") && said.ends_with("exit 2"), "{said}");
    assert_eq!((host.seen().connections, sandbox.read("p.toml")), (0, text));
}

#[test]
fn a_profile_that_is_changed_while_samples_are_taken_keeps_the_change() {
    let slow = Turn::not_done(Act::Answer(Reply::json(200, "{}").after(std::time::Duration::from_millis(20))));
    let (sandbox, host) = (Sandbox::new(), Host::start(Script::always(slow)));
    let text = format!("version = 1\nbase_url = '{}'\n", host.url(""));
    sandbox.write("p.toml", &text);
    let args = ["calibrate", "-p", "./p.toml", "/a", "--closed", "--samples", "40", "--write", "--accept-thin"];
    let mut run = sandbox.abide(&args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the binary runs");
    let mut stderr = BufReader::new(run.stderr.take().expect("piped"));
    stderr.read_line(&mut String::new()).expect("it announces itself");
    let changed = format!("{text}# by Bob\n");
    sandbox.write("p.toml", &changed);
    let mut said = String::new();
    std::io::Read::read_to_string(&mut stderr, &mut said).expect("text");
    assert_eq!(run.wait().expect("it ends").code(), Some(6), "{said}");
    assert!(said.contains("p.toml has changed since it was read") && said.contains("  + "), "{said}");
    assert_eq!(sandbox.read("p.toml"), changed);
    let names: Vec<_> = std::fs::read_dir(sandbox.path()).expect("a folder").collect();
    assert_eq!(names.len(), 1, "no draft is left: {names:?}");
}

#[test]
fn a_written_profile_keeps_its_rights_its_other_names_and_its_line_ends() {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    let sandbox = Sandbox::new();
    let text = PROFILE.replace('\n', "\r\n");
    sandbox.write("p.toml", &text);
    sandbox.write("s.txt", &"200\n".repeat(400));
    let (path, other) = (sandbox.path().join("p.toml"), sandbox.path().join("other.toml"));
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).expect("ours");
    std::fs::hard_link(&path, &other).expect("the folder takes it");
    let args =
        ["-p", "./p.toml", "POST", "/orders", "--samples-file", "s.txt", "--unit", "ms", "--write", "--accept-thin"];
    let said = sandbox.run(&[&["calibrate"], &args[..]].concat());
    assert!(said.ends_with("exit 0"), "{said}");
    let written = sandbox.read("p.toml");
    assert_eq!((sandbox.read("other.toml"), written.contains("read = \"400ms\"")), (written.clone(), true));
    assert_eq!(written.matches('\n').count(), written.matches("\r\n").count(), "{written:?}");
    let metadata = std::fs::metadata(&path).expect("a file");
    let whole = std::fs::metadata(sandbox.path()).expect("a folder");
    assert_eq!((metadata.mode() & 0o777, metadata.uid(), metadata.gid()), (0o640, whole.uid(), whole.gid()));
}

#[test]
fn samples_carry_no_id_of_an_operation_and_hints_name_this_command() {
    let (sandbox, host) = (Sandbox::new(), Host::start(fine()));
    let announce = "[announce]\noperation = 'X-Request-Id'\nattempt = 'X-Attempt'\n";
    sandbox.write("p.toml", &format!("version = 1\nbase_url = '{}'\n{announce}", host.url("")));
    let args = ["calibrate", "-p", "./p.toml", "/a", "-H", "X-Team: north", "--closed", "--samples", "2"];
    assert_eq!(sandbox.status(&args).0, 8);
    let seen = host.seen();
    for request in &seen.requests {
        let names: Vec<_> = request.headers.iter().map(|(name, _)| name.to_ascii_lowercase()).collect();
        assert!(!names.iter().any(|name| name == "x-request-id" || name == "x-attempt"), "{names:?}");
        assert!(
            names.iter().any(|name| name == "x-team") && names.iter().any(|name| name == "user-agent"),
            "{names:?}"
        );
    }
    let said = sandbox.run(&["calibrate", "http://127.0.0.1:9/", "GET"]);
    assert!(said.contains("abide calibrate GET http://127.0.0.1:9/"), "{said}");
}
