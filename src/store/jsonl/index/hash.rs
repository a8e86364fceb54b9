//! The keyed hashes by which the index finds things, and the hasher of its tables.

use crate::engine::operation::{Fingerprint, IdempotencyKey, PartnerName};
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// Hashes keyed by a ledger's name: an index of another ledger finds nothing, and nobody can choose keys that collide.
#[derive(Clone, Copy, Debug)]
pub struct Keyed(u64, u64);

impl Keyed {
    /// Returns the hashes of the ledger `id`.
    pub fn new(id: &str) -> Keyed {
        let digest = Sha256::digest(id.as_bytes());
        let half = |from: usize| u64::from_le_bytes(digest[from..from + 8].try_into().expect("eight bytes"));
        Keyed(half(0), half(8))
    }

    /// Returns the hash of a key, whoever's it is.
    pub fn key(self, key: &IdempotencyKey) -> u64 {
        self.of(b"k", key.as_str(), "")
    }

    /// Returns the hash of an operation.
    pub fn operation(self, partner: &PartnerName, key: &IdempotencyKey) -> u64 {
        self.of(b"o", partner.as_str(), key.as_str())
    }

    /// Returns the hash of a payload.
    pub fn payload(self, partner: &PartnerName, fp: &Fingerprint) -> u64 {
        self.of(b"f", partner.as_str(), &fp.0)
    }

    /// Returns the hash of a partner.
    pub fn partner(self, partner: &PartnerName) -> u64 {
        self.of(b"p", partner.as_str(), "")
    }

    #[expect(deprecated, reason = "it says which function it is, SipHash 2-4; what replaced it may become another one")]
    fn of(self, kind: &[u8; 1], first: &str, second: &str) -> u64 {
        let mut hasher = std::hash::SipHasher::new_with_keys(self.0, self.1);
        hasher.write(kind);
        hasher.write(first.as_bytes());
        // No name or key has this byte: where the first text ends cannot be mistaken.
        hasher.write(&[0xff]);
        hasher.write(second.as_bytes());
        hasher.finish()
    }
}

/// A table by hashes or by claim numbers.
pub type Table<V> = HashMap<u64, V, BuildHasherDefault<Spread>>;

/// Spreads numbers that are hashes already, or that follow each other.
#[derive(Debug, Default)]
pub struct Spread(u64);

impl Hasher for Spread {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(self.0 ^ u64::from(*byte));
        }
    }

    fn write_u64(&mut self, number: u64) {
        // Source: 2^64 divided by the golden ratio, odd (Knuth, The Art of Computer Programming 3, 6.4).
        self.0 = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[expect(deprecated, reason = "the function itself is what is looked at")]
    fn the_function_is_the_one_that_files_were_written_with() {
        // Source: the reference implementation of SipHash 2-4, vectors.h: the key and the text count up from 0.
        let key = |from: u8| u64::from_le_bytes(std::array::from_fn(|at| from + at as u8));
        let mut hasher = std::hash::SipHasher::new_with_keys(key(0), key(8));
        hasher.write(&std::array::from_fn::<u8, 15, _>(|at| at as u8));
        assert_eq!(hasher.finish(), 0xa129_ca61_49be_45e5);
    }

    #[test]
    fn ledgers_kinds_and_texts_have_their_own() {
        let (one, other) = (Keyed::new("a"), Keyed::new("b"));
        let key = |text: &str| IdempotencyKey::new(text, 255).expect("a key");
        let partner = |text: &str| PartnerName::new(text).expect("a name");
        assert_eq!(one.key(&key("k")), Keyed::new("a").key(&key("k")));
        assert_ne!(one.key(&key("k")), other.key(&key("k")));
        assert_ne!(one.operation(&partner("ab"), &key("c")), one.operation(&partner("a"), &key("bc")));
        assert_ne!(one.partner(&partner("k")), one.key(&key("k")));
    }
}
