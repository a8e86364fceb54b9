//! One cold `abide send` of a small POST against `curl` doing the same POST, in turn, on the same loopback server.
//!
//! `cargo bench --bench cold_send` prints wall time and processor time as ratios of medians, the peak memory, and the
//! size of the binary. `ABIDE_BENCH_PAIRS` sets the number of pairs (default 100). The ledger lies in `/dev/shm` where
//! there is one, so that the figure is that of the program and not of a disk.
//!
//! What runs is a copy of the binary, as an installation makes one, because `curl` was installed too: the file that a
//! linker wrote lies in the page cache in single pages, and every start pays for mapping them (a tenth of the ratio).

use nix::sys::resource::{UsageWho, getrusage};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// The body of every POST.
const BODY: &str = "{\"amount\":12900,\"currency\":\"EUR\",\"ref\":\"order-4711\"}";

fn main() {
    if std::env::args().any(|argument| argument == "--test" || argument == "--list") {
        return;
    }
    let pairs = std::env::var("ABIDE_BENCH_PAIRS").ok().and_then(|text| text.parse().ok()).unwrap_or(100_usize);
    let server = serve();
    let folder = ledger_folder();
    let url = format!("http://{server}/v1/pay");
    let installed = Installed::copy(Path::new(env!("CARGO_BIN_EXE_abide")));
    let abide = installed.0.as_path();

    let alone: Vec<Run> = (0..10).map(|n| run(&mut send(abide, &folder, &url, &format!("warm-{n}")))).collect();
    let peak_kib = getrusage(UsageWho::RUSAGE_CHILDREN).expect("own children").max_rss();
    drop(alone);
    run(&mut curl(&url));
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for n in 0..pairs {
        ours.push(run(&mut send(abide, &folder, &url, &format!("pair-{n}"))));
        theirs.push(run(&mut curl(&url)));
    }
    std::fs::remove_dir_all(&folder).expect("our own folder");

    println!("{pairs} pairs, ledger in {}", folder.parent().expect("has one").display());
    for (what, of) in [("wall", Run::wall as fn(&Run) -> Duration), ("processor", Run::processor)] {
        let (a, b) = (median(&ours, of), median(&theirs, of));
        println!("{what:>10}: abide {a:>8.2?}  curl {b:>8.2?}  ratio {:.2}", a.as_secs_f64() / b.as_secs_f64());
    }
    println!("{:>10}: {:.1} MiB", "peak RSS", peak_kib as f64 / 1024.0);
    let size = std::fs::metadata(abide).expect("the binary that just ran").len();
    println!("{:>10}: {:.2} MB", "binary", size as f64 / 1e6);
}

/// A copy of the binary beside the original, so that both lie on one kind of disk. Dropping removes it.
struct Installed(PathBuf);

impl Installed {
    fn copy(binary: &Path) -> Installed {
        let copy = binary.with_file_name(format!("abide-installed-{}", std::process::id()));
        std::fs::copy(binary, &copy).expect("room for a copy beside the binary");
        Installed(copy)
    }
}

impl Drop for Installed {
    fn drop(&mut self) {
        // What is left behind is a file in the build folder.
        let _ = std::fs::remove_file(&self.0);
    }
}

#[derive(Clone, Copy)]
struct Run {
    wall: Duration,
    processor: Duration,
}

impl Run {
    fn wall(&self) -> Duration {
        self.wall
    }

    fn processor(&self) -> Duration {
        self.processor
    }
}

fn run(command: &mut Command) -> Run {
    let before = children_time();
    let started = Instant::now();
    let status = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status().expect("starts");
    let wall = started.elapsed();
    assert!(status.success(), "{command:?}: {status}");
    Run { wall, processor: children_time() - before }
}

fn children_time() -> Duration {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN).expect("own children");
    let time = |value: nix::sys::time::TimeVal| {
        let micros = value.tv_sec() * 1_000_000 + value.tv_usec();
        Duration::from_micros(u64::try_from(micros).expect("time used is not negative"))
    };
    time(usage.user_time()) + time(usage.system_time())
}

fn median(runs: &[Run], of: fn(&Run) -> Duration) -> Duration {
    let mut times: Vec<Duration> = runs.iter().map(of).collect();
    times.sort_unstable();
    times[times.len() / 2]
}

fn send(abide: &Path, folder: &Path, url: &str, key: &str) -> Command {
    let mut command = Command::new(abide);
    command.arg("send").arg("--ledger").arg(folder.join("ledger.jsonl"));
    command.args(["--key", key, "--key-header", "Idempotency-Key", "--json", BODY, "POST", url]);
    command.env("XDG_STATE_HOME", folder.join("state"));
    command
}

fn curl(url: &str) -> Command {
    let mut command = Command::new("curl");
    command.args(["-sS", "--fail", "--max-time", "20", "-H", "Content-Type: application/json", "-d", BODY, url]);
    command
}

fn ledger_folder() -> PathBuf {
    let memory = Path::new("/dev/shm");
    let base = if memory.is_dir() { memory.to_path_buf() } else { std::env::temp_dir() };
    let folder = base.join(format!("abide-bench-{}", std::process::id()));
    std::fs::create_dir(&folder).expect("a new folder");
    folder
}

/// Answers every request on a loopback port until the process ends.
fn serve() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("is bound");
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            // A client that goes away is its own business.
            let _ = answer(stream);
        }
    });
    address
}

fn answer(mut stream: TcpStream) -> std::io::Result<()> {
    let mut request = Vec::new();
    let mut buffer = [0; 4096];
    while !request.ends_with(BODY.as_bytes()) {
        match stream.read(&mut buffer)? {
            0 => return Ok(()),
            n => request.extend_from_slice(&buffer[..n]),
        }
    }
    let body = "{\"id\":\"op_1\",\"state\":\"done\"}";
    let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length:";
    stream.write_all(format!("{head} {}\r\n\r\n{body}", body.len()).as_bytes())
}
