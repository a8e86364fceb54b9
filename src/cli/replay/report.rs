//! What a replay tells: before, while it works, and at the end.

use super::super::exit::{Exit, Failure};
use super::super::screen::Talk;
use super::super::watch::Telling;
use super::super::{Format, Session, status};
use super::batch::Done;
use super::choose::Member;
use super::settings::Settings;
use super::task::Task;
use crate::report::human::{self, Verdicted};
use crate::report::json::line;
use crate::report::junit::junit;
use crate::report::known::{Known, State};
use crate::report::replay::{self, Counts, Replayed, ReplayedOne, operations, summary};
use crate::report::table::table;
use abide::engine::moment::Now;
use abide::engine::units::show_rounded;
use abide::engine::verdict::Verdict;
use nix::sys::signal::Signal;

/// No more operations are listed above a question.
const LISTED: usize = 20;

/// Tells.
#[derive(Debug)]
pub struct Report<'a> {
    /// What was asked for.
    pub settings: &'a Settings<'a>,
    /// The process.
    pub session: &'a Session,
    /// The operations.
    pub members: &'a [Member],
    /// What is done with each.
    pub tasks: &'a [Task],
    /// When it began.
    pub began: Now,
}

impl Report<'_> {
    /// Prints what would be done and why.
    ///
    /// # Errors
    /// stdout cannot be written.
    pub fn dry_run(&self) -> Result<Exit, Failure> {
        if self.session.format == Format::Json {
            let planned: Vec<Done> =
                self.members.iter().zip(self.tasks).map(|(m, t)| Done::left(m, words(t))).collect();
            self.print_document(&planned, Exit::Fine, None, None)?;
            return Ok(Exit::Fine);
        }
        if !self.members.is_empty() {
            self.session.print(&self.plan(usize::MAX))?;
        }
        self.session.print(&format!("{}; nothing was sent", self.due()))?;
        Ok(Exit::Fine)
    }

    /// Says what would be replayed, for a question about it.
    pub fn list(&self) {
        let more = match self.members.len().saturating_sub(LISTED) {
            0 => String::new(),
            more => format!("\n… and {more} more: --dry-run shows them all"),
        };
        self.session.screen.say(&format!("{}{more}\n{}", self.plan(LISTED), self.due()));
    }

    fn plan(&self, most: usize) -> String {
        let rows = self.members.iter().zip(self.tasks).take(most).map(|(member, task)| {
            let opened = member.found.history.opened();
            let request = format!("{} {}", opened.method, opened.url);
            vec![member.found.key.to_string(), member.state.words(), request, words(task)]
        });
        table(&["key", "state", "request", "what would be done"], rows.collect())
    }

    fn due(&self) -> String {
        let due = self.tasks.iter().filter(|task| matches!(task, Task::Run(_))).count();
        match self.members.len() - due {
            0 => format!("{} due", operations(due)),
            left => format!("{} due, {left} not", operations(due)),
        }
    }

    /// Tells what became of one operation: a line, or its whole verdict where it is the only one.
    pub fn one(&self, member: &Member, done: &Done, telling: Telling) {
        let screen = &self.session.screen;
        let is_confirmed = done.state.verdict() == Some(Verdict::Confirmed);
        if is_confirmed && screen.talk == Talk::Quiet {
            return;
        }
        let shown = self.shown(member, done);
        if telling == Telling::Alone && done.left.is_none() {
            let verdicted =
                Verdicted { advice: &shown.advice, budget: None, asked_wait: None, message: None, paint: screen.paint };
            return screen.say(&human::verdict(&shown.known, &verdicted));
        }
        // On a terminal the bar counts what is well; in a log every operation has its line.
        if !(is_confirmed && done.left.is_none() && self.session.wants_spinner()) {
            screen.say(&shown.line(screen.paint));
        }
    }

    fn shown<'b>(&self, member: &'b Member, done: &'b Done) -> replay::Member<'b> {
        let found = &member.found;
        let known =
            Known { partner: &found.partner, key: &found.key, history: &done.history, state: done.state.clone() };
        let ledger = self.settings.shown_path().ok().flatten();
        let advice = status::advice(&known, ledger, self.session);
        replay::Member { known, advice, left: done.left.as_deref(), took: done.took }
    }

    /// Tells what came of everything and returns the status to leave with.
    ///
    /// # Errors
    /// stdout or the JUnit report cannot be written.
    pub fn replayed(&self, done: &[Done], signal: Option<Signal>, now: Now) -> Result<Exit, Failure> {
        let exit = signal.map_or_else(|| self.worst(done), Exit::Signal);
        let took = now.steady.since(self.began.steady);
        if let Some(path) = &self.settings.args.show.report_junit {
            super::save(path, &junit(&self.all(done), self.began.wall, took))?;
        }
        if self.session.format == Format::Json {
            let ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
            self.print_document(done, exit, signal, Some(ms))?;
            return Ok(exit);
        }
        if done.is_empty() {
            self.session.print("0 operations due")?;
            return Ok(exit);
        }
        let run = done.iter().filter(|done| done.left.is_none()).count();
        let due = self.tasks.iter().filter(|task| matches!(task, Task::Run(_))).count();
        let head = match due {
            0 => format!("0 operations due, {} not sent", done.len()),
            _ => format!("{run} of {} replayed in {}", operations(done.len()), show_rounded(took)),
        };
        if self.session.format == Format::Text && self.settings.args.show.events.as_deref() != Some("-") {
            self.session.print(&format!("{}\n\n{head}", summary(&self.all(done))))?;
        }
        Ok(exit)
    }

    fn all<'b>(&'b self, done: &'b [Done]) -> Vec<replay::Member<'b>> {
        self.members.iter().zip(done).map(|(member, done)| self.shown(member, done)).collect()
    }

    /// Returns the worst status, in the order 70, 6, 4, 1, 7, 3, 5, 0; 2 where nothing could be built at all.
    ///
    /// Source: product.md section 2.
    fn worst(&self, done: &[Done]) -> Exit {
        let is_refused = |task: &Task| matches!(task, Task::Refuse(_));
        if !self.tasks.is_empty() && self.tasks.iter().all(is_refused) {
            return Exit::Usage;
        }
        let exits = done.iter().map(|done| match (&done.state, done.state.verdict()) {
            (_, Some(verdict)) => Exit::from(verdict),
            (State::Running(_), None) => Exit::Accepted,
            (_, None) => Exit::NotDone,
        });
        exits.max_by_key(|exit| exit.badness()).unwrap_or(Exit::Fine)
    }

    fn print_document(
        &self,
        done: &[Done],
        exit: Exit,
        signal: Option<Signal>,
        took_ms: Option<u64>,
    ) -> Result<(), Failure> {
        let all = self.all(done);
        let document = Replayed {
            schema: "abide.replay/1",
            exit: exit.code(),
            ledger: self.settings.path.display().to_string(),
            dry_run: self.settings.args.show.dry_run,
            signal: signal.map(Signal::as_str),
            selected: done.len(),
            run: done.iter().filter(|done| done.left.is_none()).count(),
            counts: Counts::of(done.iter().map(|done| &done.state)),
            took_ms,
            operations: all.iter().map(ReplayedOne::of).collect(),
        };
        self.session.print(&line(&document))
    }
}

/// Returns what is done with an operation and why.
fn words(task: &Task) -> String {
    match task {
        Task::Run(job) => job.first.clone(),
        Task::Leave(why) | Task::Refuse(why) => format!("nothing: {why}"),
    }
}
