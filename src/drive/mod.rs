//! The loop that turns decisions into effects, and the traits through which it reaches the world.
//!
//! Nothing else sends: a [`Permit`] is made here only, after the intent is durable, or for [`send_unrecorded`].

mod ask;
mod record;
mod run;
mod unrecorded;

pub use record::{sha256_hex, stored_body};
pub use run::{Failure, Patience, Ports, Terms, claim, run};
pub use unrecorded::send_unrecorded;

use crate::engine::deadline::Limits;
use crate::engine::entry::Wanted;
use crate::engine::exchange::{Answer, Exchange, Way};
use crate::engine::facts::{
    About, Asked, Fact, Finished, History, Opened, Owner, Resolved, Settled, StoredBody, Waiting,
};
use crate::engine::moment::{Moment, Now};
use crate::engine::operation::{Header, IdempotencyKey, Operation};
use crate::engine::verdict::Verdict;
use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// Proof that the intent to send is durable, or that a person wants it sent without. Only this module can make one.
#[derive(Debug)]
pub struct Permit(());

/// One attempt for the transport to carry out.
#[derive(Clone, Copy, Debug)]
pub struct Call<'a> {
    /// What is sent.
    pub operation: &'a Operation,
    /// The attempt, from 1.
    pub a: u32,
    /// The address to connect to, one of those that the lookup found; `None` where it found none.
    pub to: Option<SocketAddr>,
    /// The URL that a redirect led to, in place of the operation's own.
    pub hop: Option<&'a str>,
    /// Redirects have led to another origin: nothing that is meant for the partner alone goes along.
    pub crossed: bool,
    /// What it may take.
    pub limits: Limits,
}

/// One status request for the transport to carry out.
#[derive(Clone, Debug)]
pub struct Question<'a> {
    /// A safe method.
    pub method: &'a str,
    /// The absolute URL.
    pub url: &'a str,
    /// The header fields.
    pub headers: &'a [Header],
    /// What it may take.
    pub limits: Limits,
}

/// Carries requests. Partner misbehaviour is a value; nothing here fails.
///
/// Futures are never dropped before they are done: the transport takes the limits and returns what it knows.
pub trait Transport {
    /// Finds the way to an absolute URL within `limit`: what to dial, and which proxy to pass by.
    fn lookup(&mut self, url: &str, limit: Duration) -> impl Future<Output = Result<Way, Exchange>> + Send;

    /// Sends the request once and returns what the wire said.
    fn exchange(&mut self, permit: Permit, call: Call<'_>) -> impl Future<Output = Exchange> + Send;

    /// Asks a status endpoint, lookup included. Safe by contract, so it needs no permit.
    fn ask(&mut self, question: Question<'_>) -> impl Future<Output = Exchange> + Send;
}

/// How a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Woken {
    /// The moment came.
    Reached,
    /// A signal ended the wait.
    Interrupted,
}

/// Tells the time, and waits.
pub trait Clock {
    /// Reads both clocks.
    fn now(&self) -> Now;

    /// Waits until `until` or a signal. Returns at once when a signal came before.
    fn wait(&mut self, until: Moment) -> impl Future<Output = Woken> + Send;

    /// Returns whether a signal asked the run to end.
    fn interrupted(&self) -> bool;
}

/// Chance.
pub trait Entropy {
    /// Returns a number uniform in `[0, 1)`.
    fn draw(&mut self) -> f64;
}

/// Whether a fact must be on the disk before the call returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// It is written, and synced with the next durable one.
    Later,
    /// It and everything before it is synced.
    Now,
}

/// What somebody wants to work on.
#[derive(Clone, Debug)]
pub struct Wish {
    /// The key; for a send without one, a fresh key.
    pub key: IdempotencyKey,
    /// The line that a first claim writes. Its `owner` and `deadline` also serve a `reopened` line.
    pub opened: Arc<Opened>,
    /// The body, for a first claim whose `opened` names a blob or a hash.
    pub body: Arc<[u8]>,
    /// What to do with what is there already.
    pub entry: EntryRule,
}

impl Wish {
    /// Returns what the rule of every store's claim needs to know of it.
    pub fn wanted(&self) -> Wanted<'_> {
        let Opened { fp, key_until, .. } = &*self.opened;
        Wanted { fingerprint: fp, key_until: *key_until, rejected_too: self.entry.rejected_too() }
    }
}

/// What a claim does with an operation that the ledger knows already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryRule {
    /// `send --key`: continue what is unsettled.
    Keyed,
    /// `send` without a key: continue the unsettled operation with the same fingerprint, if there is one.
    Keyless,
    /// `send --accept-duplicate` without a key: always a new operation.
    Duplicate,
    /// `replay`: continue an unsettled operation that the ledger knows; never a new one.
    Known {
        /// Whether one that was rejected is tried again as well. One that is confirmed never is.
        rejected: bool,
    },
}

