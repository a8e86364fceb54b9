//! TLS: whose certificates are trusted, and one configuration for every connection of a process.

mod files;
mod hooks;
mod witness;

pub use files::{TLS_FILE_MAX, TlsError, TlsFault, TlsFile, TlsFiles};

use files::Named;
pub(super) use hooks::SelfSigned;
use hooks::{Judge, Sessions, Shown};
use rustls::client::{Resumption, WebPkiServerVerifier};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::sign::CertifiedKey;
use rustls::{ClientConfig, ConfigBuilder, RootCertStore, WantsVerifier};
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, OnceLock};
pub(super) use witness::Witness;
use witness::{Anybody, Watched};

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
    File::open(path)?.take(TLS_FILE_MAX + 1).read_to_end(&mut text)?;
    if text.len() as u64 > TLS_FILE_MAX {
        return Err(invalid(&TlsFault::TooLarge.to_string()));
    }
    let mut store = RootCertStore::empty();
    store.add_parsable_certificates(CertificateDer::pem_slice_iter(&text).filter_map(Result::ok));
    if store.is_empty() { Err(invalid("it holds no certificate that can be used")) } else { Ok(store) }
}

/// What connections over TLS trust and show. Clones share it, and what is built for it.
#[derive(Clone, Debug, Default)]
pub struct Tls(Arc<Settings>);

#[derive(Debug, Default)]
struct Settings {
    trust: Trust,
    shown: Option<Arc<CertifiedKey>>,
    built: OnceLock<Result<Built, Box<str>>>,
}

/// A configuration, and the judge in it.
type Built = (ClientConfig, Arc<Judge>);

#[derive(Debug)]
enum Trust {
    System(SystemRoots),
    Only(Named),
}

impl Default for Trust {
    fn default() -> Trust {
        Trust::System(SystemRoots::default())
    }
}

impl PartialEq for Tls {
    /// Connections are shared only by what shares its settings.
    fn eq(&self, other: &Tls) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Tls {}

impl Tls {
    /// Trusts what the system trusts, and shows nothing.
    pub fn system(roots: SystemRoots) -> Tls {
        Tls(Arc::new(Settings { trust: Trust::System(roots), ..Settings::default() }))
    }

    /// Trusts and shows what `files` say; what they leave open is as in [`Tls::system`].
    ///
    /// # Errors
    /// The first file that cannot be used.
    pub fn of(files: &TlsFiles, roots: SystemRoots) -> Result<Tls, TlsError> {
        let trust = match &files.ca {
            Some(file) => Trust::Only(files::roots(file)?),
            None => Trust::System(roots),
        };
        let shown = files.cert.as_ref();
        let identity = |cert| files::identity(cert, files.key.as_ref(), files.password.as_ref());
        let shown = shown.map(identity).transpose()?;
        Ok(Tls(Arc::new(Settings { trust, shown, built: OnceLock::new() })))
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
        self.built().map(|(config, _)| config)
    }

    /// Returns the configuration of one connection that begins anew and whose certificate `witness` sees, accepted or
    /// not.
    ///
    /// # Errors
    /// Why there is nobody to trust.
    pub(super) fn witnessed(&self, witness: &Arc<Witness>) -> Result<ClientConfig, Box<str>> {
        let (mut config, judge) = self.built()?;
        let watched = Watched { judge, witness: Arc::clone(witness) };
        config.dangerous().set_certificate_verifier(Arc::new(watched));
        // A session that goes on shows no certificate.
        config.resumption = Resumption::disabled();
        Ok(config)
    }

    /// Returns the configuration of a connection to anybody: what comes over it proves nothing.
    pub(super) fn unverified() -> ClientConfig {
        let verifier = Arc::new(Anybody(provider()));
        let mut config = builder().dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth();
        config.alpn_protocols = vec![ALPN.to_vec()];
        config.resumption = Resumption::disabled();
        config.enable_early_data = false;
        config
    }

    fn built(&self) -> Result<Built, Box<str>> {
        let build = || {
            let trusted = match &self.0.trust {
                Trust::System(roots) => Named { roots: roots.store()?, certificates: Arc::new([]) },
                Trust::Only(named) => named.clone(),
            };
            config(trusted, self.0.shown.clone())
        };
        self.0.built.get_or_init(build).clone()
    }

    /// Returns the configuration for a client that opens no connection over TLS; it trusts nobody.
    pub(super) fn unused() -> ClientConfig {
        static UNUSED: LazyLock<ClientConfig> =
            LazyLock::new(|| builder().with_root_certificates(RootCertStore::empty()).with_no_client_auth());
        UNUSED.clone()
    }
}

fn provider() -> Arc<CryptoProvider> {
    static PROVIDER: LazyLock<Arc<CryptoProvider>> = LazyLock::new(|| Arc::new(ring::default_provider()));
    Arc::clone(&PROVIDER)
}

fn builder() -> ConfigBuilder<ClientConfig, WantsVerifier> {
    ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(rustls::ALL_VERSIONS)
        .expect("ring has suites for TLS 1.2 and 1.3")
}

fn config(trusted: Named, shown: Option<Arc<CertifiedKey>>) -> Result<Built, Box<str>> {
    let webpki = WebPkiServerVerifier::builder_with_provider(trusted.roots, provider()).build();
    let judge = Arc::new(Judge { webpki: webpki.map_err(|why| why.to_string())?, named: trusted.certificates });
    // "Dangerous" is a verifier that accepts more: this one accepts what webpki accepts.
    let builder = builder().dangerous().with_custom_certificate_verifier(judge.clone());
    let mut config = builder.with_client_cert_resolver(Arc::new(Shown(shown)));
    config.alpn_protocols = vec![ALPN.to_vec()];
    config.resumption = Resumption::store(Arc::new(Sessions::default()));
    // What leaves before the handshake is over could be repeated by whoever recorded it.
    config.enable_early_data = false;
    Ok((config, judge))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_leaves_before_the_handshake_is_over_and_only_http_1_1_is_offered() {
        let issuer = rcgen::generate_simple_self_signed(vec!["a.example".into()]).expect("makes").cert.pem();
        let ca = Some(TlsFile { name: "ca".into(), bytes: issuer.into_bytes().into() });
        let tls = Tls::of(&TlsFiles { ca, ..TlsFiles::default() }, SystemRoots::default()).expect("a certificate");
        let config = tls.config().expect("builds");
        assert!(!config.enable_early_data);
        assert_eq!(config.alpn_protocols, [ALPN]);
        assert!(!Tls::unused().enable_early_data);
    }

    #[test]
    fn a_file_of_the_system_that_holds_nothing_is_said_by_its_name() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("roots.pem");
        let refused = |file: &Path| SystemRoots::of(Some(file.to_owned())).store().expect_err("nothing is in it");
        assert!(refused(&file).starts_with(&format!("SSL_CERT_FILE {}: ", file.display())));
        std::fs::write(&file, "words").expect("writes");
        assert!(refused(&file).ends_with("it holds no certificate that can be used"));
    }
}
