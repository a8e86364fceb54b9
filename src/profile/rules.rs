//! What answers mean: `[status]`, `[success]`, `[classify]`.

use super::Reading;
use super::address;
use super::error::ProfileError;
use super::expand::{self, Piece};
use super::headers;
use super::known;
use super::raw::{Field, Section};
use crate::engine::json::Pointer;
use crate::engine::operation::Method;
use crate::engine::policy::{
    BodyRule, ClassifyRules, Control, Means, Rule, StatusPolicy, StatusRule, UrlPart, UrlTemplate, ValueRule,
};
use std::sync::Arc;

/// The HTTP statuses that an answer can have.
const STATUSES: std::ops::RangeInclusive<u32> = 100..=599;

/// Reads `[status]`.
pub(super) fn status(section: &Section<'_>, reading: &mut Reading<'_>) -> Result<StatusPolicy, ProfileError> {
    let Some(confirmed) = section.get("confirmed") else {
        return Err(section.missing("confirmed", "without it no answer proves that an operation happened"));
    };
    let Some(url) = section.get("url") else {
        return Err(section.missing("url", "a status request needs an address"));
    };
    let optional = |key| section.get(key).map(|field| status_rule(&field)).transpose();
    let policy = StatusPolicy {
        method: status_method(section)?,
        url: url_template(&url, reading)?,
        confirmed: status_rule(&confirmed)?,
        rejected: optional("rejected")?,
        in_progress: optional("in_progress")?,
        absent: optional("absent")?,
        control: None,
        settle: section.duration("settle")?,
    };
    for (key, rule) in [("in_progress", &policy.in_progress), ("absent", &policy.absent)] {
        if rule.as_ref().is_some_and(|rule| !rule.same.is_empty()) {
            let field = section.get(key).expect("the rule was read from it");
            return Err(field.refused("has `same`, which guards only confirmed and rejected", None));
        }
    }
    let control = section.get("control_key").map(|field| control(&field, &policy.url)).transpose()?;
    Ok(StatusPolicy { control, ..policy })
}

fn status_method(section: &Section<'_>) -> Result<Box<str>, ProfileError> {
    let Some(field) = section.get("method") else { return Ok("GET".into()) };
    match Method::new(field.text()?) {
        Some(method) if method.is_safe() => Ok(method.as_str().into()),
        _ => Err(field.refused("must be a safe method: GET, HEAD or OPTIONS", None)),
    }
}

fn control(field: &Field<'_>, url: &UrlTemplate) -> Result<Control, ProfileError> {
    let key = field.text()?;
    if key.is_empty() || !key.bytes().all(|b| b.is_ascii_graphic()) {
        return Err(field.refused("must be 1 or more visible ASCII characters", None));
    }
    if url.0.iter().any(|part| !matches!(part, UrlPart::Text(_) | UrlPart::Key)) {
        let why = "cannot be asked about: the url needs more of an operation than its key";
        return Err(field.refused(why, Some("take it out: the newest confirmed operation of the ledger serves")));
    }
    Ok(Control { key: key.into(), body: Arc::from([]), answer: None, location: None })
}

/// Reads a rule: a list of statuses, or a section.
fn status_rule(field: &Field<'_>) -> Result<StatusRule, ProfileError> {
    if field.is_list() {
        return Ok(StatusRule { statuses: statuses(field)?, value: None, same: Vec::new() });
    }
    let section = field.section(known::STATUS_RULE)?;
    let listed = section.get("status").map(|field| statuses(&field)).transpose()?;
    let value = value_rule(&section)?;
    if listed.is_none() && value.is_none() {
        let hint = "state a status, a pointer or both";
        return Err(section.refused("says nothing: it would hold for every 2xx answer", Some(hint)));
    }
    let same = match section.get("same") {
        Some(field) => field.items().iter().map(Field::pointer).collect::<Result<Vec<Pointer>, _>>()?,
        None => Vec::new(),
    };
    Ok(StatusRule { statuses: listed.unwrap_or_default(), value, same })
}

