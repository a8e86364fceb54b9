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
