//! What one request of a calibration says about each stage.

use super::super::classify::{Context, classify};
use super::super::exchange::{Answer, Ending, Exchange, Fault, Outcome, Stage, Stages};
use super::super::reason::Reason;
use super::super::retry_after::{self, RetryAfter};
use super::super::verdict::Evidence;
use super::latencies::Sample;
use super::seen::Failing;
use std::time::Duration;

/// How long a partner is left alone that asks for less without saying for how long.
///
/// Source: long enough for the shortest usual windows of rate limits, which are a second and ten seconds.
pub const PAUSE: Duration = Duration::from_secs(10);

/// What one request says. A stage that it did not reach, or that failed, says nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Taken {
    /// Lookup, TCP, proxy CONNECT and TLS together.
    pub connect: Option<Sample>,
    /// From the last byte sent to the head of the answer.
    pub read: Option<Sample>,
    /// From the start to the last byte of the answer.
    pub whole: Option<Sample>,
    /// How it failed, where it did instead of taking long.
    pub failure: Option<Failing>,
    /// The partner wants fewer requests, and none for so long.
    pub pause: Option<Duration>,
    /// It was not waited for any longer because a person ended the run, and not because of its limit.
    pub called_off: bool,
}

/// Returns what a request says that was answered, given up or failed.
///
/// A time-out is a sample that was given up, and so is a gateway's 504 or 524: the partner would have needed longer.
/// Answers that are no success count as failures and not as fast answers. What a suspend of this machine spoilt says
/// nothing.
///
/// Source: latency.md 3.1 and 3.2; decisions 32.
pub fn taken(exchange: &Exchange, context: &Context<'_>) -> Taken {
    match &exchange.outcome {
        Outcome::Unanswered { stage, fault: Fault::TimedOut(_), .. } => given_up(*stage, exchange),
        Outcome::Unanswered { fault: Fault::Suspended, .. } => Taken::default(),
        Outcome::Unanswered { fault, .. } => {
            Taken { connect: connected(exchange), failure: Some(failing(*fault)), ..Taken::default() }
        }
        Outcome::Answered(answer) => answered(answer, exchange, context),
    }
}

/// Returns a sample that our own limit ended in `stage`.
fn given_up(stage: Stage, exchange: &Exchange) -> Taken {
    let took = exchange.took;
    let whole = Some(Sample::Censored(took));
    match stage {
        Stage::Resolve | Stage::Connect | Stage::Tls => {
            Taken { connect: Some(Sample::Censored(took)), whole, ..Taken::default() }
        }
        Stage::Write => Taken { connect: connected(exchange), whole, ..Taken::default() },
        Stage::FirstByte | Stage::Body => {
            let read = Some(Sample::Censored(exchange.waited()));
            Taken { connect: connected(exchange), read, whole, ..Taken::default() }
        }
    }
}

fn answered(answer: &Answer, exchange: &Exchange, context: &Context<'_>) -> Taken {
    let connect = connected(exchange);
    let read = exchange.stages.first_byte_us.map(Duration::from_micros);
    let retry_after = match retry_after::read(&answer.headers, exchange.at) {
        RetryAfter::Wait(wait) => Some(wait.max(Duration::from_secs(1))),
        RetryAfter::Absent | RetryAfter::Malformed => None,
    };
    let limited = answer.status == 429;
    let pause = retry_after.or(limited.then_some(PAUSE));
    if matches!(answer.status, 504 | 524) {
        let whole = Some(Sample::Censored(exchange.took));
        return Taken { connect, read: read.map(Sample::Censored), whole, pause, ..Taken::default() };
    }
    if let Ending::Cut(fault) = answer.ending {
        return match fault {
            Fault::TimedOut(_) => {
                let whole = Some(Sample::Censored(exchange.took));
                Taken { connect, read: read.map(Sample::Event), whole, pause, ..Taken::default() }
            }
            Fault::Suspended => Taken::default(),
            fault => Taken { connect, failure: Some(failing(fault)), pause, ..Taken::default() },
        };
    }
    if !is_success(exchange, context) {
        let failure = Some(match answer.status {
            429 => Failing::Limited,
            400..500 => Failing::ClientError,
            500.. => Failing::ServerError,
            _ => Failing::Unexpected,
        });
        return Taken { connect, failure, pause, ..Taken::default() };
    }
    Taken { connect, read: read.map(Sample::Event), whole: Some(Sample::Event(exchange.took)), ..Taken::default() }
}

/// Tells whether an answer is what the profile takes for one: a success, a 202, or a part that was asked for.
fn is_success(exchange: &Exchange, context: &Context<'_>) -> bool {
    let finding = classify(exchange, context);
    finding.done == Some(true) || finding.evidence == Evidence::Accepted || finding.reason == Reason::PartialSuccess
}

fn connected(exchange: &Exchange) -> Option<Sample> {
    let Stages { resolve_us, connect_us, tls_us, .. } = exchange.stages;
    // Absent where nothing was connected.
    connect_us?;
    Some(Sample::Event(sum(&[resolve_us, connect_us, tls_us])))
}

fn sum(stages: &[Option<u64>]) -> Duration {
    Duration::from_micros(stages.iter().map(|us| us.unwrap_or(0)).fold(0, u64::saturating_add))
}

