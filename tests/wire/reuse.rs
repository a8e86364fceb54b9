//! One worker, many operations: which share a connection, and what is true when a kept one is closed.

use crate::run::{LIMITS, Ran, Sending};
use abide::engine::exchange::{Fault, Limit, Outcome, Sent, Stage};
use abide::engine::policy::Policy;
use abide::engine::verdict::Verdict;
use abide::net::{Names, Wire};
use abide::rehearse::partner::{Act, Partner, Place, Reply, Script, Turn};
use socket2::{Domain, Protocol, Socket, Type};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc;
use std::time::{Duration, Instant};

fn start(script: Script) -> Partner {
    Partner::start(script).expect("starts")
}

/// A worker, and a POST whose key the partner honours.
fn worker(partner: &Partner) -> (Wire, impl Fn(u32) -> Sending + use<>) {
    let url = partner.url("/pay");
    (Sending::post(&url).worker(), move |n| Sending::post(&url).keyed().key(&format!("key-{n}")))
}

fn once(policy: &mut Policy) {
    policy.retry.max_attempts = 1;
}

/// Asserts that the operation was confirmed over a connection that was there already, or over a new one.
fn confirmed(ran: &Ran, new_connection: bool) {
    assert_eq!((ran.verdict, ran.attempts.len()), (Verdict::Confirmed, 1), "{:?}", ran.first().error);
    assert_eq!(ran.first().stages.connect_us.is_some(), new_connection);
}

#[tokio::test]
async fn keyed_operations_of_one_worker_share_a_connection() {
    const OPERATIONS: u32 = 50;
    let partner = start(Script::always(Turn::fine()).honouring_keys());
    let (mut wire, keyed) = worker(&partner);
    for n in 0..OPERATIONS {
        confirmed(&keyed(n).run_on(&mut wire).await, n == 0);
    }
    let seen = partner.stop().await;
    assert_eq!((seen.connections, seen.whole, seen.executions), (1, OPERATIONS, OPERATIONS));
}

#[tokio::test]
async fn idempotent_methods_share_a_connection_with_and_without_a_body() {
    let partner = start(Script::always(Turn::fine()));
    let mut wire = Sending::post(&partner.url("/")).worker();
    for (n, (method, bytes)) in [("PUT", 9), ("DELETE", 0), ("GET", 0), ("PUT", 100_000)].into_iter().enumerate() {
        let ran = Sending::of(method, &partner.url("/orders/1")).body(bytes).run_on(&mut wire).await;
        confirmed(&ran, n == 0);
    }
    let seen = partner.stop().await;
    let lengths: Vec<_> = seen.requests.iter().map(|request| request.header("content-length")).collect();
    assert_eq!((seen.connections, seen.whole), (1, 4));
    assert_eq!(lengths, [Some("9"), None, None, Some("100000")]);
}

#[tokio::test]
async fn attempts_of_one_operation_share_a_connection_too() {
    let busy = Turn::not_done(Act::Answer(Reply::status(503)));
    let partner = start(Script::first([busy.clone(), busy], Turn::fine()).honouring_keys());
    let (mut wire, keyed) = worker(&partner);
    let ran = keyed(1).run_on(&mut wire).await;
    let seen = partner.stop().await;
    assert_eq!((ran.verdict, ran.attempts.len()), (Verdict::Confirmed, 3));
    assert_eq!((seen.connections, seen.whole, seen.executions), (1, 3, 1));
}

#[tokio::test]
async fn an_operation_that_a_lost_answer_would_hurt_has_its_own_connections() {
    let partner = start(Script::always(Turn::fine()).honouring_keys());
    let (mut wire, keyed) = worker(&partner);
    let unkeyed = || Sending::post(&partner.url("/pay")).key("key-9");
    confirmed(&keyed(1).run_on(&mut wire).await, true);
    confirmed(&unkeyed().run_on(&mut wire).await, true);
    confirmed(&unkeyed().run_on(&mut wire).await, true);
    confirmed(&keyed(2).run_on(&mut wire).await, true);
    assert_eq!(partner.stop().await.connections, 4);
}

