//! The loop: decide, do, record, decide again.

use super::record;
use super::{
    Call, Claim, Claimed, Clock, Durability, Ended, Entropy, Event, Ledger, Observer, Permit, Transport, Wish,
};
use crate::engine::classify::{Context, classify};
use crate::engine::deadline::{Deadline, Limits};
use crate::engine::decide::{Action, Conclusion, choose_address, conclude, decide};
use crate::engine::exchange::{Answer, Exchange, Fault, Outcome, Sent, Stage, Stages, Via};
use crate::engine::facts::{Fact, Finished, History, Pause, Recorded, Settled, Started, Waiting};
use crate::engine::location;
use crate::engine::moment::{Moment, Now};
use crate::engine::operation::Operation;
use crate::engine::planted::{Bug, planted};
use crate::engine::policy::Policy;
use crate::engine::secret::Mask;
use crate::engine::verdict::{Cause, Evidence};
use crate::engine::view::View;
use std::sync::Arc;
use std::time::Duration;

/// A longer wait is written down, so that people who look see what the process is doing.
///
/// Source: design/ledger.md, `waiting`.
const WAIT_RECORDED: Duration = Duration::from_secs(1);

/// The pause between two looks at a key that another process holds: doubled from the first to the last.
///
/// Source: reference ledger 4.3.
const LOOK_AGAIN: (Duration, Duration) = (Duration::from_millis(5), Duration::from_millis(100));

/// What a run is bound by.
#[derive(Clone, Copy, Debug)]
pub struct Terms<'a> {
    /// The rules of the partner.
    pub policy: &'a Policy,
    /// When the run ends.
    pub deadline: Deadline,
    /// The secrets that must not be written down.
    pub mask: &'a Mask,
}

/// The world of a run.
pub struct Ports<'a, T, K, E, O> {
    /// Carries requests.
    pub transport: &'a mut T,
    /// Tells the time and waits.
    pub clock: &'a mut K,
    /// Jitters waits.
    pub entropy: &'a mut E,
    /// Is told what happens.
    pub observer: &'a mut O,
}

/// The memory failed during a run.
#[derive(Debug)]
pub struct Failure<E> {
    /// Why.
    pub error: E,
    /// What is known all the same; it is not, or not certainly, recorded.
    pub ended: Box<Ended>,
    /// Whether this run may have sent anything before.
    pub may_have_left: bool,
}

/// How long to wait for a key that another process works on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Patience {
    /// Not at all.
    None,
    /// Until the deadline.
    Until(Deadline),
}

/// Claims a key, waiting for a live owner as long as `patience` allows.
///
/// # Errors
/// The ledger's own; nothing was sent.
pub async fn claim<L: Ledger, K: Clock>(
    ledger: &mut L,
    wish: &Wish,
    clock: &mut K,
    patience: Patience,
) -> Result<Claimed<L::Claim>, L::Error> {
    let mut pause = LOOK_AGAIN.0;
    loop {
        let now = clock.now();
        let claimed = ledger.claim(wish, now).await?;
        let left = match patience {
            Patience::None => Duration::ZERO,
            Patience::Until(deadline) => deadline.left(now.steady),
        };
        if left.is_zero() || clock.interrupted() || !matches!(claimed, Claimed::Busy(..)) {
            return Ok(claimed);
        }
        clock.wait(now.steady.after(pause.min(left))).await;
        pause = (pause * 2).min(LOOK_AGAIN.1);
    }
}

/// Runs an operation that this process has claimed until its verdict is recorded.
///
/// `history` is what the claim came with; facts are added to it as they happen. A signal ends waits, lets nothing new
/// start, and lets an attempt in flight run to its limits.
///
/// # Errors
/// [`Failure`] when the ledger fails: what is known is in it.
pub async fn run<C: Claim, T: Transport, K: Clock, E: Entropy, O: Observer>(
    claim: &mut C,
    history: &mut History,
    operation: &Operation,
    terms: &Terms<'_>,
    ports: Ports<'_, T, K, E, O>,
) -> Result<Ended, Failure<C::Error>> {
    let mut runner = Runner {
        claim,
        history,
        operation,
        terms: *terms,
        ports,
        unwritten: None,
        answer: None,
        mute: None,
        trail: Vec::new(),
        durable: false,
        may_have_left: false,
    };
    match runner.until_settled().await {
        Ok(ended) => Ok(ended),
        Err(error) => {
            let now = runner.ports.clock.now();
            let conclusion = conclude(runner.history, terms.policy, now, Cause::Unknown);
            let settled = Arc::new(runner.settled(conclusion));
            let ended = Box::new(Ended { settled, answer: runner.answer.take() });
            Err(Failure { error, ended, may_have_left: runner.may_have_left })
        }
    }
}

