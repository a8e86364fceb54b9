//! What the index keeps of an operation: where its lines are, in 16 bytes.

/// How many bytes an entry takes in a file.
pub const ENTRY: usize = 16;
/// The end of what an index can cover: places have 40 bits.
pub const COVER_MAX: u64 = 1 << 40;
/// How long a part of a journal may be that one entry stands for: what a look-up reads.
pub const SEGMENT_MAX: u64 = 256 << 10;
/// Lengths are kept in units of this many bytes, rounded up. No line is shorter.
pub const UNIT: u64 = 64;
/// How many confirmed operations of a partner are kept as controls of its status endpoint.
pub const CONTROLS: usize = 4;

/// What an entry is about. One may be several.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kind(pub u8);

impl Kind {
    /// Lines of a key, none of which begins a claim.
    pub const LINES: Kind = Kind(1);
    /// Lines of a key that begin with a claim.
    pub const CLAIM: Kind = Kind(1 | 2);
    /// Lines of a key that begin with the operation's first claim.
    pub const OPENED: Kind = Kind(1 | 2 | 4);
    /// A `lost` line of a key.
    pub const LOST: Kind = Kind(1 | 8);
    /// The newest claim of an operation that is not decided, by its payload.
    pub const PAYLOAD: Kind = Kind(16);
    /// A line that confirms an operation, by its partner.
    pub const CONTROL: Kind = Kind(32);
    /// The newest claim of an operation that is not decided, by the operation.
    pub const UNDECIDED: Kind = Kind(64);
    /// An operation that older runs have as undecided, and that is decided.
    pub const DECIDED: Kind = Kind(128);

    /// Returns whether it is about everything that `other` is about.
    pub const fn is(self, other: Kind) -> bool {
        self.0 & other.0 == other.0
    }
}

/// One entry. Ordered by hash, then by place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Entry {
    /// The hash of what it is found by.
    pub hash: u64,
    /// The offset (40 bits), the length in units (16), the kind (8).
    packed: u64,
}

impl Entry {
    /// Returns an entry for the bytes `at..end` of the journal.
    ///
    /// # Panics
    /// Beyond [`COVER_MAX`], or where the length does not fit: a segment is at most [`SEGMENT_MAX`] and a line long.
    pub fn new(hash: u64, at: u64, end: u64, kind: Kind) -> Entry {
        let units = (end - at).div_ceil(UNIT);
        assert!(at < COVER_MAX, "nothing beyond is covered");
        assert!(units < 1 << 16, "a segment is short");
        Entry { hash, packed: at << 24 | units << 8 | u64::from(kind.0) }
    }

    /// Returns the offset of the first byte.
    pub const fn at(self) -> u64 {
        self.packed >> 24
    }

    /// Returns the offset behind the last byte, at most one unit too high.
    pub const fn end(self) -> u64 {
        self.at() + (self.packed >> 8 & 0xffff) * UNIT
    }

    /// Returns what it is about.
    pub const fn kind(self) -> Kind {
        Kind(self.packed as u8)
    }

    /// Writes it into 16 bytes.
    pub fn write(self, bytes: &mut [u8]) {
        bytes[..8].copy_from_slice(&self.hash.to_le_bytes());
        bytes[8..].copy_from_slice(&self.packed.to_le_bytes());
    }

    /// Reads it from 16 bytes.
    pub fn read(bytes: &[u8]) -> Entry {
        let half = |from: usize| u64::from_le_bytes(bytes[from..from + 8].try_into().expect("eight bytes"));
        Entry { hash: half(0), packed: half(8) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_comes_back_with_its_end_rounded_up() {
        let entry = Entry::new(u64::MAX, COVER_MAX - 1, COVER_MAX + 64, Kind::OPENED);
        let mut bytes = [0; ENTRY];
        entry.write(&mut bytes);
        assert_eq!(Entry::read(&bytes), entry);
        assert_eq!((entry.at(), entry.end(), entry.kind()), (COVER_MAX - 1, COVER_MAX + 127, Kind::OPENED));
        let longest = Entry::new(1, 0, SEGMENT_MAX + 65_536, Kind::LINES);
        assert_eq!(longest.end(), SEGMENT_MAX + 65_536);
    }

    #[test]
    fn what_is_a_first_claim_is_a_claim_and_has_lines() {
        assert!(Kind::OPENED.is(Kind::CLAIM) && Kind::CLAIM.is(Kind::LINES) && Kind::LOST.is(Kind::LINES));
        assert!(!Kind::CLAIM.is(Kind::OPENED) && !Kind::LOST.is(Kind::CLAIM) && !Kind::PAYLOAD.is(Kind::LINES));
    }
}
