//! The ledger as the commands use it: opened for a send, read for a person, thrown away after a rehearsal.

use super::args::LedgerChoice;
use super::exit::Failure;
use super::screen::{Screen, Talk};
use super::{Session, plan, state};
use crate::report::known::Known;
use abide::engine::moment::Now;
use abide::engine::operation::{IdempotencyKey, PartnerName};
use abide::profile::Profile;
use abide::store::Warning;
use abide::store::jsonl::{Effort, Found, Jsonl, Options, Reader, this_process};
use std::path::{Path, PathBuf};

/// Returns what is known of an operation at `now`.
pub fn known(found: &Found, now: Now) -> Known<'_> {
    let state = state::of(&found.history, found.standing, now);
    Known { partner: &found.partner, key: &found.key, history: &found.history, state }
}

/// Opens a ledger to send with, and tells what it noticed.
///
/// # Errors
/// It cannot be opened or made.
pub fn open(path: &Path, choice: &LedgerChoice, session: &Session) -> Result<Jsonl, Failure> {
    let ledger = Jsonl::open(path, &options(choice, session)).map_err(|error| Failure::of_store(&error))?;
    warn(&session.screen, ledger.warnings());
    session.ledgers.borrow_mut().push(ledger.clone());
    Ok(ledger)
}

/// Keeps the indexes of the ledgers that were written to up to date, once everything is told.
pub fn keep_up(session: &Session) {
    for ledger in session.ledgers.take() {
        ledger.keep_up(Effort::Short);
        warn(&session.screen, ledger.warnings());
    }
}

/// Opens a ledger to read, and tells what it noticed.
///
/// # Errors
/// There is none, or it cannot be read.
pub fn read(path: &Path, choice: &LedgerChoice, session: &Session) -> Result<Reader, Failure> {
    let reader = peek(path, choice, session)?;
    warn(&session.screen, reader.warnings());
    Ok(reader)
}

/// Opens a ledger to read, and keeps what it noticed to itself.
///
/// # Errors
/// As [`read`].
pub fn peek(path: &Path, choice: &LedgerChoice, session: &Session) -> Result<Reader, Failure> {
    Reader::open(path, &options(choice, session)).map_err(|error| Failure::of_store(&error))
}

/// Returns every operation, newest first.
///
/// # Errors
/// As [`read`].
pub fn list(path: &Path, choice: &LedgerChoice, session: &Session) -> Result<Vec<Found>, Failure> {
    let reader = read(path, choice, session)?;
    let found = reader.list().map_err(|error| Failure::of_store(&error))?.collect();
    warn(&session.screen, reader.warnings());
    Ok(found)
}

/// Returns the operations without a final verdict, newest first, however many others there are.
///
/// # Errors
/// As [`read`].
pub fn undecided(path: &Path, choice: &LedgerChoice, session: &Session) -> Result<Vec<Found>, Failure> {
    let reader = read(path, choice, session)?;
    let found = reader.undecided().map_err(|error| Failure::of_store(&error))?.collect();
    warn(&session.screen, reader.warnings());
    Ok(found)
}

/// Returns the operation with a key. `partner` is a profile or a partner's name and decides among several.
///
/// # Errors
/// The key is unknown, or several partners have it.
pub fn find_one(
    key: &str,
    partner: Option<&str>,
    path: &Path,
    choice: &LedgerChoice,
    session: &Session,
) -> Result<Found, Failure> {
    let key = IdempotencyKey::new(key, 255).map_err(Failure::usage)?;
    let reader = read(path, choice, session)?;
    let partner = partner.map(|name| partner_of(name, session)).transpose()?.flatten();
    let mut found = reader.find(&key, partner.as_ref()).map_err(|error| Failure::of_store(&error))?;
    if found.len() > 1 {
        return Err(ambiguous(&key, &found.into_iter().map(|found| found.partner).collect::<Vec<_>>()));
    }
    let whose = partner.map(|partner| format!(" of {partner}")).unwrap_or_default();
    found.pop().ok_or_else(|| not_there(&key, &whose, path))
}

/// Returns the usage error about a key that several partners have.
pub fn ambiguous(key: &IdempotencyKey, partners: &[PartnerName]) -> Failure {
    let names: Vec<&str> = partners.iter().map(PartnerName::as_str).collect();
    let first = names.first().copied().unwrap_or_default();
    Failure::usage(format!("several partners have the key {key}: {}", names.join(", ")))
        .hint(format!("choose one: -p {first}"))
}

/// Returns the usage error about a key that the ledger does not have among the operations of a profile.
pub fn unknown(key: &IdempotencyKey, profile: Option<&Profile>, path: &Path) -> Failure {
    let whose = match profile {
        None => String::new(),
        Some(profile) => match profile.scope() {
            Some(partner) => format!(" of {partner}"),
            None => format!(" sent with {}", profile.path.display()),
        },
    };
    not_there(key, &whose, path)
}

fn not_there(key: &IdempotencyKey, whose: &str, path: &Path) -> Failure {
    Failure::usage(format!("no operation with the key {key}{whose} in {}", path.display()))
        .hint("abide ledger list shows what there is; another ledger is chosen with --ledger")
}

/// Returns the partner that a profile names, or else the name itself; `None` where a profile names none.
fn partner_of(name: &str, session: &Session) -> Result<Option<PartnerName>, Failure> {
    let home = session.context.config_home();
    match abide::profile::find(name, &session.context.cwd, home.as_deref()) {
        Ok(path) => Ok(plan::load_blind(&path)?.scope()),
        Err(_) => PartnerName::new(name).map(Some).ok_or_else(|| Failure::usage(format!("-p {name}: no such partner"))),
    }
}

/// Returns how a ledger is opened.
pub fn options(choice: &LedgerChoice, session: &Session) -> Options {
    Options {
        state: session.context.state_home().ok().map(|home| home.join("abide")),
        unsafe_fs: choice.ledger_unsafe_fs,
        boot: this_process().boot,
        now: session.now().wall,
    }
}

/// Tells what a ledger noticed; details only to whoever asked for more.
pub fn warn(screen: &Screen, warnings: Vec<Warning>) {
    for warning in warnings.iter().filter(|warning| !warning.is_detail() || screen.talk >= Talk::Verbose) {
        screen.warn(&warning.to_string());
    }
}

/// A ledger for a rehearsal, gone afterwards.
#[derive(Debug)]
pub struct ThrowAway {
    /// The ledger.
    pub ledger: Jsonl,
    folder: PathBuf,
}

impl ThrowAway {
    /// Makes one in the folder for temporary files.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn open(session: &Session) -> Result<ThrowAway, Failure> {
        let now = session.now().wall;
        let folder = std::env::temp_dir().join(format!("abide-rehearsal-{}-{}", std::process::id(), now.unix_ms()));
        let options = Options { state: None, unsafe_fs: true, boot: this_process().boot, now };
        let ledger = Jsonl::open(&folder.join("ledger.jsonl"), &options).map_err(|error| Failure::of_store(&error))?;
        Ok(ThrowAway { ledger, folder })
    }
}

impl Drop for ThrowAway {
    fn drop(&mut self) {
        // What cannot be removed lies in the folder for temporary files, where it harms nobody.
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}
