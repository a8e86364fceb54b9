//! What an exchange means: one table, one place.
//!
//! Source of every row: the decision table in reference semantics 1.3 to 1.5, under decisions 2 to 9 and 15.

mod redirect;

pub use redirect::{FOLLOWS_MAX, HOPS_MAX};

use super::exchange::{Answer, Distrust, Ending, Exchange, Fault, Limit, Outcome, Sent, Stage, Via};
use super::facts::Again;
use super::gateway::Report;
use super::planted::{Bug, planted};
use super::policy::{BodyRule, Means, Policy, Rule, ValueRule};
use super::reason::Reason;
use super::retry_after::{self, RetryAfter};
use super::secret::Mask;
use super::verdict::{Evidence, Side};
use std::time::Duration;

/// What the table needs to know besides the exchange.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    /// The rules of the partner.
    pub policy: &'a Policy,
    /// The URL that was asked, absolute.
    pub url: &'a str,
    /// An earlier attempt of this operation is unresolved.
    pub had_doubt: bool,
    /// The partner honours the key, and the key still protects.
    pub protected: bool,
    /// Redirects followed in a row so far.
    pub hops: u32,
    /// Where these led, in order.
    pub trail: &'a [Box<str>],
    /// The secrets that no other origin may see.
    pub mask: &'a Mask,
    /// The request has or wants JSON.
    pub json: bool,
}

/// What an exchange means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// What it proves about execution.
    pub evidence: Evidence,
    /// For [`Evidence::Answered`]: whether the partner did it.
    pub done: Option<bool>,
    /// Whether it is worth another attempt.
    pub again: Again,
    /// What happened.
    pub reason: Reason,
    /// Where it failed.
    pub stage: Option<Stage>,
    /// Whose fault it is.
    pub side: Option<Side>,
    /// The HTTP status.
    pub http: Option<u16>,
    /// How long the partner asks us to wait.
    pub retry_after: Option<Duration>,
    /// The partner sent a Retry-After that means nothing.
    pub retry_after_malformed: bool,
    /// The answer is marked as a stored one.
    pub replayed: bool,
    /// The answer took longer than 99 % of those that were measured before.
    pub slow: bool,
    /// Where to send the next attempt at once.
    pub hop: Option<String>,
}

impl Finding {
    fn new(evidence: Evidence, again: Again, reason: Reason, side: Side) -> Finding {
        Finding {
            evidence,
            done: None,
            again,
            reason,
            stage: None,
            side: Some(side),
            http: None,
            retry_after: None,
            retry_after_malformed: false,
            replayed: false,
            slow: false,
            hop: None,
        }
    }

    fn confirmed(reason: Reason) -> Finding {
        Finding { done: Some(true), side: None, ..Finding::new(Evidence::Answered, Again::No, reason, Side::Unclear) }
    }

    fn rejected(reason: Reason, side: Side) -> Finding {
        Finding { done: Some(false), ..Finding::new(Evidence::Answered, Again::No, reason, side) }
    }
}

/// Returns what an exchange means.
pub fn classify(exchange: &Exchange, context: &Context<'_>) -> Finding {
    match &exchange.outcome {
        Outcome::Unanswered { sent, stage, fault } => {
            let finding = Finding { stage: Some(*stage), ..unanswered(*sent, *stage, *fault) };
            match (finding.reason, exchange.via) {
                (Reason::ConnectTimeout, Via::Forward | Via::Tunnel) => {
                    Finding { reason: Reason::ProxyTimeout, ..finding }
                }
                // Nothing says that the partner failed: it may well have been about to answer (semantics.md 1.6).
                (reason, _) if context.policy.measured.gave_up_early(exchange) => {
                    let reason = if reason == Reason::ReadTimeout { Reason::ReadLimitShort } else { reason };
                    Finding { reason, side: Some(Side::Ours), ..finding }
                }
                _ => finding,
            }
        }
        Outcome::Answered(answer) => answered(answer, exchange, context),
    }
}

