//! Observations as people would meet them, against the verdict that they should get.

mod conflicts;
mod errors;
mod forecasts;
mod scenarios;
mod total;

use super::dial::{Connect, ConnectFailure};
use super::handshake::{Certificate, Handshake};
use super::names::{Lookup, LookupFailure, Question, Rcode, Reply};
use super::observations::{Address, Observations, Setup, Target, Trouble};
use super::past::{Before, Usual};
use super::tcp::Tcp;
use super::{Diagnosis, diagnose};
use crate::engine::exchange::{
    Answer, Distrust, Ending, Exchange, Fault, Headers, Limit, Outcome, Sent, Stage, Stages, Via,
};
use crate::engine::moment::Timestamp;
use std::net::SocketAddr;
use std::time::Duration;

pub(super) fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

pub(super) fn at() -> Timestamp {
    "2026-11-30T10:00:00Z".parse().expect("a time")
}

/// A probe of an https URL that was looked up.
pub(super) fn started() -> Observations {
    let mut seen = Observations { at: Some(at()), ..Observations::default() };
    seen.target =
        Target { method: Some("GET".into()), url: Some("https://api.partner.example/health".into()), json: Some(true) };
    seen.names.lookup = Some(Lookup { outcome: Ok(()), took: Some(ms(8)) });
    seen
}

pub(super) fn unnamed(outcome: LookupFailure, answer: Option<Rcode>) -> Observations {
    let mut seen = started();
    seen.names.lookup = Some(Lookup { outcome: Err(outcome), took: Some(ms(17)) });
    seen.names.replies = [Question::A, Question::Aaaa]
        .map(|question| Reply { server: [10, 0, 0, 2].into(), question, answer, took: Some(ms(8)) })
        .into();
    seen
}

pub(super) fn addr(last: u8) -> SocketAddr {
    SocketAddr::from(([203, 0, 113, last], 443))
}

pub(super) fn connected(addr: SocketAddr) -> Address {
    Address {
        connect: Some(Connect { outcome: Ok(()), took: Some(ms(12)), syns_resent: Some(0) }),
        ..Address::new(addr)
    }
}

pub(super) fn dead(addr: SocketAddr, failure: ConnectFailure, took: Duration) -> Address {
    Address {
        connect: Some(Connect { outcome: Err(failure), took: Some(took), syns_resent: None }),
        ..Address::new(addr)
    }
}

/// A probe whose only address fails.
pub(super) fn undialled(failure: ConnectFailure, took: Duration) -> Observations {
    Observations { addresses: vec![dead(addr(10), failure, took)], ..started() }
}

pub(super) fn certificate() -> Certificate {
    Certificate {
        names: vec!["api.partner.example".into()],
        issuer: Some("R11".into()),
        not_before: Some(at().before(Duration::from_secs(49 * 86_400))),
        not_after: Some(at().after(Duration::from_secs(41 * 86_400))),
    }
}

pub(super) fn shaken(addr: SocketAddr) -> Address {
    let tls = Handshake { took: Some(ms(31)), certificate: Some(certificate()), ..Handshake::new(Ok(())) };
    Address { tls: Some(tls), ..connected(addr) }
}

/// A probe whose only address connects and does not come to TLS.
pub(super) fn unshaken(fault: Fault) -> Observations {
    let tls = Handshake { took: Some(ms(3_000)), certificate: Some(certificate()), ..Handshake::new(Err(fault)) };
    Observations { addresses: vec![Address { tls: Some(tls), ..connected(addr(10)) }], ..started() }
}

pub(super) fn acknowledged() -> Tcp {
    Tcp {
        rtt: Some(ms(12)),
        resent: Some(0),
        unacked: Some(0),
        queued_bytes: Some(0),
        acked_bytes: Some(253),
        sent_bytes: Some(253),
    }
}

pub(super) fn lost() -> Tcp {
    Tcp { resent: Some(4), unacked: Some(1), queued_bytes: Some(252), acked_bytes: Some(1), ..acknowledged() }
}

pub(super) fn exchange(outcome: Outcome, first_byte: Duration) -> Exchange {
    let us = |time: Duration| Some(u64::try_from(time.as_micros()).expect("it fits"));
    let stages = Stages {
        resolve_us: us(ms(8)),
        connect_us: us(ms(12)),
        tls_us: us(ms(31)),
        write_us: us(ms(0)),
        first_byte_us: us(first_byte),
        body_us: us(ms(1)),
    };
    Exchange {
        outcome,
        stages,
        took: first_byte + ms(52),
        addr: Some(addr(10)),
        via: Via::Direct,
        error: None,
        at: at(),
    }
}

pub(super) fn answer(status: u16, fields: &[(&str, &str)], body: &str) -> Answer {
    let headers = fields.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
    Answer { status, headers: Headers(headers), body: body.as_bytes().to_vec(), ending: Ending::Complete }
}

/// A probe that got this answer in 180 ms.
pub(super) fn answered(status: u16, fields: &[(&str, &str)], body: &str) -> Observations {
    let exchange = exchange(Outcome::Answered(answer(status, fields, body)), ms(180));
    let address = Address { tcp: Some(acknowledged()), ..shaken(addr(10)) };
    Observations { addresses: vec![address], exchange: Some(exchange), ..started() }
}

pub(super) fn well() -> Observations {
    answered(200, &[("content-type", "application/json")], "{}")
}

/// A probe whose request got no answer for five seconds.
pub(super) fn unanswered(fault: Fault, tcp: Option<Tcp>) -> Observations {
    let outcome = Outcome::Unanswered { sent: Sent::Whole, stage: Stage::FirstByte, fault };
    let address = Address { tcp, ..shaken(addr(10)) };
    Observations { addresses: vec![address], exchange: Some(exchange(outcome, ms(5_000))), ..started() }
}

pub(super) const SILENCE: Fault = Fault::TimedOut(Limit::Read);

pub(super) fn verdict(seen: &Observations) -> (&'static str, &'static str) {
    let Diagnosis { code, .. } = diagnose(seen);
    (diagnose(seen).side_name(), code.as_str())
}
