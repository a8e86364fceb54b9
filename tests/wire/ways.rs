//! Ways: several addresses of one host, redirects of reads, and gateways that say what they did.

use crate::run::{LIMITS, Ran, Sending};
use abide::engine::facts::Again;
use abide::engine::reason::Reason;
use abide::engine::verdict::{Evidence, Verdict};
use abide::net::Names;
use abide::rehearse::partner::{Act, Partner, Reply, Script, Turn};
use socket2::{Domain, Socket, Type};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

fn start(script: Script) -> Partner {
    Partner::start(script).expect("starts")
}

fn answers(reply: Reply) -> Turn {
    Turn::not_done(Act::Answer(reply))
}

/// A POST to a host whose addresses are given, as with `--resolve`.
fn to(partner: &Partner, hosts: &[&str]) -> Sending {
    let port = partner.addr().port();
    let addresses: Vec<SocketAddr> =
        hosts.iter().map(|host| SocketAddr::new(host.parse().expect("an address"), port)).collect();
    let mut sending = Sending::post(&format!("http://partner.test:{port}/pay"));
    sending.names = Names::by(|host, _| panic!("{host} is not to be looked up"));
    sending.names.keep("Partner.test", port, addresses);
    sending
}

fn dialled(ran: &Ran) -> Vec<String> {
    let addresses = ran.attempts.iter().filter_map(|(_, exchange)| exchange.addr);
    addresses.map(|addr| addr.ip().to_string()).collect()
}

#[tokio::test]
async fn a_dead_ipv6_address_gives_way_to_the_next_one() {
    let partner = start(Script::always(Turn::fine()));
    let ran = to(&partner, &["::1", "127.0.0.1"]).run().await;
    assert_eq!((ran.verdict, dialled(&ran)), (Verdict::Confirmed, vec!["::1".into(), "127.0.0.1".into()]));
    let (first, _) = &ran.attempts[0];
    assert_eq!((first.evidence, first.reason), (Evidence::NotSent, Reason::ConnectRefused));
    let seen = partner.stop().await;
    assert_eq!((seen.connections, seen.executions), (1, 1));
    assert_eq!(seen.requests[0].header("host"), Some(format!("partner.test:{}", addr_port(&ran)).as_str()));
}

fn addr_port(ran: &Ran) -> u16 {
    ran.first().addr.expect("an address").port()
}

/// Returns sockets that swallow every further connection request to `host:port`: its queue is full.
fn black_hole(host: Ipv4Addr, port: u16) -> Vec<Socket> {
    let addr = SocketAddr::from((host, port)).into();
    let socket = || Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
    let listener = socket();
    listener.bind(&addr).expect("binds");
    listener.listen(0).expect("listens");
    let mut held = vec![listener];
    for _ in 0..3 {
        let filler = socket();
        filler.set_nonblocking(true).expect("is set");
        // It is under way; that is all that is wanted.
        let _ = filler.connect(&addr);
        held.push(filler);
    }
    held
}

#[tokio::test]
async fn an_address_that_swallows_everything_has_the_whole_connect_limit_and_no_more() {
    let partner = start(Script::always(Turn::fine()));
    let hole = Ipv4Addr::new(127, 0, 0, 11);
    let held = black_hole(hole, partner.addr().port());
    let ran = to(&partner, &["127.0.0.11", "127.0.0.1"]).run().await;
    drop(held);
    assert_eq!((ran.verdict, dialled(&ran)), (Verdict::Confirmed, vec![hole.to_string(), "127.0.0.1".into()]));
    let (first, _) = &ran.attempts[0];
    assert_eq!((first.evidence, first.reason), (Evidence::NotSent, Reason::ConnectTimeout));
    assert!(first.ms >= LIMITS.connect.as_millis().try_into().expect("fits"), "{}", first.ms);
    ran.took_about(LIMITS.connect);
    assert_eq!(partner.stop().await.executions, 1);
}

#[tokio::test]
async fn after_a_doubt_the_address_stays() {
    let partner = start(Script::first([Turn::done(Act::Fin)], Turn::fine()).honouring_keys());
    let ran = to(&partner, &["127.0.0.1", "127.0.0.12"]).keyed().run().await;
    assert_eq!((ran.verdict, dialled(&ran)), (Verdict::Confirmed, vec!["127.0.0.1".to_owned(); 2]));
    assert_eq!(partner.stop().await.executions, 1);
}

#[tokio::test]
async fn a_doubt_after_a_dead_address_stays_at_the_live_one() {
    let partner = start(Script::first([Turn::done(Act::Fin)], Turn::fine()).honouring_keys());
    let addresses = [Ipv6Addr::LOCALHOST.to_string(), "127.0.0.1".into()];
    let ran = to(&partner, &[&addresses[0], &addresses[1]]).keyed().run().await;
    assert_eq!(
        (ran.verdict, dialled(&ran)),
        (Verdict::Confirmed, ["::1", "127.0.0.1", "127.0.0.1"].map(String::from).into())
    );
}

