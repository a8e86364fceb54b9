//! The arguments of a calibration, read once.

use super::super::args::{CalibrateArgs, SamplingArgs, SuggestingArgs};
use super::super::exit::Failure;
use super::super::plan::profile_of;
use super::super::request::KEY_PLACE;
use super::super::trust::{self, First};
use super::super::way::{self, Way};
use super::super::{Session, panics, request};
use super::executed::{self, Recipe};
use abide::engine::operation::{Header, PartnerName, Request};
use abide::engine::policy::{KeyPlace, Policy};
use abide::engine::proxy::Proxies;
use abide::engine::secret::Secret;
use abide::engine::suggest::distribution::MOST_SAMPLES;
use abide::engine::suggest::seen::Options;
use abide::engine::suggest::share::{Headroom, NotAShare, Share};
use abide::engine::units::{parse_duration, parse_rate};
use abide::measure::sampler::{Pace, Plan, Subject};
use abide::net::Tls;
use abide::net::chance::Chance;
use abide::profile::Profile;
use abide::profile::compose::{Composed, Warning};
use std::fmt::Display;
use std::time::Duration;

/// How many requests are made where nothing else is said: one more than the fewest that bound a p99.
///
/// Source: product.md section 6; latency.md 3.2.
const SAMPLES: u64 = 300;
/// How many a second.
///
/// Source: product.md section 6.
const INTERVAL: Duration = Duration::from_secs(1);
/// How long an answer is waited for.
///
/// Source: latency.md 3.2.
const TIMEOUT: Duration = Duration::from_secs(60);

/// What was asked for.
#[derive(Debug)]
pub struct Settings {
    /// What is asked.
    pub subject: Subject,
    /// What makes each sample an operation that the partner executes; `None`: safe requests.
    pub recipe: Option<Recipe>,
    /// The partner's rules.
    pub profile: Option<Profile>,
    /// What is asked, for people, secrets masked.
    pub shown: String,
    /// Whom it is asked of.
    pub partner: PartnerName,
    /// How samples are taken.
    pub plan: Plan,
    /// The time that they are spread over; `None`: they are taken in one go.
    pub over: Option<Duration>,
    /// What is suggested.
    pub options: Options,
    /// Whom to trust on https, and what to show.
    pub tls: Tls,
    /// Which proxies are passed by.
    pub proxies: Proxies,
    /// What to warn of.
    pub warnings: Vec<String>,
}

/// What is measured, by which rules.
#[derive(Debug)]
pub struct Asked {
    /// The request that a send would make.
    pub composed: Composed,
    /// What made it.
    pub recipe: Recipe,
    /// The request for people, secrets masked.
    pub shown: String,
    /// What is suggested.
    pub options: Options,
    /// What to warn of.
    pub warnings: Vec<String>,
}

/// Reads what is measured.
///
/// # Errors
/// Whatever is wrong with the arguments or the profile; nothing was sent.
pub fn asked(args: &CalibrateArgs, session: &Session, chance: &mut Chance) -> Result<Asked, Failure> {
    let profile = profile_of(args.profile.as_deref(), session)?;
    let mut wanted = request::read("calibrate", &args.target, &args.asked)?;
    let warnings = std::mem::take(&mut wanted.warnings);
    let now = session.now().wall;
    let is_executed = args.sampling.allow_unsafe_method && !wanted.is_safe();
    let (recipe, key) = (Recipe { profile, wanted, now }, chance.key(now));
    let composed = if is_executed { recipe.keyed(&key) } else { recipe.composed(&key) }?;
    panics::hide(&composed.mask);
    let policy = &composed.policy;
    let url = request::keyless(&composed.operation.request.url.shown, policy).replace(key.as_str(), KEY_PLACE);
    let shown = format!("{} {url}", policy.method);
    let options = options(&args.suggesting, policy)?;
    Ok(Asked { composed, recipe, shown, options, warnings })
}

/// Reads the arguments of a run that takes samples.
///
/// # Errors
/// Whatever is wrong with them or with the profile; nothing was sent.
pub fn read(args: &CalibrateArgs, session: &Session, chance: &mut Chance) -> Result<Settings, Failure> {
    let plan = sampling(&args.sampling, session, chance)?;
    if args.way.location {
        return Err(Failure::usage("-L: samples follow no redirect").hint("give the address that it leads to"));
    }
    let Asked { mut composed, recipe, shown, options, mut warnings } = asked(args, session, chance)?;
    let (request, policy) = (&composed.operation.request, composed.policy);
    match (policy.method.is_safe(), args.sampling.allow_unsafe_method) {
        (true, _) if !request.body.is_empty() => {
            return Err(
                Failure::usage(format!("samples of {} have no body", policy.method)).hint("leave -d and --json out")
            );
        }
        (true, _) => {}
        (false, false) => return Err(executed::refused(&policy.method, &plan)),
        (false, true) => executed::check(request, &recipe.wanted, &policy, args.sampling.over.is_some())?,
    }
    let untyped = composed.warnings.iter().filter(|warning| **warning == Warning::NoContentType);
    warnings.extend(untyped.map(ToString::to_string));
    let profile = recipe.profile.clone();
    let tls = trust::of(profile.as_ref(), args.tls.paths().as_ref(), First::Flags, session)?;
    let way = Way::read(args.way.proxy.as_deref(), profile.as_ref())?;
    way.to(request.url.sent.expose())?;
    way.proxies.hide(&mut composed.mask);
    panics::hide_proxies(&way.proxies);
    way::names(&args.way.resolve)?;
    let key = composed.operation.key.as_str();
    let recipe = Some(recipe).filter(|_| !policy.method.is_safe());
    let subject = Subject {
        // Whatever the key: as --from-ledger and [[endpoint]] write what is one segment of a path.
        url: Secret::new(&request::keyless(request.url.sent.expose(), &policy).replace(key, "*")),
        headers: unkeyed(request, &policy, key).into(),
        json: if policy.method.is_safe() { accepts_json(request) } else { request.wants_json() },
        mask: composed.mask,
        policy,
    };
    let warnings = [warnings, way.warnings].concat();
    let (partner, over) = (composed.operation.partner, duration("over", &args.sampling.over)?);
    let proxies = way.proxies;
    Ok(Settings { subject, recipe, profile, shown, partner, plan, over, options, tls, proxies, warnings })
}

