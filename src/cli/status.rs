//! `abide status`: what is known about one operation, or what is unsettled.

use super::args::StatusArgs;
use super::book;
use super::exit::{Exit, Failure};
use super::screen::Talk;
use super::{Format, Session, ledger_place};
use crate::report::advice::{Advice, Book, Ground, advise};
use crate::report::human::{self, Verdicted, happened};
use crate::report::json::{Standing, Status, Unsettled, line};
use crate::report::known::{Known, State};
use crate::report::table::table;
use crate::report::time::relative;
use abide::engine::facts::{About, Fact, Recorded, Says};
use abide::engine::moment::Timestamp;
use abide::store::jsonl::Found;
use std::path::Path;

/// Tells.
///
/// # Errors
/// The ledger cannot be read, the key is unknown or ambiguous.
pub fn run(args: &StatusArgs, session: &Session) -> Result<Exit, Failure> {
    let path = ledger_place::to_read(&args.ledger, &session.context)?;
    let shown = ledger_place::if_not_default(&args.ledger, &path)?;
    match &args.key {
        Some(key) => {
            let found = book::find_one(key, args.profile.as_deref(), &path, &args.ledger, session)?;
            one(&found, shown, session)
        }
        None => unsettled(&book::undecided(&path, &args.ledger, session)?, shown, session),
    }
}

fn one(found: &Found, ledger: Option<&Path>, session: &Session) -> Result<Exit, Failure> {
    let now = session.now();
    let known = book::known(found, now);
    let advice = advice(&known, ledger, session);
    let exit = match (&known.state, known.state.verdict()) {
        (_, Some(verdict)) => verdict.into(),
        (State::Running(_), None) => Exit::Accepted,
        // Nothing was started: running it is safe.
        (_, None) => Exit::NotDone,
    };
    if session.format == Format::Json {
        let document = Status {
            schema: "abide.status/1",
            exit: exit.code(),
            standing: Standing::of(&known, advice),
            estimate: None,
        };
        session.print(&line(&document))?;
        return Ok(exit);
    }
    session.print(&text(&known, &advice, now.wall, session))?;
    Ok(exit)
}

fn text(known: &Known<'_>, advice: &Advice, now: Timestamp, session: &Session) -> String {
    let verdicted = Verdicted { advice, budget: None, asked_wait: None, message: None, paint: session.stdout_paint };
    let mut lines = vec![human::verdict(known, &verdicted)];
    let opened = known.opened();
    lines.push(format!("    {} {} ({})", opened.method, opened.url, known.partner));
    let time = |at: Option<Timestamp>| at.map(|at| session.local.both(at, now)).unwrap_or_default();
    lines.push(format!("    opened {}, last change {}", time(known.opened_at()), time(known.updated_at())));
    if known.finished().count() > 1 {
        lines.extend(known.finished().map(|finished| format!("    attempt {}: {}", finished.a, happened(finished))));
    }
    lines.extend(known.history.facts.iter().filter_map(|recorded| word(recorded, session, now)));
    if session.screen.talk >= Talk::Verbose {
        lines.push(format!("    fingerprint {}", opened.fp));
    }
    lines.join("\n")
}

/// Returns what the partner's status endpoint or a person said.
fn word(recorded: &Recorded, session: &Session, now: Timestamp) -> Option<String> {
    let at = session.local.both(recorded.at, now);
    match &recorded.fact {
        Fact::Asked(asked) if asked.about == About::Operation && asked.says != Says::Unclear => {
            Some(format!("    the partner was asked {at}: {}", asked.says.name().replace('_', " ")))
        }
        Fact::Resolved(resolved) => {
            let verdict = resolved.verdict.name().replace('_', " ");
            Some(format!("    {} said {verdict} {at}: {}", resolved.by, resolved.note))
        }
        _ => None,
    }
}

fn unsettled(found: &[Found], ledger: Option<&Path>, session: &Session) -> Result<Exit, Failure> {
    let now = session.now();
    let known: Vec<Known<'_>> =
        found.iter().map(|found| book::known(found, now)).filter(|known| known.state.is_unsettled()).collect();
    if session.format == Format::Json {
        let standing = known.iter().map(|known| Standing::of(known, advice(known, ledger, session)));
        session.print(&line(&Unsettled { schema: "abide.status/1", unsettled: standing.collect() }))?;
        return Ok(Exit::Fine);
    }
    if known.is_empty() {
        session.print("nothing is unsettled")?;
        return Ok(Exit::Fine);
    }
    let rows = known.iter().map(|known| {
        vec![
            known.key.to_string(),
            known.state.words(),
            known.opened_at().map(|at| relative(at, now.wall)).unwrap_or_default(),
            known.last().map(|last| last.reason.words().to_owned()).unwrap_or_else(|| "-".into()),
            advice(known, ledger, session).brief,
        ]
    });
    session.print(&table(&["key", "state", "opened", "reason", "next"], rows.collect()))?;
    Ok(Exit::Fine)
}

/// Returns what to do about an operation of the ledger at `ledger`, where a command line must name that.
pub fn advice(known: &Known<'_>, ledger: Option<&Path>, session: &Session) -> Advice {
    let ledger = ledger.map(|path| path.display().to_string());
    let ground = Ground {
        asking: session.profiles.asking(known.opened()),
        book: ledger.as_deref().map_or(Book::Usual, Book::At),
        proxy: None,
        now: session.now().wall,
        clock: &session.local,
    };
    advise(known, &ground)
}
