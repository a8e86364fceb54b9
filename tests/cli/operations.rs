//! Sends against partners that misbehave: the verdict, the answer, the status, and what the partner saw.

use crate::sandbox::{Host, Sandbox, filters};
use abide::rehearse::partner::{Act, Fault, Reply, Script, Turn};
use insta::assert_snapshot;

/// A partner, a folder, and one order.
struct Order {
    sandbox: Sandbox,
    host: Host,
}

impl Order {
    fn to(script: Script) -> Order {
        Order { sandbox: Sandbox::new(), host: Host::start(script) }
    }

    fn send(&self, more: &[&str]) -> String {
        self.send_seeded("7", more)
    }

    fn send_seeded(&self, seed: &str, more: &[&str]) -> String {
        let url = self.host.url("/orders");
        let args =
            ["send", "POST", &url, "--json", "{\"amount\":100}", "--ledger", "l.jsonl", "--read-timeout", "300ms"];
        let output = self.sandbox.abide(&[&args[..], more].concat()).env("ABIDE_TEST_SEED", seed).output();
        self.sandbox.shown(&output.expect("the binary runs"))
    }
}

macro_rules! snapshot {
    ($name:literal, $text:expr) => {
        insta::with_settings!({filters => filters()}, { assert_snapshot!($name, $text) })
    };
}

#[test]
fn a_success_is_confirmed_and_the_same_send_answers_from_the_ledger() {
    let order = Order::to(Fault::Fine.script());
    let first = order.send(&["--key", "k1"]);
    let again = order.send(&["--key", "k1"]);
    snapshot!("success_then_repeated", format!("{first}\n\n{again}"));
    assert_eq!(order.host.seen().executions, 1);
}

#[test]
fn a_key_is_made_and_told_before_the_send() {
    let order = Order::to(Fault::Fine.script());
    snapshot!("generated_key", order.send(&[]));
    let seen = order.host.seen();
    assert_eq!(seen.requests[0].key().map(str::len), Some(36));
}

#[test]
fn another_payload_under_the_same_key_is_refused() {
    let order = Order::to(Fault::Fine.script());
    order.send(&["--key", "k1"]);
    let url = order.host.url("/orders");
    let args = ["send", "POST", &url, "--json", "{\"amount\":900}", "--ledger", "l.jsonl", "--key", "k1"];
    let text = order.sandbox.run(&args);
    let json = order.sandbox.run(&[&args[..], &["--format", "json"]].concat());
    snapshot!("other_payload", format!("{text}\n\n{json}"));
    assert_eq!(order.host.seen().executions, 1);
}

#[test]
fn a_refused_connection_is_not_done_and_says_how_to_run_it_again() {
    let order = Order::to(Fault::Refused.script());
    snapshot!("refused", order.send(&["--key", "k1", "--deadline", "2s"]));
}

#[test]
fn a_lost_answer_is_in_doubt_and_is_not_sent_again() {
    let order = Order::to(Fault::ExecutedThenSilent.script());
    let first = order.send(&["--key", "k1"]);
    let second = order.send(&["--key", "k1"]);
    snapshot!("in_doubt", format!("{first}\n\n{second}"));
    assert_eq!(order.host.seen().executions, 1);
}

#[test]
fn a_read_without_an_answer_is_not_said_to_be_certainly_not_executed() {
    let order = Order::to(Fault::ExecutedThenSilent.script());
    let url = order.host.url("/orders");
    let more = ["--ledger", "l.jsonl", "--key", "g", "--max-attempts", "1", "--read-timeout", "100ms"];
    let told = order.sandbox.run(&[&["send", "GET", &url], &more[..]].concat());
    assert!(told.contains("g: not done: no answer came, and a GET changes nothing\n"), "{told}");
    assert!(told.ends_with("exit 3") && !told.contains("certainly"), "{told}");
}

