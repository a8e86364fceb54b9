//! Group commit: what the tasks of a process have to write goes under one lock and into one sync.
//!
//! No task sleeps for it. Every task puts its work into a queue; whichever comes first writes all that is there. What was
//! written waits for a sync. Where many tasks work, a thread makes it while they go on, and the next one begins when the
//! one before has ended and no task has anything to add, or they have added for a moment: a batch grows as long as the
//! disk takes, and a little while the tasks have something to do that needs no disk.

use super::core::{Core, State};
use super::files;
use super::index::Effort;
use super::journal::Reading;
use super::lookup::Trouble;
use super::syncs::Due;
use super::upkeep::{self, INLINE_TAIL_MAX};
use super::waits::{LOCK_WAIT, Waits};
use crate::store::{StoreError, Warning};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

/// How many pieces of work are done under one lock, at most.
///
/// Source: the ledger's design: a batch of 1,024 lines takes 0.4 ms with its sync (reference, section 1).
const BATCH_MAX: usize = 1_024;

/// After how many turns of the runtime that have brought nothing new a sync begins: an answer that has come needs one to
/// be read, one to reach its task, and one until that has written.
const QUIET_TURNS: u32 = 4;

/// A sync is put off no longer than this: answers that come together would else all be worked through before the next
/// request leaves, and the partner would stand idle meanwhile.
///
/// Source: `benches/ledger`, replay: with four times of it a partner that takes 5 ms is asked 7 % less often.
const GATHERING_MAX: Duration = Duration::from_micros(250);

/// What came of a piece of work.
#[derive(Debug)]
pub struct Done<T> {
    /// Its result.
    pub value: T,
    /// What must hold before the result is told.
    pub before: Before,
}

/// What must hold before a result is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Before {
    /// Nothing.
    Nothing,
    /// What was read and written is durable.
    Synced,
    /// The same, and this machine remembers that this claim is.
    Remembered(u64),
}

/// The work that the tasks of a process want done.
#[derive(Default)]
pub struct Group {
    waiting: Mutex<VecDeque<Box<dyn Work>>>,
    /// Held by the task that writes for all.
    turn: tokio::sync::Mutex<()>,
    /// What is written and may not be told before a sync.
    owed: Mutex<Vec<Owed>>,
    /// Held by the task that lets a thread sync for all.
    sync_turn: tokio::sync::Mutex<()>,
    /// Whether syncs are made by a thread.
    is_beside: AtomicBool,
}

/// Work that was done, and what must hold before its result is told.
type Owed = (Box<dyn Work>, Before);

/// One piece of work.
trait Work: Send {
    /// Does it and keeps the result. Returns what must hold before it is told.
    fn run(&mut self, core: &Core, state: &mut State) -> Result<Before, Trouble>;

    /// Lets the result be told, or an error in its place.
    fn end(self: Box<Self>, error: Option<StoreError>);
}

struct Piece<T, F> {
    work: F,
    kept: Option<T>,
    /// Set once it is done, whatever came of it: its task need not write for others then.
    is_done: Arc<AtomicBool>,
    told: oneshot::Sender<Result<T, StoreError>>,
}

impl<T: Send, F: FnMut(&Core, &mut State) -> Result<Done<T>, Trouble> + Send> Work for Piece<T, F> {
    fn run(&mut self, core: &Core, state: &mut State) -> Result<Before, Trouble> {
        let Done { value, before } = (self.work)(core, state)?;
        self.kept = Some(value);
        self.is_done.store(true, Ordering::Release);
        Ok(before)
    }

    fn end(self: Box<Self>, error: Option<StoreError>) {
        let Piece { kept, told, is_done, .. } = *self;
        is_done.store(true, Ordering::Release);
        let result = match error {
            Some(error) => Err(error),
            None => Ok(kept.expect("it ended well, so that it has a result")),
        };
        // A task that does not wait any more needs no result; a claim in it is let go.
        drop(told.send(result));
    }
}

