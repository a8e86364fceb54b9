//! What a profile may say, what is refused, and what comes of it.

mod checks;
mod examples;
mod proxy;
mod refusals;
mod secrets;
mod tls;
mod values;

use super::*;
use crate::engine::secret::Secret;
use std::collections::BTreeMap;

/// A world of given variables, files and commands.
#[derive(Default)]
pub(super) struct Fake {
    pub(super) variables: BTreeMap<&'static str, &'static str>,
    pub(super) files: BTreeMap<PathBuf, Vec<u8>>,
    /// What a command prints and its exit status, by its name.
    pub(super) commands: BTreeMap<&'static str, (&'static str, Option<i32>)>,
}

impl World for Fake {
    fn env(&self, name: &str) -> Option<String> {
        self.variables.get(name).map(|value| (*value).to_owned())
    }

    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        self.files.get(path).cloned().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn run(&self, argv: &[String]) -> io::Result<Ran> {
        let (stdout, status) = self.commands.get(&*argv[0]).ok_or(io::ErrorKind::NotFound)?;
        Ok(Ran { status: *status, stdout: stdout.as_bytes().to_vec() })
    }
}

impl Fake {
    pub(super) fn with(variables: &[(&'static str, &'static str)]) -> Fake {
        Fake { variables: variables.iter().copied().collect(), ..Fake::default() }
    }

    pub(super) fn load(&mut self, text: &str) -> Result<Profile, ProfileError> {
        self.files.insert("p.toml".into(), text.as_bytes().to_vec());
        load(Path::new("p.toml"), self)
    }
}

pub(super) fn profile(text: &str) -> Profile {
    Fake::default().load(text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// Returns the complaint about a profile, and its hint behind ` | `.
pub(super) fn complaint(text: &str) -> String {
    let error = Fake::default().load(text).expect_err(text);
    match error.hint() {
        Some(hint) => format!("{error} | {hint}"),
        None => error.to_string(),
    }
}

pub(super) fn policy(profile: &Profile, method: &str, url: &str) -> Policy {
    profile.policy(&Method::new(method).expect("a method"), &Url::parse(url).expect("a URL"))
}
