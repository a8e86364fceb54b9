//! Facts: the durable story of an operation. State is always a fold over them.

mod history;

pub use history::{History, Recorded};

use super::exchange::{Stage, Stages};
use super::moment::{Moment, Timestamp};
use super::operation::{Fingerprint, PartnerName, TlsPaths};
use super::reason::Reason;
use super::verdict::{Cause, Evidence, Side, Verdict};
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;
use std::sync::Arc;

/// One thing that happened to an operation: the part of a ledger line that `engine` knows.
///
/// The envelope (`t`, `n`, `k`, `at`, `d`, `crc`) belongs to the store.
#[derive(Clone, Debug, PartialEq)]
pub enum Fact {
    /// The key was claimed for the first time.
    Opened(Arc<Opened>),
    /// An attempt is about to send its first byte.
    Started(Started),
    /// An attempt ended and the run goes on.
    Finished(Arc<Finished>),
    /// A status request was answered.
    Asked(Asked),
    /// A wait began.
    Waiting(Waiting),
    /// A run ended.
    Settled(Arc<Settled>),
    /// A new run of an unsettled operation began.
    Reopened(Arc<Reopened>),
    /// A person decided.
    Resolved(Arc<Resolved>),
}

impl Fact {
    /// Returns the `t` of the ledger line.
    pub const fn name(&self) -> &'static str {
        match self {
            Fact::Opened(_) => "opened",
            Fact::Started(_) => "started",
            Fact::Finished(_) => "finished",
            Fact::Asked(_) => "asked",
            Fact::Waiting(_) => "waiting",
            Fact::Settled(_) => "settled",
            Fact::Reopened(_) => "reopened",
            Fact::Resolved(_) => "resolved",
        }
    }

    /// Returns whether the line takes the next claim number.
    pub const fn is_claim(&self) -> bool {
        matches!(self, Fact::Opened(_) | Fact::Reopened(_) | Fact::Resolved(_))
    }
}

/// Who started a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Why {
    /// `abide send`.
    Send,
    /// `abide replay`.
    Replay,
    /// `abide work`.
    Work,
    /// `abide rehearse`.
    Rehearse,
    /// `abide ledger verify --accept-loss`: nothing was sent, and what was lost may have been.
    Verify,
}

/// Who owns a claim: shown to people, never used to declare an owner dead where a lock can tell.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Owner {
    /// The machine's name.
    pub host: Box<str>,
    /// The boot of that machine.
    pub boot: Box<str>,
    /// The process.
    pub pid: u32,
}

/// A body as the ledger keeps it. Exactly one form is present.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoredBody {
    /// UTF-8 text, in the line.
    Text(Box<str>),
    /// Other bytes, in the line (`b64`).
    Bytes(Box<[u8]>),
    /// In a blob file named by its SHA-256 (64 hex digits).
    Blob {
        /// The name.
        sha: Box<str>,
        /// The length in bytes.
        len: u64,
    },
    /// Only its SHA-256 is kept.
    Hash {
        /// The hash.
        sha: Box<str>,
        /// The length in bytes.
        len: u64,
    },
}

/// A header field as the ledger keeps it.
pub type StoredHeader = (Box<str>, Box<str>);

/// What replay must keep about an operation.
#[derive(Clone, Debug, PartialEq)]
pub struct Opened {
    /// With the key, the identity.
    pub partner: PartnerName,
    /// The profile's file as an absolute path, or `None` without a profile.
    pub profile: Option<Box<str>>,
    /// The account label of the profile.
    pub account: Option<Box<str>>,
    /// The method.
    pub method: Box<str>,
    /// The URL, secrets as references or masked.
    pub url: Box<str>,
    /// The header fields, secrets as references or masked.
    pub headers: Vec<StoredHeader>,
    /// The fingerprint.
    pub fp: Fingerprint,
    /// The body.
    pub body: StoredBody,
    /// How the key travels ([`super::policy::Idempotency::contract`]).
    pub contract: Box<str>,
    /// Until when the key is trusted; `None` where the partner does not honour it.
    pub key_until: Option<Timestamp>,
    /// Never sent at or after this time.
    pub valid_until: Option<Timestamp>,
    /// The files about TLS that flags named; `None` where none did.
    pub tls: Option<Box<TlsPaths>>,
    /// When the run must end.
    pub deadline: Timestamp,
    /// Who started the run.
    pub why: Why,
    /// Who runs it.
    pub owner: Owner,
}

/// An attempt is about to send its first byte.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Started {
    /// The attempt, from 1, without gaps over all runs of the operation.
    pub a: u32,
    /// The address it is sent to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub addr: Option<SocketAddr>,
    /// The proxy that it passes by, as `host:port`. The address is then the proxy's, unless the name was looked up here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proxy: Option<Box<str>>,
}

/// Whether what failed is worth another attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Again {
    /// It may pass by itself.
    Yes,
    /// One repeat, then somebody must look.
    Once,
    /// It would fail again.
    No,
    /// An earlier attempt with this key is still running: wait and ask again.
    Later,
}

