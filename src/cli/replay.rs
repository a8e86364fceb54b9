//! `abide replay`: brings unsettled operations of a ledger to a verdict.

mod batch;
mod choose;
mod queue;
mod report;
mod seats;
mod settings;
mod task;

use super::args::ReplayArgs;
use super::exit::{Exit, Failure};
use super::signals::Signals;
use super::watch::{EventLog, Telling};
use super::{Format, Session, book, retention, state};
use crate::report::known::State;
use crate::report::progress;
use crate::report::replay::{Tally, operations};
use abide::drive::Clock;
use abide::engine::facts::StoredBody;
use abide::engine::moment::Now;
use abide::net::Names;
use abide::net::clock::{Interrupt, SystemClock};
use abide::store::jsonl::this_process;
use batch::{Batch, Done};
use choose::{Chosen, Member};
use queue::Queue;
use report::Report;
use settings::Settings;
use std::cell::RefCell;
use std::io::BufRead;
use task::{Planner, Task};

/// Replays, and returns the status to leave with.
///
/// # Errors
/// Whatever kept it from choosing or recording. A partner's misbehaviour is no error.
pub fn run(args: &ReplayArgs, session: &Session) -> Result<Exit, Failure> {
    let interrupt = Interrupt::default();
    let clock = session.clock(interrupt.clone());
    let began = clock.now();
    let settings = Settings::read(args, session, began.wall)?;
    let chosen = Chosen::read(&settings, session, began)?;
    let mut planner = Planner::new(&settings, &chosen, session, began);
    let tasks: Vec<Task> = chosen.members.iter().map(|member| planner.task(member)).collect();
    let is_hashed = |member: &Member| matches!(member.found.history.opened().body, StoredBody::Hash { .. });
    if settings.data.is_some() && !chosen.members.iter().any(is_hashed) {
        session.screen.warn("-d is ignored: the ledger has the bodies, and they are sent as they were");
    }
    let report = Report { settings: &settings, session, members: &chosen.members, tasks: &tasks, began };
    if args.show.dry_run {
        return report.dry_run();
    }
    let due = tasks.iter().filter(|task| matches!(task, Task::Run(_))).count();
    consent(&settings, session, &report, due)?;
    let replay = Replay { settings: &settings, session, chosen: &chosen, tasks: &tasks, due, began };
    let exit = replay.run(&report, interrupt, clock);
    keep((tasks, chosen));
    exit
}

/// Keeps values until the process ends, which is near: to give back the pieces of ten thousand operations one by one takes
/// a twentieth of the time that their replay takes.
fn keep<T>(values: T) {
    std::mem::forget(values);
}

/// Makes sure that somebody wants this, where that is not certain.
fn consent(settings: &Settings<'_>, session: &Session, report: &Report<'_>, due: usize) -> Result<(), Failure> {
    let args = settings.args;
    if due == 0 || args.risk.yes {
        return Ok(());
    }
    if settings.is_sweeping()? {
        report.list();
        let question = format!("replay {} of the default ledger?", operations(due));
        let refusal = Failure::usage("nothing says which operations of the default ledger are meant; nothing was sent")
            .hint("name a KEY, -p PROFILE or --only STATE; --all takes them all");
        ask(session, &question, refusal)?;
    }
    if args.risk.accept_duplicate {
        let question = format!("{} may then be done twice. Go on?", operations(due));
        let refusal =
            Failure::usage("--accept-duplicate may do things twice, and nobody can be asked; nothing was sent")
                .hint("--yes says that it is meant");
        ask(session, &question, refusal)?;
    }
    Ok(())
}

fn ask(session: &Session, question: &str, refusal: Failure) -> Result<(), Failure> {
    if !session.context.stdin_is_terminal || !session.context.stderr_is_terminal {
        return Err(refusal);
    }
    session.screen.ask(&format!("{question} [y/N] "));
    let mut answer = String::new();
    let read = std::io::stdin().lock().read_line(&mut answer);
    match (read, answer.trim().to_ascii_lowercase().as_str()) {
        (Ok(_), "y" | "yes") => Ok(()),
        _ => Err(Failure::usage("not confirmed; nothing was sent")),
    }
}

struct Replay<'a> {
    settings: &'a Settings<'a>,
    session: &'a Session,
    chosen: &'a Chosen,
    tasks: &'a [Task],
    due: usize,
    began: Now,
}

