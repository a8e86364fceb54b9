//! `abide calibrate --allow-unsafe-method`: samples that the partner executes.

use crate::sandbox::{Host, Sandbox, filters};
use crate::secure::{ISSUER, Lane};
use abide::rehearse::partner::{Act, Fault, Reply, Script, Turn};
use insta::assert_snapshot;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use std::collections::HashSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, ChildStderr, Stdio};

fn created() -> Script {
    Script::always(Turn::not_done(Act::Answer(Reply::json(201, "{}"))))
}

const ALLOWED: &str = "--allow-unsafe-method";
const QUICK: [&str; 3] = ["--closed", "--samples", "12"];

/// Returns what a run says as JSON, and its status.
fn measured(sandbox: &Sandbox, args: &[&str]) -> (i32, Value) {
    let (code, text) = sandbox.status(&[&["calibrate", "--format", "json", ALLOWED], args].concat());
    (code, serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}")))
}

#[test]
fn without_the_flag_nothing_that_may_be_executed_reaches_the_partner() {
    let (sandbox, host) = (Sandbox::new(), Host::start(created()));
    let url = host.url("/orders");
    let said = sandbox.run(&["calibrate", &url, "--json", "{}"]);
    assert!(
        said.contains("error: POST may be executed: calibrate sends GET, HEAD, OPTIONS and TRACE only\n"),
        "{said}"
    );
    assert!(said.contains("hint: --from-ledger measures what `abide send` has sent already; "), "{said}");
    assert!(
        said.contains("--allow-unsafe-method really executes it 300 times, which is for a sandbox account"),
        "{said}"
    );
    for method in ["POST", "PUT", "PATCH", "DELETE", "PURGE"] {
        let said = sandbox.run(&["calibrate", method, &url]);
        assert!(said.contains(&format!("{method} may be executed")) && said.ends_with("exit 2"), "{said}");
    }
    assert_eq!(host.seen().connections, 0);
}

#[test]
fn each_sample_is_announced_and_is_an_operation_of_its_own() {
    let (sandbox, host) = (Sandbox::new(), Host::start(created()));
    sandbox.write(
        "p.toml",
        &format!(
            "version = 1\nbase_url = '{}'\n[idempotency]\nsupported = true\nheader = 'X-Idem'\nformat = 'quoted'\n\
             [headers]\nX-Api-Key = 'sk-live-77aa'\n[announce]\noperation = 'X-Request-Id'\n",
            host.url("")
        ),
    );
    let body = "{\"ref\":\"{key}\", \"amount\" : 1}";
    let args = ["calibrate", "-p", "./p.toml", "/orders?token=sk-live-88bb", "--json", body, ALLOWED, "-q"];
    let output = sandbox.abide(&[&args[..], &QUICK].concat()).output().expect("the binary runs");
    let (text, said) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let warning = "warning: the partner executes each of these 12 POST requests, under a new key in the header X-Idem, and \
                   no ledger records them: use a sandbox account\n";
    assert!(said.contains(": 12 requests, 1 at a time; ") && said.ends_with(warning), "{said}");
    assert!(text.contains("\n12 requests, recorded nowhere. Executed: 12 confirmed\n"), "{text}");
    assert!(!format!("{text}{said}").contains("sk-live"), "{text}{said}");
    assert!(!sandbox.path().join(".local").exists(), "nothing is recorded");
    let seen = host.seen();
    assert_eq!((seen.connections, seen.whole), (12, 12));
    let mut keys = HashSet::new();
    for request in &seen.requests {
        let field = |name: &str| {
            let found = request.headers.iter().find(|(field, _)| field == name);
            found.map(|(_, value)| value.clone()).unwrap_or_default()
        };
        let key = field("x-request-id");
        assert_eq!(field("x-idem"), format!("\"{key}\""));
        assert_eq!(String::from_utf8_lossy(&request.body), format!("{{\"ref\":\"{key}\", \"amount\" : 1}}"));
        assert_eq!((request.method.as_str(), field("content-type")), ("POST", "application/json".into()));
        keys.insert(key);
    }
    assert_eq!(keys.len(), 12, "no key is used twice");
}

