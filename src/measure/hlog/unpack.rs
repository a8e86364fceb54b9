//! The histogram of a line, of which nothing is taken on trust.
//!
//! The reader of hdrhistogram makes room for whatever a histogram claims to hold; this one keeps the bins that hold
//! samples, of which there are no more than bytes.
//!
//! Source: version 2 of HdrHistogram's encoding, as hdrhistogram 7.6.0 writes and reads it.

use super::BadLine;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::read::ZlibDecoder;
use std::io::Read;

/// More of an unpacked histogram is not read: more than any of three digits can take, and most of five.
const MOST_UNPACKED: u64 = 4 << 20;
/// Marks a packed histogram. Four bytes of its length follow.
const PACKED: [u8; 4] = [0x1c, 0x84, 0x93, 0x14];
/// Marks an unpacked one.
const UNPACKED: [u8; 4] = [0x1c, 0x84, 0x93, 0x13];

/// The values between two that are not told apart, in the unit of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Packed {
    pub(super) low: u64,
    /// At most 2^62, so that a unit more is still a number.
    pub(super) high: u64,
    /// Above zero.
    pub(super) count: u64,
}

/// Returns the bins of a histogram that hold samples, in order.
pub(super) fn unpacked(text: &str) -> Result<Vec<Packed>, BadLine> {
    let bytes = STANDARD.decode(text).map_err(|_| BadLine::Histogram)?;
    if !bytes.starts_with(&PACKED) {
        return bins(&bytes).ok_or(BadLine::Histogram);
    }
    let (mut plain, packed) = (Vec::new(), bytes.get(8..).unwrap_or_default());
    ZlibDecoder::new(packed).take(MOST_UNPACKED + 1).read_to_end(&mut plain).map_err(|_| BadLine::Histogram)?;
    if plain.len() as u64 > MOST_UNPACKED {
        return Err(BadLine::TooLarge);
    }
    bins(&plain).ok_or(BadLine::Histogram)
}

/// Returns the bins of an unpacked histogram; `None` where it is none, or of a kind that is not read: with an offset, or
/// of values that are no whole numbers.
fn bins(plain: &[u8]) -> Option<Vec<Packed>> {
    let mut rest = plain.strip_prefix(&UNPACKED)?;
    let length = u32::from_be_bytes(taken(&mut rest)?) as usize;
    let offset = u32::from_be_bytes(taken(&mut rest)?);
    let digits = u32::from_be_bytes(taken(&mut rest)?);
    let least = u64::from_be_bytes(taken(&mut rest)?);
    let _longest: [u8; 8] = taken(&mut rest)?;
    let ratio = f64::from_be_bytes(taken(&mut rest)?);
    if offset != 0 || !(1..=5).contains(&digits) || ratio.to_bits() != 1f64.to_bits() {
        return None;
    }
    let scale = Scale { unit: least.checked_ilog2()?, half: 10u64.pow(digits).next_power_of_two() };
    let (mut counts, mut at, mut bins) = (rest.get(..length)?, 0u64, Vec::new());
    while !counts.is_empty() {
        let number = number(&mut counts)?;
        // Twice as large, odd for negative ones: so many empty bins.
        if number % 2 == 1 {
            at = at.checked_add(number / 2 + 1)?;
        } else {
            let count = number / 2;
            if count > 0 {
                let (low, high) = scale.edges(at)?;
                bins.push(Packed { low, high, count });
            }
            at = at.checked_add(1)?;
        }
    }
    Some(bins)
}

/// How bins get wider: twice as wide after every `half` of them.
struct Scale {
    /// The least width, as a power of two.
    unit: u32,
    /// Half the bins that are equally wide at the beginning; a power of two.
    half: u64,
}

impl Scale {
    /// Returns the least and the greatest value of a bin; `None` above 2^62.
    fn edges(&self, at: u64) -> Option<(u64, u64)> {
        let octave = u32::try_from(at / self.half).ok()?;
        let (within, width) = match octave.checked_sub(1) {
            None => (at, self.unit),
            Some(wider) => (at % self.half + self.half, self.unit.checked_add(wider)?),
        };
        let highest_bit = width.checked_add(self.half.ilog2() + 1)?;
        (highest_bit <= 62).then(|| (within << width, ((within + 1) << width) - 1))
    }
}

/// Returns the next bytes.
fn taken<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (first, behind) = rest.split_first_chunk::<N>()?;
    *rest = behind;
    Some(*first)
}

