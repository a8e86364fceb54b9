//! What `opened` and `settled` lines look like, between the facts and serde.

use crate::engine::exchange::{Stage, Stages};
use crate::engine::facts::{Again, Finished, Opened, Owner, Response, Settled, StoredBody, StoredHeader, Why};
use crate::engine::moment::Timestamp;
use crate::engine::operation::{Fingerprint, PartnerName, TlsPaths};
use crate::engine::reason::Reason;
use crate::engine::verdict::{Cause, Evidence, Side, Verdict};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::sync::Arc;

/// The fields of an `opened` line.
#[derive(Serialize, Deserialize)]
pub struct OpenedLine<'a> {
    partner: Cow<'a, PartnerName>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    profile: Option<Cow<'a, str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    account: Option<Cow<'a, str>>,
    method: Cow<'a, str>,
    url: Cow<'a, str>,
    headers: Cow<'a, [StoredHeader]>,
    fp: Cow<'a, Fingerprint>,
    body: BodyLine<'a>,
    contract: Cow<'a, str>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    key_until: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    valid_until: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tls: Option<Cow<'a, TlsPaths>>,
    deadline: Timestamp,
    why: Why,
    owner: Cow<'a, Owner>,
}

impl<'a> From<&'a Opened> for OpenedLine<'a> {
    fn from(opened: &'a Opened) -> OpenedLine<'a> {
        OpenedLine {
            partner: Cow::Borrowed(&opened.partner),
            profile: opened.profile.as_deref().map(Cow::Borrowed),
            account: opened.account.as_deref().map(Cow::Borrowed),
            method: Cow::Borrowed(&opened.method),
            url: Cow::Borrowed(&opened.url),
            headers: Cow::Borrowed(&opened.headers),
            fp: Cow::Borrowed(&opened.fp),
            body: BodyLine::from(&opened.body),
            contract: Cow::Borrowed(&opened.contract),
            key_until: opened.key_until,
            valid_until: opened.valid_until,
            tls: opened.tls.as_deref().map(Cow::Borrowed),
            deadline: opened.deadline,
            why: opened.why,
            owner: Cow::Borrowed(&opened.owner),
        }
    }
}

impl OpenedLine<'_> {
    /// Returns the fact; `None` where the body has no form or several.
    pub fn into_fact(self) -> Option<Opened> {
        Some(Opened {
            partner: self.partner.into_owned(),
            profile: self.profile.map(|profile| profile.into_owned().into()),
            account: self.account.map(|account| account.into_owned().into()),
            method: self.method.into_owned().into(),
            url: self.url.into_owned().into(),
            headers: self.headers.into_owned(),
            fp: self.fp.into_owned(),
            body: self.body.into_body()?,
            contract: self.contract.into_owned().into(),
            key_until: self.key_until,
            valid_until: self.valid_until,
            tls: self.tls.map(|tls| Box::new(tls.into_owned())),
            deadline: self.deadline,
            why: self.why,
            owner: self.owner.into_owned(),
        })
    }
}

/// A body: `{"s":…}`, `{"b64":…}`, `{"blob":"sha256:…","len":…}` or `{"sha":…,"len":…}`.
#[derive(Default, Serialize, Deserialize)]
struct BodyLine<'a> {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    s: Option<Cow<'a, str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    b64: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    blob: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    sha: Option<Cow<'a, str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    len: Option<u64>,
}

impl<'a> From<&'a StoredBody> for BodyLine<'a> {
    fn from(body: &'a StoredBody) -> BodyLine<'a> {
        let none = BodyLine::default();
        match body {
            StoredBody::Text(text) => BodyLine { s: Some(Cow::Borrowed(text)), ..none },
            StoredBody::Bytes(bytes) => BodyLine { b64: Some(STANDARD.encode(bytes)), ..none },
            StoredBody::Blob { sha, len } => BodyLine { blob: Some(format!("sha256:{sha}")), len: Some(*len), ..none },
            StoredBody::Hash { sha, len } => BodyLine { sha: Some(Cow::Borrowed(sha)), len: Some(*len), ..none },
        }
    }
}

