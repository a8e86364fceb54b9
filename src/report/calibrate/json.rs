//! What a calibration found, for machines.

use super::{Calibrated, Compared, executions};
use abide::engine::suggest::Suggestion;
use abide::engine::suggest::consequences::Consequences;
use abide::engine::suggest::formula::Proposal;
use abide::engine::suggest::latencies::Latencies;
use abide::engine::suggest::ranks::{Rate, least_samples};
use abide::engine::suggest::refusal::Refusal;
use abide::engine::suggest::share::Share;
use serde::Serialize;
use serde_json::{Value, json};
use std::time::Duration;

/// How samples were taken, or where they came from. What is not known or does not apply is null.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Planned {
    /// `live`, or what was read.
    pub source: String,
    /// `open` or `closed`.
    pub pacing: Option<&'static str>,
    /// How many requests were to be made.
    pub samples: Option<u64>,
    /// The method of requests that the partner was to execute.
    pub executed: Option<String>,
    /// How many a second.
    pub rate_per_s: Option<f64>,
    /// How long.
    pub duration_ms: Option<f64>,
    /// How long an answer was waited for.
    pub timeout_ms: Option<f64>,
    /// How many could be under way at once.
    pub in_flight_max: Option<u64>,
    /// The seed of the moments at which requests left.
    pub seed: Option<u64>,
}

/// Returns the document. `exit` is the status that the process leaves with.
pub fn document(found: &Calibrated<'_>, plan: &Planned, exit: i32) -> Value {
    let seen = found.seen;
    let evidence = found.evidence();
    let failures = &seen.failures;
    let (suggestion, refusals) = match found.result {
        Ok(suggestion) => (Some(suggestion), &[][..]),
        Err(reasons) => (None, reasons),
    };
    let texts = |texts: Vec<String>| Value::from(texts);
    let stage = |latencies: &Latencies| stage(latencies, evidence.minutes, &found.percentiles());
    json!({
        "schema": "abide.calibrate/1",
        "exit": exit,
        "subject": found.subject,
        "when": found.when,
        "plan": plan,
        "stopped": found.stopped,
        "counts": {
            "samples": seen.read.samples(),
            "answered": seen.read.events(),
            "given_up": seen.given_up(),
            "called_off": seen.called_off,
            "failed": failures.all(),
            "missed": seen.missed,
            "failures": {
                "refused": failures.refused,
                "name": failures.name,
                "tls": failures.tls,
                "reset": failures.reset,
                "limited": failures.limited,
                "client_error": failures.client_error,
                "server_error": failures.server_error,
                "unexpected": failures.unexpected,
            },
        },
        "executions": found.executions.map(executions::document),
        "evidence": {
            "grade": evidence.grade.as_str(),
            "minutes": evidence.minutes,
            "span_ms": evidence.span.map(ms),
            "hours_unseen_utc": evidence.span.map(|_| evidence.hours_unseen.clone()),
            "samples_needed": least_samples(found.percentile, Share::CONFIDENCE),
        },
        "lag_p99_ms": seen.lag.map(ms),
        "percentile": found.percentile.to_string(),
        "stages": { "connect": stage(&seen.connect), "read": stage(&seen.read), "whole": stage(&seen.whole) },
        "hours_utc": hours(found),
        "back_filled": found.filled.map(|filled| json!({
            "samples": filled.samples(),
            "value_ms": filled.value(found.percentile).ok().map(ms),
        })),
        "compared": found.compared.map(Compared::document),
        "suggestion": suggestion.map(|suggestion| suggested(suggestion, found.seen.read.slowest())),
        "refusals": refusals.iter().map(refusal).collect::<Vec<_>>(),
        "weaknesses": texts(suggestion.iter().flat_map(|found| &found.weaknesses).map(ToString::to_string).collect()),
        "warnings": texts(suggestion.iter().flat_map(|found| &found.warnings).map(ToString::to_string).collect()),
    })
}

/// Returns milliseconds, to a microsecond.
pub(super) fn ms(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 1e6).round() / 1e3
}

/// Returns a stage; null where nothing of it was measured.
fn stage(latencies: &Latencies, minutes: u64, percentiles: &[Share]) -> Value {
    if latencies.samples() == 0 {
        return Value::Null;
    }
    let percentile = |share: &Share| match latencies.percentile(*share, minutes, Share::CONFIDENCE) {
        Ok(found) => json!({
            "percentile": share.to_string(),
            "value_ms": ms(found.value),
            "at_least_ms": null,
            "low_ms": found.lower.map(ms),
            "high_ms": found.higher.map(ms),
            "bound_ms": found.bound.map(ms),
            "effective_samples": found.effective,
        }),
        Err(not) => json!({
            "percentile": share.to_string(),
            "value_ms": null,
            "at_least_ms": ms(not.above),
            "low_ms": null,
            "high_ms": null,
            "bound_ms": null,
            "effective_samples": null,
        }),
    };
    json!({
        "samples": latencies.samples(),
        "given_up": latencies.censored(),
        "min_ms": latencies.fastest().map(ms),
        "max_ms": latencies.slowest().map(ms),
        "longest_wait_ms": ms(latencies.longest_wait()),
        "percentiles": percentiles.iter().map(percentile).collect::<Vec<_>>(),
    })
}

/// Returns the hours of the day that hold samples.
fn hours(found: &Calibrated<'_>) -> Vec<Value> {
    let hour = |(hour, seen): (u8, &Latencies)| {
        let value = |share| seen.value(share).ok().map(ms);
        json!({
            "hour": hour,
            "samples": seen.samples(),
            "given_up": seen.censored(),
            "p50_ms": value(Share::P50),
            "p99_ms": value(Share::P99),
        })
    };
    found.seen.hours.iter().map(hour).collect()
}

fn suggested(suggestion: &Suggestion, slowest: Option<Duration>) -> Value {
    let limit = |proposal: &Proposal| {
        json!({
            "now_ms": ms(proposal.current),
            "new_ms": ms(proposal.proposed),
            "exact_ms": ms(proposal.exact),
            "why": proposal.formula.to_string(),
        })
    };
    let beyond = slowest.filter(|slowest| *slowest > suggestion.read.proposed);
    json!({
        "at_least": !suggestion.weaknesses.is_empty(),
        "connect": limit(&suggestion.connect),
        "read": limit(&suggestion.read),
        "attempt": limit(&suggestion.attempt),
        "overall": limit(&suggestion.overall),
        "slowest_beyond_ms": beyond.map(ms),
        "attempts": {
            "wanted": suggestion.attempts.wanted,
            "configured": suggestion.attempts.configured,
            "startable": suggestion.attempts.startable,
        },
        "now": consequences(&suggestion.before),
        "new": consequences(&suggestion.after),
    })
}

fn consequences(of: &Consequences) -> Value {
    let Rate { hits, of: known } = of.false_timeouts;
    json!({
        "too_late": hits,
        "too_late_of": known,
        "too_late_low": of.false_timeouts.lower(Share::CONFIDENCE),
        "too_late_high": of.false_timeouts.upper(Share::CONFIDENCE),
        "in_doubt_per_1000": of.doubt_per_thousand,
        "attempts_expected": of.attempts_expected,
        "outage_load": of.outage_load,
        "longest_ms": ms(of.longest),
        "done_share": of.done,
    })
}

fn refusal(reason: &Refusal) -> Value {
    json!({ "why": reason.to_string(), "hint": reason.hint() })
}
