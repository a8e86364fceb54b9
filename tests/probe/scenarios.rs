//! The scenarios of latency.md 7 that need no network of their own.

use crate::run::{Probed, plan, through};
use crate::secure::{Front, Guests, Identity, Lane, STRANGER};
use abide::engine::diagnose::judgement::{Confidence, Standing};
use abide::net::Names;
use abide::probe::Plan;
use abide::rehearse::partner::{Act, Door, Partner, Reply, Script, Turn};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;
use tokio_rustls::rustls::ALL_VERSIONS;

/// Side and code.
type Verdict = (&'static str, &'static str);

fn answering(reply: Reply) -> Script {
    Script::always(Turn::not_done(Act::Answer(reply)))
}

fn acting(act: Act) -> Script {
    Script::always(Turn::not_done(act))
}

async fn over_http(script: Script) -> Probed {
    let partner = Partner::start(script).expect("starts");
    Probed::of(&plan(&partner.url("/health"))).await
}

async fn over_https(lane: Lane) -> Probed {
    let partner = Partner::start(answering(Reply::json(200, "{}"))).expect("starts");
    let front = Front::before(partner.addr(), lane).await;
    Probed::of(&plan(&front.url("/health"))).await
}

/// What a partner over http does wrong, and what must be said.
fn http_cases() -> Vec<(&'static str, Script, Verdict)> {
    let skewed = Reply::json(200, "{}").header("Date", "Mon, 01 Jan 2024 00:00:00 GMT");
    let edge = Reply::page(522).header("cf-error-type", "origin_timeout");
    let proxy = Reply::page(502).header("proxy-status", "edge.example; error=connection_refused");
    vec![
        ("well", answering(Reply::json(200, "{}")), ("ok", "ok")),
        ("no such path", answering(Reply::json(404, "{}")), ("ok", "http.client_error")),
        ("hangs", acting(Act::Hang), ("theirs", "app.silent")),
        ("resets", acting(Act::Rst), ("theirs", "app.reset")),
        ("closes", acting(Act::Fin), ("theirs", "app.closed")),
        ("talks nonsense", acting(Act::Garbage), ("theirs", "app.not_http")),
        ("cuts the body", acting(Act::CutBody), ("theirs", "http.body_cut")),
        ("stops the body", acting(Act::StalledBody), ("theirs", "http.body_stalled")),
        ("limits", answering(Reply::status(429).header("Retry-After", "2")), ("theirs", "http.rate_limited")),
        ("is unavailable", answering(Reply::status(503).header("Retry-After", "2")), ("theirs", "http.unavailable")),
        ("fails", answering(Reply::json(500, "{}")), ("theirs", "http.server_error")),
        ("edge without origin", answering(edge), ("theirs", "http.edge_origin_timeout")),
        ("gateway without origin", answering(proxy), ("theirs", "http.edge_origin_refused")),
        ("wants credentials", answering(Reply::status(401)), ("configuration", "http.unauthorized")),
        ("forbids", answering(Reply::json(403, "{}")), ("configuration", "http.forbidden")),
        ("blocks", answering(Reply::page(403)), ("configuration", "http.blocked")),
        ("leaves HTTP", answering(Reply::status(101).header("Upgrade", "x")), ("theirs", "http.switched")),
        ("login page", answering(Reply::page(200)), ("network", "http.html")),
        ("redirects in a circle", answering(Reply::redirect(302, "/health")), ("configuration", "http.redirect_loop")),
        ("clock is years off", answering(skewed), ("unclear", "clock.skew")),
        ("does not listen", answering(Reply::status(200)).behind(Door::Closed), ("theirs", "tcp.refused")),
        ("is full", answering(Reply::status(200)).behind(Door::Full), ("network", "tcp.filtered")),
    ]
}

/// What a partner over https does wrong, and what must be said.
fn https_cases() -> Vec<(&'static str, Lane, Verdict)> {
    let certified = Lane::of(&Identity::made(|_| ()), Guests::Certified, ALL_VERSIONS);
    vec![
        ("well over TLS", Lane::honest(), ("ok", "ok")),
        ("expired", Lane::showing(&Identity::expired()), ("theirs", "tls.expired")),
        ("not yet valid", Lane::showing(&Identity::early()), ("theirs", "tls.not_yet_valid")),
        ("another name", Lane::showing(&Identity::elsewhere()), ("theirs", "tls.wrong_name")),
        ("a stranger's", Lane::showing(&Identity::by(&STRANGER, |_| ())), ("configuration", "tls.unknown_issuer")),
        ("its own", Lane::showing(&Identity::alone()), ("configuration", "tls.self_signed")),
        ("wants ours", certified, ("configuration", "tls.client_certificate_wanted")),
        ("too old", Lane::alert(70), ("theirs", "tls.version")),
        ("plain http", Lane::Say(b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec()), ("configuration", "tls.not_tls")),
        ("closes in TLS", Lane::Close, ("theirs", "tls.closed")),
        ("resets in TLS", Lane::Reset, ("theirs", "tls.closed")),
        ("silent in TLS", Lane::Silent, ("theirs", "tls.silent")),
    ]
}

