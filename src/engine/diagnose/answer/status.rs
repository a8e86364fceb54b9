//! What the status and the header fields of an answer say.

use super::edge::{self, Edge};
use crate::engine::classify::is_html;
use crate::engine::diagnose::code::Code;
use crate::engine::diagnose::dial::egress;
use crate::engine::diagnose::judgement::Judgement;
use crate::engine::diagnose::observations::Observations;
use crate::engine::exchange::{Answer, Via};
use crate::engine::gateway::shown;
use crate::engine::location;
use crate::engine::retry_after::{self, RetryAfter};
use crate::engine::units::show_rounded;
use crate::engine::verdict::Side;
use std::time::Duration;

/// Rule 11: an answer that says that something is wrong.
pub(in crate::engine::diagnose) fn judge(seen: &Observations) -> Option<Judgement> {
    let answer = seen.answer()?;
    let via = seen.exchange.as_ref().map_or(Via::Direct, |exchange| exchange.via);
    let judgement = match edge::read(answer) {
        Some(edge) if answer.status != 407 => by_edge(edge, via),
        _ => by_status(seen, answer, via)?,
    };
    Some(with_wait(judgement, seen, answer))
}

fn by_edge(edge: Edge, via: Via) -> Judgement {
    let judgement = Judgement::new(edge.code, Side::Theirs).fact(edge.words);
    let judgement =
        if edge.is_reported { judgement.fact("only an intermediary writes such a field") } else { judgement };
    match via {
        // A proxy that forwards requests reports in the same field as an edge of the partner.
        Via::Forward => judgement.doubted("our own proxy forwards the request, and may have made the answer"),
        Via::Direct | Via::Tunnel => judgement,
    }
}

fn by_status(seen: &Observations, answer: &Answer, via: Via) -> Option<Judgement> {
    let status = answer.status;
    let theirs = |code| Judgement::new(code, Side::Theirs).fact(format!("the answer is {status}"));
    let configuration = |code| Judgement::new(code, Side::Configuration).fact(format!("the answer is {status}"));
    Some(match status {
        // Whatever follows is no answer in HTTP.
        ..=199 => theirs(Code::Switched).fact("a change of protocols that nobody asked for"),
        200..=299 => return html(seen, answer),
        300..=399 => redirect(seen, answer),
        401 => unauthorized(seen, configuration(Code::Unauthorized)),
        403 => forbidden(seen, answer),
        407 => Judgement::new(Code::ProxyCredentials, Side::Ours)
            .fact("the answer is 407, which proxies give")
            .fact_if(seen.proxy.as_ref().map(|proxy| format!("the proxy {} is in effect", proxy.name))),
        408 => Judgement::new(Code::RequestTimeout, Side::Unclear).fact("the answer is 408"),
        429 => theirs(Code::RateLimited),
        511 => Judgement::new(Code::CaptivePortal, Side::Network).fact("the answer is 511, which networks give"),
        502 | 504 if via == Via::Forward => {
            theirs(Code::Gateway).doubted("our own proxy forwards the request, and may have made the answer")
        }
        502 | 504 => theirs(Code::Gateway),
        503 => theirs(Code::Unavailable),
        500.. => theirs(Code::ServerError),
        // The application refuses this one request: it works.
        _ => return None,
    })
}

/// A signature is refused where the clocks are apart.
fn unauthorized(seen: &Observations, judgement: Judgement) -> Judgement {
    match seen.skew.filter(|skew| skew.is_notable()) {
        Some(skew) if skew.is_breaking() => Judgement::new(Code::ClockSkew, Side::Ours)
            .fact(skew.words())
            .fact("the answer is 401: signatures and tokens hold for minutes")
            .next("if it is still 401 then, check the credentials in [auth]"),
        Some(skew) => judgement.doubted(skew.words()).next("set this machine's clock first, then look again"),
        None => match seen.past.credentials_accepted {
            Some(ago) => judgement.note(format!("the same credentials were accepted {} ago", show_rounded(ago))),
            None => judgement,
        },
    }
}

