//! The command line that continues an operation, where it is safe to show.

use crate::report::request::shell_word;
use abide::engine::facts::{Opened, StoredBody};
use abide::engine::operation::{IdempotencyKey, Request};
use abide::engine::secret::Mask;
use std::path::Path;

/// Longer lines are not repeated, in bytes: nobody reads them.
const LONGEST: usize = 600;

/// Returns the words of this process with `--key KEY`, or `None` where they hold a secret, stdin, or too much.
pub fn same_send(argv: &[String], key: &IdempotencyKey, request: &Request, mask: &Mask) -> Option<String> {
    let words = argv.get(1..)?;
    let is_secret = |word: &str| {
        // Short secrets are not known to the mask.
        let headers = request.headers.iter().filter(|header| header.value.is_secret());
        mask.finds(word.as_bytes())
            || headers.map(|header| header.value.sent.expose()).any(|sent| word.contains(sent))
            || (request.url.is_secret() && word.contains(['?', '@']))
    };
    let mut line = "abide".to_owned();
    let mut has_key = false;
    let mut skip = false;
    for (at, word) in words.iter().enumerate() {
        if std::mem::take(&mut skip) {
            continue;
        }
        let next = words.get(at + 1).map(String::as_str);
        if is_unrepeatable(word, next) || is_secret(word) {
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

#[cfg(test)]
mod tests {
    use super::*;
    use abide::engine::operation::{Guarded, Header, Method};
    use abide::engine::secret::Secret;

    fn line(words: &[&str]) -> Option<String> {
        let secret = Guarded { sent: Secret::new("abc"), stored: "$masked".into(), shown: "***".into() };
        let request = Request {
            method: Method::new("POST").expect("a method"),
            url: Guarded::plain("http://h/"),
            headers: vec![Header { name: "X-Api-Key".into(), value: secret }],
            body: [].into(),
        };
        let argv: Vec<String> = ["abide"].iter().chain(words).map(|word| (*word).to_owned()).collect();
        let mut mask = Mask::default();
        mask.add("sk-live-77aa");
        same_send(&argv, &IdempotencyKey::new("k$1", 255).expect("a key"), &request, &mask)
    }

    #[test]
    fn the_line_is_repeated_with_the_key_and_quoted_for_a_shell() {
        let cases: &[(&[&str], &str)] = &[
            (&["send", "http://h/", "-d", "a b"], "abide send --key 'k$1' http://h/ -d 'a b'"),
            (&["send", "http://h/", "--key", "k$1"], "abide send http://h/ --key 'k$1'"),
            (&["send", "http://h/", "--key=k"], "abide send http://h/ --key=k"),
            (&["send", "--key-from", "/id", "http://h/"], "abide send --key-from /id http://h/"),
            (&["-v", "send", "http://h/", "--accept-duplicate"], "abide -v send --key 'k$1' http://h/"),
            (&["send", "http://h/", "--events", "e.jsonl"], "abide send --key 'k$1' http://h/"),
        ];
        for (words, expected) in cases {
            assert_eq!(line(words).as_deref(), Some(*expected));
        }
    }

    #[test]
    fn what_holds_a_secret_or_came_by_a_pipe_is_not_repeated() {
        let long = "x".repeat(LONGEST);
        let cases: &[&[&str]] = &[
            &["send", "http://h/?k=sk-live-77aa"],
            &["send", "http://h/", "-H", "X-Api-Key: abc"],
            &["send", "http://h/", "-u", "bob:pw"],
            &["send", "http://h/", "-ubob:pw"],
            &["send", "http://h/", "--user=bob:pw"],
            &["send", "http://h/", "-d", "-"],
            &["send", "http://h/", "--json", "@-"],
            &["send", "http://h/", "-d", &long],
            &["send", "http://h/", "-d", "two\nlines"],
        ];
        for words in cases {
            assert_eq!(line(words), None, "{words:?}");
        }
    }

    #[test]
    fn a_record_is_repeated_only_where_the_ledger_holds_it_all() {
        use abide::engine::facts::{Owner, Why};
        use abide::engine::moment::Timestamp;
        use abide::engine::operation::{Fingerprint, PartnerName};
        let opened = |url: &str, body: StoredBody| Opened {
            partner: PartnerName::new("acme").expect("a name"),
            profile: Some("/p.toml".into()),
            account: None,
            method: "POST".into(),
            url: url.into(),
            headers: vec![("Content-Type".into(), "application/json".into())],
            fp: Fingerprint("v1:0".into()),
            body,
            contract: "none".into(),
            key_until: None,
            valid_until: None,
            deadline: Timestamp::default(),
            why: Why::Send,
            owner: Owner::default(),
        };
        let key = IdempotencyKey::new("k1", 255).expect("a key");
        let line = |opened: &Opened| from_record(opened, &key, Some(Path::new("/l.jsonl")));
        assert_eq!(
            line(&opened("http://h/", StoredBody::Text("{}".into()))).as_deref(),
            Some("abide send -p /p.toml --ledger /l.jsonl --key k1 POST http://h/ --json '{}'")
        );
        assert_eq!(line(&opened("http://h/?token=***", StoredBody::Text("{}".into()))), None);
        let blob = StoredBody::Blob { sha: "0".into(), len: 9 };
        assert_eq!(line(&opened("http://h/", blob)), None);
    }
}