#[tokio::test]
async fn a_key_that_ends_during_the_run_shares_no_connection() {
    let partner = start(Script::always(Turn::fine()).honouring_keys());
    let (mut wire, keyed) = worker(&partner);
    let short = |policy: &mut Policy| policy.idempotency.retention = Some(policy.timeouts.overall);
    confirmed(&keyed(1).run_on(&mut wire).await, true);
    confirmed(&keyed(2).with(short).run_on(&mut wire).await, true);
    assert_eq!(partner.stop().await.connections, 2);
}

#[tokio::test]
async fn another_origin_address_or_read_limit_is_another_connection() {
    let one = start(Script::always(Turn::fine()));
    let elsewhere = Place { ip: [127, 0, 0, 2].into(), port: one.addr().port(), ..Place::default() };
    let two = Partner::start_at(Script::always(Turn::fine()), elsewhere).expect("starts");
    let to = |host: &str, addr: SocketAddr| {
        let mut sending = Sending::post(&format!("http://{host}:{}/pay", addr.port())).keyed();
        sending.names = Names::by(move |_, _| Ok(vec![addr]));
        sending
    };
    let patient = |policy: &mut Policy| policy.timeouts.read *= 2;
    let mut wire = to("a.example", one.addr()).worker();
    confirmed(&to("a.example", one.addr()).run_on(&mut wire).await, true);
    confirmed(&to("a.example", one.addr()).run_on(&mut wire).await, false);
    confirmed(&to("a.example", two.addr()).run_on(&mut wire).await, true);
    confirmed(&to("b.example", two.addr()).run_on(&mut wire).await, true);
    confirmed(&to("b.example", two.addr()).with(patient).run_on(&mut wire).await, true);
    confirmed(&to("b.example", two.addr()).with(patient).run_on(&mut wire).await, false);
    assert_eq!((one.stop().await.connections, two.stop().await.connections), (1, 3));
}

#[tokio::test]
async fn addresses_rotate_away_from_a_kept_connection_only_after_nothing_was_sent() {
    let partner = start(Script::always(Turn::fine()).honouring_keys());
    let (refused, good) = (SocketAddr::from(([127, 0, 0, 9], partner.addr().port())), partner.addr());
    let url = format!("http://partner.example:{}/pay", good.port());
    let to = |addresses: Vec<SocketAddr>| {
        let mut sending = Sending::post(&url).keyed();
        sending.names = Names::by(move |_, _| Ok(addresses.clone()));
        sending
    };
    let mut wire = to(vec![good]).worker();
    confirmed(&to(vec![good]).run_on(&mut wire).await, true);
    let ran = to(vec![refused, good]).run_on(&mut wire).await;
    let dialled: Vec<_> = ran.attempts.iter().map(|(_, exchange)| exchange.addr).collect();
    assert_eq!((ran.verdict, dialled), (Verdict::Confirmed, vec![Some(refused), Some(good)]));
    assert_eq!(partner.stop().await.connections, 2);
}

#[tokio::test]
async fn a_kept_connection_that_hangs_ends_at_the_read_limit_in_doubt() {
    for (method, bytes) in [("PUT", 9), ("DELETE", 0)] {
        let partner = start(Script::first([Turn::fine()], Turn::not_done(Act::Hang)));
        let sending = || Sending::of(method, &partner.url("/orders/1")).body(bytes).with(once);
        let mut wire = sending().worker();
        confirmed(&sending().run_on(&mut wire).await, true);
        let ran = sending().run_on(&mut wire).await;
        assert_eq!(ran.unanswered(), (Sent::Whole, Stage::FirstByte, Fault::TimedOut(Limit::Read)), "{method}");
        assert_eq!((ran.verdict, partner.stop().await.connections), (Verdict::InDoubt, 1));
        ran.took_about(LIMITS.read);
    }
}

#[tokio::test]
async fn a_kept_connection_that_stops_reading_ends_at_the_write_limit_with_a_part() {
    let (listener, addr) = listening(16);
    let answered = std::thread::spawn(move || answer_one(&listener).1);
    let sending = |bytes| Sending::of("PUT", &format!("http://{addr}/")).body(bytes).with(once);
    let mut wire = sending(2).worker();
    confirmed(&sending(2).run_on(&mut wire).await, true);
    let kept = answered.join().expect("answers");
    let ran = sending(32 << 20).run_on(&mut wire).await;
    assert_eq!(ran.unanswered(), (Sent::Part, Stage::Write, Fault::TimedOut(Limit::Write)));
    ran.took_about(LIMITS.write);
    drop(kept);
}

