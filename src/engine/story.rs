//! Histories for tests, told as a story: what happened at which second.

use super::backoff::{Backoff, Jitter};
use super::deadline::Deadline;
use super::decide::{Action, decide};
use super::facts::{
    About, Again, Asked, Fact, Finished, History, Opened, Owner, Pause, Predecessor, Recorded, Reopened, Says, Settled,
    Started, StoredBody, Waiting, Why,
};
use super::moment::{Moment, Now, Timestamp};
use super::operation::{Fingerprint, Method, PartnerName};
use super::policy::{Control, Policy, StatusPolicy, StatusRule, UrlPart, UrlTemplate};
use super::reason::Reason;
use super::verdict::{Cause, Evidence, Verdict};
use std::sync::Arc;
use std::time::Duration;

/// The wall clock at the start of the steady one.
pub const EPOCH: Timestamp = Timestamp::from_unix_ms(1_800_000_000_000);

pub fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

pub fn at(seconds: f64) -> Now {
    let steady = Duration::from_secs_f64(seconds);
    Now { steady: Moment::new(steady), wall: EPOCH.after(steady) }
}

/// Deadline 60 s, base 1 s, equal jitter drawn as 0: the waits are 0.5, 1, 2, 4 s.
pub fn policy(method: &str) -> Policy {
    let mut policy = Policy::unprofiled(Method::new(method).expect("a method"), "http://a.example:80");
    policy.retry.backoff = Backoff { base: secs(1), cap: secs(100), jitter: Jitter::Equal };
    policy.timeouts.overall = secs(60);
    policy.retry.max_attempts = 3;
    policy
}

pub fn keyed(method: &str) -> Policy {
    let mut policy = policy(method);
    policy.idempotency.supported = true;
    policy.idempotency.retention = Some(secs(86_400));
    policy
}

pub fn with_status(mut policy: Policy, settle: Option<u64>, control: bool) -> Policy {
    let rule = StatusRule { statuses: Vec::new(), value: None, same: Vec::new() };
    policy.status = Some(StatusPolicy {
        method: "GET".into(),
        url: UrlTemplate(vec![UrlPart::Key]),
        confirmed: rule.clone(),
        rejected: None,
        in_progress: None,
        absent: Some(rule),
        control: control.then(|| Control { key: "c".into(), body: Arc::from([]), answer: None, location: None }),
        settle: settle.map(secs),
    });
    policy
}

pub struct Story {
    pub policy: Policy,
    pub history: History,
    pub n: u64,
    pub deadline: Deadline,
}

impl Story {
    pub fn new(policy: Policy) -> Story {
        let opened = Opened {
            partner: PartnerName::new("a").expect("a name"),
            profile: None,
            account: None,
            method: policy.method.as_str().into(),
            url: "http://a.example/orders".into(),
            headers: Vec::new(),
            fp: Fingerprint("v1:0".into()),
            body: StoredBody::Text("".into()),
            contract: policy.idempotency.contract().into(),
            key_until: policy.idempotency.supported.then(|| EPOCH.after(policy.idempotency.trusted_for())),
            valid_until: None,
            tls: None,
            deadline: EPOCH.after(secs(60)),
            why: Why::Send,
            owner: Owner::default(),
        };
        let mut story = Story { policy, history: History::default(), n: 1, deadline: Deadline(at(60.0).steady) };
        story.push(0.0, Fact::Opened(Arc::new(opened)));
        story
    }

    pub fn opened(mut self, change: impl FnOnce(&mut Opened)) -> Story {
        if let Fact::Opened(opened) = &mut self.history.facts[0].fact {
            change(Arc::make_mut(opened));
        }
        self
    }

    pub fn push(&mut self, seconds: f64, fact: Fact) {
        let now = at(seconds);
        self.history.facts.push(Recorded { n: self.n, at: now.wall, steady: Some(now.steady), fact });
    }

    pub fn with(mut self, seconds: f64, fact: Fact) -> Story {
        self.push(seconds, fact);
        self
    }

    pub fn attempt(self, seconds: f64, evidence: Evidence, again: Again) -> Story {
        let a = self.history.last_attempt() + 1;
        let started = Fact::Started(Started { a, addr: Some(([127, 0, 0, 1], 80 + a as u16).into()), proxy: None });
        self.with(seconds, started).with(seconds, Fact::Finished(Arc::new(finished(a, evidence, again))))
    }

    pub fn change(mut self, change: impl FnOnce(&mut Finished)) -> Story {
        if let Some(Recorded { fact: Fact::Finished(finished), .. }) = self.history.facts.last_mut() {
            change(Arc::make_mut(finished));
        }
        self
    }

    pub fn asked(self, seconds: f64, says: Says, about: About, by_body: bool) -> Story {
        let asked = Asked { says, about, by_body, http: Some(200), ms: 1, not_before: None, note: None };
        self.with(seconds, Fact::Asked(asked))
    }

    pub fn absent(self, seconds: f64) -> Story {
        self.asked(seconds, Says::Absent, About::Operation, true)
    }

    pub fn waited(self, seconds: f64, until: f64) -> Story {
        self.waited_for(seconds, until, Pause::Backoff)
    }

    pub fn waited_for(self, seconds: f64, until: f64, reason: Pause) -> Story {
        let waiting = Waiting { until: at(until).wall, reason, until_steady: Some(at(until).steady) };
        self.with(seconds, Fact::Waiting(waiting))
    }

    /// Ends this run as another process would have seen it, and begins the next one.
    pub fn next_run(mut self, seconds: f64, why: Why, settled: Option<Verdict>) -> Story {
        if let Some(verdict) = settled {
            let settled = Settled { verdict, cause: Cause::NothingHelps, retry_at: None, last: None, response: None };
            self.push(seconds, Fact::Settled(Arc::new(settled)));
        }
        for recorded in &mut self.history.facts {
            recorded.steady = None;
        }
        self.n += 1;
        let ended = self.history.settled().is_some();
        let predecessor = if ended { Predecessor::Settled } else { Predecessor::InDoubt };
        let reopened = Reopened {
            partner: PartnerName::new("a").expect("a name"),
            deadline: EPOCH,
            why,
            predecessor,
            key_until: None,
            owner: Owner::default(),
        };
        self.deadline = Deadline(at(seconds + 60.0).steady);
        self.with(seconds, Fact::Reopened(Arc::new(reopened)))
    }

    pub fn at(&self, seconds: f64) -> Action {
        decide(&self.history, &self.policy, self.deadline, at(seconds), 0.0)
    }
}

pub fn finished(a: u32, evidence: Evidence, again: Again) -> Finished {
    Finished {
        a,
        evidence,
        done: None,
        again,
        reason: Reason::ReadTimeout,
        stage: None,
        side: None,
        http: None,
        ms: 1,
        stages: None,
        error: None,
        not_before: None,
        replayed: false,
        slow: false,
        hop: None,
    }
}
