//! The promises about runs that continue others: who may take an operation up, and who may send it again.

use crate::book::Entry;
use crate::watch::Send;
use crate::world::World;
use abide::drive::Call;
use abide::engine::facts::{Fact, Recorded, Says};
use abide::engine::moment::{Moment, Timestamp};
use abide::engine::verdict::Verdict;
use std::time::Duration;

/// Writing and syncing take time of their own, after the decision and before the send.
const WRITING: Duration = Duration::from_millis(20);
/// Persisted times are whole milliseconds, rounded down.
const ROUNDING: Duration = Duration::from_millis(1);
/// A PUT or DELETE that has been in doubt for longer is not repeated. Source: decisions 13.
const STALE: Duration = Duration::from_secs(15 * 60);

/// What a claim finds.
#[derive(Debug, Default)]
struct Before {
    /// The newest claim.
    newest: u64,
    /// How that ended.
    verdict: Option<Verdict>,
    is_word: bool,
    /// When it said that another run makes sense.
    retry_at: Option<Timestamp>,
    /// The claim whose run proved that it happened.
    confirmed_by: Option<u64>,
    key_until: Option<Timestamp>,
    valid_until: Option<Timestamp>,
}

impl Before {
    fn of(facts: &[Recorded]) -> Before {
        let mut before = Before::default();
        for recorded in facts {
            if recorded.fact.is_claim() {
                before = Before { newest: recorded.n, verdict: None, is_word: false, retry_at: None, ..before };
            }
            match &recorded.fact {
                Fact::Opened(opened) => {
                    (before.key_until, before.valid_until) = (opened.key_until, opened.valid_until);
                }
                Fact::Reopened(reopened) => before.key_until = reopened.key_until.or(before.key_until),
                Fact::Settled(settled) => {
                    if settled.verdict == Verdict::Confirmed {
                        before.confirmed_by = before.confirmed_by.or(Some(recorded.n));
                    }
                    if recorded.n == before.newest {
                        (before.verdict, before.retry_at) = (Some(settled.verdict), settled.retry_at);
                    }
                }
                Fact::Resolved(resolved) => (before.verdict, before.is_word) = (Some(resolved.verdict), true),
                _ => {}
            }
        }
        before
    }
}

impl World {
    /// Checks a claim of something new.
    pub fn watch_opened(&mut self, process: u32) {
        if self.processes.iter().any(|known| known.id == process && known.errand.is_replay()) {
            self.broke("a replay begins nothing", String::new);
        }
    }

    /// Checks a claim that continues an operation; its line is the last one.
    pub fn watch_reopened(&mut self, process: u32, place: usize) {
        let facts = &self.book.entry(place).history.facts;
        let before = Before::of(&facts[..facts.len() - 1]);
        let Some(who) = self.processes.iter().position(|known| known.id == process) else { return };
        let errand = self.processes[who].errand;
        if let Some(n) = before.confirmed_by {
            let late = n < before.newest;
            let promise = if late { "a late owner's success counts" } else { "a settled operation stays settled" };
            self.broke(promise, || format!("claim {n} confirmed it"));
        }
        if before.is_word && before.verdict == Some(Verdict::Confirmed) {
            self.broke("what a person said stands", || "it was confirmed".into());
        }
        if before.verdict == Some(Verdict::Rejected) && !errand.rejected {
            self.broke("what was refused is tried again only when asked for", || format!("{:?}", errand.why));
        }
        if errand.is_replay() && self.stepped.is_none() {
            self.watch_due(who, &before);
            let wait = before.retry_at.map(|at| at.since(self.wall()));
            self.processes[who].comes_back = wait.map(|wait| self.now.after(wait));
        }
    }

    /// Checks that what a replay has taken up was due when it looked.
    fn watch_due(&mut self, who: usize, before: &Before) {
        let (errand, planned) = (self.processes[who].errand, self.processes[who].planned);
        let past = |until: Option<Timestamp>| until.is_some_and(|until| until <= planned);
        let method = self.case.policy.method.as_str();
        let guarded = before.key_until.is_some() && !past(before.key_until) || errand.accept_duplicate;
        let replaces = matches!(method, "PUT" | "PATCH" | "DELETE");
        let obstacle = if past(before.key_until) && !errand.older {
            "its key is past its retention"
        } else if past(before.valid_until) && self.case.policy.status.is_none() {
            "it is not valid any more"
        } else if self.later_write && replaces && !guarded {
            "it would undo a later write"
        } else if before.retry_at.is_some_and(|at| at.since(planned) > errand.allowed) && self.alone {
            "its time to come back is too far away"
        } else {
            return;
        };
        self.broke("a replay takes up only what is due", || obstacle.into());
    }

