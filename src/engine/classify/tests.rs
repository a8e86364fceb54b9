use super::*;
use crate::engine::exchange::{Headers, Stages, Via};
use crate::engine::json::Pointer;
use crate::engine::measured::Measured;
use crate::engine::moment::Timestamp;
use crate::engine::operation::Method;
use std::sync::LazyLock;
use std::time::Duration;

fn policy(method: &str) -> Policy {
    Policy::unprofiled(Method::new(method).expect("a method"), "http://a.example:80")
}

fn exchange(outcome: Outcome) -> Exchange {
    Exchange {
        outcome,
        stages: Stages::default(),
        took: Duration::from_millis(7),
        addr: None,
        via: Via::Direct,
        error: None,
        at: Timestamp::from_unix_ms(1_700_000_000_000),
    }
}

fn answer(status: u16, headers: &[(&str, &str)], body: &str) -> Answer {
    let headers = headers.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
    Answer { status, headers: Headers(headers), body: body.as_bytes().to_vec(), ending: Ending::Complete }
}

#[derive(Clone, Copy, Default)]
struct Past {
    had_doubt: bool,
    protected: bool,
    hops: u32,
}

fn finding(policy: &Policy, answer: Answer, past: Past) -> Finding {
    classify(&exchange(Outcome::Answered(answer)), &context(policy, past))
}

fn context(policy: &Policy, past: Past) -> Context<'_> {
    static NO_SECRETS: LazyLock<Mask> = LazyLock::new(Mask::default);
    let Past { had_doubt, protected, hops } = past;
    let url = "http://a.example/orders";
    Context { policy, url, had_doubt, protected, hops, trail: &[], mask: &NO_SECRETS, json: true }
}

fn of_status(method: &str, status: u16, past: Past) -> (Evidence, Option<bool>, Again, Option<Side>) {
    let found = finding(&policy(method), answer(status, &[("location", "/next")], ""), past);
    assert_eq!(found.http, Some(status));
    (found.evidence, found.done, found.again, found.side)
}

const NONE: Past = Past { had_doubt: false, protected: false, hops: 0 };
const KEYED_DOUBT: Past = Past { had_doubt: true, protected: true, hops: 0 };
const DOUBT: Past = Past { had_doubt: true, protected: false, hops: 0 };

#[test]
fn every_status_of_a_post_means_what_the_table_says() {
    use Again::{Later, No, Once, Yes};
    use Evidence::{Accepted, Answered, InDoubt, Refused};
    use Side::{Configuration, Network, Ours, Theirs, Unclear};
    let done = |code| (code, Answered, Some(true), No, None);
    let rejected = |code, side| (code, Answered, Some(false), No, Some(side));
    let rows = [
        done(200),
        done(201),
        done(203),
        done(204),
        done(205),
        (202, Accepted, None, Later, Some(Theirs)),
        (206, InDoubt, None, No, Some(Theirs)),
        (207, InDoubt, None, No, Some(Theirs)),
        (226, InDoubt, None, No, Some(Theirs)),
        rejected(300, Theirs),
        rejected(304, Theirs),
        rejected(305, Theirs),
        (301, InDoubt, None, No, Some(Configuration)),
        (302, InDoubt, None, No, Some(Configuration)),
        (303, InDoubt, None, No, Some(Configuration)),
        (307, Refused, None, Yes, Some(Theirs)),
        (308, Refused, None, Yes, Some(Theirs)),
        rejected(400, Ours),
        rejected(422, Ours),
        rejected(405, Ours),
        rejected(415, Ours),
        rejected(423, Ours),
        rejected(424, Ours),
        (401, Refused, None, No, Some(Configuration)),
        (407, Refused, None, No, Some(Configuration)),
        rejected(402, Configuration),
        rejected(403, Configuration),
        rejected(404, Configuration),
        rejected(410, Configuration),
        rejected(451, Configuration),
        (408, InDoubt, None, Yes, Some(Unclear)),
        (409, InDoubt, None, No, Some(Unclear)),
        (412, InDoubt, None, No, Some(Unclear)),
        rejected(413, Ours),
        (421, Refused, None, Once, Some(Network)),
        (425, Refused, None, Once, Some(Network)),
        (429, Refused, None, Yes, Some(Ours)),
        (500, InDoubt, None, No, Some(Theirs)),
        rejected(501, Configuration),
        rejected(505, Configuration),
        rejected(507, Theirs),
        rejected(508, Theirs),
        (502, InDoubt, None, Yes, Some(Theirs)),
        (503, InDoubt, None, Yes, Some(Theirs)),
        (504, InDoubt, None, Yes, Some(Theirs)),
        (511, Refused, None, No, Some(Network)),
        (520, InDoubt, None, No, Some(Theirs)),
        (529, InDoubt, None, No, Some(Theirs)),
        (999, InDoubt, None, No, Some(Theirs)),
    ];
    for (code, evidence, done, again, side) in rows {
        assert_eq!(of_status("POST", code, NONE), (evidence, done, again, side), "{code}");
    }
}

