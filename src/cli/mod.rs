//! The only reader of arguments, environment and terminal: arguments, plan, run, report, exit.

mod args;
mod asking;
mod book;
mod calibrate;
mod context;
mod control;
mod exit;
mod hints;
mod ledger;
mod ledger_place;
mod limits;
mod outcome;
mod output;
mod panics;
mod plan;
mod preview;
mod probe;
mod profile;
mod rehearse;
mod replay;
mod request;
mod resolve;
mod retention;
mod screen;
mod send;
mod signals;
mod state;
mod status;
mod trust;
mod verify;
mod watch;
mod way;
mod world;

use crate::report::paint::Paint;
use crate::report::time::LocalClock;
use abide::drive::Clock;
use abide::engine::moment::Now;
use abide::net::clock::{Interrupt, SystemClock, Wall};
use abide::net::{SystemRoots, Tls};
use abide::store::jsonl::Jsonl;
use args::{Cli, Command, Common, LedgerCommand};
use clap::Parser;
use clap::error::ErrorKind;
use context::{Context, setting};
use exit::{Exit, Failure};
use jiff::tz::TimeZone;
use screen::{Screen, Talk};
use std::cell::RefCell;
use std::io::Write;
use tokio::runtime::Runtime;

/// Reads the process, does what it asks, and ends it.
pub fn main() -> ! {
    let exit = run(std::env::args_os().collect());
    // A closed stdout is no failure of ours, and everything that matters is in the ledger.
    let _ = std::io::stdout().flush();
    std::process::exit(exit.code())
}

/// The form of what goes to stdout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// For people.
    Text,
    /// One JSON document.
    Json,
}

/// What every command is given.
#[derive(Debug)]
pub struct Session {
    /// The process.
    pub context: Context,
    /// Runs since the process began.
    pub clock: SystemClock,
    /// stderr.
    pub screen: Screen,
    /// What stdout gets.
    pub format: Format,
    /// What every command takes.
    pub common: Common,
    /// For times.
    pub local: LocalClock,
    /// The profiles of recorded operations.
    pub profiles: asking::Profiles,
    /// How stdout is coloured.
    pub stdout_paint: Paint,
    /// What this machine trusts.
    pub roots: SystemRoots,
    /// Connections that trust it, and show nothing.
    pub tls: Tls,
    /// The ledgers that were opened to be written to.
    pub ledgers: RefCell<Vec<Jsonl>>,
}

impl Session {
    /// Reads both clocks.
    pub fn now(&self) -> Now {
        self.clock(Interrupt::default()).now()
    }

    /// Returns the clock of a run whose waits `interrupt` ends.
    pub fn clock(&self, interrupt: Interrupt) -> SystemClock {
        self.clock.with(self.context.wall_clock(), interrupt)
    }

    /// Prints a text and a line break to stdout. A closed stdout ends quietly.
    ///
    /// # Errors
    /// stdout cannot be written.
    pub fn print(&self, text: &str) -> Result<(), Failure> {
        output::print(format!("{text}\n").as_bytes(), false)
    }

    /// Prints a text with a line break, and returns whether somebody still reads it.
    ///
    /// # Errors
    /// Whatever the system says but that nobody does.
    pub fn is_read(&self, text: &str) -> Result<bool, Failure> {
        output::is_read(format!("{text}\n").as_bytes(), false)
    }

    /// Returns whether a table may be drawn over and over: somebody watches both outputs.
    pub fn draws_tables(&self) -> bool {
        self.wants_spinner() && self.context.stdout_is_terminal
    }

    /// Returns whether a spinner is wanted: on a terminal only, and never where nobody watches.
    pub fn wants_spinner(&self) -> bool {
        let context = &self.context;
        context.stderr_is_terminal && !context.is_ci && !self.common.no_progress && self.screen.talk > Talk::Quiet
    }
}

fn run(argv: Vec<std::ffi::OsString>) -> Exit {
    let clock = SystemClock::new(Wall::System, Interrupt::default());
    let words: Vec<String> = argv.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let cli = match Cli::try_parse_from(&argv) {
        Ok(cli) => cli,
        Err(error) => return probe::as_plugin(refused(&error, &words), &words),
    };
    panics::install(cli.common.debug);
    let plain = Screen::new(Talk::Normal, Paint::Plain);
    let session = match session(clock, cli.common, &cli.command) {
        Ok(session) => session,
        Err(failure) => return probe::as_plugin(tell(&plain, &failure), &words),
    };
    let exit = match dispatch(cli.command, &session) {
        Ok(exit) => exit,
        Err(failure) => {
            session.screen.calm();
            tell(&session.screen, &failure)
        }
    };
    book::keep_up(&session);
    exit
}

