//! A story: somebody runs the same command until it exits 0, through bad weather first and fair weather then.

use crate::case::{Case, Keys, ORIGIN};
use crate::chance::Chance;
use crate::hands::{Dice, Eyes, Watchmaker};
use crate::ledger::Shelf;
use crate::partner::{self, Will};
use crate::watch::Broken;
use crate::wire::Wire;
use crate::world::{Shared, World};
use abide::drive::{Claim, Claimed, EntryRule, Patience, Ports, Terms, Wish, claim, run};
use abide::engine::deadline::Deadline;
use abide::engine::entry::is_final;
use abide::engine::facts::{History, Opened, Owner, StoredBody, Why};
use abide::engine::operation::{
    Announce, Fingerprint, Guarded, Header, IdempotencyKey, Operation, PartnerName, Request,
};
use abide::engine::secret::Mask;
use abide::engine::verdict::Verdict;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// What everybody sends.
const BODY: &str = r#"{"amount":"12.90","id":"order-1"}"#;
/// Commands in fair weather after which every question that can be answered must be.
const FAIR_COMMANDS: u32 = 12;
/// The deadline of such a command: time for two absent answers the longest `settle` apart.
const FAIR_DEADLINE: Duration = Duration::from_secs(240);
const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3_600);

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// A run came to a verdict.
    Ended(Verdict),
    /// The ledger had a final verdict.
    Final(Verdict),
    /// Another process had the key until the deadline.
    Busy,
    /// The ledger failed.
    Failed,
    /// It was killed.
    Killed,
}

/// What is known of a story when it is over.
#[derive(Clone, Debug)]
pub struct Report {
    /// The first broken promise.
    pub broken: Option<Broken>,
    /// How often the driver ran the operation.
    pub runs: u64,
    /// How often something was sent.
    pub sends: u64,
    /// How often a process was killed.
    pub kills: u64,
    /// How the last command ended.
    pub last: Outcome,
    /// The story for people, where it was kept.
    pub story: Vec<String>,
}

struct Stage {
    world: Shared,
    operation: Operation,
    dice: Chance,
    runs: u64,
    kills: u64,
}

/// Plays the story of a seed.
pub fn play(seed: u64, trace: bool) -> Report {
    let mut chance = Chance::new(seed);
    let case = Case::draw(&mut chance);
    let dice = Chance::new(!seed);
    let operation = operation(&case, &key("order-1"));
    let world = Shared::new(World::new(case, chance, trace));
    let mut stage = Stage { world, operation, dice, runs: 0, kills: 0 };
    let mut last = stage.storm();
    if !is_over(last) && !stage.world.lock().is_decided() {
        last = stage.calm();
    }
    stage.end(last)
}

fn is_over(outcome: Outcome) -> bool {
    matches!(outcome, Outcome::Ended(verdict) | Outcome::Final(verdict) if verdict.is_final())
}

impl Stage {
    fn storm(&mut self) -> Outcome {
        let commands = self.world.lock().chance.between(1, 4);
        let mut last = Outcome::Killed;
        for _ in 0..commands {
            last = self.commands();
            if is_over(last) || self.world.lock().is_decided() {
                return last;
            }
            self.time_passes();
        }
        last
    }

    /// Runs one command, or two at a time.
    fn commands(&mut self) -> Outcome {
        let (allowed, two, why) = {
            let mut world = self.world.lock();
            let allowed = world.case.policy.timeouts.overall;
            // Two sends without a key at the same time may well be meant as two operations.
            let two = !world.case.keyless && allowed < MINUTE / 6 && world.chance.odds(30);
            let why = if world.chance.odds(25) { Why::Replay } else { Why::Send };
            (allowed, two, why)
        };
        if two { self.two_commands(allowed, why) } else { self.one_command(allowed, why) }
    }

