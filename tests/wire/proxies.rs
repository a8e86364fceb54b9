//! Through a proxy: whose failure it is, what was sent, and who saw which credentials.

use crate::relay::{Asked, Mode, Relay};
use crate::run::{LIMITS, Ran, Sending, trusting};
use crate::secure::{Front, Lane};
use crate::status::asks;
use abide::engine::exchange::{Fault, Limit, Sent, Stage, Via};
use abide::engine::proxy::{Exclusions, Proxies, Proxy};
use abide::engine::reason::Reason;
use abide::engine::verdict::{Evidence, Side, Verdict};
use abide::net::Names;
use abide::rehearse::partner::{self, Partner, Seen};
use std::io;
use std::net::SocketAddr;

/// A name that nobody may look up here.
const PARTNER: &str = "partner.test";

/// Names of which only the partner's may not be looked up: a proxy does that.
fn names() -> Names {
    Names::by(|host, port| match host {
        "proxy.test" => Ok(vec![SocketAddr::from(([127, 0, 0, 1], port))]),
        PARTNER => panic!("the partner's name is the proxy's to look up"),
        _ => Err(io::Error::other("failed to lookup address information: Name or service not known")),
    })
}

fn through(url: &str) -> Proxies {
    Proxies::one(Proxy::parse(url).expect("a proxy"), "-x", Exclusions::default())
}

/// Sends once through a proxy at `url`, to a partner that answers.
async fn once(scheme: &str, url: &str) -> (Ran, Seen) {
    let partner = Partner::start(partner::Fault::Fine.script()).expect("starts");
    let port = partner.addr().port();
    let mut sending = Sending::post(&format!("{scheme}://{PARTNER}:{port}/pay"));
    sending.policy.retry.max_attempts = 1;
    (sending.names, sending.proxies) = (names(), through(url));
    let ran = sending.run().await;
    (ran, partner.stop().await)
}

async fn passed(scheme: &str, proxy: &str, mode: Mode) -> (Ran, Seen, Asked) {
    let relay = Relay::start(mode).await;
    let (ran, partner) = once(scheme, &relay.url(proxy)).await;
    (ran, partner, relay.stop())
}

/// Asserts that nothing was sent to the partner, where it failed, and how that is told.
fn refused(ran: &Ran, partner: &Seen, fault: Fault, told: (Reason, Side)) {
    assert_eq!(ran.unanswered(), (Sent::Nothing, Stage::Connect, fault), "{:?}", ran.first().error);
    let finished = &ran.attempts[0].0;
    assert_eq!((finished.reason, finished.side), (told.0, Some(told.1)), "{:?}", finished.error);
    assert_eq!((finished.evidence, ran.verdict), (Evidence::NotSent, Verdict::NotDone));
    assert_eq!(partner.heads, 0);
}

#[tokio::test]
async fn a_request_passes_by_a_proxy_that_looks_the_name_up() {
    for (proxy, via) in [("http", Via::Forward), ("socks5h", Via::Tunnel)] {
        let (ran, partner, asked) = passed("http", proxy, Mode::Fine).await;
        assert_eq!((ran.verdict, partner.executions), (Verdict::Confirmed, 1), "{:?}", ran.first().error);
        assert_eq!((asked.connections, ran.first().via), (1, via));
        let port = asked.heads.iter().chain(&asked.targets).next().expect("was asked").clone();
        assert!(port.contains(&format!("{PARTNER}:")), "{port}");
        assert!(ran.first().addr.is_some_and(|addr| addr.ip().is_loopback()));
    }
}

#[tokio::test]
async fn a_proxy_is_asked_for_the_whole_url_and_the_partner_for_the_path() {
    let (ran, partner, asked) = passed("http", "http", Mode::Fine).await;
    assert_eq!(ran.verdict, Verdict::Confirmed);
    assert!(asked.heads[0].starts_with(&format!("POST http://{PARTNER}:")), "{}", asked.heads[0]);
    assert_eq!((partner.requests[0].path.as_str(), partner.whole), ("/pay", 1));
}

#[tokio::test]
async fn with_plain_socks5_the_name_is_looked_up_here() {
    let partner = Partner::start(partner::Fault::Fine.script()).expect("starts");
    let relay = Relay::start(Mode::Fine).await;
    let mut sending = Sending::post(&format!("http://here.test:{}/pay", partner.addr().port()));
    sending.names = Names::by(|_, port| Ok(vec![SocketAddr::from(([127, 0, 0, 7], port))]));
    sending.proxies = through(&relay.url("socks5"));
    let ran = sending.run().await;
    assert_eq!(ran.verdict, Verdict::Confirmed, "{:?}", ran.first().error);
    let addr = SocketAddr::from(([127, 0, 0, 7], partner.addr().port()));
    assert_eq!((relay.stop().targets, ran.first().addr), (vec![addr.to_string()], Some(addr)));
    assert_eq!(partner.stop().await.executions, 1);
}