#[test]
fn a_seed_that_is_given_again_repeats_no_key() {
    let keys = |seed: &str| {
        let (sandbox, host) = (Sandbox::new(), Host::start(created()));
        let args = ["calibrate", &host.url("/orders"), "-d", "x", ALLOWED, "--closed", "--samples", "2", "--seed", "3"];
        let mut command = sandbox.abide(&args);
        assert!(command.env("ABIDE_TEST_SEED", seed).output().expect("the binary runs").status.code() == Some(8));
        host.seen().requests.iter().map(|request| request.key().expect("a key").to_owned()).collect::<HashSet<_>>()
    };
    assert_eq!(keys("1").union(&keys("2")).count(), 4);
}

#[test]
fn keys_stand_where_the_profile_says_and_where_the_request_names_them() {
    for (place, path, body, warned) in [
        ("in = 'query'\nheader = 'rid'", "/orders", "{}", "in the query parameter rid"),
        ("in = 'body'", "/orders", "{\"id\":\"{key}\"}", "in the body"),
        ("header = ''", "/orders/{key}", "{}", "without a key, which the profile does not send"),
    ] {
        let (sandbox, host) = (Sandbox::new(), Host::start(created()));
        let profile = format!("version = 1\nbase_url = '{}'\n[idempotency]\n{place}\n", host.url(""));
        sandbox.write("p.toml", &profile);
        let args = ["calibrate", "-p", "./p.toml", "PUT", path, "-d", body, "-H", "X-Ref: {key}", ALLOWED];
        let said = sandbox.run(&[&args[..], &QUICK].concat());
        assert!(said.contains(warned), "{place}: {said}");
        assert!(said.contains(&format!("PUT {}:", host.url(path))), "{place}: {said}");
        let whole = host.seen().requests.into_iter().map(|request| {
            let named = request.headers.iter().find(|(name, _)| name == "x-ref").map(|(_, value)| value.clone());
            let (key, body) = (named.expect("it was given"), String::from_utf8_lossy(&request.body).into_owned());
            assert!(format!("{}{body}", request.path).contains(&key), "{place}: {} {body}", request.path);
            assert!(!request.path.contains("{key}") && !body.contains("{key}"), "{place}");
            key
        });
        assert_eq!(whole.collect::<HashSet<_>>().len(), 12, "{place}");
    }
}

#[test]
fn limits_are_written_for_the_path_and_not_for_one_key() {
    let (sandbox, host) = (Sandbox::new(), Host::start(created()));
    sandbox.write("p.toml", &format!("version = 1\nbase_url = '{}'\n", host.url("")));
    let args = ["calibrate", "-p", "./p.toml", "PUT", "/orders/{key}", "--json", "{}", ALLOWED, "--closed"];
    let said =
        sandbox.run(&[&args[..], &["--samples", "40", "--write", "--accept-thin", "--report", "r.html"]].concat());
    assert!(said.ends_with("exit 0"), "{said}");
    let page = sandbox.read("r.html");
    assert!(page.contains("<p>40 requests, recorded nowhere. Executed: 40 confirmed</p>"), "{page}");
    let text = sandbox.read("p.toml");
    assert!(text.contains("method = \"PUT\"") && text.contains("path = \"/orders/*\""), "{text}");
}

