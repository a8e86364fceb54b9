//! What persons record, and what the ledger says about itself.

use crate::replay::Shop;
use crate::sandbox::{Host, Sandbox, filters};
use abide::rehearse::partner::{Act, Fault, Reply, Script, Turn};
use insta::assert_snapshot;
use serde_json::Value;

/// `k1` is confirmed, `k2` in doubt without a way to ask.
fn shop() -> Shop {
    shop_with("")
}

fn shop_with(rules: &str) -> Shop {
    let shop = Shop::new(Script::first([Turn::fine(), Turn::done(Act::Fin)], Turn::fine()), rules);
    assert_eq!([shop.send("k1", &[]), shop.send("k2", &[])], [0, 4]);
    shop
}

fn in_ledger(sandbox: &Sandbox, args: &[&str]) -> String {
    sandbox.run(&[args, &["--ledger", "l.jsonl"]].concat())
}

#[test]
fn a_person_decides_what_is_in_doubt_and_never_against_proof() {
    let shop = shop();
    let resolve = |words: &[&str]| in_ledger(&shop.sandbox, &[&["resolve"], words].concat());
    let texts = [
        resolve(&["k1", "--not-done", "--note", "not on their list"]),
        resolve(&["k1", "--confirmed", "--note", "seen"]),
        resolve(&["k2", "--not-done", "--note", "asked Ann on the phone"]),
        resolve(&["k9", "--not-done", "--note", "x"]),
    ];
    let by = |text: &str| {
        let (head, rest) = text.split_once("said by ").unwrap_or((text, ""));
        let rest = rest.split_once(": ").map(|(_, rest)| format!("said by [WHO]: {rest}")).unwrap_or_default();
        format!("{head}{rest}")
    };
    insta::with_settings!({filters => filters()}, {
        assert_snapshot!("resolve", texts.each_ref().map(String::as_str).map(by).join("\n\n"));
    });
    assert_eq!(shop.state("k2"), 3);
    assert!(shop.replay(&["k2"]).ends_with("exit 0"), "it may be sent again now");
    let (code, json) = shop.sandbox.status(&[
        "resolve",
        "k2",
        "--confirmed",
        "--note",
        "x",
        "--format",
        "json",
        "--ledger",
        "l.jsonl",
    ]);
    let document: Value = serde_json::from_str(&json).expect("one document");
    assert_eq!((code, &document["schema"]), (0, &Value::from("abide.resolve/1")));
    assert_eq!((&document["recorded"], &document["state"]), (&Value::from(false), &Value::from("confirmed")));
    assert_eq!(shop.host.seen().whole, 3);
}

#[test]
fn what_a_person_confirmed_is_not_sent_and_not_due() {
    let shop = shop();
    assert!(in_ledger(&shop.sandbox, &["resolve", "k2", "--confirmed", "--note", "seen"]).ends_with("exit 0"));
    assert_eq!(shop.state("k2"), 0);
    assert_eq!(shop.send("k2", &[]), 0);
    assert!(shop.replay(&[]).starts_with("0 operations due\n"));
    assert_eq!(shop.host.seen().whole, 2);
}

#[test]
fn an_export_has_the_documented_columns_in_both_formats() {
    let shop = shop();
    let csv = in_ledger(&shop.sandbox, &["ledger", "export", "--format", "csv"]);
    let jsonl = in_ledger(&shop.sandbox, &["ledger", "export"]);
    let mut hidden = filters();
    hidden.push((r",1,\d+,POST", ",1,[MS],POST"));
    insta::with_settings!({filters => hidden}, { assert_snapshot!("export", format!("{csv}\n\n{jsonl}")) });
    let help = shop.sandbox.status(&["ledger", "export", "--help"]).1;
    let head = csv.lines().next().expect("a head line").trim_end().to_owned();
    for column in head.split(',') {
        assert!(help.contains(&format!("\n  {column} ")), "{column} is documented");
        assert!(jsonl.contains(&format!("\"{column}\":")), "{column} is in both");
    }
    assert!(in_ledger(&shop.sandbox, &["ledger", "export", "--format", "xml"]).ends_with("exit 2"));
}

#[test]
fn a_list_is_narrowed_by_time_state_and_partner() {
    let shop = shop();
    let count = |more: &[&str]| {
        let (code, json) =
            shop.sandbox.status(&[&["ledger", "list", "--format", "json", "--ledger", "l.jsonl"], more].concat());
        let document: Value = serde_json::from_str(&json).expect("one document");
        (code, document["operations"].as_array().expect("a list").len())
    };
    assert_eq!(count(&["--since", "1h"]), (0, 2));
    assert_eq!(count(&["--since", "2026-11-30T10:00:01Z"]), (0, 0));
    assert_eq!(count(&["--verdict", "in-doubt", "--partner", "acme"]), (0, 1));
    assert!(in_ledger(&shop.sandbox, &["ledger", "list", "--since", "monday"]).ends_with("exit 2"));
}

