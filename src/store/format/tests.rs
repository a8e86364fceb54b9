use super::*;
use crate::engine::exchange::{Stage, Stages};
use crate::engine::facts::*;
use crate::engine::operation::TlsPaths;
use crate::engine::reason::Reason;
use crate::engine::verdict::{Cause, Evidence, Side, Verdict};
use proptest::option::of;
use proptest::prelude::*;
use proptest::sample::select;
use std::sync::Arc;

fn text() -> BoxedStrategy<Box<str>> {
    prop_oneof![any::<String>(), Just(String::from("\u{0}\u{1f}\"\\/\u{7f}\u{2028}\u{feff}é")), ".{0,40}"]
        .prop_map(Box::from)
        .boxed()
}

fn when() -> BoxedStrategy<Timestamp> {
    any::<i64>().prop_map(Timestamp::from_unix_ms).boxed()
}

fn key() -> BoxedStrategy<IdempotencyKey> {
    "[!-~]{1,255}".prop_map(|text| IdempotencyKey::new(&text, 255).expect("a key")).boxed()
}

fn partner() -> BoxedStrategy<PartnerName> {
    "[ -~é]{1,80}".prop_map(|text| PartnerName::new(&text).expect("a name")).boxed()
}

fn body() -> BoxedStrategy<StoredBody> {
    let sha = || "[0-9a-f]{64}".prop_map(Box::<str>::from);
    prop_oneof![
        text().prop_map(StoredBody::Text),
        any::<Vec<u8>>().prop_map(|bytes| StoredBody::Bytes(bytes.into())),
        (sha(), any::<u64>()).prop_map(|(sha, len)| StoredBody::Blob { sha, len }),
        (sha(), any::<u64>()).prop_map(|(sha, len)| StoredBody::Hash { sha, len }),
    ]
    .boxed()
}

fn owner() -> BoxedStrategy<Owner> {
    (text(), text(), any::<u32>()).prop_map(|(host, boot, pid)| Owner { host, boot, pid }).boxed()
}

fn tls_paths() -> BoxedStrategy<TlsPaths> {
    (of(text()), of(text()), of(text())).prop_map(|(ca, cert, key)| TlsPaths { ca, cert, key }).boxed()
}

fn why() -> BoxedStrategy<Why> {
    select(vec![Why::Send, Why::Replay, Why::Work, Why::Rehearse, Why::Verify]).boxed()
}

fn verdict() -> BoxedStrategy<Verdict> {
    use Verdict::{Accepted, Confirmed, InDoubt, NotDone, Rejected};
    select(vec![Confirmed, Rejected, NotDone, InDoubt, Accepted]).boxed()
}

prop_compose! {
    fn opened()(
        (partner, profile, account, method) in (partner(), of(text()), of(text()), text()),
        (url, headers, fp, body) in (text(), prop::collection::vec((text(), text()), 0..4), text(), body()),
        (contract, key_until, valid_until) in (text(), of(when()), of(when())),
        (deadline, why, owner, tls) in (when(), why(), owner(), of(tls_paths())),
    ) -> Opened {
        let fp = Fingerprint(fp);
        Opened {
            partner, profile, account, method, url, headers, fp, body, contract, key_until, valid_until, deadline, why,
            owner, tls: tls.map(Box::new),
        }
    }
}

prop_compose! {
    fn finished()(
        a in any::<u32>(),
        evidence in select(vec![
            Evidence::NotSent, Evidence::Partial, Evidence::InDoubt, Evidence::Refused, Evidence::Answered,
            Evidence::Accepted,
        ]),
        (done, again) in (of(any::<bool>()), select(vec![Again::Yes, Again::Once, Again::No, Again::Later])),
        (reason, stage) in (select(Reason::ALL), of(select(vec![Stage::Resolve, Stage::FirstByte, Stage::Body]))),
        side in of(select(vec![Side::Ours, Side::Configuration, Side::Network, Side::Theirs, Side::Unclear])),
        (http, ms, times) in (of(any::<u16>()), any::<u64>(), of((of(any::<u64>()), of(any::<u64>())))),
        (error, not_before, replayed, slow, hop) in
            (of(text()), of(when()), any::<bool>(), any::<bool>(), of(text())),
    ) -> Arc<Finished> {
        let stages = times.map(|(resolve_us, tls_us)| Box::new(Stages { resolve_us, tls_us, ..Stages::default() }));
        Arc::new(Finished {
            a, evidence, done, again, reason, stage, side, http, ms, stages, error, not_before, replayed, slow, hop,
        })
    }
}

