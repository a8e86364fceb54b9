//! `abide ledger list` and `abide ledger show`.

use super::args::{LedgerCommand, LedgerListArgs, LedgerShowArgs, StateFilter};
use super::book;
use super::exit::{Exit, Failure};
use super::{Format, Session, ledger_place, status};
use crate::report::human::happened;
use crate::report::json::{Listed, Shown, Standing, line};
use crate::report::known::{Known, State};
use crate::report::record::{FactLine, fact_words};
use crate::report::table::table;
use crate::report::time::relative;
use abide::engine::verdict::Verdict;
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
    }
}

fn list(args: &LedgerListArgs, session: &Session) -> Result<Exit, Failure> {
    let path = ledger_place::to_read(&args.ledger, &session.context)?;
    let shown = ledger_place::if_not_default(&args.ledger, &path)?;
    let now = session.now();
    let found = book::list(&path, &args.ledger, session)?;
    let all: Vec<Known<'_>> = found.iter().map(|found| book::known(found, now)).collect();
    let total = all.len();
    let chosen: Vec<&Known<'_>> = all
        .iter()
        .filter(|known| args.verdict.is_none_or(|filter| fits(&known.state, filter)))
        .filter(|known| args.partner.as_ref().is_none_or(|partner| known.partner.as_str() == partner))
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

fn fits(state: &State, filter: StateFilter) -> bool {
    match (filter, state) {
        (StateFilter::Running, State::Running(_)) | (StateFilter::Pending, State::Pending) => true,
        (filter, state) => {
            let verdict = match filter {
                StateFilter::Confirmed => Verdict::Confirmed,
                StateFilter::Rejected => Verdict::Rejected,
                StateFilter::NotDone => Verdict::NotDone,
                StateFilter::InDoubt => Verdict::InDoubt,
                StateFilter::Accepted => Verdict::Accepted,
                StateFilter::Running | StateFilter::Pending => return false,
            };
            state.verdict() == Some(verdict)
        }
    }
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
