//! Probes one after the other: a line for each, and what they come to.

use super::probe::live::Spread;
use abide::engine::diagnose::judgement::Standing;
use abide::engine::diagnose::{Diagnosis, observations::Observations};
use abide::engine::moment::Timestamp;
use abide::engine::units::{counted, show_rounded};
use abide::engine::verdict::Side;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// So many of the newest rounds have a sign in the row.
///
/// Source: latency.md 6.6.
const SIGNS: usize = 60;

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
    signs: VecDeque<char>,
}

/// What there is to say of a round.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    /// Its line; where the verdict is another than before, and not a good one, with a second that says why.
    pub text: String,
    /// The verdict is another than in the round before.
    pub is_change: bool,
}

impl Rounds {
    /// Adds a round that began at `started`.
    pub fn add(&mut self, started: Timestamp, seen: &Observations, found: &Diagnosis) -> Told {
        self.count += 1;
        let verdict = format!("{} {}", found.side_name(), found.code);
        *self.verdicts.entry(verdict.clone()).or_default() += 1;
        keep(&mut self.standings, found.standing, COUNTED);
        keep(&mut self.signs, sign(found), SIGNS);
        let line = format!("{started}  {:9} {:34} {}", found.standing.name(), verdict, times(seen));
        let line = line.trim_end().to_owned();
        let is_new = self.last.as_ref() != Some(&verdict);
        let is_change = self.last.is_some() && is_new;
        self.last = Some(verdict);
        let is_news = is_new && found.standing != Standing::Usable;
        let text = if is_news { format!("{line}\n  because {}", found.because.join("; ")) } else { line };
        Told { text, is_change }
    }

    /// Returns a sign for each of the newest rounds, the newest last: `.` well, `d` degraded, `?` not to be told, and
    /// the first letter of the side whose fault it is.
    pub fn signs(&self) -> String {
        self.signs.iter().collect()
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
    pub fn summary(&self, first_byte: Spread) -> String {
        let verdicts = self.verdicts.iter().map(|(verdict, count)| format!("{verdict} {count}")).collect::<Vec<_>>();
        let head = format!("{}: {}", counted(self.count, "round"), verdicts.join(", "));
        let (Some(p50), Some(p90), Some(max)) = (first_byte.p50, first_byte.p90, first_byte.max) else { return head };
        let (p50, p90, max) = (show_rounded(p50), show_rounded(p90), show_rounded(max));
        format!("{head}; first byte p50 {p50}, p90 {p90}, longest {max}")
    }
}

/// Source: latency.md 6.6.
fn sign(found: &Diagnosis) -> char {
    match (found.standing, found.side) {
        (Standing::Usable, _) => '.',
        (Standing::Degraded, _) => 'd',
        (_, Some(Side::Theirs)) => 'T',
        (_, Some(Side::Network)) => 'N',
        (_, Some(Side::Ours)) => 'O',
        (_, Some(Side::Configuration)) => 'C',
        (_, Some(Side::Unclear) | None) => '?',
    }
}

fn keep<T>(kept: &mut VecDeque<T>, newest: T, most: usize) {
    if kept.len() == most {
        kept.pop_front();
    }
    kept.push_back(newest);
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

    fn add(rounds: &mut Rounds, first_byte_us: Option<u64>) -> Told {
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
        let because = lines.each_ref().map(|told| told.text.contains("\n  because "));
        assert_eq!(because, [false, true, false, false]);
        assert_eq!(lines.each_ref().map(|told| told.is_change), [false, true, false, true]);
        assert_eq!(rounds.signs(), ".TT.");
        assert_eq!(
            lines[0].text,
            "2026-11-30T10:00:00.000Z  usable    ok ok                              first byte 200ms"
        );
        let ms = |ms| Some(Duration::from_millis(ms));
        let spread = Spread { last: None, p50: ms(100), p90: ms(200), max: ms(200) };
        let summary = "4 rounds: ok ok 2, theirs app.reset 2; first byte p50 100ms, p90 200ms, longest 200ms";
        assert_eq!(rounds.summary(spread), summary);
        assert_eq!(rounds.summary(Spread::default()), "4 rounds: ok ok 2, theirs app.reset 2");
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
