//! Samples that were taken before: by another tool, or by the operations of a ledger.

use super::super::args::CalibrateArgs;
use super::super::exit::{Exit, Failure};
use super::super::{Session, book, ledger_place, plan, request};
use super::settings::{Asked, asked, options};
use super::write::Target;
use super::{Found, finish, target};
use crate::report::calibrate::Planned;
use abide::engine::facts::Opened;
use abide::engine::operation::Method;
use abide::engine::policy::Policy;
use abide::engine::suggest::evidence::Minutes;
use abide::engine::suggest::latencies::Latencies;
use abide::engine::suggest::recorded::recorded;
use abide::engine::suggest::season::Hours;
use abide::engine::suggest::seen::{Failures, Pacing, Seen};
use abide::engine::suggest::suggest;
use abide::measure::Tally;
use abide::measure::samples::{self, Unit};
use abide::net::chance::Chance;
use url::Url;

/// Suggests limits from the samples of a file.
///
/// # Errors
/// The file cannot be read, a line of it is no latency, or the profile is wrong.
pub fn file(name: &str, args: &CalibrateArgs, session: &Session, chance: &mut Chance) -> Result<Exit, Failure> {
    let Some(unit) = &args.source.unit else {
        return Err(Failure::usage(format!("--samples-file {name}: in which unit?")).hint("add --unit ms, s or us"));
    };
    let unit = Unit::named(unit).ok_or_else(|| {
        Failure::usage(format!("--unit {unit}: no unit of samples")).hint("the units are ms, s and us")
    })?;
    let (policy, target) = match args.target.is_empty() {
        true if args.suggesting.write => {
            let refusal = Failure::usage("--write: for which endpoint?");
            return Err(refusal.hint("name its method and path, for example: abide calibrate -p acme POST /orders"));
        }
        true => (policy_without_target(args, session)?, None),
        false => {
            let asked = asked(args, session, chance)?;
            let target = target_of(args, &asked)?;
            (asked.composed.policy, target)
        }
    };
    let given = if name == "-" { "-".to_owned() } else { format!("@{name}") };
    let bytes = request::bytes("--samples-file", &given)?;
    let read = samples::read(&bytes, unit).map_err(|why| Failure::usage(format!("{name}: {why}")))?;
    let none = || Latencies::from_samples([]).expect("nothing is not too much");
    let seen = Seen {
        read,
        connect: none(),
        whole: none(),
        failures: Failures::default(),
        missed: 0,
        minutes: Minutes::Unknown,
        hours: Hours::default(),
        lag: None,
        pacing: Pacing::Open,
    };
    let options = options(&args.suggesting, &policy)?;
    let found = Found {
        shown: name,
        when: None,
        waited: None,
        result: suggest(&seen, &options),
        seen: &seen,
        options: &options,
        stopped: None,
        filled: None,
        planned: Planned { source: "samples-file".into(), ..Planned::default() },
        target,
        signal: None,
    };
    finish(&found, args, session)
}

fn target_of(args: &CalibrateArgs, asked: &Asked) -> Result<Option<Target>, Failure> {
    let Asked { composed, profile, .. } = asked;
    target(args, profile, &composed.policy, composed.operation.request.url.sent.expose())
}

/// Returns the rules that a profile has for what no endpoint is about; without a profile the defaults.
fn policy_without_target(args: &CalibrateArgs, session: &Session) -> Result<Policy, Failure> {
    let post = Method::new("POST").expect("a method");
    let unnamed = || Url::parse("http://localhost/").expect("a URL");
    Ok(match plan::blind_profile_of(args.profile.as_deref(), session)? {
        Some(profile) => profile.policy(&post, &profile.base_url().cloned().unwrap_or_else(unnamed)),
        None => Policy::unprofiled(post, "http://localhost"),
    })
}

/// Suggests limits from the first attempts of the operations in a ledger.
///
/// # Errors
/// The ledger cannot be read, or the arguments are wrong.
pub fn ledger(args: &CalibrateArgs, session: &Session, chance: &mut Chance) -> Result<Exit, Failure> {
    let asked = asked(args, session, chance)?;
    let target = target_of(args, &asked)?;
    let Asked { composed, shown, options, .. } = asked;
    let path = ledger_place::to_read(&args.ledger, &session.context)?;
    let reader = book::read(&path, &args.ledger, session)?;
    let mut tally = Tally::default();
    for found in reader.list().map_err(|error| Failure::of_store(&error))? {
        let is_partner = found.partner == composed.operation.partner;
        if is_partner && is_about(found.history.opened(), &composed.opened) {
            recorded(&found.history).iter().for_each(|(taken, at)| tally.add(taken, *at));
        }
    }
    book::warn(&session.screen, reader.warnings());
    let seen = tally.seen(Pacing::Open).map_err(super::uncounted)?;
    let seen = Seen { lag: None, ..seen };
    let found = Found {
        shown: &format!("{shown} in {}", path.display()),
        when: super::when(&tally, session),
        waited: None,
        result: suggest(&seen, &options),
        seen: &seen,
        options: &options,
        stopped: None,
        filled: None,
        planned: Planned { source: "ledger".into(), ..Planned::default() },
        target,
        signal: None,
    };
    finish(&found, args, session)
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