/// Reads what is to be suggested, with what is in force.
///
/// # Errors
/// What is no percentile or share, with an example.
pub fn options(args: &SuggestingArgs, policy: &Policy) -> Result<Options, Failure> {
    let (percentile, headroom) = suggesting(args)?;
    Ok(Options { percentile, headroom, overall: None, timeouts: policy.timeouts, retry: policy.retry })
}

/// Returns the header fields without the key, and without `[announce] operation`: a repeated one may be answered from
/// the partner's store, and samples are no operation. What identifies them is the User-Agent.
///
/// Source: latency.md 3.12.
fn unkeyed(request: &Request, policy: &Policy, key: &str) -> Vec<Header> {
    let is_key = |header: &Header| match &policy.idempotency.place {
        KeyPlace::Header(Some(name)) if header.name.eq_ignore_ascii_case(name) => true,
        _ => header.value.sent.expose() == key,
    };
    request.headers.iter().filter(|header| !is_key(header)).cloned().collect()
}

fn accepts_json(request: &Request) -> bool {
    let accepts = |header: &Header| header.name.eq_ignore_ascii_case("accept");
    request.headers.iter().filter(|header| accepts(header)).any(|header| header.value.shown.contains("json"))
}

fn sampling(args: &SamplingArgs, session: &Session, chance: &mut Chance) -> Result<Plan, Failure> {
    let (duration, over) = (duration("duration", &args.duration)?, duration("over", &args.over)?);
    let samples = match given("samples", &args.samples, |text| text.parse::<u64>().map_err(|_| "not a number"))? {
        None => duration.is_none().then_some(SAMPLES),
        Some(samples @ 1..=MOST_SAMPLES) => Some(samples),
        Some(samples) => {
            return Err(Failure::usage(format!("--samples {samples}: from 1 to {MOST_SAMPLES}, such as 300")));
        }
    };
    let rate = given("rate", &args.rate, parse_rate)?.map(|rate| Duration::from_secs_f64(1.0 / rate));
    let spread = over.zip(samples).map(|(over, samples)| over.div_f64(samples as f64));
    let pace = match args.closed {
        true => Pace::Closed { jobs: args.jobs.unwrap_or(1), interval: rate },
        false => Pace::Open { interval: rate.or(spread).unwrap_or(INTERVAL) },
    };
    if spread.is_some_and(|interval| interval < Duration::from_millis(1)) {
        return Err(Failure::usage("--over: these are more than a thousand requests a second"));
    }
    let timeout = self::duration("timeout", &args.timeout)?.unwrap_or(TIMEOUT);
    let seed = args.seed.or(session.context.seed).unwrap_or_else(|| {
        // Short enough to be typed again.
        (abide::drive::Entropy::draw(chance) * f64::from(u32::MAX)) as u64
    });
    Ok(Plan { pace, samples, duration, timeout, seed })
}

fn suggesting(args: &SuggestingArgs) -> Result<(Share, Option<Headroom>), Failure> {
    let percentile = match (&args.percentile, &args.false_timeouts) {
        (Some(text), _) => Share::parse_percentile(text).map_err(|why| percentile_refused(text, &why))?,
        (None, Some(text)) => {
            given("false-timeouts", &Some(text.clone()), Share::parse_percent)?.map_or(Share::P99, Share::complement)
        }
        (None, None) => Share::P99,
    };
    Ok((percentile, given("headroom", &args.headroom, Headroom::parse)?))
}

fn percentile_refused(text: &str, why: &NotAShare) -> Failure {
    match why {
        NotAShare::Below { meant, .. } if &**meant != "0" => {
            Failure::usage(format!("--percentile {text}: percentiles are counted from 1 to 100"))
                .hint(format!("did you mean {meant}?"))
        }
        why => Failure::usage(format!("--percentile: {why}")),
    }
}

fn duration(flag: &str, text: &Option<String>) -> Result<Option<Duration>, Failure> {
    given(flag, text, parse_duration)
}

fn given<T, E: Display>(
    flag: &str,
    text: &Option<String>,
    read: impl Fn(&str) -> Result<T, E>,
) -> Result<Option<T>, Failure> {
    let Some(text) = text else { return Ok(None) };
    read(text).map(Some).map_err(|why| Failure::usage(format!("--{flag} {text}: {why}")))
}
