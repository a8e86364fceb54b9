//! What became of samples that a partner may execute: each was an operation of its own, which no ledger knows.

use super::super::classify::{Context, classify};
use super::super::exchange::{Exchange, Outcome};
use super::super::verdict::{Evidence, Verdict};

/// How many samples ended with which verdict.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Executions {
    /// The partner did it.
    pub confirmed: u64,
    /// The partner took it and has not finished.
    pub accepted: u64,
    /// The partner refused it for good: not executed.
    pub rejected: u64,
    /// Not sent, or refused for now: not executed.
    pub not_done: u64,
    /// It may have been executed.
    pub in_doubt: u64,
    /// Those of [`Executions::in_doubt`] that got no answer at all.
    pub unanswered: u64,
}

impl Executions {
    /// Counts a request that was made once, under a key of its own.
    pub fn add(&mut self, exchange: &Exchange, context: &Context<'_>) {
        let verdict = verdict(exchange, context);
        let count = match verdict {
            Verdict::Confirmed => &mut self.confirmed,
            Verdict::Accepted => &mut self.accepted,
            Verdict::Rejected => &mut self.rejected,
            Verdict::NotDone => &mut self.not_done,
            Verdict::InDoubt => &mut self.in_doubt,
        };
        *count = count.saturating_add(1);
        let is_answered = matches!(exchange.outcome, Outcome::Answered(_));
        self.unanswered += u64::from(verdict == Verdict::InDoubt && !is_answered);
    }

    /// Returns how many were made, those included of which nothing left.
    pub fn all(&self) -> u64 {
        let Executions { confirmed, accepted, rejected, not_done, in_doubt, unanswered: _ } = *self;
        [accepted, rejected, not_done, in_doubt].into_iter().fold(confirmed, u64::saturating_add)
    }
}

/// Returns what is known about an operation after its only attempt.
fn verdict(exchange: &Exchange, context: &Context<'_>) -> Verdict {
    let finding = classify(exchange, context);
    match finding.evidence {
        Evidence::NotSent | Evidence::Refused => Verdict::NotDone,
        Evidence::Partial | Evidence::InDoubt => Verdict::InDoubt,
        Evidence::Accepted => Verdict::Accepted,
        Evidence::Answered if finding.done == Some(true) => Verdict::Confirmed,
        Evidence::Answered => Verdict::Rejected,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::exchange::{Answer, Ending, Fault, Headers, Limit, Sent, Stage, Stages, Via};
    use crate::engine::operation::Method;
    use crate::engine::policy::Policy;
    use crate::engine::secret::Mask;
    use std::time::Duration;

    fn counted(outcomes: impl IntoIterator<Item = Outcome>) -> Executions {
        let policy = Policy::unprofiled(Method::new("POST").expect("a method"), "http://partner.example");
        let (mask, url) = (Mask::default(), "http://partner.example/orders");
        let (had_doubt, protected, hops, trail, json) = (false, false, 0, &[][..], true);
        let context = Context { policy: &policy, url, had_doubt, protected, hops, trail, mask: &mask, json };
        let mut counted = Executions::default();
        for outcome in outcomes {
            let (stages, took, addr, error) = (Stages::default(), Duration::from_millis(1), None, None);
            let exchange = Exchange { outcome, stages, took, addr, via: Via::Direct, error, at: Default::default() };
            counted.add(&exchange, &context);
        }
        counted
    }

    fn answer(status: u16, ending: Ending) -> Outcome {
        Outcome::Answered(Answer { status, headers: Headers::default(), body: Vec::new(), ending })
    }

    fn silence(sent: Sent, stage: Stage, fault: Fault) -> Outcome {
        Outcome::Unanswered { sent, stage, fault }
    }

    #[test]
    fn an_answer_counts_by_what_it_proves_about_execution() {
        let one = Executions::default();
        for (statuses, expected) in [
            (&[200, 201, 204][..], Executions { confirmed: 3, ..one }),
            (&[202], Executions { accepted: 1, ..one }),
            (&[400, 404, 422], Executions { rejected: 3, ..one }),
            (&[401, 429, 307], Executions { not_done: 3, ..one }),
            (&[303, 408, 409, 412, 500, 502, 503, 504], Executions { in_doubt: 8, ..one }),
        ] {
            let found = counted(statuses.iter().map(|status| answer(*status, Ending::Complete)));
            assert_eq!((found, found.all()), (expected, statuses.len() as u64), "{statuses:?}");
        }
        let cut = counted([answer(201, Ending::Cut(Fault::Reset))]);
        assert_eq!(cut, Executions { in_doubt: 1, ..one }, "the head was an answer, but no proof");
    }

    #[test]
    fn without_an_answer_only_what_never_left_is_certain() {
        let one = Executions::default();
        let timed_out = Fault::TimedOut(Limit::Read);
        let refused = counted([silence(Sent::Nothing, Stage::Connect, Fault::ConnectionRefused)]);
        assert_eq!(refused, Executions { not_done: 1, ..one });
        for outcome in [
            silence(Sent::Part, Stage::Write, Fault::Reset),
            silence(Sent::Whole, Stage::FirstByte, timed_out),
            silence(Sent::Whole, Stage::FirstByte, Fault::Closed),
            silence(Sent::Whole, Stage::FirstByte, Fault::Suspended),
        ] {
            assert_eq!(counted([outcome]), Executions { in_doubt: 1, unanswered: 1, ..one });
        }
    }
}
