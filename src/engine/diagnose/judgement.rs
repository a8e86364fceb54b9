//! What one rule concludes, while evidence is added to it.

use super::code::Code;
use crate::engine::verdict::Side;
use std::time::Duration;

/// How sure a diagnosis is.
///
/// Source: latency.md 6.5.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Confidence {
    /// Nothing else is left; or what was seen contradicts itself.
    Low,
    /// One fact says so.
    Medium,
    /// Two facts that do not depend on each other say so.
    High,
}

impl Confidence {
    /// Returns the name used on the screen and in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Confidence::Low => "low",
            Confidence::Medium => "medium",
            Confidence::High => "high",
        }
    }
}

/// Whether the partner can be worked with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It can.
    Usable,
    /// It can, with something to look at.
    Degraded,
    /// It cannot.
    Unusable,
    /// The probe could not tell.
    Unknown,
}

impl Standing {
    /// Returns the name used on the screen and in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Standing::Usable => "usable",
            Standing::Degraded => "degraded",
            Standing::Unusable => "unusable",
            Standing::Unknown => "unknown",
        }
    }
}

/// What one rule concludes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Judgement {
    pub code: Code,
    pub side: Option<Side>,
    pub standing: Standing,
    pub because: Vec<String>,
    pub next: Vec<String>,
    /// How long the partner asks us to wait.
    pub wait: Option<Duration>,
    /// Facts that do not depend on each other.
    facts: u32,
    /// Facts that speak against it.
    against: u32,
}

impl Judgement {
    /// Concludes that the partner cannot be worked with.
    pub fn new(code: Code, side: Side) -> Judgement {
        Judgement {
            code,
            side: Some(side),
            standing: Standing::Unusable,
            because: Vec::new(),
            next: Vec::new(),
            wait: None,
            facts: 0,
            against: 0,
        }
    }

    /// Concludes that nothing can be told.
    pub fn unclear(code: Code) -> Judgement {
        Judgement { standing: Standing::Unknown, ..Judgement::new(code, Side::Unclear) }
    }

    /// Concludes that it works, with something to look at.
    pub fn degraded(code: Code, side: Side) -> Judgement {
        Judgement { standing: Standing::Degraded, ..Judgement::new(code, side) }
    }

    /// Concludes that all is well.
    pub fn well(code: Code) -> Judgement {
        Judgement { side: None, standing: Standing::Usable, ..Judgement::new(code, Side::Unclear) }
    }

    /// Adds a fact of its own weight.
    pub fn fact(mut self, words: impl Into<String>) -> Judgement {
        self.facts += 1;
        self.note(words)
    }

    /// Adds a fact of its own weight where there is one.
    pub fn fact_if(self, words: Option<String>) -> Judgement {
        match words {
            Some(words) => self.fact(words),
            None => self,
        }
    }

    /// Adds words that weigh nothing; empty ones are left out.
    pub fn note(mut self, words: impl Into<String>) -> Judgement {
        self.because.extend(Some(words.into()).filter(|words| !words.is_empty()));
        self
    }

    /// Adds a fact that speaks against the conclusion.
    pub fn doubted(mut self, words: impl Into<String>) -> Judgement {
        self.against += 1;
        self.note(words)
    }

    /// Adds a next step; those of the code come after it.
    pub fn next(mut self, words: impl Into<String>) -> Judgement {
        self.next.push(words.into());
        self
    }

    /// Returns how sure it is: by the facts for it, less those against it.
    pub fn confidence(&self) -> Confidence {
        match self.facts.saturating_sub(self.against) {
            0 => Confidence::Low,
            1 => Confidence::Medium,
            _ => Confidence::High,
        }
    }
}
