//! What the rounds of a watch come to, in as much memory however many there are.

use crate::report::probe::live::{AddressRow, Live, Spread};
use abide::engine::diagnose::Diagnosis;
use abide::engine::diagnose::observations::{Address, Observations};
use abide::measure::Counted;
use std::net::SocketAddr;
use std::time::Duration;

/// The times of no more addresses are kept: a name that changes its addresses all the time has no end of them.
const ADDRESSES_MAX: usize = 16;

/// The stages that are told, in order.
const STAGES: [&str; 6] = ["resolve", "connect", "tls", "first byte", "body", "whole"];

/// What the rounds so far come to.
#[derive(Debug, Default)]
pub struct Watched {
    rounds: u64,
    unanswered: u64,
    resent: u64,
    stages: [Times; 6],
    addresses: Vec<(SocketAddr, Times, Dials)>,
}

/// Times of one kind: all of them counted, the newest and the longest as they are.
#[derive(Debug, Default)]
struct Times {
    counted: Counted,
    last: Option<Duration>,
    max: Option<Duration>,
}

/// How often an address was dialled, and how often that failed.
#[derive(Clone, Copy, Debug, Default)]
struct Dials {
    all: u64,
    failed: u64,
}

impl Watched {
    /// Adds a round.
    pub fn add(&mut self, seen: &Observations) {
        self.rounds += 1;
        self.unanswered += u64::from(seen.answer().is_none());
        let syns = seen.addresses.iter().filter_map(|address| address.connect?.syns_resent).map(u64::from);
        let data = seen.addresses.iter().filter_map(|address| address.tcp?.resent);
        self.resent = syns.chain(data).fold(self.resent, u64::saturating_add);
        self.stages.iter_mut().zip(of_round(seen)).for_each(|(times, took)| times.add(took));
        for (_, times, _) in &mut self.addresses {
            times.last = None;
        }
        seen.addresses.iter().for_each(|address| self.add_address(address));
    }

    fn add_address(&mut self, address: &Address) {
        let at = self.addresses.iter().position(|(addr, ..)| *addr == address.addr);
        let at = at.unwrap_or_else(|| {
            if self.addresses.len() < ADDRESSES_MAX {
                self.addresses.push((address.addr, Times::default(), Dials::default()));
            }
            self.addresses.len() - 1
        });
        let (addr, times, dials) = &mut self.addresses[at];
        if *addr == address.addr {
            dials.all += 1;
            dials.failed += u64::from(address.has_failed());
            let connected = address.connect.filter(|connect| connect.outcome.is_ok());
            times.add(connected.and_then(|connect| connect.took));
        }
    }

    /// Returns how the waits for the first byte are spread.
    pub fn first_byte(&self) -> Spread {
        self.stages[3].spread()
    }

    /// Returns what there is to show; `signs` has one for each of the newest rounds.
    pub fn live<'a>(&self, title: &'a str, found: Option<&'a Diagnosis>, signs: String) -> Live<'a> {
        let row = |(addr, times, dials): &(SocketAddr, Times, Dials)| AddressRow {
            addr: *addr,
            connect: times.spread(),
            dialled: dials.all,
            failed: dials.failed,
        };
        Live {
            title,
            found,
            signs,
            rounds: self.rounds,
            unanswered: self.unanswered,
            resent: self.resent,
            stages: STAGES.into_iter().zip(self.stages.iter().map(Times::spread)).collect(),
            addresses: self.addresses.iter().map(row).collect(),
        }
    }
}

/// Returns how long each stage took, where it came to its end.
fn of_round(seen: &Observations) -> [Option<Duration>; 6] {
    let lookup = seen.names.lookup.filter(|lookup| lookup.outcome.is_ok());
    let asked = seen.asked_address().or(seen.addresses.first());
    let connect = asked.and_then(|address| address.connect).filter(|connect| connect.outcome.is_ok());
    let tls = asked.and_then(|address| address.tls.as_ref()).filter(|tls| tls.outcome.is_ok());
    let answered = seen.exchange.as_ref().filter(|_| seen.answer().is_some());
    let micros = |us: Option<u64>| us.map(Duration::from_micros);
    [
        lookup.and_then(|lookup| lookup.took),
        connect.and_then(|connect| connect.took),
        tls.and_then(|tls| tls.took),
        micros(answered.and_then(|exchange| exchange.stages.first_byte_us)),
        micros(answered.and_then(|exchange| exchange.stages.body_us)),
        answered.map(|exchange| exchange.took),
    ]
}

impl Times {
    fn add(&mut self, took: Option<Duration>) {
        self.last = took;
        let Some(took) = took else { return };
        // Longer than an hour no probe takes; it would be missing from the percentiles, and not from the longest.
        let _ = self.counted.record(took);
        self.max = self.max.max(Some(took));
    }

    fn spread(&self) -> Spread {
        Spread { last: self.last, p50: self.ranked(50), p90: self.ranked(90), max: self.max }
    }

    /// Returns the time below or at which so many of 100 lie, to three digits.
    ///
    /// Source: decisions 31: by rank.
    fn ranked(&self, percent: u64) -> Option<Duration> {
        let mut left = self.counted.samples().saturating_mul(percent).div_ceil(100).max(1);
        for bin in self.counted.bins() {
            if bin.count >= left {
                return self.max.map(|max| max.min(bin.high));
            }
            left -= bin.count;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use abide::engine::diagnose::dial::{Connect, ConnectFailure};

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn round(addresses: impl IntoIterator<Item = (u8, Option<u64>)>) -> Observations {
        let address = |(last, took_ms): (u8, Option<u64>)| {
            let outcome = took_ms.map(|_| ()).ok_or(ConnectFailure::Silent);
            let took = Some(ms(took_ms.unwrap_or(3_000)));
            let connect = Some(Connect { outcome, took, syns_resent: Some(u32::from(took_ms.is_none())) });
            Address { connect, ..Address::new(([127, 0, 0, last], 80).into()) }
        };
        Observations { addresses: addresses.into_iter().map(address).collect(), ..Observations::default() }
    }

    #[test]
    fn times_are_ranked_and_failures_counted_for_each_address() {
        let mut watched = Watched::default();
        (1..=10).for_each(|took| watched.add(&round([(1, Some(took)), (2, None)])));
        let live = watched.live("t", None, String::new());
        assert_eq!((live.rounds, live.unanswered, live.resent), (10, 10, 10));
        let (_, connect) = live.stages[1];
        assert_eq!((connect.last, connect.max), (Some(ms(10)), Some(ms(10))));
        let close = |found: Option<Duration>, wanted| found.is_some_and(|found| found.abs_diff(wanted) < ms(1) / 50);
        assert!(close(connect.p50, ms(5)) && close(connect.p90, ms(9)), "{connect:?}");
        let told: Vec<_> = live.addresses.iter().map(|row| (row.dialled, row.failed, row.connect.max)).collect();
        assert_eq!(told, [(10, 0, Some(ms(10))), (10, 10, None)]);
        assert_eq!(watched.first_byte(), Spread::default());
    }

    #[test]
    fn no_number_of_addresses_takes_more_than_a_bounded_room() {
        let mut watched = Watched::default();
        (0..200).for_each(|last| watched.add(&round([(last, Some(1))])));
        let live = watched.live("t", None, String::new());
        assert_eq!((live.addresses.len(), live.rounds), (ADDRESSES_MAX, 200));
        assert!(
            live.addresses.iter().all(|row| row.dialled == 1 && row.connect.last.is_none()),
            "the newest is not kept"
        );
    }
}
