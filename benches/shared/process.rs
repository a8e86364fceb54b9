//! Processes that are timed.

use nix::sys::resource::{UsageWho, getrusage};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// What one run took.
#[derive(Clone, Copy)]
pub struct Run {
    wall: Duration,
    processor: Duration,
}

impl Run {
    /// From the start to the end.
    pub fn wall(&self) -> Duration {
        self.wall
    }

    /// Of the user and of the system.
    pub fn processor(&self) -> Duration {
        self.processor
    }
}

/// Runs a command that must succeed.
pub fn run(command: &mut Command) -> Run {
    let before = children_time();
    let began = Instant::now();
    let status = quiet(command).status().expect("starts");
    let wall = began.elapsed();
    assert!(status.success(), "{command:?}: {status}");
    Run { wall, processor: children_time() - before }
}

/// Takes input and output away.
pub fn quiet(command: &mut Command) -> &mut Command {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null())
}

/// Returns the median.
pub fn median(runs: &[Run], of: fn(&Run) -> Duration) -> Duration {
    let mut times: Vec<Duration> = runs.iter().map(of).collect();
    times.sort_unstable();
    times[times.len() / 2]
}

fn children_time() -> Duration {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN).expect("own children");
    let time = |value: nix::sys::time::TimeVal| {
        let micros = value.tv_sec() * 1_000_000 + value.tv_usec();
        Duration::from_micros(u64::try_from(micros).expect("time used is not negative"))
    };
    time(usage.user_time()) + time(usage.system_time())
}
