//! What is to be sent, read from the arguments: method, address, header fields, body.

use super::args::Payload;
use super::exit::Failure;
use super::plan::uncomposed;
use abide::engine::facts::Why;
use abide::engine::moment::Timestamp;
use abide::engine::operation::{IdempotencyKey, Method};
use abide::engine::policy::{KeyPlace, Policy};
use abide::engine::secret::Secret;
use abide::profile::compose::{Draft, HeaderFlag, KeySource, TimeoutFlags};
use abide::store::jsonl::this_process;
use memchr::memmem;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;
use url::Url;

/// No request body is larger, in bytes: it is held in memory, and kept in the ledger.
const LARGEST_BODY: u64 = 256 << 20;
/// No file of header fields is larger, in bytes.
const LARGEST_HEADER_FILE: u64 = 1 << 20;

/// What stands for the key of each sample in what is measured.
pub const KEY_PLACE: &str = "{key}";

/// What is to be sent.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// The method, where one was given.
    pub method: Option<Method>,
    /// An absolute URL, or a path below the profile's base URL.
    pub target: String,
    /// The header fields, in order.
    pub headers: Vec<(String, String)>,
    /// `USER:PASS`.
    pub user: Option<String>,
    /// The body, byte for byte.
    pub body: Option<Arc<[u8]>>,
    /// The body was given as JSON.
    pub json: bool,
    /// What to warn of.
    pub warnings: Vec<String>,
}

impl Wanted {
    /// Returns whether the partner is asked for no change; where no method is given, a body means POST.
    pub fn is_safe(&self) -> bool {
        self.method.as_ref().map_or(self.body.is_none(), Method::is_safe)
    }

    /// Returns whether `{key}` stands somewhere.
    pub fn has_key_place(&self) -> bool {
        let texts = self.headers.iter().map(|(_, value)| value).chain([&self.target]);
        texts.into_iter().any(|text| text.contains(KEY_PLACE)) || self.body.as_deref().is_some_and(has_key_place)
    }

    /// Returns it with `key` wherever `{key}` stands: in the address, the values of header fields, and the body.
    pub fn keyed(&self, key: &IdempotencyKey) -> Wanted {
        let put = |text: &String| text.replace(KEY_PLACE, key.as_str());
        Wanted {
            method: self.method.clone(),
            target: put(&self.target),
            headers: self.headers.iter().map(|(name, value)| (name.clone(), put(value))).collect(),
            user: self.user.clone(),
            body: self.body.as_ref().map(|body| with_key(body, key.as_str().as_bytes())),
            json: self.json,
            warnings: self.warnings.clone(),
        }
    }
}

/// Returns whether `{key}` stands somewhere in a body; it need not be text.
pub fn has_key_place(body: &[u8]) -> bool {
    memmem::find(body, KEY_PLACE.as_bytes()).is_some()
}

/// Returns a body with `key` wherever `{key}` stands; it need not be text.
fn with_key(body: &Arc<[u8]>, key: &[u8]) -> Arc<[u8]> {
    let (place, mut keyed, mut rest) = (KEY_PLACE.as_bytes(), Vec::new(), &**body);
    while let Some(at) = memmem::find(rest, place) {
        keyed.extend_from_slice(&rest[..at]);
        keyed.extend_from_slice(key);
        rest = &rest[at + place.len()..];
    }
    if keyed.is_empty() {
        return Arc::clone(body);
    }
    keyed.extend_from_slice(rest);
    keyed.into()
}

