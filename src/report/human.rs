//! Lines for people. Every line about an operation starts with its key.

use super::advice::Advice;
use super::known::{Known, State};
use super::paint::Paint;
use super::time::LocalClock;
use abide::engine::exchange::Stages;
use abide::engine::facts::{About, Asked, Finished, Pause, Waiting};
use abide::engine::gateway::is_deceptive;
use abide::engine::moment::Timestamp;
use abide::engine::operation::{IdempotencyKey, Method};
use abide::engine::reason::Reason;
use abide::engine::units::show_rounded;
use abide::engine::verdict::{Cause, Evidence, Side, Verdict};
use std::net::SocketAddr;
use std::time::Duration;

/// How much an attempt's line tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detail<'a> {
    /// What happened and what it proves.
    Short,
    /// The address, the stages and the library's words too.
    Long {
        /// Who answered in the partner's place, or may have.
        gateway: Option<&'a str>,
    },
}

/// The way that an attempt takes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Taken {
    /// The address.
    pub addr: Option<SocketAddr>,
    /// The proxy, as `host:port`.
    pub proxy: Option<Box<str>>,
}

/// Returns the line about an attempt that ended.
pub fn attempt(key: &IdempotencyKey, finished: &Finished, way: &Taken, detail: Detail<'_>) -> String {
    let through = way.proxy.as_ref().map(|proxy| format!(" through the proxy {proxy}")).unwrap_or_default();
    let mut line = format!("{key}: attempt {}{through}: {}", finished.a, happened(finished));
    let proves = proves(finished);
    if !proves.is_empty() {
        line += &format!("; {proves}");
    }
    if let Some(side) = finished.side.filter(|_| !proves.is_empty()) {
        line += &format!(" ({})", side_words(side));
    }
    if let Detail::Long { gateway } = detail {
        if let Some(gateway) = gateway {
            line += &format!(" [{gateway}]");
        }
        if let Some(addr) = way.addr {
            line += &format!(" [{addr}]");
        }
        if let Some(stages) = &finished.stages {
            line += &stage_words(stages);
        }
        if let Some(error) = finished.error.as_ref().filter(|_| !finished.reason.wants_detail()) {
            line += &format!(" [{error}]");
        }
    }
    line
}

/// Returns what an attempt met: `503 in 12ms, the partner is unavailable`.
pub fn happened(finished: &Finished) -> String {
    let took = took(finished.ms);
    let detail = finished.error.as_deref().filter(|detail| !detail.is_empty() && finished.reason.wants_detail());
    let words = match detail {
        Some(detail) => format!("{}: {detail}", finished.reason.words()),
        None => finished.reason.words().to_owned(),
    };
    let slow = if finished.slow { ", slower than 99 % of the past" } else { "" };
    match finished.http {
        Some(http) if finished.done == Some(true) && !finished.replayed => format!("{http} in {took}{slow}"),
        Some(http) if finished.done == Some(true) => format!("{http} in {took}, a stored answer"),
        Some(http) => match &finished.hop {
            Some(hop) => format!("{http} in {took}, a redirect, followed to {hop}"),
            None => format!("{http} in {took}, {words}{slow}"),
        },
        None if finished.ms == 0 => format!("{words}, at once"),
        None => format!("{words}, after {took}"),
    }
}

fn took(ms: u64) -> String {
    if ms == 0 { "under 1ms".into() } else { show_rounded(Duration::from_millis(ms)) }
}

/// Returns what an attempt proves about execution; empty where the answer says it all.
fn proves(finished: &Finished) -> &'static str {
    match (finished.evidence, finished.done) {
        (Evidence::NotSent, _) => "nothing was sent",
        (Evidence::Partial, _) => "only a part of the request left",
        (Evidence::InDoubt, _) => "it may have been executed",
        (Evidence::Refused, _) => "not executed",
        // The words of the reason say it.
        (Evidence::Answered, Some(true)) => "",
        (Evidence::Answered, _) => "it did not happen",
        (Evidence::Accepted, _) => "",
    }
}