#[test]
fn retry_after_does_not_make_a_503_certain() {
    let found = finding(&policy("POST"), answer(503, &[("retry-after", "5")], ""), NONE);
    assert_eq!(found.evidence, Evidence::InDoubt);
    assert_eq!(found.retry_after, Some(Duration::from_secs(5)));
    let mut stated = policy("POST");
    stated.classify.refused = vec![503];
    assert_eq!(finding(&stated, answer(503, &[], ""), NONE).evidence, Evidence::Refused);
}

#[test]
fn a_malformed_retry_after_is_told_and_ignored() {
    let found = finding(&policy("POST"), answer(429, &[("retry-after", "soon")], ""), NONE);
    assert_eq!((found.retry_after, found.retry_after_malformed), (None, true));
}

#[test]
fn a_413_is_worth_a_retry_only_with_a_retry_after() {
    let found = finding(&policy("POST"), answer(413, &[("retry-after", "3")], ""), NONE);
    assert_eq!((found.evidence, found.again, found.http), (Evidence::Refused, Again::Yes, Some(413)));
    assert_eq!(found.retry_after, Some(Duration::from_secs(3)));
}

#[test]
fn a_409_after_doubt_with_a_protecting_key_is_our_own_attempt() {
    assert_eq!(of_status("POST", 409, KEYED_DOUBT).2, Again::Later);
    assert_eq!(of_status("POST", 409, DOUBT).2, Again::No);
    assert_eq!(of_status("POST", 412, KEYED_DOUBT), (Evidence::InDoubt, None, Again::No, Some(Side::Unclear)));
}

#[test]
fn a_delete_that_finds_nothing_after_doubt_was_done() {
    for status in [404, 410] {
        assert_eq!(of_status("DELETE", status, DOUBT), (Evidence::Answered, Some(true), Again::No, None));
        assert_eq!(of_status("DELETE", status, NONE).1, Some(false));
        assert_eq!(of_status("POST", status, DOUBT).1, Some(false));
    }
}

#[test]
fn redirects_of_writes_are_followed_only_where_nothing_can_leak_or_change() {
    let to = |location: &str, past: Past| {
        let found = finding(&policy("POST"), answer(307, &[("location", location)], ""), past);
        (found.reason, found.again, found.hop)
    };
    let hop = Some("http://a.example/next".to_owned());
    assert_eq!(to("/next", NONE), (Reason::RedirectHop, Again::Yes, hop.clone()));
    assert_eq!(to("/next", Past { hops: 2, ..NONE }), (Reason::RedirectHop, Again::Yes, hop));
    assert_eq!(to("/next", Past { hops: 3, ..NONE }), (Reason::TooManyRedirects, Again::No, None));
    for elsewhere in ["http://b.example/x", "https://a.example/x", "http://a.example:81/x", "//b.example/x", ""] {
        assert_eq!(to(elsewhere, NONE), (Reason::RedirectElsewhere, Again::No, None), "{elsewhere}");
    }
}

#[test]
fn a_redirected_read_is_not_done_by_configuration() {
    for status in [301, 302, 303, 307, 308] {
        assert_eq!(of_status("GET", status, NONE), (Evidence::Refused, None, Again::No, Some(Side::Configuration)));
    }
}

