//! Whole operations: what is sent again, what never is, and what the partner saw of it.

use crate::run::{KEY, LIMITS, PAYLOAD, Sending};
use abide::engine::exchange::{Fault, Limit, Sent, Stage};
use abide::engine::operation::Announce;
use abide::engine::policy::{Means, Rule, ValueRule};
use abide::engine::verdict::{Evidence, Verdict};
use abide::net::Names;
use abide::rehearse::partner::{Act, Door, Partner, Reply, Script, Turn};
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

fn answers(reply: Reply) -> Turn {
    Turn::not_done(Act::Answer(reply))
}

fn start(script: Script) -> Partner {
    Partner::start(script).expect("starts")
}

#[tokio::test]
async fn what_was_not_sent_is_sent_again_and_executed_once() {
    for act in [Act::AcceptFin, Act::AcceptRst, Act::Unsolicited408] {
        let partner = start(Script::first([Turn::not_done(act.clone())], Turn::fine()));
        let ran = Sending::post(&partner.url("/pay")).run().await;
        let seen = partner.stop().await;
        assert_eq!(ran.attempts[0].0.evidence, Evidence::NotSent, "{act:?}");
        assert_eq!((ran.verdict, ran.attempts.len()), (Verdict::Confirmed, 2));
        assert_eq!((seen.connections, seen.whole, seen.executions), (2, 1, 1));
    }
}

#[tokio::test]
async fn a_lost_answer_without_a_protecting_key_is_never_sent_again() {
    for act in [Act::Fin, Act::Rst, Act::Hang, Act::CutBody] {
        let partner = start(Script::first([Turn::done(act)], Turn::fine()));
        let ran = Sending::post(&partner.url("/pay")).run().await;
        let seen = partner.stop().await;
        assert_eq!((ran.verdict, ran.attempts.len()), (Verdict::InDoubt, 1));
        assert_eq!((seen.connections, seen.whole, seen.executions), (1, 1, 1));
    }
}

#[tokio::test]
async fn a_lost_answer_with_a_protecting_key_is_fetched_with_the_same_key() {
    for act in [Act::Fin, Act::Rst, Act::Hang, Act::CutBody] {
        let partner = start(Script::first([Turn::done(act)], Turn::fine()).honouring_keys());
        let ran = Sending::post(&partner.url("/pay")).keyed().run().await;
        let seen = partner.stop().await;
        assert_eq!((ran.verdict, ran.attempts.len()), (Verdict::Confirmed, 2));
        assert!(ran.attempts[1].0.replayed);
        assert_eq!((seen.connections, seen.whole, seen.executions), (2, 2, 1));
        for request in &seen.requests {
            assert_eq!((request.key(), &*request.body), (Some(KEY), PAYLOAD));
        }
    }
}

#[tokio::test]
async fn every_attempt_has_a_connection_of_its_own() {
    let partner = start(Script::first([answers(Reply::status(503)), answers(Reply::status(503))], Turn::fine()));
    let ran = Sending::post(&partner.url("/pay")).with(|p| p.classify.refused = vec![503]).run().await;
    let seen = partner.stop().await;
    assert_eq!((ran.verdict, ran.attempts.len()), (Verdict::Confirmed, 3));
    assert_eq!((seen.connections, seen.heads, seen.whole, seen.executions), (3, 3, 3, 1));
}

#[tokio::test]
async fn a_gateways_answer_is_sent_again_only_with_a_protecting_key() {
    for status in [502, 503, 504] {
        let script = || Script::first([answers(Reply::status(status).header("Retry-After", "0"))], Turn::fine());
        let partner = start(script());
        let ran = Sending::post(&partner.url("/pay")).run().await;
        assert_eq!((ran.verdict, partner.stop().await.whole), (Verdict::InDoubt, 1), "{status}");
        let partner = start(script());
        let ran = Sending::post(&partner.url("/pay")).keyed().run().await;
        let seen = partner.stop().await;
        assert_eq!((ran.verdict, seen.whole), (Verdict::Confirmed, 2), "{status}");
        assert_eq!(seen.requests[0].key(), seen.requests[1].key());
    }
}

#[tokio::test]
async fn a_later_refusal_does_not_take_the_doubt_away() {
    let later = [
        answers(Reply::status(401)),
        answers(Reply::status(400)),
        answers(Reply::status(403)),
        Turn::not_done(Act::AcceptRst),
    ];
    for turn in later {
        let partner = start(Script::first([Turn::done(Act::Fin)], turn.clone()));
        let ran = Sending::post(&partner.url("/pay")).keyed().run().await;
        assert_eq!(ran.verdict, Verdict::InDoubt, "{turn:?}");
        assert!(ran.attempts.len() >= 2);
        assert_eq!(partner.stop().await.executions, 1);
    }
}

