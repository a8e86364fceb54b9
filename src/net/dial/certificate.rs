//! What a certificate says, valid or not.

use crate::engine::diagnose::handshake::Certificate;
use crate::engine::gateway::is_deceptive;
use crate::engine::moment::Timestamp;
use rustls::pki_types::CertificateDer;
use std::net::IpAddr;
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::FromDer;
use x509_parser::x509::X509Name;

/// More names of a certificate are not kept.
const NAMES_MAX: usize = 16;

/// Reads a certificate; `None` where it is none.
pub(super) fn read(der: &CertificateDer<'_>) -> Option<Certificate> {
    let (_, parsed) = X509Certificate::from_der(der).ok()?;
    let validity = parsed.validity();
    let at = |secs: i64| Some(Timestamp::from_unix_ms(secs.saturating_mul(1_000)));
    Some(Certificate {
        names: names(&parsed),
        issuer: short(parsed.issuer()),
        not_before: at(validity.not_before.timestamp()),
        not_after: at(validity.not_after.timestamp()),
    })
}

fn names(parsed: &X509Certificate<'_>) -> Vec<Box<str>> {
    let alternatives = parsed.subject_alternative_name().ok().flatten();
    let names = alternatives.iter().flat_map(|names| &names.value.general_names);
    names.filter_map(name).take(NAMES_MAX).collect()
}

fn name(name: &GeneralName<'_>) -> Option<Box<str>> {
    match name {
        GeneralName::DNSName(name) => Some(shown(name)),
        GeneralName::IPAddress(bytes) => {
            let v4 = || <[u8; 4]>::try_from(*bytes).ok().map(IpAddr::from);
            let v6 = || <[u8; 16]>::try_from(*bytes).ok().map(IpAddr::from);
            v4().or_else(v6).map(|ip| ip.to_string().into())
        }
        _ => None,
    }
}

/// Returns the common name, else the organisation, else all of it.
fn short(name: &X509Name<'_>) -> Option<Box<str>> {
    let common = name.iter_common_name().next().and_then(|name| name.as_str().ok());
    let organisation = || name.iter_organization().next().and_then(|name| name.as_str().ok());
    common.or_else(organisation).map(shown).or_else(|| Some(shown(&name.to_string())))
}

/// Returns a text of the partner's as one line.
fn shown(text: &str) -> Box<str> {
    const MAX: usize = 100;
    text.chars().map(|c| if is_deceptive(c) { ' ' } else { c }).take(MAX).collect::<String>().into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{CertificateParams, KeyPair, date_time_ymd};

    #[test]
    fn dates_names_and_issuer_are_read() {
        let mut params = CertificateParams::new(["a.example".into(), "192.0.2.7".into()]).expect("names");
        params.not_before = date_time_ymd(2020, 1, 1);
        params.not_after = date_time_ymd(2020, 1, 2);
        params.distinguished_name.push(rcgen::DnType::CommonName, "A\nTest");
        let key = KeyPair::generate().expect("makes");
        let made = params.self_signed(&key).expect("makes");
        let read = read(made.der()).expect("is one");
        assert_eq!(read.names, ["a.example".into(), "192.0.2.7".into()]);
        assert_eq!(read.issuer.as_deref(), Some("A Test"));
        let at = |text: &str| text.parse::<Timestamp>().ok();
        assert_eq!((read.not_before, read.not_after), (at("2020-01-01T00:00:00Z"), at("2020-01-02T00:00:00Z")));
        assert_eq!(super::read(&CertificateDer::from(vec![1, 2, 3])), None);
    }
}