#[test]
fn an_attempt_leaves_time_to_record_how_it_ended() {
    let order = Order::to(Fault::Fine.script());
    let url = order.host.url("/orders");
    order.sandbox.run(&["send", "GET", &url, "--ledger", "none", "--deadline", "1s", "--events", "e.ndjson"]);
    let events = order.sandbox.read("e.ndjson");
    let started: serde_json::Value = serde_json::from_str(events.lines().next().expect("an event")).expect("JSON");
    // However long it took until here, the last 10 ms are not the attempt's.
    assert!(started["limit_ms"].as_u64().is_some_and(|limit| limit <= 990), "{started}");
}

#[test]
fn a_key_that_the_partner_honours_fetches_the_lost_answer() {
    let order = Order::to(Fault::KeyHonoured.script());
    let profile = "[retry]\nbase = \"200ms\"\ncap = \"200ms\"\n[idempotency]\nsupported = true\n";
    order.sandbox.write("p.toml", profile);
    snapshot!("key_honoured", order.send(&["--key", "k1", "-p", "p.toml"]));
    assert_eq!(order.host.seen().executions, 1);
}

#[test]
fn a_retry_after_beyond_the_deadline_ends_at_once_with_the_partners_answer() {
    let reply = Reply::json(503, "{\"error\":\"closed for the day\"}").header("Retry-After", "86400");
    let order = Order::to(Script::always(Turn::not_done(Act::Answer(reply))));
    order.sandbox.write("p.toml", "[idempotency]\nsupported = true\n[classify]\nrefused = [503]\n");
    snapshot!("retry_after", order.send(&["--key", "k1", "-p", "p.toml", "--deadline", "5s"]));
    assert_eq!(order.host.seen().whole, 1);
}

#[test]
fn a_refusal_prints_its_body_and_what_the_partner_says() {
    let reply = Reply::json(422, "{\"error\":{\"message\":\"no such account\"}}");
    let order = Order::to(Script::always(Turn::not_done(Act::Answer(reply))));
    order.sandbox.write("p.toml", "[error]\nmessage = \"/error/message\"\n");
    snapshot!("rejected", order.send(&["--key", "k1", "-p", "p.toml"]));
}

#[test]
fn a_keyless_send_continues_what_is_unsettled_and_a_duplicate_does_not() {
    let order = Order::to(Fault::ExecutedThenSilent.script());
    let first = order.send(&[]);
    // Another seed makes another key: what is continued is found by its payload.
    let second = order.send_seeded("8", &[]);
    assert_eq!(order_count(&order), 1, "{first}\n{second}");
    assert!(second.contains("continues the operation of"), "{second}");
    order.send_seeded("9", &["--accept-duplicate"]);
    assert_eq!(order_count(&order), 2);
    assert_eq!(order.host.seen().executions, 2);
}

fn order_count(order: &Order) -> usize {
    let (code, json) = order.sandbox.status(&["ledger", "list", "--ledger", "l.jsonl", "--format", "json"]);
    assert_eq!(code, 0);
    let document: serde_json::Value = serde_json::from_str(&json).expect("one document");
    document["operations"].as_array().expect("a list").len()
}

#[test]
fn a_document_and_events_hold_the_same_facts() {
    let order = Order::to(Fault::UnavailableTwice.script());
    order.sandbox.write("p.toml", "[retry]\nbase = \"200ms\"\ncap = \"200ms\"\n[idempotency]\nsupported = true\n");
    let document = order.send(&["--key", "k1", "-p", "p.toml", "--format", "json", "--events", "e.jsonl"]);
    let events = order.sandbox.read("e.jsonl");
    snapshot!("document_and_events", format!("{document}\n\n{events}"));
}

#[test]
fn the_answer_goes_into_a_file_or_is_shown_with_its_head() {
    let order = Order::to(Fault::Fine.script());
    let saved = order.send(&["--key", "k1", "-o", "answer.json"]);
    assert_eq!(order.sandbox.read("answer.json"), "{\"key\":\"k1\",\"state\":\"done\"}");
    snapshot!("output_and_include", format!("{saved}\n\n{}", order.send(&["--key", "k2", "-i", "-v"])));
}

