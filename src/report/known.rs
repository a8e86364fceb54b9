//! What is known about one operation: a fold over its facts, for every surface the same.

use abide::engine::exchange::Headers;
use abide::engine::facts::{Fact, Finished, History, Opened, Owner, Recorded, Settled, Started};
use abide::engine::gateway;
use abide::engine::location;
use abide::engine::moment::Timestamp;
use abide::engine::operation::{IdempotencyKey, PartnerName};
use abide::engine::verdict::Verdict;

/// Where an operation stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// Claimed, and certainly nothing was started.
    Pending,
    /// A live process is working on it.
    Running(Owner),
    /// Its owner is gone without a last word; what the facts prove.
    Abandoned(Verdict),
    /// Its newest run ended.
    Settled(Verdict),
}

impl State {
    /// Returns the name used in JSON and in tables.
    pub fn name(&self) -> &'static str {
        match self {
            State::Pending => "pending",
            State::Running(_) => "running",
            State::Abandoned(verdict) | State::Settled(verdict) => verdict.name(),
        }
    }

    /// Returns the name with blanks, for sentences.
    pub fn words(&self) -> String {
        self.name().replace('_', " ")
    }

    /// Returns the verdict that holds now; none for what runs or never started.
    pub fn verdict(&self) -> Option<Verdict> {
        match self {
            State::Pending | State::Running(_) => None,
            State::Abandoned(verdict) | State::Settled(verdict) => Some(*verdict),
        }
    }

    /// Returns whether somebody or some later run still has to settle it.
    pub fn is_unsettled(&self) -> bool {
        !self.verdict().is_some_and(Verdict::is_final)
    }
}

/// One operation as the ledger tells it.
#[derive(Clone, Debug)]
pub struct Known<'a> {
    /// Whose API.
    pub partner: &'a PartnerName,
    /// Its key.
    pub key: &'a IdempotencyKey,
    /// Its facts.
    pub history: &'a History,
    /// Where it stands.
    pub state: State,
}

impl Known<'_> {
    /// Returns what was claimed first.
    pub fn opened(&self) -> &Opened {
        self.history.opened()
    }

    /// Returns when it was claimed first.
    pub fn opened_at(&self) -> Option<Timestamp> {
        self.history.facts.first().map(|recorded| recorded.at)
    }

    /// Returns when the newest fact was written.
    pub fn updated_at(&self) -> Option<Timestamp> {
        self.history.facts.last().map(|recorded| recorded.at)
    }

    /// Returns how many attempts were counted, over all runs.
    pub fn attempts(&self) -> u32 {
        self.history.last_attempt()
    }

    /// Returns how the newest run ended, if it did.
    pub fn settled(&self) -> Option<&Settled> {
        self.history.settled()
    }

    /// Returns the attempts that ended, oldest first.
    ///
    /// The one that ended a run stands in its `settled` line, in the story of the run itself in a line of its own, too.
    pub fn finished(&self) -> impl DoubleEndedIterator<Item = &Finished> {
        let facts = &self.history.facts;
        let is_told = |at: usize| {
            let of = |at: usize| facts.get(at).map(|recorded| &recorded.fact);
            let Some(Fact::Settled(settled)) = of(at) else { return false };
            let Some(Fact::Finished(before)) = at.checked_sub(1).and_then(of) else { return false };
            settled.last.as_ref().is_some_and(|last| last.a == before.a)
        };
        facts.iter().enumerate().filter(move |(at, _)| !is_told(*at)).filter_map(|(_, recorded)| finished(recorded))
    }

    /// Returns the attempt that ended last.
    pub fn last(&self) -> Option<&Finished> {
        self.finished().next_back()
    }

    /// Returns the newest attempt that may have been executed without an answer that tells.
    pub fn doubtful(&self) -> Option<&Finished> {
        self.finished().rev().find(|finished| finished.evidence.is_doubt())
    }

    /// Returns the newest attempt that was started and of which no line tells how it ended.
    pub fn unaccounted(&self) -> Option<u32> {
        let started = self.started()?.a;
        (!self.finished().any(|finished| finished.a == started)).then_some(started)
    }

    /// Returns the newest attempt that was started.
    pub fn started(&self) -> Option<&Started> {
        self.history.facts.iter().rev().find_map(|recorded| match &recorded.fact {
            Fact::Started(started) => Some(started),
            _ => None,
        })
    }

    /// Returns who answered in the partner's place at the end of the newest run, or may have.
    pub fn gateway(&self) -> Option<String> {
        let http = self.last()?.http?;
        let response = self.settled()?.response.as_ref()?;
        gateway::diagnosis(http, &Headers(response.headers.clone()))
    }

    /// Returns where the redirect points that ended the newest run: host and path.
    pub fn points_to(&self) -> Option<String> {
        self.last()?.http.filter(|http| (300..400).contains(http))?;
        let response = self.settled()?.response.as_ref()?;
        let (_, location) = response.headers.iter().find(|(name, _)| &**name == "location")?;
        Some(location::shown(location).replace(gateway::is_deceptive, "?"))
    }

    /// Returns when the newest run has to end.
    pub fn deadline(&self) -> Timestamp {
        let newest = self.history.facts.iter().rev().find_map(|recorded| match &recorded.fact {
            Fact::Opened(opened) => Some(opened.deadline),
            Fact::Reopened(reopened) => Some(reopened.deadline),
            _ => None,
        });
        newest.unwrap_or_else(|| self.opened().deadline)
    }

    /// Returns until when the key is trusted; `None` where the partner does not honour it.
    pub fn key_until(&self) -> Option<Timestamp> {
        let renewed = self.history.facts.iter().rev().find_map(|recorded| match &recorded.fact {
            Fact::Reopened(reopened) => reopened.key_until,
            _ => None,
        });
        renewed.or(self.opened().key_until)
    }
}

fn finished(recorded: &Recorded) -> Option<&Finished> {
    match &recorded.fact {
        Fact::Finished(finished) => Some(finished),
        Fact::Settled(settled) => settled.last.as_deref(),
        _ => None,
    }
}
