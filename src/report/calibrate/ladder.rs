//! The picture: percentiles on a logarithmic axis, where they may lie, and the proposed limit.

use super::axis::{Axis, short};
use abide::engine::suggest::latencies::Latencies;
use abide::engine::suggest::rounding::show_three_digits;
use abide::engine::suggest::share::Share;
use std::time::Duration;

/// Columns before the axis: the name of a percentile, and its value.
const BEFORE: usize = 20;
/// Columns behind it: where the percentile may lie.
const BEHIND: usize = 20;
/// Fewer answers are drawn lower.
const BLOCKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// An axis of so many columns.
struct Columns {
    axis: Axis,
    columns: usize,
}

impl Columns {
    /// Returns the column of a latency, from 0.
    fn column(&self, at: Duration) -> usize {
        (self.axis.share(at) * (self.columns - 1) as f64).round() as usize
    }

    /// Returns the line with the scale: the ends first, then as many round values as there is room for.
    fn scale(&self) -> String {
        let mut line = vec![' '; self.columns];
        for mark in self.axis.marks() {
            let label: Vec<char> = short(mark).chars().collect();
            let from = self.column(mark).min(self.columns - label.len().min(self.columns));
            let room = from.saturating_sub(1)..(from + label.len() + 1).min(self.columns);
            if line[room].iter().all(|free| *free == ' ') {
                line[from..from + label.len()].copy_from_slice(&label);
            }
        }
        line.into_iter().collect()
    }
}

/// Returns the picture, at most `width` columns wide. `minutes` counts for the bounds.
pub(super) fn ladder(
    latencies: &Latencies,
    minutes: u64,
    percentiles: &[Share],
    limit: Option<Duration>,
    width: usize,
) -> String {
    let columns = width.saturating_sub(BEFORE + BEHIND).max(20);
    let axis = Columns { axis: Axis::new(latencies, limit), columns };
    let mut lines = vec![format!("  {:<BEFORE$}{}", "answered after", axis.scale(), BEFORE = BEFORE - 2)];
    for percentile in percentiles {
        lines.push(rung(latencies, minutes, *percentile, limit, &axis));
    }
    lines.push(format!("  {:<BEFORE$}{}", "how many", density(latencies, limit, &axis), BEFORE = BEFORE - 2));
    lines.iter().map(|line| line.trim_end()).collect::<Vec<_>>().join("\n")
}

fn rung(latencies: &Latencies, minutes: u64, percentile: Share, limit: Option<Duration>, axis: &Columns) -> String {
    let mut line = blank(limit, axis);
    let (value, range) = match latencies.percentile(percentile, minutes, Share::CONFIDENCE) {
        Ok(found) => {
            let from = found.lower.map_or(0, |lower| axis.column(lower));
            let to = found.higher.map_or(axis.columns - 1, |higher| axis.column(higher));
            line[from..=to].iter_mut().filter(|at| **at == ' ').for_each(|at| *at = '─');
            line[from] = if found.lower.is_some() { '├' } else { '◀' };
            line[to] = if found.higher.is_some() { '┤' } else { '▶' };
            line[axis.column(found.value)] = '●';
            let end = |end: Option<Duration>| end.map_or("?".to_owned(), show_three_digits);
            let range = match (found.lower, found.higher) {
                (None, None) => "not known".into(),
                (lower, higher) => format!("{} to {}", end(lower), end(higher)),
            };
            (show_three_digits(found.value), range)
        }
        Err(not) => {
            let from = axis.column(not.above);
            line[from..].iter_mut().filter(|at| **at == ' ').for_each(|at| *at = '─');
            line[axis.columns - 1] = '▶';
            (format!("> {}", show_three_digits(not.above)), "not known".into())
        }
    };
    let axis: String = line.into_iter().collect();
    format!("  {:<8}{value:<10}{axis}  {range}", format!("p{percentile}"))
}

/// Returns an empty axis with the limit on it.
fn blank(limit: Option<Duration>, axis: &Columns) -> Vec<char> {
    let mut line = vec![' '; axis.columns];
    if let Some(limit) = limit {
        line[axis.column(limit)] = '┃';
    }
    line
}

/// Returns how many answers there are per column, by the square root, so that single ones are seen.
fn density(latencies: &Latencies, limit: Option<Duration>, axis: &Columns) -> String {
    let mut counts = vec![0u64; axis.columns];
    for cell in latencies.cells() {
        counts[axis.column(cell.high)] += cell.events;
    }
    let most = counts.iter().copied().max().unwrap_or(0).max(1) as f64;
    let mut line = blank(limit, axis);
    // The limit is seen whatever lies at it.
    for (at, count) in line.iter_mut().zip(counts).filter(|(at, count)| **at == ' ' && *count > 0) {
        let level = ((count as f64 / most).sqrt() * BLOCKS.len() as f64).ceil() as usize;
        *at = BLOCKS[level.clamp(1, BLOCKS.len()) - 1];
    }
    line.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use abide::engine::suggest::latencies::Sample;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn shares() -> Vec<Share> {
        [500_000, 990_000].into_iter().filter_map(Share::from_millionths).collect()
    }

    #[test]
    fn percentiles_lie_on_a_logarithmic_axis_with_the_limit() {
        let spread = (1..=1_000).map(|i| Sample::Event(ms(i)));
        let latencies = Latencies::from_samples(spread).expect("few samples");
        insta::assert_snapshot!(ladder(&latencies, 1_000, &shares(), Some(ms(1_300)), 80));
        let wide = ladder(&latencies, 1_000, &shares(), Some(ms(1_300)), 100);
        assert!(wide.lines().all(|line| line.chars().count() <= 100), "{wide}");
    }

    #[test]
    fn the_limit_is_seen_where_the_axis_would_end_at_it() {
        let latencies = Latencies::from_samples([20, 700].map(|at| Sample::Event(ms(at)))).expect("few samples");
        let drawn = ladder(&latencies, 1, &shares(), Some(ms(990)), 80);
        assert_eq!(drawn.matches('┃').count(), 3, "{drawn}");
    }

    #[test]
    fn an_end_that_is_not_known_is_open() {
        let mut samples = vec![Sample::Event(ms(20)); 95];
        samples.extend(vec![Sample::Censored(ms(1_000)); 5]);
        let latencies = Latencies::from_samples(samples).expect("few samples");
        insta::assert_snapshot!(ladder(&latencies, 1, &shares(), None, 80));
    }

    #[test]
    fn all_the_same_and_nothing_at_all_are_drawn_too() {
        for samples in [vec![Sample::Event(ms(5)); 3], vec![Sample::Event(Duration::ZERO)], vec![]] {
            let latencies = Latencies::from_samples(samples).expect("few samples");
            let drawn = ladder(&latencies, 1, &shares(), None, 80);
            assert!(drawn.lines().all(|line| line.chars().count() <= 80), "{drawn}");
        }
    }
}
