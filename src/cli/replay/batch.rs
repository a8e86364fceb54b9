//! The workers of a replay: each takes the next operation, claims it, runs it, and tells.

use super::super::exit::Failure;
use super::super::signals::Signals;
use super::super::watch::{EventLog, Telling, Watcher};
use super::super::{Session, state};
use super::choose::Member;
use super::queue::Queue;
use super::seats::{Seat, Seated, Seats};
use super::task::{Job, Task, works_on_it};
use crate::report::human::Taken;
use crate::report::known::State;
use abide::drive::{self, Claim, Claimed, Clock, EntryRule, Patience, Ports, Terms, Wish};
use abide::engine::deadline::Deadline;
use abide::engine::entry::Standing;
use abide::engine::facts::{Fact, History, Opened, Owner, StoredBody, Why};
use abide::engine::moment::{Moment, Now};
use abide::engine::operation::Operation;
use abide::engine::policy::Sizes;
use abide::engine::proxy::Proxies;
use abide::engine::reason::Reason;
use abide::engine::secret::Mask;
use abide::net::chance::Chance;
use abide::net::clock::SystemClock;
use abide::net::{Names, Reuse, Tls, Wire, WireSettings};
use abide::store::jsonl::{Informed, Jsonl, JsonlClaim};
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use std::cell::RefCell;
use std::sync::Arc;
use std::time::Duration;

/// What became of one operation.
#[derive(Clone, Debug)]
pub struct Done {
    /// Its facts.
    pub history: History,
    /// Where it stands.
    pub state: State,
    /// Why nothing was sent; `None` where it was run here.
    pub left: Option<String>,
    /// How long its run took; `None` where there was none.
    pub took: Option<Duration>,
}

impl Done {
    /// Returns an operation that was left as it was.
    pub fn left(member: &Member, why: impl Into<String>) -> Done {
        let Member { found, state } = member;
        Done { history: found.history.clone(), state: state.clone(), left: Some(why.into()), took: None }
    }
}

/// What a worker works with.
struct Hands {
    ledger: Jsonl,
    clock: SystemClock,
    chance: Chance,
}

/// An operation that is claimed.
struct Run<'a> {
    member: &'a Member,
    job: &'a Job,
    claim: JsonlClaim,
    seat: Seat,
    history: History,
    operation: Operation,
    deadline: Deadline,
}

/// Is told of an operation that is done.
pub type Tell<'a> = dyn Fn(&Member, &Done) + 'a;

/// A replay at work.
pub struct Batch<'a> {
    /// The process.
    pub session: &'a Session,
    /// The operations.
    pub members: &'a [Member],
    /// What is done with each.
    pub tasks: &'a [Task],
    /// What is still to be begun.
    pub queue: Queue,
    /// What has become of each so far.
    pub done: RefCell<Vec<Option<Done>>>,
    /// Who wants to know what is in flight.
    pub signals: Signals,
    /// Where events go.
    pub events: EventLog,
    /// How much each run tells.
    pub telling: Telling,
    /// When everything ends.
    pub end: Option<Moment>,
    /// Whether what was refused for good is tried again.
    pub rejected_too: bool,
    /// The ledger failed: nothing new begins.
    pub failure: RefCell<Option<Failure>>,
    /// Is told of each operation as soon as it is done.
    pub tell: &'a Tell<'a>,
    /// The names looked up so far.
    pub names: Names,
    /// Who this process is.
    pub owner: Owner,
}

