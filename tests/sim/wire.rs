//! The transport: what happens to a request on its way, and what is seen of it.

use crate::fate::Plan;
use crate::partner::Body;
use crate::world::{Shared, World};
use abide::drive::{Call, Permit, Question, Transport};
use abide::engine::deadline::Limits;
use abide::engine::exchange::{
    Answer, Ending, Exchange, Fault, Headers, Limit, Outcome, Sent, Stage, Stages, Via, Way,
};
use abide::engine::moment::Moment;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

/// The partner's two addresses.
pub const ADDRESSES: [SocketAddr; 2] = [address(1), address(2)];

const fn address(last: u8) -> SocketAddr {
    SocketAddr::new(IpAddr::V4(Ipv4Addr::new(127, 0, 0, last)), 80)
}

/// A process's way to the partner.
#[derive(Debug)]
pub struct Wire {
    /// The world.
    pub world: Shared,
    /// The process.
    pub who: usize,
}

impl Transport for Wire {
    async fn lookup(&mut self, _: &str, limit: Duration) -> Result<Way, Exchange> {
        self.world.hazard(self.who).await;
        let (ends, fault) = {
            let mut world = self.world.lock();
            world.watch_time(self.who, limit, "a lookup");
            world.plan_lookup(limit)
        };
        self.world.sleep(self.who, ends).await;
        self.world.hazard(self.who).await;
        match fault {
            Some(fault) => {
                let outcome = Outcome::Unanswered { sent: Sent::Nothing, stage: Stage::Resolve, fault };
                Err(exchange(&self.world.lock(), outcome, Duration::ZERO))
            }
            None => Ok(Way { addresses: ADDRESSES.to_vec(), proxy: None }),
        }
    }

    async fn exchange(&mut self, _: Permit, call: Call<'_>) -> Exchange {
        let (send, began) = {
            let mut world = self.world.lock();
            (world.watch_send(self.who, &call), world.now)
        };
        self.world.hazard(self.who).await;
        let plan = self.world.lock().plan_exchange(self.who, send, &call);
        self.world.hazard(self.who).await;
        self.world.stall(self.who).await;
        self.world.sleep(self.who, plan.ends).await;
        self.world.hazard(self.who).await;
        self.world.lock().arrived(self.who, send, plan, began)
    }

    async fn ask(&mut self, question: Question<'_>) -> Exchange {
        self.world.hazard(self.who).await;
        let (plan, began) = {
            let mut world = self.world.lock();
            (world.plan_question(self.who, &question), world.now)
        };
        self.world.sleep(self.who, plan.ends).await;
        self.world.hazard(self.who).await;
        let mut world = self.world.lock();
        world.watch.saw_progress |= plan.accepted;
        world.processes[self.who].seen_floor = plan.floor.map(|wait| (world.now.after(wait), false));
        let took = world.now.since(began);
        exchange(&world, plan.outcome, took)
    }
}

impl World {
    fn plan_lookup(&mut self, limit: Duration) -> (Moment, Option<Fault>) {
        let fails = self.chance.odds(self.weather.faults) && self.chance.odds(10);
        let fault = fails
            .then(|| self.chance.pick(&[Fault::NameUnknown, Fault::NameUnavailable, Fault::TimedOut(Limit::Connect)]));
        let takes = if matches!(fault, Some(Fault::TimedOut(_))) { limit } else { self.chance.ms(0, 2).min(limit) };
        (self.now.after(takes), fault)
    }

    fn arrived(&mut self, who: usize, send: usize, plan: Plan, began: Moment) -> Exchange {
        let now = self.now;
        let sent = &mut self.watch.sends[send];
        sent.ended = Some(now);
        sent.ambiguous = plan.ambiguous;
        sent.accepted = plan.accepted;
        sent.fine = plan.fine;
        sent.contradicts_absence =
            matches!(&plan.outcome, Outcome::Answered(answer) if matches!(answer.status, 200..300 | 409));
        self.processes[who].seen_floor = plan.floor.map(|wait| (now.after(wait), true));
        self.note(|| format!("the wire shows {:?}", plan.outcome));
        exchange(self, plan.outcome, now.since(began))
    }
}

fn exchange(world: &World, outcome: Outcome, took: Duration) -> Exchange {
    Exchange { outcome, stages: Stages::default(), took, addr: None, via: Via::Direct, error: None, at: world.wall() }
}

/// Returns what the lack of an answer looks like.
pub fn unanswered(sent: Sent, stage: Stage, fault: Fault) -> Outcome {
    Outcome::Unanswered { sent, stage, fault }
}

/// Returns how long the wait for an answer may be, from the start of an exchange that took `spent` to send, and which
/// limit ends it.
pub fn patience(limits: &Limits, spent: Duration) -> (Duration, Limit) {
    let read = spent + limits.read;
    if read < limits.whole { (read, Limit::Read) } else { (limits.whole, limits.whole_is) }
}

/// Returns an answer with nothing special about it.
pub fn answer(status: u16, body: Body) -> Answer {
    let (media, text) = match body {
        Body::Done => ("application/json", r#"{"state":"done","amount":"12.90"}"#),
        Body::Processing => ("application/json", r#"{"state":"processing","amount":"12.90"}"#),
        Body::Rejected => ("application/json", r#"{"state":"rejected","amount":"12.90"}"#),
        Body::Others => ("application/json", r#"{"state":"done","amount":"99.00"}"#),
        Body::NotFound => ("application/json", r#"{"error":{"code":"not_found"}}"#),
        Body::Duplicate => ("application/json", r#"{"error":{"code":"duplicate_order"}}"#),
        Body::Error => ("application/json", r#"{"error":{"code":"other"}}"#),
        Body::Odd => ("application/json", r#"{"state":"odd"}"#),
        Body::Html => ("text/html", "<html>please log in</html>"),
    };
    let headers = Headers(vec![("content-type".into(), media.into())]);
    Answer { status, headers, body: text.into(), ending: Ending::Complete }
}

/// Adds a header field to an answer.
pub fn with(mut answer: Answer, name: &str, value: &str) -> Answer {
    answer.headers.0.push((name.into(), value.into()));
    answer
}
