use super::*;
use crate::engine::exchange::{Fault, Headers, Limit, Sent, Stage, Stages, Via};
use crate::engine::json::Pointer;
use crate::engine::moment::Timestamp;
use crate::engine::policy::ValueRule;
use std::sync::Arc;

fn pointer(text: &str) -> Pointer {
    Pointer::new(text).expect("a pointer")
}

fn value(at: &str, equals: &[&str]) -> Option<ValueRule> {
    Some(ValueRule { pointer: pointer(at), equals: equals.iter().map(|text| (*text).into()).collect() })
}

fn policy() -> StatusPolicy {
    let rule = |statuses: &[u16], value| StatusRule { statuses: statuses.to_vec(), value, same: Vec::new() };
    StatusPolicy {
        method: "GET".into(),
        url: UrlTemplate(vec![UrlPart::Text("/orders/".into()), UrlPart::Key]),
        confirmed: StatusRule { same: vec![pointer("/amount")], ..rule(&[], value("/state", &["done"])) },
        rejected: Some(rule(&[], value("/state", &["rejected"]))),
        in_progress: Some(rule(&[], value("/state", &["processing"]))),
        absent: Some(rule(&[404], value("/error", &["not_found"]))),
        control: None,
        settle: None,
    }
}

fn exchange(outcome: Outcome) -> Exchange {
    let at = Timestamp::from_unix_ms(0);
    Exchange {
        outcome,
        stages: Stages::default(),
        took: Duration::from_millis(3),
        addr: None,
        via: Via::Direct,
        error: None,
        at,
    }
}

fn answered(status: u16, headers: &[(&str, &str)], body: &str) -> Exchange {
    let headers = Headers(headers.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect());
    exchange(Outcome::Answered(Answer { status, headers, body: body.into(), ending: Ending::Complete }))
}

fn says(exchange: &Exchange) -> (Says, bool) {
    let asked = judge(exchange, &policy(), About::Operation, br#"{"amount":12.9}"#).asked;
    (asked.says, asked.by_body)
}

#[test]
fn each_rule_says_its_word() {
    assert_eq!(says(&answered(200, &[], r#"{"state":"done","amount":12.90}"#)), (Says::Confirmed, false));
    assert_eq!(says(&answered(200, &[], r#"{"state":"rejected"}"#)), (Says::Rejected, false));
    assert_eq!(says(&answered(200, &[], r#"{"state":"processing"}"#)), (Says::InProgress, false));
    assert_eq!(says(&answered(404, &[], r#"{"error":"not_found"}"#)), (Says::Absent, true));
}

#[test]
fn what_no_rule_covers_is_unclear() {
    for (status, body) in
        [(200, r#"{"state":"odd"}"#), (404, "<html>"), (404, r#"{"error":"no_route"}"#), (500, ""), (401, "")]
    {
        assert_eq!(says(&answered(status, &[], body)).0, Says::Unclear, "{status} {body}");
    }
    let sent = Sent::Whole;
    let silent = Outcome::Unanswered { sent, stage: Stage::FirstByte, fault: Fault::TimedOut(Limit::Read) };
    assert_eq!(says(&exchange(silent)).0, Says::Unclear);
}

#[test]
fn anothers_resource_confirms_nothing() {
    for body in [r#"{"state":"done","amount":13}"#, r#"{"state":"done"}"#, r#"{"state":"done","amount":null}"#] {
        assert_eq!(says(&answered(200, &[], body)).0, Says::Unclear, "{body}");
    }
    let of_control = judge(&answered(200, &[], r#"{"state":"done","amount":13}"#), &policy(), About::Control, b"{}");
    assert_eq!(of_control.asked.says, Says::Confirmed, "a control is another operation");
}

#[test]
fn absence_from_a_cache_is_no_answer() {
    assert_eq!(says(&answered(404, &[("age", "0")], r#"{"error":"not_found"}"#)).0, Says::Unclear);
}

#[test]
fn absence_by_status_alone_needs_a_control() {
    let mut by_status = policy();
    by_status.absent = Some(StatusRule { statuses: vec![404], value: None, same: Vec::new() });
    let asked = judge(&answered(404, &[], "gone"), &by_status, About::Operation, b"").asked;
    assert_eq!((asked.says, asked.by_body), (Says::Absent, false));
}

#[test]
fn a_rule_on_the_body_does_not_fire_on_a_part_of_it() {
    let mut cut = answered(404, &[], r#"{"error":"not_found"}"#);
    if let Outcome::Answered(answer) = &mut cut.outcome {
        answer.ending = Ending::Cut(Fault::Closed);
    }
    assert_eq!(says(&cut).0, Says::Unclear);
}

#[test]
fn a_retry_after_is_passed_on() {
    let said = judge(&answered(503, &[("retry-after", "9")], ""), &policy(), About::Operation, b"");
    assert_eq!(said.retry_after, Some(Duration::from_secs(9)));
}

#[test]
fn status_urls_are_filled_and_encoded() {
    let base = "http://a.example:8080/v1/orders";
    let about = Control {
        key: "a/b c".into(),
        body: Arc::from(&br#"{"ref":"x y","n":7}"#[..]),
        answer: Some(Arc::from(&br#"{"id":"op_1"}"#[..])),
        location: Some("/v1/jobs/7".into()),
    };
    let fill = |parts: Vec<UrlPart>| UrlTemplate(parts).fill(&about, base);
    let text = |text: &str| UrlPart::Text(text.into());
    assert_eq!(fill(vec![text("/s/"), UrlPart::Key]).as_deref(), Ok("http://a.example:8080/s/a%2Fb%20c"));
    assert_eq!(
        fill(vec![text("/s?r="), UrlPart::Body(pointer("/ref")), text("&n="), UrlPart::Body(pointer("/n"))]).as_deref(),
        Ok("http://a.example:8080/s?r=x%20y&n=7")
    );
    assert_eq!(fill(vec![text("/s/"), UrlPart::Answer(pointer("/id"))]).as_deref(), Ok("http://a.example:8080/s/op_1"));
    assert_eq!(fill(vec![UrlPart::Location]).as_deref(), Ok("http://a.example:8080/v1/jobs/7"));
    assert_eq!(fill(vec![UrlPart::Body(pointer("/none"))]), Err("{body:/none}".to_owned()));
}
