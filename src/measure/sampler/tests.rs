use super::*;
use crate::engine::operation::{Announce, Fingerprint, Guarded, Method, PartnerName, Request};
use crate::engine::proxy::Proxies;
use crate::engine::suggest::executions::Executions;
use crate::engine::suggest::share::Share;
use crate::net::clock::Wall;
use crate::net::{Names, SystemRoots, Tls};
use crate::rehearse::partner::{Act, Partner, Reply, Script, Turn};

const MS: Duration = Duration::from_millis(1);

fn open(samples: u64, interval: Duration, timeout: Duration) -> Plan {
    Plan { pace: Pace::Open { interval }, samples: Some(samples), duration: None, timeout, seed: 7 }
}

fn closed(samples: u64, timeout: Duration) -> Plan {
    Plan { pace: Pace::Closed { jobs: 1, interval: None }, ..open(samples, MS, timeout) }
}

fn serve(after: Duration) -> Turn {
    Turn::not_done(Act::Answer(Reply::json(200, "{}").after(after)))
}

/// Asks for the same, safe or not.
struct Asker {
    tls: Tls,
    operation: Option<(Operation, Chance)>,
    /// For how long nothing goes on when the first operation is asked for: the process is stopped.
    stopped: Duration,
    /// The keys of what has come back.
    back: Vec<IdempotencyKey>,
}

impl Asker {
    fn new(operation: Option<Operation>) -> Asker {
        let operation = operation.map(|operation| (operation, Chance::fixed(7)));
        Asker { tls: Tls::system(SystemRoots::of(None)), operation, stopped: Duration::ZERO, back: Vec::new() }
    }
}

impl Caller for Asker {
    fn wire(&mut self) -> WireSettings {
        WireSettings {
            answer_max_bytes: 1 << 20,
            mask: Mask::default(),
            wall: Wall::System,
            names: Names::default(),
            tls: self.tls.clone(),
            proxies: Proxies::default(),
        }
    }

    fn operation(&mut self) -> Option<Operation> {
        std::thread::sleep(std::mem::take(&mut self.stopped));
        let (operation, chance) = self.operation.as_mut()?;
        Some(Operation { key: chance.key(Timestamp::from_unix_ms(0)), ..operation.clone() })
    }

    fn saw(&mut self, tally: &Tally, ended: Sample<'_>) {
        self.back.extend(ended.key.cloned());
        assert_eq!(tally.executions.all(), self.back.len() as u64);
    }
}

fn subject(method: &str, partner: &Partner) -> Subject {
    let method = Method::new(method).expect("a method");
    Subject {
        url: Secret::new(&partner.url("/ping")),
        headers: Arc::from([]),
        policy: Policy::unprofiled(method, &partner.url("")),
        mask: Mask::default(),
        json: false,
    }
}

async fn run(plan: &Plan, script: Script, interrupt: &Interrupt) -> (Tally, Ended, u32) {
    let partner = Partner::start(script).expect("a free port");
    let (tally, ended) = take(plan, &subject("GET", &partner), &mut Asker::new(None), interrupt).await;
    (tally, ended, partner.stop().await.connections)
}

#[tokio::test]
async fn requests_leave_when_they_are_due_although_one_hangs() {
    let script = Script::first([serve(Duration::ZERO), Turn::not_done(Act::Hang)], serve(Duration::ZERO));
    let plan = open(20, 10 * MS, 300 * MS);
    let (tally, ended, connections) = run(&plan, script, &Interrupt::default()).await;
    assert_eq!((ended, connections, tally.missed), (Ended::Done, 20, 0));
    let read = tally.read.latencies().expect("few samples");
    assert_eq!((read.events(), read.censored()), (19, 1));
    assert!(read.longest_wait() >= 299 * MS, "{:?}", read.longest_wait());
    let found = tally.connect.latencies().expect("few samples");
    assert_eq!(found.events(), 20, "each has a connection of its own");
}

#[tokio::test]
async fn what_is_due_while_too_many_are_under_way_is_missed() {
    let plan = open(12, 10 * MS, 40 * MS);
    assert_eq!(plan.in_flight_max(), 4);
    let (tally, ended, connections) = run(&plan, Script::always(serve(2_000 * MS)), &Interrupt::default()).await;
    assert_eq!(ended, Ended::Done);
    assert!(tally.missed > 0, "nothing was missed");
    assert_eq!(u64::from(connections) + tally.missed, 12);
}

#[tokio::test]
async fn a_closed_loop_waits_for_each_answer() {
    let (tally, ended, connections) =
        run(&closed(10, 500 * MS), Script::always(serve(5 * MS)), &Interrupt::default()).await;
    assert_eq!((ended, connections, tally.ended()), (Ended::Done, 10, 10));
    let seen = tally.seen(Pacing::Closed).expect("few samples");
    assert!(seen.read.value(Share::P50).is_ok_and(|median| median >= 5 * MS), "{seen:?}");
    assert_eq!(seen.lag, None);
}

