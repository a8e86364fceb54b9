//! What we gave up must not arrive later (decisions 23): the kernel may hold a whole request that the partner had no
//! room for, and would deliver it long after our limit.

use crate::run::{LIMITS, Sending};
use abide::engine::exchange::{Fault, Limit, Sent, Stage};
use abide::engine::verdict::Verdict;
use socket2::{Domain, Socket, Type};
use std::io::Read;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// Fits into our kernel's buffer, and not into the partner's.
const BODY_BYTES: usize = 200_000;
/// What the partner's kernel takes without being read, at most twice this.
const ROOM_BYTES: usize = 4_096;
/// When the partner begins to read: long after we gave up.
const LATE: Duration = Duration::from_millis(1500);

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
