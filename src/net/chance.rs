//! Chance: the jitter of waits, and keys that nobody else makes.

use crate::drive::Entropy;
use crate::engine::moment::Timestamp;
use crate::engine::operation::IdempotencyKey;
use std::fmt::Write as _;
use std::hash::{BuildHasher, RandomState};

/// A source of random numbers.
#[derive(Clone, Debug)]
pub struct Chance(fastrand::Rng);

impl Chance {
    /// Returns a source seeded by the operating system.
    ///
    /// Two processes of the same millisecond draw different numbers: their seeds differ.
    pub fn from_os() -> Chance {
        // The keys of the standard hasher come from the system's generator; fastrand's own seed is the time.
        Chance(fastrand::Rng::with_seed(RandomState::new().hash_one(std::process::id())))
    }

    /// Returns a source that draws the same numbers for the same seed, for tests.
    pub fn fixed(seed: u64) -> Chance {
        Chance(fastrand::Rng::with_seed(seed))
    }

    /// Returns a new key: a UUIDv7 made at `at`.
    pub fn key(&mut self, at: Timestamp) -> IdempotencyKey {
        let text = uuid_text(uuid_v7(at, self.0.u128(..)));
        IdempotencyKey::new(&text, 255).expect("a UUID is 36 visible ASCII characters")
    }
}

impl Chance {
    /// Returns a number that a stranger cannot guess, for a question whose answer must name it.
    pub fn id(&mut self) -> u16 {
        self.0.u16(..)
    }
}

impl Entropy for Chance {
    fn draw(&mut self) -> f64 {
        self.0.f64()
    }
}

/// Returns the UUIDv7 of a time and 74 of the random bits. Times before 1970 count as 1970.
///
/// Source: RFC 9562 section 5.7.
pub fn uuid_v7(at: Timestamp, random: u128) -> [u8; 16] {
    let unix_ms = u128::try_from(at.unix_ms()).unwrap_or(0) & 0xffff_ffff_ffff;
    let random_a = random >> 64 & 0xfff;
    let random_b = random & 0x3fff_ffff_ffff_ffff;
    (unix_ms << 80 | 0x7 << 76 | random_a << 64 | 0b10 << 62 | random_b).to_be_bytes()
}

fn uuid_text(uuid: [u8; 16]) -> String {
    let mut text = String::with_capacity(36);
    for (n, byte) in uuid.iter().enumerate() {
        if matches!(n, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        write!(text, "{byte:02x}").expect("a String takes everything");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_layout_is_that_of_the_rfc() {
        // The example of RFC 9562, appendix A.6, and the extremes.
        let cases = [
            (0x017f_22e2_79b0, 0xcc3_18c4_dc0c_0c07_398f, "017f22e2-79b0-7cc3-98c4-dc0c0c07398f"),
            (0, 0, "00000000-0000-7000-8000-000000000000"),
            (-5, u128::MAX, "00000000-0000-7fff-bfff-ffffffffffff"),
        ];
        for (unix_ms, random, text) in cases {
            assert_eq!(uuid_text(uuid_v7(Timestamp::from_unix_ms(unix_ms), random)), text);
        }
    }

    #[test]
    fn sources_from_the_system_differ_and_fixed_ones_repeat() {
        let at = Timestamp::from_unix_ms(1);
        assert_ne!(Chance::from_os().key(at), Chance::from_os().key(at));
        assert_eq!(Chance::fixed(7).key(at), Chance::fixed(7).key(at));
        assert_ne!(Chance::fixed(7).key(at), Chance::fixed(8).key(at));
    }

    #[test]
    fn draws_lie_in_the_unit_interval_and_spread() {
        let mut chance = Chance::fixed(1);
        let draws: Vec<f64> = (0..10_000).map(|_| chance.draw()).collect();
        assert!(draws.iter().all(|draw| (0.0..1.0).contains(draw)));
        let mean = draws.iter().sum::<f64>() / 10_000.0;
        assert!((0.48..0.52).contains(&mean), "{mean}");
    }
}
