//! One JSON line per attempt, wait and decision: schema `abide.event/1`.

use super::human::Taken;
use super::json::{Attempted, line};
use abide::engine::facts::{Asked, Finished, Settled, Waiting};
use abide::engine::moment::Timestamp;
use abide::engine::operation::IdempotencyKey;
use abide::engine::reason::Reason;
use abide::engine::verdict::{Cause, Verdict};
use serde::Serialize;
use std::net::SocketAddr;
use std::time::Duration;

/// What happened, of what an event tells.
#[derive(Debug, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Happened<'a> {
    /// An attempt is about to send.
    Started {
        /// The attempt.
        a: u32,
        /// Where it goes.
        addr: Option<SocketAddr>,
        /// The proxy that it passes by, as `host:port`.
        proxy: Option<&'a str>,
        /// When its limits end it, in milliseconds from now.
        limit_ms: u64,
    },
    /// An attempt ended.
    Finished {
        /// What it came to.
        attempt: Attempted<'a>,
    },
    /// A wait begins.
    Waiting {
        /// When it ends.
        until: Timestamp,
        /// What it is for.
        reason: abide::engine::facts::Pause,
    },
    /// A status request is about to be sent.
    Asking,
    /// A status request was answered.
    Asked {
        /// What came of it.
        asked: &'a Asked,
    },
    /// The run ends.
    Settled {
        /// What is known.
        verdict: Verdict,
        /// Why the run ended so.
        cause: Cause,
        /// What the last attempt of the run met.
        reason: Option<Reason>,
        /// The earliest time that another run makes sense.
        retry_at: Option<Timestamp>,
    },
}

impl<'a> Happened<'a> {
    /// Returns the event of an attempt that is about to send.
    pub fn started(a: u32, way: &'a Taken, limit: Duration) -> Happened<'a> {
        let limit_ms = u64::try_from(limit.as_millis()).unwrap_or(u64::MAX);
        Happened::Started { a, addr: way.addr, proxy: way.proxy.as_deref(), limit_ms }
    }

    /// Returns the event of an attempt that ended.
    pub fn finished(finished: &'a Finished) -> Happened<'a> {
        Happened::Finished { attempt: finished.into() }
    }

    /// Returns the event of a wait.
    pub fn waiting(waiting: &Waiting) -> Happened<'a> {
        Happened::Waiting { until: waiting.until, reason: waiting.reason }
    }

    /// Returns the event of a run's end.
    pub fn settled(settled: &Settled) -> Happened<'a> {
        Happened::Settled {
            verdict: settled.verdict,
            cause: settled.cause,
            reason: settled.last.as_ref().map(|last| last.reason),
            retry_at: settled.retry_at,
        }
    }
}

#[derive(Serialize)]
struct Line<'a> {
    schema: &'static str,
    at: Timestamp,
    key: &'a str,
    left_ms: u64,
    #[serde(flatten)]
    happened: Happened<'a>,
}

/// Returns the line of an event; `left` is what is left of the deadline.
pub fn event(key: &IdempotencyKey, at: Timestamp, left: Duration, happened: Happened<'_>) -> String {
    let left_ms = u64::try_from(left.as_millis()).unwrap_or(u64::MAX);
    line(&Line { schema: "abide.event/1", at, key: key.as_str(), left_ms, happened })
}
