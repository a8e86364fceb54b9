//! One request and its answer, watched from the connection to the last byte.

use super::fault::Failure;
use super::line::Line;
use super::marks::{Marks, Progress};
use super::request::Outgoing;
use super::watch::Watch;
use crate::engine::deadline::Limits;
use crate::engine::exchange::{Answer, Ending, Fault, Headers, Outcome, Sent, Stage, Stages};
use crate::engine::moment::Timestamp;
use reqwest::Response;
use std::future::Future;
use std::pin::pin;
use std::time::Duration;
use tokio::time::Instant;

/// What came of one request.
pub(super) struct Carried {
    /// What the wire said.
    pub outcome: Outcome,
    /// How long the stages took.
    pub stages: Stages,
    /// What went wrong in the library's words.
    pub failure: Option<Failure>,
    /// The wall clock when the head came.
    pub head_at: Option<Timestamp>,
    /// Both messages are complete, so the connection may carry another request.
    pub clean: bool,
}

impl Carried {
    /// Returns the outcome of a request of which nothing left.
    pub fn nothing_sent(stage: Stage, failure: Failure) -> Carried {
        let outcome = Outcome::Unanswered { sent: Sent::Nothing, stage, fault: failure.fault };
        Carried { outcome, stages: Stages::default(), failure: Some(failure), head_at: None, clean: false }
    }
}

/// Sends a request over a line and reads the answer. Returns what is known when a limit runs out.
pub(super) async fn carry(
    outgoing: Outgoing,
    line: &Line,
    limits: Limits,
    answer_max_bytes: usize,
    wall: impl Fn() -> Timestamp,
) -> Carried {
    let (request, marks) = outgoing.parts();
    let failure = |error, progress: &Progress| line.failure(error, progress);
    carry_by(line.send(request, &marks), &marks, failure, limits, answer_max_bytes, wall).await
}

/// Watches a request that `sending` sends and `marks` mark; `failure` says what its error means.
pub(super) async fn carry_by<E>(
    sending: impl Future<Output = Result<Response, E>>,
    marks: &Marks,
    failure: impl FnOnce(E, &Progress) -> Failure,
    limits: Limits,
    answer_max_bytes: usize,
    wall: impl Fn() -> Timestamp,
) -> Carried {
    let mut watch = Watch::new(limits);
    let head = {
        let mut sending = pin!(sending);
        let head = watch.head(sending.as_mut(), marks).await;
        // Before the request is let go: what is known from here on must stay true.
        if !matches!(head, Ok(Ok(_))) {
            marks.abandon();
        }
        head
    };
    let progress = marks.progress();
    match head {
        Ok(Ok(response)) if is_uninvited(&response, &progress) => {
            let stage = Stage::Write;
            Carried::nothing_sent(stage, Failure::new(Fault::Closed, "the partner answered before it was asked"))
        }
        Ok(Ok(response)) => answered(response, &mut watch, marks, answer_max_bytes, wall()).await,
        Ok(Err(error)) => unanswered(&watch, &progress, failure(error, &progress)),
        Err(fault) => unanswered(&watch, &progress, Failure::new(fault, "")),
    }
}

/// Returns whether an answer is a server's "you were silent for too long" on a connection that carried no request yet.
///
/// Source: semantics.md section 6, case 35.
fn is_uninvited(response: &Response, progress: &Progress) -> bool {
    response.status().as_u16() == 408 && progress.sent() == Sent::Nothing
}

fn unanswered(watch: &Watch, progress: &Progress, failure: Failure) -> Carried {
    let outcome = Outcome::Unanswered { sent: progress.sent(), stage: progress.stage(), fault: failure.fault };
    Carried { outcome, stages: stages(watch, progress, None), failure: Some(failure), head_at: None, clean: false }
}

async fn answered(
    mut response: Response,
    watch: &mut Watch,
    marks: &Marks,
    max_bytes: usize,
    head_at: Timestamp,
) -> Carried {
    let head_came = Instant::now();
    let status = response.status().as_u16();
    let headers = headers_of(&response);
    let mut body = Vec::new();
    let (ending, failure) = read_body(&mut response, watch, max_bytes, &mut body).await;
    let progress = marks.abandon();
    let clean = ending == Ending::Complete && progress.sent() == Sent::Whole;
    let outcome = Outcome::Answered(Answer { status, headers, body, ending });
    Carried { outcome, stages: stages(watch, &progress, Some(head_came)), failure, head_at: Some(head_at), clean }
}

/// Reads a body until it ends, is cut, or is longer than `max_bytes`.
async fn read_body(
    response: &mut Response,
    watch: &mut Watch,
    max_bytes: usize,
    body: &mut Vec<u8>,
) -> (Ending, Option<Failure>) {
    loop {
        let failure = match watch.piece(pin!(response.chunk())).await {
            Ok(Ok(None)) => return (Ending::Complete, None),
            Ok(Ok(Some(piece))) => {
                let room = max_bytes - body.len();
                body.extend_from_slice(&piece[..piece.len().min(room)]);
                if piece.len() > room {
                    return (Ending::Capped, None);
                }
                continue;
            }
            Ok(Err(error)) => Failure::of_body(error),
            Err(fault) => Failure::new(fault, ""),
        };
        return (Ending::Cut(failure.fault), Some(failure));
    }
}

fn headers_of(response: &Response) -> Headers {
    let fields = response.headers().iter();
    Headers(
        fields.map(|(name, value)| (name.as_str().into(), String::from_utf8_lossy(value.as_bytes()).into())).collect(),
    )
}

fn stages(watch: &Watch, progress: &Progress, head_came: Option<Instant>) -> Stages {
    let between = |from: Option<Instant>, to: Option<Instant>| Some(micros(to?.saturating_duration_since(from?)));
    Stages {
        resolve_us: None,
        connect_us: between(Some(watch.started()), progress.securing.or(progress.connected)),
        tls_us: between(progress.securing, progress.connected),
        write_us: between(progress.on_its_way(), progress.done),
        first_byte_us: between(progress.done, head_came),
        body_us: between(head_came, head_came.map(|_| Instant::now())),
    }
}

pub(super) fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}
