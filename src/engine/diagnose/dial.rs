//! What became of the TCP connections: the table of errors, and what all addresses together say.

use super::code::Code;
use super::judgement::Judgement;
use super::observations::{Address, Observations};
use super::past::Before;
use crate::engine::exchange::{Fault, Limit, Stage};
use crate::engine::units::show_rounded;
use crate::engine::verdict::Side;
use std::time::Duration;

/// What became of a TCP connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Connect {
    /// Whether it stands.
    pub outcome: Result<(), ConnectFailure>,
    /// How long it took, or was waited for.
    pub took: Option<Duration>,
    /// How often the SYN was sent again.
    pub syns_resent: Option<u32>,
}

/// Why a TCP connection did not come about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectFailure {
    /// No answer came: our own timer or ETIMEDOUT.
    Silent,
    /// ECONNREFUSED, or a reset.
    Refused,
    /// ENETUNREACH.
    NetworkUnreachable,
    /// EHOSTUNREACH.
    HostUnreachable,
    /// EACCES or EPERM.
    Denied,
    /// EINVAL.
    Invalid,
    /// Descriptors, ports or buffers ran out.
    LocalResources,
    /// Anything else.
    Other,
}

impl ConnectFailure {
    /// Returns what a table of addresses says.
    pub const fn words(self) -> &'static str {
        match self {
            ConnectFailure::Silent => "no answer",
            ConnectFailure::Refused => "refused",
            ConnectFailure::NetworkUnreachable => "network unreachable",
            ConnectFailure::HostUnreachable => "host unreachable",
            ConnectFailure::Denied => "not permitted",
            ConnectFailure::Invalid => "invalid",
            ConnectFailure::LocalResources => "no resources",
            ConnectFailure::Other => "failed",
        }
    }

    /// Returns the name of the error that the system gives; `None` where there is not one.
    pub const fn errno(self) -> Option<&'static str> {
        match self {
            ConnectFailure::Silent => Some("ETIMEDOUT"),
            ConnectFailure::Refused => Some("ECONNREFUSED"),
            ConnectFailure::NetworkUnreachable => Some("ENETUNREACH"),
            ConnectFailure::HostUnreachable => Some("EHOSTUNREACH"),
            ConnectFailure::Denied => Some("EACCES"),
            ConnectFailure::Invalid => Some("EINVAL"),
            ConnectFailure::LocalResources | ConnectFailure::Other => None,
        }
    }
}

impl ConnectFailure {
    /// Returns what the transport of `send` would call it.
    pub const fn fault(self) -> Fault {
        match self {
            ConnectFailure::Silent => Fault::TimedOut(Limit::Connect),
            ConnectFailure::Refused => Fault::ConnectionRefused,
            ConnectFailure::NetworkUnreachable | ConnectFailure::HostUnreachable => Fault::Unreachable,
            ConnectFailure::Denied | ConnectFailure::LocalResources => Fault::LocalResources,
            ConnectFailure::Invalid | ConnectFailure::Other => Fault::Other,
        }
    }
}

/// Where no round trip is known, an error within this time comes from this machine.
///
/// Source: latency.md 6.4, where errors of this machine came within a tenth of it.
const AT_ONCE: Duration = Duration::from_millis(1);

/// A host on our own segment that does not answer is given up by the kernel after three seconds.
///
/// Source: latency.md 6.4 (3.06 s).
const NEIGHBOUR: std::ops::Range<Duration> = Duration::from_millis(2_900)..Duration::from_millis(3_500);

/// A lost SYN is sent again after this time: before, silence proves nothing.
///
/// Source: RFC 6298 section 2.
pub(super) const FIRST_RESEND: Duration = Duration::from_secs(1);

