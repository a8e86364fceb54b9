//! Why an attempt came out as it did: stable slugs for the ledger, sentences for people.

use serde::{Deserialize, Serialize};
use std::fmt;

macro_rules! reasons {
    ($($name:ident = $slug:literal, $words:literal;)*) => {
        /// Why an attempt came out as it did.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        pub enum Reason {
            $(#[doc = $words] $name,)*
            /// Written by a newer version.
            #[serde(other)]
            Unknown,
        }

        impl Reason {
            /// Every reason that this version gives.
            pub const ALL: &'static [Reason] = &[$(Reason::$name),*];

            /// Returns the slug used in the ledger and in JSON.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Reason::$name => $slug,)*
                    Reason::Unknown => "unknown",
                }
            }

            /// Returns what happened, for people.
            pub const fn words(self) -> &'static str {
                match self {
                    $(Reason::$name => $words,)*
                    Reason::Unknown => "written by a newer version of abide",
                }
            }
        }
    };
}

reasons! {
    Ok = "ok", "answered";
    Accepted = "accepted", "accepted, not finished";
    NameUnknown = "name_unknown", "no such host name";
    NameUnavailable = "name_unavailable", "the name servers could not answer";
    NameTimeout = "name_timeout", "the name lookup took longer than the connect limit";
    ConnectRefused = "connect_refused", "connection refused";
    ConnectTimeout = "connect_timeout", "no connection within the connect limit";
    Unreachable = "unreachable", "no route to the host";
    ConnectFailed = "connect_failed", "the connection failed";
    LocalResources = "local_resources", "this machine ran out of sockets, ports or memory";
    ProxyNameUnknown = "proxy_name_unknown", "no such host name: the proxy's";
    ProxyUnreachable = "proxy_unreachable", "the proxy cannot be reached";
    ProxyTimeout = "proxy_timeout", "no connection through the proxy within the connect limit";
    ProxyFailed = "proxy_failed", "the proxy did not connect us to the partner";
    ProxyCredentials = "proxy_credentials", "the proxy wants credentials, or other ones";
    ProxyForbids = "proxy_forbids", "the proxy's rules forbid this partner";
    BeyondProxy = "beyond_proxy", "the proxy says that it cannot reach the partner";
    Certificate = "certificate", "the partner's certificate was not accepted";
    CertificateExpired = "certificate_expired", "the partner's certificate has ended";
    CertificateNotYetValid = "certificate_not_yet_valid", "the partner's certificate is not valid yet";
    CertificateName = "certificate_name", "the partner's certificate is for another name";
    CertificateIssuer = "certificate_issuer", "nobody who is trusted issued the partner's certificate";
    CertificateSelfSigned = "certificate_self_signed", "the partner's certificate has itself as its issuer";
    NoTrust = "no_trust", "this machine has no certificates to trust";
    ClientCertificateWanted = "client_certificate_wanted", "the partner wants a client certificate, and none is stated";
    ClientCertificate = "client_certificate", "the partner refused our certificate";
    NotTls = "not_tls", "the partner does not speak TLS on this port";
    TlsIncompatible = "tls_incompatible", "no TLS version or cipher in common with the partner";
    TlsTimeout = "tls_timeout", "no TLS handshake within the connect limit";
    TlsAlert = "tls_alert", "the partner ended the connection with a TLS alert";
    TlsFailed = "tls_failed", "the TLS handshake failed";
    Unbuildable = "unbuildable", "the request could not be built";
    Expired = "expired", "no longer valid when it was about to be sent";
    ClosedBeforeSent = "closed_before_sent", "the connection ended before anything was sent";
    WriteTimeout = "write_timeout", "the partner stopped taking the request";
    ClosedWhileSending = "closed_while_sending", "the connection ended while the request was going out";
    ReadTimeout = "read_timeout", "no answer within the read limit";
    ReadLimitShort = "read_limit_short", "no answer within the read limit, which is shorter than the measured p99";
    AttemptTimeout = "attempt_timeout", "no answer within the attempt limit";
    DeadlineReached = "deadline_reached", "no answer before the deadline";
    Unanswered = "unanswered", "the connection ended without an answer";
    NotHttp = "not_http", "the answer is not HTTP";
    HeadTooLarge = "head_too_large", "the head of the answer is too large";
    AnswerCut = "answer_cut", "the answer was cut off";
    AnswerStalled = "answer_stalled", "the answer stopped coming";
    Suspended = "suspended", "this machine slept during the attempt";
    NotASuccess = "not_a_success", "a success status, but not what the profile calls a success";
    Html = "html", "an HTML page in answer to a JSON request: a login page or a captive portal";
    PartialSuccess = "partial_success", "a partial or unusual success";
    Redirect = "redirect", "a redirect, which is not followed";
    RedirectElsewhere = "redirect_elsewhere", "a redirect to another origin, which is not followed";
    RedirectHop = "redirect_hop", "a redirect that is followed";
    TooManyRedirects = "too_many_redirects", "too many redirects in a row";
    RedirectLoop = "redirect_loop", "the redirects lead in a circle";
    RedirectInsecure = "redirect_insecure", "a redirect from https to http, which is never followed";
    RedirectNowhere = "redirect_nowhere", "a redirect that names no place to go to";
    NotForwarded = "not_forwarded", "a gateway says that the request never reached the partner";
    Credentials = "credentials", "the credentials were refused";
    RateLimited = "rate_limited", "too many requests";
    Unavailable = "unavailable", "the partner is unavailable";
    Gateway = "gateway", "a gateway got no good answer from the partner";
    ServerError = "server_error", "the partner failed";
    RequestTimeout = "request_timeout", "the partner says that the request came too slowly";
    Conflict = "conflict", "the partner reports a conflict: perhaps with our own earlier attempt";
    InProgress = "in_progress", "an earlier attempt with this key is still running";
    Misdirected = "misdirected", "the partner asks for another connection";
    Rejected = "rejected", "the partner refused it";
    AlreadyGone = "already_gone", "already gone: an earlier attempt deleted it";
    CaptivePortal = "captive_portal", "a network login page answered in the partner's place";
    NotImplemented = "not_implemented", "the partner does not support this kind of request";
    Rule = "rule", "as a rule of the profile says";
}

