//! The real driver against a lying partner, in virtual time, with crashes at every await.
//!
//! A seed gives a story ([`story::play`]); every story must keep every promise ([`promises`]). `ABIDE_SIM_SEEDS` says
//! how many seeds are played, `ABIDE_SIM_SEED=N` plays one and tells its story.
//!
//! What is counted: an operation is one run of the driver ([`abide::drive::run`]) on the operation of a story, claim
//! included, whether it ends or is killed; commands that the ledger answers are not counted.

mod asking;
mod book;
#[cfg(feature = "seeded-bugs")]
mod bugs;
mod case;
mod chance;
mod command;
mod fate;
mod hands;
mod late;
mod leave;
mod ledger;
mod partner;
mod person;
mod promises;
mod story;
mod watch;
mod wire;
mod world;

use std::collections::BTreeMap;
use std::time::Instant;
use story::{Report, play};

/// Seeds that are played where nothing else is asked for.
const SEEDS: u64 = 20_000;

/// Returns how a person plays a seed again.
fn again(seed: u64) -> String {
    format!("to play it again: ABIDE_SIM_SEED={seed} cargo test --release --test sim -- one_seed --nocapture")
}

/// Fails with the whole story where a seed breaks a promise.
fn demand(seed: u64, report: &Report) {
    let Some(broken) = &report.broken else { return };
    let story = play(seed, true).story.join("\n");
    panic!("{story}\n\nseed {seed} breaks a promise: {}: {}\n{}", broken.promise, broken.how, again(seed));
}

fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name} is no number: {text}")))
}

#[test]
fn every_story_keeps_the_promises() {
    let seeds = number("ABIDE_SIM_SEEDS").unwrap_or(SEEDS);
    let (began, mut runs, mut sends, mut kills) = (Instant::now(), 0, 0, 0);
    let mut ends: BTreeMap<String, u64> = BTreeMap::new();
    let mut broken: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    for seed in 0..seeds {
        let report = play(seed, false);
        if let Some(first) = &report.broken {
            broken.entry(first.promise).or_insert((seed, 0)).1 += 1;
        }
        (runs, sends, kills) = (runs + report.runs, sends + report.sends, kills + report.kills);
        *ends.entry(format!("{:?}", report.last)).or_default() += 1;
    }
    let seconds = began.elapsed().as_secs_f64();
    println!("{seeds} stories, {runs} runs of the driver, {sends} sends, {kills} kills in {seconds:.2} s");
    println!("{:.0} runs a second; {ends:?}", runs as f64 / seconds);
    for (promise, (seed, times)) in &broken {
        println!("broken {times} times, first by seed {seed}: {promise}");
    }
    if let Some((seed, _)) = broken.values().min() {
        demand(*seed, &play(*seed, false));
    }
}

#[test]
fn one_seed() {
    let Some(seed) = number("ABIDE_SIM_SEED") else { return };
    let report = play(seed, true);
    println!("{}\nlast: {:?}", report.story.join("\n"), report.last);
    demand(seed, &report);
}

#[test]
fn a_seed_gives_the_same_story_every_time() {
    for seed in 0..500 {
        assert_eq!(play(seed, true).story, play(seed, true).story, "seed {seed}");
    }
}

#[test]
fn kept_seeds_keep_the_promises() {
    let kept = include_str!("seeds.txt").lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    for line in kept {
        let seed =
            line.split_whitespace().next().and_then(|seed| seed.parse().ok()).expect("a line begins with a seed");
        demand(seed, &play(seed, false));
    }
}
