//! `--write`: the suggested limits, put into the profile in the section of the endpoint that was measured.

use super::super::exit::{Exit, Failure};
use super::super::request::system_words;
use super::super::{Session, plan};
use super::{Found, whole};
use abide::engine::policy::Policy;
use abide::engine::suggest::Suggestion;
use abide::engine::suggest::share::Share;
use abide::profile::Profile;
use abide::profile::edit::{Findings, Measured, rewritten};
use std::fmt::Display;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, fchown};
use std::path::{Path, PathBuf};
use url::Url;

/// No longer texts are compared line by line: the difference is then shown as a whole.
const LINES_COMPARED: usize = 2_000;

/// A profile that is to be written to, as it was before anything was measured.
#[derive(Debug)]
pub struct Target {
    /// The file itself, where links lead to.
    path: PathBuf,
    text: String,
    /// Where its relative names are looked for; `None`: elsewhere than where it lies.
    folder: Option<PathBuf>,
    measured: Measured,
    url: Url,
}

impl Target {
    /// Reads the profile.
    ///
    /// # Errors
    /// It cannot be read, may not be written to, or is written in a way that is not edited. Nothing was sent.
    pub fn read(profile: Option<&Profile>, policy: &Policy, url: &str) -> Result<Target, Failure> {
        let Some(profile) = profile else {
            return Err(Failure::usage("--write: there is no profile to write to").hint("name it with -p"));
        };
        let refuse = |why: &dyn Display| Failure::usage(format!("--write {}: {why}", profile.path.display()));
        let path = fs::canonicalize(&profile.absolute).map_err(|error| refuse(&system_words(&error)))?;
        let text = fs::read_to_string(&path).map_err(|error| refuse(&system_words(&error)))?;
        let metadata = fs::metadata(&path).map_err(|error| refuse(&system_words(&error)))?;
        if metadata.permissions().readonly() {
            return Err(refuse(&"the file is read-only"));
        }
        let url = Url::parse(url).map_err(|error| refuse(&error))?;
        let measured = profile.measured(&policy.method, &url);
        let mut segments = measured.path.split('/');
        if measured.endpoint.is_none() && segments.any(|segment| segment.contains('*') && segment != "*") {
            let why = "an [[endpoint]] has whole segments of a path only, and {key} or * is a part of one";
            return Err(refuse(&why).hint("add an [[endpoint]] that fits the whole segment, or leave --write out"));
        }
        if policy.method.is_safe() && profile.is_for_every_method(&measured) {
            let why = "the endpoint that fits has no method: what reads take would limit writes, too";
            return Err(refuse(&why).hint("give it `method`, or put an [[endpoint]] for this method before it"));
        }
        let folder = profile.absolute.parent().and_then(|folder| fs::canonicalize(folder).ok());
        let folder = folder.filter(|folder| path.parent() == Some(folder));
        let target = Target { measured, path, text, folder, url };
        target
            .rehearse(&Findings::rehearsal(&policy.timeouts))
            .map_err(|failure| Failure { exit: Exit::Usage, ..failure })?;
        Ok(target)
    }

    /// Does all that writing takes but for the last step: what is measured for hours must not be lost at its end.
    fn rehearse(&self, findings: &Findings) -> Result<(), Failure> {
        let failed = |why: &dyn Display| Failure::usage(format!("--write {}: {why}", self.path.display()));
        let text = rewritten(&self.text, &self.measured, findings).map_err(|why| {
            failed(&why).hint("write it as tables: [[endpoint]], then method, path and timeouts on lines of their own")
        })?;
        let draft = self.draft();
        let written = self.write_draft(&draft, &text).map_err(|error| failed(&system_words(&error)));
        let checked = written.and_then(|()| self.check(&draft, findings));
        let _ = fs::remove_file(&draft);
        checked
    }

    /// Shows what changes, and writes it.
    ///
    /// # Errors
    /// The profile has changed meanwhile, or cannot be written.
    pub fn write(&self, found: &Found<'_>, suggestion: &Suggestion, session: &Session) -> Result<(), Failure> {
        let hlog = found.recording.and_then(|file| whole::named(file, self.folder.as_deref()));
        if let (Some(file), None) = (found.recording, &hlog) {
            session.screen.warn(&format!(
                "{}: [measured] does not say where it is: a profile cannot hold this name",
                file.display()
            ));
        }
        let findings = Findings { hlog, ..findings(found, suggestion, session) };
        let text = rewritten(&self.text, &self.measured, &findings)
            .map_err(|why| Failure::local(anyhow::anyhow!("{} was not written: {why}", self.path.display())))?;
        session.screen.talk(&difference(&self.path, &self.text, &text));
        self.replace(&text, &findings)?;
        session.screen.talk(&format!("{}: written", self.path.display()));
        Ok(())
    }

    /// Puts `text` in the place of the profile, unless it has changed or the new one does not say what it should.
    fn replace(&self, text: &str, findings: &Findings) -> Result<(), Failure> {
        let shown = self.path.display();
        let failed = |error: &io::Error| Failure::local(anyhow::anyhow!("{shown} was not written: {error}"));
        if fs::read_to_string(&self.path).map_err(|error| failed(&error))? != self.text {
            return Err(Failure::local(anyhow::anyhow!("{shown} has changed since it was read, and was not written"))
                .hint("the limits are shown above: enter them, or measure again"));
        }
        let draft = self.draft();
        let written = self.write_draft(&draft, text).map_err(|error| failed(&error));
        let checked = written.and_then(|()| self.check(&draft, findings));
        if let Err(failure) = checked {
            // What is left of a draft harms nobody.
            let _ = fs::remove_file(&draft);
            return Err(failure);
        }
        self.place(&draft, text).map_err(|error| {
            let failure = failed(&error);
            if draft.exists() { failure.hint(format!("the new text is in {}", draft.display())) } else { failure }
        })
    }

