//! One attempt against every fault: how far did it get, what ended it, and is the verdict true?

use crate::relay::{Mode, Relay};
use crate::run::{LIMITS, Ran, Sending};
use crate::secure::{Front, Lane};
use abide::engine::exchange::{Ending, Fault, Limit, Outcome, Sent, Stage};
use abide::engine::policy::Policy;
use abide::engine::proxy::{Exclusions, Proxies, Proxy};
use abide::engine::verdict::Verdict;
use abide::rehearse::partner::{self, Partner, Seen};
use std::time::Duration;

/// More than the buffers of both kernels take.
const LARGE_BYTES: usize = 32 << 20;

/// What a request travels over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Over {
    Http,
    Https,
    /// A SOCKS5 proxy.
    Socks,
    /// A proxy's tunnel, and TLS in it.
    Tunnel,
}

impl Over {
    fn is_https(self) -> bool {
        matches!(self, Over::Https | Over::Tunnel)
    }

    /// The scheme of the proxy's URL.
    fn proxy(self) -> Option<&'static str> {
        match self {
            Over::Http | Over::Https => None,
            Over::Socks => Some("socks5"),
            Over::Tunnel => Some("http"),
        }
    }

    /// What becomes of a reset: a proxy that has passed everything on only closes.
    fn reset(self) -> Fault {
        if self.proxy().is_some() { Fault::Closed } else { Fault::Reset }
    }
}

/// Makes of each function a test over each of the ways.
macro_rules! over {
    ($($way:ident $module:ident)* : $names:tt) => {
        $(over! { one $way $module $names })*
    };
    (one $way:ident $module:ident { $($name:ident)* }) => {
        mod $module {
            $(#[tokio::test]
            async fn $name() {
                super::$name(super::Over::$way).await;
            })*
        }
    };
}

// A proxy fails by itself in the first two (tests/wire/proxies.rs), and takes the third's body at its own pace.
over! { Http direct_http Https direct_https: {
    a_refused_connection_sent_nothing
    an_upload_that_progresses_past_the_read_limit_is_no_time_out
    connection_requests_that_vanish_end_at_the_connect_limit
}}

over! { Http http Https https Socks socks Tunnel tunnel: {
    without_a_body_a_request_that_nobody_answers_is_in_doubt
    a_connection_that_ends_before_the_request_is_no_proof
    a_small_request_that_nobody_reads_is_in_doubt
    a_large_request_that_nobody_reads_ends_at_the_write_limit
    a_reset_during_the_upload_leaves_a_part
    a_final_answer_during_the_upload_counts
    a_request_read_whole_and_closed_on_is_in_doubt
    a_request_read_whole_and_reset_is_in_doubt
    silence_and_heads_that_never_end_stop_at_the_read_limit
    a_head_that_is_too_large_or_no_http_is_in_doubt
    a_success_whose_body_is_cut_or_stalls_is_no_confirmation
    a_body_that_drips_ends_with_the_attempt_or_at_the_deadline
    a_body_without_end_is_cut_by_our_own_limit_and_confirms
    a_body_without_end_and_without_a_cap_ends_with_the_attempt
    a_page_in_answer_to_json_is_no_confirmation
    an_answer_is_read_whole_with_its_times
}}

