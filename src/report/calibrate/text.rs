//! What a calibration found, for people.

use super::super::paint::Paint;
use super::super::table::table;
use super::ladder::ladder;
use super::lines::broken;
use super::{Calibrated, executions};
use abide::engine::suggest::Suggestion;
use abide::engine::suggest::consequences::{Attempts, Consequences};
use abide::engine::suggest::evidence::{Evidence, Grade};
use abide::engine::suggest::formula::Proposal;
use abide::engine::suggest::quantile::Estimate;
use abide::engine::suggest::ranks::{Rate, least_samples};
use abide::engine::suggest::refusal::{Refusal, Weakness};
use abide::engine::suggest::rounding::show_three_digits;
use abide::engine::suggest::seen::Failures;
use abide::engine::suggest::share::Share;
use abide::engine::units::show_duration;

/// The picture is never narrower or wider, in columns.
///
/// Source: latency.md 3.11.
const WIDTH: std::ops::RangeInclusive<usize> = 80..=100;

/// Returns all of it; `width` is that of the terminal, where there is one.
pub fn text(found: &Calibrated<'_>, width: Option<u16>, paint: Paint) -> String {
    let is_terminal = width.is_some();
    let width = usize::from(width.unwrap_or(0)).clamp(*WIDTH.start(), *WIDTH.end());
    let mut parts = vec![head(found, paint)];
    if found.seen.read.samples() > 0 {
        parts.push(picture(found, width));
    }
    match found.result {
        Ok(suggestion) => {
            parts.push(format!("{} {}", paint.bold("In short:"), in_short(found, suggestion)));
            parts.push(limits(found, suggestion, paint));
            parts.push(consequences(suggestion));
        }
        Err(reasons) => parts.push(refused(found, reasons, paint)),
    }
    parts.extend(found.compared.map(|compared| compared.text(paint)));
    if found.seen.read.samples() > 0 {
        parts.push(grade(found, &found.evidence()));
    }
    let text = parts.join("\n\n");
    // Only a terminal would break lines within words.
    if is_terminal { broken(&text, width) } else { text }
}

pub(super) fn head(found: &Calibrated<'_>, paint: Paint) -> String {
    let seen = found.seen;
    let answers = seen.read.events();
    let mut counts = vec![if answers == 1 { "1 answer".into() } else { format!("{answers} answers") }];
    let given_up = seen.given_up();
    if given_up > 0 {
        let after = found.waited.map(|waited| format!(" after {}", show_duration(waited))).unwrap_or_default();
        counts.push(format!("{given_up} given up{after}"));
    }
    if seen.called_off > 0 {
        counts.push(format!("{} called off", seen.called_off));
    }
    if seen.failures.all() > 0 {
        counts.push(format!("{} failed ({})", seen.failures.all(), failures(&seen.failures)));
    }
    if seen.missed > 0 {
        counts.push(format!("{} not sent in time", seen.missed));
    }
    let when = found.when.map(|when| format!(", {when}")).unwrap_or_default();
    let mut lines = vec![format!("{}: {}{when}", paint.bold(found.subject), counts.join(", "))];
    lines.extend(found.executions.map(executions::words));
    lines.extend(found.stopped.map(|why| format!("{}: {why}", paint.yellow("stopped early"))));
    lines.join("\n")
}

fn failures(failures: &Failures) -> String {
    let Failures { refused, name, tls, reset, limited, client_error, server_error, unexpected } = *failures;
    let kinds = [
        (refused, "no connection"),
        (name, "name not found"),
        (tls, "TLS"),
        (reset, "connection broken"),
        (limited, "429 too many requests"),
        (client_error, "4xx"),
        (server_error, "5xx"),
        (unexpected, "not a success"),
    ];
    let some = kinds.into_iter().filter(|(count, _)| *count > 0);
    some.map(|(count, what)| format!("{what} {count}")).collect::<Vec<_>>().join(", ")
}

