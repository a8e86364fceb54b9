//! One operation against a partner that misbehaves: the real engine and transport, judged by what the partner did.

use super::partner::{Fault, Partner, Seen};
use crate::drive::{self, Claimed, Clock, Ended, EntryRule, Ledger, Observer, Patience, Ports, Terms, Wish};
use crate::engine::backoff::Backoff;
use crate::engine::deadline::Deadline;
use crate::engine::facts::{History, Opened, Owner, Why};
use crate::engine::fingerprint::{Head, Parts, fingerprint};
use crate::engine::json::Pointer;
use crate::engine::measured::Measured;
use crate::engine::moment::Timestamp;
use crate::engine::operation::{Announce, Guarded, Header, IdempotencyKey, Method, Operation, PartnerName, Request};
use crate::engine::policy::{
    KeyFormat, KeyPlace, Policy, RetryPolicy, StatusPolicy, StatusRule, Timeouts, UrlPart, UrlTemplate, ValueRule,
};
use crate::engine::proxy::Proxies;
use crate::engine::reason::Reason;
use crate::engine::secret::Mask;
use crate::engine::verdict::{Cause, Verdict};
use crate::net::chance::Chance;
use crate::net::clock::{Interrupt, SystemClock, Wall};
use crate::net::{Names, Tls, Wire, WireSettings};
use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// The faults that are played unless others are named.
pub const USUAL: &[Fault] = &[
    Fault::Refused,
    Fault::ExecutedThenSilent,
    Fault::ExecutedThenCut,
    Fault::UnavailableTwice,
    Fault::DripBody,
    Fault::KeyHonoured,
];

/// What is sent: an order that nobody will deliver.
const BODY: &str = r#"{"amount":100}"#;
/// No scaled limit of a stage is shorter: a loaded machine needs that long for a connection on loopback.
const SHORTEST_STAGE: Duration = Duration::from_millis(50);

/// The rules of a play.
#[derive(Clone, Debug)]
pub struct Rules {
    /// The partner's rules, at their real size.
    pub policy: Policy,
    /// By what all times are multiplied, above 0.
    pub scale: f64,
    /// Whether keys are honoured where the fault is about keys or retries and the rules do not say so.
    pub lend_key: bool,
    /// The jitter of the waits.
    pub seed: u64,
}

/// What came of one fault.
#[derive(Clone, Debug)]
pub struct Row {
    /// The fault.
    pub fault: Fault,
    /// Whether the partner honoured keys.
    pub key_honoured: bool,
    /// What abide said.
    pub verdict: Verdict,
    /// Why the run ended so.
    pub cause: Cause,
    /// What the last attempt met.
    pub reason: Option<Reason>,
    /// Attempts of the run.
    pub attempts: u32,
    /// What the partner saw and did.
    pub seen: Seen,
    /// How long the run took.
    pub took: Duration,
    /// What it was allowed to take.
    pub deadline: Duration,
}

impl Row {
    /// Returns whether the verdict agrees with what the partner did, and nothing was done twice.
    pub fn is_true(&self) -> bool {
        let agrees = match self.verdict {
            Verdict::Confirmed => self.seen.executions > 0,
            Verdict::Rejected | Verdict::NotDone => self.seen.executions == 0,
            Verdict::InDoubt | Verdict::Accepted => true,
        };
        agrees && self.seen.executions <= 1
    }
}

/// Why a play could not be finished.
#[derive(Debug)]
pub enum PlayError<E> {
    /// The partner could not be started.
    Partner(io::Error),
    /// The ledger failed.
    Ledger(E),
    /// The ledger knew the fresh key already.
    NotFresh,
}

impl<E: fmt::Display> fmt::Display for PlayError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PlayError::Partner(error) => write!(f, "the partner cannot listen on loopback: {error}"),
            PlayError::Ledger(error) => error.fmt(f),
            PlayError::NotFresh => f.write_str("the throw-away ledger knew the key of a new operation"),
        }
    }
}

impl<E: fmt::Debug + fmt::Display> std::error::Error for PlayError<E> {}

