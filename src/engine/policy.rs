//! What a profile says about one kind of operation, already valid: `profile/` builds it.

use super::backoff::Backoff;
use super::json::Pointer;
use super::measured::Measured;
use super::operation::Method;
use std::sync::Arc;
use std::time::Duration;

/// The rules for one operation, endpoint overrides applied.
#[derive(Clone, Debug, PartialEq)]
pub struct Policy {
    /// The method of the operation.
    pub method: Method,
    /// The account label: part of the fingerprint and of the key's contract.
    pub account: Option<Box<str>>,
    /// Scheme, host and port that the operation goes to, as `http://host:port`.
    pub origin: Box<str>,
    /// The limits of stages, attempts and the whole operation.
    pub timeouts: Timeouts,
    /// How attempts are repeated.
    pub retry: RetryPolicy,
    /// What the partner promises about idempotency keys.
    pub idempotency: Idempotency,
    /// How to ask whether an operation happened.
    pub status: Option<StatusPolicy>,
    /// What a genuine success looks like, beyond a 2xx status.
    pub success: Option<BodyRule>,
    /// Overrides of the built-in table.
    pub classify: ClassifyRules,
    /// Where a refusal explains itself to people.
    pub error_message: Option<Pointer>,
    /// No attempt starts with less time than this.
    pub min_attempt: Duration,
    /// What was measured before.
    pub measured: Measured,
    /// How much of an answer is read and kept.
    pub sizes: Sizes,
    /// The user accepts that a run begins with a second execution (`--accept-duplicate`).
    pub accept_duplicate: bool,
    /// Redirects of a GET or HEAD are followed (`-L`).
    pub follow: bool,
}

impl Policy {
    /// Returns the rules that hold without a profile: the documented defaults.
    pub fn unprofiled(method: Method, origin: &str) -> Policy {
        Policy {
            method,
            account: None,
            origin: origin.into(),
            timeouts: Timeouts::default(),
            retry: RetryPolicy::default(),
            idempotency: Idempotency::default(),
            status: None,
            success: None,
            classify: ClassifyRules::default(),
            error_message: None,
            min_attempt: MIN_ATTEMPT,
            measured: Measured::default(),
            sizes: Sizes::default(),
            accept_duplicate: false,
            follow: false,
        }
    }
}

/// The least time worth starting an attempt with when nothing was measured.
///
/// Source: decisions 19.
pub const MIN_ATTEMPT: Duration = Duration::from_millis(250);

/// Limits of stages, attempts and the whole operation. None is zero.
///
/// Source of the defaults: product.md section 4.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// Name lookup, TCP, proxy CONNECT and TLS together.
    pub connect: Duration,
    /// Idle time while the request body goes out.
    pub write: Duration,
    /// From the last byte sent to the head of the answer.
    pub read: Duration,
    /// Idle time between bytes of the answer's body.
    pub body: Duration,
    /// One whole attempt.
    pub attempt: Duration,
    /// The deadline of the operation, counted from the start of the run.
    pub overall: Duration,
}

impl Default for Timeouts {
    fn default() -> Timeouts {
        Timeouts {
            connect: Duration::from_secs(3),
            write: Duration::from_secs(5),
            read: Duration::from_secs(15),
            body: Duration::from_secs(10),
            attempt: Duration::from_secs(20),
            overall: Duration::from_secs(150),
        }
    }
}

/// How attempts are repeated.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RetryPolicy {
    /// Attempts of one run, the first included; at least 1.
    pub max_attempts: u32,
    /// The waits between them.
    pub backoff: Backoff,
    /// A longer Retry-After ends the run at once.
    pub max_retry_after: Duration,
}

impl Default for RetryPolicy {
    fn default() -> RetryPolicy {
        RetryPolicy { max_attempts: 5, backoff: Backoff::default(), max_retry_after: Duration::from_secs(3600) }
    }
}

/// Where the idempotency key travels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyPlace {
    /// In this header; `None` sends no key.
    Header(Option<Box<str>>),
    /// In this query parameter.
    Query(Box<str>),
    /// Inside the payload, where the user put it.
    Body,
}

/// How the key is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyFormat {
    /// As it is.
    Raw,
    /// As a structured-field string, in double quotes.
    Quoted,
}

/// What the partner promises about idempotency keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Idempotency {
    /// The partner honours the key: stated by the author of the profile, never guessed.
    pub supported: bool,
    /// Where the key travels.
    pub place: KeyPlace,
    /// How it is written.
    pub format: KeyFormat,
    /// The longest key in bytes, 1 to 255.
    pub max_len: usize,
    /// How long the partner remembers a key; `None`: not stated, only an hour is trusted.
    pub retention: Option<Duration>,
    /// The header and value by which the partner marks a stored answer.
    pub replay_marker: Option<(Box<str>, Box<str>)>,
    /// After a time-out the same key waits at least this long.
    pub settle: Duration,
}

/// How long a key is trusted when the profile does not state its retention.
///
/// Source: decisions 9.
pub const RETENTION_UNSTATED: Duration = Duration::from_secs(3600);

