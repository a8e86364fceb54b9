//! The wire: the only user of sockets and of the HTTP client.
//!
//! Every attempt goes to one address over HTTP/1.1, on a connection of its own unless [`Reuse`] allows another, and
//! answers one question above all: how far did the request get? ([`crate::engine::exchange::Sent`]). What partners and
//! networks do wrong is a value.

mod attempt;
pub mod chance;
pub mod clock;
pub mod dial;
mod fault;
mod line;
mod marks;
pub mod name_servers;
mod names;
pub mod proxy;
mod request;
mod tls;
mod watch;

pub use line::Reuse;
pub use names::Names;
pub use tls::{SystemRoots, TLS_FILE_MAX, Tls, TlsError, TlsFault, TlsFile, TlsFiles};

use crate::drive::{Call, Permit, Question, Transport};
use crate::engine::deadline::Limits;
use crate::engine::exchange::{Exchange, Fault, Limit, Stage, Via, Way};
use crate::engine::proxy::{Proxies, Proxy, Scheme};
use crate::engine::secret::{Mask, Secret};
use attempt::{Carried, carry, micros};
use clock::Wall;
use fault::Failure;
use line::{Line, Target, Through};
use request::{Outgoing, Place, parse_url, place};
use reqwest::Url;
use std::fmt;
use std::net::SocketAddr;
use std::pin::pin;
use std::time::{Duration, Instant};
use watch::Watch;

/// What a [`Wire`] needs to know beside the operation that it serves.
#[derive(Clone, Debug)]
pub struct WireSettings {
    /// More of an answer's body is not read.
    pub answer_max_bytes: usize,
    /// What is hidden in the words of an error.
    pub mask: Mask,
    /// Tells when an answer came.
    pub wall: Wall,
    /// The names looked up so far. Wires of one process share them.
    pub names: Names,
    /// Whom to trust on https. Wires of one process share it.
    pub tls: Tls,
    /// Which proxy a request passes by.
    pub proxies: Proxies,
}

/// The transport of one operation at a time. A worker keeps one and serves one operation after the other with it.
#[derive(Debug)]
pub struct Wire {
    settings: WireSettings,
    reuse: Reuse,
    /// What the last request went over, unless something went wrong on it.
    line: Option<Line>,
    /// How long the last lookup took, until an exchange takes it along.
    looked_up: Option<Duration>,
    /// The URL that was parsed last: the lookup and the exchange of an attempt need the same one.
    parsed: Option<Parsed>,
}

/// A URL and the text that it was read from.
struct Parsed {
    text: Secret,
    url: Url,
}

impl fmt::Debug for Parsed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.text.fmt(f)
    }
}

impl Wire {
    /// Returns a transport. Nothing is opened before the first request, and every attempt opens its own connection.
    pub fn new(settings: WireSettings) -> Wire {
        Wire { settings, reuse: Reuse::Never, line: None, looked_up: None, parsed: None }
    }

    /// Turns to another operation. Where `reuse` allows it, its requests may travel on a connection that is still
    /// open; with [`Reuse::Never`] none of them does, and none is left open for the operation after it.
    pub fn serve(&mut self, settings: WireSettings, reuse: Reuse) {
        *self = Wire { settings, reuse, line: self.line.take(), looked_up: None, parsed: self.parsed.take() };
    }

    /// Parses a URL.
    fn url(&mut self, text: &str) -> Result<Url, Failure> {
        if let Some(known) = self.parsed.as_ref().filter(|known| known.text.expose() == text) {
            return Ok(known.url.clone());
        }
        let url = parse_url(text)?;
        self.parsed = Some(Parsed { text: Secret::new(text), url: url.clone() });
        Ok(url)
    }

    /// Returns what may be dialled for a URL, within `limits.connect`: the proxy, but where names are looked up here
    /// all the same, the partner.
    async fn way(&mut self, url: &Url, limits: Limits) -> Result<Way, Failure> {
        let mut watch = Watch::new(limits);
        let named = self.proxy_for(url)?;
        let Some(proxy) = named else {
            return Ok(Way { addresses: self.addresses(place(url)?, &mut watch).await?, proxy: None });
        };
        let name = proxy.name().into();
        let of_proxy = self.addresses(Place::of_proxy(&proxy), &mut watch).await.map_err(Failure::about_proxy)?;
        let addresses = match proxy.scheme {
            Scheme::Http | Scheme::Socks5h => of_proxy,
            Scheme::Socks5 => self.addresses(place(url)?, &mut watch).await?,
        };
        Ok(Way { addresses, proxy: Some(name) })
    }

    /// Returns the addresses of a place. A lookup never succeeds without one.
    async fn addresses(&mut self, place: Place, watch: &mut Watch) -> Result<Vec<SocketAddr>, Failure> {
        let (host, port) = match place {
            Place::Address(address) => return Ok(vec![address]),
            Place::Host(host, port) => (host, port),
        };
        let found = watch.lookup(pin!(self.settings.names.find(&host, port))).await;
        self.looked_up = self.looked_up.max(Some(watch.started().elapsed()));
        match found {
            Ok(answer) => Ok(answer?.to_vec()),
            Err(fault) => Err(Failure::new(fault, "")),
        }
    }

    /// Returns the proxy that a request to `url` passes by.
    fn proxy_for(&self, url: &Url) -> Result<Option<Proxy>, Failure> {
        let named = self.settings.proxies.of(url.as_str());
        let named = named.map_err(|misnamed| Failure::new(Fault::Unbuildable, &misnamed.to_string()))?;
        Ok(named.map(|named| named.proxy.clone()))
    }

