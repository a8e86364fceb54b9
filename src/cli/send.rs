//! `abide send`: one operation, from the plan to a verdict.

use super::args::SendArgs;
use super::exit::{Exit, Failure};
use super::ledger_place::Place;
use super::outcome::{Broken, Outcome, Ran, Reporter};
use super::plan::{self, Plan};
use super::screen::Talk;
use super::signals::Signals;
use super::watch::{EventLog, Telling, Watcher};
use super::{Session, book, control, panics, retention, state};
use crate::report::human::Taken;
use crate::report::progress;
use abide::drive::{self, Claim, Claimed, Clock, Ledger, Patience, Ports, Terms, Wish};
use abide::engine::deadline::Deadline;
use abide::engine::entry::{Standing, is_ended};
use abide::engine::facts::{Fact, History, Owner, Predecessor, StoredBody};
use abide::engine::moment::Moment;
use abide::engine::operation::{IdempotencyKey, Operation};
use abide::engine::policy::Policy;
use abide::net::chance::Chance;
use abide::net::clock::{Interrupt, SystemClock};
use abide::net::{Wire, WireSettings};
use abide::store::StoreError;
use abide::store::jsonl::this_process;
use abide::store::memory::Memory;
use std::sync::Arc;

/// Sends, and returns the status to leave with.
///
/// # Errors
/// Whatever kept it from sending, or from recording what came of it.
pub fn send(args: &SendArgs, session: &Session) -> Result<Exit, Failure> {
    let interrupt = Interrupt::default();
    let mut clock = session.clock(interrupt.clone());
    let mut chance = session.context.seed.map_or_else(Chance::from_os, Chance::fixed);
    let now = clock.now();
    let mut plan = plan::make(args, session, now.wall, &chance.key(now.wall), this_process())?;
    panics::hide(&plan.composed.mask);
    if args.show.curl || args.show.dry_run {
        return super::preview::show(args, &plan, session);
    }
    if plan::is_secure(&plan.composed.operation) {
        plan.tls.load_ahead();
    }
    control(&mut plan, args, session);
    let deadline = Deadline::of_run(Moment::START, plan.composed.policy.timeouts.overall);
    let mut reporter = Reporter::new(args, session, &plan)?;
    let events = EventLog::open(args.show.events.as_deref(), session.format)?;
    plan.warnings.iter().for_each(|warning| session.screen.warn(warning));
    let signals = Signals::take(session.screen.clone(), move || interrupt.set())?;
    if session.wants_spinner() {
        session.screen.spin(progress::spinner(deadline.left(clock.now().steady)));
    }
    let runtime = super::runtime()?;
    let mut run = Run { args, session, plan: &plan, signals: signals.clone(), deadline, chance, events };
    let outcome = match &plan.place {
        Place::File { path, .. } => {
            let mut ledger = book::open(path, &args.ledger, session)?;
            let outcome = runtime.block_on(run.work(&mut ledger, &mut clock));
            // What the claim had to mend.
            book::warn(&session.screen, ledger.warnings());
            outcome
        }
        Place::None => runtime.block_on(run.work(&mut Memory::default(), &mut clock)),
    };
    // A name lookup may still hang on a thread of its own: nothing waits for it.
    runtime.shutdown_background();
    session.screen.calm();
    reporter.signal = signals.first();
    let exit = reporter.report(&outcome?, clock.now())?;
    if let (Place::File { path, .. }, Talk::Verbose) = (&plan.place, session.screen.talk) {
        retention::advise(path, &args.ledger, session);
    }
    Ok(exit)
}

/// Looks a control up where one is missing: the ledger is not read for anybody else.
fn control(plan: &mut Plan, args: &SendArgs, session: &Session) {
    let composed = &mut plan.composed;
    let Place::File { path, .. } = &plan.place else { return };
    if !control::is_missing(&composed.policy) || !path.exists() {
        return;
    }
    // What is wrong with the ledger, the claim says.
    let Ok(reader) = book::peek(path, &args.ledger, session) else { return };
    let operation = &composed.operation;
    let found = control::find(&reader, path, &operation.partner, &operation.key);
    control::set(&mut composed.policy, found);
}

struct Run<'a> {
    args: &'a SendArgs,
    session: &'a Session,
    plan: &'a Plan,
    signals: Signals,
    deadline: Deadline,
    chance: Chance,
    events: EventLog,
}

