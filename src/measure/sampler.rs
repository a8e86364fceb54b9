//! Takes samples from a partner, each on a connection of its own and recorded nowhere: safe requests, or operations that
//! a person wants executed for it.

mod plan;

pub use plan::{MOST_IN_FLIGHT, Pace, Plan};

use super::alarm::Alarm;
use super::schedule::Schedule;
use super::tally::Tally;
use crate::drive::{Entropy, Question, Transport, send_unrecorded};
use crate::engine::classify::Context;
use crate::engine::exchange::Exchange;
use crate::engine::moment::Timestamp;
use crate::engine::operation::{Header, IdempotencyKey, Operation};
use crate::engine::policy::Policy;
use crate::engine::secret::{Mask, Secret};
use crate::engine::suggest::sample::{Taken, taken};
use crate::engine::suggest::seen::Pacing;
use crate::net::chance::Chance;
use crate::net::clock::Interrupt;
use crate::net::{Wire, WireSettings};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::{Id, JoinSet};
use tokio::time::Instant;

/// So many failures in a row end a run.
///
/// Source: latency.md 3.2.
const FAILURES_IN_A_ROW: u32 = 5;
/// So many failures among the first requests end a run: more than a fifth of 20 is 5.
///
/// Source: latency.md 3.2.
const FAILURES_AT_FIRST: (u64, u64) = (5, 20);
/// A partner that asks for fewer requests so often is not asked any more.
///
/// Five halvings make a thirtieth of the rate that was wanted.
const MOST_PAUSES: u32 = 5;
/// Nobody waits longer for a partner that wants to be left alone.
///
/// Source: `max_retry_after` of product.md section 4.
const LONGEST_PAUSE: Duration = Duration::from_secs(3_600);

/// An operation that leaves later than this, and than an interval after it was due, lets the others wait as well.
///
/// Below it the machine was busy; above it the process was stopped.
const LATE: Duration = Duration::from_millis(100);

/// What is asked.
#[derive(Clone, Debug)]
pub struct Subject {
    /// The absolute URL; where each sample is an operation of its own, that of all of them.
    pub url: Secret,
    /// The header fields of a safe request.
    pub headers: Arc<[Header]>,
    /// The rules.
    pub policy: Policy,
    /// What no other origin may see.
    pub mask: Mask,
    /// JSON is wanted.
    pub json: bool,
}

/// Why a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// All samples were taken.
    Done,
    /// A signal asked for it.
    Interrupted,
    /// So many requests failed in a row.
    FailedInARow(u32),
    /// So many of the first requests failed.
    FailedAtFirst(u64),
    /// The partner wants to be left alone for so long.
    LeftAlone(Duration),
    /// The partner asked for fewer requests so often.
    SlowedDown(u32),
}

/// Who wants the samples.
pub trait Caller {
    /// Returns the settings of one sample, with names that are not looked up yet.
    fn wire(&mut self) -> WireSettings;

    /// Returns the operation that is sent as the next sample, under a new key; `None`: a safe request, always the same.
    ///
    /// The partner executes it, and nothing records it: a person must have said that this is wanted.
    fn operation(&mut self) -> Option<Operation>;

    /// Is told of each sample that has ended, which `tally` counts already.
    fn saw(&mut self, tally: &Tally, ended: Sample<'_>);
}

/// A sample that has ended.
#[derive(Clone, Copy, Debug)]
pub struct Sample<'a> {
    /// What it says.
    pub taken: &'a Taken,
    /// When it began.
    pub at: Timestamp,
    /// The key of the operation that it was.
    pub key: Option<&'a IdempotencyKey>,
}

