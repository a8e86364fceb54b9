//! Durations, sizes and rates as people write them.

use std::fmt;
use std::time::Duration;

/// Nothing lasts longer: a longer text reads as this, so that adding it to any clock cannot overflow.
pub const LONGEST: Duration = Duration::from_secs(36_500 * 86_400);

/// The fastest rate that is taken, per second.
pub const FASTEST: f64 = 1_000_000.0;

const SECOND: u128 = 1_000_000_000;
/// The units of a duration in nanoseconds, from large to small.
const DURATION_UNITS: [(&str, u128); 5] =
    [("d", 86_400 * SECOND), ("h", 3_600 * SECOND), ("m", 60 * SECOND), ("s", SECOND), ("ms", 1_000_000)];
/// The units of a size in bytes.
const SIZE_UNITS: [(&str, u64); 5] = [("B", 1), ("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30), ("TiB", 1 << 40)];

/// Returns the duration that `text` names, such as `250ms`, `2s`, `1.5s`, `1m30s`, `1h` or `14d`.
///
/// Units go from large to small, each once; the last number may have decimals, down to one nanosecond. What is longer
/// than [`LONGEST`] reads as [`LONGEST`].
///
/// # Errors
/// [`NotADuration`] for anything else: a number without a unit, zero, a negative, blanks, an unknown unit.
///
/// Source: product.md section 3.
pub fn parse_duration(text: &str) -> Result<Duration, NotADuration> {
    if text.is_empty() {
        return Err(NotADuration::Empty);
    }
    if text.chars().any(char::is_whitespace) {
        return Err(NotADuration::Blanks { text: text.into() });
    }
    if let Some(positive) = text.strip_prefix('-') {
        return Err(NotADuration::Negative { positive: positive.into() });
    }
    let mut total: u128 = 0;
    let mut smallest = u128::MAX;
    let mut rest = text;
    while !rest.is_empty() {
        let (number, unit, after) = component(rest);
        let nanos = DURATION_UNITS.iter().find(|(name, _)| *name == unit).map(|(_, nanos)| *nanos);
        let read =
            amount(number, nanos.unwrap_or(SECOND)).ok_or_else(|| NotADuration::Unreadable { text: text.into() })?;
        if unit.is_empty() && total.saturating_add(read) > 0 {
            return Err(NotADuration::NoUnit { text: text.into() });
        }
        if unit.is_empty() {
            return Err(NotADuration::Zero { text: text.into() });
        }
        let nanos = nanos.ok_or_else(|| NotADuration::UnknownUnit { number: number.into(), unit: unit.into() })?;
        let decimals_inside = number.contains('.') && !after.is_empty();
        if nanos >= smallest || decimals_inside {
            return Err(NotADuration::Order { text: text.into() });
        }
        total = total.saturating_add(read);
        (smallest, rest) = (nanos, after);
    }
    if total == 0 {
        return Err(NotADuration::Zero { text: text.into() });
    }
    Ok(from_nanos(total).min(LONGEST))
}

/// Splits `text` into its first number, the unit behind it, and the rest. Any of them may be empty.
fn component(text: &str) -> (&str, &str, &str) {
    let in_number = |c: char| c.is_ascii_digit() || c == '.';
    let number_end = text.find(|c| !in_number(c)).unwrap_or(text.len());
    let (number, behind) = text.split_at(number_end);
    let unit_end = behind.find(in_number).unwrap_or(behind.len());
    let (unit, rest) = behind.split_at(unit_end);
    (number, unit, rest)
}

/// Returns `number` times `unit`, saturating; `None` where it is no plain decimal or finer than one.
fn amount(number: &str, unit: u128) -> Option<u128> {
    let (whole, decimals) = match number.split_once('.') {
        Some((whole, decimals)) => (whole, Some(decimals)),
        None => (number, None),
    };
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    if !digits(whole) || !decimals.is_none_or(digits) {
        return None;
    }
    let fine = match decimals.unwrap_or("").trim_end_matches('0') {
        "" => 0,
        // Twelve digits times the largest unit stay far below u128::MAX.
        fine if fine.len() > 12 => return None,
        fine => {
            let scale = 10u128.pow(fine.len() as u32);
            let scaled = fine.parse::<u128>().expect("at most twelve digits") * unit;
            if !scaled.is_multiple_of(scale) {
                return None;
            }
            scaled / scale
        }
    };
    // Only the length can fail: these are digits.
    let whole = whole.parse().unwrap_or(u128::MAX);
    Some(whole.saturating_mul(unit).saturating_add(fine))
}

fn from_nanos(nanos: u128) -> Duration {
    match u64::try_from(nanos / SECOND) {
        Ok(seconds) => Duration::new(seconds, (nanos % SECOND) as u32),
        Err(_) => Duration::MAX,
    }
}

/// Returns a duration exactly, in the form that [`parse_duration`] reads: `2m30s`, `250ms`, `1.5s`, `14d`; zero is `0s`.
pub fn show_duration(duration: Duration) -> String {
    let mut left = duration.as_nanos();
    let mut text = String::new();
    for (name, unit) in &DURATION_UNITS[..3] {
        if left >= *unit {
            text += &format!("{}{name}", left / unit);
            left %= unit;
        }
    }
    let (name, unit) = if left >= SECOND || left == 0 || !text.is_empty() { ("s", SECOND) } else { ("ms", 1_000_000) };
    if left > 0 || text.is_empty() {
        let width = unit.ilog10() as usize;
        let decimals = format!("{:0width$}", left % unit);
        let number = format!("{}.{decimals}", left / unit);
        text += number.trim_end_matches('0').trim_end_matches('.');
        text += name;
    }
    text
}

/// Returns a measured duration for people, rounded to what the eye needs: `0.4ms`, `41ms`, `1.4s`, `2m30s`, `3h5m`, `4d2h`.
pub fn show_rounded(duration: Duration) -> String {
    const MS: u128 = 1_000_000;
    let nanos = duration.as_nanos();
    let to = |step: u128| from_nanos(nanos.saturating_add(step / 2) / step * step);
    // The bounds are half a step below the round number, so that 59.97 s is `1m` and not `60s`.
    show_duration(match nanos {
        0..9_950_000 => to(MS / 10),
        9_950_000..999_500_000 => to(MS),
        999_500_000..59_950_000_000 => to(SECOND / 10),
        59_950_000_000..3_599_500_000_000 => to(SECOND),
        3_599_500_000_000..86_370_000_000_000 => to(60 * SECOND),
        _ => to(3_600 * SECOND),
    })
}

/// Returns a number of things in words: `1 segment`, `2 segments`.
pub fn counted(count: u64, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// Returns the number of bytes that `text` names, such as `64KiB`; zero is `0B`.
///
/// Units are `B`, `KiB`, `MiB`, `GiB` and `TiB`; numbers are whole.
///
/// # Errors
/// [`NotASize`] for anything else, and for more than fits 64 bits.
///
/// Source: product.md section 3.
pub fn parse_size(text: &str) -> Result<u64, NotASize> {
    let digits_end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits_end);
    if number.is_empty() || unit.contains(|c: char| !c.is_alphabetic()) {
        return Err(NotASize::Unreadable { text: text.into() });
    }
    if unit.is_empty() {
        return Err(NotASize::NoUnit { number: number.into() });
    }
    let bytes = SIZE_UNITS.iter().find(|(name, _)| *name == unit).map(|(_, bytes)| *bytes);
    let bytes = bytes.ok_or_else(|| NotASize::UnknownUnit { number: number.into(), unit: unit.into() })?;
    let size = number.parse::<u64>().ok().and_then(|number| number.checked_mul(bytes));
    size.ok_or_else(|| NotASize::TooLarge { text: text.into() })
}

/// Returns the rate that `text` names, per second, such as `20/s`, `0.5/s`, `90/m` or `10/h`.
///
/// The result is above zero and at most [`FASTEST`].
///
/// # Errors
/// [`NotARate`] for anything else.
///
/// Source: product.md section 3.
pub fn parse_rate(text: &str) -> Result<f64, NotARate> {
    let unreadable = || NotARate::Unreadable { text: text.into() };
    let (number, unit) = match text.split_once('/') {
        Some((number, unit)) => (number, Some(unit)),
        None => (text, None),
    };
    // In millionths: `amount` also refuses signs, exponents, `inf` and `nan`, which f64 would read.
    let millionths = amount(number, 1_000_000).ok_or_else(unreadable)?;
    let seconds = match unit {
        None => return Err(NotARate::NoUnit { number: number.into() }),
        Some("s") => 1.0,
        Some("m") => 60.0,
        Some("h") => 3_600.0,
        Some(_) => return Err(unreadable()),
    };
    let rate = millionths as f64 / 1e6 / seconds;
    if rate == 0.0 {
        return Err(NotARate::Zero { text: text.into() });
    }
    if rate > FASTEST {
        return Err(NotARate::TooFast { text: text.into() });
    }
    Ok(rate)
}

/// Why a text is no duration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotADuration {
    /// It is empty.
    Empty,
    /// It holds blanks.
    Blanks {
        /// The text.
        text: Box<str>,
    },
    /// It is negative.
    Negative {
        /// The text without its sign.
        positive: Box<str>,
    },
    /// It ends in a number without a unit.
    NoUnit {
        /// The text.
        text: Box<str>,
    },
    /// It has a unit that is none of ours.
    UnknownUnit {
        /// The number before it.
        number: Box<str>,
        /// The unit.
        unit: Box<str>,
    },
    /// Its units do not go from large to small, or an inner number has decimals.
    Order {
        /// The text.
        text: Box<str>,
    },
    /// It is zero.
    Zero {
        /// The text.
        text: Box<str>,
    },
    /// It holds something that is no plain decimal number, or one finer than a nanosecond.
    Unreadable {
        /// The text.
        text: Box<str>,
    },
}

impl fmt::Display for NotADuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NotADuration::Empty => f.write_str("the duration is empty: write for example 30s"),
            NotADuration::Blanks { text } => {
                let joined: String = text.split_whitespace().collect();
                write!(f, "{} has blanks in it: write {}", Quoted(text), Example(&joined))
            }
            NotADuration::Negative { positive } => {
                write!(f, "-{} is negative: write {}", Quoted(positive), Example(positive))
            }
            NotADuration::NoUnit { text } if text.bytes().all(|b| b.is_ascii_digit()) => {
                write!(f, "{0} has no unit: write {0}ms or {0}s", Quoted(text))
            }
            NotADuration::NoUnit { text } => {
                write!(f, "{} ends without a unit: write {}", Quoted(text), Example(&format!("{text}s")))
            }
            NotADuration::UnknownUnit { number, unit } => {
                write!(f, "{} is no unit of time: write {1}ms, {1}s, {1}m, {1}h or {1}d", Quoted(unit), Quoted(number))
            }
            NotADuration::Order { text } => write!(
                f,
                "{} mixes its units: write the larger first, each once, decimals last, for example 1m30.5s",
                Quoted(text)
            ),
            NotADuration::Zero { text } => write!(f, "{} is no time at all: write for example 250ms", Quoted(text)),
            NotADuration::Unreadable { text } => {
                write!(f, "{} is no duration: write for example 250ms, 30s or 1m30s", Quoted(text))
            }
        }
    }
}

