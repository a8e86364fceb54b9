//! What a probe found, for machines.

mod history;

use super::Probed;
use abide::engine::diagnose::Diagnosis;
use abide::engine::diagnose::code::Code;
use abide::engine::diagnose::names::{Question, Rcode, Reply};
use abide::engine::diagnose::observations::{Address, Observations, ProxySource};
use abide::engine::exchange::{Ending, Outcome, Stage};
use abide::engine::gateway::shown;
use abide::engine::moment::Timestamp;
use history::History;
use serde::Serialize;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// The document `abide.probe/1`. What is unknown is null.
///
/// Source: latency.md 6.6, in the words of product.md section 1 and with units in the names.
#[derive(Debug, Serialize)]
pub struct Document<'a> {
    schema: &'static str,
    partner: &'a str,
    target: Target<'a>,
    started: Timestamp,
    proxy: Option<Proxy<'a>>,
    verdict: Verdict<'a>,
    also: Vec<Also<'a>>,
    send: Option<&'a str>,
    stages: Stages,
    addresses: Vec<Tried<'a>>,
    dns: Vec<Asked>,
    tls: Option<Tls<'a>>,
    http: Option<Http>,
    clock: Option<Clock>,
    keep_alive: Option<KeepAlive>,
    send_path: Option<SendPath>,
    requests: u32,
    attempts: Vec<Attempt>,
    history: History,
}

#[derive(Debug, Serialize)]
struct Target<'a> {
    method: Option<&'a str>,
    url: Option<&'a str>,
}

/// The proxy that is passed by, and who names it; null where there is none.
#[derive(Debug, Serialize)]
struct Proxy<'a> {
    name: &'a str,
    named_by: &'a str,
}

#[derive(Debug, Serialize)]
struct Verdict<'a> {
    side: &'static str,
    code: Code,
    text: &'static str,
    standing: &'static str,
    confidence: &'static str,
    because: &'a [String],
    not: Vec<Not<'a>>,
    next: &'a [String],
    retry_after_ms: Option<u64>,
    leaves_doubt: bool,
}

/// What one attempt of the probe found.
#[derive(Debug, Serialize)]
struct Attempt {
    side: &'static str,
    code: Code,
    standing: &'static str,
}

/// What the request got by the way that `send` takes; null without `--deep`.
#[derive(Debug, Serialize)]
struct SendPath {
    addr: Option<SocketAddr>,
    status: Option<u16>,
    failed_stage: Option<Stage>,
    took_us: u64,
}

#[derive(Debug, Serialize)]
struct Not<'a> {
    side: &'static str,
    because: &'a str,
}

#[derive(Debug, Serialize)]
struct Also<'a> {
    side: &'static str,
    code: Code,
    because: &'a [String],
}

#[derive(Debug, Default, Serialize)]
struct Stages {
    resolve_us: Option<u64>,
    connect_us: Option<u64>,
    tls_us: Option<u64>,
    write_us: Option<u64>,
    first_byte_us: Option<u64>,
    body_us: Option<u64>,
}

#[derive(Debug, Serialize)]
struct Tried<'a> {
    addr: SocketAddr,
    family: &'static str,
    connect_us: Option<u64>,
    connected: Option<bool>,
    errno: Option<&'static str>,
    syns_resent: Option<u32>,
    tls_us: Option<u64>,
    tls_ok: Option<bool>,
    alert: Option<&'a str>,
    /// With which status it answered; null where it was not asked, or did not answer.
    status: Option<u16>,
    usual_rtt_us: Option<u64>,
    tcp: Option<Tcp>,
}

#[derive(Debug, Serialize)]
struct Tcp {
    rtt_us: Option<u64>,
    resent: Option<u64>,
    unacked: Option<u64>,
    queued_bytes: Option<u64>,
    acked_bytes: Option<u64>,
    sent_bytes: Option<u64>,
}

#[derive(Debug, Serialize)]
struct Asked {
    server: IpAddr,
    qtype: &'static str,
    rcode: Option<String>,
    addresses: Option<u32>,
    us: Option<u64>,
}

