//! Whatever is observed, there is a verdict with words.

use super::*;
use crate::engine::diagnose::clock::Skew;
use crate::engine::diagnose::judgement::{Confidence, Standing};
use crate::engine::diagnose::observations::{KeepAlive, Proxy, ProxySource};
use crate::engine::diagnose::sending::forecast;
use crate::engine::operation::Method;
use crate::engine::policy::Policy;
use proptest::prelude::*;
use proptest::sample::select;

#[test]
fn nothing_observed_is_unclear() {
    let found = diagnose(&Observations::default());
    assert_eq!((found.side_name(), found.code.as_str()), ("unclear", "probe.nothing"));
    assert_eq!((found.confidence, found.standing), (Confidence::Low, Standing::Unknown));
    assert!(!found.next.is_empty());
}

#[test]
fn a_probe_that_stopped_half_way_is_unclear() {
    let mut seen = started();
    assert_eq!(verdict(&seen), ("unclear", "probe.incomplete"));
    seen.addresses = vec![shaken(addr(10))];
    assert_eq!(verdict(&seen), ("unclear", "probe.incomplete"));
    seen.deadline_reached = Some(Stage::Write);
    assert_eq!(verdict(&seen), ("unclear", "probe.deadline"));
}

const STAGES: [Stage; 6] = [Stage::Resolve, Stage::Connect, Stage::Tls, Stage::Write, Stage::FirstByte, Stage::Body];

fn faults() -> Vec<Fault> {
    let limits = [Limit::Connect, Limit::Write, Limit::Read, Limit::Body, Limit::Attempt, Limit::Deadline];
    let distrusts = [
        Distrust::Expired,
        Distrust::NotYetValid,
        Distrust::Name,
        Distrust::Issuer,
        Distrust::SelfSigned,
        Distrust::Other,
    ];
    let others = [
        Fault::NameUnknown,
        Fault::NameUnavailable,
        Fault::ConnectionRefused,
        Fault::Unreachable,
        Fault::Reset,
        Fault::Closed,
        Fault::NotHttp,
        Fault::HeadTooLarge,
        Fault::LocalResources,
        Fault::Suspended,
        Fault::NoTrust,
        Fault::NotTls,
        Fault::TlsIncompatible,
        Fault::Tls,
        Fault::ClientCertificateWanted,
        Fault::ClientCertificateRefused,
        Fault::Alert,
        Fault::ProxyNameUnknown,
        Fault::ProxyUnreachable,
        Fault::Proxy,
        Fault::ProxyCredentials,
        Fault::ProxyForbids,
        Fault::BeyondProxy,
        Fault::Unbuildable,
        Fault::Expired,
        Fault::Other,
    ];
    limits.map(Fault::TimedOut).into_iter().chain(distrusts.map(Fault::Certificate)).chain(others).collect()
}

fn any_fault() -> impl Strategy<Value = Fault> {
    select(faults())
}

fn any_time() -> impl Strategy<Value = Option<Duration>> {
    proptest::option::of(select(vec![Duration::ZERO, ms(1), ms(999), ms(3_060), ms(5_000), Duration::MAX]))
}

fn any_count() -> impl Strategy<Value = Option<u64>> {
    proptest::option::of(select(vec![0, 1, 253, u64::MAX]))
}

fn any_exchange() -> impl Strategy<Value = Exchange> {
    let sent = select(vec![Sent::Nothing, Sent::Part, Sent::Whole]);
    let unanswered = (sent, select(STAGES.to_vec()), any_fault())
        .prop_map(|(sent, stage, fault)| Outcome::Unanswered { sent, stage, fault });
    let field = select(vec![
        ("location", "/health"),
        ("location", "http://["),
        ("retry-after", "99999999999999999999"),
        ("retry-after", "soon"),
        ("proxy-status", "a; error=b"),
        ("cf-error-type", "é\u{7}"),
        ("content-type", "text/html"),
        ("server", "cloudflare"),
    ]);
    let ending = prop_oneof![Just(Ending::Complete), Just(Ending::Capped), any_fault().prop_map(Ending::Cut)];
    let answered = (0u16..1_000, proptest::collection::vec(field, 0..4), ending)
        .prop_map(|(status, fields, ending)| Outcome::Answered(Answer { ending, ..answer(status, &fields, "<html>") }));
    let via = select(vec![Via::Direct, Via::Forward, Via::Tunnel]);
    (prop_oneof![unanswered, answered], any_time(), any_count(), via, proptest::bool::ANY).prop_map(
        |(outcome, took, us, via, with_addr)| Exchange {
            took: took.unwrap_or_default(),
            stages: Stages { resolve_us: us, connect_us: us, tls_us: us, write_us: us, first_byte_us: us, body_us: us },
            addr: with_addr.then(|| addr(10)),
            via,
            ..exchange(outcome, ms(1))
        },
    )
}

