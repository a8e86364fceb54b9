//! What to do next, for every state the same words on every surface.

use super::known::{Known, State};
use super::time::LocalClock;
use abide::engine::moment::Timestamp;
use abide::engine::verdict::{Cause, Verdict};

/// What can help with an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asking {
    /// The profile says how to ask whether an operation happened.
    Possible,
    /// It does not, or there is no profile.
    Impossible,
    /// The profile that was used cannot be read any more.
    Unknown,
}

/// What an advice is made from.
#[derive(Clone, Copy, Debug)]
pub struct Ground<'a> {
    /// Whether the partner can be asked.
    pub asking: Asking,
    /// The command line that continues the operation, where it is safe to show.
    pub command: Option<&'a str>,
    /// The wall clock.
    pub now: Timestamp,
    /// For times.
    pub clock: &'a LocalClock,
}

/// What to do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Advice {
    /// What to do, in words.
    pub words: String,
    /// The command line to do it with.
    pub command: Option<String>,
}

/// Returns what to do about `known`.
pub fn advise(known: &Known<'_>, ground: &Ground<'_>) -> Advice {
    let again = |words: String| Advice { words, command: ground.command.map(str::to_owned) };
    let only = |words: String| Advice { words, command: None };
    match &known.state {
        State::Pending => again(format!("nothing was started; the same send with --key {} starts it", known.key)),
        State::Running(owner) => only(format!(
            "wait: process {} on {} works on it until {} at the latest",
            owner.pid,
            owner.host,
            ground.clock.both(known.deadline(), ground.now)
        )),
        State::Abandoned(verdict) | State::Settled(verdict) => match verdict {
            Verdict::Confirmed => only("nothing: it is done".into()),
            Verdict::Rejected => only("change what the partner refused, and send it under a new key".into()),
            Verdict::NotDone => not_done(known, ground),
            Verdict::InDoubt => in_doubt(known, ground),
            Verdict::Accepted => accepted(known, ground),
        },
    }
}

fn not_done(known: &Known<'_>, ground: &Ground<'_>) -> Advice {
    let command = ground.command.map(str::to_owned);
    let settled = known.settled();
    let words = match settled.map(|settled| settled.cause) {
        Some(Cause::Expired) => {
            return Advice { words: "nothing: it is too late to send it (--valid-for)".into(), command: None };
        }
        Some(Cause::Credentials) => "correct the credentials, then run it again: it is safe".into(),
        Some(Cause::NeedsChange) => "correct what is wrong, then run it again: it is safe".into(),
        _ => match settled.and_then(|settled| settled.retry_at).filter(|at| *at > ground.now) {
            Some(at) => format!("run it again at {} or later: it is safe", ground.clock.both(at, ground.now)),
            None => "run it again: it is safe".into(),
        },
    };
    Advice { words, command }
}

fn in_doubt(known: &Known<'_>, ground: &Ground<'_>) -> Advice {
    let key = known.key;
    let when = match known.settled().and_then(|settled| settled.retry_at).filter(|at| *at > ground.now) {
        Some(at) => format!(", at {} or later", ground.clock.both(at, ground.now)),
        None => String::new(),
    };
    let protected = known.key_until().filter(|until| *until > ground.now);
    let again = |words: String| Advice { words, command: ground.command.map(str::to_owned) };
    match (ground.asking, protected) {
        (Asking::Possible, _) => again(format!("the same send with --key {key} asks the partner what happened{when}")),
        (_, Some(until)) => again(format!(
            "the same send with --key {key}{when}: the partner honours the key until {}, so nothing is done twice",
            ground.clock.both(until, ground.now)
        )),
        (Asking::Unknown, None) => again(format!(
            "the profile {} cannot be read; with [status] in it the same send with --key {key} would ask the partner",
            known.opened().profile.as_deref().unwrap_or("that was used")
        )),
        (Asking::Impossible, None) => Advice {
            words: "nothing here can answer this: add [status] to the profile, or look on their side; \
                    do not send it again before you know"
                .into(),
            command: None,
        },
    }
}

fn accepted(known: &Known<'_>, ground: &Ground<'_>) -> Advice {
    match ground.asking {
        Asking::Possible => Advice {
            words: format!("the partner is not finished; the same send with --key {} asks again", known.key),
            command: ground.command.map(str::to_owned),
        },
        Asking::Impossible | Asking::Unknown => Advice {
            words: "the partner is not finished: look on their side, or add [status] to the profile".into(),
            command: None,
        },
    }
}