/// Returns the cause of a failure, and whose fault it is.
///
/// `smallest_rtt` is the smallest round trip that was ever seen to the address: what comes sooner was never there.
///
/// Source: latency.md 6.4.
pub fn cause(failure: ConnectFailure, took: Option<Duration>, smallest_rtt: Option<Duration>) -> (Code, Side) {
    let is_local = took.map(|took| took < smallest_rtt.unwrap_or(AT_ONCE));
    let is_neighbour = took.is_some_and(|took| NEIGHBOUR.contains(&took));
    match failure {
        ConnectFailure::Denied | ConnectFailure::Invalid => (Code::RouteDenied, Side::Ours),
        ConnectFailure::LocalResources => (Code::LocalResources, Side::Ours),
        ConnectFailure::NetworkUnreachable if is_local != Some(false) => (Code::NoRoute, Side::Ours),
        ConnectFailure::HostUnreachable if is_local == Some(true) => (Code::RouteDenied, Side::Ours),
        ConnectFailure::HostUnreachable if is_neighbour => (Code::NeighbourSilent, Side::Network),
        ConnectFailure::NetworkUnreachable | ConnectFailure::HostUnreachable => (Code::Rejected, Side::Network),
        // Only a round trip that was seen tells our own firewall from a partner next door.
        ConnectFailure::Refused if is_local == Some(true) && smallest_rtt.is_some() => (Code::RejectedHere, Side::Ours),
        ConnectFailure::Refused => (Code::Refused, Side::Theirs),
        ConnectFailure::Silent => (Code::Filtered, Side::Network),
        ConnectFailure::Other => (Code::NoConnection, Side::Unclear),
    }
}

/// Returns how many addresses connect, in words: `2 of 3 addresses connect`, or `its address connects`.
pub(super) fn connecting(connected: usize, all: usize) -> String {
    match (connected, all) {
        (1, 1) => "its address connects".into(),
        (1, all) => format!("1 of {all} addresses connects"),
        (connected, all) => format!("{connected} of {all} addresses connect"),
    }
}

/// Rules 3, 5 and 6: nothing can be connected to.
pub(super) fn judge(seen: &Observations) -> Option<Judgement> {
    let works = seen.addresses.iter().any(Address::is_connected) || seen.answer().is_some();
    if seen.setup.has_route == Some(false) && !works {
        return Some(Judgement::new(Code::NoRoute, Side::Ours).fact("the kernel has no route to these addresses"));
    }
    let failed = failed(seen)?;
    let causes: Vec<(Code, Side)> =
        failed.iter().map(|failed| cause(failed.failure, failed.took, failed.smallest_rtt)).collect();
    // A family of addresses that has no way here says nothing while another has one.
    let remote = causes.iter().copied().filter(|(_, side)| *side != Side::Ours).map(|(code, _)| code);
    let remote: Vec<Code> = remote.collect();
    let judgement = match (&*remote, &*causes) {
        ([], [(code, side), ..]) => Judgement::new(*code, *side),
        (remote, _) if remote.iter().all(|code| *code == Code::Refused) => refused(seen),
        (remote, _) if remote.iter().all(|code| *code == Code::Filtered) => filtered(seen, &failed),
        ([first, ..], _) if remote.iter().all(|code| code == first) => Judgement::new(*first, side_of(*first)),
        (remote, _) if remote.contains(&Code::Refused) => Judgement::new(Code::NoConnection, Side::Theirs),
        _ => Judgement::new(Code::NoConnection, Side::Network),
    };
    Some(with_evidence(judgement, seen, &failed))
}

fn side_of(code: Code) -> Side {
    if code == Code::NoConnection { Side::Unclear } else { Side::Network }
}

/// One failed connection.
struct Failed<'a> {
    address: Option<&'a Address>,
    failure: ConnectFailure,
    took: Option<Duration>,
    smallest_rtt: Option<Duration>,
}

/// Returns every failure, where no connection came about; `None` where one did, or none was tried.
fn failed(seen: &Observations) -> Option<Vec<Failed<'_>>> {
    if seen.addresses.iter().any(Address::is_connected) {
        return None;
    }
    let of_address = |address: &'_ Address| address.connect.and_then(|connect| Some((connect, connect.outcome.err()?)));
    let failed = seen.addresses.iter().filter_map(|address| {
        let (connect, failure) = of_address(address)?;
        Some(Failed { address: Some(address), failure, took: connect.took, smallest_rtt: address.smallest_rtt })
    });
    let failed: Vec<Failed<'_>> = failed.collect();
    if failed.is_empty() { of_exchange(seen).map(|failed| vec![failed]) } else { Some(failed) }
}