#[derive(Debug, Serialize)]
struct Tls<'a> {
    version: Option<&'a str>,
    alpn: Option<&'a str>,
    group: Option<&'a str>,
    names: Option<&'a [Box<str>]>,
    issuer: Option<&'a str>,
    not_before: Option<Timestamp>,
    not_after: Option<Timestamp>,
}

#[derive(Debug, Serialize)]
struct Http {
    status: u16,
    /// What came of the body.
    body_bytes: usize,
    /// Whether that is all of it; null where no more was read.
    body_complete: Option<bool>,
    headers: Vec<(String, String)>,
}

#[derive(Debug, Serialize)]
struct Clock {
    ahead_ms: i64,
    uncertainty_us: u64,
}

#[derive(Debug, Serialize)]
struct KeepAlive {
    reused: Option<bool>,
    idle_close_us: Option<u64>,
    watched_us: Option<u64>,
}

/// The largest number that every reader of JSON takes as it is: longer times are told as this one.
///
/// Source: RFC 8259 section 6.
const LARGEST: u64 = (1 << 53) - 1;

/// Header fields that are told, in lower case: those that show a gateway, a limit or a clock; never a cookie.
///
/// Source: latency.md 6.1, step 7.
const TOLD: &[&str] = &[
    "age",
    "alt-svc",
    "cf-error-origin",
    "cf-error-type",
    "cf-ray",
    "content-encoding",
    "content-type",
    "date",
    "proxy-status",
    "ratelimit",
    "ratelimit-policy",
    "request-id",
    "retry-after",
    "server",
    "via",
    "x-amz-cf-id",
    "x-request-id",
];

impl<'a> Document<'a> {
    /// Returns the document about a probe.
    pub fn new(probed: &Probed<'a>) -> Document<'a> {
        let (seen, found) = (probed.seen, probed.found);
        let also = found.also.iter();
        Document {
            schema: "abide.probe/1",
            partner: probed.partner,
            target: Target { method: seen.target.method.as_deref(), url: seen.target.url.as_deref() },
            started: probed.started,
            proxy: seen.proxy.as_ref().map(|proxy| Proxy { name: &proxy.name, named_by: named_by(&proxy.source) }),
            verdict: verdict(probed),
            also: also.map(|also| Also { side: also.side.name(), code: also.code, because: &also.because }).collect(),
            send: probed.send,
            stages: stages(seen),
            addresses: seen.addresses.iter().map(|address| tried(seen, address)).collect(),
            dns: seen.names.replies.iter().map(asked).collect(),
            tls: tls(seen),
            http: http(seen),
            clock: seen.skew.map(|skew| Clock { ahead_ms: skew.ahead_ms, uncertainty_us: micros(skew.uncertainty) }),
            requests: seen.requests,
            attempts: attempts(probed),
            keep_alive: seen.keep_alive.map(|kept| KeepAlive {
                reused: kept.reused,
                idle_close_us: kept.idle_close.map(micros),
                watched_us: kept.watched.map(micros),
            }),
            send_path: send_path(seen),
            history: History::of(seen),
        }
    }
}

fn named_by(source: &ProxySource) -> &str {
    match source {
        ProxySource::Flag => "--proxy",
        ProxySource::Profile => "[proxy]",
        ProxySource::Variable(name) => name,
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX).min(LARGEST)
}

fn verdict<'a>(probed: &Probed<'a>) -> Verdict<'a> {
    let found = probed.found;
    Verdict {
        side: found.side_name(),
        code: found.code,
        text: found.code.words(),
        standing: found.standing.name(),
        confidence: found.confidence.name(),
        because: &found.because,
        not: found.not.iter().map(|not| Not { side: not.side.name(), because: &not.words }).collect(),
        next: &found.next,
        retry_after_ms: found.wait.map(|wait| u64::try_from(wait.as_millis()).unwrap_or(u64::MAX).min(LARGEST)),
        leaves_doubt: found.leaves_doubt,
    }
}

