//! `--report`: the page for people, which takes its place in one step.

use super::super::exit::{Exit, Failure};
use super::super::output;
use super::super::request::system_words;
use crate::report::calibrate::BEGINNING;
use nix::unistd::{AccessFlags, access};
use std::fs::{self, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Checks that the page could be written, before anything is sent. Makes nothing.
///
/// # Errors
/// The folder is missing or not to be written to, or there is something else than a page of ours.
pub fn check(path: &Path) -> Result<(), Failure> {
    output::check("--report", path)?;
    let refuse = |why: &str| Failure::usage(format!("--report {}: {why}", path.display()));
    if let Err(errno) = access(&folder(path), AccessFlags::W_OK) {
        return Err(refuse(&format!("its folder: {}", system_words(&errno.into()))));
    }
    match fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(refuse(&system_words(&error))),
        Ok(metadata) if !metadata.is_file() => Err(refuse("it is no file")),
        Ok(_) => match begins(path).map_err(|error| refuse(&system_words(&error)))? {
            true => Ok(()),
            false => Err(refuse("there is a file that is no report of abide calibrate")
                .hint("name another, or remove it; an older report would be replaced")),
        },
    }
}

/// Writes the page. What it takes the place of stays until it is complete.
///
/// # Errors
/// The disk's, or something else came to lie there meanwhile.
pub fn save(path: &Path, page: &str) -> Result<(), Failure> {
    check(path).map_err(|failure| Failure { exit: Exit::Local, ..failure })?;
    // Where a link leads to, so that the link stays one.
    let place = fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf());
    let name = place.file_name().unwrap_or_default().to_string_lossy();
    let draft = place.with_file_name(format!(".{name}.{}.draft", std::process::id()));
    let written = write(&draft, page).and_then(|()| fs::rename(&draft, &place));
    written.map_err(|error| {
        // What is left of a draft harms nobody.
        let _ = fs::remove_file(&draft);
        Failure::local(anyhow::anyhow!("--report {}: {}", path.display(), system_words(&error)))
            .hint("the report was not written; what was measured is printed all the same")
    })
}

/// What partners answer and how fast is nobody else's business.
fn write(draft: &Path, page: &str) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(draft)?;
    file.write_all(page.as_bytes())?;
    file.sync_all()
}

fn folder(path: &Path) -> PathBuf {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.into(),
        _ => ".".into(),
    }
}

/// Tells whether a file is a page of ours.
fn begins(path: &Path) -> io::Result<bool> {
    let mut beginning = Vec::new();
    fs::File::open(path)?.take(BEGINNING.len() as u64).read_to_end(&mut beginning)?;
    Ok(beginning == BEGINNING.as_bytes())
}
