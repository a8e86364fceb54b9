//! The arguments about TLS.

use abide::engine::operation::TlsPaths;
use clap::Args;
use std::path::Path;

/// Whom to trust, and what to show.
#[derive(Args, Debug)]
#[command(next_help_heading = "TLS (certificates are always checked)")]
pub struct TlsArgs {
    /// Trust only the certificates in this PEM file, instead of what this machine trusts
    ///
    /// SSL_CERT_FILE names another file of what this machine trusts.
    #[arg(long, value_name = "FILE")]
    pub cacert: Option<String>,
    /// Show this client certificate: a PEM file with it and those between it and its issuer, or PKCS#12
    ///
    /// What opens an encrypted key is stated in [tls] of a profile: key_password_env, _file or _command.
    #[arg(short = 'E', long, value_name = "FILE")]
    pub cert: Option<String>,
    /// The private key of --cert, unless that file holds it
    #[arg(long, value_name = "FILE", requires = "cert")]
    pub cert_key: Option<String>,
}

impl TlsArgs {
    /// Returns the files as they were named; `None` where none is.
    pub fn paths(&self) -> Option<TlsPaths> {
        let named = |flag: &Option<String>| flag.as_deref().map(Into::into);
        let paths = TlsPaths { ca: named(&self.cacert), cert: named(&self.cert), key: named(&self.cert_key) };
        (paths != TlsPaths::default()).then_some(paths)
    }
}

/// Returns `paths` as absolute ones, for the ledger: a replay may run in another folder.
pub fn absolute(paths: &TlsPaths, cwd: &Path) -> TlsPaths {
    let absolute = |path: &Option<Box<str>>| path.as_ref().map(|path| cwd.join(&**path).display().to_string().into());
    TlsPaths { ca: absolute(&paths.ca), cert: absolute(&paths.cert), key: absolute(&paths.key) }
}
