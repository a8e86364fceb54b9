//! The exact request: URL, header fields, body.

use super::super::address;
use super::super::credentials::{self, AUTHORIZATION};
use super::super::expand::MASKED;
use super::super::headers::{self, NotAHeader};
use super::super::{Profile, Secrets, origin};
use super::{ComposeError, Draft};
use crate::engine::operation::{Announce, Guarded, Header, IdempotencyKey, Method, Request};
use crate::engine::policy::{KeyFormat, KeyPlace, Policy, UrlPart};
use crate::engine::secret::{Mask, Secret};
use std::sync::Arc;
use url::Url;

/// One `-H`. Its value may be a secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeaderFlag {
    name: Box<str>,
    value: Secret,
}

impl HeaderFlag {
    /// Reads `Name: value`; blanks around the value do not count.
    ///
    /// # Errors
    /// [`ComposeError::HeaderSyntax`] or [`ComposeError::Header`]; the value is never quoted.
    pub fn parse(text: &str) -> Result<HeaderFlag, ComposeError> {
        let (name, value) = text.split_once(':').ok_or(ComposeError::HeaderSyntax)?;
        let value = value.trim_matches([' ', '\t']);
        let checked = headers::check_name(name).and_then(|()| headers::check_value(value));
        match checked {
            Ok(()) => Ok(HeaderFlag { name: name.into(), value: Secret::new(value) }),
            // What is no name may be a secret in the wrong place.
            Err(NotAHeader::Name) => Err(ComposeError::Header { name: "-H".into(), why: NotAHeader::Name }),
            Err(why) => Err(ComposeError::Header { name: name.into(), why }),
        }
    }

    fn is(&self, name: &str) -> bool {
        self.name.eq_ignore_ascii_case(name)
    }
}

/// Where a request goes.
pub(super) struct Target<'a> {
    pub(super) method: Method,
    /// Userinfo included.
    pub(super) url: Url,
    pub(super) key: &'a IdempotencyKey,
}

/// A request and what belongs to it.
pub(super) struct Built {
    pub(super) request: Request,
    pub(super) status_headers: Arc<[Header]>,
    pub(super) announce: Announce,
    /// Query parameters that do not count for the fingerprint: secrets, and the key.
    pub(super) query_left_out: Vec<Box<str>>,
}

/// Returns the content type of a request, if it has one.
pub(super) fn content_type(request: &Request) -> Option<&Header> {
    request.headers.iter().find(|header| header.name.eq_ignore_ascii_case("content-type"))
}

/// Builds the request. Every secret in it is added to `mask`.
pub(super) fn build(
    profile: Option<&Profile>,
    draft: &Draft,
    policy: &Policy,
    target: Target<'_>,
    mask: &mut Mask,
) -> Result<Built, ComposeError> {
    let nothing = Secrets::default();
    let secrets = profile.map_or(&nothing, |profile| &profile.secrets);
    let Target { method, mut url, key } = target;
    let mut headers = own_headers(profile, draft);
    let authorization = authorization(profile, draft, &url, secrets, mask)?;
    headers.extend(authorization.clone());
    strip_userinfo(&mut url);
    for flag in draft.headers.iter().filter(|flag| !flag.is(AUTHORIZATION)) {
        headers.push(literal(flag, secrets, mask));
    }
    let has_type = headers.iter().any(|header| header.name.eq_ignore_ascii_case("content-type"));
    if draft.json && !has_type {
        headers.push(Header { name: "Content-Type".into(), value: Guarded::plain("application/json") });
    }
    let operation_header = profile.and_then(|profile| profile.announce_operation.as_deref());
    if let Some(name) = operation_header.filter(|name| !draft.headers.iter().any(|flag| flag.is(name))) {
        headers.push(Header { name: name.into(), value: Guarded::plain(key.as_str()) });
    }
    let mut query_left_out = address::secret_parameters(&url, &secrets.query);
    match &policy.idempotency.place {
        KeyPlace::Header(Some(name)) => {
            if headers.iter().any(|header| header.name.eq_ignore_ascii_case(name)) {
                return Err(ComposeError::KeyHeader { name: name.clone() });
            }
            let written = written(key, policy.idempotency.format);
            headers.push(Header { name: name.clone(), value: Guarded::plain(&written) });
        }
        KeyPlace::Query(name) => {
            if url.query_pairs().any(|(known, _)| *known == **name) {
                return Err(ComposeError::KeyInUrl { name: name.clone() });
            }
            url.query_pairs_mut().append_pair(name, key.as_str());
            query_left_out.push(name.clone());
        }
        KeyPlace::Header(None) | KeyPlace::Body => {}
    }
    let guarded = match profile.and_then(|profile| profile.base.as_ref()) {
        Some(base) => base.guard(&url, &secrets.query, mask),
        None => address::guard(&url, &secrets.query, mask),
    };
    mask_copies(&mut headers, policy, mask);
    let status_headers = status_headers(profile, policy, authorization);
    let body = draft.body.clone().unwrap_or_else(|| Arc::from([]));
    let request = Request { method, url: guarded, headers, body };
    Ok(Built { request, status_headers, announce: announce(profile, draft), query_left_out })
}

