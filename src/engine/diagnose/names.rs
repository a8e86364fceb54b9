//! What became of the name: the system's own lookup, and what each name server says to the same question.

use super::code::Code;
use super::judgement::Judgement;
use super::observations::Observations;
use crate::engine::exchange::{Fault, Limit, Stage};
use crate::engine::units::show_rounded;
use crate::engine::verdict::Side;
use std::net::IpAddr;
use std::time::Duration;

/// What became of the name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names {
    /// What the system's lookup (getaddrinfo) says; `None` where it was not asked, as for an address in the URL.
    pub lookup: Option<Lookup>,
    /// What the name servers say, one entry for each question to each.
    pub replies: Vec<Reply>,
    /// The name has an entry in the file of hosts, which hides the name servers.
    pub in_hosts_file: Option<bool>,
}

/// What the system's lookup says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lookup {
    /// What came of it.
    pub outcome: Result<(), LookupFailure>,
    /// How long it took.
    pub took: Option<Duration>,
}

/// Why the system's lookup found nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LookupFailure {
    /// The name does not exist, or has no address (EAI_NONAME).
    Unknown,
    /// The name exists and has no address (EAI_NODATA).
    Empty,
    /// The name servers could not answer (EAI_AGAIN, EAI_FAIL).
    Unavailable,
    /// It took longer than the limit.
    TimedOut,
}

impl LookupFailure {
    /// Returns what the transport of `send` would call it.
    pub const fn fault(self) -> Fault {
        match self {
            LookupFailure::Unknown | LookupFailure::Empty => Fault::NameUnknown,
            LookupFailure::Unavailable => Fault::NameUnavailable,
            LookupFailure::TimedOut => Fault::TimedOut(Limit::Connect),
        }
    }
}

/// What a name server says to one question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reply {
    /// The name server.
    pub server: IpAddr,
    /// What it was asked for.
    pub question: Question,
    /// Its answer; `None` where none came in time.
    pub answer: Option<Rcode>,
    /// How long it took, or was waited for.
    pub took: Option<Duration>,
}

/// What a name server is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Question {
    /// IPv4 addresses.
    A,
    /// IPv6 addresses.
    Aaaa,
}

/// How a name server answers.
///
/// Source: RFC 1035 section 4.1.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rcode {
    /// NOERROR, with so many addresses; none is known as NODATA.
    Found(u32),
    /// SERVFAIL.
    ServFail,
    /// NXDOMAIN.
    NxDomain,
    /// REFUSED.
    Refused,
    /// Another code: its number.
    Other(u8),
}

impl Rcode {
    /// Returns the name that experts know it by.
    pub fn name(self) -> String {
        match self {
            Rcode::Found(0) => "NODATA".into(),
            Rcode::Found(_) => "NOERROR".into(),
            Rcode::ServFail => "SERVFAIL".into(),
            Rcode::NxDomain => "NXDOMAIN".into(),
            Rcode::Refused => "REFUSED".into(),
            Rcode::Other(code) => format!("RCODE {code}"),
        }
    }
}

/// What all name servers together say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Say {
    /// Nobody was asked.
    Unasked,
    Silent,
    Found,
    NxDomain,
    Empty,
    ServFail,
    Refused,
    /// They say different things.
    Mixed,
}

/// Rule 4: the name.
pub(super) fn judge(seen: &Observations) -> Option<Judgement> {
    let failure = failure(seen)?;
    let say = say(&seen.names.replies);
    let judgement = match (say, failure) {
        (Say::Silent, _) => Judgement::new(Code::NamesSilent, Side::Ours),
        (Say::NxDomain, _) => Judgement::new(Code::NameUnknown, Side::Configuration),
        (Say::Empty, _) => Judgement::new(Code::NameEmpty, Side::Configuration),
        (Say::ServFail, _) => Judgement::new(Code::NamesBroken, Side::Theirs),
        (Say::Refused, _) => Judgement::new(Code::NamesRefuse, Side::Ours),
        (Say::Found, _) => Judgement::new(Code::NamesLocal, Side::Ours),
        (Say::Mixed | Say::Unasked, LookupFailure::Unknown) => Judgement::new(Code::NameUnknown, Side::Configuration),
        (Say::Mixed | Say::Unasked, LookupFailure::Empty) => Judgement::new(Code::NameEmpty, Side::Configuration),
        (Say::Unasked, LookupFailure::TimedOut) => Judgement::new(Code::NamesSilent, Side::Ours),
        (Say::Mixed | Say::Unasked, _) => Judgement::new(Code::NamesFailed, Side::Unclear),
    };
    Some(with_evidence(judgement, seen, failure, say))
}

