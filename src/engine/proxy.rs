//! Proxies: what names one, and which requests pass by it. Nothing here connects to one.

mod exclusions;

pub use exclusions::Exclusions;

use super::location;
use super::secret::{Mask, Secret, percent_encoded};
use std::fmt;
use std::net::{IpAddr, SocketAddr};

/// How a proxy is spoken to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// HTTP: whole URLs for http, CONNECT for https. The proxy looks the partner's name up.
    Http,
    /// SOCKS5 with an address: the partner's name is looked up here.
    Socks5,
    /// SOCKS5 with a name: the proxy looks it up.
    Socks5h,
}

impl Scheme {
    /// Every scheme with its name in a URL.
    const NAMES: [(&'static str, Scheme); 3] =
        [("http", Scheme::Http), ("socks5", Scheme::Socks5), ("socks5h", Scheme::Socks5h)];

    /// Returns the name used in a URL.
    pub fn name(self) -> &'static str {
        Scheme::NAMES.iter().find(|(_, scheme)| *scheme == self).expect("every scheme has a name").0
    }
}

/// A proxy. It prints without its credentials.
#[derive(Clone, PartialEq, Eq)]
pub struct Proxy {
    /// How it is spoken to.
    pub scheme: Scheme,
    /// Its name or address; an IPv6 address has its brackets.
    pub host: Box<str>,
    /// Its port, never 0.
    pub port: u16,
    /// User and password, decoded.
    pub credentials: Option<(Secret, Secret)>,
}

impl Proxy {
    /// Reads `scheme://[user[:password]@]host:port`. The port must be there: tools disagree about which is meant.
    ///
    /// # Errors
    /// Why it is no such URL; the text is never part of it.
    pub fn parse(text: &str) -> Result<Proxy, NotAProxy> {
        if text.chars().any(|c| c.is_whitespace() || c.is_control()) {
            return Err(NotAProxy::Blank);
        }
        let (scheme, rest) = text.split_once("://").ok_or(NotAProxy::NoScheme)?;
        let named = |(name, _): &&(&str, Scheme)| name.eq_ignore_ascii_case(scheme);
        let scheme = Scheme::NAMES.iter().find(named).ok_or(NotAProxy::Scheme)?.1;
        let (userinfo, place) = match rest.rsplit_once('@') {
            Some((userinfo, place)) => (Some(userinfo), place),
            None => (None, rest),
        };
        let place = place.strip_suffix('/').unwrap_or(place);
        if place.contains(['/', '?', '#']) {
            return Err(NotAProxy::Path);
        }
        let (host, port) = host_and_port(place)?;
        let credentials = userinfo.map(credentials).transpose()?;
        Ok(Proxy { scheme, host: host.to_ascii_lowercase().into(), port, credentials })
    }

    /// Returns `host:port`: how the proxy is named in the ledger and on the screen.
    pub fn name(&self) -> String {
        format!("{}:{}", self.host, self.port)
    }

    /// Hides its credentials wherever they turn up. A user without a password is a token.
    pub fn hide(&self, mask: &mut Mask) {
        if let Some((user, password)) = &self.credentials {
            let secret = if password.expose().is_empty() { user } else { password };
            mask.add(secret.expose());
            mask.add(&format!("{}:{}", user.expose(), password.expose()));
        }
    }

    /// Returns its address, where it is named by one.
    pub fn address(&self) -> Option<SocketAddr> {
        let ip: IpAddr = self.host.trim_start_matches('[').trim_end_matches(']').parse().ok()?;
        Some(SocketAddr::new(ip, self.port))
    }

    /// Returns its URL with the credentials and `at` in place of the name, for the wire only.
    pub fn url_at(&self, at: SocketAddr) -> Secret {
        let credentials = self.credentials.as_ref().map(|(user, password)| {
            format!("{}:{}@", percent_encoded(user.expose()), percent_encoded(password.expose()))
        });
        Secret::new(&format!("{}://{}{at}", self.scheme.name(), credentials.unwrap_or_default()))
    }
}

impl fmt::Display for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let credentials = if self.credentials.is_some() { "***@" } else { "" };
        write!(f, "{}://{credentials}{}:{}", self.scheme.name(), self.host, self.port)
    }
}

impl fmt::Debug for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Why a text names no proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotAProxy {
    /// It has no `scheme://`.
    NoScheme,
    /// It is of a kind that is not spoken.
    Scheme,
    /// It names no host, or one with characters that no host name has.
    Host,
    /// It names no port.
    NoPort,
    /// Its port is no number from 1 to 65535.
    Port,
    /// It has a path, a query or a fragment.
    Path,
    /// It holds a blank or a control character.
    Blank,
    /// User or password cannot be decoded, or have more than 255 bytes.
    Credentials,
}