#[test]
fn quiet_says_nothing_about_a_success() {
    let order = Order::to(Fault::Fine.script());
    let said = order.send(&["--key", "k1", "-q"]);
    assert_eq!(said, "{\"key\":\"k1\",\"state\":\"done\"}\n----- stderr\n----- exit 0");
}

#[test]
fn a_long_answer_comes_back_whole_from_beside_the_ledger() {
    let body = format!("{{\"text\":\"{}\"}}", "x".repeat(40_000));
    let order = Order::to(Script::always(Turn::done(Act::Answer(Reply::json(201, &body)))));
    for from_ledger in [false, true] {
        let url = order.host.url("/orders");
        let args = ["send", "POST", &url, "--json", "{}", "--ledger", "l.jsonl", "--key", "k1"];
        let output = order.sandbox.abide(&args).output().expect("the binary runs");
        assert_eq!(output.status.code(), Some(0));
        assert_eq!(String::from_utf8_lossy(&output.stdout), body, "from the ledger: {from_ledger}");
    }
    std::fs::remove_dir_all(order.sandbox.path().join("l.jsonl.blobs")).expect("long bodies lie there");
    let said = order.send(&["--key", "k1"]);
    assert!(said.contains("another payload"), "{said}");
    let url = order.host.url("/orders");
    let said = order.sandbox.run(&["send", "POST", &url, "--json", "{}", "--ledger", "l.jsonl", "--key", "k1"]);
    assert!(said.contains("confirmed (known from the ledger") && said.contains("not in the ledger"), "{said}");
    assert!(said.ends_with("----- exit 0"), "{said}");
    assert_eq!(order.host.seen().executions, 1);
}

#[test]
fn what_is_taken_and_not_finished_is_accepted_with_its_body() {
    let order = Order::to(Script::always(Turn::done(Act::Answer(Reply::json(202, "{\"state\":\"queued\"}")))));
    snapshot!("accepted", order.send(&["--key", "k1"]));
    assert_eq!(order.sandbox.status(&["status", "k1", "--ledger", "l.jsonl"]).0, 5);
}

#[test]
fn a_status_endpoint_answers_what_a_lost_answer_left_open() {
    let order = Order::to(Fault::ExecutedThenCut.script());
    let status = "[status]\nurl = \"/status/{key}\"\nconfirmed = { pointer = \"/state\", equals = [\"done\"] }\n";
    order.sandbox.write("p.toml", &format!("base_url = \"{}\"\n{status}", order.host.url("")));
    let args = ["send", "-p", "p.toml", "/orders", "--json", "{}", "--ledger", "l.jsonl", "--key", "k1"];
    snapshot!("status_endpoint", order.sandbox.run(&args));
    assert_eq!(order.host.seen().executions, 1);
}

#[test]
fn a_safe_method_needs_no_ledger_and_its_body_may_come_from_stdin() {
    let order = Order::to(Fault::Fine.script());
    let url = order.host.url("/orders");
    assert_eq!(order.sandbox.status(&["send", &url, "--ledger", "none"]).0, 0);
    order.sandbox.write("body.txt", "line one\nline two\n");
    let body = std::fs::File::open(order.sandbox.path().join("body.txt")).expect("opens");
    let args = ["send", &url, "-d", "-", "-H", "Content-Type: text/plain", "--ledger", "l.jsonl", "--key", "k1"];
    let output = order.sandbox.abide(&args).stdin(body).output().expect("the binary runs");
    assert_eq!(output.status.code(), Some(0));
    let seen = order.host.seen();
    assert_eq!(seen.requests[1].body, b"line one\nline two\n");
    assert_eq!((&*seen.requests[0].method, &*seen.requests[1].method), ("GET", "POST"));
}