/// Returns what the exchange says of its connection, where no address was looked at by itself.
fn of_exchange(seen: &Observations) -> Option<Failed<'_>> {
    let (stage, fault) = seen.failure()?;
    let failure = match fault {
        Fault::ConnectionRefused => ConnectFailure::Refused,
        Fault::LocalResources => ConnectFailure::LocalResources,
        Fault::Unreachable if stage == Stage::Connect => ConnectFailure::HostUnreachable,
        Fault::TimedOut(_) if stage == Stage::Connect => ConnectFailure::Silent,
        Fault::Reset if stage == Stage::Connect => ConnectFailure::Refused,
        _ if stage == Stage::Connect => ConnectFailure::Other,
        _ => return None,
    };
    let took = seen.exchange.as_ref()?.stages.connect_us.map(Duration::from_micros);
    Some(Failed { address: None, failure, took, smallest_rtt: None })
}

/// Rule 5. A port that never answered may be the wrong one.
fn refused(seen: &Observations) -> Judgement {
    match seen.past.before {
        Some(Before::Never) => Judgement::new(Code::Refused, Side::Configuration)
            .fact("it never worked from here: perhaps the port is wrong"),
        Some(Before::Worked { ago }) => {
            Judgement::new(Code::Refused, Side::Theirs).fact(format!("it worked from here {} ago", show_rounded(ago)))
        }
        None => Judgement::new(Code::Refused, Side::Theirs),
    }
}

/// Rule 6. Who was never let in was perhaps never allowed.
fn filtered(seen: &Observations, failed: &[Failed<'_>]) -> Judgement {
    let of_addresses = || failed.iter().filter_map(|failed| failed.address?.before);
    let recent = of_addresses().chain(seen.past.before).find(|before| before.is_recent());
    let never = of_addresses().chain(seen.past.before).all(|before| before == Before::Never);
    let is_known = of_addresses().chain(seen.past.before).next().is_some();
    let resent = failed.iter().any(|failed| failed.address.and_then(resent_syns).is_some_and(|count| count > 0));
    let too_short = |failed: &Failed<'_>| failed.took.is_some_and(|took| took < FIRST_RESEND);
    if !resent && failed.iter().all(too_short) {
        return Judgement::unclear(Code::Deadline)
            .note("a lost first packet is sent again after a second: the wait was too short to tell");
    }
    let allow = format!("ask the partner to allow {}", egress(seen));
    match recent {
        Some(Before::Worked { ago }) => Judgement::new(Code::Filtered, Side::Network)
            .fact(format!("it worked from here {} ago", show_rounded(ago)))
            .next("ask the partner whether it is up, and your network's people whether something changed"),
        _ if is_known && never => {
            Judgement::new(Code::Filtered, Side::Configuration).fact("it never worked from here").next(allow)
        }
        _ => Judgement::new(Code::Filtered, Side::Network)
            .doubted("whether it worked from here in the last seven days is not known")
            .next(allow),
    }
}

fn resent_syns(address: &Address) -> Option<u32> {
    address.connect?.syns_resent
}

/// Returns our address in words.
pub(super) fn egress(seen: &Observations) -> String {
    match seen.setup.egress {
        Some(egress) => format!("our address ({egress}, or the one that a translator gives us)"),
        None => "the address that we come from".into(),
    }
}

/// No more addresses are listed.
const LISTED_MAX: usize = 4;

fn with_evidence(judgement: Judgement, seen: &Observations, failed: &[Failed<'_>]) -> Judgement {
    let told = failed.iter().take(LISTED_MAX).map(|failed| {
        let who = failed.address.map_or("the partner".into(), |address| address.addr.to_string());
        let took = failed.took.map(|took| format!(" after {}", show_rounded(took))).unwrap_or_default();
        let resent = failed.address.and_then(resent_syns).filter(|count| *count > 0);
        let resent = resent.map(|count| format!(", SYN sent {} times", count + 1)).unwrap_or_default();
        format!("{who}: {}{took}{resent}", failed.failure.words())
    });
    let told = told.collect::<Vec<_>>().join("; ");
    let more = if failed.len() > LISTED_MAX { format!("; {} more", failed.len() - LISTED_MAX) } else { String::new() };
    let judgement = judgement.fact(format!("{told}{more}"));
    let judgement = match failed.len() {
        0 | 1 => judgement,
        count => judgement.fact(format!("all {count} addresses fail")),
    };
    match seen.names.in_hosts_file {
        Some(true) => judgement
            .doubted("the address comes from this machine's file of hosts, not from the name servers")
            .next("check the entry of this name in the file of hosts (/etc/hosts)"),
        _ => judgement,
    }
}
