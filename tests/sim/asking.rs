//! What becomes of a status request.

use crate::case::CONTROL_KEY;
use crate::fate::Plan;
use crate::partner::Body;
use crate::watch::Send;
use crate::wire::{answer, unanswered, with};
use crate::world::World;
use abide::drive::Question;
use abide::engine::exchange::{Fault, Limit, Outcome, Sent, Stage};
use abide::engine::moment::Moment;
use std::time::Duration;

impl World {
    /// Draws what a status request comes back with.
    pub fn plan_question(&mut self, who: usize, question: &Question<'_>) -> Plan {
        let process = self.processes[who].clone();
        self.watch_time(who, question.limits.whole, "a question");
        self.watch_floors(process.id, false);
        self.watch_return(who);
        if process.interrupted {
            self.broke("after a signal nothing new starts", || "a question".into());
        }
        self.shake_clock();
        let takes = self.chance.ms(1, 50);
        let ends = self.now.after(takes.min(question.limits.whole));
        if takes >= question.limits.whole || takes >= question.limits.read {
            let fault = Fault::TimedOut(Limit::Read);
            return Plan::certain(ends, unanswered(Sent::Whole, Stage::FirstByte, fault));
        }
        if self.chance.odds(self.weather.faults) && self.chance.odds(60) {
            return self.bad_status_answer(ends, question);
        }
        let (status, body) = self.status_at(self.now, question.url);
        self.note(|| format!("the status endpoint says {status} {body:?}"));
        let plan = Plan::certain(ends, Outcome::Answered(answer(status, body)));
        Plan { accepted: body == Body::Processing, ..plan }
    }

    fn status_at(&mut self, now: Moment, url: &str) -> (u16, Body) {
        let truth = &self.case.truth;
        self.partner.advance(truth, now);
        if truth.endpoint.misrouted {
            return (404, Body::Error);
        }
        let was_sent = |send: &Send| url.ends_with(self.book.entry(send.place).key.as_str());
        match self.watch.sends.iter().any(was_sent) {
            _ if url.ends_with(CONTROL_KEY) => (200, Body::Done),
            true => self.partner.status(truth, now),
            false if truth.endpoint.squatter => (200, Body::Others),
            false => (404, Body::NotFound),
        }
    }

    fn bad_status_answer(&mut self, ends: Moment, question: &Question<'_>) -> Plan {
        let silent = |fault| Plan::certain(ends, unanswered(Sent::Whole, Stage::FirstByte, fault));
        match self.chance.below(8) {
            0 => silent(Fault::Closed),
            1 => silent(Fault::Reset),
            2 => Plan::certain(ends, Outcome::Answered(answer(500, Body::Error))),
            3 => Plan::certain(ends, Outcome::Answered(answer(200, Body::Html))),
            4 => {
                let (answer, floor) = self.retry_later(ends, answer(503, Body::Error));
                Plan { floor, ..Plan::certain(ends, Outcome::Answered(answer)) }
            }
            _ => {
                let age = self.chance.between(1, 600);
                let then = Moment::new(self.now.since_start().saturating_sub(Duration::from_secs(age)));
                let (status, body) = self.status_at(then, question.url);
                self.note(|| format!("a cache answers {status} {body:?}"));
                let cached = with(answer(status, body), "age", &age.to_string());
                Plan { accepted: body == Body::Processing, ..Plan::certain(ends, Outcome::Answered(cached)) }
            }
        }
    }
}
