//! TLS: whose certificates are trusted, and one configuration for every connection of a process.

use rustls::ClientConfig;
use rustls::RootCertStore;
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, OnceLock};

/// No file of certificates is larger, in bytes.
///
/// Source: the bundles of Debian, Fedora and Mozilla hold 140 to 150 certificates in about 220 KiB.
const BUNDLE_MAX: u64 = 4 << 20;

/// Where systems keep their trusted certificates in one file. One file is read in 1.2 ms, a folder of 290 in 5 ms.
///
/// Source: openssl-probe 0.2; transport.md 4.
const BUNDLES: [&str; 6] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
    "/usr/local/share/certs/ca-root-nss.crt",
];

/// The only protocol that is spoken over TLS.
const ALPN: &[u8] = b"http/1.1";

/// The certificates that this machine trusts, read when they are first needed. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct SystemRoots(Arc<Held>);

#[derive(Debug, Default)]
struct Held {
    file: Option<PathBuf>,
    store: OnceLock<Result<Arc<RootCertStore>, Box<str>>>,
}

impl SystemRoots {
    /// Returns those of `file` alone, which `SSL_CERT_FILE` names; `None`: those of the system.
    pub fn of(file: Option<PathBuf>) -> SystemRoots {
        SystemRoots(Arc::new(Held { file, store: OnceLock::new() }))
    }

    fn store(&self) -> Result<Arc<RootCertStore>, Box<str>> {
        self.0.store.get_or_init(|| self.read()).clone()
    }

    fn read(&self) -> Result<Arc<RootCertStore>, Box<str>> {
        if let Some(file) = &self.0.file {
            let refused = |why: io::Error| format!("SSL_CERT_FILE {}: {why}", file.display()).into();
            return bundle(file).map(Arc::new).map_err(refused);
        }
        if let Some(store) = BUNDLES.iter().find_map(|path| bundle(Path::new(path)).ok()) {
            return Ok(Arc::new(store));
        }
        let mut store = RootCertStore::empty();
        store.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        match store.is_empty() {
            false => Ok(Arc::new(store)),
            true => Err("this machine has no trusted certificates".into()),
        }
    }
}

/// Reads the trusted certificates of a file; those that cannot be used are left out.
fn bundle(path: &Path) -> io::Result<RootCertStore> {
    let invalid = |why: &str| io::Error::new(io::ErrorKind::InvalidData, why.to_owned());
    let mut text = Vec::new();
    File::open(path)?.take(BUNDLE_MAX + 1).read_to_end(&mut text)?;
    if text.len() as u64 > BUNDLE_MAX {
        return Err(invalid("it is larger than 4 MiB"));
    }
    let mut store = RootCertStore::empty();
    store.add_parsable_certificates(CertificateDer::pem_slice_iter(&text).filter_map(Result::ok));
    if store.is_empty() { Err(invalid("it holds no certificate that can be used")) } else { Ok(store) }
}

/// What connections over TLS trust. Clones share it, and what is built for it.
#[derive(Clone, Debug, Default)]
pub struct Tls(Arc<Settings>);

#[derive(Debug, Default)]
struct Settings {
    roots: SystemRoots,
    config: OnceLock<Result<ClientConfig, Box<str>>>,
}

impl PartialEq for Tls {
    fn eq(&self, other: &Tls) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Tls {}

impl Tls {
    /// Trusts what the system trusts.
    pub fn system(roots: SystemRoots) -> Tls {
        Tls(Arc::new(Settings { roots, config: OnceLock::new() }))
    }

    /// Begins to read what is trusted on a thread of its own, to be ready when the first connection is.
    pub fn load_ahead(&self) {
        let tls = self.clone();
        // Where no thread can be had, the first connection reads it.
        let _ = std::thread::Builder::new().name("tls".into()).spawn(move || tls.config().map(drop));
    }

    /// Returns the configuration of connections, built when the first is opened.
    ///
    /// # Errors
    /// Why there is nobody to trust.
    pub(super) fn config(&self) -> Result<ClientConfig, Box<str>> {
        self.0.config.get_or_init(|| Ok(config(self.0.roots.store()?))).clone()
    }

    /// Returns the configuration for a client that opens no connection over TLS; it trusts nobody.
    pub(super) fn unused() -> ClientConfig {
        static UNUSED: LazyLock<ClientConfig> = LazyLock::new(|| config(Arc::new(RootCertStore::empty())));
        UNUSED.clone()
    }
}

fn provider() -> Arc<CryptoProvider> {
    static PROVIDER: LazyLock<Arc<CryptoProvider>> = LazyLock::new(|| Arc::new(ring::default_provider()));
    Arc::clone(&PROVIDER)
}

fn config(roots: Arc<RootCertStore>) -> ClientConfig {
    let builder = ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(rustls::ALL_VERSIONS)
        .expect("ring has suites for TLS 1.2 and 1.3");
    let mut config = builder.with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = vec![ALPN.to_vec()];
    // What leaves before the handshake is over could be repeated by whoever recorded it.
    config.enable_early_data = false;
    config
}
