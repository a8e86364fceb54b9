//! What a probe saw. Nothing is guessed: `None` stands for what was not looked at or not seen, never a zero.

use super::clock::Skew;
use super::dial::Connect;
use super::handshake::Handshake;
use super::names::Names;
use super::past::{Before, Past};
use super::tcp::Tcp;
use crate::engine::exchange::{Answer, Exchange, Fault, Outcome, Stage};
use crate::engine::location::{self, Scheme};
use crate::engine::moment::Timestamp;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// Everything that a probe saw. Texts have their secrets masked already.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Observations {
    /// What was asked.
    pub target: Target,
    /// What this machine, the profile and the arguments said before anything was sent.
    pub setup: Setup,
    /// The proxy that is in effect; `None` where there is none.
    pub proxy: Option<Proxy>,
    /// What became of the name.
    pub names: Names,
    /// The addresses in the order of preference; empty where none is known.
    pub addresses: Vec<Address>,
    /// What came of the one request; `None` where it was not sent, and nothing was tried in its place.
    pub exchange: Option<Exchange>,
    /// How many requests left, or may have; with `--deep` more than one.
    pub requests: u32,
    /// How far the partner's clock is from ours.
    pub skew: Option<Skew>,
    /// What became of the connection after the answer; looked at with `--deep` only.
    pub keep_alive: Option<KeepAlive>,
    /// What came of the same request through the transport of `send`; with `--deep` only.
    pub second_pass: Option<Exchange>,
    /// What is known from earlier.
    pub past: Past,
    /// The stage in which the deadline of the probe ended it; `None` where it came to its own end.
    pub deadline_reached: Option<Stage>,
    /// Our wall clock at the end.
    pub at: Option<Timestamp>,
}

/// What was asked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Target {
    /// The method of the request.
    pub method: Option<Box<str>>,
    /// The absolute URL.
    pub url: Option<Box<str>>,
    /// Whether the answer should be JSON.
    pub json: Option<bool>,
}

impl Target {
    /// Returns the host of the URL, brackets included.
    pub fn host(&self) -> Option<&str> {
        Some(location::origin(self.url.as_deref()?)?.host)
    }

    /// Returns whether the URL is an `https` one.
    pub fn is_secure(&self) -> Option<bool> {
        Some(location::origin(self.url.as_deref()?)?.scheme == Scheme::Https)
    }
}

/// What this machine, the profile and the arguments said before anything was sent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Setup {
    /// What makes a request impossible.
    pub trouble: Option<Trouble>,
    /// Whether the kernel has a route to the addresses.
    pub has_route: Option<bool>,
    /// The address that our packets leave from; behind a translator the partner sees another one.
    pub egress: Option<IpAddr>,
    /// How far our wall clock was stepped while the probe ran.
    pub clock_step: Option<Duration>,
}

/// What makes a request impossible, in words with file and line where there are some.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// The arguments make no request.
    Usage(Box<str>),
    /// The profile cannot be used.
    Profile(Box<str>),
    /// A secret is not there: the name of its variable, file or command, never its value.
    Secret(Box<str>),
}

/// A proxy that is in effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proxy {
    /// As `host:port`.
    pub name: Box<str>,
    /// Who named it.
    pub source: ProxySource,
    /// What became of the connection to it, or of its CONNECT.
    pub outcome: Option<Result<(), Fault>>,
    /// Whether it worked before.
    pub before: Option<Before>,
}

/// Who named a proxy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProxySource {
    /// A flag of the command line.
    Flag,
    /// `[proxy]` of the profile.
    Profile,
    /// An environment variable: its name.
    Variable(Box<str>),
}

