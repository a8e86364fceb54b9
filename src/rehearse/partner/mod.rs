//! A partner on loopback that plays a script of faults and remembers what reached it.
//!
//! It counts connections, heads, whole requests and, above all, executions: what its business really did. So whoever
//! talks to it can be judged by the truth and not by what it believes.

mod business;
mod connection;
mod fault;
mod script;

pub use business::{Seen, SeenRequest};
pub use fault::Fault;
pub use script::{Act, Door, Execution, Keys, Reply, Script, StatusEndpoint, Turn};

use business::Business;
use socket2::{Domain, Protocol, Socket, Type};
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::task::{JoinHandle, JoinSet};

/// Where a partner listens, and its bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The address; loopback unless somebody wants others to reach it.
    pub ip: IpAddr,
    /// The port; 0 takes a free one.
    pub port: u16,
    /// The partner ends by itself after this time.
    pub lifetime: Duration,
    /// More connections at a time wait to be accepted.
    pub connections_max: usize,
}

impl Default for Place {
    /// A free port on 127.0.0.1 for a minute.
    fn default() -> Place {
        Place { ip: IpAddr::V4(Ipv4Addr::LOCALHOST), port: 0, lifetime: Duration::from_secs(60), connections_max: 64 }
    }
}

/// A running partner. Dropping it ends it.
#[derive(Debug)]
pub struct Partner {
    addr: SocketAddr,
    business: Arc<Business>,
    task: Option<JoinHandle<()>>,
    /// Sockets that only have to exist: a closed door, a full one and who stands before it.
    _held: Vec<Socket>,
}

impl Partner {
    /// Starts a partner on a free port of 127.0.0.1. Needs a runtime with I/O and time.
    ///
    /// # Errors
    /// No socket could be opened.
    pub fn start(script: Script) -> io::Result<Partner> {
        Partner::start_at(script, Place::default())
    }

    /// Starts a partner at a place.
    ///
    /// # Errors
    /// The address or port cannot be used, or no socket could be opened.
    pub fn start_at(script: Script, place: Place) -> io::Result<Partner> {
        let door = script.door;
        let socket = bound(SocketAddr::new(place.ip, place.port))?;
        let addr = socket.local_addr()?.as_socket().expect("bound to an IP address");
        let business = Arc::new(Business::new(script));
        let (task, held) = match door {
            Door::Open => {
                socket.listen(1024)?;
                let listener = TcpListener::from_std(socket.into())?;
                (Some(tokio::spawn(accept(listener, Arc::clone(&business), place))), Vec::new())
            }
            Door::Closed => (None, vec![socket]),
            Door::Full => (None, filled(socket, addr)?),
        };
        Ok(Partner { addr, business, task, _held: held })
    }

    /// Returns the address that it listens on.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Returns `http://ADDRESS:PORT` followed by `path`, which starts with `/` or is empty.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.addr)
    }

    /// Returns what reached it so far, and what it did.
    pub fn seen(&self) -> Seen {
        self.business.seen()
    }

    /// Waits until its lifetime is over. One that accepts nothing is over at once.
    pub async fn run(mut self) {
        if let Some(task) = self.task.as_mut() {
            // An aborted or panicked task is over, too.
            let _ = task.await;
        }
    }

    /// Ends it, waits until it is gone, and returns what reached it.
    pub async fn stop(mut self) -> Seen {
        if let Some(task) = self.task.take() {
            task.abort();
            let _ = task.await;
        }
        self.business.seen()
    }
}

impl Drop for Partner {
    fn drop(&mut self) {
        if let Some(task) = &self.task {
            task.abort();
        }
    }
}

fn bound(addr: SocketAddr) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(addr), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_nonblocking(true)?;
    // A fixed port can be taken again at once after the last partner on it.
    socket.set_reuse_address(addr.port() != 0)?;
    socket.bind(&addr.into())?;
    Ok(socket)
}

/// Fills the queue of a listener that accepts nobody: from then on the kernel drops every SYN.
///
/// Source: transport.md 7, measured on Linux.
fn filled(socket: Socket, addr: SocketAddr) -> io::Result<Vec<Socket>> {
    /// `listen(0)` queues one; the others make sure.
    const WAITING: usize = 4;
    socket.listen(0)?;
    let mut held = vec![socket];
    for _ in 0..WAITING {
        let waiting = Socket::new(Domain::for_address(addr), Type::STREAM, Some(Protocol::TCP))?;
        waiting.set_nonblocking(true)?;
        // "In progress" is what is wanted: it stands before the door. A failure leaves it a little less full.
        let _ = waiting.connect(&addr.into());
        held.push(waiting);
    }
    Ok(held)
}

/// Accepts until the lifetime is over. Every connection is a task of its own and ends with this one.
async fn accept(listener: TcpListener, business: Arc<Business>, place: Place) {
    let room = Arc::new(Semaphore::new(place.connections_max));
    let mut connections = JoinSet::new();
    let over = tokio::time::sleep(place.lifetime);
    tokio::pin!(over);
    loop {
        let entered = async {
            let ticket = Arc::clone(&room).acquire_owned().await.expect("nobody closes it");
            (ticket, listener.accept().await)
        };
        tokio::select! {
            () = &mut over => return,
            Some(_) = connections.join_next() => {}
            (ticket, accepted) = entered => {
                // A failed accept is the client's early end, or a lack of descriptors that passes.
                if let Ok((stream, _)) = accepted {
                    let business = Arc::clone(&business);
                    connections.spawn(async move {
                        connection::serve(stream, business).await;
                        drop(ticket);
                    });
                } else {
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
            }
        }
    }
}
