//! The answer on its way out: bytes as they came, or a document.

use super::exit::Failure;
use super::request::system_words;
use crate::report::json::Answered;
use abide::drive::sha256_hex;
use abide::engine::exchange::{Answer, Ending};
use abide::engine::facts::{Fact, History, Response};
use abide::engine::secret::Mask;
use abide::store::StoreError;
use abide::store::jsonl::kept_body;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use std::borrow::Cow;
use std::io::{self, Write};
use std::path::Path;

/// An answer, fresh or from the ledger.
#[derive(Debug)]
pub struct Reply<'a> {
    /// The HTTP status.
    pub http: Option<u16>,
    /// The body; `None` where the ledger does not hold it.
    pub body: Option<Cow<'a, [u8]>>,
    headers: Vec<(&'a str, &'a str)>,
    len: u64,
    sha: Option<&'a str>,
    cut: bool,
}

impl<'a> Reply<'a> {
    /// Returns a fresh answer.
    pub fn of_answer(answer: &'a Answer) -> Reply<'a> {
        Reply {
            http: Some(answer.status),
            body: Some(Cow::Borrowed(&answer.body)),
            headers: answer.headers.0.iter().map(|(name, value)| (&**name, &**value)).collect(),
            len: answer.body.len() as u64,
            sha: None,
            cut: answer.ending != Ending::Complete,
        }
    }

    /// Returns the newest answer that the ledger at `path` holds.
    ///
    /// # Errors
    /// Its body lies beside the ledger and cannot be read.
    pub fn of_history(history: &'a History, path: Option<&Path>) -> Result<Option<Reply<'a>>, StoreError> {
        let newest = history.facts.iter().rev().find_map(|recorded| match &recorded.fact {
            Fact::Settled(settled) => {
                let http = settled.last.as_ref().and_then(|last| last.http);
                settled.response.as_ref().map(|response| (http, response))
            }
            _ => None,
        });
        newest.map(|(http, response)| Reply::of_response(http, response, path)).transpose()
    }

    fn of_response(http: Option<u16>, response: &'a Response, path: Option<&Path>) -> Result<Reply<'a>, StoreError> {
        let body = match (&response.body, path) {
            (Some(body), Some(path)) => kept_body(path, body)?.map(Cow::Owned),
            _ => None,
        };
        Ok(Reply {
            http,
            body,
            headers: response.headers.iter().map(|(name, value)| (&**name, &**value)).collect(),
            len: response.len,
            sha: Some(&response.sha),
            cut: response.cut,
        })
    }

    /// Returns the bytes for stdout: the head too, where that is wanted.
    pub fn bytes(&self, include: bool) -> Vec<u8> {
        let mut bytes = Vec::new();
        if include {
            let http = self.http.map(|http| http.to_string()).unwrap_or_default();
            bytes.extend(format!("HTTP/1.1 {http}\r\n").bytes());
            for (name, value) in &self.headers {
                bytes.extend(format!("{name}: {value}\r\n").bytes());
            }
            bytes.extend(b"\r\n");
        }
        bytes.extend_from_slice(self.body.as_deref().unwrap_or_default());
        bytes
    }

    /// Returns what a person must know about the body.
    pub fn note(&self) -> Option<String> {
        match (&self.body, self.cut) {
            (None, _) if self.len > 0 => Some(format!(
                "the answer's body is not in the ledger: {} bytes, SHA-256 {}",
                self.len,
                self.sha.unwrap_or("unknown")
            )),
            (Some(_), true) => Some(format!("the answer's body is not complete: {} bytes came", self.len)),
            _ => None,
        }
    }

    /// Returns the answer for a document, secrets masked.
    pub fn document(&self, mask: &Mask) -> Answered {
        let body = self.body.as_deref();
        let text = body.and_then(|bytes| std::str::from_utf8(bytes).ok());
        Answered {
            http: self.http,
            headers: self.headers.iter().map(|(name, value)| ((*name).to_owned(), mask.hide(value))).collect(),
            body: text.map(|text| mask.hide(text)),
            body_b64: body.filter(|bytes| text.is_none() && !mask.finds(bytes)).map(|bytes| STANDARD.encode(bytes)),
            body_bytes: Some(self.len),
            sha256: self.sha.map(str::to_owned).or_else(|| body.map(sha256_hex)),
            cut: Some(self.cut),
        }
    }
}

/// Checks that a file could be written where `flag` says, before anything is sent. Makes nothing.
///
/// # Errors
/// The folder is missing, or the path is one.
pub fn check(flag: &str, path: &Path) -> Result<(), Failure> {
    let refuse = |why: &str| Failure::usage(format!("{flag} {}: {why}", path.display()));
    let folder = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    if path.is_dir() {
        return Err(refuse("it is a folder"));
    }
    if !folder.is_dir() {
        return Err(refuse("its folder does not exist"));
    }
    Ok(())
}

/// Writes the answer into a file.
///
/// # Errors
/// The disk's, with where the answer is kept instead.
pub fn save(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    std::fs::write(path, bytes).map_err(|error| {
        Failure::local(anyhow::anyhow!("-o {}: {}", path.display(), system_words(&error)))
            .hint("the answer is in the ledger: the same command with the same --key prints it")
    })
}

/// Writes bytes to stdout. A closed stdout ends quietly.
///
/// # Errors
/// Whatever else the system says.
pub fn print(bytes: &[u8], is_terminal: bool) -> Result<(), Failure> {
    is_read(bytes, is_terminal).map(drop)
}

/// Writes bytes to stdout, and returns whether somebody still reads it.
///
/// # Errors
/// Whatever the system says but that nobody does.
pub fn is_read(bytes: &[u8], is_terminal: bool) -> Result<bool, Failure> {
    let mut stdout = io::stdout().lock();
    let mut write = || {
        stdout.write_all(bytes)?;
        if is_terminal && !bytes.is_empty() && !bytes.ends_with(b"\n") {
            stdout.write_all(b"\n")?;
        }
        stdout.flush()
    };
    match write() {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(Failure::local(error).while_doing("stdout cannot be written")),
    }
}
