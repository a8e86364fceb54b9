//! What is left of a decided operation, line by line.

use crate::engine::facts::{Fact, Finished, History, Opened, Settled, StoredBody};
use crate::store::format::{self, Note, SetAside};
use crate::store::jsonl::blobs;
use std::sync::Arc;

/// Returns whether an operation has something that it can do without.
pub fn is_worth_it(history: &History) -> bool {
    history.facts.iter().any(|recorded| match &recorded.fact {
        Fact::Opened(opened) => !opened.headers.is_empty() || !matches!(opened.body, StoredBody::Hash { .. }),
        Fact::Settled(settled) => settled.response.is_some() || settled.last.as_deref().is_some_and(has_details),
        Fact::Reopened(_) | Fact::Resolved(_) => false,
        Fact::Started(_) | Fact::Finished(_) | Fact::Asked(_) | Fact::Waiting(_) => true,
    })
}

/// Returns what is left of a line, and the body beside the ledger that it named.
///
/// Its claims stay, and how they ended: who asks for the key is told the verdict, and another payload is refused.
pub fn line(text: &[u8], durable: u64) -> (Option<Vec<u8>>, Option<Box<str>>) {
    let Some((key, recorded)) = format::fact(text) else {
        // A kind of line that only newer versions know.
        return (Some(format::moved_line(text, durable)), None);
    };
    let (fact, body) = match recorded.fact {
        Fact::Opened(opened) => {
            let (body, blob) = hashed(&opened.body);
            let opened = Opened { headers: Vec::new(), body, ..Opened::clone(&opened) };
            (Fact::Opened(Arc::new(opened)), blob)
        }
        Fact::Settled(settled) => {
            let blob = settled.response.as_ref().and_then(|response| response.body.as_ref()).and_then(blob);
            let last = settled.last.as_deref().map(|last| Arc::new(without_details(last.clone())));
            (Fact::Settled(Arc::new(Settled { last, response: None, ..Settled::clone(&settled) })), blob)
        }
        Fact::Reopened(_) | Fact::Resolved(_) => return (Some(format::moved_line(text, durable)), None),
        Fact::Started(_) | Fact::Finished(_) | Fact::Asked(_) | Fact::Waiting(_) => return (None, None),
    };
    let entry = format::Entry { n: recorded.n, key: &key, at: recorded.at, fact: &fact, opened_at: None, durable };
    (Some(format::fact_line(&entry)), body)
}

/// Returns whether a note says nothing of the new file: one compaction comes after another.
pub fn is_needless(note: &Note) -> bool {
    note.what == "compacted"
}

/// Returns what is left of a note: that something was set aside, and where, without its bytes. `moved` tells where an old
/// offset is now.
pub fn note(text: &[u8], note: &Note, moved: impl Fn(u64) -> u64, durable: u64) -> Vec<u8> {
    let what = match note.what.as_str() {
        "torn" => "torn",
        "bad" => "bad",
        "lost" => "lost",
        "repeated" => "repeated",
        _ => return format::moved_line(text, durable),
    };
    let aside = SetAside { what, offset: moved(note.offset), len: note.len, bytes: &[] };
    format::note_line(&aside, note.at, durable)
}

fn hashed(body: &StoredBody) -> (StoredBody, Option<Box<str>>) {
    let hash = |sha: Box<str>, len: u64| StoredBody::Hash { sha, len };
    match body {
        StoredBody::Text(text) => (hash(blobs::sha256(text.as_bytes()).into(), text.len() as u64), None),
        StoredBody::Bytes(bytes) => (hash(blobs::sha256(bytes).into(), bytes.len() as u64), None),
        StoredBody::Blob { sha, len } => (hash(sha.clone(), *len), Some(sha.clone())),
        StoredBody::Hash { sha, len } => (hash(sha.clone(), *len), None),
    }
}

fn blob(body: &StoredBody) -> Option<Box<str>> {
    match body {
        StoredBody::Blob { sha, .. } => Some(sha.clone()),
        _ => None,
    }
}

fn has_details(last: &Finished) -> bool {
    last.stages.is_some() || last.error.is_some()
}

fn without_details(last: Finished) -> Finished {
    Finished { stages: None, error: None, ..last }
}
