//! The same server over HTTPS, and who vouches for it.

use super::server::{Server, answer};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use std::io::{self, Write};
use std::sync::Arc;

/// An authority that signs the certificate of a server on 127.0.0.1.
pub struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    /// Makes one.
    pub fn new() -> Authority {
        let mut params = CertificateParams::new(Vec::new()).expect("no names");
        // A name of its own: where issuer and subject are called alike, a certificate counts as its own issuer.
        params.distinguished_name.push(DnType::CommonName, "an authority of the bench");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("enough chance");
        Authority(CertifiedIssuer::self_signed(params, key).expect("signs itself"))
    }

    /// Returns its certificate.
    pub fn pem(&self) -> String {
        self.0.pem()
    }

    fn server_config(&self) -> ServerConfig {
        let key = KeyPair::generate().expect("enough chance");
        let params = CertificateParams::new(vec!["127.0.0.1".into()]).expect("an address");
        let certificate = params.signed_by(&key, &self.0).expect("signs");
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("ring has them")
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], key)
            .expect("the key fits")
    }
}

/// Starts a server for HTTPS.
pub fn https(authority: &Authority) -> Server {
    let config = Arc::new(authority.server_config());
    Server::serving("https", move |stream| {
        let connection = ServerConnection::new(Arc::clone(&config)).map_err(io::Error::other)?;
        let mut stream = StreamOwned::new(connection, stream);
        answer(&mut stream)?;
        stream.conn.send_close_notify();
        stream.flush()
    })
}
