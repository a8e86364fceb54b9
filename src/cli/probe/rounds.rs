//! `--count` and `--watch`: probes one after the other until they are enough, or a signal comes.

use super::super::args::ProbeArgs;
use super::super::exit::{Exit, Failure};
use super::super::signals::Signals;
use super::super::{Format, Session, limits, way};
use super::plan::Plan;
use super::{exit, forecast_of};
use crate::report::json::line;
use crate::report::probe::Probed;
use crate::report::probe::document::Document;
use crate::report::rounds::Rounds;
use abide::drive::Clock;
use abide::engine::diagnose::diagnose;
use abide::net::clock::Interrupt;
use std::future::Future;
use std::time::Duration;

/// The usual time from one begin to the next.
///
/// Source: product.md section 3.
const EVERY: Duration = Duration::from_secs(5);

/// How many probes, and how far apart.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// How many; `None`: until a signal comes.
    count: Option<u64>,
    /// From the begin of one to the begin of the next, at least.
    every: Duration,
}

impl Pace {
    /// Reads the arguments; `None` where one probe is wanted.
    ///
    /// # Errors
    /// What is no number or duration, or makes no sense with one probe.
    pub fn read(args: &ProbeArgs) -> Result<Option<Pace>, Failure> {
        let every = limits::duration("every", args.every.as_deref())?;
        let count = args.count.as_deref().map(|text| match text.parse() {
            Ok(count @ 1u64..) => Ok(count),
            _ => Err(Failure::usage(format!("--count {text}: not a number of probes, such as 5"))),
        });
        match (count.transpose()?, args.watch) {
            (None, false) if args.every.is_some() => {
                Err(Failure::usage("--every is for --watch or --count N").hint("add --watch: it ends with Ctrl-C"))
            }
            (None, false) => Ok(None),
            (count, _) => Ok(Some(Pace { count, every: every.unwrap_or(EVERY) })),
        }
    }
}

/// Probes at this pace, and returns the status of the worst of the last three; that of a signal where one came.
///
/// # Errors
/// stdout cannot be written.
pub fn run(mut plan: Plan, pace: Pace, args: &ProbeArgs, session: &Session) -> Result<Exit, Failure> {
    let interrupt = Interrupt::default();
    let mut clock = session.clock(interrupt.clone());
    let ended = interrupt.clone();
    let signals = Signals::take(session.screen.clone(), move || ended.set())?;
    let runtime = super::super::runtime()?;
    let mut rounds = Rounds::default();
    let mut left = pace.count;
    while left != Some(0) && !interrupt.is_set() {
        // Each round looks names up anew.
        plan.probe.names = way::names(&args.resolve)?;
        let now = clock.now();
        let Some(seen) = runtime.block_on(unless(&interrupt, abide::probe::probe(&plan.probe))) else { break };
        let found = diagnose(&seen);
        let text = rounds.add(now.wall, &seen, &found);
        let text = match session.format {
            Format::Text => plan.probe.mask.hide(&text),
            Format::Json => {
                let (partner, started) = (plan.partner.as_str(), now.wall);
                let send = forecast_of(&plan, &seen);
                let send = send.as_deref();
                let probed = Probed { partner, started, seen: &seen, found: &found, attempts: &[], send };
                line(&Document::new(&probed))
            }
        };
        session.print(&text)?;
        left = left.map(|left| left - 1);
        if left != Some(0) {
            runtime.block_on(clock.wait(now.steady.after(pace.every)));
        }
    }
    runtime.shutdown_background();
    session.screen.talk(&rounds.summary());
    match signals.first() {
        Some(signal) => Ok(Exit::Signal(signal)),
        None => Ok(rounds.worst().map_or(Exit::Fine, |worst| exit(worst, args))),
    }
}

/// Waits for a probe; `None` where a signal comes first. It has sent nothing that matters: it is let go.
async fn unless<T>(interrupt: &Interrupt, probe: impl Future<Output = T>) -> Option<T> {
    tokio::select! {
        seen = probe => Some(seen),
        () = interrupt.wait() => None,
    }
}
