use super::*;
use crate::engine::exchange::Limit;
use crate::engine::facts::{Resolved, Settled};
use crate::engine::operation::PartnerName;
use crate::engine::story::{EPOCH, Story, at, finished, keyed, policy, secs, with_status};
use crate::engine::verdict::Evidence;
use proptest::prelude::*;
use std::sync::Arc;

fn wait(until: f64, why: Pause) -> Action {
    Action::Wait { until: at(until).steady, why }
}

fn settle(verdict: Verdict, cause: Cause) -> Action {
    Action::Settle(Conclusion { verdict, cause, retry_at: None })
}

fn settle_later(verdict: Verdict, cause: Cause, retry_at: f64) -> Action {
    Action::Settle(Conclusion { verdict, cause, retry_at: Some(at(retry_at).wall) })
}

#[track_caller]
fn assert_attempt(action: Action, number: u32) {
    assert!(matches!(action, Action::Attempt { a, .. } if a == number), "{action:?} instead of attempt {number}");
}

#[track_caller]
fn assert_asks(action: Action, whom: About) {
    assert!(matches!(action, Action::AskStatus { about, .. } if about == whom), "{action:?}");
}
#[test]
fn a_new_operation_is_sent_at_once_within_the_limits() {
    let Action::Attempt { a: 1, limits } = Story::new(policy("POST")).at(0.0) else { panic!("no attempt") };
    assert_eq!((limits.whole, limits.whole_is), (secs(20), Limit::Attempt));
    let Action::Attempt { limits, .. } = Story::new(policy("POST")).at(50.0) else { panic!("no attempt") };
    assert_eq!((limits.whole, limits.whole_is), (secs(10), Limit::Deadline));
}

#[test]
fn time_for_the_first_status_request_is_kept_back() {
    let asking = with_status(policy("POST"), None, false);
    let Action::Attempt { limits, .. } = Story::new(asking).at(35.0) else { panic!("no attempt") };
    assert_eq!(limits.whole, secs(10), "25 s are left, a quarter of 60 s is kept");
    let reading = with_status(policy("GET"), None, false);
    let Action::Attempt { limits, .. } = Story::new(reading).at(50.0) else { panic!("no attempt") };
    assert_eq!(limits.whole, secs(10), "a safe method needs no status request");
}

#[test]
fn not_sent_is_retried_after_the_backoff_and_no_more_often_than_allowed() {
    let once = Story::new(policy("POST")).attempt(1.0, Evidence::NotSent, Again::Yes);
    assert_eq!(once.at(1.0), wait(1.5, Pause::Backoff));
    let waited = once.waited(1.0, 1.5);
    assert_eq!(waited.at(1.2), wait(1.5, Pause::Backoff), "woken early, it waits on");
    assert_attempt(waited.at(1.5), 2);
    let thrice = waited.attempt(2.0, Evidence::NotSent, Again::Yes).attempt(3.0, Evidence::NotSent, Again::Yes);
    assert_eq!(thrice.at(3.0), settle(Verdict::NotDone, Cause::AttemptsExhausted));
}

#[test]
fn a_back_off_that_passed_unnoticed_is_over_and_no_retry_after() {
    // A slow disk or a busy machine: the back-off ends at 1.5 s at the latest, and nobody looked before.
    let late = Story::new(policy("POST")).attempt(1.0, Evidence::NotSent, Again::Yes);
    assert_attempt(decide(&late.history, &late.policy, late.deadline, at(9.0), 0.9), 2);
}

#[test]
fn what_would_fail_again_ends_the_run() {
    let no = Story::new(policy("POST")).attempt(1.0, Evidence::NotSent, Again::No);
    assert_eq!(no.at(1.0), settle(Verdict::NotDone, Cause::NeedsChange));
    let refused = no.change(|last| last.reason = Reason::Credentials);
    assert_eq!(refused.at(1.0), settle(Verdict::NotDone, Cause::Credentials));
    let once = Story::new(policy("POST")).attempt(1.0, Evidence::NotSent, Again::Once);
    assert_eq!(once.at(1.0), wait(1.5, Pause::Backoff));
    assert_eq!(once.attempt(2.0, Evidence::NotSent, Again::Once).at(2.0), settle(Verdict::NotDone, Cause::NeedsChange));
}

