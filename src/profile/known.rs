//! The names of all settings, for refusing the others.

use super::error::Near;

pub(super) const ROOT: &[&str] = &[
    "version",
    "partner",
    "base_url",
    "account",
    "timeouts",
    "retry",
    "idempotency",
    "status",
    "success",
    "error",
    "classify",
    "headers",
    "auth",
    "announce",
    "endpoint",
    "breaker",
    "limits",
    "tls",
    "ledger",
    "proxy",
    "secrets",
    "measured",
];
/// Sections of later versions.
pub(super) const NOT_BUILT: &[&str] = &["alerts", "on_settled", "probe"];
pub(super) const TIMEOUTS: &[&str] = &["connect", "write", "read", "body", "attempt", "overall"];
pub(super) const RETRY: &[&str] = &["max_attempts", "base", "cap", "jitter", "max_retry_after"];
pub(super) const IDEMPOTENCY: &[&str] =
    &["supported", "in", "header", "format", "max_len", "retention", "replay_marker", "settle"];
pub(super) const STATUS: &[&str] =
    &["method", "url", "confirmed", "rejected", "in_progress", "absent", "control_key", "settle"];
pub(super) const STATUS_RULE: &[&str] = &["status", "pointer", "equals", "same"];
pub(super) const SUCCESS: &[&str] = &["content_type", "pointer", "equals"];
pub(super) const ERROR: &[&str] = &["message"];
pub(super) const CLASSIFY: &[&str] = &["refused", "retry_in_doubt", "in_progress", "trust_proxy_status", "rule"];
pub(super) const RULE: &[&str] = &["status", "header", "pointer", "equals", "means"];
pub(super) const AUTH: &[&str] = &[
    "scheme",
    "token_env",
    "token_file",
    "token_command",
    "user",
    "password_env",
    "password_file",
    "password_command",
];
pub(super) const TLS: &[&str] =
    &["ca_file", "cert_file", "key_file", "key_password_env", "key_password_file", "key_password_command"];
pub(super) const ANNOUNCE: &[&str] = &["attempt", "time_left_ms", "operation"];
pub(super) const ENDPOINT: &[&str] =
    &["method", "path", "timeouts", "idempotency", "status", "success", "classify", "breaker", "measured"];
pub(super) const BREAKER: &[&str] = &["window", "failure_ratio", "min_calls", "consecutive", "open_for", "open_cap"];
pub(super) const LIMITS: &[&str] = &["rate", "concurrency", "response_bytes", "stored_body_bytes"];
pub(super) const LEDGER: &[&str] = &["store_body", "keep_full", "forget_after"];
pub(super) const PROXY: &[&str] = &["url", "no_proxy", "from_env"];
pub(super) const SECRETS: &[&str] = &["query", "headers"];
pub(super) const MEASURED: &[&str] = &[
    "at",
    "samples",
    "censored",
    "span",
    "grade",
    "min",
    "p50",
    "p90",
    "p95",
    "p99",
    "p99_upper",
    "p999",
    "max",
    "hlog",
];

/// Every section whose names are fixed, by the name people write.
const SECTIONS: &[(&str, &[&str])] = &[
    ("", ROOT),
    ("timeouts", TIMEOUTS),
    ("retry", RETRY),
    ("idempotency", IDEMPOTENCY),
    ("status", STATUS),
    ("success", SUCCESS),
    ("error", ERROR),
    ("classify", CLASSIFY),
    ("auth", AUTH),
    ("tls", TLS),
    ("announce", ANNOUNCE),
    ("breaker", BREAKER),
    ("limits", LIMITS),
    ("ledger", LEDGER),
    ("proxy", PROXY),
    ("secrets", SECRETS),
];

/// Returns what an unknown `name` in a section that knows `known` was probably meant to be.
pub(super) fn nearest(name: &str, known: &'static [&'static str]) -> Option<Near> {
    if let Some((section, _)) = SECTIONS.iter().find(|(_, names)| names.contains(&name)) {
        return Some(Near::Section(section));
    }
    let lower = name.to_ascii_lowercase().replace('-', "_");
    let distance = |candidate: &&&'static str| strsim::damerau_levenshtein(&lower, candidate);
    let nearest = known.iter().min_by_key(distance)?;
    // A third of the letters may differ: `max_atempts` is near, `colour` is near nothing.
    (distance(&nearest) <= (nearest.len() / 3).max(1)).then_some(Near::Name(nearest))
}
