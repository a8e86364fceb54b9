//! Texts that must not be shown, and the mask that hides them wherever they turn up.

use std::fmt;
use std::sync::Arc;

/// A text that prints as `***`.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Arc<str>);

impl Secret {
    /// Wraps a text.
    pub fn new(text: &str) -> Secret {
        Secret(text.into())
    }

    /// Returns the text itself, for the wire only.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// The known secrets of a run, each hidden wherever it appears: as it is, percent-encoded, and inside base64.
#[derive(Clone, Default)]
pub struct Mask {
    forms: Vec<Box<str>>,
}

/// Shorter values are not hidden by value: hiding every `1` would destroy the text and tell the secret's length.
const SHORTEST_HIDDEN: usize = 4;

impl Mask {
    /// Adds a secret value.
    pub fn add(&mut self, secret: &str) {
        let trimmed = secret.trim();
        for text in [secret, trimmed] {
            self.add_form(text.to_owned());
            self.add_form(percent_encoded(text));
            self.add_form(json_escaped(text));
            for form in base64_cores(text.as_bytes()) {
                self.add_form(form);
            }
        }
        self.forms.sort_by_key(|form| std::cmp::Reverse(form.len()));
    }

    fn add_form(&mut self, form: String) {
        if form.len() >= SHORTEST_HIDDEN && !self.forms.iter().any(|known| **known == *form) {
            self.forms.push(form.into());
        }
    }

    /// Returns `text` with every known secret replaced by `***`.
    pub fn hide(&self, text: &str) -> String {
        let mut hidden = text.to_owned();
        for form in self.forms.iter().filter(|form| text.contains(&***form)) {
            hidden = hidden.replace(&**form, "***");
        }
        hidden
    }

    /// Returns whether `bytes` hold a known secret.
    pub fn finds(&self, bytes: &[u8]) -> bool {
        self.forms.iter().any(|form| bytes.windows(form.len()).any(|window| window == form.as_bytes()))
    }
}

impl fmt::Debug for Mask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Mask({} forms)", self.forms.len())
    }
}

/// Returns `text` with every byte but letters, digits and `-._~` as `%XX`.
pub(super) fn percent_encoded(text: &str) -> String {
    let keeps = |b: u8| b.is_ascii_alphanumeric() || b"-._~".contains(&b);
    text.bytes().map(|b| if keeps(b) { char::from(b).to_string() } else { format!("%{b:02X}") }).collect()
}

fn json_escaped(text: &str) -> String {
    serde_json::Value::from(text).to_string().trim_matches('"').to_owned()
}

const BASE64: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Returns what base64 makes of `bytes` at each of the three alignments, without the characters that neighbours share.
fn base64_cores(bytes: &[u8]) -> Vec<String> {
    let mut cores = Vec::new();
    for shift in 0..3usize {
        let mut padded = vec![0; shift];
        padded.extend_from_slice(bytes);
        let whole_bits = padded.len() * 8;
        // Sextets that hold only bits of the secret: those before belong to the neighbour too.
        let first = (shift * 8).div_ceil(6);
        let last = whole_bits / 6;
        if last <= first + SHORTEST_HIDDEN {
            continue;
        }
        let standard: String = (first..last).map(|n| char::from(BASE64[sextet(&padded, n)])).collect();
        cores.push(standard.replace('+', "-").replace('/', "_"));
        cores.push(standard);
    }
    cores
}

fn sextet(bytes: &[u8], n: usize) -> usize {
    let bit = n * 6;
    let high = u16::from(bytes[bit / 8]) << 8;
    let low = bytes.get(bit / 8 + 1).map_or(0, |b| u16::from(*b));
    usize::from((high | low) >> (10 - bit % 8) & 0x3f)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn encode(bytes: &[u8]) -> String {
        let sextets = (bytes.len() * 8).div_ceil(6);
        (0..sextets).map(|n| char::from(BASE64[sextet(bytes, n)])).collect()
    }

    #[test]
    fn a_secret_prints_as_stars() {
        let secret = Secret::new("sk-live-1");
        assert_eq!(format!("{secret} {secret:?}"), "*** ***");
    }

    #[test]
    fn every_form_of_a_secret_is_hidden() {
        let mut mask = Mask::default();
        mask.add("p@ss/word+1\"");
        for text in ["p@ss/word+1\"", "p%40ss%2Fword%2B1%22", "{\"a\":\"p@ss/word+1\\\"\"}"] {
            let hidden = mask.hide(text);
            assert!(hidden.contains("***") && !hidden.contains("word"), "{hidden}");
        }
        assert_eq!(mask.hide("nothing here"), "nothing here");
        assert!(mask.finds(b"..p@ss/word+1\".."));
    }

    #[test]
    fn a_short_value_does_not_blank_the_text() {
        let mut mask = Mask::default();
        mask.add("1");
        mask.add("");
        assert_eq!(mask.hide("a 1 b"), "a 1 b");
    }

    proptest! {
        #[test]
        fn a_secret_inside_base64_is_found_at_every_alignment(before in "[a-z]{0,5}", secret in "[!-~]{8,40}", after in "[a-z]{0,5}") {
            let mut mask = Mask::default();
            mask.add(&secret);
            let encoded = encode(format!("{before}{secret}{after}").as_bytes());
            prop_assert!(mask.hide(&encoded).contains("***"), "{}", encoded);
        }
    }
}