#[test]
fn doubt_without_key_and_status_ends_the_run() {
    let story = Story::new(policy("POST")).attempt(1.0, Evidence::InDoubt, Again::Yes);
    assert_eq!(story.at(1.0), settle(Verdict::InDoubt, Cause::NothingHelps));
    let partial = Story::new(policy("PATCH")).attempt(1.0, Evidence::Partial, Again::Yes);
    assert_eq!(partial.at(1.0), settle(Verdict::InDoubt, Cause::NothingHelps));
}

#[test]
fn doubt_is_resent_where_the_key_or_the_method_protects() {
    for policy in [keyed("POST"), policy("PUT"), policy("DELETE"), policy("GET")] {
        let story = Story::new(policy).attempt(1.0, Evidence::InDoubt, Again::Yes);
        assert_eq!(story.at(1.0), wait(1.5, Pause::Backoff));
        assert_attempt(story.waited(1.0, 1.5).at(1.5), 2);
    }
}

#[test]
fn a_500_is_not_resent_by_itself_but_a_new_run_may_begin_with_it() {
    let story = Story::new(keyed("POST")).attempt(1.0, Evidence::InDoubt, Again::No);
    assert_eq!(story.at(1.0), settle(Verdict::InDoubt, Cause::NothingHelps));
    assert_attempt(story.next_run(10.0, Why::Replay, Some(Verdict::InDoubt)).at(10.0), 2);
}

#[test]
fn a_refusal_after_doubt_leaves_the_doubt() {
    let doubt = || Story::new(keyed("POST")).attempt(1.0, Evidence::InDoubt, Again::Yes);
    let rejected = doubt().attempt(2.0, Evidence::Answered, Again::No).change(|last| last.done = Some(false));
    assert_eq!(rejected.at(2.0), settle(Verdict::InDoubt, Cause::NothingHelps));
    let unauthorised = doubt().attempt(2.0, Evidence::Refused, Again::No);
    assert_eq!(unauthorised.at(2.0), settle(Verdict::InDoubt, Cause::NothingHelps));
    let unreachable = doubt().attempt(2.0, Evidence::NotSent, Again::Yes).attempt(4.0, Evidence::NotSent, Again::Yes);
    assert_eq!(unreachable.at(4.0), settle(Verdict::InDoubt, Cause::AttemptsExhausted));
}

#[test]
fn a_stored_refusal_resolves_the_doubt() {
    let story = Story::new(keyed("POST"))
        .attempt(1.0, Evidence::InDoubt, Again::Yes)
        .attempt(2.0, Evidence::Answered, Again::No)
        .change(|last| (last.done, last.replayed) = (Some(false), true));
    assert_eq!(story.at(2.0), settle(Verdict::Rejected, Cause::Answer));
}

#[test]
fn a_success_or_a_plain_refusal_ends_the_operation() {
    let done =
        Story::new(policy("POST")).attempt(1.0, Evidence::Answered, Again::No).change(|last| last.done = Some(true));
    assert_eq!(done.at(1.0), settle(Verdict::Confirmed, Cause::Answer));
    let refused = done.change(|last| last.done = Some(false));
    assert_eq!(refused.at(1.0), settle(Verdict::Rejected, Cause::Answer));
}

#[test]
fn safe_methods_are_never_in_doubt() {
    let story = Story::new(policy("GET")).attempt(1.0, Evidence::InDoubt, Again::No);
    assert_eq!(story.at(1.0), settle(Verdict::NotDone, Cause::Answer));
}

#[test]
fn retry_after_is_a_floor_that_jitter_only_raises() {
    let story = Story::new(policy("POST")).attempt(0.0, Evidence::Refused, Again::Yes);
    let story = story.change(|last| last.not_before = Some(at(20.0).wall));
    assert_eq!(story.at(0.0), wait(20.0, Pause::RetryAfter));
    let Action::Wait { until, .. } = decide(&story.history, &story.policy, story.deadline, at(0.0), 0.999_999) else {
        panic!("no wait")
    };
    assert!(until > at(22.9).steady && until <= at(23.0).steady, "a tenth of 20 s and the base: {until:?}");
    assert_attempt(story.waited(0.0, 20.0).at(20.0), 2);
}

#[test]
fn a_retry_after_zero_or_shorter_than_the_backoff_leaves_the_backoff() {
    for floor in [0.0, 0.1] {
        let story = Story::new(policy("POST")).attempt(0.0, Evidence::Refused, Again::Yes);
        let story = story.change(|last| last.not_before = Some(at(floor).wall));
        assert_eq!(story.at(0.0), wait(0.5, Pause::Backoff));
    }
}

