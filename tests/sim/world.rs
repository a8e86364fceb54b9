//! The world: one clock, one partner, one ledger, at most two processes, and what is watched over all of them.

use crate::book::Book;
use crate::case::{Case, FAIR, Weather};
use crate::chance::Chance;
use crate::command::Errand;
use crate::partner::Partner;
use crate::watch::Watch;
use abide::engine::moment::{Moment, Now, Timestamp};
use abide::engine::operation::IdempotencyKey;
use abide::engine::policy::Policy;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll};
use std::time::Duration;

/// 2026-11-30T00:00:00Z.
const EPOCH_MS: i64 = 1_795_996_800_000;

/// A run with more hazards than this will never end: ten minutes of questions pass a thousand.
const STEPS_MAX: u32 = 20_000;
/// A sleep that is no longer hides no step of the clock.
const SLEEP_SHORT: Duration = Duration::from_secs(60);

/// A process: one command that somebody started.
#[derive(Clone, Debug)]
pub struct Process {
    /// Which one it is, over the whole story; never used twice.
    pub id: u32,
    /// What it was started for.
    pub errand: Errand,
    /// When a replay chose what it takes up, by the wall clock.
    pub planned: Timestamp,
    /// Its claim; 0 before it has one.
    pub claim: u64,
    /// When the run before said that another makes sense, for a replay.
    pub comes_back: Option<Moment>,
    /// What it has sent, redirects included.
    pub sent: u32,
    /// When it started.
    pub started: Moment,
    /// What its own clock showed then.
    pub base: Duration,
    /// When its command must be over.
    pub deadline: Moment,
    /// How long the machine slept while it ran: what a deadline may be overshot by.
    pub slept: Duration,
    /// A signal asked it to end.
    pub interrupted: bool,
    /// A write failed or was refused: nothing may be sent or reported any more.
    pub write_failed: bool,
    /// A Retry-After that it saw and did not write down yet: until when, and whether an attempt brought it.
    pub seen_floor: Option<(Moment, bool)>,
    /// It is being killed.
    pub dying: bool,
    /// The hazards that it has passed.
    pub steps: u32,
    /// It sleeps until then; `None` where it runs.
    pub wakes: Option<Moment>,
    /// It stands still while it waits for an answer.
    pub stalled: bool,
    /// It stood still once, was taken for dead, and goes on.
    pub came_back: bool,
}

impl Process {
    fn new(id: u32, errand: Errand, started: Moment, base: Duration) -> Process {
        Process {
            id,
            errand,
            planned: Timestamp::default(),
            claim: 0,
            comes_back: None,
            sent: 0,
            started,
            base,
            deadline: started.after(errand.allowed),
            slept: Duration::ZERO,
            interrupted: false,
            write_failed: false,
            seen_floor: None,
            dying: false,
            steps: 0,
            wakes: None,
            stalled: false,
            came_back: false,
        }
    }
}

/// Everything.
#[derive(Debug)]
pub struct World {
    /// What the seed chose.
    pub case: Case,
    /// The weather now.
    pub weather: Weather,
    /// All further chance.
    pub chance: Chance,
    /// The time that passes for everybody; no process sees it directly.
    pub now: Moment,
    /// When the wall clock last stepped.
    pub stepped: Option<Moment>,
    /// How many lines the ledger had when the machine last slept for long.
    slept_long_at: Option<u64>,
    /// The partner.
    pub partner: Partner,
    /// The ledger.
    pub book: Book,
    /// What is watched.
    pub watch: Watch,
    /// The processes.
    pub processes: [Process; 2],
    /// Only the first of them runs.
    pub alone: bool,
    /// The process dies at the hazard that this counts down to.
    pub crash_in: Option<u32>,
    /// The disk is full at the write that this counts down to.
    pub disk_full_in: Option<u32>,
    /// The first process stands still at the answer that this counts down to.
    pub stall_in: Option<u32>,
    /// A later write to the same URL is confirmed.
    pub later_write: bool,
    /// How many lines the ledger had when two commands were last apart.
    pub seen_lines: u64,
    /// A person has said of this key, wrongly, that it happened.
    pub mistake: Option<IdempotencyKey>,
    /// The rules as some commands change them.
    pub variants: [Option<Arc<Policy>>; 3],
    wall_ahead_ms: i64,
    processes_so_far: u32,
}

