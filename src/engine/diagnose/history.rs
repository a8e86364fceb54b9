//! What is usual with a partner, from the attempts that a ledger holds.

use super::past::{Before, Past, PastAddress, Usual};
use crate::engine::exchange::Stages;
use crate::engine::facts::{Fact, Finished, History};
use crate::engine::moment::Timestamp;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

/// With fewer times nobody knows what 99 of 100 took.
pub const LEAST: usize = 100;

/// No more times are kept of a stage, the first that are added.
const KEPT: usize = 10_000;

/// What is known of no more addresses, the first that are added.
const ADDRESSES_KEPT: usize = 64;

/// With fewer connections nobody knows which round trip is usual.
///
/// Source: the median of ten is in the middle half of all in 90 of 100 cases.
const FEWEST_TRIPS: usize = 10;

/// A connection takes one round trip and what this machine adds. Below this the latter cannot be told from the former.
///
/// Source: latency.md 6.4, where errors of this machine come within a tenth of a millisecond: twenty times that.
const TRIP_MIN: Duration = Duration::from_millis(2);

/// Attempts, gathered one operation after the other; the newest operation comes first.
#[derive(Clone, Debug, Default)]
pub struct Gathered {
    resolve: Times,
    connect: Times,
    tls: Times,
    first_byte: Times,
    whole: Times,
    attempts: u64,
    answered: Option<Timestamp>,
    addresses: BTreeMap<IpAddr, Trips>,
}

/// The connections to one address, without a proxy.
#[derive(Clone, Debug, Default)]
struct Trips {
    times: Times,
    worked: Option<Timestamp>,
}

impl Gathered {
    /// Adds every attempt of an operation. Stored answers and redirects say nothing about a first answer.
    pub fn add(&mut self, history: &History) {
        let mut to = None;
        for recorded in &history.facts {
            let finished = match &recorded.fact {
                Fact::Started(started) => {
                    to = Some((started.a, started.addr.filter(|_| started.proxy.is_none())));
                    continue;
                }
                Fact::Finished(finished) => finished,
                // The last attempt of a run stands in the line of its verdict.
                Fact::Settled(settled) => match settled.last.as_ref() {
                    Some(last) => last,
                    None => continue,
                },
                _ => continue,
            };
            self.attempt(finished, recorded.at);
            let addr = to.take().filter(|(a, _)| *a == finished.a).and_then(|(_, addr)| addr);
            addr.into_iter().for_each(|addr| self.trip(addr.ip(), finished, recorded.at));
        }
    }

    fn trip(&mut self, ip: IpAddr, finished: &Finished, at: Timestamp) {
        let is_full = self.addresses.len() >= ADDRESSES_KEPT && !self.addresses.contains_key(&ip);
        // A kept connection was not connected to.
        let connect_us = finished.stages.as_deref().and_then(|stages| stages.connect_us);
        if is_full || (connect_us.is_none() && finished.http.is_some()) {
            return;
        }
        let trips = self.addresses.entry(ip).or_default();
        trips.times.add(connect_us);
        trips.worked = trips.worked.max(connect_us.map(|_| at));
    }

    fn attempt(&mut self, finished: &Finished, at: Timestamp) {
        if finished.replayed || finished.hop.is_some() {
            return;
        }
        self.attempts += 1;
        let stages: Stages = finished.stages.as_deref().copied().unwrap_or_default();
        self.resolve.add(stages.resolve_us);
        self.connect.add(stages.connect_us);
        self.tls.add(stages.tls_us);
        self.first_byte.add(stages.first_byte_us);
        if finished.http.is_some() {
            self.whole.add(Some(finished.ms.saturating_mul(1_000)));
            self.answered = self.answered.max(Some(at));
        }
    }

    /// Returns what is known at `now`.
    pub fn past(&self, now: Timestamp) -> Past {
        let worked = self.answered.map(|at| Before::Worked { ago: now.since(at) });
        let never = (self.attempts > 0).then_some(Before::Never);
        Past {
            before: worked.or(never),
            resolve: self.resolve.usual(),
            connect: self.connect.usual(),
            tls: self.tls.usual(),
            first_byte: self.first_byte.usual(),
            whole: self.whole.usual(),
            addresses: self.addresses.iter().map(|(ip, trips)| trips.past(*ip, now)).collect(),
            ..Past::default()
        }
    }
}

impl Trips {
    fn past(&self, ip: IpAddr, now: Timestamp) -> PastAddress {
        let before = self.worked.map_or(Before::Never, |at| Before::Worked { ago: now.since(at) });
        let rtt = self.times.ranked(50, FEWEST_TRIPS);
        let shortest = self.times.0.iter().min().map(|us| Duration::from_micros(*us));
        PastAddress {
            ip,
            before,
            // Half of it is surely shorter than any round trip.
            smallest_rtt: shortest
                .filter(|shortest| rtt.is_some() && *shortest >= TRIP_MIN)
                .map(|shortest| shortest / 2),
            rtt,
        }
    }
}

/// The times of one stage, in microseconds.
#[derive(Clone, Debug, Default)]
struct Times(Vec<u64>);

impl Times {
    fn add(&mut self, us: Option<u64>) {
        self.0.extend(us.filter(|_| self.0.len() < KEPT));
    }

