//! How long after its deadline a process is gone when the partner misbehaves.

use super::process::quiet;
use abide::rehearse::partner::{Fault, Partner};
use std::path::Path;
use std::process::Command;
use std::sync::mpsc;
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

/// The deadline of every send: long enough that an attempt begins when a large body has been read and kept.
const DEADLINE: Duration = Duration::from_millis(600);
/// More than the kernel takes for a partner that never reads.
///
/// Source: transport.md 2 saw 3.9 MB taken on loopback.
const BODY_BYTES: usize = 6 << 20;
/// Sends to each partner.
const SENDS: usize = 20;
/// Those that keep a client beyond any deadline if it lets them.
pub const FAULTS: [Fault; 8] = [
    Fault::BlackHole,
    Fault::NeverRead,
    Fault::AllThenHang,
    Fault::HalfHead,
    Fault::DripHead,
    Fault::ContinueFlood,
    Fault::StalledBody,
    Fault::DripBody,
];

/// Prints how far the deadline is overshot, from the start of the process to its end: for each partner, and over all.
pub fn overshoot(abide: &Path, folder: &Path) {
    let large = folder.join("large");
    std::fs::write(&large, vec![b'x'; BODY_BYTES]).expect("room for a body");
    let mut all = Vec::new();
    for fault in FAULTS {
        let body = if fault == Fault::NeverRead { format!("@{}", large.display()) } else { "x".into() };
        let partner = Running::start(fault);
        let mut over: Vec<f64> = (0..SENDS)
            .map(|n| {
                let began = Instant::now();
                let mut command = send(abide, folder, &format!("{fault}-{n}"), &body);
                let status = quiet(command.arg(&partner.url)).status().expect("starts");
                assert!(!status.success(), "{fault} lets a send through");
                (began.elapsed().as_secs_f64() - DEADLINE.as_secs_f64()) * 1e3
            })
            .collect();
        over.sort_unstable_by(f64::total_cmp);
        println!("| deadline overshot, {fault}: median | {:.1} ms | | | |", over[SENDS / 2]);
        println!("| the same, longest | {:.1} ms | | | 50 ms |", over[SENDS - 1]);
        all.extend(over);
    }
    all.sort_unstable_by(f64::total_cmp);
    println!("| the same, p99 of all {} | {:.1} ms | | | 10 ms |", all.len(), all[all.len() * 99 / 100 - 1]);
}

/// A partner on a thread of its own. Dropping it ends it.
pub struct Running {
    pub url: String,
    _end: oneshot::Sender<()>,
}

impl Running {
    pub fn start(fault: Fault) -> Running {
        let (tell, told) = mpsc::channel();
        let (end, ended) = oneshot::channel::<()>();
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            runtime.block_on(async move {
                let partner = Partner::start(fault.script()).expect("a free port");
                tell.send(partner.url("/v1/pay")).expect("somebody waits");
                // Its other half is dropped, and that is the sign.
                let _ = ended.await;
            });
        });
        Running { url: told.recv().expect("a partner starts"), _end: end }
    }
}

fn send(abide: &Path, folder: &Path, key: &str, body: &str) -> Command {
    let mut command = Command::new(abide);
    command.arg("send").arg("--ledger").arg(folder.join("ledger.jsonl"));
    command.args(["--deadline", "600ms", "--max-attempts", "1", "--key", key, "--data", body, "POST"]);
    command.env("XDG_STATE_HOME", folder.join("state"));
    command
}
