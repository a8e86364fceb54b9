//! What is written: from an operation or a question to a request of the HTTP client.

use super::fault::Failure;
use super::marks::{MarkedBody, Marks};
use crate::drive::{Call, Question};
use crate::engine::exchange::Fault;
use crate::engine::operation::Header;
use crate::engine::proxy::Proxy;
use bytes::Bytes;
use reqwest::header::{CONTENT_LENGTH, HeaderMap, HeaderName, HeaderValue, TRANSFER_ENCODING, USER_AGENT};
use reqwest::{Body, Method, Request, Url};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

/// A longer head is not sent: hyper would flush a part of it before it asks for the body, and the marks would lie.
///
/// Source: hyper 1.12 buffers 8 KiB + 400 KiB before it flushes; this is far below, and above what servers take.
const HEAD_MAX_BYTES: usize = 128 * 1024;

/// Who asks, where the user does not say: some partners refuse a request without it.
const AGENT: &str = concat!("abide/", env!("CARGO_PKG_VERSION"));

/// Fields that another origin may see after a redirect; every other one may be a credential.
const HARMLESS: &[&str] = &[
    "accept",
    "accept-language",
    "cache-control",
    "if-match",
    "if-modified-since",
    "if-none-match",
    "if-unmodified-since",
    "range",
    "user-agent",
];

/// Returns whether a field goes along to another origin.
fn crosses(header: &Header) -> bool {
    !header.value.is_secret() && HARMLESS.iter().any(|name| header.name.eq_ignore_ascii_case(name))
}

/// One request, ready to be sent.
pub(super) struct Outgoing {
    request: Request,
    marks: Marks,
}

impl Outgoing {
    /// Builds one attempt, which goes to `url`.
    ///
    /// # Errors
    /// The request cannot be written as HTTP.
    pub fn attempt(call: &Call<'_>, url: Url) -> Result<Outgoing, Failure> {
        let request = &call.operation.request;
        if call.crossed {
            let harmless: Vec<Header> = request.headers.iter().filter(|header| crosses(header)).cloned().collect();
            return Outgoing::new(request.method.as_str(), url, fields(&harmless, 0)?, Bytes::new());
        }
        let mut headers = fields(&request.headers, request.body.len())?;
        announce(&mut headers, call)?;
        let body = Bytes::from_owner(Arc::clone(&request.body));
        Outgoing::new(request.method.as_str(), url, headers, body)
    }

    /// Builds a status request.
    ///
    /// # Errors
    /// The request cannot be written as HTTP.
    pub fn question(question: &Question<'_>) -> Result<Outgoing, Failure> {
        let headers = fields(question.headers, 0)?;
        Outgoing::new(question.method, parse_url(question.url)?, headers, Bytes::new())
    }

    fn new(method: &str, url: Url, mut headers: HeaderMap, body: Bytes) -> Result<Outgoing, Failure> {
        let method = Method::from_bytes(method.as_bytes()).map_err(|error| unbuildable(&error.to_string()))?;
        let marks = Marks::default();
        // reqwest announces no length for an empty body, and some partners then wait for one (decisions 22).
        if body.is_empty() && matches!(method, Method::POST | Method::PUT | Method::PATCH) {
            headers.insert(CONTENT_LENGTH, HeaderValue::from_static("0"));
        }
        headers.entry(USER_AGENT).or_insert(HeaderValue::from_static(AGENT));
        let head_bytes =
            url.as_str().len() + headers.iter().map(|(n, v)| n.as_str().len() + v.len() + 4).sum::<usize>();
        if head_bytes > HEAD_MAX_BYTES {
            return Err(unbuildable(&format!("the head of the request has more than {HEAD_MAX_BYTES} bytes")));
        }
        let mut request = Request::new(method, url);
        *request.headers_mut() = headers;
        *request.body_mut() = Some(Body::wrap(MarkedBody::new(body, &marks)));
        Ok(Outgoing { request, marks })
    }

    /// Returns the URL that it goes to.
    pub fn url(&self) -> &Url {
        self.request.url()
    }

    /// Returns the request and the marks that it leaves.
    pub fn parts(self) -> (Request, Marks) {
        (self.request, self.marks)
    }
}

/// Where a URL leads.
pub(super) enum Place {
    /// An address that needs no lookup.
    Address(SocketAddr),
    /// A host and port to look up.
    Host(Box<str>, u16),
}

impl Place {
    /// Returns where a proxy is.
    pub fn of_proxy(proxy: &Proxy) -> Place {
        proxy.address().map_or_else(|| Place::Host(proxy.host.clone(), proxy.port), Place::Address)
    }
}

