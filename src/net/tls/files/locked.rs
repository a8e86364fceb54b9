//! Keys behind a password: PKCS#12 and encrypted PKCS#8.

use super::{TlsError, TlsFault, TlsFile};
use crate::engine::secret::Secret;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use p12_keystore::{KeyStore, Pkcs12ImportPolicy};
use pkcs8::EncryptedPrivateKeyInfoRef;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};

const BEGIN: &str = "-----BEGIN ENCRYPTED PRIVATE KEY-----";
const END: &str = "-----END ENCRYPTED PRIVATE KEY-----";

/// Opens a PKCS#12 file: the certificate, those between it and its issuer, and the key.
pub(super) fn pkcs12(
    file: &TlsFile,
    password: Option<&Secret>,
) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), TlsError> {
    let word = password.map(Secret::expose).unwrap_or_default();
    let store = KeyStore::from_pkcs12(&file.bytes, word, Pkcs12ImportPolicy::Strict).map_err(|why| {
        file.refused(match (why, password) {
            (p12_keystore::error::Error::MacError(_), None) => TlsFault::Encrypted,
            (p12_keystore::error::Error::MacError(_), Some(_)) => TlsFault::Password,
            _ => TlsFault::Damaged,
        })
    })?;
    let Some((_, found)) = store.private_key_chain() else { return Err(file.refused(TlsFault::NoKey)) };
    let chain = found.certs().iter().map(|cert| CertificateDer::from(cert.as_der().to_vec())).collect();
    let key = PrivatePkcs8KeyDer::from(found.key().as_der().to_vec());
    Ok((chain, key.into()))
}

/// Opens the encrypted key of a PEM file.
pub(super) fn pem(file: &TlsFile, password: Option<&Secret>) -> Result<PrivateKeyDer<'static>, TlsError> {
    let Some(password) = password else { return Err(file.refused(TlsFault::Encrypted)) };
    let text = String::from_utf8_lossy(&file.bytes);
    let inside = text.split_once(BEGIN).and_then(|(_, rest)| rest.split_once(END)).map(|(inside, _)| inside);
    let packed: String = inside.unwrap_or_default().split_whitespace().collect();
    let der = STANDARD.decode(packed).map_err(|_| file.refused(TlsFault::Damaged))?;
    let info = EncryptedPrivateKeyInfoRef::try_from(&*der).map_err(|_| file.refused(TlsFault::OldEncryption))?;
    let key = info.decrypt(password.expose()).map_err(|_| file.refused(TlsFault::Password))?;
    Ok(PrivatePkcs8KeyDer::from(key.as_bytes().to_vec()).into())
}