fn picture(found: &Calibrated<'_>, width: usize) -> String {
    let limit = found.result.ok().map(|suggestion| suggestion.read.proposed);
    let minutes = found.evidence().minutes;
    let drawn = ladder(&found.seen.read, minutes, &found.percentiles(), limit, width);
    let mut legend = vec!["● measured", "├ ┤ where it lies, 95 % sure", "▶ end unknown"];
    let marked = limit.map(|limit| format!("┃ new read {}", show_duration(limit)));
    legend.extend(marked.as_deref());
    let filled = found.filled.and_then(|filled| {
        let value = filled.value(found.percentile).ok()?;
        let words = "with the requests that waited for a slow one, of which nothing is certain";
        Some(format!("\n  p{} {} {words}", found.percentile, show_three_digits(value)))
    });
    format!("{drawn}\n  {}{}", legend.join("   "), filled.unwrap_or_default())
}

fn limits(found: &Calibrated<'_>, suggestion: &Suggestion, paint: Paint) -> String {
    let lines = table(&limit_heads(found), limit_rows(suggestion));
    let mut text = format!("{}\n{}", paint.bold(limits_title(found)), indented(&lines));
    for remark in remarks(found, suggestion) {
        text += &format!("\n  {remark}");
    }
    for warning in &suggestion.warnings {
        text += &format!("\n  {} {warning}", paint.yellow("warning:"));
    }
    text
}

