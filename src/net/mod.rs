//! The wire: the only user of sockets and of the HTTP client.
//!
//! Every attempt goes to one address over HTTP/1.1, on a connection of its own unless [`Reuse`] allows another, and
//! answers one question above all: how far did the request get? ([`crate::engine::exchange::Sent`]). What partners and
//! networks do wrong is a value.

mod attempt;
pub mod chance;
pub mod clock;
mod fault;
mod line;
mod marks;
mod names;
pub mod proxy;
mod request;
mod tls;
mod watch;

pub use line::Reuse;
pub use names::Names;
pub use tls::{SystemRoots, Tls};

use crate::drive::{Call, Permit, Question, Transport};
use crate::engine::deadline::Limits;
use crate::engine::exchange::{Exchange, Fault, Limit, Stage};
use crate::engine::operation::Operation;
use crate::engine::secret::Mask;
use attempt::{Carried, carry, micros};
use clock::Wall;
use fault::Failure;
use line::{Line, Target};
use request::{Outgoing, Place, parse_url, place};
use reqwest::Url;
use std::net::SocketAddr;
use std::pin::pin;
use std::time::{Duration, Instant};

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
}

impl Wire {
    /// Returns a transport. Nothing is opened before the first request, and every attempt opens its own connection.
    pub fn new(settings: WireSettings) -> Wire {
        Wire { settings, reuse: Reuse::Never, line: None, looked_up: None }
    }

    /// Turns to another operation. Where `reuse` allows it, its requests may travel on a connection that is still
    /// open; with [`Reuse::Never`] none of them does, and none is left open for the operation after it.
    pub fn serve(&mut self, settings: WireSettings, reuse: Reuse) {
        *self = Wire { settings, reuse, line: self.line.take(), looked_up: None };
    }

    /// Returns the addresses that a URL leads to, within `limits.connect`.
    async fn addresses(&mut self, url: &Url, limits: Limits) -> Result<Vec<SocketAddr>, Failure> {
        let (host, port) = match place(url)? {
            Place::Address(address) => return Ok(vec![address]),
            Place::Host(host, port) => (host, port),
        };
        let mut watch = watch::Watch::new(limits);
        let found = watch.lookup(pin!(self.settings.names.find(&host, port))).await;
        self.looked_up = Some(watch.started().elapsed());
        match found {
            Ok(answer) => Ok(answer?.to_vec()),
            Err(fault) => Err(Failure::new(fault, "")),
        }
    }

    /// Looks up where a request goes, if need be, and carries it within limits that cover both.
    async fn send(
        &mut self,
        outgoing: Outgoing,
        to: Option<SocketAddr>,
        limits: Limits,
    ) -> (Carried, Option<SocketAddr>) {
        let started = Instant::now();
        let to = match to {
            Some(to) => to,
            None => match self.addresses(outgoing.url(), limits).await {
                // A lookup never succeeds without an address.
                Ok(addresses) => addresses[0],
                Err(failure) => return (Carried::nothing_sent(stage_of(&failure), failure), None),
            },
        };
        let left = limits.after(started.elapsed());
        let target = Target::new(outgoing.url(), to, limits.read, self.reuse, &self.settings.tls);
        let carried = match self.line(target).await {
            Ok(line) => self.send_over(line, outgoing, left).await,
            Err(failure) => Carried::nothing_sent(Stage::Connect, failure),
        };
        (carried, Some(to))
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
    fn exchange_of(&mut self, carried: Carried, addr: Option<SocketAddr>, started: Instant) -> Exchange {
        let mut stages = carried.stages;
        stages.resolve_us = self.looked_up.take().map(micros);
        let error = carried.failure.filter(|failure| !failure.words.is_empty());
        Exchange {
            outcome: carried.outcome,
            stages,
            took: started.elapsed(),
            addr,
            error: error.map(|failure| failure.masked(&self.settings.mask)),
            at: carried.head_at.unwrap_or_else(|| self.settings.wall.now()),
        }
    }
}

impl Transport for Wire {
    /// Looks the operation's host up within `limit`; an IP address is returned as it is.
    ///
    /// Whoever calls this subtracts the time it took from `limits.connect` and `limits.whole` of the call that follows.
    async fn lookup(&mut self, operation: &Operation, limit: Duration) -> Result<Vec<SocketAddr>, Exchange> {
        let started = Instant::now();
        let found = match parse_url(operation.request.url.sent.expose()) {
            Ok(url) => self.addresses(&url, lookup_limits(limit)).await,
            Err(failure) => Err(failure),
        };
        found.map_err(|failure| self.exchange_of(Carried::nothing_sent(stage_of(&failure), failure), None, started))
    }

    async fn exchange(&mut self, _: Permit, call: Call<'_>) -> Exchange {
        let started = Instant::now();
        let (carried, addr) = match Outgoing::attempt(&call) {
            Ok(outgoing) => self.send(outgoing, call.to, call.limits).await,
            Err(failure) => (Carried::nothing_sent(Stage::Connect, failure), call.to),
        };
        self.exchange_of(carried, addr, started)
    }

    async fn ask(&mut self, question: Question<'_>) -> Exchange {
        let started = Instant::now();
        let (carried, addr) = match Outgoing::question(&question) {
            Ok(outgoing) => self.send(outgoing, None, question.limits).await,
            Err(failure) => (Carried::nothing_sent(Stage::Connect, failure), None),
        };
        self.exchange_of(carried, addr, started)
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
