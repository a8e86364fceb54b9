//! A light ledger: facts in memory, with what a kill and a power cut leave of them.

use abide::engine::facts::{Fact, History, Recorded, Waiting};
use abide::engine::operation::IdempotencyKey;

/// The facts of one key.
#[derive(Debug)]
pub struct Entry {
    /// The key.
    pub key: IdempotencyKey,
    /// What is written, without steady times: they mean nothing to other processes.
    pub history: History,
    /// The line of each fact, counted over the whole book from 0.
    lines: Vec<u64>,
    /// The process that works on it.
    pub owner: Option<u32>,
    /// How often the machine had booted when the newest claim was written.
    pub boot: u32,
    /// The owner of the newest claim was on another machine: which of its lines are here, nobody knows.
    pub is_elsewhere: bool,
}

/// The ledger's file.
#[derive(Debug, Default)]
pub struct Book {
    entries: Vec<Entry>,
    lines: u64,
    synced: u64,
    /// How often the machine booted.
    pub boots: u32,
}

impl Book {
    /// Returns how many lines survive everything.
    pub fn synced(&self) -> u64 {
        self.synced
    }

    /// Returns how many lines there are.
    pub fn end(&self) -> u64 {
        self.lines
    }

    /// Makes everything durable.
    pub fn sync(&mut self) {
        self.synced = self.lines;
    }

    /// Returns the place of a key, made where there is none.
    pub fn place(&mut self, key: &IdempotencyKey) -> usize {
        if let Some(place) = self.entries.iter().position(|entry| entry.key == *key) {
            return place;
        }
        let history = History { facts: Vec::with_capacity(16) };
        let lines = Vec::with_capacity(16);
        self.entries.push(Entry {
            key: key.clone(),
            history,
            lines,
            owner: None,
            boot: self.boots,
            is_elsewhere: false,
        });
        self.entries.len() - 1
    }

    /// Returns the entries that have facts.
    pub fn entries(&self) -> impl Iterator<Item = (usize, &Entry)> {
        self.entries.iter().enumerate().filter(|(_, entry)| !entry.history.facts.is_empty())
    }

    /// Returns the entry at a place.
    pub fn entry(&self, place: usize) -> &Entry {
        &self.entries[place]
    }

    /// Returns the entry at a place.
    pub fn entry_mut(&mut self, place: usize) -> &mut Entry {
        &mut self.entries[place]
    }

    /// Returns the number that the next claim takes.
    pub fn next_claim(&self) -> u64 {
        self.entries.iter().map(|entry| entry.history.newest_claim()).max().unwrap_or(0) + 1
    }

    /// Writes a line; it is not durable yet. Returns its number.
    pub fn write(&mut self, place: usize, recorded: Recorded) -> u64 {
        let boots = self.boots;
        let entry = &mut self.entries[place];
        if recorded.fact.is_claim() {
            entry.boot = boots;
        }
        let fact = match recorded.fact {
            Fact::Waiting(waiting) => Fact::Waiting(Waiting { until_steady: None, ..waiting }),
            fact => fact,
        };
        entry.history.facts.push(Recorded { steady: None, fact, ..recorded });
        entry.lines.push(self.lines);
        self.lines += 1;
        self.lines - 1
    }

    /// Returns whether the line of a fact is durable.
    pub fn is_durable(&self, place: usize, fact: usize) -> bool {
        self.entries[place].lines[fact] < self.synced
    }

    /// Boots after a power cut that left only the first `keeps` lines.
    pub fn cut(&mut self, keeps: u64) {
        for entry in &mut self.entries {
            let left = entry.lines.partition_point(|line| *line < keeps);
            entry.lines.truncate(left);
            entry.history.facts.truncate(left);
            entry.owner = None;
        }
        (self.lines, self.synced) = (keeps, keeps);
        self.boots += 1;
    }

    /// Takes the liveness of a claim away; its owner may go on.
    pub fn orphan(&mut self, owner: u32, claim: u64, is_elsewhere: bool) {
        for entry in self.entries.iter_mut().filter(|entry| entry.owner == Some(owner)) {
            assert_eq!(entry.history.newest_claim(), claim, "it owns the newest claim");
            (entry.owner, entry.is_elsewhere) = (None, is_elsewhere);
        }
    }

    /// Returns the place in an entry of the first fact that `is`.
    pub fn find(&self, place: usize, is: impl Fn(&Recorded) -> bool) -> Option<usize> {
        self.entries[place].history.facts.iter().position(is)
    }

    /// Returns whether an attempt was started and is not accounted for.
    pub fn has_open_attempts(&self) -> bool {
        self.entries.iter().any(|entry| has_open_attempt(&entry.history.facts))
    }
}

fn has_open_attempt(facts: &[Recorded]) -> bool {
    let ended = |a: u32| {
        facts.iter().any(|recorded| match &recorded.fact {
            Fact::Finished(finished) => finished.a == a,
            Fact::Settled(settled) => settled.last.as_ref().is_some_and(|last| last.a == a),
            _ => false,
        })
    };
    // What a person has ended is not open any more.
    let decided = facts.iter().rposition(|recorded| matches!(recorded.fact, Fact::Resolved(_))).unwrap_or(0);
    let is_open = |recorded: &Recorded| matches!(&recorded.fact, Fact::Started(started) if !ended(started.a));
    facts[decided..].iter().any(is_open)
}

#[cfg(test)]
mod tests {
    use super::*;
    use abide::engine::facts::Started;
    use abide::engine::moment::{Moment, Timestamp};

    fn started(a: u32) -> Recorded {
        let fact = Fact::Started(Started { a, addr: None, proxy: None });
        Recorded { n: 1, at: Timestamp::default(), steady: Some(Moment::START), fact }
    }

    #[test]
    fn a_power_cut_keeps_what_was_synced_and_a_beginning_of_the_rest() {
        let mut book = Book::default();
        let key = |text| IdempotencyKey::new(text, 255).expect("a key");
        let (one, two) = (book.place(&key("one")), book.place(&key("two")));
        book.write(one, started(1));
        book.sync();
        book.write(two, started(1));
        book.write(one, started(2));
        assert!(book.is_durable(one, 0));
        assert!(!book.is_durable(two, 0));
        book.cut(2);
        let left = [one, two].map(|place| book.entry(place).history.facts.len());
        assert_eq!((left, book.end(), book.boots), ([1, 1], 2, 1));
        assert_eq!(book.entry(one).history.facts[0].steady, None);
    }
}
