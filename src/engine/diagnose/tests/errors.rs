//! The table of errors of connections (latency.md 6.4), and the rules one by one (6.5).

use super::*;
use crate::engine::diagnose::code::Code;
use crate::engine::diagnose::dial::cause;
use crate::engine::verdict::Side;
use std::collections::HashSet;

#[test]
fn every_error_has_its_owner() {
    use ConnectFailure::*;
    let us = Duration::from_micros;
    let rows = [
        ("no route at all", NetworkUnreachable, Some(us(60)), None, Code::NoRoute, Side::Ours),
        ("no route, time unknown", NetworkUnreachable, None, None, Code::NoRoute, Side::Ours),
        ("unreachable route here", HostUnreachable, Some(us(60)), None, Code::RouteDenied, Side::Ours),
        ("prohibit route here", Denied, Some(us(60)), None, Code::RouteDenied, Side::Ours),
        ("blackhole route here", Invalid, Some(us(60)), None, Code::RouteDenied, Side::Ours),
        ("neighbour without ARP", HostUnreachable, Some(ms(3_060)), None, Code::NeighbourSilent, Side::Network),
        ("neighbour, timer at 1.3 s", Silent, Some(ms(1_300)), None, Code::Filtered, Side::Network),
        ("RST", Refused, Some(us(90)), None, Code::Refused, Side::Theirs),
        ("RST after a round trip", Refused, Some(ms(12)), Some(ms(11)), Code::Refused, Side::Theirs),
        ("ICMP host-unreachable", HostUnreachable, Some(ms(14)), None, Code::Rejected, Side::Network),
        ("ICMP net-unreachable", NetworkUnreachable, Some(ms(14)), None, Code::Rejected, Side::Network),
        ("ICMP, time unknown", HostUnreachable, None, None, Code::Rejected, Side::Network),
        ("as fast as a round trip", HostUnreachable, Some(us(400)), Some(us(300)), Code::Rejected, Side::Network),
        ("faster than any round trip", NetworkUnreachable, Some(ms(5)), Some(ms(11)), Code::NoRoute, Side::Ours),
        ("our OUTPUT drop", Silent, Some(ms(3_000)), None, Code::Filtered, Side::Network),
        ("our OUTPUT reject", Refused, Some(us(50)), Some(ms(11)), Code::RejectedHere, Side::Ours),
        ("backlog full", Silent, Some(ms(3_000)), Some(ms(11)), Code::Filtered, Side::Network),
        ("out of descriptors", LocalResources, None, None, Code::LocalResources, Side::Ours),
    ];
    for (row, failure, took, smallest_rtt, code, side) in rows {
        assert_eq!(cause(failure, took, smallest_rtt), (code, side), "{row}");
    }
}

/// What scripts may rely on: a slug may be added here, and none may change or go.
const SLUGS: &str = "
    setup.usage setup.profile setup.secret proxy.name_unknown proxy.unreachable proxy.failed proxy.credentials
    proxy.forbids proxy.beyond local.resources local.suspended net.no_route net.route_denied net.rejected_here
    dns.nxdomain dns.no_address dns.no_answer dns.servfail dns.refused dns.local_resolver dns.failed tcp.refused
    tcp.filtered net.rejected net.neighbour_silent tcp.no_connection tls.blackhole tls.silent tls.closed
    clock.skew tls.expired tls.not_yet_valid tls.wrong_name tls.intercepted tls.unknown_issuer tls.self_signed
    tls.bad_certificate tls.no_trust tls.client_certificate_wanted tls.client_certificate_refused tls.version
    tls.not_tls tls.alert tls.failed limits.read_short net.request_lost app.silent app.stopped_reading app.reset app.closed
    app.not_http app.head_too_large http.edge_origin_timeout http.edge_origin_refused
    http.edge_origin_unreachable http.edge_origin_dns http.edge_origin_tls http.edge_origin_answer
    http.edge_denied http.edge_error http.gateway http.unavailable http.rate_limited http.server_error
    http.request_timeout http.unauthorized http.blocked http.forbidden http.switched http.redirect_loop
    http.redirect_https http.redirect_http http.redirect http.captive_portal http.html http.body_cut http.body_stalled
    send.path_fails probe.deadline probe.incomplete probe.nothing tcp.dead_address http.address_differs
    send.path_differs probe.intermittent http.keep_alive slow.server slow.network net.loss slow.resolve slow.connect slow.tls slow.body tls.expires_soon http.client_error ok
