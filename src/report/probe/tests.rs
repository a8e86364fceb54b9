//! Screens, documents and lines of probes that people would meet.

use super::super::json;
use super::document::Document;
use super::nagios::nagios;
use super::*;
use abide::engine::diagnose::diagnose;
use abide::engine::diagnose::dial::{Connect, ConnectFailure};
use abide::engine::diagnose::handshake::{Certificate, Handshake};
use abide::engine::diagnose::names::{Lookup, LookupFailure, Question, Rcode, Reply};
use abide::engine::diagnose::observations::{Address, KeepAlive, Target};
use abide::engine::diagnose::past::{Before, PastAddress, Usual};
use abide::engine::diagnose::tcp::Tcp;
use abide::engine::exchange::{
    Answer, Ending, Exchange, Fault, Headers, Limit, Outcome, Sent, Stage, Stages as Times, Via,
};
use abide::engine::measured::Measured;
use std::net::SocketAddr;

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn at() -> Timestamp {
    "2026-11-30T10:41:07Z".parse().expect("a time")
}

fn started() -> Observations {
    let mut seen = Observations { at: Some(at()), ..Observations::default() };
    let url = Some("https://api.partner-a.example/health".into());
    seen.target = Target { method: Some("GET".into()), url, json: Some(true) };
    seen.names.lookup = Some(Lookup { outcome: Ok(()), took: Some(ms(8)) });
    let reply = |question, count| Reply {
        server: [10, 0, 0, 2].into(),
        question,
        answer: Some(Rcode::Found(count)),
        took: Some(ms(8)),
    };
    seen.names.replies = vec![reply(Question::A, 2), reply(Question::Aaaa, 1)];
    seen
}

fn tcp() -> Tcp {
    Tcp {
        rtt: Some(ms(12)),
        resent: Some(0),
        unacked: Some(0),
        queued_bytes: Some(0),
        acked_bytes: Some(253),
        sent_bytes: Some(253),
    }
}

fn works(last: u8) -> Address {
    let certificate = Certificate {
        names: vec!["api.partner-a.example".into()],
        issuer: Some("R11".into()),
        not_before: Some(at().before(Duration::from_secs(49 * 86_400))),
        not_after: Some(at().after(Duration::from_secs(41 * 86_400))),
    };
    let tls = Handshake {
        took: Some(ms(31)),
        version: Some("1.3".into()),
        alpn: Some("h2".into()),
        group: Some("X25519".into()),
        certificate: Some(certificate),
        ..Handshake::new(Ok(()))
    };
    Address {
        connect: Some(Connect { outcome: Ok(()), took: Some(ms(12)), syns_resent: Some(0) }),
        tls: Some(tls),
        tcp: Some(tcp()),
        ..Address::new(SocketAddr::from(([203, 0, 113, last], 443)))
    }
}

fn dead() -> Address {
    let addr = SocketAddr::from(([0x2001, 0xdb8, 0, 0, 0, 0, 0, 0x10], 443));
    let connect = Connect { outcome: Err(ConnectFailure::Silent), took: Some(ms(3_000)), syns_resent: Some(2) };
    let before = Some(Before::Worked { ago: Duration::from_secs(3 * 86_400) });
    Address { connect: Some(connect), before, ..Address::new(addr) }
}

fn exchange(outcome: Outcome, first_byte_us: Option<u64>, took: Duration) -> Exchange {
    let stages = Times {
        resolve_us: Some(8_000),
        connect_us: Some(12_000),
        tls_us: Some(31_000),
        write_us: Some(400),
        first_byte_us,
        body_us: first_byte_us.map(|_| 2_000),
    };
    let addr = Some(SocketAddr::from(([203, 0, 113, 10], 443)));
    Exchange { outcome, stages, took, addr, via: Via::Direct, error: None, at: at() }
}

/// An application that has the request and stays silent, and an address that is dead.
fn silent() -> Observations {
    let mut seen = started();
    seen.addresses = vec![dead(), works(10), works(11)];
    let fault = Fault::TimedOut(Limit::Read);
    let outcome = Outcome::Unanswered { sent: Sent::Whole, stage: Stage::FirstByte, fault };
    seen.exchange = Some(exchange(outcome, None, ms(5_052)));
    seen.past.first_byte = Some(Usual { p50: ms(180), p99: ms(1_900) });
    seen.past.credentials_accepted = Some(Duration::from_secs(89 * 60));
    seen
}