/// Where `-L` leads from `url` after `trail`, or why it leads nowhere.
fn followed(url: &str, location: &str, trail: &[&str]) -> Result<String, Reason> {
    let policy = Policy { follow: true, ..policy("GET") };
    let trail: Vec<Box<str>> = trail.iter().map(|url| (*url).into()).collect();
    let mut mask = Mask::default();
    mask.add("s3cret-key");
    let hops = trail.len().try_into().expect("a few");
    let context = Context { url, trail: &trail, mask: &mask, ..context(&policy, Past { hops, ..NONE }) };
    let answer = answer(302, &[("location", location)], "");
    let found = classify(&exchange(Outcome::Answered(answer)), &context);
    assert_eq!((found.evidence, found.again == Again::Yes), (Evidence::Refused, found.hop.is_some()));
    found.hop.ok_or(found.reason)
}

#[test]
fn a_read_is_followed_wherever_no_secret_goes_along() {
    let from = "http://a.example/x";
    for (url, location, expected) in [
        (from, "/y", Ok("http://a.example/y")),
        (from, "//b.example/y", Ok("http://b.example/y")),
        (from, "https://a.example/x", Ok("https://a.example/x")),
        ("https://a.example/x", "https://b.example/", Ok("https://b.example/")),
        ("https://a.example/x", "http://a.example/x", Err(Reason::RedirectInsecure)),
        ("https://a.example/x", "HTTP://a.example/x", Err(Reason::RedirectInsecure)),
        (from, "http://b.example/?k=s3cret-key", Err(Reason::RedirectElsewhere)),
        (from, "/?k=s3cret-key", Ok("http://a.example/?k=s3cret-key")),
        (from, "http://bob:pw@a.example/", Err(Reason::RedirectNowhere)),
        (from, "http://", Err(Reason::RedirectNowhere)),
        (from, "mailto:a@b", Err(Reason::RedirectNowhere)),
        (from, "", Err(Reason::RedirectNowhere)),
        (from, "/x", Err(Reason::RedirectLoop)),
    ] {
        assert_eq!(followed(url, location, &[]), expected.map(str::to_owned), "{url} -> {location}");
    }
    assert_eq!(followed("http://a.example/2", "/1", &["http://a.example/1"]), Err(Reason::RedirectLoop));
    let long: Vec<String> = (0..FOLLOWS_MAX).map(|n| format!("http://a.example/{n}")).collect();
    let long: Vec<&str> = long.iter().map(String::as_str).collect();
    assert_eq!(followed("http://a.example/9", "/new", &long), Err(Reason::TooManyRedirects));
    assert!(followed("http://a.example/9", "/new", &long[1..]).is_ok());
    for status in [300, 304, 305] {
        let policy = Policy { follow: true, ..policy("GET") };
        assert_eq!(finding(&policy, answer(status, &[("location", "/y")], ""), NONE).reason, Reason::Redirect);
    }
}

#[test]
fn a_gateway_is_believed_only_where_the_profile_trusts_it() {
    const REFUSED: &str = "gw; error=connection_refused";
    const TIMED_OUT: &str = "gw; error=http_response_timeout";
    for (status, trusted, report, expected) in [
        (502, true, REFUSED, (Evidence::Refused, Reason::NotForwarded, Again::Yes)),
        (503, true, REFUSED, (Evidence::Refused, Reason::NotForwarded, Again::Yes)),
        (504, true, REFUSED, (Evidence::Refused, Reason::NotForwarded, Again::Yes)),
        (500, true, REFUSED, (Evidence::Refused, Reason::NotForwarded, Again::Yes)),
        (502, false, REFUSED, (Evidence::InDoubt, Reason::Gateway, Again::Yes)),
        (502, true, TIMED_OUT, (Evidence::InDoubt, Reason::Gateway, Again::Yes)),
        (502, true, "origin, gw; error=dns_error", (Evidence::InDoubt, Reason::Gateway, Again::Yes)),
        (409, true, REFUSED, (Evidence::InDoubt, Reason::Conflict, Again::No)),
        (403, true, REFUSED, (Evidence::Answered, Reason::Rejected, Again::No)),
        (200, true, REFUSED, (Evidence::Answered, Reason::Ok, Again::No)),
    ] {
        let mut policy = policy("POST");
        policy.classify.trust_proxy_status = trusted;
        let found = finding(&policy, answer(status, &[("proxy-status", report)], ""), NONE);
        assert_eq!((found.evidence, found.reason, found.again), expected, "{status} {trusted} {report}");
        assert_eq!(found.http, Some(status));
    }
    let mut policy = policy("POST");
    policy.classify.trust_proxy_status = true;
    policy.classify.rules = vec![Rule { status: Some(502), header: None, value: None, means: Means::InDoubt }];
    let found = finding(&policy, answer(502, &[("proxy-status", REFUSED)], ""), NONE);
    assert_eq!((found.evidence, found.reason), (Evidence::InDoubt, Reason::Rule), "a rule of the profile wins");
}

