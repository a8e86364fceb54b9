//! What became of the TLS handshakes, and what the certificate says.

use super::code::Code;
use super::dial::FIRST_RESEND;
use super::judgement::Judgement;
use super::observations::{Address, Observations};
use super::tcp::Delivery;
use crate::engine::exchange::{Distrust, Fault, Stage};
use crate::engine::gateway::shown;
use crate::engine::moment::Timestamp;
use crate::engine::units::show_rounded;
use crate::engine::verdict::Side;
use std::time::Duration;

/// What became of a TLS handshake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Handshake {
    /// Whether it was completed, and the certificate accepted.
    pub outcome: Result<(), Fault>,
    /// How long it took, or was waited for.
    pub took: Option<Duration>,
    /// The version, such as `1.3`.
    pub version: Option<Box<str>>,
    /// The protocol that was agreed on, such as `h2`.
    pub alpn: Option<Box<str>>,
    /// The group of the key exchange, such as `X25519`.
    pub group: Option<Box<str>>,
    /// The certificate of the partner, accepted or not.
    pub certificate: Option<Certificate>,
    /// The alert that ended it, by its name in RFC 8446.
    pub alert: Option<Box<str>>,
}

impl Handshake {
    /// Returns a handshake of which only the outcome is known.
    pub fn new(outcome: Result<(), Fault>) -> Handshake {
        Handshake { outcome, took: None, version: None, alpn: None, group: None, certificate: None, alert: None }
    }
}

/// What a certificate says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Certificate {
    /// The names that it is for.
    pub names: Vec<Box<str>>,
    /// Who issued it, in short.
    pub issuer: Option<Box<str>>,
    /// Since when it is valid.
    pub not_before: Option<Timestamp>,
    /// Until when it is valid.
    pub not_after: Option<Timestamp>,
}

/// With less left a certificate is a reason to look.
///
/// Source: latency.md 6.6.
const ENDS_SOON: Duration = Duration::from_secs(14 * 86_400);

impl Certificate {
    /// Returns how long it is still valid at `now`; zero where it has ended.
    pub fn left(&self, now: Timestamp) -> Option<Duration> {
        Some(self.not_after?.since(now))
    }

    /// Returns whether it is valid at `now`, but not for 14 days more.
    pub fn ends_soon(&self, now: Timestamp) -> bool {
        self.left(now).is_some_and(|left| !left.is_zero() && left < ENDS_SOON)
    }

    /// Returns whether it is valid at `time`; `None` where it is not known from when or until when it is.
    pub fn is_valid_at(&self, time: Timestamp) -> Option<bool> {
        Some(self.not_before? <= time && time <= self.not_after?)
    }
}

/// Rules 8 and 9: a connection stands, and TLS does not come about.
pub(super) fn judge(seen: &Observations) -> Option<Judgement> {
    let (fault, address) = failed(seen)?;
    let judgement = match fault {
        Fault::Certificate(why) => distrusted(why, seen),
        Fault::TimedOut(_) => silent(seen, address),
        Fault::NoTrust => Judgement::new(Code::NoTrust, Side::Configuration),
        Fault::NotTls => Judgement::new(Code::NotTls, Side::Configuration),
        Fault::TlsIncompatible => Judgement::new(Code::TlsVersion, Side::Theirs),
        Fault::ClientCertificateWanted => Judgement::new(Code::ClientCertificateWanted, Side::Configuration),
        Fault::ClientCertificateRefused => Judgement::new(Code::ClientCertificateRefused, Side::Configuration),
        Fault::Alert => Judgement::new(Code::TlsAlert, Side::Unclear),
        Fault::Reset | Fault::Closed => Judgement::new(Code::TlsClosed, Side::Theirs)
            .doubted("a firewall between that dislikes the name or TLS does the same"),
        _ => Judgement::new(Code::TlsFailed, Side::Theirs).doubted("the error has no name here"),
    };
    let comments = judgement.because.len();
    let mut judgement = with_evidence(judgement, seen, address, fault);
    if matches!(fault, Fault::Certificate(_)) {
        // What the certificate says comes first: it is what the partner can check.
        judgement.because.rotate_left(comments);
    }
    Some(judgement)
}

/// Returns the fault that ended every handshake that was tried, or that belongs to TLS and ended the request: in TLS
/// 1.3 a partner may look at our certificate after the request has left.
///
/// Source: latency.md section 7, scenario 8.
fn failed(seen: &Observations) -> Option<(Fault, Option<&Address>)> {
    let is_tls = |fault: Fault| {
        matches!(
            fault,
            Fault::Certificate(_)
                | Fault::NoTrust
                | Fault::NotTls
                | Fault::TlsIncompatible
                | Fault::Tls
                | Fault::ClientCertificateWanted
                | Fault::ClientCertificateRefused
                | Fault::Alert
        )
    };
    let of_exchange = seen.failure().filter(|(stage, fault)| *stage == Stage::Tls || is_tls(*fault));
    if let Some((_, fault)) = of_exchange {
        return Some((fault, seen.asked_address()));
    }
    if seen.exchange.is_some() {
        return None;
    }
    let tried = || seen.addresses.iter().filter_map(|address| Some((address, address.tls.as_ref()?)));
    if tried().any(|(_, tls)| tls.outcome.is_ok()) {
        return None;
    }
    // What names a cause tells more than a mere time-out on another address.
    let named = tried().find(|(_, tls)| tls.outcome.is_err_and(is_tls));
    let (address, tls) = named.or_else(|| tried().next())?;
    Some((tls.outcome.err()?, Some(address)))
}

