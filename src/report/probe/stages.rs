//! The stages of the one request, with their times as bars.

use super::time;
use super::wrap::cut;
use abide::engine::diagnose::dial::ConnectFailure;
use abide::engine::diagnose::names::{LookupFailure, Question, Rcode};
use abide::engine::diagnose::observations::Observations;
use abide::engine::diagnose::past::{Past, Usual};
use abide::engine::diagnose::tcp::Delivery;
use abide::engine::exchange::{Answer, Ending, Fault, Stage, Stages};
use abide::engine::gateway::shown;
use abide::engine::units::show_rounded;
use std::net::IpAddr;
use std::time::Duration;

/// One stage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Row {
    pub stage: Stage,
    /// How long it took, or was waited for.
    pub took: Option<Duration>,
    /// It was given up before its end.
    pub is_open: bool,
    pub note: String,
}

/// Every stage, in order.
const ALL: [Stage; 6] = [Stage::Resolve, Stage::Connect, Stage::Tls, Stage::Write, Stage::FirstByte, Stage::Body];

/// What stands before the bars: name and time.
const BEFORE: usize = 24;

/// Returns the stages as far as one was reached: a line with the scale, and one for each; empty where there is no time.
pub(super) fn table(seen: &Observations, width: usize) -> Vec<String> {
    let rows = rows(seen);
    let total = rows.iter().filter_map(|row| row.took).fold(Duration::ZERO, Duration::saturating_add);
    if rows.is_empty() {
        return Vec::new();
    }
    // What is usual needs room beside the bars.
    let bars = (width - BEFORE) / if has_history(&seen.past) { 3 } else { 2 };
    let scale = format!("0 to {}", show_rounded(total));
    let mut lines = vec![format!("  {:11}  {:>8}  {scale}", "stage", "time")];
    let mut before = Duration::ZERO;
    for row in &rows {
        let shown = match row.took {
            Some(took) if row.is_open => format!("> {}", show_rounded(took)),
            took => time(took),
        };
        let bar = bar(before, row, total, bars);
        before = before.saturating_add(row.took.unwrap_or_default());
        lines.push(cut(&format!("  {:11}  {shown:>8}  {bar:bars$}  {}", name(row.stage), row.note), width));
    }
    lines
}

fn name(stage: Stage) -> &'static str {
    match stage {
        Stage::Write => "request",
        Stage::FirstByte => "first byte",
        stage => stage.name(),
    }
}

/// Returns a bar that begins where the stage began; one that did not end has an arrow.
fn bar(before: Duration, row: &Row, total: Duration, width: usize) -> String {
    let Some(took) = row.took.filter(|_| !total.is_zero()) else { return String::new() };
    let cell = |time: Duration| ((time.as_secs_f64() / total.as_secs_f64()) * width as f64) as usize;
    let start = cell(before).min(width - 1);
    let end = cell(before.saturating_add(took)).clamp(start, width);
    let bar = match (end - start, row.is_open) {
        (0, false) => "▏".into(),
        (cells, true) => format!("{}▶", "█".repeat(cells.saturating_sub(1))),
        (cells, false) => "█".repeat(cells),
    };
    format!("{}{bar}", " ".repeat(start))
}

/// Returns the stages that were reached, the one that failed last.
pub(super) fn rows(seen: &Observations) -> Vec<Row> {
    let times = times(seen);
    let failed = failed(seen);
    let is_reached = |stage: Stage| failed.is_none_or(|failed| stage <= failed);
    let is_there = |stage: &Stage| times.of(*stage).is_some() || failed == Some(*stage);
    let reached = ALL.into_iter().filter(|stage| is_reached(*stage)).filter(is_there);
    let row = |stage| {
        let is_open = failed == Some(stage) && gave_up(seen);
        let note = note(seen, stage);
        // The lookup and the connection say by themselves how they fail.
        let fails = failed == Some(stage) && !is_open && stage > Stage::Connect;
        let note = if fails { format!("fails {note}") } else { note };
        Row { stage, took: times.of(stage), is_open, note }
    };
    reached.map(row).collect()
}

