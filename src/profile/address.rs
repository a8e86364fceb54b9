//! URLs: reading them, joining paths to them, and hiding what is secret in them.

use super::Reading;
use super::error::ProfileError;
use super::expand::{self, Piece};
use super::raw::Field;
use crate::engine::operation::Guarded;
use crate::engine::secret::{Mask, Secret};
use std::borrow::Cow;
use std::fmt;
use url::Url;

/// Query parameters whose values are masked, in lower case, with `-` written as `_`, beside those that end with one
/// of [`SECRET_ENDINGS`].
const SECRET_PARAMETERS: &[&str] = &[
    "api_key",
    "apikey",
    "auth",
    "authorization",
    "client_secret",
    "credential",
    "jwt",
    "passwd",
    "password",
    "pwd",
    "secret",
    "sig",
    "signature",
    "token",
];
const SECRET_ENDINGS: &[&str] = &["_token", "_secret", "_password", "_signature", "_credential", "_api_key", "_apikey"];

/// Why a text is no URL that can be called. The text is never part of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotAUrl {
    /// It has no `scheme://`.
    NoScheme,
    /// It is neither http nor https.
    Scheme,
    /// It names no host.
    NoHost,
    /// It holds a blank or a control character; the position counts from 1.
    Blank {
        /// Which character.
        position: usize,
    },
    /// It cannot be read for another reason.
    Malformed(url::ParseError),
}

impl fmt::Display for NotAUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NotAUrl::NoScheme => f.write_str("has no scheme such as http://"),
            NotAUrl::Scheme => f.write_str("is neither http nor https"),
            NotAUrl::NoHost => f.write_str("names no host"),
            NotAUrl::Blank { position } => {
                write!(f, "has a blank or control character at position {position}")
            }
            NotAUrl::Malformed(why) => write!(f, "is no URL: {why}"),
        }
    }
}

/// Reads an absolute http or https URL and drops its fragment.
pub(super) fn parse(text: &str) -> Result<Url, NotAUrl> {
    // The url crate would drop tabs and line breaks without a word.
    if let Some(index) = text.chars().position(|c| c.is_whitespace() || c.is_control()) {
        return Err(NotAUrl::Blank { position: index + 1 });
    }
    let Some((scheme, after)) = text.split_once("://") else { return Err(NotAUrl::NoScheme) };
    if !["http", "https"].iter().any(|known| known.eq_ignore_ascii_case(scheme)) {
        return Err(if scheme.is_empty() { NotAUrl::NoScheme } else { NotAUrl::Scheme });
    }
    // The url crate would read `http:///path` as the host `path`.
    if after.is_empty() || after.starts_with(['/', '?', '#', '\\', ':']) {
        return Err(NotAUrl::NoHost);
    }
    let mut url = Url::parse(text).map_err(|why| match why {
        url::ParseError::EmptyHost => NotAUrl::NoHost,
        why => NotAUrl::Malformed(why),
    })?;
    url.set_fragment(None);
    Ok(url)
}

/// Returns scheme, host and port as `http://host:port`.
pub fn origin(url: &Url) -> String {
    format!("{}://{}", url.scheme(), authority(url))
}

/// Returns host and port as `host:port`.
pub(super) fn authority(url: &Url) -> String {
    let port = url.port_or_known_default().unwrap_or(0);
    format!("{}:{port}", url.host_str().unwrap_or_default())
}

/// Returns `text` without userinfo, query and fragment, for messages about URLs that cannot be read.
pub(super) fn without_secrets(text: &str) -> String {
    let end = text.find(['?', '#']).unwrap_or(text.len());
    let bare = &text[..end];
    let start = bare.find("://").map_or(0, |at| at + 3);
    match bare[start..].rfind('@') {
        Some(at) => format!("{}{}", &bare[..start], &bare[start + at + 1..]),
        None => bare.to_owned(),
    }
}

/// Returns whether the values of a query parameter are secret: by the built-in list, or by the profile's.
fn is_secret_parameter(name: &str, listed: &[Box<str>]) -> bool {
    let plain = name.to_ascii_lowercase().replace('-', "_");
    SECRET_PARAMETERS.contains(&&*plain)
        || SECRET_ENDINGS.iter().any(|ending| plain.ends_with(ending))
        || listed.iter().any(|listed| listed.eq_ignore_ascii_case(name))
}

/// Returns `text`, a URL or the template of one, with the values of secret query parameters as `***`; `found` is
/// called with each such value, as it is and decoded.
pub(super) fn mask_query(text: &str, listed: &[Box<str>], mut found: impl FnMut(&str)) -> String {
    let Some((before, query)) = text.split_once('?') else { return text.to_owned() };
    let masked: Vec<Cow<'_, str>> = query
        .split('&')
        .map(|pair| match secret_value(pair, listed) {
            Some(value) => {
                found(value);
                found(&decoded(value));
                Cow::Owned(format!("{}***", pair.strip_suffix(value).expect("it ends with its value")))
            }
            None => Cow::Borrowed(pair),
        })
        .collect();
    format!("{before}?{}", masked.join("&"))
}

