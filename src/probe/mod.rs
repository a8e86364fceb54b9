//! The diagnostic probe: stage after stage over every address under one deadline, from a plan to observations.
//!
//! Every address is connected to and shaken hands with; **one** request is sent, on the first connection that stands
//! (decisions 33). Through a proxy only the proxy is dialled, and the one request goes by the transport of `send`.
//! What the observations mean, [`crate::engine::diagnose`] says.

mod addresses;
mod deep;
mod names;
mod proxied;

use crate::engine::deadline::Limits;
use crate::engine::diagnose::observations::{Observations, Proxy, ProxySource, Setup, Target};
use crate::engine::diagnose::past::Past;
use crate::engine::exchange::{Distrust, Ending, Exchange, Fault, Limit, Outcome, Sent, Stage};
use crate::engine::operation::Request;
use crate::engine::policy::Timeouts;
use crate::engine::proxy::{Named, Proxies};
use crate::engine::secret::Mask;
use crate::net::clock::Wall;
use crate::net::dial::{DialSettings, Dialler};
use crate::net::{Names, Tls, Wire, WireSettings};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

pub use addresses::ADDRESSES_MAX;

/// What a probe does.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The request: a safe one, without a body.
    pub request: Arc<Request>,
    /// How long each stage may take.
    pub timeouts: Timeouts,
    /// How long the whole may take, name lookups included.
    pub deadline: Duration,
    /// What is hidden in texts.
    pub mask: Mask,
    /// Our wall clock.
    pub wall: Wall,
    /// The names that are known.
    pub names: Names,
    /// The addresses were given: there is nothing to look up.
    pub is_resolved: bool,
    /// Whom to ask about names beside the system.
    pub name_servers: NameServers,
    /// Whom to trust on https, and what to show.
    pub tls: Tls,
    /// Which proxies are passed by.
    pub proxies: Proxies,
    /// More of an answer's body is not read.
    pub answer_max_bytes: usize,
    /// What is known from earlier.
    pub past: Past,
    /// Whether one request is enough.
    pub depth: Depth,
}

/// How much a probe asks of the partner.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Depth {
    /// One request.
    #[default]
    One,
    /// One more on the same connection, one to every other address, and one by the transport of `send`.
    Deep,
}

/// Whom to ask about names beside the system's own lookup.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NameServers {
    /// The name servers; empty asks none.
    pub servers: Vec<SocketAddr>,
    /// The text of the file of hosts; `None` where it cannot be read.
    pub hosts: Option<Box<str>>,
}

/// A probe under way.
struct Probe<'a> {
    plan: &'a Plan,
    started: Instant,
    seen: Observations,
}

/// Probes, and returns what was seen, at the latest when the deadline is over.
pub async fn probe(plan: &Plan) -> Observations {
    let begun = plan.wall.now();
    let mut probe = Probe { plan, started: Instant::now(), seen: Observations::default() };
    probe.seen.target = target(&plan.request);
    probe.seen.past = plan.past.clone();
    match plan.proxies.of(plan.url()) {
        Ok(None) => probe.direct().await,
        Ok(Some(named)) => {
            probe.seen.proxy = Some(described(named));
            probe.proxied(named).await;
        }
        Err(misnamed) => probe.refuse(&misnamed.to_string()),
    }
    let Probe { mut seen, started, .. } = probe;
    let ended = plan.wall.now();
    seen.setup.clock_step = clock_step(plan.wall, ended.unix_ms() - begun.unix_ms(), started.elapsed());
    seen.deadline_reached = seen.deadline_reached.or_else(|| cut_stage(&seen, started.elapsed() >= plan.deadline));
    seen.at = Some(ended);
    hide(&mut seen, &plan.mask);
    seen
}

/// Hides what is secret in what the partner said: it may send back what it was sent. Before anything is cut or broken
/// into lines, where a part of a secret would not be known any more.
fn hide(seen: &mut Observations, mask: &Mask) {
    let replies = seen.addresses.iter_mut().filter_map(|address| address.reply.as_deref_mut());
    for exchange in replies.chain(&mut seen.exchange).chain(&mut seen.second_pass) {
        let Outcome::Answered(answer) = &mut exchange.outcome else { continue };
        for (_, value) in &mut answer.headers.0 {
            *value = mask.hide(value).into();
        }
    }
}

impl Plan {
    fn url(&self) -> &str {
        self.request.url.sent.expose()
    }

    fn wire(&self) -> Wire {
        Wire::new(WireSettings {
            answer_max_bytes: self.answer_max_bytes,
            mask: self.mask.clone(),
            wall: self.wall,
            names: self.names.clone(),
            tls: self.tls.clone(),
            proxies: self.proxies.clone(),
        })
    }

    fn dialler(&self) -> Result<Dialler, Box<str>> {
        let settings = DialSettings {
            tls: self.tls.clone(),
            mask: self.mask.clone(),
            wall: self.wall,
            answer_max_bytes: self.answer_max_bytes,
            read: self.timeouts.read,
        };
        Dialler::new(self.url(), settings)
    }
}

