//! Everything that is decided before a probe runs: arguments to a plan.

use super::super::args::ProbeArgs;
use super::super::exit::Failure;
use super::super::plan::{profile_of, uncomposed};
use super::super::request::Wanted;
use super::super::trust::{self, First};
use super::super::way::{self, Way};
use super::super::world::read_file;
use super::super::{Session, limits, request};
use super::past;
use abide::engine::diagnose::past::Past;
use abide::engine::location;
use abide::engine::operation::{Method, PartnerName, Request};
use abide::engine::policy::Policy;
use abide::engine::secret::Secret;
use abide::net::chance::Chance;
use abide::net::name_servers;
use abide::probe::{ADDRESSES_MAX, Depth, NameServers, Plan as Probe};
use abide::profile::compose::{Composed, Draft, compose};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// The usual deadline.
///
/// Source: somebody waits for it; long enough for three SYNs and a slow answer.
const DEADLINE: Duration = Duration::from_secs(10);

/// More of an answer is not read: it is judged, not kept.
const ANSWER_MAX_BYTES: usize = 1 << 20;

/// Where the system states whom to ask about names, and which it knows.
const RESOLV_CONF: &str = "/etc/resolv.conf";
const HOSTS: &str = "/etc/hosts";

/// What a probe does, and what to say about it.
#[derive(Debug)]
pub struct Plan {
    /// What the dialler does.
    pub probe: Probe,
    /// The partner's name.
    pub partner: PartnerName,
    /// The rules by which a write would be sent.
    pub policy: Policy,
    /// What to say before it begins.
    pub notes: Vec<String>,
    /// What to warn of.
    pub warnings: Vec<String>,
}

/// Reads the arguments.
///
/// # Errors
/// Whatever is wrong with them, the profile or the environment. Nothing was sent.
pub fn make(args: &ProbeArgs, session: &Session) -> Result<Plan, Failure> {
    let profile = profile_of(args.profile.as_deref(), session)?;
    let wall = session.context.wall_clock();
    let draft = draft(args, session)?;
    let composed = compose(profile.as_ref(), &draft).map_err(uncomposed)?;
    let deadline = limits::deadline("deadline", args.deadline.as_deref(), draft.now)?;
    let named = args.tls.paths();
    let tls = trust::of(profile.as_ref(), named.as_ref(), First::Flags, session)?;
    let way = Way::read(args.proxy.as_deref(), profile.as_ref())?;
    let proxy = way.to(composed.operation.request.url.sent.expose())?.map(way::words);
    let Composed { operation, policy, mut mask, .. } = composed;
    way.proxies.hide(&mut mask);
    let request = without_key(&operation.request, operation.key.as_str(), &policy);
    let url = request.url.sent.expose();
    let probe = Probe {
        timeouts: policy.timeouts,
        deadline: deadline.unwrap_or_else(|| policy.timeouts.overall.min(DEADLINE)),
        wall,
        names: way::names(&args.resolve)?,
        is_resolved: is_resolved(&args.resolve, url),
        name_servers: name_servers(),
        tls,
        answer_max_bytes: policy.sizes.response_bytes.min(ANSWER_MAX_BYTES),
        past: Past { measured: policy.measured, ..past::of(&operation.partner, args, session)? },
        mask,
        depth: if args.deep { Depth::Deep } else { Depth::One },
        proxies: way.proxies,
        request: Arc::new(request),
    };
    let write = Method::new("POST").expect("POST is a method");
    let spared = probe.proxies.spared(probe.request.url.sent.expose()).map(|(named, entry)| {
        format!("direct: the exclusion `{entry}` spares this host the proxy {}", way::words(named))
    });
    let deep = args.deep.then(|| match &proxy {
        None => format!("--deep: up to {} GET in place of one", ADDRESSES_MAX + 2),
        Some(_) => "--deep: only the proxy can be reached, so that one GET is all there is to see".into(),
    });
    let by = proxy.map(|proxy| format!("through the proxy {proxy}")).or(spared);
    let notes = by.into_iter().chain(deep).collect();
    let policy = Policy { method: write, ..policy };
    Ok(Plan { probe, partner: operation.partner.clone(), policy, notes, warnings: way.warnings })
}

/// Returns the one request, as `send` would build it.
fn draft(args: &ProbeArgs, session: &Session) -> Result<Draft, Failure> {
    let now = session.now().wall;
    let mut chance = session.context.seed.map_or_else(Chance::from_os, Chance::fixed);
    let wanted = Wanted {
        method: Method::new("GET"),
        target: args.target.clone(),
        headers: request::fields(&args.headers)?,
        user: None,
        body: None,
        json: false,
        warnings: Vec::new(),
    };
    request::measuring(wanted, &chance.key(now), now)
}

/// Returns a request without the key that was made for it: a probe is no operation.
fn without_key(composed: &Request, key: &str, policy: &Policy) -> Request {
    let mut bare = composed.clone();
    bare.headers.retain(|header| !header.value.sent.expose().contains(key));
    bare.url.sent = Secret::new(&request::keyless(composed.url.sent.expose(), policy));
    bare.url.shown = request::keyless(&composed.url.shown, policy).into();
    bare
}

/// Returns whether a flag gives the addresses of the host and port of `url`.
fn is_resolved(given: &[String], url: &str) -> bool {
    let Some(origin) = location::origin(url) else { return false };
    let place = format!("{}:{}:", origin.host, origin.port).to_ascii_lowercase();
    given.iter().any(|given| given.to_ascii_lowercase().starts_with(&place))
}

/// Returns whom to ask about names. A file that cannot be read names nobody.
fn name_servers() -> NameServers {
    let text = |path| read_file(Path::new(path)).ok().map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    NameServers {
        servers: text(RESOLV_CONF).map(|text| name_servers::of_resolv_conf(&text)).unwrap_or_default(),
        hosts: text(HOSTS).map(Into::into),
    }
}
