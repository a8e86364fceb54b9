//! What a process holds besides its wire and its ledger: a clock, dice, and eyes.

use crate::chance::Chance;
use crate::world::Shared;
use abide::drive::{Clock, Entropy, Event, Observer, Woken};
use abide::engine::moment::{Moment, Now};

/// A process's clock.
#[derive(Debug)]
pub struct Watchmaker {
    /// The world.
    pub world: Shared,
    /// The process.
    pub who: usize,
}

impl Clock for Watchmaker {
    fn now(&self) -> Now {
        self.world.lock().clocks(self.who)
    }

    async fn wait(&mut self, until: Moment) -> Woken {
        self.world.hazard(self.who).await;
        let ends = {
            let mut world = self.world.lock();
            let (now, ends) = (world.now, world.moment_of(self.who, until));
            if world.processes[self.who].interrupted {
                return Woken::Interrupted;
            }
            world.watch_time(self.who, ends.since(now), "a wait");
            world.shake_clock();
            let sleeps = world.disturb(self.who);
            if world.processes[self.who].interrupted { now.after(ends.since(now) / 2) } else { ends.after(sleeps) }
        };
        self.world.sleep(self.who, ends).await;
        self.world.hazard(self.who).await;
        if self.interrupted() { Woken::Interrupted } else { Woken::Reached }
    }

    fn interrupted(&self) -> bool {
        self.world.lock().processes[self.who].interrupted
    }
}

/// A process's dice: their own stream, so that a fault in the engine does not change the weather.
#[derive(Debug)]
pub struct Dice(pub Chance);

impl Entropy for Dice {
    fn draw(&mut self) -> f64 {
        self.0.unit()
    }
}

/// Notes when attempts end: back-off and Retry-After count from there.
#[derive(Debug)]
pub struct Eyes {
    /// The world.
    pub world: Shared,
    /// The claim that is worked on.
    pub claim: u64,
}

impl Observer for Eyes {
    fn saw(&mut self, _: Now, event: Event<'_>) {
        if let Event::Finished { .. } = event {
            let mut world = self.world.lock();
            world.watch.last_finished = Some((self.claim, world.now));
        }
    }
}
