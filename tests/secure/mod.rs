//! TLS before a partner on loopback, for tests: certificates of every kind, and handshakes that fail on purpose.

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, date_time_ymd};
use socket2::SockRef;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, LazyLock};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, copy};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use tokio_rustls::rustls::{
    self, DigitallySignedStruct, DistinguishedName, RootCertStore, ServerConfig, SignatureScheme,
    SupportedProtocolVersion,
};

/// The issuer whom the tests trust.
pub static ISSUER: LazyLock<CertifiedIssuer<'static, KeyPair>> = LazyLock::new(|| issuer("Test issuer"));
/// An issuer whom nobody trusts.
pub static STRANGER: LazyLock<CertifiedIssuer<'static, KeyPair>> = LazyLock::new(|| issuer("Stranger"));

fn issuer(name: &str) -> CertifiedIssuer<'static, KeyPair> {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.distinguished_name.push(DnType::CommonName, name);
    CertifiedIssuer::self_signed(params, KeyPair::generate().expect("makes")).expect("makes")
}

/// A certificate and its key.
pub struct Identity {
    pub cert: rcgen::Certificate,
    pub key: KeyPair,
}

impl Identity {
    /// For 127.0.0.1 and localhost, by the trusted issuer, `change` applied.
    pub fn made(change: impl FnOnce(&mut CertificateParams)) -> Identity {
        Identity::by(&ISSUER, change)
    }

    pub fn by(issuer: &CertifiedIssuer<'static, KeyPair>, change: impl FnOnce(&mut CertificateParams)) -> Identity {
        let (params, key) = Identity::parts(change);
        Identity { cert: params.signed_by(&key, issuer).expect("makes"), key }
    }

    /// Signed by itself.
    pub fn alone() -> Identity {
        let (params, key) = Identity::parts(|_| ());
        Identity { cert: params.self_signed(&key).expect("makes"), key }
    }

    /// Signed by itself as an issuer's, as `openssl req -x509` does it.
    pub fn root(change: impl FnOnce(&mut CertificateParams)) -> Identity {
        let (mut params, key) = Identity::parts(change);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Identity { cert: params.self_signed(&key).expect("makes"), key }
    }

    pub fn expired() -> Identity {
        Identity::made(|params| params.not_after = date_time_ymd(2020, 1, 2))
    }

    pub fn early() -> Identity {
        Identity::made(|params| params.not_before = date_time_ymd(2999, 1, 1))
    }

    pub fn elsewhere() -> Identity {
        let name = |name: &str| rcgen::SanType::DnsName(name.try_into().expect("a name"));
        Identity::made(|params| params.subject_alt_names = vec![name("other.example"), name("www.other.example")])
    }

    fn parts(change: impl FnOnce(&mut CertificateParams)) -> (CertificateParams, KeyPair) {
        let mut params = CertificateParams::new(["127.0.0.1".into(), "localhost".into()]).expect("names");
        change(&mut params);
        (params, KeyPair::generate().expect("makes"))
    }

    fn der(&self) -> (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>) {
        let key = PrivateKeyDer::try_from(self.key.serialize_der()).expect("PKCS#8");
        (vec![self.cert.der().clone()], key)
    }
}

/// What a front does with a connection.
pub enum Lane {
    /// Speaks TLS, and passes on what is inside.
    Serve(Arc<ServerConfig>),
    /// Says nothing.
    Silent,
    /// Resets the connection after the ClientHello.
    Reset,
    /// Closes it after the ClientHello.
    Close,
    /// Sends these bytes after the ClientHello, then closes.
    Say(Vec<u8>),
}

/// Whom a front lets in.
pub enum Guests {
    /// Everybody, without a certificate.
    All,
    /// Who shows a certificate of [`ISSUER`].
    Certified,
    /// Nobody: every certificate is refused with this.
    Refused(rustls::Error),
}

impl Lane {
    /// An honest server for 127.0.0.1.
    pub fn honest() -> Lane {
        Lane::of(&Identity::made(|_| ()), Guests::All, rustls::ALL_VERSIONS)
    }

    pub fn showing(identity: &Identity) -> Lane {
        Lane::of(identity, Guests::All, rustls::ALL_VERSIONS)
    }

