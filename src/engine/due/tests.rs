use super::*;
use crate::engine::decide::Action;
use crate::engine::facts::{About, Again, Fact, Pause, Settled, Why};
use crate::engine::story::{EPOCH, Story, at, keyed, policy, secs, with_status};
use crate::engine::verdict::{Cause, Evidence, Verdict};
use std::sync::Arc;

fn due_at(story: &Story, seconds: f64, change: impl FnOnce(&mut Batch<'_>)) -> Due {
    let mut batch =
        Batch { policy: &story.policy, now: at(seconds), patience: secs(60), older: false, later_write: false };
    change(&mut batch);
    due(&story.history, &batch)
}

fn ended(policy: Policy, retry_at: Option<f64>) -> Story {
    let mut story = Story::new(policy).attempt(1.0, Evidence::NotSent, Again::Yes);
    let verdict = Verdict::NotDone;
    let retry_at = retry_at.map(|seconds| at(seconds).wall);
    let settled = Settled { verdict, cause: Cause::WaitExceedsDeadline, retry_at, last: None, response: None };
    story.push(2.0, Fact::Settled(Arc::new(settled)));
    story
}

#[test]
fn what_is_unsettled_is_due_unless_it_has_to_wait_longer_than_the_run() {
    assert_eq!(due_at(&ended(policy("POST"), None), 3.0, |_| {}), Due::Now);
    assert_eq!(due_at(&ended(policy("POST"), Some(50.0)), 3.0, |_| {}), Due::Now);
    let late = ended(policy("POST"), Some(64.0));
    assert_eq!(due_at(&late, 3.0, |_| {}), Due::NotBefore(at(64.0).wall));
    assert_eq!(due_at(&late, 4.0, |_| {}), Due::Now);
    assert_eq!(due_at(&late, 3.0, |batch| batch.patience = secs(61)), Due::Now);
}

#[test]
fn a_late_end_of_an_outdated_owner_moves_no_time_to_come_back() {
    let settled = |n: u64, retry_at: Option<f64>, mut story: Story| {
        let retry_at = retry_at.map(|seconds| at(seconds).wall);
        let verdict = Verdict::InDoubt;
        let settled = Settled { verdict, cause: Cause::WaitExceedsDeadline, retry_at, last: None, response: None };
        story.n = n;
        story.push(2.0, Fact::Settled(Arc::new(settled)));
        story
    };
    let taken_over = || Story::new(policy("POST")).next_run(1.0, Why::Replay, None);
    for late in [None, Some(500.0)] {
        let story = settled(1, late, settled(2, Some(100.0), taken_over()));
        assert_eq!(due_at(&story, 3.0, |_| {}), Due::NotBefore(at(100.0).wall), "{late:?}");
    }
}

#[test]
fn a_retry_after_counts_as_well() {
    let story = Story::new(policy("POST")).attempt(1.0, Evidence::Refused, Again::Yes);
    let story = story.change(|last| last.not_before = Some(at(100.0).wall));
    assert_eq!(due_at(&story, 3.0, |_| {}), Due::NotBefore(at(100.0).wall));
}

#[test]
fn a_key_past_its_retention_is_taken_up_only_when_asked() {
    let story = ended(keyed("POST"), None);
    let past = 86_400.0 * 0.95;
    assert_eq!(due_at(&story, past - 1.0, |_| {}), Due::Now);
    assert_eq!(due_at(&story, past, |_| {}), Due::Not(Obstacle::KeyExpired));
    assert_eq!(due_at(&story, past, |batch| batch.older = true), Due::Now);
    assert_eq!(due_at(&ended(policy("POST"), None), past, |_| {}), Due::Now, "no key to forget");
}

#[test]
fn what_is_no_longer_valid_is_only_asked_about() {
    let expired = |policy, evidence| {
        let story = Story::new(policy).opened(|opened| opened.valid_until = Some(EPOCH.after(secs(10))));
        story.attempt(1.0, evidence, Again::Yes)
    };
    let plain = expired(policy("POST"), Evidence::InDoubt);
    assert_eq!(due_at(&plain, 9.0, |_| {}), Due::Now);
    assert_eq!(due_at(&plain, 10.0, |_| {}), Due::Not(Obstacle::Expired));
    let asking = || with_status(policy("POST"), None, false);
    assert_eq!(due_at(&expired(asking(), Evidence::InDoubt), 10.0, |_| {}), Due::Now);
    assert_eq!(due_at(&expired(asking(), Evidence::NotSent), 10.0, |_| {}), Due::Not(Obstacle::Expired));
}

#[test]
fn a_write_that_would_undo_a_later_one_is_left_to_a_person() {
    let later = |story: &Story| due_at(story, 3.0, |batch| batch.later_write = true);
    for method in ["PUT", "PATCH", "DELETE"] {
        assert_eq!(later(&ended(policy(method), None)), Due::Not(Obstacle::LaterWrite), "{method}");
        let conditional = ended(policy(method), None);
        let conditional = conditional.opened(|opened| opened.headers.push(("if-match".into(), "x".into())));
        assert_eq!(later(&conditional), Due::Now, "{method}");
    }
    assert_eq!(later(&ended(policy("POST"), None)), Due::Now);
    assert_eq!(later(&ended(keyed("PUT"), None)), Due::Now, "its key protects");
    let mut accepting = policy("PUT");
    accepting.accept_duplicate = true;
    assert_eq!(later(&ended(accepting, None)), Due::Now);
}

fn assert_attempt(action: Action, number: u32) {
    assert!(matches!(action, Action::Attempt { a, .. } if a == number), "{action:?} instead of attempt {number}");
}

#[test]
fn a_duplicate_that_the_user_accepts_is_sent_first_and_only_once() {
    let mut accepting = with_status(policy("POST"), None, false);
    accepting.accept_duplicate = true;
    let story = Story::new(accepting).attempt(1.0, Evidence::InDoubt, Again::Yes);
    let story = story.next_run(10.0, Why::Replay, Some(Verdict::InDoubt));
    assert_attempt(story.at(10.0), 2);
    let after = story.attempt(11.0, Evidence::InDoubt, Again::Yes).at(11.0);
    assert!(matches!(after, Action::AskStatus { about: About::Operation, .. }), "{after:?}");
}

#[test]
fn a_refused_operation_that_is_begun_again_is_sent_again() {
    let story =
        Story::new(policy("POST")).attempt(1.0, Evidence::Answered, Again::No).change(|last| last.done = Some(false));
    assert_attempt(story.next_run(10.0, Why::Replay, Some(Verdict::Rejected)).at(10.0), 2);
}

#[test]
fn a_batch_waits_for_the_time_that_the_last_run_gave_and_a_person_does_not() {
    let next = |why| {
        let mut story = Story::new(policy("POST")).attempt(1.0, Evidence::NotSent, Again::Yes);
        let retry_at = Some(at(9.0).wall);
        let verdict = Verdict::NotDone;
        let settled = Settled { verdict, cause: Cause::WaitExceedsDeadline, retry_at, last: None, response: None };
        story.push(2.0, Fact::Settled(Arc::new(settled)));
        story.next_run(5.0, why, None)
    };
    assert_eq!(next(Why::Replay).at(5.0), Action::Wait { until: at(9.0).steady, why: Pause::RetryAfter });
    assert_attempt(next(Why::Send).opened(|opened| opened.key_until = None).at(5.0), 2);
}
