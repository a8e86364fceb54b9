//! Percentile tables as HdrHistogram writes them, for its plotters.

use super::counted::{Counted, DIGITS};
use std::io::{self, Write};

/// The value and the percentile of each line, and how many samples lie at or below.
struct Line {
    value_ns: u64,
    percentile: f64,
    count: u64,
}

/// Nanoseconds of the unit in which values are written.
const UNIT: f64 = 1e6;
/// Lines for each halving of the distance to 100 %.
const TICKS: u64 = 5;

/// Writes the percentiles of `counted` in milliseconds.
///
/// # Errors
/// What `out` fails with.
///
/// Source: latency.md 2.1 and 3.11: byte for byte as `outputPercentileDistribution` of HdrHistogram for Java.
pub fn write(out: &mut impl Write, counted: &Counted) -> io::Result<()> {
    let histogram = &counted.histogram;
    writeln!(out, "{:>12} {:>14} {:>10} {:>14}\n", "Value", "Percentile", "TotalCount", "1/(1-Percentile)")?;
    for Line { value_ns, percentile, count } in lines(counted) {
        let (value, share) = (value_ns as f64 / UNIT, percentile / 100.0);
        write!(out, "{value:12.3} {share:2.12} {count:10}")?;
        if percentile < 100.0 {
            write!(out, " {:14.2}", 1.0 / (1.0 - share))?;
        }
        writeln!(out)?;
    }
    let (mean, deviation) = (histogram.mean() / UNIT, histogram.stdev() / UNIT);
    writeln!(out, "#[Mean    = {mean:12.3}, StdDeviation   = {deviation:12.3}]")?;
    writeln!(out, "#[Max     = {:12.3}, Total count    = {:12}]", histogram.max() as f64 / UNIT, histogram.len())?;
    let sub_buckets = (2 * 10u64.pow(u32::from(DIGITS))).next_power_of_two();
    writeln!(out, "#[Buckets = {:12}, SubBuckets     = {sub_buckets:12}]", histogram.buckets())
}

/// Returns the lines up to the slowest sample, and one for 100 %.
fn lines(counted: &Counted) -> Vec<Line> {
    let all = counted.samples();
    let (mut lines, mut level, mut count, mut value_ns) = (Vec::new(), 0.0, 0, 0);
    for bin in counted.bins() {
        count += bin.count;
        value_ns = u64::try_from(bin.high.as_nanos()).unwrap_or(u64::MAX);
        let passed = 100.0 * count as f64 / all as f64;
        while passed >= level && level < 100.0 {
            lines.push(Line { value_ns, percentile: level, count });
            if count == all {
                break;
            }
            // In percent and step by step, as the original adds it up: other ways differ in the last digit.
            let halvings = ((100.0f64 / (100.0 - level)).ln() / std::f64::consts::LN_2) as u32 + 1;
            level += 100.0 / (TICKS << halvings.min(50)) as f64;
        }
    }
    if count > 0 {
        lines.push(Line { value_ns, percentile: 100.0, count });
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn written(samples: impl IntoIterator<Item = u64>) -> String {
        let mut counted = Counted::default();
        for ms in samples {
            counted.record(Duration::from_millis(ms)).expect("short enough");
        }
        let mut out = Vec::new();
        write(&mut out, &counted).expect("memory takes it");
        String::from_utf8(out).expect("text")
    }

    #[test]
    fn eleven_samples_as_the_original_writes_them() {
        let expected = "       Value     Percentile TotalCount 1/(1-Percentile)

       2.001 0.000000000000          1           1.00
       4.002 0.100000000000         11           1.11
       4.002 1.000000000000         11
#[Mean    =        3.819, StdDeviation   =        0.575]
#[Max     =        4.002, Total count    =           11]
#[Buckets =           23, SubBuckets     =         2048]
";
        let found = written([2].into_iter().chain([4; 10]));
        assert_eq!(found, expected);
    }

    #[test]
    fn nothing_measured_is_an_empty_table() {
        let found = written([]);
        assert_eq!(found.lines().count(), 5, "{found}");
        assert!(found.contains("Total count    =            0]"), "{found}");
    }

    #[test]
    fn levels_come_closer_towards_the_end() {
        let found = written(1..=1_000);
        let levels = found.lines().filter_map(|line| line.split_whitespace().nth(1)?.parse::<f64>().ok());
        let levels: Vec<f64> = levels.filter(|level| *level <= 1.0).collect();
        assert_eq!(levels[..8], [0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.55, 0.6]);
        assert!(levels.is_sorted());
        assert_eq!(levels.last(), Some(&1.0));
        let third = found.lines().nth(5).expect("a line");
        assert!(third.contains(" 0.300000000000        300 "), "300 at 0.300, and not 301: {third}");
    }
}
