//! Replays: what is selected, what is sent, what is told.

use crate::sandbox::{Host, Sandbox, filters};
use abide::rehearse::partner::{Act, Reply, Script, Turn};
use insta::assert_snapshot;
use serde_json::Value;
use std::process::Stdio;
use std::time::Duration;

/// A partner's rules: a 503 is a refusal, waits are short.
const RULES: &str = "[timeouts]\nread = \"5s\"\n[retry]\nmax_attempts = 2\nbase = \"10ms\"\ncap = \"10ms\"\n\
                     [classify]\nrefused = [503]\n";

/// A partner, a folder with its profile `p.toml`, and a ledger.
pub struct Shop {
    pub sandbox: Sandbox,
    pub host: Host,
}

impl Shop {
    pub fn new(script: Script, rules: &str) -> Shop {
        let shop = Shop { sandbox: Sandbox::new(), host: Host::start(script) };
        shop.profile("p.toml", "acme", rules);
        shop
    }

    pub fn profile(&self, file: &str, partner: &str, rules: &str) {
        let head = format!("partner = \"{partner}\"\nbase_url = \"{}\"\n", self.host.url(""));
        self.sandbox.write(file, &(head + rules));
    }

    /// Sends one order once and returns the status.
    pub fn send(&self, key: &str, more: &[&str]) -> i32 {
        let args = ["send", "-p", "p.toml", "--ledger", "l.jsonl", "--key", key, "--max-attempts", "1"];
        let more: &[&str] = if more.is_empty() { &["/orders", "--json", "{\"n\": 1}"] } else { more };
        self.sandbox.status(&[&args[..], more].concat()).0
    }

    pub fn replay(&self, more: &[&str]) -> String {
        self.sandbox.run(&[&["replay", "--ledger", "l.jsonl"], more].concat())
    }

    /// Replays and returns the status and the document.
    pub fn document(&self, more: &[&str]) -> (i32, Value) {
        let (code, json) =
            self.sandbox.status(&[&["replay", "--ledger", "l.jsonl", "--format", "json"], more].concat());
        let document: Value = serde_json::from_str(&json).expect("one document");
        assert_eq!(document["exit"], code, "{json}");
        (code, document)
    }

    pub fn state(&self, key: &str) -> i32 {
        self.sandbox.status(&["status", key, "--ledger", "l.jsonl"]).0
    }
}

fn unavailable() -> Turn {
    Turn::not_done(Act::Answer(Reply::status(503)))
}

/// Three orders: `k1` not done, `k2` confirmed, `k3` in doubt without a way to ask. What comes later is done.
fn mixed() -> Shop {
    let shop = Shop::new(Script::first([unavailable(), Turn::fine(), Turn::done(Act::Fin)], Turn::fine()), RULES);
    assert_eq!([shop.send("k1", &[]), shop.send("k2", &[]), shop.send("k3", &[])], [3, 0, 4]);
    shop
}

#[test]
fn only_what_is_unsettled_and_safe_is_sent_with_the_stored_bytes() {
    let shop = mixed();
    let plan = shop.replay(&["--dry-run"]);
    let replayed = shop.replay(&["--report-junit", "report.xml"]);
    let again = shop.replay(&["--only", "not-done,accepted"]);
    let folder = shop.sandbox.path().display().to_string();
    let junit = without_times(&shop.sandbox.read("report.xml")).replace(&folder, "[DIR]");
    insta::with_settings!({filters => filters()}, {
        assert_snapshot!("replay_mixed", format!("{plan}\n\n{replayed}\n\n{again}\n\n{junit}"));
    });
    let seen = shop.host.seen();
    assert_eq!((seen.whole, seen.executions), (4, 3));
    assert_eq!(seen.requests[3].key(), Some("k1"));
    for request in &seen.requests {
        assert_eq!(request.body, b"{\"n\": 1}");
        assert_eq!(request.header("content-type"), Some("application/json"));
    }
}

/// Hides the seconds of a JUnit report.
fn without_times(junit: &str) -> String {
    let parts = junit.split(" time=\"").enumerate().map(|(at, part)| match (at, part.split_once('"')) {
        (0, _) | (_, None) => part.to_owned(),
        (_, Some((_, rest))) => format!(" time=\"[S]\"{rest}"),
    });
    parts.collect()
}

#[test]
fn a_document_counts_everything_that_was_selected() {
    let shop = mixed();
    let (code, document) = shop.document(&[]);
    assert_eq!((code, &document["schema"]), (4, &Value::from("abide.replay/1")));
    assert_eq!((&document["selected"], &document["run"]), (&Value::from(2), &Value::from(1)));
    assert_eq!((&document["counts"]["confirmed"], &document["counts"]["in_doubt"]), (&Value::from(1), &Value::from(1)));
    let operations = document["operations"].as_array().expect("a list");
    assert_eq!((&operations[0]["key"], &operations[0]["run"]), (&Value::from("k1"), &Value::from(true)));
    assert!(operations[1]["why"].as_str().expect("a reason").contains("no status endpoint"), "{document}");
    let (code, document) = shop.document(&["k2"]);
    assert_eq!((code, &document["operations"][0]["why"]), (0, &Value::from("it is done")));
    assert_eq!(shop.host.seen().executions, 3);
}

