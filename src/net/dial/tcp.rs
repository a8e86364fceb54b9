//! The TCP connection to one address, and the system's word where there is none.

use crate::engine::diagnose::dial::{Connect, ConnectFailure};
use nix::errno::Errno;
use socket2::SockRef;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout_at};

/// Connects until `until`. What is written later is given up by the kernel after `read` (decisions 23).
pub(super) async fn connect(addr: SocketAddr, read: Duration, until: Instant) -> (Connect, Option<TcpStream>) {
    let started = Instant::now();
    let outcome = match timeout_at(until, TcpStream::connect(addr)).await {
        Ok(Ok(stream)) => {
            // Both are as `send` has them; a system that knows neither carries the request all the same.
            let _ = stream.set_nodelay(true);
            let _ = set_user_timeout(&stream, read);
            Ok(stream)
        }
        Ok(Err(error)) => Err(failure(&error)),
        Err(_) => Err(ConnectFailure::Silent),
    };
    let took = Some(started.elapsed());
    match outcome {
        Ok(stream) => (Connect { outcome: Ok(()), took, syns_resent: None }, Some(stream)),
        Err(failure) => (Connect { outcome: Err(failure), took, syns_resent: None }, None),
    }
}

#[cfg(target_os = "linux")]
fn set_user_timeout(stream: &TcpStream, read: Duration) -> io::Result<()> {
    SockRef::from(stream).set_tcp_user_timeout(Some(read.max(Duration::from_millis(1))))
}

#[cfg(not(target_os = "linux"))]
fn set_user_timeout(stream: &TcpStream, _: Duration) -> io::Result<()> {
    SockRef::from(stream).set_keepalive(true)
}

/// Source: latency.md 6.4.
fn failure(error: &io::Error) -> ConnectFailure {
    match error.raw_os_error().map(Errno::from_raw) {
        Some(Errno::ETIMEDOUT) => ConnectFailure::Silent,
        Some(Errno::ECONNREFUSED | Errno::ECONNRESET | Errno::ECONNABORTED) => ConnectFailure::Refused,
        Some(Errno::ENETUNREACH | Errno::ENETDOWN | Errno::ENONET) => ConnectFailure::NetworkUnreachable,
        Some(Errno::EHOSTUNREACH | Errno::EHOSTDOWN) => ConnectFailure::HostUnreachable,
        Some(Errno::EACCES | Errno::EPERM) => ConnectFailure::Denied,
        Some(Errno::EINVAL) => ConnectFailure::Invalid,
        Some(Errno::EMFILE | Errno::ENFILE | Errno::ENOBUFS | Errno::ENOMEM) => ConnectFailure::LocalResources,
        Some(Errno::EADDRNOTAVAIL | Errno::EADDRINUSE) => ConnectFailure::LocalResources,
        _ => ConnectFailure::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_systems_word_tells_the_failures_apart() {
        for (errno, expected) in [
            (Errno::ECONNREFUSED, ConnectFailure::Refused),
            (Errno::ENETUNREACH, ConnectFailure::NetworkUnreachable),
            (Errno::EHOSTUNREACH, ConnectFailure::HostUnreachable),
            (Errno::EACCES, ConnectFailure::Denied),
            (Errno::EINVAL, ConnectFailure::Invalid),
            (Errno::ETIMEDOUT, ConnectFailure::Silent),
            (Errno::EMFILE, ConnectFailure::LocalResources),
            (Errno::EPIPE, ConnectFailure::Other),
        ] {
            assert_eq!(failure(&io::Error::from_raw_os_error(errno as i32)), expected, "{errno}");
        }
    }
}
