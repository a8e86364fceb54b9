//! From what the wire said to what the ledger keeps.

use crate::engine::classify::Finding;
use crate::engine::exchange::{Answer, Ending, Exchange, Stages};
use crate::engine::facts::{Finished, Response, StoredBody};
use crate::engine::gateway::EDGE_FIELDS;
use crate::engine::location;
use crate::engine::moment::Now;
use crate::engine::policy::Policy;
use crate::engine::secret::Mask;
use sha2::{Digest, Sha256};
use std::borrow::Cow;

/// Response header fields that are kept: what a person needs to follow an answer up, never a cookie or a credential.
const KEPT_HEADERS: &[&str] = &[
    "content-type",
    "content-location",
    "date",
    "etag",
    "idempotent-replayed",
    "location",
    "request-id",
    "retry-after",
    "server",
    "x-correlation-id",
    "x-request-id",
    "proxy-status",
];

/// Returns the line about an attempt that came to `finding`, as it was seen at that time; the mask hides secrets.
pub(super) fn finished(a: u32, finding: Finding, exchange: &Exchange, seen: (Now, &Mask)) -> Finished {
    let (now, mask) = seen;
    let stages = (exchange.stages != Stages::default()).then(|| Box::new(exchange.stages));
    Finished {
        a,
        evidence: finding.evidence,
        done: finding.done,
        again: finding.again,
        reason: finding.reason,
        stage: finding.stage,
        side: finding.side,
        http: finding.http,
        ms: u64::try_from(exchange.took.as_millis()).unwrap_or(u64::MAX),
        stages,
        error: exchange.error.clone(),
        not_before: finding.retry_after.map(|wait| now.wall.after(wait)),
        replayed: finding.replayed,
        slow: finding.slow,
        // The query of an address may be a credential, and nobody follows it but this run.
        hop: finding.hop.map(|hop| mask.hide(&location::shown(&hop)).into()),
    }
}

/// Returns an answer as the ledger keeps it: without the body where that is too long or holds a secret.
pub(super) fn response(answer: &Answer, policy: &Policy, mask: &Mask) -> Response {
    let headers = answer.headers.0.iter().filter(|(name, _)| {
        let name = &**name;
        KEPT_HEADERS.contains(&name) || EDGE_FIELDS.contains(&name)
    });
    let fits = answer.body.len() <= policy.sizes.stored_body_bytes && !mask.finds(&answer.body);
    Response {
        headers: headers
            .map(|(name, value)| (name.clone(), mask.hide(&kept(answer.status, name, value)).into()))
            .collect(),
        len: answer.body.len() as u64,
        sha: sha256_hex(&answer.body).into(),
        body: fits.then(|| stored_body(&answer.body)),
        cut: !fits || answer.ending != Ending::Complete,
    }
}

/// Returns a field's value as it is kept: of where a redirect points no query, which may be a credential. The place of a
/// 202 is kept whole, to ask there.
fn kept<'a>(status: u16, name: &str, value: &'a str) -> Cow<'a, str> {
    match (status, name) {
        (300..400, "location") => location::shown(value).into(),
        _ => value.into(),
    }
}

/// Returns bytes as they stand in a line: as text where they are UTF-8.
pub fn stored_body(bytes: &[u8]) -> StoredBody {
    match std::str::from_utf8(bytes) {
        Ok(text) => StoredBody::Text(text.into()),
        Err(_) => StoredBody::Bytes(bytes.into()),
    }
}

/// Returns the SHA-256 of `bytes` as 64 hex digits.
pub fn sha256_hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |half: u8| char::from(DIGITS[usize::from(half)]);
    Sha256::digest(bytes).iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}
