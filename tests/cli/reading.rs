//! What a ledger tells a person and a program.

use crate::sandbox::{Host, Sandbox, filters};
use abide::rehearse::partner::Fault;
use insta::assert_snapshot;

/// A ledger with one confirmed operation and one in doubt.
fn ledger() -> Sandbox {
    let sandbox = Sandbox::new();
    let fine = Host::start(Fault::Fine.script());
    let silent = Host::start(Fault::ExecutedThenSilent.script());
    for (host, key) in [(&fine, "k1"), (&silent, "k2")] {
        let url = host.url("/orders?token=sk-live-77aa");
        let args = ["send", "POST", &url, "--json", "{\"n\":1}", "-H", "Authorization: Bearer pw-8841", "--key", key];
        sandbox.run(&[&args[..], &["--ledger", "l.jsonl", "--read-timeout", "200ms"]].concat());
    }
    sandbox
}

#[test]
fn status_and_the_ledger_tell_what_is_known_and_no_secret() {
    let sandbox = ledger();
    let in_ledger = |args: &[&str]| sandbox.run(&[args, &["--ledger", "l.jsonl"]].concat());
    let texts = [
        in_ledger(&["status"]),
        in_ledger(&["status", "k1"]),
        in_ledger(&["status", "k2"]),
        in_ledger(&["status", "k3"]),
        in_ledger(&["ledger", "list"]),
        in_ledger(&["ledger", "list", "--verdict", "confirmed", "--limit", "1"]),
        in_ledger(&["ledger", "show", "k2"]),
        in_ledger(&["ledger", "show", "k3"]),
    ];
    insta::with_settings!({filters => filters()}, { assert_snapshot!("reading", texts.join("\n\n")) });
    let documents = [
        in_ledger(&["status", "--format", "json"]),
        in_ledger(&["status", "k2", "--format", "json"]),
        in_ledger(&["ledger", "list", "--format", "json"]),
        in_ledger(&["ledger", "show", "k1", "--format", "json"]),
    ];
    insta::with_settings!({filters => filters()}, { assert_snapshot!("reading_json", documents.join("\n\n")) });
    for text in texts.iter().chain(&documents).chain([&sandbox.read("l.jsonl")]) {
        assert!(!text.contains("sk-live-77aa") && !text.contains("pw-8841"), "{text}");
    }
}

