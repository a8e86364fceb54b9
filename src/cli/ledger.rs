//! `abide ledger …`: list, show, export, and where the others are.

use super::args::{LedgerCommand, LedgerExportArgs, LedgerListArgs, LedgerShowArgs};
use super::book;
use super::exit::{Exit, Failure};
use super::{Format, Session, ledger_place, limits, retention, status, verify};
use crate::report::export;
use crate::report::human::happened;
use crate::report::json::{Listed, Shown, Standing, line};
use crate::report::known::Known;
use crate::report::record::{FactLine, fact_words};
use crate::report::table::table;
use crate::report::time::relative;
use abide::store::jsonl::Found;
use std::collections::BTreeMap;

/// Does what the subcommand asks.
///
/// # Errors
/// The ledger cannot be read, the key is unknown or ambiguous.
pub fn run(command: &LedgerCommand, session: &Session) -> Result<Exit, Failure> {
    match command {
        LedgerCommand::List(args) => list(args, session),
        LedgerCommand::Show(args) => show(args, session),
        LedgerCommand::Export(args) => export(args, session),
        LedgerCommand::Verify(args) => verify::run(args, session),
        LedgerCommand::Compact(args) => retention::compact(args, session),
        LedgerCommand::Forget(args) => retention::forget(args, session),
    }
}

fn list(args: &LedgerListArgs, session: &Session) -> Result<Exit, Failure> {
    let path = ledger_place::to_read(&args.ledger, &session.context)?;
    let shown = ledger_place::if_not_default(&args.ledger, &path)?;
    let now = session.now();
    let since = args.since.as_deref().map(|text| limits::since("since", text, now.wall)).transpose()?;
    let found = book::list(&path, &args.ledger, session)?;
    let all: Vec<Known<'_>> = found.iter().map(|found| book::known(found, now)).collect();
    let total = all.len();
    let chosen: Vec<&Known<'_>> = all
        .iter()
        .filter(|known| args.verdict.is_none_or(|filter| filter.fits(&known.state)))
        .filter(|known| args.partner.as_ref().is_none_or(|partner| known.partner.as_str() == partner))
        .filter(|known| since.is_none_or(|since| known.opened_at().is_some_and(|at| at >= since)))
        .take(args.limit.unwrap_or(usize::MAX))
        .collect();
    if session.format == Format::Json {
        let document = Listed {
            schema: "abide.ledger.list/1",
            ledger: &path.display().to_string(),
            operations: chosen.iter().map(|known| Standing::of(known, status::advice(known, shown, session))).collect(),
            total,
        };
        session.print(&line(&document))?;
        return Ok(Exit::Fine);
    }
    let rows = chosen.iter().map(|known| {
        let opened = known.opened();
        vec![
            known.key.to_string(),
            known.state.words(),
            known.attempts().to_string(),
            known.opened_at().map(|at| relative(at, now.wall)).unwrap_or_default(),
            format!("{} {}", opened.method, opened.url),
            known.last().map(happened).unwrap_or_else(|| "-".into()),
        ]
    });
    if !chosen.is_empty() {
        let head = ["key", "state", "attempts", "opened", "request", "last attempt"];
        session.print(&table(&head, rows.collect()))?;
    }
    session.print(&summary(&all, chosen.len()))?;
    Ok(Exit::Fine)
}

fn summary(all: &[Known<'_>], shown: usize) -> String {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for known in all {
        *counts.entry(known.state.words()).or_default() += 1;
    }
    let parts: Vec<String> = counts.iter().map(|(state, count)| format!("{count} {state}")).collect();
    let of_all = match all.len() {
        0 => return "no operations".into(),
        1 => "1 operation".into(),
        total => format!("{total} operations"),
    };
    let only = if shown < all.len() { format!(" ({shown} shown)") } else { String::new() };
    format!("{of_all}{only}: {}", parts.join(", "))
}

fn export(args: &LedgerExportArgs, session: &Session) -> Result<Exit, Failure> {
    let is_csv = match session.common.format.as_deref() {
        None | Some("jsonl" | "json") => false,
        Some("csv") => true,
        Some(other) => {
            return Err(Failure::usage(format!("--format {other}: the formats of export are jsonl and csv")));
        }
    };
    let path = ledger_place::to_read(&args.ledger, &session.context)?;
    let now = session.now();
    let mut found = book::list(&path, &args.ledger, session)?;
    found.sort_by_key(|found| found.history.facts[0].n);
    if is_csv {
        // Source: RFC 4180: lines end with CR LF.
        session.print(&format!("{}\r", export::csv_head()))?;
    }
    for found in &found {
        let row = export::row(&book::known(found, now));
        session.print(&if is_csv { format!("{}\r", export::csv_line(&row)) } else { export::json_line(&row) })?;
    }
    Ok(Exit::Fine)
}

fn show(args: &LedgerShowArgs, session: &Session) -> Result<Exit, Failure> {
    let path = ledger_place::to_read(&args.ledger, &session.context)?;
    let shown = ledger_place::if_not_default(&args.ledger, &path)?;
    let found: Found = book::find_one(&args.key, args.profile.as_deref(), &path, &args.ledger, session)?;
    let now = session.now();
    let known = book::known(&found, now);
    let advice = status::advice(&known, shown, session);
    if session.format == Format::Json {
        let document = Shown {
            schema: "abide.ledger.show/1",
            standing: Standing::of(&known, advice),
            facts: known.history.facts.iter().map(FactLine::from).collect(),
        };
        session.print(&line(&document))?;
        return Ok(Exit::Fine);
    }
    let opened = known.opened();
    let mut lines = vec![
        format!("{} ({}): {}", known.key, known.partner, known.state.words()),
        format!("{} {}", opened.method, opened.url),
    ];
    lines.extend(opened.headers.iter().map(|(name, value)| format!("{name}: {value}")));
    lines.push(format!("fingerprint {}", opened.fp));
    lines.push(String::new());
    let rows = known.history.facts.iter().map(|recorded| {
        vec![
            session.local.local(recorded.at, now.wall),
            recorded.n.to_string(),
            recorded.fact.name().to_owned(),
            fact_words(&recorded.fact),
        ]
    });
    lines.push(table(&["at", "claim", "fact", "what it says"], rows.collect()));
    lines.push(String::new());
    lines.push(format!("next: {}", advice.words));
    session.print(&lines.join("\n"))?;
    Ok(Exit::Fine)
}
