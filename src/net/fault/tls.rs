//! What an error of TLS means.

use crate::engine::exchange::{Distrust, Fault};
use crate::engine::moment::Timestamp;
use crate::net::marks::Progress;
use crate::net::tls::SelfSigned;
use rustls::pki_types::{ServerName, UnixTime};
use rustls::{AlertDescription as Alert, CertificateError, Error, InvalidMessage};

/// Returns what an error means for an attempt that got no answer.
///
/// Only on a connection that was opened for it can an alert be about our certificate: in TLS 1.3 the partner looks at
/// it when the request may have left already, and at the request only after that (decisions 15).
pub(super) fn fault(error: &Error, progress: &Progress) -> Fault {
    let is_handshake = progress.on_its_way().is_none();
    match error {
        Error::InvalidCertificate(why) => Fault::Certificate(distrust(why)),
        Error::NoCertificatesPresented => Fault::Certificate(Distrust::Other),
        Error::InvalidMessage(InvalidMessage::InvalidContentType) if is_handshake => Fault::NotTls,
        Error::PeerIncompatible(_) if is_handshake => Fault::TlsIncompatible,
        Error::AlertReceived(alert) if is_handshake => refused_handshake(*alert, progress.shown),
        Error::AlertReceived(alert) => match progress.shown.filter(|_| progress.connected.is_some()) {
            Some(shown) if is_about_our_certificate(*alert) => our_certificate(shown),
            _ => Fault::Alert,
        },
        _ if is_handshake => Fault::Tls,
        _ => Fault::Other,
    }
}

fn our_certificate(shown: bool) -> Fault {
    if shown { Fault::ClientCertificateRefused } else { Fault::ClientCertificateWanted }
}

/// Returns what an alert in a handshake means; `shown` tells whether we showed a certificate, where one was asked for.
fn refused_handshake(alert: Alert, shown: Option<bool>) -> Fault {
    match (alert, shown) {
        // TLS 1.2 has no alert of its own for a certificate that is missing.
        (Alert::HandshakeFailure, Some(shown)) => our_certificate(shown),
        (alert, Some(shown)) if is_about_our_certificate(alert) => our_certificate(shown),
        (Alert::HandshakeFailure | Alert::ProtocolVersion | Alert::InsufficientSecurity, _) => Fault::TlsIncompatible,
        (Alert::NoApplicationProtocol, _) => Fault::TlsIncompatible,
        _ => Fault::Tls,
    }
}

/// Returns whether an alert can only be about a certificate of ours.
///
/// Source: RFC 8446 6.2.
fn is_about_our_certificate(alert: Alert) -> bool {
    matches!(
        alert,
        Alert::CertificateRequired
            | Alert::NoCertificate
            | Alert::BadCertificate
            | Alert::UnsupportedCertificate
            | Alert::CertificateRevoked
            | Alert::CertificateExpired
            | Alert::CertificateUnknown
            | Alert::UnknownCA
            | Alert::AccessDenied
    )
}

fn distrust(why: &CertificateError) -> Distrust {
    match why {
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => Distrust::Expired,
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => Distrust::NotYetValid,
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => Distrust::Name,
        CertificateError::UnknownIssuer => Distrust::Issuer,
        CertificateError::Other(other) if other.0.is::<SelfSigned>() => Distrust::SelfSigned,
        _ => Distrust::Other,
    }
}

/// More names of a certificate are not listed.
const NAMES_MAX: usize = 5;

/// Returns what is to be known about an error beside its kind, in plain words.
pub(super) fn words(error: &Error) -> String {
    let clock = |time: &UnixTime| format!("this machine's clock says {}", date(time));
    match error {
        Error::InvalidCertificate(CertificateError::ExpiredContext { time, not_after }) => {
            format!("it ended {}; {}", date(not_after), clock(time))
        }
        Error::InvalidCertificate(CertificateError::NotValidYetContext { time, not_before }) => {
            format!("it begins {}; {}", date(not_before), clock(time))
        }
        Error::InvalidCertificate(CertificateError::NotValidForNameContext { expected, presented }) => {
            format!("it is for {}, not for {}", names(presented), name(expected))
        }
        Error::InvalidCertificate(CertificateError::Other(other))
            if other.to_string().contains("CaUsedAsEndEntity") =>
        {
            "it is the certificate of an issuer (CA:TRUE), which is none of a server".into()
        }
        Error::InvalidCertificate(CertificateError::UnknownIssuer) => String::new(),
        Error::InvalidCertificate(CertificateError::Other(other)) => other.to_string(),
        Error::AlertReceived(alert) => format!("its alert: {alert:?}"),
        error => error.to_string(),
    }
}