impl Batch<'_> {
    /// Works until nothing is left to begin.
    pub async fn work(&self, jobs: u16, ledger: &Jsonl, clock: &SystemClock) {
        let seed = self.session.context.seed;
        let wire = |_| Wire::new(self.settings(Mask::default(), Sizes::default(), &self.session.tls));
        let seats = Seats::new((0..jobs).map(wire).collect());
        // Half of them work while the others wait for the disk.
        let workers = if jobs == 1 { 1 } else { u32::from(jobs) * 2 };
        let workers: FuturesUnordered<_> = (0..workers)
            .map(|at| {
                let chance = seed.map_or_else(Chance::from_os, |seed| Chance::fixed(seed.wrapping_add(at.into())));
                self.worker(Hands { ledger: ledger.clone(), clock: clock.clone(), chance }, seats.clone())
            })
            .collect();
        workers.collect::<()>().await;
    }

    async fn worker(&self, mut hands: Hands, seats: Seats) {
        loop {
            let seat = seats.take().await;
            let Some(at) = self.queue.next(self.members, &mut hands.clock, self.end).await else {
                return seat.give_up();
            };
            let member = &self.members[at];
            let done = match (&self.tasks[at], self.queue.obstacle(member)) {
                (_, Some(why)) => Done::left(member, why),
                (Task::Run(job), None) => match self.one(member, job, &seat, &mut hands).await {
                    Ok(done) => done,
                    Err(failure) => self.stop(member, failure),
                },
                (Task::Leave(why) | Task::Refuse(why), None) => Done::left(member, why.clone()),
            };
            self.queue.done(member);
            self.record(at, done);
            seat.give_up();
        }
    }

    /// Keeps what became of an operation, and tells it.
    pub fn record(&self, at: usize, done: Done) {
        (self.tell)(&self.members[at], &done);
        self.done.borrow_mut()[at] = Some(done);
    }

    /// Lets nothing new begin after the ledger failed.
    fn stop(&self, member: &Member, failure: Failure) -> Done {
        self.queue.close();
        let done = Done::left(member, format!("the ledger failed: {:#}", failure.error));
        self.failure.borrow_mut().get_or_insert(failure);
        done
    }

    async fn one(&self, member: &Member, job: &Job, seat: &Seat, hands: &mut Hands) -> Result<Done, Failure> {
        let now = hands.clock.now();
        let overall = job.policy.timeouts.overall;
        let deadline = Deadline::of_run(now.steady, self.end.map_or(overall, |end| overall.min(end.since(now.steady))));
        let wish = self.wish(member, job, deadline, now);
        let mut ledger = Informed { ledger: &mut hands.ledger, found: &member.found };
        let claimed = drive::claim(&mut ledger, &wish, &mut hands.clock, Patience::None).await;
        Ok(match claimed.map_err(|error| Failure::of_store(&error))? {
            Claimed::Ours(claim, history) => {
                let operation = job.operation(claim.body().await.map_err(|error| Failure::of_store(&error))?);
                self.run(Run { member, job, claim, seat: seat.clone(), history, operation, deadline }, hands).await
            }
            Claimed::Final(_, history) => {
                let state = state::of(&history, Standing::Settled, now);
                Done { history, state, left: Some("another process has settled it".into()), took: None }
            }
            Claimed::Busy(_, owner) => {
                self.queue.busy(member);
                let left = works_on_it(&owner);
                Done { state: State::Running(owner), ..Done::left(member, left) }
            }
            Claimed::OtherPayload(..) | Claimed::Unknown(_) => {
                Done::left(member, "the ledger was changed meanwhile: its key stands for something else")
            }
        })
    }

    fn wish(&self, member: &Member, job: &Job, deadline: Deadline, now: Now) -> Wish {
        let opened = member.found.history.opened();
        let opened = Opened {
            // Nothing is opened: the body stays where it is.
            body: StoredBody::Text("".into()),
            key_until: job.key_until(now.wall),
            deadline: now.wall.after(deadline.left(now.steady)),
            why: Why::Replay,
            owner: self.owner.clone(),
            ..Opened::clone(opened)
        };
        let entry = EntryRule::Known { rejected: self.rejected_too };
        Wish { key: member.found.key.clone(), opened: Arc::new(opened), body: Arc::new([]), entry }
    }

    async fn run(&self, run: Run<'_>, hands: &mut Hands) -> Done {
        let Run { member, job, claim, mut seat, mut history, operation, deadline } = run;
        let mut mask = job.profile.as_ref().map(|profile| profile.mask.clone()).unwrap_or_default();
        job.proxies.hide(&mut mask);
        let Hands { clock, chance, .. } = hands;
        let settings = self.settings(mask.clone(), job.policy.sizes, &job.tls);
        let settings = WireSettings { proxies: job.proxies.clone(), ..settings };
        seat.prepare(|wire| wire.serve(settings, Reuse::of(&history, &job.policy, clock.now())));
        let mut claim = Seated { claim, seat: seat.clone(), concerns_all: refuses };
        let mut watcher = self.watcher(member, deadline, mask.clone());
        let terms = Terms { policy: &job.policy, deadline, mask: &mask };
        let began = clock.now().steady;
        let ports = Ports { transport: &mut seat, clock, entropy: chance, observer: &mut watcher };
        let ended = drive::run(&mut claim, &mut history, &operation, &terms, ports).await;
        self.signals.landed(&member.found.key);
        let now = clock.now();
        let took = Some(now.steady.since(began));
        let state = match ended {
            Ok(_) => state::of(&history, Standing::Settled, now),
            Err(failed) => {
                self.queue.close();
                let failure = Failure::unrecorded(&failed.error, failed.may_have_left);
                self.failure.borrow_mut().get_or_insert(failure);
                State::Settled(failed.ended.settled.verdict)
            }
        };
        if were_refused(&history) {
            self.queue.refuse(&member.found.partner);
        }
        Done { history, state, left: None, took }
    }

    fn settings(&self, mask: Mask, sizes: Sizes, tls: &Tls) -> WireSettings {
        let wall = self.session.context.wall_clock();
        let (names, tls) = (self.names.clone(), tls.clone());
        let proxies = Proxies::default();
        WireSettings { answer_max_bytes: sizes.response_bytes, mask, wall, names, tls, proxies }
    }

    fn watcher(&self, member: &Member, deadline: Deadline, mask: Mask) -> Watcher<'_> {
        Watcher {
            key: member.found.key.clone(),
            screen: self.session.screen.clone(),
            telling: self.telling,
            clock: &self.session.local,
            signals: self.signals.clone(),
            events: self.events.clone(),
            deadline,
            asked_wait: None,
            mask,
            way: Taken::default(),
        }
    }
}

/// Returns whether the last attempt of the newest run met a refusal that every other operation of the partner would meet,
/// too (decisions 8).
fn were_refused(history: &History) -> bool {
    let newest = history.newest_claim();
    let of_run = history.facts.iter().rev().filter(|recorded| recorded.n == newest);
    of_run.map(|recorded| &recorded.fact).find_map(last_reason).is_some_and(is_refusal)
}

/// Returns whether a fact tells of one.
fn refuses(fact: &Fact) -> bool {
    last_reason(fact).is_some_and(is_refusal)
}

fn last_reason(fact: &Fact) -> Option<Reason> {
    match fact {
        Fact::Finished(finished) => Some(finished.reason),
        Fact::Settled(settled) => settled.last.as_ref().map(|last| last.reason),
        _ => None,
    }
}

/// Returns whether it is a 401, a 407, or a refusal of our certificate.
fn is_refusal(reason: Reason) -> bool {
    let ours =
        [Reason::Credentials, Reason::ProxyCredentials, Reason::ClientCertificate, Reason::ClientCertificateWanted];
    ours.contains(&reason)
}
