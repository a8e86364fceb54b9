//! Tells what a run does while it does it: lines on stderr, the spinner, events, and what a signal may say.

use super::Format;
use super::exit::Failure;
use super::request::system_words;
use super::screen::{Screen, Talk};
use super::signals::{InFlight, Signals};
use crate::report::events::{Happened, event};
use crate::report::human::{self, Detail, Taken};
use crate::report::time::LocalClock;
use abide::drive::{Event, Observer};
use abide::engine::deadline::Deadline;
use abide::engine::exchange::{Exchange, Outcome};
use abide::engine::facts::{About, Finished, Waiting};
use abide::engine::gateway;
use abide::engine::moment::Now;
use abide::engine::operation::IdempotencyKey;
use abide::engine::secret::Mask;
use std::cell::RefCell;
use std::fs::File;
use std::io::{self, Write};
use std::rc::Rc;
use std::time::{Duration, Instant};

/// Where events go. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct EventLog(Rc<RefCell<Sink>>);

#[derive(Debug, Default)]
enum Sink {
    #[default]
    Off,
    File(File),
    Stdout,
}

impl EventLog {
    /// Opens what `--events` names.
    ///
    /// # Errors
    /// The file cannot be made, or stdout is taken.
    pub fn open(given: Option<&str>, format: Format) -> Result<EventLog, Failure> {
        let sink = match given {
            None => Sink::Off,
            Some("-") if format == Format::Json => {
                return Err(Failure::usage("--events - and --format json both want stdout").hint("write --events FILE"));
            }
            Some("-") => Sink::Stdout,
            Some(path) => File::create(path)
                .map(Sink::File)
                .map_err(|error| Failure::usage(format!("--events {path}: {}", system_words(&error))))?,
        };
        Ok(EventLog(Rc::new(RefCell::new(sink))))
    }

    fn is_off(&self) -> bool {
        matches!(*self.0.borrow(), Sink::Off)
    }

    fn end(&self) {
        *self.0.borrow_mut() = Sink::Off;
    }

    fn write(&self, line: &str) -> io::Result<()> {
        match &mut *self.0.borrow_mut() {
            Sink::Off => Ok(()),
            Sink::File(file) => writeln!(file, "{line}"),
            Sink::Stdout => {
                let mut stdout = io::stdout().lock();
                writeln!(stdout, "{line}").and_then(|()| stdout.flush())
            }
        }
    }
}

/// How much a run tells on the screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Telling {
    /// Every attempt and wait: it is the only one.
    Alone,
    /// Only to whoever asked for more: others run beside it.
    InBatch,
}

/// Watches the run of one operation.
#[derive(Debug)]
pub struct Watcher<'a> {
    /// The key of the operation.
    pub key: IdempotencyKey,
    /// Where lines go.
    pub screen: Screen,
    /// How much is told there.
    pub telling: Telling,
    /// For times.
    pub clock: &'a LocalClock,
    /// Who wants to know what is in flight.
    pub signals: Signals,
    /// Where events go.
    pub events: EventLog,
    /// When the run ends.
    pub deadline: Deadline,
    /// How long a wait the partner asked for with its last answer.
    pub asked_wait: Option<Duration>,
    /// What is hidden in the partner's words.
    pub mask: Mask,
    /// Which way the attempt in flight goes.
    pub way: Taken,
}

impl Watcher<'_> {
    fn talk(&self, line: impl FnOnce() -> String) {
        if self.telling == Telling::Alone || self.screen.talk >= Talk::Verbose {
            self.screen.talk(&line());
        }
    }

    fn doing(&self, words: impl FnOnce() -> String) {
        if self.telling == Telling::Alone {
            self.screen.doing(&words());
        }
    }

    fn tell(&mut self, now: Now, happened: Happened<'_>) {
        if self.events.is_off() {
            return;
        }
        let line = event(&self.key, now.wall, self.deadline.left(now.steady), happened);
        if let Err(error) = self.events.write(&line) {
            self.events.end();
            // Whoever closed the pipe wants no more events; the run goes on.
            if error.kind() != io::ErrorKind::BrokenPipe {
                self.screen.warn(&format!("no more events: {error}"));
            }
        }
    }

    fn finished(&mut self, now: Now, finished: &Finished, exchange: &Exchange) {
        self.signals.landed(&self.key);
        self.asked_wait = finished.not_before.map(|at| at.since(now.wall));
        let way = std::mem::take(&mut self.way);
        self.talk(|| {
            let gateway = match &exchange.outcome {
                Outcome::Answered(answer) => gateway::diagnosis(answer.status, &answer.headers),
                Outcome::Unanswered { .. } => None,
            };
            let gateway = gateway.map(|words| self.mask.hide(&words));
            let detail = match self.screen.talk >= Talk::Verbose {
                true => Detail::Long { gateway: gateway.as_deref() },
                false => Detail::Short,
            };
            human::attempt(&self.key, finished, &way, detail)
        });
        self.tell(now, Happened::finished(finished));
    }

    fn waiting(&mut self, now: Now, waiting: &Waiting) {
        self.talk(|| human::waiting(&self.key, waiting, now.wall, self.clock));
        self.doing(|| format!("{}: {}", self.key, waiting.reason.words()));
        self.tell(now, Happened::waiting(waiting));
    }
}

impl Observer for Watcher<'_> {
    fn saw(&mut self, now: Now, event: Event<'_>) {
        match event {
            Event::Started { a, addr, proxy, limits } => {
                self.signals.departed(&self.key, InFlight { a: Some(a), until: Instant::now() + limits.whole });
                self.way = Taken { addr, proxy: proxy.map(Into::into) };
                self.doing(|| format!("{}: attempt {a}", self.key));
                let way = self.way.clone();
                self.tell(now, Happened::started(a, &way, limits.whole));
            }
            Event::Finished { finished, exchange } => self.finished(now, finished, exchange),
            Event::Waiting(waiting) => self.waiting(now, waiting),
            Event::RetryAfterIgnored { a } => {
                self.screen.warn(&format!("{}: attempt {a}: its Retry-After means nothing and is ignored", self.key));
            }
            Event::Asking { about } => {
                let what = match about {
                    About::Operation => "asking the partner",
                    About::Control => "asking about a control operation",
                };
                self.doing(|| format!("{}: {what}", self.key));
                self.tell(now, Happened::Asking);
            }
            Event::Asked(asked) => {
                self.talk(|| human::asked(&self.key, asked));
                self.tell(now, Happened::Asked { asked });
            }
            Event::Settled(settled) => self.tell(now, Happened::settled(settled)),
        }
    }
}
