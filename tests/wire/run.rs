//! One run of one operation, and everything there is to know about it.

use crate::secure::{ISSUER, Identity};
use abide::drive::{self, Claimed, EntryRule, Event, Observer, Patience, Ports, Terms, Wish};
use abide::engine::backoff::{Backoff, Jitter};
use abide::engine::deadline::Deadline;
use abide::engine::exchange::{Answer, Ending, Exchange, Fault, Outcome, Sent, Stage};
use abide::engine::facts::{Asked, Finished, Opened, Owner, StoredBody, Why};
use abide::engine::moment::Now;
use abide::engine::operation::{
    Announce, Fingerprint, Guarded, Header, IdempotencyKey, Method, Operation, PartnerName, Request,
};
use abide::engine::policy::{Idempotency, Policy, RetryPolicy, Timeouts};
use abide::engine::proxy::Proxies;
use abide::engine::secret::Mask;
use abide::engine::verdict::{Cause, Verdict};
use abide::net::chance::Chance;
use abide::net::clock::{Interrupt, SystemClock, Wall};
use abide::net::{Names, Reuse, SystemRoots, Tls, TlsFile, TlsFiles, Wire, WireSettings};
use abide::store::memory::Memory;
use std::sync::Arc;
use std::time::Duration;

pub const KEY: &str = "key-1";
pub const PAYLOAD: &[u8] = b"{\"amount\":7}";

/// Limits that make a hostile partner cheap: each stage ends within a fifth of a second.
pub const LIMITS: Timeouts = Timeouts {
    connect: Duration::from_millis(200),
    write: Duration::from_millis(150),
    read: Duration::from_millis(150),
    body: Duration::from_millis(150),
    attempt: Duration::from_millis(500),
    overall: Duration::from_secs(3),
};

/// A POST of a small JSON document with a key that nobody promised to honour.
pub struct Sending {
    pub policy: Policy,
    pub key: String,
    pub url: String,
    pub body: Vec<u8>,
    pub names: Names,
    pub proxies: Proxies,
    pub announce: Announce,
    pub mask: Mask,
    pub tls: Tls,
}

/// Trusts the issuer of the tests, and shows nothing.
pub fn trusting() -> Tls {
    Tls::of(&TlsFiles { ca: Some(issuer()), ..TlsFiles::default() }, SystemRoots::default()).expect("a certificate")
}

/// Trusts a certificate, be it an issuer's or not.
pub fn trusting_alone(identity: &Identity) -> Tls {
    let ca = Some(TlsFile { name: "ca".into(), bytes: identity.cert.pem().into_bytes().into() });
    Tls::of(&TlsFiles { ca, ..TlsFiles::default() }, SystemRoots::default()).expect("a certificate")
}

/// Trusts the same, and shows a certificate.
pub fn showing(identity: &Identity) -> Tls {
    let file = |text: String| Some(TlsFile { name: "file".into(), bytes: text.into_bytes().into() });
    let (cert, key) = (file(identity.cert.pem()), file(identity.key.serialize_pem()));
    let files = TlsFiles { ca: Some(issuer()), cert, key, password: None };
    Tls::of(&files, SystemRoots::default()).expect("a certificate and its key")
}

fn issuer() -> TlsFile {
    TlsFile { name: "ca".into(), bytes: ISSUER.pem().into_bytes().into() }
}

impl Sending {
    pub fn post(url: &str) -> Sending {
        Sending::of("POST", url)
    }

    pub fn of(method: &str, url: &str) -> Sending {
        let method = Method::new(method).expect("a method");
        let origin = abide::engine::location::origin(url).expect("an absolute URL");
        let backoff =
            Backoff { base: Duration::from_millis(10), cap: Duration::from_millis(40), jitter: Jitter::Equal };
        let policy = Policy {
            timeouts: LIMITS,
            retry: RetryPolicy { max_attempts: 3, backoff, ..RetryPolicy::default() },
            min_attempt: Duration::from_millis(10),
            ..Policy::unprofiled(method, &origin.to_string())
        };
        Sending {
            policy,
            key: KEY.into(),
            url: url.into(),
            body: PAYLOAD.into(),
            names: Names::default(),
            proxies: Proxies::default(),
            announce: Announce::default(),
            mask: Mask::default(),
            tls: trusting(),
        }
    }

    /// The partner honours the key.
    pub fn keyed(mut self) -> Sending {
        self.policy.idempotency = Idempotency {
            supported: true,
            replay_marker: Some(("Idempotent-Replayed".into(), "true".into())),
            ..Idempotency::default()
        };
        self
    }

    pub fn key(mut self, key: &str) -> Sending {
        self.key = key.into();
        self
    }

    pub fn body(mut self, bytes: usize) -> Sending {
        self.body = vec![b'x'; bytes];
        self
    }

    pub fn with(mut self, change: impl FnOnce(&mut Policy)) -> Sending {
        change(&mut self.policy);
        self
    }

    fn operation(&self) -> Operation {
        let header = |name: &str, value: &str| Header { name: name.into(), value: Guarded::plain(value) };
        Operation {
            partner: PartnerName::new("partner").expect("a name"),
            key: IdempotencyKey::new(&self.key, 255).expect("a key"),
            fingerprint: Fingerprint("v1:0".into()),
            request: Arc::new(Request {
                method: self.policy.method.clone(),
                url: Guarded::plain(&self.url),
                headers: vec![header("Content-Type", "application/json"), header("Idempotency-Key", &self.key)],
                body: self.body.as_slice().into(),
            }),
            status_headers: Arc::new([]),
            announce: self.announce.clone(),
        }
    }

