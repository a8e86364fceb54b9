//! An owner that stands still while an answer is on its way, is taken for dead, and comes back late.
//!
//! Where a lock lives with its process this does not happen. Where locks are not to be had, or the ledger was moved,
//! it does. What is modelled stands still after its request has left: one that stands still between its `started` line
//! and its first byte cannot be fenced off by any ledger.

use crate::chance::Chance;
use crate::command::{Errand, Outcome, command};
use crate::story::Stage;
use crate::world::World;
use abide::engine::moment::Moment;
use std::future::Future;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

impl Stage {
    /// Runs a command that stands still at one of its answers, lets others work meanwhile, and wakes it.
    pub fn stalled_command(&mut self, errand: Errand) -> Outcome {
        {
            let mut world = self.world.lock();
            world.start(0, errand);
            world.stall_in = Some(world.chance.below(3) as u32);
        }
        let dice = Chance::new(self.dice.next());
        let (world, operation) = (self.world.clone(), self.operation.clone());
        let mut owner = Box::pin(async move { command(world, 0, &operation, dice).await });
        let mut context = Context::from_waker(Waker::noop());
        let first = owner.as_mut().poll(&mut context);
        self.world.lock().stall_in = None;
        if let Poll::Ready(outcome) = first {
            self.account(outcome);
            return outcome;
        }
        if !self.world.lock().processes[0].stalled {
            drop(owner);
            self.account(Outcome::Killed);
            return Outcome::Killed;
        }
        let (boots, began) = self.world.lock().taken_for_dead();
        let last = self.successors();
        if self.world.lock().book.boots != boots {
            drop(owner);
            self.account(Outcome::Killed);
            return last;
        }
        self.world.lock().wakes_up(began);
        let outcome = match owner.as_mut().poll(&mut context) {
            Poll::Ready(outcome) => outcome,
            Poll::Pending => Outcome::Killed,
        };
        drop(owner);
        self.account(outcome);
        if outcome.is_over() { outcome } else { last }
    }

    fn successors(&mut self) -> Outcome {
        let commands = self.world.lock().chance.between(1, 2);
        let mut last = Outcome::Killed;
        for _ in 0..commands {
            {
                let mut world = self.world.lock();
                let gap = world.chance.pick(&[0, 1, 60, 600, 5_000]);
                // As between any two commands: a step of the clock must leave a trace.
                let gap = if world.stepped.is_some() { gap.min(60) } else { gap };
                world.pass(Duration::from_secs(gap));
            }
            let errand = self.errand(false);
            last = self.one_command(1, errand);
        }
        last
    }
}

impl World {
    /// Takes the first process's liveness away. Returns how often the machine had booted, and the time.
    fn taken_for_dead(&mut self) -> (u32, Moment) {
        self.note(|| "it stands still and is taken for dead".into());
        self.watch.lost = true;
        let (now, truth) = (self.now, self.case.truth.clone());
        // What has left is delivered soon, or not at all.
        self.partner.abandoned(&truth, now);
        let elsewhere = self.chance.odds(50);
        let (owner, claim) = (self.processes[0].id, self.processes[0].claim);
        self.book.orphan(owner, claim, elsewhere);
        (self.book.boots, now)
    }

    fn wakes_up(&mut self, began: Moment) {
        self.note(|| "the first one wakes up".into());
        (self.crash_in, self.disk_full_in) = (None, None);
        let slept = self.now.since(began);
        let process = &mut self.processes[0];
        (process.stalled, process.came_back) = (false, true);
        process.slept += slept;
    }
}
