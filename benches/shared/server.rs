//! A server that answers every POST and GET at once, until the process ends.

use super::BODY;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};

/// A running server.
pub struct Server {
    url: String,
}

impl Server {
    /// Starts one for plain HTTP.
    pub fn http() -> Server {
        Server::serving("http", answer)
    }

    /// Starts one that treats each connection in its own way before [`answer`].
    pub fn serving(scheme: &str, serve: impl Fn(TcpStream) -> io::Result<()> + Send + 'static) -> Server {
        Server { url: format!("{scheme}://{}/v1/pay", listen(serve)) }
    }

    /// Returns where it is posted to.
    pub fn url(&self) -> &str {
        &self.url
    }
}

fn listen(serve: impl Fn(TcpStream) -> io::Result<()> + Send + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let addr = listener.local_addr().expect("is bound");
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            // A client that goes away is its own business.
            let _ = serve(stream);
        }
    });
    addr
}

/// Reads one POST or GET and answers it.
pub fn answer(mut stream: impl Read + Write) -> io::Result<()> {
    let mut request = Vec::new();
    let mut buffer = [0; 4096];
    let is_whole = |request: &[u8]| match request.starts_with(b"GET ") {
        true => request.ends_with(b"\r\n\r\n"),
        false => request.ends_with(BODY.as_bytes()),
    };
    while !is_whole(&request) {
        match stream.read(&mut buffer)? {
            0 => return Ok(()),
            n => request.extend_from_slice(&buffer[..n]),
        }
    }
    let body = "{\"id\":\"op_1\",\"state\":\"done\"}";
    let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length:";
    stream.write_all(format!("{head} {}\r\n\r\n{body}", body.len()).as_bytes())?;
    stream.flush()
}