fn unanswered(sent: Sent, stage: Stage, fault: Fault) -> Finding {
    let evidence = match sent {
        _ if fault == Fault::Alert && planted(Bug::AlertRefuses) => Evidence::NotSent,
        Sent::Nothing => Evidence::NotSent,
        Sent::Part if planted(Bug::PartIsNothing) => Evidence::NotSent,
        Sent::Part => Evidence::Partial,
        Sent::Whole => Evidence::InDoubt,
    };
    let (again, reason, side) = match (fault, sent) {
        // Who refuses to talk to us has not looked at what we said (decisions 15).
        (Fault::ClientCertificateRefused, _) => {
            return Finding::new(Evidence::NotSent, Again::No, Reason::ClientCertificate, Side::Configuration);
        }
        (Fault::ClientCertificateWanted, _) => {
            return Finding::new(Evidence::NotSent, Again::No, Reason::ClientCertificateWanted, Side::Configuration);
        }
        (Fault::NameUnknown, _) => (Again::Once, Reason::NameUnknown, Side::Configuration),
        (Fault::NameUnavailable, _) => (Again::Yes, Reason::NameUnavailable, Side::Network),
        (Fault::ConnectionRefused, _) => (Again::Yes, Reason::ConnectRefused, Side::Theirs),
        (Fault::Unreachable, Sent::Nothing) => (Again::Yes, Reason::Unreachable, Side::Network),
        (Fault::LocalResources, _) => (Again::Yes, Reason::LocalResources, Side::Ours),
        (Fault::Unbuildable, _) => (Again::No, Reason::Unbuildable, Side::Ours),
        (Fault::Expired, _) => (Again::No, Reason::Expired, Side::Ours),
        (Fault::Certificate(why), _) => distrusted(why),
        (Fault::NoTrust, _) => (Again::No, Reason::NoTrust, Side::Configuration),
        (Fault::NotTls, _) => (Again::No, Reason::NotTls, Side::Configuration),
        (Fault::TlsIncompatible, _) => (Again::No, Reason::TlsIncompatible, Side::Configuration),
        (Fault::Alert, _) => (Again::Yes, Reason::TlsAlert, Side::Unclear),
        (Fault::Tls, _) => (Again::No, Reason::TlsFailed, Side::Configuration),
        (Fault::ProxyNameUnknown, _) => (Again::Once, Reason::ProxyNameUnknown, Side::Configuration),
        (Fault::ProxyUnreachable, _) => (Again::Yes, Reason::ProxyUnreachable, Side::Network),
        (Fault::Proxy, _) => (Again::Yes, Reason::ProxyFailed, Side::Network),
        (Fault::ProxyCredentials, _) => (Again::No, Reason::ProxyCredentials, Side::Configuration),
        (Fault::ProxyForbids, _) => (Again::No, Reason::ProxyForbids, Side::Configuration),
        (Fault::BeyondProxy, _) => (Again::Yes, Reason::BeyondProxy, Side::Theirs),
        (Fault::NotHttp, _) => (Again::Once, Reason::NotHttp, Side::Theirs),
        (Fault::HeadTooLarge, _) => (Again::Once, Reason::HeadTooLarge, Side::Theirs),
        (Fault::Suspended, _) => (Again::Yes, Reason::Suspended, Side::Ours),
        (Fault::TimedOut(limit), _) => timed_out(limit, stage),
        (Fault::Reset | Fault::Closed | Fault::Other | Fault::Unreachable, _) => ended(sent, stage),
    };
    Finding::new(evidence, again, reason, side)
}

fn distrusted(why: Distrust) -> (Again, Reason, Side) {
    let (reason, side) = match why {
        Distrust::Expired => (Reason::CertificateExpired, Side::Theirs),
        Distrust::NotYetValid => (Reason::CertificateNotYetValid, Side::Theirs),
        Distrust::Name => (Reason::CertificateName, Side::Configuration),
        Distrust::Issuer => (Reason::CertificateIssuer, Side::Configuration),
        Distrust::SelfSigned => (Reason::CertificateSelfSigned, Side::Configuration),
        Distrust::Other => (Reason::Certificate, Side::Theirs),
    };
    (Again::No, reason, side)
}

