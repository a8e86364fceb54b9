//! From the flags of `send` and a profile to the operation, its first ledger line and its policy; and back from the
//! ledger.

mod error;
mod key;
mod request;
mod restore;

pub use error::{ComposeError, NoKeyThere};
pub use request::HeaderFlag;
pub use restore::{Stored, restore};

use super::address;
use super::{Profile, StoreBody, origin};
use crate::engine::facts::{Opened, Owner, StoredBody, Why};
use crate::engine::fingerprint::{self, Head, Parts};
use crate::engine::json::Pointer;
use crate::engine::moment::Timestamp;
use crate::engine::operation::{Fingerprint, Header, Method, Operation, PartnerName, Request};
use crate::engine::policy::{KeyPlace, Policy};
use crate::engine::secret::{Mask, Secret};
use sha2::{Digest, Sha256};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use url::Url;

/// What the flags of `send` say, and what the process around it knows.
#[derive(Clone, Debug)]
pub struct Draft {
    /// `None`: POST where there is a body, else GET.
    pub method: Option<Method>,
    /// An absolute URL, or a path that starts with `/` and is joined to `base_url`.
    pub target: String,
    /// `-H`, in order. A flag beats the profile's header of the same name.
    pub headers: Vec<HeaderFlag>,
    /// `-u USER[:PASS]`.
    pub user: Option<Secret>,
    /// The body, byte for byte.
    pub body: Option<Arc<[u8]>>,
    /// Whether the body was given with `--json`: then it gets that content type.
    pub json: bool,
    /// Where the key comes from.
    pub key: KeySource,
    /// `--key-header NAME`: the partner honours the key in this header.
    pub key_header: Option<String>,
    /// The account label, in place of the profile's.
    pub account: Option<String>,
    /// `--deadline`, in place of `overall`.
    pub deadline: Option<DeadlineFlag>,
    /// `--valid-for`, as a time.
    pub valid_until: Option<Timestamp>,
    /// `--max-attempts`, the first included.
    pub max_attempts: Option<u32>,
    /// `--connect-timeout` and its like, in place of the profile's.
    pub timeouts: TimeoutFlags,
    /// The wall clock now.
    pub now: Timestamp,
    /// Who starts the run.
    pub why: Why,
    /// Who runs it.
    pub owner: Owner,
}

/// Where a key comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeySource {
    /// `--key KEY`.
    Given(String),
    /// `--key-from /json/pointer` into the body.
    Pointer(String),
    /// Neither: a fresh key, made by the caller.
    Made(String),
    /// A fresh key of what is measured. Where keys travel in the body, the caller has put it there if it is to be sent.
    Measuring(String),
}

/// When the operation must end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeadlineFlag {
    /// So long after [`Draft::now`].
    Within(Duration),
    /// At this time.
    At(Timestamp),
}

/// Limits of stages and attempts, where a flag states them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TimeoutFlags {
    /// `--connect-timeout`.
    pub connect: Option<Duration>,
    /// `--write-timeout`.
    pub write: Option<Duration>,
    /// `--read-timeout`.
    pub read: Option<Duration>,
    /// `--attempt-timeout`.
    pub attempt: Option<Duration>,
}

/// Everything that a run needs.
#[derive(Clone, Debug)]
pub struct Composed {
    /// What is sent.
    pub operation: Operation,
    /// The line that a first claim writes.
    pub opened: Arc<Opened>,
    /// The rules, flags applied.
    pub policy: Policy,
    /// Every secret of the profile and of the flags.
    pub mask: Mask,
    /// What the user should know.
    pub warnings: Vec<Warning>,
    /// Query parameters that do not count for the fingerprint.
    query_left_out: Vec<Box<str>>,
    /// Where the key stands in the body, if it travels there.
    key_in_body: Option<Pointer>,
}