#[test]
fn limits_of_a_path_that_no_endpoint_can_have_are_refused_before_anything_is_sent() {
    let (sandbox, host) = (Sandbox::new(), Host::start(created()));
    sandbox.write("p.toml", &format!("version = 1\nbase_url = '{}'\n", host.url("")));
    let said = sandbox.run(&["calibrate", "-p", "./p.toml", "PUT", "/orders/ref-{key}", ALLOWED, "--write"]);
    assert!(said.contains("--write ./p.toml: an [[endpoint]] has whole segments"), "{said}");
    assert!(said.ends_with("exit 2") && !said.contains("draft"), "{said}");
    let fitting =
        format!("version = 1\nbase_url = '{}'\n[[endpoint]]\nmethod = 'PUT'\npath = '/orders/*'\n", host.url(""));
    sandbox.write("q.toml", &fitting);
    let args = ["calibrate", "-p", "./q.toml", "PUT", "/orders/ref-{key}", ALLOWED, "--closed", "--samples", "40"];
    let said = sandbox.run(&[&args[..], &["--write", "--accept-thin"]].concat());
    assert!(said.ends_with("exit 0") && sandbox.read("q.toml").contains("timeouts"), "{said}");
    assert_eq!(host.seen().connections, 40);
}

#[test]
fn what_became_of_each_is_counted() {
    let answer = |status| Turn::not_done(Act::Answer(Reply::status(status)));
    let turns = [answer(201), answer(202), answer(422), answer(409), Turn::not_done(Act::Hang)];
    let (sandbox, host) = (Sandbox::new(), Host::start(Script::first(turns, answer(201))));
    let (_, found) = measured(&sandbox, &["POST", &host.url("/a"), "--closed", "--samples", "8", "--timeout", "200ms"]);
    let expected = serde_json::json!({
        "requests": 8, "confirmed": 4, "accepted": 1, "rejected": 1, "not_done": 0, "in_doubt": 2, "unanswered": 1,
    });
    assert_eq!((&found["executions"], &found["plan"]["executed"]), (&expected, &"POST".into()));
    assert_eq!(host.seen().whole, 8, "nothing is sent twice");
    let (code, found) = measured(&sandbox, &["POST", "http://127.0.0.1:9/a", "--closed"]);
    assert_eq!((code, &found["executions"]["not_done"], &found["executions"]["requests"]), (8, &5.into(), &5.into()));
    assert!(found["stopped"].as_str().is_some_and(|why| why.contains("5 requests failed")), "{found}");
}

#[test]
fn a_redirect_is_not_followed() {
    let moved = Turn::not_done(Act::Answer(Reply::status(307).header("Location", "/elsewhere")));
    let (sandbox, host) = (Sandbox::new(), Host::start(Script::always(moved)));
    let (code, found) = measured(&sandbox, &["POST", &host.url("/a"), "--closed"]);
    assert_eq!((code, &found["executions"]["not_done"]), (8, &5.into()));
    let seen = host.seen();
    assert!(seen.requests.iter().all(|request| request.path == "/a") && seen.whole == 5);
}

#[test]
fn a_safe_method_stays_what_it_was() {
    let (sandbox, host) = (Sandbox::new(), Host::start(created()));
    let (_, found) = measured(&sandbox, &[&[&*host.url("/a{key}")], &QUICK[..]].concat());
    assert_eq!((&found["executions"], &found["plan"]["executed"]), (&Value::Null, &Value::Null));
    let said = sandbox.run(&[&["calibrate", &host.url("/a"), ALLOWED], &QUICK[..]].concat());
    assert!(!said.contains("executes") && !said.contains("recorded nowhere"), "{said}");
    assert!(host.seen().requests.iter().all(|request| request.key().is_none()));
}

#[test]
fn what_cannot_be_told_apart_or_accounted_for_is_refused() {
    let sandbox = Sandbox::new();
    sandbox.write("body.toml", "version = 1\nbase_url = 'http://127.0.0.1:9'\n[idempotency]\nin = 'body'\n");
    let url = "http://127.0.0.1:9/a";
    for (args, expected) in [
        (&["-p", "./body.toml", "/a", "-d", "{}", ALLOWED][..], "each sample needs one of its own\nhint: write {key}"),
        (&[url, "-d", "x", ALLOWED, "--over", "1h"], "would not know what was executed before"),
        (&["GET", url, "-d", "x", ALLOWED], "samples of GET have no body"),
        (&["POST", url, ALLOWED, "-H", "Idempotency-Key: 1"], "hint: leave it out: a key is made for each sample"),
        (&["POST", url, ALLOWED, "--from-ledger"], "cannot be used with"),
        (&["POST", url, "-d", "x", "--from-ledger"], "cannot be used with"),
        (&["POST", url, "--json", "1", "--samples-file", "s.txt"], "cannot be used with"),
        (&["POST", url, ALLOWED, "--samples-file", "s.txt"], "cannot be used with"),
        (&[url, "-d", "@none.json", ALLOWED], "-d @none.json: no such file"),
    ] {
        let said = sandbox.run(&[&["calibrate"], args].concat());
        assert!(said.contains(expected) && said.ends_with("exit 2"), "{args:?}: {said}");
    }
}