fn timed_out(limit: Limit, stage: Stage) -> (Again, Reason, Side) {
    let (reason, side) = match (limit, stage) {
        (_, Stage::Resolve) => (Reason::NameTimeout, Side::Network),
        (_, Stage::Connect) => (Reason::ConnectTimeout, Side::Network),
        (_, Stage::Tls) => (Reason::TlsTimeout, Side::Network),
        (Limit::Attempt, _) => (Reason::AttemptTimeout, Side::Theirs),
        (Limit::Deadline, _) => (Reason::DeadlineReached, Side::Theirs),
        (_, Stage::Write) => (Reason::WriteTimeout, Side::Theirs),
        (_, Stage::FirstByte | Stage::Body) => (Reason::ReadTimeout, Side::Theirs),
    };
    (Again::Yes, reason, side)
}

fn ended(sent: Sent, stage: Stage) -> (Again, Reason, Side) {
    let reason = match (sent, stage) {
        (Sent::Nothing, Stage::Resolve) => Reason::NameUnavailable,
        (Sent::Nothing, Stage::Connect) => Reason::ConnectFailed,
        (Sent::Nothing, Stage::Tls) => Reason::TlsFailed,
        (Sent::Nothing, _) => Reason::ClosedBeforeSent,
        (Sent::Part, _) => Reason::ClosedWhileSending,
        (Sent::Whole, _) => Reason::Unanswered,
    };
    (Again::Yes, reason, if sent == Sent::Nothing { Side::Network } else { Side::Unclear })
}

fn answered(answer: &Answer, exchange: &Exchange, context: &Context<'_>) -> Finding {
    let mut finding = meaning(answer, context);
    if finding.evidence.is_doubt() && was_not_forwarded(answer, finding.reason, context.policy) {
        finding = Finding::new(Evidence::Refused, Again::Yes, Reason::NotForwarded, Side::Theirs);
    }
    if finding.reason == Reason::Credentials && answer.status == 407 && exchange.via == Via::Forward {
        finding.reason = Reason::ProxyCredentials;
    }
    finding.http = Some(answer.status);
    finding.replayed = is_replayed(answer, context.policy);
    finding.slow = context.policy.measured.is_slow(exchange);
    if finding.replayed && finding.evidence.is_doubt() && finding.again == Again::Yes {
        // The same key would fetch the same stored answer for ever.
        finding.again = Again::No;
    }
    match retry_after::read(&answer.headers, exchange.at) {
        RetryAfter::Absent => {}
        RetryAfter::Malformed => finding.retry_after_malformed = true,
        RetryAfter::Wait(_) if planted(Bug::RetryAfterUnread) => {}
        RetryAfter::Wait(wait) => finding.retry_after = Some(wait),
    }
    if answer.status == 413 && finding.reason == Reason::Rejected && finding.retry_after.is_some() {
        finding = Finding {
            http: finding.http,
            retry_after: finding.retry_after,
            ..Finding::new(Evidence::Refused, Again::Yes, Reason::Unavailable, Side::Theirs)
        };
    }
    finding
}

/// Returns whether a gateway that the profile trusts says that nothing reached the partner, of an answer that gateways
/// give. A gateway that tried twice reports its last try only, so that its word is no proof by itself.
///
/// Source: semantics.md 1.5.
fn was_not_forwarded(answer: &Answer, reason: Reason, policy: &Policy) -> bool {
    let trusted = policy.classify.trust_proxy_status || planted(Bug::ProxyStatusUnasked);
    let of_gateways = matches!(reason, Reason::Gateway | Reason::Unavailable | Reason::ServerError);
    let says_so = |report: Report| report.not_forwarded || planted(Bug::EveryReportProves);
    trusted && of_gateways && Report::read(&answer.headers).is_some_and(says_so)
}

