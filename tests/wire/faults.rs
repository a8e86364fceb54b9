//! One attempt against every fault: how far did it get, what ended it, and is the verdict true?

use crate::run::{LIMITS, Ran, Sending};
use abide::engine::exchange::{Ending, Fault, Limit, Sent, Stage};
use abide::engine::policy::Policy;
use abide::engine::verdict::Verdict;
use abide::rehearse::partner::{self, Partner, Seen};
use std::time::Duration;

/// More than the buffers of both kernels take.
const LARGE_BYTES: usize = 32 << 20;

/// Sends once.
async fn once(fault: partner::Fault, change: impl FnOnce(Sending) -> Sending) -> (Ran, Seen) {
    let partner = Partner::start(fault.script()).expect("starts");
    let sending = Sending::post(&partner.url("/pay")).with(|policy| policy.retry.max_attempts = 1);
    let ran = change(sending).run().await;
    (ran, partner.stop().await)
}

fn small(sending: Sending) -> Sending {
    sending
}

fn large(sending: Sending) -> Sending {
    sending.body(LARGE_BYTES)
}

/// Asserts that no answer came and what that proves. `seen`: heads, whole requests, executions.
fn unanswered((ran, partner): &(Ran, Seen), expected: (Sent, Stage, Fault), verdict: Verdict, seen: (u32, u32, u32)) {
    assert_eq!(ran.unanswered(), expected, "{:?}", ran.first().error);
    assert_eq!(ran.verdict, verdict);
    assert_eq!((partner.heads, partner.whole, partner.executions), seen);
    assert!(partner.connections <= 1);
}

#[tokio::test]
async fn a_refused_connection_sent_nothing() {
    let run = once(partner::Fault::Refused, small).await;
    unanswered(&run, (Sent::Nothing, Stage::Connect, Fault::ConnectionRefused), Verdict::NotDone, (0, 0, 0));
}

#[tokio::test]
async fn connection_requests_that_vanish_end_at_the_connect_limit() {
    let run = once(partner::Fault::BlackHole, small).await;
    let expected = (Sent::Nothing, Stage::Connect, Fault::TimedOut(Limit::Connect));
    unanswered(&run, expected, Verdict::NotDone, (0, 0, 0));
    run.0.took_about(LIMITS.connect);
}

#[tokio::test]
async fn a_connection_closed_at_once_sent_nothing() {
    let run = once(partner::Fault::AcceptFin, small).await;
    unanswered(&run, (Sent::Nothing, Stage::Write, Fault::Closed), Verdict::NotDone, (0, 0, 0));
}

#[tokio::test]
async fn a_connection_reset_at_once_sent_nothing() {
    let run = once(partner::Fault::AcceptRst, small).await;
    unanswered(&run, (Sent::Nothing, Stage::Write, Fault::Reset), Verdict::NotDone, (0, 0, 0));
}

#[tokio::test]
async fn without_a_body_a_connection_that_never_took_the_request_sent_nothing() {
    for (fault, expected) in [
        (partner::Fault::AcceptFin, (Sent::Nothing, Stage::Write, Fault::Closed)),
        (partner::Fault::AcceptRst, (Sent::Nothing, Stage::Write, Fault::Reset)),
        (partner::Fault::Unsolicited408, (Sent::Nothing, Stage::Write, Fault::Closed)),
    ] {
        let run = once(fault, |sending| sending.body(0)).await;
        unanswered(&run, expected, Verdict::NotDone, (0, 0, 0));
    }
}

#[tokio::test]
async fn without_a_body_a_request_that_nobody_answers_is_in_doubt() {
    for (fault, seen) in [(partner::Fault::NeverRead, (0, 0, 0)), (partner::Fault::AllThenHang, (1, 1, 0))] {
        let run = once(fault, |sending| sending.body(0)).await;
        let expected = (Sent::Whole, Stage::FirstByte, Fault::TimedOut(Limit::Read));
        unanswered(&run, expected, Verdict::InDoubt, seen);
    }
}

