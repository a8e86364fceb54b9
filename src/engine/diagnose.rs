//! Whose fault it is, and what to do next: from what a probe saw to one verdict.
//!
//! [`observations`] come in; what was not looked at is `None` there. Rules are asked in a fixed order, and the first
//! that matches decides: ours first (`setup`), then the name ([`names`]), the connections ([`dial`]), TLS
//! ([`handshake`]), and the answer or its absence (`answer`). What works all the same, but not as it should, comes
//! last (`blemish`): a partner that cannot be worked with is never called degraded. Evidence that is looked at later
//! changes how sure the verdict is, and nothing else.
//!
//! Source: latency.md 6.3 to 6.5; decisions 33 and 34.

mod answer;
mod blemish;
pub mod clock;
pub mod code;
pub mod dial;
pub mod excluded;
pub mod handshake;
pub mod history;
pub mod judgement;
pub mod names;
pub mod observations;
pub mod past;
pub mod repeated;
pub mod sending;
mod setup;
pub mod tcp;

use super::units::show_rounded;
use super::verdict::Side;
use code::Code;
use excluded::Excluded;
use judgement::{Confidence, Judgement, Standing};
use observations::Observations;
use std::time::Duration;

/// What a probe found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnosis {
    /// Whose fault it is; `None` where nobody's: all is well.
    pub side: Option<Side>,
    /// What is the matter.
    pub code: Code,
    /// How sure that is.
    pub confidence: Confidence,
    /// Whether the partner can be worked with.
    pub standing: Standing,
    /// The evidence, in words with numbers and units.
    pub because: Vec<String>,
    /// What it is not, with the evidence.
    pub not: Vec<Excluded>,
    /// What to do next, the most promising first; never empty.
    pub next: Vec<String>,
    /// What else is not as it should be.
    pub also: Vec<Blemish>,
    /// How long the partner asks us to wait.
    pub wait: Option<Duration>,
    /// A write that was sent this way may have been executed, and no answer says so.
    pub leaves_doubt: bool,
}

/// Something that is not as it should be beside what decides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blemish {
    /// What it is.
    pub code: Code,
    /// Whose fault it is.
    pub side: Side,
    /// The evidence.
    pub because: Vec<String>,
}

impl Diagnosis {
    /// Returns whose fault it is, as the screen and JSON name it; `ok` where it is nobody's.
    pub fn side_name(&self) -> &'static str {
        self.side.map_or("ok", Side::name)
    }
}

/// Returns what the observations come to. Total: nothing observed is `unclear`.
pub fn diagnose(seen: &Observations) -> Diagnosis {
    let mut blemishes = blemish::all(seen);
    let judgement =
        decisive(seen).unwrap_or_else(|| if blemishes.is_empty() { well(seen) } else { blemishes.remove(0) });
    let judgement = with_proxy(with_deadline(judgement, seen), seen);
    let also = blemishes.into_iter().filter(|blemish| blemish.code != judgement.code).map(|blemish| Blemish {
        code: blemish.code,
        side: blemish.side.unwrap_or(Side::Unclear),
        because: blemish.because,
    });
    let leaves_doubt = leaves_doubt(seen);
    let next = next(&judgement, seen, leaves_doubt);
    Diagnosis {
        side: judgement.side,
        code: judgement.code,
        confidence: judgement.confidence(),
        standing: judgement.standing,
        not: excluded::all(seen, &judgement),
        also: also.collect(),
        wait: judgement.wait,
        leaves_doubt,
        because: judgement.because,
        next,
    }
}

/// Returns what the first rule says that finds the partner not usable, or that finds nothing to judge by.
///
/// Source of the order: latency.md 6.5. Rules 7 and 12 are left out: they are about a partner that works.
fn decisive(seen: &Observations) -> Option<Judgement> {
    let rules = [
        setup::judge,
        setup::judge_proxy,
        names::judge,
        dial::judge,
        handshake::judge,
        answer::judge_silence,
        answer::judge_status,
        answer::judge_cut,
        blemish::send_fails,
        unanswered,
    ];
    rules.into_iter().find_map(|rule| rule(seen))
}

