//! `abide calibrate`: from samples to limits with their evidence.

mod compare;
mod desk;
mod executed;
mod imported;
mod keep;
mod over;
mod report;
mod settings;
mod whole;
mod write;

use super::args::CalibrateArgs;
use super::exit::{Exit, Failure};
use super::signals::Signals;
use super::{Format, Session, way};
use crate::report::calibrate::{Calibrated, Planned, document, executions, page, text};
use crate::report::json::line;
use crate::report::table;
use abide::engine::moment::Timestamp;
use abide::engine::policy::Policy;
use abide::engine::suggest::closed::BackFilled;
use abide::engine::suggest::executions::Executions;
use abide::engine::suggest::latencies::NotLatencies;
use abide::engine::suggest::refusal::{Refusal, refusals};
use abide::engine::suggest::rounding::show_three_digits;
use abide::engine::suggest::seen::{Options, Pacing, Seen};
use abide::engine::suggest::{Suggestion, suggest};
use abide::engine::units::{show_duration, show_rounded};
use abide::measure::Tally;
use abide::measure::sampler::{Ended, Pace};
use abide::net::chance::Chance;
use abide::net::clock::Interrupt;
use abide::profile::Profile;
use compare::{Before, Endpoint};
use desk::{Desk, Progress};
use keep::Keeper;
use nix::sys::signal::Signal;
use over::Long;
use settings::Settings;
use std::path::Path;
use std::time::Duration;
use write::Target;

/// Measures, or reads what was measured, and prints what that asks for.
///
/// # Errors
/// The arguments are wrong, or nothing could be started.
pub fn run(args: &CalibrateArgs, session: &Session) -> Result<Exit, Failure> {
    if let Some(path) = &args.suggesting.report {
        report::check(path)?;
    }
    let mut chance = session.context.seed.map_or_else(Chance::from_os, Chance::fixed);
    match &args.source.samples_file {
        Some(name) => imported::file(name, args, session, &mut chance),
        None if args.source.from_ledger => imported::ledger(args, session, &mut chance),
        None => measure(args, session, &mut chance),
    }
}

fn measure(args: &CalibrateArgs, session: &Session, chance: &mut Chance) -> Result<Exit, Failure> {
    let mut settings = settings::read(args, session, chance)?;
    if settings.subject.url.expose().starts_with("https:") {
        settings.tls.load_ahead();
    }
    let target = target(args, &settings.profile, &settings.subject.policy, settings.subject.url.expose())?;
    let (profile, policy) = (settings.profile.as_ref(), &settings.subject.policy);
    let before = Before::read(args, &Endpoint { profile, policy, url: settings.subject.url.expose() }, session)?;
    settings.warnings.iter().for_each(|warning| session.screen.warn(warning));
    let hlog = args.keeping.hlog.as_deref();
    let long = settings.over.is_some().then(|| Long::begin(&settings, session)).transpose()?;
    let mut keeper = match &long {
        Some(long) => Some(long.keeper(hlog)?),
        None => hlog.map(|path| Keeper::create(path, session)).transpose()?,
    };
    let interrupt = Interrupt::default();
    let bell = interrupt.clone();
    let signals = Signals::take(session.screen.clone(), move || bell.set())?;
    let wanted = settings.plan.samples;
    if let Some(long) = &long {
        session.screen.talk(&long.words(wanted));
        settings.plan.samples = wanted.map(|samples| samples.saturating_sub(long.done));
    }
    announce(&settings, session, keeper.is_some());
    let desk = Desk {
        settings: &settings,
        resolve: &args.way.resolve,
        session,
        chance,
        signals: signals.clone(),
        keeper: keeper.as_mut(),
        progress: Progress::start(),
    };
    let (mut tally, ended) = desk.run(&interrupt)?;
    let kept = keeper.map_or(Ok(()), |keeper| match &long {
        Some(long) => keeper.flush(&tally).and_then(|()| long.end(&mut tally, wanted, hlog, session)),
        None => keeper.finish(&tally, session),
    });
    let (plan, is_executed) = (&settings.plan, settings.recipe.is_some());
    let seen = tally.seen(plan.pacing()).map_err(uncounted)?;
    let found = Found {
        when: when(&tally, session),
        waited: Some(plan.timeout),
        result: judged(&seen, ended, &settings),
        executions: is_executed.then_some(tally.executions),
        stopped: stopped(ended, is_executed),
        filled: match plan.pace {
            Pace::Closed { jobs, interval: Some(interval) } => BackFilled::new(&seen.read, interval * u32::from(jobs)),
            Pace::Closed { interval: None, .. } | Pace::Open { .. } => None,
        },
        planned: Planned { samples: wanted, ..planned(&settings) },
        target,
        before,
        recording: kept.as_ref().ok().and(hlog),
        signal: signals.first(),
        ..Found::of(&settings.shown, "live", &seen, &settings.options)
    };
    let exit = finish(&found, args, session)?;
    kept.map(|()| exit)
}

