//! The timers of one attempt. They end a wait; what they end still gets a last look.

use super::clock::{LOOK_EVERY, slept};
use super::marks::{Marks, Progress};
use crate::engine::deadline::Limits;
use crate::engine::exchange::{Fault, Limit};
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;
use tokio::time::{Instant, sleep_until, timeout_at};

/// How long an answer that is already in the socket may take to reach us after a timer fired.
///
/// Source: transport.md 3: a process stopped over its limit found the answer in 3 of 3 runs with it, in 0 of 3 without.
const LAST_LOOK: Duration = Duration::from_millis(2);

/// A longer sleep of the machine ends the attempt: the connection is dead or about to be.
///
/// Source: semantics.md 2.4.
const SLEEP_MAX: Duration = Duration::from_secs(2);

/// Stands for "never" where a limit overflows the clock; timers take no more.
const FAR: Duration = Duration::from_secs(86_400 * 365);

/// Watches over the limits of one attempt.
pub(super) struct Watch {
    started: Instant,
    limits: Limits,
    slept: fn() -> Duration,
    slept_before: Duration,
    /// Set once nothing but what is there already counts any more.
    closing: Option<(Fault, Instant)>,
}

impl Watch {
    /// Begins an attempt with these limits.
    pub fn new(limits: Limits) -> Watch {
        Watch::with(limits, slept)
    }

    fn with(limits: Limits, slept: fn() -> Duration) -> Watch {
        Watch { started: Instant::now(), limits, slept, slept_before: slept(), closing: None }
    }

    /// Returns when the attempt began.
    pub fn started(&self) -> Instant {
        self.started
    }

    /// Waits for a name lookup.
    ///
    /// # Errors
    /// The fault that ended the wait.
    pub async fn lookup<F: Future>(&mut self, lookup: Pin<&mut F>) -> Result<F::Output, Fault> {
        let due = self.at(self.started, self.limits.connect, Limit::Connect);
        self.see(lookup, || due, std::future::pending).await
    }

    /// Waits for the head of the answer: connection, request and answer each within their limits.
    ///
    /// # Errors
    /// The fault that ended the wait. The request may go on until the marks are abandoned.
    pub async fn head<F: Future>(&mut self, head: Pin<&mut F>, marks: &Marks) -> Result<F::Output, Fault> {
        let (started, limits) = (self.started, self.limits);
        let due = move || stage_due(started, &limits, &marks.progress());
        self.see(head, due, || marks.stage_moved()).await
    }

    /// Waits for the next piece of the answer's body.
    ///
    /// # Errors
    /// The fault that ended the wait.
    pub async fn piece<F: Future>(&mut self, piece: Pin<&mut F>) -> Result<F::Output, Fault> {
        let due = self.at(Instant::now(), self.limits.body, Limit::Body);
        self.see(piece, || due, std::future::pending).await
    }

    /// Waits for `wanted` until a limit. `due` is asked again whenever `moved` completes and before a limit counts.
    async fn see<F, M>(
        &mut self,
        mut wanted: Pin<&mut F>,
        due: impl Fn() -> (Instant, Limit),
        moved: impl Fn() -> M,
    ) -> Result<F::Output, Fault>
    where
        F: Future,
        M: Future<Output = ()>,
    {
        loop {
            let now = Instant::now();
            if let Some(fault) = self.over(now, due()) {
                return self.last_look(now, fault, wanted).await;
            }
            let (stage_ends, _) = due();
            let wake = stage_ends.min(self.whole_ends()).min(now + LOOK_EVERY);
            tokio::select! {
                biased;
                output = &mut wanted => return Ok(output),
                () = moved() => {}
                () = sleep_until(wake) => {}
            }
        }
    }

    /// Returns the fault that ends the attempt or its stage at `now`.
    fn over(&self, now: Instant, (stage_ends, limit): (Instant, Limit)) -> Option<Fault> {
        if let Some((fault, _)) = self.closing {
            return Some(fault);
        }
        if (self.slept)().saturating_sub(self.slept_before) > SLEEP_MAX {
            return Some(Fault::Suspended);
        }
        let (whole_ends, whole_is) = (self.whole_ends(), self.limits.whole_is);
        match (now >= stage_ends, now >= whole_ends) {
            (false, false) => None,
            (true, true) if whole_ends < stage_ends => Some(Fault::TimedOut(whole_is)),
            (true, _) => Some(Fault::TimedOut(limit)),
            (false, true) => Some(Fault::TimedOut(whole_is)),
        }
    }

