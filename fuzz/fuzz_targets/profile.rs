//! Profiles as anybody may write them: refused with a place and a hint, or valid in everything that follows.
#![no_main]

use abide::engine::operation::Method;
use abide::profile::{self, Ran, World};
use libfuzzer_sys::fuzz_target;
use std::io;
use std::path::Path;

/// What every variable, file and command holds.
const SECRET: &str = "Zx9q-secret-9xZq";
/// A part of it that no profile may hold: what a person writes into one in plain sight is no secret.
const MARK: &[u8] = b"9xZq";

struct Bottle<'t>(&'t [u8]);

impl World for Bottle<'_> {
    fn env(&self, _: &str) -> Option<String> {
        Some(SECRET.to_owned())
    }

    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        Ok(if path.ends_with("p.toml") { self.0.to_vec() } else { SECRET.into() })
    }

    fn run(&self, _: &[String]) -> io::Result<Ran> {
        Ok(Ran { status: Some(0), stdout: SECRET.into() })
    }
}

fuzz_target!(|text: &[u8]| {
    if text.windows(MARK.len()).any(|part| part == MARK) {
        return;
    }
    let path = Path::new("/nowhere/p.toml");
    match profile::load(path, &Bottle(text)) {
        Ok(profile) => {
            let shown = profile::show(&profile);
            let remarks = profile::check(&profile);
            let printed = format!("{shown:?} {remarks:?}");
            assert!(!printed.contains(SECRET), "{printed}");
            if let Some(url) = profile.base_url() {
                let _ = profile.policy(&Method::new("POST").expect("a token"), url);
            }
        }
        Err(error) => {
            let words = format!("{error} {:?}", error.hint());
            assert!(words.contains("p.toml") && !words.contains(SECRET), "{words}");
        }
    }
});
