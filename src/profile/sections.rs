//! The sections that hold plain values: `[timeouts]`, `[retry]`, `[idempotency]` and what is small.

use super::error::ProfileError;
use super::headers;
use super::raw::Section;
use super::rules;
use super::{LedgerRules, Loads, Reading, StoreBody};
use crate::engine::backoff::Jitter;
use crate::engine::measured::Measured;
use crate::engine::policy::{Idempotency, KeyFormat, KeyPlace, MIN_ATTEMPT, RetryPolicy, Sizes, Timeouts};
use crate::engine::units::show_duration;
use std::path::PathBuf;
use std::time::Duration;

/// Reads `[timeouts]` over `common`, whose values hold where this section has none.
pub(super) fn timeouts(section: &Section<'_>, common: Timeouts) -> Result<Timeouts, ProfileError> {
    let mut timeouts = common;
    let limits = [
        ("connect", &mut timeouts.connect),
        ("write", &mut timeouts.write),
        ("read", &mut timeouts.read),
        ("body", &mut timeouts.body),
        ("attempt", &mut timeouts.attempt),
        ("overall", &mut timeouts.overall),
    ];
    for (key, limit) in limits {
        if let Some(stated) = section.duration(key)? {
            *limit = stated;
        }
    }
    if let Some(overall) = section.get("overall").filter(|_| timeouts.overall < MIN_ATTEMPT) {
        let why = "is below 250ms, the least time that an attempt is started with: nothing would ever be sent";
        return Err(overall.refused(why, None));
    }
    Ok(timeouts)
}

/// Reads `[retry]`.
pub(super) fn retry(section: &Section<'_>) -> Result<RetryPolicy, ProfileError> {
    let mut retry = RetryPolicy::default();
    if let Some(field) = section.get("max_attempts") {
        retry.max_attempts = field.count(1..=u32::MAX)?;
    }
    if let Some(base) = section.duration("base")? {
        retry.backoff.base = base;
    }
    if let Some(cap) = section.duration("cap")? {
        retry.backoff.cap = cap;
    }
    if retry.backoff.base > retry.backoff.cap {
        let field = section.get("base").or_else(|| section.get("cap")).expect("the defaults agree");
        let why = match field.name.ends_with("base") {
            true => "is above `cap`, which no wait exceeds",
            false => "is below `base`, the first wait",
        };
        return Err(field.refused(why, Some("the defaults are base = \"2s\" and cap = \"300s\"")));
    }
    if let Some(field) = section.get("jitter") {
        retry.backoff.jitter = field.one_of(&[("equal", Jitter::Equal), ("full", Jitter::Full)])?;
    }
    if let Some(most) = section.duration("max_retry_after")? {
        retry.max_retry_after = most;
    }
    Ok(retry)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Header,
    Query,
    Body,
}

/// Reads `[idempotency]` over `common`, whose values hold where this section has none.
///
/// With `in = "query"`, `header` is the name of the query parameter and must be stated.
pub(super) fn idempotency(section: &Section<'_>, common: &Idempotency) -> Result<Idempotency, ProfileError> {
    let mut rules = Idempotency { place: place(section, &common.place)?, ..common.clone() };
    if let Some(field) = section.get("supported") {
        rules.supported = field.flag()?;
    }
    if let Some(field) = section.get("format") {
        rules.format = field.one_of(&[("raw", KeyFormat::Raw), ("quoted", KeyFormat::Quoted)])?;
    }
    if let Some(field) = section.get("max_len") {
        rules.max_len = usize::try_from(field.count(1..=255)?).expect("the range fits");
    }
    if let Some(retention) = section.duration("retention")? {
        rules.retention = Some(retention);
    }
    if let Some(field) = section.get("replay_marker") {
        rules.replay_marker = Some(rules::header_and_value(&field)?);
    }
    if let Some(field) = section.get("settle") {
        rules.settle = field.duration_or_none()?;
    }
    let blame = |keys: [&str; 2]| keys.iter().find_map(|key| section.get(key)).expect("the defaults agree");
    if rules.format == KeyFormat::Quoted && !matches!(rules.place, KeyPlace::Header(_)) {
        let why = "quotes are a header's form: it goes with in = \"header\" only";
        return Err(blame(["format", "in"]).refused(why, None));
    }
    if rules.supported && rules.place == KeyPlace::Header(None) {
        let why = "contradicts: a partner honours no key that is not sent";
        return Err(blame(["header", "supported"]).refused(why, Some("state the header's name")));
    }
    Ok(rules)
}

