//! One form for all ways to write the same URL.

/// Returns the canonical form of an absolute URL.
///
/// Scheme and host are lower case, the default port, userinfo and fragment are gone, dot segments are resolved, and
/// percent-encoding is used exactly where it must be. The query keeps its order: sorting would merge distinct requests.
/// Parameters named in `left_out` (decoded, in any case) are dropped. A text without a scheme is returned as it is.
///
/// Source: RFC 3986 section 6.2; reference semantics 5.4.
pub(super) fn canonical(url: &str, left_out: &[Box<str>]) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return url.to_owned() };
    let rest = rest.split('#').next().unwrap_or(rest);
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let scheme = scheme.to_ascii_lowercase();
    let mut form = format!("{scheme}://{}{}", canonical_authority(&scheme, authority), canonical_path(path));
    let kept: Vec<&str> = query.split('&').filter(|pair| !is_left_out(pair, left_out)).collect();
    let query = normalised(&kept.join("&"));
    if !query.is_empty() {
        form.push('?');
        form += &query;
    }
    form
}

fn canonical_authority(scheme: &str, authority: &str) -> String {
    let host_and_port = authority.rsplit('@').next().unwrap_or(authority);
    let (host, port) = match host_and_port.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|b| b.is_ascii_digit()) => (host, port.trim_start_matches('0')),
        // The last colon belongs to an IPv6 address.
        _ => (host_and_port, ""),
    };
    let host = host.to_ascii_lowercase();
    match (scheme, port) {
        (_, "") | ("http", "80") | ("https", "443") => host,
        _ => format!("{host}:{port}"),
    }
}

/// Resolves dot segments, encoded ones too, as every client does before it sends.
fn canonical_path(path: &str) -> String {
    let path = normalised(path);
    let mut kept: Vec<&str> = Vec::new();
    let mut segments = path.split('/').skip(1).peekable();
    while let Some(segment) = segments.next() {
        match segment {
            "." => {}
            ".." => drop(kept.pop()),
            segment => {
                kept.push(segment);
                continue;
            }
        }
        if segments.peek().is_none() {
            kept.push("");
        }
    }
    format!("/{}", kept.join("/"))
}

fn is_left_out(pair: &str, left_out: &[Box<str>]) -> bool {
    let name = decoded(pair.split('=').next().unwrap_or(pair));
    left_out.iter().any(|listed| name.eq_ignore_ascii_case(listed.as_bytes()))
}

fn is_unreserved(b: u8) -> bool {
    b.is_ascii_alphanumeric() || b"-._~".contains(&b)
}

/// Decodes unreserved characters, encodes what no URL may hold, and writes encodings in upper case.
fn normalised(text: &str) -> String {
    const RESERVED: &[u8] = b":/?#[]@!$&'()*+,;=";
    let mut form = String::with_capacity(text.len());
    for (byte, encoded) in characters(text) {
        let as_it_is = is_unreserved(byte) || !encoded && (byte == b'%' || RESERVED.contains(&byte));
        match as_it_is {
            true => form.push(char::from(byte)),
            false => form += &format!("%{byte:02X}"),
        }
    }
    form
}

/// Returns the bytes of a query name: encodings decoded, plus signs as blanks.
fn decoded(text: &str) -> Vec<u8> {
    characters(text).map(|(byte, encoded)| if byte == b'+' && !encoded { b' ' } else { byte }).collect()
}

