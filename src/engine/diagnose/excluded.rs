//! What it is not, with the evidence that says so.

use super::judgement::Judgement;
use super::observations::{Address, Observations};
use super::tcp::Delivery;
use crate::engine::units::show_rounded;
use crate::engine::verdict::Side;
use std::time::Duration;

/// A side whose fault it is not, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Excluded {
    /// The side.
    pub side: Side,
    /// The evidence.
    pub words: String,
}

/// Returns the evidence that speaks for every side but the one whose fault it is, as far as the judgement does not
/// rest on it.
pub(super) fn all(seen: &Observations, judgement: &Judgement) -> Vec<Excluded> {
    let found = [
        (Side::Ours, names(seen)),
        (Side::Ours, clock(seen)),
        (Side::Configuration, credentials(seen)),
        (Side::Configuration, certificate(seen)),
        (Side::Network, connects(seen)),
        (Side::Network, delivered(seen)),
        (Side::Theirs, answered(seen)),
    ];
    let others = found.into_iter().filter(|(side, _)| Some(*side) != judgement.side);
    let told = others.filter_map(|(side, words)| Some(Excluded { side, words: words? }));
    told.filter(|told| !judgement.because.contains(&told.words)).collect()
}

fn took(what: &str, took: Option<Duration>) -> String {
    took.map(|took| format!("{what} in {}", show_rounded(took))).unwrap_or_else(|| what.to_owned())
}

fn names(seen: &Observations) -> Option<String> {
    let lookup = seen.names.lookup.filter(|lookup| lookup.outcome.is_ok())?;
    Some(took("the name was looked up", lookup.took))
}

fn clock(seen: &Observations) -> Option<String> {
    let skew = seen.skew.filter(|skew| !skew.is_notable())?;
    Some(format!("the clocks agree within {}", show_rounded(skew.size().saturating_add(skew.uncertainty))))
}

fn credentials(seen: &Observations) -> Option<String> {
    let ago = seen.past.credentials_accepted?;
    Some(format!("the credentials were accepted {} ago", show_rounded(ago)))
}

fn certificate(seen: &Observations) -> Option<String> {
    let is_accepted = |address: &Address| address.tls.as_ref().is_some_and(|tls| tls.outcome.is_ok());
    seen.addresses.iter().any(is_accepted).then(|| "the certificate was accepted".to_owned())
}

fn connects(seen: &Observations) -> Option<String> {
    let connected: Vec<&Address> = seen.addresses.iter().filter(|address| address.is_connected()).collect();
    let slowest = connected.iter().filter_map(|address| address.connect?.took).max();
    let words = super::dial::connecting(connected.len(), seen.addresses.len());
    (!connected.is_empty()).then(|| took(&words, slowest))
}

fn delivered(seen: &Observations) -> Option<String> {
    let tcp = seen.asked_tcp().filter(|tcp| tcp.sent_bytes != Some(0))?;
    let calm = tcp.delivery() == Some(Delivery::Acknowledged) && tcp.was_resent() == Some(false);
    calm.then(|| tcp.words())
}

fn answered(seen: &Observations) -> Option<String> {
    let answer = seen.answer()?;
    let first_byte = seen.exchange.as_ref()?.stages.first_byte_us.map(Duration::from_micros);
    Some(took(&format!("the partner answered {}", answer.status), first_byte))
}
