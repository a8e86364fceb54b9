//! What a replay does with one operation, decided before anything is sent.

use super::super::args::StateFilter;
use super::super::trust::{self, First};
use super::super::way::Way;
use super::super::{Session, control, panics, plan};
use super::choose::{Chosen, Member};
use super::settings::Settings;
use crate::report::known::State;
use abide::drive::sha256_hex;
use abide::engine::backoff::Jitter;
use abide::engine::deadline::Deadline;
use abide::engine::decide::{Action, Conclusion, decide};
use abide::engine::due::{Batch, Due, due};
use abide::engine::entry::{Entry, Known, Wanted, enter};
use abide::engine::facts::{Fact, Opened, Owner, Recorded, Reopened, StoredBody, Why};
use abide::engine::moment::{Now, Timestamp};
use abide::engine::operation::{Operation, PartnerName, TlsPaths};
use abide::engine::policy::{Control, Policy};
use abide::engine::proxy::Proxies;
use abide::engine::units::show_rounded;
use abide::engine::verdict::{Cause, Verdict};
use abide::engine::view::View;
use abide::net::Tls;
use abide::profile::Profile;
use abide::profile::compose::{ComposeError, Stored, restore};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// What is done with an operation.
#[derive(Debug)]
pub enum Task {
    /// It is run.
    Run(Box<Job>),
    /// Nothing is sent, for this reason.
    Leave(String),
    /// It cannot be built: the profile, a secret or its body is missing. Nothing is sent.
    Refuse(String),
}

/// By what an operation is run.
#[derive(Clone, Debug)]
pub struct Job {
    /// The rules.
    pub policy: Policy,
    /// The profile.
    pub profile: Option<Rc<Profile>>,
    /// Which proxies are passed by.
    pub proxies: Proxies,
    /// Whom to trust, and what to show.
    pub tls: Tls,
    /// What is done first and why, in words.
    pub first: String,
    /// What is sent, but for its body.
    operation: Operation,
    data: Option<Arc<[u8]>>,
}

impl Job {
    /// Returns the operation with the body that the ledger has; `None` where that is only a hash.
    pub fn operation(&self, body: Option<Arc<[u8]>>) -> Operation {
        let mut operation = self.operation.clone();
        Arc::make_mut(&mut operation.request).body = body.or_else(|| self.data.clone()).unwrap_or_default();
        operation
    }

    /// Returns until when the key is trusted if it reaches the partner for the first time now.
    pub fn key_until(&self, now: Timestamp) -> Option<Timestamp> {
        let idempotency = &self.policy.idempotency;
        idempotency.supported.then(|| now.after(idempotency.trusted_for()))
    }
}

/// What says whom to trust and what to show: a profile, and the files that flags named.
type TlsSources = (Option<PathBuf>, Option<Box<TlsPaths>>);

/// How a partner is reached.
#[derive(Clone, Debug)]
struct Road {
    way: Way,
    tls: Tls,
}

/// Plans the operations of one replay.
#[derive(Debug)]
pub struct Planner<'a> {
    settings: &'a Settings<'a>,
    chosen: &'a Chosen,
    session: &'a Session,
    now: Now,
    roads: HashMap<TlsSources, Result<Road, String>>,
    profiles: HashMap<Box<str>, Result<Rc<Profile>, String>>,
    controls: HashMap<PartnerName, Option<Control>>,
}