/// The probe did not get as far as an answer, and nothing says why.
fn unanswered(seen: &Observations) -> Option<Judgement> {
    if seen.answer().is_some() {
        return None;
    }
    if let Some(stage) = seen.deadline_reached {
        return Some(Judgement::unclear(Code::Deadline).note(format!("{} had not ended", stage.words())));
    }
    let nothing = seen.addresses.is_empty() && seen.exchange.is_none() && seen.names == names::Names::default();
    if nothing {
        return Some(Judgement::unclear(Code::Nothing).note("no observation was made"));
    }
    let connected = seen.addresses.iter().filter(|address| address.is_connected()).count();
    let words = format!("{}, and no answer was seen", dial::connecting(connected, seen.addresses.len()));
    Some(Judgement::unclear(Code::Incomplete).note(words))
}

/// Rule 14. A status that refuses this one request shows that all works up to the application.
fn well(seen: &Observations) -> Judgement {
    let method = seen.target.method.as_deref().unwrap_or("this request");
    let took = seen.exchange.as_ref().map(|exchange| exchange.took);
    let usual = seen.past.whole.zip(took).map(|(usual, took)| {
        format!("it took {}, longer than {} of 100 earlier ones", show_rounded(took), usual.percentile(took))
    });
    let took = usual.or(took.map(|took| format!("it took {}", show_rounded(took))));
    match seen.answer().map(|answer| answer.status) {
        Some(status @ 400..) => Judgement::well(Code::ClientError)
            .fact(format!("the application answers {method} with {status}"))
            .note("that says nothing about other requests"),
        status => {
            Judgement::well(Code::Ok).fact_if(status.map(|status| format!("the answer is {status}"))).fact_if(took)
        }
    }
}

/// Our own deadline makes whatever it ended less certain.
fn with_deadline(judgement: Judgement, seen: &Observations) -> Judgement {
    match seen.deadline_reached {
        Some(stage) if judgement.standing == Standing::Unusable => {
            judgement.doubted(format!("our own deadline ended {}", stage.words()))
        }
        _ => judgement,
    }
}

/// What came over a proxy may be the proxy's own.
fn with_proxy(judgement: Judgement, seen: &Observations) -> Judgement {
    let Some(proxy) = seen.proxy.as_ref().filter(|_| seen.answer().is_some()) else { return judgement };
    match judgement.standing {
        Standing::Usable => judgement.note(setup::in_effect(proxy)),
        _ => judgement
            .doubted(format!("it came over a proxy, which may have answered itself: {}", setup::in_effect(proxy))),
    }
}

/// Returns whether a write that met the same would be in doubt, by the table that `send` goes by.
fn leaves_doubt(seen: &Observations) -> bool {
    let url = seen.target.url.as_deref().unwrap_or_default();
    seen.exchange.as_ref().is_some_and(|exchange| sending::leaves_doubt(exchange, url))
}

/// Returns what to do next, the most promising first.
fn next(judgement: &Judgement, seen: &Observations, leaves_doubt: bool) -> Vec<String> {
    let mut next = judgement.next.clone();
    next.push(judgement.code.next().to_owned());
    let reported = judgement.side == Some(Side::Theirs) && judgement.standing == Standing::Unusable;
    next.extend(report(seen, judgement).filter(|_| reported));
    if leaves_doubt {
        next.push("treat a write that met the same as in doubt: `abide replay KEY` asks before it sends again".into());
    }
    next
}

/// Returns what the partner needs to find the case: when, where, by which id, and what was seen.
fn report(seen: &Observations, judgement: &Judgement) -> Option<String> {
    let at = seen.exchange.as_ref().map(|exchange| exchange.at).or(seen.at)?;
    let addr = seen.asked_address().or(seen.addresses.first()).map(|address| address.addr.to_string());
    let id = seen.answer().and_then(|answer| answer::id(&answer.headers));
    let what = judgement.because.first().cloned().unwrap_or_default();
    let is_new = |text: &String| !text.is_empty() && !what.contains(text.as_str());
    let parts = [Some(at.to_string()), addr.filter(is_new), id.filter(is_new), Some(what.clone())];
    Some(format!("for the report: {}", parts.into_iter().flatten().collect::<Vec<_>>().join(", ")))
}

#[cfg(test)]
mod tests;