impl Replay<'_> {
    fn run(&self, report: &Report<'_>, interrupt: Interrupt, clock: SystemClock) -> Result<Exit, Failure> {
        let (session, settings, members) = (self.session, self.settings, &self.chosen.members);
        let events = EventLog::open(settings.args.show.events.as_deref(), session.format)?;
        let signals = Signals::take(session.screen.clone(), move || interrupt.set())?;
        let telling = if self.due == 1 { Telling::Alone } else { Telling::InBatch };
        let tally = RefCell::new(Tally::default());
        let tell = |member: &Member, done: &Done| {
            report.one(member, done, telling);
            if telling == Telling::InBatch && done.left.is_none() {
                let mut tally = tally.borrow_mut();
                tally.add(&done.state);
                session.screen.count(|| format!(": {}", tally.words()));
            }
        };
        let waiting = (0..members.len()).filter(|at| matches!(self.tasks[*at], Task::Run(_)));
        let batch = Batch {
            session,
            members,
            tasks: self.tasks,
            queue: Queue::new(waiting, settings.rate),
            done: RefCell::new(vec![None; members.len()]),
            signals: signals.clone(),
            events,
            telling,
            end: settings.total.map(|total| self.began.steady.after(total)),
            rejected_too: settings.rejected_too(),
            failure: RefCell::new(None),
            tell: &tell,
            names: Names::default(),
            owner: this_process(),
        };
        self.leave(&batch);
        if self.due > 0 {
            self.work(&batch, &clock)?;
        }
        session.screen.calm();
        let failure = batch.failure.take();
        let unbegun = unbegun(failure.is_some(), signals.first().is_some());
        let mut done: Vec<Done> = Vec::with_capacity(members.len());
        for (member, outcome) in members.iter().zip(batch.done.take()) {
            done.push(outcome.unwrap_or_else(|| Done::left(member, unbegun)));
        }
        self.look_again(&mut done);
        let exit = report.replayed(&done, signals.first(), clock.now())?;
        keep(done);
        match failure {
            Some(failure) => Err(failure),
            None => {
                // Everything is told, and nobody has said by when it must be over.
                book::keep_up(session);
                if signals.first().is_none() && settings.total.is_none() {
                    retention::tidy(&settings.path, settings.choice(), session, &signals);
                }
                Ok(signals.first().map_or(exit, Exit::Signal))
            }
        }
    }

    /// Keeps what is not run, and tells it, but to somebody at a terminal whom only the table would follow.
    fn leave(&self, batch: &Batch<'_>) {
        let has_table = self.session.context.stderr_is_terminal && self.session.format == Format::Text;
        for (at, task) in self.tasks.iter().enumerate() {
            let (Task::Leave(why) | Task::Refuse(why)) = task else { continue };
            let done = Done::left(&self.chosen.members[at], why.clone());
            match self.due == 0 && has_table {
                true => batch.done.borrow_mut()[at] = Some(done),
                false => batch.record(at, done),
            }
        }
    }

    fn work(&self, batch: &Batch<'_>, clock: &SystemClock) -> Result<(), Failure> {
        let (session, settings) = (self.session, self.settings);
        let ledger = book::open(&settings.path, settings.choice(), session)?;
        if session.wants_spinner() {
            session.screen.spin(match batch.telling {
                Telling::Alone => progress::spinner(self.longest()),
                Telling::InBatch => progress::bar(self.due),
            });
        }
        if settings.args.pace.jobs > 1 && self.due > 1 {
            ledger.sync_beside();
        }
        let runtime = super::runtime()?;
        runtime.block_on(batch.work(settings.args.pace.jobs, &ledger, clock));
        // A name lookup may still hang on a thread of its own: nothing waits for it.
        runtime.shutdown_background();
        // What the claims had to mend.
        book::warn(&session.screen, ledger.warnings());
        Ok(())
    }

    /// Returns the time of the longest run.
    fn longest(&self) -> std::time::Duration {
        let overall = self.tasks.iter().map(|task| match task {
            Task::Run(job) => job.policy.timeouts.overall,
            Task::Leave(_) | Task::Refuse(_) => std::time::Duration::ZERO,
        });
        let longest = overall.max().unwrap_or_default();
        self.settings.total.map_or(longest, |total| longest.min(total))
    }

    /// Looks whether another process has settled meanwhile what it was working on.
    fn look_again(&self, done: &mut [Done]) {
        let is_busy = |done: &Done| matches!(done.state, State::Running(_));
        if !done.iter().any(is_busy) {
            return;
        }
        // What cannot be read stays as it was seen.
        let Ok(reader) = book::read(&self.settings.path, self.settings.choice(), self.session) else { return };
        for (member, done) in self.chosen.members.iter().zip(done).filter(|(_, done)| is_busy(done)) {
            let found = reader.find(&member.found.key, Some(&member.found.partner));
            if let Some(found) = found.ok().and_then(|mut found| found.pop()) {
                done.state = state::of(&found.history, found.standing, self.session.now());
                done.history = found.history;
                if !is_busy(done) {
                    done.left = Some("another process has worked on it".into());
                }
            }
        }
    }
}

/// Returns why an operation was not begun.
fn unbegun(has_failed: bool, is_stopped: bool) -> &'static str {
    match (has_failed, is_stopped) {
        (true, _) => "the ledger failed before it was begun",
        (false, true) => "a signal came before it was begun",
        (false, false) => "--total-deadline was over before it was begun",
    }
}

/// Writes a file at the end, with a message where that fails.
fn save(path: &std::path::Path, text: &str) -> Result<(), Failure> {
    std::fs::write(path, text)
        .map_err(|error| Failure::local(error).while_doing(format!("--report-junit {}", path.display())))
}
