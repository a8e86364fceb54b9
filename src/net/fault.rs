//! Faults: the errors of the libraries below, classified once.

mod tls;

use super::marks::Progress;
use super::proxy;
use crate::engine::exchange::{Fault, Limit, Stage};
use crate::engine::gateway::is_deceptive;
use crate::engine::secret::Mask;
use nix::errno::Errno;
use std::error::Error;
use std::io;

/// More of an error's words is not kept, in characters.
const WORDS_MAX: usize = 400;

/// A fault with the words of the library that reported it.
#[derive(Clone, Debug)]
pub(super) struct Failure {
    /// What went wrong.
    pub fault: Fault,
    /// The library's words, unmasked. They hold no URL.
    pub words: Box<str>,
}

impl Failure {
    /// Returns the failure that an error of the HTTP client means where no answer came.
    pub fn of_exchange(error: reqwest::Error, progress: &Progress) -> Failure {
        let builder = error.is_builder();
        let error = error.without_url();
        if builder {
            return Failure { fault: Fault::Unbuildable, words: words(&error) };
        }
        Failure::of_connection(&error, progress)
    }

    /// Returns the failure that an error on a connection means where no answer came. The error holds no URL.
    pub fn of_connection(error: &(dyn Error + 'static), progress: &Progress) -> Failure {
        let tls = || chain(error).into_iter().find_map(|link| link.downcast_ref::<rustls::Error>());
        match tls() {
            Some(why) => Failure { fault: tls::fault(why, progress), words: bounded(&tls::words(why)) },
            None => Failure { fault: find(error, progress.stage()).unwrap_or(Fault::Other), words: words(error) },
        }
    }

    /// Returns the failure that an error of the HTTP client means while the body of an answer comes.
    pub fn of_body(error: reqwest::Error) -> Failure {
        let error = error.without_url();
        let is_tls = chain(&error).into_iter().any(|link| link.is::<rustls::Error>());
        let fault = if is_tls { Some(Fault::Closed) } else { find(&error, Stage::Body) };
        Failure { fault: fault.unwrap_or(Fault::Other), words: words(&error) }
    }

    /// Returns the failure of a client that could not be built.
    pub fn of_builder(error: reqwest::Error) -> Failure {
        Failure { fault: Fault::Unbuildable, words: words(&error.without_url()) }
    }

    /// Returns the failure that an error of the system's name lookup means.
    pub fn of_lookup(error: &io::Error) -> Failure {
        Failure { fault: lookup_fault(error), words: words(error) }
    }

    /// Returns a failure of our own.
    pub fn new(fault: Fault, words: &str) -> Failure {
        Failure { fault, words: words.into() }
    }

    /// Returns what a failed lookup of the proxy's own name means.
    pub fn about_proxy(self) -> Failure {
        match self.fault {
            Fault::NameUnknown => Failure { fault: Fault::ProxyNameUnknown, ..self },
            Fault::NameUnavailable => Failure { fault: Fault::ProxyUnreachable, ..self },
            _ => self,
        }
    }

    /// Returns what a failure means before a proxy has connected us.
    pub fn at_proxy(self) -> Failure {
        Failure { fault: proxy::fault(self.fault, &self.words), ..self }
    }

    /// Returns the words without secrets.
    pub fn masked(&self, mask: &Mask) -> Box<str> {
        mask.hide(&self.words).into()
    }
}

/// Returns what a chain of errors means: the system's word counts first, then hyper's.
fn find(error: &(dyn Error + 'static), stage: Stage) -> Option<Fault> {
    let links = chain(error);
    let by_system = links.iter().find_map(|link| io_fault(link.downcast_ref()?, stage));
    by_system.or_else(|| links.iter().find_map(|link| http_fault(link.downcast_ref()?)))
}

/// The deepest chain of causes that is walked.
const LINKS_MAX: usize = 16;

/// Returns an error and its causes, outermost first, those inside an `io::Error` included: `source` skips them.
fn chain<'e>(error: &'e (dyn Error + 'static)) -> Vec<&'e (dyn Error + 'static)> {
    let mut links = Vec::new();
    let mut next = Some(error);
    while let Some(link) = next.filter(|_| links.len() < LINKS_MAX) {
        links.push(link);
        let inside = link.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        next = match inside {
            Some(inner) => Some(inner),
            None => link.source(),
        };
    }
    links
}

/// Returns what an error of the system means; `None` where it only wraps another.
fn io_fault(error: &io::Error, stage: Stage) -> Option<Fault> {
    if let Some(code) = error.raw_os_error() {
        return Some(errno_fault(Errno::from_raw(code), stage));
    }
    match error.kind() {
        io::ErrorKind::UnexpectedEof => Some(Fault::Closed),
        io::ErrorKind::ConnectionReset | io::ErrorKind::ConnectionAborted => Some(Fault::Reset),
        io::ErrorKind::BrokenPipe | io::ErrorKind::NotConnected => Some(Fault::Closed),
        // hyper's words for a chunk that is none.
        io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput => Some(Fault::NotHttp),
        _ => None,
    }
}

fn errno_fault(errno: Errno, stage: Stage) -> Fault {
    match errno {
        Errno::ECONNREFUSED => Fault::ConnectionRefused,
        Errno::ECONNRESET | Errno::ECONNABORTED | Errno::EPIPE => Fault::Reset,
        Errno::ENETUNREACH | Errno::EHOSTUNREACH | Errno::EHOSTDOWN | Errno::ENONET => Fault::Unreachable,
        Errno::EMFILE | Errno::ENFILE | Errno::EADDRNOTAVAIL | Errno::EADDRINUSE => Fault::LocalResources,
        Errno::ENOBUFS | Errno::ENOMEM | Errno::ENETDOWN | Errno::EACCES | Errno::EPERM => Fault::LocalResources,
        // The kernel gave up before our own timer: what we sent was not acknowledged (decisions 23).
        Errno::ETIMEDOUT => Fault::TimedOut(kernel_limit(stage)),
        _ => Fault::Other,
    }
}

fn kernel_limit(stage: Stage) -> Limit {
    match stage {
        Stage::Resolve | Stage::Connect | Stage::Tls => Limit::Connect,
        Stage::Write => Limit::Write,
        Stage::FirstByte => Limit::Read,
        Stage::Body => Limit::Body,
    }
}

fn http_fault(error: &hyper::Error) -> Option<Fault> {
    // hyper names these two only where its server is built in, or not at all; tests hold the texts against the real one.
    const TOO_LARGE: &str = "message head is too large";
    const UNASKED: &str = "received unexpected message from connection";
    let text = error.to_string();
    if error.is_parse() {
        return Some(if text.contains(TOO_LARGE) { Fault::HeadTooLarge } else { Fault::NotHttp });
    }
    let closed = error.is_incomplete_message() || error.is_canceled() || error.is_closed() || text.contains(UNASKED);
    closed.then_some(Fault::Closed)
}

/// Returns what a failed name lookup means. The standard library keeps nothing but the resolver's text.
///
/// Source: gai_strerror of glibc, musl and macOS; semantics.md A4, A5.
fn lookup_fault(error: &io::Error) -> Fault {
    const UNKNOWN: [&str; 4] = [
        "Name or service not known",
        "No address associated with hostname",
        "Name does not resolve",
        "nodename nor servname provided, or not known",
    ];
    if let Some(code) = error.raw_os_error() {
        return match errno_fault(Errno::from_raw(code), Stage::Resolve) {
            Fault::LocalResources => Fault::LocalResources,
            _ => Fault::NameUnavailable,
        };
    }
    let text = error.to_string();
    if UNKNOWN.iter().any(|known| text.contains(known)) { Fault::NameUnknown } else { Fault::NameUnavailable }
}

/// Returns the words of an error and its causes, each once.
fn words(error: &(dyn Error + 'static)) -> Box<str> {
    let mut text = String::new();
    for link in chain(error) {
        let own = link.to_string();
        if text.contains(&own) {
            continue;
        }
        if !text.is_empty() {
            text.push_str(": ");
        }
        text.push_str(&own);
    }
    bounded(&text)
}

/// Returns a text as one line of at most [`WORDS_MAX`] characters.
fn bounded(text: &str) -> Box<str> {
    text.chars().map(|c| if is_deceptive(c) { ' ' } else { c }).take(WORDS_MAX).collect::<String>().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_resolvers_text_is_classified() {
        let cases = [
            ("failed to lookup address information: Name or service not known", Fault::NameUnknown),
            ("failed to lookup address information: No address associated with hostname", Fault::NameUnknown),
            ("failed to lookup address information: nodename nor servname provided, or not known", Fault::NameUnknown),
            ("failed to lookup address information: Temporary failure in name resolution", Fault::NameUnavailable),
            (
                "failed to lookup address information: Non-recoverable failure in name resolution",
                Fault::NameUnavailable,
            ),
        ];
        for (text, fault) in cases {
            assert_eq!(lookup_fault(&io::Error::other(text)), fault, "{text}");
        }
        assert_eq!(lookup_fault(&io::Error::from(Errno::EMFILE)), Fault::LocalResources);
    }

    #[test]
    fn the_systems_errors_are_classified_through_every_wrapper() {
        let cases = [
            (Errno::ECONNREFUSED, Stage::Connect, Fault::ConnectionRefused),
            (Errno::ENETUNREACH, Stage::Connect, Fault::Unreachable),
            (Errno::EHOSTUNREACH, Stage::Connect, Fault::Unreachable),
            (Errno::EMFILE, Stage::Connect, Fault::LocalResources),
            (Errno::EADDRNOTAVAIL, Stage::Connect, Fault::LocalResources),
            (Errno::ENOBUFS, Stage::Connect, Fault::LocalResources),
            (Errno::ETIMEDOUT, Stage::Connect, Fault::TimedOut(Limit::Connect)),
            (Errno::ETIMEDOUT, Stage::FirstByte, Fault::TimedOut(Limit::Read)),
            (Errno::ECONNRESET, Stage::FirstByte, Fault::Reset),
            (Errno::EPIPE, Stage::Write, Fault::Reset),
        ];
        for (errno, stage, fault) in cases {
            let wrapped = io::Error::other(io::Error::other(io::Error::from(errno)));
            assert_eq!(find(&wrapped, stage), Some(fault), "{errno}");
        }
        assert_eq!(find(&io::Error::other("words"), Stage::Write), None);
    }

    #[test]
    fn words_are_said_once_and_bounded() {
        let error = io::Error::other(io::Error::other("the cause"));
        assert_eq!(&*words(&error), "the cause");
        assert_eq!(words(&io::Error::other("é\n".repeat(900))).chars().count(), WORDS_MAX);
    }
}
