//! Answers that an edge of the partner, or a gateway, made in the application's place.

use crate::engine::diagnose::code::Code;
use crate::engine::exchange::{Answer, Headers};
use crate::engine::gateway::{Report, shown};

/// What an edge says of itself or of the servers behind it.
pub(super) struct Edge {
    /// What it comes to.
    pub code: Code,
    /// In words, with the hop's name where it tells one.
    pub words: String,
    /// An intermediary's report, and not only a status that edges use.
    pub is_reported: bool,
}

/// Returns what an answer of at least 400 shows of an edge that made it; `None` where nothing marks it so.
///
/// Source: RFC 9209 section 2.3; Cloudflare's documents of its own statuses and fields (latency.md section 5).
pub(super) fn read(answer: &Answer) -> Option<Edge> {
    if answer.status < 400 {
        return None;
    }
    if let Some(report) = Report::read(&answer.headers) {
        let details = report.details.as_deref().map(|details| format!(" ({})", shown(details))).unwrap_or_default();
        let words = format!("{} reports {}{details}", shown(&report.who), shown(&report.error));
        return Some(Edge { code: reported(&report.error), words, is_reported: true });
    }
    let mark =
        ["cf-error-type", "cf-error-origin"].into_iter().find_map(|name| Some((name, answer.headers.first(name)?)));
    let by_status = numbered(answer.status);
    let id = id(&answer.headers).map(|id| format!(", {id}")).unwrap_or_default();
    match (mark, by_status) {
        (Some((name, value)), code) => Some(Edge {
            code: code.unwrap_or(Code::EdgeError),
            words: format!("{} with {name}: {}{id}", answer.status, shown(value)),
            is_reported: true,
        }),
        (None, Some(code)) => {
            let words = format!("{} is a status that only edges use{id}", answer.status);
            Some(Edge { code, words, is_reported: false })
        }
        (None, None) => None,
    }
}

/// Returns the id by which the edge finds the answer again: `cf-ray: 8f1-FRA`.
pub(in crate::engine::diagnose) fn id(headers: &Headers) -> Option<String> {
    let names = ["cf-ray", "x-amz-cf-id", "x-amzn-requestid", "x-request-id", "request-id", "x-correlation-id"];
    names.into_iter().find_map(|name| Some(format!("{name}: {}", shown(headers.first(name)?))))
}

fn reported(error: &str) -> Code {
    match error {
        "dns_timeout" | "dns_error" => Code::EdgeOriginName,
        "connection_timeout" | "connection_read_timeout" | "connection_write_timeout" | "http_response_timeout" => {
            Code::EdgeOriginTimeout
        }
        "connection_refused" => Code::EdgeOriginRefused,
        "destination_not_found"
        | "destination_unavailable"
        | "destination_ip_prohibited"
        | "destination_ip_unroutable"
        | "connection_limit_reached" => Code::EdgeOriginUnreachable,
        "tls_protocol_error" | "tls_certificate_error" | "tls_alert_received" => Code::EdgeOriginTls,
        "http_request_error" | "http_request_denied" => Code::EdgeDenied,
        "connection_terminated" => Code::EdgeOriginAnswer,
        error if error.starts_with("http_") => Code::EdgeOriginAnswer,
        _ => Code::EdgeError,
    }
}

fn numbered(status: u16) -> Option<Code> {
    Some(match status {
        520 => Code::EdgeOriginAnswer,
        521 => Code::EdgeOriginRefused,
        522 | 524 => Code::EdgeOriginTimeout,
        523 => Code::EdgeOriginUnreachable,
        525 | 526 => Code::EdgeOriginTls,
        527..=530 => Code::EdgeError,
        _ => return None,
    })
}