/// What an attempt came to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finished {
    /// The attempt, from 1.
    pub a: u32,
    /// What it proves.
    pub evidence: Evidence,
    /// For [`Evidence::Answered`]: whether the partner did it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub done: Option<bool>,
    /// Whether it is worth another attempt.
    pub again: Again,
    /// What happened, as a stable slug.
    pub reason: Reason,
    /// Where it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stage: Option<Stage>,
    /// Whose fault it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub side: Option<Side>,
    /// The HTTP status, where a head came.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub http: Option<u16>,
    /// How long it took, in milliseconds.
    pub ms: u64,
    /// How long its stages took.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stages: Option<Box<Stages>>,
    /// The library's words, secrets masked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Box<str>>,
    /// Nothing is sent before this time: Retry-After.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_before: Option<Timestamp>,
    /// The answer was marked as a stored one.
    #[serde(default, skip_serializing_if = "is_false")]
    pub replayed: bool,
    /// The answer took longer than 99 % of those that were measured before.
    #[serde(default, skip_serializing_if = "is_false")]
    pub slow: bool,
    /// Where a redirect pointed that the next attempt follows: such a hop spends no attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hop: Option<Box<str>>,
}

fn is_false(value: &bool) -> bool {
    !*value
}

/// What a status answer says about the operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Says {
    /// It happened.
    Confirmed,
    /// It was refused for good.
    Rejected,
    /// The partner is working on it.
    InProgress,
    /// The partner does not know it.
    Absent,
    /// Nothing that a rule covers.
    Unclear,
}

impl Says {
    /// Returns the name used in the ledger and on the screen.
    pub const fn name(self) -> &'static str {
        match self {
            Says::Confirmed => "confirmed",
            Says::Rejected => "rejected",
            Says::InProgress => "in_progress",
            Says::Absent => "absent",
            Says::Unclear => "unclear",
        }
    }
}

/// Whom a status request was about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum About {
    /// The operation itself.
    #[default]
    Operation,
    /// A control: an operation known to be confirmed, to see that the endpoint works.
    Control,
}

/// A status request was answered, or failed (`unclear`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Asked {
    /// What the answer says.
    pub says: Says,
    /// Whom it was about.
    #[serde(default)]
    pub about: About,
    /// Whether "absent" came from a rule on the body, which a wrong address would not pass by chance.
    #[serde(default, skip_serializing_if = "is_false")]
    pub by_body: bool,
    /// The HTTP status, where a head came.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub http: Option<u16>,
    /// How long it took, in milliseconds.
    pub ms: u64,
    /// Nothing is sent before this time: Retry-After.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_before: Option<Timestamp>,
    /// Why it is unclear, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<Box<str>>,
}

/// A wait began.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Waiting {
    /// When it ends.
    pub until: Timestamp,
    /// What it is for.
    pub reason: Pause,
    /// When it ends by the clock of this process; unknown to later ones.
    #[serde(skip)]
    pub until_steady: Option<Moment>,
}

/// What a wait is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Pause {
    /// The back-off.
    Backoff,
    /// The partner's Retry-After.
    RetryAfter,
    /// The partner's `settle` time.
    Settle,
    /// The time until the next status request.
    NextQuestion,
}

impl Pause {
    /// Returns the words for people.
    pub const fn words(self) -> &'static str {
        match self {
            Pause::Backoff => "back-off",
            Pause::RetryAfter => "Retry-After",
            Pause::Settle => "settle time",
            Pause::NextQuestion => "time to the next status request",
        }
    }
}

/// An answer as the ledger keeps it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    /// The kept header fields.
    pub headers: Vec<StoredHeader>,
    /// The body's length in bytes, as received.
    pub len: u64,
    /// The SHA-256 of the received body, 64 hex digits.
    pub sha: Box<str>,
    /// The body; `None` where it was too long, held a secret, or the disk was full.
    pub body: Option<StoredBody>,
    /// The body is not the whole answer.
    pub cut: bool,
}

/// A run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settled {
    /// What is known.
    pub verdict: Verdict,
    /// Why the run ended so.
    pub cause: Cause,
    /// The earliest time that another run makes sense.
    pub retry_at: Option<Timestamp>,
    /// The attempt that directly ended the run, which then has no `finished` line.
    pub last: Option<Arc<Finished>>,
    /// The partner's final answer.
    pub response: Option<Box<Response>>,
}

/// What is known of the run that a new run continues.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Predecessor {
    /// It ended with a `settled` line.
    Settled,
    /// Its owner died; every attempt that it started is accounted for by a `finished` line.
    Accounted,
    /// Its owner died, and something may have left that no line tells of.
    InDoubt,
}

/// A new run of an unsettled operation began, with its own deadline and attempts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reopened {
    /// With the key, the identity.
    pub partner: PartnerName,
    /// When the run must end.
    pub deadline: Timestamp,
    /// Who started it.
    pub why: Why,
    /// What is known of the run before.
    pub predecessor: Predecessor,
    /// A new end of the key's protection, where nothing had reached the partner.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_until: Option<Timestamp>,
    /// Who runs it.
    pub owner: Owner,
}

/// A person decided.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resolved {
    /// With the key, the identity.
    pub partner: PartnerName,
    /// `confirmed`, `rejected` or `not_done`.
    pub verdict: Verdict,
    /// Who.
    pub by: Box<str>,
    /// Why.
    pub note: Box<str>,
}
