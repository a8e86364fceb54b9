//! How far a request got: a body that counts, and a flag on the connection.
//!
//! Sound for HTTP/1.1, whatever the connection carried before: hyper asks the body for its first chunk, or whether it
//! is empty, in the same pass in which it writes the head into its buffer, before any flush. So a body that was never
//! asked proves that nothing left, and one that refuses to answer keeps the head from leaving. Which connection took
//! the request does not matter. Source: semantics.md 1.2; `poll_write` in hyper 1.12 src/proto/h1/dispatch.rs.

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
    /// When its last handshake over TLS began, on the connection that is opened for it.
    pub securing: Option<Instant>,
    /// The partner asked for a certificate of ours; whether one was shown.
    pub shown: Option<bool>,
    /// When a connection stood that was opened for this attempt; stays empty on one that was kept.
    pub connected: Option<Instant>,
    /// When a connection first asked for the body: the head is being written.
    pub begun: Option<Instant>,
    /// When a piece of the body was last taken.
    pub taken: Option<Instant>,
    /// When the last piece of the body was taken, or an empty one was seen to be empty.
    pub done: Option<Instant>,
    /// We gave up: nothing more may leave.
    pub abandoned: bool,
}

impl Progress {
    /// Returns how far the request got, when no answer came.
    pub fn sent(&self) -> Sent {
        match (self.begun, self.done) {
            (None, _) => Sent::Nothing,
            (Some(_), None) => Sent::Part,
            (Some(_), Some(_)) => Sent::Whole,
        }
    }

    /// Returns the stage that is under way, when no answer came yet.
    pub fn stage(&self) -> Stage {
        match (self.on_its_way(), self.done) {
            (None, _) if self.securing.is_some() => Stage::Tls,
            (None, _) => Stage::Connect,
            (Some(_), None) => Stage::Write,
            (Some(_), Some(_)) => Stage::FirstByte,
        }
    }

    /// Returns since when there is a connection for the request: a new one, or a kept one that began with it.
    pub fn on_its_way(&self) -> Option<Instant> {
        self.connected.or(self.begun)
    }
}

/// The marks of one attempt. Clones share them.
#[derive(Clone, Debug, Default)]
pub(super) struct Marks(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    progress: Mutex<Progress>,
    stage_moved: Notify,
}

impl Marks {
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

    /// Records that a connection stands. One that comes when another already took the request is not this attempt's.
    fn connected(&self) {
        let mut progress = self.lock();
        if progress.begun.is_none() {
            progress.connected.get_or_insert_with(Instant::now);
            self.0.stage_moved.notify_one();
        }
    }

    /// Calls `mark` with the marks of the attempt that dials; nothing does while none is polled.
    pub fn of_the_dial(mark: impl FnOnce(&Marks)) {
        // Outside of a dial there is nobody to tell.
        let _ = DIALLING.try_with(mark);
    }

    /// Polls a dial whose callbacks mark this attempt.
    pub async fn dialling<F: Future>(&self, dial: F) -> F::Output {
        DIALLING.scope(self.clone(), dial).await
    }

    /// Records that the connection stands which was opened for this attempt.
    pub fn stands(&self) {
        self.connected();
    }

    /// Takes over what `dialled` marked of the connection, for a request on it.
    pub fn on_the_connection_of(&self, dialled: &Marks) {
        let Progress { securing, shown, .. } = dialled.progress();
        let mut progress = self.lock();
        (progress.securing, progress.shown) = (securing, shown);
        progress.connected = Some(Instant::now());
    }

    /// Records that a handshake begins. Behind a proxy that is spoken to over TLS, the last one is the partner's.
    pub fn securing(&self) {
        let mut progress = self.lock();
        if progress.begun.is_none() {
            progress.securing = Some(Instant::now());
        }
    }

    /// Records that the partner asks for a certificate of ours, and whether it gets one.
    pub fn certificate_wanted(&self, shown: bool) {
        self.lock().shown = Some(shown);
    }

