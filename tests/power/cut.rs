//! Power cuts: after some event of a recording, with a part of what no flush has made durable.

use crate::disk::{Event, Recording, SECTOR};
use crate::promise::Promises;
use fastrand::Rng;

/// What the file systems write at once, in bytes: a disk keeps or loses at least this, unless it tears.
const PAGE: usize = 4_096;

/// What becomes of the writes that came after the last flush.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kept {
    /// All of them are lost.
    Nothing,
    /// Each page of them is there or not.
    Some,
    /// One write is lost.
    AllButOne,
    /// Each sector of them is there or not.
    Torn,
}

const KINDS: [Kept; 4] = [Kept::Nothing, Kept::Some, Kept::AllButOne, Kept::Torn];

/// One power cut.
#[derive(Clone, Copy, Debug)]
pub struct Cut {
    /// How many events came before it.
    pub after: usize,
    pub kept: Kept,
    /// What chooses where there is a choice.
    pub seed: u64,
}

/// Chooses `count` cuts, in their order: every corner in every way, half of the others after promises, where most is at
/// stake, and half anywhere.
pub fn choose(recording: &Recording, count: usize, seed: u64) -> Vec<Cut> {
    let mut rng = Rng::with_seed(seed);
    let events = &recording.events;
    let behind = |wanted: fn(&Event) -> bool| -> Vec<usize> {
        (0..events.len()).filter(|at| wanted(&events[*at])).map(|at| at + 1).collect()
    };
    let corners = behind(|event| matches!(event, Event::Corner));
    let promises = behind(|event| matches!(event, Event::Promised(_)));
    let anywhere: Vec<usize> = (0..=events.len()).collect();
    let mut cuts: Vec<Cut> = Vec::with_capacity(count);
    for after in corners {
        cuts.extend(KINDS.map(|kept| Cut { after, kept, seed: rng.u64(..) }));
    }
    cuts.truncate(count);
    let others = count - cuts.len();
    for (places, share) in [(promises, others / 2), (anywhere, others - others / 2)] {
        // Evenly over the whole recording, and not at the same places each time.
        let shift = rng.f64();
        cuts.extend((0..share).filter(|_| !places.is_empty()).map(|index| {
            let at = (index as f64 + shift) / share as f64 * places.len() as f64;
            let kept = KINDS[rng.usize(..KINDS.len())];
            Cut { after: places[(at as usize).min(places.len() - 1)], kept, seed: rng.u64(..) }
        }));
    }
    cuts.sort_by_key(|cut| cut.after);
    cuts
}

/// Chooses a cut right after each of the first `count` promises, of which the disk has kept nothing that it need not.
/// One process makes them, each after a flush of its own.
pub fn after_promises(recording: &Recording, count: usize) -> Vec<Cut> {
    let is_promise = |event: &Event| matches!(event, Event::Promised(_));
    let behind = (1..=recording.events.len()).filter(|after| is_promise(&recording.events[after - 1]));
    behind.take(count).map(|after| Cut { after, kept: Kept::Nothing, seed: 0 }).collect()
}

/// Plays a recording from cut to cut.
pub struct Player<'a> {
    recording: &'a Recording,
    /// What is certainly on the disk after `done` events.
    durable: Vec<u8>,
    done: usize,
    promises: Promises,
    promised: usize,
}

impl<'a> Player<'a> {
    pub fn new(recording: &'a Recording) -> Player<'a> {
        let durable = recording.base.clone();
        Player { recording, durable, done: 0, promises: Promises::default(), promised: 0 }
    }

    /// Returns what is on the disk after a cut, and what was promised before. Cuts come in their order.
    pub fn play(&mut self, cut: Cut) -> (Vec<u8>, Promises) {
        let events = &self.recording.events;
        let is_flush = |event: &Event| matches!(event, Event::Flush);
        let flushed = events[..cut.after].iter().rposition(is_flush).map_or(0, |at| at + 1);
        for event in &events[self.done..flushed.max(self.done)] {
            if let Event::Write { at, bytes } = event {
                self.durable[*at..*at + bytes.len()].copy_from_slice(bytes);
            }
        }
        self.done = self.done.max(flushed);
        for event in &events[self.promised..cut.after] {
            if let Event::Promised(promise) = event {
                self.promises.add(promise);
            }
        }
        self.promised = cut.after;
        let mut image = self.durable.clone();
        keep(&mut image, &events[self.done..cut.after], cut);
        (image, self.promises.clone())
    }
}

/// Writes what is kept of what no flush has made durable.
fn keep(image: &mut [u8], events: &[Event], cut: Cut) {
    let mut rng = Rng::with_seed(cut.seed);
    let writes: Vec<(usize, &[u8])> = events
        .iter()
        .filter_map(|event| match event {
            Event::Write { at, bytes } => Some((*at, &bytes[..])),
            _ => None,
        })
        .collect();
    let lost = if writes.is_empty() { 0 } else { rng.usize(..writes.len()) };
    for (index, (at, bytes)) in writes.into_iter().enumerate() {
        let part = if cut.kept == Kept::Torn { SECTOR } else { PAGE };
        for (chunk, bytes) in bytes.chunks(part).enumerate() {
            let is_kept = match cut.kept {
                Kept::Nothing => false,
                Kept::Some | Kept::Torn => rng.bool(),
                Kept::AllButOne => index != lost,
            };
            if is_kept {
                let at = at + chunk * part;
                image[at..at + bytes.len()].copy_from_slice(bytes);
            }
        }
    }
}

/// Returns the recording of a disk that ignores flushes.
pub fn without_flushes(recording: &Recording) -> Recording {
    let events = recording.events.iter().filter(|event| !matches!(event, Event::Flush)).cloned().collect();
    Recording { base: recording.base.clone(), events }
}

/// Returns the recording of a ledger that does not wait for its last flush: each promise is made before it.
pub fn too_soon(recording: &Recording) -> Recording {
    let mut events: Vec<Event> = Vec::with_capacity(recording.events.len());
    for event in &recording.events {
        match (event, events.iter().rposition(|earlier| matches!(earlier, Event::Flush))) {
            (Event::Promised(_), Some(flush)) => events.insert(flush, event.clone()),
            _ => events.push(event.clone()),
        }
    }
    Recording { base: recording.base.clone(), events }
}
