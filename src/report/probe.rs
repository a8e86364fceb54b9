//! What a probe found, on one screen: the verdict first, then what it rests on, then every stage.

mod addresses;
pub mod document;
pub mod live;
pub mod nagios;
mod stages;
mod wrap;

use super::paint::Paint;
use abide::engine::diagnose::Diagnosis;
use abide::engine::diagnose::excluded::Excluded;
use abide::engine::diagnose::judgement::Standing;
use abide::engine::diagnose::observations::Observations;
use abide::engine::gateway::shown;
use abide::engine::moment::Timestamp;
use abide::engine::units::{counted, show_rounded};
use abide::engine::verdict::Side;
use std::time::Duration;
use wrap::wrapped;

/// A probe that has ended.
#[derive(Clone, Copy, Debug)]
pub struct Probed<'a> {
    /// The partner's name.
    pub partner: &'a str,
    /// When it began.
    pub started: Timestamp,
    /// What was seen.
    pub seen: &'a Observations,
    /// What it comes to.
    pub found: &'a Diagnosis,
    /// What every attempt found, in order; empty where there was one.
    pub attempts: &'a [Diagnosis],
    /// What `send` would do, in words.
    pub send: Option<&'a str>,
}

/// Lines of a screen that is not scrolled.
///
/// Source: latency.md 6.2.
const LINES: usize = 24;

/// So many more with `--deep`.
const MORE_LINES: usize = 10;

/// The narrowest and the widest screen that is laid out for.
const WIDTHS: std::ops::RangeInclusive<usize> = 60..=120;

/// What stands before the words of a block.
const LABEL: usize = 11;

/// Lines of the blocks at most: together with the stages they leave room for two lines of addresses.
const VERDICT_LINES: usize = 2;
const BECAUSE_LINES: usize = 3;
const NOT_LINES: usize = 2;
const NEXT_LINES: usize = 3;

/// Returns the screen of a probe: at most 24 lines, none wider than `width` columns (60 to 120).
///
/// Colours only repeat what the words say.
pub fn screen(probed: &Probed<'_>, paint: Paint, width: usize) -> String {
    let width = width.clamp(*WIDTHS.start(), *WIDTHS.end());
    let mut lines = vec![title(probed, width)];
    lines.extend(verdict(probed.found, paint, width));
    lines.extend(reasons(probed, width));
    lines.extend(stages::table(probed.seen, width));
    let foot = foot(probed.seen, width);
    // Who asks for more gets more: a line for each address.
    let most = if probed.seen.requests > 1 { LINES + MORE_LINES } else { LINES };
    let left = most.saturating_sub(lines.len() + foot.len());
    lines.extend(addresses::table(probed.seen, left, width));
    lines.extend(foot);
    lines.iter().map(|line| line.trim_end()).collect::<Vec<_>>().join("\n")
}

/// Returns what was asked, and when, in UTC: partners have their own clocks.
fn title(probed: &Probed<'_>, width: usize) -> String {
    let target = &probed.seen.target;
    let asked = [target.method.as_deref(), target.url.as_deref()].into_iter().flatten().collect::<Vec<_>>().join(" ");
    let when = probed.started.to_string().replace('T', " ");
    let when = format!("{}Z", when.split('.').next().unwrap_or_default());
    let room = width.saturating_sub(when.len() + 2);
    let what = wrap::cut(&format!("probe {}  {asked}", probed.partner), room);
    format!("{what:room$}  {when}")
}

fn verdict(found: &Diagnosis, paint: Paint, width: usize) -> Vec<String> {
    let side = found.side_name().to_uppercase();
    let sure = format!("({}, confidence {})", found.standing.name(), found.confidence.name());
    let label = format!("VERDICT  {side}  ");
    let mut lines = wrapped(&label, &format!("{} {sure}", found.code.words()), VERDICT_LINES, width);
    if let Some(first) = lines.first_mut() {
        let painted = match found.standing {
            Standing::Usable => paint.green(&side),
            Standing::Degraded | Standing::Unknown => paint.yellow(&side),
            Standing::Unusable => paint.red(&side),
        };
        *first = first.replacen(&side, &painted, 1);
    }
    lines
}

