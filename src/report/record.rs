//! The facts of the ledger as documents.

use super::human::happened;
use super::json::Attempted;
use abide::engine::facts::{
    Asked, Fact, Finished, Opened, Owner, Recorded, Reopened, Resolved, Response, Settled, Started, StoredBody, Waiting,
};
use abide::engine::moment::Timestamp;
use abide::engine::verdict::{Cause, Verdict};
use serde::Serialize;

/// A fact with its place.
#[derive(Debug, Serialize)]
pub struct FactLine<'a> {
    /// What kind of fact.
    pub t: &'static str,
    /// The claim that it belongs to.
    pub n: u64,
    /// When it was written.
    pub at: Timestamp,
    /// What it says.
    pub fact: FactBody<'a>,
}

impl<'a> From<&'a Recorded> for FactLine<'a> {
    fn from(recorded: &'a Recorded) -> FactLine<'a> {
        let fact = match &recorded.fact {
            Fact::Opened(opened) => FactBody::Opened(opened.as_ref().into()),
            Fact::Started(started) => FactBody::Started(started),
            Fact::Finished(finished) => FactBody::Finished(finished.as_ref().into()),
            Fact::Asked(asked) => FactBody::Asked(asked),
            Fact::Waiting(waiting) => FactBody::Waiting(waiting),
            Fact::Settled(settled) => FactBody::Settled(settled.as_ref().into()),
            Fact::Reopened(reopened) => FactBody::Reopened(reopened),
            Fact::Resolved(resolved) => FactBody::Resolved(resolved),
        };
        FactLine { t: recorded.fact.name(), n: recorded.n, at: recorded.at, fact }
    }
}

/// What a fact says: each is the fact of the same name.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub enum FactBody<'a> {
    Opened(Claim<'a>),
    Started(&'a Started),
    Finished(Attempted<'a>),
    Asked(&'a Asked),
    Waiting(&'a Waiting),
    Settled(Ending<'a>),
    Reopened(&'a Reopened),
    Resolved(&'a Resolved),
}

/// What was claimed.
#[derive(Debug, Serialize)]
pub struct Claim<'a> {
    /// The profile's file.
    pub profile: Option<&'a str>,
    /// The account label.
    pub account: Option<&'a str>,
    /// The method.
    pub method: &'a str,
    /// The URL, secrets masked or as references.
    pub url: &'a str,
    /// The header fields, secrets masked or as references.
    pub headers: &'a [(Box<str>, Box<str>)],
    /// The fingerprint.
    pub fingerprint: &'a str,
    /// The body.
    pub body: Kept<'a>,
    /// How the key travels.
    pub contract: &'a str,
    /// Who runs it.
    pub owner: &'a Owner,
}

impl<'a> From<&'a Opened> for Claim<'a> {
    fn from(opened: &'a Opened) -> Claim<'a> {
        Claim {
            profile: opened.profile.as_deref(),
            account: opened.account.as_deref(),
            method: &opened.method,
            url: &opened.url,
            headers: &opened.headers,
            fingerprint: &opened.fp.0,
            body: (&opened.body).into(),
            contract: &opened.contract,
            owner: &opened.owner,
        }
    }
}

/// A body as the ledger keeps it.
#[derive(Debug, Default, Serialize)]
pub struct Kept<'a> {
    /// As text.
    pub text: Option<&'a str>,
    /// Its length in bytes.
    pub bytes: u64,
    /// Its SHA-256 in hex, where it is not kept in the line itself.
    pub sha256: Option<&'a str>,
}

impl<'a> From<&'a StoredBody> for Kept<'a> {
    fn from(body: &'a StoredBody) -> Kept<'a> {
        match body {
            StoredBody::Text(text) => Kept { text: Some(text), bytes: text.len() as u64, sha256: None },
            StoredBody::Bytes(bytes) => Kept { text: None, bytes: bytes.len() as u64, sha256: None },
            StoredBody::Blob { sha, len } | StoredBody::Hash { sha, len } => {
                Kept { text: None, bytes: *len, sha256: Some(sha) }
            }
        }
    }
}

/// How a run ended.
#[derive(Debug, Serialize)]
pub struct Ending<'a> {
    /// What is known.
    pub verdict: Verdict,
    /// Why the run ended so.
    pub cause: Cause,
    /// The earliest time that another run makes sense.
    pub retry_at: Option<Timestamp>,
    /// The attempt that directly ended the run.
    pub last: Option<Attempted<'a>>,
    /// The final answer.
    pub answer: Option<Replied<'a>>,
}

impl<'a> From<&'a Settled> for Ending<'a> {
    fn from(settled: &'a Settled) -> Ending<'a> {
        Ending {
            verdict: settled.verdict,
            cause: settled.cause,
            retry_at: settled.retry_at,
            last: settled.last.as_deref().map(Attempted::from),
            answer: settled.response.as_deref().map(Replied::from),
        }
    }
}

/// An answer as the ledger keeps it.
#[derive(Debug, Serialize)]
pub struct Replied<'a> {
    /// The kept header fields.
    pub headers: &'a [(Box<str>, Box<str>)],
    /// The body's length in bytes, as received.
    pub body_bytes: u64,
    /// Its SHA-256 in hex.
    pub sha256: &'a str,
    /// The body as kept.
    pub body: Option<Kept<'a>>,
    /// The body is not the whole answer.
    pub cut: bool,
}

impl<'a> From<&'a Response> for Replied<'a> {
    fn from(response: &'a Response) -> Replied<'a> {
        Replied {
            headers: &response.headers,
            body_bytes: response.len,
            sha256: &response.sha,
            body: response.body.as_ref().map(Kept::from),
            cut: response.cut,
        }
    }
}

/// Returns what a fact says, for people.
pub fn fact_words(fact: &Fact) -> String {
    match fact {
        Fact::Opened(opened) => {
            format!("process {} on {}, deadline {}", opened.owner.pid, opened.owner.host, opened.deadline)
        }
        Fact::Started(started) => match (started.addr, &started.proxy) {
            (Some(addr), None) => format!("attempt {} to {addr}", started.a),
            (Some(addr), Some(proxy)) => format!("attempt {} to {addr}, through the proxy {proxy}", started.a),
            (None, Some(proxy)) => format!("attempt {} through the proxy {proxy}", started.a),
            (None, None) => format!("attempt {}", started.a),
        },
        Fact::Finished(finished) => attempt_words(finished),
        Fact::Asked(asked) => format!("the partner says {}", asked.says.name().replace('_', " ")),
        Fact::Waiting(waiting) => format!("{} until {}", waiting.reason.words(), waiting.until),
        Fact::Settled(settled) => {
            let last = settled.last.as_ref().map(|last| format!("; {}", attempt_words(last))).unwrap_or_default();
            let retry = settled.retry_at.map(|at| format!("; not before {at}")).unwrap_or_default();
            format!("{}{retry}{last}", settled.verdict.name().replace('_', " "))
        }
        Fact::Reopened(reopened) => {
            format!("process {} on {}, deadline {}", reopened.owner.pid, reopened.owner.host, reopened.deadline)
        }
        Fact::Resolved(resolved) => {
            format!("{} by {}: {}", resolved.verdict.name().replace('_', " "), resolved.by, resolved.note)
        }
    }
}

fn attempt_words(finished: &Finished) -> String {
    format!("attempt {}: {} ({})", finished.a, happened(finished), finished.evidence.name().replace('_', " "))
}
