//! Ours first: arguments, profile, secrets, and the proxy that is in effect. Rules 1 and 2.

use super::code::Code;
use super::judgement::Judgement;
use super::observations::{Observations, Proxy, ProxySource, Trouble};
use super::past::Before;
use crate::engine::exchange::{Exchange, Fault, Outcome, Stage, Via};
use crate::engine::gateway::shown;
use crate::engine::units::show_rounded;
use crate::engine::verdict::Side;

/// Rule 1: there is no request to send, or this machine could not send it.
pub(super) fn judge(seen: &Observations) -> Option<Judgement> {
    let Some(trouble) = seen.setup.trouble.as_ref() else { return of_machine(seen) };
    let (code, words) = match trouble {
        Trouble::Usage(words) => (Code::SetupUsage, words.to_string()),
        Trouble::Profile(words) => (Code::SetupProfile, words.to_string()),
        Trouble::Secret(name) => (Code::SetupSecret, format!("{name} is missing or empty")),
    };
    Some(Judgement::new(code, Side::Configuration).fact(words).fact("nothing was sent"))
}

fn of_machine(seen: &Observations) -> Option<Judgement> {
    let (stage, fault) = seen.failure()?;
    let words = seen.exchange.as_ref().and_then(|exchange| exchange.error.as_deref()).map(shown);
    let at_stage = format!("it failed on this machine: {}", stage.words());
    Some(match fault {
        Fault::Unbuildable => Judgement::new(Code::SetupUsage, Side::Configuration).fact(at_stage).fact_if(words),
        Fault::LocalResources => Judgement::new(Code::LocalResources, Side::Ours).fact(at_stage).fact_if(words),
        Fault::Suspended => Judgement::unclear(Code::LocalSuspended).note("the clocks of this machine say so"),
        _ => return None,
    })
}

/// Rule 2: a proxy is in effect, and it fails.
///
/// One that worked before is a failure of ours; one that never did, or of which nothing is known, is a wrong setting.
pub(super) fn judge_proxy(seen: &Observations) -> Option<Judgement> {
    let proxy = seen.proxy.as_ref();
    let of_proxy = proxy.and_then(|proxy| proxy.outcome).and_then(Result::err);
    let code = match of_proxy {
        Some(fault) => at_proxy(fault),
        None => through_proxy(seen.exchange.as_ref()?)?,
    };
    let (side, facts) = match (code, proxy.and_then(|proxy| proxy.before)) {
        (Code::ProxyBeyond, _) => (Side::Theirs, None),
        // Source: latency.md 6.5 rule 11: who has no right at our proxy has to look on our side.
        (Code::ProxyCredentials, _) => (Side::Ours, None),
        (_, Some(Before::Worked { ago })) => (Side::Ours, Some(format!("it worked {} ago", show_rounded(ago)))),
        (_, Some(Before::Never)) => (Side::Configuration, Some("it never worked from here".to_owned())),
        (_, None) => (Side::Configuration, None),
    };
    let judgement = Judgement::new(code, side).fact("the connection fails at the proxy, before the partner");
    let judgement = match proxy {
        Some(proxy) => judgement.fact(in_effect(proxy)).next(remedy(proxy)),
        None => judgement,
    };
    Some(judgement.fact_if(facts))
}

/// Returns a proxy in words: `the proxy p.example:3128 is in effect: the variable HTTPS_PROXY names it`.
pub(super) fn in_effect(proxy: &Proxy) -> String {
    let by = match &proxy.source {
        ProxySource::Flag => "--proxy names it".into(),
        ProxySource::Profile => "[proxy] of the profile names it".into(),
        ProxySource::Variable(name) => format!("the variable {name} names it"),
    };
    format!("the proxy {} is in effect: {by}", proxy.name)
}

fn remedy(proxy: &Proxy) -> String {
    match &proxy.source {
        ProxySource::Flag => "correct --proxy, or leave it out".into(),
        ProxySource::Profile => "correct url of [proxy] in the profile".into(),
        ProxySource::Variable(name) => {
            format!("correct {name}, unset it, or set from_env = false in [proxy] of the profile")
        }
    }
}

/// Returns what an exchange comes to that a proxy ended, a time-out on the way through it included; `None` where it
/// ended otherwise.
pub(super) fn through_proxy(exchange: &Exchange) -> Option<Code> {
    let Outcome::Unanswered { fault, stage, .. } = exchange.outcome else { return None };
    let timed_out = matches!(fault, Fault::TimedOut(_)) && stage == Stage::Connect && exchange.via != Via::Direct;
    named(fault).or(timed_out.then_some(Code::ProxyUnreachable))
}

/// Returns what a fault comes to that was met on the way to the proxy.
fn at_proxy(fault: Fault) -> Code {
    match fault {
        Fault::NameUnknown => Code::ProxyNameUnknown,
        fault => named(fault).unwrap_or(Code::ProxyUnreachable),
    }
}

/// Returns what a fault comes to that only a proxy can cause.
fn named(fault: Fault) -> Option<Code> {
    Some(match fault {
        Fault::ProxyNameUnknown => Code::ProxyNameUnknown,
        Fault::ProxyUnreachable => Code::ProxyUnreachable,
        Fault::Proxy => Code::ProxyFailed,
        Fault::ProxyCredentials => Code::ProxyCredentials,
        Fault::ProxyForbids => Code::ProxyForbids,
        Fault::BeyondProxy => Code::ProxyBeyond,
        _ => return None,
    })
}