/// Returns why no address is known; `None` where one is, and where nobody looked.
fn failure(seen: &Observations) -> Option<LookupFailure> {
    if !seen.addresses.is_empty() {
        return None;
    }
    match (seen.names.lookup, seen.failure()) {
        (Some(lookup), _) => lookup.outcome.err(),
        (None, Some((_, Fault::NameUnknown))) => Some(LookupFailure::Unknown),
        (None, Some((_, Fault::NameUnavailable))) => Some(LookupFailure::Unavailable),
        (None, Some((Stage::Resolve, Fault::TimedOut(_)))) => Some(LookupFailure::TimedOut),
        (None, Some((Stage::Resolve, _))) => Some(LookupFailure::Unavailable),
        (None, _) => None,
    }
}

/// Returns what the name servers say together. One that stays silent beside one that answers does not count.
fn say(replies: &[Reply]) -> Say {
    let mut answers = replies.iter().filter_map(|reply| reply.answer).peekable();
    if replies.is_empty() {
        return Say::Unasked;
    }
    if answers.peek().is_none() {
        return Say::Silent;
    }
    let all: Vec<Rcode> = answers.collect();
    let every = |wanted: fn(&Rcode) -> bool| all.iter().all(wanted);
    if all.iter().any(|rcode| matches!(rcode, Rcode::Found(1..))) {
        return Say::Found;
    }
    if every(|rcode| *rcode == Rcode::NxDomain) {
        Say::NxDomain
    } else if every(|rcode| *rcode == Rcode::Found(0)) {
        Say::Empty
    } else if every(|rcode| *rcode == Rcode::ServFail) {
        Say::ServFail
    } else if every(|rcode| *rcode == Rcode::Refused) {
        Say::Refused
    } else {
        Say::Mixed
    }
}

fn with_evidence(judgement: Judgement, seen: &Observations, failure: LookupFailure, say: Say) -> Judgement {
    let host = seen.target.host().unwrap_or("the host");
    let took = seen.names.lookup.and_then(|lookup| lookup.took);
    let took = took.map(|took| format!(" after {}", show_rounded(took))).unwrap_or_default();
    let words = match failure {
        LookupFailure::Unknown => format!("this machine finds no {host}{took}"),
        LookupFailure::Empty => format!("this machine finds no address of {host}{took}"),
        LookupFailure::Unavailable => format!("this machine cannot look up {host} now{took}"),
        LookupFailure::TimedOut => format!("this machine has not found {host}{took}"),
    };
    let judgement = match seen.names.lookup.is_some() || seen.exchange.is_some() {
        true => judgement.fact(words),
        false => judgement,
    };
    let told = told(&seen.names.replies);
    match say {
        Say::Unasked => judgement,
        Say::Mixed => judgement.doubted(told),
        _ => judgement.fact(told),
    }
}

/// No more name servers are listed.
const SERVERS_MAX: usize = 4;

/// Returns who says what: `10.0.0.2 says NXDOMAIN (8ms)`.
fn told(replies: &[Reply]) -> String {
    let mut told: Vec<String> = Vec::new();
    for reply in replies {
        let took = reply.took.map(|took| format!(" ({})", show_rounded(took))).unwrap_or_default();
        let server = reply.server;
        let words = match reply.answer {
            Some(rcode) => format!("{server} says {}", rcode.name()),
            None => format!("{server} is silent"),
        };
        // Both questions to one server mostly get the same answer.
        if told.len() < SERVERS_MAX && !told.iter().any(|known| known.starts_with(&words)) {
            told.push(words + &took);
        }
    }
    told.join(", ")
}