#[tokio::test]
async fn a_408_before_anything_was_asked_sent_nothing() {
    let run = once(partner::Fault::Unsolicited408, small).await;
    unanswered(&run, (Sent::Nothing, Stage::Write, Fault::Closed), Verdict::NotDone, (0, 0, 0));
}

#[tokio::test]
async fn a_small_request_that_nobody_reads_is_in_doubt() {
    let run = once(partner::Fault::NeverRead, small).await;
    let expected = (Sent::Whole, Stage::FirstByte, Fault::TimedOut(Limit::Read));
    unanswered(&run, expected, Verdict::InDoubt, (0, 0, 0));
    run.0.took_about(LIMITS.read);
}

#[tokio::test]
async fn a_large_request_that_nobody_reads_ends_at_the_write_limit() {
    let run = once(partner::Fault::NeverRead, large).await;
    let expected = (Sent::Part, Stage::Write, Fault::TimedOut(Limit::Write));
    unanswered(&run, expected, Verdict::InDoubt, (0, 0, 0));
    run.0.took_about(LIMITS.write);
}

#[tokio::test]
async fn a_reset_during_the_upload_leaves_a_part() {
    let run = once(partner::Fault::ReadThenRst, large).await;
    unanswered(&run, (Sent::Part, Stage::Write, Fault::Reset), Verdict::InDoubt, (0, 0, 0));
    let run = once(partner::Fault::HeadThenRst, large).await;
    unanswered(&run, (Sent::Part, Stage::Write, Fault::Reset), Verdict::InDoubt, (1, 0, 0));
}

#[tokio::test]
async fn an_upload_that_progresses_past_the_read_limit_is_no_time_out() {
    // Longer than the kernels' buffers take to drain, shorter than the whole upload.
    let read = Duration::from_millis(250);
    let patient = |policy: &mut Policy| {
        policy.timeouts.read = read;
        policy.timeouts.attempt = Duration::from_secs(30);
        policy.timeouts.overall = Duration::from_secs(30);
    };
    let (ran, partner) = once(partner::Fault::ReadSlowly, |s| large(s).with(patient)).await;
    assert_eq!(ran.status(), (201, Ending::Complete));
    assert_eq!((partner.whole, partner.requests[0].body_bytes), (1, LARGE_BYTES));
    let write_us = ran.first().stages.write_us.expect("a body was written");
    assert!(u128::from(write_us) > read.as_micros(), "too fast to show anything: {write_us} us");
}

#[tokio::test]
async fn a_final_answer_during_the_upload_counts() {
    let (ran, partner) = once(partner::Fault::Early413, large).await;
    assert_eq!(ran.status(), (413, Ending::Complete));
    assert_eq!((ran.verdict, partner.heads, partner.whole), (Verdict::Rejected, 1, 0));
}

#[tokio::test]
async fn a_request_read_whole_and_closed_on_is_in_doubt() {
    let run = once(partner::Fault::AllThenFin, small).await;
    unanswered(&run, (Sent::Whole, Stage::FirstByte, Fault::Closed), Verdict::InDoubt, (1, 1, 0));
}

#[tokio::test]
async fn a_request_read_whole_and_reset_is_in_doubt() {
    let run = once(partner::Fault::AllThenRst, small).await;
    unanswered(&run, (Sent::Whole, Stage::FirstByte, Fault::Reset), Verdict::InDoubt, (1, 1, 0));
}

#[tokio::test]
async fn silence_and_heads_that_never_end_stop_at_the_read_limit() {
    use partner::Fault as F;
    let expected = (Sent::Whole, Stage::FirstByte, Fault::TimedOut(Limit::Read));
    for (fault, executions) in [
        (F::AllThenHang, 0),
        (F::ExecutedThenSilent, 1),
        (F::HalfHead, 1),
        (F::DripHead, 1),
        (F::ContinueFlood, 1),
        (F::Delay, 1),
    ] {
        let run = once(fault, small).await;
        unanswered(&run, expected, Verdict::InDoubt, (1, 1, executions));
        run.0.took_about(LIMITS.read);
    }
}

