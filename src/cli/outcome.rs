//! What became of a send: the verdict on stderr, the answer on stdout, the status to leave with.

use super::args::SendArgs;
use super::exit::{Exit, Failure};
use super::ledger_place::Place;
use super::output::{self, Reply};
use super::plan::Plan;
use super::screen::Talk;
use super::{Format, Session, state, way};
use crate::report::advice::{Advice, Asking, Book, Ground, advise};
use crate::report::human::{self, Verdicted};
use crate::report::json::{self, Attempted, Sent, Standing, line};
use crate::report::known::{Known, State};
use crate::report::request::shell_word;
use abide::engine::entry;
use abide::engine::exchange::Answer;
use abide::engine::facts::{History, Owner, Settled};
use abide::engine::moment::Now;
use abide::engine::operation::IdempotencyKey;
use abide::engine::verdict::Verdict;
use abide::store::StoreError;
use abide::store::jsonl::kept_body;
use nix::sys::signal::Signal;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// What became of a send.
#[derive(Debug)]
pub enum Outcome {
    /// A run took place.
    Ran(Box<Ran>),
    /// The ledger had the verdict already; nothing was sent.
    Final(IdempotencyKey, History),
    /// The key was used with another payload; nothing was sent.
    OtherPayload(IdempotencyKey, History),
    /// Another live process works on it.
    Busy(IdempotencyKey, Owner),
}

/// A run of this process.
#[derive(Debug)]
pub struct Ran {
    /// The key.
    pub key: IdempotencyKey,
    /// Every fact, this run's included.
    pub history: History,
    /// The partner's last answer of this run.
    pub answer: Option<Answer>,
    /// How long a wait the partner asked for last.
    pub asked_wait: Option<Duration>,
    /// How long the run took.
    pub took: Duration,
    /// The ledger failed.
    pub broken: Option<Box<Broken>>,
}

/// A run whose outcome is not recorded.
#[derive(Debug)]
pub struct Broken {
    /// What is known all the same.
    pub settled: Arc<Settled>,
    /// Why it is not recorded.
    pub error: StoreError,
    /// Whether this run may have sent anything.
    pub may_have_left: bool,
}

/// Reports what became of a send.
#[derive(Debug)]
pub struct Reporter<'a> {
    args: &'a SendArgs,
    session: &'a Session,
    plan: &'a Plan,
    ledger: Option<PathBuf>,
    /// The signal that ended the run.
    pub signal: Option<Signal>,
}

