//! Name lookups that never hold the process up.
//!
//! getaddrinfo cannot be interrupted, so it runs on a thread of its own that nobody joins: the process may end while
//! it blocks. A lookup that outlives its limit goes on, and the next attempt waits for the same one.

use super::fault::Failure;
use crate::engine::exchange::Fault;
use std::collections::HashMap;
use std::fmt;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::{Arc, Mutex, MutexGuard};
use tokio::sync::watch;

type Addresses = Arc<[SocketAddr]>;
type Answer = Result<Addresses, Failure>;
type Resolver = dyn Fn(&str, u16) -> io::Result<Vec<SocketAddr>> + Send + Sync;

/// The names that this process has looked up. Clones share them: one lookup per host and port at a time, and a
/// result is kept until the process ends.
#[derive(Clone)]
pub struct Names(Arc<Shared>);

struct Shared {
    resolver: Box<Resolver>,
    known: Mutex<HashMap<(Box<str>, u16), Entry>>,
}

#[derive(Clone)]
enum Entry {
    Known(Addresses),
    Asked(watch::Receiver<Option<Answer>>),
}

impl Default for Names {
    fn default() -> Names {
        Names::by(system_lookup)
    }
}

impl fmt::Debug for Names {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Names")
    }
}

impl Names {
    /// Returns names that `resolver` looks up. It may block for as long as it likes.
    pub fn by(resolver: impl Fn(&str, u16) -> io::Result<Vec<SocketAddr>> + Send + Sync + 'static) -> Names {
        Names(Arc::new(Shared { resolver: Box::new(resolver), known: Mutex::default() }))
    }

    /// Keeps addresses for a host and port, in order, in place of a lookup. There must be one.
    pub fn keep(&self, host: &str, port: u16, addresses: Vec<SocketAddr>) {
        assert!(!addresses.is_empty(), "a name that is known has an address");
        // A URL's host is in lower case.
        let place = (host.to_ascii_lowercase().into(), port);
        self.lock().insert(place, Entry::Known(addresses.into()));
    }

    /// Returns the addresses of a host, which is no IP address. Dropping the future leaves the lookup running.
    pub(super) async fn find(&self, host: &str, port: u16) -> Answer {
        let mut asked = match self.entry(host, port)? {
            Entry::Known(addresses) => return Ok(addresses),
            Entry::Asked(asked) => asked,
        };
        let answered = asked.wait_for(Option::is_some).await.ok().and_then(|answer| (*answer).clone());
        answered.unwrap_or_else(|| Err(Failure::new(Fault::NameUnavailable, "the resolver ended without an answer")))
    }

    /// Returns what is known about a host, and begins to look it up where nothing is.
    fn entry(&self, host: &str, port: u16) -> Result<Entry, Failure> {
        let place = (Box::from(host), port);
        let mut known = self.lock();
        match known.get(&place) {
            Some(Entry::Asked(asked)) if asked.has_changed().is_err() => {} // Its thread is gone.
            Some(entry) => return Ok(entry.clone()),
            None => {}
        }
        let (tell, asked) = watch::channel(None);
        let names = self.clone();
        let host = host.to_owned();
        std::thread::Builder::new()
            .name("lookup".into())
            .spawn(move || names.look_up(&host, port, &tell))
            .map_err(|error| Failure::new(Fault::LocalResources, &format!("no thread for a name lookup: {error}")))?;
        known.insert(place, Entry::Asked(asked.clone()));
        Ok(Entry::Asked(asked))
    }

    fn look_up(&self, host: &str, port: u16, tell: &watch::Sender<Option<Answer>>) {
        let answer = match (self.0.resolver)(host, port) {
            Ok(addresses) if addresses.is_empty() => Err(Failure::new(Fault::NameUnknown, "the name has no address")),
            Ok(addresses) => Ok(in_order(host, addresses).into()),
            Err(error) => Err(Failure::of_lookup(&error)),
        };
        let place = (Box::from(host), port);
        match &answer {
            Ok(addresses) => self.lock().insert(place, Entry::Known(Arc::clone(addresses))),
            Err(_) => self.lock().remove(&place),
        };
        tell.send_replace(Some(answer));
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<(Box<str>, u16), Entry>> {
        self.0.known.lock().expect("no holder of this lock panics")
    }
}

fn system_lookup(host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
    Ok((host, port).to_socket_addrs()?.collect())
}

/// Returns the addresses in the resolver's order, but for `localhost` IPv4 first: an attempt dials one address, and
/// most local servers listen on 127.0.0.1 only.
fn in_order(host: &str, addresses: Vec<SocketAddr>) -> Vec<SocketAddr> {
    if !host.eq_ignore_ascii_case("localhost") {
        return addresses;
    }
    let (first, rest): (Vec<_>, Vec<_>) = addresses.into_iter().partition(SocketAddr::is_ipv4);
    [first, rest].concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc;

    fn address(text: &str) -> SocketAddr {
        text.parse().expect("an address")
    }

    #[tokio::test]
    async fn one_blocked_lookup_serves_every_attempt_and_is_kept() {
        let (release, blocked) = mpsc::channel::<()>();
        let blocked = Mutex::new(blocked);
        let calls = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&calls);
        let names = Names::by(move |_, port| {
            counted.fetch_add(1, Ordering::SeqCst);
            blocked.lock().expect("one caller").recv().expect("released");
            Ok(vec![SocketAddr::from(([192, 0, 2, 1], port))])
        });
        let limit = std::time::Duration::from_millis(5);
        assert!(tokio::time::timeout(limit, names.find("a.example", 80)).await.is_err());
        assert!(tokio::time::timeout(limit, names.find("a.example", 80)).await.is_err());
        release.send(()).expect("the resolver waits");
        assert_eq!(names.find("a.example", 80).await.expect("found")[..], [address("192.0.2.1:80")]);
        assert_eq!(names.find("a.example", 80).await.expect("kept")[..], [address("192.0.2.1:80")]);
        assert_eq!(calls.load(Ordering::SeqCst), 1);
    }

    #[tokio::test]
    async fn a_failure_is_not_kept() {
        let calls = AtomicUsize::new(0);
        let names = Names::by(move |_, port| match calls.fetch_add(1, Ordering::SeqCst) {
            0 => Err(io::Error::other("failed to lookup address information: Temporary failure in name resolution")),
            1 => Ok(Vec::new()),
            _ => Ok(vec![SocketAddr::from(([192, 0, 2, 1], port))]),
        });
        assert_eq!(names.find("a", 1).await.expect_err("EAI_AGAIN").fault, Fault::NameUnavailable);
        assert_eq!(names.find("a", 1).await.expect_err("no address").fault, Fault::NameUnknown);
        assert!(names.find("a", 1).await.is_ok());
    }

    #[tokio::test]
    async fn a_resolver_that_panics_fails_the_lookup_and_no_more() {
        let names = Names::by(|_, _| panic!("a broken resolver"));
        assert_eq!(names.find("a", 1).await.expect_err("no answer").fault, Fault::NameUnavailable);
        assert_eq!(names.find("a", 1).await.expect_err("asked again").fault, Fault::NameUnavailable);
    }

    #[test]
    fn localhost_is_tried_on_ipv4_first() {
        let both = vec![address("[::1]:80"), address("127.0.0.1:80")];
        assert_eq!(in_order("localhost", both.clone())[0], address("127.0.0.1:80"));
        assert_eq!(in_order("a.example", both)[0], address("[::1]:80"));
    }
}