/// Returns where a URL leads.
///
/// # Errors
/// The URL has no host or no known port.
pub(super) fn place(url: &Url) -> Result<Place, Failure> {
    let (Some(host), Some(port)) = (url.host_str(), url.port_or_known_default()) else {
        return Err(unbuildable("the URL names no host and port"));
    };
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    match bare.parse::<IpAddr>() {
        Ok(ip) => Ok(Place::Address(SocketAddr::new(ip, port))),
        Err(_) => Ok(Place::Host(host.into(), port)),
    }
}

/// Parses a URL without ever quoting it: it may hold secrets.
///
/// # Errors
/// It is no absolute URL.
pub(super) fn parse_url(text: &str) -> Result<Url, Failure> {
    Url::parse(text).map_err(|error| unbuildable(&format!("the URL cannot be used: {error}")))
}

/// Returns the header fields as the HTTP client wants them.
fn fields(headers: &[Header], body_bytes: usize) -> Result<HeaderMap, Failure> {
    let mut fields = HeaderMap::with_capacity(headers.len() + 4);
    for header in headers {
        let name = field_name(&header.name)?;
        if name == TRANSFER_ENCODING || name == CONTENT_LENGTH {
            frames_as_we_do(&name, header, body_bytes)?;
            continue;
        }
        let mut value = HeaderValue::from_bytes(header.value.sent.expose().as_bytes())
            .map_err(|_| unbuildable(&format!("the value of header {name} cannot be sent")))?;
        value.set_sensitive(header.value.is_secret());
        fields.append(name, value);
    }
    Ok(fields)
}

/// Refuses a field that frames the body otherwise than it will be: the partner would read another request.
fn frames_as_we_do(name: &HeaderName, header: &Header, body_bytes: usize) -> Result<(), Failure> {
    if name == CONTENT_LENGTH && header.value.sent.expose().trim().parse() == Ok(body_bytes) {
        return Ok(());
    }
    Err(unbuildable(&format!("header {name} does not fit the body, whose length is sent anyway")))
}

/// Adds what changes per attempt.
fn announce(fields: &mut HeaderMap, call: &Call<'_>) -> Result<(), Failure> {
    let names = &call.operation.announce;
    let told = [(&names.attempt, u128::from(call.a)), (&names.time_left_ms, call.limits.whole.as_millis())];
    for (name, value) in told {
        if let Some(name) = name {
            let value = HeaderValue::from_str(&value.to_string()).expect("digits are visible ASCII");
            fields.insert(field_name(name)?, value);
        }
    }
    Ok(())
}

fn field_name(name: &str) -> Result<HeaderName, Failure> {
    HeaderName::from_bytes(name.as_bytes()).map_err(|_| unbuildable("a header name is no HTTP token"))
}