impl Probe<'_> {
    /// Counts a request that left, or may have.
    fn count(&mut self, exchange: &Exchange) {
        let is_sent = !matches!(exchange.outcome, Outcome::Unanswered { sent: Sent::Nothing, .. });
        self.seen.requests += u32::from(is_sent);
    }

    fn left(&self) -> Duration {
        self.plan.deadline.saturating_sub(self.started.elapsed())
    }

    /// Returns how long the connection may take from here.
    fn left_to_connect(&self) -> Duration {
        self.left().min(self.plan.timeouts.connect)
    }

    /// Returns the limits of the one request, once a connection stands.
    fn limits(&self) -> Limits {
        Limits::new(&self.plan.timeouts, self.left())
    }

    fn refuse(&mut self, why: &str) {
        let words = self.plan.mask.hide(why).into();
        self.seen.setup.trouble = Some(crate::engine::diagnose::observations::Trouble::Usage(words));
    }

    async fn direct(&mut self) {
        let dialler = match self.plan.dialler() {
            Ok(dialler) => dialler,
            Err(why) => return self.refuse(&why),
        };
        let Some(addresses) = self.look_up().await else { return };
        self.look_at_routes(&addresses);
        let kept = self.dial_all(&dialler, &addresses).await;
        self.set_clocks_straight(&dialler).await;
        if self.plan.depth == Depth::Deep {
            self.deepen(&dialler, kept).await;
        }
    }

    /// Notes whether the kernel has a route, and which address our packets leave from. Nothing is sent.
    fn look_at_routes(&mut self, addresses: &[SocketAddr]) {
        let routes: Vec<io::Result<IpAddr>> = addresses.iter().map(|addr| egress(*addr)).collect();
        let is_missing = |route: &io::Result<IpAddr>| {
            route.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::NetworkUnreachable)
        };
        // A route that forbids the way is one: the connection tells which.
        let has_route = match routes.iter().all(is_missing) {
            _ if routes.is_empty() => None,
            true => Some(false),
            false => routes.iter().any(io::Result::is_ok).then_some(true),
        };
        let egress = routes.into_iter().find_map(io::Result::ok);
        self.seen.setup = Setup { has_route, egress, ..Setup::default() };
    }

    /// Compares the clocks: by the answer, else, where a certificate is out of date, over an unverified connection.
    async fn set_clocks_straight(&mut self, dialler: &Dialler) {
        if let Some(skew) = self.seen.exchange.as_ref().and_then(skew_of) {
            self.seen.skew = Some(skew);
            return;
        }
        let out_of_date =
            |fault| matches!(fault, Fault::Certificate(Distrust::Expired) | Fault::Certificate(Distrust::NotYetValid));
        let outcome = |address: &&_| {
            let address: &&crate::engine::diagnose::observations::Address = address;
            address.tls.as_ref().is_some_and(|tls| tls.outcome.is_err_and(out_of_date))
        };
        if let Some(addr) = self.seen.addresses.iter().find(outcome).map(|address| address.addr) {
            self.seen.skew = dialler.date(addr, self.left_to_connect()).await;
        }
    }
}

/// Returns how far the clocks are apart by an answer: it was sent when its first byte less the wait for it was.
fn skew_of(exchange: &Exchange) -> Option<crate::engine::diagnose::clock::Skew> {
    let Outcome::Answered(answer) = &exchange.outcome else { return None };
    let round_trip = Duration::from_micros(exchange.stages.first_byte_us?);
    crate::engine::diagnose::clock::Skew::of(&answer.headers, exchange.at.before(round_trip), round_trip)
}

fn target(request: &Request) -> Target {
    Target {
        method: Some(request.method.as_str().into()),
        url: Some(request.url.shown.clone()),
        json: Some(request.wants_json()),
    }
}

fn described(named: &Named) -> Proxy {
    let source = match named.by {
        "-x" => ProxySource::Flag,
        "[proxy]" => ProxySource::Profile,
        variable => ProxySource::Variable(variable.into()),
    };
    Proxy { name: named.proxy.name().into(), source, outcome: None, before: None }
}

/// Returns the address that packets to `addr` leave from.
///
/// # Errors
/// The kernel's word on the route, where there is none or one that forbids the way.
fn egress(addr: SocketAddr) -> io::Result<IpAddr> {
    let any = if addr.is_ipv4() { IpAddr::from(Ipv4Addr::UNSPECIFIED) } else { Ipv6Addr::UNSPECIFIED.into() };
    let socket = UdpSocket::bind((any, 0))?;
    // A datagram socket is connected by looking at the routes.
    socket.connect(addr)?;
    Ok(socket.local_addr()?.ip())
}

/// A smaller step is noise of the two clocks.
const STEP_MIN: Duration = Duration::from_millis(500);

/// Returns how far the wall clock was stepped while `elapsed` went by; `None` for a clock that stands still.
fn clock_step(wall: Wall, wall_ms: i64, elapsed: Duration) -> Option<Duration> {
    if wall != Wall::System {
        return None;
    }
    let elapsed_ms = i64::try_from(elapsed.as_millis()).unwrap_or(i64::MAX);
    let step = Duration::from_millis(wall_ms.saturating_sub(elapsed_ms).unsigned_abs());
    Some(if step < STEP_MIN { Duration::ZERO } else { step })
}

/// Returns the stage that the deadline ended; `None` where the probe came to its own end.
fn cut_stage(seen: &Observations, is_over: bool) -> Option<Stage> {
    match seen.exchange.as_ref().map(|exchange| &exchange.outcome) {
        Some(Outcome::Unanswered { fault: Fault::TimedOut(Limit::Deadline), stage, .. }) => return Some(*stage),
        Some(Outcome::Answered(answer)) => {
            return (answer.ending == Ending::Cut(Fault::TimedOut(Limit::Deadline))).then_some(Stage::Body);
        }
        Some(Outcome::Unanswered { .. }) => return None,
        None if !is_over || seen.setup.trouble.is_some() => return None,
        None => {}
    }
    let connected = seen.addresses.iter().any(|address| address.is_connected());
    Some(match (seen.addresses.is_empty(), connected) {
        (true, _) => Stage::Resolve,
        (false, false) => Stage::Connect,
        (false, true) => Stage::Tls,
    })
}
