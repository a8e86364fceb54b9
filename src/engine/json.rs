//! JSON looked at without changing it: numbers keep their source text, as money needs.

use serde::Deserializer;
use serde::de::{DeserializeSeed, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;
use std::fmt;

/// A JSON pointer (RFC 6901): empty for the whole document, else `/` and steps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pointer(Vec<Box<str>>);

impl Pointer {
    /// Reads a pointer, or returns `None` where it neither is empty nor starts with `/`, or has a bad `~`.
    pub fn new(text: &str) -> Option<Pointer> {
        if text.is_empty() {
            return Some(Pointer(Vec::new()));
        }
        let steps = text.strip_prefix('/')?.split('/').map(unescape).collect::<Option<Vec<_>>>()?;
        Some(Pointer(steps))
    }

    /// Returns the steps, unescaped: names of members or indexes of elements.
    pub fn steps(&self) -> &[Box<str>] {
        &self.0
    }

    /// Returns the source text of the value that the pointer finds; `None` where there is none or `document` is no JSON.
    pub fn find<'a>(&self, document: &'a [u8]) -> Option<&'a RawValue> {
        let mut value: &RawValue = serde_json::from_slice(document).ok()?;
        for step in &self.0 {
            value = match value.get().as_bytes().first()? {
                b'{' => serde_json::Deserializer::from_str(value.get()).deserialize_map(Member(step)).ok()??,
                b'[' => {
                    let canonical = &**step == "0" || !step.starts_with('0');
                    let index: usize = step.bytes().all(|b| b.is_ascii_digit()).then(|| step.parse().ok())??;
                    serde_json::from_str::<Vec<&RawValue>>(value.get())
                        .ok()?
                        .into_iter()
                        .nth(index)
                        .filter(|_| canonical)?
                }
                _ => return None,
            };
        }
        Some(value)
    }

    /// Returns the scalar that the pointer finds as text: a string without its quotes, a number or boolean as it is
    /// written. `None` where it finds nothing, null, an object or an array.
    pub fn scalar(&self, document: &[u8]) -> Option<String> {
        let found = self.find(document)?.get();
        match found.as_bytes().first()? {
            b'"' => serde_json::from_str(found).ok(),
            b'{' | b'[' | b'n' => None,
            _ => Some(found.to_owned()),
        }
    }
}

impl fmt::Display for Pointer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for step in &self.0 {
            write!(f, "/{}", step.replace('~', "~0").replace('/', "~1"))?;
        }
        Ok(())
    }
}

/// Finds the member of an object that has a name, the last one of several, and keeps none of the others.
struct Member<'n>(&'n str);

impl<'de> Visitor<'de> for Member<'_> {
    type Value = Option<&'de RawValue>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Self::Value, A::Error> {
        let mut found = None;
        while let Some(is_named) = members.next_key_seed(Named(self.0))? {
            if is_named {
                found = Some(members.next_value()?);
            } else {
                members.next_value::<IgnoredAny>()?;
            }
        }
        Ok(found)
    }
}

/// Tells whether a text is the one that is looked for.
struct Named<'n>(&'n str);

impl<'de> DeserializeSeed<'de> for Named<'_> {
    type Value = bool;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<bool, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for Named<'_> {
    type Value = bool;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name")
    }

    fn visit_str<E>(self, name: &str) -> Result<bool, E> {
        Ok(name == self.0)
    }
}

fn unescape(step: &str) -> Option<Box<str>> {
    let mut text = String::with_capacity(step.len());
    let mut chars = step.chars();
    while let Some(c) = chars.next() {
        text.push(match c {
            '~' => match chars.next()? {
                '0' => '~',
                '1' => '/',
                _ => return None,
            },
            c => c,
        });
    }
    Some(text.into())
}

/// Returns whether two scalars, as [`Pointer::scalar`] gives them, are the same value: the same text, or decimal
/// numbers that differ only in zeros that carry no value (`12.9`, `12.90`, `0012.9` is no number).
pub fn same_value(one: &str, other: &str) -> bool {
    one == other || matches!((decimal(one), decimal(other)), (Some(a), Some(b)) if a == b)
}

/// Returns (negative, digits before the point, digits after it without trailing zeros) of a plain decimal number.
fn decimal(text: &str) -> Option<(bool, &str, &str)> {
    let (negative, rest) = text.strip_prefix('-').map_or((false, text), |rest| (true, rest));
    let (whole, fraction) = rest.split_once('.').unwrap_or((rest, "0"));
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    if !digits(whole) || !digits(fraction) || (whole.len() > 1 && whole.starts_with('0')) {
        return None;
    }
    let fraction = fraction.trim_end_matches('0');
    let zero = whole == "0" && fraction.is_empty();
    Some((negative && !zero, whole, fraction))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scalar(pointer: &str, document: &str) -> Option<String> {
        Pointer::new(pointer).expect("a pointer").scalar(document.as_bytes())
    }

    #[test]
    fn pointers_find_scalars_with_their_source_text() {
        let document = r#"{"a":{"b":[10,1.00,9007199254740993,true,null,"x\u00e9"]},"m~n":1,"s/t":2,"":3}"#;
        let cases = [
            ("/a/b/0", Some("10")),
            ("/a/b/1", Some("1.00")),
            ("/a/b/2", Some("9007199254740993")),
            ("/a/b/3", Some("true")),
            ("/a/b/4", None),
            ("/a/b/5", Some("xé")),
            ("/a/b/6", None),
            ("/a/b/00", None),
            ("/a/b/+1", None),
            ("/a/b", None),
            ("/m~0n", Some("1")),
            ("/s~1t", Some("2")),
            ("/", Some("3")),
            ("/a/b/0/c", None),
            ("", None),
        ];
        for (pointer, expected) in cases {
            assert_eq!(scalar(pointer, document).as_deref(), expected, "{pointer}");
        }
        assert_eq!(scalar("/a", r#"{"b":0,"a":1,"\u0061":2}"#).as_deref(), Some("2"), "the last of several counts");
        assert_eq!(scalar("/a", r#"{"a":1,"b":}"#), None);
        assert_eq!(scalar("/a", "not json"), None);
        assert_eq!(scalar("/a", ""), None);
        assert_eq!(scalar("", "7").as_deref(), Some("7"));
    }

    #[test]
    fn what_is_no_pointer_is_refused() {
        for text in ["a", "a/b", "/a~", "/a~2"] {
            assert_eq!(Pointer::new(text), None, "{text}");
        }
        assert_eq!(Pointer::new("/a~1b/c").expect("a pointer").to_string(), "/a~1b/c");
    }

    #[test]
    fn values_agree_by_value_and_never_by_rounding() {
        for (one, other) in [("12.9", "12.90"), ("100", "100.00"), ("-0", "0.0"), ("abc", "abc")] {
            assert!(same_value(one, other), "{one} {other}");
        }
        for (one, other) in [
            ("9007199254740993", "9007199254740992"),
            ("1", "-1"),
            ("1e2", "100"),
            ("", "0"),
            ("007", "7"),
            ("1.", "1"),
        ] {
            assert!(!same_value(one, other), "{one} {other}");
        }
    }
}
