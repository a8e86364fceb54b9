//! Measured limits, written into the text of a profile: whatever else stands in it stays as it is.

use super::Profile;
use crate::engine::moment::Timestamp;
use crate::engine::operation::Method;
use crate::engine::policy::Timeouts;
use crate::engine::suggest::rounding::show_three_digits;
use crate::engine::units::show_duration;
use std::fmt;
use std::time::Duration;
use toml_edit::{ArrayOfTables, DocumentMut, InlineTable, Item, Table, TableLike, Value};
use url::Url;

/// The endpoint that was measured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Measured {
    /// The method.
    pub method: Method,
    /// The path below `base_url`.
    pub path: Box<str>,
    /// Which `[[endpoint]]` is about it, from 0; `None`: none is yet.
    pub endpoint: Option<usize>,
}

/// What was found out about an endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Findings {
    /// The limits in force.
    pub current: Timeouts,
    /// The limits to be in force.
    pub proposed: Timeouts,
    /// When.
    pub at: Timestamp,
    /// How many answers.
    pub samples: u64,
    /// How many were given up.
    pub censored: u64,
    /// The time from the first to the last; `None` where it is unknown.
    pub span: Option<Duration>,
    /// What they stand for.
    pub grade: &'static str,
    /// Latencies by the name under which they stand in `[measured]`, where they are known.
    pub latencies: Vec<(&'static str, Option<Duration>)>,
    /// The limits are to be read as "at least".
    pub thin: bool,
    /// What the profile calls the file that holds all samples: relative to its own folder, or absolute.
    pub hlog: Option<String>,
}

/// Why a profile is not edited.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotEdited {
    /// It is no TOML any more.
    NotToml,
    /// It is written in a way that is not edited: the place.
    Form(&'static str),
}

impl fmt::Display for NotEdited {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NotEdited::NotToml => f.write_str("it is no TOML"),
            NotEdited::Form("endpoint") => f.write_str("its endpoints are a list in brackets, which is not edited"),
            NotEdited::Form(place) => write!(f, "its {place} is no table, and is not edited"),
        }
    }
}

impl std::error::Error for NotEdited {}

impl Findings {
    /// Returns findings that change every limit in force, and name all that may be measured: whether a profile can be
    /// edited does not depend on what is found.
    pub fn rehearsal(current: &Timeouts) -> Findings {
        let twice = |limit: Duration| limit.saturating_mul(2);
        let Timeouts { connect, read, attempt, overall, .. } = *current;
        let (connect, read, attempt, overall) = (twice(connect), twice(read), twice(attempt), twice(overall));
        let (at, samples, censored, span, grade, thin) = (Timestamp::default(), 1, 0, None, "snapshot", true);
        let proposed = Timeouts { connect, read, attempt, overall, ..*current };
        Findings {
            current: *current,
            proposed,
            at,
            samples,
            censored,
            span,
            grade,
            latencies: Vec::new(),
            thin,
            hlog: None,
        }
    }
}

impl Profile {
    /// Returns which endpoint a request is about.
    pub fn measured(&self, method: &Method, url: &Url) -> Measured {
        let path = self.base.as_ref().map_or(url.path(), |base| base.below(url));
        let endpoint = self.endpoints.iter().position(|endpoint| endpoint.fits(method, path));
        Measured { method: method.clone(), path: path.into(), endpoint }
    }

    /// Returns whether the endpoint that was measured is one for all methods.
    pub fn is_for_every_method(&self, measured: &Measured) -> bool {
        let endpoint = measured.endpoint.and_then(|at| self.endpoints.get(at));
        endpoint.is_some_and(|endpoint| endpoint.method.is_none())
    }
}

/// Returns the text of a profile with the findings in the section of the endpoint that was measured, which is added at
/// the end where there is none. Comments and layout stay; limits that do not change are not written.
///
/// # Errors
/// [`NotEdited`]; nothing was changed.
pub fn rewritten(text: &str, measured: &Measured, findings: &Findings) -> Result<String, NotEdited> {
    const MARK: char = '\u{feff}';
    let plain = text.strip_prefix(MARK).unwrap_or(text);
    let mark = if plain.len() < text.len() { String::from(MARK) } else { String::new() };
    // What comes from Windows goes back as it came.
    let is_windows = plain.contains("\r\n") && plain.matches("\r\n").count() == plain.matches('\n').count();
    let edited = edited(&if is_windows { plain.replace("\r\n", "\n") } else { plain.to_owned() }, measured, findings)?;
    Ok(mark + &if is_windows { edited.replace('\n', "\r\n") } else { edited })
}

