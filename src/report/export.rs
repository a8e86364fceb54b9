//! The ledger in columns that stay the same.

use super::known::Known;
use abide::engine::moment::Timestamp;
use serde_json::Value;

/// The columns, in order. New ones are added at the end; none is renamed or taken away.
pub const COLUMNS: [&str; 20] = [
    "key",
    "partner",
    "state",
    "verdict",
    "cause",
    "reason",
    "evidence",
    "side",
    "http",
    "attempts",
    "ms",
    "method",
    "url",
    "account",
    "opened_at",
    "updated_at",
    "retry_at",
    "key_until",
    "valid_until",
    "fingerprint",
];

/// Returns the values of [`COLUMNS`] for an operation; null where nothing is known.
pub fn row(known: &Known<'_>) -> [Value; COLUMNS.len()] {
    let opened = known.opened();
    let last = known.last();
    let settled = known.settled();
    let time = |at: Option<Timestamp>| at.map(|at| at.to_string()).into();
    let slug = |slug: Option<Value>| slug.unwrap_or(Value::Null);
    [
        known.key.as_str().into(),
        known.partner.as_str().into(),
        known.state.name().into(),
        known.state.verdict().map(|verdict| verdict.name()).into(),
        slug(settled.and_then(|settled| serde_json::to_value(settled.cause).ok())),
        last.map(|last| last.reason.name()).into(),
        last.map(|last| last.evidence.name()).into(),
        last.and_then(|last| last.side).map(|side| side.name()).into(),
        last.and_then(|last| last.http).into(),
        known.attempts().into(),
        last.map(|last| last.ms).into(),
        (*opened.method).into(),
        (*opened.url).into(),
        opened.account.as_deref().into(),
        time(known.opened_at()),
        time(known.updated_at()),
        time(settled.and_then(|settled| settled.retry_at)),
        time(known.key_until()),
        time(opened.valid_until),
        (*opened.fp.0).into(),
    ]
}

/// Returns a row as one JSON object, the columns in order.
pub fn json_line(row: &[Value; COLUMNS.len()]) -> String {
    let fields = COLUMNS.iter().zip(row).map(|(name, value)| format!("\"{name}\":{value}"));
    format!("{{{}}}", fields.collect::<Vec<_>>().join(","))
}

/// Returns the head line of a CSV file.
pub fn csv_head() -> String {
    COLUMNS.join(",")
}

/// Returns a row as a line of CSV.
///
/// Source: RFC 4180.
pub fn csv_line(row: &[Value; COLUMNS.len()]) -> String {
    let field = |value: &Value| match value {
        Value::Null => String::new(),
        Value::String(text) => quoted(text),
        other => other.to_string(),
    };
    row.iter().map(field).collect::<Vec<_>>().join(",")
}

fn quoted(text: &str) -> String {
    match text.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_cannot_break_the_table() {
        for (text, expected) in
            [("plain", "plain"), ("a,b", "\"a,b\""), ("say \"hi\"", "\"say \"\"hi\"\"\""), ("a\nb", "\"a\nb\"")]
        {
            assert_eq!(quoted(text), expected);
        }
    }
}