";

#[test]
fn slugs_are_stable_and_each_has_words_and_a_next_step() {
    let slugs: Vec<&str> = Code::ALL.iter().map(|code| code.as_str()).collect();
    assert_eq!(slugs, SLUGS.split_whitespace().collect::<Vec<_>>());
    assert_eq!(slugs.iter().collect::<HashSet<_>>().len(), slugs.len(), "no slug is given twice");
    for code in Code::ALL {
        let slug = code.as_str();
        assert!(slug.bytes().all(|b| b.is_ascii_lowercase() || b"._0123456789".contains(&b)), "{slug}");
        for words in [code.words(), code.next()] {
            assert!(words.len() > 10 && !words.ends_with('.'), "{slug}: {words}");
        }
        assert_eq!(serde_json::to_string(code).expect("a slug"), format!("\"{slug}\""));
    }
}

#[test]
fn rule_1_what_is_missing_here_comes_before_everything() {
    for (trouble, code) in [
        (Trouble::Usage("no URL".into()), "setup.usage"),
        (Trouble::Profile("bank.toml:14: unknown key".into()), "setup.profile"),
        (Trouble::Secret("ACME_TOKEN".into()), "setup.secret"),
    ] {
        let setup = Setup { trouble: Some(trouble), ..Setup::default() };
        let seen = Observations { setup, ..unanswered(SILENCE, Some(lost())) };
        assert_eq!(verdict(&seen), ("configuration", code));
    }
}

#[test]
fn rule_4_names() {
    use LookupFailure::*;
    for (failure, answer, expected) in [
        (Unknown, Some(Rcode::NxDomain), ("configuration", "dns.nxdomain")),
        (Unknown, Some(Rcode::Found(0)), ("configuration", "dns.no_address")),
        (Empty, Some(Rcode::Found(0)), ("configuration", "dns.no_address")),
        (Unavailable, Some(Rcode::ServFail), ("theirs", "dns.servfail")),
        (Unavailable, Some(Rcode::Refused), ("ours", "dns.refused")),
        (Unavailable, None, ("ours", "dns.no_answer")),
        (TimedOut, None, ("ours", "dns.no_answer")),
        (TimedOut, Some(Rcode::Found(2)), ("ours", "dns.local_resolver")),
        (Unavailable, Some(Rcode::Other(4)), ("unclear", "dns.failed")),
    ] {
        assert_eq!(verdict(&unnamed(failure, answer)), expected, "{failure:?} {answer:?}");
    }
    for (failure, expected) in [
        (Unknown, ("configuration", "dns.nxdomain")),
        (Empty, ("configuration", "dns.no_address")),
        (Unavailable, ("unclear", "dns.failed")),
        (TimedOut, ("ours", "dns.no_answer")),
    ] {
        let mut unasked = unnamed(failure, None);
        unasked.names.replies.clear();
        assert_eq!(verdict(&unasked), expected, "{failure:?}");
    }
}

#[test]
fn rules_8_and_9_tls() {
    let distrust = |why| unshaken(Fault::Certificate(why));
    for (seen, expected) in [
        (distrust(Distrust::Expired), ("theirs", "tls.expired")),
        (distrust(Distrust::NotYetValid), ("theirs", "tls.not_yet_valid")),
        (distrust(Distrust::Name), ("theirs", "tls.wrong_name")),
        (distrust(Distrust::Issuer), ("configuration", "tls.unknown_issuer")),
        (distrust(Distrust::SelfSigned), ("configuration", "tls.self_signed")),
        (distrust(Distrust::Other), ("theirs", "tls.bad_certificate")),
        (unshaken(Fault::NoTrust), ("configuration", "tls.no_trust")),
        (unshaken(Fault::ClientCertificateWanted), ("configuration", "tls.client_certificate_wanted")),
        (unshaken(Fault::ClientCertificateRefused), ("configuration", "tls.client_certificate_refused")),
        (unshaken(Fault::TlsIncompatible), ("theirs", "tls.version")),
        (unshaken(Fault::NotTls), ("configuration", "tls.not_tls")),
        (unshaken(Fault::Alert), ("unclear", "tls.alert")),
        (unshaken(Fault::Reset), ("theirs", "tls.closed")),
        (unshaken(Fault::Tls), ("theirs", "tls.failed")),
        (unshaken(Fault::TimedOut(Limit::Connect)), ("unclear", "tls.silent")),
    ] {
        assert_eq!(verdict(&seen), expected);
    }
    let mut silent = unshaken(Fault::TimedOut(Limit::Connect));
    silent.addresses[0].tcp = Some(acknowledged());
    assert_eq!(verdict(&silent), ("theirs", "tls.silent"));
}

