//! Exact distributions over counts: binomial and hypergeometric, by recurrence from the most likely count.

/// More samples are not told apart: counts are scaled down to this many, which only widens what is derived.
///
/// A request a second makes so many in 34 years.
pub const MOST_SAMPLES: u64 = 1 << 30;

/// Less likely counts than this, relative to the most likely one, are left out.
///
/// Source: latency.md 2.2, where it matched another implementation in 60 of 60 cells.
const NEGLIGIBLE: f64 = 1e-18;

/// How likely each count is, as shares that add up to 1; counts outside are negligible.
pub(super) struct Distribution {
    first: u64,
    shares: Vec<f64>,
}

impl Distribution {
    /// Returns how likely `k` hits in `n` independent tries are. `n` is at most [`MOST_SAMPLES`]; `p` outside `[0, 1]`
    /// is clamped.
    ///
    /// Source: latency.md 2.2.
    pub(super) fn binomial(n: u64, p: f64) -> Distribution {
        let p = p.clamp(0.0, 1.0);
        let odds = p / (1.0 - p);
        if n == 0 || odds <= 0.0 || !odds.is_finite() {
            let certain = if odds > 0.0 { n } else { 0 };
            return Distribution { first: certain, shares: vec![1.0] };
        }
        let mode = (((n + 1) as f64 * p) as u64).min(n);
        // How much likelier k + 1 is than k.
        let growth = |k: u64| (n - k) as f64 / (k + 1) as f64 * odds;
        Distribution::around(mode, 0, n, growth)
    }

    /// Returns how likely it is that `k` of `drawn` items are marked, when `marked` of `all` are. All counts are at most
    /// [`MOST_SAMPLES`]; `marked` and `drawn` are at most `all`.
    pub(super) fn hypergeometric(all: u64, marked: u64, drawn: u64) -> Distribution {
        assert!(marked <= all, "no more can be marked than there are");
        assert!(drawn <= all, "no more can be drawn than there are");
        let (least, most) = ((marked + drawn).saturating_sub(all), marked.min(drawn));
        let mode = (u128::from(drawn + 1) * u128::from(marked + 1) / u128::from(all + 2)) as u64;
        let growth = |k: u64| {
            let up = (marked - k) as f64 * (drawn - k) as f64;
            // Not negative: k is at least `least`.
            let down = (k + 1) as f64 * (all + k + 1 - marked - drawn) as f64;
            up / down
        };
        Distribution::around(mode.clamp(least, most), least, most, growth)
    }

    /// Sums outwards from the most likely count. `growth(k)` is how much likelier `k + 1` is than `k`.
    fn around(mode: u64, least: u64, most: u64, growth: impl Fn(u64) -> f64) -> Distribution {
        let mut below = Vec::new();
        let (mut k, mut share) = (mode, 1.0);
        while k > least && share >= NEGLIGIBLE {
            k -= 1;
            share /= growth(k);
            below.push(share);
        }
        let first = k;
        let mut shares: Vec<f64> = below.into_iter().rev().collect();
        shares.push(1.0);
        (k, share) = (mode, 1.0);
        while k < most && share >= NEGLIGIBLE {
            share *= growth(k);
            k += 1;
            shares.push(share);
        }
        // The smallest first, so that none is lost in the sum.
        let at = (mode - first) as usize;
        let whole = shares[..at].iter().sum::<f64>() + shares[at..].iter().rev().sum::<f64>();
        shares.iter_mut().for_each(|share| *share /= whole);
        Distribution { first, shares }
    }

    /// Returns the likelihood of `k` or less.
    pub(super) fn at_most(&self, k: u64) -> f64 {
        match k.checked_sub(self.first) {
            None => 0.0,
            Some(last) => self.shares.iter().take((last as usize).saturating_add(1)).sum::<f64>().min(1.0),
        }
    }

    /// Returns the likelihood of `k` or more.
    pub(super) fn at_least(&self, k: u64) -> f64 {
        let skipped = (k.saturating_sub(self.first) as usize).min(self.shares.len());
        self.shares[skipped..].iter().rev().sum::<f64>().min(1.0)
    }

    /// Returns the counts in order, each with the likelihood of it or less.
    pub(super) fn cumulative(&self) -> impl Iterator<Item = (u64, f64)> + '_ {
        let mut sum = 0.0;
        self.shares.iter().zip(self.first..).map(move |(share, k)| {
            sum += share;
            (k, sum)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_binomial_is_what_the_triangle_says() {
        let tossed = Distribution::binomial(4, 0.5);
        let expected = [1.0, 5.0, 11.0, 15.0, 16.0].map(|sum| sum / 16.0);
        for (k, sum) in expected.into_iter().enumerate() {
            assert!((tossed.at_most(k as u64) - sum).abs() < 1e-15, "{k}");
        }
        assert!((tossed.at_least(3) - 5.0 / 16.0).abs() < 1e-15);
        assert_eq!(tossed.at_least(0), 1.0);
        assert_eq!(tossed.at_least(5), 0.0);
        assert_eq!(tossed.at_most(u64::MAX), 1.0);
    }

    #[test]
    fn certain_counts_are_certain() {
        for (n, p, certain) in [(7, 0.0, 0), (7, 1.0, 7), (0, 0.5, 0), (7, -1.0, 0), (7, 2.0, 7)] {
            let point = Distribution::binomial(n, p);
            assert_eq!((point.at_least(certain), point.at_most(certain)), (1.0, 1.0), "{n} {p}");
            assert_eq!(point.at_least(certain + 1), 0.0, "{n} {p}");
        }
    }

    #[test]
    fn the_largest_binomial_still_adds_up() {
        let large = Distribution::binomial(MOST_SAMPLES, 0.5);
        assert!((large.at_most(MOST_SAMPLES / 2) - 0.5).abs() < 1e-4);
        assert!(large.shares.len() < 600_000, "{}", large.shares.len());
    }

    #[test]
    fn a_small_hypergeometric_is_counted_out() {
        // Of 5 items 2 are marked, 3 are drawn: 1, 6 and 3 of 10 draws hold 0, 1 and 2 marked ones.
        let drawn = Distribution::hypergeometric(5, 2, 3);
        for (k, share) in [(0, 1.0), (1, 0.9), (2, 0.3), (3, 0.0)] {
            assert!((drawn.at_least(k) - share).abs() < 1e-15, "{k}");
        }
        assert_eq!(Distribution::hypergeometric(5, 5, 3).at_least(3), 1.0);
        assert_eq!(Distribution::hypergeometric(0, 0, 0).at_least(0), 1.0);
    }
}
