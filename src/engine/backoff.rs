//! Waits between attempts.

use std::time::Duration;

/// How much of a delay is left to chance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Jitter {
    /// Half of the delay, and up to half more: predictable, never near zero.
    Equal,
    /// Anything from zero to the delay: spreads a batch best.
    Full,
}

/// Capped doubling with jitter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    /// The delay after the first attempt, before jitter; above zero.
    pub base: Duration,
    /// No delay is longer; at least `base`.
    pub cap: Duration,
    /// How much is left to chance.
    pub jitter: Jitter,
}

impl Default for Backoff {
    /// Source: product.md section 4.
    fn default() -> Backoff {
        Backoff { base: Duration::from_secs(2), cap: Duration::from_secs(300), jitter: Jitter::Equal }
    }
}

impl Backoff {
    /// Returns the wait before the attempt after attempt `n`.
    ///
    /// `n` starts at 1 (0 counts as 1). `draw` is uniform in `[0, 1)`; values outside are clamped. The delay is
    /// `base` doubled `n - 1` times, capped, and then jittered, so that jitter stays at the cap and nothing exceeds it.
    /// Integers throughout; it saturates.
    ///
    /// Source: decisions 17; reference semantics 3.3.
    pub fn after(&self, n: u32, draw: f64) -> Duration {
        let whole = self.before_jitter(n);
        let fixed = match self.jitter {
            Jitter::Equal => whole / 2,
            Jitter::Full => Duration::ZERO,
        };
        fixed.saturating_add(share(whole - fixed, draw))
    }

    /// Returns the longest wait before the attempt after attempt `n`.
    pub fn before_jitter(&self, n: u32) -> Duration {
        let doublings = n.saturating_sub(1);
        let base = self.base.as_nanos();
        let grown = if doublings >= base.leading_zeros() { u128::MAX } else { base << doublings };
        nanos(grown).min(self.cap)
    }
}

/// Returns `draw` of `whole`, rounded down to a nanosecond; `draw` is clamped to `[0, 1)`.
pub fn share(whole: Duration, draw: f64) -> Duration {
    /// One part in 2^53, the resolution of a uniform `f64`.
    const PARTS: u128 = 1 << 53;
    let clamped = if draw.is_finite() { draw.clamp(0.0, 1.0) } else { 0.0 };
    let parts = ((clamped * PARTS as f64) as u128).min(PARTS - 1);
    let whole = whole.as_nanos();
    // Split, so that even u64::MAX seconds do not overflow.
    nanos(whole / PARTS * parts + whole % PARTS * parts / PARTS)
}

