//! What the user wants to happen once.

use super::secret::Secret;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::Arc;

/// The name that scopes ledger entries and the breaker; 1 to 255 bytes, no control characters.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct PartnerName(Box<str>);

impl PartnerName {
    /// Returns the name, or `None` where it is empty, over 255 bytes, or holds a control character.
    pub fn new(name: &str) -> Option<PartnerName> {
        let fits = (1..=255).contains(&name.len()) && !name.chars().any(char::is_control);
        fits.then(|| PartnerName(name.into()))
    }

    /// Returns the name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for PartnerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A key as the ledger and the partner know it: 1 to 255 visible ASCII characters, no blanks around.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct IdempotencyKey(Box<str>);

/// Why a text is no idempotency key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotAKey {
    /// It is empty.
    Empty,
    /// It is longer than the partner takes.
    TooLong {
        /// Its length in bytes.
        len: usize,
        /// The longest that is taken.
        max: usize,
    },
    /// It has blanks around.
    Blanks,
    /// It holds something else than visible ASCII characters and inner blanks; the position counts from 1.
    Character {
        /// Which character.
        position: usize,
    },
}

impl fmt::Display for NotAKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NotAKey::Empty => f.write_str("the key is empty"),
            NotAKey::TooLong { len, max } => {
                write!(f, "the key has {len} characters, at most {max} are taken")
            }
            NotAKey::Blanks => f.write_str("the key has blanks around it"),
            NotAKey::Character { position } => {
                write!(f, "character {position} of the key is not visible ASCII")
            }
        }
    }
}

impl std::error::Error for NotAKey {}

impl IdempotencyKey {
    /// Returns the key.
    ///
    /// # Errors
    /// [`NotAKey`] where it is empty, longer than `max_len` bytes, has blanks around, or holds other than visible ASCII.
    pub fn new(text: &str, max_len: usize) -> Result<IdempotencyKey, NotAKey> {
        if text.is_empty() {
            return Err(NotAKey::Empty);
        }
        if text.trim() != text {
            return Err(NotAKey::Blanks);
        }
        if let Some(position) = text.chars().position(|c| !c.is_ascii_graphic()) {
            return Err(NotAKey::Character { position: position + 1 });
        }
        if text.len() > max_len {
            return Err(NotAKey::TooLong { len: text.len(), max: max_len });
        }
        Ok(IdempotencyKey(text.into()))
    }

    /// Returns the key as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for IdempotencyKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// An HTTP method with the two properties that decisions need.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Method(Box<str>);

impl Method {
    /// Returns the method in upper case, or `None` where it is no HTTP token or is CONNECT.
    pub fn new(name: &str) -> Option<Method> {
        let is_token = !name.is_empty()
            && name.len() <= 32
            && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b));
        let upper = name.to_ascii_uppercase();
        (is_token && upper != "CONNECT").then(|| Method(upper.into()))
    }

    /// Returns the name in upper case.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns whether the method asks for no change: GET, HEAD, OPTIONS, TRACE.
    ///
    /// Source: RFC 9110 section 9.2.1.
    pub fn is_safe(&self) -> bool {
        matches!(&*self.0, "GET" | "HEAD" | "OPTIONS" | "TRACE")
    }

    /// Returns whether repeating the request has the effect of sending it once: the safe methods, PUT and DELETE.
    ///
    /// Source: RFC 9110 section 9.2.2.
    pub fn is_idempotent(&self) -> bool {
        self.is_safe() || matches!(&*self.0, "PUT" | "DELETE")
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A hash that is equal for operations with the same meaning; `v1:` and 64 hex digits.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Fingerprint(pub Box<str>);

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A text that goes over the wire, and what is written down in its place.
#[derive(Clone, Debug)]
pub struct Guarded {
    /// What the partner gets.
    pub sent: Secret,
    /// What the ledger keeps: the text itself, a reference (`$env:NAME`), or `$masked`.
    pub stored: Box<str>,
    /// What people see.
    pub shown: Box<str>,
}

impl Guarded {
    /// Returns a text without secrets: sent, stored and shown as it is.
    pub fn plain(text: &str) -> Guarded {
        Guarded { sent: Secret::new(text), stored: text.into(), shown: text.into() }
    }

    /// Returns whether what is stored is not what is sent.
    pub fn is_secret(&self) -> bool {
        self.sent.expose() != &*self.stored
    }
}

/// One header field of a request.
#[derive(Clone, Debug)]
pub struct Header {
    /// The name as the user wrote it.
    pub name: Box<str>,
    /// The value.
    pub value: Guarded,
}

/// The exact request, the same over all attempts.
#[derive(Clone, Debug)]
pub struct Request {
    /// The method.
    pub method: Method,
    /// The absolute URL, without a fragment.
    pub url: Guarded,
    /// The header fields, the idempotency key's included, those that change per attempt not.
    pub headers: Vec<Header>,
    /// The body, byte for byte.
    pub body: Arc<[u8]>,
}

impl Request {
    /// Returns whether the request has a JSON body or asks for JSON.
    pub fn wants_json(&self) -> bool {
        self.headers.iter().any(|header| {
            let named = |name: &str| header.name.eq_ignore_ascii_case(name);
            let value = header.value.sent.expose().as_bytes();
            (named("content-type") || named("accept"))
                && value.windows(4).any(|word| word.eq_ignore_ascii_case(b"json"))
        })
    }
}

/// Header fields that change per attempt; the transport adds them where they are named.
///
/// Source: `[announce]` of product.md section 4.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Announce {
    /// The header that carries the number of the attempt, from 1.
    pub attempt: Option<Box<str>>,
    /// The header that carries what the attempt may still take, in whole milliseconds.
    pub time_left_ms: Option<Box<str>>,
}

/// What the user wants to happen once.
#[derive(Clone, Debug)]
pub struct Operation {
    /// With `key`, its identity.
    pub partner: PartnerName,
    /// With `partner`, its identity.
    pub key: IdempotencyKey,
    /// Equal for equal payloads.
    pub fingerprint: Fingerprint,
    /// What is sent.
    pub request: Arc<Request>,
    /// The header fields of status requests: the profile's, credentials included.
    pub status_headers: Arc<[Header]>,
    /// Header fields that change per attempt.
    pub announce: Announce,
}
/// Files about TLS that flags named, as absolute paths; their content is never kept.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct TlsPaths {
    /// `--cacert`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca: Option<Box<str>>,
    /// `--cert`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cert: Option<Box<str>>,
    /// `--cert-key`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<Box<str>>,
}
