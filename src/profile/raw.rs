//! The raw mirror of a profile: TOML with the line of every key and value, read through sections that refuse what
//! they do not know.

use super::error::{Fault, ProfileError};
use super::known;
use crate::engine::json::Pointer;
use crate::engine::units::{NotADuration, parse_duration, parse_rate, parse_size};
use std::ops::RangeInclusive;
use std::time::Duration;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// The text of a profile and where its lines begin.
pub(super) struct Source<'t> {
    file: &'t str,
    text: &'t str,
    line_starts: Vec<usize>,
}

/// A setting as the profile states it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Stated {
    /// The full dotted name; endpoints are numbered from 1 (`endpoint[1].timeouts.read`).
    pub(super) name: Box<str>,
    /// The line, from 1.
    pub(super) line: u32,
    /// The value as it is written.
    pub(super) written: Box<str>,
}

impl<'t> Source<'t> {
    pub(super) fn new(file: &'t str, text: &'t str) -> Source<'t> {
        let after_breaks = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n').map(|(at, _)| at + 1);
        Source { file, text, line_starts: std::iter::once(0).chain(after_breaks).collect() }
    }

    /// Reads the text as TOML.
    pub(super) fn parse(&self) -> Result<DeTable<'t>, ProfileError> {
        match DeTable::parse(self.text) {
            Ok(table) => Ok(table.into_inner()),
            Err(error) => {
                let message = error.message().trim_end_matches('.').replace('\n', ", ").into();
                let line = error.span().map(|span| self.line(span.start));
                Err(ProfileError { file: self.file.into(), line, fault: Fault::Syntax { message } })
            }
        }
    }

    /// Lists every setting that `table` states, in the order of their names.
    pub(super) fn stated(&self, table: &DeTable<'_>) -> Vec<Stated> {
        let mut list = Vec::new();
        self.list(table, "", &mut list);
        list
    }

    fn list(&self, table: &DeTable<'_>, prefix: &str, list: &mut Vec<Stated>) {
        for (key, value) in table {
            let name = dotted(prefix, key.get_ref());
            match value.get_ref() {
                DeValue::Table(inner) => self.list(inner, &name, list),
                DeValue::Array(items) if items.iter().any(|item| item.get_ref().is_table()) => {
                    for (n, item) in items.iter().enumerate() {
                        if let DeValue::Table(inner) = item.get_ref() {
                            self.list(inner, &numbered(&name, n), list);
                        }
                    }
                }
                _ => list.push(Stated {
                    name: name.into(),
                    line: self.line(key.span().start),
                    written: self.text.get(value.span()).unwrap_or_default().into(),
                }),
            }
        }
    }

    fn line(&self, at: usize) -> u32 {
        u32::try_from(self.line_starts.partition_point(|start| *start <= at)).unwrap_or(u32::MAX)
    }

    /// Returns the whole document as a section.
    pub(super) fn root<'s>(&'s self, table: &'s DeTable<'t>) -> Result<Section<'s>, ProfileError> {
        let not_built = |(key, _): &(&Spanned<_>, _)| known::NOT_BUILT.contains(&AsRef::<str>::as_ref(key.get_ref()));
        if let Some((key, _)) = table.iter().filter(not_built).min_by_key(|(key, _)| key.span().start) {
            let fault = Fault::NotBuilt { key: key.get_ref().as_ref().into() };
            return Err(ProfileError { file: self.file.into(), line: Some(self.line(key.span().start)), fault });
        }
        Section { source: self, name: String::new(), line: 1, table }.knows(known::ROOT)
    }
}

fn dotted(prefix: &str, key: &str) -> String {
    if prefix.is_empty() { key.to_owned() } else { format!("{prefix}.{key}") }
}

/// Numbers the entries of a list of tables from 1.
fn numbered(name: &str, index: usize) -> String {
    format!("{name}[{}]", index + 1)
}

/// A table whose keys are all known.
pub(super) struct Section<'s> {
    source: &'s Source<'s>,
    /// The full dotted name; empty for the whole document.
    pub(super) name: String,
    line: u32,
    table: &'s DeTable<'s>,
}

