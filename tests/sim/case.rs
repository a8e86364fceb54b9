//! What a seed chooses before anything runs: the profile, and the truth about the partner that the profile tells.

use crate::chance::Chance;
use abide::engine::backoff::{Backoff, Jitter};
use abide::engine::json::Pointer;
use abide::engine::operation::Method;
use abide::engine::policy::{
    BodyRule, ClassifyRules, Control, Idempotency, KeyFormat, KeyPlace, Means, Policy, RetryPolicy, Rule, Sizes,
    StatusPolicy, StatusRule, Timeouts, UrlPart, UrlTemplate, ValueRule,
};
use std::sync::Arc;
use std::time::Duration;

/// Where everything is sent.
pub const ORIGIN: &str = "http://partner.test:80";
/// The key of an operation that the partner has surely carried out.
pub const CONTROL_KEY: &str = "control-1";

/// What the partner does with idempotency keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keys {
    /// It does not look at them.
    Ignored,
    /// It locks a key while it works on it and keeps the result.
    Locked,
    /// The same, and a 500 of its own is a result too.
    LockedStoresFailures,
    /// It remembers successes only once they are there: two requests at the same time both run.
    SuccessesOnly,
}

/// How the status endpoint lies, beyond its lag.
#[derive(Clone, Copy, Debug)]
pub struct Endpoint {
    /// The profile's address is wrong: 404 whatever is asked.
    pub misrouted: bool,
    /// Somebody else's resource answers to our key.
    pub squatter: bool,
    /// It tells of work in progress; otherwise such work reads as absent.
    pub shows_running: bool,
}

/// The truth about the partner. What the profile states of it is never better than this.
#[derive(Clone, Debug)]
pub struct Truth {
    /// What it does with keys.
    pub keys: Keys,
    /// Each of its addresses remembers keys for itself.
    pub regional: bool,
    /// How long it remembers a key.
    pub retention: Duration,
    /// It knows an order by its content: the second one gets 409 `duplicate_order`.
    pub natural: bool,
    /// It mostly answers that it has moved, on the same origin.
    pub moves: bool,
    /// The longest that it works on a request.
    pub takes: Duration,
    /// The longest that a request stays under way after we gave it up.
    pub late: Duration,
    /// The longest until the status endpoint knows of what happened.
    pub lag: Duration,
    /// The status endpoint.
    pub endpoint: Endpoint,
}

/// How bad the days are, each in percent of the chances for it.
#[derive(Clone, Copy, Debug)]
pub struct Weather {
    /// Exchanges that go wrong.
    pub faults: u64,
    /// Commands that die on the way.
    pub crashes: u64,
    /// Waits and exchanges in which the wall clock steps.
    pub steps: u64,
    /// Waits and exchanges in which the machine sleeps or a signal comes.
    pub disturbances: u64,
    /// Commands that find a full disk on the way.
    pub full_disks: u64,
}

/// Nothing goes wrong.
pub const FAIR: Weather = Weather { faults: 0, crashes: 0, steps: 0, disturbances: 0, full_disks: 0 };

/// What the people of a story tend to do, each in percent of the chances for it.
#[derive(Clone, Copy, Debug)]
pub struct Habits {
    /// Commands after the first that are `replay`, not `send`.
    pub replays: u64,
    /// Commands with `--accept-duplicate`.
    pub rash: u64,
    /// Times between two commands in which somebody says what became of it.
    pub words: u64,
    /// Commands that stand still while they wait for an answer, long enough to be taken for dead.
    pub stalls: u64,
    /// Times between two commands in which somebody writes the same resource.
    pub later_writes: u64,
}

/// Everything that a seed chooses beforehand.
#[derive(Clone, Debug)]
pub struct Case {
    /// What the profile says.
    pub policy: Arc<Policy>,
    /// What is so.
    pub truth: Truth,
    /// `send` without a key.
    pub keyless: bool,
    /// `--valid-for`.
    pub valid_for: Option<Duration>,
    /// The weather until it clears.
    pub weather: Weather,
    /// What people do.
    pub habits: Habits,
}

