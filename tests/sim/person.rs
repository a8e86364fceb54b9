//! A person who looks at the partner's side, and says what became of the operation.

use crate::command::{Errand, partner};
use crate::ledger::Shelf;
use crate::story::Stage;
use crate::world::World;
use abide::drive::{Ledger, Resolving};
use abide::engine::entry::is_ended;
use abide::engine::facts::{About, Fact, Finished, Resolved, Says};
use abide::engine::operation::IdempotencyKey;
use abide::engine::verdict::{Cause, Verdict};
use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// What somebody says.
#[derive(Clone, Debug)]
struct Word {
    key: IdempotencyKey,
    verdict: Verdict,
    /// The partner has said otherwise, and the ledger knows.
    against: bool,
}

impl Stage {
    /// Lets a person say what is true, or what is not where the ledger must know better.
    pub fn person_speaks(&mut self) {
        let word = self.world.lock().word();
        if let Some(word) = word {
            self.say(word);
        }
    }

    /// Lets a person take a mistake back.
    pub fn take_back(&mut self) {
        let word = self.world.lock().mistake.take().map(|key| Word { key, verdict: Verdict::NotDone, against: false });
        if let Some(word) = word {
            self.say(word);
        }
    }

    fn say(&mut self, word: Word) {
        let now = {
            let mut world = self.world.lock();
            world.start(1, Errand::send(Duration::from_secs(1)));
            world.clocks(1)
        };
        let resolved =
            Resolved { partner: partner(), verdict: word.verdict, by: "ann".into(), note: "they say so".into() };
        let mut shelf = Shelf { world: self.world.clone(), who: 1 };
        let said = pin!(shelf.resolve(&word.key, &resolved, now)).poll(&mut Context::from_waker(Waker::noop()));
        let Poll::Ready(said) = said else { panic!("a word waits for nobody") };
        let mut world = self.world.lock();
        world.note(|| format!("a person says {}: {said:?}", word.verdict));
        world.watch_word(&word, said.ok());
    }
}

impl World {
    /// Returns what somebody says who knows the truth; `None` where that is not known yet.
    fn word(&mut self) -> Option<Word> {
        let (now, truth) = (self.now, self.case.truth.clone());
        self.partner.advance(&truth, now);
        let place = self.book.entries().map(|(place, _)| place).last()?;
        let key = self.book.entry(place).key.clone();
        let word = |verdict, against| Some(Word { key: key.clone(), verdict, against });
        if self.partner.executions.iter().any(|execution| execution.at <= now) {
            let proven = self.is_proven(place);
            let wrong = proven && self.chance.odds(50);
            let lie = self.chance.pick(&[Verdict::NotDone, Verdict::Rejected]);
            return word(if wrong { lie } else { Verdict::Confirmed }, wrong);
        }
        if !self.partner.is_idle(now) || self.case.policy.method.is_safe() {
            return None;
        }
        if let Some(mistaken) = self.mistake.take() {
            return Some(Word { key: mistaken, verdict: Verdict::NotDone, against: false });
        }
        let verdict = self.chance.pick(&[Verdict::NotDone, Verdict::NotDone, Verdict::Rejected, Verdict::Confirmed]);
        if verdict == Verdict::Confirmed && self.case.keyless {
            return None;
        }
        word(verdict, false)
    }

    /// Returns whether some line of the ledger has the partner's word that it happened.
    fn is_proven(&self, place: usize) -> bool {
        let done = |finished: &Finished| finished.done == Some(true);
        self.book.entry(place).history.facts.iter().any(|recorded| match &recorded.fact {
            Fact::Finished(finished) => done(finished),
            Fact::Asked(asked) => asked.about == About::Operation && asked.says == Says::Confirmed,
            Fact::Settled(settled) => settled.verdict == Verdict::Confirmed && settled.cause != Cause::Person,
            _ => false,
        })
    }

    fn watch_word(&mut self, word: &Word, said: Option<Resolving>) {
        match said {
            Some(Resolving::Recorded(_)) if word.against => {
                self.broke("a person's word is never taken against proof", || format!("{}", word.verdict));
            }
            Some(Resolving::Recorded(_)) => {
                let place = self.book.place(&word.key);
                assert!(is_ended(&self.book.entry(place).history), "a word ends what was there");
                if word.verdict != Verdict::Confirmed {
                    self.watch.nothing_happened();
                    self.watch.lost = false;
                } else if self.partner.executions.is_empty() {
                    self.mistake = Some(word.key.clone());
                }
            }
            Some(Resolving::Busy(_) | Resolving::Unknown) => {
                self.broke("a person is heard", || format!("{}: {said:?}", word.key));
            }
            Some(Resolving::Already(_) | Resolving::Against(..)) | None => {}
        }
    }
}
