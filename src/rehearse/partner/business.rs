//! The truth: what reached a partner, and what its business did.

use super::script::{Act, Execution, Keys, Reply, Script, StatusEndpoint, Turn};
use serde_json::json;
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;
use tokio::time::Instant;

/// More whole requests are counted, not remembered.
const REQUESTS_KEPT: usize = 1000;
/// More keys are executed, not remembered.
const KEYS_KEPT: usize = 10_000;
/// More of a request's body is counted, not remembered.
const BODY_KEPT_BYTES: usize = 1 << 20;

/// What reached a partner, and what it did.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// Connections that it accepted.
    pub connections: u32,
    /// Heads of requests that it read, status requests not counted.
    pub heads: u32,
    /// Whole requests that it read, status requests not counted.
    pub whole: u32,
    /// How often its business was done.
    pub executions: u32,
    /// Status requests that it read.
    pub questions: u32,
    /// The whole requests, oldest first; at most the first thousand.
    pub requests: Vec<SeenRequest>,
}

/// One whole request as it came.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SeenRequest {
    /// The method.
    pub method: String,
    /// The path with its query.
    pub path: String,
    /// The header fields; names are lower case.
    pub headers: Vec<(String, String)>,
    /// The body, at most its first MiB.
    pub body: Vec<u8>,
    /// The length of the body in bytes.
    pub body_bytes: usize,
    /// When it was complete, since the partner started.
    pub at: Duration,
}

impl SeenRequest {
    /// Returns the first value of a header field, whose name is given in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| &**value)
    }

    /// Returns the idempotency key.
    pub fn key(&self) -> Option<&str> {
        self.header("idempotency-key")
    }

    pub(super) fn keep_body(&mut self, piece: &[u8]) {
        let room = BODY_KEPT_BYTES.saturating_sub(self.body.len()).min(piece.len());
        self.body.extend_from_slice(&piece[..room]);
        self.body_bytes += piece.len();
    }
}

/// A script in play.
#[derive(Debug)]
pub(super) struct Business {
    started: Instant,
    script: Script,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    seen: Seen,
    turns_taken: usize,
    /// When a key was executed.
    executed: HashMap<String, Instant>,
    /// What will be done, whoever listens then.
    due: Vec<(Instant, Option<String>)>,
}

impl Business {
    pub fn new(script: Script) -> Business {
        Business { started: Instant::now(), script, state: Mutex::default() }
    }

    pub fn seen(&self) -> Seen {
        self.lock().seen.clone()
    }

    pub fn connected(&self) {
        self.lock().seen.connections += 1;
    }

    /// Returns the turn of a connection whose fault begins before a request is read.
    pub fn turn_at_accept(&self) -> Option<Turn> {
        let mut state = self.lock();
        let turn = self.turn(state.turns_taken);
        turn.act.at_accept().then(|| {
            state.turns_taken += 1;
            turn.clone()
        })
    }

    /// Returns the turn of a request whose head was read.
    pub fn turn_at_head(&self) -> Turn {
        let mut state = self.lock();
        state.seen.heads += 1;
        state.turns_taken += 1;
        self.turn(state.turns_taken - 1).clone()
    }

    fn turn(&self, n: usize) -> &Turn {
        self.script.turns.get(n).unwrap_or(&self.script.then)
    }

    /// Takes a whole request in, and does its business as the turn says. Returns the business's own answer.
    pub fn receive(&self, mut request: SeenRequest, execution: Execution) -> Reply {
        request.at = self.started.elapsed();
        let key = request.key().map(str::to_owned);
        let mut state = self.lock();
        state.seen.whole += 1;
        if state.seen.requests.len() < REQUESTS_KEPT {
            state.seen.requests.push(request);
        }
        match execution {
            Execution::Never => answer(key.as_deref(), false),
            Execution::AtOnce => state.execute(key, self.script.keys),
            Execution::After(lag) => {
                let reply = answer(key.as_deref(), false);
                state.due.push((Instant::now() + lag, key));
                reply
            }
        }
    }

    /// Returns what the client of a status request sees.
    pub fn status_of(&self, key: &str) -> Act {
        let mut state = self.lock();
        state.seen.questions += 1;
        match self.script.status {
            StatusEndpoint::Fails(status) => Act::Answer(Reply::status(status)),
            StatusEndpoint::Silent => Act::Hang,
            StatusEndpoint::Misrouted => Act::Answer(Reply::page(404)),
            StatusEndpoint::Works { lag } => {
                let visible = state.executed.get(key).is_some_and(|at| at.elapsed() >= lag);
                Act::Answer(match visible {
                    true => Reply::json(200, &json!({ "state": "done", "key": key }).to_string()),
                    false => Reply::json(404, &json!({ "error": { "code": "not_found" } }).to_string()),
                })
            }
        }
    }

    /// Returns the state, with everything done that is due by now.
    fn lock(&self) -> MutexGuard<'_, State> {
        let mut state = self.state.lock().expect("no holder of this lock panics");
        let now = Instant::now();
        let due: Vec<_> = state.due.extract_if(.., |(at, _)| *at <= now).collect();
        for (_, key) in due {
            state.execute(key, self.script.keys);
        }
        state
    }
}

impl State {
    /// Does the business of a request, unless its key was honoured before. Returns the business's answer.
    fn execute(&mut self, key: Option<String>, keys: Keys) -> Reply {
        let known = key.as_ref().is_some_and(|key| self.executed.contains_key(key));
        let replayed = known && keys == Keys::Honoured;
        if !replayed {
            self.seen.executions += 1;
        }
        let reply = answer(key.as_deref(), replayed);
        if let Some(key) = key.filter(|_| self.executed.len() < KEYS_KEPT) {
            self.executed.entry(key).or_insert_with(Instant::now);
        }
        reply
    }
}

fn answer(key: Option<&str>, replayed: bool) -> Reply {
    let reply = Reply::json(201, &json!({ "state": "done", "key": key }).to_string());
    if replayed { reply.header("Idempotent-Replayed", "true") } else { reply }
}
