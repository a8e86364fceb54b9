//! Where two rules could match, and where what comes later may only change how sure the verdict is.

use super::*;
use crate::engine::diagnose::clock::Skew;
use crate::engine::diagnose::code::Code;
use crate::engine::diagnose::judgement::{Confidence, Standing};

fn skew(minutes: i64) -> Option<Skew> {
    Some(Skew { ahead_ms: minutes * 60_000, uncertainty: ms(600) })
}

fn expired(days_ago: u64) -> Observations {
    let mut seen = unshaken(Fault::Certificate(Distrust::Expired));
    let tls = seen.addresses[0].tls.as_mut().expect("a handshake");
    let ended = at().before(Duration::from_secs(days_ago * 86_400));
    tls.certificate = Some(Certificate { not_after: Some(ended), ..certificate() });
    seen
}

#[test]
fn an_expired_certificate_is_our_clock_where_that_is_far_off_and_the_partners_agrees() {
    let mut seen = expired(1);
    assert_eq!(verdict(&seen), ("theirs", "tls.expired"));
    // The partner's clock is two days behind ours: there the certificate is valid.
    seen.skew = skew(-2 * 24 * 60);
    assert_eq!(verdict(&seen), ("ours", "clock.skew"));
    assert_eq!(diagnose(&seen).confidence, Confidence::High);
    // An hour explains nothing here.
    seen.skew = skew(-60);
    assert_eq!(verdict(&seen), ("theirs", "tls.expired"));
    // Without dates of the certificate the clock is the likelier cause.
    seen.addresses[0].tls.as_mut().expect("a handshake").certificate = None;
    assert_eq!(verdict(&seen), ("ours", "clock.skew"));
    // Four minutes are no reason, but worth a word.
    seen.skew = skew(-4);
    assert_eq!(verdict(&seen), ("theirs", "tls.expired"));
    assert_eq!(diagnose(&seen).next[0], "set this machine's clock first, then look again");
}

#[test]
fn a_refused_credential_is_our_clock_where_that_is_far_off() {
    let mut seen = answered(401, &[], "");
    seen.skew = skew(-6);
    assert_eq!(verdict(&seen), ("ours", "clock.skew"));
    seen.skew = skew(-1);
    assert_eq!(verdict(&seen), ("configuration", "http.unauthorized"));
    assert_eq!(diagnose(&seen).confidence, Confidence::Low);
}

#[test]
fn another_issuer_than_usual_is_somebody_between() {
    let mut seen = unshaken(Fault::Certificate(Distrust::Issuer));
    seen.past.issuer = Some("R11".into());
    assert_eq!(verdict(&seen), ("configuration", "tls.unknown_issuer"));
    seen.past.issuer = Some("R3".into());
    assert_eq!(verdict(&seen), ("network", "tls.intercepted"));
}

#[test]
fn a_dead_address_never_hides_that_the_others_are_silent() {
    let mut seen = unanswered(SILENCE, Some(acknowledged()));
    seen.addresses.push(dead(addr(11), ConnectFailure::Silent, ms(3_000)));
    let found = diagnose(&seen);
    assert_eq!((found.code, found.standing), (Code::AppSilent, Standing::Unusable));
    assert_eq!(found.also.iter().map(|blemish| blemish.code).collect::<Vec<_>>(), [Code::AddressDead]);
}

#[test]
fn a_family_without_a_route_says_nothing_where_another_is_refused_or_works() {
    let v6 = SocketAddr::from(([0x2001, 0xdb8, 0, 0, 0, 0, 0, 1], 443));
    let no_route = dead(v6, ConnectFailure::NetworkUnreachable, Duration::from_micros(50));
    let mut seen = undialled(ConnectFailure::Refused, ms(12));
    seen.addresses.push(no_route.clone());
    assert_eq!(verdict(&seen), ("theirs", "tcp.refused"));
    let mut seen = well();
    seen.addresses.push(no_route);
    assert_eq!(verdict(&seen), ("ok", "ok"));
}

#[test]
fn addresses_that_fail_differently_are_told_as_such() {
    let mut seen = undialled(ConnectFailure::Refused, ms(12));
    seen.addresses.push(dead(addr(11), ConnectFailure::Silent, ms(3_000)));
    assert_eq!(verdict(&seen), ("theirs", "tcp.no_connection"));
    seen.addresses[0] = dead(addr(10), ConnectFailure::HostUnreachable, ms(14));
    assert_eq!(verdict(&seen), ("network", "tcp.no_connection"));
}

#[test]
fn a_port_that_never_answered_may_be_the_wrong_one() {
    let mut seen = undialled(ConnectFailure::Refused, ms(12));
    assert_eq!(verdict(&seen), ("theirs", "tcp.refused"));
    seen.past.before = Some(Before::Never);
    assert_eq!(verdict(&seen), ("configuration", "tcp.refused"));
    seen.past.before = Some(Before::Worked { ago: ms(1_000) });
    assert_eq!(verdict(&seen), ("theirs", "tcp.refused"));
    assert_eq!(diagnose(&seen).confidence, Confidence::High);
}

