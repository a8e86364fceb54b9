//! Which of the ordered samples bound a percentile, and what so many hits of so many tries say about a rate.

use super::distribution::{Distribution, MOST_SAMPLES};
use super::share::Share;

/// What a likelihood may miss its mark by, for rounding.
///
/// Source: latency.md 2.2.
const TOLERANCE: f64 = 1e-15;

/// The ranks, counted from 1, of the samples that bound a percentile whatever the distribution. `None` where there are
/// too few samples for a bound.
///
/// Source: latency.md 3.4.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ranks {
    /// The lower end of the two-sided interval.
    pub lower: Option<u64>,
    /// The upper end of the two-sided interval.
    pub higher: Option<u64>,
    /// The one-sided upper bound.
    pub bound: Option<u64>,
}

impl Ranks {
    /// Returns the ranks that bound `percentile` among `n` ordered, independent samples.
    ///
    /// `confidence` holds for the one-sided bound, and for the interval as a whole. More than [`MOST_SAMPLES`] count as
    /// that many, which is of use only as a limit: the ranks are among those.
    pub fn new(n: u64, percentile: Share, confidence: Share) -> Ranks {
        let n = n.min(MOST_SAMPLES);
        let below = Distribution::binomial(n, percentile.as_f64());
        let tail = f64::from(confidence.complement().millionths()) / 2e6;
        // So many samples or fewer lie below the percentile with this likelihood: the next rank is above it.
        let above = |sure: f64| {
            let first = below.cumulative().find(|(_, sum)| *sum >= sure - TOLERANCE).map(|(k, _)| k + 1);
            first.filter(|rank| *rank <= n)
        };
        let lower = below.cumulative().take_while(|(_, sum)| *sum <= tail + TOLERANCE).last().map(|(k, _)| k + 1);
        Ranks { lower, higher: above(1.0 - tail), bound: above(confidence.as_f64()) }
    }
}

/// Returns the smallest number of samples whose slowest bounds `percentile` from above, one-sided: 299 for p99 at 95 %.
///
/// Source: latency.md 3.4.
pub fn least_samples(percentile: Share, confidence: Share) -> u64 {
    let exact = confidence.complement().as_f64().ln() / percentile.as_f64().ln();
    let mut n = (exact.floor() as u64).max(1);
    while slowest_covers(n, percentile) < confidence.as_f64() - TOLERANCE {
        n += 1;
    }
    n
}

/// Returns the smallest number of samples for which the two-sided interval of `percentile` has an upper end: 368 for
/// p99 at 95 %.
///
/// Source: latency.md 3.4.
pub fn least_samples_two_sided(percentile: Share, confidence: Share) -> u64 {
    let half = (confidence.millionths() + 1_000_000) / 2;
    least_samples(percentile, Share::from_millionths(half).expect("half way to everything is not everything"))
}

/// Returns how sure it is that the slowest of `n` independent samples is not below `percentile`.
pub fn slowest_covers(n: u64, percentile: Share) -> f64 {
    -(n as f64 * percentile.as_f64().ln()).exp_m1()
}

/// Returns the percentile, as a share of 1, that the slowest of `n` independent samples bounds; 0 for no samples.
pub fn bounded_by_slowest(n: u64, confidence: Share) -> f64 {
    if n == 0 { 0.0 } else { confidence.complement().as_f64().powf(1.0 / n as f64) }
}

/// So many hits of so many tries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// The hits, at most [`Rate::of`].
    pub hits: u64,
    /// The tries.
    pub of: u64,
}

impl Rate {
    /// Returns the rate that was seen; 0 where nothing was tried.
    pub fn seen(self) -> f64 {
        if self.of == 0 { 0.0 } else { self.hits as f64 / self.of as f64 }
    }

    /// Returns the highest rate that so few hits still allow, one-sided (Clopper and Pearson); 1 where nothing was tried.
    ///
    /// Source: latency.md 3.9 and V17.
    pub fn upper(self, confidence: Share) -> f64 {
        let Rate { hits, of } = self.scaled();
        if hits >= of {
            return 1.0;
        }
        let unlikely = confidence.complement().as_f64();
        root(|p| Distribution::binomial(of, p).at_most(hits) > unlikely)
    }

    /// Returns the lowest rate that so many hits still allow, one-sided (Clopper and Pearson); 0 where nothing was tried.
    ///
    /// Source: latency.md 3.9 and V17.
    pub fn lower(self, confidence: Share) -> f64 {
        let Rate { hits, of } = self.scaled();
        if hits == 0 {
            return 0.0;
        }
        let unlikely = confidence.complement().as_f64();
        root(|p| Distribution::binomial(of, p).at_least(hits) < unlikely)
    }

    /// Returns the same rate of at most [`MOST_SAMPLES`] tries.
    fn scaled(self) -> Rate {
        let shift = (self.of / MOST_SAMPLES).checked_ilog2().map_or(0, |log| log + 1);
        Rate { hits: self.hits >> shift, of: self.of >> shift }
    }
}

