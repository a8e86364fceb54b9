//! Which operations of the ledger a replay is about. The selection never widens.

use super::super::exit::Failure;
use super::super::{Session, book, state};
use super::settings::Settings;
use crate::cli::args::StateFilter;
use crate::report::known::State;
use abide::engine::facts::Opened;
use abide::engine::moment::Now;
use abide::engine::operation::{Method, PartnerName};
use abide::engine::verdict::Verdict;
use abide::store::jsonl::{Found, Reader};
use std::collections::{HashMap, HashSet};

/// First claims, by partner and URL.
type Writes = HashMap<(PartnerName, Box<str>), u64>;

/// One selected operation.
#[derive(Debug)]
pub struct Member {
    /// What the ledger has.
    pub found: Found,
    /// Where it stands.
    pub state: State,
}

impl Member {
    /// Returns the number of its first claim: smaller ones were sent earlier.
    pub fn first_claim(&self) -> u64 {
        self.found.history.facts[0].n
    }
}

/// What was selected, and what else of the ledger counts.
#[derive(Debug)]
pub struct Chosen {
    /// The operations, in the order in which they were claimed first.
    pub members: Vec<Member>,
    /// The ledger, to look more up.
    pub reader: Reader,
    writes: Writes,
}

impl Chosen {
    /// Reads the ledger and selects.
    ///
    /// # Errors
    /// There is no ledger, it cannot be read, a key is unknown, or several partners have it.
    pub fn read(settings: &Settings<'_>, session: &Session, now: Now) -> Result<Chosen, Failure> {
        let reader = book::read(&settings.path, settings.choice(), session)?;
        let mut members = Vec::new();
        let mut seen: HashMap<_, Vec<PartnerName>> = HashMap::new();
        for found in candidates(&reader, settings)? {
            if !is_of_profile(settings, found.history.opened()) {
                continue;
            }
            let state = state::of(&found.history, found.standing, now);
            if settings.keys.contains(&found.key) {
                seen.entry(found.key.clone()).or_default().push(found.partner.clone());
            }
            if is_wanted(settings, &found, &state) {
                members.push(Member { found, state });
            }
        }
        let writes = later_writes(&reader, &members, now)?;
        book::warn(&session.screen, reader.warnings());
        for key in &settings.keys {
            match seen.get(key).map(Vec::as_slice) {
                Some([_]) => {}
                Some(partners) => return Err(book::ambiguous(key, partners)),
                None => return Err(book::unknown(key, settings.profile.as_deref(), &settings.path)),
            }
        }
        members.sort_by_key(Member::first_claim);
        Ok(Chosen { members, reader, writes })
    }

    /// Returns whether a write to the same URL is confirmed that was first claimed later.
    pub fn has_later_write(&self, member: &Member) -> bool {
        let opened = member.found.history.opened();
        let newest = self.writes.get(&(opened.partner.clone(), opened.url.clone()));
        newest.is_some_and(|newest| *newest > member.first_claim())
    }
}

/// Returns the operations among which all that are meant are. Only for those that are done is the whole ledger read.
fn candidates(reader: &Reader, settings: &Settings<'_>) -> Result<Vec<Found>, Failure> {
    let failure = |error| Failure::of_store(&error);
    if !settings.keys.is_empty() {
        let keys: HashSet<_> = settings.keys.iter().collect();
        let found = keys.into_iter().map(|key| reader.find(key, None)).collect::<Result<Vec<_>, _>>();
        return Ok(found.map_err(failure)?.into_iter().flatten().collect());
    }
    let is_done = |state: &StateFilter| matches!(state, StateFilter::Confirmed | StateFilter::Rejected);
    Ok(match settings.states().iter().any(is_done) {
        true => reader.list().map_err(failure)?.collect(),
        false => reader.undecided().map_err(failure)?.collect(),
    })
}

/// Returns the first claims of the newest writes that are confirmed, by partner and URL. They matter only to what would
/// undo them: for nothing else is the whole ledger read.
fn later_writes(reader: &Reader, members: &[Member], now: Now) -> Result<Writes, Failure> {
    let mut writes = Writes::new();
    let undoes = |member: &Member| matches!(&*member.found.history.opened().method, "PUT" | "PATCH" | "DELETE");
    if !members.iter().any(undoes) {
        return Ok(writes);
    }
    for found in reader.list().map_err(|error| Failure::of_store(&error))? {
        let opened = found.history.opened();
        let state = state::of(&found.history, found.standing, now);
        let is_write = !Method::new(&opened.method).is_some_and(|method| method.is_safe());
        if is_write && state.verdict() == Some(Verdict::Confirmed) {
            let newest = writes.entry((opened.partner.clone(), opened.url.clone())).or_default();
            *newest = (*newest).max(found.history.facts[0].n);
        }
    }
    Ok(writes)
}

fn is_of_profile(settings: &Settings<'_>, opened: &Opened) -> bool {
    let Some(profile) = &settings.profile else { return true };
    match profile.scope() {
        Some(partner) => opened.partner == partner,
        None => opened.profile.as_deref() == profile.absolute.to_str(),
    }
}

fn is_wanted(settings: &Settings<'_>, found: &Found, state: &State) -> bool {
    let is_named = settings.keys.contains(&found.key);
    if !settings.keys.is_empty() && !is_named {
        return false;
    }
    if is_named && settings.only.is_none() {
        return true;
    }
    // What another process works on counts as accepted, wherever it will end.
    let fits = |filter: &StateFilter| {
        filter.fits(state) || (*filter == StateFilter::Accepted && StateFilter::Running.fits(state))
    };
    settings.states().iter().any(fits)
}
