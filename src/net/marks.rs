//! How far a request got: a flag on the connection and a body that counts.
//!
//! Sound for HTTP/1.1 on a connection of its own: hyper asks the body for its first chunk in the same pass in which it
//! writes the head into its buffer, before any flush. So a body that was never asked proves that nothing left.
//! Source: semantics.md 1.2; `poll_write` in hyper 1.12 src/proto/h1/dispatch.rs.

use crate::engine::exchange::{Sent, Stage};
use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll};
use tokio::sync::Notify;
use tokio::time::Instant;

/// A body is handed over in pieces of this many bytes, so that "the last one was not taken" says much.
const PIECE_BYTES: usize = 16 * 1024;

/// What is known of one attempt while it runs.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Progress {
    /// The request has a body.
    pub has_body: bool,
    /// When the connection stood.
    pub connected: Option<Instant>,
    /// When a piece of the body was last taken.
    pub taken: Option<Instant>,
    /// When the last piece of the body was taken.
    pub done: Option<Instant>,
    /// We gave up: nothing more may leave.
    pub abandoned: bool,
}

impl Progress {
    /// Returns how far the request got, when no answer came.
    pub fn sent(&self) -> Sent {
        match (self.connected, self.has_body) {
            (None, _) => Sent::Nothing,
            (Some(_), false) => Sent::Whole,
            (Some(_), true) if self.done.is_some() => Sent::Whole,
            (Some(_), true) if self.taken.is_some() => Sent::Part,
            (Some(_), true) => Sent::Nothing,
        }
    }

    /// Returns the stage that is under way, when no answer came yet.
    pub fn stage(&self) -> Stage {
        match (self.connected, self.handed_over()) {
            (None, _) => Stage::Connect,
            (Some(_), None) => Stage::Write,
            (Some(_), Some(_)) => Stage::FirstByte,
        }
    }

    /// Returns since when the answer is awaited: the last piece of the body, or the connection where there is no body.
    pub fn handed_over(&self) -> Option<Instant> {
        if self.has_body { self.done } else { self.connected }
    }
}

/// The marks of one attempt. Clones share them.
#[derive(Clone, Default)]
pub(super) struct Marks(Arc<Shared>);

#[derive(Default)]
struct Shared {
    progress: Mutex<Progress>,
    stage_moved: Notify,
}

impl Marks {
    /// Returns the marks of a request that has not begun.
    pub fn new(has_body: bool) -> Marks {
        let marks = Marks::default();
        marks.lock().has_body = has_body;
        marks
    }

    /// Returns what is known now.
    pub fn progress(&self) -> Progress {
        *self.lock()
    }

    /// Waits until another stage begins.
    pub async fn stage_moved(&self) {
        self.0.stage_moved.notified().await;
    }

    /// Ends the attempt: no piece of the body is handed over from here on. Returns what is known at this moment.
    ///
    /// Without this, hyper's task could take the last piece after "not all of it left" was reported.
    pub fn abandon(&self) -> Progress {
        let mut progress = self.lock();
        progress.abandoned = true;
        *progress
    }

    fn connected(&self) {
        self.lock().connected.get_or_insert_with(Instant::now);
        self.0.stage_moved.notify_one();
    }

    /// Records that a piece is taken. Returns whether it may be.
    fn take(&self, last: bool) -> bool {
        let mut progress = self.lock();
        if progress.abandoned {
            return false;
        }
        let now = Instant::now();
        progress.taken = Some(now);
        if last {
            progress.done = Some(now);
            self.0.stage_moved.notify_one();
        }
        true
    }

    fn lock(&self) -> MutexGuard<'_, Progress> {
        self.0.progress.lock().expect("no holder of this lock panics")
    }
}

/// A request body that marks what is taken of it. It cannot be cloned, so nothing below can send it twice.
pub(super) struct MarkedBody {
    left: Bytes,
    marks: Marks,
}

impl MarkedBody {
    /// Wraps a body that is not empty.
    pub fn new(body: Bytes, marks: &Marks) -> MarkedBody {
        MarkedBody { left: body, marks: marks.clone() }
    }
}