/// Returns the profile's headers that no flag beats, but for its credentials.
fn own_headers(profile: Option<&Profile>, draft: &Draft) -> Vec<Header> {
    let stated = profile.map(|profile| profile.headers.as_slice()).unwrap_or_default();
    let beaten = |header: &Header| draft.headers.iter().any(|flag| flag.is(&header.name));
    let own = stated.iter().filter(|header| !beaten(header) && !header.name.eq_ignore_ascii_case(AUTHORIZATION));
    own.cloned().collect()
}

/// Returns the credentials: of the flags `-H` and `-u`, of the URL, of the profile, in this order.
fn authorization(
    profile: Option<&Profile>,
    draft: &Draft,
    url: &Url,
    secrets: &Secrets,
    mask: &mut Mask,
) -> Result<Option<Header>, ComposeError> {
    let basic = |user: &str, password: &str, mask: &mut Mask| Header {
        name: AUTHORIZATION.into(),
        value: credentials::basic(user, password, mask),
    };
    // Masked also where a flag beats it: it stands in the command line.
    let (user, password) = (url.username(), url.password().unwrap_or_default());
    let in_url = (!user.is_empty() || !password.is_empty())
        .then(|| basic(&address::percent_decoded(user), &address::percent_decoded(password), mask));
    if let Some(flag) = draft.headers.iter().find(|flag| flag.is(AUTHORIZATION)) {
        return Ok(Some(literal(flag, secrets, mask)));
    }
    if let Some(given) = &draft.user {
        let (user, password) = given.expose().split_once(':').unwrap_or((given.expose(), ""));
        if user.is_empty() {
            return Err(ComposeError::NoUser);
        }
        return Ok(Some(basic(user, password, mask)));
    }
    Ok(in_url.or_else(|| profile.and_then(Profile::authorization).cloned()))
}

/// Masks values that hold a known secret, whatever their header is called. The key is no secret, and the content type
/// counts for the fingerprint, which must not change with a secret.
fn mask_copies(headers: &mut [Header], policy: &Policy, mask: &Mask) {
    for header in headers {
        let is = |name: &str| header.name.eq_ignore_ascii_case(name);
        let is_key = matches!(&policy.idempotency.place, KeyPlace::Header(Some(name)) if is(name));
        let sent = header.value.sent.expose();
        if !is_key && !is("content-type") && *header.value.stored == *sent && mask.hide(sent) != sent {
            header.value = Guarded { stored: MASKED.into(), shown: "***".into(), ..header.value.clone() };
        }
    }
}

fn literal(flag: &HeaderFlag, secrets: &Secrets, mask: &mut Mask) -> Header {
    let value = headers::guard(&flag.name, flag.value.expose(), &secrets.headers, mask);
    Header { name: flag.name.clone(), value }
}

/// Removes user and password.
fn strip_userinfo(url: &mut Url) {
    let removed = url.set_username("").and_then(|()| url.set_password(None));
    removed.expect("an http URL has a host, and so may have userinfo");
}

/// Returns the key as it goes over the wire.
///
/// Source: RFC 8941 section 3.3.3, for the quoted form.
fn written(key: &IdempotencyKey, format: KeyFormat) -> String {
    match format {
        KeyFormat::Raw => key.as_str().to_owned(),
        KeyFormat::Quoted => format!("\"{}\"", key.as_str().replace('\\', "\\\\").replace('"', "\\\"")),
    }
}

/// Returns the headers that change per attempt; a flag of the same name beats them.
fn announce(profile: Option<&Profile>, draft: &Draft) -> Announce {
    let stated = profile.map(|profile| profile.announce.clone()).unwrap_or_default();
    let kept = |name: Option<Box<str>>| name.filter(|name| !draft.headers.iter().any(|flag| flag.is(name)));
    Announce { attempt: kept(stated.attempt), time_left_ms: kept(stated.time_left_ms) }
}

/// Returns the header fields of status requests: the profile's and the credentials, where the status endpoint has the
/// origin of the operation; else none.
pub(super) fn status_headers(
    profile: Option<&Profile>,
    policy: &Policy,
    authorization: Option<Header>,
) -> Arc<[Header]> {
    let Some(status) = &policy.status else { return Arc::from([]) };
    let same_origin = match status.url.0.first() {
        Some(UrlPart::Text(start)) => Url::parse(start).is_ok_and(|url| origin(&url) == *policy.origin),
        // Where a Location points is known later only; whoever asks compares the origins then.
        _ => true,
    };
    if !same_origin {
        return Arc::from([]);
    }
    let stated = profile.map(|profile| profile.headers.as_slice()).unwrap_or_default();
    let about_the_body = |header: &&Header| header.name.to_ascii_lowercase().starts_with("content-");
    let own = stated.iter().filter(|header| !header.name.eq_ignore_ascii_case(AUTHORIZATION));
    own.filter(|header| !about_the_body(header)).cloned().chain(authorization).collect()
}

impl Profile {
    /// Returns the credentials, from `[auth]` or `[headers]`.
    pub(super) fn authorization(&self) -> Option<&Header> {
        let stated = self.headers.iter().find(|header| header.name.eq_ignore_ascii_case(AUTHORIZATION));
        self.auth.as_ref().or(stated)
    }
}
