//! The diagnostic dialler: one address, one stage after the other, each of them observed.
//!
//! It trusts, shows and writes what [`super::Wire`] does, on connections whose sockets it can look at. No future that
//! may have sent bytes is dropped to end it: every step takes its limit, and returns what it knows.

mod ask;
mod certificate;
mod kernel;
mod secure;
mod tcp;

use super::clock::Wall;
use super::fault::Failure;
use super::marks::Marks;
use super::request::{parse_url, place};
use super::tls::Tls;
use crate::engine::deadline::Limits;
use crate::engine::diagnose::clock::Skew;
use crate::engine::diagnose::observations::Address;
use crate::engine::exchange::{Exchange, Via};
use crate::engine::secret::Mask;
use ask::Asked;
use rustls::pki_types::ServerName;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::Instant;

pub use ask::{Asking, Kept};

/// What a [`Dialler`] needs to know.
#[derive(Clone, Debug)]
pub struct DialSettings {
    /// Whom to trust on https, and what to show.
    pub tls: Tls,
    /// What is hidden in the words of an error.
    pub mask: Mask,
    /// Tells when an answer came.
    pub wall: Wall,
    /// More of an answer's body is not read.
    pub answer_max_bytes: usize,
    /// How long the kernel tries to deliver what was written.
    pub read: Duration,
}

/// Dials the addresses of one URL. Clones share nothing but its settings.
#[derive(Clone, Debug)]
pub struct Dialler {
    settings: DialSettings,
    /// The name to be in the certificate; `None` for http.
    secure: Option<ServerName<'static>>,
}

/// An address that was dialled, and the connection to it where it stands.
#[derive(Debug)]
pub struct Dialled {
    /// What was seen.
    pub address: Address,
    /// The connection that may carry the request; `None` where a stage failed.
    pub line: Option<Connection>,
    /// What the library says of the failure, secrets masked.
    pub error: Option<Box<str>>,
}

/// A connection that stands. Dropping it closes it.
#[derive(Debug)]
pub struct Connection {
    stream: Box<dyn Stream>,
    socket: kernel::Socket,
    marks: Marks,
}

/// What a connection is read from and written to.
trait Stream: AsyncRead + AsyncWrite + Send + Unpin + std::fmt::Debug {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin + std::fmt::Debug> Stream for S {}

impl Dialler {
    /// Returns a dialler for a URL. Nothing is opened yet.
    ///
    /// # Errors
    /// The URL cannot be used, in words that do not quote it.
    pub fn new(url: &str, settings: DialSettings) -> Result<Dialler, Box<str>> {
        let url = parse_url(url).map_err(|failure| failure.words)?;
        place(&url).map_err(|failure| failure.words)?;
        let host = url.host_str().unwrap_or_default().trim_start_matches('[').trim_end_matches(']').to_owned();
        let secure = (url.scheme() == "https").then(|| ServerName::try_from(host)).transpose();
        let secure = secure.map_err(|_| "the host name cannot be in a certificate")?;
        Ok(Dialler { settings, secure })
    }

    /// Returns a dialler that ends with the TCP connection: what a proxy is looked at with.
    #[must_use]
    pub fn plain(mut self) -> Dialler {
        self.secure = None;
        self
    }

    /// Connects to an address and shakes hands where the URL is an https one, all within `limit`.
    pub async fn dial(&self, addr: SocketAddr, limit: Duration) -> Dialled {
        let (until, mut address) = (Instant::now() + limit, Address::new(addr));
        let (connect, stream) = tcp::connect(addr, self.settings.read, until).await;
        address.connect = Some(connect);
        let Some(stream) = stream else { return Dialled { address, line: None, error: None } };
        let socket = kernel::Socket::of(&stream);
        address.tcp = socket.look();
        if let Some(connect) = &mut address.connect {
            connect.syns_resent = address.tcp.and_then(|_| u32::try_from(socket.syns_resent).ok());
        }
        let marks = Marks::default();
        let (stream, error): (Option<Box<dyn Stream>>, _) = match &self.secure {
            None => (Some(Box::new(stream)), None),
            Some(name) => {
                let shaken =
                    secure::shake_hands(&self.settings.tls, name.clone(), stream, &marks, until, || socket.look());
                let shaken = shaken.await;
                address.tls = Some(shaken.handshake);
                address.tcp = shaken.tcp;
                let error = shaken.failure.map(|failure| failure.masked(&self.settings.mask));
                (shaken.stream.map(|stream| Box::new(stream) as Box<dyn Stream>), error)
            }
        };
        Dialled { address, line: stream.map(|stream| Connection { stream, socket, marks }), error }
    }

    /// Sends one request over a connection, and adds to `address` what became of the connection; which is returned where
    /// it may carry another request.
    pub async fn ask(
        &self,
        address: &mut Address,
        line: Connection,
        asking: Asking<'_>,
        limits: Limits,
    ) -> (Exchange, Option<Kept>) {
        let asked = ask::ask(line, asking, limits, &self.settings).await;
        address.tcp = asked.tcp;
        let (mut exchange, kept) = self.exchange(asked, address.addr);
        let micros = |time: Option<Duration>| time.map(super::attempt::micros);
        exchange.stages.connect_us = micros(address.connect.and_then(|connect| connect.took));
        exchange.stages.tls_us = micros(address.tls.as_ref().and_then(|tls| tls.took));
        (exchange, kept)
    }

    /// Sends one more request over a connection to `addr` that carried one.
    pub async fn ask_again(
        &self,
        addr: SocketAddr,
        kept: Kept,
        asking: Asking<'_>,
        limits: Limits,
    ) -> (Exchange, Option<Kept>) {
        self.exchange(ask::ask_again(kept, asking, limits, &self.settings).await, addr)
    }

    fn exchange(&self, asked: Asked, addr: SocketAddr) -> (Exchange, Option<Kept>) {
        let Asked { carried, took, kept, .. } = asked;
        let error = carried.failure.filter(|failure| !failure.words.is_empty());
        let exchange = Exchange {
            outcome: carried.outcome,
            stages: carried.stages,
            took,
            addr: Some(addr),
            via: Via::Direct,
            error: error.map(|failure: Failure| failure.masked(&self.settings.mask)),
            at: carried.head_at.unwrap_or_else(|| self.settings.wall.now()),
        };
        (exchange, kept)
    }

    /// Reads the partner's clock over a connection whose certificate nobody looks at: one HEAD without credentials, on
    /// a connection of its own, and nothing but its `Date` is used.
    ///
    /// Source: latency.md 6.1, step 3.
    pub async fn date(&self, addr: SocketAddr, limit: Duration) -> Option<Skew> {
        let name = self.secure.clone()?;
        let until = Instant::now() + limit;
        let (_, stream) = tcp::connect(addr, self.settings.read, until).await;
        let stream = secure::unverified(name.clone(), stream?, until).await?;
        ask::date(stream, &name.to_str(), &self.settings, until).await
    }
}
