//! Names: a resolver and a name server that say what the scenario wants.

use crate::run::{Probed, Told, plan};
use abide::engine::diagnose::names::Rcode;
use abide::net::Names;
use abide::probe::{NameServers, Plan};
use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use tokio::net::UdpSocket;
use tokio::task::JoinHandle;

const UNKNOWN: &str = "failed to lookup address information: Name or service not known";
const AGAIN: &str = "failed to lookup address information: Temporary failure in name resolution";

/// A name server that answers every question with one code and no address; `None` is silent.
pub async fn name_server(rcode: Option<u8>) -> (SocketAddr, JoinHandle<()>) {
    let socket = UdpSocket::bind("127.0.0.1:0").await.expect("a free port");
    let addr = socket.local_addr().expect("an address");
    let task = tokio::spawn(async move {
        let mut question = [0; 512];
        while let Ok((length, from)) = socket.recv_from(&mut question).await {
            let Some(rcode) = rcode else { continue };
            let mut answer = question[..length].to_vec();
            (answer[2], answer[3]) = (0x81, 0x80 | rcode);
            let _ = socket.send_to(&answer, from).await;
        }
    });
    (addr, task)
}

async fn looked_up(says: &'static str, rcode: Option<u8>) -> Probed {
    let (server, task) = name_server(rcode).await;
    let plan = Plan {
        names: Names::by(move |_, _| Err(io::Error::other(says))),
        name_servers: NameServers { servers: vec![server], hosts: Some("".into()) },
        ..plan("http://partner.test:8080/health")
    };
    let probed = Probed::of(&plan).await;
    task.abort();
    probed
}

/// Plays the scenarios of names.
pub async fn told() -> Vec<Told> {
    let mut all = Vec::new();
    for (number, name, says, rcode, expected) in [
        (1, "no such name", UNKNOWN, Some(3), ("configuration", "dns.nxdomain")),
        (1, "no address", UNKNOWN, Some(0), ("configuration", "dns.no_address")),
        (2, "servers fail", AGAIN, Some(2), ("theirs", "dns.servfail")),
        (2, "servers refuse", AGAIN, Some(5), ("ours", "dns.refused")),
        (2, "servers are silent", AGAIN, None, ("ours", "dns.no_answer")),
    ] {
        let probed = looked_up(says, rcode).await;
        assert_eq!(probed.seen.names.replies.len(), 2, "one for each family");
        all.push(Told::of(number, name, expected, &probed));
    }
    all
}

#[tokio::test]
async fn a_dead_resolver_does_not_hold_a_probe_up_beyond_its_deadline() {
    let (server, task) = name_server(None).await;
    let plan = Plan {
        names: Names::by(|_, _| {
            std::thread::sleep(Duration::from_secs(3));
            Err(io::Error::other(AGAIN))
        }),
        name_servers: NameServers { servers: vec![server], hosts: None },
        deadline: Duration::from_millis(300),
        ..plan("http://partner.test:8080/health")
    };
    let started = Instant::now();
    let probed = Probed::of(&plan).await;
    // Ten times the target.
    assert!(started.elapsed() < plan.deadline + Duration::from_millis(500), "{:?}", started.elapsed());
    assert_eq!(probed.verdict(), ("ours", "dns.no_answer"));
    assert!(probed.seen.names.replies.iter().all(|reply| reply.answer.is_none()));
    task.abort();
}

#[tokio::test]
async fn a_name_in_the_file_of_hosts_is_not_asked_for() {
    let (server, task) = name_server(Some(3)).await;
    let plan = Plan {
        names: Names::by(|_, _| Ok(vec!["127.0.0.1:1".parse().expect("an address")])),
        name_servers: NameServers { servers: vec![server], hosts: Some("127.0.0.1 partner.test".into()) },
        ..plan("http://partner.test:1/health")
    };
    let probed = Probed::of(&plan).await;
    assert_eq!(probed.seen.names.in_hosts_file, Some(true));
    assert!(probed.seen.names.replies.is_empty());
    assert_eq!(probed.verdict(), ("theirs", "tcp.refused"));
    task.abort();
}

#[tokio::test]
async fn addresses_and_their_absence_are_told_apart() {
    let (server, task) = name_server(Some(0)).await;
    let replies = abide::net::name_servers::ask(&[server], "a.test", Duration::from_secs(2)).await;
    assert_eq!(replies.iter().map(|reply| reply.answer).collect::<Vec<_>>(), [Some(Rcode::Found(0)); 2]);
    assert!(abide::net::name_servers::ask(&[server], "", Duration::from_secs(2)).await.is_empty());
    task.abort();
}
