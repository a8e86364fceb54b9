//! What to do next, for every state the same words on every surface.

use super::known::{Known, State};
use super::time::LocalClock;
use abide::engine::moment::Timestamp;
use abide::engine::operation::Method;
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
    /// The same, for a table.
    pub brief: String,
    /// The command line to do it with.
    pub command: Option<String>,
}

impl Advice {
    fn new(brief: impl Into<String>, words: impl Into<String>, command: Option<&str>) -> Advice {
        Advice { words: words.into(), brief: brief.into(), command: command.map(str::to_owned) }
    }
}

/// Returns what to do about `known`.
pub fn advise(known: &Known<'_>, ground: &Ground<'_>) -> Advice {
    let key = known.key;
    match &known.state {
        State::Pending => Advice::new(
            "send it with --key",
            format!("nothing was started; the same send with --key {key} starts it"),
            ground.command,
        ),
        State::Running(owner) => {
            let until = ground.clock.both(known.deadline(), ground.now);
            let words =
                format!("wait: process {} on {} works on it until {until} at the latest", owner.pid, owner.host);
            Advice::new("wait", words, None)
        }
        State::Abandoned(verdict) | State::Settled(verdict) => match verdict {
            Verdict::Confirmed => Advice::new("nothing", "nothing: it is done", None),
            Verdict::Rejected => {
                Advice::new("change it", "change what the partner refused, and send it under a new key", None)
            }
            Verdict::NotDone => not_done(known, ground),
            Verdict::InDoubt => in_doubt(known, ground),
            Verdict::Accepted => accepted(known, ground),
        },
    }
}

fn not_done(known: &Known<'_>, ground: &Ground<'_>) -> Advice {
    let settled = known.settled();
    let correct = |what: &str| {
        Advice::new(format!("correct {what}"), format!("correct {what}, then run it again: it is safe"), ground.command)
    };
    match settled.map(|settled| settled.cause) {
        Some(Cause::Expired) => Advice::new("nothing", "nothing: it is too late to send it (--valid-for)", None),
        Some(Cause::Credentials) => correct("the credentials"),
        Some(Cause::NeedsChange) => correct("what is wrong"),
        _ => match settled.and_then(|settled| settled.retry_at).filter(|at| *at > ground.now) {
            Some(at) => {
                let at = ground.clock.both(at, ground.now);
                Advice::new(
                    format!("run it again at {at}"),
                    format!("run it again at {at} or later: it is safe"),
                    ground.command,
                )
            }
            None => Advice::new("run it again", "run it again: it is safe", ground.command),
        },
    }
}

/// How long an idempotent method is repeated after doubt.
///
/// Source: decisions 13.
const REPEATED_FOR: &str = "15 minutes";

fn in_doubt(known: &Known<'_>, ground: &Ground<'_>) -> Advice {
    let key = known.key;
    let opened = known.opened();
    let when = match known.settled().and_then(|settled| settled.retry_at).filter(|at| *at > ground.now) {
        Some(at) => format!(", at {} or later,", ground.clock.both(at, ground.now)),
        None => String::new(),
    };
    let same = format!("the same send with --key {key}{when}");
    let protected = known.key_until().filter(|until| *until > ground.now);
    let is_idempotent = Method::new(&opened.method).is_some_and(|method| method.is_idempotent());
    match (ground.asking, protected) {
        (Asking::Possible, _) => {
            Advice::new("ask: same send with --key", format!("{same} asks the partner what happened"), ground.command)
        }
        (_, Some(until)) => {
            let until = ground.clock.both(until, ground.now);
            let words = format!("{same}: the partner honours the key until {until}, so nothing is done twice");
            Advice::new("same send with --key", words, ground.command)
        }
        (_, None) if is_idempotent => {
            let words =
                format!("{same} repeats it within {REPEATED_FOR}: a second {} has the effect of one", opened.method);
            Advice::new("same send with --key", words, ground.command)
        }
        (Asking::Unknown, None) => {
            let profile = opened.profile.as_deref().unwrap_or("that was used");
            let words =
                format!("the profile {profile} cannot be read; with [status] in it {same} would ask the partner");
            Advice::new("repair the profile", words, ground.command)
        }
        (Asking::Impossible, None) => Advice::new(
            "look on their side",
            "nothing here can answer this: add [status] to the profile, or look on their side; \
             do not send it again before you know",
            None,
        ),
    }
}

