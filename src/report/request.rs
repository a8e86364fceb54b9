//! A request as text: as a curl line, and as what a dry run shows. Secrets are masked.

use abide::engine::operation::Operation;
use abide::engine::secret::Mask;
use abide::engine::units::show_rounded;
use std::time::Duration;

/// Returns `word` as one word of a POSIX shell.
pub fn shell_word(word: &str) -> String {
    let is_plain = !word.is_empty() && word.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_./:=@%+,".contains(&b));
    if is_plain { word.to_owned() } else { format!("'{}'", word.replace('\'', r"'\''")) }
}

/// Returns a curl line that sends the same request once, within `limit`; masked values stand as `***`. `way` holds the
/// words that say how the partner is reached and trusted.
pub fn curl_line(operation: &Operation, way: &[String], limit: Duration, mask: &Mask) -> String {
    let request = &operation.request;
    let mut words = vec!["curl".to_owned()];
    let has_body = !request.body.is_empty();
    match request.method.as_str() {
        "GET" if !has_body => {}
        "POST" if has_body => {}
        "HEAD" => words.push("--head".into()),
        method => words.extend(["-X".into(), method.to_owned()]),
    }
    words.extend(["--max-time".into(), format!("{}", limit.as_secs_f64())]);
    words.extend(way.iter().map(|word| shell_word(word)));
    words.push(shell_word(&request.url.shown));
    for header in &request.headers {
        words.extend(["-H".into(), shell_word(&format!("{}: {}", header.name, mask.hide(&header.value.shown)))]);
    }
    if has_body && !request.headers.iter().any(|header| header.name.eq_ignore_ascii_case("content-type")) {
        // Without this curl would invent one.
        words.extend(["-H".into(), "'Content-Type:'".into()]);
    }
    if has_body {
        match std::str::from_utf8(&request.body).ok().filter(|text| !text.contains('\0')) {
            Some(text) => words.extend(["--data-raw".into(), shell_word(&mask.hide(text))]),
            None => words.extend(["--data-binary".into(), "@BODY_FILE".into()]),
        }
    }
    words.join(" ")
}

/// What a dry run tells beside the request.
#[derive(Clone, Copy, Debug)]
pub struct Rehearsed<'a> {
    /// Where it would be recorded; `None` for nowhere.
    pub ledger: Option<&'a str>,
    /// The profile's file.
    pub profile: Option<&'a str>,
    /// The key was made now and would be another one next time.
    pub fresh_key: bool,
    /// The proxy that would be passed by, without its credentials, and who named it.
    pub proxy: Option<&'a str>,
    /// How long the run might take.
    pub deadline: Duration,
    /// Attempts of the run.
    pub max_attempts: u32,
    /// The secrets.
    pub mask: &'a Mask,
}

/// Bodies are shown up to this length in bytes.
const SHOWN_BODY: usize = 1024;

/// Returns what would be sent and recorded.
pub fn dry_run(operation: &Operation, told: &Rehearsed<'_>) -> String {
    let request = &operation.request;
    let mut lines = vec![format!("{} {}", request.method, request.url.shown)];
    let shown =
        request.headers.iter().map(|header| format!("{}: {}", header.name, told.mask.hide(&header.value.shown)));
    lines.extend(shown);
    lines.push(String::new());
    lines.push(match std::str::from_utf8(&request.body) {
        Ok("") => "(no body)".into(),
        Ok(text) if text.len() <= SHOWN_BODY => told.mask.hide(text),
        _ => format!("({} bytes of body)", request.body.len()),
    });
    lines.push(String::new());
    let fresh = if told.fresh_key { " (made now; another one is made when it is sent)" } else { "" };
    lines.push(format!("key          {}{fresh}", operation.key));
    lines.push(format!("partner      {}", operation.partner));
    lines.push(format!("fingerprint  {}", operation.fingerprint));
    lines.push(format!("profile      {}", told.profile.unwrap_or("none")));
    lines.push(format!("proxy        {}", told.proxy.unwrap_or("none")));
    lines.push(format!("ledger       {}", told.ledger.unwrap_or("none")));
    lines.push(format!("deadline     {}, at most {} attempts", show_rounded(told.deadline), told.max_attempts));
    lines.push("nothing was sent, and the ledger was not looked at".into());
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use abide::engine::operation::{
        Announce, Fingerprint, Guarded, Header, IdempotencyKey, Method, PartnerName, Request,
    };
    use abide::engine::secret::Secret;
    use std::sync::Arc;

    fn operation(method: &str, body: &[u8]) -> Operation {
        let secret = Guarded { sent: Secret::new("Bearer sk-1"), stored: "$masked".into(), shown: "***".into() };
        let headers = vec![
            Header { name: "Authorization".into(), value: secret },
            Header { name: "X-Name".into(), value: Guarded::plain("O'Neil") },
        ];
        let request = Request {
            method: Method::new(method).expect("a method"),
            url: Guarded::plain("http://h/a?b=c&d=e"),
            headers,
            body: body.into(),
        };
        Operation {
            partner: PartnerName::new("h").expect("a name"),
            key: IdempotencyKey::new("k1", 255).expect("a key"),
            fingerprint: Fingerprint("v1:0".into()),
            request: Arc::new(request),
            status_headers: Arc::new([]),
            announce: Announce::default(),
        }
    }

    #[test]
    fn the_curl_line_is_quoted_and_masked() {
        let way = ["--cacert", "my ca.pem", "-L"].map(String::from);
        let line = curl_line(&operation("POST", b"@it's"), &way, Duration::from_millis(1500), &Mask::default());
        assert_eq!(
            line,
            r"curl --max-time 1.5 --cacert 'my ca.pem' -L 'http://h/a?b=c&d=e' -H 'Authorization: ***' -H 'X-Name: O'\''Neil' -H 'Content-Type:' --data-raw '@it'\''s'"
        );
        let line = curl_line(&operation("DELETE", b""), &[], Duration::from_secs(1), &Mask::default());
        assert!(line.starts_with("curl -X DELETE --max-time 1 "), "{line}");
    }

    #[test]
    fn words_are_quoted_only_where_a_shell_needs_it() {
        for (word, expected) in [("", "''"), ("k-1", "k-1"), ("a b", "'a b'"), ("$(x)", "'$(x)'"), ("é", "'é'")] {
            assert_eq!(shell_word(word), expected);
        }
    }
}
