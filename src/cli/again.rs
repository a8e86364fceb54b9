//! The command line that continues an operation, where it is safe to show.

use super::Session;
use crate::report::request::shell_word;
use abide::engine::facts::{Opened, StoredBody};
use abide::engine::operation::IdempotencyKey;
use abide::engine::secret::Mask;
use std::path::Path;

/// Longer lines are not repeated, in bytes: nobody reads them.
const LONGEST: usize = 600;

/// Returns the words of this process with `--key KEY`, or `None` where they hold a secret, stdin, or too much.
pub fn same_send(session: &Session, key: &IdempotencyKey, mask: &Mask) -> Option<String> {
    let words = session.argv.get(1..)?;
    let mut line = "abide".to_owned();
    let mut has_key = false;
    let mut skip = false;
    for (at, word) in words.iter().enumerate() {
        if std::mem::take(&mut skip) {
            continue;
        }
        let next = words.get(at + 1).map(String::as_str);
        if is_unrepeatable(word, next) || mask.finds(word.as_bytes()) {
            return None;
        }
        has_key |= is_key(word) || word.starts_with("--key-from");
        // A duplicate was accepted once; continuing it is not another one.
        if word == "--accept-duplicate" || word == "--no-wait" {
            continue;
        }
        if word == "--events" {
            skip = true;
            continue;
        }
        line += " ";
        line += &shell_word(word);
        if word == "send" && !has_key && !words.iter().any(|word| is_key(word) || word.starts_with("--key-from")) {
            line += &format!(" --key {}", shell_word(key.as_str()));
        }
    }
    (line.len() <= LONGEST && line.lines().count() == 1).then_some(line)
}

fn is_key(word: &str) -> bool {
    let name = word.split_once('=').map_or(word, |(name, _)| name);
    name == "--key" || name == "--idempotency-key"
}

/// Returns whether a word, followed by `next`, cannot be shown or typed again: credentials, and what came by a pipe.
fn is_unrepeatable(word: &str, next: Option<&str>) -> bool {
    let is_user = word == "-u" || word.starts_with("--user") || (word.starts_with("-u") && !word.starts_with("--"));
    let reads_stdin = |text: &str| text == "-" || text == "@-";
    let is_body = matches!(word, "-d" | "--data" | "--json");
    is_user
        || word.contains('\u{fffd}')
        || (is_body && next.is_some_and(reads_stdin))
        || matches!(word, "-d-" | "-d@-" | "--data=-" | "--data=@-" | "--json=-" | "--json=@-")
}

/// Returns a line that continues a recorded operation, or `None` where the ledger does not hold all that it needs.
///
/// Only what the fingerprint covers is repeated: what goes out are the stored bytes.
pub fn from_record(opened: &Opened, key: &IdempotencyKey, ledger: Option<&Path>) -> Option<String> {
    let is_reference = |text: &str| text.contains("$masked") || text.contains("$env:") || text.contains("***");
    if is_reference(&opened.url) || opened.account.is_some() && opened.profile.is_none() {
        return None;
    }
    let mut line = "abide send".to_owned();
    if let Some(profile) = &opened.profile {
        line += &format!(" -p {}", shell_word(profile));
    }
    if let Some(ledger) = ledger {
        line += &format!(" --ledger {}", shell_word(&ledger.display().to_string()));
    }
    line += &format!(" --key {} {} {}", shell_word(key.as_str()), opened.method, shell_word(&opened.url));
    let (_, content_type) = opened
        .headers
        .iter()
        .find(|(name, _)| name.eq_ignore_ascii_case("content-type"))
        .map_or((None, None), |(name, value)| (Some(name), Some(&**value)));
    match &opened.body {
        StoredBody::Text(text) if text.is_empty() => {}
        StoredBody::Text(text) if content_type == Some("application/json") => {
            line += &format!(" --json {}", shell_word(text));
        }
        StoredBody::Text(text) if text.starts_with('@') || &**text == "-" => return None,
        StoredBody::Text(text) => {
            if let Some(content_type) = content_type {
                line += &format!(" -H {}", shell_word(&format!("Content-Type: {content_type}")));
            }
            line += &format!(" -d {}", shell_word(text));
        }
        StoredBody::Bytes(_) | StoredBody::Blob { .. } | StoredBody::Hash { .. } => return None,
    }
    (line.len() <= LONGEST && line.lines().count() == 1).then_some(line)
}