fn unbuildable(words: &str) -> Failure {
    Failure::new(Fault::Unbuildable, words)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::deadline::Limits;
    use crate::engine::exchange::Limit;
    use crate::engine::operation::{self, Announce, Fingerprint, Guarded, IdempotencyKey, Operation, PartnerName};
    use crate::engine::secret::Secret;
    use std::time::Duration;

    const LIMIT: Duration = Duration::from_millis(1500);

    fn header(name: &str, value: &str) -> Header {
        Header { name: name.into(), value: Guarded::plain(value) }
    }

    fn operation(method: &str, url: &str, headers: Vec<Header>, body: &[u8]) -> Operation {
        Operation {
            partner: PartnerName::new("p").expect("a name"),
            key: IdempotencyKey::new("k-1", 255).expect("a key"),
            fingerprint: Fingerprint("v1:0".into()),
            request: Arc::new(operation::Request {
                method: operation::Method::new(method).expect("a method"),
                url: Guarded::plain(url),
                headers,
                body: body.into(),
            }),
            status_headers: Arc::new([]),
            announce: Announce::default(),
        }
    }

    fn built(operation: &Operation, hop: Option<&str>) -> Result<Outgoing, Failure> {
        let limits =
            Limits { connect: LIMIT, write: LIMIT, read: LIMIT, body: LIMIT, whole: LIMIT, whole_is: Limit::Attempt };
        let url = parse_url(hop.unwrap_or(operation.request.url.sent.expose()))?;
        Outgoing::attempt(&Call { operation, a: 3, to: None, hop, crossed: false, limits }, url)
    }

    fn field<'o>(outgoing: &'o Outgoing, name: &str) -> Option<&'o str> {
        outgoing.request.headers().get(name).map(|value| value.to_str().expect("ASCII"))
    }

    #[test]
    fn a_write_without_a_body_announces_its_length() {
        for (method, body, length) in [
            ("POST", "", Some("0")),
            ("PUT", "", Some("0")),
            ("PATCH", "", Some("0")),
            ("GET", "", None),
            ("DELETE", "", None),
        ] {
            let operation = operation(method, "http://a.example/", vec![], body.as_bytes());
            let outgoing = built(&operation, None).expect("builds");
            assert_eq!(field(&outgoing, "content-length"), length, "{method}");
        }
    }

    #[test]
    fn repeated_fields_are_kept_and_what_is_announced_is_added() {
        let mut operation = operation("POST", "http://a.example/", vec![header("X-A", "1"), header("x-a", "2")], b"{}");
        operation.announce = Announce { attempt: Some("X-Attempt".into()), time_left_ms: Some("X-Left".into()) };
        let outgoing = built(&operation, None).expect("builds");
        assert_eq!(outgoing.request.headers().get_all("x-a").iter().count(), 2);
        assert_eq!(field(&outgoing, "x-attempt"), Some("3"));
        assert_eq!(field(&outgoing, "x-left"), Some("1500"));
    }

    #[test]
    fn the_agent_is_ours_unless_the_user_says_another() {
        let agent = |headers| {
            let outgoing = built(&operation("POST", "http://a.example/", headers, b"{}"), None).expect("builds");
            field(&outgoing, "user-agent").map(str::to_owned)
        };
        assert_eq!(agent(vec![]).as_deref(), Some(AGENT));
        assert_eq!(agent(vec![header("User-Agent", "x/1")]).as_deref(), Some("x/1"));
    }

    #[test]
    fn a_hop_goes_to_its_own_url() {
        let operation = operation("POST", "http://a.example/one", vec![], b"{}");
        let outgoing = built(&operation, Some("http://a.example/two")).expect("builds");
        assert_eq!(outgoing.url().as_str(), "http://a.example/two");
    }

    #[test]
    fn to_another_origin_goes_only_what_is_known_to_be_harmless() {
        let secret = Guarded { sent: Secret::new("text/s3cret"), stored: "$masked".into(), shown: "***".into() };
        let headers = vec![
            header("Authorization", "Bearer s3cret"),
            header("Cookie", "id=s3cret"),
            header("X-Own-Token", "s3cret"),
            header("Idempotency-Key", "k-1"),
            header("Accept-Language", "de"),
            header("User-Agent", "x/1"),
            Header { name: "Accept".into(), value: secret },
        ];
        let mut operation = operation("GET", "http://a.example/", headers, b"s3cret");
        operation.announce = Announce { attempt: Some("X-Attempt".into()), time_left_ms: None };
        let limits =
            Limits { connect: LIMIT, write: LIMIT, read: LIMIT, body: LIMIT, whole: LIMIT, whole_is: Limit::Attempt };
        let hop = Some("http://b.example/");
        let call = Call { operation: &operation, a: 1, to: None, hop, crossed: true, limits };
        let url = parse_url("http://b.example/").unwrap_or_else(|_| panic!("a URL"));
        let Ok(outgoing) = Outgoing::attempt(&call, url) else { panic!("it can be built") };
        let mut names: Vec<&str> = outgoing.request.headers().keys().map(HeaderName::as_str).collect();
        names.sort_unstable();
        assert_eq!(names, ["accept-language", "user-agent"]);
        let body = outgoing.request.body().expect("every request has one");
        assert_eq!(http_body::Body::size_hint(body).exact(), None, "an empty body says nothing of its size");
    }

    #[test]
    fn what_cannot_be_written_is_refused_without_quoting_it() {
        let secret = Guarded { sent: Secret::new("s3cret\n"), stored: "$masked".into(), shown: "***".into() };
        let cases = [
            operation("POST", "no url s3cret", vec![], b""),
            operation("POST", "http://a.example/", vec![Header { name: "X-Token".into(), value: secret }], b""),
            operation("POST", "http://a.example/", vec![header("X Y", "s3cret")], b""),
            operation("POST", "http://a.example/", vec![header("Content-Length", "5")], b"{}"),
            operation("POST", "http://a.example/", vec![header("Transfer-Encoding", "chunked")], b"{}"),
            operation(
                "POST",
                "http://a.example/",
                vec![header("X-Long", &"s3cret".repeat(HEAD_MAX_BYTES / 6 + 1))],
                b"",
            ),
        ];
        for operation in cases {
            let failure = built(&operation, None).err().expect("is refused");
            assert_eq!(failure.fault, Fault::Unbuildable);
            assert!(!failure.words.contains("s3cret"), "{}", failure.words);
        }
    }

    #[test]
    fn an_ip_address_needs_no_lookup() {
        let cases = [
            ("http://127.0.0.1:81/", Some("127.0.0.1:81")),
            ("http://[::1]/", Some("[::1]:80")),
            ("http://a.example/", None),
        ];
        for (url, address) in cases {
            match (place(&parse_url(url).expect("a URL")).expect("a place"), address) {
                (Place::Address(found), Some(known)) => assert_eq!(found.to_string(), known),
                (Place::Host(host, port), None) => assert_eq!((&*host, port), ("a.example", 80)),
                _ => panic!("{url}"),
            }
        }
    }
}
