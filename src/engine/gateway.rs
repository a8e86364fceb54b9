//! What an answer shows of those who passed it on: `Proxy-Status` (RFC 9209) and the fields that gateways add.

use super::exchange::Headers;

/// Errors of which RFC 9209 says that an intermediary made the answer itself, before the next one got the request.
///
/// Source: semantics.md 1.5; RFC 9209 section 2.3. `proxy_internal_error` may come at any time and is not among them.
const NOT_FORWARDED: &[&str] = &[
    "dns_timeout",
    "dns_error",
    "destination_not_found",
    "destination_unavailable",
    "destination_ip_prohibited",
    "destination_ip_unroutable",
    "connection_refused",
    "connection_timeout",
    "connection_limit_reached",
    "tls_certificate_error",
    "http_request_denied",
    "proxy_internal_response",
    "proxy_configuration_error",
    "proxy_loop_detected",
];

/// Fields that tell who passed an answer on, in lower case and in the order in which they are shown.
pub const EDGE_FIELDS: &[&str] =
    &["via", "server", "x-squid-error", "x-cache", "cf-ray", "x-amzn-errortype", "x-amzn-requestid", "x-amz-cf-id"];

/// No more of a field is shown, in characters.
const SHOWN_MAX: usize = 80;

/// What an intermediary reports in `Proxy-Status`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// The intermediary's name for itself.
    pub who: Box<str>,
    /// The type of the error.
    pub error: Box<str>,
    /// Its words.
    pub details: Option<Box<str>>,
    /// The intermediary nearest to the partner says that it never got the request to it.
    pub not_forwarded: bool,
}

impl Report {
    /// Reads the first error that the intermediaries report; the first of these is the nearest to the partner.
    ///
    /// A malformed field reports nothing.
    pub fn read(headers: &Headers) -> Option<Report> {
        let lines: Vec<&str> = headers.all("proxy-status").collect();
        let all = lines.join(",");
        let members = split(&all, ',')?;
        let with_error = |(at, member): (usize, &&str)| Report::of_member(member, at == 0);
        members.iter().enumerate().find_map(with_error)
    }

    fn of_member(member: &str, nearest: bool) -> Option<Report> {
        let mut parts = split(member, ';')?.into_iter();
        let who = bare(parts.next()?);
        let parameters: Vec<(&str, &str)> = parts.filter_map(|part| part.split_once('=')).collect();
        let last = |name: &str| parameters.iter().rev().find(|(known, _)| *known == name).map(|(_, value)| bare(value));
        let error = last("error").filter(|error| !error.is_empty())?;
        // Who has seen an answer of the partner has sent it the request.
        let answered = last("received-status").is_some();
        let not_forwarded = nearest && !answered && NOT_FORWARDED.contains(&&*error);
        Some(Report { who: who.into(), error: error.into(), details: last("details").map(Into::into), not_forwarded })
    }
}

/// Splits `text` at `mark` outside of quotes and trims the parts; `None` where quotes do not end.
fn split(text: &str, mark: char) -> Option<Vec<&str>> {
    let (mut parts, mut start) = (Vec::new(), 0);
    let (mut quoted, mut escaped) = (false, false);
    for (at, c) in text.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' if quoted => escaped = true,
            '"' => quoted = !quoted,
            _ if c == mark && !quoted => {
                parts.push(text[start..at].trim());
                start = at + mark.len_utf8();
            }
            _ => {}
        }
    }
    parts.push(text[start..].trim());
    (!quoted).then_some(parts)
}

/// Returns a token as it is, and a quoted text without quotes and escapes.
fn bare(value: &str) -> String {
    let value = value.trim();
    match value.strip_prefix('"').and_then(|value| value.strip_suffix('"')) {
        Some(inside) => inside.replace("\\\"", "\"").replace("\\\\", "\\"),
        None => value.to_owned(),
    }
}

/// Returns who answered in the partner's place, or may have, where an answer with this status shows it.
pub fn diagnosis(status: u16, headers: &Headers) -> Option<String> {
    if let Some(report) = Report::read(headers) {
        let details = report.details.map(|details| format!(" ({})", shown(&details))).unwrap_or_default();
        let (who, error) = (shown(&report.who), shown(&report.error));
        return Some(match report.not_forwarded {
            true => format!("answered by a gateway, not by the partner: {who} reports {error}{details}"),
            false => format!("a gateway on the way reports {error}: {who}{details}"),
        });
    }
    // The statuses of gateways: RFC 9110 section 15.6, and those that content networks add.
    if !matches!(status, 502..=504 | 520..=530) {
        return None;
    }
    let found = EDGE_FIELDS.iter().filter_map(|name| Some(format!("{name}: {}", shown(headers.first(name)?))));
    let found: Vec<String> = found.collect();
    (!found.is_empty()).then(|| format!("perhaps answered by a gateway in the partner's place: {}", found.join(", ")))
}