/// Plays one fault: starts the partner, sends one operation to it, and compares.
///
/// # Errors
/// [`PlayError`]: nothing about the rules, only about this machine.
pub async fn play<L: Ledger>(
    fault: Fault,
    rules: &Rules,
    ledger: &mut L,
    interrupt: &Interrupt,
) -> Result<Row, PlayError<L::Error>> {
    let mut policy = scaled(&rules.policy, rules.scale);
    policy.idempotency.supported |= rules.lend_key && is_about_keys(fault);
    let script = fault.script();
    let script = if policy.idempotency.supported { script.honouring_keys() } else { script };
    let partner = Partner::start(script).map_err(PlayError::Partner)?;
    let mut chance = Chance::fixed(rules.seed);
    let mut clock = SystemClock::new(Wall::System, interrupt.clone());
    aim(&mut policy, &partner);
    let now = clock.now();
    let operation = order(&policy, &partner, chance.key(now.wall));
    let wish = wish(&operation, &policy, now.wall);
    let deadline = Deadline(now.steady.after(policy.timeouts.overall));
    let claimed = drive::claim(ledger, &wish, &mut clock, Patience::None).await.map_err(PlayError::Ledger)?;
    let Claimed::Ours(mut claim, mut history) = claimed else { return Err(PlayError::NotFresh) };
    let mut wire = Wire::new(WireSettings {
        answer_max_bytes: policy.sizes.response_bytes,
        mask: Mask::default(),
        wall: Wall::System,
        names: Names::default(),
        tls: Tls::default(),
        proxies: Proxies::default(),
    });
    let terms = Terms { policy: &policy, deadline, mask: &Mask::default() };
    let ports = Ports { transport: &mut wire, clock: &mut clock, entropy: &mut chance, observer: &mut Nobody };
    let ended = drive::run(&mut claim, &mut history, &operation, &terms, ports).await;
    let took = clock.now().steady.since(now.steady);
    let Ended { settled, .. } = ended.map_err(|failure| PlayError::Ledger(failure.error))?;
    let seen = partner.stop().await;
    Ok(Row {
        fault,
        key_honoured: policy.idempotency.supported,
        verdict: settled.verdict,
        cause: settled.cause,
        reason: last_reason(&history),
        attempts: history.last_attempt(),
        seen,
        took,
        deadline: policy.timeouts.overall,
    })
}

/// Returns whether a fault shows nothing without a key that the partner honours.
fn is_about_keys(fault: Fault) -> bool {
    matches!(fault, Fault::KeyHonoured | Fault::UnavailableTwice)
}

fn last_reason(history: &History) -> Option<Reason> {
    use crate::engine::facts::Fact;
    history.facts.iter().rev().find_map(|recorded| match &recorded.fact {
        Fact::Finished(finished) => Some(finished.reason),
        Fact::Settled(settled) => settled.last.as_ref().map(|last| last.reason),
        _ => None,
    })
}

struct Nobody;

