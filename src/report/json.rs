//! Documents for machines. Every one names its schema; what is unknown is null, never 0.

use super::advice::Advice;
use super::known::{Known, State};
use super::record::FactLine;
use super::request::Rehearsed;
use abide::engine::exchange::{Stage, Stages};
use abide::engine::facts::{Again, Finished, Owner};
use abide::engine::moment::Timestamp;
use abide::engine::operation::Operation;
use abide::engine::reason::Reason;
use abide::engine::verdict::{Cause, Evidence, Side, Verdict};
use serde::Serialize;

/// Returns a document as one line.
pub fn line(document: &impl Serialize) -> String {
    serde_json::to_string(document).expect("documents have text keys and finite numbers")
}

/// An answer, with as much of its body as is known.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Answered {
    /// The HTTP status.
    pub http: Option<u16>,
    /// The header fields that are known, names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body as text, where it is UTF-8.
    pub body: Option<String>,
    /// The body in base64, where it is not.
    pub body_b64: Option<String>,
    /// The length of the body in bytes, as received.
    pub body_bytes: Option<u64>,
    /// The SHA-256 of the body as received, in hex.
    pub sha256: Option<String>,
    /// The body is not the whole answer.
    pub cut: Option<bool>,
}

/// An attempt, with every field.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Attempted<'a> {
    /// The attempt, from 1.
    pub a: u32,
    /// What it proves.
    pub evidence: Evidence,
    /// For `answered`: whether the partner did it.
    pub done: Option<bool>,
    /// Whether it is worth another attempt.
    pub again: Again,
    /// What happened.
    pub reason: Reason,
    /// Where it failed.
    pub stage: Option<Stage>,
    /// Whose fault it is.
    pub side: Option<Side>,
    /// The HTTP status.
    pub http: Option<u16>,
    /// How long it took, in milliseconds.
    pub ms: u64,
    /// How long its stages took.
    pub stages: Option<&'a Stages>,
    /// The library's words.
    pub error: Option<&'a str>,
    /// Nothing is sent before this time.
    pub not_before: Option<Timestamp>,
    /// The answer was marked as a stored one.
    pub replayed: bool,
    /// The answer took longer than 99 % of those that were measured before.
    pub slow: bool,
    /// Where a redirect pointed that was followed.
    pub hop: Option<&'a str>,
}

impl<'a> From<&'a Finished> for Attempted<'a> {
    fn from(finished: &'a Finished) -> Attempted<'a> {
        Attempted {
            a: finished.a,
            evidence: finished.evidence,
            done: finished.done,
            again: finished.again,
            reason: finished.reason,
            stage: finished.stage,
            side: finished.side,
            http: finished.http,
            ms: finished.ms,
            stages: finished.stages.as_deref(),
            error: finished.error.as_deref(),
            not_before: finished.not_before,
            replayed: finished.replayed,
            slow: finished.slow,
            hop: finished.hop.as_deref(),
        }
    }
}

/// What is known about one operation: the common part of several documents.
#[derive(Debug, Serialize)]
pub struct Standing<'a> {
    /// The key.
    pub key: &'a str,
    /// The partner.
    pub partner: &'a str,
    /// `confirmed`, `rejected`, `not_done`, `in_doubt`, `accepted`, `running` or `pending`.
    pub state: &'static str,
    /// The verdict that holds now; null while it runs or before anything was started.
    pub verdict: Option<Verdict>,
    /// Why the newest run ended so.
    pub cause: Option<Cause>,
    /// What the newest attempt met.
    pub reason: Option<Reason>,
    /// What the newest attempt proves.
    pub evidence: Option<Evidence>,
    /// Whose fault that is.
    pub side: Option<Side>,
    /// Where it failed.
    pub stage: Option<Stage>,
    /// The HTTP status of the newest attempt.
    pub http: Option<u16>,
    /// How long the newest attempt took, in milliseconds.
    pub ms: Option<u64>,
    /// Attempts so far, over all runs.
    pub attempts: u32,
    /// The earliest time that another run makes sense.
    pub retry_at: Option<Timestamp>,
    /// The proxy that the newest attempt passed by, as `host:port`; null for none.
    pub proxy: Option<&'a str>,
    /// Who answered in the partner's place at the end of the newest run, or may have, in words.
    pub gateway: Option<String>,
    /// The method.
    pub method: &'a str,
    /// The URL, secrets masked.
    pub url: &'a str,
    /// When it was claimed first.
    pub opened_at: Option<Timestamp>,
    /// When the newest fact was written.
    pub updated_at: Option<Timestamp>,
    /// When the newest run ends or had to end.
    pub deadline: Timestamp,
    /// Until when the key is trusted; null where the partner does not honour it.
    pub key_until: Option<Timestamp>,
    /// Never sent at or after this time.
    pub valid_until: Option<Timestamp>,
    /// Who runs it.
    pub owner: Option<&'a Owner>,
    /// What to do next, in words.
    pub what_to_do: String,
    /// The command line to do it with, where it is safe to show.
    pub command: Option<String>,
}