    fn one_command(&mut self, allowed: Duration, why: Why) -> Outcome {
        self.world.lock().start(0, allowed);
        let dice = Chance::new(self.dice.next());
        let outcome = {
            let mut command = pin!(command(self.world.clone(), 0, &self.operation, why, dice));
            match command.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                Poll::Ready(outcome) => outcome,
                // Alone, a process stops only where it dies; what it held is let go of here.
                Poll::Pending => Outcome::Killed,
            }
        };
        self.account(outcome);
        outcome
    }

    fn two_commands(&mut self, allowed: Duration, why: Why) -> Outcome {
        let mut commands: Vec<Option<Pin<Box<dyn Future<Output = Outcome>>>>> = Vec::new();
        let operation = self.operation.clone();
        for who in 0..2 {
            let dice = Chance::new(self.dice.next());
            self.world.lock().start(who, allowed);
            let (world, operation) = (self.world.clone(), operation.clone());
            commands.push(Some(Box::pin(async move { command(world, who, &operation, why, dice).await })));
        }
        self.world.lock().alone = false;
        let mut outcomes = [Outcome::Killed; 2];
        while let Some(who) = self.next_to_run(&commands) {
            let Some(running) = &mut commands[who] else { continue };
            match running.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                Poll::Ready(outcome) => {
                    outcomes[who] = outcome;
                    commands[who] = None;
                }
                Poll::Pending if self.world.lock().processes[who].dying => commands[who] = None,
                Poll::Pending => {}
            }
        }
        self.world.lock().alone = true;
        outcomes.iter().for_each(|outcome| self.account(*outcome));
        if is_over(outcomes[1]) { outcomes[1] } else { outcomes[0] }
    }

    /// Returns who goes on; lets time pass where both wait.
    fn next_to_run<T>(&self, commands: &[Option<T>]) -> Option<usize> {
        let mut world = self.world.lock();
        let alive = |who: &usize| commands[*who].is_some();
        let wakes = |world: &World, who: usize| world.processes[who].wakes.unwrap_or(world.now);
        let next = (0..commands.len()).filter(alive).map(|who| wakes(&world, who)).min()?;
        world.now = world.now.max(next);
        let now = world.now;
        let ready: Vec<usize> = (0..commands.len()).filter(alive).filter(|who| wakes(&world, *who) <= now).collect();
        Some(world.chance.pick(&ready))
    }

    fn account(&mut self, outcome: Outcome) {
        self.runs += u64::from(!matches!(outcome, Outcome::Final(_) | Outcome::Busy));
        let mut world = self.world.lock();
        world.watch.lost |= world.book.has_open_attempts();
        if outcome != Outcome::Killed {
            return;
        }
        self.kills += 1;
        world.note(|| "the process dies".into());
        let (now, late) = (world.now, world.case.truth.clone());
        world.partner.abandoned(&late, now);
        // With its line, a power cut could take away the only trace of a step of the clock.
        if world.stepped.is_none() && world.chance.odds(60) {
            world.cut_power();
        }
    }

    /// Lets time pass between two commands.
    fn time_passes(&mut self) {
        let mut world = self.world.lock();
        let gap = world.chance.pick(&[0, 1, 60, 600, 3_000, 5_000, 40_000]);
        // A step back that ends inside a longer gap leaves no trace: nothing could find it out.
        let gap = if world.stepped.is_some() { gap.min(5_000) } else { gap };
        world.pass(Duration::from_secs(gap));
        if gap <= 60 {
            world.shake_clock();
        }
    }

    /// Repeats the command in fair weather, as a shell loop would.
    fn calm(&mut self) -> Outcome {
        let required = {
            let mut world = self.world.lock();
            world.clear_up();
            world.note(|| "the weather clears up".into());
            let under_way = world.case.truth.late + world.case.truth.takes;
            world.pass(under_way);
            world.must_get_there()
        };
        let mut last = Outcome::Killed;
        // Where nothing is required, the promises that hold in all weathers are watched a little longer.
        let (commands, allowed) = if required { (FAIR_COMMANDS, FAIR_DEADLINE) } else { (2, MINUTE / 2) };
        for command in 0..commands {
            let retry_in = self.world.lock().retry_in();
            self.world.lock().pass(retry_in.max(Duration::from_secs(30)));
            last = self.one_command(allowed, if command == 1 { Why::Replay } else { Why::Send });
            if is_over(last) {
                return last;
            }
        }
        if required {
            let how = || format!("{FAIR_COMMANDS} commands in fair weather, the last one: {last:?}");
            self.world.lock().broke("the same command gets there in the end", how);
        }
        last
    }

    fn end(self, last: Outcome) -> Report {
        let mut world = self.world.lock();
        // Long enough for everything that is under way, however late.
        world.pass(1_000 * HOUR);
        let (now, truth) = (world.now, world.case.truth.clone());
        world.partner.advance(&truth, now);
        world.watch_truth();
        let mut story = world.watch.story().to_vec();
        if !story.is_empty() {
            story.insert(0, format!("{:#?}", world.case));
            story.push(format!("executions: {:?}", world.partner.executions));
        }
        Report {
            broken: world.watch.broken.clone(),
            runs: self.runs,
            sends: world.watch.sends.len() as u64,
            kills: self.kills,
            last,
            story,
        }
    }
}