impl Observer for Nobody {
    fn saw(&mut self, _: crate::engine::moment::Now, _: drive::Event<'_>) {}
}

/// Returns the rules with every time multiplied by `scale`. Stages stay long enough for a loaded machine.
fn scaled(policy: &Policy, scale: f64) -> Policy {
    // In whole milliseconds, as people read them.
    let scaled_ms = |time: Duration| (time.as_secs_f64() * scale * 1_000.0).ceil();
    let time = |time: Duration| Duration::try_from_secs_f64(scaled_ms(time) / 1_000.0).unwrap_or(time);
    let stage = |limit: Duration| time(limit).max(SHORTEST_STAGE);
    let mut policy = policy.clone();
    let limits = policy.timeouts;
    policy.timeouts = Timeouts {
        connect: stage(limits.connect),
        write: stage(limits.write),
        read: stage(limits.read),
        body: stage(limits.body),
        attempt: stage(limits.attempt),
        overall: time(limits.overall).max(2 * SHORTEST_STAGE),
    };
    let backoff = policy.retry.backoff;
    policy.retry = RetryPolicy {
        backoff: Backoff {
            base: time(backoff.base).max(Duration::from_millis(1)),
            cap: time(backoff.cap).max(Duration::from_millis(1)),
            ..backoff
        },
        max_retry_after: time(policy.retry.max_retry_after),
        ..policy.retry
    };
    policy.min_attempt = time(policy.min_attempt);
    // Times of the real partner say nothing about one that is played.
    policy.measured = Measured::default();
    policy.idempotency.settle = time(policy.idempotency.settle);
    if let Some(status) = &mut policy.status {
        status.settle = status.settle.map(time);
    }
    policy
}

/// Points the rules at the rehearsal partner: its address, its way to carry keys, its status endpoint, its answers.
fn aim(policy: &mut Policy, partner: &Partner) {
    policy.origin = partner.url("").into();
    policy.idempotency.place = KeyPlace::Header(Some("Idempotency-Key".into()));
    policy.idempotency.format = KeyFormat::Raw;
    policy.success = None;
    if let Some(status) = &mut policy.status {
        let equals = |pointer: &str, value: &str| {
            Some(ValueRule { pointer: Pointer::new(pointer).expect("starts with a slash"), equals: vec![value.into()] })
        };
        let url = UrlTemplate(vec![UrlPart::Text(partner.url("/status/").into()), UrlPart::Key]);
        *status = StatusPolicy {
            method: "GET".into(),
            url,
            confirmed: StatusRule { statuses: vec![], value: equals("/state", "done"), same: vec![] },
            rejected: None,
            in_progress: None,
            absent: Some(StatusRule { statuses: vec![404], value: equals("/error/code", "not_found"), same: vec![] }),
            control: None,
            settle: status.settle,
        };
    }
}

fn order(policy: &Policy, partner: &Partner, key: IdempotencyKey) -> Operation {
    let url = partner.url("/orders");
    let header = |name: &str, value: &str| Header { name: name.into(), value: Guarded::plain(value) };
    let name = PartnerName::new("rehearsal").expect("a name");
    let method = policy.method.clone();
    let head = Head {
        partner: &name,
        account: None,
        method: &method,
        url: &url,
        query_left_out: &[],
        content_type: Some("application/json"),
        headers: &[],
    };
    let fingerprint = fingerprint(&Parts { head, body: BODY.as_bytes(), key_in_body: None });
    let headers = vec![header("Content-Type", "application/json"), header("Idempotency-Key", key.as_str())];
    let request = Request { method, url: Guarded::plain(&url), headers, body: BODY.as_bytes().into() };
    Operation {
        partner: name,
        key,
        fingerprint,
        request: Arc::new(request),
        status_headers: Arc::new([]),
        announce: Announce::default(),
    }
}

fn wish(operation: &Operation, policy: &Policy, now: Timestamp) -> Wish {
    let request = &operation.request;
    let idempotency = &policy.idempotency;
    let opened = Opened {
        partner: operation.partner.clone(),
        profile: None,
        account: None,
        method: request.method.as_str().into(),
        url: request.url.stored.clone(),
        headers: request.headers.iter().map(|header| (header.name.clone(), header.value.stored.clone())).collect(),
        fp: operation.fingerprint.clone(),
        body: drive::stored_body(&request.body),
        contract: idempotency.contract().into(),
        key_until: idempotency.supported.then(|| now.after(idempotency.trusted_for())),
        valid_until: None,
        tls: None,
        deadline: now.after(policy.timeouts.overall),
        why: Why::Rehearse,
        owner: Owner::default(),
    };
    Wish {
        key: operation.key.clone(),
        opened: Arc::new(opened),
        body: Arc::clone(&request.body),
        entry: EntryRule::Duplicate,
    }
}

/// Returns the rules of a partner about which nothing is stated, for an order.
pub fn unstated() -> Policy {
    Policy::unprofiled(Method::new("POST").expect("a method"), "http://localhost")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::memory::Memory;

    fn played(fault: Fault, lend_key: bool) -> Row {
        let rules = Rules { policy: unstated(), scale: 0.01, lend_key, seed: 1 };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(play(fault, &rules, &mut Memory::default(), &Interrupt::default())).expect("plays")
    }

    #[test]
    fn every_fault_ends_with_a_true_verdict_within_the_deadline() {
        for fault in Fault::ALL.iter().copied() {
            let row = played(fault, false);
            assert!(row.is_true(), "{fault}: {} with {} executions", row.verdict, row.seen.executions);
            assert!(row.took < row.deadline + Duration::from_millis(500), "{fault}: {:?}", row.took);
        }
    }

    #[test]
    fn a_key_that_is_honoured_turns_a_lost_answer_into_a_confirmation() {
        let row = played(Fault::KeyHonoured, true);
        assert_eq!((row.verdict, row.attempts, row.seen.executions), (Verdict::Confirmed, 2, 1));
        let row = played(Fault::ExecutedThenCut, false);
        assert_eq!((row.verdict, row.attempts, row.seen.executions), (Verdict::InDoubt, 1, 1));
    }

    #[test]
    fn a_false_verdict_is_called_false() {
        let row = Row { seen: Seen { executions: 1, ..Seen::default() }, ..played(Fault::Refused, false) };
        assert_eq!(row.verdict, Verdict::NotDone);
        assert!(!row.is_true());
    }
}