    /// Returns whether a later claim has taken over what a process works on.
    pub fn is_fenced(&self, process: u32) -> bool {
        let claim = self.processes.iter().find(|known| known.id == process).map_or(0, |known| known.claim);
        let taken_over = |entry: &Entry| {
            let facts = &entry.history.facts;
            let mut claims = facts.iter().filter(|recorded| recorded.fact.is_claim()).map(|recorded| recorded.n);
            claims.clone().any(|n| n == claim) && claims.any(|n| n > claim)
        };
        self.processes[0].came_back && self.book.entries().any(|(_, entry)| taken_over(entry))
    }

    /// Checks that a replay waits until the run before wanted another one.
    pub fn watch_return(&mut self, who: usize) {
        let Some(moment) = self.processes[who].comes_back else { return };
        let early = moment.since(self.now);
        if self.stepped.is_none() && early > ROUNDING {
            self.broke("a batch waits for the time to come back", || format!("{early:?} too early"));
        }
    }

    /// Checks that nothing in doubt is sent again without leave.
    pub fn watch_leave(&mut self, who: usize, place: usize, call: &Call<'_>) {
        let process = &self.processes[who];
        let (claim, first, errand) = (process.claim, process.sent == 1, process.errand);
        let attempt = || format!("attempt {}", call.a);
        if claim != self.book.entry(place).history.newest_claim() {
            self.broke("an owner that is fenced off sends nothing", attempt);
            return;
        }
        // A success that nobody could write down leaves the same doubt as silence.
        let in_doubt = |send: &&Send| send.place == place && (send.ambiguous || send.fine);
        let Some(oldest) = self.watch.sends.iter().skip(self.watch.cleared).find(in_doubt) else { return };
        if self.case.policy.method.is_safe() {
            return;
        }
        let since = oldest.ended.unwrap_or(oldest.began);
        let facts = &self.book.entry(place).history.facts;
        let of_run = facts.iter().filter(|recorded| recorded.n == claim);
        let (mut asked, mut absent) = (false, false);
        for says in of_run.filter_map(said) {
            (asked, absent) = (true, absent || says == Says::Absent);
        }
        let forgot_to_ask = errand.is_replay() && first && !asked && self.case.policy.status.is_some();
        if forgot_to_ask && !errand.accept_duplicate {
            self.broke("a replay asks before it sends again", attempt);
        } else if errand.accept_duplicate && first {
            self.watch.granted += 1;
        } else if !absent && !self.is_harmless(place, since) {
            self.broke(self.without_leave(place), attempt);
        }
    }

    /// Returns whether what has been in doubt `since` then may be sent again: by its key, or by its method.
    fn is_harmless(&self, place: usize, since: Moment) -> bool {
        let policy = &self.case.policy;
        let key_until = Before::of(&self.book.entry(place).history.facts).key_until;
        let trusted = key_until.is_some_and(|until| self.wall() < until.after(WRITING) || self.stepped.is_some());
        let fresh = self.now.since(since) <= STALE + WRITING || self.stepped.is_some();
        policy.idempotency.supported && trusted || policy.method.is_idempotent() && fresh
    }

    /// Returns the promise that is broken where nothing gives leave to send again.
    fn without_leave(&self, place: usize) -> &'static str {
        match (has_late_end(&self.book.entry(place).history.facts), self.case.policy.method.is_idempotent()) {
            (true, _) => "a late owner's failure takes no doubt away",
            (false, true) => "what has long been in doubt is not repeated",
            (false, false) => "what is in doubt is sent again only with leave",
        }
    }
}

fn said(recorded: &Recorded) -> Option<Says> {
    match &recorded.fact {
        Fact::Asked(asked) => Some(asked.says),
        _ => None,
    }
}

/// Returns whether a run ended after another one had taken its key over.
fn has_late_end(facts: &[Recorded]) -> bool {
    let mut newest = 0;
    facts.iter().any(|recorded| {
        newest = newest.max(recorded.n);
        recorded.n < newest && matches!(recorded.fact, Fact::Settled(_))
    })
}