/// The times of the stages.
struct Times([Option<Duration>; 6]);

impl Times {
    fn of(&self, stage: Stage) -> Option<Duration> {
        self.0[stage as usize]
    }
}

/// Returns the times of the one request, or those of the lookup and the first address where there was none.
fn times(seen: &Observations) -> Times {
    let of = |us: fn(&Stages) -> Option<u64>| {
        let stages = &seen.exchange.as_ref()?.stages;
        us(stages).map(Duration::from_micros)
    };
    let first = seen.asked_address().or(seen.addresses.first());
    let resolve = || seen.names.lookup?.took;
    let connect = || first?.connect?.took;
    let tls = || first?.tls.as_ref()?.took;
    let mut times = [
        of(|stages| stages.resolve_us).or_else(resolve),
        of(|stages| stages.connect_us).or_else(connect),
        of(|stages| stages.tls_us).or_else(tls),
        of(|stages| stages.write_us),
        of(|stages| stages.first_byte_us),
        of(|stages| stages.body_us),
    ];
    // A stage that did not end has no time of its own: it is what is left of the whole.
    if let (Some((stage, _)), Some(exchange)) = (seen.failure(), &seen.exchange) {
        let before =
            times[..stage as usize].iter().flatten().fold(Duration::ZERO, |sum, time| sum.saturating_add(*time));
        let own = &mut times[stage as usize];
        *own = own.or(Some(exchange.took.saturating_sub(before)));
    }
    Times(times)
}

/// Returns the stage that did not come to its end.
fn failed(seen: &Observations) -> Option<Stage> {
    if let Some((stage, _)) = seen.failure() {
        return Some(stage);
    }
    if let Some(answer) = seen.answer() {
        return matches!(answer.ending, Ending::Cut(_)).then_some(Stage::Body);
    }
    if seen.names.lookup.is_some_and(|lookup| lookup.outcome.is_err()) {
        return Some(Stage::Resolve);
    }
    let first = seen.addresses.first()?;
    let connect = first.connect.filter(|connect| connect.outcome.is_err()).map(|_| Stage::Connect);
    let tls = first.tls.as_ref().filter(|tls| tls.outcome.is_err()).map(|_| Stage::Tls);
    connect.or(tls)
}

/// Returns whether the stage that failed was given up, and not ended by the other side.
fn gave_up(seen: &Observations) -> bool {
    let timed_out = |fault: Fault| matches!(fault, Fault::TimedOut(_));
    if let Some((_, fault)) = seen.failure() {
        return timed_out(fault);
    }
    if let Some(answer) = seen.answer() {
        return matches!(answer.ending, Ending::Cut(fault) if timed_out(fault));
    }
    let lookup = seen.names.lookup.is_some_and(|lookup| lookup.outcome == Err(LookupFailure::TimedOut));
    let first = seen.addresses.first();
    let connect = first.and_then(|address| address.connect?.outcome.err()) == Some(ConnectFailure::Silent);
    let tls = first.and_then(|address| address.tls.as_ref()?.outcome.err()).is_some_and(timed_out);
    lookup || connect || tls
}