fn dispatch(command: Command, session: &Session) -> Result<Exit, Failure> {
    match command {
        Command::Send(args) => send::send(&args, session),
        Command::Replay(args) => replay::run(&args, session),
        Command::Probe(args) => probe::run(&args, session),
        Command::Resolve(args) => resolve::run(&args, session),
        Command::Status(args) => status::run(&args, session),
        Command::Ledger(command) => ledger::run(&command, session),
        Command::Profile(command) => profile::run(&command, session),
        Command::Calibrate(args) => calibrate::run(&args, session),
        Command::Rehearse(args) => rehearse::run(&args, session),
    }
}

fn session(clock: SystemClock, common: Common, command: &Command) -> Result<Session, Failure> {
    let context = Context::from_process()?;
    let format = match setting("format", common.format.as_deref())? {
        // An export has formats of its own.
        _ if matches!(command, Command::Ledger(LedgerCommand::Export(_))) => Format::Text,
        None => Format::Text,
        Some(given) => match given.text.as_str() {
            "text" => Format::Text,
            "json" => Format::Json,
            _ => return Err(given.refuse("the formats are text and json")),
        },
    };
    let is_coloured = match setting("color", common.color.as_deref())? {
        None => None,
        Some(given) => match given.text.as_str() {
            "auto" => None,
            "always" => Some(true),
            "never" => Some(false),
            _ => return Err(given.refuse("colours are auto, always or never")),
        },
    };
    let wants_colours = colours_are_welcome()?;
    let talk = match (common.quiet, common.verbose) {
        (true, _) => Talk::Quiet,
        (false, 0) => Talk::Normal,
        (false, _) => Talk::Verbose,
    };
    let paint = |is_terminal: bool| match is_coloured.unwrap_or(is_terminal && wants_colours) {
        true => Paint::Colours,
        false => Paint::Plain,
    };
    let screen = Screen::new(talk, paint(context.stderr_is_terminal));
    let stdout_paint = paint(context.stdout_is_terminal);
    let local = LocalClock::new(TimeZone::system);
    let roots = trust::system();
    let tls = Tls::system(roots.clone());
    let (profiles, ledgers) = (asking::Profiles::default(), RefCell::default());
    Ok(Session { context, clock, screen, stdout_paint, format, common, local, profiles, roots, tls, ledgers })
}

/// Source: no-color.org: only a variable that is not empty counts.
fn colours_are_welcome() -> Result<bool, Failure> {
    let is_dumb = context::variable("TERM")?.as_deref() == Some("dumb");
    Ok(context::variable("NO_COLOR")?.is_none() && !is_dumb)
}

/// Returns the runtime of a command that waits: built by hand, so that leaving it waits for nothing.
///
/// # Errors
/// The system has no room for it.
pub fn runtime() -> Result<Runtime, Failure> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::local(error).while_doing("the runtime cannot be started"))
}

/// Prints what was refused before anything was read, with a hint where fingers that know another tool typed it.
fn refused(error: &clap::Error, argv: &[String]) -> Exit {
    if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) {
        // A closed stdout ends quietly.
        let _ = error.print();
        return Exit::Fine;
    }
    if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        let _ = error.print();
        return Exit::Usage;
    }
    match hints::advise(error, argv) {
        Some(advice) => {
            let message = advice.message.unwrap_or_else(|| first_line(error));
            eprintln!("error: {message}\nhint: {}", advice.hint);
        }
        None => {
            let _ = error.print();
        }
    }
    Exit::Usage
}

/// Returns clap's own words without its usage and tips.
fn first_line(error: &clap::Error) -> String {
    let text = error.render().to_string();
    let line = text.lines().next().unwrap_or_default();
    line.strip_prefix("error: ").unwrap_or(line).to_owned()
}

/// Prints a failure and returns its status.
fn tell(screen: &Screen, failure: &Failure) -> Exit {
    screen.say(&format!("{} {:#}", screen.paint.red("error:"), failure.error));
    if let Some(hint) = &failure.hint {
        screen.say(&format!("{} {hint}", screen.paint.bold("hint:")));
    }
    failure.exit
}
