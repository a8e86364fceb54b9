//! What was measured, as an interval log: a line a minute and stage, so that the evidence is the same when it is read
//! back. What the format has no room for stands in comments, which other readers skip.

use super::counted::{Bin, latencies};
use super::hlog::{self, Interval, Log, Unit};
use super::samples::BadSamples;
use super::tally::hour;
use super::{StageCounts, Tally};
use crate::engine::moment::Timestamp;
use crate::engine::suggest::evidence::Minutes;
use crate::engine::suggest::latencies::NotLatencies;
use crate::engine::suggest::sample::Taken;
use crate::engine::suggest::seen::{Failures, Pacing, Seen};
use std::fmt::Write as _;
use std::io::{self, Write};
use std::time::Duration;

/// The tags of the lines: reading has none, so that other tools show it. All connections were cold.
///
/// Source: latency.md 3.3.
const TAGS: [[Option<&str>; 2]; 3] = [
    [None, Some("read.censored")],
    [Some("connect.cold"), Some("connect.cold.censored")],
    [Some("total.cold"), Some("total.cold.censored")],
];
/// The stages in the order of [`TAGS`], as they stand in comments.
const STAGES: [&str; 3] = ["read", "connect", "whole"];
/// Times before this one are no times of samples: the file does not say when it began, in milliseconds.
const EPOCHS_END_MS: i64 = 31 * 86_400_000;

/// Samples that are not written yet.
#[derive(Clone, Debug, Default)]
pub struct Slice {
    samples: Vec<(Timestamp, Taken)>,
    missed: u64,
}

impl Slice {
    /// Adds what a request says that began at `at`.
    pub fn add(&mut self, taken: &Taken, at: Timestamp) {
        self.samples.push((at, *taken));
    }

    /// Adds requests that were due and not sent.
    pub fn miss(&mut self, requests: u64) {
        self.missed += requests;
    }

    /// Returns how many samples there are.
    pub fn len(&self) -> usize {
        self.samples.len()
    }

    /// Returns whether there is nothing to write.
    pub fn is_empty(&self) -> bool {
        self.samples.is_empty() && self.missed == 0
    }

    /// Writes the lines of all samples, in order of their minutes, and forgets them.
    ///
    /// # Errors
    /// What `out` fails with.
    pub fn write(&mut self, out: &mut impl Write) -> io::Result<()> {
        self.samples.sort_by_key(|(at, _)| *at);
        let same = |one: &(Timestamp, Taken), next: &(Timestamp, Taken)| minute(one.0) == minute(next.0);
        let mut missed = std::mem::take(&mut self.missed);
        for samples in self.samples.chunk_by(same) {
            let mut tally = Tally { missed: std::mem::take(&mut missed), ..Tally::default() };
            samples.iter().for_each(|(at, taken)| tally.add(taken, *at));
            write_minute(out, &tally)?;
        }
        if missed > 0 {
            write_minute(out, &Tally { missed, ..Tally::default() })?;
        }
        self.samples.clear();
        Ok(())
    }
}

fn minute(at: Timestamp) -> i64 {
    at.unix_ms().div_euclid(60_000)
}

fn write_minute(out: &mut impl Write, tally: &Tally) -> io::Result<()> {
    hlog::write_note(out, &note(tally))?;
    let Some((first, last)) = tally.first.zip(tally.last) else { return Ok(()) };
    let length = last.since(first);
    for (stage, tags) in stages(tally).into_iter().zip(TAGS) {
        for (counted, tag) in [stage.events(), stage.censored()].into_iter().zip(tags) {
            if counted.samples() > 0 {
                hlog::write_line(out, tag, first, length, counted)?;
            }
        }
    }
    Ok(())
}

fn stages(tally: &Tally) -> [&StageCounts; 3] {
    [&tally.read, &tally.connect, &tally.whole]
}