/// Reads what `command` is to send.
///
/// # Errors
/// Everything that is no request, with a sentence; nothing was sent.
pub fn read(command: &str, target: &[String], payload: &Payload) -> Result<Wanted, Failure> {
    let (method, target) = target_parts(command, target, payload)?;
    let headers = fields(&payload.headers)?;
    let mut warnings = Vec::new();
    let body = body(payload)?;
    if let (Some(given), Some(body)) = (&payload.json, &body) {
        check_json(given, body, &mut warnings)?;
    }
    if let (Some(method), Some(_)) = (method.as_ref().filter(|method| method.is_safe()), &body) {
        warnings.push(format!("{method} with a body: many partners ignore it"));
    }
    if let Some(user) = payload.user.as_ref().filter(|user| !user.contains(':')) {
        return Err(Failure::usage(format!("-u {user}: no password")).hint(
            "write -u USER: for an empty one; [auth] of a profile, or -H @FILE, keep it out of the process list",
        ));
    }
    if payload.user.is_some() && headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("authorization")) {
        return Err(Failure::usage("-u and -H 'Authorization: …' contradict each other"));
    }
    let json = payload.json.is_some();
    let body = body.map(Arc::from);
    Ok(Wanted { method, target, headers, user: payload.user.clone(), body, json, warnings })
}

/// Returns the draft of a request that is no operation: it is measured or looked at, and not recorded.
///
/// # Errors
/// A header field cannot be sent.
pub fn measuring(wanted: Wanted, key: &IdempotencyKey, now: Timestamp) -> Result<Draft, Failure> {
    let headers = wanted.headers.iter().map(|(name, value)| HeaderFlag::parse(&format!("{name}: {value}")));
    Ok(Draft {
        method: wanted.method,
        target: wanted.target,
        headers: headers.collect::<Result<_, _>>().map_err(uncomposed)?,
        user: wanted.user.as_deref().map(Secret::new),
        body: wanted.body,
        json: wanted.json,
        key: KeySource::Measuring(key.as_str().to_owned()),
        key_header: None,
        account: None,
        deadline: None,
        valid_until: None,
        max_attempts: None,
        timeouts: TimeoutFlags::default(),
        now,
        why: Why::Send,
        owner: this_process(),
    })
}

/// Reads the header fields of `-H`, in order.
///
/// # Errors
/// What is no field, in words that do not quote its value.
pub fn fields(given: &[String]) -> Result<Vec<(String, String)>, Failure> {
    let mut fields = Vec::new();
    for line in given {
        fields.extend(header_lines(line)?);
    }
    Ok(fields)
}

/// Splits `[METHOD] URL|/PATH`, with `-X` as another place for the method.
fn target_parts(command: &str, words: &[String], payload: &Payload) -> Result<(Option<Method>, String), Failure> {
    let (method, address) = match words {
        [address] if looks_like_method(address) => {
            return Err(Failure::usage(format!("{address} is a method: the URL or /PATH is missing"))
                .hint(format!("abide {command} {address} https://…")));
        }
        [address] => (payload.method.as_deref(), address),
        [address, method] if looks_like_address(address) && looks_like_method(method) => {
            return Err(Failure::usage("the method stands before the address")
                .hint(format!("abide {command} {method} {address}")));
        }
        [first, rest @ ..] if looks_like_address(first) => {
            return Err(Failure::usage(format!("{} is one word too many", rest[0]))
                .hint("the body is --json DATA or -d DATA, a header field -H 'Name: value'"));
        }
        [method, address] => {
            if payload.method.as_ref().is_some_and(|other| !other.eq_ignore_ascii_case(method)) {
                return Err(Failure::usage("-X and the method before the address contradict each other"));
            }
            (Some(method.as_str()), address)
        }
        [_, _, extra, ..] => {
            return Err(Failure::usage(format!("{extra} is one word too many"))
                .hint("the body is --json DATA or -d DATA, a header field -H 'Name: value'"));
        }
        [] => return Err(Failure::usage("the URL or /PATH is missing")),
    };
    let method = match method {
        None => None,
        Some(name) => Some(known_method(name)?),
    };
    Ok((method, address.clone()))
}

/// Methods that HTTP and its extensions know. Others are sent too, if they are written in upper case on purpose.
const METHODS: &[&str] = &["GET", "HEAD", "OPTIONS", "TRACE", "POST", "PUT", "PATCH", "DELETE"];

