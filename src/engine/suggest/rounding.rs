//! Round numbers for limits, short ones for people.

use super::super::units::{LONGEST, show_duration};
use std::time::Duration;

/// Returns the shortest duration of two significant digits that is not below `exact`, at most [`LONGEST`].
///
/// Source: latency.md 3.9.
pub fn nice_up(exact: Duration) -> Duration {
    let nanos = exact.min(LONGEST).as_nanos();
    let step = step(nanos, 2);
    from_nanos(nanos.div_ceil(step) * step).min(LONGEST)
}

/// Returns a duration of three significant digits, as people write it: `4.63s`, `89.1ms`, `1m15.3s`.
pub fn show_three_digits(exact: Duration) -> String {
    let nanos = exact.min(LONGEST).as_nanos();
    let step = step(nanos, 3);
    show_duration(from_nanos((nanos + step / 2) / step * step))
}

/// Returns the value of the last of so many significant digits.
fn step(nanos: u128, digits: u32) -> u128 {
    10u128.pow((nanos.max(1).ilog10() + 1).saturating_sub(digits))
}

fn from_nanos(nanos: u128) -> Duration {
    const SECOND: u128 = 1_000_000_000;
    // At most LONGEST, rounded up.
    Duration::new((nanos / SECOND) as u64, (nanos % SECOND) as u32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn limits_have_two_digits_and_are_never_shorter() {
        let table = [
            (0, 0),
            (7, 7),
            (99_000, 99_000),
            (400_000_000, 400_000_000),
            (3_433_497_000, 3_500_000_000),
            (5_787_500_000, 5_800_000_000),
            (5_800_000_001, 5_900_000_000),
            (9_950_000_000, 10_000_000_000),
            (130_000_000_000, 130_000_000_000),
            (131_000_000_000, 140_000_000_000),
        ];
        for (exact, nice) in table {
            assert_eq!(nice_up(Duration::from_nanos(exact)), Duration::from_nanos(nice), "{exact}");
        }
        assert_eq!(nice_up(Duration::MAX), LONGEST);
    }

    #[test]
    fn people_read_three_digits() {
        let table = [
            (4_631_200_000, "4.63s"),
            (4_635_000_000, "4.64s"),
            (89_053_000, "89.1ms"),
            (200_000_000, "200ms"),
            (999_600_000, "1s"),
            (75_340_000_000, "1m15.3s"),
            (0, "0s"),
        ];
        for (nanos, shown) in table {
            assert_eq!(show_three_digits(Duration::from_nanos(nanos)), shown, "{nanos}");
        }
    }

    proptest! {
        #[test]
        fn rounding_adds_at_most_a_tenth(nanos in 1..u64::MAX) {
            let exact = Duration::from_nanos(nanos).min(LONGEST);
            let nice = nice_up(exact);
            prop_assert!(nice >= exact);
            prop_assert!(nice <= exact + exact / 10 + Duration::from_nanos(1));
            prop_assert_eq!(nice_up(nice), nice);
        }
    }
}
