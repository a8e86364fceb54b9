//! Facts and wishes to claim and append with.

use abide::drive::{EntryRule, Wish};
use abide::engine::exchange::{Stage, Stages};
use abide::engine::facts::*;
use abide::engine::moment::{Moment, Now, Timestamp};
use abide::engine::operation::{Fingerprint, IdempotencyKey, PartnerName};
use abide::engine::reason::Reason;
use abide::engine::verdict::{Cause, Evidence, Side, Verdict};
use std::sync::Arc;
use std::time::Duration;

pub fn now() -> Now {
    Now { steady: Moment::new(Duration::from_secs(5)), wall: Timestamp::from_unix_ms(1_795_946_599_123) }
}

pub fn partner(name: &str) -> PartnerName {
    PartnerName::new(name).expect("a name")
}

pub fn key(text: &str) -> IdempotencyKey {
    IdempotencyKey::new(text, 255).expect("a key")
}

pub fn opened(payload: &str, body: StoredBody, boot: &str) -> Opened {
    Opened {
        partner: partner("acme"),
        profile: Some("/etc/abide/acme.toml".into()),
        account: Some("live".into()),
        method: "POST".into(),
        url: "http://acme.example/pay?sig=$masked".into(),
        headers: vec![("Content-Type".into(), "application/json".into()), ("X-\"Q\"".into(), "é\\".into())],
        fp: Fingerprint(format!("v1:{payload}").into()),
        body,
        contract: "Idempotency-Key raw".into(),
        key_until: Some(now().wall.after(Duration::from_secs(3_420))),
        valid_until: None,
        tls: None,
        deadline: now().wall.after(Duration::from_secs(150)),
        why: Why::Send,
        owner: Owner { host: "build-7".into(), boot: boot.into(), pid: 4821 },
    }
}

pub const BOOT: &str = "ea1fce36-0000-4000-8000-000000000001";

pub fn wish(name: &str, payload: &str) -> Wish {
    wish_of(name, opened(payload, StoredBody::Text(payload.into()), BOOT), payload.as_bytes())
}

pub fn wish_of(name: &str, opened: Opened, body: &[u8]) -> Wish {
    Wish { key: key(name), opened: Arc::new(opened), body: body.into(), entry: EntryRule::Keyed }
}

pub fn started(a: u32) -> Fact {
    Fact::Started(Started { a, addr: Some("127.0.0.1:80".parse().expect("an address")), proxy: None })
}

pub fn attempt(a: u32, evidence: Evidence) -> Arc<Finished> {
    Arc::new(Finished {
        a,
        evidence,
        done: (evidence == Evidence::Answered).then_some(true),
        again: Again::Yes,
        reason: Reason::Unavailable,
        stage: Some(Stage::FirstByte),
        side: Some(Side::Theirs),
        http: Some(503),
        ms: 332,
        stages: Some(Box::new(Stages { connect_us: Some(812), ..Stages::default() })),
        error: Some("connection reset".into()),
        not_before: Some(now().wall),
        replayed: false,
        slow: false,
        hop: None,
    })
}

pub fn finished(a: u32, evidence: Evidence) -> Fact {
    Fact::Finished(attempt(a, evidence))
}

pub fn settled(verdict: Verdict, last: Option<Arc<Finished>>) -> Fact {
    let response = Response {
        headers: vec![("content-type".into(), "application/json".into())],
        len: 9,
        sha: "ab".repeat(32).into(),
        body: Some(StoredBody::Text("{\"id\":77}".into())),
        cut: false,
    };
    let response = last.is_some().then(|| Box::new(response));
    Fact::Settled(Arc::new(Settled { verdict, cause: Cause::Answer, retry_at: None, last, response }))
}

pub fn asked() -> Fact {
    Fact::Asked(Asked {
        says: Says::Unclear,
        about: About::Control,
        by_body: true,
        http: Some(200),
        ms: 3,
        not_before: None,
        note: Some("no rule covers it".into()),
    })
}

pub fn waiting() -> Fact {
    let until_steady = Some(now().steady);
    Fact::Waiting(Waiting { until: now().wall, reason: Pause::RetryAfter, until_steady })
}
