//! The lines of a ledger file: how facts are written and read back.
//!
//! One JSON object a line. `t`, `n` and `k` come first, then `at` and the fact's own fields, `d` and `crc` last, so
//! that the envelope is read without a JSON parser. `crc` is the CRC-32 of the bytes before `,"crc"`.

mod head;
mod mirror;
#[cfg(test)]
mod tests;

use crate::engine::facts::{Fact, Recorded};
use crate::engine::moment::Timestamp;
use crate::engine::operation::{Fingerprint, IdempotencyKey, PartnerName};
use crate::engine::verdict::Verdict;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use head::Head;
use mirror::{OpenedLine, SettledEnd, SettledHead, SettledLine};
use serde::{Deserialize, Serialize};
use std::io::Write as _;
use std::str;
use std::sync::Arc;

/// The version of a new ledger.
pub const VERSION: u64 = 1;
/// The version of a ledger of which operations were forgotten, and the newest that is read. It has `forgotten` lines, in
/// whose place a reader of version 1 would find claims lost.
pub const FORGETTING: u64 = 2;
/// The longest line in bytes, its line break included.
pub const LINE_MAX: usize = 64 * 1024;
/// How many bytes a `note` can keep: base64 makes four of three.
pub const SET_ASIDE_MAX: usize = 32 * 1024;
/// How every line begins.
pub const START: &[u8] = b"{\"t\":\"";
/// The length of `,"crc":"01234567"}`.
const SEAL: usize = 18;

/// The first line of a ledger.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    /// The version of the format.
    pub v: u64,
    /// The ledger's name, the same over all its copies: 1 to 64 letters and digits.
    pub id: Box<str>,
    /// How often it was compacted.
    #[serde(rename = "gen")]
    pub generation: u64,
}

/// What the first line says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FirstLine {
    /// A ledger that this version reads.
    Ledger(Header),
    /// A ledger of a newer version.
    Newer(u64),
    /// Something else.
    Foreign,
}

/// A fact with what its line needs besides.
#[derive(Clone, Copy, Debug)]
pub struct Entry<'a> {
    /// The claim that it belongs to.
    pub n: u64,
    /// The operation's key.
    pub key: &'a IdempotencyKey,
    /// When it is written.
    pub at: Timestamp,
    /// What happened.
    pub fact: &'a Fact,
    /// For `settled`: the offset of the operation's `opened` line.
    pub opened_at: Option<u64>,
    /// The offset up to which the writer knows the file to be durable.
    pub durable: u64,
}

/// Bytes that recovery set aside.
#[derive(Clone, Copy, Debug)]
pub struct SetAside<'a> {
    /// What they were: `torn` or `bad`.
    pub what: &'static str,
    /// Where they were.
    pub offset: u64,
    /// How many there were.
    pub len: u64,
    /// The first of them, at most [`SET_ASIDE_MAX`].
    pub bytes: &'a [u8],
}

/// A line whose checksum is right, its envelope read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Envelope<'a> {
    /// What kind of line it is.
    pub t: &'a str,
    /// The claim's number; `None` for lines that belong to no operation.
    pub n: Option<u64>,
    /// The durable offset that its writer knew.
    pub durable: u64,
}

/// What a claim's line says about its operation.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Identity {
    /// The key.
    #[serde(rename = "k")]
    pub key: IdempotencyKey,
    /// The partner.
    pub partner: PartnerName,
    /// The fingerprint, on an `opened` line.
    pub fp: Option<Fingerprint>,
}

/// Writes the header's line.
pub fn header_line(header: &Header, at: Timestamp) -> Vec<u8> {
    let mut line = b"{\"t\":\"ledger\"".to_vec();
    splice(&mut line, header);
    write!(line, ",\"at\":\"{at}\"").expect("memory takes every write");
    seal(line, 0)
}

/// Writes a fact's line.
pub fn fact_line(entry: &Entry<'_>) -> Vec<u8> {
    let mut line = Vec::with_capacity(512);
    write!(line, "{{\"t\":\"{}\",\"n\":{},\"k\":", entry.fact.name(), entry.n).expect("memory takes every write");
    serde_json::to_writer(&mut line, entry.key).expect("a key is a JSON string");
    write!(line, ",\"at\":\"{}\"", entry.at).expect("memory takes every write");
    match entry.fact {
        Fact::Opened(opened) => splice(&mut line, &OpenedLine::from(&**opened)),
        Fact::Started(started) => splice(&mut line, started),
        Fact::Finished(finished) => splice(&mut line, &**finished),
        Fact::Asked(asked) => splice(&mut line, asked),
        Fact::Waiting(waiting) => splice(&mut line, waiting),
        Fact::Reopened(reopened) => splice(&mut line, &**reopened),
        Fact::Resolved(resolved) => splice(&mut line, &**resolved),
        Fact::Settled(settled) => {
            splice(&mut line, &SettledHead::from(&**settled));
            if let Some(last) = &settled.last {
                splice(&mut line, &**last);
            }
            splice(&mut line, &SettledEnd::new(settled, entry.opened_at));
        }
    }
    seal(line, entry.durable)
}