fn any_address() -> impl Strategy<Value = Address> {
    use ConnectFailure::*;
    let failure =
        select(vec![Silent, Refused, NetworkUnreachable, HostUnreachable, Denied, Invalid, LocalResources, Other]);
    let outcome = prop_oneof![Just(Ok(())), failure.prop_map(Err)];
    let connect = (outcome, any_time(), proptest::option::of(0u32..3))
        .prop_map(|(outcome, took, syns_resent)| Connect { outcome, took, syns_resent });
    let shown = (proptest::bool::ANY, proptest::bool::ANY).prop_map(|(from, to)| Certificate {
        names: vec!["é\u{7}".into(); 9],
        issuer: Some("R11".into()),
        not_before: from.then(Timestamp::default),
        not_after: to.then_some(Timestamp::LAST),
    });
    let tls = (prop_oneof![Just(Ok(())), any_fault().prop_map(Err)], any_time(), proptest::option::of(shown))
        .prop_map(|(outcome, took, certificate)| Handshake { took, certificate, ..Handshake::new(outcome) });
    let tcp = (any_time(), any_count(), any_count(), any_count(), any_count()).prop_map(
        |(rtt, resent, unacked, queued_bytes, acked_bytes)| Tcp {
            rtt,
            resent,
            unacked,
            queued_bytes,
            acked_bytes,
            sent_bytes: Some(253),
        },
    );
    let option = proptest::option::of::<_>;
    let before = select(vec![None, Some(Before::Never), Some(Before::Worked { ago: Duration::MAX })]);
    let last = 10u8..14;
    (last, option(connect.boxed()), proptest::option::of(tls), proptest::option::of(tcp), before, any_time()).prop_map(
        |(last, connect, tls, tcp, before, smallest_rtt)| Address {
            connect,
            tls,
            tcp,
            before,
            smallest_rtt,
            ..Address::new(addr(last))
        },
    )
}

fn any_setting() -> impl Strategy<Value = Observations> {
    let trouble = select(vec![None, None, None, Some(Trouble::Secret("A".into())), Some(Trouble::Usage("b".into()))]);
    let proxy = proptest::option::of((proptest::option::of(any_fault()), proptest::bool::ANY));
    let failures = vec![LookupFailure::Unknown, LookupFailure::Empty, LookupFailure::TimedOut];
    let lookup = proptest::option::of(proptest::option::of(select(failures)));
    let rcodes = vec![None, Some(Rcode::Found(0)), Some(Rcode::Found(2)), Some(Rcode::NxDomain), Some(Rcode::Other(9))];
    let replies = proptest::collection::vec(select(rcodes), 0..3);
    let skew = proptest::option::of(select(vec![0, 3_000, -400_000, i64::MIN, i64::MAX]));
    (trouble, proxy, lookup, replies, skew, any_time(), proptest::bool::ANY).prop_map(
        |(trouble, proxy, lookup, replies, skew, time, known)| {
            let mut seen = if known { started() } else { Observations::default() };
            seen.setup = Setup { trouble, clock_step: time, ..Setup::default() };
            seen.proxy = proxy.map(|(fault, worked)| Proxy {
                name: "p:1".into(),
                source: ProxySource::Flag,
                outcome: fault.map(Err),
                before: worked.then_some(Before::Never),
            });
            seen.names.lookup = lookup.map(|failure| Lookup { outcome: failure.map_or(Ok(()), Err), took: time });
            let reply = |answer| Reply { server: [10, 0, 0, 2].into(), question: Question::A, answer, took: time };
            seen.names.replies = replies.into_iter().map(reply).collect();
            seen.skew = skew.map(|ahead_ms| Skew { ahead_ms, uncertainty: time.unwrap_or_default() });
            let usual = time.map(|p99| Usual { p50: ms(1), p99 });
            seen.past.first_byte = usual;
            seen.past.whole = usual;
            seen.past.rtt = time;
            seen.past.body_rate = Some(u64::MAX);
            seen.keep_alive = known.then_some(KeepAlive { reused: Some(false), idle_close: time, watched: time });
            seen
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]
    #[test]
    fn every_combination_gets_a_verdict_with_words(
        setting in any_setting(),
        addresses in proptest::collection::vec(any_address(), 0..4),
        exchange in proptest::option::of(any_exchange()),
        second_pass in proptest::option::of(any_exchange()),
        deadline_reached in proptest::option::of(select(STAGES.to_vec())),
    ) {
        let seen = Observations { addresses, exchange, second_pass, deadline_reached, ..setting };
        let found = diagnose(&seen);
        let policy = Policy::unprofiled(Method::new("PUT").expect("a method"), "https://a.example:443");
        let told = forecast(&seen, &policy, "https://a.example/orders", true);
        prop_assert!(told.is_none_or(|told| !told.words.is_empty()));
        prop_assert!(!found.next.is_empty());
        prop_assert!(found.because.iter().chain(&found.next).all(|words| !words.is_empty()));
        prop_assert_eq!(found.side.is_none(), found.standing == Standing::Usable);
        // Nobody is usable who did not answer.
        let works = matches!(found.standing, Standing::Usable | Standing::Degraded);
        prop_assert!(!works || seen.answer().is_some());
        let told = found.because.iter().chain(found.also.iter().flat_map(|blemish| &blemish.because));
        prop_assert!(told.flat_map(|words| words.chars()).all(|c| !c.is_control()));
    }
}
