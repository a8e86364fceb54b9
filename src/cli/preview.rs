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
    let way = curl_way(args, plan);
    let curl = curl_line(&composed.operation, &way, composed.policy.timeouts.overall, &composed.mask);
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

/// Returns what tells curl the same way. It follows `NO_PROXY` even where a flag names the proxy.
fn curl_way(args: &SendArgs, plan: &Plan) -> Vec<String> {
    let proxy = plan.proxies.of(plan.composed.operation.request.url.sent.expose()).ok().flatten();
    let mut words = match (proxy, args.way.proxy.as_deref()) {
        (Some(named), _) => vec!["--noproxy".to_owned(), String::new(), "-x".into(), named.proxy.to_string()],
        (None, Some(_)) => vec!["--noproxy".to_owned(), "*".into()],
        (None, None) => Vec::new(),
    };
    words.extend(args.way.resolve.iter().flat_map(|given| ["--resolve".to_owned(), given.clone()]));
    words.extend(args.way.location.then(|| "-L".to_owned()));
    let tls = trust::paths(plan.profile.as_ref(), args.tls.paths());
    for (flag, path) in [("--cacert", tls.ca), ("--cert", tls.cert), ("--key", tls.key)] {
        words.extend(path.iter().flat_map(|path| [flag.to_owned(), path.to_string()]));
    }
    words
}
