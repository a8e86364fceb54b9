//! `abide resolve`: what a person found out becomes a fact.

use super::args::ResolveArgs;
use super::exit::{Exit, Failure};
use super::{Format, Session, book, ledger_place, status};
use crate::report::human::happened;
use crate::report::json::{Ruled, Standing, line};
use abide::drive::{Ledger, Resolving};
use abide::engine::facts::{Fact, History, Owner, Resolved};
use abide::engine::verdict::Verdict;
use abide::store::jsonl::{Found, this_process};
use std::path::Path;

/// No note is longer, in bytes: it has to fit into one line of the ledger.
const LONGEST_NOTE: usize = 4096;

/// Records.
///
/// # Errors
/// The key is unknown, the partner has said otherwise, or the ledger failed.
pub fn run(args: &ResolveArgs, session: &Session) -> Result<Exit, Failure> {
    let verdict = match (args.confirmed, args.rejected) {
        (true, _) => Verdict::Confirmed,
        (_, true) => Verdict::Rejected,
        _ => Verdict::NotDone,
    };
    let note = note(&args.note)?;
    let path = ledger_place::to_read(&args.ledger, &session.context)?;
    let shown = ledger_place::if_not_default(&args.ledger, &path)?;
    let found = book::find_one(&args.key, args.profile.as_deref(), &path, &args.ledger, session)?;
    let resolved = Resolved { partner: found.partner.clone(), verdict, by: by().into(), note };
    let mut ledger = book::open(&path, &args.ledger, session)?;
    let resolving = super::runtime()?.block_on(ledger.resolve(&found.key, &resolved, session.now()));
    let is_recorded = match resolving.map_err(|error| Failure::of_store(&error))? {
        Resolving::Recorded(_) => true,
        Resolving::Already(_) => false,
        Resolving::Against(proven, history) => return Err(against(&found, proven, &history)),
        Resolving::Busy(owner) => return Err(busy(&found, &owner)),
        Resolving::Unknown => return Err(book::unknown(&found.key, None, &path)),
    };
    let now = book::find_one(&args.key, Some(found.partner.as_str()), &path, &args.ledger, session)?;
    tell(&now, &resolved, is_recorded, shown, session)
}

fn note(text: &str) -> Result<Box<str>, Failure> {
    let text = text.trim();
    if text.is_empty() {
        return Err(
            Failure::usage("--note is empty").hint("write where it is known from: --note 'seen on their dashboard'")
        );
    }
    if text.len() > LONGEST_NOTE {
        return Err(Failure::usage(format!("--note is longer than {LONGEST_NOTE} bytes")));
    }
    Ok(text.into())
}

/// Returns who says so: `user@host`.
fn by() -> String {
    let uid = nix::unistd::getuid();
    let user = nix::unistd::User::from_uid(uid).ok().flatten().map_or_else(|| uid.to_string(), |user| user.name);
    format!("{user}@{}", this_process().host)
}

fn tell(
    found: &Found,
    resolved: &Resolved,
    is_recorded: bool,
    ledger: Option<&Path>,
    session: &Session,
) -> Result<Exit, Failure> {
    let known = book::known(found, session.now());
    let advice = status::advice(&known, ledger, session);
    if session.format == Format::Json {
        let document = Ruled {
            schema: "abide.resolve/1",
            exit: Exit::Fine.code(),
            recorded: is_recorded,
            by: &resolved.by,
            note: &resolved.note,
            standing: Standing::of(&known, advice),
        };
        session.print(&line(&document))?;
        return Ok(Exit::Fine);
    }
    let words = resolved.verdict.name().replace('_', " ");
    session.print(&match is_recorded {
        true => format!("{}: {words}, recorded as said by {}: {}", found.key, resolved.by, resolved.note),
        false => format!("{}: {words} already, by the partner's own word; nothing was recorded", found.key),
    })?;
    if known.state.verdict() == Some(Verdict::NotDone) {
        session.print(&format!("    next: {}", advice.words))?;
    }
    Ok(Exit::Fine)
}

fn against(found: &Found, proven: Verdict, history: &History) -> Failure {
    let proof = history.facts.iter().rev().find_map(|recorded| {
        let what = match &recorded.fact {
            Fact::Finished(finished) if finished.done.is_some() => happened(finished),
            Fact::Settled(settled) => happened(settled.last.as_ref().filter(|last| last.done.is_some())?),
            Fact::Asked(asked) if asked.says.name() == proven.name() => {
                format!("the partner's status endpoint says {}", asked.says.name())
            }
            _ => return None,
        };
        Some(format!(" ({what}, {})", recorded.at))
    });
    let words = proven.name().replace('_', " ");
    Failure::usage(format!("{}: it is proven {words}{}", found.key, proof.unwrap_or_default())).hint(match proven {
        Verdict::Confirmed => "what the partner has said is not overruled; a new operation needs a new key",
        _ => "what the partner has said is not overruled; --not-done lets it be tried again",
    })
}

fn busy(found: &Found, owner: &Owner) -> Failure {
    let words = format!("{}: process {} on {} is working on it", found.key, owner.pid, owner.host);
    Failure { exit: Exit::Accepted, ..Failure::usage(words) }.hint("wait until it has ended, then look again")
}