#[tokio::test]
async fn nothing_that_went_wrong_is_used_again() {
    for act in [Act::Hang, Act::StalledBody, Act::Early413, Act::Fin, Act::Garbage] {
        let partner = start(Script::first([Turn::not_done(act.clone())], Turn::fine()));
        let sending = |bytes| Sending::of("PUT", &partner.url("/orders/1")).body(bytes).with(once);
        let mut wire = sending(9).worker();
        sending(1 << 20).run_on(&mut wire).await;
        confirmed(&sending(9).run_on(&mut wire).await, true);
        assert_eq!(partner.stop().await.connections, 2, "{act:?}");
    }
}

#[tokio::test]
async fn a_partner_that_says_it_closes_is_believed() {
    let closes = Turn::done(Act::Answer(Reply::status(200).header("Connection", "close")));
    let partner = start(Script::always(closes));
    let (mut wire, keyed) = worker(&partner);
    for n in 0..5 {
        confirmed(&keyed(n).run_on(&mut wire).await, true);
    }
    assert_eq!(partner.stop().await.connections, 5);
}

#[tokio::test]
async fn a_partner_that_closes_after_each_answer_loses_no_request() {
    const OPERATIONS: u32 = 20;
    for (method, bytes) in [("POST", 9), ("DELETE", 0)] {
        let partner = start(Script::always(Turn::done(Act::ServeLast)));
        let mut wire = Sending::post(&partner.url("/")).worker();
        for n in 0..OPERATIONS {
            let sending = Sending::of(method, &partner.url("/orders/1")).keyed().key(&format!("key-{n}")).body(bytes);
            confirmed(&sending.run_on(&mut wire).await, true);
        }
        let seen = partner.stop().await;
        assert_eq!((seen.connections, seen.whole), (OPERATIONS, OPERATIONS), "{method}");
    }
}

#[tokio::test]
async fn a_close_that_meets_a_request_never_doubles_it_nor_calls_it_unsent() {
    const OPERATIONS: u32 = 300;
    for (method, bytes) in [("POST", 9), ("PUT", 40_000), ("DELETE", 0)] {
        let (listener, addr) = listening(16);
        let partner = tokio::task::spawn_blocking(move || close_after_each(&listener));
        let url = format!("http://{addr}/");
        let sending = |n: u32| Sending::of(method, &url).keyed().key(&n.to_string()).body(bytes).with(once);
        let mut wire = sending(0).worker();
        let mut all = Vec::new();
        for n in 0..OPERATIONS {
            all.push(sending(n).run_on(&mut wire).await);
        }
        drop(wire);
        TcpStream::connect(addr).expect("connects").write_all(b"END / HTTP/1.1\r\n\r\n").expect("writes");
        let read = partner.await.expect("ends");
        for (n, ran) in all.iter().enumerate() {
            let copies = read.iter().filter(|head| head.contains(&format!("idempotency-key: {n}\r\n"))).count();
            assert!(copies <= 1, "{method} {n} was read {copies} times");
            match ran.first().outcome {
                Outcome::Unanswered { sent: Sent::Nothing, .. } => assert_eq!(copies, 0, "{:?}", ran.first().error),
                Outcome::Unanswered { .. } => assert_eq!(ran.verdict, Verdict::InDoubt),
                Outcome::Answered(_) => assert_eq!((ran.verdict, copies), (Verdict::Confirmed, 1)),
            }
        }
    }
}

#[tokio::test]
async fn a_dial_after_a_stale_connection_holds_the_connect_limit() {
    for (method, bytes) in [("PUT", 9), ("DELETE", 0)] {
        let (listener, addr) = listening(0);
        let (close, closing) = mpsc::channel::<()>();
        let partner = std::thread::spawn(move || {
            let (_, stream) = answer_one(&listener);
            closing.recv().expect("is told to close");
            let held = stand_before(addr);
            drop(stream);
            (listener, held)
        });
        let sending = || Sending::of(method, &format!("http://{addr}/")).body(bytes).with(once);
        let mut wire = sending().worker();
        confirmed(&sending().run_on(&mut wire).await, true);
        close.send(()).expect("the partner waits");
        let held = partner.join().expect("closes");
        let ran = sending().run_on(&mut wire).await;
        assert_eq!(ran.unanswered(), (Sent::Nothing, Stage::Connect, Fault::TimedOut(Limit::Connect)), "{method}");
        assert_eq!(ran.verdict, Verdict::NotDone);
        ran.took_about(LIMITS.connect);
        drop(held);
    }
}

