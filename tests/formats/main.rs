//! Ledger files of every past version are read as they were written.

use abide::engine::entry::Standing;
use abide::engine::facts::{Fact, StoredBody};
use abide::engine::moment::Timestamp;
use abide::engine::operation::IdempotencyKey;
use abide::engine::reason::Reason;
use abide::engine::verdict::{Cause, Evidence, Side, Verdict};
use abide::store::StoreError;
use abide::store::jsonl::{Found, Options, Reader, verify};
use std::path::{Path, PathBuf};

fn kept(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/formats").join(name)
}

fn options() -> Options {
    Options { state: None, unsafe_fs: true, boot: "another".into(), now: Timestamp::default() }
}

fn found(reader: &Reader, name: &str) -> Found {
    let key = IdempotencyKey::new(name, 255).expect("a key");
    reader.find(&key, None).expect("readable").pop().expect("it is there")
}

fn names(found: &Found) -> Vec<&'static str> {
    found.history.facts.iter().map(|recorded| recorded.fact.name()).collect()
}

#[test]
fn version_1_is_read() {
    let reader = Reader::open(&kept("v1.jsonl"), &options()).expect("readable");
    assert!(reader.warnings().is_empty());
    let keys: Vec<_> = reader.list().expect("readable").map(|found| found.key.to_string()).collect();
    assert_eq!(keys, ["hash-only", "in-flight", "blob-1", "order-1", "order-2"]);

    let order = found(&reader, "order-1");
    assert_eq!(
        names(&order),
        ["opened", "finished", "waiting", "started", "asked", "settled", "reopened", "started", "settled"]
    );
    assert_eq!(order.standing, Standing::Settled);
    let settled = order.history.settled().expect("settled");
    assert_eq!((settled.verdict, settled.cause), (Verdict::Confirmed, Cause::Answer));
    assert_eq!(settled.last.as_ref().map(|last| (last.a, last.evidence)), Some((3, Evidence::Answered)));
    let response = settled.response.as_ref().expect("an answer");
    assert_eq!(response.body, Some(StoredBody::Text("{\"id\":77}".into())));
    let opened = order.history.opened();
    assert_eq!(opened.body, StoredBody::Text("{\"id\": 9007199254740993, \"note\": \"café\"}\r\n".into()));
    assert_eq!(&*opened.headers[1].1, "$env:ACME_TOKEN");
    assert_eq!(opened.deadline.to_string(), "2026-11-29T10:05:49.123Z");

    assert_eq!(names(&found(&reader, "order-2")), ["opened", "resolved"]);
    assert_eq!(found(&reader, "order-2").history.opened().body, StoredBody::Bytes([0, 255].into()));
    assert!(matches!(found(&reader, "blob-1").history.opened().body, StoredBody::Blob { len: 20_000, .. }));
    assert_eq!(found(&reader, "in-flight").standing, Standing::DeadElsewhere);
    assert!(matches!(found(&reader, "hash-only").history.opened().body, StoredBody::Hash { len: 3, .. }));
    assert!(matches!(found(&reader, "hash-only").history.facts[0].fact, Fact::Opened(_)));
}

/// What a newer writer of the same version may add: fields and kinds of lines that this reader does not know.
#[test]
fn version_1_with_additions_is_read() {
    let reader = Reader::open(&kept("v1-additions.jsonl"), &options()).expect("readable");
    assert!(reader.warnings().is_empty());
    assert_eq!(names(&found(&reader, "order-1")), ["opened", "started"]);
}

/// `started` may name the proxy. A reader that does not know the field reads on, as the test above shows.
#[test]
fn version_1_with_a_proxy_is_read() {
    let reader = Reader::open(&kept("v1-proxy.jsonl"), &options()).expect("readable");
    assert!(reader.warnings().is_empty());
    let found = found(&reader, "k1");
    let Fact::Started(started) = &found.history.facts[1].fact else { panic!("{:?}", names(&found)) };
    assert_eq!(started.proxy.as_deref(), Some("127.0.0.1:9"));
}

/// What https added: the files that flags named, the time of the handshake, reasons. A reader that does not know them
/// passes over the fields, as `version_1_with_additions_is_read` holds, and takes such a reason for an unknown one.
#[test]
fn version_1_with_tls_is_read() {
    let reader = Reader::open(&kept("v1-tls.jsonl"), &options()).expect("readable");
    assert!(reader.warnings().is_empty());
    let order = found(&reader, "order-1");
    let tls = order.history.opened().tls.as_deref().expect("files");
    assert_eq!(tls.ca.as_deref(), Some("/etc/acme/ca.pem"));
    assert_eq!((tls.cert.as_deref(), tls.key.as_deref()), (Some("/etc/acme/us.pem"), Some("/etc/acme/us.key")));
    let last = order.history.settled().and_then(|settled| settled.last.as_deref()).expect("an attempt");
    assert_eq!((last.evidence, last.reason), (Evidence::NotSent, Reason::ClientCertificate));
    let stages = last.stages.as_deref().expect("times");
    assert_eq!((stages.connect_us, stages.tls_us, stages.body_us), (Some(812), Some(2207), None));
    let old = Reader::open(&kept("v1.jsonl"), &options()).expect("readable");
    assert!(found(&old, "order-1").history.opened().tls.is_none());
}

/// What `[measured]` added: an answer that was slow, and a reason. A reader that does not know them passes over the field,
/// as `version_1_with_additions_is_read` holds, and takes the reason for an unknown one; here no answer was slow before.
#[test]
fn version_1_with_what_was_measured_is_read() {
    let reader = Reader::open(&kept("v1-measured.jsonl"), &options()).expect("readable");
    assert!(reader.warnings().is_empty());
    let last =
        |name: &str| found(&reader, name).history.settled().and_then(|settled| settled.last.clone()).expect("one");
    assert_eq!((last("slow").slow, last("slow").reason), (true, Reason::Ok));
    assert_eq!((last("short").slow, last("short").reason), (false, Reason::ReadLimitShort));
    assert_eq!(last("short").side, Some(Side::Ours));
    let old = Reader::open(&kept("v1.jsonl"), &options()).expect("readable");
    assert!(
        found(&old, "order-1")
            .history
            .settled()
            .and_then(|settled| settled.last.as_deref())
            .is_some_and(|last| !last.slow)
    );
}

/// What forgetting added: the header's version, and lines that say which claims are gone. Readers of version 1 refuse such
/// a file as one of a newer version, and a file of which nothing was forgotten stays at version 1.
#[test]
fn version_2_of_which_operations_were_forgotten_is_read() {
    let path = kept("v2-forgotten.jsonl");
    let reader = Reader::open(&path, &options()).expect("readable");
    assert!(reader.warnings().is_empty());
    let keys: Vec<_> = reader.list().expect("readable").map(|found| found.key.to_string()).collect();
    assert_eq!(keys, ["open", "doubt"]);
    assert_eq!(reader.find(&IdempotencyKey::new("yes", 255).expect("a key"), None).expect("readable"), []);
    let verified = verify(&path, &options()).expect("readable");
    assert_eq!((verified.findings, verified.operations, verified.claims), (vec![], 2, 5));
    let newer = std::fs::read_to_string(&path).expect("text").replacen("\"v\":2", "\"v\":3", 1);
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("l.jsonl"), newer).expect("writes");
    let refused = Reader::open(&folder.path().join("l.jsonl"), &options());
    assert!(matches!(refused, Err(StoreError::NewerFormat { found: 3, known: 2, .. })), "{refused:?}");
}