fn edited(text: &str, measured: &Measured, findings: &Findings) -> Result<String, NotEdited> {
    let mut document: DocumentMut = text.parse().map_err(|_| NotEdited::NotToml)?;
    let endpoints = document.entry("endpoint").or_insert(Item::ArrayOfTables(ArrayOfTables::new()));
    let endpoints = endpoints.as_array_of_tables_mut().ok_or(NotEdited::Form("endpoint"))?;
    let at = match measured.endpoint {
        Some(at) => at,
        None => {
            let mut endpoint = Table::new();
            endpoint.insert("method", Item::Value(measured.method.as_str().into()));
            endpoint.insert("path", Item::Value((&*measured.path).into()));
            endpoints.push(endpoint);
            endpoints.len() - 1
        }
    };
    let endpoint = endpoints.get_mut(at).ok_or(NotEdited::Form("endpoint"))?;
    let limits = limits(findings);
    if !limits.is_empty() {
        let timeouts = section(endpoint, "timeouts")?;
        limits.into_iter().for_each(|(name, limit)| set(timeouts, name, show_duration(limit).into()));
    }
    let measured = section(endpoint, "measured")?;
    // What was measured before does not stay beside what was measured now.
    let old: Vec<String> = measured.iter().map(|(name, _)| name.to_owned()).collect();
    let new = values(findings);
    let stays = |name: &String| new.iter().any(|(new, _)| new == name);
    let gone: Vec<String> = old.into_iter().filter(|old| !stays(old)).collect();
    new.into_iter().for_each(|(name, value)| set(measured, name, value));
    gone.iter().for_each(|name| remove(measured, name));
    Ok(document.to_string())
}

/// Returns the limits that change.
fn limits(findings: &Findings) -> Vec<(&'static str, Duration)> {
    let Findings { current, proposed, .. } = findings;
    let all = [
        ("connect", current.connect, proposed.connect),
        ("read", current.read, proposed.read),
        ("attempt", current.attempt, proposed.attempt),
        ("overall", current.overall, proposed.overall),
    ];
    all.into_iter().filter(|(_, current, new)| current != new).map(|(name, _, new)| (name, new)).collect()
}

/// Returns what stands in `[measured]`, in the order of the contract.
fn values(findings: &Findings) -> Vec<(&'static str, Value)> {
    let count = |count: u64| i64::try_from(count).unwrap_or(i64::MAX).into();
    let grade = if findings.thin { format!("{}, at least", findings.grade) } else { findings.grade.to_owned() };
    let mut values = vec![
        ("at", findings.at.to_string().into()),
        ("samples", count(findings.samples)),
        ("censored", count(findings.censored)),
        ("grade", grade.into()),
    ];
    let span = std::iter::once(("span", findings.span));
    let known = span.chain(findings.latencies.iter().copied()).filter_map(|(name, latency)| Some((name, latency?)));
    // A duration of zero is none that a profile reads.
    let written = known.filter(|(_, latency)| *latency >= Duration::from_micros(1));
    values.extend(written.map(|(name, latency)| (name, show_three_digits(latency).into())));
    values.extend(findings.hlog.iter().map(|hlog| ("hlog", hlog.into())));
    values
}

/// Returns a section of an endpoint, which is added where there is none.
fn section<'a>(endpoint: &'a mut Table, name: &'static str) -> Result<&'a mut dyn TableLike, NotEdited> {
    let empty = || Item::Value(Value::InlineTable(InlineTable::new()));
    endpoint.entry(name).or_insert_with(empty).as_table_like_mut().ok_or(NotEdited::Form(name))
}

/// Sets a value, and leaves the blanks and comments around an old one.
fn set(table: &mut dyn TableLike, name: &str, mut value: Value) {
    match table.get_mut(name).and_then(Item::as_value_mut) {
        Some(old) => {
            *value.decor_mut() = old.decor().clone();
            *old = value;
        }
        None => drop(table.insert(name, Item::Value(value))),
    }
}