impl Run<'_> {
    async fn work<L>(&mut self, ledger: &mut L, clock: &mut SystemClock) -> Result<Outcome, Failure>
    where
        L: Ledger<Error = StoreError>,
    {
        let composed = &self.plan.composed;
        let wish = Wish {
            key: composed.operation.key.clone(),
            opened: Arc::clone(&composed.opened),
            body: Arc::clone(&composed.operation.request.body),
            entry: self.plan.entry,
        };
        Ok(match self.claim(ledger, &wish, clock).await? {
            Claimed::Final(key, history) => Outcome::Final(key, history),
            Claimed::OtherPayload(key, history) => Outcome::OtherPayload(key, history),
            Claimed::Busy(key, owner) => Outcome::Busy(key, owner),
            Claimed::Ours(claim, history) => self.run(claim, history, clock).await?,
            Claimed::Unknown(_) => unreachable!("a send begins what the ledger does not know"),
        })
    }

    /// Claims the key. Says whom it waits for before it waits.
    async fn claim<L>(
        &mut self,
        ledger: &mut L,
        wish: &Wish,
        clock: &mut SystemClock,
    ) -> Result<Claimed<L::Claim>, Failure>
    where
        L: Ledger<Error = StoreError>,
    {
        let first =
            drive::claim(ledger, wish, clock, Patience::None).await.map_err(|error| Failure::of_store(&error))?;
        let Claimed::Busy(key, owner) = &first else { return Ok(first) };
        if self.args.identity.no_wait {
            return Ok(first);
        }
        self.session.screen.talk(&waits_for(key, owner));
        self.session.screen.doing(&format!("{key}: waiting for process {}", owner.pid));
        drive::claim(ledger, wish, clock, Patience::Until(self.deadline))
            .await
            .map_err(|error| Failure::of_store(&error))
    }

    async fn run<C>(&mut self, mut claim: C, mut history: History, clock: &mut SystemClock) -> Result<Outcome, Failure>
    where
        C: Claim<Error = StoreError>,
    {
        let key = claim.key().clone();
        let restored = match history.facts.len() {
            1 => None,
            _ => Some(self.restore(&claim, &history).await?),
        };
        self.introduce(&key, &history, clock);
        let composed = &self.plan.composed;
        let (operation, policy) = match &restored {
            Some((operation, policy)) => (operation, policy),
            None => (&composed.operation, &composed.policy),
        };
        let mut watcher = Watcher {
            key: key.clone(),
            screen: self.session.screen.clone(),
            telling: Telling::Alone,
            clock: &self.session.local,
            signals: self.signals.clone(),
            events: self.events.clone(),
            deadline: self.deadline,
            asked_wait: None,
            mask: composed.mask.clone(),
            way: Taken::default(),
        };
        let mut wire = Wire::new(WireSettings {
            answer_max_bytes: policy.sizes.response_bytes,
            mask: composed.mask.clone(),
            wall: self.session.context.wall_clock(),
            names: self.plan.names.clone(),
            tls: self.plan.tls.clone(),
            proxies: self.plan.proxies.clone(),
        });
        let terms = Terms { policy, deadline: self.deadline, mask: &composed.mask };
        let began = clock.now().steady;
        let ports = Ports { transport: &mut wire, clock, entropy: &mut self.chance, observer: &mut watcher };
        let ended = drive::run(&mut claim, &mut history, operation, &terms, ports).await;
        self.signals.landed(&key);
        let took = clock.now().steady.since(began);
        let asked_wait = watcher.asked_wait;
        let (answer, broken) = match ended {
            Ok(ended) => (ended.answer, None),
            Err(failure) => {
                let broken = Broken {
                    settled: failure.ended.settled,
                    error: failure.error,
                    may_have_left: failure.may_have_left,
                };
                (failure.ended.answer, Some(Box::new(broken)))
            }
        };
        Ok(Outcome::Ran(Box::new(Ran { key, history, answer, asked_wait, took, broken })))
    }

    /// Rebuilds what the ledger holds: the stored bytes are sent, whatever was given now.
    async fn restore<C>(&self, claim: &C, history: &History) -> Result<(Operation, Policy), Failure>
    where
        C: Claim<Error = StoreError>,
    {
        let body = match claim.body().await.map_err(|error| Failure::of_store(&error))? {
            Some(body) => body,
            None => self.given_body(history)?,
        };
        super::plan::restored(self.plan, claim.key(), history.opened(), body)
    }

    /// Returns the body of the command line for an operation of which the ledger has only a hash: the same fingerprint
    /// may have other bytes.
    fn given_body(&self, history: &History) -> Result<Arc<[u8]>, Failure> {
        let given = &self.plan.composed.operation.request.body;
        let StoredBody::Hash { sha, .. } = &history.opened().body else { return Ok(Arc::clone(given)) };
        match drive::sha256_hex(given) {
            hash if hash == **sha => Ok(Arc::clone(given)),
            hash => Err(Failure::usage(format!(
                "the ledger has only a hash of this operation's body, and the body given now is another one; nothing was \
                 sent: SHA-256 {hash}, recorded {sha}"
            ))
            .hint("give the same bytes as at the first send")),
        }
    }

    /// Says under which key, before a byte leaves.
    fn introduce(&self, key: &IdempotencyKey, history: &History, clock: &SystemClock) {
        let screen = &self.session.screen;
        if history.facts.len() == 1 {
            // A read that is asked again is no second operation: nobody needs its key.
            if self.plan.fresh_key && !self.plan.composed.policy.method.is_safe() {
                screen.say(&format!("{key}: new key for this operation"));
            }
            return;
        }
        let before = History { facts: history.facts[..history.facts.len() - 1].to_vec() };
        let now = clock.now();
        // The newest line is our own claim: what stood before it had no live owner.
        let standing = match is_ended(&before) {
            true => Standing::Settled,
            false => match &history.facts[history.facts.len() - 1].fact {
                Fact::Reopened(reopened) => standing_of(reopened.predecessor),
                _ => Standing::Settled,
            },
        };
        let state = state::of(&before, standing, now);
        let since = before.facts[0].at;
        screen.say(&format!(
            "{key}: continues the operation of {}: {} after {}",
            self.session.local.both(since, now.wall),
            state.words(),
            attempts(before.last_attempt())
        ));
    }
}

fn standing_of(predecessor: Predecessor) -> Standing {
    match predecessor {
        Predecessor::Settled => Standing::Settled,
        Predecessor::Accounted => Standing::DeadSameBoot,
        Predecessor::InDoubt => Standing::DeadElsewhere,
    }
}

fn attempts(count: u32) -> String {
    match count {
        1 => "1 attempt".into(),
        count => format!("{count} attempts"),
    }
}

fn waits_for(key: &IdempotencyKey, owner: &Owner) -> String {
    format!("{key}: process {} on {} is working on this key; waiting for it", owner.pid, owner.host)
}
