//! Everything that is decided before anything runs: arguments to a plan.

use super::args::{SendArgs, absolute};
use super::context::setting;
use super::exit::Failure;
use super::ledger_place::{self, Place};
use super::limits;
use super::request;
use super::trust::{self, First};
use super::way::{self, Way};
use super::world::{Blind, ProcessWorld};
use super::{Session, control};
use abide::drive::EntryRule;
use abide::engine::facts::{Opened, Owner, Why};
use abide::engine::moment::Timestamp;
use abide::engine::operation::{IdempotencyKey, Operation};
use abide::engine::policy::Policy;
use abide::engine::proxy::Proxies;
use abide::engine::secret::Secret;
use abide::net::{Names, Tls};
use abide::profile::compose::{
    ComposeError, Composed, DeadlineFlag, Draft, HeaderFlag, KeySource, Stored, compose, restore,
};
use abide::profile::{self, Profile};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What a send will do.
#[derive(Debug)]
pub struct Plan {
    /// What is sent, and by which rules.
    pub composed: Composed,
    /// The partner's rules.
    pub profile: Option<Profile>,
    /// Where it is recorded.
    pub place: Place,
    /// What to do with what is there already.
    pub entry: EntryRule,
    /// Whom to trust on https, and what to show.
    pub tls: Tls,
    /// The key was made here.
    pub fresh_key: bool,
    /// Which proxies are passed by.
    pub proxies: Proxies,
    /// The one that the operation passes by, in words.
    pub proxy: Option<String>,
    /// The names that are known.
    pub names: Names,
    /// What to warn of.
    pub warnings: Vec<String>,
}

/// Reads the arguments of a send at `now`; `fresh` is the key for one that names none.
///
/// # Errors
/// Whatever is wrong with them, the profile or the environment. Nothing was sent or recorded.
pub fn make(
    args: &SendArgs,
    session: &Session,
    now: Timestamp,
    fresh: &IdempotencyKey,
    owner: Owner,
) -> Result<Plan, Failure> {
    let profile = profile_of(args.profile.as_deref(), session)?;
    let wanted = request::read("send", &args.target, &args.payload)?;
    let asked = limits::read(&args.limits, now)?;
    let (key, fresh_key) = match (&args.identity.key, &args.identity.key_from) {
        (Some(key), _) => (KeySource::Given(key.clone()), false),
        (None, Some(pointer)) => (KeySource::Pointer(pointer.clone()), false),
        (None, None) => (KeySource::Made(fresh.as_str().to_owned()), true),
    };
    let headers = wanted.headers.iter().map(|(name, value)| HeaderFlag::parse(&format!("{name}: {value}")));
    let draft = Draft {
        method: wanted.method,
        target: wanted.target,
        headers: headers.collect::<Result<_, _>>().map_err(uncomposed)?,
        user: wanted.user.as_deref().map(Secret::new),
        body: wanted.body,
        json: args.payload.json.is_some(),
        key,
        key_header: args.identity.key_header.clone(),
        account: None,
        deadline: asked.deadline.map(DeadlineFlag::Within),
        valid_until: asked.valid_for.map(|valid_for| now.after(valid_for)),
        max_attempts: asked.max_attempts,
        timeouts: asked.stages,
        now,
        why: Why::Send,
        owner,
    };
    let mut composed = compose(profile.as_ref(), &draft).map_err(uncomposed)?;
    if args.way.location {
        composed.policy.follow = way::may_follow(&composed.policy.method)?;
    }
    let named = args.tls.paths();
    let tls = trust::of(profile.as_ref(), named.as_ref(), First::Flags, session)?;
    let recorded = named.as_ref().map(|paths| Box::new(absolute(paths, &session.context.cwd)));
    Arc::make_mut(&mut composed.opened).tls = recorded;
    let way = Way::read(args.way.proxy.as_deref(), profile.as_ref())?;
    let proxy = way.to(composed.operation.request.url.sent.expose())?.map(way::words);
    way.proxies.hide(&mut composed.mask);
    let names = way::names(&args.way.resolve)?;
    let place = ledger_place::to_send(&args.ledger, &composed.operation.request.method, &session.context)?;
    let mut warnings = wanted.warnings;
    warnings.extend(composed.warnings.iter().map(ToString::to_string));
    warnings.extend(way.warnings);
    if named.is_some() && !is_secure(&composed.operation) {
        warnings.push("the URL is http: --cacert, --cert and --cert-key count for https only".into());
    }
    let entry = match (fresh_key, args.identity.accept_duplicate) {
        (false, _) => EntryRule::Keyed,
        (true, true) => EntryRule::Duplicate,
        (true, false) => EntryRule::Keyless,
    };
    Ok(Plan { composed, profile, place, entry, tls, fresh_key, proxies: way.proxies, proxy, names, warnings })
}