#[test]
fn a_wait_that_does_not_fit_ends_the_run_at_once() {
    let story = Story::new(policy("POST")).attempt(50.0, Evidence::Refused, Again::Yes);
    let story = story.change(|last| last.not_before = Some(at(59.9).wall));
    assert_eq!(story.at(50.0), settle_later(Verdict::NotDone, Cause::WaitExceedsDeadline, 59.9));
    let mut slow = policy("POST");
    slow.retry.backoff.base = secs(100);
    let story = Story::new(slow).attempt(50.0, Evidence::Refused, Again::Yes);
    assert_eq!(story.at(50.0), settle_later(Verdict::NotDone, Cause::WaitExceedsDeadline, 100.0));
}

#[test]
fn the_time_to_come_back_is_never_before_the_floor() {
    let story = Story::new(policy("POST")).attempt(50.0, Evidence::Refused, Again::Yes);
    let story = story.change(|last| last.not_before = Some(at(59.9).wall));
    let Action::Settle(conclusion) = story.at(50.000_4) else { panic!("no end") };
    assert_eq!(conclusion.retry_at, Some(at(59.9).wall), "59.8996 is rounded up");
}

#[test]
fn a_retry_after_beyond_the_limit_ends_the_run_and_is_kept() {
    let mut impatient = policy("POST");
    impatient.retry.max_retry_after = secs(10);
    let story = Story::new(impatient).attempt(0.0, Evidence::Refused, Again::Yes);
    let story = story.change(|last| last.not_before = Some(at(11.0).wall));
    assert_eq!(story.at(0.0), settle_later(Verdict::NotDone, Cause::RetryAfterTooLong, 11.0));
}

#[test]
fn a_floor_outlives_a_status_request_and_the_process() {
    let story = Story::new(with_status(keyed("POST"), None, false)).attempt(0.0, Evidence::InDoubt, Again::Yes);
    let story =
        story.change(|last| last.not_before = Some(at(20.0).wall)).asked(1.0, Says::Unclear, About::Operation, false);
    assert_eq!(story.at(1.0), wait(20.0, Pause::RetryAfter));
    let story = story.next_run(5.0, Why::Send, None);
    assert_eq!(story.at(5.0), wait(20.0, Pause::RetryAfter));
}

#[test]
fn a_wall_clock_that_steps_back_stretches_no_floor() {
    let story = Story::new(policy("POST")).attempt(0.0, Evidence::Refused, Again::Yes);
    let mut story =
        story.change(|last| last.not_before = Some(at(20.0).wall)).next_run(5.0, Why::Send, Some(Verdict::NotDone));
    let hour_back = EPOCH.before(secs(3600));
    story.history.facts.last_mut().expect("a claim").at = hour_back;
    let now = Now { steady: at(5.0).steady, wall: hour_back };
    let Action::Wait { until, .. } = decide(&story.history, &story.policy, story.deadline, now, 0.0) else {
        panic!("no wait")
    };
    assert_eq!(until, at(25.0).steady, "never longer than the partner asked for, counted from the start of the run");
    let later = Now { steady: at(25.0).steady, wall: hour_back.after(secs(20)) };
    assert_attempt(decide(&story.history, &story.policy, story.deadline, later, 0.0), 2);
}

#[test]
fn with_too_little_time_left_nothing_starts() {
    assert_eq!(Story::new(policy("POST")).at(59.8), settle(Verdict::NotDone, Cause::Deadline));
    let doubt = Story::new(keyed("POST")).attempt(59.9, Evidence::InDoubt, Again::Yes);
    assert_eq!(doubt.at(59.9), settle_later(Verdict::InDoubt, Cause::WaitExceedsDeadline, 60.4));
}

#[test]
fn send_resends_the_key_first_and_replay_asks_first() {
    let both = || Story::new(with_status(keyed("POST"), None, false)).attempt(1.0, Evidence::InDoubt, Again::Yes);
    assert_eq!(both().at(1.0), wait(1.5, Pause::Backoff));
    let replay = both().next_run(10.0, Why::Replay, Some(Verdict::InDoubt));
    assert_asks(replay.at(10.0), About::Operation);
    let unclear = replay.asked(10.5, Says::Unclear, About::Operation, false);
    assert_attempt(unclear.at(10.5), 2);
}