prop_compose! {
    fn response()(
        headers in prop::collection::vec((text(), text()), 0..4),
        (len, sha, body, cut) in (any::<u64>(), text(), of(body()), any::<bool>()),
    ) -> Box<Response> {
        Box::new(Response { headers, len, sha, body, cut })
    }
}

fn settled() -> BoxedStrategy<Fact> {
    let cause = select(vec![Cause::Answer, Cause::Status, Cause::Deadline, Cause::Interrupted, Cause::Damage]);
    (verdict(), cause, of(when()), of(finished()), of(response()))
        .prop_map(|(verdict, cause, retry_at, last, response)| {
            Fact::Settled(Arc::new(Settled { verdict, cause, retry_at, last, response }))
        })
        .boxed()
}

fn small() -> BoxedStrategy<Fact> {
    let says = select(vec![Says::Confirmed, Says::Rejected, Says::InProgress, Says::Absent, Says::Unclear]);
    let about = select(vec![About::Operation, About::Control]);
    let asked = (says, about, any::<bool>(), of(any::<u16>()), any::<u64>(), of(when()), of(text())).prop_map(
        |(says, about, by_body, http, ms, not_before, note)| {
            Fact::Asked(Asked { says, about, by_body, http, ms, not_before, note })
        },
    );
    let started = (any::<u32>(), of(any::<std::net::SocketAddrV6>()), of(text()))
        .prop_map(|(a, addr, proxy)| Fact::Started(Started { a, addr: addr.map(named), proxy }));
    let pause = select(vec![Pause::Backoff, Pause::RetryAfter, Pause::Settle, Pause::NextQuestion]);
    let waiting =
        (when(), pause).prop_map(|(until, reason)| Fact::Waiting(Waiting { until, reason, until_steady: None }));
    prop_oneof![asked, started, waiting].boxed()
}

/// An address as text can name it: the flow label is not part of it.
fn named(addr: std::net::SocketAddrV6) -> std::net::SocketAddr {
    std::net::SocketAddrV6::new(*addr.ip(), addr.port(), 0, addr.scope_id()).into()
}

fn claims() -> BoxedStrategy<Fact> {
    let predecessor = select(vec![Predecessor::Settled, Predecessor::Accounted, Predecessor::InDoubt]);
    let reopened = (partner(), when(), why(), predecessor, of(when()), owner()).prop_map(
        |(partner, deadline, why, predecessor, key_until, owner)| {
            Fact::Reopened(Arc::new(Reopened { partner, deadline, why, predecessor, key_until, owner }))
        },
    );
    let resolved = (partner(), verdict(), text(), text())
        .prop_map(|(partner, verdict, by, note)| Fact::Resolved(Arc::new(Resolved { partner, verdict, by, note })));
    prop_oneof![opened().prop_map(|opened| Fact::Opened(Arc::new(opened))), reopened, resolved].boxed()
}

fn facts() -> BoxedStrategy<Fact> {
    prop_oneof![claims(), settled(), finished().prop_map(Fact::Finished), small()].boxed()
}

fn strip(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\n").expect("one line break at the end")
}

