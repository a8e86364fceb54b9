//! What the next process must find.

use super::disk::Promised;
use super::stage::{answer_of, beside, body_of, ledger_in, options, wished};
use crate::drive::{Claim, Claimed, Durability, Ledger};
use crate::engine::entry::is_final;
use crate::engine::facts::{Fact, History, Settled, StoredBody};
use crate::engine::moment::Now;
use crate::engine::verdict::Verdict;
use crate::store::jsonl::tests::{run, settled, started};
use crate::store::jsonl::{Found, Jsonl, Options, Reader, accept_loss, kept_body, repair, this_process, verify};
use std::fmt::Debug;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What went wrong, in words.
pub type Loss = String;

/// The next process, in a folder as a power cut or a dead process has left it.
pub struct Next<'a> {
    root: &'a Path,
    path: PathBuf,
    options: Options,
    promised: &'a Promised,
}

impl<'a> Next<'a> {
    /// Begins it in the boot `boot`; the others were in `here`.
    pub fn new(root: &'a Path, boot: &str, promised: &'a Promised) -> Next<'a> {
        Next { root, path: ledger_in(root), options: options(root, boot), promised }
    }

    /// Checks all promises of the ledger.
    ///
    /// # Errors
    /// What was lost, or is wrongly refused.
    pub fn check(&self) -> Result<(), Loss> {
        if beside(self.root, ".sick").exists() {
            let repaired = self.says("a repair", repair(&self.path, &self.options));
            // It accepts no loss.
            if !self.promised.accepting {
                repaired?;
            }
        }
        // I4: it goes on.
        self.probe("probe1").or_else(|loss| {
            if !self.promised.accepting {
                return Err(loss);
            }
            self.says("accepting the loss", accept_loss(&self.path, &self.options, &this_process()))?;
            self.probe("probe1")
        })?;
        self.is_json()?;
        let with_index = self.read()?;
        self.promises(&with_index)?;
        self.claims()?;
        self.probe("probe2")?;
        let after = self.read()?;
        self.promises(&after)?;
        self.told(&after, "probe1", Verdict::Confirmed)?;
        self.told(&after, "probe2", Verdict::Confirmed)?;
        self.is_json()?;
        if self.promised.accepting {
            self.says("accepting the loss", accept_loss(&self.path, &self.options, &this_process()))?;
        }
        let verified = self.says("verify", verify(&self.path, &self.options))?;
        if verified.findings.is_empty() { Ok(()) } else { Err(format!("verify finds {:?}", verified.findings)) }
    }

    /// Sends one request more.
    fn probe(&self, key: &str) -> Result<(), Loss> {
        let mut ledger = self.says("opening", Jsonl::open(&self.path, &self.options))?;
        let claimed = run(ledger.claim(&wished(key), Now::default()));
        let mut claim = match self.says("claiming", claimed)? {
            Claimed::Ours(claim, _) => claim,
            other => return Err(format!("a new key: {other:?}")),
        };
        let Fact::Settled(end) = settled(10) else { unreachable!() };
        let end = Fact::Settled(Arc::new(Settled { verdict: Verdict::Confirmed, ..Settled::clone(&end) }));
        for fact in [started(), end] {
            self.says("writing", run(claim.append(Now::default(), &fact, Durability::Now)))?;
        }
        Ok(())
    }

    /// I6: every line is JSON.
    fn is_json(&self) -> Result<(), Loss> {
        let bytes = self.says("reading", fs::read(&self.path))?;
        let mut values = serde_json::Deserializer::from_slice(&bytes).into_iter::<serde::de::IgnoredAny>();
        match values.find_map(Result::err) {
            Some(error) => Err(format!("the file is not JSON: {error}")),
            None => Ok(()),
        }
    }

    /// I5: reads all operations, and compares what the index finds with what the whole file says.
    fn read(&self) -> Result<Vec<Found>, Loss> {
        let reader = self.says("reading", Reader::open(&self.path, &self.options))?;
        let all: Vec<Found> = self.says("listing", reader.list())?.collect();
        for one in &all {
            let found = self.says("looking up", reader.find(&one.key, Some(&one.partner)))?;
            if found != [one.clone()] {
                return Err(format!("the index and the file differ about {}: {found:?} and {one:?}", one.key.as_str()));
            }
        }
        let mut undecided: Vec<Found> = self.says("listing", reader.undecided())?.collect();
        let mut expected: Vec<Found> = all.iter().filter(|one| !is_final(&one.history)).cloned().collect();
        for list in [&mut undecided, &mut expected] {
            list.sort_by(|one, other| one.key.cmp(&other.key));
        }
        if undecided != expected {
            return Err(format!("the index lists {undecided:?}, the file {expected:?}"));
        }
        match &reader.warnings()[..] {
            [] => Ok(all),
            warnings if self.is_only_the_index(warnings) => Ok(all),
            warnings => Err(format!("a reader warns: {warnings:?}")),
        }
    }

    /// A cut may cost the index, never more.
    fn is_only_the_index(&self, warnings: &[crate::store::Warning]) -> bool {
        warnings.iter().all(|warning| matches!(warning, crate::store::Warning::IndexDropped { .. }))
    }

    /// I1 and I2, by the lines.
    fn promises(&self, all: &[Found]) -> Result<(), Loss> {
        let Promised { sent, told, forgotten, .. } = self.promised;
        for (key, attempt) in sent {
            let found = find(all, key)?;
            if found.history.last_attempt() < *attempt {
                return Err(format!("{key}: attempt {attempt} may have left and is not there"));
            }
            self.is_kept(key, &found.history.opened().body, &body_of(key))?;
        }
        for (key, verdict) in told {
            self.told(all, key, *verdict)?;
        }
        for key in forgotten {
            self.is_gone(self.root, key)?;
        }
        Ok(())
    }

    fn told(&self, all: &[Found], key: &str, verdict: Verdict) -> Result<(), Loss> {
        let history = &find(all, key)?.history;
        let says = |recorded: &crate::engine::facts::Recorded| match &recorded.fact {
            Fact::Settled(settled) if settled.verdict == verdict => Some(settled.response.clone()),
            Fact::Resolved(resolved) if resolved.verdict == verdict => Some(None),
            _ => None,
        };
        let Some(response) = history.facts.iter().rev().find_map(says) else {
            return Err(format!("{key}: {verdict:?} was reported and is not there"));
        };
        match response {
            Some(response) if !response.cut && !key.starts_with("probe") => {
                let body = response.body.as_ref().ok_or_else(|| format!("{key}: the answer is not there"))?;
                self.is_kept(key, body, &answer_of(key))
            }
            _ => Ok(()),
        }
    }

    fn is_kept(&self, key: &str, body: &StoredBody, expected: &str) -> Result<(), Loss> {
        match self.says(key, kept_body(&self.path, body))? {
            Some(bytes) if bytes == expected.as_bytes() => Ok(()),
            None if self.promised.slimming => Ok(()),
            other => Err(format!("{key}: another body: {:?}", other.map(|bytes| bytes.len()))),
        }
    }

    fn is_gone(&self, folder: &Path, key: &str) -> Result<(), Loss> {
        for path in fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("there").path()) {
            if path.is_dir() {
                self.is_gone(&path, key)?;
                continue;
            }
            let bytes = fs::read(&path).expect("reads");
            if memchr::memmem::find(&bytes, body_of(key).as_bytes()).is_some() {
                return Err(format!("{key} was forgotten, and its body is in {}", path.display()));
            }
        }
        Ok(())
    }

    /// I1 and I2, by claiming every key again: none of them looks new.
    fn claims(&self) -> Result<(), Loss> {
        let mut ledger = self.says("opening", Jsonl::open(&self.path, &self.options))?;
        for (key, attempt) in &self.promised.sent {
            let told = self.promised.told.get(key);
            let is_known = |history: &History| history.last_attempt() >= *attempt;
            match self.says(key, run(ledger.claim(&wished(key), Now::default())))? {
                Claimed::Ours(_, history) if is_known(&history) && told != Some(&Verdict::Confirmed) => {}
                Claimed::Final(_, history) if is_known(&history) => {}
                other => return Err(format!("{key}, told {told:?}, is claimed again: {other:?}")),
            }
        }
        Ok(())
    }

    fn says<T, E: Debug>(&self, doing: &str, result: Result<T, E>) -> Result<T, Loss> {
        result.map_err(|error| format!("{doing}: {error:?}"))
    }
}

fn find<'a>(all: &'a [Found], key: &str) -> Result<&'a Found, Loss> {
    all.iter().find(|one| one.key.as_str() == key).ok_or_else(|| format!("{key} is not there"))
}