#[tokio::test]
async fn a_partner_that_is_gone_after_a_doubt_leaves_it() {
    let partner = start(Script::always(Turn::done(Act::Fin)));
    let url = partner.url("/pay");
    let (ran, seen) = tokio::join!(Sending::post(&url).keyed().with(|p| p.retry.backoff.base *= 4).run(), async {
        while partner.seen().executions == 0 {
            tokio::task::yield_now().await;
        }
        partner.stop().await
    });
    assert_eq!((ran.verdict, seen.executions), (Verdict::InDoubt, 1));
    assert_eq!(ran.attempts[1].0.evidence, Evidence::NotSent);
}

#[tokio::test]
async fn a_delete_whose_repeat_finds_nothing_is_confirmed() {
    let partner = start(Script::first([Turn::done(Act::Fin)], answers(Reply::status(404))));
    let ran = Sending::of("DELETE", &partner.url("/orders/1")).run().await;
    assert_eq!((ran.verdict, partner.stop().await.whole), (Verdict::Confirmed, 2));
}

#[tokio::test]
async fn a_redirect_of_a_post_to_elsewhere_reaches_nobody() {
    for status in [301, 302, 303, 307, 308] {
        let other = start(Script::always(Turn::fine()));
        let partner = start(Script::always(answers(Reply::redirect(status, &other.url("/pay")))));
        let ran = Sending::post(&partner.url("/pay")).keyed().run().await;
        let verdict = if status < 307 { Verdict::InDoubt } else { Verdict::NotDone };
        assert_eq!((ran.verdict, partner.stop().await.whole), (verdict, 1), "{status}");
        assert_eq!(other.stop().await.connections, 0, "{status}");
    }
}

#[tokio::test]
async fn a_redirect_on_the_same_origin_is_followed_with_the_same_request() {
    let partner = start(Script::first([answers(Reply::redirect(307, "/v2/pay"))], Turn::fine()));
    let ran = Sending::post(&partner.url("/pay")).with(|p| p.retry.max_attempts = 1).run().await;
    let seen = partner.stop().await;
    assert_eq!((ran.verdict, seen.whole, seen.executions), (Verdict::Confirmed, 2, 1));
    let paths: Vec<&str> = seen.requests.iter().map(|request| &*request.path).collect();
    assert_eq!(paths, ["/pay", "/v2/pay"]);
    assert!(seen.requests.iter().all(|request| request.method == "POST" && request.key() == Some(KEY)));
    assert!(seen.requests.iter().all(|request| request.body == PAYLOAD));
}

#[tokio::test]
async fn a_redirect_loop_ends_after_three_hops() {
    let partner = start(Script::always(answers(Reply::redirect(307, "/again"))));
    let ran = Sending::post(&partner.url("/pay")).run().await;
    let seen = partner.stop().await;
    assert_eq!((ran.verdict, seen.whole, seen.executions), (Verdict::NotDone, 4, 0));
}

#[tokio::test]
async fn a_conflict_means_what_the_profile_says() {
    let conflict = || answers(Reply::json(409, "{\"code\":\"duplicate\"}"));
    let rule = |means| {
        let pointer = abide::engine::json::Pointer::new("/code").expect("a pointer");
        let value = Some(ValueRule { pointer, equals: vec!["duplicate".into()] });
        vec![Rule { status: Some(409), header: None, value, means }]
    };
    for (means, verdict) in [
        (Means::Confirmed, Verdict::Confirmed),
        (Means::Rejected, Verdict::Rejected),
        (Means::InDoubt, Verdict::InDoubt),
    ] {
        let partner = start(Script::always(conflict()));
        let ran = Sending::post(&partner.url("/pay")).with(|p| p.classify.rules = rule(means)).run().await;
        assert_eq!((ran.verdict, partner.stop().await.whole), (verdict, 1), "{means:?}");
    }
    let partner = start(Script::first([Turn::done(Act::Fin), conflict()], Turn::fine()).honouring_keys());
    let ran = Sending::post(&partner.url("/pay")).keyed().with(|p| p.classify.in_progress = vec![409]).run().await;
    let seen = partner.stop().await;
    assert_eq!((ran.verdict, seen.whole, seen.executions), (Verdict::Confirmed, 3, 1));
}