#[test]
fn without_a_key_the_status_endpoint_is_asked_until_the_deadline() {
    let story = Story::new(with_status(policy("POST"), Some(5), false)).attempt(1.0, Evidence::InDoubt, Again::Yes);
    assert_asks(story.at(1.0), About::Operation);
    let story = story.asked(1.1, Says::InProgress, About::Operation, false);
    assert_eq!(story.at(1.1), wait(1.6, Pause::NextQuestion));
    let story = story.waited_for(1.1, 1.6, Pause::NextQuestion);
    assert_asks(story.at(1.6), About::Operation);
    let story = story.asked(1.7, Says::Confirmed, About::Operation, false);
    assert_eq!(story.at(1.7), settle(Verdict::Confirmed, Cause::Status));
    let rejected = Story::new(with_status(policy("POST"), None, false))
        .attempt(1.0, Evidence::InDoubt, Again::Yes)
        .asked(1.1, Says::Rejected, About::Operation, false);
    assert_eq!(rejected.at(1.1), settle(Verdict::Rejected, Cause::Status));
    let late = Story::new(with_status(policy("POST"), None, false)).attempt(59.0, Evidence::InDoubt, Again::Yes).asked(
        59.9,
        Says::Unclear,
        About::Operation,
        false,
    );
    assert_eq!(late.at(59.9), settle_later(Verdict::InDoubt, Cause::NothingHelps, 60.4));
}

#[test]
fn two_absent_answers_settle_apart_prove_absence() {
    let story = Story::new(with_status(policy("POST"), Some(5), false)).attempt(1.0, Evidence::InDoubt, Again::Yes);
    let story = story.absent(1.1);
    assert_eq!(story.at(1.1), wait(1.6, Pause::NextQuestion), "one proves nothing");
    let early = story.absent(6.0);
    assert!(matches!(early.at(6.0), Action::Wait { .. }), "4.9 s apart");
    let proven = early.absent(6.1);
    assert_attempt(proven.at(6.1), 2);
}

#[test]
fn the_last_question_is_not_asked_later_than_it_can_prove() {
    let mut slow = with_status(policy("POST"), Some(5), false);
    slow.retry.backoff.base = secs(40);
    let story = Story::new(slow).attempt(1.0, Evidence::InDoubt, Again::Yes).absent(2.0);
    assert_eq!(story.at(2.0), wait(7.0, Pause::NextQuestion));
}

#[test]
fn absence_counts_only_long_enough_after_the_last_attempt() {
    let story = Story::new(with_status(keyed("POST"), Some(5), false))
        .attempt(1.0, Evidence::InDoubt, Again::Yes)
        .absent(1.1)
        .attempt(8.0, Evidence::InDoubt, Again::No)
        .absent(8.1);
    assert!(matches!(story.at(8.1), Action::Wait { why: Pause::NextQuestion, .. }), "an attempt came between");
}

#[test]
fn absence_is_never_believed_against_what_was_seen_or_without_settle() {
    let seen = |change: fn(&mut Finished)| {
        Story::new(with_status(policy("POST"), Some(5), false))
            .attempt(1.0, Evidence::InDoubt, Again::Yes)
            .change(change)
            .absent(2.0)
            .absent(20.0)
    };
    assert!(matches!(seen(|last| last.http = Some(200)).at(20.0), Action::Wait { .. }));
    assert!(matches!(seen(|last| last.again = Again::Later).at(20.0), Action::Wait { .. }));
    assert_attempt(seen(|last| last.http = Some(503)).at(20.0), 2);
    let progress = Story::new(with_status(policy("POST"), Some(5), false))
        .attempt(1.0, Evidence::InDoubt, Again::Yes)
        .asked(1.1, Says::InProgress, About::Operation, false)
        .absent(2.0)
        .absent(20.0);
    assert!(matches!(progress.at(20.0), Action::Wait { .. }));
    let unstated = Story::new(with_status(policy("POST"), None, false))
        .attempt(1.0, Evidence::InDoubt, Again::Yes)
        .absent(2.0)
        .absent(50.0);
    assert!(!matches!(unstated.at(50.0), Action::Attempt { .. }));
}

#[test]
fn absence_by_status_alone_needs_a_control_of_this_run() {
    let by_status = |control| {
        Story::new(with_status(policy("POST"), Some(5), control)).attempt(1.0, Evidence::InDoubt, Again::Yes).asked(
            2.0,
            Says::Absent,
            About::Operation,
            false,
        )
    };
    assert!(matches!(
        by_status(false).asked(20.0, Says::Absent, About::Operation, false).at(20.0),
        Action::Wait { .. }
    ));
    assert_asks(by_status(true).at(2.0), About::Control);
    let unknown = by_status(true).asked(2.1, Says::Absent, About::Control, false);
    assert!(matches!(unknown.at(2.1), Action::Wait { why: Pause::NextQuestion, .. }));
    let known = by_status(true).asked(2.1, Says::Confirmed, About::Control, false);
    let proven = known.asked(7.0, Says::Absent, About::Operation, false);
    assert_attempt(proven.at(7.0), 2);
}

