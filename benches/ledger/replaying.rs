//! A replay of failed operations, beside what people use instead, on the same nginx.

use super::grown::{Kind, grow};
use super::process::quiet;
use super::{BODY, number};
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How many at a time, everywhere.
const AT_A_TIME: &str = "32";
/// How long `wrk` runs.
const WRK_SECONDS: u64 = 5;
/// How long a partner takes that does something.
const THINKS: Duration = Duration::from_millis(5);
/// How long nginx may take to start.
const START_MAX: Duration = Duration::from_secs(5);

/// Prints the rates.
pub fn replay(abide: &Path, folder: &Path, place: &str) {
    let Some(nginx) = Nginx::start(folder) else {
        println!("| replay | nginx is missing | | | |");
        return;
    };
    let operations = number("ABIDE_BENCH_REPLAYED", 10_000);
    let ours = replayed(abide, &folder.join("at-once"), &nginx.url, operations);
    println!("| replay --jobs {AT_A_TIME} of {operations}, {place} | {ours:.0}/s | | | |");
    beside("xargs curl", ours, curl(&nginx.url, operations), "20");
    beside("oha", ours, oha(&nginx.url, operations), "0.30");
    beside("wrk", ours, wrk(folder, &nginx.url), "");
    let url = slow_partner();
    let ours = replayed(abide, &folder.join("slowly"), &url, operations);
    println!("| the same where the partner takes {THINKS:?} | {ours:.0}/s | | | |");
    beside("oha", ours, oha(&url, operations), "");
}

fn beside(peer: &str, ours: f64, theirs: Option<f64>, target: &str) {
    match theirs {
        Some(rate) => {
            println!("| the same: {peer}, {AT_A_TIME} at a time | | {rate:.0}/s | {:.2} | {target} |", ours / rate)
        }
        None => println!("| the same: {peer}, {AT_A_TIME} at a time | | something is missing | | {target} |"),
    }
}

/// Starts a partner that thinks before it answers, and keeps connections, until the process ends.
fn slow_partner() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let url = format!("http://{}/v1/pay", listener.local_addr().expect("is bound"));
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            // A client that goes away is its own business.
            std::thread::spawn(move || drop(answer_slowly(stream)));
        }
    });
    url
}

/// Answers one request after the other. Each ends with its body, a JSON object.
fn answer_slowly(mut stream: TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut buffer = [0; 4096];
    let mut read = 0;
    loop {
        match stream.read(&mut buffer[read..])? {
            0 => return Ok(()),
            n => read += n,
        }
        if buffer[..read].ends_with(b"}") {
            std::thread::sleep(THINKS);
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}")?;
            read = 0;
        }
    }
}

fn replayed(abide: &Path, folder: &Path, url: &str, operations: usize) -> f64 {
    std::fs::create_dir_all(folder).expect("a new folder");
    let ledger = folder.join("failed.jsonl");
    grow(&ledger, url, operations as u64, Kind::Refused);
    // It says so, too: what was recorded counts only as long as the profile agrees.
    let profile = folder.join("bench.toml");
    std::fs::write(&profile, "version = 1\npartner = \"bench\"\n[idempotency]\nsupported = true\n")
        .expect("our own folder");
    let abide = || {
        let mut command = Command::new(abide);
        command.env("XDG_STATE_HOME", folder.join("state"));
        command
    };
    // It leaves the ledger as abide leaves one: with an index.
    let mut first = abide();
    first.args(["send", "--key", "first", "--key-header", "Idempotency-Key", "--json", BODY, "--ledger"]).arg(&ledger);
    assert!(quiet(first.args(["POST", url])).status().expect("starts").success());
    let mut command = abide();
    command.args(["replay", "--jobs", AT_A_TIME, "--older", "--quiet", "--ledger"]).arg(&ledger);
    command.arg("--profile").arg(&profile);
    let began = Instant::now();
    let output = command.stdin(Stdio::null()).output().expect("starts");
    let took = began.elapsed();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    operations as f64 / took.as_secs_f64()
}