#[tokio::test]
async fn a_name_that_cannot_be_looked_up_now_is_tried_again_and_an_unknown_one_once() {
    for (text, attempts) in [("Temporary failure in name resolution", 3), ("Name or service not known", 2)] {
        let lookups = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&lookups);
        let mut sending = Sending::post("http://partner.example/pay");
        sending.names = Names::by(move |_, _| {
            counted.fetch_add(1, Ordering::SeqCst);
            Err(io::Error::other(format!("failed to lookup address information: {text}")))
        });
        let ran = sending.run().await;
        assert_eq!((ran.verdict, ran.attempts.len()), (Verdict::NotDone, attempts), "{text}");
        assert_eq!(lookups.load(Ordering::SeqCst), attempts);
        assert!(ran.attempts.iter().all(|(finished, _)| finished.evidence == Evidence::NotSent));
    }
}

#[test]
fn a_resolver_that_blocks_holds_neither_the_attempt_nor_the_runtime() {
    let begun = Instant::now();
    let (release, blocked) = mpsc::channel::<()>();
    let blocked = Mutex::new(blocked);
    let mut sending = Sending::post("http://partner.example/pay").with(|p| {
        p.retry.max_attempts = 1;
        p.timeouts.overall = Duration::from_millis(300);
    });
    sending.names = Names::by(move |_, _| {
        let _ = blocked.lock().expect("one lookup").recv();
        Ok(Vec::new())
    });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let ran = runtime.block_on(sending.run());
    drop(runtime);
    assert!(begun.elapsed() < Duration::from_secs(3), "{:?}", begun.elapsed());
    assert_eq!(ran.unanswered(), (Sent::Nothing, Stage::Resolve, Fault::TimedOut(Limit::Connect)));
    assert_eq!(ran.verdict, Verdict::NotDone);
    ran.took_about(LIMITS.connect);
    drop(release);
}

#[tokio::test]
async fn one_attempt_dials_one_address_and_the_next_one_another() {
    let partner = start(Script::always(Turn::fine()));
    // Nobody listens there: the partner has one address.
    let (refused, good) = (SocketAddr::from(([127, 0, 0, 9], partner.addr().port())), partner.addr());
    let mut sending = Sending::post(&format!("http://partner.example:{}/pay", good.port()));
    sending.names = Names::by(move |_, _| Ok(vec![refused, good]));
    let ran = sending.run().await;
    let seen = partner.stop().await;
    let dialled: Vec<_> = ran.attempts.iter().map(|(_, exchange)| exchange.addr).collect();
    assert_eq!(dialled, [Some(refused), Some(good)]);
    assert_eq!((ran.verdict, seen.connections, seen.executions), (Verdict::Confirmed, 1, 1));
    assert_eq!(seen.requests[0].header("host"), Some(&*format!("partner.example:{}", good.port())));
    assert!(ran.first().stages.resolve_us.is_some());
}

#[tokio::test]
async fn the_partner_is_told_about_each_attempt_where_the_profile_says_so() {
    let partner = start(Script::first([Turn::not_done(Act::AcceptFin)], Turn::fine()));
    let mut sending = Sending::post(&partner.url("/pay"));
    sending.announce = Announce { attempt: Some("X-Attempt".into()), time_left_ms: Some("X-Left-Ms".into()) };
    sending.run().await;
    let seen = partner.stop().await;
    assert_eq!(seen.requests[0].header("x-attempt"), Some("2"));
    let left_ms: u128 = seen.requests[0].header("x-left-ms").expect("is sent").parse().expect("a number");
    assert!((1..=LIMITS.attempt.as_millis()).contains(&left_ms), "{left_ms}");
}

#[tokio::test]
async fn a_post_without_a_body_announces_its_length() {
    let partner = start(Script::always(Turn::fine()));
    let ran = Sending::post(&partner.url("/pay")).body(0).run().await;
    let seen = partner.stop().await;
    assert_eq!((ran.verdict, seen.requests[0].header("content-length")), (Verdict::Confirmed, Some("0")));
}

#[tokio::test]
async fn a_secret_in_the_url_is_in_no_error() {
    let partner = start(Script::always(Turn::fine()).behind(Door::Closed));
    let mut sending = Sending::post(&partner.url("/pay?api_key=s3cr3t-s3cr3t"));
    sending.mask.add("s3cr3t-s3cr3t");
    let ran = sending.run().await;
    for (finished, exchange) in &ran.attempts {
        let error = exchange.error.as_deref().expect("refused with words");
        assert!(!error.contains("s3cr3t") && !error.contains("http://"), "{error}");
        assert_eq!(finished.error.as_deref(), Some(error));
    }
}