/// Returns the next number: seven bits a byte, the lowest first, as long as the eighth is set; eight bits of a ninth.
fn number(rest: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for n in 0..9 {
        let [byte] = taken(rest)?;
        let all = n == 8;
        let bits = if all { byte } else { byte & 0x7f };
        number |= u64::from(bits) << (7 * n);
        if all || byte < 0x80 {
            break;
        }
    }
    Some(number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use hdrhistogram::Histogram;
    use hdrhistogram::serialization::{Serializer, V2DeflateSerializer, V2Serializer};
    use proptest::prelude::*;
    use std::io::Write;

    fn plain(histogram: &Histogram<u64>) -> Vec<u8> {
        let mut plain = Vec::new();
        V2Serializer::new().serialize(histogram, &mut plain).expect("memory takes it");
        plain
    }

    fn histogram(low: u64, digits: u8, values: &[(u64, u64)]) -> Histogram<u64> {
        let mut histogram = Histogram::new_with_bounds(low, 1 << 61, digits).expect("a histogram");
        for (value, count) in values {
            histogram.record_n(*value, *count).expect("within bounds");
        }
        histogram
    }

    /// The bins by the crate that wrote them.
    fn expected(histogram: &Histogram<u64>) -> Vec<Packed> {
        let bin = |value: u64, count: u64| Packed {
            low: histogram.lowest_equivalent(value),
            high: histogram.highest_equivalent(value),
            count,
        };
        histogram.iter_recorded().map(|at| bin(at.value_iterated_to(), at.count_at_value())).collect()
    }

    proptest! {
        #[test]
        fn bins_are_those_of_the_histogram(
            low in 1..5_000u64,
            digits in 1..=3u8,
            values in proptest::collection::vec((0..1u64 << 60, 1..1u64 << 40), 0..20),
            small in proptest::collection::vec((0..100_000u64, 1..300u64), 0..20),
        ) {
            let histogram = histogram(low, digits, &[values, small].concat());
            prop_assert_eq!(bins(&plain(&histogram)), Some(expected(&histogram)));
            let mut packed = Vec::new();
            V2DeflateSerializer::new().serialize(&histogram, &mut packed).expect("memory takes it");
            prop_assert_eq!(unpacked(&STANDARD.encode(packed)), Ok(expected(&histogram)));
        }

        #[test]
        fn damage_never_panics_and_makes_no_disorder(
            at in 0..60usize, with in any::<[u8; 9]>(), values in proptest::collection::vec((0..1u64 << 60, 1..99u64), 1..9),
        ) {
            let mut damaged = plain(&histogram(1_000, 3, &values));
            let at = at.min(damaged.len());
            let end = (at + with.len()).min(damaged.len());
            damaged[at..end].copy_from_slice(&with[..end - at]);
            if let Some(bins) = bins(&damaged) {
                prop_assert!(bins.iter().all(|bin| bin.low <= bin.high && bin.count > 0));
                prop_assert!(bins.windows(2).all(|pair| pair[0].high < pair[1].low));
            }
        }
    }

    #[test]
    fn what_a_histogram_claims_is_not_believed() {
        let whole = plain(&histogram(1, 3, &[(7, 1)]));
        let claim = |at: usize, bytes: &[u8]| {
            let mut changed = whole.clone();
            changed[at..at + bytes.len()].copy_from_slice(bytes);
            bins(&changed)
        };
        assert_eq!(bins(&whole), Some(vec![Packed { low: 7, high: 7, count: 1 }]));
        for (at, bytes) in [(0, [9; 4]), (4, [0xff; 4]), (8, [1; 4]), (12, [0xff; 4]), (12, [0; 4]), (32, [0; 4])] {
            assert_eq!(claim(at, &bytes), None, "{at}");
        }
        assert_eq!(claim(16, &[0; 8]), None, "no least value");
        assert_eq!(claim(16, &[0xff; 8]), None, "values of more than 2^62");
        assert_eq!(claim(24, &[0xff; 8]), bins(&whole), "the longest value only makes room");
        assert_eq!(bins(&whole[..whole.len() - 1]), None);
        // The most negative number, which has no positive one.
        let many_empty = [&whole[..4], &[0, 0, 0, 9], &whole[8..40], &[0xff; 9]].concat();
        assert_eq!(bins(&many_empty), Some(vec![]));
    }

    #[test]
    fn what_unpacks_to_much_is_refused() {
        let mut bomb = flate2::write::ZlibEncoder::new(PACKED.to_vec(), flate2::Compression::best());
        bomb.get_mut().extend([0; 4]);
        bomb.write_all(&vec![0; 2 * MOST_UNPACKED as usize]).expect("memory takes it");
        let bomb = STANDARD.encode(bomb.finish().expect("memory takes it"));
        assert!(bomb.len() < 100_000, "{}", bomb.len());
        assert_eq!(unpacked(&bomb), Err(BadLine::TooLarge));
    }
}
