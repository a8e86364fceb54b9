//! The whole retry policy: facts in, the next action out. Pure and total.

use super::backoff::share;
use super::deadline::{Deadline, Limits};
use super::exchange::Way;
use super::facts::{About, Again, Fact, Finished, History, Pause, Recorded, Says, Why};
use super::moment::{Moment, Now, Timestamp};
use super::planted::{Bug, planted};
use super::policy::Policy;
use super::reason::Reason;
use super::verdict::{Cause, Evidence, Verdict};
use super::view::{Doubt, View};
use std::net::SocketAddr;
use std::time::Duration;

/// What to do next for one operation.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Send the request.
    Attempt {
        /// The attempt, from 1.
        a: u32,
        /// What it may take.
        limits: Limits,
    },
    /// Ask the status endpoint.
    AskStatus {
        /// Whom about.
        about: About,
        /// What it may take.
        limits: Limits,
    },
    /// Do nothing for a while.
    Wait {
        /// Until when.
        until: Moment,
        /// What for.
        why: Pause,
    },
    /// End the run.
    Settle(Conclusion),
}

/// Added before a time is cut to milliseconds, so that nobody comes back before it.
const ROUND_UP: Duration = Duration::from_nanos(999_999);

/// How a run ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Conclusion {
    /// What is known.
    pub verdict: Verdict,
    /// Why the run ends so.
    pub cause: Cause,
    /// The earliest time that another run makes sense.
    pub retry_at: Option<Timestamp>,
}

/// Returns the next action.
///
/// `history` holds at least its `opened`. `deadline` is that of the newest run. `draw` is uniform in `[0, 1)` and
/// jitters a wait that begins now; a wait once begun keeps its end, which is in the history.
pub fn decide(history: &History, policy: &Policy, deadline: Deadline, now: Now, draw: f64) -> Action {
    let view = View::new(history, policy, now);
    Decider { view, policy, deadline, now, draw }.next()
}

/// Returns how a run ends that may do nothing more: what is known now, with `cause` where nothing is proven.
pub fn conclude(history: &History, policy: &Policy, now: Now, cause: Cause) -> Conclusion {
    let view = View::new(history, policy, now);
    let decider = Decider { view, policy, deadline: Deadline(now.steady), now, draw: 0.0 };
    decider.proof().unwrap_or_else(|| decider.conclusion(cause, decider.view.floor))
}

/// Returns the address for the next attempt: the one that a doubtful attempt used, else the next one after each
/// attempt of this run that was not sent. `None` where the way has no address and nothing is pinned.
///
/// An address belongs to its way: that of a proxy leads nowhere without the proxy. Where a run passes by another proxy
/// than the doubtful attempt did, the first address is taken.
///
/// Source: decisions 9: a regional partner knows a key only where it was first seen.
pub fn choose_address(history: &History, policy: &Policy, now: Now, way: &Way) -> Option<SocketAddr> {
    let view = View::new(history, policy, now);
    let found = &way.addresses;
    let used = |recorded: &Recorded| match &recorded.fact {
        Fact::Started(started) => started.addr.map(|addr| (addr, started.proxy == way.proxy)),
        _ => None,
    };
    // What may be repeated anywhere is not pinned (decisions 2).
    let pins = (view.doubt.is_some() || view.accepted) && !policy.method.is_safe();
    if pins && !planted(Bug::PinForgotten) {
        let pinned = history.facts.iter().rev().find_map(used);
        let pinned = pinned.filter(|(_, same_way)| *same_way).map(|(addr, _)| addr);
        return pinned.or_else(|| found.first().copied());
    }
    let newest = history.newest_claim();
    let not_sent = |recorded: &&Recorded| {
        let of_run = recorded.n == newest;
        of_run && matches!(&recorded.fact, Fact::Finished(finished) if finished.evidence == Evidence::NotSent)
    };
    let failed = history.facts.iter().filter(not_sent).count();
    (!found.is_empty()).then(|| found[failed % found.len()])
}

