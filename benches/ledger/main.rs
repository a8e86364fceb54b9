//! What the ledger costs, however long it has grown.
//!
//! `cargo bench --bench ledger` prints one table: whole `send` processes against ledgers of growing length, in turn;
//! claims and outcomes per second of many tasks and of many processes, beside plain appends of the same bytes; a replay
//! of failed operations beside `xargs curl`, `oha` and `wrk` on the same nginx; listing, rebuilding the index, verifying.
//!
//! `cargo bench --bench ledger -- length`, `rates` or `replay` measures only that part.
//! `ABIDE_BENCH_OPERATIONS` names the lengths (default `10000,1000000`; five million take 5 GB of disk),
//! `ABIDE_BENCH_PAIRS` how often each is sent to (default 100), `ABIDE_BENCH_REPLAYED` how many operations are replayed
//! (default 10000). nginx, oha, wrk, xargs and curl are used where they are installed; what is missing is said.

#[path = "../shared/folder.rs"]
mod folder;
mod grown;
#[path = "../shared/process.rs"]
mod process;
mod rates;
mod replaying;
#[path = "../shared/server.rs"]
mod server;

use folder::{Folder, installed};
use grown::{Kind, grow};
use process::{Run, median, quiet, run};
use server::Server;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// The body of every POST.
const BODY: &str = "{\"amount\":12900,\"currency\":\"EUR\",\"ref\":\"order-4711\"}";
/// The argument that makes this program claim in a process of its own.
const CLAIMER: &str = "--claimer";

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if words.iter().any(|word| word == "--test" || word == "--list") {
        return;
    }
    if words.first().is_some_and(|word| word == CLAIMER) {
        return rates::claimer(&words[1..]);
    }
    let wanted: Vec<&String> = words.iter().filter(|word| !word.starts_with("--")).collect();
    let is_wanted = |part: &str| wanted.is_empty() || wanted.iter().any(|word| *word == part);
    let disk = Folder::new(Path::new(env!("CARGO_TARGET_TMPDIR")));
    let memory = Folder::new(Path::new("/dev/shm"));
    let abide = installed(&disk.0);

    println!("| what | abide | peer | ratio | target |\n|---|---|---|---|---|");
    if is_wanted("length") {
        lengths(&abide, &disk.0);
    }
    if is_wanted("rates") {
        rates::tasks(&memory.0, "RAM disk");
        rates::tasks(&disk.0, "disk");
        rates::processes(&disk.0);
    }
    if is_wanted("replay") {
        replaying::replay(&abide, &memory.0, "RAM disk");
        replaying::replay(&abide, &disk.0, "disk");
    }
}

/// Measures what may depend on how long a ledger is.
fn lengths(abide: &Path, disk: &Path) {
    let text = std::env::var("ABIDE_BENCH_OPERATIONS").unwrap_or("10000,1000000".into());
    let lengths = text.split(',').map(|part| part.trim().parse().expect("numbers, with commas between them"));
    let books: Vec<Book> = lengths.map(|operations| Book::grow(disk, operations)).collect();
    for book in books.iter().filter(|book| book.operations >= 1_000_000) {
        book.rebuild(abide);
        book.list(abide);
        book.verify(abide);
    }
    sends(abide, disk, &books);
}

/// Returns a number from the environment.
fn number(name: &str, otherwise: usize) -> usize {
    std::env::var(name)
        .map_or(otherwise, |text| text.parse().unwrap_or_else(|_| panic!("{name}: not a number: {text}")))
}

/// A ledger that has grown. Its files go with it.
struct Book {
    operations: u64,
    bytes: u64,
    folder: PathBuf,
}

impl Drop for Book {
    fn drop(&mut self) {
        // What is left behind goes with the folder above it.
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

impl Book {
    fn grow(base: &Path, operations: u64) -> Book {
        let folder = base.join(format!("of-{operations}"));
        std::fs::create_dir_all(&folder).expect("a new folder");
        let bytes = grow(&folder.join("ledger.jsonl"), "http://127.0.0.1:9/v1/pay", operations, Kind::Mostly);
        Book { operations, bytes, folder }
    }

    fn command(&self, abide: &Path, words: &[&str]) -> Command {
        let mut command = Command::new(abide);
        command.args(words).arg("--ledger").arg(self.folder.join("ledger.jsonl"));
        command.env("XDG_STATE_HOME", self.folder.join("state"));
        command
    }

    fn send(&self, abide: &Path, url: &str, key: &str) -> Command {
        let key_header = ["--key-header", "Idempotency-Key", "--json", BODY];
        let mut command = self.command(abide, &["send", "--key", key]);
        command.args(key_header).args(["POST", url]);
        command
    }

    fn millions(&self) -> String {
        format!("{} M", self.operations as f64 / 1e6)
    }

    /// Times the first send against a ledger without an index: it reads everything, and leaves one.
    fn rebuild(&self, abide: &Path) {
        let server = Server::http();
        let took = run(&mut self.send(abide, server.url(), "first")).wall();
        let per_million = took.as_secs_f64() * 1e6 / self.operations as f64;
        println!("| index of {} rebuilt, per million | {per_million:.2} s | | | 3 s |", self.millions());
        let index = std::fs::read_dir(self.folder.join("ledger.jsonl.idx")).expect("an index");
        let bytes: u64 = index.flatten().filter_map(|file| file.metadata().ok()).map(|found| found.len()).sum();
        println!("| its size, per operation | {:.1} B | | | 30 B |", bytes as f64 / self.operations as f64);
    }

    fn list(&self, abide: &Path) {
        let mut times: Vec<Run> = (0..10).map(|_| run(&mut self.command(abide, &["status"]))).collect();
        times.remove(0);
        let unsettled = self.operations / 1_000;
        println!("| {unsettled} unsettled of {} listed | {:.1?} | | | |", self.millions(), median(&times, Run::wall));
    }

    fn verify(&self, abide: &Path) {
        let mut command = self.command(abide, &["ledger", "verify"]);
        let began = Instant::now();
        assert!(quiet(&mut command).status().expect("starts").success(), "a sound ledger");
        let rate = self.bytes as f64 / began.elapsed().as_secs_f64() / 1e6;
        println!(
            "| {} verified ({:.0} MB) | {rate:.0} MB/s | | | 300 MB/s |",
            self.millions(),
            self.bytes as f64 / 1e6
        );
    }
}

/// Sends to an empty ledger and to the others in turn, so that what disturbs one disturbs all.
fn sends(abide: &Path, base: &Path, books: &[Book]) {
    let server = Server::http();
    let empty = Book { operations: 0, bytes: 0, folder: base.join("of-0") };
    std::fs::create_dir_all(&empty.folder).expect("a new folder");
    let all: Vec<&Book> = std::iter::once(&empty).chain(books).collect();
    let mut times = vec![Vec::new(); all.len()];
    for n in 0..=number("ABIDE_BENCH_PAIRS", 100) {
        for (book, times) in all.iter().zip(&mut times) {
            let took = run(&mut book.send(abide, server.url(), &format!("pair-{n}")));
            // The first one makes what later ones find.
            if n > 0 {
                times.push(took);
            }
        }
    }
    for (kind, of) in [("wall", Run::wall as fn(&Run) -> Duration), ("processor", Run::processor)] {
        let base = median(&times[0], of);
        for (book, times) in all.iter().zip(&times).skip(1) {
            let took = median(times, of);
            let ratio = took.as_secs_f64() / base.as_secs_f64();
            println!(
                "| send, ledger of {}, {kind} | {took:.2?} | {base:.2?} empty | {ratio:.2} | 1.10 |",
                book.millions()
            );
        }
    }
}