/// Returns whether an operation goes over TLS.
pub fn is_secure(operation: &Operation) -> bool {
    operation.request.url.shown.starts_with("https:")
}

/// Returns the operation that the ledger holds and the rules for it, the limits of this plan in force.
///
/// # Errors
/// A secret that the ledger does not hold is not given here, or the profile is for another origin.
pub fn restored(
    plan: &Plan,
    key: &IdempotencyKey,
    opened: &Opened,
    body: Arc<[u8]>,
) -> Result<(Operation, Policy), Failure> {
    let composed = &plan.composed;
    let stored = Stored { key, opened, body };
    let (operation, policy) = restore(plan.profile.as_ref(), &stored, Some(&composed.operation)).map_err(uncomposed)?;
    let Policy { timeouts, retry, follow, .. } = composed.policy;
    let mut policy = Policy { timeouts, retry, follow, ..policy };
    if control::is_missing(&policy) {
        control::set(&mut policy, composed.policy.status.as_ref().and_then(|status| status.control.clone()));
    }
    Ok((operation, policy))
}

/// Returns why an operation cannot be built, with what to do next.
pub fn uncomposed(error: ComposeError) -> Failure {
    let failure = Failure::usage(&error);
    match error.hint() {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
}

/// Finds and reads the profile that a flag or `ABIDE_PROFILE` names.
///
/// # Errors
/// There is none of that name, or it is wrong.
pub fn profile_of(flag: Option<&str>, session: &Session) -> Result<Option<Profile>, Failure> {
    let Some(given) = setting("profile", flag)? else { return Ok(None) };
    load(&given.text, session).map(Some)
}

/// Finds and reads that profile without its secrets.
///
/// # Errors
/// There is none of that name, or it is wrong.
pub fn blind_profile_of(flag: Option<&str>, session: &Session) -> Result<Option<Profile>, Failure> {
    let Some(given) = setting("profile", flag)? else { return Ok(None) };
    load_blind(&find(&given.text, session)?).map(Some)
}

/// Finds and reads a profile.
///
/// # Errors
/// There is none of that name, or it is wrong.
pub fn load(name: &str, session: &Session) -> Result<Profile, Failure> {
    load_file(&find(name, session)?)
}

fn find(name: &str, session: &Session) -> Result<PathBuf, Failure> {
    profile::find(name, &session.context.cwd, session.context.config_home().as_deref()).map_err(refused)
}

/// Reads a profile.
///
/// # Errors
/// It is wrong.
pub fn load_file(path: &Path) -> Result<Profile, Failure> {
    profile::load(path, &ProcessWorld).map_err(refused)
}

/// Reads a profile without its secrets: nothing is to be sent with it.
///
/// # Errors
/// It is wrong.
pub fn load_blind(path: &Path) -> Result<Profile, Failure> {
    profile::load(path, &Blind { profile: path }).map_err(refused)
}

fn refused(error: profile::ProfileError) -> Failure {
    let hint = error.hint();
    let failure = Failure::usage(&error);
    match hint {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
}
