//! Status requests: how to ask, and what an answer says.

use super::classify::value_matches;
use super::exchange::{Answer, Ending, Exchange, Outcome};
use super::facts::{About, Asked, Says};
use super::json::same_value;
use super::location;
use super::planted::{Bug, planted};
use super::policy::{Control, StatusPolicy, StatusRule, UrlPart, UrlTemplate};
use super::retry_after::{self, RetryAfter};
use std::fmt::Write;
use std::time::Duration;

impl UrlTemplate {
    /// Returns the URL about an operation, seen from the absolute URL `base`; values are percent-encoded.
    ///
    /// # Errors
    /// The part that the operation has no value for, as it stands in the profile.
    pub fn fill(&self, about: &Control, base: &str) -> Result<String, String> {
        let mut url = String::new();
        for part in &self.0 {
            match part {
                UrlPart::Text(text) => url.push_str(text),
                UrlPart::Key => percent_encode(&about.key, &mut url),
                UrlPart::Body(pointer) => {
                    let value = pointer.scalar(&about.body).ok_or_else(|| format!("{{body:{pointer}}}"))?;
                    percent_encode(&value, &mut url);
                }
                UrlPart::Answer(pointer) => {
                    let answer = about.answer.as_deref().unwrap_or_default();
                    let value = pointer.scalar(answer).ok_or_else(|| format!("{{answer:{pointer}}}"))?;
                    percent_encode(&value, &mut url);
                }
                UrlPart::Location => url.push_str(about.location.as_deref().ok_or("{location}")?),
            }
        }
        location::resolve(base, &url).ok_or(url)
    }
}

fn percent_encode(text: &str, url: &mut String) {
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            url.push(char::from(byte));
        } else {
            write!(url, "%{byte:02X}").expect("memory takes every write");
        }
    }
}

/// What a status exchange came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Said {
    /// The fact to record; its `not_before` is for the caller, who knows the time.
    pub asked: Asked,
    /// How long the partner asks us to wait.
    pub retry_after: Option<Duration>,
}

/// Returns what a status exchange says about an operation whose request body is `request_body`.
///
/// Source: decisions 10. A rule that looks into the body needs all of it. `same` guards against another's resource. An
/// "absent" that a cache may have given (`Age`) is no answer.
pub fn judge(exchange: &Exchange, policy: &StatusPolicy, about: About, request_body: &[u8]) -> Said {
    let ms = u64::try_from(exchange.took.as_millis()).unwrap_or(u64::MAX);
    let answer = match &exchange.outcome {
        Outcome::Answered(answer) => answer,
        Outcome::Unanswered { stage, .. } => {
            let note = format!("no answer ({stage})");
            return Said { asked: asked(about, Says::Unclear, None, ms, Some(note)), retry_after: None };
        }
    };
    let retry_after = match retry_after::read(&answer.headers, exchange.at) {
        RetryAfter::Wait(wait) => Some(wait),
        RetryAfter::Absent | RetryAfter::Malformed => None,
    };
    let (says, by_body, note) = says(answer, policy, about, request_body);
    let fact = Asked { by_body, ..asked(about, says, Some(answer.status), ms, note) };
    Said { asked: fact, retry_after }
}

fn asked(about: About, says: Says, http: Option<u16>, ms: u64, note: Option<String>) -> Asked {
    Asked { says, about, by_body: false, http, ms, not_before: None, note: note.map(Into::into) }
}

fn says(answer: &Answer, policy: &StatusPolicy, about: About, body: &[u8]) -> (Says, bool, Option<String>) {
    let note = |text: &str| Some(text.to_owned());
    if matches(&policy.confirmed, answer) {
        // A control is another operation: its values need not agree with ours.
        let guarded = about == About::Operation && !planted(Bug::OthersResource);
        return match different(&policy.confirmed, answer, body).filter(|_| guarded) {
            Some(pointer) => (Says::Unclear, false, Some(format!("{pointer} differs: another's resource"))),
            None => (Says::Confirmed, false, None),
        };
    }
    if let Some(rule) = policy.rejected.as_ref().filter(|rule| matches(rule, answer)) {
        return match different(rule, answer, body).filter(|_| about == About::Operation) {
            Some(pointer) => (Says::Unclear, false, Some(format!("{pointer} differs: another's resource"))),
            None => (Says::Rejected, false, None),
        };
    }
    if policy.in_progress.as_ref().is_some_and(|rule| matches(rule, answer)) {
        return (Says::InProgress, false, None);
    }
    match policy.absent.as_ref().filter(|rule| matches(rule, answer)) {
        Some(_) if answer.headers.first("age").is_some() && !planted(Bug::CacheBelieved) => {
            (Says::Unclear, false, note("from a cache"))
        }
        Some(rule) => (Says::Absent, rule.value.is_some(), None),
        None => (Says::Unclear, false, note("no rule covers the answer")),
    }
}

fn matches(rule: &StatusRule, answer: &Answer) -> bool {
    let status = match rule.statuses.is_empty() {
        true => (200..300).contains(&answer.status),
        false => rule.statuses.contains(&answer.status),
    };
    let value =
        rule.value.as_ref().is_none_or(|value| answer.ending == Ending::Complete && value_matches(value, &answer.body));
    status && value
}

/// Returns the first pointer whose values do not agree; a value missing on either side does not agree.
fn different<'a>(rule: &'a StatusRule, answer: &Answer, request_body: &[u8]) -> Option<&'a super::json::Pointer> {
    rule.same.iter().find(|pointer| match (pointer.scalar(&answer.body), pointer.scalar(request_body)) {
        (Some(theirs), Some(ours)) => !same_value(&theirs, &ours),
        _ => true,
    })
}

#[cfg(test)]
mod tests;
