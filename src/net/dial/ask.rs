//! The one request over a connection that was dialled, watched as an attempt of `send` is.

use super::kernel::Socket;
use super::{Connection, DialSettings, Stream};
use crate::drive::Question;
use crate::engine::deadline::Limits;
use crate::engine::diagnose::clock::Skew;
use crate::engine::diagnose::tcp::Tcp;
use crate::engine::exchange::{Headers, Stage};
use crate::engine::operation::Header;
use crate::net::attempt::{Carried, carry_by};
use crate::net::fault::Failure;
use crate::net::marks::Marks;
use crate::net::request::Outgoing;
use hyper::client::conn::http1::{self, SendRequest};
use hyper::header::{ACCEPT, HOST, HeaderValue};
use hyper::{Request, Uri};
use hyper_util::rt::TokioIo;
use reqwest::{Body, Response};
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout_at};

/// What is asked. It has no body.
#[derive(Clone, Copy, Debug)]
pub struct Asking<'a> {
    /// The method.
    pub method: &'a str,
    /// The absolute URL.
    pub url: &'a str,
    /// The header fields.
    pub headers: &'a [Header],
}

/// What came of it.
pub(super) struct Asked {
    pub carried: Carried,
    /// What the kernel knew at the end, before the connection was closed.
    pub tcp: Option<Tcp>,
    pub took: Duration,
    /// The connection, where it may carry another request.
    pub kept: Option<Kept>,
}

impl Asked {
    fn nothing_sent(failure: Failure, tcp: Option<Tcp>, started: Instant) -> Asked {
        let carried = Carried::nothing_sent(Stage::Write, failure);
        Asked { carried, tcp, took: started.elapsed(), kept: None }
    }
}

/// A connection that carried a request and its whole answer. Dropping it closes it.
#[derive(Debug)]
pub struct Kept {
    sender: SendRequest<Body>,
    /// Moves the bytes until the connection ends.
    pump: Pump,
    socket: Socket,
    last_look: LastLook,
}

/// What the kernel knew of a socket before it was shut down.
type LastLook = Arc<Mutex<Option<Tcp>>>;

/// A task that ends with its owner, so that nothing more leaves then.
#[derive(Debug)]
struct Pump(JoinHandle<hyper::Result<()>>);

impl Drop for Pump {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Kept {
    /// Lets the connection notice that the partner has closed it. Returns whether it may carry another request.
    pub async fn is_open(&mut self) -> bool {
        for _ in 0..TURNS {
            tokio::task::yield_now().await;
        }
        !self.pump.0.is_finished() && !self.sender.is_closed()
    }