/// Returns what failed, was missed or called off, and the exact extremes, as words: `missed=1 refused=2 read=1000..2000`.
fn note(tally: &Tally) -> String {
    let (mut failures, mut words) = (tally.failures, String::new());
    let unfinished = [("missed", tally.missed), ("called_off", tally.called_off)].into_iter();
    let failed = kinds(&mut failures).into_iter().map(|(name, count)| (name, *count));
    for (name, count) in unfinished.chain(failed).filter(|(_, count)| *count > 0) {
        write!(words, "{name}={count} ").expect("memory takes it");
    }
    for (name, stage) in STAGES.into_iter().zip(stages(tally)) {
        if let Some((least, most)) = stage.extremes() {
            write!(words, "{name}={}..{} ", least.as_nanos(), most.as_nanos()).expect("memory takes it");
        }
    }
    words.trim_end().to_owned()
}

fn kinds(failures: &mut Failures) -> [(&'static str, &mut u64); 8] {
    let Failures { refused, name, tls, reset, limited, client_error, server_error, unexpected } = failures;
    [
        ("refused", refused),
        ("name", name),
        ("tls", tls),
        ("reset", reset),
        ("limited", limited),
        ("client_error", client_error),
        ("server_error", server_error),
        ("unexpected", unexpected),
    ]
}

/// What an interval log holds.
#[derive(Clone, Debug)]
pub struct Recording {
    /// What suggestions are made from.
    pub seen: Seen,
    /// The first and the last sample, where the file says when they were taken.
    pub when: Option<(Timestamp, Timestamp)>,
    /// How many lines could not be read, and the first of them.
    pub bad: Option<(usize, (usize, hlog::BadLine))>,
}

/// Returns what an interval log holds, of abide or of another tool.
///
/// `unit` is that of its values; a file of abide says it itself. Lines without a tag are taken for reading. A line of
/// another tool counts as one minute: when within it its samples fell is not known.
///
/// # Errors
/// [`BadSamples`]: it does not say its unit, no line can be read, all are tagged, or they are of different kinds.
///
/// Source: latency.md 3.3 and 3.12; decisions 31.
pub fn read(text: &[u8], unit: Option<Unit>) -> Result<Recording, BadSamples> {
    let is_own = hlog::is_own(text);
    let unit = match (is_own, unit) {
        (true, None | Some(Unit::Nanoseconds)) => Unit::Nanoseconds,
        (true, Some(_)) => return Err(BadSamples::OtherUnit),
        (false, Some(unit)) => unit,
        (false, None) => return Err(unread(&hlog::read(text, Unit::Nanoseconds)).unwrap_or(BadSamples::NoUnit)),
    };
    let log = hlog::read(text, unit);
    if let Some(why) = unread(&log) {
        return Err(why);
    }
    let (seen, when) = if is_own {
        let tally = Tally::restored(&log).map_err(BadSamples::Uncounted)?;
        let seen = tally.seen(Pacing::Open).map_err(BadSamples::Uncounted)?;
        (Seen { lag: None, ..seen }, tally.first.zip(tally.last))
    } else {
        (foreign(&log)?, times(&log))
    };
    let bad = log.bad.first().map(|first| (log.bad.len(), *first));
    Ok(Recording { seen, when, bad })
}

/// Returns why nothing of a log is read; `None` where something is.
fn unread(log: &Log) -> Option<BadSamples> {
    match (log.intervals.is_empty() && log.notes.is_empty(), log.bad.first()) {
        (true, Some((line, why))) => Some(BadSamples::NoLog { line: *line, why: *why }),
        (true, None) => Some(BadSamples::None),
        (false, _) => None,
    }
}

fn times(log: &Log) -> Option<(Timestamp, Timestamp)> {
    let first = log.intervals.iter().map(|interval| interval.start).min()?;
    let last = log.intervals.iter().map(|interval| interval.start.after(interval.length)).max()?;
    (first.unix_ms() > EPOCHS_END_MS).then_some((first, last))
}

fn foreign(log: &Log) -> Result<Seen, BadSamples> {
    let [events, censored] = TAGS[0].map(|tag| tagged(log, tag));
    if events.is_empty() && censored.is_empty() {
        let mut tags: Vec<Box<str>> = log.intervals.iter().filter_map(|interval| interval.tag.clone()).collect();
        tags.sort();
        tags.dedup();
        return Err(BadSamples::OnlyTagged(tags));
    }
    let mut minutes = Minutes::default();
    events.iter().chain(&censored).for_each(|interval| minutes.add(interval.start));
    let read = latencies(bins(&events), bins(&censored), None).map_err(BadSamples::Uncounted)?;
    if read.samples() == 0 {
        return Err(BadSamples::None);
    }
    Ok(Seen { minutes, ..Seen::of_reading(read) })
}

fn tagged<'a>(log: &'a Log, tag: Option<&str>) -> Vec<&'a Interval> {
    log.intervals.iter().filter(|interval| interval.tag.as_deref() == tag).collect()
}

