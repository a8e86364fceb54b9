//! Scenarios that need a network of their own: routes that lead nowhere, and, where `nft` is installed, packets that
//! are dropped on purpose. A test runs itself again under `unshare -rn`, and is skipped loudly where it cannot.

use crate::run::{Probed, Told, plan};
use crate::secure::{Front, Lane};
use abide::engine::diagnose::past::{Before, Past, PastAddress};
use abide::net::Names;
use abide::probe::Plan;
use abide::rehearse::partner::{Act, Partner, Reply, Script, Turn};
use std::net::SocketAddr;
use std::process::Command;
use std::time::Duration;

/// Set in the process that has a network of its own.
const INSIDE: &str = "ABIDE_TEST_OWN_NETWORK";
const ITSELF: &str = "namespaces::a_network_of_its_own";

/// Plays the scenarios in a network of their own. Empty where there can be none, which is said loudly.
pub fn told() -> Vec<Told> {
    let script = "ip link set lo up || exit 99; exec \"$@\"";
    let run = Command::new("unshare")
        .args(["-rn", "sh", "-c", script, "sh"])
        .arg(std::env::current_exe().expect("a path"))
        .args(["--exact", ITSELF, "--nocapture"])
        .env(INSIDE, "1")
        .output();
    match run {
        Ok(output) if output.status.success() => {
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            said.lines().filter(|line| line.starts_with("SKIPPED")).for_each(|line| eprintln!("{line}"));
            let is_whole = !said.contains("SKIPPED");
            said.lines().filter(|_| is_whole).filter_map(Told::read).collect()
        }
        Ok(output) if matches!(output.status.code(), Some(1 | 99 | 126 | 127)) => {
            eprintln!("SKIPPED: no network namespace here: {}", String::from_utf8_lossy(&output.stderr));
            Vec::new()
        }
        Ok(output) => panic!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr)),
        Err(error) => {
            eprintln!("SKIPPED: no unshare here: {error}");
            Vec::new()
        }
    }
}

/// Does nothing unless [`told`] runs it, in a process of its own.
#[tokio::test]
async fn a_network_of_its_own() {
    if std::env::var_os(INSIDE).is_some() {
        let all = [routes().await, packets().await].concat();
        all.iter().for_each(|told| eprintln!("{}", told.line()));
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
async fn routes() -> Vec<Told> {
    assert!(ran("ip route add prohibit 203.0.113.2"));
    assert!(ran("ip route add unreachable 203.0.113.3"));
    assert!(ran("ip route add blackhole 203.0.113.4"));
    let mut all = Vec::new();
    for (host, name, expected) in [
        ("203.0.113.1", "no route", ("ours", "net.no_route")),
        ("203.0.113.2", "route prohibits", ("ours", "net.route_denied")),
        ("203.0.113.3", "route is unreachable", ("ours", "net.route_denied")),
        ("203.0.113.4", "route is a black hole", ("ours", "net.route_denied")),
    ] {
        all.push(Told::of(5, name, expected, &Probed::of(&plan(&format!("http://{host}/"))).await));
    }
    all
}

/// Drops or rejects packets by a rule, probes, and takes the rule away.
async fn under(rule: &str, plan: &Plan) -> Probed {
    assert!(ran(&format!("nft add rule inet f {rule}")));
    let probed = Probed::of(plan).await;
    assert!(ran("nft flush table inet f"));
    probed
}

async fn packets() -> Vec<Told> {
    if !ran("nft add table inet f") {
        eprintln!("SKIPPED: nft is not installed: filtered ports, lost packets, dead IPv6 and the TLS black hole");
        return Vec::new();
    }
    assert!(ran("nft add chain inet f in { type filter hook input priority 0 ; }"));
    assert!(ran("nft add chain inet f out { type filter hook output priority 0 ; }"));
    let fine = || Script::always(Turn::not_done(Act::Answer(Reply::json(200, "{}"))));
    let partner = Partner::start(fine()).expect("starts");
    let (port, url) = (partner.addr().port(), partner.url("/health"));
    let known = |smallest_us: u64| {
        let smallest_rtt = Some(Duration::from_micros(smallest_us));
        let before = Before::Worked { ago: Duration::from_secs(60) };
        let address = PastAddress { ip: partner.addr().ip(), before, smallest_rtt, rtt: None };
        Plan { past: Past { addresses: vec![address], ..Past::default() }, ..plan(&url) }
    };
    let lost_syn = format!("in tcp dport {port} tcp flags syn / syn,ack numgen inc mod 2 0 drop");
    let front = Front::before(partner.addr(), Lane::honest()).await;
    let secure = front.url("/health");
    let front_port = front.url("").rsplit_once(':').expect("a port").1.to_owned();
    let (ours, network) = (("ours", "net.rejected_here"), ("network", "net.rejected"));
    let to = |tail: &str| format!("tcp dport {port} {tail}");
    vec![
        Told::of(6, "a lost SYN", ("network", "net.loss"), &under(&lost_syn, &plan(&url)).await),
        Told::of(4, "filtered", ("network", "tcp.filtered"), &under(&format!("in {}", to("drop")), &plan(&url)).await),
        Told::of(
            5,
            "firewall between",
            network,
            &under(&format!("in {}", to("reject with icmpx type admin-prohibited")), &known(1)).await,
        ),
        Told::of(
            5,
            "our own firewall",
            ours,
            &under(&format!("out {}", to("reject with tcp reset")), &known(11_000)).await,
        ),
        Told::of(7, "dead IPv6", ("theirs", "tcp.dead_address"), &dead_ipv6(port).await),
        Told::of(
            9,
            "TLS black hole",
            ("network", "tls.blackhole"),
            &under(&format!("in tcp dport {front_port} meta length > 230 drop"), &plan(&secure)).await,
        ),
    ]
}

/// The name has an AAAA, whose packets are lost; the partner works over IPv4.
async fn dead_ipv6(port: u16) -> Probed {
    assert!(ran("ip -6 addr add fd77::2/128 dev lo nodad"));
    let addresses = [format!("[fd77::2]:{port}"), format!("127.0.0.1:{port}")];
    let addresses: Vec<SocketAddr> = addresses.iter().map(|addr| addr.parse().expect("an address")).collect();
    let names = Names::by(move |_, _| Ok(addresses.clone()));
    let plan = Plan { names, ..plan(&format!("http://partner.test:{port}/health")) };
    let probed = under(&format!("in ip6 daddr fd77::2 tcp dport {port} drop"), &plan).await;
    let ipv6_only = "all of them are IPv6: perhaps only the way there is broken".to_owned();
    assert!(probed.found.because.contains(&ipv6_only), "{:?}", probed.found.because);
    probed
}
