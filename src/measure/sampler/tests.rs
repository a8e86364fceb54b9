use super::*;
use crate::engine::operation::Method;
use crate::engine::proxy::Proxies;
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

async fn run(plan: &Plan, script: Script, interrupt: &Interrupt) -> (Tally, Ended, u32) {
    let partner = Partner::start(script).expect("a free port");
    let method = Method::new("GET").expect("a method");
    let subject = Subject {
        url: Secret::new(&partner.url("/ping")),
        headers: Arc::from([]),
        policy: Policy::unprofiled(method, &partner.url("")),
        mask: Mask::default(),
        json: false,
    };
    let tls = Tls::system(SystemRoots::of(None));
    let settings = || WireSettings {
        answer_max_bytes: 1 << 20,
        mask: Mask::default(),
        wall: Wall::System,
        names: Names::default(),
        tls: tls.clone(),
        proxies: Proxies::default(),
    };
    let (tally, ended) = take(plan, &subject, &settings, interrupt, &mut |_, _, _| ()).await;
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
async fn an_interruption_keeps_what_was_measured_and_counts_what_hangs_as_given_up() {
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
}

#[tokio::test]
async fn a_duration_ends_a_run_without_a_number_of_samples() {
    let plan = Plan { samples: None, duration: Some(100 * MS), ..open(1, 10 * MS, 500 * MS) };
    assert_eq!(plan.expected(), Some(100 * MS));
    let (tally, ended, _) = run(&plan, Script::always(serve(Duration::ZERO)), &Interrupt::default()).await;
    assert_eq!((ended, tally.ended() + tally.missed), (Ended::Done, 10));
}