impl<'a> Planner<'a> {
    /// Returns a planner of what is to be done at `now`.
    pub fn new(settings: &'a Settings<'a>, chosen: &'a Chosen, session: &'a Session, now: Now) -> Planner<'a> {
        let (roads, profiles, controls) = (HashMap::new(), HashMap::new(), HashMap::new());
        Planner { settings, chosen, session, now, roads, profiles, controls }
    }

    /// Returns what is done with an operation.
    pub fn task(&mut self, member: &Member) -> Task {
        if let State::Running(owner) = &member.state {
            return Task::Leave(works_on_it(owner));
        }
        let is_tried_again = StateFilter::Rejected.fits(&member.state) && self.settings.rejected_too();
        match member.state.verdict() {
            Some(Verdict::Rejected) if !is_tried_again => {
                return Task::Leave("it was refused for good: --only rejected tries it again".into());
            }
            Some(Verdict::Confirmed) => return Task::Leave("it is done".into()),
            _ => {}
        }
        let mut job = match self.job(member) {
            Ok(job) => job,
            Err(why) => return Task::Refuse(why),
        };
        if let Some(why) = self.obstacle(member, &job.policy) {
            return Task::Leave(why);
        }
        match self.first(member, &job) {
            Ok(first) => job.first = first,
            Err(why) => return Task::Leave(why),
        }
        Task::Run(Box::new(job))
    }

    fn job(&mut self, member: &Member) -> Result<Job, String> {
        let opened = member.found.history.opened();
        let profile = self.profile(opened)?;
        let data = self.data(&opened.body)?;
        let stored = Stored { key: &member.found.key, opened, body: Arc::new([]) };
        let restored = restore(profile.as_deref(), &stored, None);
        let (profile, (operation, policy)) = match (restored, profile) {
            (Ok(restored), profile) => (profile, restored),
            (Err(ComposeError::OtherOrigin { .. }), Some(profile)) if self.settings.args.risk.force_profile => {
                let profile = Rc::new(Profile::clone(&profile).without_base_url());
                let restored = restore(Some(&profile), &stored, None).map_err(|error| error.to_string())?;
                (Some(profile), restored)
            }
            (Err(error @ ComposeError::OtherOrigin { .. }), Some(profile)) => {
                return Err(format!("{}: {error}; --force-profile ignores its base_url", profile.path.display()));
            }
            (Err(error), _) => return Err(error.to_string()),
        };
        let Road { way, tls } = self.road(opened, profile.as_deref())?;
        way.to(operation.request.url.sent.expose()).map_err(|failure| failure.error.to_string())?;
        let policy = self.in_batch(policy, member);
        Ok(Job { policy, profile, proxies: way.proxies, tls, first: String::new(), operation, data })
    }

    /// Returns the proxies, and whom to trust and what to show: the files named at the first send, or those of a profile
    /// named now.
    fn road(&mut self, opened: &Opened, profile: Option<&Profile>) -> Result<Road, String> {
        let first = if self.settings.profile.is_some() { First::Profile } else { First::Flags };
        let read = || {
            let way = Way::read(self.settings.args.proxy.as_deref(), profile);
            let way = way.map_err(|failure| failure.error.to_string())?;
            let tls = trust::of(profile, opened.tls.as_deref(), first, self.session);
            tls.map_err(|failure| format!("{}; put it right, or name a profile with [tls] by -p", failure.error))
                .map(|tls| Road { way, tls })
        };
        let named = (profile.map(|profile| profile.absolute.clone()), opened.tls.clone());
        self.roads.entry(named).or_insert_with(read).clone()
    }

    /// Returns the rules as they hold in this replay.
    fn in_batch(&mut self, policy: Policy, member: &Member) -> Policy {
        let mut policy = policy;
        if let Some(deadline) = self.settings.deadline {
            policy.timeouts.overall = deadline;
        }
        policy.accept_duplicate = self.settings.args.risk.accept_duplicate;
        if self.chosen.members.len() > 1 {
            // Source: decisions 17: many that failed together must not come back together.
            policy.retry.backoff.jitter = Jitter::Full;
        }
        if control::is_missing(&policy) {
            let partner = &member.found.partner;
            let (reader, path) = (&self.chosen.reader, &self.settings.path);
            let find = || control::find(reader, path, partner, &member.found.key);
            let control = self.controls.entry(partner.clone()).or_insert_with(find).clone();
            control::set(&mut policy, control);
        }
        policy
    }

    /// Returns the profile that counts for an operation.
    fn profile(&mut self, opened: &Opened) -> Result<Option<Rc<Profile>>, String> {
        if let Some(profile) = &self.settings.profile {
            return Ok(Some(profile.clone()));
        }
        let Some(path) = &opened.profile else { return Ok(None) };
        let load = || {
            let profile = plan::load_file(Path::new(&**path)).map(Rc::new);
            let profile = profile.inspect(|profile| panics::hide_profile(profile));
            profile.map_err(|failure| format!("the profile that it was sent with: {}", failure.error))
        };
        match self.profiles.entry(path.clone()).or_insert_with(load) {
            Ok(profile) => Ok(Some(profile.clone())),
            Err(_) if self.settings.args.risk.force_profile => Ok(None),
            Err(why) => Err(format!("{why}; -p names another one, --force-profile goes on without")),
        }
    }

    /// Returns the body that was given, where the ledger has only its hash.
    fn data(&self, body: &StoredBody) -> Result<Option<Arc<[u8]>>, String> {
        let StoredBody::Hash { sha, len } = body else { return Ok(None) };
        let Some(data) = &self.settings.data else {
            return Err(format!(
                "the ledger has only a hash of its body ({len} bytes, SHA-256 {sha}): give it with -d"
            ));
        };
        let given = sha256_hex(data);
        match *given == **sha {
            true => Ok(Some(data.clone())),
            false => Err(format!("the body given with -d is another one: SHA-256 {given}, recorded {sha}")),
        }
    }

    /// Returns why an operation is not taken up now.
    fn obstacle(&self, member: &Member, policy: &Policy) -> Option<String> {
        let batch = Batch {
            policy,
            now: self.now,
            patience: self.patience(policy),
            older: self.settings.args.older,
            later_write: self.chosen.has_later_write(member),
        };
        match due(&member.found.history, &batch) {
            Due::Now => None,
            Due::NotBefore(at) => Some(format!("not due before {}", self.session.local.both(at, self.now.wall))),
            Due::Not(obstacle) => Some(obstacle.words().into()),
        }
    }

    fn patience(&self, policy: &Policy) -> Duration {
        let overall = policy.timeouts.overall;
        self.settings.total.map_or(overall, |total| overall.min(total))
    }

    /// Returns what a run would do first, or why it would end before it did anything.
    fn first(&self, member: &Member, job: &Job) -> Result<String, String> {
        let (policy, now) = (&job.policy, self.now);
        let Some(history) = reopened(member, job, now, self.settings.rejected_too()) else {
            return Ok("records what is known".into());
        };
        let deadline = Deadline(now.steady.after(self.patience(policy)));
        let view = View::new(&history, policy, now);
        Ok(match decide(&history, policy, deadline, now, 0.0) {
            Action::AskStatus { .. } => "asks the partner what happened".into(),
            Action::Wait { until, why } => {
                format!("waits {} ({}), then goes on", show_rounded(until.since(now.steady)), why.words())
            }
            Action::Attempt { .. } if view.doubt.is_none() => "sends it: certainly not executed so far".into(),
            Action::Attempt { .. } if policy.accept_duplicate => {
                "sends it again, although it may have been executed: --accept-duplicate".into()
            }
            Action::Attempt { .. } if view.protects(policy, now) => {
                "sends it again under its key, which the partner honours".into()
            }
            Action::Attempt { .. } => format!("sends it again: a second {} has the effect of one", policy.method),
            // A run whose owner died has no last word yet.
            Action::Settle(end) if end.verdict.is_final() || matches!(member.state, State::Abandoned(_)) => {
                "records what is known".into()
            }
            Action::Settle(end) => return Err(ends_at_once(end)),
        })
    }
}