#[tokio::test]
async fn five_failures_in_a_row_end_a_run_and_keep_what_was_measured() {
    let fine = || serve(Duration::ZERO);
    let turns: Vec<Turn> = (0..30).map(|_| fine()).collect();
    let script = Script::first(turns, Turn::not_done(Act::Answer(Reply::status(500))));
    let (tally, ended, connections) = run(&closed(100, 500 * MS), script, &Interrupt::default()).await;
    assert_eq!((ended, connections), (Ended::FailedInARow(5), 35));
    assert_eq!((tally.samples(), tally.failures.server_error), (30, 5));
}

#[tokio::test]
async fn a_quarter_of_failures_at_first_ends_a_run() {
    let failing = Turn::not_done(Act::Answer(Reply::status(404)));
    let turns: Vec<Turn> = (0..20).map(|n| if n % 2 == 0 { failing.clone() } else { serve(Duration::ZERO) }).collect();
    let (tally, ended, _) = run(&closed(100, 500 * MS), Script::first(turns, failing), &Interrupt::default()).await;
    assert_eq!((ended, tally.failures.client_error), (Ended::FailedAtFirst(5), 5));
}

#[tokio::test]
async fn a_429_pauses_and_slows_down() {
    let limited = Turn::not_done(Act::Answer(Reply::status(429).header("Retry-After", "1")));
    let script = Script::first([serve(Duration::ZERO), limited], serve(Duration::ZERO));
    let start = Instant::now();
    let (tally, ended, connections) = run(&open(6, 20 * MS, 500 * MS), script, &Interrupt::default()).await;
    assert_eq!((ended, connections, tally.failures.limited), (Ended::Done, 6, 1));
    assert!(start.elapsed() >= 1_000 * MS, "{:?}", start.elapsed());
}

#[tokio::test]
async fn a_partner_that_wants_to_be_left_alone_for_long_is() {
    let limited = Turn::not_done(Act::Answer(Reply::status(503).header("Retry-After", "7200")));
    let (_, ended, connections) = run(&closed(9, 500 * MS), Script::always(limited), &Interrupt::default()).await;
    assert_eq!((ended, connections), (Ended::LeftAlone(Duration::from_secs(7_200)), 1));
}

#[tokio::test]
async fn an_interruption_keeps_what_was_measured_and_calls_off_what_hangs() {
    let script = Script::first([serve(Duration::ZERO), serve(Duration::ZERO)], Turn::not_done(Act::Hang));
    let interrupt = Interrupt::default();
    let bell = interrupt.clone();
    tokio::spawn(async move {
        tokio::time::sleep(200 * MS).await;
        bell.set();
    });
    let start = Instant::now();
    let (tally, ended, _) = run(&closed(100, Duration::from_secs(60)), script, &interrupt).await;
    assert!(start.elapsed() < Duration::from_secs(5));
    assert_eq!(ended, Ended::Interrupted);
    let whole = tally.whole.latencies().expect("few samples");
    assert_eq!((whole.events(), whole.censored()), (2, 1));
    assert!(whole.longest_wait() >= 50 * MS);
    let seen = tally.seen(Pacing::Closed).expect("few samples");
    assert_eq!((seen.called_off, seen.given_up()), (1, 0), "its own time was not over");
}

#[tokio::test]
async fn a_duration_ends_a_run_without_a_number_of_samples() {
    let plan = Plan { samples: None, duration: Some(100 * MS), ..open(1, 10 * MS, 500 * MS) };
    assert_eq!(plan.expected(), Some(100 * MS));
    let (tally, ended, _) = run(&plan, Script::always(serve(Duration::ZERO)), &Interrupt::default()).await;
    assert_eq!((ended, tally.ended() + tally.missed), (Ended::Done, 10));
}

#[tokio::test]
async fn a_closed_loop_sends_nothing_after_its_duration() {
    for interval in [None, Some(10 * MS)] {
        let pace = Pace::Closed { jobs: 2, interval };
        let plan = Plan { pace, samples: None, duration: Some(100 * MS), ..closed(1, 2_000 * MS) };
        let (tally, ended, _) = run(&plan, Script::always(serve(300 * MS)), &Interrupt::default()).await;
        assert_eq!((ended, tally.ended()), (Ended::Done, 2), "{interval:?}");
    }
}

