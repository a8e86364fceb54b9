//! Two values of the same thing, one bar below the other: limits in force and suggested ones, or before and now.

use super::Calibrated;
use super::axis::{Axis, short};
use super::drawing::{At, Drawing, Plot};
use abide::engine::suggest::Suggestion;
use abide::engine::suggest::share::Share;
use abide::engine::units::show_duration;
use std::time::Duration;

/// Where the bars lie; their number says how high it is.
const PLOT: Plot = Plot { left: 10.0, top: 8.0, width: 614.0, height: 0.0 };
/// The height of a row.
const ROW: f64 = 56.0;
/// How dense a bar is whose end is not known.
const OPEN: f64 = 0.35;

/// Two bars.
pub(super) struct Row {
    /// What they say, in words.
    pub(super) about: String,
    /// The upper one; `None`: longer than all that is known.
    pub(super) was: Option<Duration>,
    /// The lower one.
    pub(super) will: Option<Duration>,
    /// The median and the slowest of what was measured, below both.
    pub(super) seen: Option<(Duration, Duration)>,
}

/// Returns the limits in force and the suggested ones, over what was measured.
pub(super) fn overlay(found: &Calibrated<'_>, suggestion: &Suggestion) -> String {
    let seen = found.seen;
    let stages = [Some(&seen.connect), Some(&seen.read), Some(&seen.whole), None];
    let rows = suggestion.limits().into_iter().zip(stages).map(|((name, limit), stage)| Row {
        about: format!("{name} {} becomes {}", show_duration(limit.current), show_duration(limit.proposed)),
        was: Some(limit.current),
        will: Some(limit.proposed),
        seen: stage.and_then(|stage| Some((stage.value(Share::P50).ok()?, stage.slowest()?))),
    });
    bars("limits", "Limits now and new", &rows.collect::<Vec<_>>())
}

/// Returns the drawing; `id` is its own on the page.
pub(super) fn bars(id: &str, title: &str, rows: &[Row]) -> String {
    let ends = rows.iter().flat_map(|row| [row.was, row.will, row.seen.map(|(median, _)| median)]).flatten();
    let (least, most) = (ends.clone().min().unwrap_or_default(), ends.max().unwrap_or_default());
    let axis = Axis::between(least, most);
    let about: Vec<&str> = rows.iter().map(|row| &*row.about).collect();
    let plot = Plot { height: ROW * rows.len() as f64, ..PLOT };
    let bottom = plot.top + plot.height;
    let mut drawing = Drawing::new(id, (640.0, bottom + 30.0), title, &about.join(", "));
    marks(&mut drawing, &axis, &plot);
    let x = |at| plot.place(axis.share(at), 0.0).0;
    for (n, row) in rows.iter().enumerate() {
        let top = plot.top + n as f64 * ROW;
        drawing.words("label", (plot.left + 2.0, top + 15.0), At::Start, &row.about);
        for (class, down, end) in [("was", 21.0, row.was), ("will", 32.0, row.will)] {
            let (width, dense) = end.map_or((plot.width, OPEN), |end| (x(end) - plot.left, 1.0));
            drawing.block(class, (plot.left, top + down), (width, 9.0), dense);
        }
        if let Some((median, slowest)) = row.seen {
            drawing.line("curve", (x(median), top + 46.0), (x(slowest), top + 46.0));
            drawing.dot("dot", (x(median), top + 46.0));
        }
    }
    drawing.done()
}

/// Draws the round latencies that there is room for.
fn marks(drawing: &mut Drawing, axis: &Axis, plot: &Plot) {
    let (mut taken, bottom) = (Vec::<f64>::new(), plot.top + plot.height);
    for mark in axis.marks() {
        let x = plot.place(axis.share(mark), 0.0).0;
        if taken.iter().all(|other| (other - x).abs() >= 48.0) {
            taken.push(x);
            drawing.line("grid", (x, plot.top), (x, bottom));
            let at = match axis.share(mark) {
                ..0.03 => At::Start,
                0.97.. => At::End,
                _ => At::Middle,
            };
            drawing.words("mark", (x, bottom + 18.0), at, &short(mark));
        }
    }
}