fn note(seen: &Observations, stage: Stage) -> String {
    let address = seen.asked_address().or(seen.addresses.first());
    match stage {
        Stage::Resolve => joined([usual(seen.past.resolve), Some(resolved(seen)).filter(|words| !words.is_empty())]),
        Stage::Connect => {
            let failure =
                address.and_then(|address| address.connect?.outcome.err()).map(|failure| failure.words().into());
            let syns = address.and_then(|address| address.connect?.syns_resent);
            let syns =
                syns.map(|count| if count == 0 { "no SYN resent".into() } else { format!("{count} SYN resent") });
            let syns = if seen.past.connect.is_some() { syns.filter(|syns| !syns.starts_with("no ")) } else { syns };
            let only = address.filter(|_| seen.addresses.len() == 1).map(|only| only.addr.to_string());
            joined([failure, only, syns, usual(seen.past.connect)])
        }
        Stage::Tls => {
            let tls = address.and_then(|address| address.tls.as_ref());
            let of = |text: Option<&Option<Box<str>>>| text.and_then(|text| text.as_deref()).map(shown);
            let alert = of(tls.map(|tls| &tls.alert)).map(|alert| format!("alert {alert}"));
            let version = of(tls.map(|tls| &tls.version));
            let (alpn, group) = (of(tls.map(|tls| &tls.alpn)), of(tls.map(|tls| &tls.group)));
            joined([alert, version, alpn, group, usual(seen.past.tls)])
        }
        Stage::Write => {
            let tcp = seen.asked_tcp();
            let bytes = tcp.and_then(|tcp| tcp.sent_bytes).map(|bytes| format!("{bytes} B"));
            let delivery = tcp.and_then(|tcp| tcp.delivery()).map(|delivery| match delivery {
                Delivery::Acknowledged => "acknowledged".to_owned(),
                Delivery::Unacknowledged => "not acknowledged".to_owned(),
            });
            let resent = tcp.and_then(|tcp| tcp.resent).filter(|count| *count > 0);
            joined([bytes, delivery, resent.map(|count| format!("{count} resent"))])
        }
        Stage::FirstByte => joined([usual(seen.past.first_byte), measured(&seen.past)]),
        Stage::Body => seen.answer().map(body).unwrap_or_default(),
    }
}

fn body(answer: &Answer) -> String {
    let bytes = answer.body.len();
    match answer.ending {
        Ending::Complete => format!("{bytes} B"),
        Ending::Capped => format!("{bytes} B, and no more was read"),
        Ending::Cut(_) => format!("after {bytes} B"),
    }
}

fn joined<const N: usize>(parts: [Option<String>; N]) -> String {
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

fn usual(usual: Option<Usual>) -> Option<String> {
    usual.map(|usual| format!("usual p50 {}, p99 {}", show_rounded(usual.p50), show_rounded(usual.p99)))
}

/// Returns what was measured; only the p99 beside the ledger's.
fn measured(past: &Past) -> Option<String> {
    let p99 = past.measured.p99.map(show_rounded)?;
    let p95 = past.measured.p95.filter(|_| past.first_byte.is_none());
    let p95 = p95.map(|p95| format!("p95 {}, ", show_rounded(p95))).unwrap_or_default();
    Some(format!("measured {p95}p99 {p99}"))
}

fn has_history(past: &Past) -> bool {
    [past.resolve, past.connect, past.tls].iter().any(Option::is_some)
}

/// Returns what the name servers found: `3 A, 1 AAAA from 10.0.0.2`, or what they say instead.
fn resolved(seen: &Observations) -> String {
    if seen.names.in_hosts_file == Some(true) {
        return "from the file of hosts".into();
    }
    let Some(server) = seen.names.replies.first().map(|reply| reply.server) else { return String::new() };
    let of = |question: Question| {
        let reply = seen.names.replies.iter().find(|reply| reply.server == server && reply.question == question)?;
        Some(reply.answer)
    };
    match (of(Question::A), of(Question::Aaaa)) {
        (Some(Some(Rcode::Found(a))), Some(Some(Rcode::Found(aaaa)))) => format!("{a} A, {aaaa} AAAA from {server}"),
        (Some(Some(Rcode::Found(a))), _) => format!("{a} A from {server}"),
        (Some(answer), _) | (None, Some(answer)) => said(answer, server),
        (None, None) => String::new(),
    }
}

fn said(answer: Option<Rcode>, server: IpAddr) -> String {
    match answer {
        Some(rcode) => format!("{} from {server}", rcode.name()),
        None => format!("{server} is silent"),
    }
}
