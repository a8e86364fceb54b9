//! One probe of one scenario.

use crate::secure::ISSUER;
use abide::engine::diagnose::observations::Observations;
use abide::engine::diagnose::past::Past;
use abide::engine::diagnose::{Diagnosis, diagnose};
use abide::engine::operation::{Guarded, Header, Method, Request};
use abide::engine::policy::Timeouts;
use abide::engine::proxy::{Exclusions, Proxies, Proxy};
use abide::engine::secret::Mask;
use abide::net::clock::Wall;
use abide::net::{Names, SystemRoots, Tls, TlsFile, TlsFiles};
use abide::probe::{Depth, NameServers, Plan, probe};
use std::sync::Arc;
use std::time::Duration;

/// A probe that trusts the test's issuer, is short of patience, and asks nobody about names.
pub fn plan(url: &str) -> Plan {
    let ca = TlsFile { name: "ca".into(), bytes: ISSUER.pem().into_bytes().into() };
    let files = TlsFiles { ca: Some(ca), ..TlsFiles::default() };
    let json = Header { name: "Accept".into(), value: Guarded::plain("application/json") };
    let request = Request {
        method: Method::new("GET").expect("a method"),
        url: Guarded::plain(url),
        headers: vec![json],
        body: Arc::from([]),
    };
    Plan {
        request: Arc::new(request),
        timeouts: Timeouts {
            connect: Duration::from_millis(1300),
            read: Duration::from_millis(1100),
            body: Duration::from_millis(300),
            ..Timeouts::default()
        },
        deadline: Duration::from_secs(10),
        mask: Mask::default(),
        wall: Wall::System,
        names: Names::by(|_, _| Err(std::io::Error::other("nobody was to be asked"))),
        is_resolved: false,
        name_servers: NameServers::default(),
        tls: Tls::of(&files, SystemRoots::default()).expect("a certificate"),
        proxies: Proxies::default(),
        answer_max_bytes: 64 << 10,
        past: Past::default(),
        depth: Depth::One,
    }
}

/// The same, by way of a proxy.
pub fn through(url: &str, proxy: &str) -> Plan {
    let proxy = Proxy::parse(proxy).expect("a proxy");
    Plan { proxies: Proxies::one(proxy, "HTTPS_PROXY", Exclusions::default()), ..plan(url) }
}

/// What a probe saw and what it comes to.
pub struct Probed {
    pub seen: Observations,
    pub found: Diagnosis,
}

impl Probed {
    pub async fn of(plan: &Plan) -> Probed {
        let seen = probe(plan).await;
        let found = diagnose(&seen);
        Probed { seen, found }
    }

    /// Side and code.
    pub fn verdict(&self) -> (&'static str, &'static str) {
        (self.found.side_name(), self.found.code.as_str())
    }
}

/// Side and code.
pub type Verdict = (&'static str, &'static str);

/// What was said of a scenario, and what should have been.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    /// Its number in latency.md 7; 20 where nothing is wrong.
    pub number: u32,
    pub name: String,
    pub expected: [String; 2],
    pub said: [String; 2],
}

impl Told {
    pub fn of(number: u32, name: &str, expected: Verdict, probed: &Probed) -> Told {
        let words = |verdict: Verdict| [verdict.0.to_owned(), verdict.1.to_owned()];
        Told { number, name: name.into(), expected: words(expected), said: words(probed.verdict()) }
    }

    /// For another process.
    pub fn line(&self) -> String {
        let ([side, code], [said_side, said_code]) = (&self.expected, &self.said);
        format!("TOLD\t{}\t{}\t{side}\t{code}\t{said_side}\t{said_code}", self.number, self.name)
    }

    /// Reads what [`Told::line`] wrote.
    pub fn read(line: &str) -> Option<Told> {
        let mut parts = line.strip_prefix("TOLD\t")?.split('\t').map(str::to_owned);
        let mut part = || parts.next();
        let (number, name) = (part()?.parse().ok()?, part()?);
        Some(Told { number, name, expected: [part()?, part()?], said: [part()?, part()?] })
    }
}