/// The body is not handed over any more.
#[derive(Debug)]
pub(super) struct Abandoned;

impl fmt::Display for Abandoned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the attempt was given up")
    }
}

impl std::error::Error for Abandoned {}

impl Body for MarkedBody {
    type Data = Bytes;
    type Error = Abandoned;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Abandoned>>> {
        if self.left.is_empty() {
            return Poll::Ready(None);
        }
        let piece_bytes = self.left.len().min(PIECE_BYTES);
        if !self.marks.take(piece_bytes == self.left.len()) {
            return Poll::Ready(Some(Err(Abandoned)));
        }
        Poll::Ready(Some(Ok(Frame::data(self.left.split_to(piece_bytes)))))
    }

    fn is_end_stream(&self) -> bool {
        self.left.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left.len() as u64)
    }
}

/// Marks the moment at which a connection stands: lookup, TCP, and later proxy and TLS, are over.
#[derive(Clone)]
pub(super) struct ConnectedLayer(pub Marks);

impl<S> tower_layer::Layer<S> for ConnectedLayer {
    type Service = Connecting<S>;

    fn layer(&self, inner: S) -> Connecting<S> {
        Connecting { inner, marks: self.0.clone() }
    }
}

/// The connector below, watched.
#[derive(Clone)]
pub(super) struct Connecting<S> {
    inner: S,
    marks: Marks,
}

impl<S, R> tower_service::Service<R> for Connecting<S>
where
    S: tower_service::Service<R>,
    S::Future: Send + 'static,
    S::Response: Send,
    S::Error: Send,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<S::Response, S::Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: R) -> Self::Future {
        let connecting = self.inner.call(request);
        let marks = self.marks.clone();
        Box::pin(async move {
            let connection = connecting.await?;
            marks.connected();
            Ok(connection)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn poll(body: &mut MarkedBody) -> Poll<Option<Result<Frame<Bytes>, Abandoned>>> {
        Pin::new(body).poll_frame(&mut Context::from_waker(std::task::Waker::noop()))
    }

    #[test]
    fn every_step_moves_what_is_known() {
        let marks = Marks::new(true);
        let mut body = MarkedBody::new(Bytes::from(vec![7; PIECE_BYTES + 1]), &marks);
        assert_eq!((marks.progress().sent(), marks.progress().stage()), (Sent::Nothing, Stage::Connect));
        marks.connected();
        assert_eq!((marks.progress().sent(), marks.progress().stage()), (Sent::Nothing, Stage::Write));
        assert!(poll(&mut body).is_ready());
        assert_eq!((marks.progress().sent(), marks.progress().stage()), (Sent::Part, Stage::Write));
        assert_eq!(body.size_hint().exact(), Some(1));
        assert!(poll(&mut body).is_ready() && body.is_end_stream());
        assert_eq!((marks.progress().sent(), marks.progress().stage()), (Sent::Whole, Stage::FirstByte));
        assert!(matches!(poll(&mut body), Poll::Ready(None)));
    }

    #[test]
    fn without_a_body_a_connection_means_that_all_may_have_left() {
        let marks = Marks::new(false);
        assert_eq!((marks.progress().sent(), marks.progress().stage()), (Sent::Nothing, Stage::Connect));
        marks.connected();
        assert_eq!((marks.progress().sent(), marks.progress().stage()), (Sent::Whole, Stage::FirstByte));
    }

    #[test]
    fn after_giving_up_no_piece_is_handed_over() {
        let marks = Marks::new(true);
        marks.connected();
        let mut body = MarkedBody::new(Bytes::from(vec![7; 2 * PIECE_BYTES]), &marks);
        assert!(poll(&mut body).is_ready());
        assert_eq!(marks.abandon().sent(), Sent::Part);
        assert!(matches!(poll(&mut body), Poll::Ready(Some(Err(Abandoned)))));
        assert_eq!(marks.progress().sent(), Sent::Part);
    }
}
