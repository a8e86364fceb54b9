//! Where a redirect points, without a URL library: enough to tell the same origin from another.

/// Returns `scheme://host:port` in lower case with the port written out; `None` where `url` is not absolute http(s).
pub fn origin(url: &str) -> Option<String> {
    let (scheme, authority, _) = split(url)?;
    let host_port = authority.rsplit_once('@').map_or(authority, |(_, host)| host).to_ascii_lowercase();
    let port_known = host_port.rsplit_once(':').is_some_and(|(host, port)| {
        !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit()) && (!host.starts_with('[') || host.ends_with(']'))
    });
    let host_port = host_port.strip_suffix(':').unwrap_or(&host_port);
    match (host_port.is_empty(), port_known) {
        (true, _) => None,
        (false, true) => Some(format!("{scheme}://{host_port}")),
        (false, false) => Some(format!("{scheme}://{host_port}:{}", if scheme == "https" { 443 } else { 80 })),
    }
}

/// Returns the absolute URL that `location` names, seen from the absolute URL `base`, without a fragment; `None`
/// where it is empty, of another scheme than http(s), or holds blanks or control characters.
pub fn resolve(base: &str, location: &str) -> Option<String> {
    let location = location.split('#').next().unwrap_or_default();
    if location.is_empty() || location.bytes().any(|b| b <= b' ' || b == 0x7f) {
        return None;
    }
    let (scheme, authority, rest) = split(base)?;
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
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    let path = rest.split(['?', '#']).next().unwrap_or_default();
    format!("{scheme}://{host}{path}{}", if rest.contains('?') { "?***" } else { "" })
}

fn has_scheme(text: &str) -> bool {
    let name = text.split([':', '/', '?']).next().unwrap_or_default();
    text[name.len()..].starts_with(':') && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"+-.".contains(&b))
}

/// Returns (scheme in lower case, authority, rest from the path on) of an absolute http(s) URL.
fn split(url: &str) -> Option<(String, &str, &str)> {
    let (scheme, rest) = url.split_once("://")?;
    let scheme = scheme.to_ascii_lowercase();
    if scheme != "http" && scheme != "https" {
        return None;
    }
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
            assert_eq!(origin(url).as_deref(), expected, "{url}");
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