#[test]
fn damage_is_found_named_and_accepted_only_by_a_person() {
    let shop = shop();
    let clean = in_ledger(&shop.sandbox, &["ledger", "verify"]);
    // A letter of the first settled line, which was acknowledged.
    let text = shop.sandbox.read("l.jsonl").replacen("\"t\":\"settled\"", "\"t\":\"sEttled\"", 1);
    shop.sandbox.write("l.jsonl", &text);
    let damaged = in_ledger(&shop.sandbox, &["ledger", "verify"]);
    let refused = shop.replay(&["k2", "--accept-duplicate", "--yes"]);
    let accepted = in_ledger(&shop.sandbox, &["ledger", "verify", "--accept-loss"]);
    insta::with_settings!({filters => verify_filters()}, {
        assert_snapshot!("verify", format!("{clean}\n\n{damaged}\n\n{accepted}"));
    });
    assert!(refused.ends_with("exit 6"), "{refused}");
    assert_eq!(shop.state("k1"), 4, "what was lost counts as in doubt");
    let (code, json) = shop.sandbox.status(&["ledger", "verify", "--format", "json", "--ledger", "l.jsonl"]);
    let document: Value = serde_json::from_str(&json).expect("one document");
    assert_eq!((code, &document["schema"]), (0, &Value::from("abide.ledger.verify/1")));
    assert_eq!(shop.host.seen().whole, 2, "nothing was sent with a damaged ledger");
}

/// Ports, pids and hosts change the length of lines.
fn verify_filters() -> Vec<(&'static str, &'static str)> {
    let mut all = filters();
    all.extend([(r"\d+ (acknowledged |damaged )?bytes", "[N] ${1}bytes"), (r"byte \d+", "byte [N]")]);
    all
}

#[test]
fn a_torn_end_is_repaired_without_a_loss() {
    let shop = shop();
    let text = shop.sandbox.read("l.jsonl");
    shop.sandbox.write("l.jsonl", &format!("{text}{{\"t\":\"sta"));
    let found = in_ledger(&shop.sandbox, &["ledger", "verify"]);
    assert!(found.contains("abide ledger verify --repair") && found.ends_with("exit 6"), "{found}");
    let repaired = in_ledger(&shop.sandbox, &["ledger", "verify", "--repair"]);
    assert!(repaired.contains("nothing is wrong") && repaired.ends_with("exit 0"), "{repaired}");
    assert_eq!([shop.state("k1"), shop.state("k2")], [0, 4]);
}

#[test]
fn a_rehearsal_of_a_profile_needs_none_of_its_secrets() {
    let sandbox = Sandbox::new();
    sandbox.write("p.toml", "[auth]\nscheme = \"Bearer\"\ntoken_env = \"NO_SUCH_TOKEN\"\n");
    assert_eq!(sandbox.status(&["rehearse", "-p", "p.toml", "--fault", Fault::Refused.slug()]).0, 0);
}

#[test]
fn long_bodies_are_erased_at_once_and_what_is_still_needed_is_said() {
    let answer = format!("{{\"text\":\"{}\"}}", "x".repeat(40_000));
    let host = Host::start(Script::always(Turn::done(Act::Answer(Reply::json(201, &answer)))));
    let sandbox = Sandbox::new();
    sandbox.write("order.json", &format!("{{\"text\":\"{}\"}}", "y".repeat(40_000)));
    for key in ["k1", "k2"] {
        let url = host.url("/orders");
        let args = ["send", "POST", &url, "--json", "@order.json", "--ledger", "l.jsonl", "--key", key];
        assert_eq!(sandbox.status(&args).0, 0, "{key}");
    }
    let folder = sandbox.path().join("l.jsonl.blobs");
    let left = || std::fs::read_dir(&folder).expect("a folder").count();
    let said = [
        in_ledger(&sandbox, &["ledger", "forget", "k1"]),
        in_ledger(&sandbox, &["ledger", "forget", "k2"]),
        {
            assert_eq!(left(), 0, "they were written a moment ago");
            std::fs::write(folder.join("0".repeat(64)), "a killed process left it").expect("writes");
            in_ledger(&sandbox, &["ledger", "forget", "k2"])
        },
        {
            assert_eq!(left(), 0);
            std::fs::create_dir(folder.join("0".repeat(64))).expect("a folder where a body should be");
            in_ledger(&sandbox, &["ledger", "compact"])
        },
    ];
    assert!(
        said[0].contains("because other operations have the same: 2 bodies") && said[0].ends_with("exit 0"),
        "{}",
        said[0]
    );
    assert!(said[1].contains("payload and answer are erased") && said[1].ends_with("exit 0"), "{}", said[1]);
    assert!(said[2].contains("removed 1 body beside it that nothing needs any more"), "{}", said[2]);
    assert!(said[3].contains("not everything is erased") && said[3].ends_with("exit 6"), "{}", said[3]);
}

