//! Files about TLS: certificates to trust, and a certificate with its key to show.

mod locked;

use super::provider;
use crate::engine::secret::Secret;
use rustls::pki_types::pem::{self, PemObject, SectionKind};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use rustls::{CertificateError, InconsistentKeys, RootCertStore};
use std::fmt;
use std::sync::Arc;

/// No file about TLS is larger, in bytes.
///
/// Source: the bundles of Debian, Fedora and Mozilla hold 140 to 150 certificates in about 220 KiB.
pub const TLS_FILE_MAX: u64 = 4 << 20;

/// A file about TLS, as it was read.
#[derive(Clone, PartialEq, Eq)]
pub struct TlsFile {
    /// Where it was named and how, for messages: `--cacert ca.pem`.
    pub name: Box<str>,
    /// What is in it: perhaps a private key.
    pub bytes: Box<[u8]>,
}

impl fmt::Debug for TlsFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TlsFile({}, {} bytes)", self.name, self.bytes.len())
    }
}

/// The files about TLS of one partner.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificates that are trusted, instead of those of the system.
    pub ca: Option<TlsFile>,
    /// The certificate to show, and those between it and its issuer.
    pub cert: Option<TlsFile>,
    /// The key of that certificate, where `cert` does not hold it.
    pub key: Option<TlsFile>,
    /// What opens the key.
    pub password: Option<Secret>,
}

/// Why a file about TLS cannot be used. Nothing of its content is ever part of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsError {
    /// The file, as [`TlsFile::name`] has it.
    pub file: Box<str>,
    /// What is wrong with it.
    pub fault: TlsFault,
}

/// What is wrong with a file about TLS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TlsFault {
    /// Nothing is in it.
    Empty,
    /// It is larger than [`TLS_FILE_MAX`].
    TooLarge,
    /// It is DER, where PEM is expected.
    Der,
    /// It is PKCS#12 (`.p12`, `.pfx`), which holds certificate and key, where something else is expected.
    Pkcs12,
    /// It holds no PEM at all.
    NotPem,
    /// A part of it is damaged.
    Damaged,
    /// It is PEM without a certificate.
    NoCertificate,
    /// A certificate in it cannot be used; the number counts from 1.
    BadCertificate {
        /// Which one.
        n: usize,
    },
    /// It is PEM without a private key.
    NoKey,
    /// It holds several private keys.
    Keys,
    /// The key cannot be used.
    BadKey,
    /// The key belongs to another certificate.
    OtherKey {
        /// The file of the certificate.
        cert: Box<str>,
    },
    /// The key is encrypted, and nothing opens it.
    Encrypted,
    /// The password does not open the key.
    Password,
    /// The key is encrypted in a way that cannot be read.
    OldEncryption,
}

impl TlsFault {
    /// Returns what to do next.
    pub const fn hint(&self) -> &'static str {
        match self {
            TlsFault::Empty => "the file should hold a block that begins with -----BEGIN",
            TlsFault::TooLarge => "name a file that holds only the certificates that are needed",
            TlsFault::Der => {
                "write it as PEM: openssl x509 -inform der -in FILE -out FILE.pem (openssl pkey for a key)"
            }
            TlsFault::Pkcs12 => "name it as the certificate: it holds the key, too; certificates to trust are PEM",
            TlsFault::NotPem => "PEM is text with a block that begins with -----BEGIN",
            TlsFault::Damaged => "copy the file again; each block of PEM ends with its own -----END line",
            TlsFault::NoCertificate => "the block should begin with -----BEGIN CERTIFICATE-----",
            TlsFault::BadCertificate { .. } => "look at it: openssl x509 -text -in FILE",
            TlsFault::NoKey => "name the file of the private key: key_file in [tls], or --cert-key",
            TlsFault::Keys => "keep only the key of the certificate",
            TlsFault::BadKey => "RSA from 2048 bits, P-256, P-384 and Ed25519 keys can be used",
            TlsFault::OtherKey { .. } => {
                "compare them: openssl x509 -noout -pubkey -in CERT; openssl pkey -pubout -in KEY"
            }
            TlsFault::Encrypted => "state key_password_env or key_password_file in [tls] of a profile",
            TlsFault::Password => "the password comes from key_password_env, _file or _command in [tls]",
            TlsFault::OldEncryption => {
                "decrypt it into a file that only you can read: openssl pkcs8 -topk8 -nocrypt -in KEY -out PLAIN"
            }
        }
    }
}

impl fmt::Display for TlsFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TlsFault::Empty => f.write_str("it is empty"),
            TlsFault::TooLarge => write!(f, "it is larger than {} MiB", TLS_FILE_MAX >> 20),
            TlsFault::Der => f.write_str("it is DER, not PEM"),
            TlsFault::Pkcs12 => f.write_str("it is PKCS#12, which is none of the certificates to trust or a key alone"),
            TlsFault::NotPem => f.write_str("it is not PEM"),
            TlsFault::Damaged => f.write_str("it is damaged"),
            TlsFault::NoCertificate => f.write_str("it holds no certificate"),
            TlsFault::BadCertificate { n } => write!(f, "certificate {n} in it cannot be used"),
            TlsFault::NoKey => f.write_str("it holds no private key"),
            TlsFault::Keys => f.write_str("it holds several private keys"),
            TlsFault::BadKey => f.write_str("its private key cannot be used"),
            TlsFault::OtherKey { cert } => write!(f, "its key is not that of {cert}"),
            TlsFault::Encrypted => f.write_str("its key is encrypted, and no password is stated"),
            TlsFault::Password => f.write_str("the password does not open its key"),
            TlsFault::OldEncryption => f.write_str("its key is encrypted in the old way of OpenSSL"),
        }
    }
}

