//! The scenarios of latency.md 7 that need no network of their own.

use crate::run::{Probed, Told, Verdict, plan, through};
use crate::secure::{Front, Guests, Identity, Lane, STRANGER};
use abide::engine::diagnose::judgement::{Confidence, Standing};
use abide::engine::diagnose::past::{Before, Past, PastAddress, Usual};
use abide::net::Names;
use abide::probe::Plan;
use abide::rehearse::partner::{Act, Door, Partner, Reply, Script, Turn};
use std::net::SocketAddr;
use std::time::Duration;
use tokio_rustls::rustls::ALL_VERSIONS;

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
fn http_cases() -> Vec<(u32, &'static str, Script, Verdict)> {
    let skewed = Reply::json(200, "{}").header("Date", "Mon, 01 Jan 2024 00:00:00 GMT");
    let edge = Reply::page(522).header("cf-error-type", "origin_timeout");
    let proxy = Reply::page(502).header("proxy-status", "edge.example; error=connection_refused");
    vec![
        (20, "well", answering(Reply::json(200, "{}")), ("ok", "ok")),
        (20, "no such path", answering(Reply::json(404, "{}")), ("ok", "http.client_error")),
        (10, "hangs", acting(Act::Hang), ("theirs", "app.silent")),
        (11, "resets", acting(Act::Rst), ("theirs", "app.reset")),
        (11, "closes", acting(Act::Fin), ("theirs", "app.closed")),
        (11, "talks nonsense", acting(Act::Garbage), ("theirs", "app.not_http")),
        (11, "cuts the body", acting(Act::CutBody), ("theirs", "http.body_cut")),
        (11, "stops the body", acting(Act::StalledBody), ("theirs", "http.body_stalled")),
        (12, "limits", answering(Reply::status(429).header("Retry-After", "2")), ("theirs", "http.rate_limited")),
        (
            12,
            "is unavailable",
            answering(Reply::status(503).header("Retry-After", "2")),
            ("theirs", "http.unavailable"),
        ),
        (12, "fails", answering(Reply::json(500, "{}")), ("theirs", "http.server_error")),
        (12, "edge without origin", answering(edge), ("theirs", "http.edge_origin_timeout")),
        (12, "gateway without origin", answering(proxy), ("theirs", "http.edge_origin_refused")),
        (14, "wants credentials", answering(Reply::status(401)), ("configuration", "http.unauthorized")),
        (14, "proxy's status", answering(Reply::status(407)), ("ours", "proxy.credentials")),
        (14, "forbids", answering(Reply::json(403, "{}")), ("configuration", "http.forbidden")),
        (14, "blocks", answering(Reply::page(403)), ("configuration", "http.blocked")),
        (11, "leaves HTTP", answering(Reply::status(101).header("Upgrade", "x")), ("theirs", "http.switched")),
        (17, "login page", answering(Reply::page(200)), ("network", "http.html")),
        (
            15,
            "redirects in a circle",
            answering(Reply::redirect(302, "/health")),
            ("configuration", "http.redirect_loop"),
        ),
        (18, "clock is years off", answering(skewed), ("unclear", "clock.skew")),
        (3, "does not listen", answering(Reply::status(200)).behind(Door::Closed), ("theirs", "tcp.refused")),
        (4, "is full", answering(Reply::status(200)).behind(Door::Full), ("network", "tcp.filtered")),
    ]
}

