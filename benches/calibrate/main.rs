//! What `abide calibrate` says of a partner that stalls, beside tools that measure load.
//!
//! `cargo bench --bench calibrate` starts a partner that answers nobody for a second in every five, asks it for
//! `ABIDE_BENCH_SECONDS` (default 30) by `abide`, `wrk`, `hey` and `oha`, all at the same time, and prints one table: the
//! p99 that each reports, beside that of requests that arrive at any time, which the partner works out itself; and how
//! many answers a limit by that p99 and a quarter would cut. Then: how late the requests of `abide` leave at 100 a second.
//! Tools that are not installed are named.

#[path = "../shared/folder.rs"]
mod folder;
mod stalling;

use folder::{Folder, installed};
use serde_json::Value;
use stalling::{PERIOD, Stalling};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::{JoinHandle, spawn};
use std::time::Duration;

fn main() {
    if std::env::args().any(|argument| argument == "--test" || argument == "--list") {
        return;
    }
    let seconds = std::env::var("ABIDE_BENCH_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(30_u64);
    let folder = Folder::new(Path::new(env!("CARGO_TARGET_TMPDIR")));
    let abide = installed(&folder.0).display().to_string();
    let partner = Stalling::start();
    let (url, time) = (partner.url(), format!("{seconds}s"));
    let abide_by = |url: &str, more: &[&str]| {
        let args = [&["calibrate", url, "--format", "json", "-q", "--timeout", "10s"], more].concat();
        command(&abide, &args)
    };
    let runs: Vec<(&str, JoinHandle<Option<Duration>>)> = vec![
        ("abide calibrate --rate 50/s", asked(abide_by(&url, &["--rate", "50/s", "--duration", &time]), p99_of_abide)),
        ("abide calibrate --closed", asked(abide_by(&url, &["--closed", "--duration", &time]), p99_of_abide)),
        ("wrk -t1 -c1", asked(command("wrk", &["-t1", "-c1", "-d", &time, "--latency", &url]), p99_of_wrk)),
        ("hey -c 1", asked(command("hey", &["-c", "1", "-z", &time, &url]), p99_of_lines)),
        ("oha -c 1", asked(command("oha", &["--no-tui", "-c", "1", "-z", &time, &url]), p99_of_lines)),
        (
            "oha -q 50 --latency-correction",
            asked(command("oha", &["--no-tui", "-q", "50", "--latency-correction", "-z", &time, &url]), p99_of_lines),
        ),
    ];
    let truth = Stalling::truth();
    let p99 = truth[truth.len() * 99 / 100 - 1];
    println!("A stall of a second in every {PERIOD:.0?}, {seconds} s: the true p99 is {p99:.1?}.\n");
    println!("| measured by | p99 | p99 / truth | answers cut by p99 + 25 % |\n|---|---|---|---|");
    for (what, run) in runs {
        match run.join().expect("it does not panic") {
            Some(said) => {
                let limit = said.mul_f64(1.25);
                let cut = truth.iter().filter(|takes| **takes > limit).count() as f64 / truth.len() as f64;
                let ratio = said.as_secs_f64() / p99.as_secs_f64();
                println!("| `{what}` | {said:.1?} | {ratio:.2} | {:.1} % |", cut * 100.0);
            }
            None => println!("| `{what}` | not installed | | |"),
        }
    }
    let late = asked(abide_by(&partner.quick_url(), &["--rate", "100/s", "--samples", "1000"]), |said| {
        let found: Value = serde_json::from_str(said).ok()?;
        Some(Duration::from_secs_f64(found["lag_p99_ms"].as_f64()? / 1e3))
    });
    let late = late.join().expect("it does not panic").expect("abide is installed");
    println!("\nAt 100 requests a second 99 of 100 leave within {late:.2?} of when they are due (aim: 2 ms).");
}

fn command(program: &str, args: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(args).stdin(Stdio::null()).stderr(Stdio::null());
    command
}

/// Runs a command on a thread of its own, and reads what it says; nothing where it is not installed.
fn asked(mut command: Command, read: fn(&str) -> Option<Duration>) -> JoinHandle<Option<Duration>> {
    spawn(move || {
        let output = command.output().ok()?;
        let said = String::from_utf8_lossy(&output.stdout);
        Some(read(&said).unwrap_or_else(|| panic!("{command:?} says no p99: {said}")))
    })
}

fn p99_of_abide(said: &str) -> Option<Duration> {
    let found: Value = serde_json::from_str(said).ok()?;
    let percentiles = found["stages"]["read"]["percentiles"].as_array()?;
    let p99 = percentiles.iter().find(|one| one["percentile"] == "99")?;
    Some(Duration::from_secs_f64(p99["value_ms"].as_f64()? / 1e3))
}

/// Reads `  99%   13.60ms`.
fn p99_of_wrk(said: &str) -> Option<Duration> {
    let value = said.lines().find_map(|line| line.trim().strip_prefix("99%"))?.trim();
    let units = [("us", 1e-6), ("ms", 1e-3), ("s", 1.0)];
    let (number, unit) = units.into_iter().find_map(|(name, unit)| Some((value.strip_suffix(name)?, unit)))?;
    Some(Duration::from_secs_f64(number.parse::<f64>().ok()? * unit))
}

/// Reads `  99% in 0.0136 secs` of `hey` and `  99.00% in 13.6 ms` of `oha`, whichever unit.
fn p99_of_lines(said: &str) -> Option<Duration> {
    let line = said.lines().map(str::trim).find(|line| line.starts_with("99% in") || line.starts_with("99.00% in"))?;
    let (number, unit) = line.split_once(" in ")?.1.split_once(' ')?;
    let unit = match unit {
        "secs" | "sec" => 1.0,
        "ms" => 1e-3,
        "us" | "µs" => 1e-6,
        _ => return None,
    };
    Some(Duration::from_secs_f64(number.parse::<f64>().ok()? * unit))
}