pub(super) fn limits_title(found: &Calibrated<'_>) -> &'static str {
    if found.is_thin() { "Suggested limits: at least, since the evidence is thin" } else { "Suggested limits" }
}

pub(super) fn limit_heads(found: &Calibrated<'_>) -> [&'static str; 4] {
    ["limit", "now", if found.is_thin() { "at least" } else { "new" }, "why"]
}

/// Returns each limit with what is in force, what is suggested, and the rule.
pub(super) fn limit_rows(suggestion: &Suggestion) -> Vec<Vec<String>> {
    let rows = suggestion.limits().map(|(name, Proposal { current, proposed, formula, .. })| {
        vec![name.to_owned(), show_duration(*current), show_duration(*proposed), formula.to_string()]
    });
    rows.into()
}

/// Returns what is to be said about the limits beside warnings.
pub(super) fn remarks(found: &Calibrated<'_>, suggestion: &Suggestion) -> Vec<String> {
    let beyond = found.seen.read.slowest().filter(|slowest| *slowest > suggestion.read.proposed);
    let slowest =
        beyond.map(|slowest| format!("the slowest answer took {}: it would be given up", show_three_digits(slowest)));
    let attempts = &suggestion.attempts;
    let fewer = (attempts.startable < attempts.configured).then(|| {
        let Attempts { configured, startable, .. } = attempts;
        format!("of {configured} attempts {startable} can start when all before take as long as they may")
    });
    slowest.into_iter().chain(fewer).collect()
}

fn consequences(suggestion: &Suggestion) -> String {
    let lines = table(&CONSEQUENCE_HEADS, consequence_rows(suggestion));
    format!("{}\n  {}", indented(&lines), too_late(suggestion))
}

pub(super) const CONSEQUENCE_HEADS: [&str; 3] = ["of 1,000 operations", "now", "new"];

/// Returns what the limits in force and the suggested ones do.
pub(super) fn consequence_rows(suggestion: &Suggestion) -> Vec<Vec<String>> {
    let (before, after) = (&suggestion.before, &suggestion.after);
    let row = |words: &str, of: &dyn Fn(&Consequences) -> String| vec![words.to_owned(), of(before), of(after)];
    vec![
        row("end in doubt after the first attempt", &|of| short(of.doubt_per_thousand)),
        row("are done in time, if attempts fail independently", &|of| short(of.done * 1_000.0)),
        row("attempts for each, on average", &|of| short(of.attempts_expected)),
        row("longest time for one", &|of| show_duration(of.longest)),
        row("load on a partner that answers nobody", &|of| format!("{} x", of.outage_load)),
    ]
}

/// Returns how many answers are too late for the suggested limit, and what that may mean.
pub(super) fn too_late(suggestion: &Suggestion) -> String {
    let rate @ Rate { hits, of } = suggestion.after.false_timeouts;
    let (low, high) = (rate.lower(Share::CONFIDENCE), rate.upper(Share::CONFIDENCE));
    let range = format!("{} % to {} % of all, 95 % sure for each end", short(low * 100.0), short(high * 100.0));
    format!("too late for the new read limit: {hits} of {of} answers, which means {range}")
}

/// Says which value to use and how sure it is, for people who never saw a percentile.
pub(super) fn in_short(found: &Calibrated<'_>, suggestion: &Suggestion) -> String {
    let Estimate { percentile, value, bound, .. } = suggestion.estimate;
    let (so_many, value) = (so_many(percentile), show_three_digits(value));
    let (limit, read) = (show_duration(suggestion.read.proposed), suggestion.read);
    let grade = suggestion.evidence.grade;
    let came = format!("{so_many} came within {value} (p{percentile})");
    match bound.filter(|_| !found.is_thin()) {
        Some(bound) => {
            let bound = show_three_digits(bound);
            format!(
                "wait {limit} for an answer (read {read}): {came}, and it is 95 % sure that {so_many} come within {bound}. \
                 Evidence: {grade}."
            )
        }
        None => format!(
            "wait at least {limit} for an answer (read {read}): {came}. Not sure yet: the evidence is thin ({grade}), and \
             slower answers may come."
        ),
    }
}

/// Returns a share in whole numbers: `99 of 100`.
pub(super) fn so_many(share: Share) -> String {
    match share.millionths() {
        whole if whole % 10_000 == 0 => format!("{} of 100", whole / 10_000),
        tenths if tenths % 1_000 == 0 => format!("{} of 1,000", tenths / 1_000),
        _ => format!("{share} %"),
    }
}

/// Returns a number with as many decimals as it needs: 0, 0.27, 10, 999.9.
pub(super) fn short(number: f64) -> String {
    let decimals = if number.abs() >= 100.0 { 1 } else { 2 };
    let text = format!("{number:.decimals$}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

pub(super) fn indented(lines: &str) -> String {
    lines.lines().map(|line| format!("  {line}")).collect::<Vec<_>>().join("\n")
}

pub(super) fn refused(found: &Calibrated<'_>, reasons: &[Refusal], paint: Paint) -> String {
    let mut lines = vec![paint.bold("No limits are suggested")];
    for reason in reasons {
        lines.push(format!("  {reason}"));
        lines.push(format!("    {}", reason.hint()));
    }
    let (samples, needed) = (found.seen.read.samples(), least_samples(found.percentile, Share::CONFIDENCE));
    if samples < needed {
        lines.push(format!("  n = {samples}: an upper bound of p{} takes {needed} samples", found.percentile));
    }
    lines.join("\n")
}

/// Returns what the samples stand for, and what to do for more.
pub(super) fn grade(found: &Calibrated<'_>, evidence: &Evidence) -> String {
    let own = found.when.unwrap_or("their own time");
    let words = match evidence.grade {
        Grade::Snapshot => format!("a snapshot: it describes {own} only, and says nothing about other hours"),
        Grade::Hours => "some hours: other hours of the day may be slower".into(),
        Grade::Day => "a day: other days may be slower".into(),
        Grade::Weeks => "weeks, with every hour of the day".into(),
    };
    let minutes = match evidence.minutes {
        1 => "1 minute".into(),
        minutes => format!("{minutes} minutes"),
    };
    let mut lines = vec![format!("Evidence: {words}")];
    lines.extend(evidence.span.map(|_| format!("  {} samples in {minutes}", evidence.samples())));
    let weaknesses = found.result.map(|suggestion| suggestion.weaknesses.as_slice()).unwrap_or_default();
    let others = weaknesses.iter().filter(|weakness| !matches!(weakness, Weakness::Snapshot { span: Some(_) }));
    lines.extend(others.map(|weakness| format!("  {weakness}")));
    if evidence.grade < Grade::Day && found.result.is_ok() {
        let more = match found.executions {
            Some(_) => "measure what is sent anyway, with --from-ledger",
            None => "take the samples over a day, with --over 24h",
        };
        lines.push(format!("  for limits that hold: {more}"));
    }
    lines.join("\n")
}
