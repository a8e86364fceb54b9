//! Status requests of a run: whom to ask, and what to do where nothing can be asked.

use super::run::Runner;
use super::{Claim, Clock, Durability, Entropy, Event, Observer, Question, Transport};
use crate::engine::deadline::Limits;
use crate::engine::exchange::Outcome;
use crate::engine::facts::{About, Asked, Fact, Says};
use crate::engine::location;
use crate::engine::policy::{Control, StatusPolicy};
use crate::engine::status::judge;
use crate::engine::verdict::Evidence;
use std::sync::Arc;

impl<C: Claim, T: Transport, K: Clock, E: Entropy, O: Observer> Runner<'_, C, T, K, E, O> {
    /// Asks the status endpoint and records what it says.
    pub(super) async fn ask(&mut self, about: About, limits: Limits) -> Result<(), C::Error> {
        let status = self.terms.policy.status.as_ref().expect("decide asks only where there is a status endpoint");
        let mut asked = match self.question(about, status).await {
            Ok(url) => self.put(about, status, &url, limits).await,
            Err(missing) => {
                self.mute(about);
                no_question(about, &missing)
            }
        };
        asked.note = asked.note.map(|note| self.terms.mask.hide(&note).into());
        let now = self.ports.clock.now();
        self.ports.observer.saw(now, Event::Asked(&asked));
        self.append(now, Fact::Asked(asked), Durability::Later).await
    }

    async fn put(&mut self, about: About, status: &StatusPolicy, url: &str, limits: Limits) -> Asked {
        self.ports.observer.saw(self.ports.clock.now(), Event::Asking { about });
        let own = self.operation.request.url.sent.expose();
        // Credentials stay with the origin that they were given for.
        let trusted = location::origin(url) == location::origin(own);
        let headers = if trusted { &*self.operation.status_headers } else { &[] };
        let question = Question { method: &status.method, url, headers, limits };
        let exchange = self.ports.transport.ask(question).await;
        let said = judge(&exchange, status, about, &self.operation.request.body);
        let not_before = said.retry_after.map(|wait| self.ports.clock.now().wall.after(wait));
        let decides = about == About::Operation && matches!(said.asked.says, Says::Confirmed | Says::Rejected);
        if let (true, Outcome::Answered(answer)) = (decides, exchange.outcome) {
            self.answer = Some(answer);
        }
        Asked { not_before, ..said.asked }
    }

    /// Goes on without what cannot be asked, until an answer gives what the URL needs.
    fn mute(&mut self, about: About) {
        let mut policy = self.policy().clone();
        match (about, &mut policy.status) {
            (About::Control, Some(status)) => status.control = None,
            _ => policy.status = None,
        }
        self.mute = Some(Box::new(policy));
    }

    async fn question(&self, about: About, status: &StatusPolicy) -> Result<String, String> {
        let own = self.operation.request.url.sent.expose();
        match (about, &status.control) {
            (About::Control, Some(control)) => status.url.fill(control, own),
            _ => status.url.fill(&self.myself().await, own),
        }
    }

    /// Returns what the status URL may be filled from: the request, and the answer that accepted it.
    async fn myself(&self) -> Control {
        let (answer, location) = self.accepting_answer().await;
        let body = Arc::clone(&self.operation.request.body);
        Control { key: self.operation.key.as_str().into(), body, answer, location }
    }

    async fn accepting_answer(&self) -> (Option<Arc<[u8]>>, Option<Box<str>>) {
        if let Some(answer) = self.answer.as_ref().filter(|answer| answer.status == 202) {
            return (Some(answer.body.as_slice().into()), answer.headers.first("location").map(Into::into));
        }
        let stored = self.history.facts.iter().rev().find_map(|recorded| match &recorded.fact {
            Fact::Settled(settled) if settled.last.as_ref().is_some_and(|l| l.evidence == Evidence::Accepted) => {
                settled.response.as_ref()
            }
            _ => None,
        });
        let Some(response) = stored else { return (None, None) };
        let body = match &response.body {
            // What cannot be read leaves the question without it, as an answer that was never kept does.
            Some(body) => self.claim.read(body).await.ok().flatten(),
            None => None,
        };
        let location = response.headers.iter().find(|(name, _)| &**name == "location").map(|(_, value)| value.clone());
        (body, location)
    }
}

fn no_question(about: About, missing: &str) -> Asked {
    let note = format!("the status URL has no value for {missing}");
    Asked { says: Says::Unclear, about, by_body: false, http: None, ms: 0, not_before: None, note: Some(note.into()) }
}