fn reasons(probed: &Probed<'_>, width: usize) -> Vec<String> {
    let found = probed.found;
    let also = found.also.iter().map(|also| format!("{}: {}", also.code, also.code.words())).collect::<Vec<_>>();
    let blocks = [
        ("because", found.because.join("; "), BECAUSE_LINES),
        ("not", excluded(&found.not), NOT_LINES),
        ("also", also.join("; "), 1),
        ("next", found.next.join("; "), NEXT_LINES),
        ("send", probed.send.unwrap_or_default().to_owned(), 1),
    ];
    let blocks = blocks.into_iter().filter(|(_, words, _)| !words.is_empty());
    blocks.flat_map(|(label, words, most)| wrapped(&format!("  {label:9}"), &words, most, width)).collect()
}

/// Returns what it is not, by side: `ours: the clocks agree within 0.9s; network: …`.
fn excluded(not: &[Excluded]) -> String {
    let sides = [Side::Ours, Side::Configuration, Side::Network, Side::Theirs];
    let of_side = |side: Side| {
        let words: Vec<&str> = not.iter().filter(|not| not.side == side).map(|not| &*not.words).collect();
        (!words.is_empty()).then(|| format!("{side}: {}", words.join(", ")))
    };
    sides.into_iter().filter_map(of_side).collect::<Vec<_>>().join("; ")
}

/// Returns the lines about the certificate, and about the answer and its connection.
fn foot(seen: &Observations, width: usize) -> Vec<String> {
    let lines = [
        ("certificate", certificate(seen)),
        ("answer", answer(seen)),
        ("connection", connection(seen)),
        ("requests", requests(seen)),
    ];
    let lines = lines.into_iter().filter_map(|(label, words)| Some((label, words?)));
    lines.map(|(label, words)| wrap::cut(&format!("  {label:11}  {words}"), width)).collect()
}

fn certificate(seen: &Observations) -> Option<String> {
    let certificate = seen.certificate()?;
    let left = seen.at.and_then(|at| certificate.left(at));
    let left = left.map(|left| match left.as_secs() / 86_400 {
        _ if left.is_zero() => "ended".to_owned(),
        0 => format!("{} left", show_rounded(left)),
        1 => "1 day left".to_owned(),
        days => format!("{days} days left"),
    });
    let names = certificate.names.first().map(|name| shown(name));
    let more = certificate.names.len().saturating_sub(1) as u64;
    let more = (more > 0).then(|| format!("and {}", counted(more, "more name")));
    let issuer = certificate.issuer.as_deref().map(|issuer| format!("issued by {}", shown(issuer)));
    let words: Vec<String> = [names, more, issuer, left].into_iter().flatten().collect();
    (!words.is_empty()).then(|| words.join(", "))
}

/// Header fields of an answer that are worth a glance, in lower case.
const GLANCED: &[&str] = &["content-type", "retry-after", "ratelimit", "via", "server", "age", "content-encoding"];

fn answer(seen: &Observations) -> Option<String> {
    let answer = seen.answer()?;
    let fields = GLANCED.iter().filter_map(|name| Some(format!("{name} {}", shown(answer.headers.first(name)?))));
    let words = [answer.status.to_string()].into_iter().chain(fields);
    Some(words.collect::<Vec<_>>().join(", "))
}

/// Returns what became of the connection after the answer; `None` without `--deep`.
fn connection(seen: &Observations) -> Option<String> {
    let kept = seen.keep_alive?;
    let reused = match kept.reused {
        Some(true) => "carries a second request",
        Some(false) => "a second request on it got no answer",
        None if kept.idle_close == Some(Duration::ZERO) => return Some("closed with the answer".into()),
        None => "whether it carries a second request was not seen",
    };
    let idle = match (kept.idle_close, kept.watched) {
        (Some(idle), _) => format!(", closed after {} idle", show_rounded(idle)),
        (None, Some(watched)) => format!(", still open after {} idle", show_rounded(watched)),
        (None, None) => String::new(),
    };
    Some(format!("{reused}{idle}"))
}

/// Returns how many requests were made, and what the way of `send` got; `None` where it was the one.
fn requests(seen: &Observations) -> Option<String> {
    let second = seen.second_pass.as_ref().map(|second| match seen.second_status() {
        Some(status) => format!("; by the way of `send` {status} in {}", show_rounded(second.took)),
        None => "; by the way of `send` no answer".into(),
    });
    let is_deep = seen.requests > 1 || second.is_some();
    is_deep.then(|| format!("{} in all{}", seen.requests, second.unwrap_or_default()))
}

/// Returns a time as the tables show it; a dash where it is unknown.
fn time(time: Option<Duration>) -> String {
    time.map_or("-".into(), show_rounded)
}

#[cfg(test)]
mod tests;