fn curl(url: &str, operations: usize) -> Option<f64> {
    let one = "exec curl -sS --fail -o /dev/null -H 'Content-Type: application/json' -H \"Idempotency-Key: $2\" -d \"$3\" \"$1\"";
    let script =
        format!("seq \"$1\" | xargs -P{AT_A_TIME} -I{{}} sh -c '{}' sh \"$2\" {{}} \"$3\"", one.replace('\'', "'\\''"));
    let mut command = Command::new("sh");
    command.args(["-c", &script, "sh", &operations.to_string(), url, BODY]);
    let began = Instant::now();
    let status = quiet(&mut command).status().ok()?;
    status.success().then(|| operations as f64 / began.elapsed().as_secs_f64())
}

/// The whole process, as with the others.
fn oha(url: &str, operations: usize) -> Option<f64> {
    let mut command = Command::new("oha");
    command.args([
        "--no-tui",
        "--output-format",
        "quiet",
        "-n",
        &operations.to_string(),
        "-c",
        AT_A_TIME,
        "-m",
        "POST",
    ]);
    command.args(["-H", "Content-Type: application/json", "-H", "Idempotency-Key: order-000000001", "-d", BODY, url]);
    let began = Instant::now();
    let status = quiet(&mut command).status().ok()?;
    status.success().then(|| operations as f64 / began.elapsed().as_secs_f64())
}

fn wrk(folder: &Path, url: &str) -> Option<f64> {
    let script = folder.join("post.lua");
    let text = format!(
        "wrk.method = 'POST'\nwrk.body = '{BODY}'\nwrk.headers['Content-Type'] = 'application/json'\n\
         wrk.headers['Idempotency-Key'] = 'order-000000001'\n"
    );
    std::fs::write(&script, text).expect("our own folder");
    let duration = format!("-d{WRK_SECONDS}s");
    let output =
        Command::new("wrk").args(["-t1", "-c", AT_A_TIME, &duration, "-s"]).arg(&script).arg(url).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.lines().find_map(|line| line.trim().strip_prefix("Requests/sec:"))?.trim().parse().ok()
}

/// A server of this bench's own. Dropping it ends it.
struct Nginx {
    url: String,
    running: Child,
}

impl Nginx {
    fn start(folder: &Path) -> Option<Nginx> {
        let addr = TcpListener::bind("127.0.0.1:0").and_then(|socket| socket.local_addr()).expect("a free port");
        let home = folder.join("nginx");
        std::fs::create_dir_all(&home).expect("our own folder");
        let configuration = format!(
            "worker_processes 1;\npid {0}/pid;\nerror_log {0}/error.log;\nevents {{ worker_connections 1024; }}\n\
             http {{\n access_log off;\n keepalive_requests 1000000;\n client_body_temp_path {0}/body;\n \
             proxy_temp_path {0}/proxy;\n fastcgi_temp_path {0}/fastcgi;\n uwsgi_temp_path {0}/uwsgi;\n \
             scgi_temp_path {0}/scgi;\n server {{\n  listen {addr};\n  location / {{\n   \
             default_type application/json;\n   return 200 '{{\"id\":\"op_1\",\"state\":\"done\"}}';\n  }}\n }}\n}}\n",
            home.display()
        );
        let file = home.join("nginx.conf");
        std::fs::write(&file, configuration).expect("our own folder");
        let mut command = Command::new("nginx");
        command.arg("-p").arg(&home).arg("-c").arg(&file).args(["-g", "daemon off;"]);
        let running = quiet(&mut command).spawn().ok()?;
        let nginx = Nginx { url: format!("http://{addr}/v1/pay"), running };
        let began = Instant::now();
        while TcpStream::connect(addr).is_err() {
            assert!(began.elapsed() < START_MAX, "nginx does not listen");
            std::thread::sleep(Duration::from_millis(20));
        }
        Some(nginx)
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        // TERM, so that it ends its workers; where it is gone already, that is as well.
        let _ = Command::new("kill").arg(self.running.id().to_string()).status();
        let _ = self.running.wait();
    }
}
