//! The partner: what reached it, what it did, and what its status endpoint tells of that.

use crate::case::{Keys, Truth};
use abide::engine::moment::Moment;
use std::time::Duration;

/// What the partner means to do with a request that is new to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Will {
    /// Carry it out.
    Execute,
    /// Answer 202, carry it out later.
    Accept,
    /// Answer 202, refuse it later.
    AcceptThenReject,
    /// Fail with a 500 of its own, nothing done.
    Fail,
}

/// What the partner answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reply {
    /// The HTTP status.
    pub status: u16,
    /// What the body says.
    pub says: Body,
    /// It is a stored answer.
    pub replayed: bool,
}

/// The bodies that the partner knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body {
    /// `{"state":"done",…}`.
    Done,
    /// `{"state":"processing",…}`.
    Processing,
    /// `{"state":"rejected",…}`.
    Rejected,
    /// Somebody else's order, done.
    Others,
    /// An error that a rule knows as "absent".
    NotFound,
    /// An error that a rule knows as "already there".
    Duplicate,
    /// Any other error.
    Error,
    /// A login page.
    Html,
    /// A success status with something else in it.
    Odd,
}

/// A request of ours that reached the partner, or will.
#[derive(Clone, Debug)]
pub struct Request {
    /// Which send it belongs to: an index into the sends of the whole story.
    pub send: usize,
    /// Which address it was sent to.
    pub address: usize,
    /// When it reaches the application.
    pub arrives: Moment,
    /// How long it is worked on.
    pub takes: Duration,
    /// How long until the status endpoint knows.
    pub lag: Duration,
    /// What is to become of it.
    pub will: Will,
    /// What became of it; `None` until it arrived.
    pub came: Option<Came>,
}

/// What became of a request.
#[derive(Clone, Copy, Debug)]
pub struct Came {
    /// What was answered, and when.
    pub reply: Reply,
    /// When the answer was ready.
    pub at: Moment,
    /// The request was worked on until then; `None` where it was answered from memory.
    pub worked_until: Option<Moment>,
}

/// An execution: the thing of which there must not be two.
#[derive(Clone, Copy, Debug)]
pub struct Execution {
    /// The send that caused it.
    pub send: usize,
    /// When it was complete.
    pub at: Moment,
    /// When the status endpoint knows of it.
    pub visible: Moment,
}

#[derive(Clone, Copy, Debug)]
struct Stored {
    until: Moment,
    expires: Moment,
    reply: Reply,
}

/// The partner, for the one operation of a story.
#[derive(Debug, Default)]
pub struct Partner {
    /// Everything that was let loose on it.
    pub requests: Vec<Request>,
    /// Everything that it did.
    pub executions: Vec<Execution>,
    /// What it remembers of the key; behind each address its own where the stores are regional.
    keys: [Option<Stored>; 2],
    is_delete: bool,
    is_put: bool,
    is_safe: bool,
}

impl Partner {
    /// Returns a partner that expects an operation of this method.
    pub fn new(method: &str) -> Partner {
        Partner {
            is_delete: method == "DELETE",
            is_put: method == "PUT",
            is_safe: method == "GET",
            ..Partner::default()
        }
    }

    /// Lets everything happen that happens until `now`.
    pub fn advance(&mut self, truth: &Truth, now: Moment) {
        while let Some(next) = self.next_arrival(now) {
            let came = self.receive(truth, &self.requests[next].clone());
            self.requests[next].came = Some(came);
        }
    }

    fn next_arrival(&self, now: Moment) -> Option<usize> {
        let due = |request: &Request| request.came.is_none() && request.arrives <= now;
        let due = self.requests.iter().enumerate().filter(|(_, request)| due(request));
        due.min_by_key(|(_, request)| request.arrives).map(|(index, _)| index)
    }

    /// Ends the connections of a dead process: what is still under way comes within `truth.late`, if at all.
    pub fn abandoned(&mut self, truth: &Truth, now: Moment) {
        let last = now.after(truth.late);
        for request in self.requests.iter_mut().filter(|request| request.came.is_none()) {
            request.arrives = request.arrives.min(last);
        }
    }