#[test]
fn what_was_refused_for_good_is_tried_again_only_where_that_is_said() {
    let refusal = Turn::not_done(Act::Answer(Reply::json(422, "{}")));
    let shop = Shop::new(Script::first([refusal], Turn::fine()), RULES);
    assert_eq!(shop.send("k1", &[]), 1);
    assert!(shop.replay(&[]).contains("0 operations due\n"));
    let named = shop.replay(&["k1"]);
    assert!(named.contains("--only rejected tries it again") && named.ends_with("exit 1"), "{named}");
    assert!(shop.replay(&["k1", "--only", "rejected"]).ends_with("exit 0"));
    let seen = shop.host.seen();
    assert_eq!((seen.whole, seen.executions), (2, 1));
}

#[test]
fn refused_credentials_stop_the_batch_of_that_partner_only() {
    let denied = Turn::not_done(Act::Answer(Reply::status(401)));
    let shop = Shop::new(Script::first(vec![unavailable(); 4], denied), RULES);
    for key in ["a1", "a2", "a3"] {
        assert_eq!(shop.send(key, &[]), 3);
    }
    shop.profile("p.toml", "other", RULES);
    assert_eq!(shop.send("b1", &[]), 3);
    let said = shop.replay(&[]);
    assert_eq!(said.matches("acme refused the credentials before").count(), 2 + 2, "{said}");
    assert!(said.ends_with("exit 3"), "{said}");
    let keys: Vec<_> = shop.host.seen().requests[4..].iter().map(|request| request.key().map(str::to_owned)).collect();
    assert_eq!(keys, [Some("a1".to_owned()), Some("b1".to_owned())]);
}

