//! What a loss means for the operations.

use crate::engine::entry::is_ended;
use crate::engine::facts::{Fact, Opened};
use crate::engine::operation::{IdempotencyKey, PartnerName};
use crate::store::StoreError;
use crate::store::format;
use crate::store::jsonl::check::Check;
use crate::store::jsonl::disk::{Disk, read_range};
use crate::store::jsonl::finding::{Finding, Kind};
use crate::store::jsonl::place::{Place, failed};
use crate::store::jsonl::scan::Bad;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What a loss means for the operations.
#[derive(Default)]
pub struct Plan {
    /// Operations that become in doubt, as rows.
    pub doubts: BTreeSet<usize>,
    /// Operations that only a merged copy has: their first lines are whole.
    pub reborn: Vec<(IdempotencyKey, Arc<Opened>)>,
    /// Keys of which nothing else is left, each with a claim that used it.
    pub lost: BTreeMap<(Option<PartnerName>, IdempotencyKey), u64>,
    /// The first and the last number of claims of which nothing is left.
    pub unknown: Vec<(u64, u64)>,
    /// The highest number that was ever given, as far as is known.
    pub highest: u64,
}

/// A place at which something is gone.
#[derive(Clone, Copy)]
struct Loss {
    byte: u64,
    /// The last claim that may be gone there; `None` where all claims around it are there.
    claims_to: Option<u64>,
}

impl Plan {
    /// Plans what is written for the findings of a check.
    pub fn make(place: &Place, disk: &dyn Disk, check: &Check) -> Result<Plan, StoreError> {
        let recorded = check.record.map_or(0, |record| record.n);
        let mut plan = Plan { highest: check.operations.newest_n().max(recorded), ..Plan::default() };
        for finding in &check.findings {
            match finding.kind {
                Kind::Rot => plan.rot(check, finding)?,
                Kind::Contradiction(_) => plan.contradiction(place, disk, check, finding)?,
                Kind::Gap { to } => plan.unknown.push((finding.n.unwrap_or(1), to)),
                Kind::LostEnd { recorded } if Some(recorded) > finding.n => {
                    plan.unknown.push((finding.n.unwrap_or(0) + 1, recorded));
                }
                _ => {}
            }
        }
        for (n, key) in &check.strays {
            let gone = plan.unknown.iter().any(|(from, to)| (*from..=*to).contains(n));
            if gone && check.operations.with_key(key).is_empty() {
                plan.lost.entry((None, key.clone())).or_insert(*n);
            }
        }
        let told: BTreeSet<u64> = plan.lost.values().copied().collect();
        plan.unknown = plan.unknown.iter().flat_map(|&range| without(range, &told)).collect();
        plan.doubt(place, disk, check)?;
        Ok(plan)
    }

    /// Takes what can still be read in damaged bytes.
    fn rot(&mut self, check: &Check, finding: &Finding) -> Result<(), StoreError> {
        let bad = Bad { from: finding.byte, to: finding.byte + finding.len, line: finding.line };
        for traces in check.traces(&bad)? {
            let Some(key) = traces.key else { continue };
            let n = traces.n.filter(|n| (1..=self.highest).contains(n)).unwrap_or(self.highest.max(1));
            match check.operations.with_key(&key) {
                [] => drop(self.lost.insert((traces.partner, key), n)),
                rows => self.doubts.extend(rows),
            }
        }
        Ok(())
    }

    /// Takes a line of a merged copy, or of an operation whose first line is gone.
    fn contradiction(
        &mut self,
        place: &Place,
        disk: &dyn Disk,
        check: &Check,
        finding: &Finding,
    ) -> Result<(), StoreError> {
        let text = read_range(disk, finding.byte, finding.byte + finding.len)
            .map_err(|error| failed("read", place.ledger(), error))?;
        let Some((key, partner)) = format::whose(&text) else { return Ok(()) };
        let is_ours = |other: &PartnerName| partner.as_ref().is_none_or(|partner| partner == other);
        let rows = check.operations.with_key(&key).iter().copied();
        let known: Vec<usize> = rows.filter(|&row| is_ours(&check.operations.row(row).partner)).collect();
        let reborn = self.reborn.iter().any(|(reborn, opened)| *reborn == key && is_ours(&opened.partner));
        if !known.is_empty() || reborn {
            self.doubts.extend(known);
            return Ok(());
        }
        match format::fact(&text).map(|(_, recorded)| recorded.fact) {
            Some(Fact::Opened(opened)) => self.reborn.push((key, opened)),
            _ => drop(self.lost.insert((partner, key), finding.n.unwrap_or(self.highest))),
        }
        Ok(())
    }

    /// Finds the operations that a lost line may have been about.
    fn doubt(&mut self, place: &Place, disk: &dyn Disk, check: &Check) -> Result<(), StoreError> {
        let losses = losses(check);
        for row in check.operations.newest_first(|row| !row.is_confirmed()) {
            let operation = check.operations.row(row);
            let history = check.operations.history(row, disk).map_err(|span| {
                let (what, line, byte) = ("the line is not what was written", span.line, span.offset);
                StoreError::Damaged { path: place.ledger().into(), what, line, byte }
            })?;
            let ended = is_ended(&history);
            let opened = operation.spans[0].offset;
            let touched = losses.iter().any(|loss| match loss.claims_to {
                _ if opened >= loss.byte => false,
                // It may have been claimed again by one of them.
                Some(to) => !ended || operation.newest <= to,
                None => !ended,
            });
            if touched {
                self.doubts.insert(row);
            }
        }
        self.doubts.retain(|&row| !check.operations.row(row).is_confirmed());
        Ok(())
    }
}

fn losses(check: &Check) -> Vec<Loss> {
    let last_claim = check.claims_end();
    let loss = |&Finding { kind, byte, n, .. }: &Finding| match kind {
        Kind::Gap { to } => Some(Loss { byte, claims_to: Some(to) }),
        Kind::LostEnd { recorded } => Some(Loss { byte, claims_to: (Some(recorded) > n).then_some(recorded) }),
        // No later claim tells by its number that none is gone.
        Kind::Rot | Kind::Missing if byte >= last_claim => Some(Loss { byte, claims_to: Some(u64::MAX) }),
        Kind::Rot | Kind::Missing => Some(Loss { byte, claims_to: None }),
        _ => None,
    };
    check.findings.iter().filter_map(loss).collect()
}

/// Returns what is left of a range of numbers without some of them.
fn without((from, to): (u64, u64), told: &BTreeSet<u64>) -> Vec<(u64, u64)> {
    let mut left = Vec::new();
    let mut next = from;
    for &n in told.range(from..=to) {
        if n > next {
            left.push((next, n - 1));
        }
        next = n + 1;
    }
    if next <= to {
        left.push((next, to));
    }
    left
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_told_is_taken_out_of_a_range() {
        let told = BTreeSet::from([2, 5, 6, 9]);
        assert_eq!(without((2, 9), &told), [(3, 4), (7, 8)]);
        assert_eq!(without((5, 6), &told), []);
        assert_eq!(without((10, 12), &told), [(10, 12)]);
    }
}
