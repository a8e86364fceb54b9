//! Why an operation cannot be built.

use super::super::address::NotAUrl;
use super::super::headers::NotAHeader;
use crate::engine::moment::Timestamp;
use crate::engine::operation::NotAKey;
use std::fmt;

/// Why an operation cannot be built. No secret is ever part of it; nothing was sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ComposeError {
    /// The URL cannot be called.
    Url {
        /// The URL without userinfo, query and fragment.
        given: Box<str>,
        /// Why not.
        why: NotAUrl,
    },
    /// A path needs a `base_url`.
    NoBase {
        /// The path.
        path: Box<str>,
        /// The profile that has none; `None` without a profile.
        profile: Option<Box<str>>,
    },
    /// The profile's rules and credentials are for another origin.
    OtherOrigin {
        /// The profile's.
        base: Box<str>,
        /// The one that was asked for.
        given: Box<str>,
    },
    /// Host and port of the URL are too long for a partner's name.
    Partner,
    /// The account label is empty or holds control characters.
    Account,
    /// A header flag has no colon.
    HeaderSyntax,
    /// A header cannot be sent.
    Header {
        /// Its name.
        name: Box<str>,
        /// Why not.
        why: NotAHeader,
    },
    /// A header flag names the header of the key.
    KeyHeader {
        /// The name.
        name: Box<str>,
    },
    /// The user of `-u` is not given.
    NoUser,
    /// The key cannot be used.
    Key(NotAKey),
    /// `--key-from` is no JSON pointer.
    NotAPointer {
        /// What was given.
        text: Box<str>,
    },
    /// `--key-from` finds no key in the body.
    KeyPointer {
        /// The pointer.
        pointer: Box<str>,
        /// What is there instead.
        why: NoKeyThere,
    },
    /// The profile says that the key is part of the body, so it must come from there.
    KeyInBody,
    /// The URL has the key's query parameter already.
    KeyInUrl {
        /// The parameter.
        name: Box<str>,
    },
    /// `--max-attempts 0`.
    NoAttempts,
    /// The deadline has passed.
    DeadlinePast {
        /// When.
        at: Timestamp,
    },
    /// A stored header is masked, and nothing here has its value.
    MaskedHeader {
        /// Its name.
        name: Box<str>,
    },
    /// The stored URL is masked, and nothing here has what is hidden.
    MaskedUrl {
        /// The stored form.
        url: Box<str>,
    },
    /// The ledger holds a method or URL that is none.
    Unreadable {
        /// Which field.
        field: &'static str,
    },
}

/// What a pointer to the key found instead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoKeyThere {
    /// There is no body.
    NoBody,
    /// The body is no JSON.
    NotJson,
    /// There is nothing.
    Nothing,
    /// There is a null.
    Null,
    /// There is an object or a list.
    Composite,
}

impl fmt::Display for NoKeyThere {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            NoKeyThere::NoBody => "there is no body",
            NoKeyThere::NotJson => "the body is no JSON",
            NoKeyThere::Nothing => "nothing is there",
            NoKeyThere::Null => "a null is there",
            NoKeyThere::Composite => "an object or a list is there",
        })
    }
}

impl ComposeError {
    /// Returns what to do next, where that is known.
    pub fn hint(&self) -> Option<String> {
        let hint = match self {
            ComposeError::Url { given, why: NotAUrl::NoScheme } => {
                return Some(format!("write http://{given}, or a path that starts with / and a profile with base_url"));
            }
            ComposeError::Url { why: NotAUrl::Blank { .. }, .. } => "write a blank as %20",
            ComposeError::NoBase { profile: Some(_), .. } => {
                "add base_url = \"http://…\" to the profile, or give the whole URL"
            }
            ComposeError::NoBase { profile: None, .. } => "give the whole URL, or a profile with base_url",
            ComposeError::OtherOrigin { .. } => {
                "the profile's credentials and promises are for its base_url only: use another profile"
            }
            ComposeError::HeaderSyntax => "write -H 'Name: value'",
            ComposeError::KeyHeader { .. } => "give the key with --key",
            ComposeError::KeyInBody => "say where it is: --key-from /pointer",
            ComposeError::KeyInUrl { .. } => "leave it out and give the key with --key",
            ComposeError::NotAPointer { .. } => "write for example --key-from /order/id",
            ComposeError::NoAttempts => "the first attempt counts: --max-attempts 1 sends once",
            ComposeError::MaskedHeader { .. } => "give it again with -H, or put it into the profile as ${VARIABLE}",
            ComposeError::MaskedUrl { .. } => "give the same URL again with `abide send --key`",
            _ => return None,
        };
        Some(hint.to_owned())
    }
}

impl fmt::Display for ComposeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ComposeError::Url { given, why } => write!(f, "`{given}` {why}"),
            ComposeError::NoBase { path, profile: Some(profile) } => {
                write!(f, "`{path}` is a path, and {profile} has no base_url")
            }
            ComposeError::NoBase { path, profile: None } => write!(f, "`{path}` is a path, and there is no profile"),
            ComposeError::OtherOrigin { base, given } => {
                write!(f, "the profile is for {base}, and the URL is at {given}")
            }
            ComposeError::Partner => f.write_str("host and port are too long for a partner's name"),
            ComposeError::Account => f.write_str("the account is empty or holds a control character"),
            ComposeError::HeaderSyntax => f.write_str("a header flag has no colon"),
            ComposeError::Header { name, why } => write!(f, "header `{name}` {why}"),
            ComposeError::KeyHeader { name } => write!(f, "header `{name}` carries the idempotency key"),
            ComposeError::NoUser => f.write_str("-u names no user"),
            ComposeError::Key(why) => why.fmt(f),
            ComposeError::NotAPointer { text } => write!(f, "`{text}` is no JSON pointer"),
            ComposeError::KeyPointer { pointer, why } => write!(f, "no key at {pointer} of the body: {why}"),
            ComposeError::KeyInBody => f.write_str("the profile says that the key is part of the body"),
            ComposeError::KeyInUrl { name } => write!(f, "the URL has `{name}` already, which carries the key"),
            ComposeError::NoAttempts => f.write_str("0 attempts would send nothing"),
            ComposeError::DeadlinePast { at } => write!(f, "the deadline {at} has passed"),
            ComposeError::MaskedHeader { name } => {
                write!(f, "the value of header `{name}` is not kept in the ledger and not known here")
            }
            ComposeError::MaskedUrl { url } => {
                write!(f, "secrets of {url} are not kept in the ledger and not known here")
            }
            ComposeError::Unreadable { field } => write!(f, "the {field} in the ledger cannot be read"),
        }
    }
}

impl std::error::Error for ComposeError {}