    /// Lets the draft take the profile's place: in one step, unless the file has other names, which are to stay names of
    /// the same file. The draft then stays until all of it is written.
    fn place(&self, draft: &Path, text: &str) -> io::Result<()> {
        if fs::metadata(&self.path)?.nlink() == 1 {
            return fs::rename(draft, &self.path);
        }
        let mut file = OpenOptions::new().write(true).open(&self.path)?;
        file.write_all(text.as_bytes())?;
        file.set_len(text.len() as u64)?;
        file.sync_all()?;
        fs::remove_file(draft)
    }

    /// Returns a name beside the profile, so that the draft can take its place in one step.
    fn draft(&self) -> PathBuf {
        let name = self.path.file_name().unwrap_or_default().to_string_lossy();
        self.path.with_file_name(format!(".{name}.{}.draft", std::process::id()))
    }

    fn write_draft(&self, draft: &Path, text: &str) -> io::Result<()> {
        let mut file: File = OpenOptions::new().write(true).create_new(true).open(draft)?;
        let old = fs::metadata(&self.path)?;
        let new = file.metadata()?;
        if (old.uid(), old.gid()) != (new.uid(), new.gid()) {
            // Whoever reads it must still be able to.
            fchown(&file, Some(old.uid()), Some(old.gid()))?;
        }
        file.set_permissions(old.permissions())?;
        file.write_all(text.as_bytes())?;
        file.sync_all()
    }

    /// Reads the draft as a profile.
    fn check(&self, draft: &Path, findings: &Findings) -> Result<(), Failure> {
        let profile = plan::load_blind(draft)?;
        let timeouts = profile.policy(&self.measured.method, &self.url).timeouts;
        if timeouts == findings.proposed {
            return Ok(());
        }
        Err(Failure::local(anyhow::anyhow!("{} was not written: it would not say what it should", self.path.display())))
    }
}

fn findings(found: &Found<'_>, suggestion: &Suggestion, session: &Session) -> Findings {
    let (read, evidence) = (&found.seen.read, &suggestion.evidence);
    let value = |share: Share| read.value(share).ok();
    let p99 = read.percentile(Share::P99, evidence.minutes, Share::CONFIDENCE).ok();
    Findings {
        current: found.options.timeouts,
        proposed: suggestion.timeouts(&found.options.timeouts),
        at: session.now().wall,
        samples: evidence.samples(),
        censored: evidence.censored,
        span: evidence.span,
        grade: evidence.grade.as_str(),
        latencies: vec![
            ("min", read.fastest()),
            // What an attempt must have left to be worth starting.
            ("p50", Some(suggestion.typical)),
            ("p90", value(Share::P90)),
            ("p95", value(Share::P95)),
            ("p99", value(Share::P99)),
            ("p99_upper", p99.and_then(|p99| p99.bound)),
            ("p999", value(Share::P999)),
            ("max", read.slowest()),
        ],
        thin: !suggestion.weaknesses.is_empty(),
        hlog: None,
    }
}

/// Returns the lines that go and come.
fn difference(path: &Path, old: &str, new: &str) -> String {
    let (old, new): (Vec<&str>, Vec<&str>) = (old.lines().collect(), new.lines().collect());
    let mut lines = vec![format!("{}:", path.display())];
    if old.len().max(new.len()) > LINES_COMPARED {
        lines.push(format!("  {} lines become {}", old.len(), new.len()));
        return lines.join("\n");
    }
    let common = common(&old, &new);
    let (mut from, mut to) = (0, 0);
    while from < old.len() || to < new.len() {
        let goes = from < old.len() && (to == new.len() || common[from + 1][to] >= common[from][to + 1]);
        if from < old.len() && to < new.len() && old[from] == new[to] {
            (from, to) = (from + 1, to + 1);
        } else if goes {
            lines.push(format!("  - {}", old[from]));
            from += 1;
        } else {
            lines.push(format!("  + {}", new[to]));
            to += 1;
        }
    }
    lines.join("\n")
}

/// Returns how many lines the rests of both texts have in common, in order, for each pair of rests.
fn common(old: &[&str], new: &[&str]) -> Vec<Vec<usize>> {
    let mut common = vec![vec![0; new.len() + 1]; old.len() + 1];
    for from in (0..old.len()).rev() {
        for to in (0..new.len()).rev() {
            common[from][to] = match old[from] == new[to] {
                true => common[from + 1][to + 1] + 1,
                false => common[from + 1][to].max(common[from][to + 1]),
            };
        }
    }
    common
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_shows_the_lines_that_go_and_come() {
        let found = difference(Path::new("p.toml"), "a\nb\nc\n", "a\nB\nc\nd\n");
        assert_eq!(found, "p.toml:\n  - b\n  + B\n  + d");
        assert_eq!(difference(Path::new("p.toml"), "", "a\n"), "p.toml:\n  + a");
    }
}