#[test]
fn an_operation_is_forgotten_when_its_profile_says_so() {
    let shop = shop_with("[ledger]\nkeep_full = '1h'\nforget_after = '2h'\n");
    let at = |now: &str, words: &[&str]| {
        let args = [words, &["--ledger", "l.jsonl"]].concat();
        shop.sandbox.shown(&shop.sandbox.abide(&args).env("ABIDE_TEST_NOW", now).output().expect("the binary runs"))
    };
    let (early, late) = ("2026-11-30T11:30:00Z", "2026-11-30T13:00:00Z");
    let compacted = at(early, &["ledger", "compact"]);
    assert!(compacted.starts_with("1 operation compacted: ") && compacted.ends_with("exit 0"), "{compacted}");
    assert_eq!([shop.send("k1", &[]), shop.state("k1")], [0, 0]);
    let forgotten = at(late, &["ledger", "compact"]);
    assert!(forgotten.starts_with("1 operation forgotten with the key: "), "{forgotten}");
    assert!(at(late, &["ledger", "verify"]).ends_with("exit 0"));
    let unknown = at(late, &["status", "k1"]);
    assert!(unknown.contains("no operation with the key k1") && unknown.ends_with("exit 2"), "{unknown}");
    let listed = at(late, &["ledger", "list"]);
    assert!(listed.contains("k2") && !listed.contains("k1"), "{listed}");
    assert!(!at(late, &["ledger", "export"]).contains("k1"));
    assert_eq!([shop.send("k1", &[]), shop.state("k1"), shop.state("k2")], [0, 0, 4]);
    let json = at("2026-12-01T13:00:00Z", &["ledger", "compact", "--format", "json"]);
    assert!(json.contains(r#""operations":0,"operations_forgotten":1,"#), "{json}");
    assert_eq!(shop.host.seen().whole, 3, "a key that is forgotten is a new one");
}

#[test]
fn a_payload_is_forgotten_and_its_key_is_not() {
    let shop = shop();
    let ledger = |words: &[&str]| in_ledger(&shop.sandbox, &[&["ledger"], words].concat());
    let compacted = ledger(&["compact"]);
    assert!(compacted.contains("nothing is old enough") && compacted.ends_with("exit 0"), "{compacted}");
    let refused = ledger(&["forget", "k2"]);
    assert!(refused.contains("k2 is in doubt: without its payload") && refused.ends_with("exit 2"), "{refused}");
    let whole = shop.sandbox.read("l.jsonl");
    let forgotten = ledger(&["forget", "k1"]);
    assert!(forgotten.contains("k1: payload and answer are erased") && forgotten.ends_with("exit 0"), "{forgotten}");
    let left = shop.sandbox.read("l.jsonl");
    let bodies = |text: &str| text.matches("\"body\":{\"s\":").count();
    assert!(bodies(&left) < bodies(&whole), "{left}");
    let again = ledger(&["forget", "k1"]);
    assert!(again.contains("there is nothing left to forget"), "{again}");
    assert_eq!((shop.send("k1", &[]), shop.state("k2")), (0, 4));
    assert!(ledger(&["verify"]).ends_with("exit 0"));
    assert_eq!(shop.host.seen().whole, 2, "the key is still known: nothing was sent again");
}

#[test]
fn a_ledger_in_what_is_no_folder_is_refused_with_its_path_and_nothing_is_sent() {
    let (sandbox, host) = (Sandbox::new(), Host::start(Fault::Fine.script()));
    sandbox.write("f", "a file");
    let send = ["send", &host.url("/orders"), "--json", "{}", "--key", "k", "--ledger", "f/l.jsonl"];
    for args in [&send[..], &["status", "k", "--ledger", "f/l.jsonl"], &["replay", "--ledger", "f/l.jsonl"]] {
        let said = sandbox.run(args);
        assert!(said.contains("f/l.jsonl: Not a directory") && said.ends_with("exit 6"), "{said}");
    }
    assert_eq!(sandbox.read("f"), "a file");
    assert_eq!(host.seen().requests.len(), 0);
}
