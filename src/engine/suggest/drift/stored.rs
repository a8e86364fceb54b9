//! The comparison with two percentiles, where nothing else was kept of the old samples.

use super::super::super::measured::Measured;
use super::super::latencies::Latencies;
use super::super::ranks::Rate;
use super::super::rules::LEAST_EVENTS;
use super::super::share::Share;
use super::{Drift, NoComparison, Tail, correct, fit, more_by_chance};
use std::time::Duration;

impl Drift {
    /// Returns what changed since an endpoint was measured, of which its profile keeps two percentiles: as many of the
    /// old samples lie above each as its rank says. Otherwise as [`Drift::new`]; what takes all old samples stays unknown.
    ///
    /// # Errors
    /// [`NoComparison`].
    ///
    /// Source: latency.md 3.8.
    pub fn since(old: &Measured, new: &Latencies, read: Duration, accepted: Share) -> Result<Drift, NoComparison> {
        let known = [(Share::P95, old.p95), (Share::P99, old.p99)];
        let (Some(of), true) = (old.samples, known.iter().any(|(_, value)| value.is_some())) else {
            return Err(NoComparison::NotMeasured);
        };
        if let Some(events) = [of, new.events()].into_iter().find(|events| *events < LEAST_EVENTS) {
            return Err(NoComparison::FewEvents { events });
        }
        let tail = |(percentile, value): (Share, Option<Duration>)| {
            let value = value?;
            let (old, new) = (Rate { hits: of - percentile.rank(of), of }, new.above(value));
            Some(Tail { percentile, value, old, new, likelihood: more_by_chance(old, new) })
        };
        let mut tails: Vec<Tail> = known.into_iter().filter_map(tail).collect();
        correct(&mut tails);
        let ratio = old.p95.map(|old| match new.value(Share::P95) {
            Ok(new) => new.as_secs_f64() / old.as_secs_f64(),
            Err(_) => f64::INFINITY,
        });
        let above_read = new.above(read);
        let fit = fit(above_read, new.above(read / 2), accepted.as_f64());
        Ok(Drift { tails, ratio, above_read, fit, slower: None, distance: None })
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::latencies::Sample;
    use super::super::Fit;
    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn events(ms: impl IntoIterator<Item = u64>) -> Latencies {
        let samples = ms.into_iter().map(|ms| Sample::Event(Duration::from_millis(ms)));
        Latencies::from_samples(samples).expect("few samples")
    }

    /// What is kept of 1,000 answers after 1 to 1,000 ms.
    fn kept() -> Measured {
        Measured { samples: Some(1_000), p95: Some(ms(950)), p99: Some(ms(990)), ..Measured::default() }
    }

    fn since(old: &Measured, new: &Latencies) -> Result<Drift, NoComparison> {
        Drift::since(old, new, ms(1_250), Share::P99.complement())
    }

    #[test]
    fn the_same_answers_have_not_drifted_and_slower_ones_have() {
        let found = since(&kept(), &events(1..=1_000)).expect("enough");
        assert_eq!((found.is_alarm(), found.ratio, found.fit), (false, Some(1.0), Fit::Fits));
        assert_eq!(found.tails[0].old, Rate { hits: 50, of: 1_000 });
        assert_eq!(found.tails[0].new, Rate { hits: 50, of: 1_000 });
        assert!(since(&kept(), &events((1..=1_000).map(|ms| ms * 3 / 2))).expect("enough").is_alarm());
        let faster = since(&kept(), &events((1..=1_000).map(|ms| ms / 3))).expect("enough");
        assert_eq!((faster.is_alarm(), faster.fit), (false, Fit::CouldBeHalved));
    }

    #[test]
    fn with_all_samples_of_both_the_judgement_is_the_same() {
        let old = events(1..=1_000);
        for new in
            [events(1..=1_000), events(200..=1_200), events((1..=300).map(|n| n * 5)), events((1..=400).map(|n| n * 2))]
        {
            let whole = Drift::new(&old, &new, ms(1_250), Share::P99.complement()).expect("enough");
            assert_eq!(since(&kept(), &new).expect("enough").is_alarm(), whole.is_alarm());
        }
    }

    #[test]
    fn a_p95_that_is_no_longer_known_is_infinitely_longer() {
        let hangs = (0..100).map(|_| Sample::Censored(ms(2_000)));
        let answers = (1..=200).map(|n| Sample::Event(ms(n)));
        let new = Latencies::from_samples(answers.chain(hangs)).expect("few samples");
        let found = since(&kept(), &new).expect("enough");
        assert_eq!((found.ratio, found.is_alarm()), (Some(f64::INFINITY), true));
    }

    #[test]
    fn what_was_not_measured_is_not_compared() {
        let new = events(1..=100);
        assert_eq!(since(&Measured::default(), &new), Err(NoComparison::NotMeasured));
        let unnamed = Measured { samples: None, ..kept() };
        assert_eq!(since(&unnamed, &new), Err(NoComparison::NotMeasured));
        let few = Measured { samples: Some(19), ..kept() };
        assert_eq!(since(&few, &new), Err(NoComparison::FewEvents { events: 19 }));
        assert_eq!(since(&kept(), &events(1..=19)), Err(NoComparison::FewEvents { events: 19 }));
    }
}