#[tokio::test]
async fn an_idle_connection_is_closed_after_a_few_seconds() {
    let (listener, addr) = listening(16);
    let (tell, told) = tokio::sync::oneshot::channel();
    std::thread::spawn(move || {
        let (answered, mut stream) = answer_one(&listener);
        stream.set_read_timeout(Some(Duration::from_secs(30))).expect("is a duration");
        let end = stream.read(&mut [0; 16]).map(|bytes| (bytes, answered.elapsed()));
        let _ = tell.send(end.expect("the end comes in time"));
    });
    let sending = || Sending::of("PUT", &format!("http://{addr}/"));
    let mut wire = sending().worker();
    confirmed(&sending().run_on(&mut wire).await, true);
    let (bytes, idle) = told.await.expect("is told");
    assert_eq!(bytes, 0);
    assert!(idle >= Duration::from_secs(1), "{idle:?}");
    assert!(idle < Duration::from_secs(20), "{idle:?}");
    drop(wire);
}

/// Returns a listener on loopback whose queue holds `backlog` and one more.
fn listening(backlog: i32) -> (TcpListener, SocketAddr) {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP)).expect("a socket");
    socket.bind(&SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into()).expect("binds");
    socket.listen(backlog).expect("listens");
    let listener = TcpListener::from(socket);
    let addr = listener.local_addr().expect("is bound");
    (listener, addr)
}

const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";

/// Accepts one connection and answers one small request. Returns when, and the connection.
fn answer_one(listener: &TcpListener) -> (Instant, TcpStream) {
    let (mut stream, _) = listener.accept().expect("accepts");
    next_head(&mut stream, &mut Vec::new()).expect("a whole request");
    stream.write_all(ANSWER).expect("writes");
    (Instant::now(), stream)
}

/// Answers one request on each connection and stops writing a moment later, each time another, but reads on. Returns
/// the head of every request that it read whole, once it is told to end.
fn close_after_each(listener: &TcpListener) -> Vec<String> {
    let mut heads: Vec<String> = Vec::new();
    while !heads.last().is_some_and(|head| head.starts_with("end")) {
        let (mut stream, _) = listener.accept().expect("accepts");
        let mut buffer = Vec::new();
        while let Some(head) = next_head(&mut stream, &mut buffer) {
            // What cannot be written met our own close.
            let _ = stream.write_all(ANSWER);
            let answered = Instant::now();
            while answered.elapsed() < Duration::from_micros(heads.len() as u64 * 37 % 400) {
                std::hint::spin_loop();
            }
            let _ = stream.shutdown(Shutdown::Write);
            heads.push(head);
        }
    }
    heads
}

/// Reads one whole request and returns its head in lower case; `None` where the connection ends before.
fn next_head(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> Option<String> {
    let mut piece = [0; 65_536];
    loop {
        if let Some(at) = buffer.windows(4).position(|four| four == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&buffer[..at + 4]).to_ascii_lowercase();
            let length = head.split("content-length: ").nth(1).and_then(|rest| rest.split('\r').next());
            let whole = at + 4 + length.map_or(0, |length| length.parse().expect("a number"));
            if buffer.len() >= whole {
                buffer.drain(..whole);
                return Some(head);
            }
        }
        match stream.read(&mut piece) {
            Ok(bytes) if bytes > 0 => buffer.extend_from_slice(&piece[..bytes]),
            _ => return None,
        }
    }
}

/// Fills the queue of a listener that accepts nobody any more, so that later connection requests vanish.
fn stand_before(addr: SocketAddr) -> Vec<Socket> {
    let held: Vec<Socket> =
        (0..5).map(|_| Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP)).expect("a socket")).collect();
    for socket in &held {
        socket.set_nonblocking(true).expect("can be set");
        // "In progress" is what is wanted.
        let _ = socket.connect(&addr.into());
    }
    held
}
