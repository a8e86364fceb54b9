use super::*;
use crate::engine::backoff::{Backoff, Jitter};
use crate::engine::json::Pointer;
use crate::engine::measured::Measured;
use crate::engine::moment::Timestamp;
use crate::engine::policy::{
    BodyRule, ClassifyRules, Control, Idempotency, KeyFormat, KeyPlace, MIN_ATTEMPT, Means, Rule, StatusRule, Timeouts,
    ValueRule,
};
use std::sync::Arc;

const URL: &str = "http://api.example/orders";

fn pointer(text: &str) -> Pointer {
    Pointer::new(text).expect("a pointer")
}

#[test]
fn an_empty_profile_has_the_documented_defaults() {
    let empty = profile("");
    let expected = Policy::unprofiled(Method::new("POST").expect("a method"), "http://api.example:80");
    assert_eq!(policy(&empty, "POST", URL), expected);
    assert_eq!(empty.partner, None);
    assert_eq!(empty.ledger.store_body, StoreBody::Full);
    assert_eq!(empty.ledger.keep_full, Duration::from_secs(30 * 86_400));
    assert_eq!(empty.ledger.forget_after, None);
    assert_eq!(empty.loads, Loads { rate: None, concurrency: None });
}

#[test]
fn the_file_of_the_manual_says_what_it_means() {
    let text = r#"
version  = 1
partner  = "acme-pay"
base_url = "http://api.acme.example"
account  = "live"
timeouts = { connect = "1s", write = "2s", read = "3s", body = "4s", attempt = "5s", overall = "6s" }
[retry]
max_attempts = 3
base = "1s"
cap = "8s"
jitter = "full"
max_retry_after = "2h"
[idempotency]
supported = true
in = "header"
header = "X-Key"
format = "quoted"
max_len = 64
retention = "24h"
replay_marker = "Idempotent-Replayed: true"
settle = "0s"
[error]
message = "/error/message"
[limits]
rate = "20/s"
concurrency = 4
response_bytes = "1MiB"
stored_body_bytes = "64KiB"
[ledger]
store_body = "hash"
keep_full = "7d"
forget_after = "90d"
"#;
    let read = profile(text);
    let second = Duration::from_secs;
    let rules = policy(&read, "POST", "http://api.acme.example/x");
    let timeouts = Timeouts {
        connect: second(1),
        write: second(2),
        read: second(3),
        body: second(4),
        attempt: second(5),
        overall: second(6),
    };
    assert_eq!(rules.timeouts, timeouts);
    assert_eq!(rules.retry.max_attempts, 3);
    assert_eq!(rules.retry.backoff, Backoff { base: second(1), cap: second(8), jitter: Jitter::Full });
    assert_eq!(rules.retry.max_retry_after, second(7200));
    let idempotency = Idempotency {
        supported: true,
        place: KeyPlace::Header(Some("X-Key".into())),
        format: KeyFormat::Quoted,
        max_len: 64,
        retention: Some(second(86_400)),
        replay_marker: Some(("idempotent-replayed".into(), "true".into())),
        settle: Duration::ZERO,
    };
    assert_eq!(rules.idempotency, idempotency);
    assert_eq!(rules.error_message, Some(pointer("/error/message")));
    assert_eq!((rules.sizes.response_bytes, rules.sizes.stored_body_bytes), (1 << 20, 64 << 10));
    assert_eq!(rules.account.as_deref(), Some("live"));
    assert_eq!(read.partner, PartnerName::new("acme-pay"));
    assert_eq!(read.loads, Loads { rate: Some(20.0), concurrency: Some(4) });
    let ledger = LedgerRules {
        store_body: StoreBody::Hash,
        keep_full: second(7 * 86_400),
        forget_after: Some(second(90 * 86_400)),
    };
    assert_eq!(read.ledger, ledger);
}