    /// Waits until the partner closes the idle connection, and returns how long that took; `None` where `limit` is
    /// over before.
    pub async fn closed(&mut self, limit: Duration) -> Option<Duration> {
        let started = Instant::now();
        // However it ends: it is over.
        timeout_at(started + limit, &mut self.pump.0).await.ok().map(|_| started.elapsed())
    }
}

/// So often the tasks of a connection get their turn before it counts as idle: an answer and what comes with it are
/// read in two or three.
const TURNS: usize = 8;

/// Sends one request over a connection that was dialled.
pub(super) async fn ask(line: Connection, asking: Asking<'_>, limits: Limits, settings: &DialSettings) -> Asked {
    let started = Instant::now();
    let Connection { stream, socket, marks } = line;
    let last_look = LastLook::default();
    let stream = Looked { stream, socket, seen: Arc::clone(&last_look) };
    match http1::handshake::<_, Body>(TokioIo::new(stream)).await {
        Ok((sender, connection)) => {
            let kept = Kept { sender, pump: Pump(tokio::spawn(connection)), socket, last_look };
            over(kept, asking, limits, settings, |own| own.on_the_connection_of(&marks)).await
        }
        Err(error) => Asked::nothing_sent(Failure::of_connection(&error, &marks.progress()), socket.look(), started),
    }
}

/// Sends one more request over a connection that carried one.
pub(super) async fn ask_again(kept: Kept, asking: Asking<'_>, limits: Limits, settings: &DialSettings) -> Asked {
    over(kept, asking, limits, settings, |_| ()).await
}

/// Sends a request over a connection that stands. `mark` tells its marks where it comes from.
async fn over(
    mut kept: Kept,
    asking: Asking<'_>,
    limits: Limits,
    settings: &DialSettings,
    mark: impl FnOnce(&Marks),
) -> Asked {
    let started = Instant::now();
    let question = Question { method: asking.method, url: asking.url, headers: asking.headers, limits };
    let built = Outgoing::question(&question).and_then(|outgoing| {
        let (request, marks) = outgoing.parts();
        Ok((in_origin_form(request)?, marks))
    });
    let (request, marks) = match built {
        Ok(built) => built,
        Err(failure) => return Asked::nothing_sent(failure, kept.socket.look(), started),
    };
    mark(&marks);
    let sending = async {
        kept.sender.ready().await?;
        let response = kept.sender.send_request(request).await?;
        let (parts, body) = response.into_parts();
        Ok(Response::from(hyper::Response::from_parts(parts, Body::wrap(body))))
    };
    let failure = |error: hyper::Error, progress: &_| Failure::of_connection(&error, progress);
    let wall = settings.wall;
    let carried = carry_by(sending, &marks, failure, limits, settings.answer_max_bytes, || wall.now()).await;
    let seen = *kept.last_look.lock().expect("no holder of this lock panics");
    let tcp = kept.socket.look().or(seen);
    // Else it ends here, after which nothing more may leave.
    let kept = Some(kept).filter(|_| carried.clean);
    Asked { carried, tcp, took: started.elapsed(), kept }
}

/// A stream that looks at its socket before it is shut down: afterwards the kernel knows it no more.
struct Looked {
    stream: Box<dyn Stream>,
    socket: Socket,
    seen: LastLook,
}

impl AsyncRead for Looked {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for Looked {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if let Some(tcp) = self.socket.look() {
            *self.seen.lock().expect("no holder of this lock panics") = Some(tcp);
        }
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

/// Returns a request as it is written to the partner itself: the path alone, and the host in a field of its own.
fn in_origin_form(request: reqwest::Request) -> Result<Request<Body>, Failure> {
    let mut request: Request<Body> = request.try_into().map_err(Failure::of_builder)?;
    let unbuildable = |_| Failure::new(crate::engine::exchange::Fault::Unbuildable, "the URL has no host or path");
    let authority = request.uri().authority().map(|authority| authority.as_str().to_owned()).unwrap_or_default();
    let path = request.uri().path_and_query().map_or("/", |path| path.as_str());
    let uri: Uri = path.parse().map_err(|_| unbuildable(()))?;
    let host = HeaderValue::from_str(&authority).map_err(|_| unbuildable(()))?;
    *request.uri_mut() = uri;
    request.headers_mut().entry(HOST).or_insert(host);
    request.headers_mut().entry(ACCEPT).or_insert(HeaderValue::from_static("*/*"));
    Ok(request)
}

/// No longer head is read where nothing but its `Date` is wanted.
const HEAD_MAX_BYTES: usize = 16 * 1024;

/// Asks for a head without saying who asks, and returns how far the clocks are apart.
pub(super) async fn date(mut stream: impl Stream, host: &str, settings: &DialSettings, until: Instant) -> Option<Skew> {
    let request = format!("HEAD / HTTP/1.1\r\nhost: {host}\r\nuser-agent: abide\r\nconnection: close\r\n\r\n");
    let reading = async {
        stream.write_all(request.as_bytes()).await.ok()?;
        stream.flush().await.ok()?;
        let (sent, started) = (settings.wall.now(), Instant::now());
        let mut head = Vec::new();
        let mut round_trip = None;
        while !head.windows(4).any(|end| end == b"\r\n\r\n") && head.len() < HEAD_MAX_BYTES {
            let mut piece = [0; 2048];
            match stream.read(&mut piece).await {
                Ok(length @ 1..) => head.extend_from_slice(&piece[..length]),
                _ => break,
            }
            round_trip.get_or_insert_with(|| started.elapsed());
        }
        Skew::of(&headers(&head), sent, round_trip?)
    };
    timeout_at(until, reading).await.ok()?
}

fn headers(head: &[u8]) -> Headers {
    let text = String::from_utf8_lossy(head);
    let fields = text.lines().skip(1).filter_map(|line| line.split_once(':'));
    Headers(fields.map(|(name, value)| (name.to_ascii_lowercase().into(), value.trim().into())).collect())
}
