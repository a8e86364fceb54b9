//! The addresses: all are dialled, a little one after the other, and the first that stands carries the request.

use super::Probe;
use crate::engine::diagnose::observations::Address;
use crate::engine::operation::Request;
use crate::net::dial::{Asking, Connection, Dialled, Dialler, Kept};
use std::net::SocketAddr;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::sleep;

/// No more addresses are dialled.
///
/// Source: latency.md 6.1.
pub const ADDRESSES_MAX: usize = 8;

/// So much later than the one before it an address is dialled.
///
/// Source: latency.md 6.1.
const STAGGER: Duration = Duration::from_millis(50);

/// What came of the addresses so far, each at its place.
pub(super) type Found = Vec<(usize, Address)>;

impl Probe<'_> {
    /// Dials the addresses, and sends the one request over the first connection that stands. Returns that connection
    /// where it may carry another.
    pub(super) async fn dial_all(&mut self, dialler: &Dialler, addresses: &[SocketAddr]) -> Option<Kept> {
        let mut dials = self.dials(dialler, addresses);
        let (mut found, mut kept): (Found, Option<Kept>) = (Vec::new(), None);
        while let Some(dialled) = dials.join_next().await {
            let Ok((at, mut dialled)) = dialled else { continue };
            if let Some(line) = dialled.line.take().filter(|_| self.seen.exchange.is_none()) {
                kept = self.ask(dialler, &mut dialled.address, line).await;
            }
            found.push((at, self.remembered(dialled.address)));
        }
        self.seen.addresses = in_order(found);
        let asked = self.seen.asked_address().and_then(|address| self.plan.past.of_address(address.addr.ip()));
        self.seen.past.rtt = asked.and_then(|past| past.rtt).or(self.seen.past.rtt);
        kept
    }

    /// Adds what is known from earlier about an address.
    fn remembered(&self, address: Address) -> Address {
        match self.plan.past.of_address(address.addr.ip()) {
            Some(past) => Address { before: Some(past.before), smallest_rtt: past.smallest_rtt, ..address },
            None => address,
        }
    }

    /// Begins to dial. Each address has its own time for connection and handshake.
    pub(super) fn dials(&self, dialler: &Dialler, addresses: &[SocketAddr]) -> JoinSet<(usize, Dialled)> {
        let mut dials = JoinSet::new();
        let (connect, left) = (self.plan.timeouts.connect, self.left());
        let mut wait = Duration::ZERO;
        for (at, addr) in addresses.iter().copied().take(ADDRESSES_MAX).enumerate() {
            let dialler = dialler.clone();
            let limit = left.saturating_sub(wait).min(connect);
            dials.spawn(async move {
                sleep(wait).await;
                (at, dialler.dial(addr, limit).await)
            });
            wait += STAGGER;
        }
        dials
    }

    async fn ask(&mut self, dialler: &Dialler, address: &mut Address, line: Connection) -> Option<Kept> {
        let (mut exchange, kept) = dialler.ask(address, line, asking(&self.plan.request), self.limits()).await;
        let resolve = self.seen.names.lookup.and_then(|lookup| lookup.took);
        exchange.stages.resolve_us = resolve.and_then(|took| u64::try_from(took.as_micros()).ok());
        exchange.took = self.started.elapsed();
        self.count(&exchange);
        self.seen.exchange = Some(exchange);
        kept
    }
}

/// Returns what is asked of every address.
pub(super) fn asking(request: &Request) -> Asking<'_> {
    Asking { method: request.method.as_str(), url: request.url.sent.expose(), headers: &request.headers }
}

/// Returns the addresses at their places.
pub(super) fn in_order(mut found: Found) -> Vec<Address> {
    found.sort_by_key(|(at, _)| *at);
    found.into_iter().map(|(_, address)| address).collect()
}