proptest! {
    #[test]
    fn every_fact_is_read_back_as_it_was(
        fact in facts(), key in key(), at in when(), n in any::<u64>(), durable in any::<u64>(), o in of(any::<u64>())
    ) {
        let line = fact_line(&Entry { n, key: &key, at, fact: &fact, opened_at: o, durable });
        let text = strip(&line);
        prop_assert!(!text.contains(&b'\n'));
        prop_assert!(serde_json::from_slice::<serde_json::Value>(text).is_ok());
        prop_assert_eq!(envelope(text), Some(Envelope { t: fact.name(), n: Some(n), durable }));
        let (read_key, recorded) = super::fact(text).expect("it reads back");
        prop_assert_eq!(&read_key, &key);
        prop_assert_eq!(&recorded, &Recorded { n, at, steady: None, fact: fact.clone() });
        if fact.is_claim() {
            prop_assert_eq!(&identity(text).expect("it has one").key, &key);
        }
        prop_assert_eq!(is_about(text, &key), Some(true));
        let head = head::Head::read(text);
        prop_assert_eq!(head.is_some(), !key.as_str().contains(['"', '\\']), "only an escape takes a parser");
        let parsed = serde_json::from_slice::<Identity>(text).ok().filter(|_| fact.is_claim());
        if let (Some(head), Some(parsed)) = (head.and_then(head::Head::identity), parsed) {
            prop_assert_eq!(head, parsed);
        }
        let said = match &fact {
            Fact::Settled(settled) => Some(settled.verdict),
            Fact::Resolved(resolved) => Some(resolved.verdict),
            _ => None,
        };
        if said.is_some() {
            prop_assert_eq!(super::verdict(text), said);
            prop_assert!(head.is_none_or(|head| head.verdict().is_none_or(|quick| Some(quick) == said)));
        }
    }

    #[test]
    fn what_a_loss_leaves_is_read_back(key in key(), n in 1_u64..9, named in any::<bool>()) {
        let partner = PartnerName::new("a \"c\" me").filter(|_| named);
        let line = lost_line(n, &key, partner.as_ref(), Timestamp::default(), 5);
        prop_assert_eq!(envelope(strip(&line)), Some(Envelope { t: "lost", n: Some(n), durable: 5 }));
        prop_assert_eq!(whose(strip(&line)), Some((key, partner)));
        let line = accepted_line(n, &[(1, 2)], Timestamp::default(), 5);
        prop_assert_eq!(envelope(strip(&line)), Some(Envelope { t: "note", n: Some(n), durable: 5 }));
        prop_assert_eq!(note(strip(&line)).map(|note| note.what), Some("accepted".into()));
    }

    #[test]
    fn a_changed_byte_is_noticed(fact in small(), key in key(), at in any::<prop::sample::Index>(), bit in 0..8) {
        let line = fact_line(&Entry {
            n: 7, key: &key, at: Timestamp::default(), fact: &fact, opened_at: None, durable: 9,
        });
        let mut text = strip(&line).to_vec();
        let at = at.index(text.len());
        text[at] ^= 1_u8 << bit;
        prop_assert_eq!(envelope(&text), None);
        prop_assert_eq!(super::fact(&text), None);
    }
}

#[test]
fn lines_look_as_the_format_says() {
    let key = IdempotencyKey::new("order-\"1\"", 255).expect("a key");
    let at = Timestamp::from_unix_ms(1_795_946_599_123);
    let started = Fact::Started(Started { a: 2, addr: Some("127.0.0.1:80".parse().expect("an address")), proxy: None });
    let line = fact_line(&Entry { n: 41, key: &key, at, fact: &started, opened_at: None, durable: 712 });
    let expected = r#"{"t":"started","n":41,"k":"order-\"1\"","at":"2026-11-29T10:03:19.123Z","a":2,"addr":"127.0.0.1:80","d":712"#;
    let crc = crc32fast::hash(expected.as_bytes());
    assert_eq!(String::from_utf8(line).expect("text"), format!("{expected},\"crc\":\"{crc:08x}\"}}\n"));
    let settled = Settled {
        verdict: Verdict::InDoubt,
        cause: Cause::Deadline,
        retry_at: Some(at),
        last: None,
        response: Some(Box::new(Response {
            headers: vec![("a".into(), "b".into())],
            len: 2,
            sha: "cd".into(),
            body: Some(StoredBody::Bytes([0xff, 0].into())),
            cut: true,
        })),
    };
    let fact = Fact::Settled(Arc::new(settled));
    let line = fact_line(&Entry { n: 41, key: &key, at, fact: &fact, opened_at: Some(154), durable: 712 });
    let line = String::from_utf8(line).expect("text");
    assert!(line.starts_with(concat!(
        r#"{"t":"settled","n":41,"k":"order-\"1\"","at":"2026-11-29T10:03:19.123Z","verdict":"in_doubt","#,
        r#""cause":"deadline","retry_at":"2026-11-29T10:03:19.123Z","#,
        r#""response":{"headers":[["a","b"]],"len":2,"sha":"cd","body":{"b64":"/wA="},"cut":true},"o":154,"d":712,"#,
    )));
}

