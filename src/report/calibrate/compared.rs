//! What changed since an earlier measurement.

use super::super::paint::Paint;
use super::overlay::{Row, bars};
use super::text::{indented, short, so_many};
use abide::engine::suggest::drift::{ALARM, Drift, Fit, NoComparison, Tail};
use abide::engine::suggest::ranks::Rate;
use abide::engine::suggest::rounding::show_three_digits;
use abide::engine::suggest::share::Share;
use abide::engine::units::show_duration;
use serde_json::{Value, json};
use std::time::Duration;

/// A comparison with an earlier measurement.
#[derive(Debug)]
pub struct Compared {
    /// What it is compared with: `[measured] of acme.toml, 2026-11-29`.
    pub with: String,
    /// What is missing of it, in words: `compared with p95 and p99 alone: a.hlog: no such file`.
    pub lacks: Option<String>,
    /// What changed, or why that is not known.
    pub drift: Result<Drift, NoComparison>,
    /// The read limit in force.
    pub read: Duration,
    /// How many answers may take longer.
    pub accepted: Share,
    /// The percentiles, before and now; empty where they are not compared.
    pub percentiles: Vec<Moved>,
}

/// A percentile, before and now; `None` where it lies beyond what was waited for.
#[derive(Clone, Copy, Debug)]
pub struct Moved {
    /// Which.
    pub percentile: Share,
    /// Before.
    pub before: Option<Duration>,
    /// Now.
    pub now: Option<Duration>,
}

impl Moved {
    /// Returns both for people.
    fn both(&self) -> [String; 2] {
        [self.before, self.now].map(|at| at.map_or("longer than was waited for".into(), show_three_digits))
    }

    fn words(&self) -> String {
        let [before, now] = self.both();
        format!("p{} {before} before, {now} now", self.percentile)
    }
}

impl Compared {
    /// Tells whether nothing has become worse, for all that is known.
    pub fn is_fine(&self) -> bool {
        self.drift.as_ref().is_ok_and(|drift| !drift.is_alarm())
    }

    /// Returns it for people.
    pub fn text(&self, paint: Paint) -> String {
        let mut lines = vec![self.verdict(paint)];
        if !self.percentiles.is_empty() {
            lines.push(self.percentiles.iter().map(Moved::words).collect::<Vec<_>>().join("; "));
        }
        lines.extend(self.reasons());
        format!("{}\n{}", paint.bold(&self.title()), indented(&lines.join("\n")))
    }

    /// Returns what it is about.
    pub(super) fn title(&self) -> String {
        format!("Compared with {}", self.with)
    }

    /// Returns whether the partner has become slower, or why that is not known.
    pub(super) fn verdict(&self, paint: Paint) -> String {
        match &self.drift {
            Ok(drift) if drift.is_alarm() => format!("{}: the partner has become slower", paint.red("drifted")),
            Ok(_) => format!("{}: no slower than before", paint.green("no drift")),
            Err(why) => format!("{}: {why}", paint.yellow("not compared")),
        }
    }

    /// Returns the percentiles as a drawing.
    pub(super) fn drawing(&self) -> String {
        let row = |moved: &Moved| Row { about: moved.words(), was: moved.before, will: moved.now, seen: None };
        bars("compared", "Before and now", &self.percentiles.iter().map(row).collect::<Vec<_>>())
    }

    /// Returns the percentiles as a table.
    pub(super) fn rows(&self) -> Vec<Vec<String>> {
        let row = |moved: &Moved| {
            let [before, now] = moved.both();
            vec![format!("{} (p{})", so_many(moved.percentile), moved.percentile), before, now]
        };
        self.percentiles.iter().map(row).collect()
    }

    /// Returns what the verdict goes by.
    pub(super) fn reasons(&self) -> Vec<String> {
        let mut lines: Vec<String> = self.lacks.iter().cloned().collect();
        let Ok(drift) = &self.drift else { return lines };
        lines.extend(drift.ratio.map(|ratio| match ratio {
            ratio if ratio.is_infinite() => "p95 was known, and is beyond what was waited for now".into(),
            ratio => format!("p95 is {} x what it was", short(ratio)),
        }));
        for Tail { percentile, value, old, new, likelihood } in &drift.tails {
            let limit = show_three_digits(*value);
            let chance = match likelihood {
                likelihood if *likelihood < ALARM => "more than chance explains",
                _ => "which may be chance",
            };
            lines.push(format!(
                "longer than p{percentile}, {limit}: {} before, {} now, {chance}",
                percent(*old),
                percent(*new)
            ));
        }
        lines.push(self.limit(drift));
        lines
    }

    /// Returns what the read limit in force means now.
    fn limit(&self, drift: &Drift) -> String {
        let read = show_duration(self.read);
        let (low, high) = drift.above_read_within();
        let Rate { hits, of } = drift.above_read;
        let seen = format!("{hits} of {of} answers take longer");
        let range = format!("{} % to {} % of all, 95 % sure", short(low * 100.0), short(high * 100.0));
        let fit = match drift.fit {
            Fit::TooTight => "is too short now",
            Fit::Fits => "still fits",
            Fit::CouldBeHalved => "could be half as long",
        };
        format!(
            "the read limit {read} {fit}: {seen}, which means {range}; {} % may",
            short(self.accepted.as_f64() * 100.0)
        )
    }

    /// Returns it for machines. What is not known is null.
    pub fn document(&self) -> Value {
        let drift = self.drift.as_ref().ok();
        let tail = |tail: &Tail| {
            json!({
                "percentile": tail.percentile.to_string(),
                "value_ms": super::json::ms(tail.value),
                "old_above": tail.old.hits,
                "old_of": tail.old.of,
                "new_above": tail.new.hits,
                "new_of": tail.new.of,
                "likelihood": tail.likelihood,
            })
        };
        json!({
            "with": self.with,
            "lacks": self.lacks,
            "why_not": self.drift.as_ref().err().map(ToString::to_string),
            "drifted": drift.map(Drift::is_alarm),
            "percentiles": self.percentiles.iter().map(|Moved { percentile, before, now }| json!({
                "percentile": percentile.to_string(),
                "before_ms": before.map(super::json::ms),
                "now_ms": now.map(super::json::ms),
            })).collect::<Vec<_>>(),
            "p95_ratio": drift.and_then(|drift| drift.ratio).filter(|ratio| ratio.is_finite()),
            "p95_beyond": drift.map(|drift| drift.ratio.is_some_and(f64::is_infinite)),
            "tails": drift.map(|drift| drift.tails.iter().map(tail).collect::<Vec<_>>()),
            "read_limit_ms": super::json::ms(self.read),
            "above_read": drift.map(|drift| drift.above_read.hits),
            "above_read_of": drift.map(|drift| drift.above_read.of),
            "above_read_low": drift.map(|drift| drift.above_read_within().0),
            "above_read_high": drift.map(|drift| drift.above_read_within().1),
            "accepted": self.accepted.as_f64(),
            "fit": drift.map(|drift| match drift.fit {
                Fit::TooTight => "too_tight",
                Fit::Fits => "fits",
                Fit::CouldBeHalved => "could_be_halved",
            }),
            "slower": drift.and_then(|drift| drift.slower),
            "distance": drift.and_then(|drift| drift.distance),
        })
    }
}

fn percent(rate: Rate) -> String {
    format!("{} of {}", rate.hits, rate.of)
}
