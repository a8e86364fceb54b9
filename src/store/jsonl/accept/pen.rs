//! Writes down what a loss means, at the end of what is whole.

use super::Accepted;
use super::plan::Plan;
use crate::engine::facts::{Fact, Owner, Predecessor, Reopened, Settled, Why};
use crate::engine::operation::IdempotencyKey;
use crate::engine::verdict::{Cause, Verdict};
use crate::store::StoreError;
use crate::store::format::{self, SET_ASIDE_MAX, SetAside};
use crate::store::jsonl::Options;
use crate::store::jsonl::check::Check;
use crate::store::jsonl::disk::{Disk, read_range, write_all};
use crate::store::jsonl::finding::{Finding, Kind};
use crate::store::jsonl::place::{Place, failed};
use crate::store::jsonl::seen::{Record, Seen};
use crate::store::jsonl::sick::tell_sick;
use std::sync::Arc;

/// Writes at the end of what is whole.
pub struct Pen<'a> {
    place: &'a Place,
    disk: &'a dyn Disk,
    options: &'a Options,
    end: u64,
    durable: u64,
}

impl<'a> Pen<'a> {
    /// Begins behind the last whole line.
    pub fn new(place: &'a Place, disk: &'a dyn Disk, options: &'a Options, check: &Check) -> Pen<'a> {
        let (end, durable) = (check.at.end, check.durable.min(check.at.end));
        Pen { place, disk, options, end, durable }
    }

    /// Writes down what is lost, then blanks what is damaged, then says that it was accepted, then lets this machine
    /// remember the file as it is.
    ///
    /// In this order, each durable before the next: a crash in between leaves a ledger that is refused as before, or one
    /// that is in order; and what is damaged before a loss was accepted was damaged later.
    pub fn write(&mut self, plan: Plan, check: &Check, len: u64, owner: &Owner) -> Result<Accepted, StoreError> {
        let mut accepted = Accepted { unknown: plan.unknown, ..Accepted::default() };
        let aside: Vec<&Finding> = check.findings.iter().filter(|finding| is_set_aside(finding.kind)).collect();
        // The tail first: what is written next takes its place.
        for finding in aside.iter().rev() {
            accepted.set_aside += self.set_aside(finding)?;
        }
        let mut n = plan.highest;
        for row in plan.doubts {
            let row = check.operations.row(row);
            n += 1;
            self.doubt(n, &row.key, Fact::Reopened(Arc::new(self.reopened(&row.partner, owner))))?;
            accepted.in_doubt.push((row.partner.clone(), row.key.clone()));
        }
        for (key, opened) in plan.reborn {
            n += 1;
            accepted.in_doubt.push((opened.partner.clone(), key.clone()));
            self.doubt(n, &key, Fact::Opened(opened))?;
        }
        for ((partner, key), claim) in plan.lost {
            self.line(&format::lost_line(claim, &key, partner.as_ref(), self.options.now, self.durable))?;
            accepted.lost.push((partner, key));
        }
        if len > self.end {
            self.disk.truncate(self.end).map_err(|error| failed("cut", self.place.ledger(), error))?;
        }
        self.sync()?;
        for finding in aside.iter().filter(|finding| finding.byte < check.at.end) {
            self.blank(finding)?;
        }
        self.sync()?;
        self.line(&format::accepted_line(n, &accepted.unknown, self.options.now, self.durable))?;
        self.sync()?;
        self.remember(check, n)?;
        Ok(accepted)
    }

    /// Copies damaged bytes into notes. Of bytes that are all zero, and of lines that are there twice, only where they
    /// were.
    fn set_aside(&mut self, finding: &Finding) -> Result<u64, StoreError> {
        let what = match finding.kind {
            Kind::Torn => "torn",
            Kind::Unacknowledged => "bad",
            Kind::Repeated => "repeated",
            _ => "lost",
        };
        // All are read before the first note takes the place of a torn tail.
        let mut parts = Vec::new();
        for (offset, to) in parts_of(finding) {
            let read = read_range(self.disk, offset, to);
            let mut bytes = read.map_err(|error| failed("read", self.place.ledger(), error))?;
            if finding.kind == Kind::Repeated || bytes.iter().all(|byte| *byte == 0) {
                bytes.clear();
            }
            parts.push((offset, to - offset, bytes));
        }
        for (offset, len, bytes) in parts {
            let aside = SetAside { what, offset, len, bytes: &bytes };
            self.line(&format::note_line(&aside, self.options.now, self.durable))?;
        }
        Ok(finding.len)
    }

    fn reopened(&self, partner: &crate::engine::operation::PartnerName, owner: &Owner) -> Reopened {
        Reopened {
            partner: partner.clone(),
            deadline: self.options.now,
            why: Why::Verify,
            predecessor: Predecessor::InDoubt,
            key_until: None,
            owner: owner.clone(),
        }
    }

    /// Writes a claim that ends at once, in doubt.
    fn doubt(&mut self, n: u64, key: &IdempotencyKey, claim: Fact) -> Result<(), StoreError> {
        let opened_at = self.end;
        let (verdict, cause) = (Verdict::InDoubt, Cause::Damage);
        let settled = Fact::Settled(Arc::new(Settled { verdict, cause, retry_at: None, last: None, response: None }));
        for (fact, opened_at) in [(claim, None), (settled, Some(opened_at))] {
            let (at, durable) = (self.options.now, self.durable);
            self.line(&format::fact_line(&format::Entry { n, key, at, fact: &fact, opened_at, durable }))?;
        }
        Ok(())
    }

    fn line(&mut self, line: &[u8]) -> Result<(), StoreError> {
        write_all(self.disk, line, self.end).map_err(|error| failed("write to", self.place.ledger(), error))?;
        self.end += line.len() as u64;
        Ok(())
    }

    fn blank(&self, finding: &Finding) -> Result<(), StoreError> {
        for (from, to) in parts_of(finding) {
            let blanks = vec![b' '; (to - from) as usize];
            write_all(self.disk, &blanks, from).map_err(|error| failed("write to", self.place.ledger(), error))?;
        }
        Ok(())
    }

    fn sync(&self) -> Result<(), StoreError> {
        self.disk.sync().map_err(|source| {
            tell_sick(self.place, &self.options.boot, &source, (0, self.end));
            StoreError::Unsynced { path: self.place.ledger().into(), source }
        })
    }

    /// What is there counts as written by somebody else: an owner that left something open is not trusted to have sent
    /// nothing.
    fn remember(&self, check: &Check, n: u64) -> Result<(), StoreError> {
        let Some((state, header)) = self.options.state.as_ref().zip(check.header()) else { return Ok(()) };
        let (seen, _) = Seen::open(state, &header.id)?;
        seen.begin(Record { generation: header.generation, n, end: self.end, from: n })
    }
}

fn is_set_aside(kind: Kind) -> bool {
    matches!(kind, Kind::Rot | Kind::Torn | Kind::Unacknowledged | Kind::Repeated | Kind::Contradiction(_))
}

/// Returns where the bytes of a finding begin and end, in parts that fit into a note.
fn parts_of(finding: &Finding) -> impl Iterator<Item = (u64, u64)> + use<> {
    let (from, to) = (finding.byte, finding.byte + finding.len);
    (from..to).step_by(SET_ASIDE_MAX).map(move |at| (at, to.min(at + SET_ASIDE_MAX as u64)))
}