fn known_method(name: &str) -> Result<Method, Failure> {
    if METHODS.iter().any(|known| name.eq_ignore_ascii_case(known)) {
        return Ok(Method::new(name).expect("the known methods are tokens"));
    }
    let refuse = || Failure::usage(format!("{name} is no method that can be sent"));
    let near = METHODS
        .iter()
        .map(|known| (strsim::osa_distance(&name.to_ascii_uppercase(), known), *known))
        .filter(|(distance, _)| *distance <= 2)
        .min();
    if let Some((_, near)) = near {
        return Err(Failure::usage(format!("{name} is an unknown method")).hint(format!("did you mean {near}?")));
    }
    let is_deliberate = name.bytes().all(|b| b.is_ascii_uppercase() || b == b'-');
    if !is_deliberate {
        return Err(refuse().hint("methods are GET, POST, PUT, PATCH, DELETE, …; an own one is written in upper case"));
    }
    Method::new(name).ok_or_else(refuse)
}

fn looks_like_method(word: &str) -> bool {
    METHODS.iter().any(|known| word.eq_ignore_ascii_case(known))
}

fn looks_like_address(word: &str) -> bool {
    word.starts_with('/') || word.contains("://")
}

fn body(payload: &Payload) -> Result<Option<Vec<u8>>, Failure> {
    let (flag, given) = match (&payload.data, &payload.json) {
        (Some(data), _) => ("-d", data),
        (None, Some(json)) => ("--json", json),
        (None, None) => return Ok(None),
    };
    bytes(flag, given).map(Some)
}

/// Reads what a flag gives: the data itself, `@FILE`, or stdin for `-` and `@-`.
///
/// # Errors
/// It cannot be read, or is too large.
pub fn bytes(flag: &str, given: &str) -> Result<Vec<u8>, Failure> {
    match given {
        "-" | "@-" => named_bytes(&format!("{flag} {given}"), "-"),
        _ => match given.strip_prefix('@') {
            Some(path) => read_file(flag, path, LARGEST_BODY),
            None => Ok(given.as_bytes().to_vec()),
        },
    }
}

fn read_file(flag: &str, path: &str, limit: u64) -> Result<Vec<u8>, Failure> {
    read_named(&format!("{flag} @{path}"), path, limit)
}

/// Reads the file that a flag names, or stdin for `-`. `shown` is the flag with what was given, for messages.
///
/// # Errors
/// It cannot be read, or is too large.
pub fn named_bytes(shown: &str, path: &str) -> Result<Vec<u8>, Failure> {
    match path {
        "-" => bounded(std::io::stdin().lock(), LARGEST_BODY)
            .map_err(|error| Failure::usage(format!("{shown}: stdin cannot be read: {error}"))),
        path => read_named(shown, path, LARGEST_BODY),
    }
}

fn read_named(shown: &str, path: &str, limit: u64) -> Result<Vec<u8>, Failure> {
    let refuse = |why: &dyn std::fmt::Display| Failure::usage(format!("{shown}: {why}"));
    if path.is_empty() {
        return Err(refuse(&"the file's name is missing"));
    }
    let file = std::fs::File::open(Path::new(path)).map_err(|error| refuse(&system_words(&error)))?;
    bounded(file, limit).map_err(|error| refuse(&system_words(&error)))
}

/// Returns the system's words without its number.
pub fn system_words(error: &std::io::Error) -> String {
    match error.kind() {
        std::io::ErrorKind::NotFound => "no such file".into(),
        std::io::ErrorKind::PermissionDenied => "permission denied".into(),
        std::io::ErrorKind::IsADirectory => "it is a folder".into(),
        _ => error.to_string(),
    }
}

fn bounded(source: impl Read, limit: u64) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    source.take(limit + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit {
        return Err(std::io::Error::other(format!("more than {} MiB", limit >> 20)));
    }
    Ok(bytes)
}

fn check_json(given: &str, body: &[u8], warnings: &mut Vec<String>) -> Result<(), Failure> {
    if serde_json::from_slice::<serde::de::IgnoredAny>(body).is_ok() {
        return Ok(());
    }
    if looks_like_method(given) || looks_like_address(given) {
        return Err(Failure::usage(format!("--json {given}: that is no JSON"))
            .hint("--json takes the request body, as in curl; machine output is --format json"));
    }
    warnings.push("the body is not valid JSON; it is sent as it is".into());
    Ok(())
}

