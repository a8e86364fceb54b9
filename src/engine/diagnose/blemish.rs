//! What is not as it should be although the partner can be worked with: rules 7 and 12, the second half of 13, and the
//! warnings about clocks and certificates.

use super::code::Code;
use super::judgement::Judgement;
use super::observations::{Address, Observations};
use super::past::Usual;
use super::tcp::trip;
use crate::engine::exchange::{Answer, Exchange, Fault, Limit, Outcome, Stage, Stages};
use crate::engine::units::{counted, show_rounded};
use crate::engine::verdict::Side;
use std::time::Duration;

/// A round trip this many times the usual one is the network's fault.
///
/// Source: latency.md 6.5 rule 12.
const RTT_TIMES: u32 = 3;

/// A body that comes so many times slower than usual is slow.
///
/// Source: latency.md 6.5 rule 13.
const RATE_TIMES: u64 = 10;

/// Returns everything that is not as it should be, the weightiest first.
pub(super) fn all(seen: &Observations) -> Vec<Judgement> {
    let found = [
        dead_addresses(seen),
        differing_addresses(seen),
        differing_send(seen),
        slow_network(seen),
        slow_server(seen),
        slow_body(seen),
        loss(seen),
        slow_stage(seen, Code::SlowNames),
        slow_stage(seen, Code::SlowConnect),
        slow_stage(seen, Code::SlowTls),
        certificate_ends(seen),
        skewed(seen),
        keep_alive(seen),
    ];
    let mut found: Vec<Judgement> = found.into_iter().flatten().collect();
    // One cause is enough for a slow stage: what lost packets slow down is not told twice.
    let network = found.iter().any(|judgement| matches!(judgement.code, Code::SlowNetwork | Code::Loss));
    found.retain(|judgement| !(network && matches!(judgement.code, Code::SlowConnect | Code::SlowTls)));
    found
}

/// Rule 7: some addresses fail where others do not.
fn dead_addresses(seen: &Observations) -> Option<Judgement> {
    let dead: Vec<&Address> = seen.addresses.iter().filter(|address| address.has_failed()).collect();
    let works = seen.answer().is_some() || dead.len() < seen.addresses.len();
    // That this machine has no way for a family of addresses says nothing of the partner.
    let theirs: Vec<&&Address> = dead.iter().filter(|address| !is_ours(address)).collect();
    if theirs.is_empty() || !works {
        return None;
    }
    let told: Vec<String> = theirs
        .iter()
        .take(4)
        .map(|address| {
            let words = address
                .connect
                .and_then(|connect| connect.outcome.err())
                .map_or("TLS fails", |failure| failure.words());
            format!("{}: {words}", address.addr)
        })
        .collect();
    let (count, all) = (theirs.len(), seen.addresses.len());
    let judgement = Judgement::degraded(Code::AddressDead, Side::Theirs)
        .fact(format!("{count} of {all} addresses {}: {}", if count == 1 { "fails" } else { "fail" }, told.join(", ")))
        .fact("the others work");
    let dead_v6 = theirs.iter().all(|address| address.addr.is_ipv6());
    Some(if dead_v6 { judgement.note("all of them are IPv6: perhaps only the way there is broken") } else { judgement })
}

/// Some addresses got a request of their own, and did not answer it as the first did.
fn differing_addresses(seen: &Observations) -> Option<Judgement> {
    let first = seen.answer()?;
    let replies = seen.addresses.iter().filter_map(|address| Some((address, address.reply.as_deref()?)));
    let differ = replies.filter(|(_, reply)| !is_alike(first.status, reply) && !is_cut_by_us(reply));
    let told: Vec<String> = differ.map(|(address, reply)| format!("{} {}", address.addr, came_of(reply))).collect();
    if told.is_empty() {
        return None;
    }
    let asked = seen.asked_address().map_or("the first".into(), |address| address.addr.to_string());
    Some(
        Judgement::degraded(Code::AddressDiffers, Side::Theirs)
            .fact(told.join(", "))
            .fact(format!("{asked} answered {}", first.status)),
    )
}

/// Returns whether an answer means what one with `status` means: both good, or both the same.
fn is_alike(status: u16, exchange: &Exchange) -> bool {
    match &exchange.outcome {
        Outcome::Answered(answer) => answer.status == status || (answer.status / 100, status / 100) == (2, 2),
        Outcome::Unanswered { .. } => false,
    }
}

/// Returns whether nothing but our own deadline ended it: it says nothing then.
fn is_cut_by_us(exchange: &Exchange) -> bool {
    matches!(exchange.outcome, Outcome::Unanswered { fault: Fault::TimedOut(Limit::Deadline | Limit::Attempt), .. })
}