#[tokio::test]
async fn credentials_reach_the_proxy_and_nobody_else() {
    let relay = Relay::start(Mode::Fine).await;
    let url = format!("http://bob:p%40%25ss@{}", relay.addr);
    let (ran, partner) = once("http", &url).await;
    assert_eq!(ran.verdict, Verdict::Confirmed);
    // "bob:p@%ss"
    assert!(relay.stop().heads[0].contains("proxy-authorization: Basic Ym9iOnBAJXNz\r\n"));
    assert_eq!(partner.whole, 1);

    let relay = Relay::start(Mode::Login).await;
    let (ran, partner) = once("http", &format!("socks5h://bob:p%40%25ss@{}", relay.addr)).await;
    assert_eq!((ran.verdict, partner.whole), (Verdict::Confirmed, 1), "{:?}", ran.first().error);
    assert_eq!(relay.stop().logins, ["bob:p@%ss"]);
}

#[tokio::test]
async fn a_tunnel_is_asked_for_with_the_proxys_credentials_only() {
    let relay = Relay::start(Mode::Answer("502 Bad Gateway")).await;
    let mut sending = Sending::post(&format!("https://{PARTNER}:8443/pay?token=s3cret"));
    sending.policy.retry.max_attempts = 1;
    (sending.names, sending.proxies) = (names(), through(&format!("http://bob:pw@{}", relay.addr)));
    assert_eq!(sending.run().await.verdict, Verdict::NotDone);
    let head = relay.stop().heads.remove(0).to_ascii_lowercase();
    assert!(head.starts_with(&format!("connect {PARTNER}:8443 http/1.1\r\n")), "{head}");
    let names: Vec<&str> = head.trim().lines().skip(1).filter_map(|line| line.split(':').next()).collect();
    assert_eq!(names, ["host", "proxy-authorization"], "{head}");
}

#[tokio::test]
async fn a_proxy_that_does_not_listen_is_not_the_partners_failure() {
    for (scheme, proxy) in [("http", "http"), ("https", "http"), ("http", "socks5h")] {
        let relay = Relay::start(Mode::Fine).await;
        let url = relay.url(proxy);
        relay.stop();
        // The listener is closed once its task has been dropped.
        tokio::task::yield_now().await;
        let (ran, partner) = once(scheme, &url).await;
        refused(&ran, &partner, Fault::ProxyUnreachable, (Reason::ProxyUnreachable, Side::Network));
    }
}

#[tokio::test]
async fn a_proxy_whose_name_does_not_exist_is_a_matter_of_configuration() {
    let (ran, partner) = once("http", "http://nowhere.test:3128").await;
    assert_eq!(ran.unanswered(), (Sent::Nothing, Stage::Resolve, Fault::ProxyNameUnknown));
    let finished = &ran.attempts[0].0;
    assert_eq!((finished.reason, finished.side), (Reason::ProxyNameUnknown, Some(Side::Configuration)));
    assert_eq!((ran.verdict, partner.heads), (Verdict::NotDone, 0));
}

#[tokio::test]
async fn a_proxy_is_found_by_its_name() {
    let relay = Relay::start(Mode::Fine).await;
    let (ran, partner) = once("http", &format!("http://proxy.test:{}", relay.addr.port())).await;
    assert_eq!((ran.verdict, partner.executions), (Verdict::Confirmed, 1));
    assert!(ran.first().stages.resolve_us.is_some());
    assert_eq!((ran.first().addr, relay.stop().connections), (Some(relay_addr(&ran)), 1));
}

fn relay_addr(ran: &Ran) -> SocketAddr {
    ran.first().addr.expect("an address was dialled")
}

