//! What the samples look like, where a percentile alone would mislead.

use super::latencies::Latencies;
use std::time::Duration;

/// A gap between fast and slow answers: there are two kinds of them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gap {
    /// The slowest of the fast ones.
    pub below: Duration,
    /// The fastest of the slow ones.
    pub above: Duration,
    /// The share of slow ones among the answers.
    pub slow: f64,
}

/// Returns the lowest gap of an octave or more, counted in four whole quarters of one, above which at least 2 % of the
/// answers lie and below which at least 2 % do; `None` where there is none.
///
/// A mean says nothing about such answers.
///
/// Source: latency.md 3.10 and V5.
pub fn gap(latencies: &Latencies) -> Option<Gap> {
    const EMPTY_QUARTERS: u32 = 4;
    let cells: Vec<_> = latencies.cells().iter().filter(|cell| cell.events > 0).collect();
    let (all, mut passed) = (latencies.events(), 0);
    for pair in cells.windows(2) {
        passed += pair[0].events;
        let empty = quarter(pair[1].low).saturating_sub(quarter(pair[0].high) + 1);
        let some = |part: u64| u128::from(part) * 50 >= u128::from(all);
        if empty >= EMPTY_QUARTERS && some(passed) && some(all - passed) {
            let slow = (all - passed) as f64 / all as f64;
            return Some(Gap { below: pair[0].high, above: pair[1].low, slow });
        }
    }
    None
}

/// Returns which quarter of an octave a duration lies in, counted from 1 ns.
fn quarter(duration: Duration) -> u32 {
    /// The fourth root of 2, its square and its cube, in parts of 2^32, rounded up.
    const ROOTS: [u128; 3] = [5_107_605_668, 6_074_001_000, 7_223_245_206];
    let nanos = duration.as_nanos().max(1);
    let octave = nanos.ilog2();
    // 2^95 at most: a duration has less than 2^94 ns.
    let within = if octave > 32 { nanos >> (octave - 32) } else { nanos << (32 - octave) };
    4 * octave + ROOTS.iter().filter(|root| within >= **root).count() as u32
}

/// Returns about how many slow samples come in a row, given which were slow, in the order in which they were taken:
/// 1 where they come singly, `None` where none or all were slow.
///
/// For display only: a spell that did not occur leaves no trace in it.
///
/// Source: latency.md 3.5 and V16: one and twice the sum of the autocorrelations before the first that is not positive.
pub fn runs(slow: &[bool]) -> Option<f64> {
    let sum: f64 = autocorrelations(slow)?.take_while(|correlation| *correlation > 0.0).sum();
    Some(1.0 + 2.0 * sum)
}

/// Returns the autocorrelation at distance 1, 2 and so on; `None` where all samples are the same.
fn autocorrelations(slow: &[bool]) -> Option<impl Iterator<Item = f64> + '_> {
    /// Samples farther apart are not looked at.
    const FARTHEST: usize = 1_000;
    let n = slow.len();
    let count = |part: &[bool]| part.iter().filter(|slow| **slow).count() as f64;
    let all = count(slow);
    let mean = all / n as f64;
    let spread = all * (1.0 - mean);
    (spread > 0.0).then(|| {
        (1..n.min(FARTHEST + 1)).map(move |apart| {
            let both = slow.iter().zip(&slow[apart..]).filter(|(one, other)| **one && **other).count() as f64;
            let singly = count(&slow[..n - apart]) + count(&slow[apart..]);
            (both - mean * singly + (n - apart) as f64 * mean * mean) / spread
        })
    })
}

#[cfg(test)]
mod tests {
    use super::super::latencies::Sample;
    use super::*;

    fn events(ms: impl IntoIterator<Item = u64>) -> Latencies {
        let samples = ms.into_iter().map(|ms| Sample::Event(Duration::from_millis(ms)));
        Latencies::from_samples(samples).expect("few samples")
    }

    #[test]
    fn v5_two_modes_are_seen() {
        let found = gap(&events([120; 970].into_iter().chain([4_000; 30])));
        let expected = Gap { below: Duration::from_millis(120), above: Duration::from_secs(4), slow: 0.03 };
        assert_eq!(found, Some(expected));
    }

    #[test]
    fn one_mode_and_a_few_stragglers_are_no_two() {
        assert_eq!(gap(&events([200; 400])), None);
        assert_eq!(gap(&events(1..=1_000)), None);
        assert_eq!(gap(&events([120; 990].into_iter().chain([4_000; 10]))), None);
        assert_eq!(gap(&events([1; 10].into_iter().chain([4_000; 990]))), None);
        assert_eq!(
            gap(&events([100; 500].into_iter().chain([200; 500]))),
            None,
            "an octave, but no four whole quarters"
        );
        assert!(gap(&events([100; 500].into_iter().chain([250; 500]))).is_some());
        assert_eq!(gap(&events([])), None);
    }

    #[test]
    fn quarters_of_an_octave_are_told_apart() {
        for octave in [0u32, 1, 5, 31, 32, 33, 60] {
            for (part, root) in [1.0, 2f64.powf(0.25), 2f64.powf(0.5), 2f64.powf(0.75)].into_iter().enumerate() {
                let nanos = 2f64.powi(octave as i32) * root * 1.000_001;
                // Small numbers of nanoseconds are too coarse for quarters.
                if octave >= 31 || part == 0 {
                    assert_eq!(quarter(Duration::from_nanos(nanos as u64)), 4 * octave + part as u32, "{nanos}");
                }
            }
        }
        assert_eq!(quarter(Duration::ZERO), 0);
        assert!(quarter(Duration::MAX) < 400);
    }

    #[test]
    fn v16_slow_samples_that_come_in_runs() {
        let slow: Vec<bool> = (0..300).map(|i| matches!(i, 50..=59 | 140..=149 | 230..=239)).collect();
        let expected = [
            0.888_518_518_518_518_5,
            0.777_037_037_037_037,
            0.665_555_555_555_555_7,
            0.554_074_074_074_074,
            0.442_592_592_592_592_6,
            0.331_111_111_111_111_2,
            0.219_629_629_629_629_7,
            0.108_148_148_148_148_19,
        ];
        for (found, expected) in autocorrelations(&slow).expect("some are slow").zip(expected) {
            assert!((found - expected).abs() < 1e-12, "{found} is not {expected}");
        }
        let runs = runs(&slow).expect("some are slow");
        assert!((runs - 8.973_333_333_333_333).abs() < 1e-12, "{runs}");
        assert_eq!((300.0 / runs) as u64, 33);
    }

    #[test]
    fn single_slow_samples_make_no_runs() {
        let single: Vec<bool> = (0..100).map(|i| i % 10 == 0).collect();
        assert_eq!(runs(&single), Some(1.0));
        for same in [vec![], vec![true; 9], vec![false; 9]] {
            assert_eq!(runs(&same), None, "{same:?}");
        }
    }
}
