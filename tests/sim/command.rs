//! One command: `send` or `replay`, as somebody types it.

use crate::case::{Case, ORIGIN};
use crate::chance::Chance;
use crate::hands::{Dice, Eyes, Watchmaker};
use crate::ledger::Shelf;
use crate::wire::Wire;
use crate::world::{Shared, World};
use abide::drive::{Claim, Claimed, EntryRule, Patience, Ports, Terms, Wish, claim, run};
use abide::engine::backoff::Jitter;
use abide::engine::deadline::Deadline;
use abide::engine::due::{Batch, Due, due};
use abide::engine::entry::{Entry, Known, Wanted, enter, is_final};
use abide::engine::facts::{Fact, History, Opened, Owner, Recorded, StoredBody, Why};
use abide::engine::operation::{
    Announce, Fingerprint, Guarded, Header, IdempotencyKey, Operation, PartnerName, Request,
};
use abide::engine::policy::Policy;
use abide::engine::secret::Mask;
use abide::engine::verdict::Verdict;
use std::sync::Arc;
use std::time::Duration;

/// What everybody sends.
const BODY: &str = r#"{"amount":"12.90","id":"order-1"}"#;

/// What somebody types.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Errand {
    /// `send` or `replay`.
    pub why: Why,
    /// `--only rejected`: a replay also of what was refused.
    pub rejected: bool,
    /// `--older`.
    pub older: bool,
    /// `--accept-duplicate`.
    pub accept_duplicate: bool,
    /// The deadline.
    pub allowed: Duration,
}

impl Errand {
    /// Returns a plain `send`.
    pub const fn send(allowed: Duration) -> Errand {
        Errand { why: Why::Send, rejected: false, older: false, accept_duplicate: false, allowed }
    }

    /// Returns a plain `replay`.
    pub const fn replay(allowed: Duration) -> Errand {
        Errand { why: Why::Replay, ..Errand::send(allowed) }
    }

    /// Returns whether it is a `replay`.
    pub fn is_replay(&self) -> bool {
        self.why == Why::Replay
    }
}

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// A run came to a verdict.
    Ended(Verdict),
    /// The ledger had a final verdict.
    Final(Verdict),
    /// Another process had the key until the deadline.
    Busy,
    /// A replay found nothing that is due.
    NotDue,
    /// The ledger failed.
    Failed,
    /// It was killed.
    Killed,
}

impl Outcome {
    /// Returns whether the operation is decided.
    pub fn is_over(self) -> bool {
        matches!(self, Outcome::Ended(verdict) | Outcome::Final(verdict) if verdict.is_final())
    }

    /// Returns whether the driver ran.
    pub fn ran(self) -> bool {
        !matches!(self, Outcome::Final(_) | Outcome::Busy | Outcome::NotDue)
    }
}

/// A claim and, where the key is ours, a run.
pub async fn command(world: Shared, who: usize, operation: &Operation, dice: Chance) -> Outcome {
    let mut clock = Watchmaker { world: world.clone(), who };
    let mut ledger = Shelf { world: world.clone(), who };
    let errand = world.lock().processes[who].errand;
    let (policy, key) = {
        let mut world = world.lock();
        let policy = world.rules(errand);
        let chosen = if errand.is_replay() { world.chosen(who, &policy) } else { Ok(operation.key.clone()) };
        match chosen {
            Ok(key) => (policy, key),
            Err(left) => return left,
        }
    };
    let (wish, deadline) = world.lock().wish(who, operation, &key);
    let patience = if errand.is_replay() { Patience::None } else { Patience::Until(deadline) };
    let claimed = claim(&mut ledger, &wish, &mut clock, patience).await;
    let (mut held, mut history) = match claimed {
        Err(_) => return Outcome::Failed,
        Ok(Claimed::Ours(held, history)) => (held, history),
        Ok(Claimed::Final(_, history)) => return Outcome::Final(final_verdict(&history)),
        Ok(Claimed::Busy(..)) => return Outcome::Busy,
        Ok(Claimed::OtherPayload(..)) => panic!("the payload is always the same"),
        Ok(Claimed::Unknown(key)) => panic!("{key} was in the ledger when it was chosen, and nothing is forgotten"),
    };
    let place = held.place;
    let continued = (*held.key() != operation.key).then(|| crate::command::operation(&world.lock().case, held.key()));
    let terms = Terms { policy: &policy, deadline, mask: &Mask::default() };
    let mut wire = Wire { world: world.clone(), who };
    let mut eyes = Eyes { world: world.clone(), claim: held.n() };
    let mut dice = Dice(dice);
    let ports = Ports { transport: &mut wire, clock: &mut clock, entropy: &mut dice, observer: &mut eyes };
    let ended = run(&mut held, &mut history, continued.as_ref().unwrap_or(operation), &terms, ports).await;
    match ended {
        Err(_) => Outcome::Failed,
        Ok(ended) => {
            world.lock().watch_end(who, place, held.n(), &ended);
            Outcome::Ended(ended.settled.verdict)
        }
    }
}

/// Returns a decided operation's verdict: proof of execution wherever it stands, else what the newest run ended with.
fn final_verdict(history: &History) -> Verdict {
    let newest = history.newest_claim();
    let mut last = Verdict::InDoubt;
    for recorded in &history.facts {
        match &recorded.fact {
            Fact::Settled(settled) if settled.verdict == Verdict::Confirmed => return Verdict::Confirmed,
            Fact::Settled(settled) if recorded.n == newest => last = settled.verdict,
            Fact::Resolved(resolved) if recorded.n == newest => last = resolved.verdict,
            _ => {}
        }
    }
    last
}