impl std::error::Error for NotADuration {}

/// Why a text is no size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotASize {
    /// It is no whole number and a unit.
    Unreadable {
        /// The text.
        text: Box<str>,
    },
    /// It has no unit.
    NoUnit {
        /// The number.
        number: Box<str>,
    },
    /// It has a unit that is none of ours.
    UnknownUnit {
        /// The number before it.
        number: Box<str>,
        /// The unit.
        unit: Box<str>,
    },
    /// It does not fit 64 bits.
    TooLarge {
        /// The text.
        text: Box<str>,
    },
}

impl fmt::Display for NotASize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NotASize::Unreadable { text } => write!(f, "{} is no size: write for example 64KiB", Quoted(text)),
            NotASize::NoUnit { number } => write!(f, "{0} has no unit: write {0}B or {0}KiB", Quoted(number)),
            NotASize::UnknownUnit { number, unit } => {
                write!(f, "{} is no unit of size: write {1}B, {1}KiB, {1}MiB or {1}GiB", Quoted(unit), Quoted(number))
            }
            NotASize::TooLarge { text } => write!(f, "{} is too large: write for example 16MiB", Quoted(text)),
        }
    }
}

impl std::error::Error for NotASize {}

/// Why a text is no rate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotARate {
    /// It is no number, a slash and a unit of time.
    Unreadable {
        /// The text.
        text: Box<str>,
    },
    /// It has no unit.
    NoUnit {
        /// The number.
        number: Box<str>,
    },
    /// It is zero.
    Zero {
        /// The text.
        text: Box<str>,
    },
    /// It is above [`FASTEST`].
    TooFast {
        /// The text.
        text: Box<str>,
    },
}