#[test]
fn a_plan_knows_how_many_requests_it_makes_at_most() {
    let plan = open(30, 10 * MS, 500 * MS);
    for (plan, most) in [
        (plan, Some(30)),
        (Plan { duration: Some(105 * MS), ..plan }, Some(11)),
        (Plan { duration: Some(105 * MS), samples: None, ..plan }, Some(11)),
        (Plan { duration: Some(900 * MS), ..plan }, Some(30)),
        (Plan { duration: Some(105 * MS), samples: None, ..closed(1, MS) }, None),
    ] {
        assert_eq!(plan.most(), most, "{plan:?}");
    }
}

/// Takes samples that the partner executes; `signal_after` is when a signal comes.
async fn run_operations(plan: &Plan, script: Script, signal_after: Option<Duration>) -> (Tally, Ended, Asker, u32) {
    run_stopped(plan, script, signal_after, Duration::ZERO).await
}

async fn run_stopped(
    plan: &Plan,
    script: Script,
    signal_after: Option<Duration>,
    stopped: Duration,
) -> (Tally, Ended, Asker, u32) {
    let partner = Partner::start(script).expect("a free port");
    let body: Arc<[u8]> = Arc::from(&b"{}"[..]);
    let (method, url) = (Method::new("POST").expect("a method"), Guarded::plain(&partner.url("/ping")));
    let operation = Operation {
        partner: PartnerName::new("partner").expect("a name"),
        key: IdempotencyKey::new("k-1", 255).expect("a key"),
        fingerprint: Fingerprint("".into()),
        request: Arc::new(Request { method, url, headers: Vec::new(), body }),
        status_headers: Arc::from([]),
        announce: Announce::default(),
    };
    let (interrupt, mut asker) = (Interrupt::default(), Asker { stopped, ..Asker::new(Some(operation)) });
    let bell = interrupt.clone();
    if let Some(after) = signal_after {
        tokio::spawn(async move {
            tokio::time::sleep(after).await;
            bell.set();
        });
    }
    let (tally, ended) = take(plan, &subject("POST", &partner), &mut asker, &interrupt).await;
    let seen = partner.stop().await;
    assert!(seen.requests.iter().all(|request| request.body == b"{}"));
    (tally, ended, asker, seen.whole)
}

#[tokio::test]
async fn operations_are_counted_by_what_became_of_them() {
    let answer = |status| Turn::not_done(Act::Answer(Reply::status(status)));
    let turns = [answer(201), answer(202), answer(422), answer(409), Turn::not_done(Act::Hang), answer(200)];
    let script = Script::first(turns, answer(201));
    let (tally, ended, asker, whole) = run_operations(&closed(8, 200 * MS), script, None).await;
    assert_eq!((ended, whole, tally.executions.all()), (Ended::Done, 8, 8));
    let Executions { confirmed, accepted, rejected, not_done, in_doubt, unanswered } = tally.executions;
    assert_eq!((confirmed, accepted, rejected, not_done, in_doubt, unanswered), (4, 1, 1, 0, 2, 1));
    let keys: std::collections::HashSet<_> = asker.back.iter().collect();
    assert_eq!(keys.len(), 8, "each is an operation of its own");
    assert_eq!((tally.samples(), tally.failures.client_error), (6, 2));
}

#[tokio::test]
async fn an_interruption_waits_for_operations_that_cannot_be_called_back() {
    let script = Script::first([serve(Duration::ZERO)], serve(400 * MS));
    let (tally, ended, asker, whole) = run_operations(&closed(100, 5_000 * MS), script, Some(200 * MS)).await;
    assert_eq!((ended, whole, asker.back.len()), (Ended::Interrupted, 2, 2), "nothing new is sent");
    assert_eq!((tally.executions.confirmed, tally.executions.all()), (2, 2));
    assert_eq!(tally.whole.latencies().expect("few samples").censored(), 0, "none was called off");
}

#[tokio::test]
async fn operations_that_were_due_while_nothing_went_on_do_not_leave_at_once() {
    let (plan, script) = (open(10, 20 * MS, 500 * MS), || Script::always(serve(Duration::ZERO)));
    let start = Instant::now();
    let (tally, ended, _, whole) = run_stopped(&plan, script(), None, 400 * MS).await;
    assert_eq!((ended, whole, tally.missed), (Ended::Done, 10, 0));
    assert!(start.elapsed() >= (400 + 7 * 20) * MS, "the rate holds: {:?}", start.elapsed());
    let plan = Plan { duration: Some(200 * MS), ..plan };
    let (_, ended, _, whole) = run_stopped(&plan, script(), None, 400 * MS).await;
    assert_eq!((ended, whole), (Ended::Done, 1), "what was due before the end does not leave after it");
}

#[tokio::test]
#[should_panic(expected = "a person's word")]
async fn what_may_be_executed_is_not_sent_as_a_question() {
    let partner = Partner::start(Script::always(serve(Duration::ZERO))).expect("a free port");
    take(&closed(1, 500 * MS), &subject("POST", &partner), &mut Asker::new(None), &Interrupt::default()).await;
}
