//! The fold over an operation's facts: everything that a decision depends on, and nothing else.

mod questions;

pub use questions::Questions;

use super::facts::{
    About, Again, Asked, Fact, Finished, History, Opened, Pause, Predecessor, Recorded, Reopened, Says, Settled, Why,
};
use super::location;
use super::moment::{Moment, Now, Timestamp};
use super::planted::{Bug, planted};
use super::policy::Policy;
use super::verdict::{Cause, Evidence, Verdict};
use std::time::Duration;

/// A wall clock that is this far from where it should be has been stepped.
///
/// Source: decisions 9.
const CLOCK_SLACK: Duration = Duration::from_secs(2);

/// An unconditional PUT or DELETE that has been in doubt for longer is not repeated: it could undo a newer write.
///
/// Source: decisions 13.
const STALE_AFTER: Duration = Duration::from_secs(15 * 60);

/// What is known about an operation at one moment.
#[derive(Clone, Debug)]
pub struct View<'a> {
    /// What was claimed first.
    pub opened: &'a Opened,
    /// Who started the newest run.
    pub why: Why,
    /// The partner did it: by its answer, a status answer, or a person's word.
    pub confirmed: Option<Cause>,
    /// The partner refused it for good, and nothing is in doubt.
    pub rejected: Option<Cause>,
    /// Since when it has been in doubt.
    pub doubt: Option<Doubt>,
    /// The partner took it (202) and no later evidence says what became of it.
    pub accepted: bool,
    /// A 2xx, a 202 or "in progress" was seen: absence proves nothing any more.
    pub seen: bool,
    /// Absence was proven in this run, and nothing was sent since.
    pub proven_absent: bool,
    /// Attempts of this run, redirect hops not counted.
    pub attempts: u32,
    /// The number of the last attempt, hops included.
    pub last_number: u32,
    /// Redirects followed in a row.
    pub hops: u32,
    /// Attempts of this run that may be repeated once only.
    pub once: u32,
    /// The last attempt of this run.
    pub last: Option<(&'a Finished, Moment)>,
    /// Nothing is sent before this moment.
    pub floor: Option<Moment>,
    /// The wait that was begun last, and what for, if nothing happened since.
    pub waiting: Option<(Moment, Pause)>,
    /// Status questions since the last attempt of this run.
    pub questions: Questions,
    /// When this run began, by both clocks.
    run_start: Now,
    key_until: Option<Timestamp>,
    /// When the last line was written.
    last_at: Option<Timestamp>,
    /// When the last run said that another one makes sense, and where it said so.
    retry_at: Option<(&'a Recorded, Timestamp)>,
    clock_trusted: bool,
}

/// A doubt: some attempt may have been executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Doubt {
    /// When the first doubtful attempt was abandoned, by the wall clock.
    pub since: Timestamp,
    /// When the newest one was, by this process's clock; the start of the run where another process abandoned it.
    pub abandoned: Moment,
}

