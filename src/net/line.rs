//! The line to a partner: an HTTP client that dials one address, and whether it may keep the connection.

use super::fault::Failure;
use super::marks::{ConnectedLayer, Current, Marks, Progress};
use super::proxy;
use super::tls::Tls;
use crate::engine::exchange::{Fault, Stage, Via};
use crate::engine::facts::History;
use crate::engine::moment::Now;
use crate::engine::policy::Policy;
use crate::engine::proxy::{Proxy, Scheme};
use crate::engine::view::View;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::{Client, Request, Response};
use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use url::Origin;

/// Silent connections are probed this often, so that a middlebox does not forget them while the partner works.
///
/// Source: reqwest's default, stated here so that it stays.
const KEEPALIVE: Duration = Duration::from_secs(15);

/// A connection that carried nothing for this long is closed: the nearer the partner's own limit, the likelier a
/// request meets a close on its way.
///
/// Source: the shortest usual limits of servers are 5 s (Apache httpd, Node.js).
const IDLE_MAX: Duration = Duration::from_secs(2);

/// How many turns the runtime gets before a line is used again: one for its sockets, one for the tasks that they wake.
const TURNS: usize = 2;

/// Whether a request may travel on a connection that carried another before.
///
/// A partner may close a kept connection at any time, and what was on its way is in doubt then; one that answers
/// twice answers a request that it was not asked. On a connection of its own neither can happen.
///
/// Source: transport.md 2; semantics.md 1.2 measured 2 of 300 requests lost to such a close.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reuse {
    /// Every attempt opens a connection of its own.
    #[default]
    Never,
    /// A connection whose last answer was read whole is used again within two seconds.
    Allowed,
}

impl Reuse {
    /// Returns whether the run of an operation that begins at `now` may share connections: where a lost answer hurts
    /// nobody, because the method may be repeated or the key protects until the end of the run.
    pub fn of(history: &History, policy: &Policy, now: Now) -> Reuse {
        let end = Now { wall: now.wall.after(policy.timeouts.overall), ..now };
        let view = View::new(history, policy, now);
        let harmless = view.repeatable(policy, end) || view.protects(policy, end);
        if harmless { Reuse::Allowed } else { Reuse::Never }
    }
}

/// What a line is good for. Another target needs another line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Target {
    /// Scheme, host and port.
    pub origin: Origin,
    /// The address that a name stands for: the partner's, or that of a proxy which looks names up itself.
    pub to: SocketAddr,
    /// The proxy that is passed by.
    pub through: Option<Through>,
    /// How long the kernel tries to deliver what was written; a socket has it from its birth.
    pub read: Duration,
    /// Whether connections are kept.
    pub reuse: Reuse,
    /// Whom to trust; `None` for http.
    pub tls: Option<Tls>,
}

/// A proxy and the address at which it is dialled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Through {
    /// The proxy.
    pub proxy: Proxy,
    /// Its address.
    pub at: SocketAddr,
}

impl Target {
    /// Returns what stands between.
    pub fn via(&self) -> Via {
        let is_plain = matches!(&self.origin, Origin::Tuple(scheme, ..) if scheme == "http");
        match &self.through {
            None => Via::Direct,
            Some(through) if is_plain && through.proxy.scheme == Scheme::Http => Via::Forward,
            Some(_) => Via::Tunnel,
        }
    }
}

/// A client for one target. It serves one request at a time and holds at most one idle connection.
#[derive(Debug)]
pub(super) struct Line {
    target: Target,
    client: Client,
    current: Current,
}

impl Line {
    /// Returns a line to `target`. Nothing is opened before the first request.
    ///
    /// # Errors
    /// The client cannot be built.
    pub fn new(target: Target) -> Result<Line, Failure> {
        let current = Current::default();
        let idle_max = match target.reuse {
            Reuse::Never => 0,
            Reuse::Allowed => 1,
        };
        let secure = match &target.tls {
            Some(tls) => tls.config().map_err(|why| Failure::new(Fault::NoTrust, &why))?,
            None => Tls::unused(),
        };
        let builder = match &target.through {
            None => Client::builder().no_proxy(),
            Some(through) => Client::builder().proxy(proxy::of_client(through)?),
        };
        let client = builder
            .tls_backend_preconfigured(secure)
            .connector_layer(ConnectedLayer(current.clone()))
            .dns_resolver(Arc::new(Only(target.to)))
            .redirect(reqwest::redirect::Policy::none())
            .retry(reqwest::retry::never())
            .referer(false)
            .http1_only()
            .pool_max_idle_per_host(idle_max)
            .pool_idle_timeout(IDLE_MAX)
            .tcp_nodelay(true)
            .tcp_keepalive(KEEPALIVE)
            // What we abandon must not be delivered later by the kernel (decisions 23).
            .tcp_user_timeout(target.read.max(Duration::from_millis(1)))
            .build()
            .map_err(Failure::of_builder)?;
        Ok(Line { target, client, current })
    }

    /// Returns whether it leads to `target`.
    pub fn leads_to(&self, target: &Target) -> bool {
        self.target == *target
    }

    /// Sends a request that leaves `marks`. The line must be let go of unless the answer is read whole.
    pub fn send(&self, request: Request, marks: &Marks) -> impl Future<Output = reqwest::Result<Response>> + use<> {
        self.current.set(marks);
        self.client.execute(request)
    }

    /// Returns what an error of the client means where no answer came.
    pub fn failure(&self, error: reqwest::Error, progress: &Progress) -> Failure {
        let failure = Failure::of_exchange(error, progress);
        if progress.stage() == Stage::Connect && self.target.through.is_some() { failure.at_proxy() } else { failure }
    }

    /// Lets the client catch up before it is used again: with the connection that comes back after an answer, else it
    /// would dial another, and with one that the partner has closed since, else the request would be lost on it.
    pub async fn catch_up(&self) {
        if self.target.reuse == Reuse::Allowed {
            for _ in 0..TURNS {
                tokio::task::yield_now().await;
            }
        }
    }
}

/// Resolves every name to one address, so that an attempt dials one address and its limits are not divided.
struct Only(SocketAddr);

impl Resolve for Only {
    fn resolve(&self, _: Name) -> Resolving {
        let addresses: Addrs = Box::new(std::iter::once(self.0));
        Box::pin(std::future::ready(Ok(addresses)))
    }
}