/// Begins a run against a partner that is played by the test, and returns it when it has said what it does.
fn begun(sandbox: &Sandbox) -> (Child, BufReader<ChildStderr>, TcpListener) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let url = format!("http://{}/a/{{key}}", listener.local_addr().expect("bound"));
    let args = ["calibrate", "POST", &url, ALLOWED, "--closed", "--timeout", "10s"];
    let mut run = sandbox.abide(&args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the binary runs");
    let mut stderr = BufReader::new(run.stderr.take().expect("piped"));
    stderr.read_line(&mut String::new()).expect("it announces itself");
    stderr.read_line(&mut String::new()).expect("it warns");
    (run, stderr, listener)
}

/// Takes the next request, which has no body.
fn taken(listener: &TcpListener) -> TcpStream {
    let (stream, _) = listener.accept().expect("it connects");
    let mut lines = BufReader::new(&stream).lines();
    assert!(lines.any(|line| line.expect("text").is_empty()), "the head ends");
    stream
}

fn answer(mut stream: TcpStream) {
    stream.write_all(b"HTTP/1.1 201 Created\r\ncontent-length: 0\r\n\r\n").expect("it reads");
}

fn signal(run: &Child) {
    kill(Pid::from_raw(run.id().try_into().expect("a pid")), Signal::SIGINT).expect("ours");
}

#[test]
fn an_interruption_waits_for_what_may_be_executed_and_counts_it() {
    let sandbox = Sandbox::new();
    let (run, mut stderr, listener) = begun(&sandbox);
    let request = taken(&listener);
    signal(&run);
    let mut said = String::new();
    stderr.read_line(&mut said).expect("why it waits");
    answer(request);
    let output = run.wait_with_output().expect("it ends");
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(130), "{said}{text}");
    assert!(said.starts_with("SIGINT: 1 request may have reached the partner and has up to 30s left;"), "{said}");
    assert!(
        text.contains("\n1 request, recorded nowhere. Executed: 1 confirmed\nstopped early: interrupted;"),
        "{text}"
    );
    listener.set_nonblocking(true).expect("it is ours");
    assert!(listener.accept().is_err(), "nothing more is sent");
}

#[test]
fn a_second_signal_stops_at_once_and_says_what_is_known() {
    let sandbox = Sandbox::new();
    let (mut run, mut stderr, listener) = begun(&sandbox);
    answer(taken(&listener));
    let _request = taken(&listener);
    signal(&run);
    stderr.read_line(&mut String::new()).expect("why it waits");
    signal(&run);
    let mut said = String::new();
    stderr.read_to_string(&mut said).expect("text");
    assert_eq!(run.wait().expect("it ends").code(), Some(130));
    assert_eq!(said, "stopped: 1 request, recorded nowhere. Executed: 1 confirmed; 1 more in doubt\n");
}

#[test]
fn the_account_is_said_also_where_nobody_reads_the_result() {
    let (sandbox, host) = (Sandbox::new(), Host::start(created()));
    let url = host.url("/a/{key}");
    for format in ["text", "json"] {
        let args = ["calibrate", "POST", &url, ALLOWED, "-q", "--format", format];
        let mut run = sandbox.abide(&[&args[..], &QUICK].concat());
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let unread = run.stdout(writer).output().expect("the binary runs");
        let full = std::fs::File::options().write(true).open("/dev/full").expect("it always is");
        let unwritten = run.stdout(full).output().expect("the binary runs");
        for output in [unread, unwritten] {
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(said.contains("\n12 requests, recorded nowhere. Executed: 12 confirmed\n"), "{format}: {said}");
        }
    }
}