pub(super) struct Runner<'a, C, T, K, E, O> {
    pub(super) claim: &'a mut C,
    pub(super) history: &'a mut History,
    pub(super) operation: &'a Operation,
    pub(super) terms: Terms<'a>,
    pub(super) ports: Ports<'a, T, K, E, O>,
    /// The last attempt, in the history but not yet in the ledger: `settled` carries it if it ends the run.
    pub(super) unwritten: Option<(Now, Arc<Finished>)>,
    pub(super) answer: Option<Answer>,
    /// The rules without a status endpoint, while its URL needs a value that nothing has given yet.
    pub(super) mute: Option<Box<Policy>>,
    /// Where redirects have led that were followed in a row.
    pub(super) trail: Vec<Box<str>>,
    /// The claim and its first `started` are on the disk.
    pub(super) durable: bool,
    pub(super) may_have_left: bool,
}

impl<C: Claim, T: Transport, K: Clock, E: Entropy, O: Observer> Runner<'_, C, T, K, E, O> {
    async fn until_settled(&mut self) -> Result<Ended, C::Error> {
        loop {
            let now = self.ports.clock.now();
            let action = match self.ports.clock.interrupted() && !planted(Bug::SignalUnheeded) {
                true => Action::Settle(conclude(self.history, self.policy(), now, Cause::Interrupted)),
                false => {
                    let draw = self.ports.entropy.draw();
                    decide(self.history, self.policy(), self.terms.deadline, now, draw)
                }
            };
            if let Action::Settle(conclusion) = action {
                return self.settle(conclusion).await;
            }
            self.write_finished().await?;
            match action {
                Action::Attempt { a, limits } => self.attempt(a, limits).await?,
                Action::AskStatus { about, limits } => self.ask(about, limits).await?,
                Action::Wait { until, why } => self.wait(until, why).await?,
                Action::Settle(_) => unreachable!("returned above"),
            }
        }
    }

    /// Returns the rules in force.
    pub(super) fn policy(&self) -> &Policy {
        self.mute.as_deref().unwrap_or(self.terms.policy)
    }

    async fn attempt(&mut self, a: u32, limits: Limits) -> Result<(), C::Error> {
        let begun = self.ports.clock.now().steady;
        let hop = self.trail.last().cloned();
        let url = hop.as_deref().unwrap_or_else(|| self.operation.request.url.sent.expose());
        let way = match self.ports.transport.lookup(url, limits.connect.min(limits.whole)).await {
            Ok(way) => way,
            Err(exchange) => {
                self.finish(a, exchange);
                return Ok(());
            }
        };
        let now = self.ports.clock.now();
        if self.ports.clock.interrupted() || self.expired(now) {
            return Ok(());
        }
        let crossed = self.has_crossed();
        let to = match crossed {
            // What is known of addresses is about the partner's.
            true => way.addresses.first().copied(),
            false => choose_address(self.history, self.terms.policy, now, &way),
        };
        let proxy = way.proxy;
        self.record_started(Started { a, addr: to, proxy: proxy.clone() }, now).await?;
        let now = self.ports.clock.now();
        if self.expired(now) {
            self.finish(a, never_sent(Fault::Expired, now));
            return Ok(());
        }
        let limits = limits.after(now.steady.since(begun));
        self.ports.observer.saw(now, Event::Started { a, addr: to, proxy: proxy.as_deref(), limits: &limits });
        self.may_have_left = true;
        let crossed = crossed && !planted(Bug::CrossingForgotten);
        let call = Call { operation: self.operation, a, to, hop: hop.as_deref(), crossed, limits };
        let exchange = self.ports.transport.exchange(Permit(()), call).await;
        self.finish(a, exchange);
        Ok(())
    }

    /// Records that an attempt begins. The first one of a claim is durable, the claim with it, before a byte leaves, and
    /// so is one to another address than the one before: after a power cut, the address that may know the key must be
    /// known (decisions 9). A safe method needs no such promise (decisions 2).
    async fn record_started(&mut self, started: Started, now: Now) -> Result<(), C::Error> {
        let moved = !self.sent_the_way(&started) && !planted(Bug::MoveUnsynced);
        let enough = (self.durable && !moved) || self.terms.policy.method.is_safe();
        let durability = if enough || planted(Bug::IntentUnsynced) { Durability::Later } else { Durability::Now };
        self.append(now, Fact::Started(started), durability).await?;
        self.durable = true;
        Ok(())
    }

    /// Returns whether the attempt before went where this one goes.
    fn sent_the_way(&self, next: &Started) -> bool {
        let before = self.history.facts.iter().rev().find_map(|recorded| match &recorded.fact {
            Fact::Started(started) => Some(started),
            _ => None,
        });
        before.map_or(next.addr.is_none(), |before| before.addr == next.addr && before.proxy == next.proxy)
    }

    fn finish(&mut self, a: u32, exchange: Exchange) {
        let now = self.ports.clock.now();
        let policy = self.terms.policy;
        let view = View::new(self.history, policy, now);
        let request = &self.operation.request;
        let context = Context {
            policy,
            url: self.trail.last().map_or(request.url.sent.expose(), |hop| hop),
            had_doubt: view.doubt.is_some(),
            protected: view.protects(policy, now),
            hops: view.hops,
            trail: &self.trail,
            mask: self.terms.mask,
            json: request.wants_json(),
        };
        let finding = classify(&exchange, &context);
        if finding.retry_after_malformed {
            self.ports.observer.saw(now, Event::RetryAfterIgnored { a });
        }
        if finding.evidence == Evidence::Accepted {
            self.mute = None;
        }
        match &finding.hop {
            Some(hop) => self.trail.push(hop.as_str().into()),
            None => self.trail.clear(),
        }
        let finished = Arc::new(record::finished(a, finding, &exchange, (now, self.terms.mask)));
        self.ports.observer.saw(now, Event::Finished { finished: &finished, exchange: &exchange });
        if let Outcome::Answered(answer) = exchange.outcome {
            self.answer = Some(answer);
        }
        self.push(now, Fact::Finished(Arc::clone(&finished)));
        self.unwritten = Some((now, finished));
    }

    /// Returns whether a redirect has led to another origin: also where a later one leads back, at its word.
    fn has_crossed(&self) -> bool {
        let own = || location::origin(self.operation.request.url.sent.expose());
        self.trail.iter().any(|hop| location::origin(hop) != own())
    }

    fn expired(&self, now: Now) -> bool {
        self.history.opened().valid_until.is_some_and(|until| now.wall >= until)
    }

    async fn write_finished(&mut self) -> Result<(), C::Error> {
        if let Some((now, finished)) = self.unwritten.take() {
            self.claim.append(now, &Fact::Finished(finished), Durability::Later).await?;
        }
        Ok(())
    }

    async fn wait(&mut self, until: Moment, reason: Pause) -> Result<(), C::Error> {
        let now = self.ports.clock.now();
        let length = until.since(now.steady);
        let waiting = Waiting { until: now.wall.after(length), reason, until_steady: Some(until) };
        self.ports.observer.saw(now, Event::Waiting(&waiting));
        let fact = Fact::Waiting(waiting);
        if length > WAIT_RECORDED {
            self.append(now, fact, Durability::Later).await?;
        } else {
            self.push(now, fact);
        }
        self.ports.clock.wait(until).await;
        Ok(())
    }

    async fn settle(&mut self, conclusion: Conclusion) -> Result<Ended, C::Error> {
        let now = self.ports.clock.now();
        let settled = Arc::new(self.settled(conclusion));
        let durability = if planted(Bug::OutcomeUnsynced) { Durability::Later } else { Durability::Now };
        self.append(now, Fact::Settled(Arc::clone(&settled)), durability).await?;
        self.unwritten = None;
        self.ports.observer.saw(now, Event::Settled(&settled));
        Ok(Ended { settled, answer: self.answer.take() })
    }

    fn settled(&self, conclusion: Conclusion) -> Settled {
        let answer = self.answer.as_ref();
        Settled {
            verdict: conclusion.verdict,
            cause: conclusion.cause,
            retry_at: conclusion.retry_at,
            last: self.unwritten.as_ref().map(|(_, finished)| Arc::clone(finished)),
            response: answer.map(|answer| Box::new(record::response(answer, self.terms.policy, self.terms.mask))),
        }
    }

    /// Appends a fact to the ledger, then to the history: what is not recorded did not happen.
    pub(super) async fn append(&mut self, now: Now, fact: Fact, durability: Durability) -> Result<(), C::Error> {
        self.claim.append(now, &fact, durability).await?;
        self.push(now, fact);
        Ok(())
    }

    fn push(&mut self, now: Now, fact: Fact) {
        let recorded = Recorded { n: self.claim.n(), at: now.wall, steady: Some(now.steady), fact };
        self.history.facts.push(recorded);
    }
}

fn never_sent(fault: Fault, now: Now) -> Exchange {
    Exchange {
        outcome: Outcome::Unanswered { sent: Sent::Nothing, stage: Stage::Connect, fault },
        stages: Stages::default(),
        took: Duration::ZERO,
        addr: None,
        via: Via::Direct,
        error: None,
        at: now.wall,
    }
}
