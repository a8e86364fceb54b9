//! The start of a line, read without a JSON parser: fields are written in a fixed order, and a quote inside of a text
//! never stands without a backslash before it. What is not as expected is left to the parser.

use super::{Identity, START};
use crate::engine::moment::Timestamp;
use crate::engine::operation::{Fingerprint, IdempotencyKey, PartnerName};
use crate::engine::verdict::Verdict;
use memchr::memmem::Finder;
use std::str;
use std::sync::LazyLock;

/// What stands before a fingerprint. The search for it is prepared once.
static FINGERPRINT: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(b",\"fp\":\""));

/// The start of a fact's line.
#[derive(Clone, Copy, Debug)]
pub struct Head<'a> {
    /// The key.
    pub key: &'a str,
    at: &'a str,
    /// What follows `at`.
    rest: &'a [u8],
}

impl<'a> Head<'a> {
    /// Reads it; `None` where it takes a parser.
    pub fn read(line: &'a [u8]) -> Option<Head<'a>> {
        let (_, rest) = text(line.strip_prefix(START)?)?;
        let rest = rest.strip_prefix(b",\"n\":")?;
        let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let (key, rest) = text(rest[digits..].strip_prefix(b",\"k\":\"")?)?;
        let (at, rest) = text(rest.strip_prefix(b",\"at\":\"")?)?;
        Some(Head { key, at, rest })
    }

    /// Returns the key and when the line was written.
    pub fn frame(self) -> Option<(IdempotencyKey, Timestamp)> {
        Some((IdempotencyKey::new(self.key, 255).ok()?, self.at.parse().ok()?))
    }

    /// Returns whose the line of a claim is.
    pub fn identity(self) -> Option<Identity> {
        let (partner, rest) = self.partner()?;
        let fp = match FINGERPRINT.find(rest) {
            Some(at) => Some(Fingerprint(text(&rest[at + FINGERPRINT.needle().len()..])?.0.into())),
            None => None,
        };
        let key = IdempotencyKey::new(self.key, 255).ok()?;
        Some(Identity { key, partner: PartnerName::new(partner)?, fp })
    }

    /// Returns whose key it names; `None` where no partner follows.
    pub fn whose(self) -> Option<(IdempotencyKey, Option<PartnerName>)> {
        let (partner, _) = self.partner()?;
        Some((IdempotencyKey::new(self.key, 255).ok()?, Some(PartnerName::new(partner)?)))
    }

    /// Returns the verdict of a line that ends something.
    pub fn verdict(self) -> Option<Verdict> {
        let rest = self.partner().map_or(self.rest, |(_, rest)| rest);
        let (name, _) = text(rest.strip_prefix(b",\"verdict\":\"")?)?;
        [Verdict::Confirmed, Verdict::Rejected, Verdict::NotDone, Verdict::InDoubt, Verdict::Accepted]
            .into_iter()
            .find(|verdict| verdict.name() == name)
    }

    fn partner(self) -> Option<(&'a str, &'a [u8])> {
        text(self.rest.strip_prefix(b",\"partner\":\"")?)
    }
}

/// Reads a text up to its closing quote and returns what follows; `None` where something is escaped in it.
fn text(bytes: &[u8]) -> Option<(&str, &[u8])> {
    let end = memchr::memchr2(b'"', b'\\', bytes)?;
    if bytes[end] == b'\\' {
        return None;
    }
    Some((str::from_utf8(&bytes[..end]).ok()?, &bytes[end + 1..]))
}
