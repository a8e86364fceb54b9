//! The TLS handshake: as `send` does it, with a look at the certificate whether it is accepted or not.

use super::certificate;
use crate::engine::diagnose::handshake::Handshake;
use crate::engine::diagnose::tcp::Tcp;
use crate::engine::exchange::{Fault, Limit};
use crate::net::fault::Failure;
use crate::net::marks::Marks;
use crate::net::tls::{Tls, Witness};
use rustls::ProtocolVersion;
use rustls::pki_types::ServerName;
use std::error::Error;
use std::io;
use std::sync::Arc;
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout_at};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// What came of a handshake.
pub(super) struct Shaken {
    pub handshake: Handshake,
    pub stream: Option<TlsStream<TcpStream>>,
    pub failure: Option<Failure>,
    /// What the kernel knew when it was given up, before the socket was closed.
    pub tcp: Option<Tcp>,
}

/// Shakes hands until `until`. `look` asks the kernel about the connection.
pub(super) async fn shake_hands(
    tls: &Tls,
    name: ServerName<'static>,
    stream: TcpStream,
    marks: &Marks,
    until: Instant,
    look: impl Fn() -> Option<Tcp>,
) -> Shaken {
    let witness = Arc::new(Witness::default());
    let config = match tls.witnessed(&witness) {
        Ok(config) => config,
        Err(why) => return failed(Failure::new(Fault::NoTrust, &why), &witness, None),
    };
    let started = Instant::now();
    marks.securing();
    let mut shaking = Box::pin(TlsConnector::from(Arc::new(config)).connect(name, stream));
    let outcome = timeout_at(until, marks.dialling(shaking.as_mut())).await;
    let tcp = look();
    drop(shaking);
    let mut shaken = match outcome {
        Ok(Ok(stream)) => {
            marks.stands();
            Shaken { handshake: described(&stream, &witness), stream: Some(stream), failure: None, tcp }
        }
        Ok(Err(error)) => failed(Failure::of_connection(&error, &marks.progress()), &witness, tcp).with_alert(&error),
        Err(_) => failed(Failure::new(Fault::TimedOut(Limit::Connect), ""), &witness, tcp),
    };
    shaken.handshake.took = Some(started.elapsed());
    shaken
}

/// Shakes hands with whoever is there: for reading a clock, never for a request that says anything.
pub(super) async fn unverified(
    name: ServerName<'static>,
    stream: TcpStream,
    until: Instant,
) -> Option<TlsStream<TcpStream>> {
    let connector = TlsConnector::from(Arc::new(Tls::unverified()));
    timeout_at(until, connector.connect(name, stream)).await.ok()?.ok()
}

fn failed(failure: Failure, witness: &Witness, tcp: Option<Tcp>) -> Shaken {
    let certificate = witness.seen().as_ref().and_then(certificate::read);
    let handshake = Handshake { certificate, ..Handshake::new(Err(failure.fault)) };
    Shaken { handshake, stream: None, failure: Some(failure), tcp }
}

impl Shaken {
    fn with_alert(mut self, error: &io::Error) -> Shaken {
        let tls = error.get_ref().and_then(|inner| (inner as &(dyn Error + 'static)).downcast_ref::<rustls::Error>());
        if let Some(rustls::Error::AlertReceived(alert)) = tls {
            self.handshake.alert = Some(format!("{alert:?}").into());
        }
        self
    }
}

fn described(stream: &TlsStream<TcpStream>, witness: &Witness) -> Handshake {
    let (_, session) = stream.get_ref();
    let version = session.protocol_version().map(|version| match version {
        ProtocolVersion::TLSv1_3 => "1.3".into(),
        ProtocolVersion::TLSv1_2 => "1.2".into(),
        other => format!("{other:?}").into(),
    });
    Handshake {
        version,
        alpn: session.alpn_protocol().map(|name| String::from_utf8_lossy(name).into()),
        group: session.negotiated_key_exchange_group().map(|group| format!("{:?}", group.name()).into()),
        certificate: witness.seen().as_ref().and_then(certificate::read),
        ..Handshake::new(Ok(()))
    }
}
