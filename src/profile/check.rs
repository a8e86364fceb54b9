//! `profile check`: the arithmetic of a valid profile, and what it lacks for a verdict.

use super::Profile;
use super::address::origin;
use super::endpoint::Rules;
use crate::engine::backoff::Jitter;
use crate::engine::policy::{RetryPolicy, StatusPolicy, UrlPart};
use crate::engine::units::show_duration;
use std::fmt;
use std::time::Duration;
use url::Url;

/// Something worth knowing about a profile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remark {
    /// How much it matters.
    pub level: Level,
    /// The endpoint that it is about; `None`: the common rules.
    pub endpoint: Option<Box<str>>,
    /// What there is to know.
    pub text: Box<str>,
}

/// How much a remark matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// A fact.
    Note,
    /// Something to add for better verdicts.
    Advice,
    /// Something stated that has no effect, or not the one it seems to have.
    Warning,
}

impl fmt::Display for Remark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.endpoint {
            Some(endpoint) => write!(f, "{endpoint}: {}", self.text),
            None => f.write_str(&self.text),
        }
    }
}

/// Returns the remarks about the common rules, then those about endpoints that say something else.
pub fn check(profile: &Profile) -> Vec<Remark> {
    let mut remarks = about(&profile.rules, profile, None);
    for endpoint in &profile.endpoints {
        let method = endpoint.method.as_ref().map_or("*", |method| method.as_str());
        let name = format!("{method} {}", endpoint.path);
        let own = about(&endpoint.rules, profile, Some(name.into()));
        let common: Vec<Box<str>> = remarks.iter().map(|remark| remark.text.clone()).collect();
        remarks.extend(own.into_iter().filter(|remark| !common.contains(&remark.text)));
    }
    let states = |name: &str| profile.stated.iter().any(|stated| stated.name.contains(name));
    if states("breaker.") {
        let text = "[breaker] is checked, but not in force until a later version";
        remarks.push(Remark { level: Level::Warning, endpoint: None, text: text.into() });
    }
    remarks
}

fn about(rules: &Rules, profile: &Profile, endpoint: Option<Box<str>>) -> Vec<Remark> {
    let mut texts = arithmetic(rules, &profile.retry);
    texts.extend(verdicts(rules, profile));
    texts.into_iter().map(|(level, text)| Remark { level, endpoint: endpoint.clone(), text: text.into() }).collect()
}

type Texts = Vec<(Level, String)>;

/// The arithmetic looks no further: nobody means so many attempts one by one.
const MOST_ATTEMPTS: u32 = 10_000;

/// Returns what the limits and waits come to.
fn arithmetic(rules: &Rules, retry: &RetryPolicy) -> Texts {
    let overall = rules.timeouts.overall;
    let attempt = rules.timeouts.attempt.min(overall);
    let last = retry.max_attempts.min(MOST_ATTEMPTS);
    let (mut earliest, mut latest) = (Duration::ZERO, Duration::ZERO);
    let mut late = None;
    let mut never = None;
    for n in 2..=last {
        let wait = retry.backoff.before_jitter(n - 1);
        let least = if retry.backoff.jitter == Jitter::Equal { wait / 2 } else { Duration::ZERO };
        earliest = earliest.saturating_add(least);
        latest = latest.saturating_add(attempt).saturating_add(wait);
        let fits = |start: Duration| start.saturating_add(rules.min_attempt()) <= overall;
        if late.is_none() && !fits(latest) {
            late = Some(n);
        }
        if !fits(earliest) {
            never = Some(n);
            break;
        }
    }
    let worst = latest.saturating_add(attempt).min(overall);
    let mut texts = vec![(Level::Note, worst_case(if late.is_some() { overall } else { worst }, overall))];
    if let Some(n) = never {
        let which = attempts(n, retry.max_attempts);
        let limit = show_duration(overall);
        texts.push((
            Level::Warning,
            format!("{which} can never start: the waits before leave nothing of overall = {limit}"),
        ));
    }
    // Those that can never start are told of already.
    let slow = late.map(|n| (n, never.map_or(retry.max_attempts, |never| never - 1))).filter(|(n, last)| n <= last);
    if let Some((n, last)) = slow {
        let which = attempts(n, last);
        let limit = show_duration(attempt);
        texts.push((Level::Advice, format!("{which} will not start where those before take their full {limit}")));
    }
    texts
}