/// What a partner over https does wrong, and what must be said.
fn https_cases() -> Vec<(u32, &'static str, Lane, Verdict)> {
    let certified = Lane::of(&Identity::made(|_| ()), Guests::Certified, ALL_VERSIONS);
    vec![
        (20, "well over TLS", Lane::honest(), ("ok", "ok")),
        (8, "expired", Lane::showing(&Identity::expired()), ("theirs", "tls.expired")),
        (8, "not yet valid", Lane::showing(&Identity::early()), ("theirs", "tls.not_yet_valid")),
        (8, "another name", Lane::showing(&Identity::elsewhere()), ("theirs", "tls.wrong_name")),
        (8, "a stranger's", Lane::showing(&Identity::by(&STRANGER, |_| ())), ("configuration", "tls.unknown_issuer")),
        (8, "its own", Lane::showing(&Identity::alone()), ("configuration", "tls.self_signed")),
        (8, "wants ours", certified, ("configuration", "tls.client_certificate_wanted")),
        (8, "too old", Lane::alert(70), ("theirs", "tls.version")),
        (8, "plain http", Lane::Say(b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec()), ("configuration", "tls.not_tls")),
        (8, "closes in TLS", Lane::Close, ("theirs", "tls.closed")),
        (8, "resets in TLS", Lane::Reset, ("theirs", "tls.closed")),
        (10, "silent in TLS", Lane::Silent, ("theirs", "tls.silent")),
    ]
}

/// Plays every scenario that needs no network of its own.
pub async fn told() -> Vec<Told> {
    let mut all = Vec::new();
    for (number, name, script, expected) in http_cases() {
        all.push(Told::of(number, name, expected, &over_http(script).await));
    }
    for (number, name, lane, expected) in https_cases() {
        all.push(Told::of(number, name, expected, &over_https(lane).await));
    }
    let closed = std::net::TcpListener::bind("127.0.0.1:0").and_then(|door| door.local_addr()).expect("a port");
    let proxied = Probed::of(&through("https://partner.test/", &format!("http://{closed}"))).await;
    all.push(Told::of(19, "proxy is gone", ("configuration", "proxy.unreachable"), &proxied));
    all.push(Told::of(7, "one dead address", ("theirs", "tcp.dead_address"), &beside_a_dead_address().await));
    all.push(Told::of(8, "our clock is wrong", ("ours", "clock.skew"), &by_another_clock().await));
    all.extend(slow().await);
    all
}

/// By the partner's clock its certificate is valid.
async fn by_another_clock() -> Probed {
    let date = Reply::json(200, "{}").header("Date", "Sat, 01 Jun 2019 12:00:00 GMT");
    let partner = Partner::start(answering(date)).expect("starts");
    let front = Front::before(partner.addr(), Lane::showing(&Identity::expired())).await;
    Probed::of(&plan(&front.url("/health"))).await
}

/// A slow answer is the partner's fault on a network that is as usual, and the network's where round trips take long.
async fn slow() -> [Told; 2] {
    let partner = Partner::start(answering(Reply::json(200, "{}").after(Duration::from_millis(60)))).expect("starts");
    let usual = Usual { p50: Duration::from_millis(5), p99: Duration::from_millis(20) };
    let past = Past { first_byte: Some(usual), ..Past::default() };
    let server = Probed::of(&Plan { past: past.clone(), ..plan(&partner.url("/health")) }).await;
    let rtt = Some(Duration::from_nanos(1));
    let address = PastAddress { ip: partner.addr().ip(), before: Before::Never, smallest_rtt: None, rtt };
    let link = Plan { past: Past { addresses: vec![address], ..past }, ..plan(&partner.url("/health")) };
    let link = Probed::of(&link).await;
    [
        Told::of(13, "slow server", ("theirs", "slow.server"), &server),
        Told::of(13, "slow link", ("network", "slow.network"), &link),
    ]
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

async fn beside_a_dead_address() -> Probed {
    let partner = Partner::start(answering(Reply::json(200, "{}"))).expect("starts");
    let port = partner.addr().port();
    let names = Names::by(move |_, _| {
        let dead: SocketAddr = ([127, 0, 0, 2], port).into();
        Ok(vec![dead, ([127, 0, 0, 1], port).into()])
    });
    let plan = Plan { names, ..plan(&format!("http://partner.test:{port}/health")) };
    let probed = Probed::of(&plan).await;
    assert_eq!(partner.seen().heads, 1);
    probed
}

#[tokio::test]
async fn a_dead_address_beside_a_living_one_degrades_and_no_more() {
    let probed = beside_a_dead_address().await;
    assert_eq!(probed.found.standing, Standing::Degraded);
    assert_eq!(probed.seen.addresses.len(), 2);
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