/// Returns a key.
pub fn key(text: &str) -> IdempotencyKey {
    IdempotencyKey::new(text, 255).expect("a key")
}

/// Returns the partner's name.
pub fn partner() -> PartnerName {
    PartnerName::new("partner").expect("a name")
}

/// Returns the operation of a story under a key.
pub fn operation(case: &Case, key: &IdempotencyKey) -> Operation {
    let header = |name: &str, value: &str| Header { name: name.into(), value: Guarded::plain(value) };
    let request = Request {
        method: case.policy.method.clone(),
        url: Guarded::plain("http://partner.test/orders"),
        headers: vec![header("Content-Type", "application/json"), header("Idempotency-Key", key.as_str())],
        body: BODY.as_bytes().into(),
    };
    Operation {
        partner: partner(),
        key: key.clone(),
        fingerprint: Fingerprint("v1:0".into()),
        request: Arc::new(request),
        status_headers: [].into(),
        announce: Announce::default(),
    }
}

impl World {
    /// Returns the rules by which a command runs.
    pub fn rules(&mut self, errand: Errand) -> Arc<Policy> {
        // A batch spreads its waits over the whole delay (decisions 17).
        let spreads = errand.is_replay() && self.case.policy.retry.backoff.jitter != Jitter::Full;
        let place = match (spreads, errand.accept_duplicate) {
            (false, false) => return Arc::clone(&self.case.policy),
            (false, true) => 0,
            (true, false) => 1,
            (true, true) => 2,
        };
        let rules = self.variants[place].get_or_insert_with(|| {
            let mut policy = Policy::clone(&self.case.policy);
            policy.accept_duplicate = errand.accept_duplicate;
            if spreads {
                policy.retry.backoff.jitter = Jitter::Full;
            }
            Arc::new(policy)
        });
        Arc::clone(rules)
    }

    /// Returns whether a replay is meant to take up what stands at a place of the ledger, if it is open.
    ///
    /// What was interrupted before anything was started is due only by its key (decisions 12), and where no key was
    /// given nobody names it: the send after it was another operation.
    pub fn is_meant(&self, place: usize) -> bool {
        let started = |recorded: &Recorded| matches!(recorded.fact, Fact::Started(_));
        !self.case.keyless || self.book.find(place, started).is_some()
    }

    /// Returns the key that a replay takes up, or how it ends where it takes up none.
    fn chosen(&mut self, who: usize, policy: &Policy) -> Result<IdempotencyKey, Outcome> {
        let errand = self.processes[who].errand;
        let entry = |known: Known<'_>| {
            let fingerprint = &known.history.opened().fp;
            enter(Some(known), Wanted { fingerprint, key_until: None, rejected_too: errand.rejected })
        };
        let known = |place: usize| self.known(place).expect("it has facts");
        let open = |place: &usize| entry(known(*place)) != Entry::Final && self.is_meant(*place);
        let places = self.book.entries().map(|(place, _)| place).filter(open);
        let Some(place) = places.max_by_key(|place| self.book.entry(*place).history.newest_claim()) else {
            let mut decided = self.book.entries().map(|(_, entry)| &entry.history).filter(|history| is_final(history));
            return Err(decided.next().map_or(Outcome::NotDue, |history| Outcome::Final(final_verdict(history))));
        };
        if entry(known(place)) == Entry::Busy {
            return Err(Outcome::Busy);
        }
        let now = self.clocks(who);
        let Errand { older, allowed, .. } = errand;
        let batch = Batch { policy, now, patience: allowed, older, later_write: self.later_write };
        let taken = due(&self.book.entry(place).history, &batch);
        let process = &mut self.processes[who];
        process.planned = now.wall;
        let id = process.id;
        self.note(|| format!("process {id} finds it due: {taken:?}"));
        if taken == Due::Now { Ok(self.book.entry(place).key.clone()) } else { Err(Outcome::NotDue) }
    }

    fn wish(&self, who: usize, operation: &Operation, chosen: &IdempotencyKey) -> (Wish, Deadline) {
        let (policy, process, wall) = (&self.case.policy, &self.processes[who], self.wall());
        let errand = process.errand;
        let allowed = process.deadline.since(self.now);
        let opened = Opened {
            partner: operation.partner.clone(),
            profile: None,
            account: None,
            method: policy.method.as_str().into(),
            url: ORIGIN.into(),
            headers: Vec::new(),
            fp: operation.fingerprint.clone(),
            body: StoredBody::Text(BODY.into()),
            contract: policy.idempotency.contract().into(),
            key_until: policy.idempotency.supported.then(|| wall.after(policy.idempotency.trusted_for())),
            tls: None,
            valid_until: self.case.valid_for.map(|valid_for| wall.after(valid_for)),
            deadline: wall.after(allowed),
            why: errand.why,
            owner: Owner { host: "here".into(), boot: self.book.boots.to_string().into(), pid: process.id },
        };
        let (entry, key) = match (errand.is_replay(), self.case.keyless) {
            (true, _) => (EntryRule::Known { rejected: errand.rejected }, chosen.clone()),
            (false, true) => (EntryRule::Keyless, key(&format!("made-{}", process.id))),
            (false, false) => (EntryRule::Keyed, chosen.clone()),
        };
        let body = Arc::clone(&operation.request.body);
        let deadline = Deadline(self.clocks(who).steady.after(allowed));
        (Wish { key, opened: Arc::new(opened), body, entry }, deadline)
    }
}
