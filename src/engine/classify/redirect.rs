//! What a redirect means, and where it leads (decisions 7).

use super::{Context, Finding};
use crate::engine::exchange::Answer;
use crate::engine::facts::Again;
use crate::engine::location;
use crate::engine::planted::{Bug, planted};
use crate::engine::reason::Reason;
use crate::engine::verdict::{Evidence, Side};

/// Redirects of a write that are followed in a row, on the same origin.
///
/// Source: decisions 7.
pub const HOPS_MAX: u32 = 3;

/// Redirects of a GET or HEAD that are followed in a row with `-L`.
///
/// Source: the default of reqwest and of Go's net/http.
pub const FOLLOWS_MAX: u32 = 10;

pub(super) fn meaning(answer: &Answer, context: &Context<'_>) -> Finding {
    if context.policy.method.is_safe() {
        let follows = context.policy.follow && matches!(answer.status, 301..=303 | 307 | 308);
        return if follows { of_read(answer, context) } else { refused(Reason::Redirect) };
    }
    match answer.status {
        301..=303 if planted(Bug::RedirectConfirms) => Finding::confirmed(Reason::Redirect),
        301..=303 => Finding::new(Evidence::InDoubt, Again::No, Reason::Redirect, Side::Configuration),
        307 | 308 => of_write(answer, context),
        _ => Finding::rejected(Reason::Rejected, Side::Theirs),
    }
}

/// Follows with the same method, body and key, where nothing can leak or change.
fn of_write(answer: &Answer, context: &Context<'_>) -> Finding {
    match target(answer, context) {
        Some(url) if same_origin(&url, context.url) => {
            if context.hops >= HOPS_MAX && !planted(Bug::HopsForEver) {
                return refused(Reason::TooManyRedirects);
            }
            hop(url)
        }
        _ => refused(Reason::RedirectElsewhere),
    }
}

/// Follows to any origin; what belongs to the first one stays there.
fn of_read(answer: &Answer, context: &Context<'_>) -> Finding {
    let Some(url) = target(answer, context).filter(|url| !has_userinfo(url)) else {
        return refused(Reason::RedirectNowhere);
    };
    if context.url.starts_with("https:") && !url.to_ascii_lowercase().starts_with("https:") {
        return refused(Reason::RedirectInsecure);
    }
    // The partner may have put a secret of ours into the address.
    if !same_origin(&url, context.url) && context.mask.finds(url.as_bytes()) {
        return refused(Reason::RedirectElsewhere);
    }
    if url == context.url || context.trail.iter().any(|known| **known == *url) {
        return refused(Reason::RedirectLoop);
    }
    if context.hops >= FOLLOWS_MAX && !planted(Bug::HopsForEver) {
        return refused(Reason::TooManyRedirects);
    }
    hop(url)
}

fn refused(reason: Reason) -> Finding {
    Finding::new(Evidence::Refused, Again::No, reason, Side::Configuration)
}

fn hop(url: String) -> Finding {
    let finding = Finding::new(Evidence::Refused, Again::Yes, Reason::RedirectHop, Side::Theirs);
    Finding { hop: Some(url), ..finding }
}

fn target(answer: &Answer, context: &Context<'_>) -> Option<String> {
    let location = answer.headers.first("location")?;
    // Without a host there is no origin to compare.
    location::resolve(context.url, location).filter(|url| location::origin(url).is_some())
}

fn same_origin(one: &str, other: &str) -> bool {
    location::origin(one) == location::origin(other)
}

fn has_userinfo(url: &str) -> bool {
    let authority = url.split("://").nth(1).unwrap_or_default().split(['/', '?', '#']).next().unwrap_or_default();
    authority.contains('@')
}
