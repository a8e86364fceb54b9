//! Probes one after the other: a line for each, and what they come to.

use abide::engine::diagnose::judgement::Standing;
use abide::engine::diagnose::{Diagnosis, observations::Observations};
use abide::engine::moment::Timestamp;
use abide::engine::units::show_rounded;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// Times are kept of so many rounds, the newest: a watch has no end.
const KEPT: usize = 1024;

/// The status that counts is the worst of so many last rounds.
///
/// Source: latency.md 6.6.
const COUNTED: usize = 3;

/// The rounds so far.
#[derive(Debug, Default)]
pub struct Rounds {
    count: u64,
    verdicts: BTreeMap<String, u64>,
    last: Option<String>,
    standings: VecDeque<Standing>,
    first_bytes: VecDeque<Duration>,
}

impl Rounds {
    /// Adds a round that began at `started`, and returns its line. Where the verdict is another than before, a second
    /// line says what it rests on.
    pub fn add(&mut self, started: Timestamp, seen: &Observations, found: &Diagnosis) -> String {
        self.count += 1;
        let verdict = format!("{} {}", found.side_name(), found.code);
        *self.verdicts.entry(verdict.clone()).or_default() += 1;
        keep(&mut self.standings, found.standing, COUNTED);
        let first_byte = seen.answer().and(first_byte(seen));
        first_byte.into_iter().for_each(|took| keep(&mut self.first_bytes, took, KEPT));
        let line = format!("{started}  {:9} {:34} {}", found.standing.name(), verdict, times(seen));
        let line = line.trim_end().to_owned();
        let is_news = self.last.as_ref() != Some(&verdict) && found.standing != Standing::Usable;
        self.last = Some(verdict);
        if is_news { format!("{line}\n  because {}", found.because.join("; ")) } else { line }
    }

    /// Returns the worst standing of the last three rounds; `None` before the first.
    pub fn worst(&self) -> Option<Standing> {
        let badness = |standing: &Standing| match standing {
            Standing::Usable => 0,
            Standing::Degraded => 1,
            Standing::Unknown => 2,
            Standing::Unusable => 3,
        };
        self.standings.iter().copied().max_by_key(badness)
    }

    /// Returns what all rounds come to: `3 rounds: ok ok 2, theirs app.silent 1; first byte p50 0.2s, p90 …`.
    pub fn summary(&self) -> String {
        let verdicts = self.verdicts.iter().map(|(verdict, count)| format!("{verdict} {count}")).collect::<Vec<_>>();
        let rounds = if self.count == 1 { "round" } else { "rounds" };
        let head = format!("{} {rounds}: {}", self.count, verdicts.join(", "));
        let mut sorted: Vec<Duration> = self.first_bytes.iter().copied().collect();
        sorted.sort_unstable();
        let Some(longest) = sorted.last() else { return head };
        let (p50, p90) = (show_rounded(ranked(&sorted, 50)), show_rounded(ranked(&sorted, 90)));
        format!("{head}; first byte p50 {p50}, p90 {p90}, longest {}", show_rounded(*longest))
    }
}

fn keep<T>(kept: &mut VecDeque<T>, newest: T, most: usize) {
    if kept.len() == most {
        kept.pop_front();
    }
    kept.push_back(newest);
}

/// Returns the time below or at which so many of 100 lie; `sorted` is not empty.
fn ranked(sorted: &[Duration], percent: usize) -> Duration {
    sorted[(sorted.len() * percent).div_ceil(100).max(1) - 1]
}

fn first_byte(seen: &Observations) -> Option<Duration> {
    seen.exchange.as_ref()?.stages.first_byte_us.map(Duration::from_micros)
}

/// Returns the stages that were measured.
fn times(seen: &Observations) -> String {
    let lookup = seen.names.lookup.and_then(|lookup| lookup.took);
    let asked = seen.asked_address().or(seen.addresses.first());
    let connect = asked.and_then(|address| address.connect).filter(|connect| connect.outcome.is_ok());
    let tls = asked.and_then(|address| address.tls.as_ref()).filter(|tls| tls.outcome.is_ok());
    let all = [
        ("resolve", lookup.filter(|_| !seen.addresses.is_empty())),
        ("connect", connect.and_then(|connect| connect.took)),
        ("tls", tls.and_then(|tls| tls.took)),
        ("first byte", first_byte(seen)),
    ];
    let all = all.into_iter().filter_map(|(name, took)| Some(format!("{name} {}", show_rounded(took?))));
    all.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use abide::engine::diagnose::diagnose;
    use abide::engine::exchange::{Answer, Ending, Exchange, Fault, Headers, Outcome, Sent, Stage, Stages, Via};

    fn at() -> Timestamp {
        "2026-11-30T10:00:00Z".parse().expect("a time")
    }

    fn seen(outcome: Outcome, first_byte_us: Option<u64>) -> Observations {
        let stages = Stages { first_byte_us, ..Stages::default() };
        let took = Duration::from_millis(9);
        let exchange = Exchange { outcome, stages, took, addr: None, via: Via::Direct, error: None, at: at() };
        Observations { exchange: Some(exchange), at: Some(at()), ..Observations::default() }
    }

    fn add(rounds: &mut Rounds, first_byte_us: Option<u64>) -> String {
        let answer = Answer { status: 200, headers: Headers::default(), body: vec![], ending: Ending::Complete };
        let reset = Outcome::Unanswered { sent: Sent::Whole, stage: Stage::FirstByte, fault: Fault::Reset };
        let seen = seen(first_byte_us.map_or(reset, |_| Outcome::Answered(answer)), first_byte_us);
        rounds.add(at(), &seen, &diagnose(&seen))
    }

    #[test]
    fn what_is_new_is_explained_once_and_the_summary_counts() {
        let mut rounds = Rounds::default();
        assert_eq!(rounds.worst(), None);
        let lines = [Some(200_000), None, None, Some(100_000)].map(|first_byte_us| add(&mut rounds, first_byte_us));
        let because: Vec<bool> = lines.iter().map(|line| line.contains("\n  because ")).collect();
        assert_eq!(because, [false, true, false, false]);
        assert_eq!(lines[0], "2026-11-30T10:00:00.000Z  usable    ok ok                              first byte 200ms");
        let summary = "4 rounds: ok ok 2, theirs app.reset 2; first byte p50 100ms, p90 200ms, longest 200ms";
        assert_eq!(rounds.summary(), summary);
        assert_eq!(rounds.worst(), Some(Standing::Unusable));
    }

    #[test]
    fn only_the_last_three_rounds_count() {
        let mut rounds = Rounds::default();
        add(&mut rounds, None);
        for expected in [Standing::Unusable, Standing::Unusable, Standing::Usable] {
            add(&mut rounds, Some(1));
            assert_eq!(rounds.worst(), Some(expected));
        }
    }
}
