//! Tells what a run does while it does it: lines on stderr, the spinner, events, and what a signal may say.

use super::screen::{Screen, Talk};
use super::signals::{InFlight, Signals};
use crate::report::events::{Happened, event};
use crate::report::human::{self, Detail};
use crate::report::time::LocalClock;
use abide::drive::{Event, Observer};
use abide::engine::deadline::Deadline;
use abide::engine::facts::{About, Finished, Waiting};
use abide::engine::moment::Now;
use abide::engine::operation::IdempotencyKey;
use std::fs::File;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// Where events go.
#[derive(Debug)]
pub enum EventLog {
    /// Nowhere.
    Off,
    /// Into a file.
    File(File),
    /// To stdout.
    Stdout,
}

impl EventLog {
    fn write(&mut self, line: &str) -> io::Result<()> {
        match self {
            EventLog::Off => Ok(()),
            EventLog::File(file) => writeln!(file, "{line}"),
            EventLog::Stdout => {
                let mut stdout = io::stdout().lock();
                writeln!(stdout, "{line}").and_then(|()| stdout.flush())
            }
        }
    }
}

/// Watches the run of one operation.
#[derive(Debug)]
pub struct Watcher<'a> {
    /// The key of the operation.
    pub key: IdempotencyKey,
    /// Where lines go.
    pub screen: Screen,
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
    /// Where the attempt in flight goes.
    pub addr: Option<SocketAddr>,
}

impl Watcher<'_> {
    fn tell(&mut self, now: Now, happened: Happened<'_>) {
        if matches!(self.events, EventLog::Off) {
            return;
        }
        let line = event(&self.key, now.wall, self.deadline.left(now.steady), happened);
        if let Err(error) = self.events.write(&line) {
            self.events = EventLog::Off;
            // Whoever closed the pipe wants no more events; the run goes on.
            if error.kind() != io::ErrorKind::BrokenPipe {
                self.screen.warn(&format!("no more events: {error}"));
            }
        }
    }

    fn finished(&mut self, now: Now, finished: &Finished) {
        self.signals.in_flight(None);
        self.asked_wait = finished.not_before.map(|at| at.since(now.wall));
        let detail = if self.screen.talk >= Talk::Verbose { Detail::Long } else { Detail::Short };
        let addr = self.addr.take();
        self.screen.talk(&human::attempt(&self.key, finished, addr, detail));
        self.tell(now, Happened::finished(finished));
    }

    fn waiting(&mut self, now: Now, waiting: &Waiting) {
        let line = human::waiting(&self.key, waiting, now.wall, self.clock);
        self.screen.talk(&line);
        self.screen.doing(&format!("{}: {}", self.key, waiting.reason.words()));
        self.tell(now, Happened::waiting(waiting));
    }
}

impl Observer for Watcher<'_> {
    fn saw(&mut self, now: Now, event: Event<'_>) {
        match event {
            Event::Started { a, addr, limits } => {
                self.signals.in_flight(Some(InFlight { a, until: Instant::now() + limits.whole }));
                self.addr = addr;
                self.screen.doing(&format!("{}: attempt {a}", self.key));
                self.tell(now, Happened::started(a, addr, limits.whole));
            }
            Event::Finished { finished, .. } => self.finished(now, finished),
            Event::Waiting(waiting) => self.waiting(now, waiting),
            Event::RetryAfterIgnored { a } => {
                self.screen.warn(&format!("{}: attempt {a}: its Retry-After means nothing and is ignored", self.key));
            }
            Event::Asking { about } => {
                let what = match about {
                    About::Operation => "asking the partner",
                    About::Control => "asking about a control operation",
                };
                self.screen.doing(&format!("{}: {what}", self.key));
                self.tell(now, Happened::Asking);
            }
            Event::Asked(asked) => {
                self.screen.talk(&human::asked(&self.key, asked));
                self.tell(now, Happened::Asked { asked });
            }
            Event::Settled(settled) => self.tell(now, Happened::settled(settled)),
        }
    }
}