    fn wish(&self, operation: &Operation, now: Now) -> Wish {
        let idempotency = &self.policy.idempotency;
        let opened = Opened {
            partner: operation.partner.clone(),
            profile: None,
            account: None,
            method: self.policy.method.as_str().into(),
            url: self.url.as_str().into(),
            headers: Vec::new(),
            fp: operation.fingerprint.clone(),
            body: StoredBody::Text("".into()),
            contract: idempotency.contract().into(),
            key_until: idempotency.supported.then(|| now.wall.after(idempotency.trusted_for())),
            valid_until: None,
            tls: None,
            deadline: now.wall.after(self.policy.timeouts.overall),
            why: Why::Send,
            owner: Owner::default(),
        };
        let entry = EntryRule::Keyed;
        Wish { key: operation.key.clone(), opened: Arc::new(opened), body: Arc::clone(&operation.request.body), entry }
    }

    fn settings(&self) -> WireSettings {
        WireSettings {
            answer_max_bytes: self.policy.sizes.response_bytes,
            mask: self.mask.clone(),
            wall: Wall::System,
            names: self.names.clone(),
            tls: self.tls.clone(),
            proxies: self.proxies.clone(),
        }
    }

    /// Runs the operation to its verdict, with connections of its own.
    pub async fn run(self) -> Ran {
        self.run_over(&mut Wire::new(self.settings()), None).await
    }

    /// Runs the operation to its verdict as a worker does that serves one after the other.
    pub async fn run_on(self, wire: &mut Wire) -> Ran {
        self.run_over(wire, Some(self.settings())).await
    }

    /// Returns a worker's transport.
    pub fn worker(&self) -> Wire {
        Wire::new(self.settings())
    }

    async fn run_over(&self, wire: &mut Wire, serve: Option<WireSettings>) -> Ran {
        let operation = self.operation();
        let mut clock = SystemClock::new(Wall::System, Interrupt::default());
        let begun = drive::Clock::now(&clock);
        let wish = self.wish(&operation, begun);
        let claimed = drive::claim(&mut Memory::default(), &wish, &mut clock, Patience::None).await;
        let Ok(Claimed::Ours(mut claim, mut history)) = claimed else { panic!("a fresh key is ours") };
        let deadline = Deadline(begun.steady.after(self.policy.timeouts.overall));
        let terms = Terms { policy: &self.policy, deadline, mask: &self.mask };
        if let Some(settings) = serve {
            wire.serve(settings, Reuse::of(&history, &self.policy, begun));
        }
        let mut watched = Watched::default();
        let (mut entropy, observer) = (Chance::fixed(1), &mut watched);
        let ports = Ports { transport: wire, clock: &mut clock, entropy: &mut entropy, observer };
        let ended = drive::run(&mut claim, &mut history, &operation, &terms, ports).await.expect("memory never fails");
        let took = drive::Clock::now(&clock).steady.since(begun.steady);
        Ran {
            verdict: ended.settled.verdict,
            cause: ended.settled.cause,
            attempts: watched.attempts,
            asked: watched.asked,
            took,
        }
    }
}

#[derive(Default)]
struct Watched {
    attempts: Vec<(Finished, Exchange)>,
    asked: Vec<Asked>,
}

impl Observer for Watched {
    fn saw(&mut self, _: Now, event: Event<'_>) {
        match event {
            Event::Finished { finished, exchange } => self.attempts.push((finished.clone(), exchange.clone())),
            Event::Asked(asked) => self.asked.push(asked.clone()),
            _ => {}
        }
    }
}

/// What a run came to.
pub struct Ran {
    pub verdict: Verdict,
    pub cause: Cause,
    pub attempts: Vec<(Finished, Exchange)>,
    pub asked: Vec<Asked>,
    pub took: Duration,
}

impl Ran {
    /// The first attempt's exchange.
    pub fn first(&self) -> &Exchange {
        &self.attempts[0].1
    }

    /// How the first attempt stayed without an answer.
    pub fn unanswered(&self) -> (Sent, Stage, Fault) {
        match &self.first().outcome {
            Outcome::Unanswered { sent, stage, fault } => (*sent, *stage, *fault),
            Outcome::Answered(answer) => panic!("answered {} {:?}", answer.status, answer.ending),
        }
    }

    /// The first attempt's answer.
    pub fn answer(&self) -> &Answer {
        match &self.first().outcome {
            Outcome::Answered(answer) => answer,
            Outcome::Unanswered { sent, stage, fault } => {
                panic!("{sent:?} {stage} {fault:?}: {:?}", self.first().error)
            }
        }
    }

    /// The first attempt's status and how its body ended.
    pub fn status(&self) -> (u16, Ending) {
        (self.answer().status, self.answer().ending)
    }

    /// Asserts that the run took at least `least`, and less than ten times that or a second.
    pub fn took_about(&self, least: Duration) {
        assert!(self.took >= least, "ended early: {:?} of {least:?}", self.took);
        assert!(self.took < (least * 10).max(Duration::from_secs(1)), "ended late: {:?} of {least:?}", self.took);
    }
}
