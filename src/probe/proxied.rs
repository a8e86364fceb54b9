//! Through a proxy: only the proxy is dialled, and the one request goes by the transport of `send`.

use super::Probe;
use super::addresses::{Found, in_order};
use crate::drive::{Question, Transport};
use crate::engine::exchange::{Fault, Outcome};
use crate::engine::proxy::{Named, Scheme};
use std::net::SocketAddr;

impl Probe<'_> {
    pub(super) async fn proxied(&mut self, named: &Named) {
        let (plan, mut wire) = (self.plan, self.plan.wire());
        let addresses = match wire.lookup(plan.url(), self.left_to_connect()).await {
            Ok(way) => of_proxy(named, way.addresses),
            Err(failed) => {
                self.seen.exchange = Some(failed);
                return;
            }
        };
        self.look_at_routes(&addresses);
        if let Ok(dialler) = plan.dialler() {
            let mut dials = self.dials(&dialler.plain(), &addresses);
            let mut found = Found::new();
            while let Some(dialled) = dials.join_next().await {
                found.extend(dialled.ok().map(|(at, dialled)| (at, dialled.address)));
            }
            self.seen.addresses = in_order(found);
        }
        let request = &plan.request;
        let question = Question {
            method: request.method.as_str(),
            url: plan.url(),
            headers: &request.headers,
            limits: self.limits(),
        };
        let exchange = wire.ask(question).await;
        if let (Some(proxy), Outcome::Unanswered { fault, .. }) = (&mut self.seen.proxy, &exchange.outcome) {
            proxy.outcome = is_of_proxy(*fault).then_some(Err(*fault));
        }
        self.count(&exchange);
        self.seen.skew = super::skew_of(&exchange);
        self.seen.exchange = Some(exchange);
    }
}

/// Returns the addresses of the proxy itself: one that has names looked up here is dialled where its URL has its
/// address.
fn of_proxy(named: &Named, found: Vec<SocketAddr>) -> Vec<SocketAddr> {
    match named.proxy.scheme {
        Scheme::Http | Scheme::Socks5h => found,
        Scheme::Socks5 => named.proxy.address().into_iter().collect(),
    }
}

fn is_of_proxy(fault: Fault) -> bool {
    matches!(
        fault,
        Fault::ProxyNameUnknown
            | Fault::ProxyUnreachable
            | Fault::Proxy
            | Fault::ProxyCredentials
            | Fault::ProxyForbids
            | Fault::BeyondProxy
    )
}