/// Reads one `-H`: a field, or `@FILE` with one field a line.
fn header_lines(given: &str) -> Result<Vec<(String, String)>, Failure> {
    let Some(path) = given.strip_prefix('@') else {
        return Ok(vec![header(given, &format!("-H '{}'", name_only(given)))?]);
    };
    let bytes = read_file("-H", path, LARGEST_HEADER_FILE)?;
    let text = String::from_utf8(bytes).map_err(|_| Failure::usage(format!("-H @{path}: not UTF-8")))?;
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    lines.map(|(at, line)| header(line, &format!("{path}:{}", at + 1))).collect()
}

/// Returns the part of a field that may be shown: what stands before the colon.
fn name_only(given: &str) -> String {
    match given.split_once(':') {
        Some((name, _)) => format!("{}: …", name.escape_debug()),
        None => "…".into(),
    }
}

/// Header fields that the request itself decides.
const OURS: &[&str] = &["content-length", "transfer-encoding", "connection", "expect", "te", "trailer", "upgrade"];

/// Reads `Name: value`. `place` names it in messages; the value is never quoted, it may be a secret.
fn header(given: &str, place: &str) -> Result<(String, String), Failure> {
    let refuse = |why: &str| Failure::usage(format!("{place}: {why}"));
    if given.contains(['\r', '\n']) {
        return Err(refuse("a header field cannot hold a line break"));
    }
    let (name, value) = given
        .split_once(':')
        .ok_or_else(|| refuse("a header field is written 'Name: value'").hint("-H @FILE reads fields from a file"))?;
    let (name, value) = (name.trim(), value.trim());
    let is_token =
        !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b));
    if !is_token {
        return Err(refuse("that is no name of a header field"));
    }
    if value.is_empty() {
        return Err(refuse("the field has no value").hint("leave the field out instead"));
    }
    if value.chars().any(|c| c.is_control() && c != '\t') {
        return Err(refuse("a header field cannot hold a control character"));
    }
    if OURS.iter().any(|ours| name.eq_ignore_ascii_case(ours)) {
        return Err(refuse("this field follows from the request and cannot be set"));
    }
    Ok((name.to_owned(), value.to_owned()))
}

