//! `--count` and `--watch`: probes one after the other until they are enough, or a signal comes.

use super::super::args::ProbeArgs;
use super::super::exit::{Exit, Failure};
use super::super::signals::Signals;
use super::super::{Format, Session, limits, output, way};
use super::plan::Plan;
use super::watched::Watched;
use super::{WIDTH, exit, forecast_of};
use crate::report::json::line;
use crate::report::probe::Probed;
use crate::report::probe::document::Document;
use crate::report::probe::live::{changed, table};
use crate::report::progress;
use crate::report::rounds::Rounds;
use crate::report::table::terminal_width;
use abide::drive::Clock;
use abide::engine::diagnose::observations::Observations;
use abide::engine::diagnose::{Diagnosis, diagnose};
use abide::engine::moment::Timestamp;
use abide::engine::secret::Mask;
use abide::engine::units::show_rounded;
use abide::net::clock::Interrupt;
use std::future::Future;
use std::time::Duration;

/// The usual time from one begin to the next.
///
/// Source: product.md section 3.
const EVERY: Duration = Duration::from_secs(5);

/// How many probes, and how far apart.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// How many; `None`: until a signal comes.
    count: Option<u64>,
    /// From the begin of one to the begin of the next, at least.
    every: Duration,
}

impl Pace {
    /// Reads the arguments; `None` where one probe is wanted.
    ///
    /// # Errors
    /// What is no number or duration, or makes no sense with one probe.
    pub fn read(args: &ProbeArgs) -> Result<Option<Pace>, Failure> {
        let every = limits::duration("every", args.every.as_deref())?;
        let count = args.count.as_deref().map(|text| match text.parse() {
            Ok(count @ 1u64..) => Ok(count),
            _ => Err(Failure::usage(format!("--count {text}: not a number of probes, such as 5"))),
        });
        match (count.transpose()?, args.watch) {
            (None, false) if args.every.is_some() => {
                Err(Failure::usage("--every is for --watch or --count N").hint("add --watch: it ends with Ctrl-C"))
            }
            (None, false) => Ok(None),
            (count, _) => Ok(Some(Pace { count, every: every.unwrap_or(EVERY) })),
        }
    }
}

/// Probes at this pace, and returns the status of the worst of the last three; that of a signal where one came.
///
/// # Errors
/// stdout cannot be written.
pub fn run(mut plan: Plan, pace: Pace, args: &ProbeArgs, session: &Session) -> Result<Exit, Failure> {
    let interrupt = Interrupt::default();
    let mut clock = session.clock(interrupt.clone());
    let ended = interrupt.clone();
    let signals = Signals::take(session.screen.clone(), move || ended.set())?;
    let runtime = super::super::runtime()?;
    let mut show = Show::new(&plan, pace, args, session);
    let mut left = pace.count;
    while left != Some(0) && !interrupt.is_set() {
        // Each round looks names up anew.
        plan.probe.names = way::names(&args.resolve)?;
        let now = clock.now();
        let Some(seen) = runtime.block_on(unless(&interrupt, abide::probe::probe(&plan.probe))) else { break };
        if !show.round(&plan, now.wall, &seen)? {
            break;
        }
        left = left.map(|left| left - 1);
        if left != Some(0) {
            runtime.block_on(clock.wait(now.steady.after(pace.every)));
        }
    }
    runtime.shutdown_background();
    show.end()?;
    match signals.first() {
        Some(signal) => Ok(Exit::Signal(signal)),
        None => Ok(show.rounds.worst().map_or(Exit::Fine, |worst| exit(worst, args))),
    }
}

/// What is shown of the rounds: a table on a terminal, else a line or a document for each.
struct Show<'a> {
    session: &'a Session,
    /// What the table says above it; `None` where there is no table.
    title: Option<String>,
    rounds: Rounds,
    watched: Watched,
    last: Option<Diagnosis>,
}

impl<'a> Show<'a> {
    fn new(plan: &Plan, pace: Pace, args: &ProbeArgs, session: &'a Session) -> Show<'a> {
        let has_table = args.watch && session.format == Format::Text && session.draws_tables();
        let title = has_table.then(|| {
            let (request, every) = (&plan.probe.request, show_rounded(pace.every));
            format!("watch {} {}  every {every}, Ctrl-C ends it", request.method, request.url.shown)
        });
        let show = Show { session, title, rounds: Rounds::default(), watched: Watched::default(), last: None };
        if show.title.is_some() {
            session.screen.spin(progress::drawn_anew());
            show.draw(&plan.probe.mask);
        }
        show
    }

    /// Shows a round, and returns whether somebody still looks.
    fn round(&mut self, plan: &Plan, started: Timestamp, seen: &Observations) -> Result<bool, Failure> {
        let found = diagnose(seen);
        let told = self.rounds.add(started, seen, &found);
        self.watched.add(seen);
        if self.title.is_some() {
            if told.is_change {
                let change = changed(started, &found, self.session.screen.paint, width());
                self.session.screen.say(&change);
            }
            self.last = Some(found);
            self.draw(&plan.probe.mask);
            return Ok(true);
        }
        let text = match self.session.format {
            Format::Text => plan.probe.mask.hide(&told.text),
            Format::Json => {
                let send = forecast_of(plan, seen);
                let (partner, send) = (plan.partner.as_str(), send.as_deref());
                line(&Document::new(&Probed { partner, started, seen, found: &found, attempts: &[], send }))
            }
        };
        output::is_read(format!("{text}\n").as_bytes(), false)
    }

    /// Draws the table below a blank line: the `^C` that a terminal echoes makes it a line longer than it was drawn, and
    /// the topmost one stays behind.
    fn draw(&self, mask: &Mask) {
        self.session.screen.doing(&format!(" \n{}", mask.hide(&self.table())));
    }

    /// Leaves the last table behind, where there was one, and says what all rounds come to.
    fn end(&self) -> Result<(), Failure> {
        self.session.screen.calm();
        if self.title.is_some() {
            self.session.print(&self.table())?;
        }
        self.session.screen.talk(&self.rounds.summary(self.watched.first_byte()));
        Ok(())
    }

    fn table(&self) -> String {
        let title = self.title.as_deref().unwrap_or_default();
        table(&self.watched.live(title, self.last.as_ref(), self.rounds.signs()), self.session.stdout_paint, width())
    }
}

/// Returns the columns that a table may take: one less than there are, else a full line breaks by itself.
fn width() -> usize {
    terminal_width().map_or(WIDTH, |width| usize::from(width).saturating_sub(1))
}

/// Waits for a probe; `None` where a signal comes first. It has sent nothing that matters: it is let go.
pub(super) async fn unless<T>(interrupt: &Interrupt, probe: impl Future<Output = T>) -> Option<T> {
    tokio::select! {
        seen = probe => Some(seen),
        () = interrupt.wait() => None,
    }
}