#[test]
fn the_checksum_is_crc_32() {
    // Source: the check value of CRC-32/ISO-HDLC in the catalogue of parametrised CRC algorithms.
    assert_eq!(crc32fast::hash(b"123456789"), 0xcbf4_3926);
}

#[test]
fn fields_of_newer_writers_are_passed_over() {
    let body = r#"{"t":"started","n":1,"k":"k1","at":"2026-11-29T10:03:19.123Z","a":1,"colour":{"x":[1]},"d":5"#;
    let line = format!("{body},\"crc\":\"{:08x}\"}}", crc32fast::hash(body.as_bytes()));
    let (_, recorded) = fact(line.as_bytes()).expect("it reads");
    assert_eq!(recorded.fact, Fact::Started(Started { a: 1, addr: None, proxy: None }));
}

#[test]
fn only_a_ledger_line_begins_a_ledger() {
    let header = Header { v: 1, id: "0123456789abcdef".into(), generation: 0 };
    let line = header_line(&header, Timestamp::default());
    let text = String::from_utf8(strip(&line).to_vec()).expect("text");
    assert_eq!(first_line(text.as_bytes()), FirstLine::Ledger(header));
    assert_eq!(first_line(text.replace("\"v\":1", "\"v\":3").as_bytes()), FirstLine::Newer(3));
    for foreign in [
        "",
        "{}",
        "{\"t\":\"ledger\"}",
        &text.replace("0123", "0124"),
        &text.replace("\"gen\":0", "\"gen\":1"),
        &text.replace("{\"t\"", "{ \"t\""),
        &text[..text.len() - 1],
    ] {
        assert_eq!(first_line(foreign.as_bytes()), FirstLine::Foreign, "{foreign}");
    }
    let path = Header { v: 1, id: "../../x".into(), generation: 0 };
    assert_eq!(first_line(strip(&header_line(&path, Timestamp::default()))), FirstLine::Foreign);
}

#[test]
fn a_blob_is_named_by_a_hash_and_nothing_else() {
    for blob in ["sha256:../../etc/passwd", "md5:00", "", &format!("sha256:{}", "A".repeat(64))] {
        let body = format!(
            r#"{{"t":"settled","n":1,"k":"k","at":"2026-11-29T10:03:19.123Z","verdict":"in_doubt","cause":"answer","response":{{"headers":[],"len":1,"sha":"x","body":{{"blob":"{blob}","len":1}}}},"d":5"#
        );
        let line = format!("{body},\"crc\":\"{:08x}\"}}", crc32fast::hash(body.as_bytes()));
        assert_eq!(fact(line.as_bytes()), None, "{blob}");
    }
}

#[test]
fn a_line_says_which_claims_were_forgotten() {
    let line = forgotten_line(3, 9, Timestamp::default(), 77);
    let envelope = envelope(strip(&line)).expect("whole");
    assert_eq!((envelope.t, envelope.n, envelope.durable), ("forgotten", Some(9), 77));
    assert_eq!(forgotten(strip(&line)), Some((3, 9)));
    for (from, to) in [(0, 9), (10, 9)] {
        assert_eq!(forgotten(strip(&forgotten_line(from, to, Timestamp::default(), 0))), None);
    }
    assert_eq!(forgotten(b"{\"t\":\"forgotten\",\"n\":9}"), None);
}

#[test]
fn a_number_that_no_line_can_have_is_none() {
    let max = u64::MAX.to_string();
    let cases: [(&str, Option<u64>); 6] = [
        ("0,", Some(0)),
        ("007", Some(7)),
        (&max, Some(u64::MAX)),
        ("18446744073709551616", None),
        ("", None),
        ("-1", None),
    ];
    for (text, number) in cases {
        assert_eq!(leading_number(text.as_bytes()), number, "{text}");
    }
}