fn stages(seen: &Observations) -> Stages {
    let Some(exchange) = &seen.exchange else { return Stages::default() };
    let stages = exchange.stages;
    Stages {
        resolve_us: stages.resolve_us,
        connect_us: stages.connect_us,
        tls_us: stages.tls_us,
        write_us: stages.write_us,
        first_byte_us: stages.first_byte_us,
        body_us: stages.body_us,
    }
}

fn attempts(probed: &Probed<'_>) -> Vec<Attempt> {
    let all = if probed.attempts.is_empty() { std::slice::from_ref(probed.found) } else { probed.attempts };
    let attempt =
        |found: &Diagnosis| Attempt { side: found.side_name(), code: found.code, standing: found.standing.name() };
    all.iter().map(attempt).collect()
}

fn send_path(seen: &Observations) -> Option<SendPath> {
    let exchange = seen.second_pass.as_ref()?;
    let failed_stage = match exchange.outcome {
        Outcome::Unanswered { stage, .. } => Some(stage),
        Outcome::Answered(_) => None,
    };
    Some(SendPath { addr: exchange.addr, status: seen.second_status(), failed_stage, took_us: micros(exchange.took) })
}

fn tried<'a>(seen: &Observations, address: &'a Address) -> Tried<'a> {
    let (connect, tls) = (address.connect, address.tls.as_ref());
    Tried {
        addr: address.addr,
        family: if address.addr.is_ipv6() { "ipv6" } else { "ipv4" },
        connect_us: connect.and_then(|connect| connect.took).map(micros),
        connected: connect.map(|connect| connect.outcome.is_ok()),
        errno: connect.and_then(|connect| connect.outcome.err()?.errno()),
        syns_resent: connect.and_then(|connect| connect.syns_resent),
        tls_us: tls.and_then(|tls| tls.took).map(micros),
        tls_ok: tls.map(|tls| tls.outcome.is_ok()),
        alert: tls.and_then(|tls| tls.alert.as_deref()),
        status: seen.status_of(address),
        usual_rtt_us: seen.past.of_address(address.addr.ip()).and_then(|past| past.rtt).map(micros),
        tcp: address.tcp.map(|tcp| Tcp {
            rtt_us: tcp.rtt.map(micros),
            resent: tcp.resent,
            unacked: tcp.unacked,
            queued_bytes: tcp.queued_bytes,
            acked_bytes: tcp.acked_bytes,
            sent_bytes: tcp.sent_bytes,
        }),
    }
}

fn asked(reply: &Reply) -> Asked {
    let qtype = match reply.question {
        Question::A => "A",
        Question::Aaaa => "AAAA",
    };
    let addresses = match reply.answer {
        Some(Rcode::Found(count)) => Some(count),
        _ => None,
    };
    let rcode = reply.answer.map(Rcode::name);
    Asked { server: reply.server, qtype, rcode, addresses, us: reply.took.map(micros) }
}

fn tls(seen: &Observations) -> Option<Tls<'_>> {
    let address = seen.asked_address().or_else(|| seen.addresses.iter().find(|address| address.tls.is_some()))?;
    let tls = address.tls.as_ref()?;
    let certificate = tls.certificate.as_ref();
    Some(Tls {
        version: tls.version.as_deref(),
        alpn: tls.alpn.as_deref(),
        group: tls.group.as_deref(),
        names: certificate.map(|certificate| &*certificate.names),
        issuer: certificate.and_then(|certificate| certificate.issuer.as_deref()),
        not_before: certificate.and_then(|certificate| certificate.not_before),
        not_after: certificate.and_then(|certificate| certificate.not_after),
    })
}

fn http(seen: &Observations) -> Option<Http> {
    let answer = seen.answer()?;
    let fields = answer.headers.0.iter().filter(|(name, _)| TOLD.contains(&&**name));
    let headers = fields.map(|(name, value)| (name.to_string(), shown(value))).collect();
    let body_complete = match answer.ending {
        Ending::Complete => Some(true),
        Ending::Cut(_) => Some(false),
        Ending::Capped => None,
    };
    Some(Http { status: answer.status, body_bytes: answer.body.len(), body_complete, headers })
}
