//! How long answers take by the hour of the day.

use super::Calibrated;
use super::axis::Axis;
use super::drawing::{At, Drawing, Plot};
use super::text::short;
use abide::engine::suggest::latencies::Latencies;
use abide::engine::suggest::rounding::show_three_digits;
use abide::engine::suggest::season::show_hour;
use abide::engine::suggest::share::Share;
use std::time::Duration;

const SIZE: (f64, f64) = (640.0, 300.0);
const PLOT: Plot = Plot { left: 58.0, top: 10.0, width: 576.0, height: 250.0 };
/// The latencies of an hour are told apart in so many steps.
const STEPS: usize = 24;

/// Returns why there is no map of the hours; `None` where there is one.
pub(super) fn unmapped(found: &Calibrated<'_>) -> Option<String> {
    let mut hours = found.seen.hours.iter();
    let over_a_day = "A map of the hours takes samples over a day: --over 24h, or --from-ledger.";
    match (hours.next(), hours.next()) {
        (None, _) => Some("The samples came without times: which hours of the day are slow is not known.".into()),
        (Some((hour, _)), None) => Some(format!("All samples are from {}. {over_a_day}", show_hour(hour))),
        _ => None,
    }
}

/// Returns the drawing: the darker a field, the more of the answers of its hour.
pub(super) fn map(found: &Calibrated<'_>) -> String {
    let limit = found.result.ok().map(|suggestion| suggestion.read.proposed);
    let axis = Axis::new(&found.seen.read, limit);
    let about = "Hours from left to right, latencies upwards; the numbers are in the table below.";
    let mut drawing = Drawing::new("hours", SIZE, "Answers by the hour of the day", about);
    drawing.upward(&axis, &PLOT);
    let (width, height) = (PLOT.width / 24.0, PLOT.height / STEPS as f64);
    for hour in 0..24u8 {
        let left = PLOT.left + f64::from(hour) * width;
        if hour % 3 == 0 {
            let bottom = PLOT.top + PLOT.height;
            drawing.words("mark", (left + width / 2.0, bottom + 17.0), At::Middle, &format!("{hour:02}"));
        }
        let seen = found.seen.hours.iter().find(|(seen, _)| *seen == hour).map(|(_, seen)| seen);
        let Some(seen) = seen else {
            drawing.block("unseen", (left, PLOT.top), (width, PLOT.height), 0.5);
            continue;
        };
        for (step, part) in parts(seen, &axis).into_iter().enumerate().filter(|(_, part)| *part > 0.0) {
            let top = PLOT.top + PLOT.height - (step + 1) as f64 * height;
            // The square root, so that single answers are seen.
            drawing.block("some", (left + 0.5, top), (width - 1.0, height), part.sqrt().max(0.1));
        }
    }
    drawing.words("mark", (PLOT.left + PLOT.width, SIZE.1 - 4.0), At::End, "hour of the day, UTC");
    if let Some(limit) = limit {
        let y = PLOT.y(&axis, limit);
        drawing.line("new", (PLOT.left, y), (PLOT.left + PLOT.width, y));
    }
    drawing.done()
}

/// Returns which part of an hour's answers lies in each step of the axis, from below.
fn parts(seen: &Latencies, axis: &Axis) -> Vec<f64> {
    let mut counts = vec![0u64; STEPS];
    for cell in seen.cells() {
        let step = (axis.share(cell.high) * STEPS as f64) as usize;
        counts[step.min(STEPS - 1)] += cell.events;
    }
    let all = seen.events().max(1) as f64;
    counts.into_iter().map(|count| count as f64 / all).collect()
}

pub(super) const HEADS: [&str; 6] = ["hour, UTC", "samples", "given up", "p50", "p99", "above the new read limit"];

/// Returns the same in numbers.
pub(super) fn rows(found: &Calibrated<'_>) -> Vec<Vec<String>> {
    let limit = found.result.ok().map(|suggestion| suggestion.read.proposed);
    let value = |seen: &Latencies, share| {
        seen.value(share).map_or_else(|not| format!("> {}", show_three_digits(not.above)), show_three_digits)
    };
    let above = |seen: &Latencies, limit: Duration| {
        let above = seen.above(limit);
        format!("{} of {} ({} %)", above.hits, above.of, short(above.seen() * 100.0))
    };
    let row = |(hour, seen): (u8, &Latencies)| {
        vec![
            format!("{hour:02}:00"),
            seen.samples().to_string(),
            seen.censored().to_string(),
            value(seen, Share::P50),
            value(seen, Share::P99),
            limit.map_or("-".into(), |limit| above(seen, limit)),
        ]
    };
    found.seen.hours.iter().map(row).collect()
}
