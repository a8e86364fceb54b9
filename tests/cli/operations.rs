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
fn a_key_that_the_partner_honours_fetches_the_lost_answer() {
    let order = Order::to(Fault::KeyHonoured.script());
    let profile = "[retry]\nbase = \"10ms\"\ncap = \"10ms\"\n[idempotency]\nsupported = true\n";
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
    order.sandbox.write("p.toml", "[retry]\nbase = \"10ms\"\ncap = \"10ms\"\n[idempotency]\nsupported = true\n");
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