/// Returns the value behind the first secret name of `pair`, what stands between two `&`. A name may also begin behind
/// a `?` or `;`: a slip of the finger, or the older separator, must not show what it holds.
fn secret_value<'p>(pair: &'p str, listed: &[Box<str>]) -> Option<&'p str> {
    let starts = std::iter::once(0).chain(pair.match_indices(['?', ';']).map(|(at, _)| at + 1));
    starts
        .filter_map(|start| pair[start..].split_once('='))
        .find_map(|(name, value)| (!value.is_empty() && is_secret_parameter(&decoded(name), listed)).then_some(value))
}

/// Decodes `%XX`, and `+` as a blank; what is no UTF-8 becomes U+FFFD.
fn decoded(text: &str) -> String {
    percent_decoded(&text.replace('+', " "))
}

/// Decodes `%XX`; what is no UTF-8 becomes U+FFFD.
pub(super) fn percent_decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let code = after.get(..2).filter(|_| *first == b'%').and_then(|hex| std::str::from_utf8(hex).ok());
        // A sign would be read as part of the number.
        let code = code.filter(|hex| hex.bytes().all(|b| b.is_ascii_hexdigit()));
        match code.and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &after[2..];
            }
            None => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Shorter values of query parameters are not hidden elsewhere: `?auth=true` must not blank every `true`.
const SHORTEST_HIDDEN: usize = 6;

/// Hides the value of a query parameter wherever it turns up.
pub(super) fn hide_value(value: &str, mask: &mut Mask) {
    if value.len() >= SHORTEST_HIDDEN {
        mask.add(value);
    }
}

/// Wraps a URL without userinfo: secret query values, and known secrets in the path, are sent, but neither stored nor
/// shown.
pub(super) fn guard(url: &Url, listed: &[Box<str>], mask: &mut Mask) -> Guarded {
    let masked = mask_query(url.as_str(), listed, |value| hide_value(value, mask));
    // The host stays: it is public, and the ledger's readers need it.
    let (start, rest) = masked.split_at(origin_len(url));
    let shown = format!("{start}{}", mask.hide(rest));
    Guarded { sent: Secret::new(url.as_str()), stored: shown.as_str().into(), shown: shown.into() }
}

/// Returns whether the ledger's form of a URL has references: `${NAME}` in the path, where the url crate would have
/// encoded the braces of a literal text.
pub(super) fn has_references(stored: &str) -> bool {
    stored.split('?').next().unwrap_or_default().contains("${")
}

/// Returns whether the ledger's form of a URL has masked values. A literal `***` counts as one: it has to be given
/// again.
pub(super) fn has_masks(stored: &str) -> bool {
    stored.contains("***")
}

/// Returns the names of the secret parameters of `url`, as they are written.
pub(super) fn secret_parameters(url: &Url, listed: &[Box<str>]) -> Vec<Box<str>> {
    let names = url.query_pairs().map(|(name, _)| name);
    let last = |name: &str| name.rsplit(['?', ';']).next().unwrap_or_default().to_owned();
    names.filter(|name| is_secret_parameter(&last(name), listed)).map(Into::into).collect()
}

/// Returns the length of the part of `url` before its path.
fn origin_len(url: &Url) -> usize {
    url[..url::Position::BeforePath].len()
}

/// A profile's `base_url`.
#[derive(Clone, Debug)]
pub(super) struct Base {
    /// The URL itself, without query, fragment and userinfo.
    pub(super) url: Url,
    /// The same as the ledger knows it, without a `/` at its end: variables in the path stay references.
    pub(super) template: Box<str>,
}

impl Base {
    /// Reads `base_url`. A variable behind the host is a secret; one before it is an address, which is not.
    pub(super) fn read(field: &Field<'_>, reading: &mut Reading<'_>) -> Result<Base, ProfileError> {
        let mut sent = String::new();
        let mut template = String::new();
        for piece in expand::template(field)? {
            match piece {
                Piece::Text(text) => {
                    sent.push_str(text);
                    template.push_str(text);
                }
                Piece::Variable(name) => {
                    let value = expand::variable(field, name, reading.world)?;
                    let in_path = sent.split_once("://").is_some_and(|(_, after)| after.contains('/'));
                    sent.push_str(&value);
                    if in_path {
                        reading.mask.add(&value);
                        template.push_str(&format!("${{{name}}}"));
                    } else {
                        template.push_str(&value);
                    }
                }
            }
        }
        if sent.contains(['?', '#']) {
            let hint = "put the query behind the path that you send to";
            return Err(field.refused("has a query or a fragment", Some(hint)));
        }
        let url =
            parse(&sent).map_err(|why| field.refused(why.to_string(), Some("write http://host[:port][/path]")))?;
        if !url.username().is_empty() || url.password().is_some() {
            return Err(field.refused("has credentials in it", Some("put them under [auth]: user and password_env")));
        }
        let template = match template.contains("${") {
            true => template.trim_end_matches('/').into(),
            false => url.as_str().trim_end_matches('/').into(),
        };
        Ok(Base { url, template })
    }

