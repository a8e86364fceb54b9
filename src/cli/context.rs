//! What the process was started with: environment, folders, terminal, and what tests fix.

use super::exit::Failure;
use abide::engine::moment::Timestamp;
use abide::net::clock::Wall;
use std::io::{self, IsTerminal};
use std::path::PathBuf;

/// What the process was started with.
#[derive(Debug)]
pub struct Context {
    /// The working folder.
    pub cwd: PathBuf,
    /// `CI` is set: nobody is watching and the machine is thrown away.
    pub is_ci: bool,
    /// stdin is a terminal: somebody can be asked.
    pub stdin_is_terminal: bool,
    /// stderr is a terminal.
    pub stderr_is_terminal: bool,
    /// stdout is a terminal.
    pub stdout_is_terminal: bool,
    /// Chance, fixed by a test.
    pub seed: Option<u64>,
    /// The wall clock at the start, fixed by a test.
    pub wall: Option<Timestamp>,
}

impl Context {
    /// Reads the process.
    ///
    /// # Errors
    /// The working folder is gone, or a test variable is malformed.
    pub fn from_process() -> Result<Context, Failure> {
        let cwd = std::env::current_dir()
            .map_err(|error| Failure::local(error).while_doing("the working folder cannot be read"))?;
        let seed = match variable("ABIDE_TEST_SEED")? {
            Some(text) => Some(text.parse().map_err(|_| Failure::usage("ABIDE_TEST_SEED is not a number"))?),
            None => None,
        };
        let wall = match variable("ABIDE_TEST_NOW")? {
            Some(text) => Some(text.parse().map_err(|error| Failure::usage(format!("ABIDE_TEST_NOW: {error}")))?),
            None => None,
        };
        Ok(Context {
            cwd,
            is_ci: variable("CI")?.is_some(),
            stdin_is_terminal: io::stdin().is_terminal(),
            stderr_is_terminal: io::stderr().is_terminal(),
            stdout_is_terminal: io::stdout().is_terminal(),
            seed,
            wall,
        })
    }

    /// Returns where the wall-clock time comes from.
    pub fn wall_clock(&self) -> Wall {
        self.wall.map_or(Wall::System, Wall::Fixed)
    }

    /// Returns the folder for configuration, if there is a home at all.
    pub fn config_home(&self) -> Option<PathBuf> {
        xdg("XDG_CONFIG_HOME", ".config")
    }

    /// Returns the folder for state.
    ///
    /// # Errors
    /// Neither `XDG_STATE_HOME` nor `HOME` names one.
    pub fn state_home(&self) -> Result<PathBuf, Failure> {
        xdg("XDG_STATE_HOME", ".local/state")
            .ok_or_else(|| Failure::usage("there is no home folder for the default ledger").hint("pass --ledger PATH"))
    }
}

/// Returns an absolute path from `name`, else `below` in the home folder.
///
/// Source: XDG Base Directory Specification: a relative path is to be ignored.
fn xdg(name: &str, below: &str) -> Option<PathBuf> {
    let set = std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let home = || std::env::var_os("HOME").map(PathBuf::from).filter(|home| home.is_absolute());
    set.or_else(|| home().map(|home| home.join(below)))
}

/// Returns a variable; an empty one counts as unset.
///
/// # Errors
/// It is not UTF-8.
pub fn variable(name: &str) -> Result<Option<String>, Failure> {
    match std::env::var(name) {
        Ok(text) => Ok((!text.is_empty()).then_some(text)),
        Err(std::env::VarError::NotPresent) => Ok(None),
        Err(std::env::VarError::NotUnicode(_)) => Err(Failure::usage(format!("the variable {name} is not UTF-8"))),
    }
}

/// A setting with the name under which it was given, for messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Given {
    /// `--deadline` or `ABIDE_DEADLINE`.
    pub name: String,
    /// What was given.
    pub text: String,
}

impl Given {
    /// Returns a usage error about this setting.
    pub fn refuse(&self, why: impl std::fmt::Display) -> Failure {
        Failure::usage(format!("{} {}: {why}", self.name, self.text))
    }
}

/// Returns what was given for `--flag`: the flag, else its `ABIDE_*` variable.
///
/// # Errors
/// The variable is not UTF-8.
pub fn setting(flag: &str, given: Option<&str>) -> Result<Option<Given>, Failure> {
    if let Some(text) = given {
        return Ok(Some(Given { name: format!("--{flag}"), text: text.into() }));
    }
    let name = format!("ABIDE_{}", flag.to_ascii_uppercase().replace('-', "_"));
    Ok(variable(&name)?.map(|text| Given { name, text }))
}
