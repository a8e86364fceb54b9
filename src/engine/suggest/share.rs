//! Shares between nothing and everything: percentiles, confidences, false timeouts. Headroom, which may be more.

use std::fmt;
use std::time::Duration;

/// Everything, in millionths.
const WHOLE: u32 = 1_000_000;

/// A share strictly between 0 and 1, in whole millionths, so that ranks need no rounding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Share(u32);

impl Share {
    /// The median.
    pub const P50: Share = Share(500_000);
    /// The 90th percentile.
    pub const P90: Share = Share(900_000);
    /// The 95th percentile.
    pub const P95: Share = Share(950_000);
    /// The 99th percentile: one timeout in a hundred is false.
    ///
    /// Source: product.md section 6; latency.md 3.9.
    pub const P99: Share = Share(990_000);
    /// The 99.9th percentile.
    pub const P999: Share = Share(999_000);
    /// How sure a bound is where nothing else is said.
    ///
    /// Source: latency.md 3.4.
    pub const CONFIDENCE: Share = Share(950_000);

    /// Returns the share of so many millionths; `None` for nothing, everything and more.
    pub const fn from_millionths(millionths: u32) -> Option<Share> {
        if millionths == 0 || millionths >= WHOLE { None } else { Some(Share(millionths)) }
    }

    /// Returns the millionths, 1 to 999,999.
    pub const fn millionths(self) -> u32 {
        self.0
    }

    /// Returns what is missing to everything: 1 % for p99.
    pub const fn complement(self) -> Share {
        Share(WHOLE - self.0)
    }

    /// Returns the share as a number between 0 and 1.
    pub fn as_f64(self) -> f64 {
        f64::from(self.0) / f64::from(WHOLE)
    }

    /// Returns the rank of this percentile among `n` ordered samples: the smallest whole number that is at least this
    /// share of `n`, counted from 1; 0 for no samples. Integers throughout.
    ///
    /// Source: decisions 31; latency.md 3.4.
    pub fn rank(self, n: u64) -> u64 {
        (u128::from(self.0) * u128::from(n)).div_ceil(u128::from(WHOLE)) as u64
    }

    /// Tells whether at most the missing share of `all` is `left`.
    pub(super) fn reached(self, left: u64, all: u64) -> bool {
        u128::from(left) * u128::from(WHOLE) <= u128::from(WHOLE - self.0) * u128::from(all)
    }

    /// Returns the percentile that `text` names, `1` to below `100`: `99`, `99.9`.
    ///
    /// # Errors
    /// [`NotAShare`] for anything else; numbers below 1 get a hint, since `0.99` is never meant as that.
    ///
    /// Source: product.md section 6.
    pub fn parse_percentile(text: &str) -> Result<Share, NotAShare> {
        let number = text.strip_prefix('p').unwrap_or(text);
        let read = ten_thousandths(number).ok_or_else(|| NotAShare::Unreadable { text: text.into(), like: "99" })?;
        if read < 10_000 {
            return Err(NotAShare::Below { text: text.into(), meant: percent(read.saturating_mul(100)) });
        }
        Share::from_millionths(read).ok_or_else(|| NotAShare::TooLarge { text: text.into(), like: "99.9" })
    }

    /// Returns the share that `text` names in percent, sign included: `0.1%`, `1%`.
    ///
    /// # Errors
    /// [`NotAShare`] for anything else, for nothing, and for `100%` and more.
    pub fn parse_percent(text: &str) -> Result<Share, NotAShare> {
        let unreadable = || NotAShare::Unreadable { text: text.into(), like: "0.1%" };
        let read = text.strip_suffix('%').and_then(ten_thousandths).filter(|read| *read > 0).ok_or_else(unreadable)?;
        Share::from_millionths(read).ok_or_else(|| NotAShare::TooLarge { text: text.into(), like: "1%" })
    }
}

impl fmt::Display for Share {
    /// Writes the share in percent, without the sign: `99`, `99.9`, `0.1`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&percent(self.0))
    }
}

/// What is added to a measured percentile, as a part of it. Whole millionths; it may be nothing, or more than all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Headroom(u32);

impl Headroom {
    /// A quarter: from a p99 of 12 s to a limit of 15 s.
    ///
    /// Source: latency.md 3.9, the example of both founding articles.
    pub const USUAL: Headroom = Headroom(250_000);
    /// A half, where the evidence is a snapshot.
    ///
    /// Source: latency.md 3.10.
    pub const SNAPSHOT: Headroom = Headroom(500_000);

    /// Returns the headroom of so many millionths, at most tenfold.
    pub const fn from_millionths(millionths: u32) -> Option<Headroom> {
        if millionths > 10 * WHOLE { None } else { Some(Headroom(millionths)) }
    }

    /// Returns `value` with the headroom added, rounded up to a nanosecond; it saturates.
    pub fn above(self, value: Duration) -> Duration {
        let more = (value.as_nanos() * u128::from(self.0)).div_ceil(u128::from(WHOLE));
        let more = Duration::from_nanos(u64::try_from(more).unwrap_or(u64::MAX));
        value.saturating_add(more)
    }