/// Sends once.
async fn once(over: Over, fault: partner::Fault, change: impl FnOnce(Sending) -> Sending) -> (Ran, Seen) {
    let partner = Partner::start(fault.script()).expect("starts");
    let front = if over.is_https() { Some(Front::before(partner.addr(), Lane::honest()).await) } else { None };
    let has_door = !matches!(fault, partner::Fault::Refused | partner::Fault::BlackHole);
    let url = match &front {
        None => partner.url("/pay"),
        Some(front) if has_door => front.url("/pay"),
        Some(_) => format!("https://{}/pay", partner.addr()),
    };
    let mut sending = Sending::post(&url).with(|policy| policy.retry.max_attempts = 1);
    let relay = Relay::start(Mode::Fine).await;
    if let Some(scheme) = over.proxy() {
        let proxy = Proxy::parse(&relay.url(scheme)).expect("a proxy");
        sending.proxies = Proxies::one(proxy, "-x", Exclusions::default());
    }
    let ran = change(sending).run().await;
    assert_eq!(relay.stop().connections > 0, over.proxy().is_some());
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

async fn a_refused_connection_sent_nothing(over: Over) {
    let run = once(over, partner::Fault::Refused, small).await;
    unanswered(&run, (Sent::Nothing, Stage::Connect, Fault::ConnectionRefused), Verdict::NotDone, (0, 0, 0));
}

async fn connection_requests_that_vanish_end_at_the_connect_limit(over: Over) {
    let run = once(over, partner::Fault::BlackHole, small).await;
    let expected = (Sent::Nothing, Stage::Connect, Fault::TimedOut(Limit::Connect));
    unanswered(&run, expected, Verdict::NotDone, (0, 0, 0));
    run.0.took_about(LIMITS.connect);
}

#[tokio::test]
async fn a_connection_closed_at_once_sent_nothing() {
    let run = once(Over::Http, partner::Fault::AcceptFin, small).await;
    unanswered(&run, (Sent::Nothing, Stage::Write, Fault::Closed), Verdict::NotDone, (0, 0, 0));
}

#[tokio::test]
async fn a_connection_reset_at_once_sent_nothing() {
    let run = once(Over::Http, partner::Fault::AcceptRst, small).await;
    unanswered(&run, (Sent::Nothing, Stage::Write, Fault::Reset), Verdict::NotDone, (0, 0, 0));
}

#[tokio::test]
async fn without_a_body_a_connection_that_never_took_the_request_sent_nothing() {
    for (fault, expected) in [
        (partner::Fault::AcceptFin, (Sent::Nothing, Stage::Write, Fault::Closed)),
        (partner::Fault::AcceptRst, (Sent::Nothing, Stage::Write, Fault::Reset)),
        (partner::Fault::Unsolicited408, (Sent::Nothing, Stage::Write, Fault::Closed)),
    ] {
        let run = once(Over::Http, fault, |sending| sending.body(0)).await;
        unanswered(&run, expected, Verdict::NotDone, (0, 0, 0));
    }
}

/// Over TLS the client speaks first, and behind a proxy the connection stands before the partner is there: whether the
/// request had left, and whether a 408 is its answer, is a race there. Only the verdict must be true.
async fn a_connection_that_ends_before_the_request_is_no_proof(over: Over) {
    for fault in [partner::Fault::AcceptFin, partner::Fault::AcceptRst, partner::Fault::Unsolicited408] {
        let (ran, partner) = once(over, fault, small).await;
        let is_unsent = matches!(ran.first().outcome, Outcome::Unanswered { sent: Sent::Nothing, .. });
        assert!(is_unsent || over != Over::Http, "{fault}: {:?}", ran.first());
        assert_eq!(ran.verdict, if is_unsent { Verdict::NotDone } else { Verdict::InDoubt }, "{over:?} {fault}");
        assert_eq!((partner.heads, partner.executions), (0, 0));
    }
}

async fn without_a_body_a_request_that_nobody_answers_is_in_doubt(over: Over) {
    for (fault, seen) in [(partner::Fault::NeverRead, (0, 0, 0)), (partner::Fault::AllThenHang, (1, 1, 0))] {
        let run = once(over, fault, |sending| sending.body(0)).await;
        let expected = (Sent::Whole, Stage::FirstByte, Fault::TimedOut(Limit::Read));
        unanswered(&run, expected, Verdict::InDoubt, seen);
    }
}

#[tokio::test]
async fn a_408_before_anything_was_asked_sent_nothing() {
    let run = once(Over::Http, partner::Fault::Unsolicited408, small).await;
    unanswered(&run, (Sent::Nothing, Stage::Write, Fault::Closed), Verdict::NotDone, (0, 0, 0));
}

async fn a_small_request_that_nobody_reads_is_in_doubt(over: Over) {
    let run = once(over, partner::Fault::NeverRead, small).await;
    let expected = (Sent::Whole, Stage::FirstByte, Fault::TimedOut(Limit::Read));
    unanswered(&run, expected, Verdict::InDoubt, (0, 0, 0));
    run.0.took_about(LIMITS.read);
}

async fn a_large_request_that_nobody_reads_ends_at_the_write_limit(over: Over) {
    let run = once(over, partner::Fault::NeverRead, large).await;
    let expected = (Sent::Part, Stage::Write, Fault::TimedOut(Limit::Write));
    unanswered(&run, expected, Verdict::InDoubt, (0, 0, 0));
    run.0.took_about(LIMITS.write);
}

async fn a_reset_during_the_upload_leaves_a_part(over: Over) {
    let run = once(over, partner::Fault::ReadThenRst, large).await;
    unanswered(&run, (Sent::Part, Stage::Write, Fault::Reset), Verdict::InDoubt, (0, 0, 0));
    let run = once(over, partner::Fault::HeadThenRst, large).await;
    unanswered(&run, (Sent::Part, Stage::Write, Fault::Reset), Verdict::InDoubt, (1, 0, 0));
}

async fn an_upload_that_progresses_past_the_read_limit_is_no_time_out(over: Over) {
    // Longer than the kernels' buffers take to drain, shorter than the whole upload.
    let read = Duration::from_millis(250);
    let patient = |policy: &mut Policy| {
        policy.timeouts.read = read;
        policy.timeouts.attempt = Duration::from_secs(30);
        policy.timeouts.overall = Duration::from_secs(30);
    };
    let (ran, partner) = once(over, partner::Fault::ReadSlowly, |s| large(s).with(patient)).await;
    assert_eq!(ran.status(), (201, Ending::Complete));
    assert_eq!((partner.whole, partner.requests[0].body_bytes), (1, LARGE_BYTES));
    let write_us = ran.first().stages.write_us.expect("a body was written");
    assert!(u128::from(write_us) > read.as_micros(), "too fast to show anything: {write_us} us");
}

async fn a_final_answer_during_the_upload_counts(over: Over) {
    let (ran, partner) = once(over, partner::Fault::Early413, large).await;
    assert_eq!(ran.status(), (413, Ending::Complete));
    assert_eq!((ran.verdict, partner.heads, partner.whole), (Verdict::Rejected, 1, 0));
}

async fn a_request_read_whole_and_closed_on_is_in_doubt(over: Over) {
    let run = once(over, partner::Fault::AllThenFin, small).await;
    unanswered(&run, (Sent::Whole, Stage::FirstByte, Fault::Closed), Verdict::InDoubt, (1, 1, 0));
}

async fn a_request_read_whole_and_reset_is_in_doubt(over: Over) {
    let run = once(over, partner::Fault::AllThenRst, small).await;
    unanswered(&run, (Sent::Whole, Stage::FirstByte, over.reset()), Verdict::InDoubt, (1, 1, 0));
}

async fn silence_and_heads_that_never_end_stop_at_the_read_limit(over: Over) {
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
        let run = once(over, fault, small).await;
        unanswered(&run, expected, Verdict::InDoubt, (1, 1, executions));
        run.0.took_about(LIMITS.read);
    }
}

