//! Where a redirect points, without a URL library: enough to tell the same origin from another.

use std::fmt;

/// Scheme, host and port of an absolute http(s) URL. Two are equal whatever the case of their letters, and whether or
/// not the port that goes without saying is written out.
#[derive(Clone, Copy, Debug)]
pub struct Origin<'a> {
    /// The scheme.
    pub scheme: Scheme,
    /// As it stands in the URL, brackets included.
    pub host: &'a str,
    /// The digits, at least one.
    pub port: &'a str,
}

/// The schemes that requests are sent by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// `http`.
    Http,
    /// `https`.
    Https,
}

impl Scheme {
    fn name(self) -> &'static str {
        match self {
            Scheme::Http => "http",
            Scheme::Https => "https",
        }
    }
}

impl PartialEq for Origin<'_> {
    fn eq(&self, other: &Origin<'_>) -> bool {
        self.scheme == other.scheme && self.port == other.port && self.host.eq_ignore_ascii_case(other.host)
    }
}

impl Eq for Origin<'_> {}

/// Shows `scheme://host:port` in lower case.
impl fmt::Display for Origin<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}:{}", self.scheme.name(), self.host.to_ascii_lowercase(), self.port)
    }
}

/// Returns the origin of a URL; `None` where `url` is not absolute http(s).
pub fn origin(url: &str) -> Option<Origin<'_>> {
    let (scheme, authority, _) = split(url)?;
    let host_port = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    let written = host_port.rsplit_once(':').filter(|(host, port)| {
        port.bytes().all(|b| b.is_ascii_digit()) && (!host.starts_with('[') || host.ends_with(']'))
    });
    let implied = match scheme {
        Scheme::Http => "80",
        Scheme::Https => "443",
    };
    let (host, port) = match written {
        Some((host, "")) => (host, implied),
        Some(written) => written,
        None => (host_port, implied),
    };
    (!host_port.is_empty()).then_some(Origin { scheme, host, port })
}

/// Returns the absolute URL that `location` names, seen from the absolute URL `base`, without a fragment; `None`
/// where it is empty, of another scheme than http(s), or holds blanks or control characters.
pub fn resolve(base: &str, location: &str) -> Option<String> {
    let location = location.split('#').next().unwrap_or_default();
    if location.is_empty() || location.bytes().any(|b| b <= b' ' || b == 0x7f) {
        return None;
    }
    let (scheme, authority, rest) = split(base)?;
    let scheme = scheme.name();
    if split(location).is_some() {
        return Some(location.to_owned());
    }
    if let Some(other) = location.strip_prefix("//") {
        return Some(format!("{scheme}://{other}"));
    }
    let path = rest.split(['?', '#']).next().unwrap_or_default();
    if has_scheme(location) {
        return None;
    }
    if location.starts_with('/') {
        return Some(format!("{scheme}://{authority}{location}"));
    }
    if location.starts_with('?') {
        return Some(format!("{scheme}://{authority}{path}{location}"));
    }
    let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
    Some(format!("{scheme}://{authority}{folder}/{location}"))
}

/// Returns host, port and path of a URL for people: no userinfo, the query masked.
pub fn shown(url: &str) -> String {
    let Some((scheme, authority, rest)) = split(url) else {
        return url.split(['?', '#']).next().unwrap_or_default().to_owned();
    };
    let (scheme, host) = (scheme.name(), authority.rsplit_once('@').map_or(authority, |(_, host)| host));
    let path = rest.split(['?', '#']).next().unwrap_or_default();
    format!("{scheme}://{host}{path}{}", if rest.contains('?') { "?***" } else { "" })
}

fn has_scheme(text: &str) -> bool {
    let name = text.split([':', '/', '?']).next().unwrap_or_default();
    text[name.len()..].starts_with(':') && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"+-.".contains(&b))
}

/// Returns (scheme, authority, rest from the path on) of an absolute http(s) URL.
fn split(url: &str) -> Option<(Scheme, &str, &str)> {
    let (name, rest) = url.split_once(':')?;
    let rest = rest.strip_prefix("//")?;
    let scheme = [Scheme::Http, Scheme::Https].into_iter().find(|scheme| name.eq_ignore_ascii_case(scheme.name()))?;
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    Some((scheme, &rest[..end], &rest[end..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn origins_are_equal_when_scheme_host_and_port_are() {
        let cases = [
            ("http://a.example/x", Some("http://a.example:80")),
            ("HTTPS://A.example:8443?q", Some("https://a.example:8443")),
            ("https://u:p@a.example", Some("https://a.example:443")),
            ("http://[::1]:8080/", Some("http://[::1]:8080")),
            ("http://[::1]/", Some("http://[::1]:80")),
            ("http://a.example:/", Some("http://a.example:80")),
            ("ftp://a.example", None),
            ("/x", None),
            ("http://", None),
        ];
        for (url, expected) in cases {
            assert_eq!(origin(url).map(|origin| origin.to_string()).as_deref(), expected, "{url}");
        }
    }

    #[test]
    fn locations_resolve_against_the_request() {
        let base = "http://a.example:8080/v1/orders?x=1";
        let cases = [
            ("http://b.example/z", Some("http://b.example/z")),
            ("//b.example/z", Some("http://b.example/z")),
            ("/z?y#f", Some("http://a.example:8080/z?y")),
            ("z", Some("http://a.example:8080/v1/z")),
            ("?y", Some("http://a.example:8080/v1/orders?y")),
            ("mailto:a@b", None),
            ("", None),
            ("#f", None),
            ("/a b", None),
            ("/a\r\nx", None),
        ];
        for (location, expected) in cases {
            assert_eq!(resolve(base, location).as_deref(), expected, "{location:?}");
        }
    }

    #[test]
    fn what_people_see_of_a_url_holds_no_query_and_no_userinfo() {
        assert_eq!(shown("http://u:p@a.example/x?token=1#f"), "http://a.example/x?***");
        assert_eq!(shown("/x?token=1"), "/x");
    }
}
