//! Fingerprints: whether two operations mean the same.

mod body;
mod url;

use super::json::Pointer;
use super::operation::{Fingerprint, Method, PartnerName};
use sha2::{Digest, Sha256};

/// What an operation means, but for its body.
#[derive(Clone, Copy, Debug)]
pub struct Head<'a> {
    /// Whose operation it is.
    pub partner: &'a PartnerName,
    /// The profile's account label.
    pub account: Option<&'a str>,
    /// The method.
    pub method: &'a Method,
    /// The absolute URL. Userinfo and fragment do not count.
    pub url: &'a str,
    /// The query parameters that do not count, in any case: secrets, and the key where it travels in the query.
    pub query_left_out: &'a [Box<str>],
    /// The Content-Type field; its parameters do not count.
    pub content_type: Option<&'a str>,
    /// The header fields that count: only those that the profile lists, never credentials or what changes per attempt.
    /// Their order does not count, but among fields of one name.
    pub headers: &'a [(Box<str>, Box<str>)],
}

/// What an operation means.
#[derive(Clone, Copy, Debug)]
pub struct Parts<'a> {
    /// All but the body.
    pub head: Head<'a>,
    /// The body, byte for byte.
    pub body: &'a [u8],
    /// Where the idempotency key stands in the body, if there: its value does not count.
    pub key_in_body: Option<&'a Pointer>,
}

/// Returns the fingerprint of an operation: `v1:` and the SHA-256 of its parts in hex.
///
/// The body counts in its canonical form where it is meant as JSON: the content type says so or is missing, or
/// `key_in_body` points into it. JSON that is invalid, ambiguous or very deep counts byte for byte, like any other body.
///
/// Source: decisions 11; reference semantics 5.4.
pub fn fingerprint(parts: &Parts<'_>) -> Fingerprint {
    let mut fields = Fields::new("v1");
    fields.present(parts.head.partner.as_str().as_bytes());
    fields.optional(parts.head.account.map(str::as_bytes));
    fields.present(parts.head.method.as_str().as_bytes());
    fields.present(canonical_url(&parts.head).as_bytes());
    fields.optional(essence(parts.head.content_type).as_deref().map(str::as_bytes));
    let headers = canonical_headers(parts.head.headers);
    fields.present(&(headers.len() as u64).to_be_bytes());
    for (name, value) in &headers {
        fields.present(name.as_bytes());
        fields.present(value.as_bytes());
    }
    fields.present(&body_hash(parts));
    Fingerprint(format!("v1:{}", hex(&fields.hash.finalize())).into())
}

/// Returns what differs between a recorded operation and a wanted one whose fingerprints differ, in words for people.
///
/// `recorded_body` is `None` where the ledger has only its hash; then the body is named when nothing else differs.
/// Empty only where nothing differs.
pub fn differences(recorded: &Head<'_>, recorded_body: Option<&[u8]>, wanted: &Parts<'_>) -> Vec<&'static str> {
    let head = &wanted.head;
    let in_head = [
        ("partner", recorded.partner != head.partner),
        ("account", recorded.account != head.account),
        ("method", recorded.method != head.method),
        ("URL", canonical_url(recorded) != canonical_url(head)),
        ("content type", essence(recorded.content_type) != essence(head.content_type)),
        ("headers", canonical_headers(recorded.headers) != canonical_headers(head.headers)),
    ];
    let mut differing: Vec<_> = in_head.into_iter().filter(|(_, differs)| *differs).map(|(name, _)| name).collect();
    let body_differs = match recorded_body {
        Some(body) => body_hash(&Parts { head: *recorded, body, ..*wanted }) != body_hash(wanted),
        None => differing.is_empty(),
    };
    if body_differs {
        differing.push("body");
    }
    differing
}

fn canonical_url(head: &Head<'_>) -> String {
    url::canonical(head.url, head.query_left_out)
}

/// Returns a media type without its parameters, in lower case.
fn essence(content_type: Option<&str>) -> Option<String> {
    let essence = content_type?.split(';').next()?.trim().to_ascii_lowercase();
    (!essence.is_empty()).then_some(essence)
}

fn canonical_headers(headers: &[(Box<str>, Box<str>)]) -> Vec<(String, &str)> {
    let mut sorted: Vec<_> = headers.iter().map(|(name, value)| (name.to_ascii_lowercase(), value.trim())).collect();
    // Stable: the order among fields of one name counts.
    sorted.sort_by(|(one, _), (other, _)| one.cmp(other));
    sorted
}

fn body_hash(parts: &Parts<'_>) -> [u8; 32] {
    let is_json = match essence(parts.head.content_type) {
        _ if parts.key_in_body.is_some() => true,
        None => true,
        Some(essence) => essence == "application/json" || essence.ends_with("+json"),
    };
    let form = if is_json { body::canonical(parts.body, parts.key_in_body.map(Pointer::steps)) } else { None };
    Sha256::digest(form.as_deref().unwrap_or(parts.body)).into()
}

/// A hash over fields, each with its length, so that no text can move from one field to the next.
struct Fields {
    hash: Sha256,
}

impl Fields {
    fn new(version: &str) -> Fields {
        let mut fields = Fields { hash: Sha256::new() };
        fields.present(version.as_bytes());
        fields
    }

    fn present(&mut self, field: &[u8]) {
        self.hash.update((field.len() as u64).to_be_bytes());
        self.hash.update(field);
    }

    fn optional(&mut self, field: Option<&[u8]>) {
        match field {
            Some(field) => self.present(field),
            // A length that no field has: a missing field is not an empty one.
            None => self.hash.update(u64::MAX.to_be_bytes()),
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests;
