//! What we gave up must not arrive later (decisions 23): the kernel may hold a whole request that the partner had no
//! room for, or that the network ate, and would deliver it long after our limit.

use crate::run::{LIMITS, Sending};
use abide::engine::exchange::{Fault, Limit, Sent, Stage};
use abide::engine::verdict::Verdict;
use abide::rehearse::partner::{Partner, Script, Turn};
use socket2::{Domain, Socket, Type};
use std::io::Read;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// Fits into our kernel's buffer, and not into the partner's.
const BODY_BYTES: usize = 200_000;
/// What the partner's kernel takes without being read, at most twice this.
const ROOM_BYTES: usize = 4_096;
/// When the partner begins to read: long after we gave up.
const LATE: Duration = Duration::from_millis(1500);
/// Set in the process that has a network of its own.
const INSIDE: &str = "ABIDE_TEST_OWN_NETWORK";
/// How long the network is away: our limit is over, and the kernel sends again at 200 ms, 600 ms, 1.4 s, 3 s.
const AWAY: Duration = Duration::from_millis(700);
/// When whatever the kernel still wants to deliver has arrived.
const SETTLED: Duration = Duration::from_millis(3500);

#[tokio::test]
async fn a_request_that_waited_for_room_is_not_delivered_after_we_gave_it_up() {
    let (addr, accepted) = partner_without_room();
    let ran = Sending::post(&format!("http://{addr}/pay")).body(BODY_BYTES).run().await;
    assert_eq!(ran.unanswered(), (Sent::Whole, Stage::FirstByte, Fault::TimedOut(Limit::Read)));
    assert_eq!((ran.verdict, ran.attempts.len()), (Verdict::InDoubt, 1));
    assert!(LATE > 4 * LIMITS.read);
    tokio::time::sleep(LATE).await;
    let stream = accepted.recv().expect("it connected");
    let arrived = thread::spawn(move || read_all(stream)).join().expect("reads");
    assert!(arrived > 0, "the head was there in time");
    assert!(arrived < BODY_BYTES / 2, "{arrived} bytes of an abandoned request arrived");
}

/// Runs itself again where it has a network that it may cut.
#[tokio::test]
async fn a_request_that_the_network_ate_is_not_delivered_when_the_network_is_back() {
    if std::env::var_os(INSIDE).is_some() {
        return cut_and_give_up().await;
    }
    let script = "ip link set lo up || exit 99; exec \"$@\"";
    let run = Command::new("unshare")
        .args(["-rn", "sh", "-c", script, "sh"])
        .arg(std::env::current_exe().expect("a path"))
        .args(["--exact", "late::a_request_that_the_network_ate_is_not_delivered_when_the_network_is_back"])
        .env(INSIDE, "1")
        .output();
    match run {
        Ok(output) if output.status.success() => {}
        Ok(output) if matches!(output.status.code(), Some(1 | 99 | 126 | 127)) => {
            eprintln!("SKIPPED: no network namespace here: {}", String::from_utf8_lossy(&output.stderr));
        }
        Ok(output) => panic!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr)),
        Err(error) => eprintln!("SKIPPED: no unshare here: {error}"),
    }
}

async fn cut_and_give_up() {
    let partner = Partner::start(Script::always(Turn::fine()).honouring_keys()).expect("starts");
    let keyed =
        |key: &str| Sending::post(&partner.url("/pay")).keyed().key(key).with(|policy| policy.retry.max_attempts = 1);
    let mut wire = keyed("first").worker();
    assert_eq!(keyed("first").run_on(&mut wire).await.verdict, Verdict::Confirmed);
    link("down");
    let ran = keyed("second").run_on(&mut wire).await;
    assert_eq!(ran.unanswered(), (Sent::Whole, Stage::FirstByte, Fault::TimedOut(Limit::Read)));
    assert_eq!(ran.verdict, Verdict::InDoubt);
    drop(wire);
    tokio::time::sleep(AWAY).await;
    link("up");
    tokio::time::sleep(SETTLED).await;
    assert_eq!(keyed("third").run().await.verdict, Verdict::Confirmed, "the network is not back");
    let seen = partner.stop().await;
    assert_eq!(seen.executions, 2, "what was given up was executed later");
}

fn link(way: &str) {
    let set = Command::new("ip").args(["link", "set", "lo", way]).status().expect("ip runs");
    assert!(set.success(), "the link does not go {way}");
}

fn partner_without_room() -> (SocketAddr, mpsc::Receiver<TcpStream>) {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
    socket.set_recv_buffer_size(ROOM_BYTES).expect("a small buffer");
    socket.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).expect("a free port");
    socket.listen(1).expect("listens");
    let listener = TcpListener::from(socket);
    let addr = listener.local_addr().expect("is bound");
    let (tell, accepted) = mpsc::channel();
    thread::spawn(move || tell.send(listener.accept().expect("a connection").0));
    (addr, accepted)
}

/// Returns how many bytes arrive until the connection ends or is silent.
fn read_all(mut stream: TcpStream) -> usize {
    stream.set_read_timeout(Some(Duration::from_secs(1))).expect("a limit");
    let mut buffer = vec![0; 64 * 1024];
    let mut arrived = 0;
    // An error is the reset that the partner gets.
    while let Ok(count @ 1..) = stream.read(&mut buffer) {
        arrived += count;
    }
    arrived
}
