//! The name: the system's lookup, and the same question to each name server beside it.

use super::Probe;
use crate::drive::Transport;
use crate::engine::diagnose::names::{Lookup, LookupFailure, Reply};
use crate::engine::exchange::{Exchange, Fault, Outcome};
use crate::engine::location;
use crate::net::name_servers;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio::time::Instant;

/// How long a name server may take that the system's own lookup did not need.
///
/// Source: resolv.conf(5): the system itself waits for 5 s; a probe has to end.
const SERVER_LIMIT: Duration = Duration::from_secs(3);

impl Probe<'_> {
    /// Looks the partner's name up, and returns its addresses; `None` where there are none, which is then noted.
    pub(super) async fn look_up(&mut self) -> Option<Vec<SocketAddr>> {
        let (plan, limit, started) = (self.plan, self.left_to_connect(), Instant::now());
        let host = location::origin(plan.url()).map(|origin| origin.host.to_owned()).unwrap_or_default();
        let is_name = host.trim_matches(['[', ']']).parse::<IpAddr>().is_err();
        let is_asked = is_name && !plan.is_resolved;
        let asking = if is_asked { self.ask_servers(&host, limit) } else { None };
        let found = plan.wire().lookup(plan.url(), limit).await;
        let took = Some(started.elapsed());
        let outcome = found.as_ref().map(|_| ()).map_err(why);
        if is_asked {
            self.seen.names.lookup = Some(Lookup { outcome, took });
        }
        if let Some(asking) = asking {
            self.seen.names.replies = replies(asking, outcome.is_ok()).await;
        }
        found.ok().map(|way| way.addresses)
    }

    /// Begins to ask the name servers, unless the file of hosts answers in their place.
    fn ask_servers(&mut self, host: &str, limit: Duration) -> Option<JoinHandle<Vec<Reply>>> {
        let known = &self.plan.name_servers;
        let is_listed = known.hosts.as_ref().map(|hosts| name_servers::is_in_hosts(hosts, host));
        self.seen.names.in_hosts_file = is_listed;
        if is_listed == Some(true) || known.servers.is_empty() || host.eq_ignore_ascii_case("localhost") {
            return None;
        }
        let (servers, host) = (known.servers.clone(), host.to_owned());
        // Less than the lookup: what the servers say explains it, and is there when it ends.
        let limit = limit.saturating_sub(limit / 10).min(SERVER_LIMIT);
        Some(tokio::spawn(async move { name_servers::ask(&servers, &host, limit).await }))
    }
}

/// Returns what the name servers say. Once the system has found the name they are not waited for.
async fn replies(asking: JoinHandle<Vec<Reply>>, is_found: bool) -> Vec<Reply> {
    if is_found && !asking.is_finished() {
        asking.abort();
        return Vec::new();
    }
    asking.await.unwrap_or_default()
}

/// Returns why the system's lookup found nothing.
fn why(failed: &Exchange) -> LookupFailure {
    /// EAI_NODATA, which the standard library keeps as text only.
    const EMPTY: &str = "No address associated with hostname";
    let words = failed.error.as_deref().unwrap_or_default();
    match failed.outcome {
        Outcome::Unanswered { fault: Fault::TimedOut(_), .. } => LookupFailure::TimedOut,
        Outcome::Unanswered { fault: Fault::NameUnknown, .. } if words.contains(EMPTY) => LookupFailure::Empty,
        Outcome::Unanswered { fault: Fault::NameUnknown, .. } => LookupFailure::Unknown,
        _ => LookupFailure::Unavailable,
    }
}
