//! `abide probe`: whose fault it is, on one screen.

mod attempts;
mod details;
mod past;
mod plan;
mod rounds;
mod watched;

use super::args::ProbeArgs;
use super::exit::{Exit, Failure};
use super::screen::Talk;
use super::signals::Signals;
use super::{Format, Session, output};
use crate::report::json::line;
use crate::report::probe::document::Document;
use crate::report::probe::nagios::nagios;
use crate::report::probe::{Probed, screen};
use crate::report::progress;
use abide::engine::diagnose::judgement::Standing;
use abide::engine::diagnose::observations::Observations;
use abide::engine::diagnose::repeated::repeated;
use abide::engine::diagnose::sending::forecast;
use abide::net::clock::Interrupt;
use attempts::{Attempts, Running};
use plan::Plan;
use std::time::Instant;

/// Columns of the screen.
///
/// Source: latency.md 6.2.
const WIDTH: usize = 96;

/// The status of a monitoring plugin that could not tell.
///
/// Source: the guidelines of the Monitoring Plugins.
const UNKNOWN: u8 = 3;

/// Probes, and returns the status to leave with.
///
/// # Errors
/// Whatever is wrong with the arguments, the profile or the environment: nothing was sent.
pub fn run(args: &ProbeArgs, session: &Session) -> Result<Exit, Failure> {
    match probe(args, session) {
        Err(failure) if args.nagios => {
            session.print(&format!("ABIDE UNKNOWN - {:#}", failure.error).replace(['\n', '|'], " "))?;
            Ok(Exit::Plugin(UNKNOWN))
        }
        ended => ended,
    }
}

/// Returns the status that monitoring expects where the arguments were not read: help, version and mistakes tell
/// nothing about a partner.
///
/// Source: the guidelines of the Monitoring Plugins.
pub fn as_plugin(exit: Exit, argv: &[String]) -> Exit {
    if !is_plugin(argv) {
        return exit;
    }
    if exit != Exit::Fine {
        // Monitoring shows stdout only, and where that is closed nobody reads anything.
        let _ = output::print(b"ABIDE UNKNOWN - abide was not called as it should be: its stderr says more\n", false);
    }
    Exit::Plugin(UNKNOWN)
}

fn is_plugin(argv: &[String]) -> bool {
    argv.iter().any(|word| word == "probe") && argv.iter().any(|word| word == "--nagios")
}

fn probe(args: &ProbeArgs, session: &Session) -> Result<Exit, Failure> {
    let began = Instant::now();
    let mut plan = plan::make(args, session)?;
    super::panics::hide(&plan.probe.mask);
    plan.notes.iter().for_each(|note| session.screen.talk(note));
    plan.warnings.iter().for_each(|warning| session.screen.warn(warning));
    if let Some(pace) = rounds::Pace::read(args)? {
        return rounds::run(plan, pace, args, session);
    }
    let most = attempts::most(args)?;
    let interrupt = Interrupt::default();
    let ended = interrupt.clone();
    let signals = Signals::take(session.screen.clone(), move || ended.set())?;
    if session.wants_spinner() {
        session.screen.spin(progress::spinner(plan.probe.deadline));
    }
    let started = plan.probe.wall.now();
    let runtime = super::runtime()?;
    // A profile's commands and a ledger count, too.
    let running = Running { runtime: &runtime, interrupt: &interrupt };
    let ended = attempts::run(&mut plan, Attempts { most, began }, args, session, running);
    // A name lookup may still hang on a thread of its own: nothing waits for it.
    runtime.shutdown_background();
    session.screen.calm();
    let Some((seen, attempts)) = ended? else {
        return Ok(Exit::Signal(signals.first().expect("only a signal ends a probe before its time")));
    };
    let found = repeated(attempts.clone()).expect("at least one attempt is made");
    let forecast = forecast_of(&plan, &seen);
    let (partner, send) = (plan.partner.as_str(), forecast.as_deref());
    let probed = Probed { partner, started, seen: &seen, found: &found, attempts: &attempts, send };
    tell(&probed, args, &plan, session)
}

/// Returns what a write would meet, in words.
fn forecast_of(plan: &Plan, seen: &Observations) -> Option<String> {
    let request = &plan.probe.request;
    forecast(seen, &plan.policy, &request.url.shown, request.wants_json()).map(|forecast| forecast.words)
}

/// Prints what was found in the form that is wanted.
fn tell(probed: &Probed<'_>, args: &ProbeArgs, plan: &Plan, session: &Session) -> Result<Exit, Failure> {
    let mask = &plan.probe.mask;
    if args.nagios {
        let (text, status) = nagios(probed);
        session.print(&mask.hide(&text))?;
        return Ok(Exit::Plugin(status));
    }
    match session.format {
        // Nothing secret is left in it, and a secret such as `null` would take the document apart.
        Format::Json => session.print(&line(&Document::new(probed)))?,
        Format::Text => session.print(&mask.hide(&screen(probed, session.stdout_paint, WIDTH)))?,
    }
    if session.screen.talk == Talk::Verbose {
        details::of(probed.seen).iter().for_each(|detail| session.screen.say(&mask.hide(detail)));
    }
    Ok(exit(probed.found.standing, args))
}

/// Returns the status to leave with.
fn exit(standing: Standing, args: &ProbeArgs) -> Exit {
    match standing {
        Standing::Usable => Exit::Fine,
        Standing::Degraded if !args.strict => Exit::Fine,
        Standing::Degraded | Standing::Unusable | Standing::Unknown => Exit::Unmet,
    }
}
