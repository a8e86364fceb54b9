//! The limits in force and the suggested ones, one below the other, over what was measured.

use super::Calibrated;
use super::axis::{Axis, short};
use super::drawing::{At, Drawing, Plot};
use abide::engine::suggest::Suggestion;
use abide::engine::suggest::share::Share;
use abide::engine::units::show_duration;

const SIZE: (f64, f64) = (640.0, 262.0);
const PLOT: Plot = Plot { left: 10.0, top: 8.0, width: 614.0, height: 224.0 };

/// Returns the drawing.
pub(super) fn overlay(found: &Calibrated<'_>, suggestion: &Suggestion) -> String {
    let seen = found.seen;
    let limits = suggestion.limits();
    let stages = [Some(&seen.connect), Some(&seen.read), Some(&seen.whole), None];
    let medians = stages.map(|stage| stage.and_then(|stage| stage.value(Share::P50).ok()));
    let ends = limits.iter().flat_map(|(_, limit)| [limit.current, limit.proposed]);
    let all: Vec<_> = ends.chain(medians.into_iter().flatten()).collect();
    let least = all.iter().min().copied().unwrap_or_default();
    let axis = Axis::between(least, all.iter().max().copied().unwrap_or_default());
    let about = limits.map(|(name, limit)| {
        format!("{name} {} becomes {}", show_duration(limit.current), show_duration(limit.proposed))
    });
    let mut drawing = Drawing::new("limits", SIZE, "Limits now and new", &about.join(", "));
    let x = |at| PLOT.place(axis.share(at), 0.0).0;
    let bottom = PLOT.top + PLOT.height;
    let mut taken = Vec::<f64>::new();
    for mark in axis.marks() {
        let x = x(mark);
        if taken.iter().all(|other| (other - x).abs() >= 48.0) {
            taken.push(x);
            drawing.line("grid", (x, PLOT.top), (x, bottom));
            let at = match axis.share(mark) {
                ..0.03 => At::Start,
                0.97.. => At::End,
                _ => At::Middle,
            };
            drawing.words("mark", (x, bottom + 18.0), at, &short(mark));
        }
    }
    let row = PLOT.height / limits.len() as f64;
    for (n, (about, ((_, limit), stage))) in about.iter().zip(limits.iter().zip(stages)).enumerate() {
        let top = PLOT.top + n as f64 * row;
        drawing.words("label", (PLOT.left + 2.0, top + 15.0), At::Start, about);
        drawing.block("was", (PLOT.left, top + 21.0), (x(limit.current) - PLOT.left, 9.0), 1.0);
        drawing.block("will", (PLOT.left, top + 32.0), (x(limit.proposed) - PLOT.left, 9.0), 1.0);
        let measured = stage.and_then(|stage| Some((stage.value(Share::P50).ok()?, stage.slowest()?)));
        if let Some((median, slowest)) = measured {
            drawing.line("curve", (x(median), top + 46.0), (x(slowest), top + 46.0));
            drawing.dot("dot", (x(median), top + 46.0));
        }
    }
    drawing.done()
}
