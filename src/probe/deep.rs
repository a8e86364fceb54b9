//! `--deep`: what one request cannot tell. The connection after the answer, every other address, and the transport of
//! `send`; all within the same deadline.

use super::Probe;
use super::addresses::asking;
use crate::drive::Question;
use crate::engine::deadline::Limits;
use crate::engine::diagnose::observations::KeepAlive;
use crate::engine::exchange::{Exchange, Outcome, Sent};
use crate::net::dial::{Dialler, Kept};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::Instant;

/// An idle connection is watched no longer.
///
/// Source: latency.md 6.1, step 8.
const IDLE_WATCH: Duration = Duration::from_secs(5);

impl Probe<'_> {
    /// Asks more, unless the partner asked to be left alone or there was nobody to ask.
    pub(super) async fn deepen(&mut self, dialler: &Dialler, kept: Option<Kept>) {
        if !self.may_ask_more() {
            return;
        }
        let kept = self.ask_again(dialler, kept).await;
        let watch = idle(kept, self.left().min(IDLE_WATCH));
        let ((idle_close, watched), ()) = tokio::join!(watch, async {
            self.ask_others(dialler).await;
            self.ask_as_send().await;
        });
        if let Some(keep_alive) = self.seen.keep_alive.as_mut().filter(|_| watched.is_some()) {
            (keep_alive.idle_close, keep_alive.watched) = (idle_close, watched);
        }
    }

    /// Source: RFC 6585 section 4 and RFC 9110 section 10.2.3: more requests make it worse.
    fn may_ask_more(&self) -> bool {
        let is_unwelcome = |status: u16, has_wait: bool| status == 429 || (status >= 400 && has_wait);
        let answer = self.seen.answer();
        let refused = answer.map(|answer| is_unwelcome(answer.status, answer.headers.first("retry-after").is_some()));
        self.seen.exchange.is_some() && refused != Some(true) && !self.left().is_zero()
    }

    /// Sends a second request on the connection that carried the first. Returns the connection where it still stands.
    async fn ask_again(&mut self, dialler: &Dialler, kept: Option<Kept>) -> Option<Kept> {
        let (mut kept, addr) = (kept?, self.seen.exchange.as_ref()?.addr?);
        if !kept.is_open().await {
            let closed = KeepAlive { idle_close: Some(Duration::ZERO), watched: Some(Duration::ZERO), reused: None };
            self.seen.keep_alive = Some(closed);
            return None;
        }
        let (exchange, kept) = dialler.ask_again(addr, kept, asking(&self.plan.request), self.limits()).await;
        self.count(&exchange);
        let reused = match exchange.outcome {
            Outcome::Answered(_) => Some(true),
            // It was closed before anything left on it: no request is lost so.
            Outcome::Unanswered { sent: Sent::Nothing, .. } => None,
            Outcome::Unanswered { .. } if self.left().is_zero() => None,
            Outcome::Unanswered { .. } => Some(false),
        };
        self.seen.keep_alive = Some(KeepAlive { reused, ..KeepAlive::default() });
        kept
    }

    /// Sends a request to every address that connects and has not got one, each on a connection of its own.
    async fn ask_others(&mut self, dialler: &Dialler) {
        let asked = self.seen.exchange.as_ref().and_then(|exchange| exchange.addr);
        let until = Instant::now() + self.left();
        let mut asks: JoinSet<(SocketAddr, Option<Exchange>)> = JoinSet::new();
        for address in self.seen.addresses.iter().filter(|address| !address.has_failed() && Some(address.addr) != asked)
        {
            let (addr, timeouts) = (address.addr, self.plan.timeouts);
            let (dialler, request) = (dialler.clone(), Arc::clone(&self.plan.request));
            asks.spawn(async move {
                let left = || until.saturating_duration_since(Instant::now());
                let mut dialled = dialler.dial(addr, left().min(timeouts.connect)).await;
                let Some(line) = dialled.line.take() else { return (addr, None) };
                let limits = Limits::new(&timeouts, left());
                let (exchange, _) = dialler.ask(&mut dialled.address, line, asking(&request), limits).await;
                (addr, Some(exchange))
            });
        }
        while let Some(ended) = asks.join_next().await {
            let Ok((addr, Some(exchange))) = ended else { continue };
            self.count(&exchange);
            let address = self.seen.addresses.iter_mut().find(|address| address.addr == addr);
            address.into_iter().for_each(|address| address.reply = Some(Box::new(exchange.clone())));
        }
    }

    /// Sends the request once more, as `send` does.
    async fn ask_as_send(&mut self) {
        if self.left().is_zero() {
            return;
        }
        let (plan, limits) = (self.plan, self.limits());
        let request = &plan.request;
        let question = Question { method: request.method.as_str(), url: plan.url(), headers: &request.headers, limits };
        let exchange = crate::drive::Transport::ask(&mut plan.wire(), question).await;
        self.count(&exchange);
        self.seen.second_pass = Some(exchange);
    }
}

/// Watches an idle connection, and returns after how long it was closed, and how long it was watched.
async fn idle(kept: Option<Kept>, limit: Duration) -> (Option<Duration>, Option<Duration>) {
    let Some(mut kept) = kept else { return (None, None) };
    let closed = kept.closed(limit).await;
    (closed, Some(closed.unwrap_or(limit)))
}
