//! What `-v` adds: answers of name servers, what TCP knows, the header of the answer.

use abide::engine::diagnose::names::{Question, Reply};
use abide::engine::diagnose::observations::Observations;
use abide::engine::diagnose::tcp::trip;
use abide::engine::exchange::{Exchange, Outcome};
use abide::engine::gateway::shown;
use abide::engine::location;
use abide::engine::units::show_rounded;

/// Returns the details, one a line.
pub fn of(seen: &Observations) -> Vec<String> {
    let mut lines: Vec<String> = seen.names.replies.iter().map(reply).collect();
    for address in &seen.addresses {
        let connected = match address.connect.map(|connect| connect.outcome) {
            Some(Ok(())) => "connected",
            Some(Err(failure)) => failure.words(),
            None => "not tried",
        };
        let rtt = address.tcp.and_then(|tcp| tcp.rtt).map(|rtt| format!("round trip {}", trip(rtt)));
        let tcp = address.tcp.map(|tcp| tcp.words()).filter(|words| !words.is_empty());
        let words = [Some(connected.to_owned()), rtt, tcp].into_iter().flatten().collect::<Vec<_>>();
        lines.push(format!("tcp  {}: {}", address.addr, words.join(", ")));
    }
    lines.extend(
        seen.addresses.iter().filter_map(|address| Some(asked(&address.addr.to_string(), address.reply.as_deref()?))),
    );
    lines.extend(seen.second_pass.as_ref().map(|second| asked("the way of `send`", second)));
    if let Some(egress) = seen.setup.egress {
        lines.push(format!("our packets leave from {egress}"));
    }
    lines.extend(seen.exchange.as_ref().and_then(|exchange| exchange.error.as_ref()).map(|error| shown(error)));
    if let Some(answer) = seen.answer() {
        lines.push(format!("HTTP {}", answer.status));
        lines.extend(answer.headers.0.iter().map(|(name, value)| field(name, value)));
    }
    lines
}

/// Returns what came of a request that `--deep` added.
fn asked(what: &str, exchange: &Exchange) -> String {
    let took = show_rounded(exchange.took);
    match &exchange.outcome {
        Outcome::Answered(answer) => format!("deep {what}: {} in {took}", answer.status),
        Outcome::Unanswered { stage, .. } => {
            let error = exchange.error.as_deref().map(|error| format!(": {}", shown(error))).unwrap_or_default();
            format!("deep {what}: no answer, {} failed after {took}{error}", stage.words())
        }
    }
}

/// Names that tell of a credential in the answer.
const SECRET: [&str; 5] = ["cookie", "auth", "token", "secret", "key"];

/// Shows a field of the answer without credentials, those of others included.
fn field(name: &str, value: &str) -> String {
    match name {
        "location" | "content-location" => format!("{name}: {}", shown(&location::shown(value))),
        "link" | "refresh" => format!("{name}: ***"),
        _ if SECRET.iter().any(|part| name.contains(part)) => format!("{name}: ***"),
        _ => format!("{name}: {}", shown(value)),
    }
}

fn reply(reply: &Reply) -> String {
    let question = match reply.question {
        Question::A => "A",
        Question::Aaaa => "AAAA",
    };
    let said = reply.answer.map_or("no answer".to_owned(), |answer| answer.name());
    let took = reply.took.map(|took| format!(" in {}", show_rounded(took))).unwrap_or_default();
    format!("dns  {} says {said} for {question}{took}", reply.server)
}