fn well() -> Observations {
    let mut seen = started();
    seen.addresses = vec![works(10)];
    let headers = [("content-type", "application/json"), ("via", "varnish"), ("set-cookie", "never=told")];
    let headers = Headers(headers.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect());
    let answer = Answer { status: 200, headers, body: b"{\"ok\":true}".to_vec(), ending: Ending::Complete };
    seen.exchange = Some(exchange(Outcome::Answered(answer), Some(180_000), ms(233)));
    seen.past.whole = Some(Usual { p50: ms(200), p99: ms(900) });
    let measured_at = Some(at().before(Duration::from_secs(86_400)));
    seen.past.measured = Measured { at: measured_at, samples: Some(300), p95: Some(ms(250)), p99: Some(ms(460)) };
    seen.past.tls = Some(Usual { p50: ms(30), p99: ms(90) });
    let (ip, ago) = ([203, 0, 113, 10].into(), Duration::from_secs(60));
    let known = PastAddress { ip, before: Before::Worked { ago }, smallest_rtt: None, rtt: Some(ms(11)) };
    seen.past.addresses = vec![known];
    seen.keep_alive = Some(KeepAlive { reused: Some(true), idle_close: Some(ms(5_000)), watched: Some(ms(5_000)) });
    seen
}

/// The same with `--deep`.
fn deep() -> Observations {
    let mut seen = Observations { requests: 5, ..well() };
    let reply = |status| {
        let answer = Answer { status, headers: Headers::default(), body: vec![], ending: Ending::Complete };
        exchange(Outcome::Answered(answer), Some(170_000), ms(171))
    };
    seen.addresses.push(Address { reply: Some(Box::new(reply(503))), ..works(11) });
    seen.second_pass = Some(reply(200));
    seen
}

fn unknown_name() -> Observations {
    let mut seen = started();
    seen.names.lookup = Some(Lookup { outcome: Err(LookupFailure::Unknown), took: Some(ms(17)) });
    for reply in &mut seen.names.replies {
        reply.answer = Some(Rcode::NxDomain);
    }
    seen
}

const SEND: &str = "in doubt, no protecting key: would ask the status endpoint first";

