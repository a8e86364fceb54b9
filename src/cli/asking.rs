//! Whether the partner of a recorded operation can be asked: what its profile says, without touching a secret.

use super::world::Blind;
use crate::report::advice::Asking;
use abide::engine::facts::Opened;
use abide::engine::operation::Method;
use abide::profile::{self, Profile};
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
        let read = || profile::load(Path::new(path), &Blind { profile: Path::new(path) }).ok();
        let Some(profile) = known.entry(path.into()).or_insert_with(read) else { return Asking::Unknown };
        let (Some(method), Ok(url)) = (Method::new(&opened.method), url::Url::parse(&opened.url)) else {
            return Asking::Unknown;
        };
        match profile.policy(&method, &url).status {
            Some(_) => Asking::Possible,
            None => Asking::Impossible,
        }
    }
}