fn accepted(known: &Known<'_>, ground: &Ground<'_>) -> Advice {
    match ground.asking {
        Asking::Possible => Advice::new(
            "ask: same send with --key",
            format!("the partner is not finished; the same send with --key {} asks again", known.key),
            ground.command,
        ),
        Asking::Impossible | Asking::Unknown => Advice::new(
            "look on their side",
            "the partner is not finished: look on their side, or add [status] to the profile",
            None,
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use abide::engine::facts::{Fact, History, Opened, Owner, Recorded, StoredBody, Why};
    use abide::engine::operation::{Fingerprint, IdempotencyKey, PartnerName};
    use jiff::tz::TimeZone;
    use std::sync::Arc;

    fn words(method: &str, key_until: Option<&str>, state: State, asking: Asking) -> Advice {
        let time = |text: &str| text.parse::<Timestamp>().expect("a time");
        let partner = PartnerName::new("acme").expect("a name");
        let key = IdempotencyKey::new("k1", 255).expect("a key");
        let opened = Opened {
            partner: partner.clone(),
            profile: None,
            account: None,
            method: method.into(),
            url: "http://h/".into(),
            headers: vec![],
            fp: Fingerprint("v1:0".into()),
            body: StoredBody::Text("".into()),
            contract: "none".into(),
            key_until: key_until.map(time),
            valid_until: None,
            deadline: time("2026-11-30T10:05:00Z"),
            why: Why::Send,
            owner: Owner::default(),
        };
        let now = time("2026-11-30T10:00:00Z");
        let facts = vec![Recorded { n: 1, at: now, steady: None, fact: Fact::Opened(Arc::new(opened)) }];
        let history = History { facts };
        let known = Known { partner: &partner, key: &key, history: &history, state };
        let clock = LocalClock::new(|| TimeZone::UTC);
        advise(&known, &Ground { asking, command: Some("abide send …"), now, clock: &clock })
    }

    #[test]
    fn what_to_do_in_doubt_depends_on_what_can_help() {
        let doubt = || State::Settled(Verdict::InDoubt);
        let until = Some("2026-11-30T11:00:00Z");
        let over = Some("2026-11-30T09:00:00Z");
        let cases = [
            ("POST", until, Asking::Possible, "asks the partner what happened", true),
            ("POST", until, Asking::Impossible, "honours the key until 11:00:00 (in 1h)", true),
            ("POST", over, Asking::Impossible, "do not send it again before you know", false),
            ("POST", None, Asking::Impossible, "add [status] to the profile", false),
            ("POST", None, Asking::Unknown, "cannot be read", true),
            ("PUT", None, Asking::Impossible, "a second PUT has the effect of one", true),
        ];
        for (method, key_until, asking, expected, has_command) in cases {
            let advice = words(method, key_until, doubt(), asking);
            assert!(advice.words.contains(expected), "{}", advice.words);
            assert_eq!(advice.command.is_some(), has_command, "{}", advice.words);
        }
    }

    #[test]
    fn nobody_is_told_to_send_again_what_is_done_refused_or_running() {
        let states = [
            State::Settled(Verdict::Confirmed),
            State::Settled(Verdict::Rejected),
            State::Running(Owner::default()),
            State::Settled(Verdict::Accepted),
        ];
        for state in states {
            assert_eq!(words("POST", None, state.clone(), Asking::Impossible).command, None, "{state:?}");
        }
    }
}