#[test]
fn rules_about_answers_keep_numbers_as_they_are_written() {
    let text = r#"
[status]
method = "head"
url = "/orders/{key}?a={body:/a~1b}&b={answer:/id}"
confirmed = { status = 200, pointer = "/total", equals = [12.90, 7, true, "x"], same = ["/amount"] }
absent = [404, 410]
settle = "30s"
[success]
content_type = "Application/JSON"
pointer = "/state"
[classify]
refused = [503]
retry_in_doubt = 500
[[classify.rule]]
header = "X-Error: Duplicate"
means = "confirmed"
[[classify.rule]]
status = 303
header = "Location"
means = "accepted"
"#;
    let rules = policy(&profile(text), "POST", URL);
    let status = rules.status.expect("a status section");
    assert_eq!(&*status.method, "HEAD");
    assert_eq!(
        status.url.0,
        [
            UrlPart::Text("http://api.example:80".into()),
            UrlPart::Text("/orders/".into()),
            UrlPart::Key,
            UrlPart::Text("?a=".into()),
            UrlPart::Body(pointer("/a~1b")),
            UrlPart::Text("&b=".into()),
            UrlPart::Answer(pointer("/id")),
        ]
    );
    let values = ["12.90", "7", "true", "x"].map(Into::into).to_vec();
    let total = ValueRule { pointer: pointer("/total"), equals: values };
    let confirmed = StatusRule { statuses: vec![200], value: Some(total), same: vec![pointer("/amount")] };
    assert_eq!(status.confirmed, confirmed);
    assert_eq!(status.absent, Some(StatusRule { statuses: vec![404, 410], value: None, same: vec![] }));
    assert_eq!(status.settle, Some(Duration::from_secs(30)));
    let state = ValueRule { pointer: pointer("/state"), equals: vec![] };
    assert_eq!(rules.success, Some(BodyRule { content_type: Some("application/json".into()), value: Some(state) }));
    let rule = |status, header, means| Rule { status, header: Some(header), value: None, means };
    let expected = ClassifyRules {
        trust_proxy_status: false,
        refused: vec![503],
        retry_in_doubt: vec![500],
        in_progress: vec![],
        rules: vec![
            rule(None, ("x-error".into(), Some("Duplicate".into())), Means::Confirmed),
            rule(Some(303), ("location".into(), None), Means::Accepted),
        ],
    };
    assert_eq!(rules.classify, expected);
}

#[test]
fn a_status_path_joins_base_url_and_a_whole_url_stays() {
    let status = |top: &str, url: &str| {
        let read = profile(&format!("{top}\n[status]\nconfirmed = [200]\nurl = '{url}'"));
        let parts = policy(&read, "POST", URL).status.expect("a status section").url.0;
        let text = |part: &UrlPart| match part {
            UrlPart::Text(text) => text.to_string(),
            other => format!("{other:?}"),
        };
        parts.iter().map(text).collect::<String>()
    };
    assert_eq!(status("", "/s"), "http://api.example:80/s");
    assert_eq!(status("base_url = 'http://api.example/v2/'", "/s"), "http://api.example/v2/s");
    assert_eq!(status("base_url = 'http://api.example/v2'", "http://other.example/s"), "http://other.example/s");
    assert_eq!(status("base_url = 'http://api.example/v2'", "{location}"), "Location");
}