fn date(time: &UnixTime) -> String {
    let ms = i64::try_from(time.as_secs()).unwrap_or(i64::MAX).saturating_mul(1000);
    Timestamp::from_unix_ms(ms).to_string().replace(".000Z", "Z")
}

/// Returns names as people write them: webpki gives `DnsName("a.example")`.
fn names(presented: &[String]) -> String {
    let plain = |name: &String| {
        let inside = name.split_once('(').and_then(|(_, rest)| rest.strip_suffix(')')).unwrap_or(name);
        inside.trim_matches('"').to_owned()
    };
    let mut names: Vec<String> = presented.iter().take(NAMES_MAX).map(plain).collect();
    match presented.len() {
        0 => names.push("no name at all".into()),
        n if n > NAMES_MAX => names.push(format!("{} more", n - NAMES_MAX)),
        _ => {}
    }
    names.join(", ")
}

fn name(expected: &ServerName<'_>) -> String {
    expected.to_str().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::Instant;

    fn progress(stands: bool, begun: bool, shown: Option<bool>) -> Progress {
        let now = Some(Instant::now());
        Progress { connected: now.filter(|_| stands), begun: now.filter(|_| begun), shown, ..Progress::default() }
    }

    #[test]
    fn an_alert_is_about_our_certificate_only_where_one_was_asked_for_on_a_connection_of_its_own() {
        use Fault::{Alert as Other, ClientCertificateRefused as Refused, ClientCertificateWanted as Wanted};
        let (in_handshake, sent, kept) = ((false, false), (true, true), (false, true));
        let cases = [
            (Alert::CertificateRequired, in_handshake, Some(false), Wanted),
            (Alert::HandshakeFailure, in_handshake, Some(false), Wanted),
            (Alert::HandshakeFailure, in_handshake, Some(true), Refused),
            (Alert::HandshakeFailure, in_handshake, None, Fault::TlsIncompatible),
            (Alert::ProtocolVersion, in_handshake, None, Fault::TlsIncompatible),
            (Alert::UnknownCA, in_handshake, Some(true), Refused),
            (Alert::UnrecognisedName, in_handshake, None, Fault::Tls),
            (Alert::CertificateRequired, sent, Some(false), Wanted),
            (Alert::UnknownCA, sent, Some(true), Refused),
            (Alert::AccessDenied, sent, Some(true), Refused),
            (Alert::CertificateExpired, sent, Some(true), Refused),
            (Alert::HandshakeFailure, sent, Some(true), Other),
            (Alert::InternalError, sent, Some(true), Other),
            (Alert::DecryptError, sent, Some(true), Other),
            (Alert::CloseNotify, sent, Some(true), Other),
            (Alert::UnknownCA, sent, None, Other),
            (Alert::CertificateExpired, kept, Some(true), Other),
        ];
        for (alert, (stands, begun), shown, expected) in cases {
            let found = fault(&Error::AlertReceived(alert), &progress(stands, begun, shown));
            assert_eq!(found, expected, "{alert:?} {stands} {begun} {shown:?}");
        }
    }

    #[test]
    fn a_certificate_is_told_in_plain_words() {
        let at = |secs| UnixTime::since_unix_epoch(std::time::Duration::from_secs(secs));
        let expired = CertificateError::ExpiredContext { time: at(1_796_000_000), not_after: at(1_700_000_000) };
        let said = words(&Error::InvalidCertificate(expired));
        assert_eq!(said, "it ended 2023-11-14T22:13:20Z; this machine's clock says 2026-11-30T00:53:20Z");
        let many = ["DnsName(\"a.example\")".to_owned(), "IpAddress(127.0.0.1)".to_owned()];
        assert_eq!(names(&many), "a.example, 127.0.0.1");
        assert_eq!(names(&[]), "no name at all");
        assert_eq!(names(&vec!["DnsName(\"a\")".to_owned(); 7]), "a, a, a, a, a, 2 more");
    }
}