#[test]
fn absences_of_an_earlier_run_do_not_count() {
    let story = Story::new(with_status(policy("POST"), Some(5), false))
        .attempt(1.0, Evidence::InDoubt, Again::Yes)
        .absent(2.0)
        .next_run(30.0, Why::Replay, Some(Verdict::InDoubt))
        .absent(31.0);
    assert!(matches!(story.at(31.0), Action::Wait { why: Pause::NextQuestion, .. }));
    assert!(matches!(story.absent(35.9).at(35.9), Action::Wait { .. }));
}

#[test]
fn proven_absence_with_no_attempts_left_is_not_done() {
    let mut single = with_status(policy("POST"), Some(5), false);
    single.retry.max_attempts = 1;
    let story = Story::new(single).attempt(1.0, Evidence::InDoubt, Again::Yes).absent(2.0).absent(8.0);
    assert_eq!(story.at(8.0), settle(Verdict::NotDone, Cause::AttemptsExhausted));
}

#[test]
fn an_accepted_operation_is_asked_about_and_never_sent_again() {
    let accepted =
        Story::new(with_status(keyed("POST"), Some(5), false)).attempt(1.0, Evidence::Accepted, Again::Later);
    assert_asks(accepted.at(1.0), About::Operation);
    let absent = accepted.absent(2.0).absent(20.0);
    assert!(matches!(absent.at(20.0), Action::Wait { why: Pause::NextQuestion, .. }));
    let mute = Story::new(keyed("POST")).attempt(1.0, Evidence::Accepted, Again::Later);
    assert_eq!(mute.at(1.0), settle(Verdict::Accepted, Cause::Answer));
}

#[test]
fn our_own_attempt_still_running_is_asked_about_or_sent_again() {
    let running = |policy| {
        Story::new(policy).attempt(1.0, Evidence::InDoubt, Again::Yes).attempt(3.0, Evidence::InDoubt, Again::Later)
    };
    assert_asks(running(with_status(keyed("POST"), None, false)).at(3.0), About::Operation);
    assert_eq!(running(keyed("POST")).at(3.0), wait(4.0, Pause::Backoff));
}

#[test]
fn a_key_protects_only_while_its_contract_holds() {
    let doubt = |change: fn(&mut Story)| {
        let mut story = Story::new(keyed("POST")).attempt(1.0, Evidence::InDoubt, Again::Yes);
        change(&mut story);
        matches!(story.at(1.0), Action::Wait { .. })
    };
    assert!(doubt(|_| {}));
    type Change = fn(&mut Story);
    let cases: [(&str, Change); 6] = [
        ("not supported", |story| story.policy.idempotency.supported = false),
        ("another header", |story| {
            story.policy.idempotency.place = crate::engine::policy::KeyPlace::Header(Some("X-Key".into()))
        }),
        ("another format", |story| story.policy.idempotency.format = crate::engine::policy::KeyFormat::Quoted),
        ("another account", |story| story.policy.account = Some("live".into())),
        ("another origin", |story| story.policy.origin = "http://b.example:80".into()),
        ("a fact from the future", |story| story.history.facts[0].at = at(4.0).wall),
    ];
    for (why, change) in cases {
        assert!(!doubt(change), "{why}");
    }
}

#[test]
fn a_key_past_its_retention_or_under_a_stepped_clock_protects_nothing() {
    let story = Story::new(keyed("POST")).attempt(1.0, Evidence::InDoubt, Again::Yes);
    let decide_at =
        |wall| decide(&story.history, &story.policy, story.deadline, Now { steady: at(2.0).steady, wall }, 0.0);
    let trusted = secs(86_400 / 100 * 95);
    assert!(matches!(
        decide_at(EPOCH.after(trusted).before(Duration::from_millis(1))),
        Action::Wait { .. } | Action::Attempt { .. }
    ));
    assert_eq!(decide_at(EPOCH.after(trusted)), settle(Verdict::InDoubt, Cause::NothingHelps));
    assert_eq!(decide_at(EPOCH.before(secs(1))), settle(Verdict::InDoubt, Cause::NothingHelps));
    let unstated = Story::new({
        let mut policy = keyed("POST");
        policy.idempotency.retention = None;
        policy
    });
    assert_eq!(unstated.history.opened().key_until, Some(EPOCH.after(secs(3600))));
}

