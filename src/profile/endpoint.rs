//! `[[endpoint]]`: rules for some paths.

use super::Reading;
use super::error::ProfileError;
use super::headers;
use super::known;
use super::raw::{Field, Section};
use super::rules;
use super::sections;
use crate::engine::measured::Measured;
use crate::engine::operation::Method;
use crate::engine::policy::{BodyRule, ClassifyRules, Idempotency, KeyPlace, MIN_ATTEMPT, StatusPolicy, Timeouts};
use std::path::PathBuf;
use std::time::Duration;

/// The rules that an endpoint can override.
#[derive(Clone, Debug, Default)]
pub(super) struct Rules {
    pub(super) timeouts: Timeouts,
    pub(super) idempotency: Idempotency,
    pub(super) status: Option<StatusPolicy>,
    pub(super) success: Option<BodyRule>,
    pub(super) classify: ClassifyRules,
    /// The measured p50.
    pub(super) p50: Option<Duration>,
    /// What else was measured.
    pub(super) measured: Measured,
    /// The file that holds all of it.
    pub(super) recording: Option<PathBuf>,
}

impl Rules {
    /// Reads the sections that `section` has, over `common`. `[timeouts]`, `[idempotency]` and `[classify]` override
    /// key by key; `[status]` and `[success]` as a whole.
    pub(super) fn read(
        section: &Section<'_>,
        common: &Rules,
        reading: &mut Reading<'_>,
    ) -> Result<Rules, ProfileError> {
        let mut rules = common.clone();
        if let Some(section) = section.section("timeouts", known::TIMEOUTS)? {
            rules.timeouts = sections::timeouts(&section, common.timeouts)?;
        }
        if let Some(section) = section.section("idempotency", known::IDEMPOTENCY)? {
            rules.idempotency = sections::idempotency(&section, &common.idempotency)?;
        }
        if let Some(section) = section.section("status", known::STATUS)? {
            rules.status = Some(rules::status(&section, reading)?);
        }
        if let Some(section) = section.section("success", known::SUCCESS)? {
            rules.success = Some(rules::success(&section)?);
        }
        if let Some(section) = section.section("classify", known::CLASSIFY)? {
            rules.classify = rules::classify(&section, &common.classify)?;
        }
        if let Some(section) = section.section("breaker", known::BREAKER)? {
            sections::breaker(&section)?;
        }
        if let Some(section) = section.section("measured", known::MEASURED)? {
            (rules.p50, rules.measured) = sections::measured(&section)?;
            rules.recording = sections::recording(&section, reading)?;
        }
        Ok(rules)
    }

    /// Returns the least time worth starting an attempt with: the measured p50 where one is known, but never more
    /// than an attempt may take.
    ///
    /// Source: decisions 19.
    pub(super) fn min_attempt(&self) -> Duration {
        self.p50.map_or(MIN_ATTEMPT, |p50| p50.min(self.timeouts.attempt).min(self.timeouts.overall))
    }

    /// Returns the header that carries the key, if one does.
    pub(super) fn key_header(&self) -> Option<&str> {
        match &self.idempotency.place {
            KeyPlace::Header(name) => name.as_deref(),
            KeyPlace::Query(_) | KeyPlace::Body => None,
        }
    }
}

/// Rules for some paths.
#[derive(Clone, Debug)]
pub(super) struct Endpoint {
    /// `None`: any.
    pub(super) method: Option<Method>,
    /// Starts with `/`; `*` stands for one segment.
    pub(super) path: Box<str>,
    /// The common rules with this endpoint's over them.
    pub(super) rules: Rules,
}

impl Endpoint {
    /// Reads one `[[endpoint]]`.
    pub(super) fn read(
        section: &Section<'_>,
        common: &Rules,
        reading: &mut Reading<'_>,
    ) -> Result<Endpoint, ProfileError> {
        let method = match section.get("method") {
            Some(field) => Some(Method::new(field.text()?).ok_or_else(|| field.refused("is no HTTP method", None))?),
            None => None,
        };
        let Some(path) = section.get("path") else {
            return Err(section.missing("path", "an endpoint says which paths it is about"));
        };
        Ok(Endpoint { method, path: path_pattern(&path)?, rules: Rules::read(section, common, reading)? })
    }

    /// Returns whether these rules are for `method` and `path`, which is relative to `base_url`.
    pub(super) fn fits(&self, method: &Method, path: &str) -> bool {
        let same_path = || {
            let mut wanted = self.path.split('/');
            let mut given = path.split('/');
            loop {
                match (wanted.next(), given.next()) {
                    (None, None) => return true,
                    (Some("*"), Some(segment)) if !segment.is_empty() => {}
                    (Some(one), Some(other)) if one == other => {}
                    _ => return false,
                }
            }
        };
        self.method.as_ref().is_none_or(|own| own == method) && same_path()
    }
}

fn path_pattern(field: &Field<'_>) -> Result<Box<str>, ProfileError> {
    let path = field.text()?;
    if !path.starts_with('/') || headers::check_value(path).is_err() || path.contains([' ', '?', '#']) {
        return Err(field.refused("must start with / and hold no blank, query or fragment", None));
    }
    if path.split('/').any(|segment| segment.contains('*') && segment != "*") {
        return Err(field.refused("has a * inside a segment: it matches one whole segment", None));
    }
    Ok(path.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_matches_one_segment() {
        let endpoint =
            |path: &str| Endpoint { method: Method::new("POST"), path: path.into(), rules: Rules::default() };
        let post = Method::new("post").expect("a method");
        for (pattern, path, fits) in [
            ("/orders", "/orders", true),
            ("/orders", "/orders/", false),
            ("/orders", "/orders/1", false),
            ("/orders/*", "/orders/1", true),
            ("/orders/*", "/orders/", false),
            ("/orders/*", "/orders/1/2", false),
            ("/*/refund", "/orders/refund", true),
        ] {
            assert_eq!(endpoint(pattern).fits(&post, path), fits, "{pattern} {path}");
        }
        assert!(!endpoint("/orders").fits(&Method::new("GET").expect("a method"), "/orders"));
    }
}