    /// Returns the URL of `path`, which starts with `/`, under this base.
    pub(super) fn join(&self, path: &str) -> Result<Url, NotAUrl> {
        parse(&format!("{}{path}", self.url.as_str().trim_end_matches('/')))
    }

    /// Wraps a URL: where it lies under this base and the base has secrets, these are stored as references.
    pub(super) fn guard(&self, url: &Url, listed: &[Box<str>], mask: &mut Mask) -> Guarded {
        let base = self.url.as_str().trim_end_matches('/');
        let masked = mask_query(url.as_str(), listed, |value| hide_value(value, mask));
        let below = |rest: &&str| rest.is_empty() || rest.starts_with(['/', '?']);
        match masked.strip_prefix(base).filter(below).filter(|_| has_references(&self.template)) {
            Some(rest) => {
                let template = format!("{}{}", self.template, mask.hide(rest));
                Guarded { sent: Secret::new(url.as_str()), stored: template.as_str().into(), shown: template.into() }
            }
            None => guard(url, listed, mask),
        }
    }

    /// Returns the URL that the ledger stored with references of this base; `None` where they are of another.
    pub(super) fn resolve(&self, stored: &str) -> Option<String> {
        let rest = stored.strip_prefix(&*self.template)?;
        let joined = rest.is_empty() || rest.starts_with(['/', '?']);
        joined.then(|| format!("{}{rest}", self.url.as_str().trim_end_matches('/')))
    }

    /// Returns the path of `url` below this base; its whole path where it lies elsewhere.
    pub(super) fn below<'u>(&self, url: &'u Url) -> &'u str {
        let base = self.url.path().trim_end_matches('/');
        let same = url.origin() == self.url.origin();
        url.path().strip_prefix(base).filter(|rest| same && rest.starts_with('/')).unwrap_or(url.path())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_called_is_refused() {
        let cases = [
            ("api.example/x", NotAUrl::NoScheme),
            ("localhost:80/x", NotAUrl::NoScheme),
            ("://x", NotAUrl::NoScheme),
            ("ftp://api.example", NotAUrl::Scheme),
            ("http:///x", NotAUrl::NoHost),
            ("http://:80/x", NotAUrl::NoHost),
            ("http://", NotAUrl::NoHost),
            ("http://a b/", NotAUrl::Blank { position: 9 }),
            ("http://a/\n", NotAUrl::Blank { position: 10 }),
            ("http://a:99999/", NotAUrl::Malformed(url::ParseError::InvalidPort)),
        ];
        for (text, why) in cases {
            assert_eq!(parse(text), Err(why), "{text}");
        }
        assert_eq!(parse("HTTP://Api.Example:80/a?b#c").expect("a URL").as_str(), "http://api.example/a?b");
    }

    #[test]
    fn secret_query_values_are_masked_and_their_names_kept() {
        let listed = ["pin".into()];
        let mut found = Vec::new();
        let masked =
            mask_query("http://a/p?API_KEY=sk%2D1&lang=en&X-Amz-Signature=ab&PIN=9&key=k&sig=&token", &listed, |v| {
                found.push(v.to_owned());
            });
        assert_eq!(masked, "http://a/p?API_KEY=***&lang=en&X-Amz-Signature=***&PIN=***&key=k&sig=&token");
        assert_eq!(found, ["sk%2D1", "sk-1", "ab", "ab", "9", "9"]);
        for (url, shown) in [
            ("http://a/p", "http://a/p"),
            ("http://a/p??token=a?b", "http://a/p??token=***"),
            ("http://a/p?x=1;token=a;b&y=2", "http://a/p?x=1;token=***&y=2"),
            ("http://a/p?x=token", "http://a/p?x=token"),
        ] {
            assert_eq!(mask_query(url, &listed, |_| ()), shown);
        }
    }

    #[test]
    fn a_message_never_shows_userinfo_or_query() {
        assert_eq!(without_secrets("http://bob:p@w@host/x?token=1"), "http://host/x");
        assert_eq!(without_secrets("bob:pw@host/x"), "host/x");
        assert_eq!(without_secrets("host/x#f"), "host/x");
    }

    #[test]
    fn an_origin_names_its_port() {
        let url = parse("https://api.example/a").expect("a URL");
        assert_eq!(origin(&url), "https://api.example:443");
        assert_eq!(origin(&parse("http://[::1]:81").expect("a URL")), "http://[::1]:81");
    }
}
