//! Ledgers of any size, written line by line as abide writes them.

use abide::engine::exchange::{Stage, Stages};
use abide::engine::facts::{Again, Fact, Finished, Opened, Owner, Response, Settled, Started, StoredBody, Why};
use abide::engine::moment::Timestamp;
use abide::engine::operation::{Fingerprint, IdempotencyKey, PartnerName};
use abide::engine::reason::Reason;
use abide::engine::verdict::{Cause, Evidence, Side, Verdict};
use abide::store::format::{Entry, Header, VERSION, fact_line, header_line};
use std::fs::OpenOptions;
use std::io::{BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// When the first operation was claimed: a good while ago, so that nothing is due again by itself.
const BEGAN_MS: i64 = 1_780_000_000_000;
/// Between two operations.
const STEP_MS: i64 = 400;

/// What became of the operations.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// All confirmed but each thousandth, which is in doubt.
    Mostly,
    /// None was executed: each may be sent again.
    Refused,
}

impl Kind {
    /// Until when a key is honoured: where it is not, each operation has a connection of its own.
    fn key_until(self) -> Option<Timestamp> {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("after 1970");
        let tomorrow = Timestamp::from_unix_ms(since.as_millis() as i64).after(Duration::from_secs(86_400));
        matches!(self, Kind::Refused).then_some(tomorrow)
    }

    fn verdict(self, at: u64) -> Verdict {
        match self {
            Kind::Mostly if at % 1_000 == 999 => Verdict::InDoubt,
            Kind::Mostly => Verdict::Confirmed,
            Kind::Refused => Verdict::NotDone,
        }
    }
}

/// Writes a ledger of so many operations to one URL, three lines each. Returns its length in bytes.
pub fn grow(path: &Path, url: &str, operations: u64, kind: Kind) -> u64 {
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path).expect("a new file");
    let mut out = BufWriter::with_capacity(1 << 20, file);
    let header = Header { v: VERSION, id: "b".repeat(32).into(), generation: 0 };
    let first = header_line(&header, Timestamp::from_unix_ms(BEGAN_MS));
    out.write_all(&first).expect("room");
    let mut end = first.len() as u64;
    for at in 0..operations {
        let when = Timestamp::from_unix_ms(BEGAN_MS + at as i64 * STEP_MS);
        let key = IdempotencyKey::new(&format!("order-{at:09}"), 255).expect("a key");
        let opened_at = end;
        let facts = [opened(url, at, when, kind.key_until()), started(), settled(kind.verdict(at))];
        for fact in &facts {
            let is_end = matches!(fact, Fact::Settled(_));
            let durable = if is_end { end } else { opened_at };
            let opened_at = is_end.then_some(opened_at);
            let line = fact_line(&Entry { n: at + 1, key: &key, at: when, fact, opened_at, durable });
            out.write_all(&line).expect("room");
            end += line.len() as u64;
        }
    }
    out.into_inner().expect("room").sync_all().expect("a disk that syncs");
    end
}

fn opened(url: &str, at: u64, when: Timestamp, key_until: Option<Timestamp>) -> Fact {
    let body = format!("{{\"amount\":{at},\"currency\":\"EUR\",\"ref\":\"order-{at:09}\"}}");
    Fact::Opened(Arc::new(Opened {
        partner: PartnerName::new("bench").expect("a name"),
        profile: None,
        account: None,
        method: "POST".into(),
        url: url.into(),
        headers: vec![("Content-Type".into(), "application/json".into())],
        fp: Fingerprint(format!("v1:{at:064x}").into()),
        body: StoredBody::Text(body.into()),
        contract: "header:idempotency-key:raw".into(),
        key_until,
        valid_until: None,
        tls: None,
        deadline: when.after(Duration::from_secs(150)),
        why: Why::Send,
        owner: Owner { host: "bench".into(), boot: "".into(), pid: 4711 },
    }))
}

fn started() -> Fact {
    Fact::Started(Started { a: 1, addr: Some("127.0.0.1:80".parse().expect("an address")), proxy: None })
}

fn settled(verdict: Verdict) -> Fact {
    let (evidence, http, side, reason) = match verdict {
        Verdict::Confirmed => (Evidence::Answered, Some(200), None, Reason::Ok),
        Verdict::NotDone => (Evidence::Refused, Some(429), Some(Side::Theirs), Reason::RateLimited),
        _ => (Evidence::InDoubt, None, Some(Side::Unclear), Reason::ReadTimeout),
    };
    let last = Finished {
        a: 1,
        evidence,
        done: (verdict == Verdict::Confirmed).then_some(true),
        again: if verdict == Verdict::NotDone { Again::Yes } else { Again::No },
        reason,
        stage: http.is_none().then_some(Stage::FirstByte),
        side,
        http,
        ms: 332,
        stages: Some(Box::new(Stages { connect_us: Some(812), first_byte_us: Some(120_412), ..Stages::default() })),
        error: None,
        not_before: None,
        replayed: false,
        slow: false,
        hop: None,
    };
    let response = http.map(|_| {
        Box::new(Response {
            headers: vec![("content-type".into(), "application/json".into())],
            len: 28,
            sha: "ab".repeat(32).into(),
            body: Some(StoredBody::Text("{\"id\":\"op_1\",\"state\":\"done\"}".into())),
            cut: false,
        })
    });
    Fact::Settled(Arc::new(Settled {
        verdict,
        cause: Cause::Answer,
        retry_at: None,
        last: Some(last.into()),
        response,
    }))
}
