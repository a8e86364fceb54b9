//! What the partner's answer says, or that there is none: rules 10, 11 and 13.

mod edge;
mod status;

use super::code::Code;
use super::dial::FIRST_RESEND;
use super::judgement::Judgement;
use super::observations::Observations;
use super::tcp::Delivery;
use crate::engine::exchange::{Ending, Fault, Limit, Outcome, Sent, Stage, Via};
use crate::engine::units::{counted, show_rounded};
use crate::engine::verdict::Side;
use std::time::Duration;

pub(super) use edge::id;
pub(super) use status::judge as judge_status;

/// Rule 10: the request went out, or may have, and no answer came.
pub(super) fn judge_silence(seen: &Observations) -> Option<Judgement> {
    let exchange = seen.exchange.as_ref()?;
    let Outcome::Unanswered { sent, stage, fault } = exchange.outcome else { return None };
    if matches!(stage, Stage::Resolve | Stage::Connect | Stage::Tls) {
        return None;
    }
    let judgement = match fault {
        Fault::TimedOut(_) => silent(seen, stage),
        Fault::Reset => ended(seen, Code::AppReset, sent),
        Fault::Closed | Fault::Alert | Fault::Other | Fault::Unreachable => ended(seen, Code::AppClosed, sent),
        Fault::NotHttp => Judgement::new(Code::AppNotHttp, Side::Theirs).fact("bytes came, and they are no HTTP"),
        Fault::HeadTooLarge => Judgement::new(Code::AppHeadTooLarge, Side::Theirs).fact("the head is too large"),
        _ => return None,
    };
    Some(judgement)
}

/// Returns how long the one request waited for its answer.
fn waited(seen: &Observations) -> Option<Duration> {
    let exchange = seen.exchange.as_ref()?;
    let stages = exchange.stages;
    let before = [stages.resolve_us, stages.connect_us, stages.tls_us, stages.write_us];
    let before = before.into_iter().flatten().fold(0u64, u64::saturating_add);
    let rest = || exchange.took.saturating_sub(Duration::from_micros(before));
    Some(stages.first_byte_us.map_or_else(rest, Duration::from_micros))
}

/// Returns whether a silence of this length says nothing: others were answered later, or a lost packet could not have
/// been sent again.
fn is_too_short(seen: &Observations, waited: Option<Duration>) -> bool {
    let patience = seen.past.first_byte_p99().map_or(FIRST_RESEND, |p99| p99.max(FIRST_RESEND));
    waited.is_some_and(|waited| waited < patience)
}

fn silent(seen: &Observations, stage: Stage) -> Judgement {
    let waited = waited(seen);
    let tcp = seen.asked_tcp().copied().unwrap_or_default();
    let after = waited.map(|waited| format!("no answer for {}", show_rounded(waited))).unwrap_or_default();
    if tcp.delivery() == Some(Delivery::Unacknowledged) && tcp.was_resent() != Some(false) {
        return Judgement::new(Code::RequestLost, Side::Network)
            .fact(tcp.words())
            .fact_if(seen.asked_address().map(|address| format!("{} took the connection before", address.addr)))
            .note(after)
            .note("the partner may have the request all the same: a lost acknowledgement looks like a lost request");
    }
    let usual = seen.past.first_byte_p99();
    let came_within = usual.map(|p99| format!("99 of 100 answers came within {}", show_rounded(p99)));
    let is_limit = matches!(seen.failure(), Some((Stage::FirstByte, Fault::TimedOut(Limit::Read))))
        && seen.deadline_reached.is_none();
    if is_limit && usual.zip(waited).is_some_and(|(p99, waited)| waited < p99) {
        return Judgement::new(Code::ReadLimitShort, Side::Ours)
            .fact(format!("our own limit ([timeouts] read) ended the wait: {after}"))
            .fact_if(came_within);
    }
    if seen.deadline_reached.is_some() && is_too_short(seen, waited) {
        return Judgement::unclear(Code::Deadline).note(after).note(came_within.unwrap_or_default());
    }
    let code = if stage == Stage::Write { Code::AppStoppedReading } else { Code::AppSilent };
    let is_late = usual.zip(waited).is_some_and(|(p99, waited)| waited > p99);
    with_delivery(Judgement::new(code, Side::Theirs).note(after), seen)
        .fact_if(stands(seen))
        .fact_if(came_within.filter(|_| is_late))
}

/// Adds what TCP tells: proof for the partner's host only where no proxy is the other end of the connection.
fn with_delivery(judgement: Judgement, seen: &Observations) -> Judgement {
    let tcp = seen.asked_tcp().copied().unwrap_or_default();
    let is_direct = seen.exchange.as_ref().is_some_and(|exchange| exchange.via == Via::Direct);
    match tcp.delivery() {
        Some(Delivery::Acknowledged) if is_direct => judgement.fact(tcp.words()),
        Some(Delivery::Acknowledged) => judgement.note(format!("{}, by the proxy", tcp.words())),
        _ => judgement.note(tcp.words()),
    }
}

/// Returns that connections stand, where more than the exchange itself says it.
fn stands(seen: &Observations) -> Option<String> {
    let address = seen.asked_address().filter(|address| address.is_connected())?;
    let took = |took: Option<Duration>| took.map(|took| format!(" in {}", show_rounded(took))).unwrap_or_default();
    let connected = took(address.connect.and_then(|connect| connect.took));
    let tls = address.tls.as_ref().filter(|tls| tls.outcome.is_ok());
    let shaken = tls.map(|tls| format!(", and shakes hands{}", took(tls.took))).unwrap_or_default();
    Some(format!("{} connects{connected}{shaken}", address.addr))
}

fn ended(seen: &Observations, code: Code, sent: Sent) -> Judgement {
    let what = match sent {
        Sent::Nothing => "the connection ended before the request left",
        Sent::Part => "the connection ended while the request went out",
        Sent::Whole => "the whole request left, and the connection ended without an answer",
    };
    with_delivery(Judgement::new(code, Side::Theirs).fact(what), seen)
        .note("a firewall or balancer between may have ended it, too")
}

/// The first half of rule 13: the answer was cut off or stopped coming.
pub(super) fn judge_cut(seen: &Observations) -> Option<Judgement> {
    let answer = seen.answer()?;
    let Ending::Cut(fault) = answer.ending else { return None };
    let tcp = seen.asked_tcp().copied().unwrap_or_default();
    let came = format!("{} came, and {} of its body", answer.status, counted(answer.body.len() as u64, "byte"));
    let is_stalled = matches!(fault, Fault::TimedOut(_));
    if fault == Fault::Suspended {
        return Some(Judgement::unclear(Code::LocalSuspended).note(came));
    }
    if is_stalled && seen.deadline_reached.is_some() {
        return Some(Judgement::unclear(Code::Deadline).note(came));
    }
    let code = if is_stalled { Code::BodyStalled } else { Code::BodyCut };
    let side = if tcp.was_resent() == Some(true) { Side::Network } else { Side::Theirs };
    let judgement = Judgement::new(code, side).fact(came);
    Some(match tcp.was_resent() {
        Some(_) => judgement.fact(tcp.words()),
        None => judgement.note(tcp.words()),
    })
}
