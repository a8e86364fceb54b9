//! What an operation of a ledger says about each stage: its first attempt, and no other.

use super::super::exchange::{Stage, Stages};
use super::super::facts::{Fact, Finished, History};
use super::super::moment::Timestamp;
use super::super::reason::Reason;
use super::super::verdict::Evidence;
use super::latencies::Sample;
use super::sample::Taken;
use super::seen::Failing;
use std::time::Duration;

/// Returns what the first attempt of an operation says, and when it began; `None` where there was none, or where it says
/// nothing about the partner.
///
/// Later attempts are left out: a repeated key may be answered from the partner's store in no time. An attempt that the
/// deadline cut short is a sample that was given up then.
///
/// Source: latency.md 3.12.
pub fn recorded(history: &History) -> Option<(Taken, Timestamp)> {
    let first = history.facts.iter().find_map(|recorded| match &recorded.fact {
        Fact::Finished(finished) => Some((&**finished, recorded.at)),
        // The last attempt of a run stands in the line of its verdict.
        Fact::Settled(settled) => settled.last.as_deref().map(|last| (last, recorded.at)),
        _ => None,
    });
    let (finished, at) = first.filter(|(finished, _)| finished.a == 1)?;
    let took = Duration::from_millis(finished.ms);
    let says_nothing = finished.replayed
        || finished.hop.is_some()
        || matches!(
            finished.reason,
            Reason::Suspended | Reason::Expired | Reason::Unbuildable | Reason::LocalResources
        );
    (!says_nothing).then(|| (taken(finished, took), at.before(took)))
}

fn taken(finished: &Finished, took: Duration) -> Taken {
    let stages = finished.stages.as_deref().copied().unwrap_or_default();
    let Stages { resolve_us, connect_us, tls_us, write_us, first_byte_us, .. } = stages;
    let sum = |stages: &[Option<u64>]| {
        Duration::from_micros(stages.iter().map(|us| us.unwrap_or(0)).fold(0, u64::saturating_add))
    };
    let connect = connect_us.map(|_| Sample::Event(sum(&[resolve_us, connect_us, tls_us])));
    let read = first_byte_us.map(Duration::from_micros);
    let whole = Some(Sample::Censored(took));
    match finished.reason {
        Reason::NameTimeout | Reason::ConnectTimeout | Reason::TlsTimeout | Reason::ProxyTimeout => {
            Taken { connect: whole, whole, ..Taken::default() }
        }
        Reason::WriteTimeout => Taken { connect, whole, ..Taken::default() },
        Reason::ReadTimeout | Reason::ReadLimitShort | Reason::AttemptTimeout | Reason::DeadlineReached => {
            let waited = took.saturating_sub(sum(&[resolve_us, connect_us, tls_us, write_us]));
            // Where connecting took all the time, nothing was waited for.
            let read = connect.map(|_| Sample::Censored(waited));
            Taken { connect: connect.or(whole), read, whole, ..Taken::default() }
        }
        Reason::AnswerStalled => Taken { connect, read: read.map(Sample::Event), whole, ..Taken::default() },
        _ if matches!(finished.http, Some(504 | 524)) => {
            Taken { connect, read: read.map(Sample::Censored), whole, ..Taken::default() }
        }
        _ if finished.done == Some(true) || finished.evidence == Evidence::Accepted => {
            let (read, whole) = (read.map(Sample::Event), Some(Sample::Event(took)));
            Taken { connect, read, whole, ..Taken::default() }
        }
        _ => Taken { connect, failure: Some(failing(finished)), ..Taken::default() },
    }
}

fn failing(finished: &Finished) -> Failing {
    match (finished.http, finished.stage) {
        (Some(429), _) => Failing::Limited,
        (Some(400..500), _) => Failing::ClientError,
        (Some(500..), _) => Failing::ServerError,
        (Some(_), _) => Failing::Unexpected,
        (None, Some(Stage::Resolve)) => Failing::Name,
        (None, Some(Stage::Connect)) => Failing::Refused,
        (None, Some(Stage::Tls)) => Failing::Tls,
        (None, _) => Failing::Reset,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::facts::{Again, Recorded};
    use std::sync::Arc;

    fn finished(a: u32, reason: Reason, http: Option<u16>, done: Option<bool>) -> Finished {
        let stages =
            Stages { connect_us: Some(3_000), write_us: Some(7_000), first_byte_us: Some(40_000), ..Stages::default() };
        let stages = if http.is_some() { stages } else { Stages { first_byte_us: None, ..stages } };
        Finished {
            a,
            evidence: Evidence::Answered,
            done,
            again: Again::No,
            reason,
            stage: None,
            side: None,
            http,
            ms: 60,
            stages: Some(Box::new(stages)),
            error: None,
            not_before: None,
            replayed: false,
            slow: false,
            hop: None,
        }
    }

    fn said(finished: Finished) -> Option<Taken> {
        let at = "2026-11-30T10:00:00.060Z".parse().expect("a time");
        let fact = Fact::Finished(Arc::new(finished));
        let found = recorded(&History { facts: vec![Recorded { n: 1, at, steady: None, fact }] })?;
        assert_eq!(found.1.to_string(), "2026-11-30T10:00:00.000Z");
        Some(found.0)
    }

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn a_confirmed_first_attempt_is_an_answer_in_every_stage() {
        let found = said(finished(1, Reason::Ok, Some(201), Some(true))).expect("a sample");
        let event = |after| Some(Sample::Event(after));
        assert_eq!((found.connect, found.read, found.whole), (event(ms(3)), event(ms(40)), event(ms(60))));
    }

    #[test]
    fn a_time_out_is_given_up_and_a_refusal_failed() {
        let found = said(finished(1, Reason::ReadTimeout, None, None)).expect("a sample");
        assert_eq!((found.read, found.failure), (Some(Sample::Censored(ms(50))), None));
        let found = said(finished(1, Reason::ConnectTimeout, None, None)).expect("a sample");
        assert_eq!((found.connect, found.read), (Some(Sample::Censored(ms(60))), None));
        let found = said(finished(1, Reason::Gateway, Some(504), None)).expect("a sample");
        assert_eq!((found.read, found.failure), (Some(Sample::Censored(ms(40))), None));
        let found = said(finished(1, Reason::Rejected, Some(422), Some(false))).expect("a sample");
        assert_eq!((found.read, found.failure), (None, Some(Failing::ClientError)));
    }

    #[test]
    fn later_attempts_stored_answers_and_our_own_faults_say_nothing() {
        assert_eq!(said(finished(2, Reason::Ok, Some(201), Some(true))), None);
        assert_eq!(said(Finished { replayed: true, ..finished(1, Reason::Ok, Some(201), Some(true)) }), None);
        assert_eq!(said(finished(1, Reason::Suspended, None, None)), None);
        assert_eq!(recorded(&History::default()), None);
    }
}
