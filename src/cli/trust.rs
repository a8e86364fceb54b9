//! Whom to trust on https.

use abide::net::{SystemRoots, Tls};
use std::path::PathBuf;

/// Returns what this machine trusts, or what the file named by `SSL_CERT_FILE` holds. Nothing is read yet.
pub fn system() -> Tls {
    let file = std::env::var_os("SSL_CERT_FILE").filter(|file| !file.is_empty());
    Tls::system(SystemRoots::of(file.map(PathBuf::from)))
}
