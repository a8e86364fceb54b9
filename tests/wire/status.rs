//! Operations that end in a question: the status endpoint tells the truth, lags, fails, or is somewhere else.

use crate::run::Sending;
use abide::engine::facts::Says;
use abide::engine::json::Pointer;
use abide::engine::policy::{Policy, StatusPolicy, StatusRule, UrlPart, UrlTemplate, ValueRule};
use abide::engine::verdict::{Cause, Evidence, Verdict};
use abide::rehearse::partner::{Act, Execution, Partner, Reply, Script, StatusEndpoint, Turn};
use std::time::Duration;

fn start(script: Script) -> Partner {
    Partner::start(script).expect("starts")
}

fn rule(statuses: &[u16], pointer: &str, equals: &str) -> StatusRule {
    let pointer = Pointer::new(pointer).expect("a pointer");
    let value = Some(ValueRule { pointer, equals: vec![equals.into()] });
    StatusRule { statuses: statuses.into(), value, same: Vec::new() }
}

/// The partner has `GET /status/{key}`, and what it says can prove an absence.
pub fn asks(policy: &mut Policy) {
    policy.status = Some(StatusPolicy {
        method: "GET".into(),
        url: UrlTemplate(vec![UrlPart::Text("/status/".into()), UrlPart::Key]),
        confirmed: rule(&[200], "/state", "done"),
        rejected: None,
        in_progress: None,
        absent: Some(rule(&[404], "/error/code", "not_found")),
        control: None,
        settle: Some(Duration::from_millis(400)),
    });
}

#[tokio::test]
async fn a_lost_answer_is_asked_for_and_not_sent_again() {
    for act in [Act::Fin, Act::Hang, Act::CutBody, Act::Answer(Reply::status(503)), Act::Answer(Reply::status(500))] {
        let partner = start(Script::first([Turn::done(act.clone())], Turn::fine()));
        let ran = Sending::post(&partner.url("/pay")).with(asks).run().await;
        let seen = partner.stop().await;
        assert_eq!((ran.verdict, ran.attempts.len()), (Verdict::Confirmed, 1), "{act:?}");
        assert_eq!((seen.whole, seen.executions, seen.questions), (1, 1, 1), "{act:?}");
    }
}

#[tokio::test]
async fn a_proven_absence_lets_the_request_be_sent_again() {
    let partner = start(Script::first([Turn::not_done(Act::Fin)], Turn::fine()));
    let ran = Sending::post(&partner.url("/pay")).with(asks).run().await;
    let seen = partner.stop().await;
    assert_eq!((ran.verdict, ran.attempts.len()), (Verdict::Confirmed, 2));
    assert_eq!((seen.whole, seen.executions), (2, 1));
    assert!(ran.asked.iter().filter(|asked| asked.says == Says::Absent).count() >= 2);
    assert!(seen.requests[1].at - seen.requests[0].at >= Duration::from_millis(400));
}

#[tokio::test]
async fn an_absence_without_a_stated_settle_time_proves_nothing() {
    let partner = start(Script::first([Turn::not_done(Act::Fin)], Turn::fine()));
    let unstated = |policy: &mut Policy| {
        asks(policy);
        policy.timeouts.overall = Duration::from_millis(600);
        policy.status.as_mut().expect("is set").settle = None;
    };
    let ran = Sending::post(&partner.url("/pay")).with(unstated).run().await;
    let seen = partner.stop().await;
    assert_eq!((ran.verdict, seen.whole), (Verdict::InDoubt, 1));
    assert!(seen.questions >= 1);
}

#[tokio::test]
async fn a_request_that_is_executed_after_the_first_absence_is_executed_once() {
    let late = Turn { execution: Execution::After(Duration::from_millis(350)), act: Act::Hang };
    let partner = start(Script::first([late], Turn::fine()));
    let ran = Sending::post(&partner.url("/pay")).with(asks).run().await;
    let seen = partner.stop().await;
    assert_eq!(ran.asked[0].says, Says::Absent);
    assert_eq!((ran.verdict, ran.attempts.len()), (Verdict::Confirmed, 1));
    assert_eq!((seen.whole, seen.executions), (1, 1));
}

#[tokio::test]
async fn a_status_endpoint_that_fails_leaves_the_doubt() {
    for status in [StatusEndpoint::Fails(500), StatusEndpoint::Silent, StatusEndpoint::Misrouted] {
        let partner = start(Script::first([Turn::not_done(Act::Fin)], Turn::fine()).with_status(status));
        let short = |policy: &mut Policy| {
            asks(policy);
            policy.timeouts.overall = Duration::from_millis(700);
        };
        let ran = Sending::post(&partner.url("/pay")).with(short).run().await;
        let seen = partner.stop().await;
        assert_eq!((ran.verdict, seen.whole, seen.executions), (Verdict::InDoubt, 1, 0), "{status:?}");
        assert!(seen.questions >= 2, "{status:?}: {}", seen.questions);
        assert!(ran.asked.iter().all(|asked| asked.says == Says::Unclear));
        assert!(ran.took < Duration::from_secs(7), "{:?}", ran.took);
    }
}

#[tokio::test]
async fn a_stored_500_is_fetched_once_and_then_asked_about() {
    let stored = Reply::status(500).header("Idempotent-Replayed", "true");
    let partner = start(Script::first([Turn::done(Act::Fin)], Turn::not_done(Act::Answer(stored))));
    let listed = |policy: &mut Policy| {
        asks(policy);
        policy.classify.retry_in_doubt = vec![500];
    };
    let ran = Sending::post(&partner.url("/pay")).keyed().with(listed).run().await;
    let seen = partner.stop().await;
    assert_eq!((ran.verdict, seen.whole, seen.executions, seen.questions), (Verdict::Confirmed, 2, 1, 1));
    assert_eq!(ran.attempts[1].0.evidence, Evidence::InDoubt);
    assert_eq!(ran.cause, Cause::Status);
}

#[tokio::test]
async fn an_unmapped_conflict_after_a_doubt_is_asked_about() {
    let conflict = Turn::not_done(Act::Answer(Reply::status(409)));
    let partner = start(Script::first([Turn::done(Act::Fin)], conflict));
    let ran = Sending::post(&partner.url("/pay")).keyed().with(asks).run().await;
    let seen = partner.stop().await;
    assert_eq!((ran.verdict, seen.executions), (Verdict::Confirmed, 1));
    assert_eq!(ran.cause, Cause::Status);
}
