//! One connection: read requests, and do to them what the script says.

use super::business::{Business, SeenRequest};
use super::script::{Act, Reply};
use socket2::SockRef;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// A longer head is not read.
const HEAD_MAX_BYTES: usize = 64 * 1024;
/// A longer body is not read.
const BODY_MAX_BYTES: usize = 64 << 20;
/// The pause between two bytes that drip.
const DRIP: Duration = Duration::from_millis(20);
/// A body is read in pieces of at most this many bytes.
const PIECE_BYTES: usize = 256 * 1024;
/// The pause of [`Act::ServeSlowly`] between two pieces.
const PAUSE: Duration = Duration::from_millis(3);
/// What a drip-fed or stalled answer announces, in bytes.
const SLOW_BODY_BYTES: usize = 1_000;

/// Serves one connection to its end. Errors are the client's: it went away.
pub(super) async fn serve(mut stream: TcpStream, business: Arc<Business>) {
    business.connected();
    // Small writes are the point of many faults.
    let _ = stream.set_nodelay(true);
    let _ = match business.turn_at_accept() {
        Some(turn) => play_at_accept(&mut stream, &turn.act).await,
        None => requests(&mut stream, &business).await,
    };
}

async fn play_at_accept(stream: &mut TcpStream, act: &Act) -> io::Result<()> {
    match act {
        Act::AcceptFin => Ok(()),
        Act::AcceptRst => reset(stream),
        Act::NeverRead => std::future::pending().await,
        Act::Unsolicited408 => {
            stream.write_all(&Reply::status(408).header("Connection", "close").bytes()).await?;
            stream.shutdown().await?;
            hold(stream).await
        }
        Act::ReadThenRst(bytes) => {
            let mut read = vec![0; *bytes];
            stream.read_exact(&mut read).await?;
            reset(stream)
        }
        _ => unreachable!("the other acts begin with a request"),
    }
}

async fn requests(stream: &mut TcpStream, business: &Arc<Business>) -> io::Result<()> {
    let mut buffer = Vec::new();
    while let Some(mut request) = read_head(stream, &mut buffer).await? {
        if let Some(key) = asked_about(&request) {
            play(stream, business.status_of(&key)).await?;
            continue;
        }
        let turn = business.turn_at_head();
        match turn.act {
            Act::HeadThenRst => return reset(stream),
            Act::Early413 => return refuse_early(stream).await,
            _ => {}
        }
        let pause = if matches!(turn.act, Act::ServeSlowly) { PAUSE } else { Duration::ZERO };
        read_body(stream, &mut buffer, &mut request, pause).await?;
        let reply = business.receive(request, turn.execution);
        let last = matches!(turn.act, Act::ServeLast);
        let serves = matches!(turn.act, Act::Serve | Act::ServeSlowly | Act::ServeLast);
        play(stream, if serves { Act::Answer(reply) } else { turn.act }).await?;
        if last {
            stream.shutdown().await?;
        }
    }
    Ok(())
}

/// Returns the key of a status request.
fn asked_about(request: &SeenRequest) -> Option<String> {
    let is_question = matches!(&*request.method, "GET" | "HEAD");
    request.path.strip_prefix("/status/").filter(|_| is_question).map(str::to_owned)
}

async fn refuse_early(stream: &mut TcpStream) -> io::Result<()> {
    stream.write_all(&Reply::status(413).header("Connection", "close").bytes()).await?;
    // What is unread resets the connection when it is dropped; the client gets the time to see the answer first.
    tokio::time::sleep(DRIP).await;
    Ok(())
}

/// Plays what follows a whole request. `Err` ends the connection, also where that is the act.
async fn play(stream: &mut TcpStream, act: Act) -> io::Result<()> {
    if let Act::Answer(reply) = act {
        // The runtime's timer would make a millisecond of none.
        if !reply.delay.is_zero() {
            tokio::time::sleep(reply.delay).await;
        }
        return stream.write_all(&reply.bytes()).await;
    }
    let (first, then) = steps(&act);
    stream.write_all(&first).await?;
    match then {
        Then::Close => stream.shutdown().await?,
        Then::Reset => reset(stream)?,
        Then::Hold => hold(stream).await?,
        Then::Drip => drip(stream).await?,
        Then::Repeat(bytes) => repeat(stream, &bytes.repeat(64)).await?,
        Then::RepeatSingly(bytes) => repeat(stream, bytes).await?,
    }
    Err(io::ErrorKind::ConnectionAborted.into())
}