impl<'a> Standing<'a> {
    /// Returns the common part for `known`.
    pub fn of(known: &'a Known<'_>, advice: Advice) -> Standing<'a> {
        let last = known.last();
        let settled = known.settled();
        let opened = known.opened();
        Standing {
            key: known.key.as_str(),
            partner: known.partner.as_str(),
            state: known.state.name(),
            verdict: known.state.verdict(),
            cause: settled.map(|settled| settled.cause),
            reason: last.map(|last| last.reason),
            evidence: last.map(|last| last.evidence),
            side: last.and_then(|last| last.side),
            stage: last.and_then(|last| last.stage),
            http: last.and_then(|last| last.http),
            ms: last.map(|last| last.ms),
            attempts: known.attempts(),
            retry_at: settled.and_then(|settled| settled.retry_at),
            proxy: known.started().and_then(|started| started.proxy.as_deref()),
            gateway: known.gateway(),
            method: &opened.method,
            url: &opened.url,
            opened_at: known.opened_at(),
            updated_at: known.updated_at(),
            deadline: known.deadline(),
            key_until: known.key_until(),
            valid_until: opened.valid_until,
            owner: match &known.state {
                State::Running(owner) => Some(owner),
                _ => None,
            },
            what_to_do: advice.words,
            command: advice.command,
        }
    }
}

/// `abide.send/1`.
#[derive(Debug, Serialize)]
pub struct Sent<'a> {
    /// The schema.
    pub schema: &'static str,
    /// The exit status.
    pub exit: i32,
    /// What is known about the operation.
    #[serde(flatten)]
    pub standing: Standing<'a>,
    /// The answer or the state was in the ledger already; nothing was sent.
    pub from_ledger: bool,
    /// How long this run took, in milliseconds; null where nothing was run.
    pub took_ms: Option<u64>,
    /// The final answer, or on a give-up the last one.
    pub answer: Option<Answered>,
    /// The newest attempt with every field.
    pub last: Option<Attempted<'a>>,
    /// What was warned of.
    pub warnings: &'a [String],
    /// The ledger; null for none.
    pub ledger: Option<String>,
}

/// `abide.send/1` for a key that was used with another payload.
#[derive(Debug, Serialize)]
pub struct OtherPayload<'a> {
    /// The schema.
    pub schema: &'static str,
    /// The exit status.
    pub exit: i32,
    /// The key.
    pub key: &'a str,
    /// The partner.
    pub partner: &'a str,
    /// Always `other_payload`.
    pub state: &'static str,
    /// Null: nothing was sent, and the operation of this key is another one.
    pub verdict: Option<Verdict>,
    /// Always `other_payload`.
    pub reason: &'static str,
    /// The fingerprint that the ledger holds.
    pub known_fingerprint: &'a str,
    /// The fingerprint of what was to be sent.
    pub given_fingerprint: &'a str,
    /// What differs, where that is known.
    pub differs: &'a [&'static str],
    /// What to do next.
    pub what_to_do: &'a str,
}

