//! What is no line in a journal, and why nothing may be claimed then.

use super::journal::Journal;
use super::scan::{Bad, Next};
use crate::store::Warning;

/// How many damaged bytes are mended without asking: no crash leaves more.
const MEND_MAX: u64 = 1 << 20;

/// Why nothing may be claimed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// What is wrong.
    pub what: &'static str,
    /// The line, from 1.
    pub line: u64,
    /// The offset of its first byte.
    pub byte: u64,
}

/// What reading on found besides lines.
#[derive(Debug, Default)]
pub struct Damage {
    bad: Vec<Bad>,
    /// The bytes after the last line break.
    pub torn: u64,
    /// There is so much of it that reading ended.
    pub gave_up: bool,
}

impl Damage {
    /// Returns whether everything was a line.
    pub fn is_none(&self) -> bool {
        self.bad.is_empty() && self.torn == 0 && !self.gave_up
    }

    /// Takes more of it in.
    pub fn take(&mut self, bad: Bad, fault: &mut Option<Fault>) -> Next {
        self.bad.push(bad);
        let bytes: u64 = self.bad.iter().map(|bad| bad.to - bad.from).sum();
        if bytes <= MEND_MAX && self.bad.len() <= 4_096 {
            return Next::On;
        }
        fault_at(fault, "more of the file is damaged than a crash explains", bad.line, bad.from);
        self.bad.pop();
        self.gave_up = true;
        Next::Stop
    }

    /// Returns what a person should know about the damage, `bad` being the part that is worth telling.
    pub fn warnings<'a>(&self, journal: &Journal, bad: impl Iterator<Item = &'a Bad>) -> Vec<Warning> {
        let path = || journal.place().ledger().to_path_buf();
        let mut warnings: Vec<Warning> = bad
            .map(|bad| Warning::BadLine { path: path(), line: bad.line, byte: bad.from, len: bad.to - bad.from })
            .collect();
        if self.torn > 0 {
            warnings.push(Warning::TornTail { path: path(), byte: journal.end(), len: self.torn });
        }
        warnings
    }

    /// Returns the bytes that are no line.
    pub fn bad(&self) -> &[Bad] {
        &self.bad
    }
}

/// Keeps the first fault.
pub fn fault_at(fault: &mut Option<Fault>, what: &'static str, line: u64, byte: u64) {
    fault.get_or_insert(Fault { what, line, byte });
}