#[test]
fn the_plan_is_said_before_the_warning() {
    let (sandbox, host) = (Sandbox::new(), Host::start(created()));
    let args = ["calibrate", "DELETE", &host.url("/a/{key}"), ALLOWED, "--samples", "1", "--rate", "2/s"];
    let output = sandbox.abide(&args).output().expect("the binary runs");
    let said = String::from_utf8_lossy(&output.stderr);
    insta::with_settings!({filters => filters()}, { assert_snapshot!(said, @"
    DELETE http://127.0.0.1:[PORT]/a/{key}: 1 request, one each 500ms, until 10:00:01 (500ms); at most 120 under way; each is given up after 1m; seed 7; nothing is recorded
    warning: the partner executes this DELETE request, under a new key in the header Idempotency-Key, and no ledger records it: use a sandbox account
    "); });
}

#[test]
fn what_is_announced_is_no_less_than_what_is_sent() {
    let (sandbox, host) = (Sandbox::new(), Host::start(created()));
    let url = host.url("/a/{key}");
    for (args, plan, warned) in [
        (
            &["--rate", "50/s", "--duration", "100ms"][..],
            "up to 5 requests, one each 20ms, until 10:00:01 (100ms)",
            "each of these POST requests, up to 5 of them, under",
        ),
        (
            &["--samples", "9", "--duration", "20ms", "--closed"],
            "up to 9 requests, 1 at a time, until",
            "each of these POST requests, up to 9 of them, under",
        ),
        (
            &["--samples", "3", "--rate", "100/s", "--closed"],
            ": 3 requests, 1 at a time, at most one each 10ms, for 30ms or longer;",
            "each of these 3 POST requests, under",
        ),
    ] {
        let said = sandbox.run(&[&["calibrate", "POST", &url, ALLOWED], args].concat());
        assert!(said.contains(plan) && said.contains(warned), "{args:?}: {said}");
    }
}

#[test]
fn samples_that_differ_by_their_keys_alone_are_said_to() {
    let (sandbox, host) = (Sandbox::new(), Host::start(created()));
    let said =
        |body: &str| sandbox.run(&[&["calibrate", &host.url("/a"), "--json", body, ALLOWED], &QUICK[..]].concat());
    assert!(said("{}").contains("all of them say the same: write {key} where"));
    assert!(!said("[\"{key}\"]").contains("say the same"));
}

#[test]
fn no_fault_makes_the_account_false() {
    for fault in [
        Fault::Fine,
        Fault::ExecutedThenSilent,
        Fault::ExecutedThenCut,
        Fault::AcceptRst,
        Fault::ReadThenRst,
        Fault::CutBody,
        Fault::Html200,
    ] {
        let (sandbox, host) = (Sandbox::new(), Host::secure(fault.script(), Lane::honest()));
        sandbox.write("ca.pem", &ISSUER.pem());
        let args = [
            &*host.url("/a"),
            "--json",
            "{}",
            "--cacert",
            "ca.pem",
            "--closed",
            "--jobs",
            "5",
            "--samples",
            "5",
            "--timeout",
            "400ms",
        ];
        let (_, found) = measured(&sandbox, &args);
        let count = |name: &str| found["executions"][name].as_u64().expect("a number");
        let (certain, perhaps) = (count("confirmed") + count("accepted"), count("in_doubt"));
        let executed = u64::from(host.seen().executions);
        assert_eq!(count("requests"), 5, "{fault:?}: {found}");
        assert!(
            (certain..=certain + perhaps).contains(&executed),
            "{fault:?}: {executed} executed, {}",
            found["executions"]
        );
        assert!(count("unanswered") <= perhaps, "{fault:?}: {}", found["executions"]);
    }
}
