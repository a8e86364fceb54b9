//! Header fields: what may be sent, and what must not be written down.

use super::Reading;
use super::error::ProfileError;
use super::expand::{self, MASKED, Piece};
use super::raw::{Field, Section};
use crate::engine::operation::{Guarded, Header};
use crate::engine::secret::{Mask, Secret};
use std::fmt;

/// Why a header field cannot be sent. The value is never quoted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotAHeader {
    /// The name is empty or holds something else than letters, digits and `!#$%&'*+-.^_|~` or a backquote.
    Name,
    /// The value is empty.
    Empty,
    /// The value has a line break.
    LineBreak,
    /// The value holds something else than visible ASCII, blanks and tabs; the position counts from 1.
    Character {
        /// Which character.
        position: usize,
    },
    /// The transport sets it.
    Transport,
}

impl fmt::Display for NotAHeader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NotAHeader::Name => f.write_str("is no header name"),
            NotAHeader::Empty => f.write_str("has no value"),
            NotAHeader::LineBreak => f.write_str("has a line break in its value"),
            NotAHeader::Character { position } => {
                write!(f, "has a value whose character {position} is not printable ASCII")
            }
            NotAHeader::Transport => {
                f.write_str("belongs to the connection: abide sets it, so that it can tell what was sent")
            }
        }
    }
}

/// Headers that describe the connection or the length, which only the transport may state.
const TRANSPORT: &[&str] = &[
    "connection",
    "content-length",
    "expect",
    "keep-alive",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// Headers whose literal values are masked, beside `*-token`, `*-secret`, `*-password` and `*-api-key`.
const SECRET_NAMES: &[&str] = &["authorization", "proxy-authorization", "cookie", "x-api-key", "api-key", "apikey"];
const SECRET_ENDINGS: &[&str] = &["-token", "-secret", "-password", "-api-key", "-apikey"];

/// Checks a name.
///
/// # Errors
/// [`NotAHeader::Name`] or [`NotAHeader::Transport`].
pub(super) fn check_name(name: &str) -> Result<(), NotAHeader> {
    let token = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
    if name.is_empty() || !name.bytes().all(token) {
        return Err(NotAHeader::Name);
    }
    if TRANSPORT.iter().any(|known| known.eq_ignore_ascii_case(name)) {
        return Err(NotAHeader::Transport);
    }
    Ok(())
}

/// Checks a value: not empty, visible ASCII with inner blanks and tabs.
///
/// # Errors
/// Any [`NotAHeader`] but those about names.
pub(super) fn check_value(value: &str) -> Result<(), NotAHeader> {
    if value.trim().is_empty() {
        return Err(NotAHeader::Empty);
    }
    if value.contains(['\r', '\n']) {
        return Err(NotAHeader::LineBreak);
    }
    let printable = |c: char| c.is_ascii_graphic() || c == ' ' || c == '\t';
    match value.chars().position(|c| !printable(c)) {
        Some(index) => Err(NotAHeader::Character { position: index + 1 }),
        None => Ok(()),
    }
}

/// Returns whether the values of `name` are secret: by the built-in list, or by the profile's.
pub(super) fn is_secret(name: &str, listed: &[Box<str>]) -> bool {
    let lower = name.to_ascii_lowercase();
    SECRET_NAMES.contains(&&*lower)
        || SECRET_ENDINGS.iter().any(|ending| lower.ends_with(ending))
        || listed.iter().any(|listed| listed.eq_ignore_ascii_case(name))
}

/// Wraps a literal value: masked where the name says that it is secret.
pub(super) fn guard(name: &str, value: &str, listed: &[Box<str>], mask: &mut Mask) -> Guarded {
    if is_secret(name, listed) {
        hidden(value, mask)
    } else {
        Guarded { sent: Secret::new(value), stored: expand::literal(value).into(), shown: value.into() }
    }
}

/// Wraps a value that is never written down. The mask hides the value and each of its words: `Bearer x` turns up as
/// `x` too.
pub(super) fn hidden(value: &str, mask: &mut Mask) -> Guarded {
    mask.add(value);
    if let Some((_, credentials)) = value.split_once(' ') {
        mask.add(credentials);
    }
    Guarded { sent: Secret::new(value), stored: MASKED.into(), shown: "***".into() }
}

/// Reads `[headers]`.
pub(super) fn read(section: &Section<'_>, reading: &mut Reading<'_>) -> Result<Vec<Header>, ProfileError> {
    let mut headers: Vec<Header> = Vec::new();
    for (name, field) in section.entries() {
        check_name(name).map_err(|why| field.refused(why.to_string(), None))?;
        if headers.iter().any(|known| known.name.eq_ignore_ascii_case(name)) {
            return Err(field.refused("is stated twice, in another case", None));
        }
        headers.push(Header { name: name.into(), value: value(name, &field, reading)? });
    }
    Ok(headers)
}

fn value(name: &str, field: &Field<'_>, reading: &mut Reading<'_>) -> Result<Guarded, ProfileError> {
    let template = field.text()?.trim();
    let pieces = expand::template(field)?;
    let mut sent = String::new();
    let mut secrets = Vec::new();
    for piece in &pieces {
        match piece {
            Piece::Text(text) => sent.push_str(text),
            Piece::Variable(variable) => {
                let value = expand::variable(field, variable, reading.world)?;
                sent.push_str(&value);
                secrets.push(value);
            }
        }
    }
    let sent = sent.trim();
    check_value(sent).map_err(|why| field.refused(why.to_string(), None))?;
    if secrets.is_empty() {
        return Ok(guard(name, sent, &reading.secrets.headers, &mut reading.mask));
    }
    for secret in &secrets {
        reading.mask.add(secret);
    }
    Ok(Guarded { sent: Secret::new(sent), stored: expand::reference(template).into(), shown: template.into() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_values_that_cannot_be_sent_are_refused() {
        for name in ["X-Team", "x_1", "Host", "Content-Type"] {
            assert_eq!(check_name(name), Ok(()), "{name}");
        }
        for name in ["", "X Team", "X:Y", "X\nY", "Tëam"] {
            assert_eq!(check_name(name), Err(NotAHeader::Name), "{name}");
        }
        for name in ["Content-Length", "transfer-encoding", "Connection", "EXPECT"] {
            assert_eq!(check_name(name), Err(NotAHeader::Transport), "{name}");
        }
        assert_eq!(check_value("a b\tc"), Ok(()));
        assert_eq!(check_value(" "), Err(NotAHeader::Empty));
        assert_eq!(check_value("a\r\nX: b"), Err(NotAHeader::LineBreak));
        assert_eq!(check_value("a\u{7}"), Err(NotAHeader::Character { position: 2 }));
        assert_eq!(check_value("né"), Err(NotAHeader::Character { position: 2 }));
    }

    #[test]
    fn literal_secrets_are_known_by_name_in_any_case() {
        let listed = ["X-Partner-Pin".into()];
        for name in ["AUTHORIZATION", "Cookie", "x-api-key", "X-Auth-Token", "x-client-SECRET", "x-partner-pin"] {
            assert!(is_secret(name, &listed), "{name}");
        }
        for name in ["X-Team", "Tokens", "Idempotency-Key", "Content-Type"] {
            assert!(!is_secret(name, &listed), "{name}");
        }
        let mut mask = Mask::default();
        let guarded = guard("Authorization", "Bearer sk-live-77", &[], &mut mask);
        assert_eq!((&*guarded.stored, &*guarded.shown), ("$masked", "***"));
        assert_eq!(mask.hide("got sk-live-77 back"), "got *** back");
    }
}