/// Takes samples until the plan is done, or something ends it. What was measured is kept, whatever that is.
///
/// At an interruption safe requests under way are called off and count as given up. Operations run to their limits: they
/// cannot be called back.
///
/// # Panics
/// Where the method of `subject` is not safe and `caller` makes no operation.
///
/// Source: latency.md 3.2; decisions 21 and 32.
pub async fn take(plan: &Plan, subject: &Subject, caller: &mut dyn Caller, interrupt: &Interrupt) -> (Tally, Ended) {
    let start = Instant::now();
    let (mut run, alarm) = (Run::new(plan, subject, start), Alarm::start());
    let is_safe = subject.policy.method.is_safe();
    loop {
        let due = run.due();
        if due.is_none() && run.running.is_empty() {
            return (run.tally, run.ended.unwrap_or(Ended::Done));
        }
        tokio::select! {
            biased;
            () = interrupt.wait(), if is_safe || run.ended.is_none() => match is_safe {
                true => return run.call_off(caller),
                false => run.ended = Some(Ended::Interrupted),
            },
            Some(back) = run.running.join_next_with_id() => {
                let (id, exchange) = back.expect("a sample neither panics nor is aborted");
                run.took(id, &exchange, caller);
            }
            () = alarm.until(due.unwrap_or(start).into_std()), if due.is_some() => run.launch(caller),
        }
    }
}

/// A request under way.
struct Flight {
    started: Instant,
    at: Timestamp,
    key: Option<IdempotencyKey>,
}

struct Run<'a> {
    plan: &'a Plan,
    subject: &'a Subject,
    chance: Chance,
    schedule: Option<Schedule>,
    next: Instant,
    start: Instant,
    /// Requests that were due.
    passed: u64,
    running: JoinSet<Exchange>,
    flights: HashMap<Id, Flight>,
    tally: Tally,
    failures_in_a_row: u32,
    pauses: u32,
    /// When the last pause began.
    paused_at: Option<Instant>,
    ended: Option<Ended>,
}