/// How an act goes on after its first bytes.
enum Then {
    Close,
    Reset,
    Hold,
    Drip,
    /// As fast as it goes: many in one packet.
    Repeat(&'static [u8]),
    /// Each handed to the network by itself.
    RepeatSingly(&'static [u8]),
}

/// Returns the first bytes of an act that follows a whole request, and how it goes on.
fn steps(act: &Act) -> (Vec<u8>, Then) {
    const OK: &[u8] = b"HTTP/1.1 200 OK\r\n";
    let ok_and = |rest: &[u8]| [OK, rest].concat();
    match act {
        Act::Fin => (Vec::new(), Then::Close),
        Act::Rst => (Vec::new(), Then::Reset),
        Act::Hang => (Vec::new(), Then::Hold),
        Act::HalfHead => (ok_and(b"Content-"), Then::Hold),
        Act::DripHead => (ok_and(b"X-Drip: "), Then::Drip),
        Act::EndlessHeaders => (OK.to_vec(), Then::Repeat(b"X-More: and more and more and more\r\n")),
        Act::ContinueFlood => (Vec::new(), Then::RepeatSingly(b"HTTP/1.1 100 Continue\r\n\r\n")),
        Act::DripBody => (slow_head(), Then::Drip),
        Act::CutBody => (half_body(), Then::Close),
        Act::StalledBody => (half_body(), Then::Hold),
        Act::GiantChunk => {
            (ok_and(b"Transfer-Encoding: chunked\r\n\r\nFFFFFFFFFFFFFF\r\n"), Then::Repeat(&[b'x'; 1024]))
        }
        Act::Flood => (ok_and(b"Connection: close\r\n\r\n"), Then::Repeat(&[b'x'; 1024])),
        Act::Garbage => (b"\x16\x03 this is not HTTP\r\n\r\n".to_vec(), Then::Close),
        _ => unreachable!("the other acts are over before, or are answers by now"),
    }
}

/// Lets the connection end with a reset when it is dropped.
fn reset(stream: &TcpStream) -> io::Result<()> {
    SockRef::from(stream).set_linger(Some(Duration::ZERO))
}

/// Keeps the connection open, silent, until the client goes away.
async fn hold(stream: &mut TcpStream) -> io::Result<()> {
    let mut ignored = [0; 4096];
    while stream.read(&mut ignored).await? > 0 {}
    Ok(())
}

async fn drip(stream: &mut TcpStream) -> io::Result<()> {
    loop {
        stream.write_all(b"x").await?;
        tokio::time::sleep(DRIP).await;
    }
}

async fn repeat(stream: &mut TcpStream, bytes: &[u8]) -> io::Result<()> {
    loop {
        stream.write_all(bytes).await?;
    }
}

fn slow_head() -> Vec<u8> {
    format!("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {SLOW_BODY_BYTES}\r\n\r\n").into()
}

fn half_body() -> Vec<u8> {
    let mut bytes = slow_head();
    bytes.resize(bytes.len() + SLOW_BODY_BYTES / 2, b'x');
    bytes
}

/// Reads one head; what follows it stays in the buffer. `None` where the client is gone or sends no HTTP.
async fn read_head(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> io::Result<Option<SeenRequest>> {
    loop {
        if let Some(end) = memchr::memmem::find(buffer, b"\r\n\r\n") {
            let head: Vec<u8> = buffer.drain(..end + 4).collect();
            return Ok(parse_head(&String::from_utf8_lossy(&head)));
        }
        if buffer.len() > HEAD_MAX_BYTES || stream.read_buf(buffer).await? == 0 {
            return Ok(None);
        }
    }
}

fn parse_head(head: &str) -> Option<SeenRequest> {
    let mut lines = head.split("\r\n");
    let mut first = lines.next()?.split(' ');
    let (method, path) = (first.next()?.to_owned(), first.next()?.to_owned());
    let field = |line: &str| line.split_once(':').map(|(n, v)| (n.to_ascii_lowercase(), v.trim().to_owned()));
    Some(SeenRequest { method, path, headers: lines.filter_map(field).collect(), ..SeenRequest::default() })
}

/// Reads the body that the head announces. A chunked one is not understood and ends the connection.
async fn read_body(
    stream: &mut TcpStream,
    buffer: &mut Vec<u8>,
    request: &mut SeenRequest,
    pause: Duration,
) -> io::Result<()> {
    let announced = request.header("content-length").map_or(Ok(0), str::parse);
    let mut left = announced.map_err(|_| io::ErrorKind::InvalidData)?;
    if left > BODY_MAX_BYTES || request.header("transfer-encoding").is_some() {
        stream.write_all(&Reply::status(411).header("Connection", "close").bytes()).await?;
        return Err(io::ErrorKind::InvalidData.into());
    }
    if request.header("expect").is_some() {
        stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").await?;
    }
    loop {
        let piece_bytes = left.min(buffer.len());
        request.keep_body(&buffer[..piece_bytes]);
        buffer.drain(..piece_bytes);
        left -= piece_bytes;
        if left == 0 {
            return Ok(());
        }
        buffer.reserve(PIECE_BYTES);
        if (&mut *stream).take(PIECE_BYTES as u64).read_buf(buffer).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if !pause.is_zero() {
            tokio::time::sleep(pause).await;
        }
    }
}