impl NotAProxy {
    /// Returns what to do about it.
    pub const fn hint(self) -> &'static str {
        match self {
            NotAProxy::NoScheme | NotAProxy::Host | NotAProxy::NoPort | NotAProxy::Port => {
                "write http://HOST:PORT, socks5://HOST:PORT or socks5h://HOST:PORT"
            }
            NotAProxy::Scheme => {
                "a proxy is http://, socks5:// (names are looked up here) or socks5h:// (by the proxy)"
            }
            NotAProxy::Path | NotAProxy::Blank | NotAProxy::Credentials => {
                "in user and password write %2F for a slash, %40 for an @, %20 for a blank"
            }
        }
    }
}

impl fmt::Display for NotAProxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            NotAProxy::NoScheme => "has no scheme such as http://",
            NotAProxy::Scheme => "is no kind of proxy that is spoken here",
            NotAProxy::Host => "names no host",
            NotAProxy::NoPort => "names no port",
            NotAProxy::Port => "has a port that is no number from 1 to 65535",
            NotAProxy::Path => "has something behind the port",
            NotAProxy::Blank => "has a blank or a control character",
            NotAProxy::Credentials => "has a user or password that cannot be used",
        })
    }
}

/// Splits `host:port`; an IPv6 address has brackets.
fn host_and_port(place: &str) -> Result<(&str, u16), NotAProxy> {
    let host_end = match place.starts_with('[') {
        true => place.find(']').map(|at| at + 1).ok_or(NotAProxy::Host)?,
        false => place.find(':').unwrap_or(place.len()),
    };
    let (host, port) = place.split_at(host_end);
    let is_host = match host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
        Some(inside) => inside.parse::<std::net::Ipv6Addr>().is_ok(),
        None => !host.is_empty() && host.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._".contains(&b)),
    };
    if !is_host {
        return Err(NotAProxy::Host);
    }
    let digits = port.strip_prefix(':').filter(|digits| !digits.is_empty()).ok_or(NotAProxy::NoPort)?;
    let is_number = digits.bytes().all(|b| b.is_ascii_digit());
    let port = digits.parse().ok().filter(|port| is_number && *port != 0).ok_or(NotAProxy::Port)?;
    Ok((host, port))
}

/// Longer ones do not fit a SOCKS message, in bytes.
///
/// Source: RFC 1929 section 2.
const CREDENTIAL_MAX: usize = 255;

fn credentials(userinfo: &str) -> Result<(Secret, Secret), NotAProxy> {
    let (user, password) = userinfo.split_once(':').unwrap_or((userinfo, ""));
    let read = |text| decoded(text).filter(|text| text.len() <= CREDENTIAL_MAX).ok_or(NotAProxy::Credentials);
    Ok((Secret::new(&read(user)?), Secret::new(&read(password)?)))
}

/// Decodes `%XX`; `None` where a `%` stands alone or the result is no text without control characters.
fn decoded(text: &str) -> Option<String> {
    let mut parts = text.split('%');
    let mut bytes = parts.next().unwrap_or_default().as_bytes().to_vec();
    for part in parts {
        let code = part.get(..2).filter(|code| code.bytes().all(|b| b.is_ascii_hexdigit()))?;
        bytes.push(u8::from_str_radix(code, 16).ok()?);
        bytes.extend_from_slice(&part.as_bytes()[2..]);
    }
    String::from_utf8(bytes).ok().filter(|text| !text.chars().any(char::is_control))
}

/// Which proxy a request passes by.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Proxies {
    http: Slot,
    https: Slot,
    exclusions: Exclusions,
}

/// What was named for a scheme, if anything.
pub type Slot = Option<Result<Named, Misnamed>>;

/// A variable or setting that is to name a proxy and does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Misnamed {
    /// The variable.
    pub by: &'static str,
    /// What is wrong with it.
    pub why: NotAProxy,
}

impl fmt::Display for Misnamed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the proxy in {} {}", self.by, self.why)
    }
}

/// A proxy, and who named it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    /// The proxy.
    pub proxy: Proxy,
    /// The flag, the section of the profile or the variable.
    pub by: &'static str,
}

impl Proxies {
    /// Returns the rule that everything passes by one proxy but for the exclusions.
    pub fn one(proxy: Proxy, by: &'static str, exclusions: Exclusions) -> Proxies {
        let named = Some(Ok(Named { proxy, by }));
        Proxies { http: named.clone(), https: named, exclusions }
    }

    /// Returns the rule that each scheme has a proxy of its own, or none.
    pub fn of_schemes(http: Slot, https: Slot, exclusions: Exclusions) -> Proxies {
        Proxies { http, https, exclusions }
    }

    /// Returns the proxy that a request to `url` would pass by, and the exclusion that spares it that, as it was
    /// written; `None` where nothing does.
    pub fn spared(&self, url: &str) -> Option<(&Named, &str)> {
        let origin = location::origin(url)?;
        let slot = if origin.scheme == location::Scheme::Https { &self.https } else { &self.http };
        let named = slot.as_ref()?.as_ref().ok()?;
        Some((named, self.exclusions.covering(origin.host, origin.port.parse().ok()?)?))
    }