    /// Returns the line's target for a request to `url`, looking up what is not known yet. `to` is what a lookup found.
    async fn target(&mut self, url: &Url, to: Option<SocketAddr>, limits: Limits) -> Result<Target, Failure> {
        let to = match to {
            Some(to) => to,
            None => self.way(url, limits).await?.addresses[0],
        };
        let through = match self.proxy_for(url)? {
            None => None,
            Some(proxy) if proxy.scheme == Scheme::Socks5 => {
                let place = Place::of_proxy(&proxy);
                let at = self.addresses(place, &mut Watch::new(limits)).await.map_err(Failure::about_proxy)?[0];
                Some(Through { proxy, at })
            }
            Some(proxy) => Some(Through { proxy, at: to }),
        };
        let tls = (url.scheme() == "https").then(|| self.settings.tls.clone());
        Ok(Target { origin: url.origin(), to, through, read: limits.read, reuse: self.reuse, tls })
    }

    /// Looks up where a request goes, if need be, and carries it within limits that cover both.
    async fn send(&mut self, outgoing: Outgoing, to: Option<SocketAddr>, limits: Limits) -> Trip {
        let started = Instant::now();
        let target = match self.target(outgoing.url(), to, limits).await {
            Ok(target) => target,
            Err(failure) => return Trip::none(Carried::nothing_sent(stage_of(&failure), failure), to),
        };
        let (to, via) = (target.to, target.via());
        let left = limits.after(started.elapsed());
        let carried = match self.line(target).await {
            Ok(line) => self.send_over(line, outgoing, left).await,
            Err(failure) => Carried::nothing_sent(Stage::Connect, failure),
        };
        Trip { carried, addr: Some(to), via }
    }

    /// Takes the line that is there if it leads to `target`, else a new one.
    async fn line(&mut self, target: Target) -> Result<Line, Failure> {
        match self.line.take().filter(|line| line.leads_to(&target)) {
            Some(line) => {
                line.catch_up().await;
                Ok(line)
            }
            None => Line::new(target),
        }
    }

    /// Carries a request, and keeps the line only if both messages are complete.
    async fn send_over(&mut self, line: Line, outgoing: Outgoing, limits: Limits) -> Carried {
        let wall = self.settings.wall;
        let carried = carry(outgoing, &line, limits, self.settings.answer_max_bytes, || wall.now()).await;
        self.line = Some(line).filter(|_| carried.clean);
        carried
    }

    /// Completes what came of a request that began at `started`.
    fn exchange_of(&mut self, trip: Trip, started: Instant) -> Exchange {
        let Trip { carried, addr, via } = trip;
        let mut stages = carried.stages;
        stages.resolve_us = self.looked_up.take().map(micros);
        let error = carried.failure.filter(|failure| !failure.words.is_empty());
        Exchange {
            outcome: carried.outcome,
            stages,
            took: started.elapsed(),
            addr,
            via,
            error: error.map(|failure| failure.masked(&self.settings.mask)),
            at: carried.head_at.unwrap_or_else(|| self.settings.wall.now()),
        }
    }
}

/// What came of one request, and which way it took.
struct Trip {
    carried: Carried,
    addr: Option<SocketAddr>,
    via: Via,
}

impl Trip {
    /// Returns a trip that ended before anything was dialled.
    fn none(carried: Carried, addr: Option<SocketAddr>) -> Trip {
        Trip { carried, addr, via: Via::Direct }
    }
}

impl Transport for Wire {
    /// Looks up what a request to `url` dials, within `limit`; an IP address is returned as it is.
    ///
    /// Whoever calls this subtracts the time it took from `limits.connect` and `limits.whole` of the call that follows.
    async fn lookup(&mut self, url: &str, limit: Duration) -> Result<Way, Exchange> {
        let started = Instant::now();
        let found = match self.url(url) {
            Ok(url) => self.way(&url, lookup_limits(limit)).await,
            Err(failure) => Err(failure),
        };
        found.map_err(|failure| {
            let carried = Carried::nothing_sent(stage_of(&failure), failure);
            self.exchange_of(Trip::none(carried, None), started)
        })
    }

    async fn exchange(&mut self, _: Permit, call: Call<'_>) -> Exchange {
        let started = Instant::now();
        let url = self.url(call.hop.unwrap_or(call.operation.request.url.sent.expose()));
        let trip = match url.and_then(|url| Outgoing::attempt(&call, url)) {
            Ok(outgoing) => self.send(outgoing, call.to, call.limits).await,
            Err(failure) => Trip::none(Carried::nothing_sent(Stage::Connect, failure), call.to),
        };
        self.exchange_of(trip, started)
    }

    async fn ask(&mut self, question: Question<'_>) -> Exchange {
        let started = Instant::now();
        let trip = match Outgoing::question(&question) {
            Ok(outgoing) => self.send(outgoing, None, question.limits).await,
            Err(failure) => Trip::none(Carried::nothing_sent(Stage::Connect, failure), None),
        };
        self.exchange_of(trip, started)
    }
}

/// Returns the stage of a failure before anything was dialled.
fn stage_of(failure: &Failure) -> Stage {
    match failure.fault {
        Fault::Unbuildable => Stage::Connect,
        _ => Stage::Resolve,
    }
}

/// Returns the limits of a lookup alone.
fn lookup_limits(limit: Duration) -> Limits {
    Limits { connect: limit, write: limit, read: limit, body: limit, whole: limit, whole_is: Limit::Connect }
}
