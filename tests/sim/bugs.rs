//! A simulation that finds nothing proves nothing: every planted fault must break a promise, soon.

use crate::story::play;
use abide::engine::planted::{Bug, plant};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// A fault that survives so many seeds is not caught.
const SEEDS: u64 = 10_000;

/// Returns the first seed that a planted fault does not survive, and the promise that it breaks.
fn caught(bug: Bug) -> Option<(u64, String)> {
    plant(Some(bug));
    let found = (0..SEEDS).find_map(|seed| match catch_unwind(AssertUnwindSafe(|| play(seed, false))) {
        Ok(report) => report.broken.map(|broken| (seed, broken.promise.to_owned())),
        Err(_) => Some((seed, "an assertion fails".into())),
    });
    plant(None);
    found
}

#[test]
fn every_planted_bug_is_caught() {
    assert!(Bug::ALL.len() >= 50);
    let mut escaped = Vec::new();
    println!("{:<22} {:>5}  promise", "bug", "seed");
    for bug in Bug::ALL {
        match caught(*bug) {
            Some((seed, promise)) => println!("{:<22} {seed:>5}  {promise}", format!("{bug:?}")),
            None => escaped.push(format!("{bug:?} ({})", bug.words())),
        }
    }
    assert!(escaped.is_empty(), "{SEEDS} seeds do not catch: {}", escaped.join(", "));
}