struct Decider<'a> {
    view: View<'a>,
    policy: &'a Policy,
    deadline: Deadline,
    now: Now,
    draw: f64,
}

impl Decider<'_> {
    fn next(&self) -> Action {
        if let Some(proof) = self.proof() {
            return Action::Settle(proof);
        }
        if let Some((until, why)) = self.view.waiting.filter(|(until, _)| *until > self.now.steady) {
            return Action::Wait { until, why };
        }
        if self.view.accepted {
            return self.ask_or_settle(Cause::Answer);
        }
        match self.in_doubt() {
            true => self.resolve_doubt(),
            false => self.retry(),
        }
    }

    /// Returns the end of a run whose verdict is proven.
    fn proof(&self) -> Option<Conclusion> {
        let ended = |verdict, cause| Some(Conclusion { verdict, cause, retry_at: None });
        match (self.view.confirmed, self.view.rejected) {
            (Some(cause), _) => ended(Verdict::Confirmed, cause),
            (None, Some(cause)) => ended(Verdict::Rejected, cause),
            (None, None) => None,
        }
    }

    /// Safe methods are never in doubt (decisions 2).
    fn in_doubt(&self) -> bool {
        self.view.doubt.is_some() && (!self.policy.method.is_safe() || planted(Bug::SafeInDoubt))
    }

    fn resolve_doubt(&self) -> Action {
        let can_ask = self.policy.status.is_some();
        let resend = self.may_resend();
        let still_running = matches!(self.view.last, Some((last, _)) if last.again == Again::Later)
            || self.view.questions.says == Some(Says::InProgress);
        let fresh = self.view.last.is_none() && self.view.questions.count == 0;
        let asks = self.view.why != Why::Send && !planted(Bug::AskingForgotten);
        let asks_first = fresh && asks && !self.policy.accept_duplicate;
        if can_ask && (!resend || still_running || asks_first) {
            return self.ask_or_settle(self.doubt_cause());
        }
        if resend {
            return self.attempt_after_wait();
        }
        self.give_up(self.doubt_cause(), self.view.floor)
    }

    /// Returns whether sending the request once more can do no harm and may help.
    fn may_resend(&self) -> bool {
        // The user's word is for the first send of a run, not for what goes wrong with it.
        let first = self.view.last.is_none() || planted(Bug::AcceptedForAll);
        let accepted = self.policy.accept_duplicate && first;
        let harmless =
            accepted || self.view.protects(self.policy, self.now) || self.view.repeatable(self.policy, self.now);
        let worth_it = match self.view.last {
            // A new run may begin with a resend, whatever ended the run before (decisions 4).
            None => true,
            Some((last, _)) => match last.again {
                Again::Yes | Again::Later => true,
                Again::Once => self.view.once < 2,
                // Refused after doubt: the doubt is older than this answer, and the same answer would come again.
                Again::No => false,
            },
        };
        (harmless || planted(Bug::BlindResend)) && worth_it && self.attempts_left() && !self.view.expired(self.now.wall)
    }

    fn doubt_cause(&self) -> Cause {
        if self.view.expired(self.now.wall) {
            return Cause::Expired;
        }
        if self.attempts_left() { Cause::NothingHelps } else { Cause::AttemptsExhausted }
    }

    fn attempts_left(&self) -> bool {
        self.view.attempts < self.policy.retry.max_attempts || planted(Bug::AttemptsUncounted)
    }

    /// Decides what follows when nothing is in doubt.
    fn retry(&self) -> Action {
        let Some((last, _)) = self.view.last.filter(|_| !self.view.proven_absent) else {
            return self.attempt_after_wait();
        };
        let settle = |cause| self.give_up(cause, self.view.floor);
        match last.again {
            Again::No if last.evidence.is_doubt() => settle(Cause::Answer),
            Again::No => settle(needed_change(last)),
            Again::Once if self.view.once > 1 => settle(needed_change(last)),
            Again::Yes | Again::Once | Again::Later => self.attempt_after_wait(),
        }
    }

    /// Starts the next attempt, or the wait before it, or ends the run where neither fits.
    fn attempt_after_wait(&self) -> Action {
        let (mut ready, why) = self.ready();
        if planted(Bug::WaitCutShort) {
            ready = ready.min(self.now.steady.after(self.deadline.left(self.now.steady) / 2));
        }
        let floor_at = self.view.floor.filter(|floor| *floor > self.now.steady);
        if !self.attempts_left() {
            return self.ask_or_give_up(Cause::AttemptsExhausted, floor_at);
        }
        if self.view.expired(self.now.wall.after(ready.since(self.now.steady))) {
            return self.ask_or_give_up(Cause::Expired, None);
        }
        if floor_at.is_some_and(|floor| floor.since(self.now.steady) > self.policy.retry.max_retry_after) {
            return self.ask_or_give_up(Cause::RetryAfterTooLong, floor_at);
        }
        let reserve = self.reserve();
        let needed = self.policy.min_attempt.saturating_add(reserve);
        if self.deadline.left(ready.max(self.now.steady)) < needed {
            return match ready > self.now.steady {
                true => self.ask_or_give_up(Cause::WaitExceedsDeadline, Some(ready)),
                false => self.ask_or_give_up(Cause::Deadline, floor_at),
            };
        }
        if ready > self.now.steady {
            return Action::Wait { until: ready, why };
        }
        let left = self.deadline.left(self.now.steady).saturating_sub(reserve);
        let left = if planted(Bug::DeadlineUnheeded) { self.policy.timeouts.attempt } else { left };
        Action::Attempt { a: self.view.last_number + 1, limits: Limits::new(&self.policy.timeouts, left) }
    }

    /// Returns when the next attempt may start, and what for until then.
    fn ready(&self) -> (Moment, Pause) {
        let start = self.now.steady;
        let floor = self.view.floor.unwrap_or(start);
        let waited = self.view.waited_for_question();
        if waited == Some(false) || waited == Some(true) && planted(Bug::WaitsConfused) {
            return (floor, Pause::RetryAfter);
        }
        let Some((last, ended)) = self.view.last.filter(|_| !self.view.proven_absent) else {
            let settled = self.settled_for_key(start);
            return if settled > floor { (settled, Pause::Settle) } else { (floor, Pause::RetryAfter) };
        };
        let backed_off = match last.hop {
            Some(_) => ended,
            None => ended.after(self.policy.retry.backoff.after(self.view.attempts, self.draw)),
        };
        let settled = self.settled_for_key(ended);
        let has_floor = self.view.floor.is_some();
        if has_floor && floor > backed_off && floor >= settled {
            return (self.spread(floor, ended), Pause::RetryAfter);
        }
        if settled > backed_off { (settled, Pause::Settle) } else { (backed_off, Pause::Backoff) }
    }

    /// After doubt the same key waits until the partner's worst lag is over (`[idempotency] settle`), whatever the doubt
    /// came from: behind a gateway's 500, 502, 503 or 504 the partner may be running as after our own time-out.
    fn settled_for_key(&self, otherwise: Moment) -> Moment {
        let settled = |doubt: Doubt| doubt.abandoned.after(self.policy.idempotency.settle);
        let doubt = self.view.doubt.filter(|_| !planted(Bug::NoSettleForKey));
        doubt.map_or(otherwise, |doubt| settled(doubt).max(otherwise))
    }

    /// Returns a moment at or after a Retry-After floor, so that not every client comes back at the same one.
    ///
    /// Source: reference semantics 3.3: up to a tenth of the wait and the base later, as far as the deadline has room.
    fn spread(&self, floor: Moment, ended: Moment) -> Moment {
        let wanted = (floor.since(ended) / 10).saturating_add(self.policy.retry.backoff.base);
        let needed = self.policy.min_attempt.saturating_add(self.reserve());
        let room = self.deadline.left(floor).saturating_sub(needed);
        floor.after(share(wanted.min(room), self.draw))
    }

    /// Time kept back for the first status request (decisions 10).
    fn reserve(&self) -> Duration {
        let timeouts = &self.policy.timeouts;
        match (&self.policy.status, self.view.questions.count) {
            (Some(_), 0) if !self.policy.method.is_safe() => {
                timeouts.connect.saturating_add(timeouts.read).min(timeouts.overall / 4)
            }
            _ => Duration::ZERO,
        }
    }

    /// Asks where something is unknown and can be asked, else ends the run.
    fn ask_or_give_up(&self, cause: Cause, retry_at: Option<Moment>) -> Action {
        if self.in_doubt() && self.policy.status.is_some() {
            return self.ask_or_settle(cause);
        }
        self.give_up(cause, retry_at)
    }

    fn ask_or_settle(&self, cause: Cause) -> Action {
        let Some(status) = &self.policy.status else {
            return self.give_up(cause, self.view.floor);
        };
        let questions = &self.view.questions;
        let about_control = questions.needs_control() && status.control.is_some();
        let ready = if about_control { self.now.steady } else { self.next_question() };
        if self.deadline.left(ready.max(self.now.steady)) < self.policy.min_attempt {
            let cause = if cause == Cause::Answer { Cause::Deadline } else { cause };
            return self.give_up(cause, Some(ready));
        }
        if ready > self.now.steady {
            return Action::Wait { until: ready, why: Pause::NextQuestion };
        }
        let limits = Limits::new(&self.policy.timeouts, self.deadline.left(self.now.steady));
        Action::AskStatus { about: if about_control { About::Control } else { About::Operation }, limits }
    }

    /// Returns when the next status request is due: at once after an attempt, then after the back-off, but no later
    /// than the moment at which another "absent" would be proof; never before a Retry-After.
    fn next_question(&self) -> Moment {
        let questions = &self.view.questions;
        let floor = self.view.floor.unwrap_or(Moment::START);
        let Some(last_at) = questions.last_at.filter(|_| self.view.waited_for_question() != Some(true)) else {
            return floor.max(self.now.steady);
        };
        let backed_off = last_at.after(self.policy.retry.backoff.after(questions.count, self.draw));
        let proof_at = match (self.policy.status.as_ref().and_then(|status| status.settle), self.view.doubt) {
            (Some(settle), Some(doubt)) => questions
                .absences()
                .map(|(first, _)| first.max(doubt.abandoned).after(settle))
                .filter(|proof_at| *proof_at > last_at),
            _ => None,
        };
        proof_at.map_or(backed_off, |proof_at| backed_off.min(proof_at)).max(floor)
    }

    fn give_up(&self, cause: Cause, retry_at: Option<Moment>) -> Action {
        Action::Settle(self.conclusion(cause, retry_at))
    }

    fn conclusion(&self, cause: Cause, retry_at: Option<Moment>) -> Conclusion {
        let verdict = match (self.view.accepted, self.in_doubt()) {
            (true, _) => Verdict::Accepted,
            (false, true) => Verdict::InDoubt,
            (false, false) => Verdict::NotDone,
        };
        let retry_at = retry_at
            .filter(|moment| *moment > self.now.steady)
            .map(|moment| self.now.wall.after(moment.since(self.now.steady).saturating_add(ROUND_UP)));
        Conclusion { verdict, cause, retry_at }
    }
}

fn needed_change(last: &Finished) -> Cause {
    match last.reason {
        Reason::Credentials | Reason::ProxyCredentials => Cause::Credentials,
        Reason::ClientCertificate | Reason::ClientCertificateWanted => Cause::Credentials,
        _ => Cause::NeedsChange,
    }
}

#[cfg(test)]
mod tests;