    /// Records that a piece is taken. Returns whether it may be.
    fn take(&self, last: bool) -> bool {
        let mut progress = self.lock();
        if progress.done.is_some() {
            return true;
        }
        if progress.abandoned {
            return false;
        }
        let now = Instant::now();
        let first = progress.begun.is_none();
        progress.begun.get_or_insert(now);
        progress.taken = Some(now);
        progress.done = last.then_some(now);
        if first || last {
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
    /// There was never anything in it.
    empty: bool,
    marks: Marks,
}

impl MarkedBody {
    /// Wraps a body.
    pub fn new(body: Bytes, marks: &Marks) -> MarkedBody {
        MarkedBody { empty: body.is_empty(), left: body, marks: marks.clone() }
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
        if self.empty {
            return Poll::Ready(if self.marks.take(true) { None } else { Some(Err(Abandoned)) });
        }
        if self.left.is_empty() {
            return Poll::Ready(None);
        }
        let piece_bytes = self.left.len().min(PIECE_BYTES);
        if !self.marks.take(piece_bytes == self.left.len()) {
            return Poll::Ready(Some(Err(Abandoned)));
        }
        Poll::Ready(Some(Ok(Frame::data(self.left.split_to(piece_bytes)))))
    }

    /// An empty body is taken by this question, which hyper asks as it writes the head. One that was given up claims
    /// to have more, so that hyper asks for it, fails, and closes the connection with the head unflushed.
    fn is_end_stream(&self) -> bool {
        if self.empty { self.marks.take(true) } else { self.left.is_empty() }
    }

    /// Nothing is said about an empty body: "none" would let hyper flush a head that was given up, and tower-http
    /// copy the request.
    fn size_hint(&self) -> SizeHint {
        if self.empty { SizeHint::default() } else { SizeHint::with_exact(self.left.len() as u64) }
    }
}

/// The marks of the attempt that is under way on a client which serves one at a time. Clones share them.
#[derive(Clone, Debug, Default)]
pub(super) struct Current(Arc<Mutex<Marks>>);

impl Current {
    /// Makes the marks those of the attempt under way.
    pub fn set(&self, marks: &Marks) {
        *self.lock() = marks.clone();
    }

    fn get(&self) -> Marks {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, Marks> {
        self.0.lock().expect("no holder of this lock panics")
    }
}

tokio::task_local! {
    /// The marks of the attempt whose dial is polled: for callbacks from below, which are told nothing about it.
    static DIALLING: Marks;
}

/// Marks the moment at which a connection stands: lookup, TCP, proxy and TLS are over.
///
/// It is a mark of the attempt that began to dial. hyper-util finishes a dial in the background when a kept connection
/// turns up meanwhile; such a connection must not be taken for one of a later attempt.
#[derive(Clone)]
pub(super) struct ConnectedLayer(pub Current);

impl<S> tower_layer::Layer<S> for ConnectedLayer {
    type Service = Connecting<S>;

    fn layer(&self, inner: S) -> Connecting<S> {
        Connecting { inner, current: self.0.clone() }
    }
}

/// The connector below, watched.
#[derive(Clone)]
pub(super) struct Connecting<S> {
    inner: S,
    current: Current,
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
        let marks = self.current.get();
        let connecting = self.inner.call(request);
        Box::pin(DIALLING.scope(marks.clone(), async move {
            let connection = connecting.await?;
            marks.connected();
            Ok(connection)
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tower_layer::Layer;
    use tower_service::Service;

    fn poll(body: &mut MarkedBody) -> Poll<Option<Result<Frame<Bytes>, Abandoned>>> {
        Pin::new(body).poll_frame(&mut Context::from_waker(std::task::Waker::noop()))
    }

    fn state(marks: &Marks) -> (Sent, Stage) {
        (marks.progress().sent(), marks.progress().stage())
    }

    #[test]
    fn every_step_moves_what_is_known() {
        let marks = Marks::default();
        let mut body = MarkedBody::new(Bytes::from(vec![7; PIECE_BYTES + 1]), &marks);
        assert_eq!(state(&marks), (Sent::Nothing, Stage::Connect));
        marks.connected();
        assert_eq!(state(&marks), (Sent::Nothing, Stage::Write));
        assert!(poll(&mut body).is_ready());
        assert_eq!(state(&marks), (Sent::Part, Stage::Write));
        assert_eq!(body.size_hint().exact(), Some(1));
        assert!(poll(&mut body).is_ready() && body.is_end_stream());
        assert_eq!(state(&marks), (Sent::Whole, Stage::FirstByte));
        assert!(matches!(poll(&mut body), Poll::Ready(None)));
    }

    #[test]
    fn an_empty_body_leaves_with_the_question_whether_it_is_empty() {
        let marks = Marks::default();
        let mut body = MarkedBody::new(Bytes::new(), &marks);
        marks.connected();
        assert_eq!(state(&marks), (Sent::Nothing, Stage::Write));
        assert!(body.is_end_stream());
        assert_eq!(state(&marks), (Sent::Whole, Stage::FirstByte));
        marks.abandon();
        assert!(body.is_end_stream() && matches!(poll(&mut body), Poll::Ready(None)));
    }

    #[test]
    fn an_empty_body_that_was_given_up_does_not_let_the_head_leave() {
        let marks = Marks::default();
        let mut body = MarkedBody::new(Bytes::new(), &marks);
        marks.connected();
        assert_eq!(marks.abandon().sent(), Sent::Nothing);
        assert!(!body.is_end_stream() && body.size_hint().exact().is_none());
        assert!(matches!(poll(&mut body), Poll::Ready(Some(Err(Abandoned)))));
        assert_eq!(marks.progress().sent(), Sent::Nothing);
    }

    #[test]
    fn a_handshake_is_a_stage_of_its_own_until_the_connection_stands() {
        let marks = Marks::default();
        marks.securing();
        assert_eq!(state(&marks), (Sent::Nothing, Stage::Tls));
        marks.connected();
        assert_eq!(state(&marks), (Sent::Nothing, Stage::Write));
    }

    #[test]
    fn a_kept_connection_needs_no_connecting() {
        for (bytes, expected) in [(1, (Sent::Whole, Stage::FirstByte)), (PIECE_BYTES + 1, (Sent::Part, Stage::Write))] {
            let marks = Marks::default();
            let mut body = MarkedBody::new(Bytes::from(vec![7; bytes]), &marks);
            assert!(poll(&mut body).is_ready());
            assert_eq!(state(&marks), expected);
            marks.connected();
            assert_eq!((marks.progress().connected, state(&marks)), (None, expected));
        }
    }

    #[test]
    fn after_giving_up_no_piece_is_handed_over() {
        let marks = Marks::default();
        marks.connected();
        let mut body = MarkedBody::new(Bytes::from(vec![7; 2 * PIECE_BYTES]), &marks);
        assert!(poll(&mut body).is_ready());
        assert_eq!(marks.abandon().sent(), Sent::Part);
        assert!(matches!(poll(&mut body), Poll::Ready(Some(Err(Abandoned)))));
        assert_eq!(marks.progress().sent(), Sent::Part);
    }

    /// A connector that connects once it is told to.
    #[derive(Clone)]
    struct Door(Arc<Notify>);

    impl Service<()> for Door {
        type Response = ();
        type Error = ();
        type Future = Pin<Box<dyn Future<Output = Result<(), ()>> + Send>>;

        fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), ()>> {
            Poll::Ready(Ok(()))
        }

        fn call(&mut self, (): ()) -> Self::Future {
            let opened = Arc::clone(&self.0);
            Box::pin(async move {
                opened.notified().await;
                Ok(())
            })
        }
    }

    #[tokio::test]
    async fn a_connection_that_an_earlier_attempt_began_is_not_a_later_ones() {
        let (current, opened) = (Current::default(), Arc::new(Notify::new()));
        let mut connector = ConnectedLayer(current.clone()).layer(Door(Arc::clone(&opened)));
        let (earlier, later) = (Marks::default(), Marks::default());
        current.set(&earlier);
        let connecting = connector.call(());
        current.set(&later);
        opened.notify_one();
        connecting.await.expect("connects");
        assert!(earlier.progress().connected.is_some());
        assert!(later.progress().connected.is_none());
    }
}
