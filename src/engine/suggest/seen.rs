//! What a calibration saw, and what is in force.

use super::super::policy::{RetryPolicy, Timeouts};
use super::evidence::Minutes;
use super::latencies::Latencies;
use super::season::Hours;
use super::share::{Headroom, Share};
use std::time::Duration;

/// What a calibration saw. Answers that failed count in [`Seen::failures`] alone: fast ones would pull percentiles down.
///
/// Source: latency.md 3.1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// From the last byte sent to the head of the answer.
    pub read: Latencies,
    /// Lookup, TCP, proxy CONNECT and TLS together, over new connections; empty where none was measured.
    pub connect: Latencies,
    /// From the start of an attempt to the last byte of its answer; empty where it was not measured.
    pub whole: Latencies,
    /// What failed.
    pub failures: Failures,
    /// Requests that were due and not sent, because too many were under way.
    pub missed: u64,
    /// Requests that were called off when the run was interrupted. They are among the samples that were given up, each at
    /// its age.
    pub called_off: u64,
    /// When the samples were taken.
    pub minutes: Minutes,
    /// [`Seen::read`] by the hour of the day.
    pub hours: Hours,
    /// The 99th percentile of how late requests left; `None` where nothing was due at a time.
    pub lag: Option<Duration>,
    /// How requests were spaced.
    pub pacing: Pacing,
}

impl Seen {
    /// Returns that nothing but reading was measured, at times that are not known.
    pub fn of_reading(read: Latencies) -> Seen {
        let none = || Latencies::from_samples([]).expect("nothing is not too much");
        Seen {
            read,
            connect: none(),
            whole: none(),
            failures: Failures::default(),
            missed: 0,
            called_off: 0,
            minutes: Minutes::Unknown,
            hours: Hours::default(),
            lag: None,
            pacing: Pacing::Open,
        }
    }

    /// Returns how many requests were made, whatever came of them.
    pub fn tried(&self) -> u64 {
        self.read.samples().max(self.whole.samples()).saturating_add(self.failures.all())
    }

    /// Returns how many requests were given up because their time was over.
    pub fn given_up(&self) -> u64 {
        self.read.censored().max(self.whole.censored()).saturating_sub(self.called_off)
    }

    /// Returns the latencies of whole attempts, or those of reading where whole ones were not measured.
    pub(super) fn longest_known(&self) -> &Latencies {
        if self.whole.events() > 0 { &self.whole } else { &self.read }
    }
}

/// How requests were spaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pacing {
    /// Each was sent when it was due, whatever had become of the others.
    Open,
    /// Each waited for the one before: a stall of the partner hides itself.
    Closed,
}

/// What failed instead of taking long, by kind.
///
/// Source: latency.md 3.1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Failures {
    /// No connection: refused or unreachable.
    pub refused: u64,
    /// The name was not found.
    pub name: u64,
    /// The TLS handshake failed.
    pub tls: u64,
    /// The connection broke.
    pub reset: u64,
    /// 429.
    pub limited: u64,
    /// Another 4xx.
    pub client_error: u64,
    /// 5xx, but for time-outs of a gateway, which are given up samples.
    pub server_error: u64,
    /// An answer that is no success by the profile's rules.
    pub unexpected: u64,
}

/// How a request failed, by the kinds of [`Failures`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failing {
    /// No connection.
    Refused,
    /// No such name.
    Name,
    /// No TLS.
    Tls,
    /// The connection broke.
    Reset,
    /// 429.
    Limited,
    /// Another 4xx.
    ClientError,
    /// 5xx.
    ServerError,
    /// No success by the profile's rules.
    Unexpected,
}

impl Failures {
    /// Counts one more.
    pub fn add(&mut self, failing: Failing) {
        let count = match failing {
            Failing::Refused => &mut self.refused,
            Failing::Name => &mut self.name,
            Failing::Tls => &mut self.tls,
            Failing::Reset => &mut self.reset,
            Failing::Limited => &mut self.limited,
            Failing::ClientError => &mut self.client_error,
            Failing::ServerError => &mut self.server_error,
            Failing::Unexpected => &mut self.unexpected,
        };
        *count = count.saturating_add(1);
    }

    /// Returns how many failed.
    pub fn all(&self) -> u64 {
        let kinds = [
            self.refused,
            self.name,
            self.tls,
            self.reset,
            self.limited,
            self.client_error,
            self.server_error,
            self.unexpected,
        ];
        kinds.into_iter().fold(0, u64::saturating_add)
    }
}

/// What the user wants, and what is in force now.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// The percentile that the read limit goes by; its complement is the share of false timeouts that is accepted.
    pub percentile: Share,
    /// What is added; `None`: a quarter, and a half where the evidence is a snapshot.
    pub headroom: Option<Headroom>,
    /// A deadline that was promised; `None`: one is derived.
    pub overall: Option<Duration>,
    /// The limits in force.
    pub timeouts: Timeouts,
    /// How attempts are repeated.
    pub retry: RetryPolicy,
}

impl Default for Options {
    /// Source: product.md sections 4 and 6.
    fn default() -> Options {
        Options {
            percentile: Share::P99,
            headroom: None,
            overall: None,
            timeouts: Timeouts::default(),
            retry: RetryPolicy::default(),
        }
    }
}