#[tokio::test]
async fn a_head_that_is_too_large_or_no_http_is_in_doubt() {
    let run = once(partner::Fault::EndlessHeaders, small).await;
    unanswered(&run, (Sent::Whole, Stage::FirstByte, Fault::HeadTooLarge), Verdict::InDoubt, (1, 1, 1));
    let run = once(partner::Fault::Garbage, small).await;
    unanswered(&run, (Sent::Whole, Stage::FirstByte, Fault::NotHttp), Verdict::InDoubt, (1, 1, 1));
}

#[tokio::test]
async fn a_success_whose_body_is_cut_or_stalls_is_no_confirmation() {
    let (cut, partner) = once(partner::Fault::CutBody, small).await;
    assert_eq!(cut.status(), (200, Ending::Cut(Fault::Closed)));
    assert_eq!((cut.verdict, partner.executions), (Verdict::InDoubt, 1));
    let (stalled, _) = once(partner::Fault::StalledBody, small).await;
    assert_eq!(stalled.status(), (200, Ending::Cut(Fault::TimedOut(Limit::Body))));
    assert!(!stalled.answer().body.is_empty());
    stalled.took_about(LIMITS.body);
}

#[tokio::test]
async fn a_body_that_drips_ends_with_the_attempt_or_at_the_deadline() {
    let (ran, _) = once(partner::Fault::DripBody, small).await;
    assert_eq!(ran.status(), (200, Ending::Cut(Fault::TimedOut(Limit::Attempt))));
    ran.took_about(LIMITS.attempt);
    let overall = Duration::from_millis(300);
    let (ran, _) = once(partner::Fault::DripBody, |s| s.with(|p| p.timeouts.overall = overall)).await;
    assert_eq!(ran.status(), (200, Ending::Cut(Fault::TimedOut(Limit::Deadline))));
    assert_eq!(ran.verdict, Verdict::InDoubt);
    ran.took_about(overall);
}

#[tokio::test]
async fn a_body_without_end_is_cut_by_our_own_limit_and_confirms() {
    for fault in [partner::Fault::Flood, partner::Fault::GiantChunk] {
        let (ran, _) = once(fault, |s| s.with(|p| p.sizes.response_bytes = 100_000)).await;
        assert_eq!(ran.status(), (200, Ending::Capped));
        assert_eq!((ran.answer().body.len(), ran.verdict), (100_000, Verdict::Confirmed));
    }
}

#[tokio::test]
async fn a_body_without_end_and_without_a_cap_ends_with_the_attempt() {
    let attempt = Duration::from_millis(50);
    let endless = |policy: &mut Policy| {
        policy.timeouts.attempt = attempt;
        policy.sizes.response_bytes = usize::MAX;
    };
    let (ran, _) = once(partner::Fault::Flood, |s| s.with(endless)).await;
    assert_eq!(ran.status(), (200, Ending::Cut(Fault::TimedOut(Limit::Attempt))));
    ran.took_about(attempt);
}

#[tokio::test]
async fn a_page_in_answer_to_json_is_no_confirmation() {
    let (ran, partner) = once(partner::Fault::Html200, small).await;
    assert_eq!(ran.status(), (200, Ending::Complete));
    assert_eq!((ran.verdict, partner.executions), (Verdict::InDoubt, 0));
}

#[tokio::test]
async fn an_answer_is_read_whole_with_its_times() {
    let (ran, partner) = once(partner::Fault::Fine, small).await;
    assert_eq!(ran.status(), (201, Ending::Complete));
    assert_eq!(ran.answer().headers.first("content-type"), Some("application/json"));
    assert_eq!((ran.verdict, partner.executions), (Verdict::Confirmed, 1));
    let stages = ran.first().stages;
    assert!(stages.connect_us.is_some() && stages.write_us.is_some());
    assert!(stages.first_byte_us.is_some() && stages.body_us.is_some());
    assert_eq!((stages.resolve_us, ran.first().addr.is_some()), (None, true));
}