    pub fn of(identity: &Identity, guests: Guests, versions: &[&'static SupportedProtocolVersion]) -> Lane {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let (chain, key) = identity.der();
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(versions)
            .expect("versions with suites");
        let mut roots = RootCertStore::empty();
        roots.add(ISSUER.der().clone()).expect("a root");
        let certified =
            || WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build().expect("a root is there");
        let builder = match guests {
            Guests::All => builder.with_no_client_auth(),
            Guests::Certified => builder.with_client_cert_verifier(certified()),
            Guests::Refused(why) => builder.with_client_cert_verifier(Arc::new(Refuser(certified(), why))),
        };
        let mut config = builder.with_single_cert(chain, key).expect("a certificate and its key");
        // Offered, so that a client which uses it would be found out.
        config.max_early_data_size = 16_384;
        Lane::Serve(Arc::new(config))
    }

    /// A fatal alert in answer to the ClientHello.
    pub fn alert(number: u8) -> Lane {
        Lane::Say(vec![21, 3, 3, 0, 2, 2, number])
    }
}

/// Asks for certificates, and refuses each.
#[derive(Debug)]
struct Refuser(Arc<dyn ClientCertVerifier>, rustls::Error);

impl ClientCertVerifier for Refuser {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.0.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        Err(self.1.clone())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<rustls::client::danger::HandshakeSignatureValid, rustls::Error> {
        self.0.verify_tls12_signature(message, cert, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<rustls::client::danger::HandshakeSignatureValid, rustls::Error> {
        self.0.verify_tls13_signature(message, cert, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}

/// The end of a front's life, if no test ends it before.
const LIFETIME: Duration = Duration::from_secs(60);

/// TLS on a port of its own before a partner. Dropping it ends it.
pub struct Front {
    addr: SocketAddr,
    task: JoinHandle<()>,
}

impl Front {
    pub async fn before(partner: SocketAddr, lane: Lane) -> Front {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a free port");
        let addr = listener.local_addr().expect("an address");
        let lane = Arc::new(lane);
        let task = tokio::spawn(async move {
            let mut connections = JoinSet::new();
            let accepting = async {
                while let Ok((stream, _)) = listener.accept().await {
                    let lane = Arc::clone(&lane);
                    connections.spawn(async move {
                        // An error is the end of the connection.
                        let _ = serve(stream, &lane, partner).await;
                    });
                }
            };
            let _ = tokio::time::timeout(LIFETIME, accepting).await;
        });
        Front { addr, task }
    }

    pub fn url(&self, path: &str) -> String {
        format!("https://{}{path}", self.addr)
    }
}

impl Drop for Front {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(mut stream: TcpStream, lane: &Lane, partner: SocketAddr) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let config = match lane {
        Lane::Serve(config) => config,
        Lane::Silent => return drain(&mut stream).await,
        Lane::Reset => {
            read_some(&mut stream).await?;
            return SockRef::from(&stream).set_linger(Some(Duration::ZERO));
        }
        Lane::Close => return read_some(&mut stream).await,
        Lane::Say(bytes) => {
            read_some(&mut stream).await?;
            stream.write_all(bytes).await?;
            stream.shutdown().await?;
            return drain(&mut stream).await;
        }
    };
    let outer = match TlsAcceptor::from(Arc::clone(config)).accept(stream).into_fallible().await {
        Ok(outer) => outer,
        Err((_, mut stream)) => {
            // The alert went out; unread bytes would reset the connection before it is read.
            stream.shutdown().await?;
            return drain(&mut stream).await;
        }
    };
    let inner = TcpStream::connect(partner).await?;
    pass(outer, inner).await
}

/// Carries bytes both ways; the end of one side is the end of the other: a reset as a reset, a close as a close.
async fn pass(outer: tokio_rustls::server::TlsStream<TcpStream>, inner: TcpStream) -> io::Result<()> {
    let (mut from_client, mut to_client) = tokio::io::split(outer);
    let (mut from_partner, mut to_partner) = inner.into_split();
    let up = async { one_way(&mut from_client, &mut to_partner).await };
    let down = async { one_way(&mut from_partner, &mut to_client).await };
    let ended = tokio::select! {
        ended = up => ended,
        ended = down => ended,
    };
    let mut outer = from_client.unsplit(to_client);
    match ended {
        Err(_) => SockRef::from(outer.get_ref().0).set_linger(Some(Duration::ZERO)),
        Ok(()) => {
            outer.shutdown().await?;
            drain(outer.get_mut().0).await
        }
    }
}

async fn one_way(from: &mut (impl AsyncRead + Unpin), to: &mut (impl AsyncWrite + Unpin)) -> io::Result<()> {
    copy(from, to).await?;
    to.flush().await
}

async fn read_some(stream: &mut TcpStream) -> io::Result<()> {
    stream.read(&mut [0; 4096]).await.map(drop)
}

async fn drain(stream: &mut TcpStream) -> io::Result<()> {
    while stream.read(&mut [0; 4096]).await? > 0 {}
    Ok(())
}