/// Returns what came of a request: `answered 503`, or `did not answer: the TLS handshake failed`.
fn came_of(exchange: &Exchange) -> String {
    match &exchange.outcome {
        Outcome::Answered(answer) => format!("answered {}", answer.status),
        Outcome::Unanswered { stage, .. } => format!("did not answer: {} failed", stage.words()),
    }
}

/// Returns what `send` got where the probe got something else, both by answers.
fn differing_send(seen: &Observations) -> Option<Judgement> {
    let (first, second) = (seen.answer()?, seen.second_pass.as_ref()?);
    let status = seen.second_status().filter(|_| !is_alike(first.status, second))?;
    let words = format!("the probe got {}, and the way of `send` {status} a moment later", first.status);
    Some(Judgement::degraded(Code::SendDiffers, Side::Unclear).fact(words))
}

fn is_ours(address: &Address) -> bool {
    let Some(connect) = address.connect else { return false };
    connect
        .outcome
        .is_err_and(|failure| super::dial::cause(failure, connect.took, address.smallest_rtt).1 == Side::Ours)
}

/// Returns the round trip and the usual one, where it is more than three times as long.
fn long_round_trip(seen: &Observations) -> Option<(Duration, Duration)> {
    seen.answer()?;
    let (rtt, usual) = (seen.asked_tcp()?.rtt?, seen.past.rtt?);
    (rtt > usual.saturating_mul(RTT_TIMES)).then_some((rtt, usual))
}

fn was_resent(seen: &Observations) -> Option<bool> {
    let syns = seen.asked_address().and_then(|address| address.connect?.syns_resent).map(|count| count > 0);
    let data = seen.asked_tcp().and_then(|tcp| tcp.was_resent());
    match (syns, data) {
        (None, None) => None,
        (syns, data) => Some(syns == Some(true) || data == Some(true)),
    }
}

/// Rule 12, of the network.
fn slow_network(seen: &Observations) -> Option<Judgement> {
    let (rtt, usual) = long_round_trip(seen)?;
    let words = format!("a round trip takes {}, usually {}", trip(rtt), trip(usual));
    let tcp = seen.asked_tcp().filter(|tcp| tcp.was_resent() == Some(true));
    Some(Judgement::degraded(Code::SlowNetwork, Side::Network).fact(words).fact_if(tcp.map(|tcp| tcp.words())))
}

/// Rule 12, of the partner: the answer is late although the network is as usual.
fn slow_server(seen: &Observations) -> Option<Judgement> {
    let p99 = seen.past.first_byte_p99()?;
    let took = Duration::from_micros(stages(seen)?.first_byte_us?);
    let network = long_round_trip(seen).is_some() || was_resent(seen) == Some(true);
    if took <= p99 || network {
        return None;
    }
    let words = match seen.past.first_byte {
        Some(usual) => slow_words("the first byte", took, usual),
        None => format!(
            "the first byte took {}; when it was measured, 99 of 100 took at most {}",
            show_rounded(took),
            show_rounded(p99)
        ),
    };
    let judgement = Judgement::degraded(Code::SlowServer, Side::Theirs).fact(words);
    let rtt = seen.asked_tcp().and_then(|tcp| tcp.rtt).filter(|_| seen.past.rtt.is_some());
    let as_usual = rtt.map(|rtt| format!("a round trip takes {}, as usual", trip(rtt)));
    let calm = (was_resent(seen) == Some(false)).then(|| "no packet was sent again".to_owned());
    Some(judgement.fact_if(as_usual.or(calm)))
}

fn slow_words(what: &str, took: Duration, usual: Usual) -> String {
    let (took, p50, p99) = (show_rounded(took), show_rounded(usual.p50), show_rounded(usual.p99));
    format!("{what} took {took}; usually {p50}, and 99 of 100 took at most {p99}")
}

/// Returns how long the stages took of a request that was answered.
fn stages(seen: &Observations) -> Option<Stages> {
    seen.answer()?;
    Some(seen.exchange.as_ref()?.stages)
}

/// Rule 12: packets were sent again, and the answer came all the same.
fn loss(seen: &Observations) -> Option<Judgement> {
    seen.answer()?;
    let syns = seen.addresses.iter().filter(|address| address.is_connected());
    let syns: u64 = syns.filter_map(|address| address.connect?.syns_resent).map(u64::from).sum();
    let data: u64 = seen.addresses.iter().filter_map(|address| address.tcp?.resent).fold(0, u64::saturating_add);
    if syns == 0 && data == 0 {
        return None;
    }
    let judgement = Judgement::degraded(Code::Loss, Side::Network);
    let syns = (syns > 0).then(|| format!("{syns} SYN sent again: each costs a second"));
    let data = (data > 0).then(|| format!("{} of data sent again", counted(data, "segment")));
    Some(judgement.fact_if(syns).fact_if(data))
}

