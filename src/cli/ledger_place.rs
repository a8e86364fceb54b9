//! Which ledger: the flag, the variable, or the default.

use super::args::LedgerChoice;
use super::context::{Context, setting};
use super::exit::Failure;
use abide::engine::operation::Method;
use std::path::{Path, PathBuf};

/// Where operations are recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// In this file.
    File {
        /// The file.
        path: PathBuf,
        /// It is the default, chosen or not.
        is_default: bool,
    },
    /// Nowhere.
    None,
}

/// Returns the ledger for reading.
///
/// # Errors
/// `none`, a URL, or no home folder.
pub fn to_read(choice: &LedgerChoice, context: &Context) -> Result<PathBuf, Failure> {
    match find(choice, context)?.0 {
        Place::File { path, .. } => Ok(path),
        Place::None => Err(Failure::usage("there is nothing to read with --ledger none")),
    }
}

/// Returns the path where a command line must name it: `None` for the default ledger.
///
/// # Errors
/// The variable is not UTF-8.
pub fn if_not_default<'a>(choice: &LedgerChoice, path: &'a Path) -> Result<Option<&'a Path>, Failure> {
    let given = setting("ledger", choice.ledger.as_deref())?;
    Ok(given.filter(|given| given.text != "default").map(|_| path))
}

/// Returns the ledger for an operation with `method`.
///
/// # Errors
/// As [`to_read`]; `none` for an unsafe method; no explicit ledger for one with `CI` set.
pub fn to_send(choice: &LedgerChoice, method: &Method, context: &Context) -> Result<Place, Failure> {
    let (place, is_explicit) = find(choice, context)?;
    if method.is_safe() {
        return Ok(place);
    }
    if place == Place::None {
        return Err(Failure::usage(format!("--ledger none is for safe methods only, and {method} is not safe"))
            .hint("without a ledger nobody could tell afterwards whether it happened: pass --ledger PATH"));
    }
    if context.is_ci && !is_explicit {
        return Err(Failure::usage("this ledger would end with the job: pass --ledger (or --ledger default)")
            .hint("CI is set; choose a path that outlives the job, or a file that the job keeps"));
    }
    Ok(place)
}

fn find(choice: &LedgerChoice, context: &Context) -> Result<(Place, bool), Failure> {
    let Some(given) = setting("ledger", choice.ledger.as_deref())? else {
        return Ok((default(context)?, false));
    };
    let place = match given.text.as_str() {
        "default" => default(context)?,
        "none" => Place::None,
        "" => return Err(given.refuse("the path is empty")),
        url if url.contains("://") => {
            return Err(given.refuse("a database as ledger is not built yet").hint("pass a file's path"));
        }
        path => Place::File { path: context.cwd.join(path), is_default: false },
    };
    Ok((place, true))
}

fn default(context: &Context) -> Result<Place, Failure> {
    Ok(Place::File { path: context.state_home()?.join("abide").join("ledger.jsonl"), is_default: true })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn context(is_ci: bool) -> Context {
        Context {
            cwd: "/srv".into(),
            is_ci,
            stdin_is_terminal: false,
            stderr_is_terminal: false,
            stdout_is_terminal: false,
            seed: None,
            wall: None,
        }
    }

    fn choose(ledger: &str, method: &str, is_ci: bool) -> Result<Place, String> {
        let choice = LedgerChoice { ledger: Some(ledger.into()), ledger_unsafe_fs: false };
        let method = Method::new(method).expect("a method");
        to_send(&choice, &method, &context(is_ci)).map_err(|failure| failure.error.to_string())
    }

    #[test]
    fn a_ledger_is_a_path_the_default_or_none() {
        let file = Place::File { path: "/srv/l.jsonl".into(), is_default: false };
        assert_eq!(choose("l.jsonl", "POST", true), Ok(file));
        assert_eq!(choose("none", "GET", false), Ok(Place::None));
        assert!(matches!(choose("default", "POST", true), Ok(Place::File { is_default: true, .. })));
    }

    #[test]
    fn what_would_lose_the_truth_is_refused() {
        assert!(choose("none", "POST", false).expect_err("refused").contains("safe methods only"));
        assert!(choose("postgres://h/d", "GET", false).expect_err("refused").contains("not built yet"));
        assert!(choose("", "GET", false).expect_err("refused").contains("empty"));
    }
}
