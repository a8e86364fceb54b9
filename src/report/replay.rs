//! What came of a batch: lines, tables, and the document `abide.replay/1`.

use super::advice::Advice;
use super::human::happened;
use super::json::Standing;
use super::known::{Known, State};
use super::paint::Paint;
use super::table::table;
use abide::engine::facts::Fact;
use abide::engine::verdict::Verdict;
use serde::Serialize;
use std::collections::HashMap;
use std::time::Duration;

/// What became of one operation.
#[derive(Debug)]
pub struct Member<'a> {
    /// What is known of it now.
    pub known: Known<'a>,
    /// What to do next.
    pub advice: Advice,
    /// Why nothing was sent; `None` where it was run here.
    pub left: Option<&'a str>,
    /// How long its run took; `None` where there was none.
    pub took: Option<Duration>,
}

impl Member<'_> {
    /// Returns why it stands where it does, in a few words.
    pub fn why(&self) -> String {
        let last = || self.known.last().map(happened);
        let newest = self.known.history.facts.iter().rev().find_map(|recorded| match &recorded.fact {
            Fact::Asked(_) => Some("the partner was asked".to_owned()),
            Fact::Resolved(resolved) => Some(format!("{} said so", resolved.by)),
            Fact::Finished(_) => last(),
            Fact::Settled(settled) if settled.last.is_some() => last(),
            _ => None,
        });
        newest.unwrap_or_else(|| "nothing was started".into())
    }

    /// Returns the line about it.
    pub fn line(&self, paint: Paint) -> String {
        let state = coloured(&self.known.state, paint);
        let key = self.known.key;
        match self.left {
            None => format!("{key}: {state}, {}", self.why()),
            Some(left) => format!("{key}: {state}; not sent: {left}"),
        }
    }

    /// Returns where it stands, why, and what to do next, for a table.
    fn cells(&self) -> [String; 3] {
        let why = self.left.map_or_else(|| self.why(), str::to_owned);
        [self.known.state.words(), why, self.advice.brief.clone()]
    }

    /// Returns whether nothing that runs by itself will settle it.
    fn needs_a_person(&self) -> bool {
        self.known.state.verdict() != Some(Verdict::Confirmed)
    }
}

fn coloured(state: &State, paint: Paint) -> String {
    let words = state.words();
    match state.verdict() {
        Some(Verdict::Confirmed) => paint.green(&words),
        Some(Verdict::Rejected | Verdict::InDoubt) => paint.red(&words),
        Some(Verdict::NotDone | Verdict::Accepted) | None => paint.yellow(&words),
    }
}

/// The order in which states are told: what needs a person last.
const STATES: [&str; 7] = ["confirmed", "accepted", "running", "pending", "not_done", "rejected", "in_doubt"];

/// How many operations stand where.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally([usize; STATES.len()]);

impl Tally {
    /// Counts some at once.
    pub fn of<'a>(states: impl Iterator<Item = &'a State>) -> Tally {
        let mut tally = Tally::default();
        states.for_each(|state| tally.add(state));
        tally
    }

    /// Counts one more.
    pub fn add(&mut self, state: &State) {
        let at = STATES.iter().position(|name| *name == state.name());
        self.0[at.expect("the list has every state")] += 1;
    }

    /// Returns the counts in the order of [`STATES`]; none with 0.
    pub fn counts(&self) -> impl Iterator<Item = (&'static str, usize)> {
        STATES.into_iter().zip(self.0).filter(|(_, count)| *count > 0)
    }

    /// Returns the counts as words: `3 confirmed, 1 in doubt`.
    pub fn words(&self) -> String {
        self.counts().map(|(name, count)| format!("{count} {}", name.replace('_', " "))).collect::<Vec<_>>().join(", ")
    }
}

/// Returns `1 operation`, `2 operations`.
pub fn operations(count: usize) -> String {
    match count {
        1 => "1 operation".into(),
        count => format!("{count} operations"),
    }
}

