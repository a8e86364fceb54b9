//! Every address, and how far it got.

use super::time;
use super::wrap::cut;
use abide::engine::diagnose::observations::{Address, Observations};
use abide::engine::diagnose::past::Before;
use abide::engine::diagnose::tcp::trip;
use abide::engine::units::show_rounded;

/// Returns the addresses in at most `most` lines, a head included: those that fail first. Empty where there are not
/// two, or no room.
pub(super) fn table(seen: &Observations, most: usize, width: usize) -> Vec<String> {
    if seen.addresses.len() < 2 || most < 2 {
        return Vec::new();
    }
    let (good, bad): (Vec<&Address>, Vec<&Address>) = seen.addresses.iter().partition(|address| works(address));
    let sorted = [bad, good].concat();
    let room = most - 1;
    let shown = if sorted.len() > room { room - 1 } else { room };
    let mut lines = vec![line(["address", "connect", "tls", "answer", "note"].map(str::to_owned))];
    lines.extend(sorted.iter().take(shown).map(|address| row(seen, address)));
    if sorted.len() > shown {
        let rest = &sorted[shown..];
        let failing = rest.iter().filter(|address| !works(address)).count();
        let fail = if failing == 1 { "fails" } else { "fail" };
        lines.push(format!("  {} more, {failing} of them {fail}", rest.len()));
    }
    lines.iter().map(|line| cut(line, width)).collect()
}

fn works(address: &Address) -> bool {
    let tls = address.tls.as_ref().is_none_or(|tls| tls.outcome.is_ok());
    address.is_connected() && tls
}

fn line([address, connect, tls, answer, note]: [String; 5]) -> String {
    format!("  {address:26}  {connect:19}  {tls:8}  {answer:6}  {note}")
}

fn row(seen: &Observations, address: &Address) -> String {
    let connect = match address.connect {
        Some(connect) => connect.outcome.err().map_or_else(|| time(connect.took), |failure| failure.words().to_owned()),
        None => "not tried".into(),
    };
    let tls = match &address.tls {
        Some(tls) if tls.outcome.is_err() => "fails".into(),
        tls => time(tls.as_ref().and_then(|tls| tls.took)),
    };
    let is_asked = address.reply.is_some() || seen.asked_address().is_some_and(|asked| asked.addr == address.addr);
    let answer = match (is_asked, seen.status_of(address)) {
        (true, Some(status)) => status.to_string(),
        (true, None) => "none".into(),
        (false, _) => "-".into(),
    };
    let note = match address.before {
        Some(Before::Never) => "never worked from here".into(),
        Some(Before::Worked { ago }) if !works(address) => format!("worked {} ago", show_rounded(ago)),
        _ => {
            let usual = seen.past.of_address(address.addr.ip()).and_then(|past| past.rtt);
            usual.map(|rtt| format!("usually {}", trip(rtt))).unwrap_or_default()
        }
    };
    line([address.addr.to_string(), connect, tls, answer, note])
}