impl<'a> Reporter<'a> {
    /// Returns a reporter, after a look at whether it will be able to write.
    ///
    /// # Errors
    /// `-o` names a file that cannot be written.
    pub fn new(args: &'a SendArgs, session: &'a Session, plan: &'a Plan) -> Result<Reporter<'a>, Failure> {
        if let Some(path) = &args.show.output {
            output::check("-o", path)?;
        }
        let ledger = match &plan.place {
            Place::File { path, .. } => Some(path.clone()),
            Place::None => None,
        };
        Ok(Reporter { args, session, plan, ledger, signal: None })
    }

    /// Writes what became of it and returns the status to leave with.
    ///
    /// # Errors
    /// The outcome is not recorded, or cannot be written.
    pub fn report(&self, outcome: &Outcome, now: Now) -> Result<Exit, Failure> {
        match outcome {
            Outcome::Ran(ran) => self.ran(ran, now),
            Outcome::Final(key, history) => self.stored(key, history, now),
            Outcome::OtherPayload(key, history) => self.other_payload(key, history),
            Outcome::Busy(key, owner) => self.busy(key, owner),
        }
    }

    fn ran(&self, ran: &Ran, now: Now) -> Result<Exit, Failure> {
        let state = match &ran.broken {
            Some(broken) => State::Settled(broken.settled.verdict),
            None => state::of(&ran.history, entry::Standing::Settled, now),
        };
        let known = self.known(&ran.key, &ran.history, state);
        let reply = ran.answer.as_ref().map(Reply::of_answer);
        let run = Some((self.plan.composed.policy.timeouts.overall, ran.asked_wait));
        let told = Told { reply, run, took: Some(ran.took), from_ledger: false, broken: ran.broken.is_some() };
        let exit = self.tell(&known, &told, now)?;
        match &ran.broken {
            None => Ok(exit),
            Some(broken) => Err(Failure::unrecorded(&broken.error, broken.may_have_left)),
        }
    }

    fn stored(&self, key: &IdempotencyKey, history: &History, now: Now) -> Result<Exit, Failure> {
        let state = state::of(history, entry::Standing::Settled, now);
        let known = self.known(key, history, state);
        let reply = Reply::of_history(history, self.ledger.as_deref()).or_else(|error| {
            // The verdict stands without the body.
            self.session.screen.warn(&error.to_string());
            Reply::of_history(history, None)
        });
        let reply = reply.map_err(|error| Failure::of_store(&error))?;
        self.tell(&known, &Told { reply, run: None, took: None, from_ledger: true, broken: false }, now)
    }

    fn known<'b>(&'b self, key: &'b IdempotencyKey, history: &'b History, state: State) -> Known<'b> {
        Known { partner: &self.plan.composed.operation.partner, key, history, state }
    }

    /// The verdict to stderr and the answer to stdout, or one document.
    fn tell(&self, known: &Known<'_>, told: &Told<'_>, now: Now) -> Result<Exit, Failure> {
        let verdict = known.state.verdict().unwrap_or(Verdict::InDoubt);
        let exit = match (told.broken, self.signal) {
            (true, _) => Exit::Local,
            (false, Some(signal)) => Exit::Signal(signal),
            (false, None) => verdict.into(),
        };
        let ledger = self.ledger_word();
        let book = match (&self.plan.place, &ledger) {
            (Place::None, _) => Book::Nowhere,
            (Place::File { .. }, Some(path)) => Book::At(path),
            (Place::File { .. }, None) => Book::Usual,
        };
        let proxy = self.args.way.proxy.as_deref().map(way::named);
        let ground = Ground {
            proxy: proxy.as_deref(),
            asking: if self.plan.composed.policy.status.is_some() { Asking::Possible } else { Asking::Impossible },
            book,
            now: now.wall,
            clock: &self.session.local,
        };
        let advice = advise(known, &ground);
        self.verdict(known, told, &advice);
        if self.session.format == Format::Json {
            self.session.print(&line(&self.document(known, told, advice, exit)))?;
        }
        if matches!(verdict, Verdict::Confirmed | Verdict::Rejected | Verdict::Accepted) {
            self.answer(told)?;
        }
        Ok(exit)
    }

    fn verdict(&self, known: &Known<'_>, told: &Told<'_>, advice: &Advice) {
        let screen = &self.session.screen;
        let composed = &self.plan.composed;
        let verdict = known.state.verdict();
        if verdict == Some(Verdict::Confirmed) && screen.talk == Talk::Quiet {
            return;
        }
        let message = told.reply.as_ref().and_then(|reply| {
            let pointer = composed.policy.error_message.as_ref().filter(|_| verdict != Some(Verdict::Confirmed))?;
            Some(composed.mask.hide(&pointer.scalar(reply.body.as_deref()?)?))
        });
        let (budget, asked_wait) = told.run.unzip();
        let verdicted = Verdicted {
            advice,
            budget,
            asked_wait: asked_wait.flatten(),
            message: message.as_deref(),
            paint: screen.paint,
        };
        let from = if told.from_ledger { " (known from the ledger; nothing was sent)" } else { "" };
        let text = human::verdict(known, &verdicted);
        let (headline, rest) = text.split_at(text.find('\n').unwrap_or(text.len()));
        screen.say(&format!("{headline}{from}{rest}"));
        if matches!(verdict, Some(Verdict::NotDone | Verdict::InDoubt)) {
            let quoted = told.reply.as_ref().and_then(|reply| {
                let body = String::from_utf8_lossy(reply.body.as_deref()?);
                human::quoted(reply.http?, &composed.mask.hide(&body))
            });
            quoted.iter().for_each(|text| screen.say(text));
        }
    }

    fn document<'b>(&'b self, known: &'b Known<'_>, told: &Told<'_>, advice: Advice, exit: Exit) -> Sent<'b> {
        Sent {
            schema: "abide.send/1",
            exit: exit.code(),
            standing: Standing::of(known, advice),
            from_ledger: told.from_ledger,
            took_ms: told.took.map(|took| u64::try_from(took.as_millis()).unwrap_or(u64::MAX)),
            answer: told.reply.as_ref().map(|reply| reply.document(&self.plan.composed.mask)),
            last: known.last().map(Attempted::from),
            warnings: &self.plan.warnings,
            ledger: self.ledger.as_ref().map(|path| path.display().to_string()),
        }
    }

    /// Writes the answer's body where it is wanted: into a file, else to stdout unless a document or events are there.
    fn answer(&self, told: &Told<'_>) -> Result<(), Failure> {
        let screen = &self.session.screen;
        let Some(reply) = &told.reply else { return Ok(()) };
        if let Some(note) = reply.note() {
            screen.say(&note);
        }
        let bytes = reply.bytes(self.args.show.include);
        if let Some(path) = &self.args.show.output {
            return output::save(path, &bytes);
        }
        // After a signal the status is no longer one that promises a body.
        if self.session.format == Format::Json || self.signal.is_some() {
            return Ok(());
        }
        if self.args.show.events.as_deref() == Some("-") {
            screen.talk("the answer's body is not printed: --events - has stdout; -o FILE keeps it");
            return Ok(());
        }
        output::print(&bytes, self.session.context.stdout_is_terminal)
    }

    fn other_payload(&self, key: &IdempotencyKey, history: &History) -> Result<Exit, Failure> {
        let opened = history.opened();
        // Without the body the rest is still compared.
        let body = self.ledger.as_ref().and_then(|path| kept_body(path, &opened.body).ok().flatten());
        let differs = self.plan.composed.differences(opened, body.as_deref());
        let what_to_do = "use a new key for another operation, or send the same payload to continue this one";
        let given = &self.plan.composed.operation.fingerprint;
        if self.session.format == Format::Json {
            let document = json::OtherPayload {
                schema: "abide.send/1",
                exit: Exit::OtherPayload.code(),
                key: key.as_str(),
                partner: self.plan.composed.operation.partner.as_str(),
                state: "other_payload",
                verdict: None,
                reason: "other_payload",
                known_fingerprint: &opened.fp.0,
                given_fingerprint: &given.0,
                differs: &differs,
                what_to_do,
            };
            self.session.print(&line(&document))?;
        }
        let what = if differs.is_empty() { String::new() } else { format!(": the {} differs", differs.join(", the ")) };
        self.session.screen.say(&format!(
            "{key}: {}; nothing was sent{what}\n    known: {} {}, {}\n    given: {} {}, {given}\n    next: {what_to_do}",
            self.session.screen.paint.red("this key was used with another payload"),
            opened.method,
            opened.url,
            opened.fp,
            self.plan.composed.opened.method,
            self.plan.composed.opened.url,
        ));
        Ok(Exit::OtherPayload)
    }

    /// Returns the ledger where a command line must name it.
    fn ledger_word(&self) -> Option<String> {
        match &self.plan.place {
            Place::File { path, is_default: false } => Some(path.display().to_string()),
            Place::File { is_default: true, .. } | Place::None => None,
        }
    }

    fn busy(&self, key: &IdempotencyKey, owner: &Owner) -> Result<Exit, Failure> {
        let exit = self.signal.map_or(Exit::Accepted, Exit::Signal);
        let ledger = self.ledger_word().map(|path| format!(" --ledger {}", shell_word(&path))).unwrap_or_default();
        let what_to_do = format!("look again later: abide status {}{ledger}", shell_word(key.as_str()));
        if self.session.format == Format::Json {
            let document = json::Busy {
                schema: "abide.send/1",
                exit: exit.code(),
                key: key.as_str(),
                partner: self.plan.composed.operation.partner.as_str(),
                state: "running",
                verdict: None,
                reason: "busy",
                owner,
                what_to_do: &what_to_do,
            };
            self.session.print(&line(&document))?;
        }
        self.session.screen.say(&format!(
            "{key}: {}: process {} on {}; nothing was sent here\n    next: {what_to_do}",
            self.session.screen.paint.yellow("another process is working on this key"),
            owner.pid,
            owner.host,
        ));
        Ok(exit)
    }
}

/// What is told about an operation beside its facts.
struct Told<'a> {
    reply: Option<Reply<'a>>,
    /// The time that the run had, and the wait that the partner asked for last.
    run: Option<(Duration, Option<Duration>)>,
    took: Option<Duration>,
    from_ledger: bool,
    broken: bool,
}