/// Rule 8.
fn silent(seen: &Observations, address: Option<&Address>) -> Judgement {
    let tcp = address.and_then(|address| address.tcp).unwrap_or_default();
    let waited = address.and_then(|address| address.tls.as_ref()?.took);
    match (tcp.delivery(), tcp.was_resent()) {
        (Some(Delivery::Unacknowledged), Some(true)) => {
            Judgement::new(Code::TlsBlackhole, Side::Network).fact(format!("the ClientHello is lost: {}", tcp.words()))
        }
        (Some(Delivery::Acknowledged), _) if waited.is_none_or(|waited| waited >= FIRST_RESEND) => {
            Judgement::new(Code::TlsSilent, Side::Theirs).fact(format!("the ClientHello arrived: {}", tcp.words()))
        }
        _ if seen.deadline_reached.is_some() => Judgement::unclear(Code::Deadline),
        _ => Judgement::new(Code::TlsSilent, Side::Unclear).note(tcp.words()),
    }
}

/// Rule 9, of certificates.
fn distrusted(why: Distrust, seen: &Observations) -> Judgement {
    match why {
        Distrust::Expired | Distrust::NotYetValid => out_of_date(why, seen),
        Distrust::Name => Judgement::new(Code::CertificateName, Side::Theirs),
        Distrust::Issuer => unknown_issuer(Code::CertificateIssuer, seen),
        Distrust::SelfSigned => unknown_issuer(Code::CertificateSelfSigned, seen),
        Distrust::Other => Judgement::new(Code::CertificateBad, Side::Theirs),
    }
}

/// A clock that is wrong makes a good certificate look bad; one that is bad by the partner's clock, too, is bad.
fn out_of_date(why: Distrust, seen: &Observations) -> Judgement {
    let code = if why == Distrust::Expired { Code::CertificateExpired } else { Code::CertificateNotYetValid };
    let theirs = Judgement::new(code, Side::Theirs);
    let Some(skew) = seen.skew.filter(|skew| skew.is_notable()) else {
        return match seen.skew {
            Some(skew) => theirs.fact(format!("our clock is not the cause: {}", skew.words())),
            None => theirs,
        };
    };
    let by_their_clock =
        seen.certificate().zip(seen.at).and_then(|(certificate, at)| certificate.is_valid_at(skew.partner_time(at)));
    match (skew.is_breaking(), by_their_clock) {
        (true, None | Some(true)) => Judgement::new(Code::ClockSkew, Side::Ours)
            .fact(skew.words())
            .fact_if(by_their_clock.map(|_| "the certificate is valid by the partner's clock".into())),
        (true, Some(false)) => theirs.fact("the certificate is not valid by the partner's clock either"),
        (false, _) => theirs.doubted(skew.words()).next("set this machine's clock first, then look again"),
    }
}

/// An issuer that changed may be somebody who opens TLS on the way.
fn unknown_issuer(code: Code, seen: &Observations) -> Judgement {
    let now = seen.certificate().and_then(|certificate| certificate.issuer.as_deref());
    match (seen.past.issuer.as_deref(), now) {
        (Some(before), Some(now)) if before != now => Judgement::new(Code::Intercepted, Side::Network).fact(format!(
            "the issuer was {}, and is {} now",
            shown(before),
            shown(now)
        )),
        _ => Judgement::new(code, Side::Configuration),
    }
}

/// No more names of a certificate are listed.
const NAMES_MAX: usize = 5;

fn with_evidence(judgement: Judgement, seen: &Observations, address: Option<&Address>, fault: Fault) -> Judgement {
    let failed: Vec<&Address> = seen.addresses.iter().filter(|address| has_fault(address, fault)).collect();
    let took = address.and_then(|address| address.tls.as_ref()?.took);
    let after = took.map(|took| format!(" after {}", show_rounded(took))).unwrap_or_default();
    let alert = address.and_then(|address| address.tls.as_ref()?.alert.as_deref());
    let alert = alert.map(|alert| format!(", alert {}", shown(alert))).unwrap_or_default();
    let who = address.map_or("the partner".into(), |address| address.addr.to_string());
    let judgement = judgement.fact(format!("{who} connects, and TLS fails{after}{alert}"));
    let judgement = match failed.len() {
        0 | 1 => judgement,
        count => judgement.fact(format!("{count} of {} addresses fail so", seen.addresses.len())),
    };
    let error = seen.exchange.as_ref().and_then(|exchange| exchange.error.as_deref()).map(shown);
    let words = seen.certificate().map(described).or(error);
    match fault {
        Fault::Certificate(_) => judgement.fact_if(words),
        _ => judgement,
    }
}

fn has_fault(address: &Address, fault: Fault) -> bool {
    address.tls.as_ref().is_some_and(|tls| tls.outcome == Err(fault))
}

/// Returns a certificate in words: `it is for a.example, issued by R11, valid from … to …`.
fn described(certificate: &Certificate) -> String {
    let names: Vec<String> = certificate.names.iter().take(NAMES_MAX).map(|name| shown(name)).collect();
    let parts = [
        (!names.is_empty()).then(|| format!("is for {}", names.join(", "))),
        certificate.issuer.as_deref().map(|issuer| format!("was issued by {}", shown(issuer))),
        certificate.not_before.map(|from| format!("is valid from {from}")),
        certificate.not_after.map(|to| format!("is valid to {to}")),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    if parts.is_empty() {
        "the certificate tells nothing".into()
    } else {
        format!("the certificate {}", parts.join(", "))
    }
}