/// Returns each byte of `text` with whether it was percent-encoded there. A stray `%` is itself.
fn characters(text: &str) -> impl Iterator<Item = (u8, bool)> {
    let mut rest = text.as_bytes();
    std::iter::from_fn(move || {
        let (&first, behind) = rest.split_first()?;
        let digit = |at: usize| behind.get(at).and_then(|b| char::from(*b).to_digit(16));
        match (first, digit(0), digit(1)) {
            (b'%', Some(high), Some(low)) => {
                rest = &behind[2..];
                Some(((high * 16 + low) as u8, true))
            }
            _ => {
                rest = behind;
                Some((first, false))
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn ways_to_write_one_url_have_one_form() {
        let cases = [
            ("HTTP://Api.Example/orders", "http://api.example/orders"),
            ("http://api.example:80/orders", "http://api.example/orders"),
            ("https://api.example:443/orders", "https://api.example/orders"),
            ("https://api.example:0443", "https://api.example/"),
            ("http://api.example:443/", "http://api.example:443/"),
            ("http://api.example:/x", "http://api.example/x"),
            ("http://[::1]/x", "http://[::1]/x"),
            ("http://[2001:DB8::1]:80/x", "http://[2001:db8::1]/x"),
            ("http://[::1]:8080/x", "http://[::1]:8080/x"),
            ("http://api.example", "http://api.example/"),
            ("http://api.example?a=1", "http://api.example/?a=1"),
            ("http://api.example/?", "http://api.example/"),
            ("http://user:p@ss@api.example/x#part?y", "http://api.example/x"),
            ("http://api.example/x?a=/b@c:1/../d", "http://api.example/x?a=/b@c:1/../d"),
            ("http://api.example/a/./b/../c/", "http://api.example/a/c/"),
            ("http://api.example/a/b/..", "http://api.example/a/"),
            ("http://api.example/a/.", "http://api.example/a/"),
            ("http://api.example/../..", "http://api.example/"),
            ("http://api.example/a/%2e%2E/b", "http://api.example/b"),
            ("http://api.example/a//b", "http://api.example/a//b"),
            ("http://api.example/%7euser/%41%2f", "http://api.example/~user/A%2F"),
            ("http://api.example/café?q=é b", "http://api.example/caf%C3%A9?q=%C3%A9%20b"),
            ("http://api.example/100%/%zz%2", "http://api.example/100%/%zz%2"),
            ("http://api.example/?a=%3D%26&b=%2b+", "http://api.example/?a=%3D%26&b=%2B+"),
            ("orders/1", "orders/1"),
        ];
        for (url, expected) in cases {
            assert_eq!(canonical(url, &[]), expected, "{url}");
        }
    }

    #[test]
    fn different_requests_keep_different_forms() {
        let cases = [
            ("http://h/?a=1&a=2", "http://h/?a=2&a=1"),
            ("http://h/?a=1&b=2", "http://h/?b=2&a=1"),
            ("http://h/?a=1&b=2", "http://h/?a=1%26b=2"),
            ("http://h/a%2Fb", "http://h/a/b"),
            ("http://h/a", "http://h/A"),
            ("http://h/a", "http://h/a/"),
            ("http://h/?q=a+b", "http://h/?q=a%2Bb"),
            ("http://h:81/", "http://h/"),
            ("https://h/", "http://h/"),
        ];
        for (one, other) in cases {
            assert_ne!(canonical(one, &[]), canonical(other, &[]), "{one} {other}");
        }
    }

    #[test]
    fn listed_parameters_are_left_out_however_they_are_written() {
        let left_out = ["api_key".into(), "access token".into()];
        let cases = [
            ("http://h/?api_key=1", "http://h/"),
            ("http://h/?a=1&API_KEY=s&b=2", "http://h/?a=1&b=2"),
            ("http://h/?api%5Fkey=s&b", "http://h/?b"),
            ("http://h/?api_key&b=2&api_key=3", "http://h/?b=2"),
            ("http://h/?access+token=s&access%20token=s&b=2", "http://h/?b=2"),
            ("http://h/?access%2Btoken=s", "http://h/?access%2Btoken=s"),
            ("http://h/?x=api_key&my_api_key=1", "http://h/?x=api_key&my_api_key=1"),
        ];
        for (url, expected) in cases {
            assert_eq!(canonical(url, &left_out), expected, "{url}");
        }
    }

    proptest! {
        #[test]
        fn the_form_of_a_form_is_itself(rest in "[a-zA-Z0-9%/.?&=:@#é~+ -]{0,40}") {
            let once = canonical(&format!("http://h/{rest}"), &[]);
            prop_assert_eq!(canonical(&once, &[]), once);
        }

        #[test]
        fn encoding_an_unreserved_character_changes_nothing(before in "[a-z/]{0,8}", c in "[a-zA-Z0-9._~-]", after in "[a-z/]{0,8}") {
            let byte = c.as_bytes()[0];
            for encoded in [format!("%{byte:02x}"), format!("%{byte:02X}")] {
                prop_assert_eq!(
                    canonical(&format!("http://h/{before}{encoded}{after}?{encoded}"), &[]),
                    canonical(&format!("http://h/{before}{c}{after}?{c}"), &[])
                );
            }
        }

        #[test]
        fn no_text_panics(url in "\\PC{0,40}", listed in "\\PC{0,8}") {
            canonical(&url, &[listed.into()]);
        }
    }
}