impl<'a> View<'a> {
    /// Folds the facts. `history` holds at least its `opened`.
    pub fn new(history: &'a History, policy: &Policy, now: Now) -> View<'a> {
        let opened = history.opened();
        let mut view = View {
            opened,
            why: opened.why,
            confirmed: None,
            rejected: None,
            doubt: None,
            accepted: false,
            seen: false,
            proven_absent: false,
            attempts: 0,
            last_number: 0,
            hops: 0,
            once: 0,
            last: None,
            floor: None,
            waiting: None,
            questions: Questions::default(),
            run_start: run_start(history).unwrap_or(now),
            key_until: opened.key_until,
            last_at: None,
            retry_at: None,
            clock_trusted: clock_is_trusted(history, now),
        };
        let mut newest = 0;
        for recorded in &history.facts {
            if recorded.fact.is_claim() {
                newest = newest.max(recorded.n);
            }
            view.fold(recorded, recorded.n == newest, policy);
        }
        view
    }

    fn fold(&mut self, recorded: &'a Recorded, current: bool, policy: &Policy) {
        if !matches!(recorded.fact, Fact::Waiting(_)) {
            self.waiting = None;
        }
        match &recorded.fact {
            Fact::Opened(opened) => self.begin(opened.why),
            Fact::Reopened(reopened) => self.reopen(recorded, reopened),
            Fact::Started(started) => self.last_number = self.last_number.max(started.a),
            Fact::Finished(finished) => self.attempt(recorded, finished, current),
            Fact::Asked(asked) => self.asked(recorded, asked, policy),
            Fact::Waiting(waiting) => self.waiting = waiting.until_steady.map(|until| (until, waiting.reason)),
            Fact::Settled(settled) => self.settle(recorded, settled, current),
            Fact::Resolved(resolved) => self.resolve(resolved.verdict),
        }
        self.last_at = Some(recorded.at);
    }

    fn begin(&mut self, why: Why) {
        self.why = why;
        // Whoever begins a new run of what was refused wants it tried again.
        self.rejected = None;
        self.attempts = 0;
        self.hops = 0;
        self.once = 0;
        self.last = None;
        self.proven_absent = false;
        self.questions = Questions::default();
        self.floor = self.floor.filter(|_| !planted(Bug::FloorForgottenByRun));
        if planted(Bug::NumbersStartAgain) {
            self.last_number = 0;
        }
    }

    fn reopen(&mut self, recorded: &Recorded, reopened: &Reopened) {
        self.begin(reopened.why);
        // A person who sends again has looked at the time to come back; a batch has not.
        let waits = reopened.why != Why::Send && !planted(Bug::ReturnForgotten);
        if let Some((settled, retry_at)) = self.retry_at.take().filter(|_| waits) {
            self.raise_floor(settled, Some(retry_at));
        }
        if planted(Bug::DoubtStartsAgain) {
            self.doubt = self.doubt.map(|doubt| Doubt { since: recorded.at, ..doubt });
        }
        if reopened.predecessor == Predecessor::InDoubt && !planted(Bug::OrphanIsFresh) {
            self.raise_doubt(recorded);
            // The owner died some time after the last line that it wrote.
            let died = self.last_at.unwrap_or(recorded.at);
            self.doubt = self.doubt.map(|doubt| Doubt { since: doubt.since.min(died), ..doubt });
        }
        if reopened.key_until.is_some() {
            self.key_until = reopened.key_until;
        }
    }

    fn attempt(&mut self, recorded: &'a Recorded, finished: &'a Finished, current: bool) {
        self.last_number = self.last_number.max(finished.a);
        self.weigh(recorded, finished);
        if !current {
            return;
        }
        let is_hop = finished.hop.is_some();
        self.hops = if is_hop { self.hops + 1 } else { 0 };
        self.attempts += u32::from(!is_hop);
        self.once += u32::from(finished.again == Again::Once);
        self.last = Some((finished, recorded.steady.unwrap_or(self.run_start.steady)));
        self.proven_absent = false;
        self.questions = Questions { control_ok: self.questions.control_ok, ..Questions::default() };
    }

    /// Takes what an attempt proves, whoever made it: a late outcome counts as evidence (decisions 14).
    fn weigh(&mut self, recorded: &Recorded, finished: &Finished) {
        self.raise_floor(recorded, finished.not_before);
        let saw_2xx = finished.http.is_some_and(|status| (200..300).contains(&status));
        match (finished.evidence, finished.done) {
            (Evidence::Answered, Some(true)) => self.confirmed = Some(Cause::Answer),
            (Evidence::Answered, _) if planted(Bug::RejectionEndsDoubt) => self.rejected = Some(Cause::Answer),
            (Evidence::Answered, _) if self.doubt.is_none() && !self.accepted => self.rejected = Some(Cause::Answer),
            (Evidence::Answered, _) if finished.replayed => {
                self.doubt = None;
                self.rejected = Some(Cause::Answer);
            }
            (Evidence::Accepted, _) => {
                self.accepted = true;
                self.seen = true;
            }
            (Evidence::Partial | Evidence::InDoubt, _) => {
                self.seen |= saw_2xx || finished.again == Again::Later;
                self.raise_doubt(recorded);
            }
            (Evidence::Refused, _) if planted(Bug::RefusalEndsDoubt) => self.doubt = None,
            (Evidence::NotSent | Evidence::Refused | Evidence::Answered, _) => {}
        }
    }

    /// Raises the doubt over an attempt whose story ends with `recorded`. It lasts since the first one.
    fn raise_doubt(&mut self, recorded: &Recorded) {
        let abandoned = recorded.steady.unwrap_or(self.run_start.steady);
        let since = self.doubt.map_or(recorded.at, |doubt| doubt.since.min(recorded.at));
        self.rejected = None;
        self.doubt = Some(Doubt { since, abandoned });
    }

    /// Raises the floor to a time from a fact: by this process's clock where it wrote the fact, else counted from the
    /// start of this run, and never longer than the partner asked for, whatever the wall clock did since.
    fn raise_floor(&mut self, recorded: &Recorded, not_before: Option<Timestamp>) {
        let Some(not_before) = not_before else { return };
        let asked_for = not_before.since(recorded.at);
        let asked_for = if planted(Bug::RetryAfterClamped) { asked_for.min(STALE_AFTER / 15) } else { asked_for };
        let floor = match recorded.steady {
            Some(steady) => steady.after(asked_for),
            None => self.run_start.steady.after(not_before.since(self.run_start.wall).min(asked_for)),
        };
        self.floor = Some(self.floor.map_or(floor, |known| known.max(floor)));
    }

    fn asked(&mut self, recorded: &Recorded, asked: &Asked, policy: &Policy) {
        self.raise_floor(recorded, asked.not_before);
        let at = recorded.steady;
        if asked.about == About::Control {
            self.questions.control_ok |= asked.says == Says::Confirmed && at.is_some();
            self.questions.control_asked = true;
            self.questions.last_at = at;
            return;
        }
        self.questions.count += 1;
        self.questions.last_at = at;
        self.questions.says = Some(asked.says);
        match asked.says {
            Says::Confirmed => self.confirmed = Some(Cause::Status),
            Says::Rejected => {
                self.doubt = None;
                self.accepted = false;
                self.rejected = Some(Cause::Status);
            }
            Says::InProgress => self.seen = true,
            Says::Absent => self.absent(at, asked.by_body),
            Says::Unclear => {}
        }
        self.prove_absence(policy);
    }

    fn absent(&mut self, at: Option<Moment>, by_body: bool) {
        // Answers of other runs do not count: their clock is not ours.
        let Some(at) = at else { return };
        let extend = |seen: Option<(Moment, Moment)>| Some((seen.map_or(at, |(first, _)| first), at));
        self.questions.control_asked = false;
        self.questions.absent = extend(self.questions.absent);
        if by_body {
            self.questions.absent_by_body = extend(self.questions.absent_by_body);
        }
    }

    /// Clears the doubt where absence is proven (decisions 10).
    fn prove_absence(&mut self, policy: &Policy) {
        let settle = policy.status.as_ref().and_then(|status| status.settle);
        let (Some(settle), Some(doubt), Some((first, last))) = (settle, self.doubt, self.questions.absences()) else {
            return;
        };
        let apart = last.since(first) >= settle && last > first;
        let settled = apart && last.since(doubt.abandoned) >= settle;
        if (settled || planted(Bug::OneAbsenceProves)) && !self.seen && !self.accepted {
            self.doubt = None;
            self.proven_absent = true;
        }
    }

    fn settle(&mut self, recorded: &'a Recorded, settled: &'a Settled, current: bool) {
        // An owner that was fenced off does not know what the newest run was told.
        if current || planted(Bug::LateEndMovesReturn) {
            self.retry_at = settled.retry_at.map(|retry_at| (recorded, retry_at));
        }
        if let Some(last) = &settled.last {
            let known = matches!(self.last, Some((finished, _)) if finished.a == last.a);
            if !(current && known) {
                self.attempt(recorded, last, current);
            }
        }
        match settled.verdict {
            Verdict::Confirmed => self.confirmed = self.confirmed.or(Some(settled.cause)),
            Verdict::Accepted => {
                self.accepted = true;
                self.seen = true;
            }
            Verdict::InDoubt if self.doubt.is_none() => self.raise_doubt(recorded),
            Verdict::InDoubt => {}
            // What an outdated owner says of its own attempts says nothing of later ones.
            Verdict::Rejected | Verdict::NotDone if !current && !planted(Bug::LateFailureClears) => {}
            Verdict::Rejected => {
                self.doubt = None;
                self.rejected = Some(settled.cause);
            }
            Verdict::NotDone => self.doubt = None,
        }
    }

    fn resolve(&mut self, verdict: Verdict) {
        self.doubt = self.doubt.filter(|_| planted(Bug::WordLeavesDoubt));
        self.accepted = false;
        self.rejected = None;
        // What a person said before is taken back.
        self.confirmed = self.confirmed.filter(|cause| *cause != Cause::Person);
        match verdict {
            Verdict::Confirmed => self.confirmed = self.confirmed.or(Some(Cause::Person)),
            Verdict::Rejected => self.rejected = Some(Cause::Person),
            Verdict::NotDone | Verdict::InDoubt | Verdict::Accepted => {}
        }
    }

    /// Returns whether the partner would recognise a repetition by its key (decisions 9).
    pub fn protects(&self, policy: &Policy, now: Now) -> bool {
        policy.idempotency.supported
            && self.clock_trusted
            && self.key_until.is_some_and(|until| now.wall < until || planted(Bug::KeyForEver))
            && *self.opened.contract == *policy.idempotency.contract()
            && self.opened.account == policy.account
            && location::origin(&self.opened.url).is_some_and(|opened| location::origin(&policy.origin) == Some(opened))
    }

    /// Returns whether the wait that was begun last, if nothing happened since, was for a status request, or was not.
    pub fn waited_for_question(&self) -> Option<bool> {
        self.waiting.map(|(_, why)| why == Pause::NextQuestion)
    }

    /// Returns whether repeating the request is harmless by its method alone.
    pub fn repeatable(&self, policy: &Policy, now: Now) -> bool {
        let stale = self.doubt.is_some_and(|doubt| now.wall.since(doubt.since) > STALE_AFTER);
        policy.method.is_idempotent() && !(stale && self.unconditional())
    }

    /// Returns until when the key is trusted; `None` where the partner did not honour it.
    pub fn key_until(&self) -> Option<Timestamp> {
        self.key_until
    }

    /// Returns how long a new run would wait for a Retry-After, or for the time that the last run gave.
    pub fn come_back(&self, now: Now) -> Option<Duration> {
        let floor = self.floor.map(|floor| floor.since(now.steady));
        let said = self.retry_at.map(|(settled, retry_at)| retry_at.since(now.wall).min(retry_at.since(settled.at)));
        floor.max(said).filter(|wait| !wait.is_zero())
    }

    /// Returns whether nothing in the request makes the partner check that the resource is as it was.
    pub fn unconditional(&self) -> bool {
        let conditions = ["if-match", "if-none-match", "if-unmodified-since"];
        !self.opened.headers.iter().any(|(name, _)| conditions.iter().any(|known| name.eq_ignore_ascii_case(known)))
    }

    /// Returns whether the operation must not be sent any more.
    pub fn expired(&self, wall: Timestamp) -> bool {
        self.opened.valid_until.is_some_and(|until| wall >= until) && !planted(Bug::ExpiredIsSent)
    }
}

/// Returns whether the wall clock goes with the steady one, never went back in the ledger, and no fact comes from the
/// future (decisions 9).
fn clock_is_trusted(history: &History, now: Now) -> bool {
    let mut latest = Timestamp::default();
    history.facts.iter().all(|recorded| {
        let went_back = latest.since(recorded.at) > CLOCK_SLACK;
        latest = latest.max(recorded.at);
        let expected = match recorded.steady {
            Some(steady) => recorded.at.after(now.steady.since(steady)),
            None => recorded.at,
        };
        !went_back && expected.since(now.wall) <= CLOCK_SLACK || planted(Bug::ClockBelieved)
    })
}

/// Returns when the newest run began, where this process began it.
fn run_start(history: &History) -> Option<Now> {
    let n = history.newest_claim();
    let claim = history.facts.iter().find(|recorded| recorded.n == n && recorded.fact.is_claim())?;
    claim.steady.map(|steady| Now { steady, wall: claim.at })
}