/// Returns the largest `p` in `[0, 1]` up to which `holds`, by halving.
fn root(holds: impl Fn(f64) -> bool) -> f64 {
    /// As many as an `f64` has bits of precision near 1, and some for small rates.
    const HALVINGS: u32 = 60;
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..HALVINGS {
        let middle = (low + high) / 2.0;
        if holds(middle) {
            low = middle;
        } else {
            high = middle;
        }
    }
    (low + high) / 2.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A number of samples, the ranks of the two-sided ends and of the one-sided bound at 95 %; 0 for none.
    type Row = (u64, [u64; 3]);

    /// The rows of each percentile, in millionths.
    ///
    /// Source: latency.md section 4.
    const TABLE: [(u32, &[Row]); 5] = [
        (
            500_000,
            &[
                (20, [6, 15, 15]),
                (59, [22, 38, 37]),
                (100, [40, 61, 59]),
                (299, [133, 167, 165]),
                (300, [133, 168, 165]),
                (368, [165, 204, 201]),
                (369, [166, 204, 201]),
                (1_000, [469, 532, 527]),
                (2_996, [1_444, 1_553, 1_544]),
                (3_688, [1_784, 1_905, 1_895]),
                (10_000, [4_902, 5_099, 5_083]),
                (1_000_000, [499_020, 500_981, 500_823]),
            ],
        ),
        (
            900_000,
            &[
                (20, [15, 0, 0]),
                (59, [48, 58, 58]),
                (100, [84, 96, 96]),
                (299, [259, 280, 278]),
                (300, [259, 281, 279]),
                (368, [320, 343, 341]),
                (369, [320, 344, 342]),
                (1_000, [881, 919, 916]),
                (2_996, [2_664, 2_729, 2_724]),
                (3_688, [3_283, 3_356, 3_350]),
                (10_000, [8_941, 9_059, 9_050]),
                (1_000_000, [899_412, 900_589, 900_494]),
            ],
        ),
        (
            950_000,
            &[
                (20, [17, 0, 0]),
                (59, [52, 0, 59]),
                (100, [90, 100, 99]),
                (299, [276, 292, 291]),
                (300, [277, 293, 292]),
                (368, [341, 358, 357]),
                (369, [342, 359, 358]),
                (1_000, [936, 964, 962]),
                (2_996, [2_822, 2_870, 2_867]),
                (3_688, [3_477, 3_530, 3_526]),
                (10_000, [9_457, 9_543, 9_537]),
                (1_000_000, [949_572, 950_428, 950_359]),
            ],
        ),
        (
            990_000,
            &[
                (20, [19, 0, 0]),
                (59, [57, 0, 0]),
                (100, [97, 0, 0]),
                (299, [292, 0, 299]),
                (300, [293, 0, 300]),
                (368, [360, 368, 368]),
                (369, [361, 369, 369]),
                (1_000, [983, 997, 996]),
                (2_996, [2_955, 2_977, 2_976]),
                (3_688, [3_639, 3_663, 3_662]),
                (10_000, [9_880, 9_920, 9_917]),
                (1_000_000, [989_805, 990_196, 990_164]),
            ],
        ),
        (
            999_000,
            &[
                (20, [20, 0, 0]),
                (59, [58, 0, 0]),
                (100, [99, 0, 0]),
                (299, [297, 0, 0]),
                (300, [298, 0, 0]),
                (368, [366, 0, 0]),
                (369, [367, 0, 0]),
                (1_000, [997, 0, 0]),
                (2_996, [2_989, 0, 2_996]),
                (3_688, [3_680, 3_688, 3_688]),
                (10_000, [9_983, 9_997, 9_996]),
                (1_000_000, [998_938, 999_062, 999_053]),
            ],
        ),
    ];

    fn share(millionths: u32) -> Share {
        Share::from_millionths(millionths).expect("a share")
    }

    fn close(one: f64, other: f64) {
        assert!((one - other).abs() < 1e-9, "{one} is not {other}");
    }

    #[test]
    fn ranks_are_those_of_the_reference() {
        let or_none = |rank: u64| (rank > 0).then_some(rank);
        for (percentile, rows) in TABLE {
            for (n, [lower, higher, bound]) in rows {
                let expected = Ranks { lower: or_none(*lower), higher: or_none(*higher), bound: or_none(*bound) };
                assert_eq!(Ranks::new(*n, share(percentile), Share::CONFIDENCE), expected, "{percentile} of {n}");
            }
        }
        let nothing = Ranks { lower: None, higher: None, bound: None };
        assert_eq!(Ranks::new(0, Share::P99, Share::CONFIDENCE), nothing);
    }

    #[test]
    fn the_least_numbers_of_samples_are_those_of_the_reference() {
        let table =
            [(900_000, 29, 36), (950_000, 59, 72), (990_000, 299, 368), (995_000, 598, 736), (999_000, 2_995, 3_688)];
        for (percentile, one_sided, two_sided) in table {
            let percentile = share(percentile);
            assert_eq!(least_samples(percentile, Share::CONFIDENCE), one_sided, "p{percentile}");
            assert_eq!(least_samples_two_sided(percentile, Share::CONFIDENCE), two_sided, "p{percentile}");
            assert_eq!(Ranks::new(one_sided, percentile, Share::CONFIDENCE).bound, Some(one_sided));
            assert_eq!(Ranks::new(one_sided - 1, percentile, Share::CONFIDENCE).bound, None);
        }
        assert_eq!(least_samples(Share::P99, Share::P99), 459);
        assert_eq!(least_samples_two_sided(Share::P99, Share::P99), 528);
        assert_eq!(least_samples(Share::P999, Share::P99), 4_603);
        assert_eq!(least_samples_two_sided(Share::P999, Share::P99), 5_296);
        assert_eq!(least_samples(share(1), share(1)), 1);
    }

    #[test]
    fn v2_and_v3_the_slowest_sample_bounds_what_it_can() {
        close(slowest_covers(299, Share::P99), 0.950_463_743_362_337_6);
        close(slowest_covers(298, Share::P99), 0.949_963_377_133_674_4);
        close(slowest_covers(50, Share::P99), 0.394_993_932_862_464_65);
        close(bounded_by_slowest(50, Share::CONFIDENCE), 0.941_844_920_883_027_7);
        assert_eq!(least_samples(Share::P99, Share::CONFIDENCE) - 50, 249);
        assert_eq!((slowest_covers(0, Share::P99), bounded_by_slowest(0, Share::CONFIDENCE)), (0.0, 0.0));
    }

    #[test]
    fn v17_no_hit_still_allows_some() {
        let table = [
            (20, 0.139_108_340_668_265_16),
            (50, 0.058_155_079_116_972_25),
            (100, 0.029_513_049_607_039_925),
            (300, 0.009_936_081_944_457_708),
            (1_000, 0.002_991_249_545_095_295),
        ];
        for (of, upper) in table {
            close(Rate { hits: 0, of }.upper(Share::CONFIDENCE), upper);
            assert_eq!(Rate { hits: 0, of }.lower(Share::CONFIDENCE), 0.0);
        }
        let some = [
            (3, 300, 0.002_731_030_218_207_038, 0.025_641_393_082_609_616),
            (9, 1_000, 0.004_703_013_189_857_319, 0.015_652_573_749_606_477),
        ];
        for (hits, of, lower, upper) in some {
            close(Rate { hits, of }.lower(Share::CONFIDENCE), lower);
            close(Rate { hits, of }.upper(Share::CONFIDENCE), upper);
        }
    }

    #[test]
    fn rates_at_the_edges_say_nothing_they_do_not_know() {
        let nothing = Rate { hits: 0, of: 0 };
        assert_eq!((nothing.seen(), nothing.lower(Share::P95), nothing.upper(Share::P95)), (0.0, 0.0, 1.0));
        let all = Rate { hits: 20, of: 20 };
        assert_eq!((all.seen(), all.upper(Share::P95)), (1.0, 1.0));
        close(all.lower(Share::P95), 1.0 - 0.139_108_340_668_265_16);
        let many = Rate { hits: u64::MAX / 2, of: u64::MAX };
        assert!(many.lower(Share::P95) > 0.49);
        assert!(many.upper(Share::P95) < 0.51);
    }

    proptest! {
        #[test]
        fn surer_bounds_are_wider(n in 1..3_000u64, percentile in 1..999_999u32, less in 1..999_999u32, more in 1..999_999u32) {
            let (less, more) = (share(less.min(more)), share(less.max(more)));
            let (one, other) = (Ranks::new(n, share(percentile), less), Ranks::new(n, share(percentile), more));
            let highest = |rank: Option<u64>| rank.unwrap_or(u64::MAX);
            prop_assert!(highest(one.bound) <= highest(other.bound));
            prop_assert!(highest(one.higher) <= highest(other.higher));
            prop_assert!(one.lower >= other.lower);
        }

        #[test]
        fn a_rate_lies_between_its_limits(of in 1..3_000u64, part in 0.0..=1.0f64, less in 500_000..999_999u32, more in 500_000..999_999u32) {
            let rate = Rate { hits: (of as f64 * part) as u64, of };
            let (less, more) = (share(less.min(more)), share(less.max(more)));
            prop_assert!(rate.lower(less) <= rate.seen() + 1e-12);
            prop_assert!(rate.seen() <= rate.upper(less) + 1e-12);
            prop_assert!(rate.lower(more) <= rate.lower(less) + 1e-12);
            prop_assert!(rate.upper(less) <= rate.upper(more) + 1e-12);
        }
    }
}
