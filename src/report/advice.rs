//! What to do next, for every state the same words on every surface.

use super::known::{Known, State};
use super::request::shell_word;
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
    /// Where it is recorded.
    pub book: Book<'a>,
    /// Which proxy the command line named, secrets masked: nothing records it. `Some` of nothing: none at all.
    pub proxy: Option<&'a str>,
    /// The wall clock.
    pub now: Timestamp,
    /// For times.
    pub clock: &'a LocalClock,
}

/// Where an operation is recorded, as far as a command line must say it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Book<'a> {
    /// In the ledger that is used where none is named.
    Usual,
    /// In this one.
    At(&'a str),
    /// Nowhere: there is nothing to replay.
    Nowhere,
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
    fn words(brief: impl Into<String>, words: impl Into<String>) -> Advice {
        Advice { words: words.into(), brief: brief.into(), command: None }
    }

    fn command(brief: impl Into<String>, words: impl Into<String>, command: String) -> Advice {
        Advice { command: Some(command), ..Advice::words(brief, words) }
    }
}

/// Returns what to do about `known`.
pub fn advise(known: &Known<'_>, ground: &Ground<'_>) -> Advice {
    match &known.state {
        State::Pending => replay(known, ground, "nothing was started: replaying it starts it", "start it"),
        State::Running(owner) => {
            let until = ground.clock.both(known.deadline(), ground.now);
            let words =
                format!("wait: process {} on {} works on it until {until} at the latest", owner.pid, owner.host);
            Advice::words("wait", words)
        }
        State::Abandoned(verdict) | State::Settled(verdict) => match verdict {
            Verdict::Confirmed => Advice::words("nothing", "nothing: it is done"),
            Verdict::Rejected if ground.book == Book::Nowhere => {
                Advice::words("change it", "change what the partner refused, and send it again")
            }
            Verdict::Rejected => {
                let again = command("replay", known, ground, " --only rejected");
                let words = "change what the partner refused, and send it under a new key";
                Advice::words("change it", format!("{words}; `{again}` tries the same once more"))
            }
            Verdict::NotDone => not_done(known, ground),
            Verdict::InDoubt => in_doubt(known, ground),
            Verdict::Accepted => accepted(known, ground),
        },
    }
}

/// Returns the advice to replay an operation, now or when its time has come; to send it again where the ledger does
/// not hold all that a replay needs.
fn replay(known: &Known<'_>, ground: &Ground<'_>, words: &str, brief: &str) -> Advice {
    let at = known.settled().and_then(|settled| settled.retry_at).filter(|at| *at > ground.now);
    let when = at.map(|at| ground.clock.both(at, ground.now));
    let (then, brief) = match &when {
        Some(at) => (format!("at {at} or later, "), format!("{brief} at {at}")),
        None => (String::new(), brief.to_owned()),
    };
    if ground.book == Book::Nowhere {
        return Advice::words(brief, format!("{then}{words}"));
    }
    if needs_the_command_line(known) {
        let key = known.key;
        return Advice::words(
            format!("{brief}: same send with --key"),
            format!(
                "{then}{words}: with the same `abide send --key {key}`, whose credentials the ledger does not hold"
            ),
        );
    }
    Advice::command(brief, format!("{then}{words}"), command("replay", known, ground, ""))
}

/// Returns whether something of the request was given on the command line and is not kept.
fn needs_the_command_line(known: &Known<'_>) -> bool {
    let opened = known.opened();
    let is_masked = |text: &str| text.contains("$masked") || text.contains("***");
    is_masked(&opened.url) || opened.headers.iter().any(|(_, value)| is_masked(value))
}

fn command(name: &str, known: &Known<'_>, ground: &Ground<'_>, more: &str) -> String {
    let ledger = match ground.book {
        Book::At(ledger) => format!(" --ledger {}", shell_word(ledger)),
        Book::Usual | Book::Nowhere => String::new(),
    };
    let way = match ground.proxy.filter(|_| name == "replay") {
        Some(proxy) => format!(" -x {}", shell_word(proxy)),
        None => String::new(),
    };
    format!("abide {name} {}{ledger}{more}{way}", shell_word(known.key.as_str()))
}

fn not_done(known: &Known<'_>, ground: &Ground<'_>) -> Advice {
    let again = if ground.book == Book::Nowhere { "send it again" } else { "replay it" };
    let correct = |what: &str| {
        let words = format!("correct {what}, then {again}: that is safe");
        replay(known, ground, &words, &format!("correct {what}"))
    };
    match known.settled().map(|settled| settled.cause) {
        Some(Cause::Expired) => Advice::words("nothing", "nothing: it is too late to send it (--valid-for)"),
        Some(Cause::Credentials | Cause::NeedsChange) if remedy(known).is_some() => {
            let how = match ground.book {
                Book::Nowhere => "send it again: that is safe",
                Book::Usual | Book::At(_) => "replay it, or send it again under its key: both are safe",
            };
            let words = remedy(known).map(|remedy| format!("{remedy}; then {how}"));
            replay(known, ground, &words.unwrap_or_default(), "correct the TLS settings")
        }
        Some(Cause::Credentials) => correct("the credentials"),
        Some(Cause::NeedsChange) => correct("what is wrong"),
        _ => replay(known, ground, "run it again: that is safe", "replay it"),
    }
}