/// Returns whose fault it is, in words.
fn side_words(side: Side) -> &'static str {
    match side {
        Side::Ours => "our side",
        Side::Configuration => "configuration",
        Side::Network => "network",
        Side::Theirs => "their side",
        Side::Unclear => "side unclear",
    }
}

fn stage_words(stages: &Stages) -> String {
    let known = [
        ("resolve", stages.resolve_us),
        ("connect", stages.connect_us),
        ("tls", stages.tls_us),
        ("write", stages.write_us),
        ("first byte", stages.first_byte_us),
        ("body", stages.body_us),
    ];
    let words: Vec<String> = known
        .iter()
        .filter_map(|(name, us)| us.map(|us| format!("{name} {}", show_rounded(Duration::from_micros(us)))))
        .collect();
    if words.is_empty() { String::new() } else { format!(" [{}]", words.join(", ")) }
}

/// Returns the line about a wait that begins.
pub fn waiting(key: &IdempotencyKey, waiting: &Waiting, now: Timestamp, clock: &LocalClock) -> String {
    let length = waiting.until.since(now);
    let wait = show_rounded(length);
    let line = match waiting.reason {
        Pause::NextQuestion => format!("{key}: asking again in {wait}"),
        reason => format!("{key}: waiting {wait} ({})", reason.words()),
    };
    // Nobody looks at the clock for less than a second.
    if length < Duration::from_secs(1) { line } else { format!("{line}, until {}", clock.local(waiting.until, now)) }
}

/// Returns the line about a status request that was answered.
pub fn asked(key: &IdempotencyKey, asked: &Asked) -> String {
    let about = match asked.about {
        About::Operation => "asked the partner",
        About::Control => "asked about a control operation",
    };
    let http = asked.http.map(|http| format!("{http} in ")).unwrap_or_default();
    let note = asked.note.as_ref().map(|note| format!(": {note}")).unwrap_or_default();
    let says = asked.says.name().replace('_', " ");
    format!("{key}: {about}: {says} ({http}{}){note}", took(asked.ms))
}

/// What is told about a verdict beside the operation itself.
#[derive(Clone, Copy, Debug)]
pub struct Verdicted<'a> {
    /// What to do next.
    pub advice: &'a Advice,
    /// The time that the run had; `None` where no run took place.
    pub budget: Option<Duration>,
    /// How long a wait the partner asked for last.
    pub asked_wait: Option<Duration>,
    /// The message of a refusal, where the profile says where it stands.
    pub message: Option<&'a str>,
    /// How it is coloured.
    pub paint: Paint,
}

/// Returns the verdict: what is known, why, and what to do next. Several lines.
pub fn verdict(known: &Known<'_>, told: &Verdicted<'_>) -> String {
    let paint = told.paint;
    let headline = match &known.state {
        State::Running(_) => paint.yellow("running"),
        State::Pending => format!("{}: nothing was started", paint.yellow("pending")),
        State::Abandoned(Verdict::NotDone) | State::Settled(Verdict::NotDone) if is_unanswered_read(known) => {
            let method = &known.opened().method;
            format!("{}: no answer came, and a {method} changes nothing", paint.yellow("not done"))
        }
        State::Abandoned(verdict) | State::Settled(verdict) => headline(*verdict, paint),
    };
    let mut lines = vec![format!("{}: {headline}", known.key)];
    if known.state.verdict() == Some(Verdict::Confirmed) {
        let attempts = known.attempts();
        if attempts > 1 {
            lines[0] += &format!(" after {attempts} attempts");
        }
        return lines.remove(0);
    }
    lines.extend(evidence(known));
    lines.extend(known.gateway());
    lines.extend(points_to(known));
    lines.extend(told.message.map(|message| format!("the partner says: {message}")));
    lines.extend(known.settled().and_then(|settled| cause(known, settled.cause, told)));
    lines.push(format!("next: {}", told.advice.words));
    let mut text = lines.join("\n    ");
    if let Some(command) = &told.advice.command {
        text += &format!("\n        {command}");
    }
    text
}