impl World {
    /// Returns the world of a case.
    pub fn new(case: Case, chance: Chance, trace: bool) -> World {
        World {
            weather: case.weather,
            partner: Partner::new(case.policy.method.as_str()),
            case,
            chance,
            now: Moment::START,
            stepped: None,
            slept_long_at: None,
            book: Book::default(),
            watch: Watch::new(trace),
            processes: [(); 2].map(|()| Process::new(0, Errand::send(Duration::ZERO), Moment::START, Duration::ZERO)),
            alone: true,
            crash_in: None,
            disk_full_in: None,
            stall_in: None,
            later_write: false,
            seen_lines: 0,
            mistake: None,
            variants: [None, None, None],
            wall_ahead_ms: 0,
            processes_so_far: 0,
        }
    }

    /// Starts a process in a slot.
    pub fn start(&mut self, who: usize, errand: Errand) {
        self.processes_so_far += 1;
        let base = self.chance.ms(0, 1_000_000);
        self.processes[who] = Process::new(self.processes_so_far, errand, self.now, base);
        self.crash_in = self.chance.odds(self.weather.crashes).then(|| self.chance.between(1, 25) as u32);
        self.disk_full_in = self.chance.odds(self.weather.full_disks).then(|| self.chance.between(1, 8) as u32);
    }

    /// Returns what the clocks show to a process.
    pub fn clocks(&self, who: usize) -> Now {
        let process = &self.processes[who];
        Now { steady: Moment::new(process.base + self.now.since(process.started)), wall: self.wall() }
    }

    /// Returns the wall clock.
    pub fn wall(&self) -> Timestamp {
        let ms = i64::try_from(self.now.since_start().as_millis()).expect("a story is shorter than the ages");
        Timestamp::from_unix_ms(EPOCH_MS + ms + self.wall_ahead_ms)
    }

    /// Returns the world's time of a moment on a process's own clock.
    pub fn moment_of(&self, who: usize, steady: Moment) -> Moment {
        let process = &self.processes[who];
        process.started.after(steady.since_start().saturating_sub(process.base))
    }

    /// Lets time pass for everybody.
    pub fn pass(&mut self, time: Duration) {
        self.now = self.now.after(time);
    }

    /// Steps the wall clock, perhaps. Never before a line tells of a long sleep: a step back that ends inside the sleep
    /// leaves no trace, and nothing could find it out.
    pub fn shake_clock(&mut self) {
        let is_untold = self.slept_long_at == Some(self.book.end());
        if self.chance.odds(self.weather.steps) && !is_untold {
            let ms = self.chance.pick(&[1_500, 30_000, 600_000, 7_200_000]);
            self.wall_ahead_ms += if self.chance.odds(50) { ms } else { -ms };
            self.stepped = Some(self.now);
            self.note(|| format!("the wall clock steps, it is {ms} ms off"));
        }
    }

    /// Clears the weather: from here on everything works as it should.
    pub fn clear_up(&mut self) {
        self.weather = FAIR;
    }

    /// Cuts the power: both processes die, and of what was not synced only a beginning survives.
    pub fn cut_power(&mut self) {
        let keeps = self.chance.between(self.book.synced(), self.book.end());
        self.book.cut(keeps);
        self.watch.power_cut(keeps);
        self.note(|| "the power goes; the machine boots again".into());
    }

    /// Writes a line of the story, where somebody wants to read it.
    pub fn note(&mut self, line: impl FnOnce() -> String) {
        let now = self.now;
        self.watch.note(now, line);
    }

