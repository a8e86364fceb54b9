//! `profile show`: effective values and where each came from.

use super::address::mask_query;
use super::headers::is_secret;
use super::raw::Stated;
use super::{LedgerRules, Profile};
use crate::engine::policy::{Idempotency, RetryPolicy, Sizes, Timeouts};
use crate::engine::units::show_duration;

/// One effective setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// The full dotted name; endpoints are numbered from 1 (`endpoint[1].timeouts.read`).
    pub name: Box<str>,
    /// The value as TOML would write it; secrets as references or `***`. Defaults that are no value are in brackets.
    pub value: Box<str>,
    /// Where it came from.
    pub origin: SettingOrigin,
}

/// Where a setting came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SettingOrigin {
    /// The profile does not state it.
    Default,
    /// The profile states it.
    Line(u32),
}

/// Returns every effective setting: first those that have a default, in the order of the manual, then the others that
/// the profile states, endpoints included.
pub fn show(profile: &Profile) -> Vec<Setting> {
    let mut left: Vec<&Stated> = profile.stated.iter().collect();
    let mut settings = Vec::new();
    for (name, default) in defaults() {
        match left.iter().position(|stated| &*stated.name == name) {
            Some(at) => settings.push(stated(profile, left.remove(at))),
            None => settings.push(Setting { name: name.into(), value: default.into(), origin: SettingOrigin::Default }),
        }
    }
    left.sort_by_key(|stated| stated.line);
    settings.extend(left.into_iter().map(|setting| stated(profile, setting)));
    settings
}

fn stated(profile: &Profile, stated: &Stated) -> Setting {
    let written = &*stated.written;
    let value = match stated.name.strip_prefix("headers.") {
        Some(name) if is_secret(name, &profile.secrets.headers) && !written.contains("${") => "\"***\"".to_owned(),
        _ if stated.name.ends_with("_command") => {
            // Arguments may hold secrets.
            let command = written.split(',').next().unwrap_or_default().trim_end_matches(']');
            format!("{command}, …]")
        }
        _ if stated.name.ends_with("url") => mask_query(written, &profile.secrets.query, |_| ()),
        _ => written.to_owned(),
    };
    let value = profile.mask.hide(&value).into();
    Setting { name: stated.name.clone(), value, origin: SettingOrigin::Line(stated.line) }
}

/// Every setting that holds without being stated, with its value.
fn defaults() -> Vec<(&'static str, String)> {
    let quoted = |text: &str| format!("\"{text}\"");
    let duration = |duration| quoted(&show_duration(duration));
    let bytes = |bytes: usize| quoted(&format!("{}KiB", bytes >> 10));
    let timeouts = Timeouts::default();
    let retry = RetryPolicy::default();
    let idempotency = Idempotency::default();
    let sizes = Sizes::default();
    let ledger = LedgerRules::default();
    vec![
        ("version", "1".into()),
        ("partner", "(host and port of the URL)".into()),
        ("timeouts.connect", duration(timeouts.connect)),
        ("timeouts.write", duration(timeouts.write)),
        ("timeouts.read", duration(timeouts.read)),
        ("timeouts.body", duration(timeouts.body)),
        ("timeouts.attempt", duration(timeouts.attempt)),
        ("timeouts.overall", duration(timeouts.overall)),
        ("retry.max_attempts", retry.max_attempts.to_string()),
        ("retry.base", duration(retry.backoff.base)),
        ("retry.cap", duration(retry.backoff.cap)),
        ("retry.jitter", quoted("equal")),
        ("retry.max_retry_after", duration(retry.max_retry_after)),
        ("idempotency.supported", idempotency.supported.to_string()),
        ("idempotency.in", quoted("header")),
        ("idempotency.header", quoted("Idempotency-Key")),
        ("idempotency.format", quoted("raw")),
        ("idempotency.max_len", idempotency.max_len.to_string()),
        ("idempotency.retention", "(not stated: 1h is trusted)".into()),
        ("idempotency.settle", duration(idempotency.settle)),
        ("classify.trust_proxy_status", "false".into()),
        ("limits.response_bytes", bytes(sizes.response_bytes)),
        ("limits.stored_body_bytes", bytes(sizes.stored_body_bytes)),
        ("proxy.from_env", "true".into()),
        ("ledger.store_body", quoted("full")),
        ("ledger.keep_full", duration(ledger.keep_full)),
        ("ledger.forget_after", ledger.forget_after.map_or_else(|| quoted("never"), duration)),
    ]
}
