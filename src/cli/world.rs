//! Environment, files and commands, as profiles may ask for them.

use abide::net::TLS_FILE_MAX;
use abide::profile::{Ran, World};
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

/// How long a command that prints a secret may take. A person may have to type a passphrase.
const COMMAND_LIMIT: Duration = Duration::from_secs(60);
/// No secret is longer, in bytes.
const COMMAND_OUTPUT_LIMIT: u64 = 64 << 10;

/// No profile, and no file that one names, is larger, in bytes.
const FILE_LIMIT: u64 = TLS_FILE_MAX;

/// Reads a profile, a file that it names, or one like it.
///
/// # Errors
/// The system's, or that it is larger than 4 MiB.
pub fn read_file(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(FILE_LIMIT + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > FILE_LIMIT {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, format!("it is larger than {} MiB", FILE_LIMIT >> 20)));
    }
    Ok(bytes)
}

/// Environment, files and commands, for profiles.
#[derive(Debug)]
pub struct ProcessWorld;

impl World for ProcessWorld {
    fn env(&self, name: &str) -> Option<String> {
        std::env::var(name).ok()
    }

    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        read_file(path)
    }

    fn run(&self, words: &[String]) -> io::Result<Ran> {
        let (program, arguments) =
            words.split_first().ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "no command"))?;
        let mut child = Command::new(program).args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
        let stdout = child.stdout.take().expect("stdout was asked to be a pipe");
        let (sender, receiver) = mpsc::channel();
        std::thread::spawn(move || {
            let mut bytes = Vec::new();
            let read = stdout.take(COMMAND_OUTPUT_LIMIT).read_to_end(&mut bytes).map(|_| bytes);
            // The receiver is gone when the limit was over: then nobody wants the bytes.
            let _ = sender.send(read);
        });
        let Ok(read) = receiver.recv_timeout(COMMAND_LIMIT) else {
            child.kill()?;
            child.wait()?;
            return Err(io::Error::new(io::ErrorKind::TimedOut, "it took longer than 60s"));
        };
        let stdout = read?;
        // The pipe is closed, so that the command has ended or is about to.
        let status = child.wait()?.code();
        Ok(Ran { status, stdout })
    }
}

/// What stands for a secret that nobody needs now.
const PLACEHOLDER: &str = "placeholder";

/// A world that gives no secrets: for reading what a profile says about asking. No command is run.
#[derive(Debug)]
pub struct Blind<'a> {
    /// The profile, the only file that is read.
    pub profile: &'a Path,
}

impl World for Blind<'_> {
    fn env(&self, name: &str) -> Option<String> {
        // Addresses may come from variables.
        std::env::var(name).ok().or_else(|| Some(PLACEHOLDER.into()))
    }

    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        if path == self.profile { read_file(path) } else { Ok(PLACEHOLDER.into()) }
    }

    fn run(&self, _: &[String]) -> io::Result<Ran> {
        Ok(Ran { status: Some(0), stdout: PLACEHOLDER.into() })
    }
}
