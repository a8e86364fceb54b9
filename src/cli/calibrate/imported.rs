//! Samples that were taken before: by another tool, or by the operations of a ledger.

use super::super::args::CalibrateArgs;
use super::super::exit::{Exit, Failure};
use super::super::{Session, book, ledger_place, plan, request};
use super::compare::{Before, Endpoint};
use super::keep::Keeper;
use super::settings::{Asked, asked, options};
use super::write::Target;
use super::{Found, between, finish, target};
use abide::engine::facts::Opened;
use abide::engine::operation::Method;
use abide::engine::policy::Policy;
use abide::engine::suggest::recorded::recorded;
use abide::engine::suggest::seen::{Pacing, Seen};
use abide::measure::samples::{self, BadSamples, Unit};
use abide::measure::{Tally, curl, hlog, recording};
use abide::net::chance::Chance;
use abide::profile::Profile;
use std::fmt::Display;
use url::Url;

/// What a file holds, by what stands before its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// A latency a line.
    Lines,
    /// What `curl -w '%{json}'` writes.
    Curl,
    /// An interval log of HdrHistogram.
    Hlog,
}

impl Form {
    /// Returns what a file holds, and its name.
    fn of(given: &str) -> (Form, &str) {
        match given.split_once(':') {
            Some(("curl", name)) => (Form::Curl, name),
            Some(("hlog", name)) => (Form::Hlog, name),
            _ => (Form::Lines, given),
        }
    }

    fn source(self) -> &'static str {
        match self {
            Form::Lines => "samples-file",
            Form::Curl => "curl",
            Form::Hlog => "hlog",
        }
    }
}

/// What a file holds.
pub(super) struct Read {
    /// What suggestions are made from.
    pub(super) seen: Seen,
    /// When the samples were taken, in local time.
    pub(super) when: Option<String>,
    source: &'static str,
}

/// Suggests limits from the samples of a file.
///
/// # Errors
/// The file cannot be read, a line of it is no latency, or the profile is wrong.
pub fn file(given: &str, args: &CalibrateArgs, session: &Session, chance: &mut Chance) -> Result<Exit, Failure> {
    let (policy, target, before) = match args.target.is_empty() {
        true if args.suggesting.write => {
            let refusal = Failure::usage("--write: for which endpoint?");
            return Err(refusal.hint("name its method and path, for example: abide calibrate -p acme POST /orders"));
        }
        true => {
            let (policy, profile, url) = policy_without_target(args, session)?;
            let endpoint = Endpoint { profile: profile.as_ref(), policy: &policy, url: url.as_str() };
            let before = Before::read(args, &endpoint, session)?;
            (policy, None, before)
        }
        false => {
            let asked = asked(args, session, chance)?;
            let target = target_of(args, &asked)?;
            let before = Before::read(args, &endpoint_of(&asked), session)?;
            (asked.composed.policy, target, before)
        }
    };
    let Read { seen, when, source } = read("--samples-file", given, args.source.unit.as_deref(), session)?;
    let options = options(&args.suggesting, &policy)?;
    let found = Found { when, target, before, ..Found::of(given, source, &seen, &options) };
    finish(&found, args, session)
}

/// Returns whether a file is named with what it holds.
pub(super) fn has_form(given: &str) -> bool {
    Form::of(given).0 != Form::Lines
}

/// Reads the samples of a file that `flag` names, in the unit that is named.
///
/// # Errors
/// It cannot be read, or holds no samples.
pub(super) fn read(flag: &str, given: &str, unit: Option<&str>, session: &Session) -> Result<Read, Failure> {
    let (form, name) = Form::of(given);
    let refuse = |why: &dyn Display| Failure::usage(format!("{flag} {given}: {why}"));
    let source = form.source();
    if form == Form::Lines && unit.is_none() {
        let hint = if name.ends_with(".hlog") {
            format!("is it {flag} hlog:{name}?")
        } else {
            "add --unit ms, s or us".into()
        };
        return Err(refuse(&"in which unit?").hint(hint));
    }
    let bytes = || request::named_bytes(&format!("{flag} {given}"), name);
    let bad = |why: BadSamples| refuse(&why);
    match form {
        Form::Lines => {
            let unit = unit_named(unit, &["ms", "s", "us"], Unit::named)?.expect("it was looked for above");
            let bytes = bytes()?;
            let read = samples::read(&bytes, unit).map_err(|why| match other_form(&bytes) {
                None => bad(why),
                Some(form) => bad(why).hint(format!("is it {flag} {form}:{name}?")),
            })?;
            Ok(Read { seen: Seen::of_reading(read), when: None, source })
        }
        Form::Curl => {
            if unit.is_some() {
                return Err(Failure::usage("--unit: curl writes seconds").hint("leave it out"));
            }
            Ok(Read { seen: curl::read(&bytes()?).map_err(bad)?, when: None, source })
        }
        Form::Hlog => {
            let unit = unit_named(unit, &["ns", "us", "ms"], hlog::Unit::named)?;
            let recording = recording::read(&bytes()?, unit).map_err(|why| match why {
                BadSamples::NoUnit => bad(why).hint("add --unit ns, us or ms: what wrote the file says which"),
                BadSamples::OtherUnit => bad(why).hint("leave --unit out"),
                why => bad(why),
            })?;
            if let Some((count, (line, why))) = recording.bad {
                let lines = if count == 1 { "1 line is".into() } else { format!("{count} lines are") };
                session.screen.warn(&format!("{given}: {lines} left out; line {line}: {why}"));
            }
            let when = recording.when.map(|(first, last)| between(first, last, session));
            Ok(Read { seen: recording.seen, when, source })
        }
    }
}

