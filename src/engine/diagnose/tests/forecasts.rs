//! What `send` would do with what the probe met.

use super::*;
use crate::engine::diagnose::sending::forecast;
use crate::engine::operation::Method;
use crate::engine::policy::Policy;
use crate::engine::reason::Reason;
use crate::engine::story::with_status;

const URL: &str = "https://api.partner.example/orders";

fn policy(method: &str) -> Policy {
    Policy::unprofiled(Method::new(method).expect("a method"), "https://api.partner.example:443")
}

fn keyed(method: &str) -> Policy {
    let mut policy = policy(method);
    policy.idempotency.supported = true;
    policy
}

fn words(seen: &Observations, policy: &Policy) -> String {
    forecast(seen, policy, URL, true).expect("something was met").words
}

#[test]
fn what_follows_depends_on_what_may_be_repeated() {
    let silent = unanswered(SILENCE, Some(acknowledged()));
    let nothing_helps = "in doubt, no protecting key: would end there, nothing can resolve it";
    assert_eq!(words(&silent, &policy("POST")), nothing_helps);
    let asks = "in doubt, no protecting key: would ask the status endpoint first";
    assert_eq!(words(&silent, &with_status(policy("POST"), None, false)), asks);
    assert_eq!(words(&silent, &keyed("POST")), "in doubt, with a protecting key: would try again in 1s to 2s");
    assert_eq!(words(&silent, &policy("GET")), "would try again in 1s to 2s");
}

#[test]
fn what_was_never_sent_is_tried_again_and_what_cannot_change_is_not() {
    let refused = undialled(ConnectFailure::Refused, ms(12));
    assert_eq!(words(&refused, &policy("POST")), "would try again in 1s to 2s");
    let expired = unshaken(Fault::Certificate(Distrust::Expired));
    assert_eq!(words(&expired, &policy("POST")), "would end not done: the same would come again");
    let unnamed = unnamed(LookupFailure::Unavailable, Some(Rcode::ServFail));
    assert_eq!(
        forecast(&unnamed, &policy("POST"), URL, true).map(|it| it.finding.reason),
        Some(Reason::NameUnavailable)
    );
    assert_eq!(
        words(&answered(403, &[], ""), &policy("POST")),
        "would end rejected: somebody has to change something first"
    );
    assert_eq!(words(&well(), &policy("POST")), "would be confirmed");
    assert_eq!(forecast(&started(), &policy("POST"), URL, true), None);
}

#[test]
fn a_retry_after_is_waited_for() {
    let limited = answered(429, &[("retry-after", "30")], "");
    assert_eq!(words(&limited, &policy("POST")), "would try again in 30s to 35s");
    let long = answered(429, &[("retry-after", "7200")], "");
    assert_eq!(words(&long, &policy("POST")), "would end not done: the partner asks for a longer wait");
}

#[test]
fn the_way_of_send_counts_where_it_was_tried() {
    let seen = Observations { second_pass: unanswered(Fault::ProxyForbids, None).exchange, ..well() };
    let found = forecast(&seen, &policy("GET"), URL, true).expect("something was met");
    assert_eq!(found.finding.reason, Reason::ProxyForbids);
}

#[test]
fn doubt_goes_by_the_table_of_send() {
    for (seen, expected) in [
        (unanswered(SILENCE, None), true),
        (unanswered(Fault::ClientCertificateWanted, None), false),
        (answered(502, &[], ""), true),
        (answered(429, &[], ""), false),
        (well(), false),
        (started(), false),
    ] {
        assert_eq!(diagnose(&seen).leaves_doubt, expected);
    }
}
