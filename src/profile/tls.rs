//! `[tls]`: files to trust and to show. What is in them is judged by those who use them.

use super::credentials;
use super::error::{CredentialFault, Fault, ProfileError};
use super::raw::{Field, Section};
use super::{Reading, World};
use crate::engine::secret::Secret;
use std::fmt;

const PASSWORDS: [&str; 3] = ["key_password_env", "key_password_file", "key_password_command"];

/// What `[tls]` states.
#[derive(Clone, Debug, Default)]
pub struct TlsSection {
    /// `ca_file`: the certificates that are trusted, instead of those of the system.
    pub ca: Option<NamedFile>,
    /// `cert_file`: the certificate to show.
    pub cert: Option<NamedFile>,
    /// `key_file`: its key.
    pub key: Option<NamedFile>,
    /// What opens the key.
    pub password: Option<Secret>,
}

/// A file that a profile names, with its content.
#[derive(Clone)]
pub struct NamedFile {
    /// Profile, line, setting and file, for messages: ``p.toml:14: `tls.ca_file` ca.pem``.
    pub name: Box<str>,
    /// Where it is.
    pub path: Box<str>,
    /// The content: perhaps a private key.
    pub bytes: Box<[u8]>,
}

impl fmt::Debug for NamedFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NamedFile({}, {} bytes)", self.name, self.bytes.len())
    }
}

/// Reads `[tls]` and its files.
pub(super) fn read(section: &Section<'_>, reading: &mut Reading<'_>) -> Result<TlsSection, ProfileError> {
    let passwords: Vec<Field<'_>> = PASSWORDS.iter().filter_map(|key| section.get(key)).collect();
    if let [first, second, ..] = passwords.as_slice() {
        return Err(second.refused(format!("and `{}` are both stated, exactly one source is used", first.name), None));
    }
    let key = section.get("key_file");
    if let (None, Some(alone)) = (section.get("cert_file"), key.as_ref().or(passwords.first())) {
        return Err(alone.refused("goes with a `tls.cert_file`, and none is stated", None));
    }
    let password = passwords.first().map(|source| credentials::secret(source, reading)).transpose()?;
    password.iter().for_each(|password| reading.mask.add(password));
    let file = |key| section.get(key).map(|field| named(&field, reading)).transpose();
    Ok(TlsSection {
        ca: file("ca_file")?,
        cert: file("cert_file")?,
        key: file("key_file")?,
        password: password.as_deref().map(Secret::new),
    })
}

fn named(field: &Field<'_>, reading: &Reading<'_>) -> Result<NamedFile, ProfileError> {
    let path = field.text()?;
    let world: &dyn World = reading.world;
    let place = reading.home.join(path);
    let bytes = world.read(&place).map_err(|why| {
        let why = CredentialFault::File { path: path.into(), why: why.to_string().into() };
        field.fault(Fault::Credential { key: field.key(), why })
    })?;
    let name = format!("{}: `{}` {path}", field.place(), field.name).into();
    Ok(NamedFile { name, path: place.display().to_string().into(), bytes: bytes.into() })
}
