//! What one cold `abide send` costs, beside `curl` doing the same POST on the same loopback server, in turn.
//!
//! `cargo bench --bench transport` prints one table: wall and processor time as ratios of medians for HTTP, for HTTPS
//! with a private CA and with the system's roots, with the ledger in memory and on a disk; how far a deadline is
//! overshot when partners misbehave; what `abide probe` costs, beside `curl -w`; memory, size, and instructions, which are the same on a noisy machine.
//! `ABIDE_BENCH_PAIRS` sets the number of pairs of each comparison (default 100).
//!
//! What runs is what `cargo install` makes, because `curl` was installed too. The binary that Cargo builds for a bench
//! unwinds, which a release does not; and the file that a linker wrote lies in the page cache in single pages, so that
//! every start pays for mapping them (a tenth of the ratio).

#[path = "../shared/folder.rs"]
mod folder;
mod hostile;
mod probing;
#[path = "../shared/process.rs"]
mod process;
mod secure;
#[path = "../shared/server.rs"]
mod server;

use folder::{Folder, installed};
use nix::sys::resource::{UsageWho, getrusage};
use process::{Run, median, run};
use secure::{Authority, https};
use server::Server;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// The body of every POST.
const BODY: &str = "{\"amount\":12900,\"currency\":\"EUR\",\"ref\":\"order-4711\"}";
/// The argument that makes this program measure memory only.
const PEAK: &str = "--peak";
/// As long as the lines of one claim.
const LINE_BYTES: usize = 720;

fn main() {
    if std::env::args().any(|argument| argument == "--test" || argument == "--list") {
        return;
    }
    let words: Vec<String> = std::env::args().skip(1).collect();
    if words.first().is_some_and(|word| word == PEAK) {
        return peak_of(&words[1..]);
    }
    let pairs = std::env::var("ABIDE_BENCH_PAIRS").ok().and_then(|text| text.parse().ok()).unwrap_or(100_usize);
    let disk = Folder::new(Path::new(env!("CARGO_TARGET_TMPDIR")));
    let memory = Folder::new(Path::new("/dev/shm"));
    let bench = Bench { abide: installed(&disk.0), pairs };
    let authority = Authority::new();
    let own = disk.0.join("ca.pem");
    std::fs::write(&own, authority.pem()).expect("room for a certificate");
    let (plain, secured) = (Server::http(), https(&authority));

    println!("| what | abide | curl | ratio | at most |\n|---|---|---|---|---|");
    peak(&bench, &memory.0, &plain);
    bench.compare("HTTP", &Load::new(&plain, &memory.0), 0.5);
    bench.compare("HTTPS, private CA", &Load { roots: Roots::Own(&own), ..Load::new(&secured, &memory.0) }, 0.5);
    match system_roots_and(&authority, &disk.0) {
        Some(bundle) => {
            let load = Load { roots: Roots::System(&bundle), ..Load::new(&secured, &memory.0) };
            bench.compare("HTTPS, the system's roots", &load, 0.3);
        }
        None => println!("| HTTPS, the system's roots | no bundle file on this machine | | | 0.30 |"),
    }
    bench.on_disk(&Load::new(&plain, &disk.0));
    bench.instructions("instructions, HTTP", &Load::new(&plain, &memory.0));
    bench.instructions("instructions, HTTPS", &Load { roots: Roots::Own(&own), ..Load::new(&secured, &memory.0) });
    let size = std::fs::metadata(&bench.abide).expect("the binary that just ran").len();
    println!("| size of the binary | {:.2} MB | | | 6 MB |", size as f64 / 1e6);
    hostile::overshoot(&bench.abide, &memory.0);
    probing::compare(&bench.abide, &memory.0, &own, secured.url(), bench.pairs);
    probing::overshoot(&bench.abide, &memory.0);
}

/// What is compared, and how often.
struct Bench {
    abide: PathBuf,
    pairs: usize,
}

/// One kind of POST.
struct Load<'l> {
    url: &'l str,
    roots: Roots<'l>,
    /// Where the ledger lies.
    folder: &'l Path,
}

/// Whom the client trusts.
#[derive(Clone, Copy)]
enum Roots<'l> {
    /// Nobody: plain HTTP.
    None,
    /// One authority.
    Own(&'l Path),
    /// All of a bundle, which stands for the system's.
    System(&'l Path),
}

impl<'l> Load<'l> {
    fn new(server: &'l Server, folder: &'l Path) -> Load<'l> {
        Load { url: server.url(), roots: Roots::None, folder }
    }

    fn send(&self, abide: &Path, key: &str) -> Command {
        let mut command = Command::new(abide);
        command.arg("send").arg("--ledger").arg(self.folder.join("ledger.jsonl"));
        command.args(["--key", key, "--key-header", "Idempotency-Key", "--json", BODY]);
        if let Roots::Own(file) = self.roots {
            command.arg("--cacert").arg(file);
        }
        self.trust(&mut command).args(["POST", self.url]);
        command.env("XDG_STATE_HOME", self.folder.join("state"));
        command
    }

    fn curl(&self) -> Command {
        let mut command = Command::new("curl");
        command.args(["-sS", "--fail", "--max-time", "20", "-H", "Content-Type: application/json", "-d", BODY]);
        if let Roots::Own(file) = self.roots {
            command.arg("--cacert").arg(file);
        }
        self.trust(&mut command).arg(self.url);
        command
    }

    fn trust<'c>(&self, command: &'c mut Command) -> &'c mut Command {
        match self.roots {
            // The second is curl's, and counts there before the first.
            Roots::System(bundle) => command.env("SSL_CERT_FILE", bundle).env("CURL_CA_BUNDLE", bundle),
            Roots::None | Roots::Own(_) => command.env_remove("SSL_CERT_FILE").env_remove("CURL_CA_BUNDLE"),
        }
    }
}

