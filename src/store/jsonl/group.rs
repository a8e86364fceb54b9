//! Group commit: what the tasks of a process have to write goes under one lock and into one sync.
//!
//! There is no timer and no thread. Every task puts its work into a queue; whichever comes first does all that is there,
//! and the others find theirs done.

use super::core::{Core, LOCK_WAIT, State, Waits};
use super::index::Effort;
use super::journal::Reading;
use super::lookup::Trouble;
use super::upkeep::{self, INLINE_TAIL_MAX};
use crate::store::{StoreError, Warning};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How many pieces of work are done under one lock, at most.
///
/// Source: the ledger's design: a batch of 1,024 lines takes 0.4 ms with its sync (reference, section 1).
const BATCH_MAX: usize = 1_024;

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
    /// Held by the task that does the work of all.
    turn: tokio::sync::Mutex<()>,
}

/// One piece of work.
trait Work: Send {
    /// Does it and keeps the result. Returns what must hold before it is told.
    fn run(&mut self, core: &Core, state: &mut State) -> Result<Before, Trouble>;

    /// Lets the result be told, or an error in its place.
    fn end(&mut self, error: Option<StoreError>);
}

/// Where a task finds its result.
type Slot<T> = Arc<Mutex<Option<Result<T, StoreError>>>>;

struct Piece<T, F> {
    work: F,
    kept: Option<T>,
    slot: Slot<T>,
}

impl<T: Send, F: FnMut(&Core, &mut State) -> Result<Done<T>, Trouble> + Send> Work for Piece<T, F> {
    fn run(&mut self, core: &Core, state: &mut State) -> Result<Before, Trouble> {
        let Done { value, before } = (self.work)(core, state)?;
        self.kept = Some(value);
        Ok(before)
    }

    fn end(&mut self, error: Option<StoreError>) {
        let kept = self.kept.take();
        let result = match error {
            Some(error) => Err(error),
            None => Ok(kept.expect("it ended well, so that it has a result")),
        };
        *lock(&self.slot) = Some(result);
    }
}

impl std::fmt::Debug for Group {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Group").field("waiting", &lock(&self.waiting).len()).finish_non_exhaustive()
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
    pub async fn locked<T, F>(&self, work: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnMut(&Core, &mut State) -> Result<Done<T>, Trouble> + Send + 'static,
    {
        let slot: Slot<T> = Slot::default();
        lock(&self.group().waiting).push_back(Box::new(Piece { work, kept: None, slot: slot.clone() }));
        // The other tasks of this process come first: what they have to write goes into the same sync.
        tokio::task::yield_now().await;
        let _turn = self.group().turn.lock().await;
        loop {
            if let Some(done) = lock(&slot).take() {
                return done;
            }
            self.batch().await;
        }
    }

    /// Does what is waiting.
    async fn batch(&self) {
        let mut batch: Vec<Box<dyn Work>> = {
            let mut waiting = lock(&self.group().waiting);
            let count = waiting.len().min(BATCH_MAX);
            waiting.drain(..count).collect()
        };
        let mut waits = Waits::default();
        loop {
            match self.attempt(&mut batch) {
                Ok(true) => return,
                Ok(false) => {}
                Err(error) => return fail(&mut batch, error, self),
            }
            match waits.next() {
                // Shorter than the runtime's timer can wait; the lock is held for some 20 µs.
                Some(wait) if wait < Duration::from_millis(1) => std::thread::sleep(wait),
                Some(wait) => tokio::time::sleep(wait).await,
                None => return fail(&mut batch, self.locked_for(LOCK_WAIT), self),
            }
        }
    }

    /// Does a batch if the append lock is free. Returns false where it is not.
    fn attempt(&self, batch: &mut Vec<Box<dyn Work>>) -> Result<bool, StoreError> {
        let mut state = self.state();
        let Some(append) = self.locks().try_append()? else { return Ok(false) };
        let (mut told, mut again) = (Vec::with_capacity(batch.len()), VecDeque::new());
        let mut dropped = None;
        for mut work in batch.drain(..) {
            match work.run(self, &mut state) {
                Ok(before) => told.push((work, before)),
                Err(Trouble::Store(error)) => work.end(Some(error)),
                Err(Trouble::Index(why)) => {
                    dropped = Some(why);
                    again.push_back(work);
                }
            }
        }
        state.end_of_batch();
        // The others need not wait for our disk.
        drop(append);
        self.tell(&mut state, told);
        if let Some(why) = dropped {
            state.warn(Warning::IndexDropped { path: self.place().index(), why });
            state.journal.drop_index();
            if let Err(error) = state.journal.read_on(Reading::Unlocked) {
                batch.extend(again);
                return Err(error);
            }
            let mut waiting = lock(&self.group().waiting);
            again.extend(waiting.drain(..));
            *waiting = again;
        }
        if state.journal.has_long_tail(INLINE_TAIL_MAX) {
            upkeep::keep_up(self, &mut state, Effort::Short);
        }
        Ok(true)
    }

    /// Makes durable what has to be, and ends what was done.
    fn tell(&self, state: &mut State, told: Vec<(Box<dyn Work>, Before)>) {
        let claims = told.iter().filter_map(|(_, before)| match before {
            Before::Remembered(n) => Some(*n),
            _ => None,
        });
        let newest = claims.max();
        let is_wanted = told.iter().any(|(_, before)| *before != Before::Nothing);
        let mut failed = if is_wanted { self.sync(state).err() } else { None };
        let is_durable = failed.is_none();
        if let Some(n) = newest.filter(|_| is_durable) {
            self.remember(state, n);
        }
        for (mut work, before) in told {
            match before == Before::Nothing || is_durable {
                true => work.end(None),
                false => work.end(Some(failed.take().unwrap_or_else(|| self.sick()))),
            }
        }
    }
}

/// Ends all with an error: the first with what happened, the others with that the ledger stays locked.
fn fail(batch: &mut Vec<Box<dyn Work>>, error: StoreError, core: &Core) {
    let mut error = Some(error);
    for mut work in batch.drain(..) {
        work.end(Some(error.take().unwrap_or_else(|| core.locked_for(LOCK_WAIT))));
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