/// What was found, wherever it came from.
struct Found<'a> {
    /// What was measured, secrets masked.
    shown: &'a str,
    when: Option<String>,
    waited: Option<Duration>,
    result: Result<Suggestion, Vec<Refusal>>,
    seen: &'a Seen,
    /// What became of samples that the partner executes.
    executions: Option<Executions>,
    options: &'a Options,
    stopped: Option<String>,
    filled: Option<BackFilled>,
    planned: Planned,
    /// The profile that is to be written to.
    target: Option<Target>,
    /// What it is compared with.
    before: Option<Before>,
    /// The file that all of it was written to.
    recording: Option<&'a Path>,
    /// What ended the run.
    signal: Option<Signal>,
}

impl<'a> Found<'a> {
    /// Returns what was seen, taken from `source`, with what it asks for.
    fn of(shown: &'a str, source: &str, seen: &'a Seen, options: &'a Options) -> Found<'a> {
        Found {
            shown,
            when: None,
            waited: None,
            result: suggest(seen, options),
            seen,
            executions: None,
            options,
            stopped: None,
            filled: None,
            planned: Planned { source: source.into(), ..Planned::default() },
            target: None,
            before: None,
            recording: None,
            signal: None,
        }
    }
}

/// Prints what was found, and returns the status to leave with.
fn finish(found: &Found<'_>, args: &CalibrateArgs, session: &Session) -> Result<Exit, Failure> {
    let is_thin = found.result.as_ref().is_ok_and(|found| !found.weaknesses.is_empty());
    let compared = found.before.as_ref().map(|before| before.compared(found.seen, found.options));
    let is_slower = compared.as_ref().is_some_and(|compared| !compared.is_fine());
    let suggesting = &args.suggesting;
    let refuses_thin = suggesting.strict || (suggesting.write && !suggesting.accept_thin);
    let exit = match (found.signal, &found.result) {
        (Some(signal), _) => Exit::Signal(signal),
        (None, Err(_)) => Exit::Unmet,
        (None, Ok(_)) if is_slower || (is_thin && refuses_thin) => Exit::Unmet,
        (None, Ok(_)) => Exit::Fine,
    };
    let shown = Calibrated {
        subject: found.shown,
        when: found.when.as_deref(),
        waited: found.waited,
        seen: found.seen,
        executions: found.executions.as_ref(),
        percentile: found.options.percentile,
        result: found.result.as_ref().map_err(Vec::as_slice),
        stopped: found.stopped.as_deref(),
        filled: found.filled.as_ref(),
        compared: compared.as_ref(),
    };
    let print = |exit: Exit| {
        let printed = session.is_read(&match session.format {
            Format::Json => line(&document(&shown, &found.planned, exit.code())),
            Format::Text => text(&shown, table::terminal_width(), session.stdout_paint),
        });
        // No ledger has it: the account must not go with a reader that does.
        let unread = found.executions.as_ref().filter(|_| !matches!(printed, Ok(true)));
        unread.into_iter().for_each(|executions| session.screen.say(&executions::words(executions)));
        printed.map(drop)
    };
    if let Some(path) = &suggesting.report {
        let made = format!("Made {} by abide {}", session.now().wall, env!("CARGO_PKG_VERSION"));
        if let Err(failure) = report::save(path, &page(&shown, &found.planned, &made)) {
            print(failure.exit)?;
            return Err(failure);
        }
        session.screen.talk(&format!("{}: written", path.display()));
    }
    if let (Some(target), Ok(suggestion), Exit::Fine) = (&found.target, &found.result, exit) {
        let written = target.write(found, suggestion, session);
        print(written.as_ref().map_or_else(|failure| failure.exit, |()| exit))?;
        return written.map(|()| exit);
    }
    print(exit)?;
    match (&found.target, &found.result) {
        (None, _) => {}
        (Some(_), Ok(_)) if exit == Exit::Unmet && !suggesting.accept_thin => {
            session
                .screen
                .say("the profile was not written: the evidence is thin; --accept-thin writes it all the same");
        }
        (Some(_), _) => session.screen.say("the profile was not written"),
    }
    Ok(exit)
}

/// Returns the profile that is to be written to; `None` where none is.
///
/// # Errors
/// `--write`, and there is none, or it may not be written to. Nothing was sent.
fn target(
    args: &CalibrateArgs,
    profile: &Option<Profile>,
    policy: &Policy,
    url: &str,
) -> Result<Option<Target>, Failure> {
    args.suggesting.write.then(|| Target::read(profile.as_ref(), policy, url)).transpose()
}

/// Returns when samples were taken, in local time; `None` where there is none.
fn when(tally: &Tally, session: &Session) -> Option<String> {
    let (first, last) = tally.first.zip(tally.last)?;
    Some(between(first, last, session))
}

/// Returns a time in local time: `10:00:00 to 10:05:00`.
fn between(first: Timestamp, last: Timestamp, session: &Session) -> String {
    let now = session.now().wall;
    format!("{} to {}", session.local.local(first, now), session.local.local(last, now))
}

/// Says what is about to be sent, before a byte leaves.
fn announce(settings: &Settings, session: &Session, is_kept: bool) {
    let (screen, announced) = (&session.screen, announcement(settings, session, is_kept));
    let Some(warning) = executed::warning(settings) else { return screen.talk(&announced) };
    // With -q, too: it is the last moment to stop it.
    screen.say(&announced);
    screen.say(&format!("{} {warning}", screen.paint.yellow("warning:")));
    executed::advice(settings).into_iter().for_each(|advice| screen.talk(advice));
}

fn announcement(settings: &Settings, session: &Session, is_kept: bool) -> String {
    let Settings { shown, plan, .. } = settings;
    let now = session.now().wall;
    let count = match plan.most() {
        // As many as there is time for.
        Some(1) if plan.duration.is_some() => "up to 1 request".into(),
        Some(most) if plan.duration.is_some() => format!("up to {most} requests"),
        Some(1) => "1 request".into(),
        Some(samples) => format!("{samples} requests"),
        None => "requests".into(),
    };
    let pace = match plan.pace {
        Pace::Open { interval } => format!("one each {}", show_three_digits(interval)),
        Pace::Closed { jobs, interval } => {
            let each = interval.map(|interval| format!(", at most one each {}", show_three_digits(interval)));
            format!("{jobs} at a time{}", each.unwrap_or_default())
        }
    };
    let end = plan.expected().map(|expected| match plan.pacing() == Pacing::Open || plan.duration == Some(expected) {
        true => format!(", until {} ({})", session.local.local(now.after(expected), now), show_rounded(expected)),
        false => format!(", for {} or longer", show_rounded(expected)),
    });
    let under_way = match plan.pacing() {
        Pacing::Open => format!("; at most {} under way", plan.in_flight_max()),
        Pacing::Closed => String::new(),
    };
    let named = settings.proxies.of(settings.subject.url.expose()).ok().flatten();
    let by = named.map(|named| format!(" by {}", way::words(named))).unwrap_or_default();
    format!(
        "{shown}{by}: {count}, {pace}{}{under_way}; each is given up after {}; seed {}{}",
        end.unwrap_or_default(),
        show_duration(plan.timeout),
        plan.seed,
        if is_kept { "" } else { "; nothing is recorded" }
    )
}

/// Returns what is suggested, or why nothing is.
fn judged(seen: &Seen, ended: Ended, settings: &Settings) -> Result<Suggestion, Vec<Refusal>> {
    if let Ended::FailedInARow(failures) = ended {
        // That they failed is said, and that so few were answered follows from it.
        let others = refusals(seen, settings.options.percentile).into_iter();
        let others = others.filter(|other| !matches!(other, Refusal::Failing(_) | Refusal::FewEvents { .. }));
        return Err(std::iter::once(Refusal::BrokenOff { failures }).chain(others).collect());
    }
    suggest(seen, &settings.options)
}

fn uncounted(error: NotLatencies) -> Failure {
    Failure::local(error).while_doing("the samples cannot be counted")
}

/// Returns why a run ended before its time; `None` where it did not.
fn stopped(ended: Ended, is_executed: bool) -> Option<String> {
    match ended {
        Ended::Done => None,
        Ended::Interrupted if is_executed => Some("interrupted; what was under way was waited for".into()),
        Ended::Interrupted => {
            Some("interrupted; what was under way was called off and counts with the time it had waited".into())
        }
        Ended::FailedInARow(failures) => Some(format!("{failures} requests failed, one after the other")),
        Ended::FailedAtFirst(failures) => Some(format!("{failures} of the first requests failed")),
        Ended::LeftAlone(wait) => Some(format!("the partner asked for no more requests for {}", show_rounded(wait))),
        Ended::SlowedDown(times) => Some(format!("the partner asked {times} times for fewer requests")),
    }
}

fn planned(settings: &Settings) -> Planned {
    let Settings { plan, subject, recipe, .. } = settings;
    let ms = |duration: Duration| duration.as_secs_f64() * 1e3;
    Planned {
        source: "live".into(),
        pacing: Some(if plan.pacing() == Pacing::Open { "open" } else { "closed" }),
        samples: plan.samples,
        executed: recipe.as_ref().map(|_| subject.policy.method.as_str().into()),
        rate_per_s: plan.interval().map(|interval| 1.0 / interval.as_secs_f64()),
        duration_ms: plan.duration.map(ms),
        timeout_ms: Some(ms(plan.timeout)),
        in_flight_max: Some(plan.in_flight_max()),
        seed: Some(plan.seed),
    }
}