#[test]
fn a_key_of_several_partners_needs_one_to_be_named() {
    let sandbox = Sandbox::new();
    for name in ["one", "two"] {
        let host = Host::start(Fault::Fine.script());
        sandbox.write(&format!("{name}.toml"), &format!("partner = \"{name}\"\n"));
        let args = ["send", "POST", &host.url("/a"), "--json", "1", "--key", "k", "--ledger", "l.jsonl"];
        sandbox.run(&[&args[..], &["-p", &format!("{name}.toml")]].concat());
    }
    let in_ledger = |args: &[&str]| sandbox.run(&[args, &["--ledger", "l.jsonl"]].concat());
    assert_snapshot!(in_ledger(&["status", "k"]), @r"
    ----- stderr
    error: several partners have the key k: one, two
    hint: choose one: -p one
    ----- exit 2
    ");
    assert!(in_ledger(&["status", "k", "-p", "two"]).starts_with("k: confirmed"));
    assert!(in_ledger(&["status", "k", "-p", "two.toml"]).starts_with("k: confirmed"));
}

#[test]
fn what_is_no_ledger_is_refused_and_left_as_it_is() {
    let sandbox = Sandbox::new();
    sandbox.write("notes.jsonl", "{\"a\":1}\n");
    let url = "http://127.0.0.1:9/";
    let said = sandbox.run(&["send", "POST", url, "--json", "1", "--key", "k", "--ledger", "notes.jsonl"]);
    assert_snapshot!(said, @r"
    ----- stderr
    error: [DIR]/notes.jsonl does not begin with a valid ledger line; it was left as it is
    hint: give --ledger another path
    ----- exit 6
    ");
    assert_eq!(sandbox.read("notes.jsonl"), "{\"a\":1}\n");
}

#[test]
fn a_ledger_in_a_missing_folder_is_made_for_this_user_only() {
    use std::os::unix::fs::PermissionsExt;
    let sandbox = Sandbox::new();
    let host = Host::start(Fault::Fine.script());
    let ledger = "new/folder/l.jsonl";
    let args = ["send", "POST", &host.url("/a"), "--json", "1", "--key", "k", "--ledger", ledger];
    assert_eq!(sandbox.status(&args).0, 0);
    let mode = |name: &str| std::fs::metadata(sandbox.path().join(name)).expect("exists").permissions().mode() & 0o777;
    assert_eq!((mode("new/folder"), mode(ledger)), (0o700, 0o600));
}

#[test]
fn a_torn_tail_is_set_aside_with_one_warning() {
    let sandbox = ledger();
    let text = sandbox.read("l.jsonl");
    sandbox.write("l.jsonl", &text[..text.len() - 9]);
    let host = Host::start(Fault::Fine.script());
    let url = host.url("/a");
    let send = |key: &str| sandbox.run(&["send", "POST", &url, "--json", "1", "--key", key, "--ledger", "l.jsonl"]);
    let first = send("k3");
    assert_eq!(first.matches("warning: [DIR]/l.jsonl: the last line is not whole").count(), 1, "{first}");
    assert!(!send("k4").contains("warning: [DIR]"));
    assert_eq!(sandbox.status(&["status", "k2", "--ledger", "l.jsonl"]).0, 4);
}

#[test]
fn a_rehearsal_says_whether_every_verdict_was_true() {
    let sandbox = Sandbox::new();
    let (code, json) = sandbox.status(&["rehearse", "--format", "json"]);
    assert_eq!(code, 0, "{json}");
    let document: serde_json::Value = serde_json::from_str(&json).expect("one document");
    assert_eq!(document["schema"], "abide.rehearse/1");
    let faults = document["faults"].as_array().expect("a list");
    assert!(faults.len() >= 6);
    assert!(faults.iter().all(|fault| fault["is_true"] == true && fault["executions"].as_u64() <= Some(1)));
    let (code, text) = sandbox.status(&["rehearse", "--fault", "refused"]);
    assert_eq!(code, 0);
    assert!(text.contains("refuses every connection") && text.contains("not done"), "{text}");
}

#[test]
fn status_asks_for_no_secret_and_runs_no_command() {
    let sandbox = Sandbox::new();
    let host = Host::start(Fault::ExecutedThenSilent.script());
    let profile = format!(
        "base_url = \"{}\"\n[timeouts]\nread = \"200ms\"\noverall = \"1s\"\n[auth]\nscheme = \"Bearer\"\ntoken_command = [\"sh\", \"-c\", \"echo ran >> ran.txt; echo pw-8841\"]\n\
         [status]\nurl = \"/nowhere/{{key}}\"\nconfirmed = {{ pointer = \"/state\", equals = [\"done\"] }}\n",
        host.url("")
    );
    sandbox.write("p.toml", &profile);
    let sent = sandbox.run(&["send", "-p", "p.toml", "/orders", "--json", "{}", "--ledger", "l.jsonl", "--key", "k1"]);
    assert!(sent.ends_with("----- exit 4"), "{sent}");
    assert_eq!(sandbox.read("ran.txt"), "ran\n");
    let status = sandbox.run(&["status", "k1", "--ledger", "l.jsonl"]);
    assert!(status.contains("asks the partner what happened"), "{status}");
    let list = sandbox.run(&["status", "--ledger", "l.jsonl"]);
    assert!(list.contains("ask the partner"), "{list}");
    assert_eq!(sandbox.read("ran.txt"), "ran\n");
}