impl EntryRule {
    /// Returns whether an operation that was rejected is tried again.
    pub const fn rejected_too(self) -> bool {
        matches!(self, EntryRule::Known { rejected: true })
    }

    /// Returns whether a key that the ledger does not know begins an operation.
    pub const fn opens(self) -> bool {
        !matches!(self, EntryRule::Known { .. })
    }
}

/// What became of a claim.
#[derive(Debug)]
pub enum Claimed<C> {
    /// It is ours: a new operation, or one to be continued (its history has more than one fact).
    Ours(C, History),
    /// It has a final verdict, which is durable. Nothing is to be sent.
    Final(IdempotencyKey, History),
    /// The key was used with another payload. Nothing is to be sent.
    OtherPayload(IdempotencyKey, History),
    /// Another live process is working on it.
    Busy(IdempotencyKey, Owner),
    /// The ledger does not know the key, and [`EntryRule::Known`] begins nothing.
    Unknown(IdempotencyKey),
}

/// The durable memory.
pub trait Ledger {
    /// A key that this process works on.
    type Claim: Claim<Error = Self::Error> + Send;
    /// Why the memory failed.
    type Error: std::error::Error + Send;

    /// Claims a key for this process, or says why not. Not yet durable: the first durable fact makes it so.
    fn claim(
        &mut self,
        wish: &Wish,
        now: Now,
    ) -> impl Future<Output = Result<Claimed<Self::Claim>, Self::Error>> + Send;

    /// Records what a person decided about the operation of `resolved.partner` and `key`, by the rule of
    /// [`crate::engine::resolution`]: a claim like any other, durable when this returns.
    ///
    /// # Panics
    /// On a verdict other than `Confirmed`, `Rejected` and `NotDone`.
    fn resolve(
        &mut self,
        key: &IdempotencyKey,
        resolved: &Resolved,
        now: Now,
    ) -> impl Future<Output = Result<Resolving, Self::Error>> + Send;
}

/// What became of a person's word. Each history is what was there before.
#[derive(Debug)]
pub enum Resolving {
    /// It is recorded, and durable.
    Recorded(History),
    /// The partner has said the same, and the operation is decided. Nothing was written.
    Already(History),
    /// The partner has said otherwise: `Confirmed` or `Rejected`. Nothing was written.
    Against(Verdict, History),
    /// A live process is working on the operation.
    Busy(Owner),
    /// The ledger does not know the key of this partner.
    Unknown,
}

/// A key that this process works on, until it is dropped.
pub trait Claim {
    /// Why the memory failed.
    type Error: std::error::Error + Send;

    /// Returns the key: for a send without one perhaps that of an earlier operation.
    fn key(&self) -> &IdempotencyKey;

    /// Returns the number of the claim.
    fn n(&self) -> u64;

    /// Returns the exact bytes of the operation's body; `None` where only their hash is kept.
    fn body(&self) -> impl Future<Output = Result<Option<Arc<[u8]>>, Self::Error>> + Send;

    /// Returns the exact bytes of a body that a fact of this ledger holds; `None` where only their hash is kept.
    fn read(&self, body: &StoredBody) -> impl Future<Output = Result<Option<Arc<[u8]>>, Self::Error>> + Send;

    /// Appends a fact.
    ///
    /// # Errors
    /// The fact is not, or not certainly, recorded. With [`Durability::Now`] nothing may be sent or reported then.
    fn append(
        &mut self,
        now: Now,
        fact: &Fact,
        durability: Durability,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send;
}

/// What a run tells whoever watches it.
#[derive(Clone, Copy, Debug)]
pub enum Event<'a> {
    /// An attempt is about to send.
    Started {
        /// The attempt.
        a: u32,
        /// Where it goes.
        addr: Option<SocketAddr>,
        /// The proxy that it passes by, as `host:port`.
        proxy: Option<&'a str>,
        /// What it may take.
        limits: &'a Limits,
    },
    /// An attempt ended.
    Finished {
        /// What it came to.
        finished: &'a Finished,
        /// What the wire said.
        exchange: &'a Exchange,
    },
    /// A wait begins.
    Waiting(&'a Waiting),
    /// An answer had a Retry-After that means nothing.
    RetryAfterIgnored {
        /// The attempt.
        a: u32,
    },
    /// A status request is about to be sent.
    Asking {
        /// Whom about.
        about: About,
    },
    /// A status request ended.
    Asked(&'a Asked),
    /// The run ends.
    Settled(&'a Settled),
}

/// Watches a run.
pub trait Observer {
    /// Is told of an event, in order. It must not block.
    fn saw(&mut self, now: Now, event: Event<'_>);
}

/// How a run ended.
#[derive(Clone, Debug)]
pub struct Ended {
    /// The verdict and why.
    pub settled: Arc<Settled>,
    /// The partner's last answer of this run, also where it did not decide the verdict.
    pub answer: Option<Answer>,
}