fn worst_case(worst: Duration, overall: Duration) -> String {
    let promise = show_duration(promise(overall));
    if worst == overall {
        return format!("worst case {}: promise users {promise}", show_duration(overall));
    }
    let (worst, overall) = (show_duration(worst), show_duration(overall));
    format!("worst case {worst}, with a Retry-After or status requests {overall}: promise users {promise}")
}

/// Returns a tenth more, rounded up to what people say: 5 s below a minute, half a minute below ten, else minutes.
fn promise(overall: Duration) -> Duration {
    let wanted = overall.saturating_add(overall / 10).as_millis().div_ceil(1000);
    let wanted = u64::try_from(wanted).unwrap_or(u64::MAX);
    let step = match wanted {
        0..=60 => 5,
        61..=600 => 30,
        _ => 60,
    };
    Duration::from_secs(wanted.div_ceil(step).saturating_mul(step))
}

/// Names the attempts from `first` to `last`.
fn attempts(first: u32, last: u32) -> String {
    match last.saturating_sub(first) {
        0 => format!("attempt {first}"),
        1 => format!("attempts {first} and {last}"),
        _ => format!("attempts {first} to {last}"),
    }
}

/// Returns what is missing for a verdict after a lost answer.
fn verdicts(rules: &Rules, profile: &Profile) -> Texts {
    let mut texts = Vec::new();
    let key = &rules.idempotency;
    if key.supported && key.retention.is_none() {
        let text = "[idempotency] retention is not stated: the key is trusted for 1 hour only";
        texts.push((Level::Advice, text.to_owned()));
    }
    match &rules.status {
        None if key.supported => {
            let text = "no [status]: after the key's retention, or a 500, nothing here can tell whether it happened";
            texts.push((Level::Advice, text.to_owned()));
        }
        None => {
            let text = "after a lost answer nothing here can tell whether it happened: add [status] (it removes most \
                        doubt), or state [idempotency] supported = true if the partner honours the key";
            texts.push((Level::Advice, text.to_owned()));
        }
        Some(status) => texts.extend(questions(status, profile)),
    }
    if let Some(p50) = rules.p50.filter(|p50| *p50 > rules.timeouts.attempt) {
        let limit = show_duration(rules.timeouts.attempt);
        let text =
            format!("half of all calls take longer than attempt = {limit}: the measured p50 is {}", show_duration(p50));
        texts.push((Level::Warning, text));
    }
    texts
}

/// Returns what status requests cannot tell.
fn questions(status: &StatusPolicy, profile: &Profile) -> Texts {
    let mut texts = Vec::new();
    match &status.absent {
        None => {
            texts.push((Level::Advice, "[status] has no absent rule: it can never prove that nothing happened".into()))
        }
        Some(_) if status.settle.is_none() => {
            let text = "[status] settle is not stated: absence proves nothing";
            texts.push((Level::Advice, text.into()));
        }
        Some(absent) if absent.value.is_none() && status.control.is_none() => {
            let text = "[status] absent looks at the HTTP status only, as a wrong address would answer: state \
                        control_key, or absence needs an operation that the ledger has as confirmed";
            texts.push((Level::Advice, text.into()));
        }
        Some(_) => {}
    }
    let elsewhere = match status.url.0.first() {
        Some(UrlPart::Text(start)) => Url::parse(start).ok().map(|url| origin(&url)),
        _ => None,
    };
    let own = profile.base_url().map(origin);
    if let Some(elsewhere) = elsewhere.filter(|elsewhere| own.as_ref().is_some_and(|own| own != elsewhere)) {
        texts.push((Level::Warning, format!("[status] is at {elsewhere}: no credentials are sent there")));
    }
    texts
}