/// Returns where a redirect points that was not followed, and what would follow it.
fn points_to(known: &Known<'_>) -> Option<String> {
    let place = known.points_to()?;
    let is_read = matches!(&*known.opened().method, "GET" | "HEAD");
    let not_asked = known.last().is_some_and(|last| last.reason == Reason::Redirect);
    let follow = if is_read && not_asked { "; -L follows redirects" } else { "" };
    Some(format!("it points to {place}{follow}"))
}

/// Returns whether the partner may have executed what is known as not done: a read, of which that does not matter.
fn is_unanswered_read(known: &Known<'_>) -> bool {
    known.doubtful().is_some() && Method::new(&known.opened().method).is_some_and(|method| method.is_safe())
}

fn headline(verdict: Verdict, paint: Paint) -> String {
    match verdict {
        Verdict::Confirmed => paint.green("confirmed"),
        Verdict::Rejected => format!("{}: it did not happen", paint.red("rejected")),
        Verdict::NotDone => format!("{}: certainly not executed", paint.yellow("not done")),
        Verdict::Accepted => format!("{}: the partner took it and has not finished", paint.yellow("accepted")),
        Verdict::InDoubt => format!("{}: it may have been executed", paint.red("in doubt")),
    }
}

/// Returns the lines that say what the verdict rests on.
fn evidence(known: &Known<'_>) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(a) = known.unaccounted().filter(|_| known.state.verdict() == Some(Verdict::InDoubt)) {
        lines.push(format!("attempt {a} was started, and the process ended without recording how it went"));
    }
    let doubtful = known.doubtful().filter(|_| known.state.verdict() == Some(Verdict::InDoubt));
    let last = known.last();
    for finished in doubtful.into_iter().chain(last.filter(|last| doubtful.is_none_or(|doubt| doubt.a != last.a))) {
        let proves = proves(finished);
        let proves = if proves.is_empty() { String::new() } else { format!("; {proves}") };
        lines.push(format!("attempt {}: {}{proves}", finished.a, happened(finished)));
    }
    lines
}

/// Returns why the run ended here and not later.
fn cause(known: &Known<'_>, cause: Cause, told: &Verdicted<'_>) -> Option<String> {
    let budget = told.budget.map(show_rounded);
    let within = budget.as_ref().map(|budget| format!(" of {budget}")).unwrap_or_default();
    let wait = told.asked_wait.map(|wait| format!("the partner asks for a wait of {} s", wait.as_secs()));
    Some(match cause {
        Cause::Answer | Cause::Unknown => return None,
        Cause::Status => "the partner's status answer says so".into(),
        Cause::Person => "a person said so".into(),
        Cause::Damage => "lines of the ledger were lost".into(),
        Cause::AttemptsExhausted => match known.attempts() {
            1 => "the one allowed attempt is used up".into(),
            _ => "the allowed attempts are used up".into(),
        },
        Cause::Deadline => format!("the deadline{within} is over, or too near for another attempt"),
        Cause::WaitExceedsDeadline => match wait {
            Some(wait) => format!("{wait}, which does not fit the deadline{within}"),
            None => format!("the next wait does not fit the deadline{within}"),
        },
        Cause::RetryAfterTooLong => {
            let wait = wait.unwrap_or_else(|| "the partner asks for a long wait".into());
            let fits = told.budget.zip(told.asked_wait).is_some_and(|(budget, asked)| asked <= budget);
            if fits {
                format!("{wait}, longer than max_retry_after")
            } else {
                format!("{wait}, which does not fit the deadline{within}")
            }
        }
        Cause::NothingHelps => "another attempt might do it twice, and nothing else would remove the doubt".into(),
        Cause::NeedsChange => "it would fail again until somebody changes something".into(),
        Cause::Credentials => "the credentials were refused".into(),
        Cause::Expired => "--valid-for has passed".into(),
        Cause::Interrupted => "a signal ended the run".into(),
    })
}

