//! The percentiles as a curve, with where they may lie and the limits in force and suggested.

use super::Calibrated;
use super::axis::Axis;
use super::drawing::{At, Drawing, Plot};
use abide::engine::suggest::rounding::show_three_digits;
use abide::engine::suggest::share::Share;
use abide::engine::units::show_duration;
use std::time::Duration;

const SIZE: (f64, f64) = (640.0, 360.0);
const PLOT: Plot = Plot { left: 58.0, top: 16.0, width: 566.0, height: 290.0 };
/// The curve is drawn through so many percentiles.
const POINTS: u32 = 80;

/// Returns the drawing. To the right all is ten times as rare: half of the answers, one in ten, one in a hundred.
///
/// Source: latency.md 3.11, the axis of the HdrHistogram plotter.
pub(super) fn curve(found: &Calibrated<'_>) -> String {
    let (read, minutes) = (&found.seen.read, found.evidence().minutes);
    let limits = found.result.ok().map(|suggestion| (suggestion.read.current, suggestion.read.proposed));
    let axis = Axis::new(read, limits.map(|(current, proposed)| current.max(proposed)));
    // As rare as the slowest, and as what was asked for.
    let farthest = (read.samples().max(10) as f64).log10().max(nines(found.percentile) + 0.2).min(6.0);
    let mut drawing = Drawing::new("curve", SIZE, "How long answers take", &about(found));
    let right = |share: Share| nines(share) / farthest;
    let (mut line, mut above, mut below) = (Vec::new(), Vec::new(), Vec::new());
    for share in shares(farthest) {
        let Ok(point) = read.percentile(share, minutes, Share::CONFIDENCE) else { break };
        let at = |value: Duration| PLOT.place(right(share), axis.share(value));
        line.push(at(point.value));
        above.push(point.higher.map_or(PLOT.place(right(share), 1.0), at));
        below.push(point.lower.map_or(PLOT.place(right(share), 0.0), at));
    }
    drawing.path("band", &above.into_iter().chain(below.into_iter().rev()).collect::<Vec<_>>());
    drawing.upward(&axis, &PLOT);
    for share in [500_000, 900_000, 990_000, 999_000, 999_900].into_iter().filter_map(Share::from_millionths) {
        if nines(share) <= farthest {
            let (x, bottom) = PLOT.place(right(share), 0.0);
            drawing.line("grid", (x, PLOT.top), (x, bottom));
            let at = if right(share) > 0.97 { At::End } else { At::Middle };
            drawing.words("mark", (x, bottom + 18.0), at, &format!("p{share}"));
        }
    }
    drawing.words("mark", (PLOT.left + PLOT.width, SIZE.1 - 8.0), At::End, "the slowest answers →");
    drawing.path("curve", &line);
    dots(&mut drawing, found, &axis, right);
    if let Some((current, proposed)) = limits {
        let across = |limit| (PLOT.place(0.0, axis.share(limit)), PLOT.place(1.0, axis.share(limit)));
        let ((from, to), (start, end)) = (across(current), across(proposed));
        drawing.line("old", from, to);
        drawing.line("new", start, end);
        // Beside the line that the other's words are not at.
        let (above, below) = (-6.0, 15.0);
        let (one, other) = if proposed >= current { (above, below) } else { (below, above) };
        let words = format!("new read limit {}", show_duration(proposed));
        drawing.words("new-words", (start.0 + 6.0, kept(start.1 + one)), At::Start, &words);
        let words = format!("now {}", show_duration(current));
        drawing.words("old-words", (start.0 + 6.0, kept(from.1 + other)), At::Start, &words);
    }
    drawing.done()
}

/// Draws the percentiles that are shown in words, too.
fn dots(drawing: &mut Drawing, found: &Calibrated<'_>, axis: &Axis, right: impl Fn(Share) -> f64) {
    for share in found.percentiles() {
        if let Ok(value) = found.seen.read.value(share) {
            let (x, y) = PLOT.place(right(share), axis.share(value));
            drawing.dot("dot", (x, y));
            let words = format!("p{share} {}", show_three_digits(value));
            // The curve never falls: below it and to the right there is room, but for the edge.
            let (x, at) = if right(share) > 0.85 { (x - 2.0, At::End) } else { (x + 7.0, At::Start) };
            drawing.words("label", (x, kept(y + 17.0)), at, &words);
        }
    }
}

/// Returns a height at which words are not cut off.
fn kept(y: f64) -> f64 {
    y.clamp(PLOT.top + 10.0, PLOT.top + PLOT.height - 3.0)
}

fn about(found: &Calibrated<'_>) -> String {
    let read = &found.seen.read;
    let values = found.percentiles().into_iter().map(|share| match read.value(share) {
        Ok(value) => format!("p{share} is {}", show_three_digits(value)),
        Err(not) => format!("p{share} is more than {}", show_three_digits(not.above)),
    });
    values.collect::<Vec<_>>().join(", ")
}

/// Returns how many nines a percentile has: 1 for p90, 2 for p99.
fn nines(share: Share) -> f64 {
    -share.complement().as_f64().log10()
}

fn shares(farthest: f64) -> impl Iterator<Item = Share> {
    let rare = move |point: u32| 10f64.powf(-farthest * f64::from(point) / f64::from(POINTS));
    (0..=POINTS).filter_map(move |point| Share::from_millionths(((1.0 - rare(point)) * 1e6) as u32))
}