    /// Lets a signal or a sleep of the machine come, perhaps; returns how long the machine sleeps.
    pub fn disturb(&mut self, who: usize) -> Duration {
        if !self.chance.odds(self.weather.disturbances) {
            return Duration::ZERO;
        }
        if self.chance.odds(50) {
            self.processes[who].interrupted = true;
            self.note(|| "a signal comes".into());
            return Duration::ZERO;
        }
        let sleep = self.chance.magnitude(5_000, 10_000_000);
        // After a step, a long sleep would hide the step as a long gap does.
        let sleep = if self.stepped.is_some() { sleep.min(SLEEP_SHORT) } else { sleep };
        if sleep > SLEEP_SHORT {
            self.slept_long_at = Some(self.book.end());
        }
        self.processes.iter_mut().for_each(|process| process.slept += sleep);
        self.note(|| format!("the machine sleeps for {sleep:?}"));
        sleep
    }

    fn dies_here(&mut self, who: usize) -> bool {
        self.processes[who].steps += 1;
        if self.processes[who].steps > STEPS_MAX {
            self.processes[who].dying = true;
            self.broke("every run ends", || format!("{STEPS_MAX} steps"));
            return true;
        }
        let Some(left) = self.crash_in else { return false };
        self.crash_in = left.checked_sub(1).filter(|left| *left > 0);
        let dies = self.crash_in.is_none();
        self.processes[who].dying |= dies;
        dies
    }
}

/// The world, as every port of every process holds it.
#[derive(Clone, Debug)]
pub struct Shared(Arc<Mutex<World>>);

impl Shared {
    /// Shares a world.
    pub fn new(world: World) -> Shared {
        Shared(Arc::new(Mutex::new(world)))
    }

    /// Returns the world. Never held over an await.
    pub fn lock(&self) -> MutexGuard<'_, World> {
        self.0.lock().expect("nobody panics with the world in hand, or the story is over anyway")
    }

    /// A place where the process may die, or the other one may go on.
    pub fn hazard(&self, who: usize) -> Hazard<'_> {
        Hazard { world: self, who, passed: false }
    }

    /// A place where the first process may stand still.
    pub fn stall(&self, who: usize) -> Stall<'_> {
        Stall { world: self, who }
    }

    /// Waits until `until` of the world's time.
    pub fn sleep(&self, who: usize, until: Moment) -> Sleep<'_> {
        Sleep { world: self, who, until }
    }
}

/// See [`Shared::hazard`].
pub struct Hazard<'a> {
    world: &'a Shared,
    who: usize,
    passed: bool,
}

impl Future for Hazard<'_> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        if self.passed {
            return Poll::Ready(());
        }
        self.passed = true;
        let mut world = self.world.lock();
        if world.dies_here(self.who) || !world.alone { Poll::Pending } else { Poll::Ready(()) }
    }
}

/// See [`Shared::stall`].
pub struct Stall<'a> {
    world: &'a Shared,
    who: usize,
}

impl Future for Stall<'_> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        let mut world = self.world.lock();
        if self.who != 0 {
            return Poll::Ready(());
        }
        let Some(left) = world.stall_in else { return Poll::Ready(()) };
        world.stall_in = left.checked_sub(1);
        world.processes[0].stalled = world.stall_in.is_none();
        if world.processes[0].stalled { Poll::Pending } else { Poll::Ready(()) }
    }
}

/// See [`Shared::sleep`].
pub struct Sleep<'a> {
    world: &'a Shared,
    who: usize,
    until: Moment,
}

impl Future for Sleep<'_> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        let mut world = self.world.lock();
        if world.alone {
            world.now = world.now.max(self.until);
        }
        let slept = world.now >= self.until;
        world.processes[self.who].wakes = (!slept).then_some(self.until);
        if slept { Poll::Ready(()) } else { Poll::Pending }
    }
}