/// Reads `pointer` and `equals`.
fn value_rule(section: &Section<'_>) -> Result<Option<ValueRule>, ProfileError> {
    let equals = section.get("equals");
    let Some(pointer) = section.get("pointer") else {
        return match equals {
            Some(equals) => Err(equals.refused("has no pointer beside it", Some("say where: pointer = \"/state\""))),
            None => Ok(None),
        };
    };
    let values = match equals {
        Some(field) => {
            let values = field.items().iter().map(Field::scalar).collect::<Result<Vec<_>, _>>()?;
            if values.is_empty() {
                return Err(field.refused("is empty", Some("leave it out: any value counts then")));
            }
            values
        }
        None => Vec::new(),
    };
    Ok(Some(ValueRule { pointer: pointer.pointer()?, equals: values }))
}

/// Reads one status or a list of them; at least one.
fn statuses(field: &Field<'_>) -> Result<Vec<u16>, ProfileError> {
    let items = field.items();
    if items.is_empty() {
        return Err(field.refused("is empty", None));
    }
    items.iter().map(status_code).collect()
}

fn status_code(field: &Field<'_>) -> Result<u16, ProfileError> {
    Ok(u16::try_from(field.count(STATUSES)?).expect("the range fits"))
}

/// Reads the address of `[status]`. The values of variables are secrets and may hold no `{`.
fn url_template(field: &Field<'_>, reading: &mut Reading<'_>) -> Result<UrlTemplate, ProfileError> {
    let mut parts = Vec::new();
    for piece in expand::template(field)? {
        match piece {
            Piece::Text(text) => parts.extend(url_parts(field, text)?),
            Piece::Variable(name) => {
                let value = expand::variable(field, name, reading.world)?;
                reading.mask.add(&value);
                parts.push(UrlPart::Text(value.into()));
            }
        }
    }
    address::mask_query(field.text()?, &reading.secrets.query, |value| address::hide_value(value, &mut reading.mask));
    if parts.len() > 1 && parts.contains(&UrlPart::Location) {
        return Err(field.refused("has something beside {location}, which is a whole URL", None));
    }
    let starts = match parts.first() {
        Some(UrlPart::Text(text)) => ["/", "http://", "https://"].iter().any(|start| text.starts_with(start)),
        first => first == Some(&UrlPart::Location),
    };
    if !starts {
        let hint = "a path is joined to base_url";
        return Err(field.refused("must start with /, http:// or https://", Some(hint)));
    }
    let sendable = |c: char| !c.is_whitespace() && !c.is_control() && c != '#';
    let broken = |part: &UrlPart| matches!(part, UrlPart::Text(text) if !text.chars().all(sendable));
    if parts.iter().any(broken) {
        return Err(field.refused("has a blank, a control character or a fragment", None));
    }
    Ok(UrlTemplate(parts))
}

fn url_parts(field: &Field<'_>, text: &str) -> Result<Vec<UrlPart>, ProfileError> {
    const PLACES: &str = "the places are {key}, {body:/pointer}, {answer:/pointer} and {location}";
    let mut parts = Vec::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('{') {
        let Some((place, behind)) = after.split_once('}') else {
            return Err(field.refused("has a { without a }", Some(PLACES)));
        };
        if !before.is_empty() {
            parts.push(UrlPart::Text(before.into()));
        }
        let pointer = |text| Pointer::new(text).filter(|_| text.starts_with('/'));
        parts.push(match (place, place.split_once(':')) {
            ("key", _) => UrlPart::Key,
            ("location", _) => UrlPart::Location,
            (_, Some((kind @ ("body" | "answer"), text))) => match (kind, pointer(text)) {
                ("body", Some(pointer)) => UrlPart::Body(pointer),
                (_, Some(pointer)) => UrlPart::Answer(pointer),
                (_, None) => {
                    return Err(field.refused(format!("has {{{place}}}, whose pointer must start with /"), None));
                }
            },
            _ => return Err(field.refused(format!("has an unknown place {{{place}}}"), Some(PLACES))),
        });
        rest = behind;
    }
    if !rest.is_empty() {
        parts.push(UrlPart::Text(rest.into()));
    }
    Ok(parts)
}