/// Removes a value. What people wrote before and behind it goes before the next one.
fn remove(table: &mut dyn TableLike, name: &str) {
    let names: Vec<String> = table.iter().map(|(name, _)| name.to_owned()).collect();
    let at = names.iter().position(|other| other == name);
    let next = at.and_then(|at| names.get(at + 1)).or_else(|| names.first()).filter(|next| *next != name);
    let before = table.key(name).and_then(|key| key.leaf_decor().prefix()?.as_str()).unwrap_or_default().to_owned();
    let value = table.get(name).and_then(Item::as_value);
    let behind = value.and_then(|value| value.decor().suffix()?.as_str()).unwrap_or_default().trim();
    let behind = if behind.is_empty() { String::new() } else { format!("{behind}\n") };
    let comments = if before.contains('#') || !behind.is_empty() { before + &behind } else { String::new() };
    table.remove(name);
    if let Some(mut next) = next.filter(|_| comments.contains('#')).and_then(|next| table.key_mut(next)) {
        let decor = next.leaf_decor_mut();
        let own = decor.prefix().and_then(|prefix| prefix.as_str()).unwrap_or_default().to_owned();
        decor.set_prefix(comments + &own);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(endpoint: Option<usize>) -> Measured {
        Measured { method: Method::new("GET").expect("a method"), path: "/orders/*".into(), endpoint }
    }

    fn findings() -> Findings {
        let current = Timeouts::default();
        let seconds = Duration::from_secs;
        Findings {
            current,
            proposed: Timeouts { read: Duration::from_millis(5_800), overall: seconds(90), ..current },
            at: "2026-11-30T10:00:00.000Z".parse().expect("a time"),
            samples: 299,
            censored: 1,
            span: Some(seconds(86_400)),
            grade: "day",
            latencies: vec![
                ("p50", Some(Duration::from_micros(440_123))),
                ("p99", None),
                ("min", Some(Duration::ZERO)),
            ],
            thin: false,
            hlog: None,
        }
    }

    #[test]
    fn a_measured_endpoint_keeps_its_comments_and_layout() {
        let text = "\
# Acme.
version = 1

[timeouts]
read = '15s' # for all

[[endpoint]]
path   = '/orders/*'   # the slow one
timeouts = { read = \"40s\", body = \"1s\" } # by hand

  [endpoint.measured]
  p50 = '3s'     # old
  p95 = '9s'

[[endpoint]]
path = '/other'
";
        let expected = "\
# Acme.
version = 1

[timeouts]
read = '15s' # for all

[[endpoint]]
path   = '/orders/*'   # the slow one
timeouts = { read = \"5.8s\", body = \"1s\" , overall = \"1m30s\" } # by hand

  [endpoint.measured]
  p50 = \"440ms\"     # old
at = \"2026-11-30T10:00:00.000Z\"
samples = 299
censored = 1
grade = \"day\"
span = \"1d\"

[[endpoint]]
path = '/other'
";
        let found = rewritten(text, &measured(Some(0)), &findings()).expect("edits");
        assert_eq!(found.replace("\"1s\", overall", "\"1s\" , overall"), expected);
    }

    #[test]
    fn an_endpoint_that_is_new_stands_at_the_end() {
        let found = rewritten("version = 1 # one\n", &measured(None), &findings()).expect("edits");
        assert!(
            found.starts_with("version = 1 # one\n\n[[endpoint]]\nmethod = \"GET\"\npath = \"/orders/*\"\n"),
            "{found}"
        );
        assert!(found.contains("timeouts = { read = \"5.8s\", overall = \"1m30s\" }"), "{found}");
        let thin = Findings { thin: true, ..findings() };
        let found = rewritten("", &measured(None), &thin).expect("edits");
        assert!(found.contains("grade = \"day, at least\""), "{found}");
    }

    #[test]
    fn the_file_with_all_samples_is_named_whatever_it_is_called_and_goes_with_them() {
        let named = |text: &str, hlog: Option<&str>| {
            let findings = Findings { hlog: hlog.map(Into::into), ..findings() };
            rewritten(text, &measured(Some(0)), &findings).expect("edits")
        };
        let mut text = "[[endpoint]]\npath = '/a'\n".to_owned();
        for name in ["a.hlog", "/it's #1 \"\"\" '''\\u0041${HOME} ü.hlog"] {
            text = named(&text, Some(name));
            let read: DocumentMut = text.parse().expect("TOML");
            assert_eq!(read["endpoint"][0]["measured"]["hlog"].as_str(), Some(name), "{text}");
        }
        assert!(!named(&text, None).contains("hlog"), "what is measured now does not lie there");
    }

    #[test]
    fn comments_of_values_that_go_stay() {
        let text = "\
[[endpoint]]
path = '/a'

[endpoint.measured]
p50 = '3s'
# Bob saw this on a Friday.
p95 = '9s' # too long
# The slowest.
max = '10s' # one of them
";
        let expected = "\
[[endpoint]]
path = '/a'
timeouts = { read = \"5.8s\", overall = \"1m30s\" }

[endpoint.measured]
p50 = \"440ms\"
# Bob saw this on a Friday.
# too long
# The slowest.
# one of them
at = \"2026-11-30T10:00:00.000Z\"
samples = 299
censored = 1
grade = \"day\"
span = \"1d\"
";
        assert_eq!(rewritten(text, &measured(Some(0)), &findings()).as_deref(), Ok(expected));
    }

    #[test]
    fn line_ends_of_windows_and_its_mark_stay() {
        let text = "\u{feff}version = 1\r\n# both\r\n\r\n[[endpoint]]\r\npath = '/a' # one\r\n";
        let found = rewritten(text, &measured(Some(0)), &findings()).expect("edits");
        assert!(found.starts_with(text), "{found:?}");
        assert_eq!(found.matches('\n').count(), found.matches("\r\n").count());
        assert!(found.matches('\n').count() > 6, "{found:?}");
    }

    #[test]
    fn what_is_not_edited_is_said() {
        assert_eq!(rewritten("a = ", &measured(None), &findings()), Err(NotEdited::NotToml));
        assert_eq!(rewritten("endpoint = []", &measured(None), &findings()), Err(NotEdited::Form("endpoint")));
        let text = "[[endpoint]]\npath = '/'\ntimeouts = 3\n";
        assert_eq!(rewritten(text, &measured(Some(0)), &findings()), Err(NotEdited::Form("timeouts")));
    }
}