/// Writes a note about bytes that recovery set aside.
pub fn note_line(note: &SetAside<'_>, at: Timestamp, durable: u64) -> Vec<u8> {
    let SetAside { what, offset, len, bytes } = note;
    let b64 = STANDARD.encode(bytes);
    let line = format!(
        "{{\"t\":\"note\",\"at\":\"{at}\",\"what\":\"{what}\",\"offset\":{offset},\"len\":{len},\"b64\":\"{b64}\""
    );
    seal(line.into_bytes(), durable)
}

/// Writes a note that a person accepted the loss of everything that is wrong before it. `n` is the highest claim number
/// that was ever given, `lost` are the first and the last number of each part of it that is gone.
pub fn accepted_line(n: u64, lost: &[(u64, u64)], at: Timestamp, durable: u64) -> Vec<u8> {
    let lost = serde_json::to_string(lost).expect("numbers are JSON");
    let line = format!("{{\"t\":\"note\",\"n\":{n},\"at\":\"{at}\",\"what\":\"accepted\",\"lost\":{lost}");
    seal(line.into_bytes(), durable)
}

/// Writes that a key was used, and that what became of it is lost. Without a partner it may be anybody's.
pub fn lost_line(n: u64, key: &IdempotencyKey, partner: Option<&PartnerName>, at: Timestamp, durable: u64) -> Vec<u8> {
    let mut line = format!("{{\"t\":\"lost\",\"n\":{n},\"k\":").into_bytes();
    serde_json::to_writer(&mut line, key).expect("a key is a JSON string");
    write!(line, ",\"at\":\"{at}\"").expect("memory takes every write");
    if let Some(partner) = partner {
        line.extend_from_slice(b",\"partner\":");
        serde_json::to_writer(&mut line, partner).expect("a name is a JSON string");
    }
    seal(line, durable)
}

/// Writes a line for another place: without what it says of places.
pub fn moved_line(line: &[u8], durable: u64) -> Vec<u8> {
    let digits = |text: &[u8]| text.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
    let without = |text: &mut &[u8], name: &[u8]| {
        let stripped = text[..text.len() - digits(text)].strip_suffix(name);
        *text = stripped.unwrap_or(text);
    };
    let mut body = &line[..line.len() - SEAL];
    without(&mut body, b",\"d\":");
    if envelope(line).is_some_and(|envelope| envelope.t == "settled") {
        without(&mut body, b",\"o\":");
    }
    seal(body.to_vec(), durable)
}

/// Writes a note that everything before it was written by a compaction and is durable.
pub fn compacted_line(at: Timestamp, durable: u64) -> Vec<u8> {
    seal(format!("{{\"t\":\"note\",\"at\":\"{at}\",\"what\":\"compacted\"").into_bytes(), durable)
}

/// Writes that a compaction has dropped the claims `from` to `to`, whose operations are forgotten.
pub fn forgotten_line(from: u64, to: u64, at: Timestamp, durable: u64) -> Vec<u8> {
    seal(format!("{{\"t\":\"forgotten\",\"n\":{to},\"from\":{from},\"at\":\"{at}\"").into_bytes(), durable)
}

/// Reads the first and the last claim that a `forgotten` line is about.
pub fn forgotten(line: &[u8]) -> Option<(u64, u64)> {
    #[derive(Deserialize)]
    struct Frame {
        from: u64,
        n: u64,
    }
    let Frame { from, n } = serde_json::from_slice(line).ok()?;
    (1..=n).contains(&from).then_some((from, n))
}

/// What a `note` line is about.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Note {
    /// `torn`, `bad`, `lost` or `repeated` for bytes that were set aside; `accepted`; `compacted`.
    pub what: String,
    /// When it was written.
    pub at: Timestamp,
    /// Where the bytes were.
    #[serde(default)]
    pub offset: u64,
    /// How many there were.
    #[serde(default)]
    pub len: u64,
}

/// Reads a `note` line.
pub fn note(line: &[u8]) -> Option<Note> {
    serde_json::from_slice(line).ok()
}

/// Reads whose key a line names; the partner stands only on lines that begin or end something.
pub fn whose(line: &[u8]) -> Option<(IdempotencyKey, Option<PartnerName>)> {
    #[derive(Deserialize)]
    struct Frame {
        k: IdempotencyKey,
        #[serde(default)]
        partner: Option<PartnerName>,
    }
    let parsed = || serde_json::from_slice::<Frame>(line).ok().map(|frame| (frame.k, frame.partner));
    // A partner that stands elsewhere, or none, takes a parser.
    Head::read(line).and_then(Head::whose).or_else(parsed)
}

/// Appends the fields of a JSON object, each with a comma before it.
fn splice(line: &mut Vec<u8>, fields: &impl Serialize) {
    let start = line.len();
    serde_json::to_writer(&mut *line, fields).expect("facts have text keys and finite numbers");
    let closing = line.pop();
    assert_eq!((line[start], closing), (b'{', Some(b'}')), "facts are objects");
    line[start] = b',';
    line.truncate(if line.len() == start + 1 { start } else { line.len() });
}

