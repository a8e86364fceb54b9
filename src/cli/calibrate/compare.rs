//! `--compare`: has the partner become slower since it was measured last?

use super::super::Session;
use super::super::args::CalibrateArgs;
use super::super::exit::Failure;
use super::{between, imported, whole};
use crate::report::calibrate::{Compared, Moved};
use abide::engine::measured::Measured;
use abide::engine::policy::Policy;
use abide::engine::suggest::drift::{Drift, NoComparison};
use abide::engine::suggest::latencies::Latencies;
use abide::engine::suggest::seen::{Options, Seen};
use abide::engine::suggest::share::Share;
use abide::measure::counted;
use abide::measure::recording::Recording;
use abide::profile::Profile;
use url::Url;

/// What was measured before.
#[derive(Debug)]
pub struct Before {
    /// What it is, for people.
    with: String,
    /// Why not all samples are known that a profile says where to find, in words.
    lacks: Option<String>,
    kept: Kept,
}

/// What may have been measured before.
#[derive(Debug)]
pub struct Endpoint<'a> {
    /// The profile that keeps it.
    pub profile: Option<&'a Profile>,
    /// What is in force for it.
    pub policy: &'a Policy,
    /// The absolute URL.
    pub url: &'a str,
}

#[derive(Debug)]
enum Kept {
    /// Two percentiles, in a profile.
    Percentiles(Measured),
    /// All samples, in a file.
    Samples(Latencies),
}

impl Before {
    /// Reads what is compared with; `None` where nothing is.
    ///
    /// # Errors
    /// It cannot be read, or nothing was measured. Nothing was sent.
    pub fn read(args: &CalibrateArgs, endpoint: &Endpoint<'_>, session: &Session) -> Result<Option<Before>, Failure> {
        let Some(given) = &args.suggesting.compare else { return Ok(None) };
        let named = "name a file that --hlog wrote: --compare=FILE";
        let policy = endpoint.policy;
        match (given, endpoint.profile) {
            (Some(file), _) => {
                let file = if imported::has_form(file) { file.clone() } else { format!("hlog:{file}") };
                let read = imported::read("--compare", &file, None, session)?;
                let when = read.when.map(|when| format!(", {when}")).unwrap_or_default();
                let with = format!("{file}{when}");
                Ok(Some(Before { with, lacks: None, kept: Kept::Samples(read.seen.read) }))
            }
            (None, None) => Err(Failure::usage("--compare: there is no profile with [measured]").hint(named)),
            (None, Some(profile)) if policy.measured == Measured::default() => {
                let why = format!("--compare: {} has no [measured] for this endpoint", profile.path.display());
                Err(Failure::usage(why).hint(format!("--write puts it there; or {named}")))
            }
            (None, Some(profile)) => Ok(Some(Before::of_profile(profile, endpoint, session))),
        }
    }

    /// Returns all samples of what a profile keeps, where it names a file that holds them; else the percentiles.
    fn of_profile(profile: &Profile, endpoint: &Endpoint<'_>, session: &Session) -> Before {
        let (measured, now) = (endpoint.policy.measured, session.now().wall);
        let of = format!("[measured] of {}", profile.path.display());
        let url = Url::parse(endpoint.url).ok();
        let file = url.and_then(|url| profile.recording(&endpoint.policy.method, &url));
        let mut lacks = None;
        if let Some(file) = file {
            let shown = profile.mask.hide(&file.display().to_string());
            match whole::read(file, &measured) {
                Ok(Recording { seen, when, .. }) => {
                    let when = when.map(|(first, last)| format!(", {}", between(first, last, session)));
                    let with = format!("{shown}{}, which {of} names", when.unwrap_or_default());
                    return Before { with, lacks: None, kept: Kept::Samples(seen.read) };
                }
                Err(why) => lacks = Some(format!("compared with p95 and p99 alone: {shown}: {why}")),
            }
        }
        let at = measured.at.map(|at| format!(", {}", session.local.local(at, now))).unwrap_or_default();
        Before { with: of + &at, lacks, kept: Kept::Percentiles(measured) }
    }

    /// Compares what is seen now with it.
    pub fn compared(&self, seen: &Seen, options: &Options) -> Compared {
        let (read, accepted) = (options.timeouts.read, options.percentile.complement());
        let drift = match &self.kept {
            Kept::Percentiles(measured) => Drift::since(measured, &seen.read, read, accepted),
            Kept::Samples(old) => match Drift::new(old, &seen.read, read, accepted) {
                // A tool that writes each sample, beside a file that counts them.
                Err(NoComparison::Mixed(_)) => {
                    let both = [old, &seen.read].map(|samples| counted(samples).and_then(Result::ok));
                    let [old, new] =
                        [(old, &both[0]), (&seen.read, &both[1])].map(|(all, bins)| bins.as_ref().unwrap_or(all));
                    Drift::new(old, new, read, accepted)
                }
                drift => drift,
            },
        };
        let percentiles = drift.as_ref().map_or_else(|_| Vec::new(), |_| self.percentiles(&seen.read));
        Compared { with: self.with.clone(), lacks: self.lacks.clone(), drift, read, accepted, percentiles }
    }

    /// Returns the percentiles of which something is known before, with those of now.
    fn percentiles(&self, new: &Latencies) -> Vec<Moved> {
        let moved = |percentile, before| Moved { percentile, before, now: new.value(percentile).ok() };
        match &self.kept {
            Kept::Percentiles(old) => {
                let known = [(Share::P95, old.p95), (Share::P99, old.p99)].into_iter().filter(|(_, old)| old.is_some());
                known.map(|(percentile, old)| moved(percentile, old)).collect()
            }
            Kept::Samples(old) => [Share::P50, Share::P95, Share::P99]
                .map(|percentile| moved(percentile, old.value(percentile).ok()))
                .into(),
        }
    }
}