#[test]
fn a_profile_selects_its_partner_and_a_key_of_nobody_is_refused() {
    let shop = mixed();
    shop.profile("other.toml", "other", RULES);
    assert!(shop.replay(&["-p", "other.toml"]).contains("0 operations due\n"));
    assert_snapshot!(shop.replay(&["-p", "other.toml", "k1", "--ledger-unsafe-fs"]), @r"
    ----- stderr
    error: no operation with the key k1 of other in [DIR]/l.jsonl
    hint: abide ledger list shows what there is; another ledger is chosen with --ledger
    ----- exit 2
    ");
    assert!(shop.replay(&["k1", "k9"]).ends_with("exit 2"));
    assert_eq!(shop.host.seen().whole, 3, "nothing was sent");
}

#[test]
fn a_profile_that_is_gone_or_names_another_address_refuses_its_operations() {
    let shop = mixed();
    shop.sandbox.write("moved.toml", &format!("partner = \"acme\"\nbase_url = \"http://127.0.0.1:9\"\n{RULES}"));
    let moved = shop.replay(&["-p", "moved.toml", "k1"]);
    assert!(
        moved.contains("moved.toml: the profile is for http://127.0.0.1:9") && moved.ends_with("exit 2"),
        "{moved}"
    );
    assert!(moved.contains(&shop.host.url("")), "both are named: {moved}");
    std::fs::remove_file(shop.sandbox.path().join("p.toml")).expect("is there");
    let gone = shop.replay(&["k1"]);
    assert!(gone.contains("p.toml: ") && gone.contains("--force-profile") && gone.ends_with("exit 2"), "{gone}");
    let forced = shop.replay(&["-p", "moved.toml", "k1", "--force-profile"]);
    assert!(forced.ends_with("exit 0"), "{forced}");
    assert_eq!(shop.host.seen().requests[3].key(), Some("k1"));
}

#[test]
fn a_whole_default_ledger_is_replayed_only_where_that_is_said() {
    let shop = Shop::new(Script::first([unavailable()], Turn::fine()), RULES);
    let send = ["send", "-p", "p.toml", "--key", "k1", "/orders", "--json", "1", "--max-attempts", "1"];
    assert_eq!(shop.sandbox.status(&send).0, 3);
    let said = shop.sandbox.run(&["replay"]);
    assert!(said.contains("k1 ") && said.contains("--all takes them all") && said.ends_with("exit 2"), "{said}");
    assert_eq!(shop.sandbox.status(&["replay", "--dry-run"]).0, 0);
    assert_eq!(shop.sandbox.status(&["replay", "--all"]).0, 0);
    assert_eq!(shop.sandbox.status(&["replay"]).0, 0, "nothing is due, so there is nothing to ask");
    assert_eq!(shop.host.seen().whole, 2);
}

#[test]
fn doubt_is_resent_only_by_whoever_accepts_a_duplicate() {
    let shop = mixed();
    let unconfirmed = shop.replay(&["k3", "--accept-duplicate"]);
    assert!(unconfirmed.contains("--yes says that it is meant") && unconfirmed.ends_with("exit 2"), "{unconfirmed}");
    assert_eq!(shop.state("k3"), 4);
    assert!(shop.replay(&["k3", "--accept-duplicate", "--yes"]).ends_with("exit 0"));
    assert_eq!(shop.host.seen().executions, 3);
}

#[test]
fn a_status_endpoint_is_asked_before_anything_is_sent_again() {
    let status = "[idempotency]\nsupported = true\n[status]\nurl = \"/status/{key}\"\n\
                  confirmed = { pointer = \"/state\", equals = [\"done\"] }\n";
    let shop = Shop::new(Script::always(Turn::done(Act::Fin)), RULES);
    assert_eq!(shop.send("k1", &[]), 4);
    shop.profile("p.toml", "acme", &format!("{RULES}{status}"));
    assert!(shop.replay(&["k1"]).contains("asked the partner: confirmed"));
    let seen = shop.host.seen();
    assert_eq!((seen.whole, seen.questions, seen.executions), (1, 1, 1));
}

#[test]
fn a_write_is_not_undone_by_an_older_one_and_writes_keep_their_order() {
    let script = Script::first([unavailable(), unavailable(), unavailable(), Turn::fine()], Turn::fine());
    let shop = Shop::new(script, RULES);
    let put = |path: &str, body: &str| ["PUT".to_owned(), path.to_owned(), "--json".to_owned(), body.to_owned()];
    let send = |key: &str, words: [String; 4]| shop.send(key, &words.each_ref().map(String::as_str));
    assert_eq!(send("old", put("/a", "1")), 3);
    assert_eq!(send("x1", put("/b", "1")), 3);
    assert_eq!(send("x2", put("/b", "2")), 3);
    assert_eq!(send("new", put("/a", "2")), 0);
    let said = shop.replay(&["--jobs", "8"]);
    assert!(said.contains("old: not done; not sent: a later write to the same URL is confirmed"), "{said}");
    let seen = shop.host.seen();
    let keys: Vec<_> = seen.requests[4..].iter().map(|request| request.key()).collect();
    assert_eq!(keys, [Some("x1"), Some("x2")]);
}

#[test]
fn what_is_not_due_yet_is_listed_and_not_sent() {
    let later = Turn::not_done(Act::Answer(Reply::status(503).header("Retry-After", "600")));
    let shop = Shop::new(Script::always(later), RULES);
    assert_eq!(shop.send("k1", &[]), 3);
    let said = shop.replay(&["--deadline", "5s"]);
    assert!(said.contains("k1: not done; not sent: not due before ") && said.ends_with("exit 3"), "{said}");
    assert_eq!(shop.host.seen().whole, 1);
}

#[test]
fn the_end_of_everything_leaves_the_rest_as_it_was() {
    let slow = Turn::done(Act::Answer(Reply::json(201, "{}").after(Duration::from_millis(200))));
    let shop = Shop::new(Script::first(vec![unavailable(); 3], slow), RULES);
    for key in ["k1", "k2", "k3"] {
        assert_eq!(shop.send(key, &[]), 3);
    }
    let (code, document) = shop.document(&["--rate", "1/s", "--total-deadline", "900ms"]);
    assert_eq!((code, &document["run"]), (3, &Value::from(1)), "{document}");
    assert_eq!(document["operations"][2]["why"], "--total-deadline was over before it was begun");
    assert_eq!(shop.host.seen().executions, 1);
}

/// Also while the next operations are claimed before the outcomes of those before are on the disk.
#[test]
fn no_more_requests_are_under_way_than_jobs_says() {
    let slow = Turn::done(Act::Answer(Reply::json(201, "{}").after(Duration::from_millis(20))));
    let shop = Shop::new(Script::first(vec![unavailable(); 12], slow), RULES);
    for at in 0..12 {
        assert_eq!(shop.send(&format!("k{at}"), &[]), 3);
    }
    assert!(shop.replay(&["--jobs", "3", "--events", "events.jsonl"]).ends_with("exit 0"));
    let (mut under_way, mut most) = (0, 0);
    for line in shop.sandbox.read("events.jsonl").lines() {
        let event: Value = serde_json::from_str(line).expect("JSON");
        match event["event"].as_str() {
            Some("started") => under_way += 1,
            Some("finished") => under_way -= 1,
            _ => {}
        }
        most = most.max(under_way);
    }
    assert_eq!((most, under_way), (3, 0));
    assert_eq!(shop.host.seen().executions, 12);
}

#[test]
fn two_replays_share_the_work() {
    let slow = Turn::done(Act::Answer(Reply::json(201, "{}").after(Duration::from_millis(30))));
    let shop = Shop::new(Script::first(vec![unavailable(); 12], slow), RULES);
    for at in 0..12 {
        assert_eq!(shop.send(&format!("k{at}"), &[]), 3);
    }
    let args = ["replay", "--ledger", "l.jsonl", "--jobs", "2", "--format", "json"];
    let children: Vec<_> =
        (0..2).map(|_| shop.sandbox.abide(&args).stdout(Stdio::piped()).spawn().expect("runs")).collect();
    for child in children {
        let output = child.wait_with_output().expect("ends");
        let document: Value = serde_json::from_slice(&output.stdout).expect("one document");
        assert!(matches!(output.status.code(), Some(0 | 5)), "{document}");
    }
    assert_eq!(shop.sandbox.status(&["status", "--ledger", "l.jsonl"]).1, "nothing is unsettled\n");
    let seen = shop.host.seen();
    assert_eq!((seen.whole, seen.executions), (24, 12));
}

#[test]
fn a_body_of_which_only_a_hash_is_kept_has_to_be_given_again_exactly() {
    let rules = format!("{RULES}[ledger]\nstore_body = \"hash\"\n");
    let shop = Shop::new(Script::first([unavailable()], Turn::fine()), &rules);
    assert_eq!(shop.send("k1", &[]), 3);
    assert!(!shop.sandbox.read("l.jsonl").contains("\\\"n\\\""), "the body is not kept");
    let bodiless = shop.replay(&["k1"]);
    assert!(bodiless.contains("only a hash of its body") && bodiless.ends_with("exit 2"), "{bodiless}");
    let other = shop.replay(&["k1", "-d", "{\"n\":1}"]);
    assert!(other.contains("is another one: SHA-256") && other.ends_with("exit 2"), "{other}");
    // The same JSON with other blanks has the same fingerprint, and not the same bytes.
    let sent = shop.send("k1", &["/orders", "--json", "{\"n\":1}"]);
    assert_eq!(sent, 2);
    assert!(shop.replay(&["k1", "-d", "{\"n\": 1}"]).ends_with("exit 0"));
    let seen = shop.host.seen();
    assert_eq!((seen.whole, &seen.requests[1].body[..]), (2, &b"{\"n\": 1}"[..]));
}

#[test]
fn a_control_is_found_in_the_ledger_by_a_send_and_by_a_replay() {
    let status = "[status]\nurl = \"/status/{key}\"\nconfirmed = { pointer = \"/state\", equals = [\"done\"] }\n\
                  absent = [404]\nsettle = \"50ms\"\n";
    let lost = Turn::not_done(Act::Fin);
    let shop = Shop::new(
        Script::first([Turn::fine(), lost.clone(), Turn::fine(), lost], Turn::fine()),
        &RULES.replace("max_attempts = 2", "max_attempts = 5"),
    );
    assert_eq!(shop.send("good", &[]), 0);
    shop.profile("p.toml", "acme", &format!("{}{status}", RULES.replace("max_attempts = 2", "max_attempts = 5")));
    let args = ["send", "-p", "p.toml", "--ledger", "l.jsonl", "--key", "k1", "/orders", "--json", "1"];
    let sent = shop.sandbox.run(&args);
    assert!(sent.contains("asked about a control operation: confirmed") && sent.ends_with("exit 0"), "{sent}");
    assert_eq!(shop.send("k2", &[]), 3, "proven absent, and no attempt is left");
    assert_eq!(shop.host.seen().executions, 2);
}

#[test]
fn a_worker_keeps_its_connection_only_where_a_lost_answer_hurts_nobody() {
    for (keys, connections) in [("[idempotency]\nsupported = true\n", 1), ("", 6)] {
        let shop = Shop::new(Script::first(vec![unavailable(); 6], Turn::fine()), &format!("{RULES}{keys}"));
        for at in 0..6 {
            assert_eq!(shop.send(&format!("k{at}"), &[]), 3);
        }
        assert!(shop.replay(&[]).ends_with("exit 0"));
        let seen = shop.host.seen();
        assert_eq!((seen.connections, seen.executions), (6 + connections, 6), "{keys}");
    }
}

#[test]
fn an_empty_ledger_has_nothing_due_and_a_missing_one_is_an_error() {
    let sandbox = Sandbox::new();
    sandbox.write("empty.jsonl", "");
    assert_eq!(sandbox.status(&["replay", "--ledger", "empty.jsonl"]), (0, "0 operations due\n".into()));
    assert_eq!(sandbox.status(&["replay", "--ledger", "missing.jsonl"]).0, 2);
}