/// `abide.send/1` for a key that another live process works on.
#[derive(Debug, Serialize)]
pub struct Busy<'a> {
    /// The schema.
    pub schema: &'static str,
    /// The exit status.
    pub exit: i32,
    /// The key.
    pub key: &'a str,
    /// The partner.
    pub partner: &'a str,
    /// Always `running`.
    pub state: &'static str,
    /// Null: not known yet.
    pub verdict: Option<Verdict>,
    /// Always `busy`.
    pub reason: &'static str,
    /// Who runs it.
    pub owner: &'a Owner,
    /// What to do next.
    pub what_to_do: &'a str,
}

/// `abide.status/1` for one operation.
#[derive(Debug, Serialize)]
pub struct Status<'a> {
    /// The schema.
    pub schema: &'static str,
    /// The exit status.
    pub exit: i32,
    /// What is known.
    #[serde(flatten)]
    pub standing: Standing<'a>,
    /// When it will be finished, where that was measured.
    pub estimate: Option<Timestamp>,
}

/// `abide.status/1` without a key.
#[derive(Debug, Serialize)]
pub struct Unsettled<'a> {
    /// The schema.
    pub schema: &'static str,
    /// What has no final verdict, newest first.
    pub unsettled: Vec<Standing<'a>>,
}

/// `abide.resolve/1`.
#[derive(Debug, Serialize)]
pub struct Ruled<'a> {
    /// The schema.
    pub schema: &'static str,
    /// The exit status.
    pub exit: i32,
    /// It was written; else the partner had said the same.
    pub recorded: bool,
    /// Who said it.
    pub by: &'a str,
    /// Why.
    pub note: &'a str,
    /// What is known now.
    #[serde(flatten)]
    pub standing: Standing<'a>,
}

/// `abide.ledger.list/1`.
#[derive(Debug, Serialize)]
pub struct Listed<'a> {
    /// The schema.
    pub schema: &'static str,
    /// The ledger.
    pub ledger: &'a str,
    /// The operations, newest first.
    pub operations: Vec<Standing<'a>>,
    /// How many the ledger holds in all.
    pub total: usize,
}

/// `abide.ledger.show/1`.
#[derive(Debug, Serialize)]
pub struct Shown<'a> {
    /// The schema.
    pub schema: &'static str,
    /// What is known.
    #[serde(flatten)]
    pub standing: Standing<'a>,
    /// Every fact, oldest first.
    pub facts: Vec<FactLine<'a>>,
}

/// `abide.send/1` of a dry run.
#[derive(Debug, Serialize)]
pub struct Preview<'a> {
    schema: &'static str,
    dry_run: bool,
    /// Null: nothing was sent.
    verdict: Option<Verdict>,
    key: &'a str,
    fresh_key: bool,
    partner: &'a str,
    fingerprint: &'a str,
    profile: Option<&'a str>,
    ledger: Option<&'a str>,
    proxy: Option<&'a str>,
    method: &'a str,
    url: &'a str,
    headers: Vec<(&'a str, String)>,
    body: Option<String>,
    body_bytes: usize,
    deadline_ms: u64,
    max_attempts: u32,
    curl: &'a str,
}

impl<'a> Preview<'a> {
    /// Returns the document of what would be sent.
    pub fn of(operation: &'a Operation, told: &Rehearsed<'a>, curl: &'a str) -> Preview<'a> {
        let request = &operation.request;
        let headers = request.headers.iter();
        Preview {
            schema: "abide.send/1",
            dry_run: true,
            verdict: None,
            key: operation.key.as_str(),
            fresh_key: told.fresh_key,
            partner: operation.partner.as_str(),
            fingerprint: &operation.fingerprint.0,
            profile: told.profile,
            ledger: told.ledger,
            proxy: told.proxy,
            method: request.method.as_str(),
            url: &request.url.shown,
            headers: headers.map(|header| (&*header.name, told.mask.hide(&header.value.shown))).collect(),
            body: std::str::from_utf8(&request.body).ok().map(|text| told.mask.hide(text)),
            body_bytes: request.body.len(),
            deadline_ms: u64::try_from(told.deadline.as_millis()).unwrap_or(u64::MAX),
            max_attempts: told.max_attempts,
            curl,
        }
    }
}
