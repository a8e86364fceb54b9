//! What is refused before anything is sent: the message, the hint, the status.

use crate::sandbox::{Sandbox, filters};
use insta::assert_snapshot;

fn refused(sandbox: &Sandbox, args: &[&str]) -> String {
    let output = sandbox.abide(args).output().expect("the binary runs");
    assert_eq!(output.status.code(), Some(2), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    assert!(output.stdout.is_empty(), "{args:?}: stdout is for answers");
    String::from_utf8_lossy(&output.stderr).replace(&sandbox.path().display().to_string(), "[DIR]")
}

#[test]
fn what_is_wrong_with_the_arguments_is_said_in_a_sentence_with_a_hint() {
    let sandbox = Sandbox::new();
    let post = ["send", "POST", "http://127.0.0.1:9/", "-d", "1", "--ledger", "l.jsonl"];
    let with = |more: &[&str]| refused(&sandbox, &[&post[..], more].concat());
    let cases = [
        with(&["--deadline", "5"]),
        with(&["--deadline", "0s"]),
        with(&["-m", "@09:59"]),
        with(&["--read-timeout", "-1s"]),
        with(&["--max-attempts", "0"]),
        with(&["--key", ""]),
        with(&["--key", " k"]),
        with(&["--key", &"k".repeat(256)]),
        with(&["--key-from", "/id"]),
        with(&["-H", "X-A: b\r\nX-B: c"]),
        with(&["-H", "X-A"]),
        with(&["-u", "bob"]),
        with(&["-o", "/no/such/folder/answer"]),
        with(&["--ledger-unsafe-fs", "--format", "xml"]),
        with(&["--retry", "3"]),
        with(&["-x", "proxy.example:3128"]),
        with(&["-x", "https://proxy.example:443"]),
        with(&["-x", "http://bob:s3cret@proxy.example"]),
        with(&["--resolve", "api.example:192.0.2.7"]),
        with(&["-L"]),
        with(&["-p", "nowhere"]),
        refused(&sandbox, &["send", "POST", "/orders", "-d", "1"]),
        refused(&sandbox, &["send", "POST", "api.example/orders", "-d", "1"]),
        refused(&sandbox, &["send", "POST", "ftp://api.example/orders", "-d", "1"]),
        refused(&sandbox, &["send", "POTS", "http://127.0.0.1:9/"]),
        refused(&sandbox, &["send", "POST", "http://127.0.0.1:9/", "-d", "@missing.json"]),
        refused(&sandbox, &["send", "POST", "http://127.0.0.1:9/", "--ledger", "none"]),
        refused(&sandbox, &["send", "POST", "http://127.0.0.1:9/", "--ledger", "postgres://h/d"]),
        refused(&sandbox, &["serve"]),
        refused(&sandbox, &["replay", "--only", "failed", "--ledger", "l.jsonl"]),
        refused(&sandbox, &["replay", "--ledger", "missing.jsonl"]),
        refused(&sandbox, &["resolve", "k1", "--ledger", "missing.jsonl"]),
        refused(&sandbox, &["resolve", "k1", "--confirmed", "--note", " ", "--ledger", "missing.jsonl"]),
        refused(&sandbox, &["status", "--ledger", "missing.jsonl"]),
        refused(&sandbox, &["rehearse", "--scale", "0"]),
    ];
    insta::with_settings!({filters => filters()}, { assert_snapshot!(cases.concat()) });
    assert!(!sandbox.path().join("l.jsonl").exists(), "nothing is recorded");
}

#[test]
fn with_ci_set_a_ledger_has_to_be_chosen() {
    let sandbox = Sandbox::new();
    let output = sandbox
        .abide(&["send", "POST", "http://127.0.0.1:9/", "-d", "1", "-H", "Content-Type: text/plain"])
        .env("CI", "true")
        .output()
        .expect("the binary runs");
    assert_snapshot!(sandbox.shown(&output), @r"
    ----- stderr
    error: this ledger would end with the job: pass --ledger (or --ledger default)
    hint: CI is set; choose a path that outlives the job, or a file that the job keeps
    ----- exit 2
    ");
}

#[test]
fn an_empty_variable_is_unset_and_a_flag_beats_a_variable() {
    let sandbox = Sandbox::new();
    let dry = ["send", "POST", "http://127.0.0.1:9/", "--json", "1", "--key", "k", "--dry-run", "--ledger", "l"];
    let shown = |name: &str, value: &str, more: &[&str]| {
        let args = [&dry[..], more].concat();
        let output = sandbox.abide(&args).env(name, value).output().expect("the binary runs");
        sandbox.shown(&output).lines().find(|line| line.starts_with("deadline")).unwrap_or_default().to_owned()
    };
    assert_eq!(shown("ABIDE_DEADLINE", "", &[]), "deadline     2m30s, at most 5 attempts");
    assert_eq!(shown("ABIDE_DEADLINE", "7s", &[]), "deadline     7s, at most 5 attempts");
    assert_eq!(shown("ABIDE_DEADLINE", "7s", &["-m", "9s"]), "deadline     9s, at most 5 attempts");
    assert_eq!(shown("ABIDE_MAX_ATTEMPTS", "2", &[]), "deadline     2m30s, at most 2 attempts");
    let output = sandbox.abide(&dry).env("ABIDE_READ_TIMEOUT", "600").output().expect("the binary runs");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.starts_with("error: ABIDE_READ_TIMEOUT 600: "), "{said}");
}

#[test]
fn help_lists_the_exit_statuses_and_only_what_is_built() {
    let sandbox = Sandbox::new();
    let (code, help) = sandbox.status(&["--help"]);
    assert_eq!(code, 0);
    for word in ["in doubt", "130, 143", "rehearse", "calibrate", "replay", "resolve", "ABIDE_CONNECT_TIMEOUT"] {
        assert!(help.contains(word), "{word}");
    }
    for word in ["enqueue", "completions"] {
        assert!(!help.contains(word), "{word}");
    }
    let (code, help) = sandbox.status(&["send", "--help"]);
    assert_eq!(code, 0);
    assert!(help.contains("Examples:") && help.contains("Exit status"));
}

#[test]
fn a_dry_run_and_a_curl_line_send_nothing_and_show_no_secret() {
    let sandbox = Sandbox::new();
    let request = [
        "send",
        "POST",
        "http://127.0.0.1:9/pay?api_key=sk-live-77aa",
        "--json",
        "{\"amount\":100}",
        "-u",
        "bob:pw-8841",
        "--key",
        "k1",
        "--ledger",
        "l.jsonl",
    ];
    let dry = sandbox.run(&[&request[..], &["--dry-run"]].concat());
    let curl = sandbox.run(&[&request[..], &["--curl"]].concat());
    let json = sandbox.run(&[&request[..], &["--dry-run", "--format", "json"]].concat());
    for text in [&dry, &curl, &json] {
        assert!(!text.contains("sk-live-77aa") && !text.contains("pw-8841") && !text.contains("Ym9iOnB3"), "{text}");
    }
    insta::with_settings!({filters => filters()}, { assert_snapshot!(format!("{dry}\n\n{curl}\n\n{json}")) });
    assert!(!sandbox.path().join("l.jsonl").exists(), "nothing is recorded");
}

#[test]
fn a_profile_is_checked_and_shown() {
    let sandbox = Sandbox::new();
    sandbox.write(
        "p.toml",
        "partner = \"acme\"\nbase_url = \"http://127.0.0.1:9\"\n[timeouts]\nread = \"2s\"\n[retry]\nmax_attempts = 3\n",
    );
    sandbox.write("bad.toml", "[retry]\nmax_atempts = 3\n");
    insta::with_settings!({filters => filters()}, {
        assert_snapshot!("profile_check", sandbox.run(&["profile", "check", "p.toml"]));
        assert_snapshot!("profile_show", sandbox.run(&["profile", "show", "p.toml"]));
        assert_snapshot!("profile_bad", sandbox.run(&["profile", "check", "bad.toml"]));
    });
    let (code, json) = sandbox.status(&["profile", "check", "p.toml", "--format", "json"]);
    assert_eq!(code, 0);
    assert!(json.starts_with("{\"schema\":\"abide.profile.check/1\","), "{json}");
    let (code, json) = sandbox.status(&["profile", "show", "p.toml", "--format", "json"]);
    assert_eq!(code, 0);
    assert!(json.starts_with("{\"schema\":\"abide.profile.show/1\","), "{json}");
}