impl Reason {
    /// Returns whether the edge's own words belong to the reason: which names, until when, which alert.
    pub const fn wants_detail(self) -> bool {
        matches!(
            self,
            Reason::Certificate
                | Reason::CertificateExpired
                | Reason::CertificateNotYetValid
                | Reason::CertificateName
                | Reason::NoTrust
                | Reason::ClientCertificate
                | Reason::TlsAlert
        )
    }

    /// Returns what somebody must put right before another attempt can do better, where the reason says it.
    pub const fn remedy(self) -> Option<&'static str> {
        Some(match self {
            Reason::CertificateExpired => "let the partner renew the certificate, or set this machine's clock",
            Reason::CertificateNotYetValid => "set this machine's clock, or let the partner correct the certificate",
            Reason::CertificateName => "use the name that the certificate is for, or ask the partner for the right one",
            Reason::CertificateIssuer => {
                "if the partner has an issuer of its own, name its certificate with --cacert or ca_file in [tls]"
            }
            Reason::CertificateSelfSigned => {
                "if it is the right one, get it from the partner and name it with --cacert or ca_file in [tls]"
            }
            Reason::NoTrust => {
                "install the system's ca-certificates, or name a file with SSL_CERT_FILE, --cacert or ca_file in [tls]"
            }
            Reason::ClientCertificateWanted => {
                "name a certificate and its key with --cert and --cert-key, or cert_file and key_file in [tls]"
            }
            Reason::ClientCertificate => "ask the partner which certificate it accepts: issuer, dates, registration",
            Reason::NotTls => "look at scheme and port: perhaps it is http://, or another port",
            Reason::TlsIncompatible => "ask the partner for TLS 1.2 or 1.3: nothing older is spoken",
            _ => return None,
        })
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ledger_gets_the_same_slug_as_the_screen() {
        for reason in Reason::ALL {
            let written = serde_json::to_string(reason).expect("a slug");
            assert_eq!(written, format!("\"{}\"", reason.name()));
            assert_eq!(serde_json::from_str::<Reason>(&written).expect("reads"), *reason);
        }
        assert_eq!(serde_json::from_str::<Reason>("\"made_up\"").expect("reads"), Reason::Unknown);
    }
}
