//! Questions to name servers, one UDP packet each: getaddrinfo hides behind one sentence what they say.

use super::chance::Chance;
use crate::engine::diagnose::names::{Question, Rcode, Reply};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;
use tokio::net::UdpSocket;
use tokio::time::{Instant, timeout_at};

/// No more name servers are asked.
///
/// Source: resolv.conf(5): MAXNS.
const SERVERS_MAX: usize = 3;

/// No longer answer is read.
const ANSWER_MAX_BYTES: usize = 4096;

/// The port of name servers.
const PORT: u16 = 53;

/// Returns the name servers that the text of a resolv.conf names, the first three.
pub fn of_resolv_conf(text: &str) -> Vec<SocketAddr> {
    let servers = text.lines().filter_map(|line| {
        let mut words = line.split_whitespace();
        let address = (words.next() == Some("nameserver")).then(|| words.next())??;
        // `fe80::1%eth0`: an interface is left to the system's own resolver.
        address.parse::<IpAddr>().ok()
    });
    servers.take(SERVERS_MAX).map(|ip| SocketAddr::new(ip, PORT)).collect()
}

/// Returns whether the text of a file of hosts has an entry for a name.
pub fn is_in_hosts(text: &str, host: &str) -> bool {
    let bare = |line: &'_ str| line.split('#').next().unwrap_or_default().to_owned();
    let host = host.trim_end_matches('.');
    text.lines().any(|line| bare(line).split_whitespace().skip(1).any(|name| name.eq_ignore_ascii_case(host)))
}

/// Asks each server for the IPv4 and the IPv6 addresses of a host, all at the same time and each within `limit`.
///
/// Returns one entry for each question to each server; empty where the host cannot be asked for.
pub async fn ask(servers: &[SocketAddr], host: &str, limit: Duration) -> Vec<Reply> {
    let Some(name) = encoded(host) else { return Vec::new() };
    let until = Instant::now() + limit;
    let mut asking = tokio::task::JoinSet::new();
    let questions = [Question::A, Question::Aaaa];
    for (at, server) in servers.iter().enumerate() {
        for question in questions {
            let (server, name) = (*server, name.clone());
            asking.spawn(async move { (at, reply(server, question, &name, until).await) });
        }
    }
    let mut replies = Vec::new();
    while let Some(joined) = asking.join_next().await {
        replies.extend(joined.ok());
    }
    replies.sort_by_key(|(at, reply)| (*at, reply.question == Question::Aaaa));
    replies.into_iter().map(|(_, reply)| reply).collect()
}

async fn reply(server: SocketAddr, question: Question, name: &[u8], until: Instant) -> Reply {
    let started = Instant::now();
    let answer = timeout_at(until, exchange(server, question, name)).await.ok().flatten();
    Reply { server: server.ip(), question, answer, took: Some(started.elapsed()) }
}

/// Asks once. What does not answer this question is not listened to.
async fn exchange(server: SocketAddr, question: Question, name: &[u8]) -> Option<Rcode> {
    let own = if server.is_ipv4() { IpAddr::from(Ipv4Addr::UNSPECIFIED) } else { Ipv6Addr::UNSPECIFIED.into() };
    let socket = UdpSocket::bind((own, 0)).await.ok()?;
    socket.connect(server).await.ok()?;
    let query = query(Chance::from_os().id(), question, name);
    socket.send(&query).await.ok()?;
    let mut answer = [0; ANSWER_MAX_BYTES];
    loop {
        let length = socket.recv(&mut answer).await.ok()?;
        if let Some(rcode) = read(&answer[..length], &query, question) {
            return Some(rcode);
        }
    }
}

/// Returns a name as it is written in a question; `None` where it has no labels of 1 to 63 bytes, 253 in all.
fn encoded(host: &str) -> Option<Vec<u8>> {
    let host = host.trim_end_matches('.');
    if host.is_empty() || host.len() > 253 {
        return None;
    }
    let mut name = Vec::with_capacity(host.len() + 2);
    for label in host.split('.') {
        let length = u8::try_from(label.len()).ok().filter(|length| (1..=63).contains(length))?;
        name.push(length);
        name.extend(label.bytes());
    }
    name.push(0);
    Some(name)
}

/// Bytes of the head of a message.
const HEAD: usize = 12;

fn number(question: Question) -> u16 {
    match question {
        Question::A => 1,
        Question::Aaaa => 28,
    }
}

/// Source: RFC 1035 section 4.1: one question, recursion desired.
fn query(id: u16, question: Question, name: &[u8]) -> Vec<u8> {
    const INTERNET: u16 = 1;
    let mut query = id.to_be_bytes().to_vec();
    query.extend([1, 0, 0, 1, 0, 0, 0, 0, 0, 0]);
    query.extend(name);
    query.extend(number(question).to_be_bytes());
    query.extend(INTERNET.to_be_bytes());
    query
}