impl<'s> Section<'s> {
    fn knows(self, known: &'static [&'static str]) -> Result<Section<'s>, ProfileError> {
        let unknown = |(key, _): &(&Spanned<_>, _)| !known.contains(&AsRef::<str>::as_ref(key.get_ref()));
        let Some((key, _)) = self.table.iter().filter(unknown).min_by_key(|(key, _)| key.span().start) else {
            return Ok(self);
        };
        let near = known::nearest(key.get_ref(), known);
        let fault = Fault::UnknownKey { key: dotted(&self.name, key.get_ref()).into(), near };
        Err(ProfileError { file: self.source.file.into(), line: Some(self.source.line(key.span().start)), fault })
    }

    /// Returns what stands under `key`.
    pub(super) fn get(&self, key: &str) -> Option<Field<'s>> {
        let (name, value) = self.table.iter().find(|(name, _)| name.get_ref() == key)?;
        Some(Field {
            source: self.source,
            name: dotted(&self.name, key),
            line: self.source.line(name.span().start),
            value: value.get_ref(),
        })
    }

    /// Returns every entry, in the order of their names.
    pub(super) fn entries(&self) -> impl Iterator<Item = (&'s str, Field<'s>)> {
        self.table.iter().map(|(key, value)| {
            let name = dotted(&self.name, key.get_ref());
            let line = self.source.line(key.span().start);
            (&**key.get_ref(), Field { source: self.source, name, line, value: value.get_ref() })
        })
    }

    /// Returns the section under `key`, where it is stated.
    pub(super) fn section(
        &self,
        key: &str,
        known: &'static [&'static str],
    ) -> Result<Option<Section<'s>>, ProfileError> {
        self.get(key).map(|field| field.section(known)).transpose()
    }

    /// Complains about a `key` of this section that is not there.
    pub(super) fn missing(&self, key: &str, because: &'static str) -> ProfileError {
        let fault = Fault::Missing { key: dotted(&self.name, key).into(), because };
        ProfileError { file: self.source.file.into(), line: Some(self.line), fault }
    }

    /// Complains about this section as a whole.
    pub(super) fn refused(&self, why: impl Into<Box<str>>, hint: Option<&str>) -> ProfileError {
        let fault = Fault::Refused { key: self.name.as_str().into(), why: why.into(), hint: hint.map(Into::into) };
        ProfileError { file: self.source.file.into(), line: Some(self.line), fault }
    }

    /// Reads a duration.
    pub(super) fn duration(&self, key: &str) -> Result<Option<Duration>, ProfileError> {
        self.get(key).map(|field| field.duration()).transpose()
    }

    /// Reads a text.
    pub(super) fn text(&self, key: &str) -> Result<Option<&'s str>, ProfileError> {
        self.get(key).map(|field| field.text()).transpose()
    }
}

/// One value with its full name and its line.
pub(super) struct Field<'s> {
    source: &'s Source<'s>,
    /// The full dotted name.
    pub(super) name: String,
    line: u32,
    value: &'s DeValue<'s>,
}

impl<'s> Field<'s> {
    /// Complains about the value.
    pub(super) fn fault(&self, fault: Fault) -> ProfileError {
        ProfileError { file: self.source.file.into(), line: Some(self.line), fault }
    }

    /// Complains about the value: `why` continues the sentence that the name begins.
    pub(super) fn refused(&self, why: impl Into<Box<str>>, hint: Option<&str>) -> ProfileError {
        self.fault(Fault::Refused { key: self.key(), why: why.into(), hint: hint.map(Into::into) })
    }

    /// Returns file and line, for messages about what the value leads to.
    pub(super) fn place(&self) -> String {
        format!("{}:{}", self.source.file, self.line)
    }

    /// Returns the full name.
    pub(super) fn key(&self) -> Box<str> {
        self.name.as_str().into()
    }

    fn wrong(&self, expected: &'static str) -> ProfileError {
        let found = match self.value {
            DeValue::String(_) => "a text",
            DeValue::Integer(_) | DeValue::Float(_) => "a number",
            DeValue::Boolean(_) => "true or false",
            DeValue::Datetime(_) => "a date",
            DeValue::Array(_) => "a list",
            DeValue::Table(_) => "a section",
        };
        self.fault(Fault::WrongType { key: self.key(), expected, found })
    }

