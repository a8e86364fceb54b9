//! What is usual with a partner, and where a time stands in it.

use crate::engine::measured::Measured;
use std::net::IpAddr;
use std::time::Duration;

/// What is known from earlier about the partner, from this machine.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Past {
    /// Whether it ever answered; `None` where nothing was kept.
    pub before: Option<Before>,
    /// The usual time of the name lookup.
    pub resolve: Option<Usual>,
    /// The usual time of the TCP connection.
    pub connect: Option<Usual>,
    /// The usual time of the TLS handshake.
    pub tls: Option<Usual>,
    /// The usual time from the last byte of the request to the head of the answer.
    pub first_byte: Option<Usual>,
    /// What `abide calibrate` wrote into the profile.
    pub measured: Measured,
    /// The usual time of a whole attempt.
    pub whole: Option<Usual>,
    /// The usual round trip of TCP, to the address that was asked.
    pub rtt: Option<Duration>,
    /// What is known of the addresses.
    pub addresses: Vec<PastAddress>,
    /// How fast a body usually comes, in bytes per second.
    pub body_rate: Option<u64>,
    /// Who had issued the partner's certificate.
    pub issuer: Option<Box<str>>,
    /// How long ago the partner accepted the credentials that are in use.
    pub credentials_accepted: Option<Duration>,
}

/// What is known from earlier about one address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PastAddress {
    /// The address.
    pub ip: IpAddr,
    /// Whether it was ever connected to.
    pub before: Before,
    /// No round trip to it is shorter, as far as is known.
    pub smallest_rtt: Option<Duration>,
    /// Its usual round trip.
    pub rtt: Option<Duration>,
}

/// Whether something worked before from this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Before {
    /// It was tried, and never worked.
    Never,
    /// It worked, and last so long ago.
    Worked {
        /// How long ago.
        ago: Duration,
    },
}

/// What worked within this time tells something about now.
///
/// Source: latency.md 6.5 rule 6.
const RECENT: Duration = Duration::from_secs(7 * 86_400);

impl Past {
    /// Returns which time to the head of an answer only one in a hundred is longer than: by the ledger, else by what was
    /// measured.
    pub fn first_byte_p99(&self) -> Option<Duration> {
        self.first_byte.map(|usual| usual.p99).or(self.measured.p99)
    }

    /// Returns what is known about an address.
    pub fn of_address(&self, ip: IpAddr) -> Option<&PastAddress> {
        self.addresses.iter().find(|past| past.ip == ip)
    }
}

impl Before {
    /// Returns whether it worked within the last seven days.
    pub fn is_recent(self) -> bool {
        matches!(self, Before::Worked { ago } if ago <= RECENT)
    }
}

/// Two percentiles of a stage's times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Usual {
    /// Half of them were no longer.
    pub p50: Duration,
    /// 99 of 100 were no longer.
    pub p99: Duration,
}

/// How many standard deviations the 99th percentile of a normal distribution is above its middle.
const Z_99: f64 = 2.326_347_874;

impl Usual {
    /// Returns whether a time is longer than 99 of 100 were.
    pub fn is_slow(self, time: Duration) -> bool {
        time > self.p99
    }

    /// Returns an estimate of how many of 100 times were shorter, from 1 to 99.
    ///
    /// Times are taken to be log-normal through the two percentiles; 50 up to `p50` and 99 above it where these are
    /// not two, or zero.
    pub fn percentile(self, time: Duration) -> u8 {
        let (p50, p99, time) = (self.p50.as_secs_f64(), self.p99.as_secs_f64(), time.as_secs_f64());
        if p50 <= 0.0 || p99 <= p50 {
            return if time <= p50 { 50 } else { 99 };
        }
        if time <= 0.0 {
            return 1;
        }
        let z = (time / p50).ln() / (p99 / p50).ln() * Z_99;
        (normal(z) * 100.0).round().clamp(1.0, 99.0) as u8
    }
}

/// Returns the share of a normal distribution that is below `z` standard deviations, to seven digits.
///
/// Source: Abramowitz and Stegun, Handbook of Mathematical Functions, 26.2.17.
fn normal(z: f64) -> f64 {
    let t = 1.0 / (1.0 + 0.231_641_9 * z.abs());
    let terms = [1.330_274_429, -1.821_255_978, 1.781_477_937, -0.356_563_782, 0.319_381_530];
    let sum = terms.iter().fold(0.0, |sum, term| (sum + term) * t);
    let above = (-z * z / 2.0).exp() / std::f64::consts::TAU.sqrt() * sum;
    if z < 0.0 { above } else { 1.0 - above }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn a_time_stands_where_it_does_in_the_past() {
        let usual = Usual { p50: ms(180), p99: ms(1_900) };
        for (time_ms, expected) in [(0, 1), (1, 1), (180, 50), (240, 61), (1_900, 99), (60_000, 99), (19, 1), (85, 23)]
        {
            assert_eq!(usual.percentile(ms(time_ms)), expected, "{time_ms}");
        }
        assert!(!usual.is_slow(ms(1_900)));
        assert!(usual.is_slow(ms(1_901)));
    }

    #[test]
    fn percentiles_that_are_none_still_tell_shorter_from_longer() {
        for usual in [Usual { p50: ms(5), p99: ms(5) }, Usual { p50: ms(5), p99: ms(1) }] {
            assert_eq!((usual.percentile(ms(5)), usual.percentile(ms(6))), (50, 99));
        }
        let none = Usual { p50: ms(0), p99: ms(9) };
        assert_eq!((none.percentile(ms(0)), none.percentile(ms(6))), (50, 99));
    }

    #[test]
    fn what_worked_a_week_ago_is_recent_and_not_a_second_more() {
        let worked = |secs| Before::Worked { ago: Duration::from_secs(secs) };
        assert!(worked(7 * 86_400).is_recent());
        assert!(!worked(7 * 86_400 + 1).is_recent());
        assert!(!Before::Never.is_recent());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn longer_times_stand_no_lower(p50 in 0u64..9_000, p99 in 0u64..90_000, a in 0u64..90_000, b in 0u64..90_000) {
            let usual = Usual { p50: ms(p50), p99: ms(p99) };
            let (low, high) = (usual.percentile(ms(a.min(b))), usual.percentile(ms(a.max(b))));
            prop_assert!(1 <= low && low <= high && high <= 99);
        }
    }
}
