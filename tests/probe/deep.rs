//! `--deep`: what a second request, every address and the way of `send` tell, and how many requests that takes.

use crate::run::{Probed, Told, plan};
use abide::engine::diagnose::judgement::Standing;
use abide::engine::diagnose::observations::KeepAlive;
use abide::net::Names;
use abide::probe::{Depth, Plan};
use abide::rehearse::partner::{Act, Partner, Place, Reply, Script, Turn};
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

fn fine() -> Turn {
    Turn::not_done(Act::Answer(Reply::json(200, "{}")))
}

fn deep(url: &str) -> Plan {
    // Long enough for the requests; the idle connection is watched for the rest.
    Plan { depth: Depth::Deep, deadline: Duration::from_millis(1_500), ..plan(url) }
}

/// Probes a partner that does `turns` one after the other, and then answers as it should.
async fn after(turns: impl Into<Vec<Turn>>) -> (Probed, u64) {
    let partner = Partner::start(Script::first(turns, fine())).expect("starts");
    let probed = Probed::of(&deep(&partner.url("/health"))).await;
    (probed, partner.seen().heads as u64)
}

#[tokio::test]
async fn a_partner_that_keeps_its_connections_is_well_after_three_requests() {
    let (probed, heads) = after([]).await;
    assert_eq!((probed.verdict(), heads, probed.seen.requests), (("ok", "ok"), 3, 3));
    let KeepAlive { reused, idle_close, watched } = probed.seen.keep_alive.expect("it was looked at");
    assert_eq!((reused, idle_close), (Some(true), None));
    assert!(watched.is_some_and(|watched| watched > Duration::from_millis(500)), "{watched:?}");
    assert_eq!(probed.seen.second_status(), Some(200));
}

/// Plays the scenario of a kept connection.
pub async fn told() -> Vec<Told> {
    let (probed, _) = after([fine(), Turn::not_done(Act::Fin)]).await;
    vec![Told::of(16, "second request is lost", ("theirs", "http.keep_alive"), &probed)]
}

#[tokio::test]
async fn a_connection_that_ends_under_the_second_request_is_the_partners_race() {
    let (probed, heads) = after([fine(), Turn::not_done(Act::Fin)]).await;
    assert_eq!((probed.verdict(), heads), (("theirs", "http.keep_alive"), 3));
    assert_eq!(probed.found.standing, Standing::Degraded);
}

#[tokio::test]
async fn a_connection_that_is_closed_with_the_answer_is_nobodys_fault() {
    let closing = Turn::not_done(Act::Answer(Reply::json(200, "{}").header("Connection", "close")));
    let (probed, heads) = after([closing]).await;
    assert_eq!((probed.verdict(), heads, probed.seen.requests), (("ok", "ok"), 2, 2));
    let closed = KeepAlive { reused: None, idle_close: Some(Duration::ZERO), watched: Some(Duration::ZERO) };
    assert_eq!(probed.seen.keep_alive, Some(closed));
}

#[tokio::test]
async fn the_way_of_send_that_meets_something_else_is_a_finding() {
    let (probed, _) = after([fine(), fine(), Turn::not_done(Act::Rst)]).await;
    assert_eq!(probed.verdict(), ("unclear", "send.path_fails"), "it left, and may have met a partner that flaps");
    let (probed, _) = after([fine(), fine(), Turn::not_done(Act::Answer(Reply::status(503)))]).await;
    assert_eq!(probed.verdict(), ("unclear", "send.path_differs"));
    assert_eq!(probed.found.standing, Standing::Degraded);
}

#[tokio::test]
async fn every_address_gets_a_request_and_one_that_answers_otherwise_is_named() {
    let good = Partner::start(Script::always(fine())).expect("starts");
    let port = good.addr().port();
    let place = Place { ip: IpAddr::from([127, 0, 0, 2]), port, ..Place::default() };
    let failing = Script::always(Turn::not_done(Act::Answer(Reply::json(500, "{}").after(Duration::from_millis(5)))));
    let bad = Partner::start_at(failing, place).expect("starts");
    let both: [SocketAddr; 2] = [good.addr(), bad.addr()];
    let names = Names::by(move |_, _| Ok(both.to_vec()));
    let url = format!("http://partner.test:{port}/health");
    let probed = Probed::of(&Plan { names, ..deep(&url) }).await;
    assert_eq!(probed.verdict(), ("theirs", "http.address_differs"), "{:?}", probed.found.because);
    assert!(probed.found.because[0].starts_with("127.0.0.2:"), "{:?}", probed.found.because);
    let statuses: Vec<_> = probed.seen.addresses.iter().map(|address| probed.seen.status_of(address)).collect();
    assert_eq!(statuses, [Some(200), Some(500)]);
    assert_eq!((good.seen().heads, bad.seen().heads, probed.seen.requests), (3, 1, 4));
}

#[tokio::test]
async fn who_asks_to_be_left_alone_gets_one_request() {
    for reply in [Reply::status(429), Reply::status(503).header("Retry-After", "2")] {
        let (probed, heads) = after([Turn::not_done(Act::Answer(reply))]).await;
        assert_eq!((heads, probed.seen.requests, probed.seen.second_pass.is_none()), (1, 1, true));
    }
}

#[tokio::test]
async fn depth_does_not_outlast_the_deadline() {
    for turns in [vec![fine(), Turn::not_done(Act::Hang)], vec![fine(), fine(), Turn::not_done(Act::StalledBody)]] {
        let partner = Partner::start(Script::first(turns, Turn::not_done(Act::Hang))).expect("starts");
        let plan = Plan { deadline: Duration::from_millis(300), ..deep(&partner.url("/health")) };
        let started = Instant::now();
        let probed = Probed::of(&plan).await;
        // Ten times the target.
        assert!(started.elapsed() < plan.deadline + Duration::from_millis(500), "{:?}", started.elapsed());
        assert_eq!(
            probed.verdict(),
            ("ok", "ok"),
            "what the deadline cut off says nothing: {:?}",
            probed.found.because
        );
    }
}