    /// Looks once more. An attempt that is over as a whole has one such time in all: a body that drips cannot prolong it.
    async fn last_look<F: Future>(
        &mut self,
        now: Instant,
        fault: Fault,
        wanted: Pin<&mut F>,
    ) -> Result<F::Output, Fault> {
        let until = match self.closing {
            Some((_, until)) if now >= until => return Err(fault),
            Some((_, until)) => until,
            None => now + LAST_LOOK,
        };
        if fault == Fault::Suspended || fault == Fault::TimedOut(self.limits.whole_is) {
            self.closing = Some((fault, until));
        }
        timeout_at(until, wanted).await.map_err(|_| fault)
    }

    fn whole_ends(&self) -> Instant {
        after(self.started, self.limits.whole)
    }

    fn at(&self, since: Instant, limit: Duration, name: Limit) -> (Instant, Limit) {
        (after(since, limit), name)
    }
}

/// Returns when the stage that is under way is over.
///
/// The connection is waited for from the start: also where a kept one gave the request back and another is dialled.
fn stage_due(started: Instant, limits: &Limits, progress: &Progress) -> (Instant, Limit) {
    match (progress.done, progress.taken.or(progress.connected)) {
        (Some(done), _) => (after(done, limits.read), Limit::Read),
        (None, Some(moved)) => (after(moved, limits.write), Limit::Write),
        (None, None) => (after(started, limits.connect), Limit::Connect),
    }
}

fn after(since: Instant, limit: Duration) -> Instant {
    since + limit.min(FAR)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::pin::pin;

    const MS: Duration = Duration::from_millis(1);

    fn limits() -> Limits {
        Limits {
            connect: 30 * MS,
            write: 40 * MS,
            read: 50 * MS,
            body: 20 * MS,
            whole: 900 * MS,
            whole_is: Limit::Attempt,
        }
    }

    #[test]
    fn each_stage_has_its_own_limit() {
        let started = Instant::now();
        let (later, latest) = (started + MS, started + 2 * MS);
        let mut progress = Progress::default();
        assert_eq!(stage_due(started, &limits(), &progress), (started + 30 * MS, Limit::Connect));
        progress.connected = Some(later);
        assert_eq!(stage_due(started, &limits(), &progress), (later + 40 * MS, Limit::Write));
        progress.taken = Some(latest);
        assert_eq!(stage_due(started, &limits(), &progress), (latest + 40 * MS, Limit::Write));
        progress.done = Some(latest);
        assert_eq!(stage_due(started, &limits(), &progress), (latest + 50 * MS, Limit::Read));
        let kept = Progress { taken: Some(later), ..Progress::default() };
        assert_eq!(stage_due(started, &limits(), &kept), (later + 40 * MS, Limit::Write));
    }

    #[tokio::test]
    async fn the_shorter_of_stage_and_whole_ends_the_wait() {
        let mut watch = Watch::new(limits());
        let fault = watch.lookup(pin!(std::future::pending::<()>())).await;
        assert_eq!(fault, Err(Fault::TimedOut(Limit::Connect)));
        assert!(watch.started().elapsed() >= 30 * MS);
        let mut watch = Watch::new(Limits { whole: 10 * MS, whole_is: Limit::Deadline, ..limits() });
        let fault = watch.lookup(pin!(std::future::pending::<()>())).await;
        assert_eq!(fault, Err(Fault::TimedOut(Limit::Deadline)));
        assert!(watch.started().elapsed() >= 10 * MS);
    }

    #[tokio::test]
    async fn an_answer_that_is_there_wins_over_a_limit_that_is_over() {
        let mut watch = Watch::new(Limits { whole: Duration::ZERO, ..limits() });
        assert_eq!(watch.lookup(pin!(async { 7 })).await, Ok(7));
    }

    #[tokio::test]
    async fn a_body_that_always_has_more_ends_with_the_attempt() {
        let mut watch = Watch::new(Limits { whole: 10 * MS, ..limits() });
        let fault = loop {
            if let Err(fault) = watch.piece(pin!(async {})).await {
                break fault;
            }
        };
        assert_eq!(fault, Fault::TimedOut(Limit::Attempt));
        assert!(watch.started().elapsed() >= 10 * MS);
    }

    #[tokio::test]
    async fn a_machine_that_slept_ends_the_attempt_after_a_last_look() {
        thread_local!(static SLEPT: Cell<Duration> = const { Cell::new(Duration::ZERO) });
        let mut watch = Watch::with(limits(), || SLEPT.get());
        SLEPT.set(SLEEP_MAX);
        assert_eq!(watch.piece(pin!(async { 1 })).await, Ok(1));
        SLEPT.set(SLEEP_MAX + MS);
        assert_eq!(watch.piece(pin!(async { 2 })).await, Ok(2));
        assert_eq!(watch.piece(pin!(std::future::pending::<()>())).await, Err(Fault::Suspended));
    }

    #[test]
    fn an_endless_limit_does_not_overflow() {
        assert!(after(Instant::now(), Duration::MAX) > Instant::now() + Duration::from_secs(86_400));
    }
}