/// Prints who was blamed for what: `cargo test --test probe -- --nocapture`.
fn matrix(told: &[(&str, Verdict, Verdict)]) {
    let mut counts = BTreeMap::new();
    told.iter().for_each(|(_, expected, said)| *counts.entry((expected.0, said.0)).or_insert(0u32) += 1);
    println!("{:<15}{:<15}scenarios", "is", "said");
    counts.iter().for_each(|((is, said), count)| println!("{is:<15}{said:<15}{count}"));
}

#[tokio::test]
async fn every_scenario_is_told_by_its_side_and_its_code() {
    let mut told = Vec::new();
    for (name, script, expected) in http_cases() {
        told.push((name, expected, over_http(script).await.verdict()));
    }
    for (name, lane, expected) in https_cases() {
        told.push((name, expected, over_https(lane).await.verdict()));
    }
    let closed = std::net::TcpListener::bind("127.0.0.1:0").and_then(|door| door.local_addr()).expect("a port");
    let proxied = Probed::of(&through("https://partner.test/", &format!("http://{closed}"))).await;
    told.push(("proxy is gone", ("configuration", "proxy.unreachable"), proxied.verdict()));
    matrix(&told);
    let wrong: Vec<_> = told.iter().filter(|(_, expected, said)| expected != said).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[tokio::test]
async fn one_request_is_sent_and_every_stage_is_measured() {
    let partner = Partner::start(answering(Reply::json(200, "{}"))).expect("starts");
    let front = Front::before(partner.addr(), Lane::honest()).await;
    let probed = Probed::of(&plan(&front.url("/health"))).await;
    let stages = probed.seen.exchange.as_ref().expect("it was sent").stages;
    let all = [stages.connect_us, stages.tls_us, stages.write_us, stages.first_byte_us, stages.body_us];
    assert!(all.iter().all(Option::is_some), "{stages:?}");
    let tls = probed.seen.addresses[0].tls.as_ref().expect("it shook hands");
    // The front speaks no ALPN.
    assert_eq!((tls.version.as_deref(), tls.alpn.as_deref()), (Some("1.3"), None));
    assert!(tls.group.is_some());
    let certificate = tls.certificate.as_ref().expect("it was shown");
    assert_eq!(certificate.issuer.as_deref(), Some("Test issuer"));
    let seen = partner.seen();
    assert_eq!((seen.heads, seen.requests[0].method.as_str()), (1, "GET"));
}

#[tokio::test]
async fn a_dead_address_beside_a_living_one_degrades_and_no_more() {
    let partner = Partner::start(answering(Reply::json(200, "{}"))).expect("starts");
    let port = partner.addr().port();
    let names = Names::by(move |_, _| {
        let dead: SocketAddr = ([127, 0, 0, 2], port).into();
        Ok(vec![dead, ([127, 0, 0, 1], port).into()])
    });
    let plan = Plan { names, ..plan(&format!("http://partner.test:{port}/health")) };
    let probed = Probed::of(&plan).await;
    assert_eq!(probed.verdict(), ("theirs", "tcp.dead_address"));
    assert_eq!(probed.found.standing, Standing::Degraded);
    assert_eq!(probed.seen.addresses.len(), 2);
    assert_eq!(partner.seen().heads, 1);
}

#[tokio::test]
async fn silence_after_the_whole_request_is_proved_by_the_acknowledgement() {
    let probed = over_http(acting(Act::Hang)).await;
    let Some(tcp) = probed.seen.addresses[0].tcp else { return eprintln!("SKIPPED: the kernel does not tell") };
    assert!(tcp.words().contains("bytes acknowledged"), "{}", tcp.words());
    assert!(tcp.sent_bytes.is_some_and(|sent| sent > 60), "{tcp:?}");
    assert_eq!(probed.found.confidence, Confidence::High, "{:?}", probed.found.because);
    assert!(probed.found.leaves_doubt);
}

#[tokio::test]
async fn a_limit_is_told_with_the_wait_that_it_asks_for() {
    let probed = over_http(answering(Reply::status(429).header("Retry-After", "2"))).await;
    assert_eq!(probed.found.wait, Some(Duration::from_secs(2)));
}

#[tokio::test]
async fn an_expired_certificate_is_shown_whole_and_the_clock_is_looked_at() {
    let partner = Partner::start(answering(Reply::json(200, "{}"))).expect("starts");
    let front = Front::before(partner.addr(), Lane::showing(&Identity::expired())).await;
    let probed = Probed::of(&plan(&front.url("/health"))).await;
    let certificate = probed.seen.certificate().expect("it was shown");
    assert_eq!(certificate.not_after.map(|at| at.to_string()).as_deref(), Some("2020-01-02T00:00:00.000Z"));
    assert!(probed.seen.exchange.is_none(), "no request follows a certificate that was refused");
    let heads: Vec<_> = partner.seen().requests.iter().map(|request| request.method.clone()).collect();
    assert_eq!(heads, ["HEAD"], "one question for the time, and nothing else");
}
