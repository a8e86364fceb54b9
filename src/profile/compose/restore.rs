//! Back from the ledger to the operation, byte for byte.

use super::super::{Profile, address, expand, origin};
use super::ComposeError;
use super::request;
use crate::engine::facts::{Opened, StoredHeader};
use crate::engine::operation::{Announce, Guarded, Header, IdempotencyKey, Method, Operation, Request};
use crate::engine::policy::{Idempotency, KeyPlace, Policy};
use crate::engine::secret::Secret;
use std::sync::Arc;
use url::Url;

/// An operation as the ledger has it.
#[derive(Clone, Debug)]
pub struct Stored<'a> {
    /// Its key.
    pub key: &'a IdempotencyKey,
    /// Its first line.
    pub opened: &'a Opened,
    /// Its body, byte for byte.
    pub body: Arc<[u8]>,
}

/// Builds the operation that the ledger has, and the rules for it: the stored method, URL, headers and body.
///
/// Secrets that the ledger has only by reference come from `again`, the operation of the present command line, where
/// there is one; else from the profile. The fingerprint is the stored one, and so is the account of the rules.
///
/// # Errors
/// [`ComposeError::OtherOrigin`] where the profile is for another origin; [`ComposeError::MaskedHeader`] and
/// [`ComposeError::MaskedUrl`] where a secret is not known here; [`ComposeError::Unreadable`] for a damaged line.
/// Nothing was sent.
pub fn restore(
    profile: Option<&Profile>,
    stored: &Stored<'_>,
    again: Option<&Operation>,
) -> Result<(Operation, Policy), ComposeError> {
    let opened = stored.opened;
    let method = Method::new(&opened.method).ok_or(ComposeError::Unreadable { field: "method" })?;
    let sent = url(profile, &opened.url, again)?;
    let parsed = address::parse(&sent).map_err(|_| ComposeError::Unreadable { field: "URL" })?;
    let base = profile.and_then(|profile| profile.base.as_ref()).map(|base| origin(&base.url));
    if let Some(base) = base.filter(|base| *base != origin(&parsed)) {
        return Err(ComposeError::OtherOrigin { base: base.into(), given: origin(&parsed).into() });
    }
    let headers =
        opened.headers.iter().map(|header| restored(profile, header, again)).collect::<Result<Vec<_>, _>>()?;
    let policy = rules(profile, opened, &method, &parsed);
    let is_authorization = |header: &&Header| header.name.eq_ignore_ascii_case("authorization");
    let authorization = headers.iter().find(is_authorization).cloned();
    let request = Request {
        method,
        url: Guarded { sent: Secret::new(&sent), stored: opened.url.clone(), shown: opened.url.clone() },
        headers,
        body: stored.body.clone(),
    };
    let operation = Operation {
        partner: opened.partner.clone(),
        key: stored.key.clone(),
        fingerprint: opened.fp.clone(),
        status_headers: request::status_headers(profile, &policy, authorization),
        announce: announce(profile, &request.headers),
        request: Arc::new(request),
    };
    Ok((operation, policy))
}

/// Returns the rules of the profile of today for the stored operation.
fn rules(profile: Option<&Profile>, opened: &Opened, method: &Method, url: &Url) -> Policy {
    match profile {
        Some(profile) => profile.policy(method, url),
        None => {
            let policy = Policy::unprofiled(method.clone(), &origin(url));
            let idempotency = promised(opened).unwrap_or_else(|| policy.idempotency.clone());
            Policy { account: opened.account.clone(), idempotency, ..policy }
        }
    }
}

/// Returns what `--key-header` promised about the key at the first send; the ledger keeps how the key travels.
fn promised(opened: &Opened) -> Option<Idempotency> {
    let name = opened.contract.strip_prefix("header:")?.strip_suffix(":raw")?;
    let place = KeyPlace::Header(Some(name.into()));
    opened.key_until.map(|_| Idempotency { supported: true, place, ..Idempotency::default() })
}

/// Returns the URL that was sent.
fn url(profile: Option<&Profile>, stored: &str, again: Option<&Operation>) -> Result<String, ComposeError> {
    if !address::has_references(stored) && !address::has_masks(stored) {
        return Ok(stored.to_owned());
    }
    if let Some(url) = again.and_then(|again| filled(stored, &again.request.url)) {
        return Ok(url);
    }
    let base = profile.and_then(|profile| profile.base.as_ref());
    let resolved = base.filter(|_| !address::has_masks(stored)).and_then(|base| base.resolve(stored));
    resolved.ok_or_else(|| ComposeError::MaskedUrl { url: stored.into() })
}

/// Fills what is masked in the URL `stored` from that of the present command line, which may differ in what is not
/// masked: a key in the query is another one where an operation is continued without its key.
fn filled(stored: &str, now: &Guarded) -> Option<String> {
    let sent = now.sent.expose();
    if *now.stored == *stored {
        return Some(sent.to_owned());
    }
    let (path, query) = stored.split_once('?')?;
    let (path_now, _) = now.stored.split_once('?')?;
    let (path_sent, query_sent) = sent.split_once('?')?;
    if path != path_now {
        return None;
    }
    let value = |pair: &str| {
        let name = pair.split('=').next()?;
        let mut same = query_sent.split('&').filter(|sent| sent.split('=').next() == Some(name));
        // Two values under one name cannot be told apart.
        same.next().filter(|_| same.next().is_none()).map(str::to_owned)
    };
    let fill = |pair: &str| if pair.contains("***") { value(pair) } else { Some(pair.to_owned()) };
    let pairs = query.split('&').map(fill).collect::<Option<Vec<_>>>()?;
    Some(format!("{path_sent}?{}", pairs.join("&")))
}

/// Returns a header with the value that was sent, or what has taken its place since.
fn restored(
    profile: Option<&Profile>,
    (name, stored): &StoredHeader,
    again: Option<&Operation>,
) -> Result<Header, ComposeError> {
    if let Some(text) = expand::written(stored) {
        let value = Guarded { sent: Secret::new(text), stored: stored.clone(), shown: text.into() };
        return Ok(Header { name: name.clone(), value });
    }
    let named = |header: &&Header| header.name.eq_ignore_ascii_case(name);
    let now = again.and_then(|again| again.request.headers.iter().find(named));
    let own = || profile.and_then(|profile| profile.headers.iter().chain(&profile.auth).find(named));
    let value = now.or_else(own).ok_or_else(|| ComposeError::MaskedHeader { name: name.clone() })?;
    Ok(Header { name: name.clone(), value: value.value.clone() })
}

/// Returns the headers that change per attempt, but for those that are stored with a fixed value.
fn announce(profile: Option<&Profile>, headers: &[Header]) -> Announce {
    let stated = profile.map(|profile| profile.announce.clone()).unwrap_or_default();
    let fixed = |name: &str| headers.iter().any(|header| header.name.eq_ignore_ascii_case(name));
    let kept = |name: Option<Box<str>>| name.filter(|name| !fixed(name));
    Announce { attempt: kept(stated.attempt), time_left_ms: kept(stated.time_left_ms) }
}
