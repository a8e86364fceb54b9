//! What `send` would make of what the probe met: its own table and its own decision, asked with made-up facts.

use super::observations::Observations;
use crate::engine::classify::{Context, Finding, classify};
use crate::engine::deadline::Deadline;
use crate::engine::decide::{Action, Conclusion, decide};
use crate::engine::exchange::{Exchange, Outcome, Sent, Stage, Stages, Via};
use crate::engine::facts::{Fact, Finished, History, Opened, Owner, Recorded, Started, StoredBody, Why};
use crate::engine::moment::{Moment, Now, Timestamp};
use crate::engine::operation::{Fingerprint, Method, PartnerName};
use crate::engine::policy::Policy;
use crate::engine::secret::Mask;
use crate::engine::units::show_rounded;
use crate::engine::verdict::Verdict;
use std::sync::Arc;
use std::time::Duration;

/// What `send` would do.
#[derive(Clone, Debug, PartialEq)]
pub struct Forecast {
    /// What an attempt that met the same would mean.
    pub finding: Finding,
    /// What would follow, at the earliest.
    pub then: Action,
    /// Both in words: `in doubt, with a protecting key: would try again in 1s to 2s`.
    pub words: String,
}

/// Returns what `send` would do with an operation under `policy` whose first attempt meets what the probe met; `None`
/// where the probe met nothing that an attempt would meet.
///
/// `url` is absolute, `json` tells whether the operation has or wants JSON. The operation is new, and its key protects
/// where the policy says so.
pub fn forecast(seen: &Observations, policy: &Policy, url: &str, json: bool) -> Option<Forecast> {
    let exchange = seen.second_pass.clone().or_else(|| met(seen))?;
    let finding = finding(&exchange, policy, url, json);
    let history = history(policy, url, &finding, &exchange);
    let now = Now { steady: Moment::START.after(exchange.took), wall: exchange.at };
    let deadline = Deadline(Moment::START.after(policy.timeouts.overall));
    let decided = |draw: f64| decide(&history, policy, deadline, now, draw);
    let (then, latest) = (decided(0.0), decided(LAST_DRAW));
    let words = words(&finding, &then, &latest, policy, now);
    Some(Forecast { finding, then, words })
}

/// The highest draw, as far as waits are concerned.
const LAST_DRAW: f64 = 1.0 - f64::EPSILON;

/// Returns whether a write that met the same may have been executed although nothing says so.
pub(super) fn leaves_doubt(exchange: &Exchange, url: &str) -> bool {
    let write = Method::new("POST").expect("POST is a method");
    finding(exchange, &Policy::unprofiled(write, url), url, false).evidence.is_doubt()
}

fn finding(exchange: &Exchange, policy: &Policy, url: &str, json: bool) -> Finding {
    let mask = Mask::default();
    let protected = policy.idempotency.supported;
    classify(exchange, &Context { policy, url, had_doubt: false, protected, hops: 0, trail: &[], mask: &mask, json })
}

/// Returns the exchange of the probe, or what an attempt would have come to where the probe did not get to one.
fn met(seen: &Observations) -> Option<Exchange> {
    if let Some(exchange) = &seen.exchange {
        return Some(exchange.clone());
    }
    let first = seen.addresses.first();
    let (stage, fault) = match seen.names.lookup.map(|lookup| lookup.outcome) {
        Some(Err(failure)) => (Stage::Resolve, failure.fault()),
        _ => {
            let of_tls = || Some((Stage::Tls, first?.tls.as_ref()?.outcome.err()?));
            let of_connect = || Some((Stage::Connect, first?.connect?.outcome.err()?.fault()));
            of_connect().or_else(of_tls)?
        }
    };
    Some(Exchange {
        outcome: Outcome::Unanswered { sent: Sent::Nothing, stage, fault },
        stages: Stages::default(),
        took: Duration::ZERO,
        addr: first.map(|address| address.addr),
        via: Via::Direct,
        error: None,
        at: seen.at.unwrap_or_default(),
    })
}