/// Returns the unit of that name.
fn unit_named<T>(given: Option<&str>, known: &[&str], named: impl Fn(&str) -> Option<T>) -> Result<Option<T>, Failure> {
    let Some(name) = given else { return Ok(None) };
    let [first @ .., last] = known else { return Ok(None) };
    let units = format!("the units are {} and {last}", first.join(", "));
    named(name).map(Some).ok_or_else(|| Failure::usage(format!("--unit {name}: no unit of samples")).hint(units))
}

/// Returns what a file seems to hold instead of a latency a line.
fn other_form(bytes: &[u8]) -> Option<&'static str> {
    let text = bytes.trim_ascii_start();
    if text.starts_with(b"{") {
        return Some("curl");
    }
    text.starts_with(b"#[").then_some("hlog")
}

fn endpoint_of(asked: &Asked) -> Endpoint<'_> {
    let Asked { composed, recipe, .. } = asked;
    let url = composed.operation.request.url.sent.expose();
    Endpoint { profile: recipe.profile.as_ref(), policy: &composed.policy, url }
}

fn target_of(args: &CalibrateArgs, asked: &Asked) -> Result<Option<Target>, Failure> {
    let Asked { composed, recipe, .. } = asked;
    target(args, &recipe.profile, &composed.policy, composed.operation.request.url.sent.expose())
}

/// Returns the rules that a profile has for what no endpoint is about; without a profile the defaults.
fn policy_without_target(args: &CalibrateArgs, session: &Session) -> Result<(Policy, Option<Profile>, Url), Failure> {
    let post = Method::new("POST").expect("a method");
    let unnamed = || Url::parse("http://localhost/").expect("a URL");
    let profile = plan::blind_profile_of(args.profile.as_deref(), session)?;
    let url = profile.as_ref().and_then(Profile::base_url).cloned().unwrap_or_else(unnamed);
    let policy = match &profile {
        Some(profile) => profile.policy(&post, &url),
        None => Policy::unprofiled(post, "http://localhost"),
    };
    Ok((policy, profile, url))
}

/// Suggests limits from the first attempts of the operations in a ledger.
///
/// # Errors
/// The ledger cannot be read, or the arguments are wrong.
pub fn ledger(args: &CalibrateArgs, session: &Session, chance: &mut Chance) -> Result<Exit, Failure> {
    let asked = asked(args, session, chance)?;
    let target = target_of(args, &asked)?;
    let before = Before::read(args, &endpoint_of(&asked), session)?;
    let Asked { composed, shown, options, .. } = asked;
    let path = ledger_place::to_read(&args.ledger, &session.context)?;
    let reader = book::read(&path, &args.ledger, session)?;
    let mut keeper = args.keeping.hlog.as_deref().map(|path| Keeper::create(path, session)).transpose()?;
    let mut tally = Tally::default();
    for found in reader.list().map_err(|error| Failure::of_store(&error))? {
        let is_partner = found.partner == composed.operation.partner;
        let is_wanted = is_partner && is_about(found.history.opened(), &composed.opened);
        if let Some((taken, at)) = recorded(&found.history).filter(|_| is_wanted) {
            tally.add(&taken, at);
            keeper.iter_mut().for_each(|keeper| keeper.add(&tally, &taken, at));
        }
    }
    book::warn(&session.screen, reader.warnings());
    let kept = keeper.map_or(Ok(()), |keeper| keeper.finish(&tally, session));
    let seen = tally.seen(Pacing::Open).map_err(super::uncounted)?;
    let seen = Seen { lag: None, ..seen };
    let shown = format!("{shown} in {}", path.display());
    let when = super::when(&tally, session);
    let recording = kept.as_ref().ok().and(args.keeping.hlog.as_deref());
    let found = Found { when, target, before, recording, ..Found::of(&shown, "ledger", &seen, &options) };
    let exit = finish(&found, args, session)?;
    kept.map(|()| exit)
}

/// Returns whether a recorded operation is one of the wanted: the same method and path, whatever its query. A `*` in the
/// wanted path stands for one segment.
fn is_about(opened: &Opened, wanted: &Opened) -> bool {
    let path = |opened: &Opened| opened.url.split(['?', '#']).next().unwrap_or_default().to_owned();
    let (given, wanted_path) = (path(opened), path(wanted));
    let (mut given, mut wanted_path) = (given.split('/'), wanted_path.split('/'));
    let same_path = loop {
        match (wanted_path.next(), given.next()) {
            (None, None) => break true,
            (Some("*"), Some(segment)) if !segment.is_empty() => {}
            (Some(one), Some(other)) if one == other => {}
            _ => break false,
        }
    };
    opened.method == wanted.method && same_path
}