impl Idempotency {
    /// Returns how long after its first use a key is trusted: the retention less 5 %.
    ///
    /// Source: decisions 9.
    pub fn trusted_for(&self) -> Duration {
        match self.retention {
            Some(stated) => stated.saturating_sub(stated / 20),
            None => RETENTION_UNSTATED,
        }
    }

    /// Returns a text that is equal for equal promises about the key: where it goes and how it is written.
    pub fn contract(&self) -> String {
        let format = match self.format {
            KeyFormat::Raw => "raw",
            KeyFormat::Quoted => "quoted",
        };
        match &self.place {
            KeyPlace::Header(Some(name)) => ["header:", &name.to_ascii_lowercase(), ":", format].concat(),
            KeyPlace::Header(None) => "none".into(),
            KeyPlace::Query(name) => ["query:", name, ":", format].concat(),
            KeyPlace::Body => "body".into(),
        }
    }
}

impl Default for Idempotency {
    fn default() -> Idempotency {
        Idempotency {
            supported: false,
            place: KeyPlace::Header(Some("Idempotency-Key".into())),
            format: KeyFormat::Raw,
            max_len: 255,
            retention: None,
            replay_marker: None,
            settle: Duration::ZERO,
        }
    }
}

/// A condition on the body of an answer. With neither part it holds for every body.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BodyRule {
    /// The media type, without parameters, in lower case.
    pub content_type: Option<Box<str>>,
    /// What must stand where in the JSON body.
    pub value: Option<ValueRule>,
}

/// A JSON pointer and the values that may stand there; any value where `equals` is empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValueRule {
    /// Where to look.
    pub pointer: Pointer,
    /// The accepted values, compared as [`super::json::same_value`] does.
    pub equals: Vec<Box<str>>,
}

/// When a status answer means a thing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatusRule {
    /// The accepted HTTP statuses; any 2xx where empty.
    pub statuses: Vec<u16>,
    /// What the body must hold.
    pub value: Option<ValueRule>,
    /// Pointers whose values must agree between the request and the status answer.
    pub same: Vec<Pointer>,
}

/// How to ask whether an operation happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatusPolicy {
    /// GET or HEAD or another safe method.
    pub method: Box<str>,
    /// The address, with the places to fill.
    pub url: UrlTemplate,
    /// It happened.
    pub confirmed: StatusRule,
    /// It was refused for good.
    pub rejected: Option<StatusRule>,
    /// The partner is still working on it.
    pub in_progress: Option<StatusRule>,
    /// The partner does not know it.
    pub absent: Option<StatusRule>,
    /// An operation that is known to be confirmed, to see that the endpoint works (decisions 10).
    pub control: Option<Control>,
    /// The partner's worst processing lag; `None`: absence proves nothing.
    pub settle: Option<Duration>,
}

/// An operation to ask about: what the places of a [`UrlTemplate`] are filled from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Control {
    /// Its key.
    pub key: Box<str>,
    /// Its request body; empty where unknown.
    pub body: Arc<[u8]>,
    /// The body of the answer that accepted it.
    pub answer: Option<Arc<[u8]>>,
    /// The Location of the answer that accepted it.
    pub location: Option<Box<str>>,
}

/// A URL with places to fill.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UrlTemplate(pub Vec<UrlPart>);

/// A piece of a [`UrlTemplate`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UrlPart {
    /// Text as it is.
    Text(Box<str>),
    /// `{key}`.
    Key,
    /// `{body:/ptr}`: a value of the request.
    Body(Pointer),
    /// `{answer:/ptr}`: a value of a 202.
    Answer(Pointer),
    /// `{location}`: the Location header of a 202; the whole URL.
    Location,
}

/// Overrides of the built-in table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClassifyRules {
    /// Statuses that mean "not executed, may be retried".
    pub refused: Vec<u16>,
    /// Statuses in doubt that are worth a retry when the key protects.
    pub retry_in_doubt: Vec<u16>,
    /// Statuses that mean "an earlier attempt with this key is still running".
    pub in_progress: Vec<u16>,
    /// Looked at first, in order; the first match wins.
    pub rules: Vec<Rule>,
    /// Gateways are believed when they say that they did not forward the request (RFC 9209).
    pub trust_proxy_status: bool,
}

/// One `[[classify.rule]]`. All stated parts must match.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// The HTTP status.
    pub status: Option<u16>,
    /// A header and its value; any value where the second is `None`.
    pub header: Option<(Box<str>, Option<Box<str>>)>,
    /// What the body must hold.
    pub value: Option<ValueRule>,
    /// What the answer means then.
    pub means: Means,
}

/// What a profile's rule may say that an answer means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Means {
    /// The partner did it.
    Confirmed,
    /// The partner took it and has not finished.
    Accepted,
    /// Refused for good, not executed.
    Rejected,
    /// Not executed for now, may be retried.
    Refused,
    /// An earlier attempt with this key is still running.
    InProgress,
    /// It may have been executed.
    InDoubt,
}

/// How much of an answer is read and kept, in bytes.
///
/// Source of the defaults: decisions 24.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// More of a body is not read.
    pub response_bytes: usize,
    /// More of a body is not kept in the ledger.
    pub stored_body_bytes: usize,
}

impl Default for Sizes {
    fn default() -> Sizes {
        Sizes { response_bytes: 16 << 20, stored_body_bytes: 256 << 10 }
    }
}
