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
use std::collections::HashMap;

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
    writes: HashMap<(PartnerName, Box<str>), u64>,
}

impl Chosen {
    /// Reads the ledger and selects.
    ///
    /// # Errors
    /// There is no ledger, it cannot be read, a key is unknown, or several partners have it.
    pub fn read(settings: &Settings<'_>, session: &Session, now: Now) -> Result<Chosen, Failure> {
        let reader = book::read(&settings.path, settings.choice(), session)?;
        let mut members = Vec::new();
        let mut writes = HashMap::new();
        let mut seen: HashMap<_, Vec<PartnerName>> = HashMap::new();
        for found in reader.list() {
            let state = state::of(&found.history, found.standing, now);
            note_write(&mut writes, &found, &state);
            if !is_of_profile(settings, found.history.opened()) {
                continue;
            }
            if settings.keys.contains(&found.key) {
                seen.entry(found.key.clone()).or_default().push(found.partner.clone());
            }
            if is_wanted(settings, &found, &state) {
                members.push(Member { found, state });
            }
        }
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

fn note_write(writes: &mut HashMap<(PartnerName, Box<str>), u64>, found: &Found, state: &State) {
    let opened = found.history.opened();
    let is_write = !Method::new(&opened.method).is_some_and(|method| method.is_safe());
    if is_write && state.verdict() == Some(Verdict::Confirmed) {
        let newest = writes.entry((opened.partner.clone(), opened.url.clone())).or_default();
        *newest = (*newest).max(found.history.facts[0].n);
    }
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