/// Returns the facts of a new operation after one attempt.
fn history(policy: &Policy, url: &str, finding: &Finding, exchange: &Exchange) -> History {
    let (start, end) = (Moment::START, Moment::START.after(exchange.took));
    let opened_at = exchange.at.before(exchange.took);
    let opened = Fact::Opened(Arc::new(opened(policy, url, opened_at)));
    let started = Fact::Started(Started { a: 1, addr: exchange.addr, proxy: None });
    let finished = Fact::Finished(Arc::new(finished(finding, exchange)));
    let recorded = |at: Timestamp, steady, fact| Recorded { n: 1, at, steady: Some(steady), fact };
    let facts = vec![
        recorded(opened_at, start, opened),
        recorded(opened_at, start, started),
        recorded(exchange.at, end, finished),
    ];
    History { facts }
}

fn opened(policy: &Policy, url: &str, at: Timestamp) -> Opened {
    Opened {
        partner: PartnerName::new("probe").expect("it is a name"),
        profile: None,
        account: policy.account.clone(),
        method: policy.method.as_str().into(),
        url: url.into(),
        headers: Vec::new(),
        fp: Fingerprint("v1:".into()),
        body: StoredBody::Text("".into()),
        contract: policy.idempotency.contract().into(),
        key_until: policy.idempotency.supported.then(|| at.after(policy.idempotency.trusted_for())),
        valid_until: None,
        tls: None,
        deadline: at.after(policy.timeouts.overall),
        why: Why::Send,
        owner: Owner::default(),
    }
}

fn finished(finding: &Finding, exchange: &Exchange) -> Finished {
    Finished {
        a: 1,
        evidence: finding.evidence,
        done: finding.done,
        again: finding.again,
        reason: finding.reason,
        stage: finding.stage,
        side: finding.side,
        http: finding.http,
        ms: u64::try_from(exchange.took.as_millis()).unwrap_or(u64::MAX),
        stages: None,
        error: None,
        not_before: finding.retry_after.map(|wait| exchange.at.after(wait)),
        replayed: finding.replayed,
        slow: finding.slow,
        hop: finding.hop.as_deref().map(Into::into),
    }
}

fn words(finding: &Finding, then: &Action, latest: &Action, policy: &Policy, now: Now) -> String {
    let in_doubt = finding.evidence.is_doubt() && !policy.method.is_safe();
    let doubt = match (in_doubt, policy.idempotency.supported) {
        (true, true) => "in doubt, with a protecting key: ",
        (true, false) => "in doubt, no protecting key: ",
        (false, _) => "",
    };
    let next = match then {
        Action::Attempt { .. } => "would send again at once".into(),
        Action::AskStatus { .. } => "would ask the status endpoint first".into(),
        Action::Wait { until, .. } => format!("would try again in {}", wait(until.since(now.steady), latest, now)),
        Action::Settle(conclusion) => ending(conclusion).into(),
    };
    format!("{doubt}{next}")
}

fn wait(earliest: Duration, latest: &Action, now: Now) -> String {
    let earliest = show_rounded(earliest);
    let latest = match latest {
        Action::Wait { until, .. } => show_rounded(until.since(now.steady)),
        _ => earliest.clone(),
    };
    if earliest == latest { earliest } else { format!("{earliest} to {latest}") }
}

fn ending(conclusion: &Conclusion) -> &'static str {
    match conclusion.verdict {
        Verdict::Confirmed => "would be confirmed",
        Verdict::Rejected => "would end rejected: somebody has to change something first",
        Verdict::NotDone if conclusion.retry_at.is_some() => "would end not done: the partner asks for a longer wait",
        Verdict::NotDone => "would end not done: the same would come again",
        Verdict::InDoubt => "would end there, nothing can resolve it",
        Verdict::Accepted => "would end accepted, with nothing to ask",
    }
}
