//! What is usual with the partner: from the attempts that the ledger holds.

use super::super::args::ProbeArgs;
use super::super::context::setting;
use super::super::exit::Failure;
use super::super::ledger_place::{self, Place};
use super::super::{Session, book};
use abide::engine::diagnose::history::Gathered;
use abide::engine::diagnose::past::Past;
use abide::engine::operation::{Method, PartnerName};
use std::path::Path;

/// A larger ledger is not read, in bytes: a probe is there to be quick.
const LARGEST: u64 = 32 << 20;

/// Returns what the ledger knows of a partner; nothing without a default ledger, and with `--ledger none`.
///
/// # Errors
/// The ledger that was named is not there, or it cannot be read. Without the default one a probe goes on.
pub fn of(partner: &PartnerName, args: &ProbeArgs, session: &Session) -> Result<Past, Failure> {
    let get = Method::new("GET").expect("GET is a method");
    let is_named = setting("ledger", args.ledger.ledger.as_deref())?.is_some_and(|given| given.text != "default");
    let path = match ledger_place::to_send(&args.ledger, &get, &session.context) {
        Ok(Place::File { path, .. }) if is_named || path.exists() => path,
        Err(failure) if is_named => return Err(failure),
        // No ledger, or no home folder for one: nothing is known.
        Ok(_) | Err(_) => return Ok(Past::default()),
    };
    if std::fs::metadata(&path).is_ok_and(|file| file.len() > LARGEST) {
        session.screen.talk("the ledger is too long to look for what is usual: more than 32 MiB");
        return Ok(Past::default());
    }
    match gathered(&path, partner, args, session) {
        Err(failure) if !is_named => {
            session.screen.warn(&format!("nothing is known of the past: {:#}", failure.error));
            Ok(Past::default())
        }
        known => known,
    }
}

fn gathered(path: &Path, partner: &PartnerName, args: &ProbeArgs, session: &Session) -> Result<Past, Failure> {
    let reader = book::peek(path, &args.ledger, session)?;
    let mut gathered = Gathered::default();
    let found = reader.list().map_err(|error| Failure::of_store(&error))?;
    found.filter(|found| found.partner == *partner).for_each(|found| gathered.add(&found.history));
    Ok(gathered.past(session.now().wall))
}
