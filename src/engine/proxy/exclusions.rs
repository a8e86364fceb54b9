//! The hosts that are reached without a proxy: `NO_PROXY`, and `no_proxy` of a profile.

use std::net::IpAddr;

/// A list of hosts that are reached directly.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Exclusions(Vec<Entry>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Entry {
    /// As it was written.
    text: Box<str>,
    what: What,
    /// `None`: any.
    port: Option<u16>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum What {
    Everything,
    /// A name in lower case, and every name below it.
    Domain(Box<str>),
    /// The addresses that share so many first bits with this one.
    Network(IpAddr, u32),
}

impl Exclusions {
    /// Reads entries between commas or blanks, and returns those that cannot be read as well.
    ///
    /// An entry is `*` for every host, a name that stands for the names below it too (with or without a dot or `*.`
    /// before it), an address, or a network such as `10.0.0.0/8`. A name or an address (IPv6 in brackets) may have a
    /// port; then only that port is meant.
    pub fn read(text: &str) -> (Exclusions, Vec<Box<str>>) {
        let mut unread = Vec::new();
        let words = text.split(|c: char| c == ',' || c.is_whitespace()).filter(|word| !word.is_empty());
        let entries = words.filter_map(|word| {
            let entry = entry(word);
            if entry.is_none() {
                unread.push(word.into());
            }
            entry
        });
        let entries = entries.collect();
        (Exclusions(entries), unread)
    }

    /// Returns these and the other's.
    #[must_use]
    pub fn and(mut self, other: &Exclusions) -> Exclusions {
        self.0.extend(other.0.iter().cloned());
        self
    }

    /// Returns whether a host and port is among them. An IPv6 address may have brackets.
    pub fn cover(&self, host: &str, port: u16) -> bool {
        self.covering(host, port).is_some()
    }

    /// Returns the first entry that a host and port is covered by, as it was written.
    pub fn covering(&self, host: &str, port: u16) -> Option<&str> {
        let host = host.trim_start_matches('[').trim_end_matches(']').trim_end_matches('.').to_ascii_lowercase();
        let address = host.parse::<IpAddr>().ok().map(|address| address.to_canonical());
        let is_meant = |entry: &&Entry| match (&entry.what, address) {
            (What::Everything, _) => true,
            (What::Network(network, bits), Some(address)) => share(*network, address, *bits),
            (What::Domain(name), None) => {
                host.strip_suffix(&**name).is_some_and(|before| before.is_empty() || before.ends_with('.'))
            }
            (What::Network(..), None) | (What::Domain(_), Some(_)) => false,
        };
        let mut of_port = self.0.iter().filter(|entry| entry.port.is_none_or(|own| own == port));
        of_port.find(is_meant).map(|entry| &*entry.text)
    }
}

fn entry(word: &str) -> Option<Entry> {
    let of = |what, port| Some(Entry { text: word.into(), what, port });
    if word == "*" {
        return of(What::Everything, None);
    }
    if let Some((address, bits)) = word.split_once('/') {
        let address: IpAddr = address.parse().ok()?;
        let bits = bits.parse().ok().filter(|bits| *bits <= width(address))?;
        return of(What::Network(address, bits), None);
    }
    if let Ok(address) = word.parse::<IpAddr>() {
        return of(alone(address), None);
    }
    let (host, port) = match word.rsplit_once(':') {
        Some((host, port)) if !word.ends_with(']') => (host, Some(port.parse().ok()?)),
        _ => (word, None),
    };
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    let what = match bare.parse::<IpAddr>() {
        Ok(address) => alone(address),
        Err(_) => What::Domain(domain(host)?),
    };
    of(what, port)
}

fn alone(address: IpAddr) -> What {
    let address = address.to_canonical();
    What::Network(address, width(address))
}

fn domain(text: &str) -> Option<Box<str>> {
    let name = text.strip_prefix('*').filter(|rest| rest.starts_with('.')).unwrap_or(text);
    let name = name.trim_start_matches('.').trim_end_matches('.').to_ascii_lowercase();
    let is_name = !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._".contains(&b));
    is_name.then(|| name.into())
}

fn width(address: IpAddr) -> u32 {
    if address.is_ipv4() { 32 } else { 128 }
}

/// Returns whether two addresses of one family agree in their first bits.
fn share(one: IpAddr, other: IpAddr, bits: u32) -> bool {
    let differ = match (one, other) {
        (IpAddr::V4(one), IpAddr::V4(other)) => u128::from(one.to_bits() ^ other.to_bits()) << 96,
        (IpAddr::V6(one), IpAddr::V6(other)) => one.to_bits() ^ other.to_bits(),
        _ => return false,
    };
    differ.leading_zeros() >= bits
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_excluded_by_name_network_and_port() {
        let covers = |list: &str, host: &str, port| {
            let (exclusions, unread) = Exclusions::read(list);
            assert!(unread.is_empty(), "{unread:?}");
            exclusions.cover(host, port)
        };
        for (list, host, port, expected) in [
            ("", "a.example", 80, false),
            ("*", "a.example", 80, true),
            ("*", "::1", 80, true),
            ("a.example", "A.Example", 80, true),
            ("a.example", "a.example.", 80, true),
            ("a.example", "api.a.example", 80, true),
            (".a.example", "a.example", 80, true),
            ("*.a.example", "api.a.example", 80, true),
            ("a.example", "ba.example", 80, false),
            ("a.example:8080", "a.example", 8080, true),
            ("a.example:8080", "a.example", 80, false),
            ("localhost, 10.1.2.3", "10.1.2.3", 80, true),
            ("10.1.2.3:81", "10.1.2.3", 80, false),
            ("10.1.2.3:81", "10.1.2.3", 81, true),
            ("10.0.0.0/8", "10.255.0.1", 80, true),
            ("10.0.0.0/8", "11.0.0.1", 80, false),
            ("10.0.0.0/8", "10.example", 80, false),
            ("0.0.0.0/0", "203.0.113.1", 80, true),
            ("0.0.0.0/0", "[::1]", 80, false),
            ("b c\td,,e", "c", 80, true),
            ("::1", "[::1]", 80, true),
            ("[::1]", "[::1]", 80, true),
            ("[::1]:8080", "[::1]", 80, false),
            ("[::1]:8080", "[::1]", 8080, true),
            ("fe80::/10", "[fe90::1]", 80, true),
            ("fe80::/10", "[fec0::1]", 80, false),
            ("127.0.0.1", "[::ffff:127.0.0.1]", 80, true),
        ] {
            assert_eq!(covers(list, host, port), expected, "{list:?} {host}:{port}");
        }
    }

    #[test]
    fn entries_that_cannot_be_read_are_named_and_the_others_count() {
        let (exclusions, unread) = Exclusions::read("10.0.0.0/33 a.example, http://b.example x:y ü . [z]");
        assert_eq!(unread, ["10.0.0.0/33", "http://b.example", "x:y", "ü", ".", "[z]"].map(Box::from));
        assert!(exclusions.cover("a.example", 80));
    }
}
