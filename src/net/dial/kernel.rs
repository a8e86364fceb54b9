//! What the kernel knows of a connection of ours: its own diagnosis of sockets over netlink, as `ss -ti` reads it.
//!
//! It is the same structure that `getsockopt(TCP_INFO)` gives, with the length of the send queue beside it
//! (`SIOCOUTQ`), and it needs neither rights nor unsafe code. Where the system has no such thing, nothing is known.
//!
//! Source: linux/inet_diag.h, linux/sock_diag.h, linux/tcp.h.

use crate::engine::diagnose::tcp::Tcp;
use std::net::SocketAddr;
use tokio::net::TcpStream;

/// A connection of ours.
#[derive(Clone, Copy, Debug)]
pub(super) struct Socket {
    /// Its two ends: ours, then the other; `None` where the system does not tell them.
    ends: Option<(SocketAddr, SocketAddr)>,
    /// How often the SYN had been sent again: these do not count as data.
    pub syns_resent: u64,
}

impl Socket {
    /// Returns a connection that stands and has carried nothing yet.
    pub fn of(stream: &TcpStream) -> Socket {
        let ends = stream.local_addr().ok().zip(stream.peer_addr().ok());
        let fresh = Socket { ends, syns_resent: 0 };
        Socket { syns_resent: fresh.look().and_then(|tcp| tcp.resent).unwrap_or_default(), ..fresh }
    }

    /// Returns what the kernel knows now; `None` where it does not tell, or knows the connection no more.
    pub fn look(&self) -> Option<Tcp> {
        let (local, peer) = self.ends?;
        let answer = ask_kernel(&question(local, peer)?)?;
        let tcp = read(&answer)?;
        Some(Tcp { resent: tcp.resent.map(|resent| resent.saturating_sub(self.syns_resent)), ..tcp })
    }
}

/// `SOCK_DIAG_BY_FAMILY`: the type of question and answer.
const BY_FAMILY: u16 = 20;
/// Bytes of `struct nlmsghdr`.
const HEAD: usize = 16;
/// Bytes of `struct inet_diag_msg`.
const DIAG: usize = 72;
/// `INET_DIAG_INFO`: the attribute that holds `struct tcp_info`.
const INFO: u16 = 2;

/// Returns one question about one socket; `None` where its ends are of different families.
fn question(local: SocketAddr, peer: SocketAddr) -> Option<Vec<u8>> {
    const TCP: u8 = 6;
    const REQUEST: u16 = 1;
    let family = match (local, peer) {
        (SocketAddr::V4(_), SocketAddr::V4(_)) => 2,
        (SocketAddr::V6(_), SocketAddr::V6(_)) => 10,
        _ => return None,
    };
    let mut body = vec![family, TCP, 1 << (INFO - 1), 0];
    body.extend(u32::MAX.to_ne_bytes());
    body.extend(local.port().to_be_bytes());
    body.extend(peer.port().to_be_bytes());
    body.extend(address(local));
    body.extend(address(peer));
    // Whatever the interface; the cookie of a socket is not known.
    body.extend([0; 4]);
    body.extend([0xff; 8]);
    let mut message = u32::try_from(HEAD + body.len()).ok()?.to_ne_bytes().to_vec();
    message.extend(BY_FAMILY.to_ne_bytes());
    message.extend(REQUEST.to_ne_bytes());
    message.extend([0; 8]);
    message.extend(body);
    Some(message)
}

fn address(addr: SocketAddr) -> [u8; 16] {
    let mut bytes = [0; 16];
    match addr {
        SocketAddr::V4(v4) => bytes[..4].copy_from_slice(&v4.ip().octets()),
        SocketAddr::V6(v6) => bytes = v6.ip().octets(),
    }
    bytes
}

#[cfg(target_os = "linux")]
fn ask_kernel(question: &[u8]) -> Option<Vec<u8>> {
    use socket2::{Domain, Protocol, Type};
    use std::io::{Read, Write};
    const NETLINK: i32 = 16;
    const SOCK_DIAG: i32 = 4;
    /// The kernel answers within the question; this is for one that does not.
    const PATIENCE: std::time::Duration = std::time::Duration::from_millis(20);
    let socket = socket2::Socket::new(Domain::from(NETLINK), Type::DGRAM, Some(Protocol::from(SOCK_DIAG))).ok()?;
    socket.set_read_timeout(Some(PATIENCE)).ok()?;
    (&socket).write_all(question).ok()?;
    let mut answer = vec![0; 4096];
    let length = (&socket).read(&mut answer).ok()?;
    answer.truncate(length);
    Some(answer)
}