/// One address, and what became of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// The address.
    pub addr: SocketAddr,
    /// The TCP connection; `None` where it was not tried.
    pub connect: Option<Connect>,
    /// The TLS handshake; `None` where it was not tried.
    pub tls: Option<Handshake>,
    /// What TCP knows of the connection after all that was done on it.
    pub tcp: Option<Tcp>,
    /// Whether this address worked before from here.
    pub before: Option<Before>,
    /// The smallest round trip that was ever seen to it.
    pub smallest_rtt: Option<Duration>,
    /// What came of a request of its own; with `--deep`, and not on the address that got the one request.
    pub reply: Option<Box<Exchange>>,
}

impl Address {
    /// Returns an address of which nothing is known.
    pub fn new(addr: SocketAddr) -> Address {
        Address { addr, connect: None, tls: None, tcp: None, before: None, smallest_rtt: None, reply: None }
    }

    /// Returns whether it was dialled, and the connection or the handshake failed.
    pub fn has_failed(&self) -> bool {
        let dead = self.connect.is_some_and(|connect| connect.outcome.is_err());
        dead || self.tls.as_ref().is_some_and(|tls| tls.outcome.is_err())
    }

    /// Returns whether the TCP connection came about.
    pub fn is_connected(&self) -> bool {
        self.connect.as_ref().is_some_and(|connect| connect.outcome.is_ok())
    }
}

/// What became of the connection after the answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeepAlive {
    /// A second request on the same connection was answered.
    pub reused: Option<bool>,
    /// How long the partner kept the idle connection before it closed it; `None` also where it outlasted the watch.
    pub idle_close: Option<Duration>,
    /// How long the idle connection was watched.
    pub watched: Option<Duration>,
}

/// Returns the status of an answer; `None` where none came.
fn status(exchange: &Exchange) -> Option<u16> {
    match &exchange.outcome {
        Outcome::Answered(answer) => Some(answer.status),
        Outcome::Unanswered { .. } => None,
    }
}

impl Observations {
    /// Returns the answer to the one request.
    pub fn answer(&self) -> Option<&Answer> {
        match &self.exchange.as_ref()?.outcome {
            Outcome::Answered(answer) => Some(answer),
            Outcome::Unanswered { .. } => None,
        }
    }

    /// Returns the status that the way of `send` got; `None` where it was not tried, or got no answer.
    pub fn second_status(&self) -> Option<u16> {
        status(self.second_pass.as_ref()?)
    }

    /// Returns the status with which an address answered, where it got a request.
    pub fn status_of(&self, address: &Address) -> Option<u16> {
        let is_asked = || self.asked_address().is_some_and(|asked| asked.addr == address.addr);
        let exchange = address.reply.as_deref().or_else(|| self.exchange.as_ref().filter(|_| is_asked()));
        status(exchange?)
    }

    /// Returns the stage at which the one request failed, and why, where no answer came.
    pub fn failure(&self) -> Option<(Stage, Fault)> {
        match &self.exchange.as_ref()?.outcome {
            Outcome::Unanswered { stage, fault, .. } => Some((*stage, *fault)),
            Outcome::Answered(_) => None,
        }
    }

    /// Returns the address that the one request went to; the only one where the exchange names none.
    pub fn asked_address(&self) -> Option<&Address> {
        let exchange = self.exchange.as_ref()?;
        match (exchange.addr, &*self.addresses) {
            (Some(addr), addresses) => addresses.iter().find(|address| address.addr == addr),
            (None, [only]) => Some(only),
            (None, _) => None,
        }
    }

    /// Returns what TCP knows of the connection that carried the one request.
    pub fn asked_tcp(&self) -> Option<&Tcp> {
        self.asked_address()?.tcp.as_ref()
    }

    /// Returns what certificate was seen, on the address that was asked or on the first that showed one.
    pub fn certificate(&self) -> Option<&super::handshake::Certificate> {
        let of = |address: &'_ Address| address.tls.as_ref().is_some_and(|tls| tls.certificate.is_some());
        let asked = self.asked_address().filter(|address| of(address));
        let shown = asked.or_else(|| self.addresses.iter().find(|address| of(address)))?;
        shown.tls.as_ref()?.certificate.as_ref()
    }
}
