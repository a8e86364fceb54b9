//! What one `abide probe` of a partner that is well costs, beside `curl -w` doing one request; and how far its deadline
//! is overshot where a partner, or a name server, misbehaves.

use super::hostile::{FAULTS, Running};
use super::process::{Run, median, quiet, run};
use std::net::UdpSocket;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// What curl is to tell: a time for each stage that a probe tells, too.
const TIMES: &str = "%{time_namelookup} %{time_connect} %{time_appconnect} %{time_starttransfer} %{time_total}\n";
/// The deadline of every probe of a partner that misbehaves.
const DEADLINE: Duration = Duration::from_millis(600);
/// Probes of each partner.
const PROBES: usize = 5;
/// Where the name server is that takes questions and never answers.
const SILENT: &str = "127.0.0.9";

/// Prints the ratio of medians for probes of a server over HTTPS that `ca` vouches for.
///
/// Source of the limit: issue 6.
pub fn compare(abide: &Path, folder: &Path, ca: &Path, url: &str, pairs: usize) {
    let probe = || {
        let mut command = probe(abide, folder);
        command.arg("--cacert").arg(ca).arg(url);
        command
    };
    let curl = || {
        let mut command = Command::new("curl");
        command.args(["-sS", "--fail", "--max-time", "20", "-w", TIMES, "-o", "/dev/null", "--cacert"]);
        command.arg(ca).arg(url);
        command
    };
    run(&mut probe());
    run(&mut curl());
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for _ in 0..pairs {
        ours.push(run(&mut probe()));
        theirs.push(run(&mut curl()));
    }
    let (a, b) = (median(&ours, Run::wall), median(&theirs, Run::wall));
    let ratio = a.as_secs_f64() / b.as_secs_f64();
    println!("| probe, HTTPS, private CA, wall | {a:.2?} | {b:.2?} | {ratio:.2} | 2.00 |");
}

fn probe(abide: &Path, folder: &Path) -> Command {
    let mut command = Command::new(abide);
    command.arg("probe").env("HOME", folder).env("XDG_STATE_HOME", folder.join("state"));
    command
}

/// Prints how far the deadline of a probe is overshot, from the start of the process to its end.
pub fn overshoot(abide: &Path, folder: &Path) {
    let mut all = Vec::new();
    for fault in FAULTS {
        let partner = Running::start(fault);
        for depth in [&[][..], &["--deep"], &["--max-attempts", "3"]] {
            all.extend((0..PROBES).map(|_| over(probe(abide, folder).args(depth).arg(&partner.url))));
        }
    }
    all.sort_unstable_by(f64::total_cmp);
    let (p99, longest) = (all[all.len() * 99 / 100 - 1], all[all.len() - 1]);
    println!("| probe: deadline overshot, p99 of all {} | {p99:.1} ms | | | 50 ms |", all.len());
    println!("| the same, longest | {longest:.1} ms | | | 50 ms |");
    match silent_names(abide, folder) {
        Some(longest) => println!("| the same, a name server that is silent | {longest:.1} ms | | | 50 ms |"),
        None => println!("| the same, a name server that is silent | no right to play one | | | 50 ms |"),
    }
}

/// Returns the longest overshoot where the name cannot be looked up, less what it takes to get there; `None` where this
/// machine lets nobody play a name server.
fn silent_names(abide: &Path, folder: &Path) -> Option<f64> {
    let _silent = UdpSocket::bind((SILENT, 53)).ok()?;
    let file = folder.join("resolv.conf");
    std::fs::write(&file, format!("nameserver {SILENT}\n")).expect("room for a line");
    let unshare = || {
        let mut command = Command::new("unshare");
        command.args(["-rm", "sh", "-c", "mount --bind \"$0\" /etc/resolv.conf && exec \"$@\""]).arg(&file);
        command
    };
    let nothing = || {
        let began = Instant::now();
        let status = quiet(unshare().arg("true")).status();
        status.is_ok_and(|status| status.success()).then(|| began.elapsed().as_secs_f64() * 1e3)
    };
    let shortest = (0..PROBES).map(|_| nothing()).min_by(|a, b| a.partial_cmp(b).expect("times"))??;
    let longest = |_| {
        let mut command = unshare();
        command.arg(abide).arg("probe").arg("http://partner.example/").env("HOME", folder);
        over(&mut command) - shortest
    };
    Some((0..PROBES).map(longest).fold(f64::MIN, f64::max))
}

/// Returns how much longer than its deadline a probe takes, in milliseconds.
fn over(command: &mut Command) -> f64 {
    let began = Instant::now();
    // Whatever it finds: only the time counts.
    quiet(command.arg("--deadline").arg("600ms")).status().expect("starts");
    (began.elapsed().as_secs_f64() - DEADLINE.as_secs_f64()) * 1e3
}