impl std::fmt::Debug for Group {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Group").field("waiting", &lock(&self.waiting).len()).finish_non_exhaustive()
    }
}

impl Group {
    /// Lets a thread make the syncs from now on: worth it where other tasks have something to do meanwhile.
    pub fn sync_beside(&self) {
        self.is_beside.store(true, Ordering::Relaxed);
    }

    /// Returns how much is written that waits for a sync.
    fn owed(&self) -> usize {
        lock(&self.owed).len()
    }
}

/// Works that are to be written. What was not when this is dropped, its task gone, is left to the next task.
struct Batch<'a> {
    works: VecDeque<Box<dyn Work>>,
    group: &'a Group,
}

impl Drop for Batch<'_> {
    fn drop(&mut self) {
        if !self.works.is_empty() {
            let mut waiting = lock(&self.group.waiting);
            self.works.extend(waiting.drain(..));
            *waiting = std::mem::take(&mut self.works);
        }
    }
}

impl Core {
    /// Does `work` while nobody else appends, in this process or in another, and returns its result once that may be
    /// told. Where it finds that the index is of no use, before it has done anything, the whole file is read and it is
    /// done again.
    ///
    /// # Errors
    /// [`StoreError::Locked`] where the lock cannot be had within 10 s, [`StoreError::Unsynced`] and
    /// [`StoreError::Sick`] where nothing can be made durable; else what `work` gives.
    pub async fn locked<T, F>(self: &Arc<Self>, work: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnMut(&Core, &mut State) -> Result<Done<T>, Trouble> + Send + 'static,
    {
        let (told, mut result) = oneshot::channel();
        let is_done = Arc::new(AtomicBool::new(false));
        let piece = Piece { work, kept: None, is_done: is_done.clone(), told };
        lock(&self.group().waiting).push_back(Box::new(piece));
        // The other tasks of this process come first: what they have to write goes into the same sync.
        tokio::task::yield_now().await;
        {
            let _turn = self.group().turn.lock().await;
            // What others have to write by now waits for theirs, or a batch would never grow.
            while !is_done.load(Ordering::Acquire) {
                self.batch().await;
            }
        }
        let told = tokio::select! {
            biased;
            told = &mut result => told,
            _turn = self.group().sync_turn.lock() => {
                self.sync_for_all().await;
                result.await
            }
        };
        // It is dropped untold only with the runtime whose thread should have synced it.
        told.unwrap_or_else(|_| Err(self.unsynced(std::io::ErrorKind::Interrupted.into())))
    }

    /// Lets a thread sync what is written, once no task has anything to add, or has added for long enough.
    async fn sync_for_all(self: &Arc<Self>) {
        let began = Instant::now();
        let (mut known, mut quiet) = (0, 0);
        while quiet < QUIET_TURNS && began.elapsed() < GATHERING_MAX {
            tokio::task::yield_now().await;
            let owed = self.group().owed();
            quiet = if owed == known { quiet + 1 } else { 0 };
            known = owed;
        }
        let owed = std::mem::take(&mut *lock(&self.group().owed));
        if !owed.is_empty() {
            let core = self.clone();
            let synced = tokio::task::spawn_blocking(files::on_a_thread(move || core.sync_owed(owed)));
            // Its results are told by itself. Where it never began, they are dropped, which whoever waits hears.
            drop(synced.await);
        }
    }

    /// Syncs on a thread of its own, and tells.
    fn sync_owed(&self, owed: Vec<Owed>) {
        let due = self.state().due();
        let failed = self.sync(&due).err();
        if failed.is_none() {
            let mut state = self.state();
            self.note(&mut state, &owed, &due);
            self.keep_short(&mut state);
        }
        end(owed, failed, self);
    }

    /// Writes what is waiting.
    async fn batch(&self) {
        let mut batch = Batch { works: VecDeque::new(), group: self.group() };
        {
            let mut waiting = lock(&self.group().waiting);
            let count = waiting.len().min(BATCH_MAX);
            batch.works.extend(waiting.drain(..count));
        }
        let mut waits = Waits::default();
        loop {
            match self.attempt(&mut batch.works) {
                Ok(true) => return,
                Ok(false) => {}
                Err(error) => return fail(&mut batch.works, error, self),
            }
            match waits.next() {
                // Shorter than the runtime's timer can wait; the lock is held for some 20 µs.
                Some(wait) if wait < Duration::from_millis(1) => std::thread::sleep(wait),
                Some(wait) => tokio::time::sleep(wait).await,
                None => return fail(&mut batch.works, self.locked_for(LOCK_WAIT), self),
            }
        }
    }

    /// Writes a batch if the append lock is free. Returns false where it is not.
    fn attempt(&self, batch: &mut VecDeque<Box<dyn Work>>) -> Result<bool, StoreError> {
        let mut state = self.state();
        let Some(append) = self.locks().try_append()? else { return Ok(false) };
        state.begin_batch();
        let (mut done, mut again) = (Vec::with_capacity(batch.len()), VecDeque::new());
        let mut dropped = None;
        for mut work in batch.drain(..) {
            match work.run(self, &mut state) {
                Ok(before) => done.push((work, before)),
                Err(Trouble::Store(error)) => work.end(Some(error)),
                Err(Trouble::Index(why)) => {
                    dropped = Some(why);
                    again.push_back(work);
                }
            }
        }
        // The others need not wait for our disk.
        drop(append);
        self.owe(&mut state, done);
        if let Some(why) = dropped {
            batch.extend(again);
            state.warn(Warning::IndexDropped { path: self.place().index(), why });
            state.journal.drop_index();
            state.journal.read_on(Reading::Unlocked)?;
            // What is left of the batch waits for the next one.
        }
        Ok(true)
    }

    /// Ends what may be told at once, and sees to it that the rest is synced.
    fn owe(&self, state: &mut State, done: Vec<Owed>) {
        let (owed, free): (Vec<_>, Vec<_>) = done.into_iter().partition(|(_, before)| *before != Before::Nothing);
        end(free, None, self);
        if !self.group().is_beside.load(Ordering::Relaxed) {
            let due = state.due();
            let failed = if owed.is_empty() { None } else { self.sync(&due).err() };
            if failed.is_none() && !owed.is_empty() {
                self.note(state, &owed, &due);
            }
            self.keep_short(state);
            return end(owed, failed, self);
        }
        lock(&self.group().owed).extend(owed);
    }

    /// Notes what is durable, here and for this machine.
    fn note(&self, state: &mut State, owed: &[Owed], due: &Due) {
        state.synced(due);
        let claims = owed.iter().filter_map(|(_, before)| match before {
            Before::Remembered(n) => Some(*n),
            _ => None,
        });
        if let Some(n) = claims.max() {
            self.remember(state, n, due);
        }
    }

    /// Brings the index up to date where a process that goes on would have a long tail.
    fn keep_short(&self, state: &mut State) {
        if state.journal.has_long_tail(INLINE_TAIL_MAX) {
            upkeep::keep_up(self, state, Effort::Short);
        }
    }
}

/// Ends works, all with an error where there is one: the first with what happened, the others with that nothing is
/// synced any more.
fn end(works: Vec<Owed>, error: Option<StoreError>, core: &Core) {
    let is_well = error.is_none();
    let mut error = error;
    for (work, _) in works {
        work.end((!is_well).then(|| error.take().unwrap_or_else(|| core.sick())));
    }
}

/// Ends all with an error: the first with what happened, the others with that the ledger stays locked.
fn fail(batch: &mut VecDeque<Box<dyn Work>>, error: StoreError, core: &Core) {
    let mut error = Some(error);
    for work in batch.drain(..) {
        work.end(Some(error.take().unwrap_or_else(|| core.locked_for(LOCK_WAIT))));
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