#[test]
fn the_first_endpoint_that_fits_overrides_what_it_states() {
    let text = r#"
base_url = "http://api.example/v1"
[timeouts]
connect = "1s"
read = "2s"
[idempotency]
supported = true
retention = "24h"
[classify]
refused = [503]
[[endpoint]]
method = "POST"
path = "/orders/*"
timeouts = { read = "40s" }
idempotency = { in = "query", header = "rid" }
classify = { in_progress = [409] }
[[endpoint]]
path = "/orders/7"
timeouts = { read = "50s" }
[[endpoint]]
path = "/slow"
measured = { p50 = "3s", samples = 300, grade = "thin" }
"#;
    let read = profile(text);
    let at = |method, path: &str| policy(&read, method, &format!("http://api.example/v1{path}"));
    let seconds = |rules: &Policy| (rules.timeouts.connect.as_secs(), rules.timeouts.read.as_secs());
    let order = at("POST", "/orders/7");
    assert_eq!(seconds(&order), (1, 40));
    assert_eq!(order.idempotency.place, KeyPlace::Query("rid".into()));
    assert_eq!(order.idempotency.retention, Some(Duration::from_secs(86_400)));
    assert_eq!((order.classify.refused, order.classify.in_progress), (vec![503], vec![409]));
    assert_eq!(seconds(&at("GET", "/orders/7")), (1, 50));
    assert_eq!(seconds(&at("POST", "/orders")), (1, 2));
    assert_eq!(at("POST", "/orders").min_attempt, MIN_ATTEMPT);
    assert_eq!(at("POST", "/slow").min_attempt, Duration::from_secs(3));
    // Without the path of base_url in front it is another path.
    assert_eq!(seconds(&policy(&read, "POST", "http://api.example/orders/7")), (1, 40));
    assert_eq!(seconds(&policy(&read, "POST", "http://api.example/v1/v1/orders/7")), (1, 2));
}

#[test]
fn a_control_key_is_an_operation_to_ask_about() {
    let read = profile("[status]\nurl = '/s/{key}'\nconfirmed = [200]\nabsent = [404]\ncontrol_key = 'order-1'");
    let control = policy(&read, "POST", URL).status.expect("a status section").control;
    let expected = Control { key: "order-1".into(), body: Arc::from([]), answer: None, location: None };
    assert_eq!(control, Some(expected));
}

#[test]
fn a_measured_median_never_forbids_every_attempt() {
    let read = profile("[timeouts]\nattempt = '2s'\n[measured]\np50 = '5s'");
    assert_eq!(policy(&read, "POST", URL).min_attempt, Duration::from_secs(2));
}

#[test]
fn all_that_was_measured_lies_where_the_profile_is_unless_it_says_otherwise() {
    let text = "measured.hlog = 'a b.hlog'\n[[endpoint]]\npath = '/slow'\nmeasured = { hlog = '/x/b.hlog' }\n\
                [[endpoint]]\npath = '/new'\nmeasured = { samples = 3 }\n[[endpoint]]\npath = '/other'";
    let read = profile(text);
    let at = |path: &str| {
        let url = Url::parse(&format!("http://api.example{path}")).expect("a URL");
        read.recording(&Method::new("GET").expect("a method"), &url).map(|file| file.display().to_string())
    };
    let home = read.path.parent().expect("a folder").join("a b.hlog").display().to_string();
    assert_eq!([at("/slow"), at("/new")], [Some("/x/b.hlog".into()), None]);
    assert_eq!([at("/other"), at("/")], [Some(home.clone()), Some(home)]);
}

#[test]
fn what_was_measured_is_known_for_its_endpoint_only() {
    let text = "[[endpoint]]\npath = '/slow'\n[endpoint.measured]\nat = '2026-11-30T10:00:00.000Z'\nsamples = 300\n\
                p50 = '1s'\np95 = '2.5s'\np99 = '4.63s'";
    let read = profile(text);
    let expected = Measured {
        at: Some(Timestamp::from_unix_ms(1_796_032_800_000)),
        samples: Some(300),
        p95: Some(Duration::from_millis(2_500)),
        p99: Some(Duration::from_millis(4_630)),
    };
    assert_eq!(policy(&read, "POST", "http://api.example/slow").measured, expected);
    assert_eq!(policy(&read, "POST", URL).measured, Measured::default());
}

#[test]
fn the_key_may_move_into_the_body_for_one_endpoint() {
    let read = profile("[[endpoint]]\npath = '/orders'\nidempotency = { in = 'body', supported = true }");
    assert_eq!(policy(&read, "POST", URL).idempotency.place, KeyPlace::Body);
    assert_eq!(policy(&read, "POST", "http://api.example/x").idempotency, Idempotency::default());
}