#[tokio::test]
async fn a_proxy_that_wants_credentials_is_told_apart_and_not_asked_again() {
    const WANTED: &str = "407 Proxy Authentication Required\r\nProxy-Authenticate: Basic realm=\"x\"";
    let (ran, partner, asked) = passed("https", "http", Mode::Answer(WANTED)).await;
    refused(&ran, &partner, Fault::ProxyCredentials, (Reason::ProxyCredentials, Side::Configuration));
    assert_eq!(asked.connections, 1);

    let (ran, partner, asked) = passed("http", "http", Mode::Answer(WANTED)).await;
    let finished = &ran.attempts[0].0;
    assert_eq!((finished.evidence, finished.reason), (Evidence::Refused, Reason::ProxyCredentials));
    assert_eq!((ran.verdict, partner.heads, asked.connections), (Verdict::NotDone, 0, 1));

    for mode in [Mode::Login, Mode::WrongLogin] {
        let relay = Relay::start(mode).await;
        let login = if matches!(mode, Mode::Login) { "" } else { "bob:wrong@" };
        let (ran, partner) = once("http", &format!("socks5h://{login}{}", relay.addr)).await;
        refused(&ran, &partner, Fault::ProxyCredentials, (Reason::ProxyCredentials, Side::Configuration));
        assert!(relay.stop().targets.is_empty());
    }
}

#[tokio::test]
async fn a_tunnel_that_is_refused_sent_nothing() {
    for line in ["403 Forbidden", "502 Bad Gateway", "503 Service Unavailable", "504 Gateway Timeout", "nonsense"] {
        let (ran, partner, asked) = passed("https", "http", Mode::Answer(line)).await;
        refused(&ran, &partner, Fault::Proxy, (Reason::ProxyFailed, Side::Network));
        assert_eq!(asked.heads.len(), 1);
    }
    let (ran, partner, _) = passed("https", "http", Mode::HalfReply).await;
    refused(&ran, &partner, Fault::Proxy, (Reason::ProxyFailed, Side::Network));
}

#[tokio::test]
async fn a_tunnel_that_never_stands_ends_at_the_connect_limit() {
    for (scheme, proxy) in [("https", "http"), ("http", "socks5h")] {
        let (ran, partner, _) = passed(scheme, proxy, Mode::Hang).await;
        refused(&ran, &partner, Fault::TimedOut(Limit::Connect), (Reason::ProxyTimeout, Side::Network));
        ran.took_about(LIMITS.connect);
    }
}

#[tokio::test]
async fn a_tunnel_that_is_cut_before_the_handshake_sent_nothing() {
    let (ran, partner, _) = passed("https", "http", Mode::CutTunnel).await;
    assert_eq!((ran.attempts[0].0.evidence, ran.verdict), (Evidence::NotSent, Verdict::NotDone));
    assert_eq!(partner.heads, 0);
    let (ran, partner, _) = passed("http", "socks5h", Mode::CutTunnel).await;
    assert_eq!((ran.attempts[0].0.evidence, ran.verdict), (Evidence::NotSent, Verdict::NotDone));
    assert_eq!(partner.heads, 0);
}

#[tokio::test]
async fn what_a_socks_proxy_answers_is_told_in_words() {
    for (code, fault, told) in [
        (1, Fault::Proxy, (Reason::ProxyFailed, Side::Network)),
        (2, Fault::ProxyForbids, (Reason::ProxyForbids, Side::Configuration)),
        (3, Fault::BeyondProxy, (Reason::BeyondProxy, Side::Theirs)),
        (4, Fault::BeyondProxy, (Reason::BeyondProxy, Side::Theirs)),
        (5, Fault::BeyondProxy, (Reason::BeyondProxy, Side::Theirs)),
        (6, Fault::BeyondProxy, (Reason::BeyondProxy, Side::Theirs)),
        (7, Fault::Proxy, (Reason::ProxyFailed, Side::Network)),
    ] {
        let (ran, partner, asked) = passed("http", "socks5h", Mode::Reply(code)).await;
        refused(&ran, &partner, fault, told);
        assert_eq!(asked.targets.len(), 1);
    }
}

#[tokio::test]
async fn a_proxy_that_forwards_and_answers_nothing_leaves_a_doubt() {
    let (ran, partner, asked) = passed("http", "http", Mode::ForwardThenCut).await;
    assert_eq!(ran.unanswered(), (Sent::Whole, Stage::FirstByte, Fault::Closed));
    assert_eq!((ran.verdict, partner.executions, asked.connections), (Verdict::InDoubt, 1, 1));
}

#[tokio::test]
async fn an_error_of_a_forwarding_proxy_is_in_doubt_as_any_gateways() {
    for line in ["502 Bad Gateway", "503 Service Unavailable", "504 Gateway Timeout"] {
        let (ran, partner, _) = passed("http", "http", Mode::Answer(line)).await;
        assert_eq!((ran.attempts[0].0.evidence, ran.verdict), (Evidence::InDoubt, Verdict::InDoubt), "{line}");
        assert_eq!(partner.heads, 0);
    }
}