#[test]
fn a_clock_that_went_back_in_the_ledger_ends_the_protection_of_later_runs() {
    let back_by = |seconds: f64| {
        let attempted = Story::new(keyed("POST")).attempt(600.0, Evidence::InDoubt, Again::Yes);
        attempted.next_run(600.0 - seconds, Why::Send, Some(Verdict::InDoubt)).at(650.0)
    };
    assert_attempt(back_by(1.9), 2);
    assert_eq!(back_by(2.1), settle(Verdict::InDoubt, Cause::NothingHelps));
}

#[test]
fn the_same_key_waits_until_the_partner_has_settled() {
    let mut settling = keyed("POST");
    settling.idempotency.settle = secs(7);
    let story = Story::new(settling.clone()).attempt(1.0, Evidence::InDoubt, Again::Yes);
    assert_eq!(story.at(1.0), wait(8.0, Pause::Settle));
    let gateway = story.change(|last| last.http = Some(502));
    assert_eq!(gateway.at(1.0), wait(8.0, Pause::Settle), "a gateway answered: the partner may be running");
    let next = gateway.next_run(2.0, Why::Send, Some(Verdict::InDoubt));
    assert_eq!(next.at(2.0), wait(9.0, Pause::Settle), "whoever comes next cannot know how long ago it was");
}

#[test]
fn a_wait_for_the_next_question_is_no_wait_for_the_next_attempt() {
    let mut settling = with_status(keyed("POST"), None, false);
    settling.idempotency.settle = secs(7);
    let asked = Story::new(settling).attempt(1.0, Evidence::InDoubt, Again::Yes).absent(1.1);
    let waited = asked.waited_for(1.1, 1.6, Pause::NextQuestion);
    assert_eq!(waited.at(1.6), wait(8.0, Pause::Settle));
}

#[test]
fn a_put_long_in_doubt_is_not_repeated_unless_it_is_conditional() {
    let story = Story::new(policy("PUT")).attempt(1.0, Evidence::InDoubt, Again::Yes);
    let story = story.next_run(1.0 + 901.0, Why::Replay, Some(Verdict::InDoubt));
    assert_eq!(story.at(902.0), settle(Verdict::InDoubt, Cause::NothingHelps));
    let conditional = story.opened(|opened| opened.headers.push(("If-Match".into(), "\"1\"".into())));
    assert_attempt(conditional.at(902.0), 2);
    let died = |seconds| {
        Story::new(policy("PUT")).attempt(1.0, Evidence::NotSent, Again::Yes).next_run(seconds, Why::Send, None)
    };
    assert_eq!(died(902.0).at(902.0), settle(Verdict::InDoubt, Cause::NothingHelps), "in doubt since its owner died");
    assert_attempt(died(800.0).at(800.0), 2);
}

#[test]
fn nothing_is_sent_after_it_stopped_being_valid() {
    let expiring = || Story::new(keyed("POST")).opened(|opened| opened.valid_until = Some(at(10.0).wall));
    assert_attempt(expiring().at(9.9), 1);
    assert_eq!(expiring().at(10.0), settle(Verdict::NotDone, Cause::Expired));
    let doubt = expiring().attempt(9.8, Evidence::InDoubt, Again::Yes);
    assert_eq!(doubt.at(9.8), settle(Verdict::InDoubt, Cause::Expired));
}

#[test]
fn a_suspend_during_a_wait_ends_the_run_without_a_send() {
    let story = Story::new(policy("POST")).attempt(1.0, Evidence::NotSent, Again::Yes).waited(1.0, 1.5);
    assert_eq!(story.at(3601.5), settle(Verdict::NotDone, Cause::Deadline));
}

#[test]
fn a_wall_clock_that_jumps_moves_no_deadline_and_no_wait() {
    let story = Story::new(policy("POST")).attempt(1.0, Evidence::NotSent, Again::Yes);
    for wall in [EPOCH.before(secs(3600)), EPOCH.after(secs(315_576_000))] {
        let now = |seconds: f64| Now { steady: at(seconds).steady, wall };
        let next = decide(&story.history, &story.policy, story.deadline, now(1.0), 0.0);
        assert_eq!(next, wait(1.5, Pause::Backoff));
        let over = decide(&story.history, &story.policy, story.deadline, now(60.0), 0.0);
        assert!(matches!(over, Action::Settle(Conclusion { verdict: Verdict::NotDone, .. })), "{over:?}");
    }
}