impl Bench {
    fn pairs(&self, load: &Load<'_>) -> (Vec<Run>, Vec<Run>) {
        self.begin(load);
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        for n in 0..self.pairs {
            ours.push(run(&mut load.send(&self.abide, &format!("pair-{n}"))));
            theirs.push(run(&mut load.curl()));
        }
        (ours, theirs)
    }

    /// Begins a new ledger, and warms both programs up.
    fn begin(&self, load: &Load<'_>) {
        let ledger = load.folder.join("ledger.jsonl");
        // There is none before the first load.
        let _ = std::fs::remove_file(&ledger);
        run(&mut load.send(&self.abide, "warm"));
        run(&mut load.curl());
    }

    fn compare(&self, what: &str, load: &Load<'_>, target: f64) {
        let (ours, theirs) = self.pairs(load);
        for (kind, of) in [("wall", Run::wall as fn(&Run) -> Duration), ("processor", Run::processor)] {
            let (a, b) = (median(&ours, of), median(&theirs, of));
            let ratio = a.as_secs_f64() / b.as_secs_f64();
            println!("| {what}, {kind} | {a:.2?} | {b:.2?} | {ratio:.2} | {target:.2} |");
        }
    }

    fn on_disk(&self, load: &Load<'_>) {
        let (ours, theirs) = self.pairs(load);
        let (a, b) = (median(&ours, Run::wall), median(&theirs, Run::wall));
        let sync = median_sync(&load.folder.join("sync"), self.pairs);
        let allowed = b.mul_f64(0.5) + 2 * sync;
        let ratio = a.as_secs_f64() / b.as_secs_f64();
        println!(
            "| HTTP, ledger on a disk, wall | {a:.2?} | {b:.2?} | {ratio:.2} | {allowed:.2?} = 0.5 x curl + 2 x {sync:.2?} to append and sync |"
        );
    }

    fn instructions(&self, what: &str, load: &Load<'_>) {
        self.begin(load);
        let counted = |command: &Command| {
            let mut valgrind = Command::new("valgrind");
            valgrind.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]);
            valgrind.arg(command.get_program()).args(command.get_args());
            for (name, value) in command.get_envs() {
                match value {
                    Some(value) => valgrind.env(name, value),
                    None => valgrind.env_remove(name),
                };
            }
            let output = valgrind.output().ok().filter(|output| output.status.success())?;
            let talk = String::from_utf8_lossy(&output.stderr).into_owned();
            let (_, count) = talk.lines().rev().find_map(|line| line.split_once("Collected :"))?;
            count.trim().parse::<u64>().ok()
        };
        let show =
            |count: Option<u64>| count.map_or("valgrind is missing".into(), |n| format!("{:.1} M", n as f64 / 1e6));
        let (ours, theirs) = (counted(&load.send(&self.abide, "counted")), counted(&load.curl()));
        let ratio = ours.zip(theirs).map_or(String::new(), |(a, b)| format!("{:.2}", a as f64 / b as f64));
        println!("| {what} | {} | {} | {ratio} | |", show(ours), show(theirs));
    }
}

/// Prints the peak of ours alone: measured by a process that has no other children.
fn peak(bench: &Bench, folder: &Path, plain: &Server) {
    let mut alone = Command::new(std::env::current_exe().expect("this program"));
    let output = alone.arg(PEAK).arg(&bench.abide).arg(folder).arg(plain.url()).output().expect("starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    print!("{}", String::from_utf8_lossy(&output.stdout));
}

fn peak_of(words: &[String]) {
    let [abide, folder, url] = words else { panic!("binary, folder and URL: {words:?}") };
    let load = Load { url, roots: Roots::None, folder: Path::new(folder) };
    for n in 0..10 {
        run(&mut load.send(Path::new(abide), &format!("alone-{n}")));
    }
    let peak_kib = getrusage(UsageWho::RUSAGE_CHILDREN).expect("own children").max_rss();
    println!("| peak memory | {:.1} MiB | | | 10 MiB |", peak_kib as f64 / 1024.0);
}

fn median_sync(file: &Path, times: usize) -> Duration {
    let mut file = OpenOptions::new().create(true).append(true).open(file).expect("our own folder");
    let line = vec![b'x'; LINE_BYTES];
    let mut took: Vec<Duration> = (0..times)
        .map(|_| {
            let began = Instant::now();
            file.write_all(&line).expect("room for a line");
            file.sync_data().expect("a disk that syncs");
            began.elapsed()
        })
        .collect();
    took.sort_unstable();
    took[took.len() / 2]
}

/// Writes the system's bundle with one more authority, and returns it.
fn system_roots_and(authority: &Authority, folder: &Path) -> Option<PathBuf> {
    const BUNDLES: [&str; 3] =
        ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem"];
    let mut bundle = BUNDLES.iter().find_map(|file| std::fs::read_to_string(file).ok())?;
    bundle.push_str(&authority.pem());
    let file = folder.join("system.pem");
    std::fs::write(&file, bundle).expect("room for a bundle");
    Some(file)
}
