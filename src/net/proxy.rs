//! Proxies that the environment names.

use hyper::Uri;
use hyper_util::client::proxy::matcher::Matcher;

/// For http, the variables in the order in which they are looked at.
const FOR_HTTP: [&str; 4] = ["http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"];

/// Returns the variable that names a proxy for an http URL, where one applies: set, not empty, and the host not
/// excluded by `NO_PROXY` (networks such as `10.0.0.0/8` and blanks between entries count).
///
/// `env` gives the value of a variable. Under CGI `HTTP_PROXY` does not count: a client could set it with a header.
pub fn from_environment(url: &str, env: impl Fn(&str) -> Option<String>) -> Option<&'static str> {
    let set = |name: &str| env(name).filter(|value| !value.trim().is_empty());
    let under_cgi = env("REQUEST_METHOD").is_some();
    let mut named = FOR_HTTP.into_iter().filter(|name| !(under_cgi && *name == "HTTP_PROXY"));
    let (name, proxy) = named.find_map(|name| set(name).map(|value| (name, value)))?;
    let excluded = set("no_proxy").or_else(|| set("NO_PROXY")).unwrap_or_default();
    // For the matcher `*` stands for names only; for everybody else it stands for all hosts.
    if excluded.split(',').any(|entry| entry.trim() == "*") {
        return None;
    }
    let matcher = Matcher::builder().http(proxy).no(excluded).build();
    let uri: Uri = url.parse().ok()?;
    matcher.intercept(&uri).map(|_| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn applies(url: &str, variables: &[(&str, &str)]) -> Option<&'static str> {
        let value =
            |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned());
        from_environment(url, value)
    }

    #[test]
    fn a_proxy_applies_unless_the_host_is_excluded() {
        const PROXY: &str = "http://127.0.0.1:3128";
        let url = "http://10.1.2.3:8080/v1?q";
        assert_eq!(applies(url, &[]), None);
        assert_eq!(applies(url, &[("HTTP_PROXY", PROXY)]), Some("HTTP_PROXY"));
        assert_eq!(applies(url, &[("HTTP_PROXY", PROXY), ("http_proxy", PROXY)]), Some("http_proxy"));
        assert_eq!(applies(url, &[("ALL_PROXY", PROXY)]), Some("ALL_PROXY"));
        assert_eq!(applies(url, &[("HTTP_PROXY", " ")]), None);
        assert_eq!(applies(url, &[("HTTPS_PROXY", PROXY)]), None);
        assert_eq!(applies(url, &[("HTTP_PROXY", PROXY), ("REQUEST_METHOD", "GET")]), None);
        for list in ["10.0.0.0/8", "localhost, 10.1.2.3", "*"] {
            assert_eq!(applies(url, &[("HTTP_PROXY", PROXY), ("NO_PROXY", list)]), None, "{list}");
        }
        assert_eq!(
            applies(url, &[("HTTP_PROXY", PROXY), ("NO_PROXY", "192.168.0.0/16, a.example")]),
            Some("HTTP_PROXY")
        );
        assert_eq!(applies("http://api.a.example/", &[("HTTP_PROXY", PROXY), ("NO_PROXY", "a.example")]), None);
    }
}