impl Composed {
    /// Returns in words what differs between a recorded operation and this one, where their fingerprints differ.
    ///
    /// `body` is `None` where the ledger has only its hash.
    pub fn differences(&self, recorded: &Opened, body: Option<&[u8]>) -> Vec<&'static str> {
        let Some(method) = Method::new(&recorded.method) else { return vec!["method"] };
        let head = head(&method, recorded, &self.query_left_out);
        let wanted = self::head(&self.operation.request.method, &self.opened, &self.query_left_out);
        let key_in_body = self.key_in_body.as_ref();
        fingerprint::differences(&head, body, &Parts { head: wanted, body: &self.operation.request.body, key_in_body })
    }
}

/// What a user should know about an operation before it is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Warning {
    /// It has a body and no content type.
    NoContentType,
    /// The profile says that the key is not sent.
    KeyNotSent,
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Warning::NoContentType => "the body has no content type: add -H 'Content-Type: …', or give it with --json",
            Warning::KeyNotSent => "the profile sends no key: the partner cannot recognise a repetition",
        })
    }
}

/// Builds an operation.
///
/// # Errors
/// [`ComposeError`]; nothing was sent or recorded.
pub fn compose(profile: Option<&Profile>, draft: &Draft) -> Result<Composed, ComposeError> {
    let url = target(profile, &draft.target)?;
    let method = match (&draft.method, &draft.body) {
        (Some(method), _) => method.clone(),
        (None, Some(_)) => Method::new("POST").expect("a token"),
        (None, None) => Method::new("GET").expect("a token"),
    };
    let policy = policy(profile, draft, &method, &url)?;
    let partner = match profile.and_then(|profile| profile.partner.clone()) {
        Some(partner) => partner,
        None => PartnerName::new(&address::authority(&url)).ok_or(ComposeError::Partner)?,
    };
    let (key, key_in_body) = key::read(draft, &policy.idempotency)?;
    let mut mask = profile.map(|profile| profile.mask.clone()).unwrap_or_default();
    let built = request::build(profile, draft, &policy, request::Target { method, url, key: &key }, &mut mask)?;
    let mut warnings = Vec::new();
    if !built.request.body.is_empty() && request::content_type(&built.request).is_none() {
        warnings.push(Warning::NoContentType);
    }
    if policy.idempotency.place == KeyPlace::Header(None) {
        warnings.push(Warning::KeyNotSent);
    }
    let mut opened = open(profile, draft, &policy, &built.request, partner.clone());
    let head = head(&built.request.method, &opened, &built.query_left_out);
    let parts = Parts { head, body: &built.request.body, key_in_body: key_in_body.as_ref() };
    opened.fp = fingerprint::fingerprint(&parts);
    let operation = Operation {
        partner,
        key,
        fingerprint: opened.fp.clone(),
        request: Arc::new(built.request),
        status_headers: built.status_headers,
        announce: built.announce,
    };
    let query_left_out = built.query_left_out;
    Ok(Composed { operation, opened: Arc::new(opened), policy, mask, warnings, query_left_out, key_in_body })
}

/// Returns the URL to send to, userinfo included.
fn target(profile: Option<&Profile>, text: &str) -> Result<Url, ComposeError> {
    let shown = || address::without_secrets(text).into();
    let base = profile.and_then(|profile| profile.base.as_ref());
    let url = match (text.starts_with('/'), base) {
        (true, Some(base)) => base.join(text),
        (true, None) => {
            let profile = profile.map(|profile| profile.path.display().to_string().into());
            return Err(ComposeError::NoBase { path: shown(), profile });
        }
        (false, _) => address::parse(text),
    };
    let url = url.map_err(|why| ComposeError::Url { given: shown(), why })?;
    if let Some(base) = base.map(|base| origin(&base.url)).filter(|base| *base != origin(&url)) {
        return Err(ComposeError::OtherOrigin { base: base.into(), given: origin(&url).into() });
    }
    Ok(url)
}

