//! A proxy on loopback that misbehaves: it forwards, tunnels, and speaks SOCKS5, and counts what it was asked.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// What the proxy does once it knows what is wanted.
#[derive(Clone, Copy, Debug)]
pub enum Mode {
    /// It does its work. Every name leads to 127.0.0.1.
    Fine,
    /// It answers with this status line and these fields, and connects nobody.
    Answer(&'static str),
    /// It reads, and says nothing.
    Hang,
    /// It begins an answer to CONNECT, and closes.
    HalfReply,
    /// It says that the tunnel stands, and closes it.
    CutTunnel,
    /// It forwards the request, waits for the answer, and closes without passing it on.
    ForwardThenCut,
    /// SOCKS5: it wants a user and a password.
    Login,
    /// SOCKS5: it wants them, and refuses them.
    WrongLogin,
    /// SOCKS5: it answers with this code.
    Reply(u8),
}

/// What the proxy saw.
#[derive(Clone, Debug, Default)]
pub struct Asked {
    pub connections: usize,
    /// Whole heads of requests to the proxy itself.
    pub heads: Vec<String>,
    /// Targets of SOCKS5 as `host:port`.
    pub targets: Vec<String>,
    /// User and password of SOCKS5.
    pub logins: Vec<String>,
}

pub struct Relay {
    pub addr: SocketAddr,
    asked: Arc<Mutex<Asked>>,
    listening: JoinHandle<()>,
}

impl Relay {
    pub async fn start(mode: Mode) -> Relay {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("binds");
        let addr = listener.local_addr().expect("bound");
        let asked = Arc::new(Mutex::new(Asked::default()));
        let seen = Arc::clone(&asked);
        let listening = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                seen.lock().expect("no panic").connections += 1;
                tokio::spawn(serve(stream, mode, Arc::clone(&seen)));
            }
        });
        Relay { addr, asked, listening }
    }

    pub fn url(&self, scheme: &str) -> String {
        format!("{scheme}://{}", self.addr)
    }

    /// Stops listening and returns what was seen.
    pub fn stop(self) -> Asked {
        self.listening.abort();
        self.asked.lock().expect("no panic").clone()
    }
}

async fn serve(mut stream: TcpStream, mode: Mode, asked: Arc<Mutex<Asked>>) {
    let mut first = [0];
    // Whoever hangs up is not served; that is all there is to an error here.
    if stream.peek(&mut first).await.is_ok_and(|read| read == 1) {
        let _ = match first {
            [5] => socks(&mut stream, mode, &asked).await,
            _ => http(&mut stream, mode, &asked).await,
        };
    }
}

/// Reads to the end of a head and no further.
async fn head(stream: &mut TcpStream) -> std::io::Result<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await?);
    }
    Ok(String::from_utf8_lossy(&head).into_owned())
}

async fn http(stream: &mut TcpStream, mode: Mode, asked: &Mutex<Asked>) -> std::io::Result<()> {
    let head = head(stream).await?;
    asked.lock().expect("no panic").heads.push(head.clone());
    let mut words = head.split(' ');
    let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    match mode {
        Mode::Answer(fields) => {
            stream.write_all(format!("HTTP/1.1 {fields}\r\nContent-Length: 0\r\n\r\n").as_bytes()).await
        }
        Mode::Hang => std::future::pending().await,
        Mode::HalfReply => stream.write_all(b"HTTP/1.1 200 Conn").await,
        Mode::CutTunnel => stream.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").await,
        _ if method == "CONNECT" => {
            let mut partner = dial(target).await?;
            stream.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").await?;
            copy_bidirectional(stream, &mut partner).await.map(drop)
        }
        _ => forward(stream, target, &head, matches!(mode, Mode::ForwardThenCut)).await,
    }
}

async fn forward(stream: &mut TcpStream, target: &str, head: &str, cut: bool) -> std::io::Result<()> {
    let (_, place) = target.split_once("://").expect("a proxy is asked for whole URLs");
    let (place, path) = place.split_at(place.find('/').expect("a path"));
    let mut partner = dial(place).await?;
    let head: Vec<&str> = head.split("\r\n").filter(|line| !line.starts_with("proxy-authorization:")).collect();
    partner.write_all(head.join("\r\n").replacen(target, path, 1).as_bytes()).await?;
    if !cut {
        return copy_bidirectional(stream, &mut partner).await.map(drop);
    }
    let (mut body, mut answer) = ([0; 1024], [0; 1024]);
    let read = stream.read(&mut body).await?;
    partner.write_all(&body[..read]).await?;
    partner.read(&mut answer).await.map(drop)
}

/// Connects to the port of a place, whatever its name.
async fn dial(place: &str) -> std::io::Result<TcpStream> {
    let port: u16 = place.rsplit(':').next().and_then(|port| port.parse().ok()).expect("a port");
    TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await
}

async fn socks(stream: &mut TcpStream, mode: Mode, asked: &Mutex<Asked>) -> std::io::Result<()> {
    let mut methods = vec![0; 2];
    stream.read_exact(&mut methods).await?;
    methods.resize(usize::from(methods[1]), 0);
    stream.read_exact(&mut methods).await?;
    let wants_login = matches!(mode, Mode::Login | Mode::WrongLogin);
    let method = if wants_login { 2 } else { 0 };
    if !methods.contains(&method) {
        return stream.write_all(&[5, 0xff]).await;
    }
    stream.write_all(&[5, method]).await?;
    if wants_login {
        stream.read_u8().await?;
        let login = format!("{}:{}", text(stream).await?, text(stream).await?);
        asked.lock().expect("no panic").logins.push(login);
        let refused = u8::from(matches!(mode, Mode::WrongLogin));
        stream.write_all(&[1, refused]).await?;
        if refused == 1 {
            return Ok(());
        }
    }
    let target = target(stream).await?;
    asked.lock().expect("no panic").targets.push(target.clone());
    let code = match mode {
        Mode::Reply(code) => code,
        Mode::Hang => std::future::pending().await,
        _ => 0,
    };
    stream.write_all(&[5, code, 0, 1, 127, 0, 0, 1, 0, 0]).await?;
    if code != 0 || matches!(mode, Mode::CutTunnel) {
        return Ok(());
    }
    let mut partner = dial(&target).await?;
    copy_bidirectional(stream, &mut partner).await.map(drop)
}

/// Reads a text with its length before it.
async fn text(stream: &mut TcpStream) -> std::io::Result<String> {
    let mut bytes = vec![0; usize::from(stream.read_u8().await?)];
    stream.read_exact(&mut bytes).await?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

async fn target(stream: &mut TcpStream) -> std::io::Result<String> {
    let mut head = [0; 4];
    stream.read_exact(&mut head).await?;
    let host = match head[3] {
        1 => Ipv4Addr::from_bits(stream.read_u32().await?).to_string(),
        3 => text(stream).await?,
        kind => panic!("an address of the kind {kind}"),
    };
    Ok(format!("{host}:{}", stream.read_u16().await?))
}