#[test]
fn an_owner_that_died_in_flight_leaves_doubt() {
    let story = Story::new(policy("POST")).next_run(5.0, Why::Send, None);
    assert_eq!(story.at(5.0), settle(Verdict::InDoubt, Cause::NothingHelps));
    assert_attempt(Story::new(keyed("POST")).next_run(5.0, Why::Send, None).at(5.0), 1);
}

#[test]
fn a_new_run_has_its_own_attempts_and_keeps_counting_their_numbers() {
    let mut single = policy("POST");
    single.retry.max_attempts = 1;
    let story = Story::new(single).attempt(1.0, Evidence::NotSent, Again::Yes);
    assert_eq!(story.at(1.0), settle(Verdict::NotDone, Cause::AttemptsExhausted));
    assert_attempt(story.next_run(5.0, Why::Send, Some(Verdict::NotDone)).at(5.0), 2);
}

#[test]
fn a_late_success_of_an_outdated_owner_confirms_and_its_late_failure_proves_nothing() {
    let taken_over =
        || Story::new(policy("POST")).next_run(5.0, Why::Send, None).attempt(6.0, Evidence::InDoubt, Again::Yes);
    let late = |verdict, done| {
        let last = Finished { done, ..finished(1, Evidence::Answered, Again::No) };
        let settled =
            Settled { verdict, cause: Cause::Answer, retry_at: None, last: Some(Arc::new(last)), response: None };
        let mut story = taken_over();
        story.n = 1;
        story.push(7.0, Fact::Settled(Arc::new(settled)));
        story.at(7.0)
    };
    assert_eq!(late(Verdict::Confirmed, Some(true)), settle(Verdict::Confirmed, Cause::Answer));
    assert_eq!(late(Verdict::NotDone, None), settle(Verdict::InDoubt, Cause::NothingHelps));
    assert_eq!(late(Verdict::Rejected, Some(false)), settle(Verdict::InDoubt, Cause::NothingHelps));
}

#[test]
fn a_persons_word_counts() {
    let resolved = |verdict| {
        let mut story = Story::new(policy("POST")).attempt(1.0, Evidence::InDoubt, Again::Yes);
        let partner = PartnerName::new("a").expect("a name");
        story.push(2.0, Fact::Resolved(Arc::new(Resolved { partner, verdict, by: "me".into(), note: "".into() })));
        story
    };
    assert_eq!(resolved(Verdict::Confirmed).at(2.0), settle(Verdict::Confirmed, Cause::Person));
    assert_eq!(resolved(Verdict::Rejected).at(2.0), settle(Verdict::Rejected, Cause::Person));
    let again = resolved(Verdict::NotDone).next_run(3.0, Why::Send, Some(Verdict::NotDone));
    assert_attempt(again.at(3.0), 2);
}

#[test]
fn redirect_hops_go_out_at_once_and_spend_no_attempt() {
    let mut single = policy("POST");
    single.retry.max_attempts = 1;
    let story = Story::new(single).attempt(1.0, Evidence::Refused, Again::Yes);
    let story = story.change(|last| last.hop = Some("http://a.example/next".into()));
    assert_attempt(story.at(1.0), 2);
    let later = story.change(|last| last.not_before = Some(at(4.0).wall));
    assert_eq!(later.at(1.0), wait(4.0, Pause::RetryAfter), "a Retry-After on a redirect is waited for");
}

#[test]
fn an_interrupted_run_says_what_is_known() {
    let interrupted = |story: &Story| conclude(&story.history, &story.policy, at(2.0), Cause::Interrupted);
    let verdict = |evidence, done| {
        let story = Story::new(policy("POST")).attempt(1.0, evidence, Again::Yes).change(|last| last.done = done);
        interrupted(&story).verdict
    };
    assert_eq!(interrupted(&Story::new(policy("POST"))).verdict, Verdict::NotDone);
    assert_eq!(verdict(Evidence::InDoubt, None), Verdict::InDoubt);
    assert_eq!(verdict(Evidence::Accepted, None), Verdict::Accepted);
    assert_eq!(verdict(Evidence::Answered, Some(true)), Verdict::Confirmed);
}

