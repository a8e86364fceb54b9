//! What TLS tells on its way: callbacks that mark the attempt which dials, and a certificate that is judged twice.

use crate::net::marks::Marks;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{
    ClientSessionMemoryCache, ClientSessionStore, ResolvesClientCert, Tls12ClientSessionValue, Tls13ClientSessionValue,
    WebPkiServerVerifier, verify_server_name,
};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::sign::CertifiedKey;
use rustls::{CertificateError, DigitallySignedStruct, Error, NamedGroup, OtherError, SignatureScheme};
use std::fmt;
use std::sync::Arc;

/// So many partners' sessions are remembered, so that a later connection of this process needs less arithmetic.
const SESSIONS: usize = 64;

/// The sessions of this process. Each handshake begins with a look at them, which is marked.
#[derive(Debug)]
pub(super) struct Sessions(ClientSessionMemoryCache);

impl Default for Sessions {
    fn default() -> Sessions {
        Sessions(ClientSessionMemoryCache::new(SESSIONS))
    }
}

impl ClientSessionStore for Sessions {
    fn set_kx_hint(&self, server: ServerName<'static>, group: NamedGroup) {
        self.0.set_kx_hint(server, group);
    }

    /// Marks the begin of a handshake: rustls asks this first, before it writes its ClientHello.
    ///
    /// Source: transport.md 1.
    fn kx_hint(&self, server: &ServerName<'_>) -> Option<NamedGroup> {
        Marks::of_the_dial(Marks::securing);
        self.0.kx_hint(server)
    }

    fn set_tls12_session(&self, server: ServerName<'static>, value: Tls12ClientSessionValue) {
        self.0.set_tls12_session(server, value);
    }

    fn tls12_session(&self, server: &ServerName<'_>) -> Option<Tls12ClientSessionValue> {
        self.0.tls12_session(server)
    }

    fn remove_tls12_session(&self, server: &ServerName<'static>) {
        self.0.remove_tls12_session(server);
    }

    fn insert_tls13_ticket(&self, server: ServerName<'static>, value: Tls13ClientSessionValue) {
        self.0.insert_tls13_ticket(server, value);
    }

    fn take_tls13_ticket(&self, server: &ServerName<'static>) -> Option<Tls13ClientSessionValue> {
        self.0.take_tls13_ticket(server)
    }
}

/// The certificate that is shown, if any. That a partner asks for one is marked.
#[derive(Debug)]
pub(super) struct Shown(pub Option<Arc<CertifiedKey>>);

impl ResolvesClientCert for Shown {
    fn resolve(&self, _: &[&[u8]], _: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        Marks::of_the_dial(|marks| marks.certificate_wanted(self.0.is_some()));
        self.0.clone()
    }

    fn has_certs(&self) -> bool {
        self.0.is_some()
    }
}

/// The certificate has itself as its issuer, which nobody trusts.
#[derive(Debug)]
pub(in crate::net) struct SelfSigned;

impl fmt::Display for SelfSigned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("it has itself as its issuer")
    }
}

impl std::error::Error for SelfSigned {}

/// Accepts what webpki accepts, and a server that shows the very certificate which was named to be trusted. Tells a
/// certificate that signed itself from one of an unknown issuer.
#[derive(Debug)]
pub(super) struct Judge {
    /// Who judges first.
    pub webpki: Arc<WebPkiServerVerifier>,
    /// The certificates that were named one by one; empty for those of the system.
    pub named: Arc<[CertificateDer<'static>]>,
}

impl Judge {
    /// Judges a server that shows the certificate of an issuer, as `openssl req -x509` makes it. webpki refuses that
    /// whoever trusts it, after it has looked at the dates; the handshake proves that the server has the key.
    ///
    /// Source: `check_issuer_independent_properties` in rustls-webpki 0.103 src/verify_cert.rs.
    fn itself(&self, certificate: &CertificateDer<'_>, name: &ServerName<'_>) -> Option<Result<(), Error>> {
        let named = self.named.iter().find(|named| ***named == **certificate)?;
        Some(ParsedCertificate::try_from(named).and_then(|parsed| verify_server_name(&parsed, name)))
    }
}

/// Returns whether webpki refused a certificate because it is an issuer's. It says so in its text only; a test holds
/// the text against the real one.
fn is_an_issuers(why: &Error) -> bool {
    let Error::InvalidCertificate(CertificateError::Other(other)) = why else { return false };
    other.to_string().contains("CaUsedAsEndEntity")
}

impl ServerCertVerifier for Judge {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        chain: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let why = match self.webpki.verify_server_cert(certificate, chain, name, ocsp, now) {
            Ok(verified) => return Ok(verified),
            Err(why) => why,
        };
        let is_an_issuers = is_an_issuers(&why);
        if let Some(judged) = self.itself(certificate, name).filter(|_| is_an_issuers) {
            return judged.map(|()| ServerCertVerified::assertion());
        }
        let is_unknown = matches!(why, Error::InvalidCertificate(CertificateError::UnknownIssuer));
        match (is_an_issuers || is_unknown) && signed_itself(certificate) {
            true => Err(Error::InvalidCertificate(CertificateError::Other(OtherError(Arc::new(SelfSigned))))),
            false => Err(why),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.webpki.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.webpki.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.webpki.supported_verify_schemes()
    }
}

/// Returns whether issuer and subject of a certificate are the same.
///
/// Source: RFC 5280 4.1: version, serial number, signature, issuer, validity, subject.
fn signed_itself(certificate: &[u8]) -> bool {
    let names = || {
        let (_, whole, _) = element(certificate)?;
        let (_, to_be_signed, _) = element(whole)?;
        let (tag, _, after) = element(to_be_signed)?;
        // The version is left out of the oldest certificates.
        let serial = if tag == VERSION { after } else { to_be_signed };
        let (_, _, signature) = element(serial)?;
        let (_, _, issuer) = element(signature)?;
        let (_, issuer, validity) = element(issuer)?;
        let (_, _, subject) = element(validity)?;
        let (_, subject, _) = element(subject)?;
        Some((issuer, subject))
    };
    names().is_some_and(|(issuer, subject)| issuer == subject)
}

/// The tag of a version in DER: `[0]`, constructed.
const VERSION: u8 = 0xa0;

/// Returns the tag and the content of the first element of some DER, and what follows it.
fn element(der: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (tag, rest) = der.split_first()?;
    let (first, rest) = rest.split_first()?;
    let (length, rest) = match first {
        ..=0x7f => (usize::from(*first), rest),
        0x81..=0x83 => {
            let (digits, rest) = rest.split_at_checked(usize::from(first - 0x80))?;
            (digits.iter().fold(0, |length, digit| length << 8 | usize::from(*digit)), rest)
        }
        _ => return None,
    };
    let (content, after) = rest.split_at_checked(length)?;
    Some((*tag, content, after))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};

    #[test]
    fn only_what_names_itself_as_issuer_has_signed_itself() {
        let key = KeyPair::generate().expect("makes");
        let mut params = CertificateParams::new(vec!["ca.example".into()]).expect("a name");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(rcgen::DnType::CommonName, "the issuer");
        let root = params.self_signed(&key).expect("makes");
        let issuer = Issuer::new(params, &key);
        let leaf = CertificateParams::new(vec!["a.example".into()]).expect("a name").signed_by(&key, &issuer);
        assert!(signed_itself(root.der()));
        assert!(!signed_itself(leaf.expect("makes").der()));
        for end in 0..root.der().len() {
            assert!(!signed_itself(&root.der()[..end]));
        }
    }
}