impl BodyLine<'_> {
    fn into_body(self) -> Option<StoredBody> {
        Some(match (self.s, self.b64, self.blob, self.sha) {
            (Some(text), None, None, None) => StoredBody::Text(text.into_owned().into()),
            (None, Some(b64), None, None) => StoredBody::Bytes(STANDARD.decode(b64).ok()?.into()),
            (None, None, Some(blob), None) => {
                let sha = blob.strip_prefix("sha256:").filter(|sha| is_sha256(sha))?;
                StoredBody::Blob { sha: sha.into(), len: self.len? }
            }
            (None, None, None, Some(sha)) => StoredBody::Hash { sha: sha.into_owned().into(), len: self.len? },
            _ => return None,
        })
    }
}

/// Returns whether a text can name a blob: it becomes a file name.
fn is_sha256(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
}

/// What a `settled` line says before the fields of the attempt that ended the run.
#[derive(Serialize)]
pub struct SettledHead {
    verdict: Verdict,
    cause: Cause,
}

impl From<&Settled> for SettledHead {
    fn from(settled: &Settled) -> SettledHead {
        SettledHead { verdict: settled.verdict, cause: settled.cause }
    }
}

/// What a `settled` line says after them.
#[derive(Serialize)]
pub struct SettledEnd<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response: Option<ResponseLine<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    o: Option<u64>,
}

impl<'a> SettledEnd<'a> {
    /// Takes what is left of a settled fact; `o` is the offset of the operation's `opened` line.
    pub fn new(settled: &'a Settled, o: Option<u64>) -> SettledEnd<'a> {
        SettledEnd { retry_at: settled.retry_at, response: settled.response.as_deref().map(ResponseLine::from), o }
    }
}

/// A whole `settled` line; the fields of the attempt, in the middle, are there when `a` is. They are those of
/// [`Finished`], so that the line is read once.
#[derive(Deserialize)]
pub struct SettledLine {
    verdict: Verdict,
    cause: Cause,
    a: Option<u32>,
    evidence: Option<Evidence>,
    done: Option<bool>,
    again: Option<Again>,
    reason: Option<Reason>,
    stage: Option<Stage>,
    side: Option<Side>,
    http: Option<u16>,
    ms: Option<u64>,
    stages: Option<Box<Stages>>,
    error: Option<Box<str>>,
    not_before: Option<Timestamp>,
    #[serde(default)]
    replayed: bool,
    #[serde(default)]
    slow: bool,
    hop: Option<Box<str>>,
    retry_at: Option<Timestamp>,
    response: Option<ResponseLine<'static>>,
}

impl SettledLine {
    /// Reads the fact; `None` where something is missing.
    pub fn read(line: &str) -> Option<Settled> {
        let settled: SettledLine = serde_json::from_str(line).ok()?;
        let last = match settled.a {
            Some(a) => Some(Arc::new(Finished {
                a,
                evidence: settled.evidence?,
                done: settled.done,
                again: settled.again?,
                reason: settled.reason?,
                stage: settled.stage,
                side: settled.side,
                http: settled.http,
                ms: settled.ms?,
                stages: settled.stages,
                error: settled.error,
                not_before: settled.not_before,
                replayed: settled.replayed,
                slow: settled.slow,
                hop: settled.hop,
            })),
            None => None,
        };
        let response = match settled.response {
            Some(response) => Some(Box::new(response.into_response()?)),
            None => None,
        };
        let (verdict, cause, retry_at) = (settled.verdict, settled.cause, settled.retry_at);
        Some(Settled { verdict, cause, retry_at, last, response })
    }
}

/// The partner's answer in a `settled` line.
#[derive(Serialize, Deserialize)]
struct ResponseLine<'a> {
    headers: Cow<'a, [StoredHeader]>,
    len: u64,
    sha: Cow<'a, str>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    body: Option<BodyLine<'a>>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    cut: bool,
}

impl<'a> From<&'a Response> for ResponseLine<'a> {
    fn from(response: &'a Response) -> ResponseLine<'a> {
        ResponseLine {
            headers: Cow::Borrowed(&response.headers),
            len: response.len,
            sha: Cow::Borrowed(&response.sha),
            body: response.body.as_ref().map(BodyLine::from),
            cut: response.cut,
        }
    }
}

impl ResponseLine<'_> {
    fn into_response(self) -> Option<Response> {
        let body = match self.body {
            Some(body) => Some(body.into_body()?),
            None => None,
        };
        let (headers, sha) = (self.headers.into_owned(), self.sha.into_owned().into());
        Some(Response { headers, len: self.len, sha, body, cut: self.cut })
    }
}