#[test]
fn a_407_through_a_forwarding_proxy_is_the_proxys() {
    for (via, reason) in [
        (Via::Direct, Reason::Credentials),
        (Via::Tunnel, Reason::Credentials),
        (Via::Forward, Reason::ProxyCredentials),
    ] {
        let policy = policy("POST");
        let exchange = Exchange { via, ..exchange(Outcome::Answered(answer(407, &[], ""))) };
        assert_eq!(classify(&exchange, &context(&policy, NONE)).reason, reason, "{via:?}");
    }
}

#[test]
fn no_connection_in_time_through_a_proxy_says_so() {
    let policy = policy("POST");
    let fault = Fault::TimedOut(Limit::Connect);
    let outcome = Outcome::Unanswered { sent: Sent::Nothing, stage: Stage::Connect, fault };
    let reason = |via| classify(&Exchange { via, ..exchange(outcome.clone()) }, &context(&policy, NONE)).reason;
    assert_eq!((reason(Via::Direct), reason(Via::Tunnel)), (Reason::ConnectTimeout, Reason::ProxyTimeout));
}

#[test]
fn a_cut_success_is_no_confirmation_even_where_a_rule_says_so() {
    let mut rules = policy("POST");
    rules.classify.rules = vec![Rule { status: Some(200), header: None, value: None, means: Means::Confirmed }];
    for (fault, reason) in [
        (Fault::Closed, Reason::AnswerCut),
        (Fault::Reset, Reason::AnswerCut),
        (Fault::TimedOut(Limit::Body), Reason::AnswerStalled),
        (Fault::TimedOut(Limit::Deadline), Reason::AnswerStalled),
    ] {
        let cut = Answer { ending: Ending::Cut(fault), ..answer(200, &[], "{") };
        let found = finding(&rules, cut, NONE);
        assert_eq!((found.evidence, found.again, found.reason), (Evidence::InDoubt, Again::Yes, reason));
        assert_eq!((found.http, found.stage), (Some(200), Some(Stage::Body)));
    }
}

#[test]
fn a_body_cut_by_our_own_limit_stays_answered_and_is_not_looked_into() {
    let mut strict = policy("POST");
    strict.success = Some(BodyRule { content_type: None, value: Some(value("/state", &["done"])) });
    strict.classify.rules =
        vec![Rule { status: None, header: None, value: Some(value("/state", &["x"])), means: Means::Rejected }];
    let capped = Answer { ending: Ending::Capped, ..answer(200, &[], "{\"state\":\"x\"}") };
    assert_eq!(finding(&strict, capped, NONE).done, Some(true));
}

fn value(pointer: &str, equals: &[&str]) -> ValueRule {
    let equals = equals.iter().map(|text| (*text).into()).collect();
    ValueRule { pointer: Pointer::new(pointer).expect("a pointer"), equals }
}

#[test]
fn success_is_what_the_profile_calls_one() {
    let mut strict = policy("POST");
    strict.success =
        Some(BodyRule { content_type: Some("application/json".into()), value: Some(value("/state", &["done"])) });
    let json = [("content-type", "Application/JSON; charset=utf-8")];
    let of = |headers: &[(&str, &str)], body: &str| finding(&strict, answer(200, headers, body), NONE).reason;
    assert_eq!(of(&json, "{\"state\":\"done\"}"), Reason::Ok);
    assert_eq!(of(&json, "{\"state\":\"failed\"}"), Reason::NotASuccess);
    assert_eq!(of(&json, "{}"), Reason::NotASuccess);
    assert_eq!(of(&[], "{\"state\":\"done\"}"), Reason::NotASuccess);
    strict.method = Method::new("HEAD").expect("a method");
    assert_eq!(finding(&strict, answer(200, &[], ""), NONE).reason, Reason::Ok);
}

