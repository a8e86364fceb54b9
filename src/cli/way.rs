//! The way to the partner: which proxy is passed by, and which names need no lookup.

use super::exit::Failure;
use abide::engine::operation::Method;
use abide::engine::proxy::{Exclusions, Named, Proxies, Proxy};
use abide::net::Names;
use abide::net::proxy::from_environment;
use abide::profile::Profile;
use std::net::{IpAddr, SocketAddr};

/// Which proxies are passed by, and what to warn of.
#[derive(Clone, Debug, Default)]
pub struct Way {
    /// The proxies.
    pub proxies: Proxies,
    /// What to warn of.
    pub warnings: Vec<String>,
}

impl Way {
    /// Returns the way that the flag says, else the profile, else the environment.
    ///
    /// # Errors
    /// The flag names no proxy.
    pub fn read(flag: Option<&str>, profile: Option<&Profile>) -> Result<Way, Failure> {
        let rules = profile.map(|profile| profile.proxy.clone()).unwrap_or_default();
        let only = |proxies| Way { proxies, warnings: Vec::new() };
        match (flag, rules.url) {
            (Some(""), _) => Ok(Way::default()),
            (Some(text), _) => match Proxy::parse(text) {
                Ok(proxy) => Ok(only(Proxies::one(proxy, "-x", Exclusions::default()))),
                Err(why) => Err(Failure::usage(format!("the proxy given with -x {why}")).hint(why.hint())),
            },
            (None, Some(proxy)) => Ok(only(Proxies::one(proxy, "[proxy]", rules.exclusions))),
            (None, None) if rules.from_env => {
                let (proxies, unread) = from_environment(variable, &rules.exclusions);
                let warning = |entry| format!("NO_PROXY: `{entry}` is neither a host nor a network and is ignored");
                Ok(Way { proxies, warnings: unread.iter().map(warning).collect() })
            }
            (None, None) => Ok(Way::default()),
        }
    }

    /// Returns the proxy that a request to `url` passes by.
    ///
    /// # Errors
    /// The variable that should name it does not.
    pub fn to(&self, url: &str) -> Result<Option<&Named>, Failure> {
        self.proxies.of(url).map_err(|misnamed| {
            let by = misnamed.by;
            Failure::usage(format!("{misnamed}; nothing was sent")).hint(format!(
                "{}; -x '' or an entry in NO_PROXY passes by none, whatever {by} says",
                misnamed.why.hint()
            ))
        })
    }
}

/// Returns that redirects are followed.
///
/// # Errors
/// The method is neither GET nor HEAD.
pub fn may_follow(method: &Method) -> Result<bool, Failure> {
    match method.as_str() {
        "GET" | "HEAD" => Ok(true),
        _ => Err(Failure::usage(format!("-L is for GET and HEAD, not for {method}")).hint(
            "leave it out: a 307 or 308 on the same host is followed anyway, and after any other redirect nobody knows \
             what a repeated write would do",
        )),
    }
}

/// Returns a variable. What is not UTF-8 names no proxy, and is refused as such.
fn variable(name: &str) -> Option<String> {
    std::env::var_os(name).map(|value| value.to_string_lossy().into_owned())
}

/// Returns the proxy that `-x` named without its credentials; nothing where it named none, or was refused.
pub fn named(flag: &str) -> String {
    Proxy::parse(flag).map(|proxy| proxy.to_string()).unwrap_or_default()
}

/// Returns how the user named a proxy: `http://***@proxy.example:3128 (HTTPS_PROXY)`.
pub fn words(named: &Named) -> String {
    format!("{} ({})", named.proxy, named.by)
}

/// Returns names of which those that `--resolve` gives are known.
///
/// # Errors
/// One is not `HOST:PORT:ADDR[,ADDR]`.
pub fn names(given: &[String]) -> Result<Names, Failure> {
    let names = Names::default();
    for text in given {
        let (host, port, addresses) = resolved(text)?;
        names.keep(host, port, addresses);
    }
    Ok(names)
}

/// A host, a port, and the addresses that stand for them.
type Resolved<'t> = (&'t str, u16, Vec<SocketAddr>);

fn resolved(text: &str) -> Result<Resolved<'_>, Failure> {
    let refuse = |why: &str| {
        Failure::usage(format!("--resolve {text}: {why}"))
            .hint("write --resolve api.example:443:192.0.2.7, more addresses after a comma, IPv6 as [2001:db8::7]")
    };
    if text.starts_with('[') || text.split(':').next().is_some_and(|host| host.parse::<IpAddr>().is_ok()) {
        return Err(refuse("the host is an address already"));
    }
    let mut parts = text.splitn(3, ':');
    let (Some(host), Some(port), Some(list)) = (parts.next(), parts.next(), parts.next()) else {
        return Err(refuse("host, port and address are wanted, with a colon between"));
    };
    if host.is_empty() || !host.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._".contains(&b)) {
        return Err(refuse("the host is no name"));
    }
    let port =
        port.parse().ok().filter(|port| *port != 0).ok_or_else(|| refuse("the port is no number from 1 to 65535"))?;
    let address = |text: &str| {
        let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']'));
        let ip = match bare {
            Some(inside) => inside.parse::<std::net::Ipv6Addr>().map(IpAddr::V6).ok(),
            None => text.parse::<std::net::Ipv4Addr>().map(IpAddr::V4).ok(),
        };
        ip.map(|ip| SocketAddr::new(ip, port)).ok_or_else(|| refuse(&format!("`{text}` is no address")))
    };
    let addresses = list.split(',').map(address).collect::<Result<_, _>>()?;
    Ok((host, port, addresses))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_given_for_a_host_and_port() {
        let (host, port, addresses) = resolved("Api.example:443:192.0.2.7,[2001:db8::7]").expect("is read");
        let addresses: Vec<String> = addresses.iter().map(ToString::to_string).collect();
        assert_eq!((host, port, addresses.join(" ").as_str()), ("Api.example", 443, "192.0.2.7:443 [2001:db8::7]:443"));
    }

    #[test]
    fn what_gives_no_addresses_is_refused_with_the_text() {
        for (text, why) in [
            ("api.example", "host, port and address"),
            ("api.example:443", "host, port and address"),
            ("api.example:x:192.0.2.7", "the port"),
            ("api.example:0:192.0.2.7", "the port"),
            (":443:192.0.2.7", "the host is no name"),
            ("*:443:192.0.2.7", "the host is no name"),
            ("api.example:443:", "`` is no address"),
            ("api.example:443:b.example", "`b.example` is no address"),
            ("api.example:443:2001:db8::7", "`2001:db8::7` is no address"),
            ("192.0.2.1:443:192.0.2.7", "an address already"),
            ("[::1]:443:192.0.2.7", "an address already"),
        ] {
            let failure = resolved(text).expect_err("is refused");
            let said = failure.error.to_string();
            assert!(said.starts_with(&format!("--resolve {text}: ")) && said.contains(why), "{said}");
        }
    }
}