/// Returns the tables at the end: how many stand where, then what is not done, with the next step.
pub fn summary(members: &[Member<'_>]) -> String {
    let not_sent = |name: &str| {
        let left = members.iter().filter(|member| member.left.is_some() && member.known.state.name() == name).count();
        if left == 0 { String::new() } else { left.to_string() }
    };
    let tally = Tally::of(members.iter().map(|member| &member.known.state));
    let rows = tally.counts().map(|(name, count)| vec![name.replace('_', " "), count.to_string(), not_sent(name)]);
    let mut text = table(&["verdict", "operations", "not sent"], rows.collect());
    let open = open_rows(members);
    if !open.is_empty() {
        text += "\n\n";
        text += &table(&["key", "verdict", "why", "next"], open);
    }
    text
}

/// More operations that were left for the same reason, and that another replay takes up, share a row.
const ALIKE: usize = 3;

/// Returns a row for every operation that is not done, in order.
fn open_rows(members: &[Member<'_>]) -> Vec<Vec<String>> {
    let mut alike: HashMap<[String; 3], usize> = HashMap::new();
    let open: Vec<_> = members.iter().filter(|member| member.needs_a_person()).map(|m| (m, m.cells())).collect();
    let is_alike = |member: &Member<'_>| member.left.is_some() && member.advice.command.is_some();
    for (_, cells) in open.iter().filter(|(member, _)| is_alike(member)) {
        *alike.entry(cells.clone()).or_default() += 1;
    }
    let mut rows = Vec::new();
    for (member, cells) in open {
        let key = match alike.get(&cells).filter(|_| is_alike(member)) {
            // Told already.
            Some(0) => continue,
            Some(&count) if count > ALIKE => {
                alike.insert(cells.clone(), 0);
                operations(count)
            }
            _ => member.known.key.to_string(),
        };
        rows.push(std::iter::once(key).chain(cells).collect());
    }
    rows
}

/// `abide.replay/1`.
#[derive(Debug, Serialize)]
pub struct Replayed<'a> {
    /// The schema.
    pub schema: &'static str,
    /// The exit status.
    pub exit: i32,
    /// The ledger.
    pub ledger: String,
    /// Nothing was sent: it was only shown.
    pub dry_run: bool,
    /// The signal that ended it.
    pub signal: Option<&'static str>,
    /// How many operations were selected.
    pub selected: usize,
    /// How many of them were run here.
    pub run: usize,
    /// How many stand where now.
    pub counts: Counts,
    /// How long it took, in milliseconds; null for a dry run.
    pub took_ms: Option<u64>,
    /// The operations, in the order in which they were sent first.
    pub operations: Vec<ReplayedOne<'a>>,
}

/// How many operations stand where.
#[derive(Debug, Default, Serialize)]
pub struct Counts {
    confirmed: usize,
    rejected: usize,
    not_done: usize,
    in_doubt: usize,
    accepted: usize,
    running: usize,
    pending: usize,
}

impl Counts {
    /// Counts.
    pub fn of<'a>(states: impl Iterator<Item = &'a State>) -> Counts {
        let mut counts = Counts::default();
        for state in states {
            let count = match (state, state.verdict()) {
                (State::Running(_), _) => &mut counts.running,
                (_, None) => &mut counts.pending,
                (_, Some(Verdict::Confirmed)) => &mut counts.confirmed,
                (_, Some(Verdict::Rejected)) => &mut counts.rejected,
                (_, Some(Verdict::NotDone)) => &mut counts.not_done,
                (_, Some(Verdict::InDoubt)) => &mut counts.in_doubt,
                (_, Some(Verdict::Accepted)) => &mut counts.accepted,
            };
            *count += 1;
        }
        counts
    }
}

/// One operation of `abide.replay/1`.
#[derive(Debug, Serialize)]
pub struct ReplayedOne<'a> {
    /// What is known.
    #[serde(flatten)]
    pub standing: Standing<'a>,
    /// It was run here.
    pub run: bool,
    /// Why nothing was sent; for a dry run also what would be done.
    pub why: Option<&'a str>,
    /// How long its run took, in milliseconds; null where there was none.
    pub took_ms: Option<u64>,
}

impl<'a> ReplayedOne<'a> {
    /// Returns the document of one operation.
    pub fn of(member: &'a Member<'a>) -> ReplayedOne<'a> {
        ReplayedOne {
            standing: Standing::of(&member.known, member.advice.clone()),
            run: member.left.is_none(),
            why: member.left,
            took_ms: member.took.map(|took| u64::try_from(took.as_millis()).unwrap_or(u64::MAX)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use abide::engine::facts::Owner;

    #[test]
    fn states_are_counted_in_a_fixed_order_and_zeros_are_left_out() {
        let states = [
            State::Settled(Verdict::InDoubt),
            State::Settled(Verdict::Confirmed),
            State::Abandoned(Verdict::InDoubt),
            State::Running(Owner::default()),
        ];
        assert_eq!(Tally::of(states.iter()).words(), "1 confirmed, 1 running, 2 in doubt");
        assert_eq!(operations(1), "1 operation");
    }
}