fn nanos(nanos: u128) -> Duration {
    const PER_SECOND: u128 = 1_000_000_000;
    match u64::try_from(nanos / PER_SECOND) {
        Ok(seconds) => Duration::new(seconds, (nanos % PER_SECOND) as u32),
        Err(_) => Duration::MAX,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::{BTreeMap, BTreeSet};

    const SAMPLES: u64 = 10_000;

    /// Evenly mixed draws in `[0, 1)`: SplitMix64, so that a failure can be repeated.
    fn draws(seed: u64) -> impl Iterator<Item = f64> {
        (1..=SAMPLES).map(move |n| {
            let mut z = seed.wrapping_add(n.wrapping_mul(0x9e37_79b9_7f4a_7c15));
            z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
        })
    }

    fn backoff(base_ms: u64, cap_ms: u64, jitter: Jitter) -> Backoff {
        Backoff { base: Duration::from_millis(base_ms), cap: Duration::from_millis(cap_ms), jitter }
    }

    /// Returns 10,000 waits after attempt `n`.
    fn waits(backoff: Backoff, n: u32) -> Vec<Duration> {
        draws(u64::from(n)).map(|draw| backoff.after(n, draw)).collect()
    }

    fn mean_ms(waits: &[Duration]) -> f64 {
        waits.iter().sum::<Duration>().as_secs_f64() * 1_000.0 / waits.len() as f64
    }

    #[test]
    fn delays_double_from_the_base_to_the_cap() {
        let expected = [2, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300];
        for (n, seconds) in expected.into_iter().enumerate() {
            assert_eq!(Backoff::default().before_jitter(n as u32), Duration::from_secs(seconds), "after attempt {n}");
        }
    }

    #[test]
    fn delays_grow_monotonically_to_the_cap_for_any_attempt() {
        let attempts = [0, 1, 2, 31, 32, 33, 62, 63, 64, 65, 127, 128, 129, 1_024, u32::MAX];
        let longest = backoff(1, u64::MAX, Jitter::Equal);
        let fullest = Backoff { base: Duration::MAX, cap: Duration::MAX, jitter: Jitter::Full };
        for backoff in [Backoff::default(), backoff(1_000, 30_000, Jitter::Full), longest, fullest] {
            let delays: Vec<_> = attempts.iter().map(|n| backoff.before_jitter(*n)).collect();
            assert!(delays.is_sorted(), "{backoff:?}: {delays:?}");
            assert_eq!(delays.last(), Some(&backoff.cap));
            for (n, delay) in attempts.into_iter().zip(delays) {
                assert!(backoff.after(n, 0.999_999) <= delay, "{backoff:?} after attempt {n}");
            }
        }
    }

    #[test]
    fn equal_jitter_fills_the_upper_half_evenly() {
        let waits = waits(backoff(1_000, 300_000, Jitter::Equal), 1);
        assert!(waits.iter().all(|wait| (Duration::from_millis(500)..=Duration::from_secs(1)).contains(wait)));
        assert!((mean_ms(&waits) - 750.0).abs() < 7.5, "mean {}", mean_ms(&waits));
        assert!(waits.iter().collect::<BTreeSet<_>>().len() >= 1_000, "jitter in whole steps");
    }

    #[test]
    fn full_jitter_fills_the_whole_delay_evenly() {
        let waits = waits(backoff(1_000, 300_000, Jitter::Full), 2);
        assert!(waits.iter().all(|wait| *wait <= Duration::from_secs(2)));
        assert!((mean_ms(&waits) - 1_000.0).abs() < 20.0, "mean {}", mean_ms(&waits));
        assert!(waits.iter().any(|wait| *wait < Duration::from_millis(20)), "nothing near zero");
        assert!(waits.iter().any(|wait| *wait > Duration::from_millis(1_980)), "nothing near the whole");
    }

    #[test]
    fn jitter_still_spreads_at_the_cap() {
        for jitter in [Jitter::Equal, Jitter::Full] {
            let waits = waits(backoff(1_000, 30_000, jitter), 40);
            let mut slots = BTreeMap::<u128, u64>::new();
            for wait in &waits {
                assert!(*wait <= Duration::from_secs(30), "{jitter:?}: {wait:?} is above the cap");
                *slots.entry(wait.as_millis() / 100).or_default() += 1;
            }
            let fullest = slots.values().max().copied().unwrap_or(0);
            assert!(fullest * 100 < SAMPLES * 3, "{jitter:?}: {fullest} of {SAMPLES} waits in one slot of 100 ms");
        }
    }

    #[test]
    fn draws_outside_their_range_are_clamped() {
        let equal = backoff(1_000, 300_000, Jitter::Equal);
        for draw in [-1.0, -0.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            assert_eq!(equal.after(1, draw), Duration::from_millis(500), "{draw}");
        }
        for draw in [1.0, 2.0, f64::MAX] {
            assert!(equal.after(1, draw) < Duration::from_secs(1), "{draw}");
            assert!(equal.after(1, draw) > Duration::from_millis(999), "{draw}");
        }
    }

    proptest! {
        #[test]
        fn a_wait_stays_within_its_bounds(
            base in any::<Duration>(), cap in any::<Duration>(), n in any::<u32>(), draw in 0.0..1.0f64,
        ) {
            for jitter in [Jitter::Equal, Jitter::Full] {
                let backoff = Backoff { base, cap, jitter };
                let (whole, wait) = (backoff.before_jitter(n), backoff.after(n, draw));
                prop_assert!(whole <= cap);
                prop_assert!(wait <= whole);
                prop_assert!(jitter == Jitter::Full || wait >= whole / 2);
            }
        }

        #[test]
        fn a_later_attempt_never_waits_less(base in any::<Duration>(), cap in any::<Duration>(), n in 0..200u32) {
            let backoff = Backoff { base, cap, jitter: Jitter::Equal };
            prop_assert!(backoff.before_jitter(n) <= backoff.before_jitter(n + 1));
        }

        #[test]
        fn a_greater_draw_never_shares_less(whole in any::<Duration>(), one in 0.0..1.0f64, other in 0.0..1.0f64) {
            prop_assert!(share(whole, one.min(other)) <= share(whole, one.max(other)));
            prop_assert!(share(whole, one) <= whole);
            prop_assert_eq!(share(whole, 0.5), whole / 2);
        }
    }
}