fn meaning(answer: &Answer, context: &Context<'_>) -> Finding {
    let is_2xx = (200..300).contains(&answer.status);
    if let (true, Ending::Cut(fault), false) = (is_2xx, answer.ending, planted(Bug::CutConfirms)) {
        return cut(fault);
    }
    let policy = context.policy;
    if let Some(rule) = policy.classify.rules.iter().find(|rule| rule_matches(rule, answer)) {
        return by_rule(rule.means, answer.status, policy);
    }
    if policy.classify.refused.contains(&answer.status) {
        return Finding::new(Evidence::Refused, Again::Yes, Reason::Unavailable, Side::Theirs);
    }
    if policy.classify.in_progress.contains(&answer.status) {
        return Finding::new(Evidence::InDoubt, Again::Later, Reason::InProgress, Side::Theirs);
    }
    match answer.status {
        200..300 => success(answer, context),
        300..400 => redirect::meaning(answer, context),
        400..500 => client_error(answer.status, context),
        _ => server_error(answer.status, policy),
    }
}

fn cut(fault: Fault) -> Finding {
    let (reason, side) = match fault {
        Fault::TimedOut(_) => (Reason::AnswerStalled, Side::Theirs),
        Fault::Suspended => (Reason::Suspended, Side::Ours),
        _ => (Reason::AnswerCut, Side::Unclear),
    };
    Finding { stage: Some(Stage::Body), ..Finding::new(Evidence::InDoubt, Again::Yes, reason, side) }
}

fn by_rule(means: Means, status: u16, policy: &Policy) -> Finding {
    match means {
        Means::Confirmed => Finding::confirmed(Reason::Rule),
        Means::Accepted => Finding::new(Evidence::Accepted, Again::Later, Reason::Rule, Side::Theirs),
        Means::Rejected => Finding::rejected(Reason::Rule, Side::Ours),
        Means::Refused => Finding::new(Evidence::Refused, Again::Yes, Reason::Rule, Side::Theirs),
        Means::InProgress => Finding::new(Evidence::InDoubt, Again::Later, Reason::InProgress, Side::Theirs),
        Means::InDoubt => Finding::new(Evidence::InDoubt, doubt_again(status, policy), Reason::Rule, Side::Theirs),
    }
}

/// Returns whether a status in doubt is worth a retry when the key protects: 408, 502, 503, 504 and what the
/// profile adds; never 500 by itself (decisions 4).
fn doubt_again(status: u16, policy: &Policy) -> Again {
    let listed = policy.classify.retry_in_doubt.contains(&status);
    if listed || matches!(status, 408 | 502 | 503 | 504) { Again::Yes } else { Again::No }
}

fn success(answer: &Answer, context: &Context<'_>) -> Finding {
    match answer.status {
        202 => return Finding::new(Evidence::Accepted, Again::Later, Reason::Accepted, Side::Theirs),
        206 | 207 | 208 | 226 => {
            return Finding::new(Evidence::InDoubt, Again::No, Reason::PartialSuccess, Side::Theirs);
        }
        _ => {}
    }
    // A HEAD has no body to look at, and a body cut by our own limit is not looked at (decisions 5).
    let looked_at = answer.ending == Ending::Complete && context.policy.method.as_str() != "HEAD";
    match &context.policy.success {
        Some(rule) if looked_at && !body_matches(rule, answer) && !planted(Bug::OddSuccessConfirms) => {
            Finding::new(Evidence::InDoubt, Again::No, Reason::NotASuccess, Side::Unclear)
        }
        None if looked_at && context.json && is_html(answer) && !planted(Bug::LoginPageConfirms) => {
            Finding::new(Evidence::InDoubt, Again::No, Reason::Html, Side::Network)
        }
        _ => Finding::confirmed(Reason::Ok),
    }
}

