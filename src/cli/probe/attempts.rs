//! `--max-attempts`: a probe that fails is repeated, within the one deadline.

use super::super::args::ProbeArgs;
use super::super::exit::Failure;
use super::super::{Session, way};
use super::plan::Plan;
use super::rounds::unless;
use abide::engine::diagnose::judgement::Standing;
use abide::engine::diagnose::observations::Observations;
use abide::engine::diagnose::{Diagnosis, diagnose};
use abide::engine::policy::MIN_ATTEMPT;
use abide::engine::units::show_rounded;
use abide::net::clock::Interrupt;
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;

/// No more attempts are made: who wants to see a partner over a longer time has --watch.
const MOST: u32 = 100;

/// How often a probe is made, and since when its deadline runs.
#[derive(Clone, Copy, Debug)]
pub struct Attempts {
    /// The first included.
    pub most: u32,
    /// When the command began.
    pub began: Instant,
}

/// What attempts run on, and what ends them.
#[derive(Clone, Copy, Debug)]
pub struct Running<'a> {
    /// Polls them.
    pub runtime: &'a Runtime,
    /// The wish of a signal.
    pub interrupt: &'a Interrupt,
}

/// Reads `--max-attempts`.
///
/// # Errors
/// It is no number from 1 to 100.
pub fn most(args: &ProbeArgs) -> Result<u32, Failure> {
    let Some(text) = args.max_attempts.as_deref() else { return Ok(1) };
    text.parse().ok().filter(|most| (1..=MOST).contains(most)).ok_or_else(|| {
        Failure::usage(format!("--max-attempts {text}: not a number from 1 to {MOST}"))
            .hint("--max-attempts 3 probes up to three times; --watch probes until Ctrl-C")
    })
}

/// Probes until an attempt finds the partner usable. Returns what the last one saw, and what each found, in order;
/// `None` where a signal came first.
///
/// # Errors
/// The addresses that were given cannot be read.
pub fn run(
    plan: &mut Plan,
    attempts: Attempts,
    args: &ProbeArgs,
    session: &Session,
    running: Running<'_>,
) -> Result<Option<(Observations, Vec<Diagnosis>)>, Failure> {
    let deadline = plan.probe.deadline;
    let left = || deadline.saturating_sub(attempts.began.elapsed());
    let mut found = Vec::new();
    loop {
        plan.probe.deadline = left();
        let probing = unless(running.interrupt, abide::probe::probe(&plan.probe));
        let Some(seen) = running.runtime.block_on(probing) else { return Ok(None) };
        found.push(diagnose(&seen));
        let last = found.last().expect("one was just added");
        let has_failed = matches!(last.standing, Standing::Unusable | Standing::Unknown);
        if !has_failed || found.len() >= attempts.most as usize {
            return Ok(Some((seen, found)));
        }
        let pause = pause(plan, last);
        let told = format!("attempt {} of {}: {} {}", found.len(), attempts.most, last.side_name(), last.code);
        if pause + MIN_ATTEMPT > left() {
            session.screen.talk(&format!("{told}; the deadline leaves no time for another"));
            return Ok(Some((seen, found)));
        }
        session.screen.talk(&format!("{told}; again in {}", show_rounded(pause)));
        // A timer is made where the runtime is.
        let waiting = unless(running.interrupt, async { tokio::time::sleep(pause).await });
        if running.runtime.block_on(waiting).is_none() {
            return Ok(None);
        }
        // Each attempt looks names up anew.
        plan.probe.names = way::names(&args.resolve)?;
    }
}

/// Returns how long to wait: at least as long as the partner asks, and as `send` would before its second attempt.
///
/// Source: decisions 16 and 17.
fn pause(plan: &Plan, found: &Diagnosis) -> Duration {
    found.wait.unwrap_or_default().max(plan.policy.retry.backoff.base / 2)
}
