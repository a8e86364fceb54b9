//! What a run of samples needs while it lasts, and how far it is.

use super::super::exit::Failure;
use super::super::signals::{InFlight, Signals};
use super::super::{Session, runtime, way};
use super::keep::Keeper;
use super::settings::Settings;
use crate::report::calibrate::executions;
use crate::report::progress;
use abide::engine::operation::Operation;
use abide::engine::suggest::executions::Executions;
use abide::engine::suggest::rounding::show_three_digits;
use abide::engine::suggest::share::Share;
use abide::engine::units::show_rounded;
use abide::measure::Tally;
use abide::measure::sampler::{self, Caller, Ended, Sample};
use abide::net::WireSettings;
use abide::net::chance::Chance;
use abide::net::clock::Interrupt;
use std::time::{Duration, Instant};

/// How often percentiles are worked out while samples are taken.
const REFRESH: Duration = Duration::from_millis(500);
/// How often something is said where there is no terminal.
const LINE_EVERY: Duration = Duration::from_secs(60);

/// Who wants the samples of a run.
pub struct Desk<'a> {
    /// What was asked for.
    pub settings: &'a Settings,
    /// `--resolve`.
    pub resolve: &'a [String],
    /// What every command knows.
    pub session: &'a Session,
    /// Where keys come from.
    pub chance: &'a mut Chance,
    /// Who takes signals.
    pub signals: Signals,
    /// What is kept of what was measured.
    pub keeper: Option<&'a mut Keeper>,
    /// How far it is.
    pub progress: Progress,
}

/// How far a run is, as it was said last.
pub struct Progress {
    start: Instant,
    refreshed: Option<Duration>,
    said: Duration,
    words: String,
}

impl Progress {
    /// Begins now.
    pub fn start() -> Progress {
        Progress { start: Instant::now(), refreshed: None, said: Duration::ZERO, words: String::new() }
    }
}

impl Desk<'_> {
    /// Takes all samples, and shows how far that is.
    ///
    /// # Errors
    /// The system has no room for it; nothing was sent.
    pub fn run(mut self, interrupt: &Interrupt) -> Result<(Tally, Ended), Failure> {
        let (runtime, settings) = (runtime()?, self.settings);
        self.open();
        let taken = runtime.block_on(sampler::take(&settings.plan, &settings.subject, &mut self, interrupt));
        // A name lookup may still hang on a thread of its own: nothing waits for it.
        runtime.shutdown_background();
        self.session.screen.calm();
        Ok(taken)
    }

    /// Shows a bar, where there is a terminal, and has the last words ready.
    fn open(&self) {
        if self.settings.recipe.is_some() {
            self.signals.account(executions::words(&Executions::default()));
        }
        if self.session.wants_spinner() {
            self.session.screen.spin(progress::samples(self.settings.plan.samples));
        }
    }

    fn tell(&mut self, tally: &Tally) {
        let Progress { start, refreshed, said, words } = &mut self.progress;
        let passed = start.elapsed();
        if refreshed.is_none_or(|last| passed.saturating_sub(last) >= REFRESH) {
            *refreshed = Some(passed);
            *words = so_far(tally);
        }
        self.session.screen.count(|| words.clone());
        if !self.session.wants_spinner() && passed.saturating_sub(*said) >= LINE_EVERY {
            *said = passed;
            self.session.screen.talk(&format!("{} after {}{words}", tally.ended(), show_rounded(passed)));
        }
    }
}

impl Caller for Desk<'_> {
    fn wire(&mut self) -> WireSettings {
        let subject = &self.settings.subject;
        WireSettings {
            answer_max_bytes: subject.policy.sizes.response_bytes,
            mask: subject.mask.clone(),
            wall: self.session.context.wall_clock(),
            // A send is a process of its own and looks names up itself.
            names: way::names(self.resolve).expect("they were read before"),
            tls: self.settings.tls.clone(),
            proxies: self.settings.proxies.clone(),
        }
    }

    fn operation(&mut self) -> Option<Operation> {
        let recipe = self.settings.recipe.as_ref()?;
        // Never from --seed: a run that is repeated must not repeat its keys.
        let key = self.chance.key(self.session.now().wall);
        let until = Instant::now() + self.settings.plan.limits().whole;
        self.signals.departed(&key, InFlight { a: None, until });
        Some(recipe.operation(&key))
    }

    fn saw(&mut self, tally: &Tally, ended: Sample<'_>) {
        if let Some(key) = ended.key {
            self.signals.accounted(key, executions::words(&tally.executions));
        }
        self.keeper.iter_mut().for_each(|keeper| keeper.add(tally, ended.taken, ended.at));
        self.tell(tally);
    }
}

/// Returns the percentiles so far, and what else was counted.
fn so_far(tally: &Tally) -> String {
    let Ok(read) = tally.read.latencies() else { return String::new() };
    let shown = [Share::P50, Share::P95, Share::P99].map(|share| match read.value(share) {
        Ok(value) => format!("  p{share} {}", show_three_digits(value)),
        Err(_) => format!("  p{share} ?"),
    });
    let counts = [
        ("given up", read.censored()),
        ("failed", tally.failures.all()),
        ("in doubt", tally.executions.in_doubt),
        ("not sent", tally.missed),
    ];
    let some = counts.iter().filter(|(_, count)| *count > 0).map(|(what, count)| format!("  {what} {count}"));
    shown.into_iter().chain(some).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use abide::engine::moment::Timestamp;
    use abide::engine::suggest::latencies::Sample;
    use abide::engine::suggest::sample::Taken;
    use abide::engine::suggest::seen::Failing;

    #[test]
    fn the_bar_tells_percentiles_so_far_and_what_else_was_counted() {
        let mut tally = Tally::default();
        let mut add = |taken: Taken| tally.add(&taken, Timestamp::from_unix_ms(0));
        let read = |ms| Some(Sample::Event(Duration::from_millis(ms)));
        (1..=100).for_each(|ms| add(Taken { read: read(ms), ..Taken::default() }));
        assert_eq!(so_far(&tally), "  p50 50ms  p95 95ms  p99 99ms");
        let given_up = Taken { read: Some(Sample::Censored(Duration::from_secs(1))), ..Taken::default() };
        (0..4).for_each(|_| tally.add(&given_up, Timestamp::from_unix_ms(0)));
        tally.add(&Taken { failure: Some(Failing::Reset), ..Taken::default() }, Timestamp::from_unix_ms(0));
        tally.missed = 2;
        assert_eq!(so_far(&tally), "  p50 52ms  p95 99ms  p99 ?  given up 4  failed 1  not sent 2");
        assert_eq!(so_far(&Tally::default()), "  p50 ?  p95 ?  p99 ?");
    }
}
