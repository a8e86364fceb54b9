//! A process of its own for each test, in which mounts are private: whatever becomes of it, nothing stays mounted.

use crate::machine::{FileSystem, is_free};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::time::Duration;

const INSIDE: &str = "ABIDE_TEST_POWER_INSIDE";
/// What the inner process ends with where this machine lets it do nothing; `unshare` itself ends with 1 then.
const NOT_HERE: i32 = 99;
/// What it ends with where it takes too long.
const TOO_LONG: i32 = 98;

/// A place for one test.
pub struct Place {
    pub folder: PathBuf,
    /// Part of the names of all its disks, and of no others.
    pub tag: String,
}

impl Place {
    fn new(folder: &Path) -> Place {
        let name = folder.file_name().and_then(|name| name.to_str()).expect("a name of our own");
        Place { folder: folder.into(), tag: name.into() }
    }

    /// Returns where the disk with this name lies.
    pub fn disk(&self, name: &str) -> PathBuf {
        self.folder.join(format!("{}-{name}.img", self.tag))
    }
}

/// Runs `test`, which is called `name`, where it may mount: in another process, within `limit`.
pub fn alone(name: &str, kind: FileSystem, limit: Duration, test: impl FnOnce(Place)) {
    if let Some(folder) = std::env::var_os(INSIDE) {
        end_after(limit);
        return test(Place::new(Path::new(&folder)));
    }
    if let Some(reason) = missing(kind) {
        return say(&format!("SKIPPED: {name}: {reason}"));
    }
    let made = tempfile::Builder::new().prefix("abide-power-").tempdir_in("/dev/shm");
    let folder = made.or_else(|_| tempfile::tempdir()).expect("a folder");
    let place = Place::new(folder.path());
    let ended = inner(name, folder.path());
    assert!(is_free(Path::new(&place.tag)), "a loop device is left");
    let (status, words) = ended;
    match status.code() {
        Some(NOT_HERE | 1) => say(&format!("SKIPPED: {name}: no mounts here: {words}")),
        Some(0) if words.is_empty() => {}
        Some(0) => say(words.trim_end()),
        _ => panic!("{words}"),
    }
}

/// Returns what this machine lacks.
fn missing(kind: FileSystem) -> Option<String> {
    if !nix::unistd::geteuid().is_root() {
        return Some("not root".into());
    }
    let devices = ["/dev/fuse", "/dev/loop-control"].into_iter().find(|path| !Path::new(path).exists());
    let has = |tool: &&str| Command::new(tool).arg("-V").output().is_ok();
    let tool = ["unshare", "setsid", "mount", "umount", kind.maker()].into_iter().find(|tool| !has(tool));
    devices.or(tool).map(|what| format!("no {what}"))
}

/// Runs this test once more, and returns how that ended and what it said.
fn inner(name: &str, folder: &Path) -> (ExitStatus, String) {
    // Somebody else must keep the mounts until this process is gone, and no signal that ends it may end him: a file system
    // that is unmounted by the end of the very process that is its disk waits for ever.
    let script = format!(
        "mount -t tmpfs none \"$1\" && umount \"$1\" && mkfifo \"$1/alive\" || exit {NOT_HERE}
        setsid cat \"$1/alive\" >/dev/null 2>&1 &
        exec 3>\"$1/alive\"; shift; exec \"$@\""
    );
    let output = Command::new("unshare")
        .args(["-m", "sh", "-c", &script, "sh"])
        .arg(folder)
        .arg(std::env::current_exe().expect("a path"))
        .args(["--exact", name, "--nocapture"])
        .env(INSIDE, folder)
        .output()
        .expect("unshare is there");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    (output.status, said)
}

/// A kernel that hangs shall not hang whoever waits for the test.
fn end_after(limit: Duration) {
    std::thread::spawn(move || {
        std::thread::sleep(limit);
        say(&format!("not done after {} s", limit.as_secs()));
        std::process::exit(TOO_LONG);
    });
}

/// Says something where it is seen: what a test prints is kept from people while it passes.
pub fn say(words: &str) {
    drop(writeln!(std::io::stderr(), "{words}"));
}
