//! Samples that the partner executes, with `--allow-unsafe-method`: what is said of them before they are sent, and how each
//! comes by a key of its own.

use super::super::exit::Failure;
use super::super::plan::uncomposed;
use super::super::request::{self, Wanted};
use super::settings::Settings;
use abide::engine::moment::Timestamp;
use abide::engine::operation::{IdempotencyKey, Method, Operation, Request};
use abide::engine::policy::{KeyPlace, Policy};
use abide::measure::sampler::Plan;
use abide::profile::Profile;
use abide::profile::compose::{ComposeError, Composed, compose};

/// What makes the request of a sample, under any key.
#[derive(Clone, Debug)]
pub struct Recipe {
    /// The partner's rules.
    pub profile: Option<Profile>,
    /// What is asked.
    pub wanted: Wanted,
    /// When the run begins.
    pub now: Timestamp,
}

impl Recipe {
    /// Returns the request that a send under `key` would make.
    ///
    /// # Errors
    /// Whatever is wrong with it, whatever the key; nothing was sent.
    pub fn composed(&self, key: &IdempotencyKey) -> Result<Composed, Failure> {
        self.built(self.wanted.clone(), key)
    }

    /// Returns it with `key` wherever `{key}` stands.
    ///
    /// # Errors
    /// As [`Recipe::composed`].
    pub fn keyed(&self, key: &IdempotencyKey) -> Result<Composed, Failure> {
        self.built(self.wanted.keyed(key), key)
    }

    fn built(&self, wanted: Wanted, key: &IdempotencyKey) -> Result<Composed, Failure> {
        let draft = request::measuring(wanted, key, self.now)?;
        compose(self.profile.as_ref(), &draft).map_err(|error| {
            let carries_key = matches!(error, ComposeError::KeyHeader { .. } | ComposeError::KeyInUrl { .. });
            let failure = uncomposed(error);
            if carries_key {
                failure.hint("leave it out: a key is made for each sample that needs one")
            } else {
                failure
            }
        })
    }

    /// Returns the operation of a sample.
    ///
    /// # Panics
    /// Where [`Recipe::keyed`] fails.
    pub fn operation(&self, key: &IdempotencyKey) -> Operation {
        self.keyed(key).expect("it was made under another key").operation
    }
}

/// Returns why nothing is sent whose method is not safe, where nobody has allowed it.
pub fn refused(method: &Method, plan: &Plan) -> Failure {
    let times = plan.samples.map(|samples| format!(" {samples} times")).unwrap_or_default();
    let refusal = format!("{method} may be executed: calibrate sends GET, HEAD, OPTIONS and TRACE only");
    Failure::usage(refusal).hint(format!(
        "--from-ledger measures what `abide send` has sent already; --allow-unsafe-method really executes it{times}, \
         which is for a sandbox account"
    ))
}

/// Looks whether operations can be told apart and accounted for.
///
/// # Errors
/// They cannot; nothing was sent.
pub fn check(request: &Request, wanted: &Wanted, policy: &Policy, is_long: bool) -> Result<(), Failure> {
    if is_long {
        let refusal = format!(
            "--over: a run of {} that goes on after a crash would not know what was executed before",
            request.method
        );
        return Err(Failure::usage(refusal).hint(
            "--from-ledger measures what is sent anyway; --rate 12/h --duration 24h spreads requests in one go",
        ));
    }
    let has_place = wanted.body.as_deref().is_some_and(request::has_key_place);
    if policy.idempotency.place == KeyPlace::Body && !has_place {
        let refusal = "the profile says that the key is part of the body, and each sample needs one of its own";
        return Err(Failure::usage(refusal).hint("write {key} where it stands: --json '{\"id\":\"{key}\"}'"));
    }
    Ok(())
}

/// Returns what is to be known before the first of them is sent; `None` where the partner executes nothing.
pub fn warning(settings: &Settings) -> Option<String> {
    settings.recipe.as_ref()?;
    let Settings { plan, subject, .. } = settings;
    let method = &subject.policy.method;
    let (these, them) = match plan.most() {
        Some(most) if plan.duration.is_some() => {
            (format!("each of these {method} requests, up to {most} of them"), "them")
        }
        Some(1) => (format!("this {method} request"), "it"),
        Some(samples) => (format!("each of these {samples} {method} requests"), "them"),
        None => (format!("each of these {method} requests"), "them"),
    };
    let key = match &subject.policy.idempotency.place {
        KeyPlace::Header(Some(name)) => format!("under a new key in the header {name}"),
        KeyPlace::Header(None) => "without a key, which the profile does not send".into(),
        KeyPlace::Query(name) => format!("under a new key in the query parameter {name}"),
        KeyPlace::Body => "under a new key in the body".into(),
    };
    Some(format!("the partner executes {these}, {key}, and no ledger records {them}: use a sandbox account"))
}

/// Returns what helps where the partner takes the same twice for once; `None` where the samples differ by their keys.
pub fn advice(settings: &Settings) -> Option<&'static str> {
    let recipe = settings.recipe.as_ref()?;
    let words = "all of them say the same: write {key} where the partner wants something new each time, as in \
                 --json '{\"ref\":\"{key}\"}'";
    (settings.plan.samples != Some(1) && !recipe.wanted.has_key_place()).then_some(words)
}