#[test]
fn a_silence_that_our_own_deadline_ended_too_early_proves_nothing() {
    let silent_for = |silence, p99| {
        let mut seen = unanswered(SILENCE, Some(acknowledged()));
        let outcome = seen.exchange.expect("an exchange").outcome;
        seen.exchange = Some(exchange(outcome, silence));
        seen.deadline_reached = Some(Stage::FirstByte);
        seen.past.first_byte = Some(Usual { p50: ms(180), p99 });
        seen
    };
    assert_eq!(verdict(&silent_for(ms(1_800), ms(1_900))), ("unclear", "probe.deadline"));
    assert_eq!(diagnose(&silent_for(ms(1_800), ms(1_900))).standing, Standing::Unknown);
    assert_eq!(verdict(&silent_for(ms(2_000), ms(1_900))), ("theirs", "app.silent"));
    // A lost packet is sent again after a second.
    assert_eq!(verdict(&silent_for(ms(900), ms(300))), ("unclear", "probe.deadline"));
    let too_short = undialled(ConnectFailure::Silent, ms(900));
    assert_eq!(verdict(&too_short), ("unclear", "probe.deadline"));
}

#[test]
fn the_file_of_hosts_makes_a_dead_address_suspicious() {
    let mut seen = undialled(ConnectFailure::Refused, ms(12));
    let before = diagnose(&seen).confidence;
    seen.names.in_hosts_file = Some(true);
    let found = diagnose(&seen);
    assert!(found.confidence < before);
    assert_eq!(found.next[0], "check the entry of this name in the file of hosts (/etc/hosts)");
}

#[test]
fn a_proxy_that_worked_before_is_a_failure_of_ours() {
    let mut seen = unanswered(Fault::ProxyUnreachable, None);
    assert_eq!(verdict(&seen), ("configuration", "proxy.unreachable"));
    let source = super::super::observations::ProxySource::Flag;
    let before = Some(Before::Worked { ago: ms(60_000) });
    let proxy = super::super::observations::Proxy { name: "p.example:3128".into(), source, outcome: None, before };
    seen.proxy = Some(proxy);
    assert_eq!(verdict(&seen), ("ours", "proxy.unreachable"));
    assert_eq!(diagnose(&seen).next[0], "correct --proxy, or leave it out");
}

#[test]
fn a_certificate_that_ends_within_14_days_is_worth_a_look() {
    let left = |days: u64| {
        let mut seen = well();
        let tls = seen.addresses[0].tls.as_mut().expect("a handshake");
        let not_after = Some(at().after(Duration::from_secs(days * 86_400)));
        tls.certificate = Some(Certificate { not_after, ..certificate() });
        diagnose(&seen)
    };
    assert_eq!((left(14).code, left(14).standing), (Code::Ok, Standing::Usable));
    assert_eq!((left(13).code, left(13).standing), (Code::CertificateEndsSoon, Standing::Degraded));
}

#[test]
fn a_clock_that_would_end_their_own_certificate_is_theirs() {
    let mut seen = well();
    seen.skew = skew(-10);
    assert_eq!(verdict(&seen), ("unclear", "clock.skew"));
    assert_eq!(diagnose(&seen).standing, Standing::Degraded);
    seen.skew = skew(-90 * 24 * 60);
    assert_eq!(verdict(&seen), ("theirs", "clock.skew"));
    seen.setup.clock_step = Some(ms(60_000));
    assert_eq!(verdict(&seen), ("ours", "clock.skew"));
}

#[test]
fn what_a_proxy_acknowledges_the_partner_need_not_have() {
    let mut seen = unanswered(SILENCE, Some(acknowledged()));
    seen.addresses[0].tls = None;
    assert_eq!(diagnose(&seen).confidence, Confidence::High);
    seen.exchange.as_mut().expect("an exchange").via = Via::Forward;
    let found = diagnose(&seen);
    assert_eq!((found.code, found.confidence), (Code::AppSilent, Confidence::Medium));
    assert_eq!(found.because[1], "253 of 253 bytes acknowledged, 0 segments resent, by the proxy");
}

#[test]
fn a_body_that_our_own_deadline_ended_is_not_called_stalled() {
    let stalled = Answer { ending: Ending::Cut(Fault::TimedOut(Limit::Deadline)), ..answer(200, &[], "{") };
    let mut seen = Observations { exchange: Some(exchange(Outcome::Answered(stalled), ms(180))), ..well() };
    assert_eq!(verdict(&seen), ("theirs", "http.body_stalled"));
    seen.deadline_reached = Some(Stage::Body);
    assert_eq!(verdict(&seen), ("unclear", "probe.deadline"));
}

#[test]
fn what_this_machine_could_not_do_comes_before_what_the_network_says() {
    for (fault, expected) in [
        (Fault::Unbuildable, ("configuration", "setup.usage")),
        (Fault::LocalResources, ("ours", "local.resources")),
        (Fault::Suspended, ("unclear", "local.suspended")),
    ] {
        assert_eq!(verdict(&unanswered(fault, Some(lost()))), expected);
    }
}