impl fmt::Display for NotARate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NotARate::Unreadable { text } => write!(f, "{} is no rate: write for example 20/s or 90/m", Quoted(text)),
            NotARate::NoUnit { number } => write!(f, "{0} has no unit: write {0}/s or {0}/m", Quoted(number)),
            NotARate::Zero { text } => write!(f, "{} never comes: write for example 0.1/s or 6/m", Quoted(text)),
            NotARate::TooFast { text } => write!(f, "{} is too fast: at most {FASTEST}/s", Quoted(text)),
        }
    }
}

impl std::error::Error for NotARate {}

/// A text from outside in a message: control characters escaped, at most 40 characters.
struct Quoted<'a>(&'a str);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 40;
        if self.0.is_empty() {
            return f.write_str("an empty text");
        }
        for c in self.0.chars().take(SHOWN) {
            write!(f, "{}", c.escape_debug())?;
        }
        f.write_str(if self.0.chars().nth(SHOWN).is_some() { "…" } else { "" })
    }
}

/// A suggestion, which is itself a duration that [`parse_duration`] takes.
struct Example<'a>(&'a str);

impl fmt::Display for Example<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let works = |text: &str| parse_duration(text).is_ok();
        let with_seconds = format!("{}s", self.0);
        if works(self.0) {
            write!(f, "{}", Quoted(self.0))
        } else if works(&with_seconds) {
            write!(f, "{}", Quoted(&with_seconds))
        } else {
            f.write_str("for example 30s")
        }
    }
}

#[cfg(test)]
mod tests;