fn bins<'a>(intervals: &'a [&Interval]) -> impl Iterator<Item = Bin> + 'a {
    intervals.iter().flat_map(|interval| interval.bins.iter().copied())
}

impl Tally {
    /// Adds what was measured before, but for how late its requests left.
    pub fn join(&mut self, before: &Tally) {
        self.read.add(&before.read);
        self.connect.add(&before.connect);
        self.whole.add(&before.whole);
        let mut old = before.failures;
        for ((_, count), (_, more)) in kinds(&mut self.failures).into_iter().zip(kinds(&mut old)) {
            *count = count.saturating_add(*more);
        }
        for (hour, counts) in &before.hours {
            self.hours.entry(*hour).or_default().add(counts);
        }
        self.missed = self.missed.saturating_add(before.missed);
        self.called_off = self.called_off.saturating_add(before.called_off);
        self.minutes = self.minutes.merged(&before.minutes);
        self.first = [self.first, before.first].into_iter().flatten().min();
        self.last = [self.last, before.last].into_iter().flatten().max();
    }

    /// Returns what a log of abide says that was measured.
    ///
    /// # Errors
    /// [`NotLatencies::Disorder`] where a line was counted in another way.
    pub fn restored(log: &Log) -> Result<Tally, NotLatencies> {
        let mut tally = Tally::default();
        let mut stages = [StageCounts::default(), StageCounts::default(), StageCounts::default()];
        for interval in &log.intervals {
            let tag = interval.tag.as_deref();
            let Some(at) = TAGS.iter().position(|tags| tags.contains(&tag)) else { continue };
            let is_censored = tag == TAGS[at][1];
            stages[at].restore(&interval.bins, is_censored)?;
            if STAGES[at] == "read" {
                tally.hours.entry(hour(interval.start)).or_default().restore(&interval.bins, is_censored)?;
            }
            if STAGES[at] != "connect" {
                tally.minutes.add(interval.start);
            }
            let (start, end) = (interval.start, interval.start.after(interval.length));
            tally.first = Some(tally.first.map_or(start, |first| first.min(start)));
            tally.last = Some(tally.last.map_or(end, |last| last.max(end)));
        }
        for (name, value) in log.notes.iter().flat_map(|note| note.split(' ')).filter_map(|word| word.split_once('=')) {
            let count = || value.parse::<u64>().unwrap_or(0);
            if name == "missed" {
                tally.missed = tally.missed.saturating_add(count());
            } else if name == "called_off" {
                tally.called_off = tally.called_off.saturating_add(count());
            } else if let Some(at) = STAGES.iter().position(|stage| *stage == name) {
                extremes(value).into_iter().for_each(|extremes| stages[at].widen(extremes));
            } else if let Some((_, kind)) = kinds(&mut tally.failures).into_iter().find(|(kind, _)| *kind == name) {
                *kind = kind.saturating_add(count());
            }
        }
        [tally.read, tally.connect, tally.whole] = stages;
        Ok(tally)
    }
}

/// Reads `1000..2000`, nanoseconds.
fn extremes(text: &str) -> Option<(Duration, Duration)> {
    let nanos = |text: &str| text.parse().ok().map(Duration::from_nanos);
    let (least, most) = text.split_once("..")?;
    Some((nanos(least)?, nanos(most)?))
}

#[cfg(test)]
mod tests;