    /// Returns the headroom that `text` names in percent, sign included: `25%`, `0%`, `150%`; at most `1000%`.
    ///
    /// # Errors
    /// [`NotAShare`] for anything else.
    pub fn parse(text: &str) -> Result<Headroom, NotAShare> {
        let read = text.strip_suffix('%').and_then(ten_thousandths);
        let read = read.ok_or_else(|| NotAShare::Unreadable { text: text.into(), like: "25%" })?;
        Headroom::from_millionths(read).ok_or_else(|| NotAShare::TooLarge { text: text.into(), like: "25%" })
    }
}

impl fmt::Display for Headroom {
    /// Writes the headroom in percent, without the sign: `25`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&percent(self.0))
    }
}

/// Why a text is no share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotAShare {
    /// It is no plain number of at most four decimals, or a percent sign is missing.
    Unreadable {
        /// The text.
        text: Box<str>,
        /// A text that works.
        like: &'static str,
    },
    /// A percentile below 1, which is a share of one that was meant as a percentile.
    Below {
        /// The text.
        text: Box<str>,
        /// What was probably meant.
        meant: Box<str>,
    },
    /// It is everything, or more than is taken.
    TooLarge {
        /// The text.
        text: Box<str>,
        /// A text that works.
        like: &'static str,
    },
}

impl fmt::Display for NotAShare {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |text: &str| text.chars().take(40).flat_map(char::escape_debug).collect::<String>();
        match self {
            NotAShare::Unreadable { text, like } => {
                write!(f, "`{}` is no share: write for example {like}", shown(text))
            }
            NotAShare::Below { text, meant } if &**meant != "0" => {
                write!(f, "`{}` is below the first percentile: write {meant}", shown(text))
            }
            NotAShare::Below { text, .. } => write!(f, "`{}` is no percentile: write for example 99", shown(text)),
            NotAShare::TooLarge { text, like } => {
                write!(f, "`{}` is too large: write for example {like}", shown(text))
            }
        }
    }
}

impl std::error::Error for NotAShare {}

/// Returns a plain decimal of at most four decimals in ten-thousandths; `None` for anything else.
fn ten_thousandths(text: &str) -> Option<u32> {
    let (whole, decimals) = text.split_once('.').unwrap_or((text, "0"));
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    if !digits(whole) || !digits(decimals) || decimals.len() > 4 {
        return None;
    }
    let fine = decimals.parse::<u32>().ok()? * 10u32.pow(4 - decimals.len() as u32);
    whole.parse::<u32>().ok()?.checked_mul(10_000)?.checked_add(fine)
}

/// Writes millionths in percent, as short as can be.
fn percent(millionths: u32) -> Box<str> {
    let text = format!("{}.{:04}", millionths / 10_000, millionths % 10_000);
    text.trim_end_matches('0').trim_end_matches('.').into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_exact_where_floating_point_is_not() {
        assert_eq!(Share::P999.rank(1_000), 999);
        assert_eq!(Share::P99.rank(50), 50);
        assert_eq!(Share::P99.rank(u64::MAX), 18_262_276_632_972_456_099);
        assert_eq!(Share::P99.rank(0), 0);
        for n in 1..5_000 {
            assert_eq!(Share::P99.rank(n), (99 * n).div_ceil(100), "{n}");
        }
    }

    #[test]
    fn shares_are_read_and_shown_in_percent() {
        for (text, millionths) in
            [("99", 990_000), ("p99.9", 999_000), ("99.9999", 999_999), ("1", 10_000), ("50.0", 500_000)]
        {
            assert_eq!(Share::parse_percentile(text), Ok(Share(millionths)), "{text}");
        }
        for (text, millionths) in [("0.1%", 1_000), ("1%", 10_000), ("0.0001%", 1), ("99.9%", 999_000)] {
            assert_eq!(Share::parse_percent(text), Ok(Share(millionths)), "{text}");
            assert_eq!(format!("{}%", Share(millionths)), text);
        }
        assert_eq!(Headroom::parse("25%"), Ok(Headroom::USUAL));
        assert_eq!(Headroom::parse("0%").map(|none| none.above(Duration::from_secs(3))), Ok(Duration::from_secs(3)));
        assert_eq!(Headroom::USUAL.above(Duration::from_secs(12)), Duration::from_secs(15));
        assert_eq!(Headroom::USUAL.above(Duration::MAX), Duration::MAX);
    }

    #[test]
    fn what_is_no_share_gets_a_hint() {
        let said = |text| Share::parse_percentile(text).expect_err(text).to_string();
        assert_eq!(said("0.99"), "`0.99` is below the first percentile: write 99");
        assert_eq!(said("0"), "`0` is no percentile: write for example 99");
        assert_eq!(said("100"), "`100` is too large: write for example 99.9");
        for text in ["", "p", "-1", "1e2", "99.99999", "99%", "٩٩", ".5", "5.", "99999999999999999999"] {
            assert!(matches!(Share::parse_percentile(text), Err(NotAShare::Unreadable { .. })), "{text}");
        }
        for text in ["", "%", "1", "0%", "-1%", "nan%"] {
            assert!(matches!(Share::parse_percent(text), Err(NotAShare::Unreadable { .. })), "{text}");
        }
        assert!(matches!(Share::parse_percent("100%"), Err(NotAShare::TooLarge { .. })));
        assert!(matches!(Headroom::parse("1001%"), Err(NotAShare::TooLarge { .. })));
    }
}
