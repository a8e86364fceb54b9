//! Proxies: those that the environment names, how the HTTP client is told of one, and what its errors about one mean.

use super::fault::Failure;
use super::line::Through;
use crate::engine::exchange::Fault;
use crate::engine::proxy::{Exclusions, Misnamed, Named, Proxies, Proxy, Slot};

/// For http, the variables in the order in which they are looked at.
const FOR_HTTP: [&str; 4] = ["http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"];
/// The same for https.
const FOR_HTTPS: [&str; 4] = ["https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"];

/// Returns the proxies that the environment names, where a variable is set and not blank, and the entries of `NO_PROXY`
/// that cannot be read. `also` is reached directly, too.
///
/// `env` gives the value of a variable. Under CGI `HTTP_PROXY` does not count: a client could set it with a header.
pub fn from_environment(env: impl Fn(&str) -> Option<String>, also: &Exclusions) -> (Proxies, Vec<Box<str>>) {
    let set = |name: &str| env(name).filter(|value| !value.trim().is_empty());
    let under_cgi = env("REQUEST_METHOD").is_some();
    let slot = |names: [&'static str; 4]| -> Slot {
        let mut names = names.into_iter().filter(|name| !(under_cgi && *name == "HTTP_PROXY"));
        let (by, value) = names.find_map(|name| set(name).map(|value| (name, value)))?;
        Some(Proxy::parse(value.trim()).map(|proxy| Named { proxy, by }).map_err(|why| Misnamed { by, why }))
    };
    let excluded = set("no_proxy").or_else(|| set("NO_PROXY")).unwrap_or_default();
    let (exclusions, unread) = Exclusions::read(&excluded);
    (Proxies::of_schemes(slot(FOR_HTTP), slot(FOR_HTTPS), exclusions.and(also)), unread)
}

/// Returns a proxy as the HTTP client takes it: by its address, so that the client looks up no name but the partner's.
///
/// # Errors
/// The client takes no such proxy.
pub(super) fn of_client(through: &Through) -> Result<reqwest::Proxy, Failure> {
    let url = through.proxy.url_at(through.at);
    reqwest::Proxy::all(url.expose()).map_err(Failure::of_builder)
}

/// Returns what a fault means before a proxy has connected us. The client keeps nothing but texts of what a proxy
/// said; tests hold them against the real one.
///
/// Source: hyper-util 0.1.21 src/client/legacy/connect/proxy: tunnel.rs, socks/v5/errors.rs and messages.rs.
pub(super) fn fault(found: Fault, words: &str) -> Fault {
    const CREDENTIALS: [&str; 3] = [
        "tunnel error: proxy authorization required",
        "credentials not accepted",
        "server does not support user/pass authentication",
    ];
    const BEYOND: [&str; 4] = ["connection refused", "host unreachable", "network unreachable", "ttl expired"];
    const UNCONNECTED: &str = "failed to create underlying connection";
    const FORBIDDEN: &str = "connection not allowed";
    let says = |texts: &[&str]| texts.iter().any(|text| words.contains(text));
    match found {
        Fault::ConnectionRefused | Fault::Unreachable => Fault::ProxyUnreachable,
        Fault::Other | Fault::Closed | Fault::Reset | Fault::NotHttp => match () {
            () if says(&CREDENTIALS) => Fault::ProxyCredentials,
            () if says(&[UNCONNECTED]) => Fault::ProxyUnreachable,
            () if says(&[FORBIDDEN]) => Fault::ProxyForbids,
            () if says(&["SOCKS error: "]) && says(&BEYOND) => Fault::BeyondProxy,
            () if says(&["SOCKS error: ", "tunnel error: "]) => Fault::Proxy,
            () => found,
        },
        _ => found,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn applies(url: &str, variables: &[(&str, &str)]) -> Result<Option<&'static str>, Misnamed> {
        let value =
            |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned());
        let (also, _) = Exclusions::read("also.example");
        from_environment(value, &also).0.of(url).map(|named| named.map(|named| named.by))
    }

    #[test]
    fn a_proxy_applies_unless_the_host_is_excluded() {
        const PROXY: &str = " http://127.0.0.1:3128 ";
        let url = "http://10.1.2.3:8080/v1?q";
        let tls = "https://a.example/";
        for (url, variables, expected) in [
            (url, &[][..], None),
            (url, &[("HTTP_PROXY", PROXY)], Some("HTTP_PROXY")),
            (url, &[("HTTP_PROXY", PROXY), ("http_proxy", PROXY)], Some("http_proxy")),
            (url, &[("ALL_PROXY", PROXY)], Some("ALL_PROXY")),
            (url, &[("HTTP_PROXY", " ")], None),
            (url, &[("HTTPS_PROXY", PROXY)], None),
            (url, &[("HTTP_PROXY", PROXY), ("REQUEST_METHOD", "GET")], None),
            (url, &[("http_proxy", PROXY), ("REQUEST_METHOD", "GET")], Some("http_proxy")),
            (tls, &[("HTTP_PROXY", PROXY)], None),
            (tls, &[("HTTPS_PROXY", PROXY), ("https_proxy", PROXY)], Some("https_proxy")),
            (tls, &[("all_proxy", PROXY)], Some("all_proxy")),
            (url, &[("HTTP_PROXY", PROXY), ("NO_PROXY", "10.0.0.0/8")], None),
            (url, &[("HTTP_PROXY", PROXY), ("NO_PROXY", "localhost 10.1.2.3:8080")], None),
            (url, &[("HTTP_PROXY", PROXY), ("NO_PROXY", "*")], None),
            (url, &[("HTTP_PROXY", PROXY), ("NO_PROXY", "192.168.0.0/16, a.example")], Some("HTTP_PROXY")),
            ("http://also.example/", &[("HTTP_PROXY", PROXY)], None),
        ] {
            assert_eq!(applies(url, variables), Ok(expected), "{url} {variables:?}");
        }
        let misnamed = applies(url, &[("HTTP_PROXY", "proxy:3128")]).expect_err("no scheme");
        assert_eq!(misnamed.by, "HTTP_PROXY");
        assert_eq!(applies(tls, &[("HTTP_PROXY", "proxy:3128")]), Ok(None), "it is not for https");
    }

    #[test]
    fn entries_of_no_proxy_that_cannot_be_read_are_named() {
        let env = |name: &str| (name == "NO_PROXY").then(|| "a.example 10.0.0.0/99".to_owned());
        assert_eq!(from_environment(env, &Exclusions::default()).1, [Box::from("10.0.0.0/99")]);
    }
}