/// Returns the rules with the flags over them.
fn policy(profile: Option<&Profile>, draft: &Draft, method: &Method, url: &Url) -> Result<Policy, ComposeError> {
    let mut policy = match profile {
        Some(profile) => profile.policy(method, url),
        None => Policy::unprofiled(method.clone(), &origin(url)),
    };
    if let Some(name) = &draft.key_header {
        super::headers::check_name(name).map_err(|why| ComposeError::Header { name: "--key-header".into(), why })?;
        policy.idempotency.supported = true;
        policy.idempotency.place = KeyPlace::Header(Some(name.as_str().into()));
    }
    if let Some(account) = &draft.account {
        if account.is_empty() || account.chars().any(char::is_control) {
            return Err(ComposeError::Account);
        }
        policy.account = Some(account.as_str().into());
    }
    let limits = &mut policy.timeouts;
    let flags = &draft.timeouts;
    for (limit, flag) in [
        (&mut limits.connect, flags.connect),
        (&mut limits.write, flags.write),
        (&mut limits.read, flags.read),
        (&mut limits.attempt, flags.attempt),
    ] {
        *limit = flag.unwrap_or(*limit);
    }
    limits.overall = match draft.deadline {
        None => limits.overall,
        Some(DeadlineFlag::Within(within)) => within,
        Some(DeadlineFlag::At(at)) if at <= draft.now => return Err(ComposeError::DeadlinePast { at }),
        Some(DeadlineFlag::At(at)) => at.since(draft.now),
    };
    policy.retry.max_attempts = match draft.max_attempts {
        Some(0) => return Err(ComposeError::NoAttempts),
        stated => stated.unwrap_or(policy.retry.max_attempts),
    };
    Ok(policy)
}

/// Returns the first ledger line of an operation; its fingerprint is not known yet.
fn open(profile: Option<&Profile>, draft: &Draft, policy: &Policy, request: &Request, partner: PartnerName) -> Opened {
    let stored = |header: &Header| (header.name.clone(), header.value.stored.clone());
    let idempotency = &policy.idempotency;
    Opened {
        partner,
        profile: profile.map(|profile| profile.absolute.display().to_string().into()),
        account: policy.account.clone(),
        method: request.method.as_str().into(),
        url: request.url.stored.clone(),
        headers: request.headers.iter().map(stored).collect(),
        fp: Fingerprint("".into()),
        body: stored_body(&request.body, profile.map_or(StoreBody::Full, |profile| profile.ledger.store_body)),
        contract: idempotency.contract().into(),
        key_until: idempotency.supported.then(|| draft.now.after(idempotency.trusted_for())),
        valid_until: draft.valid_until,
        tls: None,
        deadline: draft.now.after(policy.timeouts.overall),
        why: draft.why,
        owner: draft.owner.clone(),
    }
}

/// Returns what counts for the fingerprint, as the ledger has it: secrets do not count.
fn head<'a>(method: &'a Method, opened: &'a Opened, query_left_out: &'a [Box<str>]) -> Head<'a> {
    let content_type = opened.headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("content-type"));
    Head {
        partner: &opened.partner,
        account: opened.account.as_deref(),
        method,
        url: &opened.url,
        query_left_out,
        content_type: content_type.map(|(_, value)| &**value),
        headers: &[],
    }
}

/// Larger bodies do not stand in the ledger's line.
///
/// Source: design/ledger.md.
const INLINE_BYTES: usize = 16 << 10;

/// A text that JSON would make longer than this is kept as base64, so that the line stays within its limit.
const INLINE_ESCAPED_BYTES: usize = 32 << 10;

/// Returns a body as the ledger keeps it.
fn stored_body(body: &[u8], rule: StoreBody) -> StoredBody {
    let sha = || Sha256::digest(body).iter().map(|byte| format!("{byte:02x}")).collect::<String>().into();
    let len = body.len() as u64;
    if rule == StoreBody::Hash && !body.is_empty() {
        return StoredBody::Hash { sha: sha(), len };
    }
    if body.len() > INLINE_BYTES {
        return StoredBody::Blob { sha: sha(), len };
    }
    // A control character takes six bytes in JSON, a quote or backslash two.
    let escaped: usize =
        body.iter().map(|byte| if *byte < b' ' { 6 } else { 1 + usize::from(b"\"\\".contains(byte)) }).sum();
    match std::str::from_utf8(body) {
        Ok(text) if escaped <= INLINE_ESCAPED_BYTES => StoredBody::Text(text.into()),
        _ => StoredBody::Bytes(body.into()),
    }
}

#[cfg(test)]
mod tests;