impl fmt::Display for TlsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.file, self.fault)
    }
}

impl std::error::Error for TlsError {}

/// Certificates that are trusted.
#[derive(Clone, Debug)]
pub(super) struct Named {
    /// As issuers.
    pub roots: Arc<RootCertStore>,
    /// As themselves; empty for those of the system.
    pub certificates: Arc<[CertificateDer<'static>]>,
}

/// Reads the certificates to trust. Every one in the file must be usable.
pub(super) fn roots(file: &TlsFile) -> Result<Named, TlsError> {
    let mut roots = RootCertStore::empty();
    let certificates = certificates(file)?;
    for (at, certificate) in certificates.iter().enumerate() {
        roots.add(certificate.clone()).map_err(|_| file.refused(TlsFault::BadCertificate { n: at + 1 }))?;
    }
    Ok(Named { roots: Arc::new(roots), certificates: certificates.into() })
}

/// Reads the certificate to show, with its key from `key`, or from the same file.
///
/// `password` opens the key where it is encrypted.
pub(super) fn identity(
    cert: &TlsFile,
    key: Option<&TlsFile>,
    password: Option<&Secret>,
) -> Result<Arc<CertifiedKey>, TlsError> {
    let holder = key.unwrap_or(cert);
    let (chain, key) = match key {
        None if cert.is_pkcs12() => locked::pkcs12(cert, password)?,
        _ => (certificates(cert)?, private_key(holder, password)?),
    };
    let key = provider().key_provider.load_private_key(key);
    let shown = CertifiedKey::new(chain, key.map_err(|_| holder.refused(TlsFault::BadKey))?);
    match shown.keys_match() {
        Err(rustls::Error::InconsistentKeys(InconsistentKeys::KeyMismatch)) => {
            Err(holder.refused(TlsFault::OtherKey { cert: cert.name.clone() }))
        }
        Err(rustls::Error::InvalidCertificate(CertificateError::BadEncoding)) => {
            Err(cert.refused(TlsFault::BadCertificate { n: 1 }))
        }
        // What else is special about it, such as version 1 of X.509, is for the partner to judge.
        _ => Ok(Arc::new(shown)),
    }
}

fn certificates(file: &TlsFile) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let sections = file.sections()?;
    let is_certificate = |(kind, _): &(SectionKind, Vec<u8>)| *kind == SectionKind::Certificate;
    let found: Vec<_> = sections.into_iter().filter(is_certificate).map(|(_, der)| der.into()).collect();
    if found.is_empty() { Err(file.refused(TlsFault::NoCertificate)) } else { Ok(found) }
}

fn private_key(file: &TlsFile, password: Option<&Secret>) -> Result<PrivateKeyDer<'static>, TlsError> {
    if file.says(b"Proc-Type: 4,ENCRYPTED") {
        return Err(file.refused(TlsFault::OldEncryption));
    }
    let mut keys = file.sections()?.into_iter().filter_map(|(kind, der)| PrivateKeyDer::from_pem(kind, der));
    match (keys.next(), keys.next()) {
        (Some(key), None) => Ok(key),
        (Some(_), Some(_)) => Err(file.refused(TlsFault::Keys)),
        (None, _) if file.says(b"-----BEGIN ENCRYPTED PRIVATE KEY-----") => locked::pem(file, password),
        (None, _) => Err(file.refused(TlsFault::NoKey)),
    }
}

impl TlsFile {
    fn refused(&self, fault: TlsFault) -> TlsError {
        TlsError { file: self.name.clone(), fault }
    }

    /// Returns the blocks of the file that TLS knows.
    fn sections(&self) -> Result<Vec<(SectionKind, Vec<u8>)>, TlsError> {
        if self.bytes.len() as u64 > TLS_FILE_MAX {
            return Err(self.refused(TlsFault::TooLarge));
        }
        if self.bytes.trim_ascii().is_empty() {
            return Err(self.refused(TlsFault::Empty));
        }
        if !self.says(b"-----BEGIN ") {
            return Err(self.refused(match *self.bytes {
                _ if self.is_pkcs12() => TlsFault::Pkcs12,
                // A DER certificate or key is one long sequence.
                [0x30, ..] => TlsFault::Der,
                _ => TlsFault::NotPem,
            }));
        }
        let sections: Result<Vec<_>, pem::Error> = <(SectionKind, Vec<u8>)>::pem_slice_iter(&self.bytes).collect();
        sections.map_err(|_| self.refused(TlsFault::Damaged))
    }

    /// Returns whether it is a sequence that begins with version 3, as PKCS#12 alone does.
    ///
    /// Source: RFC 7292 4.
    fn is_pkcs12(&self) -> bool {
        matches!(*self.bytes, [0x30, 0x82, _, _, 2, 1, 3, ..] | [0x30, 0x80, 2, 1, 3, ..])
    }

    fn says(&self, words: &[u8]) -> bool {
        self.bytes.windows(words.len()).any(|window| window == words)
    }
}

#[cfg(test)]
mod tests;