impl<'a> Run<'a> {
    fn new(plan: &'a Plan, subject: &'a Subject, start: Instant) -> Run<'a> {
        let mut chance = Chance::fixed(plan.seed);
        let mut schedule = match plan.pace {
            Pace::Open { interval } => Some(Schedule::new(start, interval)),
            Pace::Closed { .. } => None,
        };
        let next = schedule.as_mut().map_or(start, |schedule| schedule.next(chance.draw()));
        Run {
            plan,
            subject,
            chance,
            schedule,
            next,
            start,
            passed: 0,
            running: JoinSet::new(),
            flights: HashMap::new(),
            tally: Tally::default(),
            failures_in_a_row: 0,
            pauses: 0,
            paused_at: None,
            ended: None,
        }
    }

    /// Returns when the next request is due; `None` where none is, or it first waits for another.
    fn due(&self) -> Option<Instant> {
        let enough = self.plan.samples.is_some_and(|samples| self.passed >= samples);
        let late = self.plan.duration.is_some_and(|duration| self.leaves().duration_since(self.start) >= duration);
        let waits = self.plan.pacing() == Pacing::Closed && self.is_full();
        let ends = enough || late || self.ended.is_some();
        (!ends && !waits).then_some(self.next)
    }

    /// Returns when the next request leaves. What a plan makes due leaves for it, a little late or not; but what waited
    /// for an answer, or is executed, leaves now or not at all.
    fn leaves(&self) -> Instant {
        let is_due = self.plan.pacing() == Pacing::Open && self.subject.policy.method.is_safe();
        if is_due { self.next } else { self.next.max(Instant::now()) }
    }

    fn is_full(&self) -> bool {
        self.running.len() as u64 >= self.plan.in_flight_max()
    }

    /// Sends what is due, unless too many are under way: then it is missed.
    fn launch(&mut self, caller: &mut dyn Caller) {
        let (now, intended) = (Instant::now(), self.next);
        self.passed += 1;
        self.catch_up_with(now.duration_since(intended));
        self.next = match (&mut self.schedule, self.plan.pace) {
            (Some(schedule), _) => schedule.next(self.chance.draw()),
            (None, Pace::Closed { interval: Some(interval), .. }) => now + interval,
            (None, _) => now,
        };
        if self.is_full() {
            self.tally.missed += 1;
            return;
        }
        if self.plan.pacing() == Pacing::Open {
            self.tally.add_lag(now.duration_since(intended));
        }
        let (settings, limits) = (caller.wire(), self.plan.limits());
        let (at, mut wire) = (settings.wall.now(), Wire::new(settings));
        let operation = caller.operation();
        let key = operation.as_ref().map(|operation| operation.key.clone());
        let handle = match operation {
            Some(operation) => self.running.spawn(async move { send_unrecorded(&mut wire, &operation, limits).await }),
            None => {
                let subject = self.subject.clone();
                assert!(subject.policy.method.is_safe(), "what may be executed needs a ledger, or a person's word");
                self.running.spawn(async move {
                    let (method, url) = (subject.policy.method.as_str(), subject.url.expose());
                    wire.ask(Question { method, url, headers: &subject.headers, limits }).await
                })
            }
        };
        self.flights.insert(handle.id(), Flight { started: now, at, key });
    }

    /// Keeps to the rate that was announced for operations, also after Ctrl-Z: those that were due meanwhile would leave
    /// all at once.
    fn catch_up_with(&mut self, late: Duration) {
        if let (Some(schedule), Pace::Open { interval }) = (&mut self.schedule, self.plan.pace)
            && late > interval.max(LATE)
            && !self.subject.policy.method.is_safe()
        {
            schedule.shift(late);
        }
    }

    /// Counts what came back, and looks whether to go on.
    fn took(&mut self, id: Id, exchange: &Exchange, caller: &mut dyn Caller) {
        let Flight { started, at, key } = self.flights.remove(&id).expect("what comes back was sent");
        let Subject { url, policy, mask, json, .. } = self.subject;
        let (had_doubt, protected, hops, trail) = (false, false, 0, &[][..]);
        let context = Context { policy, url: url.expose(), had_doubt, protected, hops, trail, mask, json: *json };
        let taken = taken(exchange, &context);
        self.tally.add(&taken, at);
        if key.is_some() {
            self.tally.executions.add(exchange, &context);
        }
        self.judge(&taken, started);
        caller.saw(&self.tally, Sample { taken: &taken, at, key: key.as_ref() });
    }

    fn judge(&mut self, taken: &Taken, started: Instant) {
        self.failures_in_a_row = if taken.failure.is_some() { self.failures_in_a_row + 1 } else { 0 };
        // Requests that left before the pause was asked for are not a second wish for one.
        let pause = taken.pause.filter(|_| self.paused_at.is_none_or(|paused_at| started > paused_at));
        if let Some(pause) = pause {
            self.pause(pause);
        }
        let (failed, (most, first)) = (self.tally.failures.all(), FAILURES_AT_FIRST);
        if self.failures_in_a_row >= FAILURES_IN_A_ROW {
            self.ended.get_or_insert(Ended::FailedInARow(self.failures_in_a_row));
        } else if failed >= most && self.tally.ended() <= first {
            self.ended.get_or_insert(Ended::FailedAtFirst(failed));
        }
    }

    fn pause(&mut self, pause: Duration) {
        let now = Instant::now();
        self.pauses += 1;
        self.paused_at = Some(now);
        if pause > LONGEST_PAUSE {
            self.ended.get_or_insert(Ended::LeftAlone(pause));
            return;
        }
        if self.pauses > MOST_PAUSES {
            self.ended.get_or_insert(Ended::SlowedDown(self.pauses));
            return;
        }
        self.next = match &mut self.schedule {
            Some(schedule) => {
                schedule.slow_down(now + pause);
                schedule.next(self.chance.draw())
            }
            None => now + pause,
        };
    }

    /// Calls off what is under way. It is safe, so that nothing is lost but a sample.
    fn call_off(mut self, caller: &mut dyn Caller) -> (Tally, Ended) {
        let now = Instant::now();
        for Flight { started, at, key } in self.flights.into_values() {
            let taken = self.tally.call_off(now.duration_since(started), at);
            caller.saw(&self.tally, Sample { taken: &taken, at, key: key.as_ref() });
        }
        self.running.abort_all();
        (self.tally, Ended::Interrupted)
    }
}

#[cfg(test)]
mod tests;
