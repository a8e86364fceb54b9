//! The faults that a probe must tell apart (latency.md section 7).

use super::*;
use crate::engine::diagnose::clock::Skew;
use crate::engine::diagnose::code::Code;
use crate::engine::diagnose::judgement::{Confidence, Standing};
use crate::engine::diagnose::observations::{KeepAlive, Proxy, ProxySource};
use std::collections::BTreeMap;

const HTML: (&str, &str) = ("content-type", "text/html");
const MINUTES: u64 = 60_000;

struct Scenario {
    name: &'static str,
    seen: Observations,
    /// Any of these is right.
    sides: &'static [&'static str],
    code: &'static str,
}

fn scenario(name: &'static str, seen: Observations, sides: &'static [&'static str], code: &'static str) -> Scenario {
    Scenario { name, seen, sides, code }
}

fn change(mut seen: Observations, how: impl FnOnce(&mut Observations)) -> Observations {
    how(&mut seen);
    seen
}

fn skewed(seen: Observations, ahead_ms: i64) -> Observations {
    Observations { skew: Some(Skew { ahead_ms, uncertainty: ms(600) }), ..seen }
}

fn lost_hello() -> Observations {
    change(unshaken(Fault::TimedOut(Limit::Connect)), |seen| {
        seen.addresses[0].tcp = Some(lost());
        if let Some(tls) = &mut seen.addresses[0].tls {
            tls.certificate = None;
        }
    })
}

fn one_dead() -> Observations {
    let dead_v6 = SocketAddr::from(([0x2001, 0xdb8, 0, 0, 0, 0, 0, 0x10], 443));
    change(well(), |seen| seen.addresses.insert(0, dead(dead_v6, ConnectFailure::Silent, ms(3_000))))
}

fn cut() -> Observations {
    let cut = Answer { ending: Ending::Cut(Fault::Closed), ..answer(200, &[], "{") };
    Observations { exchange: Some(exchange(Outcome::Answered(cut), ms(180))), ..well() }
}

fn out_of_date(why: Distrust) -> Observations {
    change(unshaken(Fault::Certificate(why)), |seen| {
        let tls = seen.addresses[0].tls.as_mut().expect("a handshake");
        let day = Duration::from_secs(86_400);
        tls.certificate = Some(Certificate { not_after: Some(at().before(day)), ..certificate() });
    })
}

fn slow(rtt: Duration, resent: u64) -> Observations {
    let late = exchange(Outcome::Answered(answer(200, &[], "{}")), ms(1_700));
    change(Observations { exchange: Some(late), ..well() }, |seen| {
        seen.addresses[0].tcp = Some(Tcp { rtt: Some(rtt), resent: Some(resent), ..acknowledged() });
        seen.past.rtt = Some(ms(12));
        seen.past.first_byte = Some(Usual { p50: ms(180), p99: ms(900) });
    })
}

/// Without a ledger, what was measured tells what is slow.
fn slower_than_measured() -> Observations {
    change(slow(ms(12), 0), |seen| {
        seen.past.first_byte = None;
        seen.past.measured.p99 = Some(ms(900));
    })
}

/// One answer in a hundred takes longer than we waited.
fn given_up_early() -> Observations {
    change(unanswered(SILENCE, Some(acknowledged())), |seen| seen.past.measured.p99 = Some(ms(6_000)))
}

fn bad_proxy() -> Observations {
    let name = ProxySource::Variable("HTTPS_PROXY".into());
    let outcome = Some(Err(Fault::ConnectionRefused));
    let proxy = Proxy { name: "127.0.0.1:9".into(), source: name, outcome, before: None };
    Observations { proxy: Some(proxy), ..started() }
}

/// The twelve of latency.md section 7, each with its variants.
fn twelve() -> Vec<Scenario> {
    let timed_out = |failure| undialled(failure, ms(3_000));
    let at_once = |failure| undialled(failure, Duration::from_micros(60));
    let edge_522 = answered(522, &[("cf-error-type", "connection_timed_out"), ("cf-ray", "8f1-FRA")], "");
    let edge_502 = answered(502, &[("proxy-status", "gw; error=connection_refused")], "");
    let lost_syn = change(well(), |seen| {
        seen.addresses[0].connect = Some(Connect { outcome: Ok(()), took: Some(ms(1_003)), syns_resent: Some(1) });
    });
    let lost_data = change(well(), |seen| seen.addresses[0].tcp = Some(Tcp { resent: Some(2), ..acknowledged() }));
    vec![
        scenario(
            "1 no such name",
            unnamed(LookupFailure::Unknown, Some(Rcode::NxDomain)),
            &["configuration"],
            "dns.nxdomain",
        ),
        scenario("2a name servers silent", unnamed(LookupFailure::TimedOut, None), &["ours"], "dns.no_answer"),
        scenario(
            "2b SERVFAIL",
            unnamed(LookupFailure::Unavailable, Some(Rcode::ServFail)),
            &["theirs"],
            "dns.servfail",
        ),
        scenario("3 nothing listens", at_once(ConnectFailure::Refused), &["theirs"], "tcp.refused"),
        scenario("4 filtered", timed_out(ConnectFailure::Silent), &["network", "configuration"], "tcp.filtered"),
        scenario("5a no route", at_once(ConnectFailure::NetworkUnreachable), &["ours"], "net.no_route"),
        scenario("5b prohibited here", at_once(ConnectFailure::Denied), &["ours"], "net.route_denied"),
        scenario("5c black hole here", at_once(ConnectFailure::Invalid), &["ours"], "net.route_denied"),
        scenario("5d unreachable here", at_once(ConnectFailure::HostUnreachable), &["ours"], "net.route_denied"),
        scenario(
            "5e rejected between",
            undialled(ConnectFailure::HostUnreachable, ms(14)),
            &["network"],
            "net.rejected",
        ),
        scenario("6a a SYN is lost", lost_syn, &["network"], "net.loss"),
        scenario("6b data is lost", lost_data, &["network"], "net.loss"),
        scenario("7 dead IPv6 address", one_dead(), &["theirs"], "tcp.dead_address"),
        scenario("8a expired", out_of_date(Distrust::Expired), &["theirs"], "tls.expired"),
        scenario("8b another name", unshaken(Fault::Certificate(Distrust::Name)), &["theirs"], "tls.wrong_name"),
        scenario(
            "8c self-signed",
            unshaken(Fault::Certificate(Distrust::SelfSigned)),
            &["configuration"],
            "tls.self_signed",
        ),
        scenario("8d TLS 1.1 only", unshaken(Fault::TlsIncompatible), &["theirs"], "tls.version"),
        scenario(
            "8e wants a certificate",
            unanswered(Fault::ClientCertificateWanted, None),
            &["configuration"],
            "tls.client_certificate_wanted",
        ),
        scenario("8f plain HTTP port", unshaken(Fault::NotTls), &["configuration"], "tls.not_tls"),
        scenario(
            "8g our clock",
            skewed(unshaken(Fault::Certificate(Distrust::NotYetValid)), 90 * MINUTES as i64),
            &["ours"],
            "clock.skew",
        ),
        scenario("9 handshake black hole", lost_hello(), &["network"], "tls.blackhole"),
        scenario("10 application hung", unanswered(SILENCE, Some(acknowledged())), &["theirs"], "app.silent"),
        scenario("11a reset", unanswered(Fault::Reset, Some(acknowledged())), &["theirs"], "app.reset"),
        scenario("11b closed", unanswered(Fault::Closed, Some(acknowledged())), &["theirs"], "app.closed"),
        scenario("11c cut", cut(), &["theirs"], "http.body_cut"),
        scenario("12a edge, 522", edge_522, &["theirs"], "http.edge_origin_timeout"),
        scenario("12b edge, Proxy-Status", edge_502, &["theirs"], "http.edge_origin_refused"),
        scenario("12c 503, Retry-After", answered(503, &[("retry-after", "2")], ""), &["theirs"], "http.unavailable"),
    ]
}

/// Scenarios 13 to 19 of latency.md section 7, and what section 6.5 names beside them.
fn extras() -> Vec<Scenario> {
    let looped = answered(302, &[("location", "/health")], "");
    let raced = change(well(), |seen| {
        seen.keep_alive = Some(KeepAlive { reused: Some(false), idle_close: Some(ms(1_000)), ..KeepAlive::default() });
    });
    let second_fails = unanswered(Fault::ProxyUnreachable, None).exchange;
    vec![
        scenario("13a slow server", slow(ms(12), 0), &["theirs"], "slow.server"),
        scenario("13b slow link", slow(ms(190), 0), &["network"], "slow.network"),
        scenario("13c slow and lossy", slow(ms(12), 3), &["network"], "net.loss"),
        scenario("13d slow by measurement", slower_than_measured(), &["theirs"], "slow.server"),
        scenario("13e our limit is too short", given_up_early(), &["ours"], "limits.read_short"),
        scenario("14a 401", answered(401, &[], ""), &["configuration"], "http.unauthorized"),
        scenario("14b 403, HTML", answered(403, &[HTML], "<html>"), &["configuration"], "http.blocked"),
        scenario("14c 407", answered(407, &[], ""), &["ours"], "proxy.credentials"),
        scenario("15 redirect loop", looped, &["configuration"], "http.redirect_loop"),
        scenario("16 idle close", raced, &["theirs"], "http.keep_alive"),
        scenario("17 HTML for JSON", answered(200, &[HTML], "<html>"), &["network"], "http.html"),
        scenario(
            "18 Date off by months",
            skewed(well(), -90 * 24 * 60 * MINUTES as i64),
            &["theirs", "unclear"],
            "clock.skew",
        ),
        scenario("19 proxy, closed port", bad_proxy(), &["configuration", "ours"], "proxy.unreachable"),
        scenario(
            "20 send goes another way",
            Observations { second_pass: second_fails, ..well() },
            &["configuration"],
            "proxy.unreachable",
        ),
        scenario("21 request lost", unanswered(SILENCE, Some(lost())), &["network"], "net.request_lost"),
        scenario("22 429", answered(429, &[("retry-after", "30")], ""), &["theirs"], "http.rate_limited"),
        scenario("23 all well", well(), &["ok"], "ok"),
    ]
}

/// Prints side and code of every scenario, and how often which side was said where which was right; see `--nocapture`.
#[test]
fn every_scenario_gets_its_side_and_code() {
    let mut wrong = Vec::new();
    let mut said: BTreeMap<(&str, &str), u32> = BTreeMap::new();
    for (group, scenarios) in [("twelve", twelve()), ("extras", extras())] {
        for Scenario { name, seen, sides, code } in scenarios {
            let found = diagnose(&seen);
            let side = found.side_name();
            let right = sides.contains(&side) && found.code.as_str() == code;
            let mark = if right { ' ' } else { '!' };
            println!("{mark} {group} {name:26} {side:13} {:28} {}", found.code.as_str(), found.confidence.name());
            *said.entry((if right { side } else { sides[0] }, side)).or_default() += 1;
            if !right {
                wrong.push(name);
            }
        }
    }
    for ((expected, side), count) in said {
        println!("expected {expected:13} said {side:13} {count:3}");
    }
    assert!(wrong.is_empty(), "{wrong:?}");
}

#[test]
fn a_hung_application_is_theirs_for_sure_and_leaves_doubt() {
    let found = diagnose(&unanswered(SILENCE, Some(acknowledged())));
    assert_eq!((found.confidence, found.standing), (Confidence::High, Standing::Unusable));
    assert!(found.leaves_doubt);
    assert_eq!(
        found.because,
        [
            "no answer for 5s",
            "253 of 253 bytes acknowledged, 0 segments resent",
            "203.0.113.10:443 connects in 12ms, and shakes hands in 31ms",
        ]
    );
    let not: Vec<&str> = found.not.iter().map(|not| &*not.words).collect();
    assert_eq!(not, ["the name was looked up in 8ms", "the certificate was accepted", "its address connects in 12ms"]);
    assert_eq!(
        found.next,
        [
            "report it to the partner",
            "for the report: 2026-11-30T10:00:00.000Z, 203.0.113.10:443, no answer for 5s",
            "treat a write that met the same as in doubt: `abide replay KEY` asks before it sends again",
        ]
    );
    let by_exclusion = diagnose(&unanswered(SILENCE, None));
    assert_eq!((by_exclusion.code, by_exclusion.confidence), (Code::AppSilent, Confidence::Medium));
    let bare = Observations { addresses: Vec::new(), ..unanswered(SILENCE, None) };
    assert_eq!((diagnose(&bare).code, diagnose(&bare).confidence), (Code::AppSilent, Confidence::Low));
}

#[test]
fn a_dead_address_beside_one_that_works_is_a_degradation() {
    let found = diagnose(&one_dead());
    assert_eq!(found.standing, Standing::Degraded);
    assert_eq!(
        found.because,
        [
            "1 of 2 addresses fails: [2001:db8::10]:443: no answer",
            "the others work",
            "all of them are IPv6: perhaps only the way there is broken",
        ]
    );
}

#[test]
fn who_never_let_us_in_is_asked_to_with_the_address_that_we_come_from() {
    let mut seen = undialled(ConnectFailure::Silent, ms(3_000));
    seen.addresses[0].before = Some(Before::Never);
    seen.setup.egress = Some([198, 51, 100, 7].into());
    let found = diagnose(&seen);
    assert_eq!(verdict(&seen), ("configuration", "tcp.filtered"));
    assert_eq!(
        found.next[0],
        "ask the partner to allow our address (198.51.100.7, or the one that a translator gives us)"
    );
    seen.addresses[0].before = Some(Before::Worked { ago: Duration::from_secs(6 * 86_400) });
    assert_eq!(verdict(&seen), ("network", "tcp.filtered"));
}

#[test]
fn a_partner_that_asks_to_wait_is_left_alone_for_as_long() {
    let found = diagnose(&answered(503, &[("retry-after", "2")], ""));
    assert_eq!((found.wait, &*found.next[0]), (Some(ms(2_000)), "wait 2s"));
    assert!(found.because.contains(&"it asks to wait 2s (Retry-After)".to_owned()));
}
