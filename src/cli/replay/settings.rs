//! The arguments of a replay, read once.

use super::super::args::{LedgerChoice, ReplayArgs, StateFilter};
use super::super::exit::Failure;
use super::super::way::Way;
use super::super::{Format, Session, ledger_place, limits, output, panics, plan, request};
use abide::engine::moment::Timestamp;
use abide::engine::operation::IdempotencyKey;
use abide::engine::units::parse_rate;
use abide::profile::Profile;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// What `--only` means where it is not given.
const USUAL: &[StateFilter] = &[StateFilter::NotDone, StateFilter::InDoubt, StateFilter::Accepted];

/// What was asked for.
#[derive(Debug)]
pub struct Settings<'a> {
    /// The arguments themselves.
    pub args: &'a ReplayArgs,
    /// The ledger.
    pub path: PathBuf,
    /// The states that are taken; `None` where that was not said.
    pub only: Option<Vec<StateFilter>>,
    /// The keys that were named; all where empty.
    pub keys: Vec<IdempotencyKey>,
    /// The profile of `-p`.
    pub profile: Option<Rc<Profile>>,
    /// Operations begun per second.
    pub rate: Option<f64>,
    /// The time of one operation.
    pub deadline: Option<Duration>,
    /// The time of everything.
    pub total: Option<Duration>,
    /// The body for operations of which the ledger keeps only a hash.
    pub data: Option<Arc<[u8]>>,
}

impl<'a> Settings<'a> {
    /// Reads the arguments at `now`.
    ///
    /// # Errors
    /// Whatever is wrong with them or with the profile of `-p`; nothing was sent.
    pub fn read(args: &'a ReplayArgs, session: &Session, now: Timestamp) -> Result<Settings<'a>, Failure> {
        let path = ledger_place::to_read(&args.ledger, &session.context)?;
        let only = args.only.iter().map(|word| state(word)).collect::<Result<Vec<_>, _>>()?;
        let keys = args.keys.iter().map(|key| IdempotencyKey::new(key, 255).map_err(Failure::usage));
        let keys = keys.collect::<Result<Vec<_>, _>>()?;
        let rate = match &args.pace.rate {
            None => None,
            Some(text) => Some(parse_rate(text).map_err(|why| Failure::usage(format!("--rate {text}: {why}")))?),
        };
        if let Some(path) = &args.show.report_junit {
            output::check("--report-junit", path)?;
        }
        if args.show.dry_run && args.show.report_junit.is_some() {
            return Err(Failure::usage("--dry-run does nothing that a JUnit report could tell of"));
        }
        if args.show.events.as_deref() == Some("-") && session.format == Format::Json {
            return Err(Failure::usage("--events - and --format json both want stdout").hint("write --events FILE"));
        }
        // A flag that names no proxy is said once, and not of every operation.
        panics::hide_proxies(&Way::read(args.proxy.as_deref(), None)?.proxies);
        let profile = plan::profile_of(args.profile.as_deref(), session)?.map(Rc::new);
        profile.iter().for_each(|profile| panics::hide_profile(profile));
        Ok(Settings {
            args,
            path,
            only: (!only.is_empty()).then_some(only),
            keys,
            profile,
            rate,
            deadline: limits::deadline("deadline", args.pace.deadline.as_deref(), now)?,
            total: limits::deadline("total-deadline", args.pace.total_deadline.as_deref(), now)?,
            data: args.data.as_deref().map(|given| request::bytes("-d", given)).transpose()?.map(Into::into),
        })
    }

    /// Returns the states that are taken.
    pub fn states(&self) -> &[StateFilter] {
        self.only.as_deref().unwrap_or(USUAL)
    }

    /// Returns whether what was refused for good is tried again.
    pub fn rejected_too(&self) -> bool {
        self.states().contains(&StateFilter::Rejected)
    }

    /// Returns whether nothing narrows the selection on the default ledger, and nobody said that all are meant.
    ///
    /// # Errors
    /// A variable is not UTF-8.
    pub fn is_sweeping(&self) -> Result<bool, Failure> {
        let args = self.args;
        let narrowed = !self.keys.is_empty() || args.profile.is_some() || self.only.is_some() || args.all;
        Ok(!narrowed && self.shown_path()?.is_none())
    }

    /// Returns the ledger where a command line must name it.
    ///
    /// # Errors
    /// A variable is not UTF-8.
    pub fn shown_path(&self) -> Result<Option<&std::path::Path>, Failure> {
        ledger_place::if_not_default(self.choice(), &self.path)
    }

    /// Returns which ledger was chosen.
    pub fn choice(&self) -> &LedgerChoice {
        &self.args.ledger
    }
}

fn state(word: &str) -> Result<StateFilter, Failure> {
    match word {
        "not-done" | "not_done" => Ok(StateFilter::NotDone),
        "in-doubt" | "in_doubt" => Ok(StateFilter::InDoubt),
        "accepted" => Ok(StateFilter::Accepted),
        "rejected" => Ok(StateFilter::Rejected),
        "pending" => Ok(StateFilter::Pending),
        "confirmed" => Err(Failure::usage("--only confirmed: what is done is never sent again")),
        _ => Err(Failure::usage(format!("--only {word}: no state that can be replayed")).hint(
            "the states are not-done, in-doubt, accepted, rejected, pending; several with commas: --only not-done,in-doubt",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_are_named_as_the_verdicts_and_failed_is_answered_with_them() {
        assert!(matches!(state("not-done"), Ok(StateFilter::NotDone)));
        assert!(matches!(state("in_doubt"), Ok(StateFilter::InDoubt)));
        for word in ["failed", "", "running", "all"] {
            let failure = state(word).expect_err("is refused");
            assert!(failure.hint.expect("a hint").contains("not-done, in-doubt, accepted, rejected, pending"));
        }
        assert!(state("confirmed").is_err());
    }
}