impl World {
    /// Returns whether a send without a key is decided although nobody was told, as after a kill between the last
    /// line and the exit: the same command would begin another operation (decisions 12).
    fn is_decided(&self) -> bool {
        self.case.keyless && self.book.entries().any(|(_, entry)| is_final(&entry.history))
    }

    /// Returns how long until the last run said that another makes sense.
    fn retry_in(&self) -> Duration {
        let last = |history: &History| history.settled().and_then(|settled| settled.retry_at);
        let retry_at = self.book.entries().filter_map(|(_, entry)| last(&entry.history)).max();
        // After a step of the clock, a long wait would hide the step from everybody.
        let longest = if self.stepped.is_some() { MINUTE } else { 24 * HOUR };
        retry_at.map_or(Duration::ZERO, |at| at.since(self.wall())).min(longest)
    }

    /// Returns whether fair weather must bring an end: the partner can be asked, or honours the key, or nothing is in
    /// doubt; and nothing is left over from the storm that would stand in the way.
    fn must_get_there(&self) -> bool {
        let (policy, truth) = (&self.case.policy, &self.case.truth);
        let sends = &self.watch.sends;
        let accepts = |request: &partner::Request| matches!(request.will, Will::Accept | Will::AcceptThenReject);
        let took = self.partner.requests.iter().any(accepts) || self.watch.saw_progress;
        let forever = self.watch.waits_longer_than(self.now, 10 * MINUTE);
        // A partner that keeps its failures gives the same one to this key for ever.
        let kept_failure = self.partner.requests.iter().any(|request| request.will == Will::Fail)
            && truth.keys == Keys::LockedStoresFailures;
        if self.case.valid_for.is_some() || took || forever || kept_failure || self.stepped.is_some() {
            return false;
        }
        let doubtful = self.watch.lost || sends.iter().any(|send| send.ambiguous);
        if !doubtful || policy.method.is_safe() {
            return true;
        }
        let honours = matches!(truth.keys, Keys::Locked | Keys::SuccessesOnly);
        let young = self.now.since_start() + HOUR / 2 < policy.idempotency.trusted_for();
        let by_key = honours && young;
        let by_status = policy.status.as_ref().is_some_and(|status| {
            let absent = status.absent.as_ref();
            let works = !truth.endpoint.misrouted && !truth.endpoint.squatter;
            let provable = absent.is_some_and(|rule| rule.value.is_some() || status.control.is_some());
            works && provable && status.settle.is_some()
        });
        let refuted = sends.iter().any(|send| send.contradicts_absence);
        by_key || by_status && (!self.partner.executions.is_empty() || !refuted)
    }
}