    fn receive(&mut self, truth: &Truth, request: &Request) -> Came {
        let now = request.arrives;
        let store = if truth.regional { request.address } else { 0 };
        if let Some(answer) = self.remembered(truth, store, now) {
            return Came { reply: answer, at: now, worked_until: None };
        }
        let done = now.after(request.takes);
        let reply = |status, says| Reply { status, says, replayed: false };
        let (reply, stored) = match request.will {
            Will::Execute => (reply(200, Body::Done), true),
            Will::Accept | Will::AcceptThenReject => (reply(202, Body::Processing), true),
            Will::Fail => (reply(500, Body::Error), truth.keys == Keys::LockedStoresFailures),
        };
        if matches!(request.will, Will::Execute | Will::Accept) && !self.is_safe {
            self.executions.push(Execution { send: request.send, at: done, visible: done.after(request.lag) });
        }
        // A lock protects while it is worked on, whatever comes of it; only a kept result protects later.
        let expires = if stored { now.after(truth.retention) } else { done };
        let kept = if reply.status == 202 { Reply { status: 200, says: Body::Done, ..reply } } else { reply };
        let kept = if request.will == Will::AcceptThenReject {
            Reply { status: 422, says: Body::Rejected, ..kept }
        } else {
            kept
        };
        self.keys[store] = Some(Stored { until: done, expires, reply: kept });
        let at = if reply.status == 202 { now } else { done };
        Came { reply, at, worked_until: Some(done) }
    }

    /// Returns the answer to a request whose work was done, or begun, before.
    fn remembered(&self, truth: &Truth, store: usize, now: Moment) -> Option<Reply> {
        let running = Reply { status: 409, says: Body::Error, replayed: false };
        let stored = self.keys[store].filter(|stored| now < stored.expires);
        let by_key = match truth.keys {
            Keys::Ignored => None,
            Keys::SuccessesOnly => stored
                .filter(|stored| stored.until <= now && stored.reply.status == 200)
                .map(|stored| Reply { replayed: true, ..stored.reply }),
            Keys::Locked | Keys::LockedStoresFailures => {
                stored.map(|stored| if now < stored.until { running } else { Reply { replayed: true, ..stored.reply } })
            }
        };
        let done = self.executions.iter().any(|execution| execution.at <= now);
        by_key
            .or_else(|| {
                let gone = self.is_delete && done;
                gone.then_some(Reply { status: 404, says: Body::Error, replayed: false })
            })
            .or_else(|| {
                let twice = truth.natural && !self.executions.is_empty() && !self.is_put;
                let says = if done { Body::Duplicate } else { Body::Error };
                twice.then_some(Reply { status: 409, says, replayed: false })
            })
    }

    /// Returns what the status endpoint knows at `now`: a status and a body.
    pub fn status(&self, truth: &Truth, now: Moment) -> (u16, Body) {
        let endpoint = truth.endpoint;
        if self.executions.iter().any(|execution| execution.visible <= now) && (self.is_put || !endpoint.squatter) {
            return (200, Body::Done);
        }
        if endpoint.squatter {
            return (200, Body::Others);
        }
        let known = |request: &&Request| {
            let shown = endpoint.shows_running || matches!(request.will, Will::Accept | Will::AcceptThenReject);
            shown
                && request.came.is_some_and(|came| came.worked_until.is_some())
                && request.arrives.after(request.lag) <= now
        };
        match self.requests.iter().filter(known).map(|request| self.outcome(request, now)).max() {
            Some(Stands::Running) => (200, Body::Processing),
            Some(Stands::Rejected) if self.is_at_rest() => (200, Body::Rejected),
            Some(Stands::Rejected) => (200, Body::Processing),
            Some(Stands::Failed) | None => (404, Body::NotFound),
        }
    }

    /// Returns whether nothing was done, and nothing is under way: only then is a refusal the last word.
    fn is_at_rest(&self) -> bool {
        self.executions.is_empty() && self.requests.iter().all(|request| request.came.is_some())
    }

    fn outcome(&self, request: &Request, now: Moment) -> Stands {
        let over = request.arrives.after(request.takes).after(request.lag) <= now;
        match request.will {
            Will::AcceptThenReject if over => Stands::Rejected,
            Will::Fail if over => Stands::Failed,
            _ => Stands::Running,
        }
    }

    /// Returns whether a send was, or will be, executed. Meaningful at the end of time.
    pub fn has_executed(&self, send: usize) -> bool {
        self.executions.iter().any(|execution| execution.send == send)
    }

