//! Scenarios that need a network of their own: routes that lead nowhere, and, where `nft` is installed, packets that
//! are dropped on purpose. The test runs itself again under `unshare -rn`, and is skipped loudly where it cannot.

use crate::run::{Probed, plan};
use crate::secure::{Front, Lane};
use abide::rehearse::partner::{Act, Partner, Reply, Script, Turn};
use std::process::Command;

/// Set in the process that has a network of its own.
const INSIDE: &str = "ABIDE_TEST_OWN_NETWORK";
const ITSELF: &str = "namespaces::a_network_that_eats_packets_is_told_by_what_it_does";

#[tokio::test]
async fn a_network_that_eats_packets_is_told_by_what_it_does() {
    if std::env::var_os(INSIDE).is_some() {
        routes().await;
        return packets().await;
    }
    let script = "ip link set lo up || exit 99; exec \"$@\"";
    let run = Command::new("unshare")
        .args(["-rn", "sh", "-c", script, "sh"])
        .arg(std::env::current_exe().expect("a path"))
        .args(["--exact", ITSELF, "--nocapture"])
        .env(INSIDE, "1")
        .output();
    match run {
        Ok(output) if output.status.success() => eprint!("{}", String::from_utf8_lossy(&output.stderr)),
        Ok(output) if matches!(output.status.code(), Some(1 | 99 | 126 | 127)) => {
            eprintln!("SKIPPED: no network namespace here: {}", String::from_utf8_lossy(&output.stderr));
        }
        Ok(output) => panic!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr)),
        Err(error) => eprintln!("SKIPPED: no unshare here: {error}"),
    }
}

/// Runs a command, and returns whether it could be run; a failure of what is there is one of the test.
fn ran(line: &str) -> bool {
    let (program, rest) = line.split_once(' ').expect("a program and its arguments");
    match Command::new(program).args(rest.split(' ')).output() {
        Ok(output) => {
            assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
            true
        }
        Err(_) => false,
    }
}

/// Source: latency.md 6.4.
async fn routes() {
    assert!(ran("ip route add prohibit 203.0.113.2"));
    assert!(ran("ip route add unreachable 203.0.113.3"));
    assert!(ran("ip route add blackhole 203.0.113.4"));
    for (host, expected) in [
        ("203.0.113.1", ("ours", "net.no_route")),
        ("203.0.113.2", ("ours", "net.route_denied")),
        ("203.0.113.3", ("ours", "net.route_denied")),
        ("203.0.113.4", ("ours", "net.route_denied")),
    ] {
        let probed = Probed::of(&plan(&format!("http://{host}/"))).await;
        assert_eq!(probed.verdict(), expected, "{host}: {:?}", probed.found.because);
    }
}

async fn packets() {
    if !ran("nft add table inet f") {
        return eprintln!("SKIPPED: nft is not installed: filtered ports, a lost SYN and the TLS black hole");
    }
    assert!(ran("nft add chain inet f in { type filter hook input priority 0 ; }"));
    let fine = || Script::always(Turn::not_done(Act::Answer(Reply::json(200, "{}"))));
    let partner = Partner::start(fine()).expect("starts");
    let port = partner.addr().port();
    let lost_syn = format!("nft add rule inet f in tcp dport {port} tcp flags syn / syn,ack numgen inc mod 2 0 drop");
    assert!(ran(&lost_syn));
    let probed = Probed::of(&plan(&partner.url("/health"))).await;
    assert_eq!(probed.verdict(), ("network", "net.loss"), "{:?}", probed.found.because);
    assert!(ran("nft flush chain inet f in"));
    assert!(ran(&format!("nft add rule inet f in tcp dport {port} drop")));
    let probed = Probed::of(&plan(&partner.url("/health"))).await;
    assert_eq!(probed.verdict(), ("network", "tcp.filtered"), "{:?}", probed.found.because);
    assert!(ran("nft flush chain inet f in"));
    let front = Front::before(partner.addr(), Lane::honest()).await;
    let front_port = front.url("").rsplit_once(':').expect("a port").1.to_owned();
    assert!(ran(&format!("nft add rule inet f in tcp dport {front_port} meta length > 230 drop")));
    let probed = Probed::of(&plan(&front.url("/health"))).await;
    assert_eq!(probed.verdict(), ("network", "tls.blackhole"), "{:?}", probed.found.because);
}