/// One command: a claim and, where the key is ours, a run.
async fn command(world: Shared, who: usize, operation: &Operation, why: Why, dice: Chance) -> Outcome {
    let mut clock = Watchmaker { world: world.clone(), who };
    let mut ledger = Shelf { world: world.clone(), who };
    let (wish, deadline) = world.lock().wish(who, operation, why);
    let claimed = claim(&mut ledger, &wish, &mut clock, Patience::Until(deadline)).await;
    let (mut held, mut history) = match claimed {
        Err(_) => return Outcome::Failed,
        Ok(Claimed::Ours(held, history)) => (held, history),
        Ok(Claimed::Final(_, history)) => return Outcome::Final(final_verdict(&history)),
        Ok(Claimed::Busy(..)) => return Outcome::Busy,
        Ok(Claimed::OtherPayload(..)) => panic!("the payload is always the same"),
        Ok(Claimed::Unknown(key)) => panic!("{key} is sent, and a send knows every key"),
    };
    let place = held.place;
    let (policy, continued) = {
        let world = world.lock();
        let continued = (*held.key() != operation.key).then(|| crate::story::operation(&world.case, held.key()));
        (Arc::clone(&world.case.policy), continued)
    };
    let terms = Terms { policy: &policy, deadline, mask: &Mask::default() };
    let mut wire = Wire { world: world.clone(), who };
    let mut eyes = Eyes { world: world.clone(), claim: held.n() };
    let mut dice = Dice(dice);
    let ports = Ports { transport: &mut wire, clock: &mut clock, entropy: &mut dice, observer: &mut eyes };
    let ended = run(&mut held, &mut history, continued.as_ref().unwrap_or(operation), &terms, ports).await;
    match ended {
        Err(_) => Outcome::Failed,
        Ok(ended) => {
            world.lock().watch_end(who, place, held.n(), &ended);
            Outcome::Ended(ended.settled.verdict)
        }
    }
}

fn final_verdict(history: &History) -> Verdict {
    history.settled().map_or(Verdict::Confirmed, |settled| settled.verdict)
}

fn key(text: &str) -> IdempotencyKey {
    IdempotencyKey::new(text, 255).expect("a key")
}

fn operation(case: &Case, key: &IdempotencyKey) -> Operation {
    let header = |name: &str, value: &str| Header { name: name.into(), value: Guarded::plain(value) };
    let request = Request {
        method: case.policy.method.clone(),
        url: Guarded::plain("http://partner.test/orders"),
        headers: vec![header("Content-Type", "application/json"), header("Idempotency-Key", key.as_str())],
        body: BODY.as_bytes().into(),
    };
    Operation {
        partner: PartnerName::new("partner").expect("a name"),
        key: key.clone(),
        fingerprint: Fingerprint("v1:0".into()),
        request: Arc::new(request),
        status_headers: [].into(),
        announce: Announce::default(),
    }
}

impl World {
    fn wish(&self, who: usize, operation: &Operation, why: Why) -> (Wish, Deadline) {
        let (policy, process, wall) = (&self.case.policy, &self.processes[who], self.wall());
        let allowed = process.deadline.since(self.now);
        let opened = Opened {
            partner: operation.partner.clone(),
            profile: None,
            account: None,
            method: policy.method.as_str().into(),
            url: ORIGIN.into(),
            headers: Vec::new(),
            fp: operation.fingerprint.clone(),
            body: StoredBody::Text(BODY.into()),
            contract: policy.idempotency.contract().into(),
            key_until: policy.idempotency.supported.then(|| wall.after(policy.idempotency.trusted_for())),
            valid_until: self.case.valid_for.map(|valid_for| wall.after(valid_for)),
            deadline: wall.after(allowed),
            why,
            owner: Owner { host: "here".into(), boot: self.book.boots.to_string().into(), pid: process.id },
        };
        let entry = if self.case.keyless { EntryRule::Keyless } else { EntryRule::Keyed };
        let key = if self.case.keyless { key(&format!("made-{}", process.id)) } else { operation.key.clone() };
        let body = Arc::clone(&operation.request.body);
        let deadline = Deadline(self.clocks(who).steady.after(allowed));
        (Wish { key, opened: Arc::new(opened), body, entry }, deadline)
    }
}