    /// Returns the two percentiles by rank; `None` where there are too few times.
    fn usual(&self) -> Option<Usual> {
        Some(Usual { p50: self.ranked(50, LEAST)?, p99: self.ranked(99, LEAST)? })
    }

    /// Returns a percentile by rank; `None` where there are fewer than `least` times, or none.
    fn ranked(&self, percent: usize, least: usize) -> Option<Duration> {
        let mut sorted = self.0.clone();
        sorted.sort_unstable();
        let rank = (sorted.len() * percent).div_ceil(100).checked_sub(1)?;
        (sorted.len() >= least).then(|| Duration::from_micros(sorted[rank]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::facts::{Again, Recorded, Started};
    use crate::engine::reason::Reason;
    use crate::engine::verdict::Evidence;
    use std::sync::Arc;

    fn at(secs: i64) -> Timestamp {
        Timestamp::from_unix_ms(secs * 1_000)
    }

    fn attempt(first_byte_us: Option<u64>) -> Finished {
        let stages = Stages { first_byte_us, ..Stages::default() };
        Finished {
            a: 1,
            evidence: Evidence::Answered,
            done: Some(true),
            again: Again::No,
            reason: Reason::Ok,
            stage: None,
            side: None,
            http: first_byte_us.map(|_| 200),
            ms: 5,
            stages: Some(Box::new(stages)),
            error: None,
            not_before: None,
            replayed: false,
            slow: false,
            hop: None,
        }
    }

    fn gathered(attempts: impl IntoIterator<Item = Finished>) -> Gathered {
        let mut gathered = Gathered::default();
        attempts.into_iter().for_each(|finished| gathered.attempt(&finished, at(100)));
        gathered
    }

    #[test]
    fn a_hundred_times_tell_what_99_of_100_took_and_fewer_tell_nothing() {
        let times = |count: u64| gathered((1..=count).map(|us| attempt(Some(us)))).past(at(160));
        let usual = Usual { p50: Duration::from_micros(50), p99: Duration::from_micros(99) };
        assert_eq!(times(100).first_byte, Some(usual));
        assert_eq!(times(99).first_byte, None);
        assert_eq!(times(100).connect, None, "it was never measured");
        assert_eq!(times(1).before, Some(Before::Worked { ago: Duration::from_secs(60) }));
    }

    #[test]
    fn what_says_nothing_about_a_first_answer_is_left_out() {
        let stored = Finished { replayed: true, ..attempt(Some(1)) };
        let redirect = Finished { hop: Some("http://b.example/".into()), ..attempt(Some(1)) };
        assert_eq!(gathered([stored, redirect]).past(at(160)), Past::default());
        assert_eq!(gathered([attempt(None)]).past(at(160)).before, Some(Before::Never));
    }

    #[test]
    fn the_first_times_are_kept() {
        let new = (0..KEPT).map(|_| attempt(Some(7)));
        let old = (0..KEPT).map(|_| attempt(Some(1)));
        let usual = gathered(new.chain(old)).past(at(160)).first_byte.expect("many times");
        assert_eq!(usual, Usual { p50: Duration::from_micros(7), p99: Duration::from_micros(7) });
    }

    #[test]
    fn each_address_is_known_by_its_own_connections() {
        let [near, far]: [IpAddr; 2] = [[192, 0, 2, 7].into(), [192, 0, 2, 8].into()];
        let started = |a, ip: IpAddr, proxy: Option<&str>| {
            let addr = Some((ip, 443).into());
            Fact::Started(Started { a, addr, proxy: proxy.map(Into::into) })
        };
        let finished = |a, connect_us: Option<u64>| {
            let stages = Stages { connect_us, first_byte_us: connect_us, ..Stages::default() };
            let http = connect_us.map(|_| 200);
            Fact::Finished(Arc::new(Finished { a, http, stages: Some(Box::new(stages)), ..attempt(None) }))
        };
        let mut facts =
            vec![started(1, far, None), finished(1, None), started(2, far, Some("p:1")), finished(2, Some(1))];
        for a in 3..=12 {
            facts.extend([started(a, near, None), finished(a, Some(10_000 + u64::from(a)))]);
        }
        facts.extend([started(13, near, None), finished(14, Some(1))]);
        let facts = facts.into_iter().map(|fact| Recorded { n: 1, at: at(100), steady: None, fact }).collect();
        let mut gathered = Gathered::default();
        gathered.add(&History { facts });
        let past = gathered.past(at(160));
        let known = PastAddress {
            ip: near,
            before: Before::Worked { ago: Duration::from_secs(60) },
            smallest_rtt: Some(Duration::from_nanos(5_001_500)),
            rtt: Some(Duration::from_micros(10_007)),
        };
        assert_eq!(past.of_address(near), Some(&known));
        let never = PastAddress { ip: far, before: Before::Never, smallest_rtt: None, rtt: None };
        assert_eq!(past.of_address(far), Some(&never), "what a proxy does says nothing of the address");
    }

    #[test]
    fn every_attempt_of_an_operation_counts() {
        let fact = Fact::Finished(Arc::new(attempt(Some(1))));
        let recorded = Recorded { n: 1, at: at(100), steady: None, fact };
        let mut gathered = Gathered::default();
        gathered.add(&History { facts: vec![recorded.clone(), recorded] });
        assert_eq!(gathered.attempts, 2);
    }
}