#[cfg(not(target_os = "linux"))]
fn ask_kernel(_: &[u8]) -> Option<Vec<u8>> {
    None
}

/// Reads the kernel's answer; `None` where it is an error, or shorter than it says.
fn read(answer: &[u8]) -> Option<Tcp> {
    if u16_at(answer, 4)? != BY_FAMILY {
        return None;
    }
    let queued_bytes = u64::from(u32_at(answer, HEAD + 60)?);
    let info = attribute(answer.get(HEAD + DIAG..)?, INFO)?;
    let total = |at| Some(u64::from(u32_at(info, at)?));
    // What the other host says it got twice (`tcpi_dsack_dups`) was not lost: it was slow to acknowledge.
    let needless = total(216).unwrap_or_default();
    let sent_bytes = u64_at(info, 200).zip(u64_at(info, 208)).map(|(sent, resent)| sent.saturating_sub(resent));
    Some(Tcp {
        rtt: total(68).map(std::time::Duration::from_micros).filter(|rtt| !rtt.is_zero()),
        resent: total(100).map(|resent| resent.saturating_sub(needless)),
        unacked: total(24),
        queued_bytes: Some(queued_bytes),
        acked_bytes: u64_at(info, 120),
        sent_bytes,
    })
}

/// Returns the content of the attribute `wanted`.
fn attribute(mut rest: &[u8], wanted: u16) -> Option<&[u8]> {
    loop {
        let length = usize::from(u16_at(rest, 0)?);
        let content = rest.get(4..length)?;
        if u16_at(rest, 2)? == wanted {
            return Some(content);
        }
        rest = rest.get(length.next_multiple_of(4)..)?;
    }
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::diagnose::tcp::Delivery;
    use tokio::io::AsyncWriteExt;
    use tokio::net::TcpListener;

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn the_kernel_tells_that_the_other_host_has_what_nobody_has_read() {
        for host in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(listener) = TcpListener::bind(host).await else { continue };
            let mut stream = TcpStream::connect(listener.local_addr().expect("an address")).await.expect("connects");
            let socket = Socket::of(&stream);
            let Some(before) = socket.look() else { return eprintln!("SKIPPED: the kernel does not tell") };
            assert_eq!((before.sent_bytes, before.resent), (Some(0), Some(0)));
            stream.write_all(&[b'x'; 253]).await.expect("writes");
            let after = socket.look().expect("it stands");
            assert_eq!(after.delivery(), Some(Delivery::Acknowledged), "{after:?}");
            assert_eq!(after.words(), "253 of 253 bytes acknowledged, 0 segments resent");
            drop(stream);
        }
    }

    #[test]
    fn a_segment_that_arrived_twice_was_not_lost() {
        let answer = |resent: u32, needless: u32, info_bytes: usize| {
            let mut info = vec![0; info_bytes];
            info[100..104].copy_from_slice(&resent.to_ne_bytes());
            info.get_mut(216..220).into_iter().for_each(|place| place.copy_from_slice(&needless.to_ne_bytes()));
            let mut answer = vec![0; HEAD + DIAG];
            answer[4..6].copy_from_slice(&BY_FAMILY.to_ne_bytes());
            answer.extend((4 + info_bytes as u16).to_ne_bytes());
            answer.extend(INFO.to_ne_bytes());
            answer.extend(info);
            answer
        };
        let resent = |resent, needless, bytes| read(&answer(resent, needless, bytes)).and_then(|tcp| tcp.resent);
        assert_eq!((resent(3, 1, 232), resent(1, 1, 232), resent(0, 2, 232)), (Some(2), Some(0), Some(0)));
        assert_eq!(resent(3, 1, 192), Some(3), "an older kernel does not tell");
    }

    #[test]
    fn an_answer_that_ends_early_or_is_an_error_tells_nothing() {
        let socket = "127.0.0.1:1".parse().expect("an address");
        assert_eq!(question(socket, socket).map(|question| question.len()), Some(72));
        assert_eq!(question(socket, "[::1]:1".parse().expect("an address")), None);
        for length in [0, 3, 15, 16, 80, 90, 200] {
            let mut answer = vec![0; length];
            assert_eq!(read(&answer), None, "{length}");
            if length > 6 {
                answer[4..6].copy_from_slice(&BY_FAMILY.to_ne_bytes());
            }
            assert_eq!(read(&answer), None, "{length}, of the right type");
        }
    }
}
