//! A story: somebody runs the same command until it exits 0, through bad weather first and fair weather then.

use crate::case::{Case, Keys};
use crate::chance::Chance;
use crate::command::{Errand, Outcome, command, key, operation};
use crate::partner::{self, Will};
use crate::watch::Broken;
use crate::world::{Shared, World};
use abide::engine::entry::is_final;
use abide::engine::facts::{History, Why};
use abide::engine::operation::Operation;
use std::future::Future;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// Commands in fair weather after which every question that can be answered must be.
const FAIR_COMMANDS: u32 = 12;
/// The deadline of such a command: time for two absent answers the longest `settle` apart.
const FAIR_DEADLINE: Duration = Duration::from_secs(240);
const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3_600);

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

/// Where a story is played.
pub struct Stage {
    /// The world.
    pub world: Shared,
    /// What everybody wants done.
    pub operation: Operation,
    /// Where the dice of each process come from.
    pub dice: Chance,
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
    if !last.is_over() && !stage.world.lock().is_decided() {
        last = stage.calm();
    }
    stage.end(last)
}

impl Stage {
    fn storm(&mut self) -> Outcome {
        let commands = self.world.lock().chance.between(1, 4);
        let mut last = Outcome::Killed;
        for command in 0..commands {
            last = self.commands(command > 0);
            // What is decided stays so, whoever comes by.
            let over = last.is_over() || self.world.lock().is_decided();
            if over && !self.world.lock().chance.odds(30) {
                break;
            }
            self.time_passes();
        }
        self.take_back();
        last
    }

    /// Draws a command; the `first` one is a `send`.
    pub fn errand(&mut self, first: bool) -> Errand {
        let mut world = self.world.lock();
        let allowed = world.case.policy.timeouts.overall;
        let habits = world.case.habits;
        // Where a send without a key is decided, the next one is another operation (decisions 12).
        let replays = !first && world.chance.odds(habits.replays) || world.is_decided();
        let mut errand = if replays { Errand::replay(allowed) } else { Errand::send(allowed) };
        errand.rejected = replays && world.chance.odds(30);
        errand.older = replays && world.chance.odds(30);
        // Without a key, it would be another operation.
        errand.accept_duplicate = (replays || !world.case.keyless) && world.chance.odds(habits.rash);
        errand
    }

    /// Runs one command, or two at a time.
    fn commands(&mut self, later: bool) -> Outcome {
        let errand = self.errand(!later);
        let (two, stalls) = {
            let mut world = self.world.lock();
            // Two sends without a key at the same time may well be meant as two operations.
            let two = !world.case.keyless && errand.allowed < MINUTE / 6 && world.chance.odds(30);
            let stalls = world.case.habits.stalls;
            (two, world.chance.odds(stalls))
        };
        if two {
            let other = self.errand(!later);
            return self.two_commands([errand, other]);
        }
        if stalls { self.stalled_command(errand) } else { self.one_command(0, errand) }
    }

    /// Runs a command while no other goes on.
    pub fn one_command(&mut self, who: usize, errand: Errand) -> Outcome {
        self.world.lock().start(who, errand);
        let dice = Chance::new(self.dice.next());
        let outcome = {
            let mut command = pin!(command(self.world.clone(), who, &self.operation, dice));
            match command.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                Poll::Ready(outcome) => outcome,
                // Alone, a process stops only where it dies; what it held is let go of here.
                Poll::Pending => Outcome::Killed,
            }
        };
        self.account(outcome);
        outcome
    }

    fn two_commands(&mut self, errands: [Errand; 2]) -> Outcome {
        let mut commands: Vec<Option<Pin<Box<dyn Future<Output = Outcome>>>>> = Vec::new();
        let operation = self.operation.clone();
        for (who, errand) in errands.into_iter().enumerate() {
            let dice = Chance::new(self.dice.next());
            self.world.lock().start(who, errand);
            let (world, operation) = (self.world.clone(), operation.clone());
            commands.push(Some(Box::pin(async move { command(world, who, &operation, dice).await })));
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
        if outcomes[1].is_over() { outcomes[1] } else { outcomes[0] }
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

    /// Counts a command that is over, and buries it where it died.
    pub fn account(&mut self, outcome: Outcome) {
        self.runs += u64::from(outcome.ran());
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

    /// Lets time pass between two commands, and persons do what they do meanwhile.
    fn time_passes(&mut self) {
        let words = {
            let mut world = self.world.lock();
            let gap = world.chance.pick(&[0, 1, 60, 600, 3_000, 5_000, 40_000, 80_000, 260_000]);
            // A step back that ends inside a longer gap leaves no trace, and neither does one inside several gaps with
            // no line between them: nothing could find it out.
            let lines = world.book.end();
            let silent = std::mem::replace(&mut world.seen_lines, lines) == lines;
            let longest = if silent { 60 } else { 5_000 };
            let gap = if world.stepped.is_some() { gap.min(longest) } else { gap };
            world.pass(Duration::from_secs(gap));
            if gap <= 60 && !silent {
                world.shake_clock();
            }
            let habits = world.case.habits;
            if !world.later_write && world.chance.odds(habits.later_writes) {
                world.later_write = true;
                world.note(|| "somebody writes the same resource".into());
            }
            world.chance.odds(habits.words)
        };
        if words {
            self.person_speaks();
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
        let only_replays = self.world.lock().chance.odds(40);
        for command in 0..commands {
            let (retry_in, known) = {
                let world = self.world.lock();
                (world.retry_in(), world.book.entries().any(|(place, _)| world.is_meant(place)))
            };
            self.world.lock().pass(retry_in.max(Duration::from_secs(30)));
            let why = if known && (only_replays || command == 1) { Why::Replay } else { Why::Send };
            last = self.one_command(0, Errand { why, older: true, ..Errand::send(allowed) });
            if last.is_over() {
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
        if self.later_write && policy.method.as_str() != "POST" {
            return false;
        }
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