    /// Returns the proxy that a request to `url` passes by; `None` where it goes directly.
    ///
    /// # Errors
    /// What should name the proxy for this URL does not.
    pub fn of(&self, url: &str) -> Result<Option<&Named>, Misnamed> {
        if self.http.is_none() && self.https.is_none() {
            return Ok(None);
        }
        let Some(origin) = location::origin(url) else { return Ok(None) };
        let slot = if origin.scheme == location::Scheme::Https { &self.https } else { &self.http };
        let host = origin.host.to_ascii_lowercase();
        let excluded = origin.port.parse().is_ok_and(|port| self.exclusions.cover(&host, port));
        match slot.as_ref().filter(|_| !excluded) {
            None => Ok(None),
            Some(Ok(named)) => Ok(Some(named)),
            Some(Err(misnamed)) => Err(*misnamed),
        }
    }

    /// Hides every credential wherever it turns up.
    pub fn hide(&self, mask: &mut Mask) {
        [&self.http, &self.https].into_iter().flatten().flatten().for_each(|named| named.proxy.hide(mask));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proxy_is_read_and_printed_without_its_credentials() {
        let proxy = Proxy::parse("SOCKS5H://bob:p%40s%2Fs@Proxy.Example:1080/").expect("a proxy");
        assert_eq!((proxy.scheme, &*proxy.host, proxy.port), (Scheme::Socks5h, "proxy.example", 1080));
        let (user, password) = proxy.credentials.clone().expect("credentials");
        assert_eq!((user.expose(), password.expose()), ("bob", "p@s/s"));
        assert_eq!(
            (proxy.to_string(), format!("{proxy:?}")),
            ("socks5h://***@proxy.example:1080".into(), proxy.to_string())
        );
        assert_eq!(proxy.name(), "proxy.example:1080");
        let mut mask = Mask::default();
        proxy.hide(&mut mask);
        assert_eq!(mask.hide("p@s/s p%40s%2Fs"), "*** ***");
        Proxy::parse("http://t0ken@proxy.example:1").expect("a proxy").hide(&mut mask);
        assert_eq!(mask.hide("t0ken"), "***");
        let plain = Proxy::parse("http://[::1]:3128").expect("a proxy");
        assert_eq!((plain.name(), plain.credentials.is_none()), ("[::1]:3128".into(), true));
        assert_eq!(plain.address(), Some("[::1]:3128".parse().expect("an address")));
        let at = "10.0.0.1:1080".parse().expect("an address");
        assert_eq!(proxy.url_at(at).expose(), "socks5h://bob:p%40s%2Fs@10.0.0.1:1080");
    }

    #[test]
    fn what_names_no_proxy_is_refused_without_quoting_it() {
        for (text, why) in [
            ("proxy.example:3128", NotAProxy::NoScheme),
            ("", NotAProxy::NoScheme),
            ("https://proxy.example:443", NotAProxy::Scheme),
            ("socks4://proxy.example:1080", NotAProxy::Scheme),
            ("http://:3128", NotAProxy::Host),
            ("http://", NotAProxy::Host),
            ("http://[::1:3128", NotAProxy::Host),
            ("http://a,b:3128", NotAProxy::Host),
            ("http://proxy.example", NotAProxy::NoPort),
            ("http://proxy.example:", NotAProxy::NoPort),
            ("http://proxy.example:0", NotAProxy::Port),
            ("http://proxy.example:+1", NotAProxy::Port),
            ("http://proxy.example:70000", NotAProxy::Port),
            ("http://proxy.example:1/x", NotAProxy::Path),
            ("http://proxy.example: 1", NotAProxy::Blank),
            ("http://a:%zz@proxy.example:1", NotAProxy::Credentials),
            ("http://a:%00@proxy.example:1", NotAProxy::Credentials),
        ] {
            assert_eq!(Proxy::parse(text), Err(why), "{text}");
        }
    }

    #[test]
    fn each_scheme_has_its_proxy_unless_the_host_is_excluded() {
        let named = |text: &str, by| {
            Some(Proxy::parse(text).map(|proxy| Named { proxy, by }).map_err(|why| Misnamed { by, why }))
        };
        let (exclusions, _) = Exclusions::read("b.example:8443");
        let proxies =
            Proxies::of_schemes(named("http://p:1", "http_proxy"), named("http://q:2", "https_proxy"), exclusions);
        let by = |url: &str| proxies.of(url).expect("named").map(|named| named.by);
        assert_eq!(by("http://a.example/x"), Some("http_proxy"));
        assert_eq!(by("https://b.example/x"), Some("https_proxy"));
        assert_eq!(by("https://b.example:8443/x"), None);
        assert_eq!(by("/x"), None);
        assert_eq!(Proxies::default().of("http://a.example/"), Ok(None));
        let (exclusions, _) = Exclusions::read("b.example");
        let broken = Proxies::of_schemes(named("p:1", "http_proxy"), None, exclusions);
        let misnamed = broken.of("http://a.example/").expect_err("no scheme");
        assert_eq!(misnamed.to_string(), "the proxy in http_proxy has no scheme such as http://");
        assert_eq!((broken.of("http://b.example/"), broken.of("https://a.example/")), (Ok(None), Ok(None)));
    }
}
