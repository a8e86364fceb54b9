//! What the profile of a recorded operation says of it, without touching a secret: whether the partner can be asked, how
//! long its payload is kept.

use super::world::Blind;
use crate::report::advice::Asking;
use abide::engine::facts::Opened;
use abide::engine::operation::Method;
use abide::profile::{self, LedgerRules, Profile};
use abide::store::jsonl::Retention;
use std::cell::RefCell;
use std::collections::HashMap;
use std::path::Path;

/// The profiles of recorded operations, each read once.
#[derive(Debug, Default)]
pub struct Profiles(RefCell<HashMap<Box<str>, Option<Profile>>>);

impl Profiles {
    /// Returns whether the profile that was used says how to ask.
    pub fn asking(&self, opened: &Opened) -> Asking {
        let Some(path) = opened.profile.as_deref() else { return Asking::Impossible };
        let mut known = self.0.borrow_mut();
        let Some(profile) = known.entry(path.into()).or_insert_with(|| read(path)) else { return Asking::Unknown };
        let (Some(method), Ok(url)) = (Method::new(&opened.method), url::Url::parse(&opened.url)) else {
            return Asking::Unknown;
        };
        match profile.policy(&method, &url).status {
            Some(_) => Asking::Possible,
            None => Asking::Impossible,
        }
    }

    /// Returns how long an operation is kept once it is decided: where its profile cannot be read, its key for ever.
    pub fn retention(&self, opened: &Opened) -> Retention {
        let mut known = self.0.borrow_mut();
        let profile = opened.profile.as_deref();
        let profile = profile.and_then(|path| known.entry(path.into()).or_insert_with(|| read(path)).as_ref());
        let LedgerRules { keep_full, forget_after, .. } = profile.map_or(LedgerRules::default(), |known| known.ledger);
        Retention { keep_full, forget_after }
    }
}

fn read(path: &str) -> Option<Profile> {
    profile::load(Path::new(path), &Blind { profile: Path::new(path) }).ok()
}
