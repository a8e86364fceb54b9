//! Sends over https: a private issuer, what is wrong with a certificate, and files that cannot be used.

use crate::sandbox::{Host, Sandbox, filters};
use crate::secure::{Guests, ISSUER, Identity, Lane};
use abide::rehearse::partner::Fault;
use insta::assert_snapshot;
use tokio_rustls::rustls::ALL_VERSIONS;

/// A folder with the issuer's certificate in it, and a partner over https.
fn order(lane: Lane) -> (Sandbox, Host) {
    let sandbox = Sandbox::new();
    sandbox.write("ca.pem", &ISSUER.pem());
    (sandbox, Host::secure(Fault::Fine.script(), lane))
}

fn send(sandbox: &Sandbox, host: &Host, more: &[&str]) -> String {
    let url = host.url("/orders");
    let args = ["send", "POST", &url, "--json", "{\"amount\":100}", "--ledger", "l.jsonl", "--key", "k1"];
    sandbox.run(&[&args[..], more].concat())
}

macro_rules! snapshot {
    ($name:literal, $text:expr) => {
        insta::with_settings!({filters => filters()}, { assert_snapshot!($name, $text) })
    };
}

#[test]
fn a_private_issuer_is_trusted_where_it_is_named_and_the_handshake_has_its_time() {
    let (sandbox, host) = order(Lane::honest());
    let unnamed = send(&sandbox, &host, &[]);
    let named = send(&sandbox, &host, &["--cacert", "ca.pem", "-v"]);
    snapshot!("private_issuer", format!("{unnamed}\n\n{named}"));
    assert_eq!(host.seen().executions, 1);
    assert!(sandbox.read("l.jsonl").contains("\"tls_us\":"));
}

#[test]
fn a_certificate_that_has_ended_is_told_with_both_times() {
    let (sandbox, host) = order(Lane::showing(&Identity::expired()));
    let said = send(&sandbox, &host, &["--cacert", "ca.pem"]);
    let (before, after) = said.split_once("this machine's clock says ").expect("it is told");
    let rest = after.split_once('Z').expect("a time").1.replace(&after[..20], "[NOW]");
    snapshot!("expired", format!("{before}this machine's clock says [NOW]{rest}"));
    assert_eq!(host.seen().heads, 0);
}

#[test]
fn files_that_cannot_be_used_are_refused_before_anything_is_sent() {
    let (sandbox, host) = order(Lane::honest());
    let us = Identity::made(|_| ());
    sandbox.write("us.pem", &us.cert.pem());
    sandbox.write("other.key", &Identity::made(|_| ()).key.serialize_pem());
    sandbox.write("words.pem", "not a certificate");
    sandbox.write("large.pem", &"x".repeat((4 << 20) + 1));
    let profile = "base_url = 'https://127.0.0.1:9'\n[tls]\nca_file = 'words.pem'\n";
    sandbox.write("p.toml", profile);
    let cases = [
        send(&sandbox, &host, &["--cacert", "words.pem"]),
        send(&sandbox, &host, &["--cacert", "missing.pem"]),
        send(&sandbox, &host, &["--cacert", "large.pem"]),
        send(&sandbox, &host, &["-E", "us.pem"]),
        send(&sandbox, &host, &["-E", "us.pem", "--cert-key", "other.key"]),
        send(&sandbox, &host, &["-E", "us.pem:sesame"]),
        sandbox.run(&["profile", "check", "p.toml"]),
    ];
    snapshot!("unusable_files", cases.join("\n"));
    assert!(!sandbox.path().join("l.jsonl").exists(), "nothing is recorded");
    assert_eq!(host.seen().connections, 0);
}

#[test]
fn a_replay_reads_the_files_again_that_the_send_was_given() {
    let (sandbox, host) = order(Lane::of(&Identity::made(|_| ()), Guests::Certified, ALL_VERSIONS));
    let us = Identity::made(|_| ());
    sandbox.write("us.pem", &us.cert.pem());
    let wanted = send(&sandbox, &host, &["--cacert", "ca.pem"]);
    std::fs::remove_file(sandbox.path().join("ca.pem")).expect("it was there");
    let gone = sandbox.run(&["replay", "k1", "--ledger", "l.jsonl"]);
    // The table beside it is as wide as the folder's name is long.
    let gone = gone.lines().find(|line| line.starts_with("k1: ")).expect("a line about the operation").to_owned();
    sandbox.write("ca.pem", &ISSUER.pem());
    sandbox.write("us.key", &us.key.serialize_pem());
    let shown = send(&sandbox, &host, &["--cacert", "ca.pem", "-E", "us.pem", "--cert-key", "us.key"]);
    snapshot!(
        "client_certificate",
        format!("{wanted}\n\n{gone}\n\n{shown}").replace(sandbox.path().to_str().expect("UTF-8"), "[DIR]")
    );
    assert_eq!(host.seen().executions, 1);
}
