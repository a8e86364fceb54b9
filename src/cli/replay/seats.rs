//! As many operations at a time as `--jobs` says, each with a line to its partner.
//!
//! Whoever has nothing more to send gives its seat up before its outcome is recorded: the next operation is claimed
//! meanwhile, and one sync makes both durable.

use abide::drive::{Call, Claim, Durability, Permit, Question, Transport};
use abide::engine::exchange::{Exchange, Way};
use abide::engine::facts::{Fact, StoredBody};
use abide::engine::moment::Now;
use abide::engine::operation::IdempotencyKey;
use abide::net::Wire;
use abide::store::StoreError;
use abide::store::jsonl::JsonlClaim;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Semaphore;

/// The seats that are free. Clones share them.
#[derive(Clone, Debug)]
pub struct Seats(Arc<Free>);

#[derive(Debug)]
struct Free {
    wires: Mutex<Vec<Wire>>,
    count: Semaphore,
}

impl Seats {
    /// Returns a seat for each wire.
    pub fn new(wires: Vec<Wire>) -> Seats {
        let count = Semaphore::new(wires.len());
        Seats(Arc::new(Free { wires: Mutex::new(wires), count }))
    }

    /// Waits for a seat.
    pub async fn take(&self) -> Seat {
        self.0.count.acquire().await.expect("seats are never closed").forget();
        let wire = lock(&self.0.wires).pop();
        Seat { wire: Arc::new(Mutex::new(wire)), free: self.clone() }
    }
}

/// The right to be at work, and the line to work with. Clones share it; it is free again once one of them gives it up.
#[derive(Clone, Debug)]
pub struct Seat {
    /// Empty while a request is on its way, and once it is given up.
    wire: Arc<Mutex<Option<Wire>>>,
    free: Seats,
}

impl Seat {
    /// Lets somebody else have it. Nothing may be sent afterwards.
    pub fn give_up(&self) {
        if let Some(wire) = lock(&self.wire).take() {
            lock(&self.free.0.wires).push(wire);
            self.free.0.count.add_permits(1);
        }
    }

    /// Changes the line.
    pub fn prepare(&self, change: impl FnOnce(&mut Wire)) {
        if let Some(wire) = &mut *lock(&self.wire) {
            change(wire);
        }
    }

    fn wire(&self) -> Wire {
        lock(&self.wire).take().expect("whoever has given up its seat sends nothing")
    }

    fn put_back(&self, wire: Wire) {
        *lock(&self.wire) = Some(wire);
    }
}

impl Transport for Seat {
    async fn lookup(&mut self, url: &str, limit: Duration) -> Result<Way, Exchange> {
        let mut wire = self.wire();
        let found = wire.lookup(url, limit).await;
        self.put_back(wire);
        found
    }

    async fn exchange(&mut self, permit: Permit, call: Call<'_>) -> Exchange {
        let mut wire = self.wire();
        let exchange = wire.exchange(permit, call).await;
        self.put_back(wire);
        exchange
    }

    async fn ask(&mut self, question: Question<'_>) -> Exchange {
        let mut wire = self.wire();
        let exchange = wire.ask(question).await;
        self.put_back(wire);
        exchange
    }
}

/// A claim whose owner has a seat until its outcome is to be recorded.
#[derive(Debug)]
pub struct Seated {
    /// The claim.
    pub claim: JsonlClaim,
    /// The seat.
    pub seat: Seat,
    /// Whether a fact must be known to the others before they go on.
    pub concerns_all: fn(&Fact) -> bool,
}

impl Claim for Seated {
    type Error = StoreError;

    fn key(&self) -> &IdempotencyKey {
        self.claim.key()
    }

    fn n(&self) -> u64 {
        self.claim.n()
    }

    async fn body(&self) -> Result<Option<Arc<[u8]>>, StoreError> {
        self.claim.body().await
    }

    async fn read(&self, body: &StoredBody) -> Result<Option<Arc<[u8]>>, StoreError> {
        self.claim.read(body).await
    }

    async fn append(&mut self, now: Now, fact: &Fact, durability: Durability) -> Result<(), StoreError> {
        if matches!(fact, Fact::Settled(_)) && !(self.concerns_all)(fact) {
            self.seat.give_up();
        }
        self.claim.append(now, fact, durability).await
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
