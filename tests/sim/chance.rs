//! The only source of chance here: a seed gives the same story for ever, on every machine.

use std::time::Duration;

/// SplitMix64. Source: Steele, Lea, Flood, "Fast splittable pseudorandom number generators" (2014).
#[derive(Clone, Debug)]
pub struct Chance(u64);

impl Chance {
    /// Returns the stream of a seed.
    pub fn new(seed: u64) -> Chance {
        // Neighbouring seeds would give overlapping streams without this step.
        let mut chance = Chance(seed.wrapping_mul(0xA24B_AED4_963E_E407));
        Chance(chance.next() ^ seed)
    }

    /// Returns 64 uniform bits.
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        bits ^ (bits >> 31)
    }

    /// Returns a number uniform in `[0, 1)`.
    pub fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Returns true in `percent` of 100 cases.
    pub fn odds(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// Returns a number from 0 to `bound - 1`; `bound` is above zero.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }

    /// Returns a number from `low` to `high`, both included.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high - low + 1)
    }

    /// Returns one of `choices`, which are not empty.
    pub fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len() as u64) as usize]
    }

    /// Returns a whole number of milliseconds from `low` to `high`, both included.
    pub fn ms(&mut self, low: u64, high: u64) -> Duration {
        Duration::from_millis(self.between(low, high))
    }

    /// Returns milliseconds from `low` (above zero) to `high`, every order of magnitude as likely as the next.
    pub fn magnitude(&mut self, low: u64, high: u64) -> Duration {
        let octaves = u64::from((high / low).max(1).ilog2());
        let floor = low << self.below(octaves + 1);
        self.ms(floor, (floor * 2).min(high).max(floor))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_same_numbers_for_ever() {
        let mut chance = Chance::new(7);
        let drawn: Vec<u64> = (0..3).map(|_| chance.below(1000)).collect();
        let mut again = Chance::new(7);
        assert_eq!(drawn, (0..3).map(|_| again.below(1000)).collect::<Vec<_>>());
        assert_ne!(Chance::new(7).next(), Chance::new(8).next());
    }

    #[test]
    fn draws_stay_in_their_ranges() {
        let mut chance = Chance::new(1);
        for _ in 0..10_000 {
            assert!((3..=9).contains(&chance.between(3, 9)));
            let span = chance.magnitude(50, 600_000);
            assert!((50..=600_000).contains(&span.as_millis()), "{span:?}");
            assert!((0.0..1.0).contains(&chance.unit()));
        }
    }
}
