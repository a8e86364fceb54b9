//! Profiles: a partner's rules as a TOML file, converted once into a [`Profile`] that cannot be invalid.
//!
//! The text is read into a raw mirror that knows the line of every key (`raw`); unknown keys, values without units and
//! contradictions are refused with file and line. Secrets come from the [`World`] and print as `***` everywhere.

mod address;
mod check;
pub mod compose;
mod convert;
mod credentials;
pub mod edit;
mod endpoint;
mod error;
mod expand;
mod headers;
mod known;
mod proxy;
mod raw;
mod rules;
mod sections;
mod show;
mod tls;

pub use address::{NotAUrl, origin};
pub use check::{Level, Remark, check};
pub use error::{CredentialFault, Fault, Near, ProfileError, VariableState};
pub use headers::NotAHeader;
pub use proxy::ProxyRules;
pub use show::{Setting, SettingOrigin, show};
pub use tls::{NamedFile, TlsSection};

use crate::engine::json::Pointer;
use crate::engine::operation::{Announce, Header, Method, PartnerName};
use crate::engine::policy::{Policy, RetryPolicy, Sizes, UrlPart, UrlTemplate};
use crate::engine::secret::Mask;
use endpoint::{Endpoint, Rules};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;
use url::Url;

/// What a profile may ask of the process around it: the library reads no environment and starts nothing by itself.
pub trait World {
    /// Returns the value of an environment variable; `None` where it is unset or no UTF-8.
    fn env(&self, name: &str) -> Option<String>;

    /// Returns the content of a file: the profile's own, or one that it names.
    ///
    /// # Errors
    /// The system's, or that the file is too large; shown to people.
    fn read(&self, path: &Path) -> io::Result<Vec<u8>>;

    /// Runs a command without a shell and waits for its end. `argv` holds its name first, and is never empty.
    ///
    /// # Errors
    /// It could not be started.
    fn run(&self, argv: &[String]) -> io::Result<Ran>;
}

/// How a command ended.
#[derive(Clone, PartialEq, Eq)]
pub struct Ran {
    /// Its exit status; `None` where a signal ended it.
    pub status: Option<i32>,
    /// What it printed: a secret.
    pub stdout: Vec<u8>,
}

/// What reading a profile needs and gathers.
struct Reading<'w> {
    world: &'w dyn World,
    /// The folder of the profile, from which relative files are looked for.
    home: PathBuf,
    secrets: Secrets,
    mask: Mask,
}

/// Names whose values are masked beside the built-in ones, in any case.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Secrets {
    query: Vec<Box<str>>,
    headers: Vec<Box<str>>,
}

/// A partner's rules. Nothing later re-checks them.
#[derive(Clone, Debug)]
pub struct Profile {
    /// The file as the user named it, for messages.
    pub path: PathBuf,
    /// The file as an absolute path, for the ledger.
    pub absolute: PathBuf,
    /// The name that scopes ledger entries; `None`: host and port of the URL.
    pub partner: Option<PartnerName>,
    /// The account label.
    pub account: Option<Box<str>>,
    /// What the ledger keeps.
    pub ledger: LedgerRules,
    /// How much at once.
    pub loads: Loads,
    /// Which proxy is passed by.
    pub proxy: ProxyRules,
    /// What `[tls]` states.
    pub tls: TlsSection,
    /// Every secret value of the profile.
    pub mask: Mask,
    base: Option<address::Base>,
    headers: Vec<Header>,
    auth: Option<Header>,
    announce: Announce,
    announce_operation: Option<Box<str>>,
    secrets: Secrets,
    retry: RetryPolicy,
    error_message: Option<Pointer>,
    sizes: Sizes,
    rules: Rules,
    endpoints: Vec<Endpoint>,
    stated: Vec<raw::Stated>,
}

/// What the ledger keeps of this partner's operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LedgerRules {
    /// Whether request bodies are kept.
    pub store_body: StoreBody,
    /// How long a settled operation stays whole.
    pub keep_full: Duration,
    /// After how long a settled operation goes with its key; `None`: never. Not below `keep_full`, nor below any stated
    /// retention.
    pub forget_after: Option<Duration>,
}

impl Default for LedgerRules {
    /// Source: product.md section 4.
    fn default() -> LedgerRules {
        let keep_full = Duration::from_secs(30 * 24 * 3600);
        LedgerRules { store_body: StoreBody::Full, keep_full, forget_after: None }
    }
}

/// Whether request bodies are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreBody {
    /// Byte for byte, so that a replay can send them.
    Full,
    /// Only their SHA-256; a replay then needs the body again.
    Hash,
}