#[test]
fn rule_11_answers() {
    let json = ("content-type", "application/json");
    let firewall = ("server", "cloudflare");
    let to = |location| ("location", location);
    for (status, fields, expected) in [
        (520, vec![], ("theirs", "http.edge_origin_answer")),
        (521, vec![], ("theirs", "http.edge_origin_refused")),
        (523, vec![], ("theirs", "http.edge_origin_unreachable")),
        (524, vec![], ("theirs", "http.edge_origin_timeout")),
        (526, vec![], ("theirs", "http.edge_origin_tls")),
        (530, vec![], ("theirs", "http.edge_error")),
        (500, vec![("cf-error-type", "x")], ("theirs", "http.edge_error")),
        (504, vec![("proxy-status", "e; error=http_response_timeout")], ("theirs", "http.edge_origin_timeout")),
        (502, vec![("proxy-status", "e; error=dns_error")], ("theirs", "http.edge_origin_dns")),
        (502, vec![("proxy-status", "e; error=connection_terminated")], ("theirs", "http.edge_origin_answer")),
        (403, vec![("proxy-status", "e; error=http_request_denied")], ("theirs", "http.edge_denied")),
        (502, vec![("proxy-status", "e; error=proxy_internal_error")], ("theirs", "http.edge_error")),
        (502, vec![], ("theirs", "http.gateway")),
        (503, vec![], ("theirs", "http.unavailable")),
        (504, vec![], ("theirs", "http.gateway")),
        (500, vec![], ("theirs", "http.server_error")),
        (101, vec![("upgrade", "websocket")], ("theirs", "http.switched")),
        (511, vec![], ("network", "http.captive_portal")),
        (408, vec![], ("unclear", "http.request_timeout")),
        (403, vec![json], ("configuration", "http.forbidden")),
        (403, vec![json, firewall], ("configuration", "http.forbidden")),
        (403, vec![firewall], ("configuration", "http.blocked")),
        (301, vec![to("https://api.partner.example/health")], ("configuration", "http.redirect_loop")),
        (301, vec![to("http://api.partner.example/health")], ("configuration", "http.redirect_http")),
        (301, vec![to("https://login.partner.example/")], ("configuration", "http.redirect")),
        (304, vec![], ("configuration", "http.redirect")),
        (404, vec![json], ("ok", "http.client_error")),
        (405, vec![], ("ok", "http.client_error")),
        (204, vec![], ("ok", "ok")),
    ] {
        assert_eq!(verdict(&answered(status, &fields, "")), expected, "{status} {fields:?}");
    }
    let mut plain = answered(301, &[to("https://api.partner.example/health")], "");
    plain.target.url = Some("http://api.partner.example/health".into());
    assert_eq!(verdict(&plain), ("configuration", "http.redirect_https"));
}

#[test]
fn rules_12_and_13_what_is_slow() {
    let usual = Some(Usual { p50: ms(1), p99: ms(5) });
    let slow = |set: fn(&mut Observations, Option<Usual>)| {
        let mut seen = well();
        set(&mut seen, usual);
        verdict(&seen)
    };
    assert_eq!(slow(|seen, usual| seen.past.resolve = usual), ("ours", "slow.resolve"));
    assert_eq!(slow(|seen, usual| seen.past.connect = usual), ("network", "slow.connect"));
    assert_eq!(slow(|seen, usual| seen.past.tls = usual), ("theirs", "slow.tls"));
    assert_eq!(slow(|seen, usual| seen.past.first_byte = usual), ("theirs", "slow.server"));
    let mut body = well();
    body.past.body_rate = Some(1_000_000);
    assert_eq!(verdict(&body), ("ok", "ok"), "nothing was sent again");
    body.addresses[0].tcp = Some(Tcp { resent: Some(1), ..acknowledged() });
    assert_eq!(verdict(&body), ("network", "slow.body"));
}