/// Returns what to put right, where the last attempt says it.
fn remedy(known: &Known<'_>) -> Option<&'static str> {
    known.settled()?.last.as_ref()?.reason.remedy()
}

/// How long an idempotent method is repeated after doubt.
///
/// Source: decisions 13.
const REPEATED_FOR: &str = "15 minutes";

fn in_doubt(known: &Known<'_>, ground: &Ground<'_>) -> Advice {
    let opened = known.opened();
    let protected = known.key_until().filter(|until| *until > ground.now);
    let is_idempotent = Method::new(&opened.method).is_some_and(|method| method.is_idempotent());
    match (ground.asking, protected) {
        (Asking::Possible, _) => {
            replay(known, ground, "replaying it asks the partner what happened", "ask the partner")
        }
        (_, Some(until)) => {
            let until = ground.clock.both(until, ground.now);
            let words = format!(
                "replaying it sends the same key, which the partner honours until {until}: nothing is done twice"
            );
            replay(known, ground, &words, "replay it under its key")
        }
        (_, None) if is_idempotent => {
            let words = format!(
                "replaying it repeats it within {REPEATED_FOR}: a second {} has the effect of one",
                opened.method
            );
            replay(known, ground, &words, "replay it soon")
        }
        (Asking::Unknown, None) => {
            let profile = opened.profile.as_deref().unwrap_or("that was used");
            let words =
                format!("repair the profile {profile}, which cannot be read: with [status] in it a replay would ask");
            replay(known, ground, &words, "repair the profile")
        }
        (Asking::Impossible, None) => look(known, ground, "nothing here can answer this"),
    }
}

fn accepted(known: &Known<'_>, ground: &Ground<'_>) -> Advice {
    match ground.asking {
        Asking::Possible => replay(known, ground, "the partner is not finished: replaying it asks again", "ask again"),
        Asking::Impossible | Asking::Unknown => look(known, ground, "the partner is not finished"),
    }
}

/// Returns the advice to find out on the partner's side.
fn look(known: &Known<'_>, ground: &Ground<'_>, why: &str) -> Advice {
    let resolve = command("resolve", known, ground, " --confirmed|--rejected|--not-done --note TEXT");
    Advice::words(
        "look on their side, then resolve",
        format!("{why}: add [status] to the profile, or look on their side and run `{resolve}`"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use abide::engine::facts::{Fact, History, Opened, Owner, Recorded, StoredBody, Why};
    use abide::engine::operation::{Fingerprint, IdempotencyKey, PartnerName};
    use jiff::tz::TimeZone;
    use std::sync::Arc;

    fn words(method: &str, key_until: Option<&str>, state: State, asking: Asking) -> Advice {
        advised(method, key_until, state, (asking, Book::At("/l.jsonl"), None))
    }

    fn advised(
        method: &str,
        key_until: Option<&str>,
        state: State,
        (asking, book, proxy): (Asking, Book<'_>, Option<&str>),
    ) -> Advice {
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
            tls: None,
            deadline: time("2026-11-30T10:05:00Z"),
            why: Why::Send,
            owner: Owner::default(),
        };
        let now = time("2026-11-30T10:00:00Z");
        let facts = vec![Recorded { n: 1, at: now, steady: None, fact: Fact::Opened(Arc::new(opened)) }];
        let history = History { facts };
        let known = Known { partner: &partner, key: &key, history: &history, state };
        let clock = LocalClock::new(|| TimeZone::UTC);
        advise(&known, &Ground { asking, book, proxy, now, clock: &clock })
    }

    #[test]
    fn what_to_do_in_doubt_depends_on_what_can_help() {
        let doubt = || State::Settled(Verdict::InDoubt);
        let until = Some("2026-11-30T11:00:00Z");
        let over = Some("2026-11-30T09:00:00Z");
        let cases = [
            ("POST", until, Asking::Possible, "asks the partner what happened", true),
            ("POST", until, Asking::Impossible, "which the partner honours until 11:00:00 (in 1h)", true),
            (
                "POST",
                over,
                Asking::Impossible,
                "run `abide resolve k1 --ledger /l.jsonl --confirmed|--rejected|",
                false,
            ),
            ("POST", None, Asking::Impossible, "add [status] to the profile", false),
            ("POST", None, Asking::Unknown, "cannot be read", true),
            ("PUT", None, Asking::Impossible, "a second PUT has the effect of one", true),
        ];
        for (method, key_until, asking, expected, is_replayed) in cases {
            let advice = words(method, key_until, doubt(), asking);
            assert!(advice.words.contains(expected), "{}", advice.words);
            let replay = is_replayed.then_some("abide replay k1 --ledger /l.jsonl");
            assert_eq!(advice.command.as_deref(), replay, "{}", advice.words);
        }
    }

    #[test]
    fn nobody_is_told_to_replay_what_was_not_recorded() {
        for verdict in [Verdict::NotDone, Verdict::Rejected] {
            let advice = advised("GET", None, State::Settled(verdict), (Asking::Impossible, Book::Nowhere, None));
            assert_eq!(advice.command, None);
            assert!(!advice.words.contains("replay"), "{}", advice.words);
        }
    }

    #[test]
    fn a_proxy_that_nothing_records_is_named_again() {
        for (proxy, expected) in [
            (None, "abide replay k1"),
            (Some("http://***@proxy:3128"), "abide replay k1 -x 'http://***@proxy:3128'"),
            (Some(""), "abide replay k1 -x ''"),
        ] {
            let ground = (Asking::Impossible, Book::Usual, proxy);
            let advice = advised("POST", None, State::Settled(Verdict::NotDone), ground);
            assert_eq!(advice.command.as_deref(), Some(expected));
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