fn seal(mut line: Vec<u8>, durable: u64) -> Vec<u8> {
    write!(line, ",\"d\":{durable}").expect("memory takes every write");
    let crc = crc32fast::hash(&line);
    writeln!(line, ",\"crc\":\"{crc:08x}\"}}").expect("memory takes every write");
    line
}

/// Reads the envelope of a line without its line break; `None` where the line is not what was written.
pub fn envelope(line: &[u8]) -> Option<Envelope<'_>> {
    let (body, seal) = line.split_at_checked(line.len().checked_sub(SEAL)?)?;
    let crc = seal.strip_prefix(b",\"crc\":\"")?.strip_suffix(b"\"}")?;
    let same = crc.iter().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(b))
        && u32::from_str_radix(str::from_utf8(crc).ok()?, 16) == Ok(crc32fast::hash(body));
    let after = body.strip_prefix(START).filter(|_| same)?;
    let end = after.iter().position(|b| *b == b'"')?;
    let n = after[end..].strip_prefix(b"\",\"n\":").and_then(leading_number);
    let digits = body.iter().rev().take_while(|b| b.is_ascii_digit()).count();
    let (rest, durable) = body.split_at(body.len() - digits);
    rest.ends_with(b",\"d\":").then_some(())?;
    Some(Envelope { t: str::from_utf8(&after[..end]).ok()?, n, durable: leading_number(durable)? })
}

fn leading_number(text: &[u8]) -> Option<u64> {
    let digits = text.iter().take_while(|b| b.is_ascii_digit()).count();
    let add = |number: u64, digit: &u8| number.checked_mul(10)?.checked_add(u64::from(digit - b'0'));
    text[..digits].iter().try_fold(0, add).filter(|_| digits > 0)
}

/// Reads the first line of a file, without its line break.
pub fn first_line(line: &[u8]) -> FirstLine {
    if !line.starts_with(b"{\"t\":\"ledger\",") {
        return FirstLine::Foreign;
    }
    let Ok(header) = serde_json::from_slice::<Header>(line) else {
        return FirstLine::Foreign;
    };
    // A newer version may also seal its lines in another way.
    if header.v > FORGETTING {
        return FirstLine::Newer(header.v);
    }
    let named = (1..=64).contains(&header.id.len()) && header.id.bytes().all(|b| b.is_ascii_alphanumeric());
    if named && header.v > 0 && envelope(line).is_some() { FirstLine::Ledger(header) } else { FirstLine::Foreign }
}

/// Reads which operation a claim's line is about.
pub fn identity(line: &[u8]) -> Option<Identity> {
    Head::read(line).and_then(Head::identity).or_else(|| serde_json::from_slice(line).ok())
}

/// Returns whether a line names this key; `None` where it names none.
pub fn is_about(line: &[u8], key: &IdempotencyKey) -> Option<bool> {
    match Head::read(line) {
        Some(head) => Some(head.key == key.as_str()),
        None => whose(line).map(|(other, _)| other == *key),
    }
}

/// Reads the verdict of a `settled` or `resolved` line.
pub fn verdict(line: &[u8]) -> Option<Verdict> {
    #[derive(Deserialize)]
    struct Frame {
        verdict: Verdict,
    }
    let parsed = || serde_json::from_slice::<Frame>(line).ok().map(|frame| frame.verdict);
    Head::read(line).and_then(Head::verdict).or_else(parsed)
}

/// Reads a fact with its key from a line without its line break; fields of newer versions are passed over.
///
/// `None` where the line is damaged, is no fact, or lacks what this version needs.
pub fn fact(line: &[u8]) -> Option<(IdempotencyKey, Recorded)> {
    #[derive(Deserialize)]
    struct Frame {
        k: IdempotencyKey,
        at: Timestamp,
    }
    let envelope = envelope(line)?;
    // Checked once, and not by the parser at each text.
    let text = str::from_utf8(line).ok()?;
    let parsed = || serde_json::from_str::<Frame>(text).ok().map(|frame| (frame.k, frame.at));
    let (k, at) = Head::read(line).and_then(Head::frame).or_else(parsed)?;
    let fact = match envelope.t {
        "opened" => Fact::Opened(serde_json::from_str::<OpenedLine<'_>>(text).ok()?.into_fact()?.into()),
        "started" => Fact::Started(serde_json::from_str(text).ok()?),
        "finished" => Fact::Finished(Arc::new(serde_json::from_str(text).ok()?)),
        "asked" => Fact::Asked(serde_json::from_str(text).ok()?),
        "waiting" => Fact::Waiting(serde_json::from_str(text).ok()?),
        "settled" => Fact::Settled(Arc::new(SettledLine::read(text)?)),
        "reopened" => Fact::Reopened(Arc::new(serde_json::from_str(text).ok()?)),
        "resolved" => Fact::Resolved(Arc::new(serde_json::from_str(text).ok()?)),
        _ => return None,
    };
    Some((k, Recorded { n: envelope.n?, at, steady: None, fact }))
}