/// Rule 12: a stage before the request takes longer than usual.
fn slow_stage(seen: &Observations, code: Code) -> Option<Judgement> {
    let stages = stages(seen)?;
    let (what, side, took_us, usual) = match code {
        Code::SlowNames => ("the name lookup", Side::Ours, stages.resolve_us, seen.past.resolve),
        Code::SlowConnect => ("connecting", Side::Network, stages.connect_us, seen.past.connect),
        _ => ("the TLS handshake", Side::Theirs, stages.tls_us, seen.past.tls),
    };
    let (took, usual) = (Duration::from_micros(took_us?), usual?);
    usual.is_slow(took).then(|| Judgement::degraded(code, side).fact(slow_words(what, took, usual)))
}

/// Rule 13, its second half.
fn slow_body(seen: &Observations) -> Option<Judgement> {
    let answer: &Answer = seen.answer()?;
    let (usual, took) = (seen.past.body_rate?, Duration::from_micros(stages(seen)?.body_us?));
    let micros = took.as_micros().max(1);
    let rate = u64::try_from(answer.body.len() as u128 * 1_000_000 / micros).unwrap_or(u64::MAX);
    if answer.body.is_empty() || rate >= usual / RATE_TIMES || was_resent(seen) != Some(true) {
        return None;
    }
    let words = format!("the body came with {rate} bytes per second, usually {usual}");
    Some(Judgement::degraded(Code::SlowBody, Side::Network).fact(words).fact("packets were sent again"))
}

fn certificate_ends(seen: &Observations) -> Option<Judgement> {
    let (certificate, at) = (seen.certificate()?, seen.at?);
    let left = certificate.left(at).filter(|_| certificate.ends_soon(at))?;
    let until = certificate.not_after.map(|until| format!("it ends {until}")).unwrap_or_default();
    let words = format!("the certificate is valid for {} more", show_rounded(left));
    Some(Judgement::degraded(Code::CertificateEndsSoon, Side::Theirs).fact(words).note(until))
}

/// The clocks are apart, and it did no harm here.
fn skewed(seen: &Observations) -> Option<Judgement> {
    let skew = seen.skew.filter(|skew| skew.is_notable())?;
    let step = seen.setup.clock_step.filter(|step| !step.is_zero());
    let by_their_clock =
        seen.certificate().zip(seen.at).and_then(|(certificate, at)| certificate.is_valid_at(skew.partner_time(at)));
    Some(match (step, by_their_clock) {
        (Some(step), _) => Judgement::degraded(Code::ClockSkew, Side::Ours)
            .fact(skew.words())
            .fact(format!("this machine's clock was set by {} meanwhile", show_rounded(step))),
        (None, Some(false)) => Judgement::degraded(Code::ClockSkew, Side::Theirs)
            .fact(skew.words())
            .fact("by that clock their own certificate would not be valid")
            .next("report it to the partner: its clock is wrong"),
        (None, _) => Judgement::degraded(Code::ClockSkew, Side::Unclear).note(skew.words()),
    })
}

/// A kept connection was closed under the second request.
fn keep_alive(seen: &Observations) -> Option<Judgement> {
    let keep_alive = seen.keep_alive?;
    if keep_alive.reused != Some(false) {
        return None;
    }
    let idle = keep_alive.idle_close.map(|idle| format!("it closes idle connections after {}", show_rounded(idle)));
    let judgement = Judgement::degraded(Code::KeepAliveRace, Side::Theirs);
    Some(judgement.fact("a second request on the same connection got no answer").fact_if(idle))
}

/// Returns what `send` would meet where the probe met none: the second pass failed below HTTP.
pub(super) fn send_fails(seen: &Observations) -> Option<Judgement> {
    let second = seen.second_pass.as_ref()?;
    let Outcome::Unanswered { stage, .. } = second.outcome else { return None };
    let first = seen.answer()?;
    // An address that is dead for both is no difference.
    let is_dead = seen.addresses.iter().any(|address| Some(address.addr) == second.addr && address.has_failed());
    if is_dead || is_cut_by_us(second) {
        return None;
    }
    let (code, side) = match super::setup::through_proxy(second) {
        Some(Code::ProxyBeyond) => (Code::ProxyBeyond, Side::Theirs),
        Some(code) => (code, Side::Configuration),
        // A request that left may have met a partner that fails now and then.
        None if stage >= Stage::Write => (Code::SendFails, Side::Unclear),
        None => (Code::SendFails, Side::Ours),
    };
    let proxy = seen.proxy.as_ref().map(super::setup::in_effect);
    Some(
        Judgement::new(code, side)
            .fact(format!("the probe got {}, and the way of `send` fails: {}", first.status, stage.words()))
            .fact_if(proxy),
    )
}