/// How much a partner takes at once; `None` where the profile does not say.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Loads {
    /// Operations per second.
    pub rate: Option<f64>,
    /// Operations at the same time; at least 1.
    pub concurrency: Option<u32>,
}

/// Returns the file of a profile: `name` as a path, then `profiles/NAME` and `profiles/NAME.toml` in `cwd`, then
/// `abide/profiles/NAME` and `abide/profiles/NAME.toml` in `config_home`.
///
/// What was found under `cwd` comes relative to it, as people would write it.
///
/// # Errors
/// [`Fault::NotFound`] with every place that was looked at.
pub fn find(name: &str, cwd: &Path, config_home: Option<&Path>) -> Result<PathBuf, ProfileError> {
    let mut places = vec![PathBuf::from(name)];
    let mut folders = vec![PathBuf::from("profiles")];
    folders.extend(config_home.map(|home| home.join("abide").join("profiles")));
    // A name with a folder in it is a path only.
    if !name.is_empty() && !name.contains('/') {
        let files = [name.to_owned(), format!("{name}.toml")];
        places.extend(folders.iter().flat_map(|folder| files.iter().map(|file| folder.join(file))));
    }
    match places.iter().find(|place| cwd.join(place).is_file()) {
        Some(found) => Ok(found.clone()),
        None => {
            let fault = Fault::NotFound { name: name.into(), looked: places };
            Err(ProfileError { file: "".into(), line: None, fault })
        }
    }
}

/// Reads a profile and resolves its secrets.
///
/// Relative files in it are looked for from its own folder.
///
/// # Errors
/// The first complaint, with its line.
pub fn load(path: &Path, world: &dyn World) -> Result<Profile, ProfileError> {
    let file: Box<str> = path.display().to_string().into();
    let fail = |fault| ProfileError { file: file.clone(), line: None, fault };
    let bytes = world.read(path).map_err(|why| fail(Fault::Unreadable { why: why.to_string().into() }))?;
    let text = String::from_utf8(bytes).map_err(|_| fail(Fault::NotText))?;
    convert::convert(path, &text, world)
}

impl Profile {
    /// Returns the profile's `base_url`, without a `/` at the end of its path.
    pub fn base_url(&self) -> Option<&Url> {
        self.base.as_ref().map(|base| &base.url)
    }

    /// Returns the partner that operations sent with this profile have: its name, else host and port of its `base_url`;
    /// `None` where it has neither, or where these are too long for a name.
    pub fn scope(&self) -> Option<PartnerName> {
        let authority = || PartnerName::new(&address::authority(self.base_url()?));
        self.partner.clone().or_else(authority)
    }

    /// Returns these rules for whatever origin: for operations of another `base_url`, where a person insists.
    ///
    /// A status path is then below the origin of the operation itself.
    pub fn without_base_url(self) -> Profile {
        Profile { base: None, ..self }
    }

    /// Returns the rules for one kind of operation: the first `[[endpoint]]` that fits overrides the common ones.
    pub fn policy(&self, method: &Method, url: &Url) -> Policy {
        let rules = self.rules_of(method, url);
        let mut status = rules.status.clone();
        if let Some(status) = &mut status {
            self.make_absolute(&mut status.url, url);
        }
        Policy {
            method: method.clone(),
            account: self.account.clone(),
            origin: origin(url).into(),
            timeouts: rules.timeouts,
            retry: self.retry,
            idempotency: rules.idempotency.clone(),
            status,
            success: rules.success.clone(),
            classify: rules.classify.clone(),
            error_message: self.error_message.clone(),
            min_attempt: rules.min_attempt(),
            measured: rules.measured,
            sizes: self.sizes,
            accept_duplicate: false,
            follow: false,
        }
    }

    /// Returns the file that holds all that was measured of one kind of operation, where `[measured]` names one. Whether
    /// it is there is not known.
    pub fn recording(&self, method: &Method, url: &Url) -> Option<&Path> {
        self.rules_of(method, url).recording.as_deref()
    }

    fn rules_of(&self, method: &Method, url: &Url) -> &Rules {
        let path = self.base.as_ref().map_or(url.path(), |base| base.below(url));
        self.endpoints.iter().find(|endpoint| endpoint.fits(method, path)).map_or(&self.rules, |e| &e.rules)
    }

    /// Joins a status path to `base_url`, or to the origin of `url` where there is none.
    fn make_absolute(&self, template: &mut UrlTemplate, url: &Url) {
        if matches!(template.0.first(), Some(UrlPart::Text(text)) if text.starts_with('/')) {
            let start = match &self.base {
                Some(base) => base.url.as_str().trim_end_matches('/').to_owned(),
                None => origin(url),
            };
            template.0.insert(0, UrlPart::Text(start.into()));
        }
    }
}

#[cfg(test)]
mod tests;
