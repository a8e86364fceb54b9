//! Hours of the day that are slower than the others: a limit that fits all of them together may cut one of them off.

use super::distribution::Distribution;
use super::evidence::Minutes;
use super::latencies::Latencies;
use super::ranks::Rate;
use super::share::Share;
use std::collections::BTreeMap;
use std::time::Duration;

/// How unlikely it must be that an hour is slower by chance, all hours of the day together.
///
/// Source: latency.md section 4, V14, whose threshold for the first of 24 is 0.000417.
const UNLIKELY: f64 = 0.01;

/// Latencies of reading by the hour of the day, 0 to 23, UTC, in which the requests left. Hours without a sample are
/// absent; all are where the samples came without times.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hours(BTreeMap<u8, Latencies>);

impl Hours {
    /// Returns the hours; those above 23 and those without a sample are left out.
    pub fn new(hours: impl IntoIterator<Item = (u8, Latencies)>) -> Hours {
        Hours(hours.into_iter().filter(|(hour, seen)| *hour < 24 && seen.samples() > 0).collect())
    }

    /// Returns each hour that holds samples with its latencies, in order.
    pub fn iter(&self) -> impl Iterator<Item = (u8, &Latencies)> {
        self.0.iter().map(|(hour, seen)| (*hour, seen))
    }

    /// Returns the hours in which more samples took longer than `limit` than `accepted`, and more than chance explains:
    /// exact one-sided binomial tests, corrected by Holm for looking at 24 hours. The slowest comes first.
    ///
    /// Source: latency.md 3.7 and V14.
    pub fn above(&self, limit: Duration, accepted: Share) -> Vec<SlowHour> {
        let slow = |(hour, seen): (u8, &Latencies)| {
            let above = seen.above(limit);
            SlowHour {
                hour,
                above,
                by_chance: Distribution::binomial(above.of, accepted.as_f64()).at_least(above.hits),
            }
        };
        let mut hours: Vec<SlowHour> = self.iter().map(slow).collect();
        hours.sort_by(|one, other| one.by_chance.total_cmp(&other.by_chance));
        let sure = hours.iter().zip(0..24u8).take_while(|(hour, n)| hour.by_chance <= UNLIKELY / f64::from(24 - n));
        hours.truncate(sure.count());
        hours.sort_by(|one, other| other.above.seen().total_cmp(&one.above.seen()));
        hours
    }

    /// Returns the hour with the highest upper bound of `percentile`, and that bound; `None` where no hour alone holds
    /// enough samples for one.
    ///
    /// Source: latency.md 3.7.
    pub(super) fn highest_bound(&self, percentile: Share, minutes: &Minutes) -> Option<(u8, Duration)> {
        let bounds = self.iter().filter_map(|(hour, seen)| {
            let minutes = minutes.within(hour).min(seen.samples());
            let bound = seen.percentile(percentile, minutes, Share::CONFIDENCE).ok()?.bound?;
            Some((hour, bound))
        });
        bounds.max_by_key(|(_, bound)| *bound)
    }
}

/// An hour of the day in which more answers take longer than a limit than is accepted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SlowHour {
    /// The hour, 0 to 23, UTC.
    pub hour: u8,
    /// The samples that took longer, of those where that is known.
    pub above: Rate,
    /// How likely so many are where the accepted share takes longer.
    pub by_chance: f64,
}

/// Writes an hour of the day: `09:00 to 10:00 UTC`.
pub fn show_hour(hour: u8) -> String {
    format!("{hour:02}:00 to {:02}:00 UTC", (hour + 1) % 24)
}

#[cfg(test)]
mod tests {
    use super::super::latencies::Sample;
    use super::*;

    const ACCEPTED: Share = Share::P99.complement();

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    /// `slow` of `all` answers take 5 s, the others 0.1 s.
    fn hour(all: usize, slow: usize) -> Latencies {
        let quick = std::iter::repeat_n(Sample::Event(ms(100)), all - slow);
        let slow = std::iter::repeat_n(Sample::Event(ms(5_000)), slow);
        Latencies::from_samples(quick.chain(slow)).expect("few samples")
    }

    #[test]
    fn v14_an_hour_in_which_a_fifth_takes_longer_stands_out() {
        // The other four are spread over four hours.
        let slow = |hour| if hour == 9 { 20 } else { usize::from(hour % 6 == 1) };
        let hours = Hours::new((0..24).map(|at| (at, hour(100, slow(at)))));
        let all = hours.iter().map(|(_, seen)| seen.above(ms(1_000)));
        assert_eq!(all.map(|above| above.hits).sum::<u64>(), 24);
        let found = hours.above(ms(1_000), ACCEPTED);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!((found[0].hour, found[0].above), (9, Rate { hits: 20, of: 100 }));
        // 2.49e-20, of which the sum leaves out what is less likely than 1e-18 of the most likely count.
        assert!((2.3e-20..2.5e-20).contains(&found[0].by_chance), "{found:?}");
        // Both ends at once: each is a one-sided bound of 97.5 %.
        let within = Share::from_millionths(975_000).expect("a share");
        let (low, high) = (found[0].above.lower(within), found[0].above.upper(within));
        assert!((low - 0.1267).abs() < 5e-5 && (high - 0.2918).abs() < 5e-5, "{low} {high}");
        assert!((4.0 / 2_300.0 - 0.0017f64).abs() < 5e-5);
        assert_eq!(hours.above(ms(5_000), ACCEPTED), [], "nothing takes longer");
    }

    #[test]
    fn what_chance_explains_is_no_season() {
        // 1 of 24 hours with 4 of 100: 1.8 % by chance for one hour, a third for one of 24.
        let hours = Hours::new((0..24).map(|at| (at, hour(100, if at == 3 { 4 } else { 1 }))));
        assert_eq!(hours.above(ms(1_000), ACCEPTED), []);
        assert_eq!(Hours::default().above(ms(1_000), ACCEPTED), []);
    }

    #[test]
    fn looking_at_all_hours_is_paid_for_once_for_each() {
        // 6 of 100 is 0.053 % by chance: too much for the first of 24, whose threshold is 0.042 %.
        let alone = Hours::new([(5, hour(100, 6))]);
        assert_eq!(alone.above(ms(1_000), ACCEPTED), []);
        assert_eq!(Hours::new([(5, hour(100, 7))]).above(ms(1_000), ACCEPTED).len(), 1);
    }

    #[test]
    fn an_hour_with_enough_minutes_has_a_bound_of_its_own() {
        let hours = Hours::new([(9, hour(400, 40)), (10, hour(400, 0)), (24, hour(400, 400))]);
        let mut minutes = Minutes::default();
        for day in 0..7 {
            (9 * 60..11 * 60).for_each(|minute| {
                minutes.add(super::super::super::moment::Timestamp::from_unix_ms((day * 1_440 + minute) * 60_000));
            });
        }
        assert_eq!((minutes.within(9), minutes.within(11)), (420, 0));
        assert_eq!(hours.highest_bound(Share::P99, &minutes), Some((9, ms(5_000))));
        assert_eq!(hours.highest_bound(Share::P99, &Minutes::Unknown), Some((9, ms(5_000))));
        assert_eq!(hours.highest_bound(Share::P99, &Minutes::default()), None);
    }
}
