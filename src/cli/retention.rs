//! `abide ledger compact|forget`: payloads and answers go, keys and verdicts stay as long as the profile says.

use super::args::{LedgerChoice, LedgerCompactArgs, LedgerForgetArgs};
use super::exit::{Exit, Failure};
use super::screen::Talk;
use super::signals::Signals;
use super::{Format, Session, book, ledger_place, limits};
use crate::report::json::line;
use crate::report::replay::operations;
use abide::engine::facts::Opened;
use abide::store::StoreError;
use abide::store::jsonl::{self, COMPACT_MAX, COMPACT_MIN, Compacted, Retention, Which, Worth};
use serde::Serialize;
use std::path::Path;

/// The document of both commands.
#[derive(Serialize)]
struct Document<'a> {
    schema: &'static str,
    ledger: &'a str,
    operations: u64,
    operations_forgotten: u64,
    bytes_before: u64,
    bytes_after: u64,
    bodies_removed: u64,
    bodies_shared: u64,
}

/// Compacts.
///
/// # Errors
/// There is no ledger, it is damaged, or there is no room for a new file.
pub fn compact(args: &LedgerCompactArgs, session: &Session) -> Result<Exit, Failure> {
    let path = ledger_place::to_read(&args.ledger, &session.context)?;
    let given = limits::duration("keep-full", args.keep_full.as_deref())?;
    let keep = |opened: &Opened| {
        let retention = session.profiles.retention(opened);
        Retention { keep_full: given.unwrap_or(retention.keep_full), ..retention }
    };
    let compacted = rewrite(&path, &args.ledger, Which::Older(&keep), session)?;
    let words = match (compacted.operations + compacted.forgotten, compacted.bodies) {
        (0, 0) => "nothing is old enough: the ledger stays as it is".into(),
        (0, removed) => {
            format!("nothing is old enough; removed {} beside the ledger that nothing needs any more", bodies(removed))
        }
        _ => done(&compacted),
    };
    tell("abide.ledger.compact/1", &path, &compacted, &words, session)
}

/// Compacts a ledger over half of which is of no use any more, at the end of a command that may take long.
///
/// It forgets no key: a wall clock that is wrong would make it forget them all, and nobody has asked for it.
/// Whatever keeps it from that is a warning: the ledger is as it was.
pub fn tidy(path: &Path, choice: &LedgerChoice, session: &Session, signals: &Signals) {
    let keep = |opened: &Opened| Retention { forget_after: None, ..session.profiles.retention(opened) };
    let options = book::options(choice, session);
    let Some(worth) = jsonl::worth_compacting(path, &options, &keep, COMPACT_MIN) else { return };
    let is_told = session.context.stderr_is_terminal || session.screen.talk >= Talk::Verbose;
    let tell = |words: &str| {
        if is_told {
            session.screen.talk(words)
        }
    };
    if worth.len > COMPACT_MAX {
        return tell(&advice(path, worth));
    }
    // Found out now, or every replay would read the whole ledger for it.
    let compacted = jsonl::may_compact(path).and_then(|()| {
        tell(&format!("compacting the ledger: about {} MiB of it are of no use any more", worth.dead >> 20));
        jsonl::compact(path, &options, Which::Older(&keep), &|| signals.first().is_some())
    });
    match compacted {
        // Another process does it.
        Ok(_) | Err(StoreError::Compacting { .. }) => {}
        Err(error) => session.screen.warn(&format!("the ledger could not be made shorter: {error}")),
    }
}

/// Says that it is time to compact a ledger, where a command may not take long.
pub fn advise(path: &Path, choice: &LedgerChoice, session: &Session) {
    let keep = |opened: &Opened| session.profiles.retention(opened);
    if let Some(worth) = jsonl::worth_compacting(path, &book::options(choice, session), &keep, COMPACT_MIN) {
        session.screen.say(&advice(path, worth));
    }
}

fn advice(path: &Path, worth: Worth) -> String {
    format!("{}: `abide ledger compact` would free about {} MiB", path.display(), worth.dead >> 20)
}

/// Erases one payload and answer.
///
/// # Errors
/// The key is unknown or ambiguous, or its operation is not decided: it may still have to be sent.
pub fn forget(args: &LedgerForgetArgs, session: &Session) -> Result<Exit, Failure> {
    let path = ledger_place::to_read(&args.ledger, &session.context)?;
    let found = book::find_one(&args.key, args.profile.as_deref(), &path, &args.ledger, session)?;
    let known = book::known(&found, session.now());
    if known.state.is_unsettled() {
        let words = format!("{} is {}: without its payload it could never be settled", found.key, known.state.words());
        return Err(Failure::usage(words).hint("replay it, or say what happened: abide resolve"));
    }
    let which = Which::One(&found.partner, &found.key);
    let compacted = rewrite(&path, &args.ledger, which, session)?;
    let words = match compacted {
        Compacted { operations: 0, bodies: 0, .. } => format!("{}: there is nothing left to forget", found.key),
        Compacted { operations: 0, bodies: removed, .. } => format!(
            "{}: nothing of it was left in the ledger; removed {} beside it that nothing needs any more",
            found.key,
            bodies(removed)
        ),
        Compacted { shared: 0, .. } => {
            format!("{}: payload and answer are erased; the key and the verdict stay", found.key)
        }
        // What is still on the disk is never called erased.
        Compacted { shared, .. } => format!(
            "{}: payload and answer are dropped; the key and the verdict stay. Still beside the ledger, because other \
             operations have the same: {}. Forget those operations too",
            found.key,
            bodies(shared)
        ),
    };
    tell("abide.ledger.forget/1", &path, &compacted, &words, session)
}

/// Compacts until it is done, or a signal comes.
fn rewrite(path: &Path, choice: &LedgerChoice, which: Which<'_>, session: &Session) -> Result<Compacted, Failure> {
    let signals = Signals::take(session.screen.clone(), || ())?;
    let stop = || signals.first().is_some();
    jsonl::compact(path, &book::options(choice, session), which, &stop).map_err(|error| {
        let failure = Failure::of_store(&error);
        match (error, signals.first()) {
            (StoreError::Stopped { .. }, Some(signal)) => Failure { exit: Exit::Signal(signal), ..failure },
            _ => failure,
        }
    })
}

fn done(compacted: &Compacted) -> String {
    let Compacted { operations: slimmed, forgotten, before, after, .. } = *compacted;
    let compacted = (slimmed > 0).then(|| format!("{} compacted", operations(slimmed as usize)));
    let forgotten = (forgotten > 0).then(|| format!("{} forgotten with the key", operations(forgotten as usize)));
    let what: Vec<String> = compacted.into_iter().chain(forgotten).collect();
    format!("{}: {before} bytes before, {after} now", what.join(", "))
}

fn bodies(count: u64) -> String {
    match count {
        1 => "1 body".into(),
        count => format!("{count} bodies"),
    }
}

fn tell(
    schema: &'static str,
    path: &Path,
    compacted: &Compacted,
    words: &str,
    session: &Session,
) -> Result<Exit, Failure> {
    if session.format == Format::Json {
        session.print(&line(&Document {
            schema,
            ledger: &path.display().to_string(),
            operations: compacted.operations,
            operations_forgotten: compacted.forgotten,
            bytes_before: compacted.before,
            bytes_after: compacted.after,
            bodies_removed: compacted.bodies,
            bodies_shared: compacted.shared,
        }))?;
    } else {
        session.print(words)?;
    }
    Ok(Exit::Fine)
}