#[test]
fn a_login_page_in_answer_to_json_is_no_success() {
    let found = finding(&policy("POST"), answer(200, &[("content-type", "text/html")], "<p>"), NONE);
    assert_eq!((found.evidence, found.again, found.side), (Evidence::InDoubt, Again::No, Some(Side::Network)));
    assert_eq!(finding(&policy("POST"), answer(200, &[], " <!DOCTYPE HTML>"), NONE).reason, Reason::Html);
    assert_eq!(finding(&policy("POST"), answer(200, &[], "ok"), NONE).reason, Reason::Ok);
}

#[test]
fn the_first_matching_rule_wins_over_lists_and_table() {
    let mut rules = policy("POST");
    let rule = |status, header, value, means| Rule { status, header, value, means };
    rules.classify.rules = vec![
        rule(Some(409), None, Some(value("/error/code", &["duplicate_order"])), Means::Confirmed),
        rule(Some(409), Some(("x-state".into(), Some("running".into()))), None, Means::InProgress),
        rule(Some(409), Some(("x-final".into(), None)), None, Means::Rejected),
        rule(Some(503), None, None, Means::InDoubt),
    ];
    rules.classify.refused = vec![503, 409];
    let of = |status, headers: &[(&str, &str)], body: &str| {
        let found = finding(&rules, answer(status, headers, body), NONE);
        (found.evidence, found.done, found.again)
    };
    assert_eq!(of(409, &[], r#"{"error":{"code":"duplicate_order"}}"#), (Evidence::Answered, Some(true), Again::No));
    assert_eq!(of(409, &[("x-state", "running")], ""), (Evidence::InDoubt, None, Again::Later));
    assert_eq!(of(409, &[("x-final", "any")], ""), (Evidence::Answered, Some(false), Again::No));
    assert_eq!(of(409, &[], ""), (Evidence::Refused, None, Again::Yes));
    assert_eq!(of(503, &[], ""), (Evidence::InDoubt, None, Again::Yes));
    let cut =
        Answer { ending: Ending::Cut(Fault::Closed), ..answer(409, &[], r#"{"error":{"code":"duplicate_order"}}"#) };
    assert_eq!(finding(&rules, cut, NONE).evidence, Evidence::Refused, "a rule on the body does not fire on a part");
}

#[test]
fn a_500_is_repeated_only_where_the_profile_says_so_and_never_when_it_is_the_stored_answer() {
    let mut listed = policy("POST");
    listed.classify.retry_in_doubt = vec![500];
    listed.idempotency.replay_marker = Some(("Idempotent-Replayed".into(), "true".into()));
    assert_eq!(finding(&listed, answer(500, &[], ""), NONE).again, Again::Yes);
    let replayed = finding(&listed, answer(500, &[("idempotent-replayed", "True")], ""), KEYED_DOUBT);
    assert_eq!((replayed.again, replayed.replayed), (Again::No, true));
}

#[test]
fn what_never_left_is_not_sent_and_what_left_whole_is_in_doubt() {
    use Fault::*;
    let rows = [
        (Sent::Nothing, Stage::Resolve, NameUnknown, Evidence::NotSent, Again::Once, Reason::NameUnknown),
        (Sent::Nothing, Stage::Resolve, NameUnavailable, Evidence::NotSent, Again::Yes, Reason::NameUnavailable),
        (Sent::Nothing, Stage::Resolve, TimedOut(Limit::Connect), Evidence::NotSent, Again::Yes, Reason::NameTimeout),
        (Sent::Nothing, Stage::Connect, ConnectionRefused, Evidence::NotSent, Again::Yes, Reason::ConnectRefused),
        (
            Sent::Nothing,
            Stage::Connect,
            TimedOut(Limit::Connect),
            Evidence::NotSent,
            Again::Yes,
            Reason::ConnectTimeout,
        ),
        (Sent::Nothing, Stage::Tls, TimedOut(Limit::Deadline), Evidence::NotSent, Again::Yes, Reason::TlsTimeout),
        (Sent::Nothing, Stage::Connect, Unreachable, Evidence::NotSent, Again::Yes, Reason::Unreachable),
        (Sent::Nothing, Stage::Connect, LocalResources, Evidence::NotSent, Again::Yes, Reason::LocalResources),
        (Sent::Nothing, Stage::Tls, Certificate(Distrust::Name), Evidence::NotSent, Again::No, Reason::CertificateName),
        (
            Sent::Nothing,
            Stage::Tls,
            Certificate(Distrust::Issuer),
            Evidence::NotSent,
            Again::No,
            Reason::CertificateIssuer,
        ),
        (
            Sent::Nothing,
            Stage::Tls,
            Certificate(Distrust::Expired),
            Evidence::NotSent,
            Again::No,
            Reason::CertificateExpired,
        ),
        (Sent::Nothing, Stage::Tls, Certificate(Distrust::Other), Evidence::NotSent, Again::No, Reason::Certificate),
        (Sent::Nothing, Stage::Connect, NoTrust, Evidence::NotSent, Again::No, Reason::NoTrust),
        (Sent::Nothing, Stage::Tls, NotTls, Evidence::NotSent, Again::No, Reason::NotTls),
        (Sent::Nothing, Stage::Tls, TlsIncompatible, Evidence::NotSent, Again::No, Reason::TlsIncompatible),
        (Sent::Nothing, Stage::Tls, Tls, Evidence::NotSent, Again::No, Reason::TlsFailed),
        (Sent::Nothing, Stage::Tls, Reset, Evidence::NotSent, Again::Yes, Reason::TlsFailed),
        (Sent::Nothing, Stage::Connect, Proxy, Evidence::NotSent, Again::Yes, Reason::ProxyFailed),
        (Sent::Nothing, Stage::Connect, ProxyCredentials, Evidence::NotSent, Again::No, Reason::ProxyCredentials),
        (Sent::Nothing, Stage::Resolve, ProxyNameUnknown, Evidence::NotSent, Again::Once, Reason::ProxyNameUnknown),
        (Sent::Nothing, Stage::Connect, ProxyUnreachable, Evidence::NotSent, Again::Yes, Reason::ProxyUnreachable),
        (Sent::Nothing, Stage::Connect, ProxyForbids, Evidence::NotSent, Again::No, Reason::ProxyForbids),
        (Sent::Nothing, Stage::Connect, BeyondProxy, Evidence::NotSent, Again::Yes, Reason::BeyondProxy),
        (Sent::Nothing, Stage::Write, Closed, Evidence::NotSent, Again::Yes, Reason::ClosedBeforeSent),
        (Sent::Part, Stage::Write, TimedOut(Limit::Write), Evidence::Partial, Again::Yes, Reason::WriteTimeout),
        (Sent::Part, Stage::Write, Reset, Evidence::Partial, Again::Yes, Reason::ClosedWhileSending),
        (Sent::Whole, Stage::FirstByte, TimedOut(Limit::Read), Evidence::InDoubt, Again::Yes, Reason::ReadTimeout),
        (
            Sent::Whole,
            Stage::FirstByte,
            TimedOut(Limit::Attempt),
            Evidence::InDoubt,
            Again::Yes,
            Reason::AttemptTimeout,
        ),
        (
            Sent::Whole,
            Stage::FirstByte,
            TimedOut(Limit::Deadline),
            Evidence::InDoubt,
            Again::Yes,
            Reason::DeadlineReached,
        ),
        (Sent::Whole, Stage::FirstByte, Closed, Evidence::InDoubt, Again::Yes, Reason::Unanswered),
        (Sent::Whole, Stage::FirstByte, Reset, Evidence::InDoubt, Again::Yes, Reason::Unanswered),
        (Sent::Whole, Stage::FirstByte, NotHttp, Evidence::InDoubt, Again::Once, Reason::NotHttp),
        (Sent::Whole, Stage::FirstByte, Suspended, Evidence::InDoubt, Again::Yes, Reason::Suspended),
        (
            Sent::Whole,
            Stage::FirstByte,
            ClientCertificateRefused,
            Evidence::NotSent,
            Again::No,
            Reason::ClientCertificate,
        ),
        (
            Sent::Whole,
            Stage::FirstByte,
            ClientCertificateWanted,
            Evidence::NotSent,
            Again::No,
            Reason::ClientCertificateWanted,
        ),
        (Sent::Whole, Stage::FirstByte, Alert, Evidence::InDoubt, Again::Yes, Reason::TlsAlert),
        (Sent::Part, Stage::Write, Alert, Evidence::Partial, Again::Yes, Reason::TlsAlert),
        (Sent::Whole, Stage::FirstByte, Other, Evidence::InDoubt, Again::Yes, Reason::Unanswered),
    ];
    let post = policy("POST");
    let context = Context { json: false, ..context(&post, NONE) };
    for (sent, stage, fault, evidence, again, reason) in rows {
        let found = classify(&exchange(Outcome::Unanswered { sent, stage, fault }), &context);
        assert_eq!(
            (found.evidence, found.again, found.reason, found.stage),
            (evidence, again, reason, Some(stage)),
            "{fault:?}"
        );
        assert_eq!((found.done, found.http, found.hop), (None, None, None));
    }
}

/// A partner of whose answers one in a hundred takes longer than 5 s.
fn measured() -> Policy {
    let measured = Measured { p99: Some(Duration::from_secs(5)), ..Measured::default() };
    Policy { measured, ..policy("POST") }
}

#[test]
fn an_answer_that_was_given_up_before_the_measured_p99_is_our_own_fault() {
    use Side::{Network, Ours, Theirs};
    let connected = Stages { resolve_us: Some(100_000), connect_us: Some(900_000), ..Stages::default() };
    // The stage, what ended it, how long the attempt took of which a second went into connecting, and what is said of it.
    let rows = [
        (Stage::FirstByte, Fault::TimedOut(Limit::Read), 3_000, Reason::ReadLimitShort, Ours),
        (Stage::FirstByte, Fault::TimedOut(Limit::Read), 5_999, Reason::ReadLimitShort, Ours),
        (Stage::FirstByte, Fault::TimedOut(Limit::Read), 6_000, Reason::ReadTimeout, Theirs),
        (Stage::FirstByte, Fault::TimedOut(Limit::Attempt), 5_000, Reason::AttemptTimeout, Ours),
        (Stage::FirstByte, Fault::TimedOut(Limit::Attempt), 7_000, Reason::AttemptTimeout, Theirs),
        (Stage::FirstByte, Fault::TimedOut(Limit::Deadline), 2_000, Reason::DeadlineReached, Ours),
        (Stage::FirstByte, Fault::TimedOut(Limit::Deadline), 9_000, Reason::DeadlineReached, Theirs),
        (Stage::Connect, Fault::TimedOut(Limit::Connect), 3_000, Reason::ConnectTimeout, Network),
        (Stage::Write, Fault::TimedOut(Limit::Write), 3_000, Reason::WriteTimeout, Theirs),
        (Stage::FirstByte, Fault::Closed, 3_000, Reason::Unanswered, Side::Unclear),
    ];
    let (rules, unmeasured) = (measured(), policy("POST"));
    for (stage, fault, took, reason, side) in rows {
        let outcome = Outcome::Unanswered { sent: Sent::Whole, stage, fault };
        let given_up = Exchange { stages: connected, took: Duration::from_millis(took), ..exchange(outcome) };
        let found = classify(&given_up, &context(&rules, NONE));
        assert_eq!((found.reason, found.side), (reason, Some(side)), "{fault:?} after {took}");
        // What it proves, and whether it is repeated, does not depend on whose fault it is.
        let before = classify(&given_up, &context(&unmeasured, NONE));
        assert_eq!((found.evidence, found.again), (before.evidence, before.again));
        assert_ne!(before.side, Some(Ours));
    }
}

#[test]
fn an_answer_that_takes_longer_than_the_measured_p99_is_slow() {
    let rules = measured();
    let slow = |policy: &Policy, ms: u64| {
        let stages = Stages { first_byte_us: Some(ms * 1_000), ..Stages::default() };
        let answered = Exchange { stages, ..exchange(Outcome::Answered(answer(201, &[], "{}"))) };
        classify(&answered, &context(policy, NONE)).slow
    };
    assert_eq!([4_999, 5_000, 5_001].map(|ms| slow(&rules, ms)), [false, false, true]);
    assert!(!slow(&policy("POST"), 60_000), "nothing was measured");
}