/// No more of an answer is quoted on stderr, in bytes.
const QUOTED_BYTES: usize = 2048;
/// No more lines of an answer are quoted on stderr.
const QUOTED_LINES: usize = 20;

/// Returns an answer's body as lines with a margin, bounded and without control characters; `None` where it is empty.
pub fn quoted(http: u16, body: &str) -> Option<String> {
    let trimmed = body.trim();
    if trimmed.is_empty() {
        return None;
    }
    let mut end = trimmed.len().min(QUOTED_BYTES);
    while !trimmed.is_char_boundary(end) {
        end -= 1;
    }
    let shown: Vec<String> = trimmed[..end]
        .lines()
        .take(QUOTED_LINES)
        .map(|line| format!("    | {}", line.replace(|c: char| is_deceptive(c) && c != '\t', "?")))
        .collect();
    let is_cut = end < trimmed.len() || trimmed.lines().count() > QUOTED_LINES;
    let more = if is_cut { format!("\n    | … ({} bytes in all)", body.len()) } else { String::new() };
    Some(format!("    the last answer ({http}):\n{}{more}", shown.join("\n")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use abide::engine::facts::Again;

    fn finished(reason: Reason, evidence: Evidence, http: Option<u16>) -> Finished {
        Finished {
            a: 2,
            evidence,
            done: None,
            again: Again::No,
            reason,
            stage: None,
            side: Some(Side::Theirs),
            http,
            ms: 12,
            stages: None,
            error: None,
            not_before: None,
            replayed: false,
            slow: false,
            hop: None,
        }
    }

    #[test]
    fn an_attempt_is_told_with_what_it_proves() {
        let key = IdempotencyKey::new("k1", 255).expect("a key");
        let cases = [
            (
                finished(Reason::Unavailable, Evidence::InDoubt, Some(503)),
                "k1: attempt 2: 503 in 12ms, the partner is unavailable; it may have been executed (their side)",
            ),
            (
                finished(Reason::ConnectRefused, Evidence::NotSent, None),
                "k1: attempt 2: connection refused, after 12ms; nothing was sent (their side)",
            ),
            (
                Finished { done: Some(true), ..finished(Reason::Ok, Evidence::Answered, Some(201)) },
                "k1: attempt 2: 201 in 12ms",
            ),
        ];
        let slow = Finished { slow: true, ..cases[2].0.clone() };
        let cases = cases.into_iter().chain([(slow, "k1: attempt 2: 201 in 12ms, slower than 99 % of the past")]);
        for (finished, expected) in cases {
            assert_eq!(attempt(&key, &finished, &Taken::default(), Detail::Short), expected);
        }
        let way = Taken { proxy: Some("proxy.example:3128".into()), ..Taken::default() };
        let told = attempt(&key, &finished(Reason::ProxyFailed, Evidence::NotSent, None), &way, Detail::Short);
        assert!(told.starts_with("k1: attempt 2 through the proxy proxy.example:3128: the proxy did not"), "{told}");
    }

    #[test]
    fn a_quoted_answer_is_bounded_and_cannot_move_the_cursor() {
        assert_eq!(quoted(503, "  \n"), None);
        assert_eq!(quoted(503, "a\u{1b}[2Jb").as_deref(), Some("    the last answer (503):\n    | a?[2Jb"));
        let long = quoted(500, &"é".repeat(3000)).expect("text");
        assert!(long.len() < 2 * QUOTED_BYTES, "{}", long.len());
        assert!(long.ends_with("… (6000 bytes in all)"), "{long}");
        assert!(quoted(500, &"x\n".repeat(100)).expect("text").lines().count() < 30);
    }
}