/// Returns the facts as they would be after a claim; `None` where the claim would find that all is decided.
fn reopened(member: &Member, job: &Job, now: Now, rejected_too: bool) -> Option<abide::engine::facts::History> {
    let found = &member.found;
    let mut history = found.history.clone();
    let opened = history.opened().clone();
    let known = Known { history: &found.history, standing: found.standing };
    let wanted = Wanted { fingerprint: &opened.fp, key_until: job.key_until(now.wall), rejected_too };
    let Entry::Reopen { predecessor, key_until } = enter(Some(known), wanted) else { return None };
    let reopened = Reopened {
        partner: opened.partner.clone(),
        deadline: now.wall.after(job.policy.timeouts.overall),
        why: Why::Replay,
        predecessor,
        key_until,
        owner: Owner::default(),
    };
    let n = history.newest_claim() + 1;
    history.facts.push(Recorded {
        n,
        at: now.wall,
        steady: Some(now.steady),
        fact: Fact::Reopened(Arc::new(reopened)),
    });
    Some(history)
}

fn ends_at_once(end: Conclusion) -> String {
    match end.cause {
        Cause::NothingHelps | Cause::Answer => {
            "another attempt might do it twice, and there is no status endpoint to ask".into()
        }
        Cause::Expired => "it is no longer valid (--valid-for)".into(),
        Cause::RetryAfterTooLong => "the partner asks for a longer wait than max_retry_after".into(),
        _ => "the deadline is too near for another attempt".into(),
    }
}

/// Returns the words about an operation that another process has.
pub fn works_on_it(owner: &Owner) -> String {
    format!("process {} on {} is working on it", owner.pid, owner.host)
}