    /// Returns whether nothing is under way at `now`, and nothing is worked on.
    pub fn is_idle(&self, now: Moment) -> bool {
        let over = |came: Came| came.worked_until.is_none_or(|until| until <= now);
        self.requests.iter().all(|request| request.came.is_some_and(over))
    }
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Stands {
    Failed,
    Rejected,
    Running,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::case::Endpoint;

    fn truth(keys: Keys) -> Truth {
        let s = Duration::from_secs;
        let endpoint = Endpoint { misrouted: false, squatter: false, shows_running: false };
        Truth {
            keys,
            regional: false,
            retention: s(100),
            natural: false,
            moves: false,
            takes: s(5),
            late: s(5),
            lag: s(5),
            endpoint,
        }
    }

    fn send(partner: &mut Partner, second: u64, will: Will) -> usize {
        let s = Duration::from_secs;
        let send = partner.requests.len();
        let arrives = Moment::new(s(second));
        partner.requests.push(Request { send, address: 0, arrives, takes: s(2), lag: s(3), will, came: None });
        send
    }

    fn at(second: u64) -> Moment {
        Moment::new(Duration::from_secs(second))
    }

    fn status_of(partner: &Partner, send: usize) -> (u16, bool) {
        let reply = partner.requests[send].came.expect("it arrived").reply;
        (reply.status, reply.replayed)
    }

    #[test]
    fn a_locked_key_runs_once_until_it_is_forgotten() {
        let (truth, mut partner) = (truth(Keys::Locked), Partner::new("POST"));
        let sends = [0, 1, 3, 99, 100].map(|second| send(&mut partner, second, Will::Execute));
        partner.advance(&truth, at(1000));
        let seen = sends.map(|send| status_of(&partner, send));
        assert_eq!(seen, [(200, false), (409, false), (200, true), (200, true), (200, false)]);
        assert_eq!(partner.executions.len(), 2);
    }

    #[test]
    fn who_stores_successes_only_runs_what_overlaps_twice() {
        let (truth, mut partner) = (truth(Keys::SuccessesOnly), Partner::new("POST"));
        let sends = [0, 1, 4].map(|second| send(&mut partner, second, Will::Execute));
        partner.advance(&truth, at(1000));
        assert_eq!(sends.map(|send| status_of(&partner, send)), [(200, false), (200, false), (200, true)]);
        assert_eq!(partner.executions.len(), 2);
    }

    #[test]
    fn a_failure_frees_the_key_unless_failures_are_kept() {
        for (keys, second) in [(Keys::Locked, 200), (Keys::LockedStoresFailures, 500)] {
            let (truth, mut partner) = (truth(keys), Partner::new("POST"));
            send(&mut partner, 0, Will::Fail);
            let again = send(&mut partner, 10, Will::Execute);
            partner.advance(&truth, at(1000));
            assert_eq!(status_of(&partner, again).0, second);
        }
    }

    #[test]
    fn the_status_endpoint_knows_late() {
        let (truth, mut partner) = (truth(Keys::Ignored), Partner::new("POST"));
        send(&mut partner, 0, Will::Execute);
        partner.advance(&truth, at(1000));
        assert_eq!(partner.status(&truth, at(4)), (404, Body::NotFound));
        assert_eq!(partner.status(&truth, at(5)), (200, Body::Done));
    }

    #[test]
    fn work_that_was_accepted_shows_as_such() {
        let (truth, mut partner) = (truth(Keys::Ignored), Partner::new("POST"));
        send(&mut partner, 0, Will::AcceptThenReject);
        partner.advance(&truth, at(1000));
        assert_eq!(partner.status(&truth, at(3)), (200, Body::Processing));
        assert_eq!(partner.status(&truth, at(5)), (200, Body::Rejected));
    }

    #[test]
    fn a_deleted_thing_is_gone_for_the_next_one() {
        let (truth, mut partner) = (truth(Keys::Ignored), Partner::new("DELETE"));
        send(&mut partner, 0, Will::Execute);
        let again = send(&mut partner, 9, Will::Execute);
        partner.advance(&truth, at(1000));
        assert_eq!(status_of(&partner, again).0, 404);
    }

    #[test]
    fn what_a_dead_process_left_under_way_comes_soon() {
        let (truth, mut partner) = (truth(Keys::Ignored), Partner::new("POST"));
        send(&mut partner, 500, Will::Execute);
        partner.abandoned(&truth, at(10));
        assert_eq!(partner.requests[0].arrives, at(15));
    }
}