impl Case {
    /// Draws a case.
    pub fn draw(chance: &mut Chance) -> Case {
        let method = chance.pick(&["POST", "POST", "POST", "PATCH", "PUT", "DELETE", "GET"]);
        let supported = chance.odds(50);
        let keys = match (supported, chance.below(4)) {
            (false, _) => Keys::Ignored,
            (true, 0 | 1) => Keys::Locked,
            (true, 2) => Keys::LockedStoresFailures,
            (true, _) => Keys::SuccessesOnly,
        };
        let status = chance.odds(55).then(|| status(chance));
        let natural = chance.odds(15);
        let mut policy = Policy::unprofiled(Method::new(method).expect("a token"), ORIGIN);
        policy.timeouts = timeouts(chance);
        policy.retry = retry(chance);
        policy.idempotency = idempotency(chance, supported, keys);
        policy.success = chance.odds(30).then(|| BodyRule {
            content_type: Some("application/json".into()),
            value: Some(value("/state", &["done", "created"])),
        });
        policy.classify = classify(chance, natural);
        policy.min_attempt = chance.pick(&[1, 50, 250].map(Duration::from_millis));
        policy.sizes = Sizes::default();
        policy.status = status;
        policy.follow = policy.method.is_safe() && chance.odds(60);
        let truth = truth(chance, &policy, keys, natural);
        Case {
            truth,
            keyless: chance.odds(20),
            valid_for: chance.odds(12).then(|| chance.magnitude(200, 3_600_000)),
            weather: weather(chance),
            habits: habits(chance),
            policy: Arc::new(policy),
        }
    }

    /// Returns whether every execution beyond the first is a broken promise.
    ///
    /// A repeated PUT or DELETE leaves the partner as one does, so only POST and PATCH count strictly.
    pub fn counts_executions(&self) -> bool {
        !self.policy.method.is_idempotent()
    }
}

fn timeouts(chance: &mut Chance) -> Timeouts {
    Timeouts {
        connect: chance.magnitude(100, 3_000),
        write: chance.magnitude(200, 5_000),
        read: chance.magnitude(100, 15_000),
        body: chance.magnitude(200, 10_000),
        attempt: chance.magnitude(300, 20_000),
        overall: chance.magnitude(300, 150_000),
    }
}

fn retry(chance: &mut Chance) -> RetryPolicy {
    let base = chance.magnitude(50, 2_000);
    let backoff = Backoff {
        base,
        cap: base + chance.magnitude(2_000, 300_000),
        jitter: chance.pick(&[Jitter::Equal, Jitter::Full]),
    };
    RetryPolicy {
        max_attempts: chance.between(1, 6) as u32,
        backoff,
        max_retry_after: chance.pick(&[Duration::from_secs(2), Duration::from_secs(60), Duration::from_secs(3_600)]),
    }
}

fn idempotency(chance: &mut Chance, supported: bool, keys: Keys) -> Idempotency {
    let hour = Duration::from_secs(3_600);
    let settle = if keys == Keys::SuccessesOnly { chance.magnitude(2_000, 30_000) } else { Duration::ZERO };
    Idempotency {
        supported,
        place: KeyPlace::Header(Some("Idempotency-Key".into())),
        format: KeyFormat::Raw,
        max_len: 255,
        retention: chance.pick(&[None, Some(hour), Some(24 * hour)]),
        replay_marker: chance.odds(40).then(|| ("idempotent-replayed".into(), "true".into())),
        settle,
    }
}

fn classify(chance: &mut Chance, natural: bool) -> ClassifyRules {
    let duplicate = Rule {
        status: Some(409),
        header: None,
        value: Some(value("/error/code", &["duplicate_order"])),
        means: Means::Confirmed,
    };
    ClassifyRules {
        refused: if chance.odds(30) { vec![503] } else { Vec::new() },
        retry_in_doubt: if chance.odds(30) { vec![500] } else { Vec::new() },
        in_progress: if !natural && chance.odds(30) { vec![409] } else { Vec::new() },
        rules: if natural && chance.odds(60) { vec![duplicate] } else { Vec::new() },
        trust_proxy_status: chance.odds(40),
    }
}