fn place(section: &Section<'_>, common: &KeyPlace) -> Result<KeyPlace, ProfileError> {
    let was = match common {
        KeyPlace::Header(_) => Place::Header,
        KeyPlace::Query(_) => Place::Query,
        KeyPlace::Body => Place::Body,
    };
    let is = match section.get("in") {
        Some(field) => field.one_of(&[("header", Place::Header), ("query", Place::Query), ("body", Place::Body)])?,
        None => was,
    };
    let Some(field) = section.get("header") else {
        return match is {
            Place::Query if was != Place::Query => {
                Err(section.missing("header", "with in = \"query\" it names the query parameter"))
            }
            Place::Body => Ok(KeyPlace::Body),
            Place::Header if was != Place::Header => Ok(Idempotency::default().place),
            _ => Ok(common.clone()),
        };
    };
    let name = field.text()?;
    match is {
        Place::Header if name.is_empty() => Ok(KeyPlace::Header(None)),
        Place::Header => match headers::check_name(name) {
            Ok(()) => Ok(KeyPlace::Header(Some(name.into()))),
            Err(why) => Err(field.refused(why.to_string(), None)),
        },
        Place::Query if name.is_empty() => Err(field.refused("is empty: it names the query parameter", None)),
        Place::Query => Ok(KeyPlace::Query(name.into())),
        Place::Body => Err(field.refused("has no meaning with in = \"body\": the key is part of the payload", None)),
    }
}

/// Reads `[limits]`.
pub(super) fn limits(section: &Section<'_>) -> Result<(Loads, Sizes), ProfileError> {
    let mut loads = Loads::default();
    let mut sizes = Sizes::default();
    loads.rate = section.get("rate").map(|field| field.rate()).transpose()?;
    loads.concurrency = section.get("concurrency").map(|field| field.count(1..=u32::MAX)).transpose()?;
    if let Some(field) = section.get("response_bytes") {
        sizes.response_bytes = field.size()?;
        if sizes.response_bytes == 0 {
            return Err(field.refused("is zero: no answer could be read", None));
        }
    }
    if let Some(field) = section.get("stored_body_bytes") {
        sizes.stored_body_bytes = field.size()?;
    }
    Ok((loads, sizes))
}

/// Reads `[ledger]`. `retention` is how long a key may protect at the partner, wherever it does so longest.
pub(super) fn ledger(section: &Section<'_>, retention: Duration) -> Result<LedgerRules, ProfileError> {
    let mut rules = LedgerRules::default();
    if let Some(field) = section.get("store_body") {
        rules.store_body = field.one_of(&[("full", StoreBody::Full), ("hash", StoreBody::Hash)])?;
    }
    if let Some(keep) = section.duration("keep_full")? {
        rules.keep_full = keep;
    }
    if let Some(field) = section.get("forget_after") {
        rules.forget_after = if field.text().ok() == Some("never") { None } else { Some(field.duration()?) };
        let bounds = [("[ledger] keep_full", rules.keep_full), ("[idempotency] retention", retention)];
        let above = |(_, least): &(&str, Duration)| rules.forget_after.is_some_and(|wait| wait < *least);
        if let Some((name, least)) = bounds.into_iter().find(above) {
            let hint = "a key that is forgotten is sent as a new one: \"never\" forgets none";
            return Err(field.refused(format!("is below {name} = {}", show_duration(least)), Some(hint)));
        }
    }
    Ok(rules)
}

/// Checks `[breaker]`, which a later version obeys.
pub(super) fn breaker(section: &Section<'_>) -> Result<(), ProfileError> {
    section.duration("window")?;
    section.get("failure_ratio").map(|field| field.ratio()).transpose()?;
    for key in ["min_calls", "consecutive"] {
        section.get(key).map(|field| field.count(1..=u32::MAX)).transpose()?;
    }
    let open_for = section.duration("open_for")?;
    let open_cap = section.duration("open_cap")?;
    match section.get("open_for") {
        Some(field) if open_for > open_cap.or(open_for) => Err(field.refused("is above `open_cap`", None)),
        _ => Ok(()),
    }
}

/// Reads where all that was measured lies; nothing is looked at there.
pub(super) fn recording(section: &Section<'_>, reading: &Reading<'_>) -> Result<Option<PathBuf>, ProfileError> {
    let Some(field) = section.get("hlog") else { return Ok(None) };
    match field.text()? {
        "" => Err(field.refused("is empty", None)),
        path if path.chars().any(char::is_control) => Err(field.refused("has a control character in it", None)),
        path => Ok(Some(reading.home.join(path))),
    }
}

/// Reads the p50 of `[measured]`, and what an attempt is compared with; the rest is for people.
pub(super) fn measured(section: &Section<'_>) -> Result<(Option<Duration>, Measured), ProfileError> {
    let at = match section.get("at") {
        Some(field) => Some(field.text()?.parse().map_err(|_| field.refused("is no time in UTC", None))?),
        None => None,
    };
    let samples = section.get("samples").map(|field| field.count(0..=u32::MAX).map(u64::from)).transpose()?;
    let (p95, p99) = (section.duration("p95")?, section.duration("p99")?);
    Ok((section.duration("p50")?, Measured { at, samples, p95, p99 }))
}