/// Returns a URL without the key that was made for it, which stands last in its query.
pub fn keyless(url: &str, policy: &Policy) -> String {
    let (KeyPlace::Query(_), Ok(mut parsed)) = (&policy.idempotency.place, Url::parse(url)) else {
        return url.to_owned();
    };
    let query = parsed.query().and_then(|query| query.rsplit_once('&')).map(|(before, _)| before.to_owned());
    parsed.set_query(query.as_deref());
    parsed.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn payload() -> Payload {
        Payload { method: None, headers: vec![], data: None, json: None, user: None }
    }

    fn words(text: &str) -> Vec<String> {
        text.split(' ').map(str::to_owned).collect()
    }

    fn refusal(target: &str, payload: Payload) -> String {
        let failure = read("send", &words(target), &payload).expect_err("is refused");
        format!("{} {}", failure.error, failure.hint.unwrap_or_default())
    }

    #[test]
    fn the_method_stands_first_or_with_x_or_nowhere() {
        let x = Payload { method: Some("DELETE".into()), ..payload() };
        for (target, payload, expected) in [
            ("http://h/", payload(), None),
            ("put /a", payload(), Some("PUT")),
            ("/a", x, Some("DELETE")),
            ("PURGE /a", payload(), Some("PURGE")),
        ] {
            let wanted = read("send", &words(target), &payload).expect("reads");
            assert_eq!(wanted.method.as_ref().map(Method::as_str), expected, "{target}");
        }
    }

    #[test]
    fn a_key_is_put_wherever_its_place_is_and_the_rest_stays_as_it_is() {
        let x = Payload {
            headers: vec!["X-A: a{key}b".into()],
            json: Some("[\"{key}\",\"{key}\",{}]".into()),
            ..payload()
        };
        let key = IdempotencyKey::new("k-1", 255).expect("a key");
        let wanted = read("calibrate", &words("PUT /a/{key}?b={key}"), &x).expect("reads").keyed(&key);
        assert_eq!((&*wanted.target, &*wanted.headers[0].1), ("/a/k-1?b=k-1", "ak-1b"));
        assert_eq!(wanted.body.as_deref(), Some(&b"[\"k-1\",\"k-1\",{}]"[..]));
        let places = [payload(), x].map(|payload| read("calibrate", &words("PUT /a"), &payload).expect("reads"));
        assert_eq!(places.map(|wanted| wanted.has_key_place()), [false, true]);
        let odd: Arc<[u8]> = Arc::from(&b"\xff{key}\xfe{key"[..]);
        assert_eq!(&*with_key(&odd, b"k"), b"\xffk\xfe{key");
        let same: Arc<[u8]> = Arc::from(&b"{}"[..]);
        assert!(Arc::ptr_eq(&with_key(&same, b"k"), &same), "what holds no key is not copied");
    }

    #[test]
    fn a_body_without_a_method_is_no_safe_request() {
        let x = Payload { data: Some(String::new()), ..payload() };
        for (target, payload, safe) in
            [("/a", payload(), true), ("/a", x, false), ("delete /a", payload(), false), ("head /a", payload(), true)]
        {
            assert_eq!(read("calibrate", &words(target), &payload).expect("reads").is_safe(), safe, "{target}");
        }
    }

    #[test]
    fn what_is_no_request_is_refused_with_a_sentence() {
        let data = |data: &str| Payload { data: Some(data.into()), ..payload() };
        let field = |field: &str| Payload { headers: vec![field.into()], ..payload() };
        let cases = [
            ("POST", payload(), "the URL or /PATH is missing"),
            ("http://h/ POST", payload(), "abide send POST http://h/"),
            ("http://h/ name=value", payload(), "the body is --json"),
            ("POTS http://h/", payload(), "did you mean POST?"),
            ("frobnicate http://h/", payload(), "no method"),
            ("CONNECT http://h/", payload(), "no method that can be sent"),
            ("/a", data("@/no/such/file"), "-d @/no/such/file: no such file"),
            ("/a", data("@/"), "it is a folder"),
            ("/a", data("@"), "the file's name is missing"),
            ("/a", field("X-A: b\r\nX-C: d"), "cannot hold a line break"),
            ("/a", field("X-A"), "'Name: value'"),
            ("/a", field("X A: b"), "no name of a header field"),
            ("/a", field("X-A:"), "no value"),
            ("/a", field("Content-Length: 4"), "cannot be set"),
            ("/a", field("@/no/such"), "-H @/no/such: no such file"),
            ("/a", Payload { user: Some("bob".into()), ..payload() }, "write -u USER:"),
            ("/a", Payload { json: Some("POST".into()), ..payload() }, "--format json"),
        ];
        for (target, payload, expected) in cases {
            let said = refusal(target, payload);
            assert!(said.contains(expected), "{target}: {said}");
        }
    }

    #[test]
    fn a_refused_header_field_never_shows_its_value() {
        let said = refusal("/a", Payload { headers: vec!["X Token: sk-live-1".into()], ..payload() });
        assert!(!said.contains("sk-live-1"), "{said}");
        let said = refusal("/a", Payload { headers: vec!["sk-live-1".into()], ..payload() });
        assert!(!said.contains("sk-live-1"), "{said}");
    }

    #[test]
    fn what_many_partners_would_not_take_is_warned_of() {
        let json = Payload { json: Some("{".into()), ..payload() };
        assert!(read("send", &words("/a"), &json).expect("reads").warnings[0].contains("not valid JSON"));
        let data = Payload { data: Some("1".into()), ..payload() };
        assert!(read("send", &words("GET /a"), &data).expect("reads").warnings[0].contains("ignore it"));
    }
}
