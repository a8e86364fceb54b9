//! What a probe finds: stable slugs for scripts, a sentence and a next step for people.

use serde::{Deserialize, Serialize};
use std::fmt;

macro_rules! codes {
    ($($name:ident = $slug:literal, $words:literal, $next:literal;)*) => {
        /// What a probe finds.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
        pub enum Code {
            $(#[doc = $words] #[serde(rename = $slug)] $name,)*
        }

        impl Code {
            /// Every code, in the order in which the causes are looked for.
            pub const ALL: &'static [Code] = &[$(Code::$name),*];

            /// Returns the slug. It stays the same over all versions.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Code::$name => $slug,)*
                }
            }

            /// Returns what is the matter, for people.
            pub const fn words(self) -> &'static str {
                match self {
                    $(Code::$name => $words,)*
                }
            }

            /// Returns what to do next where nothing better is known.
            pub const fn next(self) -> &'static str {
                match self {
                    $(Code::$name => $next,)*
                }
            }
        }
    };
}

codes! {
    SetupUsage = "setup.usage", "the arguments make no request",
        "correct the arguments: `abide probe --help` has examples";
    SetupProfile = "setup.profile", "the profile cannot be used",
        "correct the profile, then look at it with `abide profile check`";
    SetupSecret = "setup.secret", "a secret that the profile needs is not there",
        "set the variable or file that is named above";
    ProxyNameUnknown = "proxy.name_unknown", "the proxy's host name does not exist",
        "correct the proxy's name, or remove the setting that names it";
    ProxyUnreachable = "proxy.unreachable", "a proxy is in effect, and there is no connection to it",
        "correct or remove the setting that names the proxy";
    ProxyFailed = "proxy.failed", "a proxy is in effect, and it did not connect us to the partner",
        "ask whoever runs the proxy, or try without it";
    ProxyCredentials = "proxy.credentials", "the proxy wants credentials, or other ones",
        "put the right user and password into the proxy's URL";
    ProxyForbids = "proxy.forbids", "the proxy's rules forbid this partner",
        "ask whoever runs the proxy to allow this partner";
    ProxyBeyond = "proxy.beyond", "the proxy works, and says that it cannot reach the partner",
        "report it to the partner, or try without the proxy";
    LocalResources = "local.resources", "this machine ran out of sockets, ports or memory",
        "close what holds them, and look at the limits (`ulimit -n`)";
    LocalSuspended = "local.suspended", "this machine slept during the probe",
        "run the probe again";
    NoRoute = "net.no_route", "this machine has no route to the partner's addresses",
        "check the network, the VPN and the routes of this machine (`ip route get ADDRESS`)";
    RouteDenied = "net.route_denied", "a rule of this machine forbids the way to the partner",
        "look for a route of the kind prohibit or blackhole, or a firewall, on this machine";
    RejectedHere = "net.rejected_here", "this machine's own firewall refuses the connection",
        "look at the rules for outgoing connections on this machine";
    NameUnknown = "dns.nxdomain", "the host name does not exist",
        "check the spelling of the host name, and ask the partner for the right one";
    NameEmpty = "dns.no_address", "the host name exists and has no address",
        "ask the partner which name to use; check the spelling";
    NamesSilent = "dns.no_answer", "no name server answers",
        "check the network and the name servers of this machine (/etc/resolv.conf)";
    NamesBroken = "dns.servfail", "every name server fails on the partner's name",
        "report it to the partner: its zone or signatures may be broken; try another name server to compare";
    NamesRefuse = "dns.refused", "the name servers refuse to look up for us",
        "use name servers that serve this machine (/etc/resolv.conf)";
    NamesLocal = "dns.local_resolver", "the name servers know the name, and this machine's resolver does not find it",
        "look at /etc/nsswitch.conf and the local resolver service";
    NamesFailed = "dns.failed", "the name could not be looked up",
        "run the probe again, and check the name servers of this machine";
    Refused = "tcp.refused", "nobody listens on that port of the partner",
        "check the port in the URL; if it is right, report it to the partner";
    Filtered = "tcp.filtered", "the partner's addresses do not answer: filtered, down or overloaded",
        "ask the partner whether its service is up and lets our address in";
    Rejected = "net.rejected", "something between rejects the way to the partner",
        "ask who runs the firewalls between: ours first, then the partner";
    NeighbourSilent = "net.neighbour_silent", "a host or router on our own network segment does not answer",
        "check the gateway and the network segment of this machine";
    NoConnection = "tcp.no_connection", "none of the partner's addresses accepts a connection",
        "report it to the partner, with the addresses and what each said";
    TlsBlackhole = "tls.blackhole", "connections stand, and our first larger packet does not get through",
        "check the MTU of the path, VPNs and inspecting firewalls";
    TlsSilent = "tls.silent", "connections stand, and the TLS handshake gets no answer",
        "report it to the partner; a firewall that drops large packets on the way back looks the same";
    TlsClosed = "tls.closed", "the connection is ended during the TLS handshake",
        "report it to the partner; ask whether a firewall inspects TLS";
    ClockSkew = "clock.skew", "this machine's clock and the partner's are apart",
        "set this machine's clock by NTP, and run the probe again";
    CertificateExpired = "tls.expired", "the partner's certificate has ended",
        "report it to the partner: the certificate must be renewed";
    CertificateNotYetValid = "tls.not_yet_valid", "the partner's certificate is not valid yet",
        "check this machine's clock; if it is right, report it to the partner";
    CertificateName = "tls.wrong_name", "the partner's certificate is for another name",
        "check the host name in the URL; if it is right, report it to the partner";
    Intercepted = "tls.intercepted", "somebody else than usual issued the certificate: something between may open TLS",
        "send nothing; ask your network's people about TLS inspection, and the partner about a new issuer";
    CertificateIssuer = "tls.unknown_issuer", "nobody who is trusted here issued the partner's certificate",
        "if the partner has an issuer of its own, name its certificate with --cacert or ca_file in [tls]";
    CertificateSelfSigned = "tls.self_signed", "the partner's certificate has itself as its issuer",
        "if it is the right one, get it from the partner and name it with --cacert or ca_file in [tls]";
    CertificateBad = "tls.bad_certificate", "the partner's certificate was not accepted",
        "report it to the partner";
    NoTrust = "tls.no_trust", "this machine has no certificates to trust",
        "install the system's ca-certificates, or name a file with --cacert";
    ClientCertificateWanted = "tls.client_certificate_wanted", "the partner wants a client certificate, and got none",
        "name it with --cert and --cert-key, or cert_file and key_file in [tls]";
    ClientCertificateRefused = "tls.client_certificate_refused", "the partner refused our client certificate",
        "ask the partner which certificate it accepts: issuer, dates, registration";
    TlsVersion = "tls.version", "no TLS version or cipher in common with the partner",
        "ask the partner for TLS 1.2 or 1.3: nothing older is spoken";
    NotTls = "tls.not_tls", "the partner does not speak TLS on this port",
        "look at scheme and port: perhaps it is http://, or another port";
    TlsAlert = "tls.alert", "the partner ended the connection with a TLS alert",
        "report the alert to the partner";
    TlsFailed = "tls.failed", "the TLS handshake failed",
        "report it to the partner, with the words of the error";
    ReadLimitShort = "limits.read_short", "our limit for an answer is shorter than this partner's slow answers take",
        "raise [timeouts] read in the profile: `abide calibrate` suggests a limit; then probe again";
    RequestLost = "net.request_lost", "the connection stands, and our request is not acknowledged",
        "check the network path";
    AppSilent = "app.silent", "their side has the whole request and stays silent",
        "report it to the partner";
    AppStoppedReading = "app.stopped_reading", "their side stopped taking the request",
        "report it to the partner";
    AppReset = "app.reset", "the connection was reset before any answer",
        "report it to the partner";
    AppClosed = "app.closed", "the connection was closed before any answer",
        "report it to the partner";
    AppNotHttp = "app.not_http", "the answer is not HTTP",
        "check scheme and port of the URL; if they are right, report it to the partner";
    AppHeadTooLarge = "app.head_too_large", "the head of the answer is too large to read",
        "report it to the partner";
    EdgeOriginTimeout = "http.edge_origin_timeout", "their edge waited for their own servers in vain",
        "report it to the partner, with the id of the answer";
    EdgeOriginRefused = "http.edge_origin_refused", "their edge was refused by their own servers",
        "report it to the partner, with the id of the answer";
    EdgeOriginUnreachable = "http.edge_origin_unreachable", "their edge cannot reach their own servers",
        "report it to the partner, with the id of the answer";
    EdgeOriginName = "http.edge_origin_dns", "their edge cannot look up their own servers",
        "report it to the partner, with the id of the answer";
    EdgeOriginTls = "http.edge_origin_tls", "their edge and their own servers do not agree on TLS",
        "report it to the partner, with the id of the answer";
    EdgeOriginAnswer = "http.edge_origin_answer", "their edge got no usable answer from their own servers",
        "report it to the partner, with the id of the answer";
    EdgeDenied = "http.edge_denied", "their edge refuses our request",
        "ask the partner what its edge wants of a request";
    EdgeError = "http.edge_error", "their edge itself failed",
        "report it to the partner, with the id of the answer";
    Gateway = "http.gateway", "a gateway of theirs got no good answer",
        "report it to the partner, and try again later";
    Unavailable = "http.unavailable", "the partner says that it is unavailable",
        "wait, then run the probe again";
    RateLimited = "http.rate_limited", "the partner limits us: too many requests",
        "wait, and send less: look at [limits] rate";
    ServerError = "http.server_error", "the partner's application failed",
        "report it to the partner, with the time and the id of the answer";
    RequestTimeout = "http.request_timeout", "the partner says that our request came too slowly",
        "check the network path, and run the probe again";
    Unauthorized = "http.unauthorized", "the partner refused our credentials",
        "check the credentials in [auth], and whether they have ended";
    Blocked = "http.blocked", "a firewall of theirs answered in the application's place",
        "ask the partner to allow our address";
    Forbidden = "http.forbidden", "our credentials may not do this",
        "ask the partner for the right, or use other credentials";
    Switched = "http.switched", "the answer leaves HTTP for another protocol",
        "check the URL: it may be an address for websockets; if it is right, report it to the partner";
    RedirectLoop = "http.redirect_loop", "the redirect leads back to the same address",
        "check the URL and its headers with the partner";
    RedirectSecure = "http.redirect_https", "the partner wants https, and the URL says http",
        "write https:// in the URL or base_url";
    RedirectInsecure = "http.redirect_http", "the partner redirects from https to http, which is never followed",
        "report it to the partner";
    Redirect = "http.redirect", "the partner redirects, and redirects of writes are not followed",
        "use the address that the redirect names, if it is the partner's";
    CaptivePortal = "http.captive_portal", "a network login page answered in the partner's place",
        "log in to the network, then run the probe again";
    Html = "http.html", "an HTML page in answer to a JSON request: a login page or a captive portal",
        "open the URL in a browser from this machine; check network login and URL";
    BodyCut = "http.body_cut", "the answer was cut off",
        "report it to the partner";
    BodyStalled = "http.body_stalled", "the answer stopped coming",
        "report it to the partner";
    SendFails = "send.path_fails", "the probe gets an answer, and the way that `send` takes does not",
        "compare proxies, addresses and certificates of both: `abide probe --deep -v`";
    Deadline = "probe.deadline", "our own deadline ended the probe before it could tell",
        "run it again with a longer --deadline";
    Incomplete = "probe.incomplete", "the probe did not get far enough to tell",
        "run it again, with -v to see every step";
    Nothing = "probe.nothing", "nothing was looked at",
        "run `abide probe URL`";
    AddressDead = "tcp.dead_address", "the partner works, and some of its addresses do not",
        "report the dead addresses to the partner";
    AddressDiffers = "http.address_differs", "the partner works, and not all of its addresses answer alike",
        "report it to the partner, with the addresses and what each of them answers";
    SendDiffers = "send.path_differs", "the way that `send` takes gets another answer than the probe",
        "run it again: a partner that changes its mind looks the same; then compare what `-v` shows of both";
    Intermittent = "probe.intermittent", "the partner works, and an earlier attempt of this probe failed",
        "report it to the partner, and expect `send` to need more than one attempt";
    KeepAliveRace = "http.keep_alive", "the partner closes kept connections under our requests",
        "send each request on a connection of its own, as `send` does";
    SlowServer = "slow.server", "the partner's answer takes longer than usual, and the network is as usual",
        "report it to the partner, with the time; expect time-outs";
    SlowNetwork = "slow.network", "the network is slower than usual",
        "check the network path; compare from another place";
    Loss = "net.loss", "the network loses packets",
        "check the network path; compare from another place";
    SlowNames = "slow.resolve", "the name lookup takes longer than usual",
        "check the name servers of this machine";
    SlowConnect = "slow.connect", "connecting takes longer than usual",
        "check the network path; compare from another place";
    SlowTls = "slow.tls", "the TLS handshake takes longer than usual",
        "report it to the partner if it lasts";
    SlowBody = "slow.body", "the answer comes much slower than usual",
        "check the network path; compare from another place";
    CertificateEndsSoon = "tls.expires_soon", "the partner's certificate ends soon",
        "remind the partner to renew its certificate";
    ClientError = "http.client_error", "the partner's application answers, and does not serve this request",
        "everything up to the application works; probe another path to see a success";
    Ok = "ok", "the partner answers as it should",
        "nothing needs to be done";
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