fn failing(fault: Fault) -> Failing {
    match fault {
        Fault::NameUnknown | Fault::NameUnavailable | Fault::ProxyNameUnknown => Failing::Name,
        Fault::Certificate(_)
        | Fault::NoTrust
        | Fault::NotTls
        | Fault::TlsIncompatible
        | Fault::Tls
        | Fault::ClientCertificateWanted
        | Fault::ClientCertificateRefused
        | Fault::Alert => Failing::Tls,
        Fault::ConnectionRefused
        | Fault::Unreachable
        | Fault::LocalResources
        | Fault::ProxyUnreachable
        | Fault::Proxy
        | Fault::ProxyCredentials
        | Fault::ProxyForbids
        | Fault::BeyondProxy
        | Fault::Unbuildable
        | Fault::Expired => Failing::Refused,
        Fault::TimedOut(_)
        | Fault::Reset
        | Fault::Closed
        | Fault::NotHttp
        | Fault::HeadTooLarge
        | Fault::Suspended
        | Fault::Other => Failing::Reset,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::exchange::{Headers, Limit, Sent, Via};
    use crate::engine::operation::Method;
    use crate::engine::policy::Policy;
    use crate::engine::secret::Mask;

    fn us(us: u64) -> Duration {
        Duration::from_micros(us)
    }

    fn exchange(outcome: Outcome, first_byte_us: Option<u64>) -> Exchange {
        let (resolve_us, connect_us, tls_us, write_us) = (Some(100), Some(20), Some(3), Some(1_000));
        let stages = Stages { resolve_us, connect_us, tls_us, write_us, first_byte_us, body_us: None };
        let (error, addr, at) = (None, None, Default::default());
        Exchange { outcome, stages, took: us(10_123), addr, via: Via::Direct, error, at }
    }

    fn said(exchange: &Exchange) -> Taken {
        let policy = Policy::unprofiled(Method::new("GET").expect("a method"), "http://partner.example");
        let (mask, url) = (Mask::default(), "http://partner.example/");
        let (had_doubt, protected, hops, trail, json) = (false, false, 0, &[][..], false);
        let context = Context { policy: &policy, url, had_doubt, protected, hops, trail, mask: &mask, json };
        taken(exchange, &context)
    }

    fn answer(status: u16, headers: &[(&str, &str)], ending: Ending) -> Taken {
        let headers = Headers(headers.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect());
        said(&exchange(Outcome::Answered(Answer { status, headers, body: Vec::new(), ending }), Some(7_000)))
    }

    fn unanswered(stage: Stage, fault: Fault) -> Taken {
        said(&exchange(Outcome::Unanswered { sent: Sent::Whole, stage, fault }, None))
    }

    const CONNECT: Option<Sample> = Some(Sample::Event(Duration::from_micros(123)));
    const READ: Option<Sample> = Some(Sample::Event(Duration::from_micros(7_000)));

    #[test]
    fn a_success_is_an_answer_in_every_stage() {
        let expected =
            Taken { connect: CONNECT, read: READ, whole: Some(Sample::Event(us(10_123))), ..Taken::default() };
        for status in [200, 202, 204, 206] {
            assert_eq!(answer(status, &[], Ending::Complete), expected, "{status}");
        }
    }

    #[test]
    fn what_is_no_success_counts_as_a_failure_and_never_as_a_fast_answer() {
        for (status, failure) in [
            (301, Failing::Unexpected),
            (404, Failing::ClientError),
            (429, Failing::Limited),
            (500, Failing::ServerError),
            (503, Failing::ServerError),
        ] {
            let found = answer(status, &[], Ending::Complete);
            assert_eq!((found.read, found.whole, found.failure), (None, None, Some(failure)), "{status}");
        }
    }

    #[test]
    fn a_time_out_is_given_up_in_its_stage_and_says_nothing_of_later_ones() {
        let timed_out = Fault::TimedOut(Limit::Read);
        let whole = Some(Sample::Censored(us(10_123)));
        let found = unanswered(Stage::Connect, timed_out);
        assert_eq!((found.connect, found.read, found.whole), (whole, None, whole));
        let found = unanswered(Stage::Write, timed_out);
        assert_eq!((found.connect, found.read, found.whole), (CONNECT, None, whole));
        let found = unanswered(Stage::FirstByte, timed_out);
        assert_eq!((found.connect, found.read, found.whole), (CONNECT, Some(Sample::Censored(us(9_000))), whole));
        let found = answer(200, &[], Ending::Cut(timed_out));
        assert_eq!((found.read, found.whole, found.failure), (READ, whole, None));
    }

    #[test]
    fn a_gateway_that_gave_up_is_a_sample_that_was_given_up() {
        for status in [504, 524] {
            let found = answer(status, &[], Ending::Complete);
            assert_eq!((found.read, found.failure), (Some(Sample::Censored(us(7_000))), None), "{status}");
        }
    }

    #[test]
    fn a_partner_that_asks_for_less_is_left_alone() {
        assert_eq!(answer(429, &[], Ending::Complete).pause, Some(PAUSE));
        assert_eq!(answer(429, &[("retry-after", "3")], Ending::Complete).pause, Some(Duration::from_secs(3)));
        assert_eq!(answer(503, &[("retry-after", "0")], Ending::Complete).pause, Some(Duration::from_secs(1)));
        assert_eq!(answer(503, &[], Ending::Complete).pause, None);
    }

    #[test]
    fn faults_are_told_apart() {
        for (fault, failure) in [
            (Fault::ConnectionRefused, Failing::Refused),
            (Fault::NameUnknown, Failing::Name),
            (Fault::NoTrust, Failing::Tls),
            (Fault::Reset, Failing::Reset),
        ] {
            assert_eq!(unanswered(Stage::Connect, fault).failure, Some(failure), "{fault:?}");
        }
        assert_eq!(unanswered(Stage::FirstByte, Fault::Suspended), Taken::default());
    }
}