/// Reads `[success]`.
pub(super) fn success(section: &Section<'_>) -> Result<BodyRule, ProfileError> {
    let content_type = match section.get("content_type") {
        Some(field) => {
            let text = field.text()?.trim();
            let bare = text.split_once('/').is_some_and(|(kind, sub)| !kind.is_empty() && !sub.is_empty());
            if !bare || text.contains([';', ' ', ',']) {
                let hint = "write \"application/json\"";
                return Err(field.refused("must be a media type without parameters", Some(hint)));
            }
            Some(text.to_ascii_lowercase().into())
        }
        None => None,
    };
    let rule = BodyRule { content_type, value: value_rule(section)? };
    if rule == BodyRule::default() {
        return Err(section.refused("says nothing: it would hold for every 2xx answer", Some("state a pointer")));
    }
    Ok(rule)
}

/// Reads `[classify]` over `common`, whose lists hold where this section has none.
pub(super) fn classify(section: &Section<'_>, common: &ClassifyRules) -> Result<ClassifyRules, ProfileError> {
    let mut rules = common.clone();
    let lists = [
        ("refused", &mut rules.refused),
        ("retry_in_doubt", &mut rules.retry_in_doubt),
        ("in_progress", &mut rules.in_progress),
    ];
    for (key, list) in lists {
        if let Some(field) = section.get(key) {
            *list = field.items().iter().map(status_code).collect::<Result<Vec<_>, _>>()?;
            if let Some(success) = list.iter().find(|status| (100..300).contains(*status)) {
                let hint = "a [[classify.rule]] can look into the answer";
                return Err(field.refused(format!("lists {success}, which is no error"), Some(hint)));
            }
        }
    }
    let named =
        [("refused", &rules.refused), ("retry_in_doubt", &rules.retry_in_doubt), ("in_progress", &rules.in_progress)];
    for (n, (key, list)) in named.iter().enumerate().rev() {
        for (other, others) in &named[..n] {
            if let Some(status) = list.iter().find(|status| others.contains(status)) {
                let why = format!("lists {status}, and so does `{other}`: it can mean one of them only");
                let field = section.get(key).or_else(|| section.get(other)).expect("this section states one");
                return Err(field.refused(why, None));
            }
        }
    }
    if let Some(field) = section.get("trust_proxy_status") {
        rules.trust_proxy_status = field.flag()?;
    }
    if let Some(field) = section.get("rule") {
        rules.rules = field.sections(known::RULE)?.iter().map(rule).collect::<Result<Vec<_>, _>>()?;
    }
    Ok(rules)
}

const MEANINGS: &[(&str, Means)] = &[
    ("confirmed", Means::Confirmed),
    ("accepted", Means::Accepted),
    ("rejected", Means::Rejected),
    ("refused", Means::Refused),
    ("in_progress", Means::InProgress),
    ("in_doubt", Means::InDoubt),
];

fn rule(section: &Section<'_>) -> Result<Rule, ProfileError> {
    let Some(means) = section.get("means") else {
        return Err(section.missing("means", "a rule says what the answer means"));
    };
    let rule = Rule {
        status: section.get("status").map(|field| status_code(&field)).transpose()?,
        header: section.get("header").map(|field| header_condition(&field)).transpose()?,
        value: value_rule(section)?,
        means: means.one_of(MEANINGS)?,
    };
    if rule.status.is_none() && rule.header.is_none() && rule.value.is_none() {
        let hint = "state a status, a header or a pointer";
        return Err(section.refused("has no condition: it would hold for every answer", Some(hint)));
    }
    Ok(rule)
}

/// Reads `Name: value`, or a bare name where any value counts. The name comes in lower case.
fn header_condition(field: &Field<'_>) -> Result<(Box<str>, Option<Box<str>>), ProfileError> {
    let text = field.text()?;
    let (name, value) = match text.split_once(':') {
        Some((name, value)) => (name.trim(), Some(value.trim())),
        None => (text.trim(), None),
    };
    let named = headers::check_name(name).is_ok() || name.eq_ignore_ascii_case("connection");
    if !named || value.is_some_and(|value| headers::check_value(value).is_err()) {
        return Err(field.refused("must be \"Name: value\" or \"Name\"", None));
    }
    Ok((name.to_ascii_lowercase().into(), value.map(Into::into)))
}

/// Reads `Name: value`. The name comes in lower case.
pub(super) fn header_and_value(field: &Field<'_>) -> Result<(Box<str>, Box<str>), ProfileError> {
    match header_condition(field)? {
        (name, Some(value)) => Ok((name, value)),
        _ => Err(field.refused("must be \"Name: value\"", None)),
    }
}