/// Returns a text from the wire for people: without characters that deceive, and not too long.
pub fn shown(text: &str) -> String {
    text.chars().map(|c| if is_deceptive(c) { '?' } else { c }).take(SHOWN_MAX).collect()
}

/// Returns whether a character does something else than to be seen: it controls the terminal, breaks the line, turns
/// the direction of what follows, or is not seen at all.
///
/// Source: Unicode 16, `Bidi_Control` and the format characters of general punctuation; UTS 39 section 5.4.
pub fn is_deceptive(c: char) -> bool {
    let is_format = matches!(
        c,
        '\u{ad}'
            | '\u{61c}'
            | '\u{180e}'
            | '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{feff}'
            | '\u{fff9}'..='\u{fffb}'
            | '\u{e0000}'..='\u{e007f}'
    );
    is_format || c.is_control()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(fields: &[(&str, &str)]) -> Headers {
        Headers(fields.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect())
    }

    #[test]
    fn only_the_nearest_intermediary_can_say_that_nothing_was_forwarded() {
        for (lines, expected) in [
            (&["gw; error=connection_refused"][..], Some(("gw", "connection_refused", true))),
            (&["gw;error=dns_error;details=\"a;b, \\\"c\\\"\""], Some(("gw", "dns_error", true))),
            (&["\"my, gw\"; error=connection_timeout"], Some(("my, gw", "connection_timeout", true))),
            (&["gw; error=http_response_timeout"], Some(("gw", "http_response_timeout", false))),
            (&["gw; error=proxy_internal_error"], Some(("gw", "proxy_internal_error", false))),
            (&["gw; error=connection_refused; received-status=200"], Some(("gw", "connection_refused", false))),
            (&["gw; error=dns_error; error=connection_terminated"], Some(("gw", "connection_terminated", false))),
            (&["origin-gw, edge; error=connection_refused"], Some(("edge", "connection_refused", false))),
            (&["origin-gw", "edge; error=connection_refused"], Some(("edge", "connection_refused", false))),
            (&["gw; error=dns_error, edge; error=connection_terminated"], Some(("gw", "dns_error", true))),
            (&["gw; error=DNS_ERROR"], Some(("gw", "DNS_ERROR", false))),
            (&["gw; details=\"error=dns_error"], None),
            (&["gw; details=\"x; error=dns_error\""], None),
            (&["gw; error="], None),
            (&["gw"], None),
            (&[""], None),
            (&[], None),
        ] {
            let fields: Vec<(&str, &str)> = lines.iter().map(|line| ("proxy-status", *line)).collect();
            let report = Report::read(&headers(&fields));
            let found = report.as_ref().map(|report| (&*report.who, &*report.error, report.not_forwarded));
            assert_eq!(found, expected, "{lines:?}");
        }
    }

    #[test]
    fn nothing_that_is_shown_deceives() {
        let wire = "a\u{202e}b\u{2066}c\u{200b}d\u{1b}[31m\u{9b}e\u{feff}";
        assert_eq!(shown(wire), "a?b?c?d?[31m?e?");
        assert_eq!(shown("grün, 中文, עברית"), "grün, 中文, עברית", "other people's letters are no deceit");
    }

    #[test]
    fn a_gateway_is_named_where_it_shows() {
        let told = |status, fields: &[(&str, &str)]| diagnosis(status, &headers(fields));
        assert_eq!(
            told(502, &[("proxy-status", "gw; error=connection_refused; details=\"no\u{7}listener\"")]).as_deref(),
            Some("answered by a gateway, not by the partner: gw reports connection_refused (no?listener)")
        );
        assert_eq!(
            told(504, &[("proxy-status", "gw; error=http_response_timeout")]).as_deref(),
            Some("a gateway on the way reports http_response_timeout: gw")
        );
        let edge = [("server", "cloudflare"), ("cf-ray", "8f1-FRA"), ("via", "1.1 edge")];
        assert_eq!(
            told(502, &edge).as_deref(),
            Some(
                "perhaps answered by a gateway in the partner's place: via: 1.1 edge, server: cloudflare, cf-ray: 8f1-FRA"
            )
        );
        assert_eq!((told(500, &edge), told(201, &edge), told(502, &[])), (None, None, None));
        assert!(told(502, &[("via", &"x".repeat(500))]).is_some_and(|words| words.len() < 200));
    }
}
