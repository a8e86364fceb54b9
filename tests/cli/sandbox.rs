//! An empty folder, a fixed seed and clock, and partners that misbehave: where the binary is run.

use crate::secure::{Front, Lane};
use abide::rehearse::partner::{Partner, Script, Seen};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::mpsc;
use std::thread::JoinHandle;
use tempfile::TempDir;

/// The wall clock of every run.
pub const NOW: &str = "2026-11-30T10:00:00.000Z";

/// An empty folder.
pub struct Sandbox {
    pub dir: TempDir,
}

impl Sandbox {
    pub fn new() -> Sandbox {
        Sandbox { dir: tempfile::tempdir().expect("a temporary folder") }
    }

    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    pub fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path().join(name), text).expect("writes");
    }

    pub fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path().join(name)).expect("reads")
    }

    /// Returns the binary, to be run in the folder with nothing of the tester's environment.
    pub fn abide(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_abide"));
        command
            .args(args)
            .current_dir(self.path())
            .env_clear()
            .env("HOME", self.path())
            .env("TZ", "UTC")
            .env("ABIDE_TEST_SEED", "7")
            .env("ABIDE_TEST_NOW", NOW)
            .stdin(Stdio::null());
        command
    }

    /// Runs the binary and returns what it said, as a snapshot.
    pub fn run(&self, args: &[&str]) -> String {
        self.shown(&self.abide(args).output().expect("the binary runs"))
    }

    /// Runs the binary and returns its status and stdout.
    pub fn status(&self, args: &[&str]) -> (i32, String) {
        let output = self.abide(args).output().expect("the binary runs");
        let code = output.status.code().expect("not killed");
        (code, String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Returns what a run said: stdout, stderr and the status.
    pub fn shown(&self, output: &Output) -> String {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).replace(&self.path().display().to_string(), "[DIR]");
        let code = output.status.code().map_or("killed".into(), |code| code.to_string());
        format!("{}\n----- stderr\n{}----- exit {code}", text(&output.stdout).trim_end(), text(&output.stderr))
    }
}

/// Hides what differs from run to run: ports, measured times, processes.
pub fn filters() -> Vec<(&'static str, &'static str)> {
    vec![
        (r"127\.0\.0\.1:\d+", "127.0.0.1:[PORT]"),
        (r"\b(in|after) (under )?\d[\d.]*(ms|s)\b([,;\n\r<]| [(\[]|\)\n|$)", "$1 [TIME]$4"),
        // A wait counts from the end of the attempt: the millisecond in which it is told differs.
        (r"waiting \d[\d.]*ms", "waiting [TIME]"),
        (r#""until":"[^"]*""#, r#""until":"[AT]""#),
        (r", at once\b", ", after [TIME]"),
        (r"([\[,] ?)(resolve|connect|tls|write|first byte|body) \d[\d.]*(ms|s)\b", "$1$2 [TIME]"),
        (
            r#""(ms|took_ms|left_ms|limit_ms|resolve_us|connect_us|tls_us|write_us|first_byte_us|body_us)":\d+"#,
            "\"$1\":0",
        ),
        (r"v1:[0-9a-f]{64}", "v1:[FINGERPRINT]"),
        (r"process \d+ on [^\s;,]+", "process [PID] on [HOST]"),
        (r#""host":"[^"]*","boot":"[^"]*","pid":\d+"#, r#""host":"[HOST]","boot":"[BOOT]","pid":0"#),
    ]
}

/// A partner on a thread of its own.
pub struct Host {
    url: String,
    stop: Option<tokio::sync::oneshot::Sender<()>>,
    thread: Option<JoinHandle<Seen>>,
}

impl Host {
    pub fn start(script: Script) -> Host {
        Host::begin(script, None)
    }

    /// Starts one that is spoken to over https.
    pub fn secure(script: Script, lane: Lane) -> Host {
        Host::begin(script, Some(lane))
    }

    fn begin(script: Script, lane: Option<Lane>) -> Host {
        let (address, started) = mpsc::channel();
        let (stop, stopped) = tokio::sync::oneshot::channel();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            runtime.block_on(async {
                let partner = Partner::start(script).expect("a free port");
                let front = match lane {
                    Some(lane) => Some(Front::before(partner.addr(), lane).await),
                    None => None,
                };
                let url = front.as_ref().map_or_else(|| partner.url(""), |front| front.url(""));
                address.send(url).expect("the test waits");
                // An error means that the test is over without asking what was seen.
                let _ = stopped.await;
                partner.stop().await
            })
        });
        Host { url: started.recv().expect("the partner starts"), stop: Some(stop), thread: Some(thread) }
    }

    pub fn url(&self, path: &str) -> String {
        format!("{}{path}", self.url)
    }

    /// Ends the partner and returns what reached it.
    pub fn seen(mut self) -> Seen {
        drop(self.stop.take());
        self.thread.take().expect("asked once").join().expect("the partner does not panic")
    }
}