fn client_error(status: u16, context: &Context<'_>) -> Finding {
    let deletes = context.policy.method.as_str() == "DELETE";
    match status {
        401 | 407 => Finding::new(Evidence::Refused, Again::No, Reason::Credentials, Side::Configuration),
        404 | 410 if deletes && context.had_doubt => Finding::confirmed(Reason::AlreadyGone),
        402 | 403 | 404 | 410 | 451 => Finding::rejected(Reason::Rejected, Side::Configuration),
        408 => Finding::new(Evidence::InDoubt, Again::Yes, Reason::RequestTimeout, Side::Unclear),
        409 if context.had_doubt && context.protected => {
            Finding::new(Evidence::InDoubt, Again::Later, Reason::InProgress, Side::Theirs)
        }
        409 | 412 if planted(Bug::ConflictRejects) => Finding::rejected(Reason::Conflict, Side::Ours),
        409 | 412 => Finding::new(Evidence::InDoubt, Again::No, Reason::Conflict, Side::Unclear),
        421 | 425 => Finding::new(Evidence::Refused, Again::Once, Reason::Misdirected, Side::Network),
        429 => Finding::new(Evidence::Refused, Again::Yes, Reason::RateLimited, Side::Ours),
        _ => Finding::rejected(Reason::Rejected, Side::Ours),
    }
}

fn server_error(status: u16, policy: &Policy) -> Finding {
    match status {
        501 | 505 | 506 | 510 => Finding::rejected(Reason::NotImplemented, Side::Configuration),
        507 | 508 => Finding::rejected(Reason::Rejected, Side::Theirs),
        511 => Finding::new(Evidence::Refused, Again::No, Reason::CaptivePortal, Side::Network),
        502 | 504 => Finding::new(doubt_unless(Bug::GatewayRefuses), Again::Yes, Reason::Gateway, Side::Theirs),
        503 => Finding::new(doubt_unless(Bug::UnavailableRefuses), Again::Yes, Reason::Unavailable, Side::Theirs),
        _ => Finding::new(
            doubt_unless(Bug::FailureRefuses),
            doubt_again(status, policy),
            Reason::ServerError,
            Side::Theirs,
        ),
    }
}

/// In doubt, where no fault is planted.
fn doubt_unless(bug: Bug) -> Evidence {
    if planted(bug) { Evidence::Refused } else { Evidence::InDoubt }
}

fn rule_matches(rule: &Rule, answer: &Answer) -> bool {
    let status = rule.status.is_none_or(|status| status == answer.status);
    let header = rule.header.as_ref().is_none_or(|(name, wanted)| {
        answer.headers.all(name).any(|value| wanted.as_ref().is_none_or(|wanted| **wanted == *value))
    });
    // A rule that needs the body does not fire on a part of it.
    let value =
        rule.value.as_ref().is_none_or(|value| answer.ending == Ending::Complete && value_matches(value, &answer.body));
    status && header && value
}

fn body_matches(rule: &BodyRule, answer: &Answer) -> bool {
    let media = rule.content_type.as_ref().is_none_or(|wanted| media_type(answer).as_deref() == Some(&**wanted));
    media && rule.value.as_ref().is_none_or(|value| value_matches(value, &answer.body))
}

/// Returns whether the body holds one of the accepted values where the rule looks; any scalar where none is listed.
pub fn value_matches(rule: &ValueRule, body: &[u8]) -> bool {
    rule.pointer.scalar(body).is_some_and(|found| {
        rule.equals.is_empty() || rule.equals.iter().any(|wanted| super::json::same_value(&found, wanted))
    })
}

fn media_type(answer: &Answer) -> Option<String> {
    let value = answer.headers.first("content-type")?;
    Some(value.split(';').next().unwrap_or_default().trim().to_ascii_lowercase())
}

/// Returns whether an answer is a page for people, by its media type or, without one, by how it begins.
pub(super) fn is_html(answer: &Answer) -> bool {
    if matches!(media_type(answer).as_deref(), Some("text/html" | "application/xhtml+xml")) {
        return true;
    }
    let start = answer.body.trim_ascii_start();
    let begins = |mark: &[u8]| start.get(..mark.len()).is_some_and(|head| head.eq_ignore_ascii_case(mark));
    media_type(answer).is_none() && (begins(b"<!doctype html") || begins(b"<html"))
}

fn is_replayed(answer: &Answer, policy: &Policy) -> bool {
    policy.idempotency.replay_marker.as_ref().is_some_and(|(name, wanted)| {
        answer.headers.all(&name.to_ascii_lowercase()).any(|value| value.eq_ignore_ascii_case(wanted))
    })
}

#[cfg(test)]
mod tests;