async fn a_head_that_is_too_large_or_no_http_is_in_doubt(over: Over) {
    let run = once(over, partner::Fault::EndlessHeaders, small).await;
    unanswered(&run, (Sent::Whole, Stage::FirstByte, Fault::HeadTooLarge), Verdict::InDoubt, (1, 1, 1));
    let run = once(over, partner::Fault::Garbage, small).await;
    unanswered(&run, (Sent::Whole, Stage::FirstByte, Fault::NotHttp), Verdict::InDoubt, (1, 1, 1));
}

async fn a_success_whose_body_is_cut_or_stalls_is_no_confirmation(over: Over) {
    let (cut, partner) = once(over, partner::Fault::CutBody, small).await;
    assert_eq!(cut.status(), (200, Ending::Cut(Fault::Closed)));
    assert_eq!((cut.verdict, partner.executions), (Verdict::InDoubt, 1));
    let (stalled, _) = once(over, partner::Fault::StalledBody, small).await;
    assert_eq!(stalled.status(), (200, Ending::Cut(Fault::TimedOut(Limit::Body))));
    assert!(!stalled.answer().body.is_empty());
    stalled.took_about(LIMITS.body);
}

async fn a_body_that_drips_ends_with_the_attempt_or_at_the_deadline(over: Over) {
    let (ran, _) = once(over, partner::Fault::DripBody, small).await;
    assert_eq!(ran.status(), (200, Ending::Cut(Fault::TimedOut(Limit::Attempt))));
    ran.took_about(LIMITS.attempt);
    let overall = Duration::from_millis(300);
    let (ran, _) = once(over, partner::Fault::DripBody, |s| s.with(|p| p.timeouts.overall = overall)).await;
    assert_eq!(ran.status(), (200, Ending::Cut(Fault::TimedOut(Limit::Deadline))));
    assert_eq!(ran.verdict, Verdict::InDoubt);
    ran.took_about(overall);
}

async fn a_body_without_end_is_cut_by_our_own_limit_and_confirms(over: Over) {
    for fault in [partner::Fault::Flood, partner::Fault::GiantChunk] {
        let (ran, _) = once(over, fault, |s| s.with(|p| p.sizes.response_bytes = 100_000)).await;
        assert_eq!(ran.status(), (200, Ending::Capped));
        assert_eq!((ran.answer().body.len(), ran.verdict), (100_000, Verdict::Confirmed));
    }
}

async fn a_body_without_end_and_without_a_cap_ends_with_the_attempt(over: Over) {
    let attempt = Duration::from_millis(50);
    let endless = |policy: &mut Policy| {
        policy.timeouts.attempt = attempt;
        policy.sizes.response_bytes = usize::MAX;
    };
    let (ran, _) = once(over, partner::Fault::Flood, |s| s.with(endless)).await;
    assert_eq!(ran.status(), (200, Ending::Cut(Fault::TimedOut(Limit::Attempt))));
    ran.took_about(attempt);
}

async fn a_page_in_answer_to_json_is_no_confirmation(over: Over) {
    let (ran, partner) = once(over, partner::Fault::Html200, small).await;
    assert_eq!(ran.status(), (200, Ending::Complete));
    assert_eq!((ran.verdict, partner.executions), (Verdict::InDoubt, 0));
}

async fn an_answer_is_read_whole_with_its_times(over: Over) {
    let (ran, partner) = once(over, partner::Fault::Fine, small).await;
    assert_eq!(ran.status(), (201, Ending::Complete));
    assert_eq!(ran.answer().headers.first("content-type"), Some("application/json"));
    assert_eq!((ran.verdict, partner.executions), (Verdict::Confirmed, 1));
    let stages = ran.first().stages;
    assert!(stages.connect_us.is_some() && stages.write_us.is_some());
    assert!(stages.first_byte_us.is_some() && stages.body_us.is_some());
    assert_eq!(stages.tls_us.is_some(), over.is_https());
    assert_eq!((stages.resolve_us, ran.first().addr.is_some()), (None, true));
}
