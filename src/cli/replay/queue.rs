//! Which operation a worker begins next, and when.

use super::choose::Member;
use abide::drive::Clock;
use abide::engine::moment::Moment;
use abide::engine::operation::PartnerName;
use abide::net::clock::SystemClock;
use std::cell::RefCell;
use std::collections::{HashSet, VecDeque};
use std::time::Duration;
use tokio::sync::Notify;

/// Operations that write the same resource: they are run one after another, in the order of their first sending.
type Lane = (PartnerName, Box<str>);

/// The operations that are still to be begun. Workers of one thread share it.
#[derive(Debug)]
pub struct Queue {
    state: RefCell<State>,
    /// Rung whenever a lane is free again.
    bell: Notify,
    /// The time between two begins.
    pause: Duration,
}

#[derive(Debug, Default)]
struct State {
    waiting: VecDeque<usize>,
    occupied: HashSet<Lane>,
    /// Where another process is at work: nothing later may overtake it.
    blocked: HashSet<Lane>,
    refused: HashSet<PartnerName>,
    next_begin: Option<Moment>,
    closed: bool,
}

enum Step {
    Begin(usize),
    Wait,
    End,
}

impl Queue {
    /// Returns a queue of the operations at `waiting`, of which at most `rate` are begun per second.
    pub fn new(waiting: impl Iterator<Item = usize>, rate: Option<f64>) -> Queue {
        let pause = rate.and_then(|rate| Duration::try_from_secs_f64(1.0 / rate).ok()).unwrap_or_default();
        let state = State { waiting: waiting.collect(), ..State::default() };
        Queue { state: RefCell::new(state), bell: Notify::new(), pause }
    }

    /// Waits for the next operation that may be begun; `None` when there is none, or the end has come.
    pub async fn next(&self, members: &[Member], clock: &mut SystemClock, end: Option<Moment>) -> Option<usize> {
        loop {
            if clock.interrupted() || end.is_some_and(|end| end <= clock.now().steady) {
                return None;
            }
            let bell = self.bell.notified();
            match self.step(members) {
                Step::Begin(at) => return self.in_time(at, clock, end).await,
                Step::End => return None,
                Step::Wait => bell.await,
            }
        }
    }

    /// Waits until the rate allows another begin.
    async fn in_time(&self, at: usize, clock: &mut SystemClock, end: Option<Moment>) -> Option<usize> {
        let now = clock.now().steady;
        let begin = {
            let mut state = self.state.borrow_mut();
            let begin = state.next_begin.map_or(now, |next| next.max(now));
            state.next_begin = Some(begin.after(self.pause));
            begin
        };
        clock.wait(end.map_or(begin, |end| begin.min(end))).await;
        let is_over = end.is_some_and(|end| end <= clock.now().steady);
        (!clock.interrupted() && !is_over).then_some(at)
    }

    fn step(&self, members: &[Member]) -> Step {
        let mut state = self.state.borrow_mut();
        if state.closed || state.waiting.is_empty() {
            return Step::End;
        }
        // The first one that writes a resource holds back the later ones, also while it waits itself.
        let mut held = HashSet::new();
        let free = state.waiting.iter().position(|&at| match lane(&members[at]) {
            None => true,
            Some(lane) => !state.occupied.contains(&lane) && held.insert(lane),
        });
        let Some(at) = free.and_then(|position| state.waiting.remove(position)) else { return Step::Wait };
        state.occupied.extend(lane(&members[at]));
        Step::Begin(at)
    }

    /// Lets the next operation of the same lane begin.
    pub fn done(&self, member: &Member) {
        if let Some(lane) = lane(member) {
            self.state.borrow_mut().occupied.remove(&lane);
        }
        self.bell.notify_waiters();
    }

    /// Tells that another process works on an operation.
    pub fn busy(&self, member: &Member) {
        self.state.borrow_mut().blocked.extend(lane(member));
    }

    /// Tells that a partner refused the credentials.
    pub fn refuse(&self, partner: &PartnerName) {
        self.state.borrow_mut().refused.insert(partner.clone());
    }

    /// Lets nothing new begin.
    pub fn close(&self) {
        self.state.borrow_mut().closed = true;
        self.bell.notify_waiters();
    }

    /// Returns why an operation must be left out after what happened to earlier ones.
    pub fn obstacle(&self, member: &Member) -> Option<String> {
        let state = self.state.borrow();
        if state.refused.contains(&member.found.partner) {
            return Some(format!("{} refused the credentials before", member.found.partner));
        }
        let is_blocked = lane(member).is_some_and(|lane| state.blocked.contains(&lane));
        is_blocked.then(|| "another process is at an earlier write to the same URL".into())
    }
}

/// Returns what an operation overwrites; nothing for one that adds or reads.
fn lane(member: &Member) -> Option<Lane> {
    let opened = member.found.history.opened();
    let replaces = matches!(&*opened.method, "PUT" | "PATCH" | "DELETE");
    replaces.then(|| (opened.partner.clone(), opened.url.clone()))
}