    /// Reads a section that knows these keys.
    pub(super) fn section(&self, known: &'static [&'static str]) -> Result<Section<'s>, ProfileError> {
        self.open_section()?.knows(known)
    }

    /// Reads a section with any keys.
    pub(super) fn open_section(&self) -> Result<Section<'s>, ProfileError> {
        match self.value {
            DeValue::Table(table) => {
                Ok(Section { source: self.source, name: self.name.clone(), line: self.line, table })
            }
            _ => Err(self.wrong("a section such as [name] or { … }")),
        }
    }

    /// Reads a list of sections that know these keys.
    pub(super) fn sections(&self, known: &'static [&'static str]) -> Result<Vec<Section<'s>>, ProfileError> {
        let expected = "a list of sections such as [[name]]";
        let DeValue::Array(items) = self.value else { return Err(self.wrong(expected)) };
        items.iter().enumerate().map(|(n, item)| self.item(n, item).section(known)).collect()
    }

    fn item(&self, index: usize, item: &'s Spanned<DeValue<'s>>) -> Field<'s> {
        Field {
            source: self.source,
            name: numbered(&self.name, index),
            line: self.source.line(item.span().start),
            value: item.get_ref(),
        }
    }

    /// Returns whether the value is a list.
    pub(super) fn is_list(&self) -> bool {
        matches!(self.value, DeValue::Array(_))
    }

    /// Reads the entries of a list, or the value itself as its only entry.
    pub(super) fn items(&self) -> Vec<Field<'s>> {
        match self.value {
            DeValue::Array(items) => items.iter().enumerate().map(|(n, item)| self.item(n, item)).collect(),
            value => vec![Field { source: self.source, name: self.name.clone(), line: self.line, value }],
        }
    }

    /// Reads a text.
    pub(super) fn text(&self) -> Result<&'s str, ProfileError> {
        match self.value {
            DeValue::String(text) => Ok(text),
            _ => Err(self.wrong("a text in quotes")),
        }
    }

    /// Reads true or false.
    pub(super) fn flag(&self) -> Result<bool, ProfileError> {
        self.value.as_bool().ok_or_else(|| self.wrong("true or false"))
    }

    /// Reads a whole number within `range`.
    pub(super) fn count(&self, range: RangeInclusive<u32>) -> Result<u32, ProfileError> {
        let DeValue::Integer(number) = self.value else { return Err(self.wrong("a whole number")) };
        let read = i64::from_str_radix(number.as_str(), number.radix()).ok();
        read.and_then(|read| u32::try_from(read).ok()).filter(|read| range.contains(read)).ok_or_else(|| {
            let most = match *range.end() {
                u32::MAX => format!("at least {}", range.start()),
                end => format!("from {} to {end}", range.start()),
            };
            self.refused(format!("is {number}, it must be {most}"), None)
        })
    }

    /// Reads a number above 0 and at most 1.
    pub(super) fn ratio(&self) -> Result<f64, ProfileError> {
        let read: Option<f64> = match self.value {
            DeValue::Float(number) => number.as_str().parse().ok(),
            DeValue::Integer(number) => number.as_str().parse().ok(),
            _ => return Err(self.wrong("a number such as 0.5")),
        };
        read.filter(|ratio| *ratio > 0.0 && *ratio <= 1.0)
            .ok_or_else(|| self.refused("must be above 0 and at most 1", Some("write 0.5 for half of the calls")))
    }

    /// Returns a text, or a number as it is written, for values that carry a unit.
    fn with_unit(&self, expected: &'static str) -> Result<String, ProfileError> {
        match self.value {
            DeValue::String(text) => Ok(text.clone().into_owned()),
            DeValue::Integer(number) => Ok(number.to_string()),
            DeValue::Float(number) => Ok(number.to_string()),
            _ => Err(self.wrong(expected)),
        }
    }

    /// Reads a duration; zero is refused.
    pub(super) fn duration(&self) -> Result<Duration, ProfileError> {
        let text = self.with_unit("a duration such as \"15s\"")?;
        parse_duration(&text).map_err(|why| self.fault(Fault::Duration { key: self.key(), why }))
    }

    /// Reads a duration for which zero, with a unit, means none.
    pub(super) fn duration_or_none(&self) -> Result<Duration, ProfileError> {
        match self.duration() {
            Err(ProfileError { fault: Fault::Duration { why: NotADuration::Zero { text }, .. }, .. })
                if text.ends_with(|c: char| c.is_ascii_alphabetic()) =>
            {
                Ok(Duration::ZERO)
            }
            read => read,
        }
    }

    /// Reads a size in bytes.
    pub(super) fn size(&self) -> Result<usize, ProfileError> {
        let text = self.with_unit("a size such as \"64KiB\"")?;
        let size = parse_size(&text).map_err(|why| self.fault(Fault::Size { key: self.key(), why }))?;
        usize::try_from(size).map_err(|_| self.refused("is larger than this machine can hold", None))
    }

    /// Reads a rate per second.
    pub(super) fn rate(&self) -> Result<f64, ProfileError> {
        let text = self.with_unit("a rate such as \"20/s\"")?;
        parse_rate(&text).map_err(|why| self.fault(Fault::Rate { key: self.key(), why }))
    }

    /// Reads a JSON pointer.
    pub(super) fn pointer(&self) -> Result<Pointer, ProfileError> {
        let text = self.text()?;
        Pointer::new(text).ok_or_else(|| {
            let hint = format!("write \"/{}\"", text.trim_start_matches(['$', '.']).replace('.', "/"));
            self.refused("is no JSON pointer", Some(&hint))
        })
    }

    /// Reads a text, number or boolean as the text that JSON would have for it.
    pub(super) fn scalar(&self) -> Result<Box<str>, ProfileError> {
        match self.value {
            DeValue::String(text) => Ok(text.as_ref().into()),
            DeValue::Integer(number) => i64::from_str_radix(number.as_str(), number.radix())
                .map(|number| number.to_string().into())
                .map_err(|_| self.refused("is a number too large to compare", Some("write it in quotes"))),
            DeValue::Float(number) => Ok(number.as_str().into()),
            DeValue::Boolean(flag) => Ok(flag.to_string().into()),
            _ => Err(self.wrong("a text, a number, true or false")),
        }
    }

    /// Reads one of the `names`.
    pub(super) fn one_of<T: Copy>(&self, names: &[(&str, T)]) -> Result<T, ProfileError> {
        let text = self.text()?;
        names.iter().find(|(name, _)| *name == text).map(|(_, value)| *value).ok_or_else(|| {
            let list: Vec<&str> = names.iter().map(|(name, _)| *name).collect();
            self.refused(format!("is \"{text}\", it must be one of {}", list.join(", ")), None)
        })
    }
}
