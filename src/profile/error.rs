//! Why a profile cannot be used.

use crate::engine::units::{NotADuration, NotARate, NotASize};
use std::fmt;
use std::path::PathBuf;

/// A complaint about a profile, with the file and the line where there is one.
///
/// Prints as `p.toml:14: unknown key `retry.max_atempts``. No secret is ever part of it.
#[derive(Clone, Debug, PartialEq)]
pub struct ProfileError {
    /// The file as the user named it; empty where none was found.
    pub file: Box<str>,
    /// The line, from 1.
    pub line: Option<u32>,
    /// What is wrong.
    pub fault: Fault,
}

/// What is wrong with a profile. Every `key` is the full dotted name.
#[derive(Clone, Debug, PartialEq)]
pub enum Fault {
    /// No file of that name exists.
    NotFound {
        /// What was asked for.
        name: Box<str>,
        /// Where it was looked for.
        looked: Vec<PathBuf>,
    },
    /// The file cannot be read.
    Unreadable {
        /// The system's reason.
        why: Box<str>,
    },
    /// The file is no UTF-8 text.
    NotText,
    /// The file is no TOML.
    Syntax {
        /// The parser's words.
        message: Box<str>,
    },
    /// No such setting exists.
    UnknownKey {
        /// The setting.
        key: Box<str>,
        /// What was probably meant.
        near: Option<Near>,
    },
    /// The setting belongs to a later version.
    NotBuilt {
        /// The setting.
        key: Box<str>,
    },
    /// The value has another type.
    WrongType {
        /// The setting.
        key: Box<str>,
        /// What is expected, with an example.
        expected: &'static str,
        /// What stands there.
        found: &'static str,
    },
    /// The value is no duration.
    Duration {
        /// The setting.
        key: Box<str>,
        /// Why not.
        why: NotADuration,
    },
    /// The value is no size.
    Size {
        /// The setting.
        key: Box<str>,
        /// Why not.
        why: NotASize,
    },
    /// The value is no rate.
    Rate {
        /// The setting.
        key: Box<str>,
        /// Why not.
        why: NotARate,
    },
    /// A setting that is needed is not there.
    Missing {
        /// The setting.
        key: Box<str>,
        /// What needs it.
        because: &'static str,
    },
    /// The value cannot be used, or contradicts another.
    Refused {
        /// The setting.
        key: Box<str>,
        /// Why.
        why: Box<str>,
        /// What to do instead.
        hint: Option<Box<str>>,
    },
    /// A `${VARIABLE}` has no usable value.
    Variable {
        /// The setting that refers to it.
        key: Box<str>,
        /// The variable.
        name: Box<str>,
        /// What is wrong with it.
        state: VariableState,
    },
    /// The source of a secret gives none.
    Credential {
        /// The setting that names the source.
        key: Box<str>,
        /// Why.
        why: CredentialFault,
    },
}

/// What an unknown setting was probably meant to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Near {
    /// A setting of the same section with nearly this name.
    Name(&'static str),
    /// A setting of another section with this name; empty for the top of the file.
    Section(&'static str),
}

/// What is wrong with a variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VariableState {
    /// It is not set.
    Unset,
    /// It is set to nothing.
    Empty,
    /// It holds a character that cannot be sent; which one is not told.
    Unusable,
}

/// Why a source gives no secret. The content is never quoted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CredentialFault {
    /// The file cannot be read.
    File {
        /// The file.
        path: Box<str>,
        /// The system's reason.
        why: Box<str>,
    },
    /// The command cannot be started.
    NotStarted {
        /// The command's name, without its arguments.
        command: Box<str>,
        /// The system's reason.
        why: Box<str>,
    },
    /// The command failed.
    Failed {
        /// The command's name, without its arguments.
        command: Box<str>,
        /// Its exit status; `None` where a signal ended it.
        status: Option<i32>,
    },
    /// There is nothing in it.
    Empty,
    /// There is a line break inside.
    LineBreak,
    /// There is a character that cannot be sent in a header.
    Unusable,
}

impl ProfileError {
    /// Returns what to do next, where that is known.
    pub fn hint(&self) -> Option<String> {
        match &self.fault {
            Fault::UnknownKey { near: Some(Near::Name(name)), .. } => Some(format!("did you mean `{name}`?")),
            Fault::UnknownKey { key, near: Some(Near::Section("")) } => {
                let name = key.rsplit('.').next().unwrap_or(key);
                Some(format!("`{name}` belongs to the top of the file, before the first [section]"))
            }
            Fault::UnknownKey { key, near: Some(Near::Section(section)) } => {
                let name = key.rsplit('.').next().unwrap_or(key);
                Some(format!("`{name}` belongs to [{section}]"))
            }
            Fault::NotBuilt { .. } => Some("a later version reads it; take it out for now".into()),
            Fault::Refused { hint, .. } => hint.as_deref().map(str::to_owned),
            Fault::Variable { name, state: VariableState::Unset | VariableState::Empty, .. } => {
                Some(format!("export {name}=… before running abide"))
            }
            _ => None,
        }
    }
}

impl fmt::Display for ProfileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&*self.file, self.line) {
            ("", _) => {}
            (file, None) => write!(f, "{file}: ")?,
            (file, Some(line)) => write!(f, "{file}:{line}: ")?,
        }
        self.fault.fmt(f)
    }
}

impl std::error::Error for ProfileError {}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::NotFound { name, looked } => {
                write!(f, "no profile `{name}`; looked for")?;
                for (n, path) in looked.iter().enumerate() {
                    write!(f, "{} {}", if n == 0 { "" } else { "," }, path.display())?;
                }
                Ok(())
            }
            Fault::Unreadable { why } => write!(f, "cannot read the profile: {why}"),
            Fault::NotText => f.write_str("the profile is no UTF-8 text"),
            Fault::Syntax { message } => write!(f, "no valid TOML: {message}"),
            Fault::UnknownKey { key, .. } => write!(f, "unknown key `{key}`"),
            Fault::NotBuilt { key } => write!(f, "`{key}` is not built yet"),
            Fault::WrongType { key, expected, found } => write!(f, "`{key}` is {found}, expected {expected}"),
            Fault::Duration { key, why } => write!(f, "`{key}`: {why}"),
            Fault::Size { key, why } => write!(f, "`{key}`: {why}"),
            Fault::Rate { key, why } => write!(f, "`{key}`: {why}"),
            Fault::Missing { key, because } => write!(f, "`{key}` is missing: {because}"),
            Fault::Refused { key, why, .. } => write!(f, "`{key}` {why}"),
            Fault::Variable { key, name, state } => write!(f, "`{key}`: the variable {name} {state}"),
            Fault::Credential { key, why } => write!(f, "`{key}`: {why}"),
        }
    }
}

impl fmt::Display for VariableState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            VariableState::Unset => "is unset",
            VariableState::Empty => "is empty",
            VariableState::Unusable => "holds a line break or another character that cannot be sent",
        })
    }
}

impl fmt::Display for CredentialFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CredentialFault::File { path, why } => write!(f, "cannot read {path}: {why}"),
            CredentialFault::NotStarted { command, why } => write!(f, "cannot start {command}: {why}"),
            CredentialFault::Failed { command, status: Some(status) } => {
                write!(f, "{command} ended with exit status {status}")
            }
            CredentialFault::Failed { command, status: None } => write!(f, "{command} was ended by a signal"),
            CredentialFault::Empty => f.write_str("the secret is empty"),
            CredentialFault::LineBreak => f.write_str("the secret has a line break inside"),
            CredentialFault::Unusable => f.write_str("the secret has a character that cannot be sent in a header"),
        }
    }
}
