//! Whom to trust on https, and what to show: flags over the profile over the system.

use super::Session;
use super::exit::Failure;
use super::world::read_file;
use abide::engine::operation::TlsPaths;
use abide::net::{SystemRoots, Tls, TlsError, TlsFile, TlsFiles};
use abide::profile::{NamedFile, Profile};
use std::path::{Path, PathBuf};

/// Returns what this machine trusts, or what the file named by `SSL_CERT_FILE` holds. Nothing is read yet.
pub fn system() -> SystemRoots {
    let file = std::env::var_os("SSL_CERT_FILE").filter(|file| !file.is_empty());
    SystemRoots::of(file.map(PathBuf::from))
}

/// Which of two sources counts where both name a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum First {
    /// What the flags name.
    Flags,
    /// What the profile names.
    Profile,
}

/// Returns what the connections of an operation trust and show.
///
/// # Errors
/// A file cannot be read or used.
pub fn of(
    profile: Option<&Profile>,
    flags: Option<&TlsPaths>,
    first: First,
    session: &Session,
) -> Result<Tls, Failure> {
    let stated = profile.map(stated).unwrap_or_default();
    let flagged = flags.map(|flags| Flagged { flags, stated: &stated, first }.read()).transpose()?.unwrap_or_default();
    let files = match first {
        First::Flags => over(flagged, stated),
        First::Profile => over(stated, flagged),
    };
    if files == TlsFiles::default() {
        return Ok(session.tls.clone());
    }
    Tls::of(&files, session.roots.clone()).map_err(unusable)
}

/// Returns the files of `over`, and of `under` where `over` has none. A certificate takes its key along.
fn over(over: TlsFiles, under: TlsFiles) -> TlsFiles {
    let (cert, key) = if over.cert.is_some() { (over.cert, over.key) } else { (under.cert, under.key) };
    TlsFiles { ca: over.ca.or(under.ca), cert, key, password: over.password.or(under.password) }
}

/// Checks the files that a profile names.
///
/// # Errors
/// One of them cannot be used.
pub fn check(profile: &Profile, session: &Session) -> Result<(), Failure> {
    of(Some(profile), None, First::Profile, session).map(drop)
}

fn stated(profile: &Profile) -> TlsFiles {
    let file = |named: &Option<NamedFile>| {
        named.as_ref().map(|NamedFile { name, bytes, .. }| TlsFile { name: name.clone(), bytes: bytes.clone() })
    };
    let tls = &profile.tls;
    TlsFiles { ca: file(&tls.ca), cert: file(&tls.cert), key: file(&tls.key), password: tls.password.clone() }
}

/// Returns where the files are that count for a send, for an equivalent curl line.
pub fn paths(profile: Option<&Profile>, flags: Option<TlsPaths>) -> TlsPaths {
    let stated = profile.map(|profile| &profile.tls);
    let path = |named: Option<&NamedFile>| named.map(|named| named.path.clone());
    let flags = flags.unwrap_or_default();
    let ca = flags.ca.or_else(|| path(stated?.ca.as_ref()));
    match flags.cert {
        Some(_) => TlsPaths { ca, ..flags },
        None => TlsPaths {
            ca,
            cert: path(stated.and_then(|tls| tls.cert.as_ref())),
            key: path(stated.and_then(|tls| tls.key.as_ref())),
        },
    }
}

struct Flagged<'a> {
    flags: &'a TlsPaths,
    stated: &'a TlsFiles,
    first: First,
}

impl Flagged<'_> {
    /// Reads the files that flags name, but those that do not count.
    fn read(&self) -> Result<TlsFiles, Failure> {
        let counts = |stated: &Option<TlsFile>| self.first == First::Flags || stated.is_none();
        let mut files = TlsFiles::default();
        if counts(&self.stated.ca) {
            files.ca = self.flags.ca.as_deref().map(|path| file("--cacert", path)).transpose()?;
        }
        if counts(&self.stated.cert) {
            files.cert = self.flags.cert.as_deref().map(|path| file("--cert", path)).transpose()?;
            files.key = self.flags.key.as_deref().map(|path| file("--cert-key", path)).transpose()?;
        }
        Ok(files)
    }
}

fn file(flag: &str, path: &str) -> Result<TlsFile, Failure> {
    let name: Box<str> = format!("{flag} {path}").into();
    match read_file(Path::new(path)) {
        Ok(bytes) => Ok(TlsFile { name, bytes: bytes.into() }),
        Err(_) if flag == "--cert" && has_password(path) => {
            let refusal = Failure::usage("--cert FILE:PASSWORD: everybody on this machine can read an argument");
            Err(refusal.hint("name the file alone, and key_password_env or key_password_file in [tls] of a profile"))
        }
        Err(why) => Err(Failure::usage(format!("{name}: {why}"))),
    }
}

/// Returns whether a path that leads nowhere is a file and a password, as curl takes it.
fn has_password(path: &str) -> bool {
    path.split_once(':').is_some_and(|(file, _)| Path::new(file).is_file())
}

fn unusable(error: TlsError) -> Failure {
    let hint = error.fault.hint();
    Failure::usage(error).hint(hint)
}
