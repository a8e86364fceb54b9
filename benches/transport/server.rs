//! A server that answers every POST at once, over HTTP or HTTPS, until the process ends.

use super::BODY;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;

/// An authority that signs the certificate of a server on 127.0.0.1.
pub struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    /// Makes one.
    pub fn new() -> Authority {
        let mut params = CertificateParams::new(Vec::new()).expect("no names");
        // A name of its own: where issuer and subject are called alike, a certificate counts as its own issuer.
        params.distinguished_name.push(DnType::CommonName, "an authority of the bench");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("enough chance");
        Authority(CertifiedIssuer::self_signed(params, key).expect("signs itself"))
    }

    /// Returns its certificate.
    pub fn pem(&self) -> String {
        self.0.pem()
    }

    fn server_config(&self) -> ServerConfig {
        let key = KeyPair::generate().expect("enough chance");
        let params = CertificateParams::new(vec!["127.0.0.1".into()]).expect("an address");
        let certificate = params.signed_by(&key, &self.0).expect("signs");
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("ring has them")
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], key)
            .expect("the key fits")
    }
}

/// A running server.
pub struct Server {
    url: String,
}

impl Server {
    /// Starts one for plain HTTP.
    pub fn http() -> Server {
        Server { url: format!("http://{}/v1/pay", listen(answer)) }
    }

    /// Starts one for HTTPS.
    pub fn https(authority: &Authority) -> Server {
        let config = Arc::new(authority.server_config());
        let addr = listen(move |stream| {
            let connection = ServerConnection::new(Arc::clone(&config)).map_err(io::Error::other)?;
            let mut stream = StreamOwned::new(connection, stream);
            answer(&mut stream)?;
            stream.conn.send_close_notify();
            stream.flush()
        });
        Server { url: format!("https://{addr}/v1/pay") }
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

fn answer(mut stream: impl Read + Write) -> io::Result<()> {
    let mut request = Vec::new();
    let mut buffer = [0; 4096];
    while !request.ends_with(BODY.as_bytes()) {
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
