//! The control of status requests (decisions 10): an operation known to be confirmed, asked about to see that the
//! endpoint works before its "absent" counts.

use abide::engine::facts::{Fact, Response};
use abide::engine::operation::{IdempotencyKey, PartnerName};
use abide::engine::policy::{Control, Policy};
use abide::engine::verdict::Verdict;
use abide::store::jsonl::{Found, Reader, kept_body};
use std::path::Path;

/// Returns whether a control would make a difference: absence would count, is read off the status alone, and the
/// profile names no operation to compare with.
pub fn is_missing(policy: &Policy) -> bool {
    let Some(status) = &policy.status else { return false };
    let by_status_alone = status.absent.as_ref().is_some_and(|absent| absent.value.is_none());
    by_status_alone && status.settle.is_some() && status.control.is_none() && !policy.method.is_safe()
}

/// Returns the newest operation of a partner that the ledger holds as confirmed, other than `except`.
///
/// What cannot be read is no control: then absence proves nothing.
pub fn find(reader: &Reader, path: &Path, partner: &PartnerName, except: &IdempotencyKey) -> Option<Control> {
    let key = reader.newest_confirmed(partner, except)?;
    let found = reader.find(&key, Some(partner)).ok()?.pop()?;
    let answer = response(&found);
    let body = |body| kept_body(path, body).ok().flatten();
    Some(Control {
        key: key.as_str().into(),
        body: body(&found.history.opened().body).unwrap_or_default().into(),
        answer: answer.and_then(|answer| answer.body.as_ref()).and_then(body).map(Into::into),
        location: answer.and_then(|answer| {
            let location = answer.headers.iter().find(|(name, _)| &**name == "location");
            location.map(|(_, value)| value.clone())
        }),
    })
}

/// Puts a control into the rules.
pub fn set(policy: &mut Policy, control: Option<Control>) {
    if let Some(status) = &mut policy.status {
        status.control = control;
    }
}

fn response(found: &Found) -> Option<&Response> {
    found.history.facts.iter().rev().find_map(|recorded| match &recorded.fact {
        Fact::Settled(settled) if matches!(settled.verdict, Verdict::Confirmed | Verdict::Accepted) => {
            settled.response.as_deref()
        }
        _ => None,
    })
}
