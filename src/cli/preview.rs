//! `--curl` and `--dry-run`: what would be sent. Nothing is sent, and the ledger is not touched.

use super::args::SendArgs;
use super::exit::{Exit, Failure};
use super::ledger_place::Place;
use super::plan::Plan;
use super::{Format, Session, trust};
use crate::report::json::{Preview, line};
use crate::report::request::{Rehearsed, curl_line, dry_run};

/// Prints what was asked for.
///
/// # Errors
/// stdout cannot be written.
pub fn show(args: &SendArgs, plan: &Plan, session: &Session) -> Result<Exit, Failure> {
    let composed = &plan.composed;
    plan.warnings.iter().for_each(|warning| session.screen.warn(warning));
    let tls = trust::paths(plan.profile.as_ref(), args.tls.paths());
    let curl = curl_line(&composed.operation, &tls, composed.policy.timeouts.overall, &composed.mask);
    let ledger = match &plan.place {
        Place::File { path, .. } => Some(path.display().to_string()),
        Place::None => None,
    };
    let rehearsed = Rehearsed {
        ledger: ledger.as_deref(),
        profile: composed.opened.profile.as_deref(),
        fresh_key: plan.fresh_key,
        proxy: plan.proxy.as_deref(),
        deadline: composed.policy.timeouts.overall,
        max_attempts: composed.policy.retry.max_attempts,
        mask: &composed.mask,
    };
    let text = match (session.format, args.show.curl) {
        (Format::Json, _) => line(&Preview::of(&composed.operation, &rehearsed, &curl)),
        (Format::Text, true) => curl,
        (Format::Text, false) => dry_run(&composed.operation, &rehearsed),
    };
    session.print(&text)?;
    Ok(Exit::Fine)
}