/// Names by which firewalls of the web call themselves in `server`, in lower case.
const WEB_FIREWALLS: &[&str] = &[
    "cloudflare",
    "akamaighost",
    "sucuri",
    "imperva",
    "incapsula",
    "awselb",
    "big-ip",
    "bigip",
    "barracuda",
    "ddos-guard",
];

fn forbidden(seen: &Observations, answer: &Answer) -> Judgement {
    let server = answer.headers.first("server").unwrap_or_default().to_ascii_lowercase();
    // Behind a firewall the application refuses, too: in JSON.
    let json = answer.headers.first("content-type").is_some_and(|media| media.contains("json"));
    let firewall = !json && WEB_FIREWALLS.iter().any(|name| server.contains(name));
    if !firewall && !is_html(answer) {
        return Judgement::new(Code::Forbidden, Side::Configuration).fact("the answer is 403");
    }
    let html = is_html(answer).then(|| "its body is a page for people".to_owned());
    let server = firewall.then(|| format!("it comes from {}, which filters for others", shown(&server)));
    Judgement::new(Code::Blocked, Side::Configuration)
        .note("the answer is 403")
        .fact_if(html)
        .fact_if(server)
        .next(format!("ask the partner to allow {}", egress(seen)))
}

fn host(url: &str) -> Option<Box<str>> {
    location::origin(url).map(|origin| origin.host.into())
}

/// Rule 11, of redirects. None is followed: a probe sends one request.
fn redirect(seen: &Observations, answer: &Answer) -> Judgement {
    let from = seen.target.url.as_deref().unwrap_or_default();
    let location = answer.headers.first("location");
    let to = location.and_then(|location| location::resolve(from, location));
    let is = |scheme: &str, url: &str| url.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme));
    let shown_to = to.as_deref().or(location).map(|to| shown(&location::shown(to)));
    let judgement = match to.as_deref() {
        Some(to) if to == from => {
            Judgement::new(Code::RedirectLoop, Side::Configuration).fact("it is where it came from")
        }
        Some(to) if is("http:", from) && is("https:", to) && host(from) == host(to) => {
            Judgement::new(Code::RedirectSecure, Side::Configuration).fact("the scheme changes from http to https")
        }
        Some(to) if is("https:", from) && is("http:", to) => {
            Judgement::new(Code::RedirectInsecure, Side::Configuration).fact("the scheme changes from https to http")
        }
        _ => Judgement::new(Code::Redirect, Side::Configuration),
    };
    let where_to = shown_to.unwrap_or_else(|| "no place that can be gone to".into());
    judgement.fact(format!("the answer is {} to {where_to}", answer.status))
}

fn html(seen: &Observations, answer: &Answer) -> Option<Judgement> {
    let is_wrong = seen.target.json == Some(true) && is_html(answer);
    is_wrong
        .then(|| Judgement::new(Code::Html, Side::Network).fact(format!("{}, and a page for people", answer.status)))
}

/// A longer wait is a mistake, or means never.
const TOLD_MAX: Duration = Duration::from_secs(365 * 86_400);

/// Adds how long the partner wants to be left alone, who answered, and by which id it finds the answer.
fn with_wait(mut judgement: Judgement, seen: &Observations, answer: &Answer) -> Judgement {
    let now = seen.exchange.as_ref().map_or_else(Default::default, |exchange| exchange.at);
    match retry_after::read(&answer.headers, now) {
        RetryAfter::Wait(wait) if answer.status >= 400 => {
            let words = if wait > TOLD_MAX { "more than a year".into() } else { show_rounded(wait) };
            judgement.wait = Some(wait);
            judgement = judgement.fact(format!("it asks to wait {words} (Retry-After)")).next(format!("wait {words}"));
        }
        RetryAfter::Malformed => judgement = judgement.note("its Retry-After cannot be read"),
        RetryAfter::Wait(_) | RetryAfter::Absent => {}
    }
    if answer.status < 400 {
        return judgement;
    }
    let hops = ["via", "server"]
        .into_iter()
        .filter_map(|name| Some(format!("{name}: {}", shown(answer.headers.first(name)?))));
    let passed: Vec<String> = hops.chain(edge::id(&answer.headers)).collect();
    if passed.is_empty() { judgement } else { judgement.note(format!("it names {}", passed.join(", "))) }
}