fn with<T>(seen: &Observations, send: Option<&str>, then: impl FnOnce(&Probed<'_>) -> T) -> T {
    let found = diagnose(seen);
    then(&Probed { partner: "partner-a", started: at(), seen, found: &found, attempts: &[], send })
}

fn screen_of(seen: &Observations, send: Option<&str>, width: usize) -> String {
    with(seen, send, |probed| screen(probed, Paint::Plain, width))
}

#[test]
fn a_silent_application_on_80_columns() {
    insta::assert_snapshot!(screen_of(&silent(), Some(SEND), 80));
}

#[test]
fn a_silent_application_on_100_columns() {
    insta::assert_snapshot!(screen_of(&silent(), Some(SEND), 100));
}

#[test]
fn a_partner_that_works() {
    insta::assert_snapshot!(screen_of(&well(), None, 80));
}

#[test]
fn a_partner_that_was_looked_at_deeply() {
    insta::assert_snapshot!(screen_of(&deep(), None, 100));
    let json = with(&deep(), None, |probed| json::line(&Document::new(probed)));
    let document: serde_json::Value = serde_json::from_str(&json).expect("a document");
    let of_address = |at: usize| &document["addresses"][at]["status"];
    assert_eq!((&document["requests"], of_address(0), of_address(1)), (&5.into(), &200.into(), &503.into()));
    let send = serde_json::json!({
        "addr": "203.0.113.10:443", "status": 200, "failed_stage": null, "took_us": 171_000
    });
    assert_eq!(document["send_path"], send);
    let kept = serde_json::json!({"reused": true, "idle_close_us": 5_000_000, "watched_us": 5_000_000});
    assert_eq!(document["keep_alive"], kept);
}

#[test]
fn a_name_that_does_not_exist() {
    insta::assert_snapshot!(screen_of(&unknown_name(), None, 80));
}

#[test]
fn the_document_tells_everything_and_no_cookie() {
    let pretty = |seen: &Observations, send| {
        with(seen, send, |probed| serde_json::to_string_pretty(&Document::new(probed)).expect("a document"))
    };
    insta::assert_snapshot!(pretty(&silent(), Some(SEND)));
    assert!(!pretty(&well(), None).contains("cookie"));
}

#[test]
fn what_is_unknown_is_null_in_the_document() {
    let line = with(&Observations::default(), None, |probed| json::line(&Document::new(probed)));
    assert!(line.contains(r#""stages":{"resolve_us":null,"#), "{line}");
    assert!(line.contains(r#""tls":null,"http":null,"clock":null,"keep_alive":null"#), "{line}");
    let mut document: serde_json::Value = serde_json::from_str(&line).expect("a document");
    assert_eq!(document["requests"].take(), 0, "that none was made is known");
    assert_eq!(numbers(&document), 0, "{line}");
}

#[test]
fn a_number_is_one_that_every_reader_takes_and_a_body_tells_whether_it_is_whole() {
    let document = |status: u16, wait: &str, ending: Ending| {
        let mut seen = well();
        let headers = Headers(vec![("retry-after".into(), wait.into())]);
        let answer = Answer { status, headers, body: b"half".to_vec(), ending };
        seen.exchange = Some(exchange(Outcome::Answered(answer), Some(180_000), ms(233)));
        let line = with(&seen, None, |probed| json::line(&Document::new(probed)));
        let document: serde_json::Value = serde_json::from_str(&line).expect("a document");
        (document, screen_of(&seen, None, 100))
    };
    let (json, text) = document(503, "99999999999999999999", Ending::Complete);
    assert_eq!(json["verdict"]["retry_after_ms"], (1u64 << 53) - 1);
    assert!(text.contains("it asks to wait more than a year (Retry-After)"), "{text}");
    assert_eq!(document(503, "2", Ending::Complete).0["verdict"]["retry_after_ms"], 2_000);
    for (ending, complete, words) in [
        (Ending::Complete, serde_json::json!(true), "4 B"),
        (Ending::Cut(Fault::Closed), serde_json::json!(false), "fails after 4 B"),
        (Ending::Capped, serde_json::Value::Null, "4 B, and no more was read"),
    ] {
        let (json, text) = document(200, "", ending);
        assert_eq!((&json["http"]["body_bytes"], &json["http"]["body_complete"]), (&4.into(), &complete), "{ending:?}");
        assert!(text.lines().any(|line| line.starts_with("  body ") && line.ends_with(words)), "{text}");
    }
}

fn numbers(value: &serde_json::Value) -> usize {
    match value {
        serde_json::Value::Number(_) => 1,
        serde_json::Value::Array(all) => all.iter().map(numbers).sum(),
        serde_json::Value::Object(all) => all.values().map(numbers).sum(),
        _ => 0,
    }
}

#[test]
fn monitoring_gets_one_line_and_a_status() {
    let line = |seen: &Observations| with(seen, None, nagios);
    assert_eq!(
        line(&silent()),
        (
            "ABIDE CRITICAL - theirs: their side has the whole request and stays silent (app.silent) | \
             resolve=0.008s connect=0.012s tls=0.031s ttfb=U;1.900 cert_days=41;14:"
                .into(),
            2
        )
    );
    assert_eq!(
        line(&well()).0,
        "ABIDE OK - ok: the partner answers as it should (ok) | \
         resolve=0.008s connect=0.012s tls=0.031s;0.090 ttfb=0.180s;0.460 cert_days=41;14:"
    );
    assert_eq!(line(&well()).1, 0);
    let mut degraded = well();
    degraded.addresses.push(dead());
    assert_eq!(line(&degraded).1, 1);
    let (unknown, status) = line(&Observations::default());
    assert_eq!(status, 3);
    assert!(unknown.ends_with("| resolve=U connect=U tls=U ttfb=U"), "{unknown}");
}

#[test]
fn no_screen_is_longer_than_24_lines_or_wider_than_asked() {
    let mut full = silent();
    full.addresses = (1..9).map(works).chain([dead()]).collect();
    full.names.in_hosts_file = Some(true);
    let long = "word ".repeat(200);
    for seen in [full, silent(), well(), unknown_name(), Observations::default()] {
        for width in [0, 60, 80, 100, 120, 999] {
            let mut found = diagnose(&seen);
            found.because = vec![long.clone(), "x".repeat(500)];
            found.next = vec![long.clone()];
            let (started, send) = (at(), Some(&*long));
            let probed = Probed { partner: &long, started, seen: &seen, found: &found, attempts: &[], send };
            let screen = screen(&probed, Paint::Plain, width);
            let widest = screen.lines().map(|line| line.chars().count()).max().unwrap_or(0);
            assert!(widest <= width.clamp(60, 120), "{screen}");
            assert!(screen.lines().count() <= LINES, "{screen}");
        }
    }
}

#[test]
fn colours_repeat_what_the_words_say() {
    let coloured = with(&silent(), None, |probed| screen(probed, Paint::Colours, 80));
    assert!(coloured.contains("VERDICT  \u{1b}[31;1mTHEIRS\u{1b}[0m"));
    let plain = coloured.replace("\u{1b}[31;1m", "").replace("\u{1b}[0m", "");
    assert_eq!(plain, screen_of(&silent(), None, 80));
}