fn status(chance: &mut Chance) -> StatusPolicy {
    let absent = StatusRule { statuses: vec![404], value: None, same: Vec::new() };
    let by_body = StatusRule { value: Some(value("/error/code", &["not_found"])), ..absent.clone() };
    let says =
        |state: &str| StatusRule { statuses: Vec::new(), value: Some(value("/state", &[state])), same: Vec::new() };
    let same = if chance.odds(60) { vec![pointer("/amount")] } else { Vec::new() };
    StatusPolicy {
        method: "GET".into(),
        url: UrlTemplate(vec![UrlPart::Text(format!("{ORIGIN}/by-ref/").into()), UrlPart::Key]),
        confirmed: StatusRule { same, ..says("done") },
        rejected: chance.odds(60).then(|| says("rejected")),
        in_progress: chance.odds(60).then(|| says("processing")),
        absent: match chance.below(5) {
            0 => None,
            1 | 2 => Some(absent),
            _ => Some(by_body),
        },
        control: chance.odds(50).then(|| Control {
            key: CONTROL_KEY.into(),
            body: Arc::from([].as_slice()),
            answer: None,
            location: None,
        }),
        settle: chance.odds(75).then(|| chance.magnitude(2_000, 60_000)),
    }
}

/// Draws a partner for which everything that `policy` states is true.
fn truth(chance: &mut Chance, policy: &Policy, keys: Keys, natural: bool) -> Truth {
    let hour = Duration::from_secs(3_600);
    // Where it is not stated, a clock that is off by less than a twentieth must do no harm either.
    let retention = policy.idempotency.retention.unwrap_or(hour + hour / 20);
    let settle = policy.status.as_ref().and_then(|status| status.settle);
    let key_settle = Some(policy.idempotency.settle).filter(|_| keys == Keys::SuccessesOnly);
    // Work, lateness and lag together stay inside every `settle`; nothing stays under way for 4 % of the retention.
    let share = |whole: Duration| whole * 3 / 10;
    let unbounded = chance.pick(&[Duration::from_secs(2), Duration::from_secs(30), hour]);
    let bound = [settle, key_settle].into_iter().flatten().map(share).min().unwrap_or(unbounded);
    let same = policy.status.as_ref().is_some_and(|status| !status.confirmed.same.is_empty());
    Truth {
        keys,
        regional: chance.odds(25),
        retention: if chance.odds(70) { retention } else { 2 * retention },
        natural,
        moves: chance.odds(3),
        takes: bound.min(retention / 50),
        late: bound.min(retention / 50),
        lag: settle.map_or(unbounded, share),
        endpoint: Endpoint {
            misrouted: chance.odds(10),
            squatter: same && chance.odds(12),
            shows_running: chance.odds(50),
        },
    }
}

fn weather(chance: &mut Chance) -> Weather {
    Weather {
        faults: chance.pick(&[10, 40, 70, 100]),
        crashes: chance.pick(&[0, 0, 50, 90]),
        steps: chance.pick(&[0, 0, 0, 40]),
        disturbances: chance.pick(&[0, 0, 0, 5]),
        full_disks: chance.pick(&[0, 0, 0, 15]),
    }
}

fn habits(chance: &mut Chance) -> Habits {
    Habits {
        replays: chance.pick(&[0, 30, 60, 100]),
        rash: chance.pick(&[0, 0, 0, 0, 40]),
        words: chance.pick(&[0, 0, 0, 40]),
        stalls: chance.pick(&[0, 0, 50]),
        later_writes: chance.pick(&[0, 0, 0, 40]),
    }
}

fn pointer(text: &str) -> Pointer {
    Pointer::new(text).expect("a pointer")
}

fn value(at: &str, equals: &[&str]) -> ValueRule {
    ValueRule { pointer: pointer(at), equals: equals.iter().map(|text| (*text).into()).collect() }
}
