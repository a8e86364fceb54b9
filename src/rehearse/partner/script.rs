//! Scripts: what a partner does to the first, the second and every later request.

use std::time::Duration;

/// What a partner does, from its door to its business.
#[derive(Clone, Debug)]
pub struct Script {
    /// Whether anybody gets in.
    pub door: Door,
    /// What happens to the first requests, one turn each. A status request takes no turn.
    pub turns: Vec<Turn>,
    /// What happens to every later request.
    pub then: Turn,
    /// What the business makes of idempotency keys.
    pub keys: Keys,
    /// How `GET /status/{key}` behaves.
    pub status: StatusEndpoint,
}

impl Script {
    /// Returns a partner that does the same to every request.
    pub fn always(turn: Turn) -> Script {
        Script::first([], turn)
    }

    /// Returns a partner that does `turns` to the first requests and `then` to every later one.
    pub fn first(turns: impl Into<Vec<Turn>>, then: Turn) -> Script {
        Script {
            door: Door::Open,
            turns: turns.into(),
            then,
            keys: Keys::Ignored,
            status: StatusEndpoint::Works { lag: Duration::ZERO },
        }
    }

    /// Returns the same partner behind another door.
    #[must_use]
    pub fn behind(self, door: Door) -> Script {
        Script { door, ..self }
    }

    /// Returns the same partner, honouring keys.
    #[must_use]
    pub fn honouring_keys(self) -> Script {
        Script { keys: Keys::Honoured, ..self }
    }

    /// Returns the same partner with another status endpoint.
    #[must_use]
    pub fn with_status(self, status: StatusEndpoint) -> Script {
        Script { status, ..self }
    }
}

/// Whether anybody gets in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Door {
    /// Connections are accepted.
    Open,
    /// The port is bound and nobody listens: connections are refused.
    Closed,
    /// The queue is full: connection requests get no answer at all.
    Full,
}

/// What the business makes of idempotency keys (header `Idempotency-Key`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keys {
    /// Nothing: every request that is to be executed is executed.
    Ignored,
    /// A key is executed once; [`Act::Serve`] answers later requests with the stored answer.
    Honoured,
}

/// How `GET /status/{key}` behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatusEndpoint {
    /// It answers 200 with `"state": "done"` once the key was executed `lag` ago, and 404 with
    /// `"code": "not_found"` before.
    Works {
        /// How far it is behind the truth.
        lag: Duration,
    },
    /// It answers with this HTTP status and nothing else.
    Fails(u16),
    /// It never answers.
    Silent,
    /// It is somewhere else: 404 with a page.
    Misrouted,
}

/// What happens to one request.
#[derive(Clone, Debug)]
pub struct Turn {
    /// Whether and when its business is done. Needs the whole request.
    pub execution: Execution,
    /// What the client sees.
    pub act: Act,
}

impl Turn {
    /// Returns a turn in which the business is done, and the client sees `act`.
    pub fn done(act: Act) -> Turn {
        Turn { execution: Execution::AtOnce, act }
    }

    /// Returns a turn in which the business is not done, and the client sees `act`.
    pub fn not_done(act: Act) -> Turn {
        Turn { execution: Execution::Never, act }
    }

    /// Returns a turn in which everything is as it should be.
    pub fn fine() -> Turn {
        Turn::done(Act::Serve)
    }
}

/// Whether and when the business of a request is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Execution {
    /// It is not.
    Never,
    /// As soon as the whole request is read.
    AtOnce,
    /// That long after the whole request was read, whatever the client does.
    After(Duration),
}

/// What a client sees of one request.
#[derive(Clone, Debug)]
pub enum Act {
    /// The connection is closed at once.
    AcceptFin,
    /// The connection is reset at once.
    AcceptRst,
    /// The connection is accepted, and nothing is ever read or written.
    NeverRead,
    /// A 408 is sent at once, unasked.
    Unsolicited408,
    /// That many bytes are read, then the connection is reset.
    ReadThenRst(usize),
    /// The head is read, then the connection is reset.
    HeadThenRst,
    /// The head is read, a 413 is sent, and the body is left unread.
    Early413,
    /// The whole request is read, but slowly: 256 KiB, a short pause, and so on. The business answers.
    ServeSlowly,
    /// The whole request is read; the business answers.
    Serve,
    /// The whole request is read; the business answers, and nothing more is written. What comes after on the
    /// connection is still read, and the business does it.
    ServeLast,
    /// The whole request is read; this is the answer.
    Answer(Reply),
    /// The whole request is read, then the connection is closed.
    Fin,
    /// The whole request is read, then the connection is reset.
    Rst,
    /// The whole request is read, then nothing.
    Hang,
    /// Half of a head is sent, then nothing.
    HalfHead,
    /// A head is sent byte by byte, for ever.
    DripHead,
    /// Header fields are sent for ever.
    EndlessHeaders,
    /// `100 Continue` is sent for ever.
    ContinueFlood,
    /// A 200 announces a body and sends it byte by byte.
    DripBody,
    /// A 200 sends the half of its body, then the connection is closed.
    CutBody,
    /// A 200 sends the half of its body, then nothing.
    StalledBody,
    /// A 200 announces a chunk of exabytes and sends it.
    GiantChunk,
    /// A 200 sends a body for ever.
    Flood,
    /// Something is sent that is not HTTP.
    Garbage,
}

impl Act {
    /// Returns whether it begins before a request is read.
    pub(super) fn at_accept(&self) -> bool {
        matches!(self, Act::AcceptFin | Act::AcceptRst | Act::NeverRead | Act::Unsolicited408 | Act::ReadThenRst(_))
    }
}

/// An answer.
#[derive(Clone, Debug)]
pub struct Reply {
    /// The HTTP status.
    pub status: u16,
    /// The header fields, without the body's length.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
    /// How long the answer takes.
    pub delay: Duration,
}

impl Reply {
    /// Returns an answer without a body.
    pub fn status(status: u16) -> Reply {
        Reply { status, headers: Vec::new(), body: Vec::new(), delay: Duration::ZERO }
    }

    /// Returns an answer with a JSON body.
    pub fn json(status: u16, body: &str) -> Reply {
        Reply { body: body.into(), ..Reply::status(status) }.header("Content-Type", "application/json")
    }

    /// Returns a redirect.
    pub fn redirect(status: u16, location: &str) -> Reply {
        Reply::status(status).header("Location", location)
    }

    /// Returns a page, as a login form or a captive portal sends it.
    pub fn page(status: u16) -> Reply {
        let body = "<!doctype html><title>Sign in</title>";
        Reply { body: body.into(), ..Reply::status(status) }.header("Content-Type", "text/html")
    }

    /// Returns the same answer with one more header field.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Reply {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// Returns the same answer, later.
    #[must_use]
    pub fn after(self, delay: Duration) -> Reply {
        Reply { delay, ..self }
    }

    /// Returns what goes over the wire.
    pub(super) fn bytes(&self) -> Vec<u8> {
        let mut text = format!("HTTP/1.1 {} Status\r\n", self.status);
        for (name, value) in &self.headers {
            text.push_str(&format!("{name}: {value}\r\n"));
        }
        text.push_str(&format!("Content-Length: {}\r\n\r\n", self.body.len()));
        let mut bytes = text.into_bytes();
        bytes.extend_from_slice(&self.body);
        bytes
    }
}