/// Sends a POST over https to a partner behind a front, through a proxy.
async fn tunnelled(proxy: &str, mode: Mode, fault: partner::Fault) -> (Ran, Seen, Asked) {
    let partner = Partner::start(fault.script()).expect("starts");
    let front = Front::before(partner.addr(), Lane::honest()).await;
    let relay = Relay::start(mode).await;
    let mut sending = Sending { tls: trusting(), ..Sending::post(&front.url("/pay")) };
    sending.policy.retry.max_attempts = 1;
    sending.proxies = through(&format!("{proxy}{}", relay.addr));
    let ran = sending.run().await;
    (ran, partner.stop().await, relay.stop())
}

#[tokio::test]
async fn https_goes_through_a_tunnel_and_the_proxy_sees_nothing_of_it() {
    for (proxy, mode) in [
        ("http://bob:pw@", Mode::Fine),
        ("socks5h://", Mode::Fine),
        ("socks5://", Mode::Fine),
        ("socks5h://bob:pw@", Mode::Login),
    ] {
        let (ran, partner, asked) = tunnelled(proxy, mode, partner::Fault::Fine).await;
        assert_eq!((ran.verdict, partner.executions), (Verdict::Confirmed, 1), "{proxy}: {:?}", ran.first().error);
        assert_eq!((asked.connections, ran.first().via), (1, Via::Tunnel));
        assert!(ran.first().stages.tls_us.is_some());
        let heads: String = asked.heads.concat().to_ascii_lowercase();
        assert!(!heads.contains("idempotency-key") && !heads.contains("/pay"), "{heads}");
        assert!(partner.requests[0].header("proxy-authorization").is_none());
    }
}

#[tokio::test]
async fn what_is_cut_in_a_tunnel_after_the_request_left_is_in_doubt() {
    for (fault, expected, executions) in [
        (partner::Fault::AllThenFin, Fault::Closed, 0),
        (partner::Fault::ExecutedThenSilent, Fault::TimedOut(Limit::Read), 1),
    ] {
        let (ran, partner, _) = tunnelled("http://", Mode::Fine, fault).await;
        assert_eq!(ran.unanswered(), (Sent::Whole, Stage::FirstByte, expected), "{:?}", ran.first().error);
        assert_eq!((ran.verdict, partner.whole, partner.executions), (Verdict::InDoubt, 1, executions));
    }
}

#[tokio::test]
async fn a_407_of_the_partner_behind_a_tunnel_is_the_partners() {
    let wants = partner::Turn::not_done(partner::Act::Answer(partner::Reply::status(407)));
    let partner = Partner::start(partner::Script::always(wants)).expect("starts");
    let front = Front::before(partner.addr(), Lane::honest()).await;
    let relay = Relay::start(Mode::Fine).await;
    let mut sending = Sending { tls: trusting(), ..Sending::post(&front.url("/pay")) };
    sending.proxies = through(&relay.url("http"));
    let ran = sending.run().await;
    assert_eq!((ran.attempts[0].0.reason, ran.verdict), (Reason::Credentials, Verdict::NotDone));
    assert_eq!((partner.stop().await.whole, relay.stop().connections), (1, 1));
}

#[tokio::test]
async fn a_status_question_passes_by_the_proxy_too() {
    let partner = Partner::start(partner::Fault::ExecutedThenSilent.script()).expect("starts");
    let relay = Relay::start(Mode::Fine).await;
    let mut sending = Sending::post(&format!("http://{PARTNER}:{}/pay", partner.addr().port()));
    (sending.names, sending.proxies) = (names(), through(&relay.url("http")));
    asks(&mut sending.policy);
    let ran = sending.run().await;
    let seen = partner.stop().await;
    assert_eq!((ran.verdict, seen.executions, seen.questions), (Verdict::Confirmed, 1, 1));
    assert!(relay.stop().heads.iter().any(|head| head.starts_with(&format!("GET http://{PARTNER}:"))));
}

#[tokio::test]
async fn a_host_that_is_excluded_is_reached_directly() {
    let relay = Relay::start(Mode::Answer("502 Bad Gateway")).await;
    let partner = Partner::start(partner::Fault::Fine.script()).expect("starts");
    let mut sending = Sending::post(&partner.url("/pay"));
    let (exclusions, _) = Exclusions::read("127.0.0.0/8");
    sending.proxies = Proxies::one(Proxy::parse(&relay.url("http")).expect("a proxy"), "[proxy]", exclusions);
    let ran = sending.run().await;
    assert_eq!((ran.verdict, ran.first().via, relay.stop().connections), (Verdict::Confirmed, Via::Direct, 0));
    assert_eq!(partner.stop().await.executions, 1);
}