/// A GET that follows redirects.
fn read(url: &str) -> Sending {
    Sending::of("GET", url).body(0).with(|policy| policy.follow = true)
}

#[tokio::test]
async fn a_read_is_followed_to_another_origin_without_what_is_meant_for_the_first() {
    let there = start(Script::always(answers(Reply::json(200, "{}"))));
    let here = start(Script::always(answers(Reply::redirect(302, &there.url("/there")))));
    let ran = read(&here.url("/here")).with(|policy| policy.retry.max_attempts = 1).run().await;
    let (here, there) = (here.stop().await, there.stop().await);
    assert_eq!((ran.verdict, here.heads, there.heads), (Verdict::Confirmed, 1, 1));
    assert!(here.requests[0].key().is_some() && here.requests[0].header("content-type").is_some());
    let crossed = &there.requests[0];
    assert_eq!((crossed.method.as_str(), crossed.path.as_str()), ("GET", "/there"));
    assert_eq!((crossed.key(), crossed.header("content-type")), (None, None));
}

#[tokio::test]
async fn a_read_is_followed_on_its_own_origin_with_everything() {
    let partner = start(Script::first([answers(Reply::redirect(301, "/v2"))], answers(Reply::json(200, "{}"))));
    let ran = read(&partner.url("/v1")).run().await;
    let seen = partner.stop().await;
    assert_eq!((ran.verdict, seen.heads), (Verdict::Confirmed, 2));
    assert!(seen.requests.iter().all(|request| request.key().is_some()));
}

#[tokio::test]
async fn a_way_back_from_another_origin_does_not_bring_the_credentials_back() {
    let here = start(Script::always(answers(Reply::json(200, "{}"))));
    let there = start(Script::always(answers(Reply::redirect(302, &here.url("/chosen-by-there")))));
    let first = start(Script::always(answers(Reply::redirect(302, &there.url("/")))));
    let ran = read(&first.url("/")).run().await;
    assert_eq!(ran.verdict, Verdict::Confirmed);
    assert_eq!(here.stop().await.requests[0].key(), None);
}

#[tokio::test]
async fn redirects_in_a_circle_and_without_end_are_given_up() {
    let partner = start(Script::first([answers(Reply::redirect(302, "/b"))], answers(Reply::redirect(302, "/b"))));
    let ran = read(&partner.url("/a")).run().await;
    let (last, _) = ran.attempts.last().expect("attempts");
    assert_eq!((ran.verdict, last.reason, last.again), (Verdict::NotDone, Reason::RedirectLoop, Again::No));
    assert_eq!(partner.stop().await.heads, 2);

    let turns: Vec<Turn> = (0..20).map(|n| answers(Reply::redirect(307, &format!("/{n}")))).collect();
    let partner = start(Script::first(turns, Turn::fine()));
    let ran = read(&partner.url("/start")).run().await;
    let (last, _) = ran.attempts.last().expect("attempts");
    assert_eq!((ran.verdict, last.reason), (Verdict::NotDone, Reason::TooManyRedirects));
    assert_eq!(partner.stop().await.heads, 11);
}

#[tokio::test]
async fn where_a_redirect_led_is_kept_without_its_query() {
    let partner = start(Script::first([answers(Reply::redirect(302, "/v2?sig=abc"))], answers(Reply::json(200, "{}"))));
    let ran = read(&partner.url("/v1")).run().await;
    assert_eq!(ran.attempts[0].0.hop.as_deref(), Some(partner.url("/v2?***").as_str()));
    assert_eq!(partner.stop().await.requests[1].path, "/v2?sig=abc");
}

#[tokio::test]
async fn a_gateway_that_is_trusted_lets_a_write_be_sent_again() {
    for (trusted, report, verdict, whole) in [
        (true, "gw; error=connection_refused", Verdict::Confirmed, 2),
        (true, "gw; error=http_response_timeout", Verdict::InDoubt, 1),
        (false, "gw; error=connection_refused", Verdict::InDoubt, 1),
    ] {
        let refusal = Reply::status(502).header("Proxy-Status", report);
        let partner = start(Script::first([answers(refusal)], Turn::fine()));
        let sending = Sending::post(&partner.url("/pay"));
        let ran = sending.with(|policy| policy.classify.trust_proxy_status = trusted).run().await;
        assert_eq!((ran.verdict, partner.stop().await.whole), (verdict, whole), "{trusted} {report}");
        assert!(ran.took < Duration::from_secs(2));
    }
}