#[test]
fn addresses_rotate_after_not_sent_and_are_pinned_after_doubt() {
    let found: Vec<SocketAddr> = vec![([10, 0, 0, 1], 1).into(), ([10, 0, 0, 2], 1).into()];
    let choose = |story: &Story, found: &[SocketAddr]| {
        let way = Way { addresses: found.to_vec(), proxy: None };
        choose_address(&story.history, &story.policy, at(9.0), &way)
    };
    let story = Story::new(keyed("POST"));
    assert_eq!(choose(&story, &found), Some(found[0]));
    assert_eq!(choose(&story, &[]), None);
    let story = story.attempt(1.0, Evidence::NotSent, Again::Yes);
    assert_eq!(choose(&story, &found), Some(found[1]));
    let story = story.attempt(1.5, Evidence::Refused, Again::Yes);
    assert_eq!(choose(&story, &found), Some(found[1]), "who refuses is reached");
    let story = story.attempt(2.0, Evidence::InDoubt, Again::Yes);
    assert_eq!(choose(&story, &found), Some(([127, 0, 0, 1], 83).into()));
}

#[test]
fn an_address_is_pinned_for_the_same_way_only() {
    let found: SocketAddr = ([10, 0, 0, 1], 3128).into();
    let pinned: SocketAddr = ([10, 0, 0, 9], 3128).into();
    let route = |name: Option<&str>| name.map(Box::from);
    for (before, now, expected) in [
        (None, None, pinned),
        (Some("p:3128"), Some("p:3128"), pinned),
        (Some("p:3128"), None, found),
        (None, Some("p:3128"), found),
        (Some("p:3128"), Some("q:3128"), found),
    ] {
        let mut story = Story::new(keyed("POST")).attempt(1.0, Evidence::InDoubt, Again::Yes);
        for recorded in &mut story.history.facts {
            if let Fact::Started(started) = &mut recorded.fact {
                (started.addr, started.proxy) = (Some(pinned), route(before));
            }
        }
        let way = Way { addresses: vec![found], proxy: route(now) };
        assert_eq!(choose_address(&story.history, &story.policy, at(9.0), &way), Some(expected), "{before:?} {now:?}");
    }
}

fn any_fact() -> impl Strategy<Value = (u8, u8, bool, u32)> {
    (0..8u8, 0..6u8, any::<bool>(), 0..40_000u32)
}

proptest! {
    /// Whatever the history: no wait and no attempt goes past the deadline, and no wait ends in the past.
    #[test]
    fn no_action_overshoots_the_deadline(
        facts in proptest::collection::vec(any_fact(), 0..12), key in any::<bool>(), status in any::<bool>(),
        method in 0..4usize, draw in 0.0..1.0f64,
    ) {
        let base = if key { keyed(["POST", "PUT", "DELETE", "GET"][method]) } else { policy(["POST", "PUT", "DELETE", "GET"][method]) };
        let mut story = Story::new(if status { with_status(base, Some(5), true) } else { base });
        let mut clock = 0.0;
        for (kind, detail, flag, step_ms) in facts {
            clock += f64::from(step_ms) / 1000.0;
            let evidence = [Evidence::NotSent, Evidence::Partial, Evidence::InDoubt, Evidence::Refused, Evidence::Accepted, Evidence::Answered];
            let again = [Again::Yes, Again::Once, Again::No, Again::Later][usize::from(detail) % 4];
            story = match kind {
                0..=4 => story.attempt(clock, evidence[usize::from(detail)], again).change(|last| {
                    last.done = (last.evidence == Evidence::Answered).then_some(flag);
                    last.not_before = flag.then(|| at(clock + f64::from(detail)).wall);
                }),
                5 => story.absent(clock),
                6 => story.asked(clock, Says::Unclear, About::Operation, flag),
                _ => story.next_run(clock, if flag { Why::Send } else { Why::Replay }, flag.then_some(Verdict::InDoubt)),
            };
        }
        let now = at(clock);
        match decide(&story.history, &story.policy, story.deadline, now, draw) {
            Action::Attempt { limits, .. } | Action::AskStatus { limits, .. } => {
                prop_assert!(now.steady.after(limits.whole) <= story.deadline.0);
                prop_assert!(limits.whole >= story.policy.min_attempt);
            }
            Action::Wait { until, .. } => prop_assert!(until > now.steady && until < story.deadline.0),
            Action::Settle(conclusion) => {
                prop_assert!(conclusion.retry_at.is_none_or(|retry_at| retry_at > now.wall));
                prop_assert!(!(story.policy.method.is_safe() && conclusion.verdict == Verdict::InDoubt));
            }
        }
    }
}
