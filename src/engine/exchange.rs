//! What the wire said about one attempt. Partner misbehaviour is a value here, never an error.

use super::moment::Timestamp;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

/// A part of one attempt, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// The name lookup.
    Resolve,
    /// The TCP connection, and a proxy's CONNECT.
    Connect,
    /// The TLS handshake.
    Tls,
    /// The request going out.
    Write,
    /// The wait for the whole head of the answer.
    FirstByte,
    /// The body of the answer.
    Body,
}

impl Stage {
    /// Returns the name used in the ledger and on the screen.
    pub const fn name(self) -> &'static str {
        match self {
            Stage::Resolve => "resolve",
            Stage::Connect => "connect",
            Stage::Tls => "tls",
            Stage::Write => "write",
            Stage::FirstByte => "first_byte",
            Stage::Body => "body",
        }
    }

    /// Returns it as the subject of a sentence: `the name lookup`.
    pub const fn words(self) -> &'static str {
        match self {
            Stage::Resolve => "the name lookup",
            Stage::Connect => "the connection",
            Stage::Tls => "the TLS handshake",
            Stage::Write => "sending the request",
            Stage::FirstByte => "the wait for an answer",
            Stage::Body => "the body of the answer",
        }
    }
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Which limit ended a stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// `[timeouts] connect`.
    Connect,
    /// `[timeouts] write`.
    Write,
    /// `[timeouts] read`.
    Read,
    /// `[timeouts] body`.
    Body,
    /// `[timeouts] attempt`.
    Attempt,
    /// The deadline of the operation.
    Deadline,
}

/// What went wrong below HTTP, classified once at the edge from the library's error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Our own timer ended the stage.
    TimedOut(Limit),
    /// The name does not exist (EAI_NONAME).
    NameUnknown,
    /// The name servers could not answer (EAI_AGAIN).
    NameUnavailable,
    /// Nobody listens on the port.
    ConnectionRefused,
    /// No route to the network or the host.
    Unreachable,
    /// The peer reset the connection.
    Reset,
    /// The peer closed the connection.
    Closed,
    /// The peer sent something that is not HTTP.
    NotHttp,
    /// The head of the answer is larger than we read.
    HeadTooLarge,
    /// This machine ran out of something: descriptors, ports, buffers.
    LocalResources,
    /// The machine slept during the attempt.
    Suspended,
    /// The peer's certificate was not accepted.
    Certificate(Distrust),
    /// This machine has no certificates to trust.
    NoTrust,
    /// The peer does not speak TLS on this port.
    NotTls,
    /// Peer and we have no version, cipher or protocol in common.
    TlsIncompatible,
    /// The TLS handshake failed for another reason, and would fail again.
    Tls,
    /// The peer wanted a certificate, got none, and ended the connection before any answer (decisions 15).
    ClientCertificateWanted,
    /// The peer refused our certificate before any answer (decisions 15).
    ClientCertificateRefused,
    /// The peer ended a connection that stood with a TLS alert about something else than our certificate.
    Alert,
    /// The name of the proxy does not exist.
    ProxyNameUnknown,
    /// There is no connection to the proxy.
    ProxyUnreachable,
    /// A proxy did not connect us, for a reason that it did not tell.
    Proxy,
    /// A proxy wants credentials, or other ones.
    ProxyCredentials,
    /// A proxy's rules forbid the partner.
    ProxyForbids,
    /// A proxy says that it cannot reach the partner.
    BeyondProxy,
    /// The request could not be built.
    Unbuildable,
    /// The operation was no longer valid when it was about to be sent.
    Expired,
    /// Something that the edge has no name for; the text is in [`Exchange::error`].
    Other,
}

/// Why a peer's certificate was not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Distrust {
    /// It has ended, by this machine's clock.
    Expired,
    /// It has not begun, by this machine's clock.
    NotYetValid,
    /// It is for other names.
    Name,
    /// Nobody who is trusted has issued it.
    Issuer,
    /// It has itself as its issuer.
    SelfSigned,
    /// Something else is wrong with it.
    Other,
}

/// How far the request got when no answer came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// Provably no byte of the request left.
    Nothing,
    /// Bytes left, the last one provably did not.
    Part,
    /// The whole request may have left.
    Whole,
}

/// How the body of an answer ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// As announced by its length, its last chunk or the connection's end.
    Complete,
    /// Cut by our own size limit.
    Capped,
    /// Cut or stalled on its way.
    Cut(Fault),
}

/// Header fields in the order in which they came; names are lower case.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Headers(pub Vec<(Box<str>, Box<str>)>);

impl Headers {
    /// Returns the first value of `name`, which is given in lower case.
    pub fn first(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| **known == *name).map(|(_, value)| &**value)
    }

    /// Returns every value of `name`, which is given in lower case.
    pub fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(known, _)| **known == *name).map(|(_, value)| &**value)
    }
}

/// The partner's answer: its whole head, and as much of its body as came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The HTTP status, usually 200 to 599.
    pub status: u16,
    /// The header fields.
    pub headers: Headers,
    /// The body as it came, at most the profile's `response_bytes`.
    pub body: Vec<u8>,
    /// How the body ended.
    pub ending: Ending,
}

/// What came of one attempt to be answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// No whole head of an answer came.
    Unanswered {
        /// How far the request got.
        sent: Sent,
        /// The stage that failed.
        stage: Stage,
        /// Why it failed.
        fault: Fault,
    },
    /// The partner answered.
    Answered(Answer),
}

/// Measured stage times of one attempt, in microseconds; absent where the stage was not reached or not seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stages {
    /// The name lookup.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resolve_us: Option<u64>,
    /// TCP, and a proxy's CONNECT.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connect_us: Option<u64>,
    /// The TLS handshake; absent for http, on a kept connection, and in what earlier versions wrote.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls_us: Option<u64>,
    /// From the connection to the last byte of the request handed over.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub write_us: Option<u64>,
    /// From the last byte handed over to the head of the answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_byte_us: Option<u64>,
    /// From the head of the answer to its last byte.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body_us: Option<u64>,
}

/// What stands between us and the partner.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Via {
    /// Nothing that we know of.
    #[default]
    Direct,
    /// A proxy that reads and forwards requests: an answer may be its own.
    Forward,
    /// A tunnel through a proxy: an answer comes from its end.
    Tunnel,
}

/// The way to a partner.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Way {
    /// The addresses that may be dialled, in the order of preference; empty where the transport needs none.
    pub addresses: Vec<SocketAddr>,
    /// The proxy that is passed by, as `host:port`.
    pub proxy: Option<Box<str>>,
}

impl Stages {
    /// Returns how long it took until the request was sent.
    pub fn until_sent(&self) -> Duration {
        let stages = [self.resolve_us, self.connect_us, self.tls_us, self.write_us];
        Duration::from_micros(stages.into_iter().flatten().fold(0, u64::saturating_add))
    }
}

impl Exchange {
    /// Returns how long the answer was waited for once the request was sent.
    pub fn waited(&self) -> Duration {
        self.took.saturating_sub(self.stages.until_sent())
    }
}

/// Everything the wire said about one attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exchange {
    /// What came of it.
    pub outcome: Outcome,
    /// How long the stages took.
    pub stages: Stages,
    /// How long the whole attempt took.
    pub took: Duration,
    /// The address that was tried.
    pub addr: Option<SocketAddr>,
    /// What stood between.
    pub via: Via,
    /// The library's own words about a fault, secrets masked.
    pub error: Option<Box<str>>,
    /// The wall clock when the answer's head came, for Retry-After dates.
    pub at: Timestamp,
}
