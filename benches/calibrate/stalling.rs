//! A partner that answers after 5 ms, but for a second in every five in which it answers nobody.

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

/// How long an answer takes.
const SERVICE: Duration = Duration::from_millis(5);
/// How often it stalls.
pub const PERIOD: Duration = Duration::from_secs(5);
/// How long it stalls, at the end of each period.
const STALL: Duration = Duration::from_secs(1);

/// A running partner.
pub struct Stalling {
    url: String,
}

impl Stalling {
    /// Starts one; it runs until the process ends.
    pub fn start() -> Stalling {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let addr = listener.local_addr().expect("is bound");
        let began = Instant::now();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                // A client that goes away is its own business.
                std::thread::spawn(move || serve(stream, began));
            }
        });
        Stalling { url: format!("http://{addr}") }
    }

    /// Returns where it stalls.
    pub fn url(&self) -> String {
        format!("{}/quote", self.url)
    }

    /// Returns where it always answers at once.
    pub fn quick_url(&self) -> String {
        format!("{}/quick", self.url)
    }

    /// Returns how long a request takes that arrives so long after the beginning.
    fn takes(at: Duration) -> Duration {
        let within = Duration::from_nanos((at.as_nanos() % PERIOD.as_nanos()) as u64);
        let stalls = if within >= PERIOD - STALL { PERIOD - within } else { Duration::ZERO };
        stalls + SERVICE
    }

    /// Returns what requests that arrive at every 10 us of a period take, in order: the truth.
    pub fn truth() -> Vec<Duration> {
        let mut all: Vec<Duration> = (0..500_000).map(|n| Stalling::takes(Duration::from_micros(10 * n))).collect();
        all.sort_unstable();
        all
    }
}

/// Answers one request after the other.
fn serve(mut stream: TcpStream, began: Instant) -> io::Result<()> {
    let (mut request, mut buffer) = (Vec::new(), [0; 4096]);
    stream.set_nodelay(true)?;
    loop {
        while !request.ends_with(b"\r\n\r\n") {
            match stream.read(&mut buffer)? {
                0 => return Ok(()),
                n => request.extend_from_slice(&buffer[..n]),
            }
        }
        if !request.starts_with(b"GET /quick") {
            std::thread::sleep(Stalling::takes(began.elapsed()));
        }
        request.clear();
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}")?;
    }
}