/// Reads the answer to a query; `None` where it is none, or none to this query.
fn read(answer: &[u8], query: &[u8], question: Question) -> Option<Rcode> {
    let (id, flags) = (answer.get(..2)?, answer.get(2..4)?);
    if id != query.get(..2)? || flags[0] & 0x80 == 0 || !same_question(answer, query) {
        return None;
    }
    Some(match flags[1] & 0x0f {
        0 => Rcode::Found(addresses(answer, query.len(), question)),
        2 => Rcode::ServFail,
        3 => Rcode::NxDomain,
        5 => Rcode::Refused,
        other => Rcode::Other(other),
    })
}

/// A server may leave the question out of an error.
fn same_question(answer: &[u8], query: &[u8]) -> bool {
    match (u16_at(answer, 4), answer.get(HEAD..query.len())) {
        (Some(0), _) => true,
        (_, Some(said)) => said.eq_ignore_ascii_case(&query[HEAD..]),
        _ => false,
    }
}

/// Counts the addresses of an answer, whose records begin at `at`.
fn addresses(answer: &[u8], mut at: usize, question: Question) -> u32 {
    let mut found = 0;
    for _ in 0..u16_at(answer, 6).unwrap_or_default() {
        let Some(fixed) = after_name(answer, at) else { break };
        let (Some(kind), Some(length)) = (u16_at(answer, fixed), u16_at(answer, fixed + 8)) else { break };
        at = fixed + 10 + usize::from(length);
        found += u32::from(kind == number(question) && at <= answer.len());
    }
    found
}

/// Returns where a name ends that begins at `at`.
fn after_name(answer: &[u8], mut at: usize) -> Option<usize> {
    loop {
        match *answer.get(at)? {
            0 => return Some(at + 1),
            // The rest of the name stands elsewhere.
            0xc0.. => return Some(at + 2),
            length => at += usize::from(length) + 1,
        }
    }
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn answer(rcode: u8, records: &[(u16, &[u8])]) -> (Vec<u8>, Vec<u8>) {
        let query = query(7, Question::A, &encoded("a.example").expect("a name"));
        let mut answer = query.clone();
        (answer[2], answer[3]) = (0x81, 0x80 | rcode);
        answer[7] = u8::try_from(records.len()).expect("few");
        for (kind, data) in records {
            answer.extend([0xc0, 12]);
            answer.extend(kind.to_be_bytes());
            answer.extend([0, 1, 0, 0, 0, 60]);
            answer.extend(u16::try_from(data.len()).expect("short").to_be_bytes());
            answer.extend(*data);
        }
        (answer, query)
    }

    #[test]
    fn the_code_and_the_addresses_are_read() {
        let alias: (u16, &[u8]) = (5, &[1, b'b', 0]);
        for (rcode, records, expected) in [
            (0, &[(1, &[127, 0, 0, 1][..])][..], Rcode::Found(1)),
            (0, &[alias, (1, &[127, 0, 0, 1]), (1, &[127, 0, 0, 2])], Rcode::Found(2)),
            (0, &[alias], Rcode::Found(0)),
            (2, &[], Rcode::ServFail),
            (3, &[], Rcode::NxDomain),
            (5, &[], Rcode::Refused),
            (4, &[], Rcode::Other(4)),
        ] {
            let (answer, query) = answer(rcode, records);
            assert_eq!(read(&answer, &query, Question::A), Some(expected));
        }
    }

    #[test]
    fn what_answers_another_question_is_not_listened_to() {
        let (good, query) = answer(3, &[]);
        let (mut other_id, mut no_answer, mut other_name) = (good.clone(), good.clone(), good.clone());
        other_id[0] ^= 1;
        no_answer[2] = 1;
        other_name[HEAD + 1] = b'z';
        for bad in [other_id, no_answer, other_name] {
            assert_eq!(read(&bad, &query, Question::A), None);
        }
    }

    #[test]
    fn names_that_cannot_be_asked_for_are_left_alone() {
        let long = "a".repeat(64);
        for bad in ["", ".", "a..b", &long] {
            assert_eq!(encoded(bad), None, "{bad}");
        }
        assert_eq!(encoded("a.bc.").as_deref(), Some(&[1, b'a', 2, b'b', b'c', 0][..]));
    }

    #[test]
    fn servers_and_hosts_are_read_from_their_files() {
        let text = "# x\nsearch a\nnameserver 10.0.0.2\nnameserver fe80::1%eth0\n nameserver ::1\nnameserver x\n";
        let servers = of_resolv_conf(text);
        assert_eq!(servers, ["10.0.0.2:53".parse().expect("one"), "[::1]:53".parse().expect("one")]);
        let hosts = "127.0.0.1 localhost\n10.0.0.9 a.example b.example # c.example\n";
        assert!(is_in_hosts(hosts, "B.example."));
        assert!(!is_in_hosts(hosts, "c.example"));
        assert!(!is_in_hosts(hosts, "10.0.0.9"));
    }

    proptest! {
        #[test]
        fn whatever_comes_is_read_without_harm(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let query = query(7, Question::A, &encoded("a.example").expect("a name"));
            let mut answer = query.clone();
            answer[2] = 0x80;
            answer.extend(&bytes);
            answer[6] = 0xff;
            let _ = read(&answer, &query, Question::A);
            let _ = read(&bytes, &query, Question::A);
        }
    }
}
