//! Bodies that are too long for a line, each in a file named by its SHA-256.

use super::place::{Place, failed, make_folder, private, sync_folder};
use crate::engine::facts::StoredBody;
use crate::store::StoreError;
use sha2::{Digest, Sha256};
use std::fmt::Write as _;
use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::path::Path;
use std::time::{Duration, SystemTime};

/// The longest body that is kept in a line, in bytes as the line writes them.
pub const INLINE_MAX: usize = 16 * 1024;

/// Returns the name of a body: 64 hex digits.
pub fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().fold(String::with_capacity(64), |mut text, byte| {
        write!(text, "{byte:02x}").expect("memory takes every write");
        text
    })
}

/// Returns the bytes of a body that has its own; `None` for a blob or a hash.
pub fn inline(body: &StoredBody) -> Option<&[u8]> {
    match body {
        StoredBody::Text(text) => Some(text.as_bytes()),
        StoredBody::Bytes(bytes) => Some(bytes),
        StoredBody::Blob { .. } | StoredBody::Hash { .. } => None,
    }
}

/// Returns whether a body is too long for a line.
///
/// Control characters count as the six bytes that JSON writes them with.
pub fn is_long(body: &StoredBody) -> bool {
    match body {
        StoredBody::Text(text) if text.len() <= INLINE_MAX => {
            let control = text.bytes().filter(|byte| *byte < 0x20 || matches!(byte, b'"' | b'\\')).count();
            // Twice, so that text with quotes and line breaks as people write it stays readable in its line.
            text.len() + 5 * control > 2 * INLINE_MAX
        }
        StoredBody::Text(_) => true,
        StoredBody::Bytes(bytes) => bytes.len() > INLINE_MAX,
        StoredBody::Blob { .. } | StoredBody::Hash { .. } => false,
    }
}

/// Keeps a body beside the ledger, durable when this returns, and returns what a line says in its place.
pub fn keep(place: &Place, bytes: &[u8]) -> Result<StoredBody, StoreError> {
    let sha = sha256(bytes);
    let folder = place.blobs();
    make_folder(&folder)?;
    let path = folder.join(&sha);
    // Another process may have put it there and not synced it yet.
    if !fs::read(&path).is_ok_and(|kept| kept == bytes) || renew(&path).is_err() {
        write(&folder, &path, bytes)?;
    }
    sync_folder(&folder)?;
    Ok(StoredBody::Blob { sha: sha.into(), len: bytes.len() as u64 })
}

/// Makes a body durable, and young, so that no compaction removes it before a line names it.
fn renew(path: &Path) -> std::io::Result<()> {
    let file = File::open(path)?;
    file.set_modified(SystemTime::now())?;
    file.sync_all()
}

fn write(folder: &Path, path: &Path, bytes: &[u8]) -> Result<(), StoreError> {
    let draft = folder.join(format!("{:016x}.new", fastrand::u64(..)));
    let written = private(OpenOptions::new().write(true).create_new(true))
        .open(&draft)
        .and_then(|mut file| file.write_all(bytes).and_then(|()| file.sync_all()))
        .and_then(|()| fs::rename(&draft, path));
    written.map_err(|error| {
        // What is left of a draft is named by nothing; removing it only gives room back.
        drop(fs::remove_file(&draft));
        failed("keep a body in", path, error)
    })
}

/// Returns the names of the bodies that a line names.
pub fn named(line: &[u8]) -> impl Iterator<Item = &str> {
    const BEFORE: &[u8] = b"\"blob\":\"sha256:";
    memchr::memmem::find_iter(line, BEFORE).filter_map(|at| {
        let from = at + BEFORE.len();
        std::str::from_utf8(line.get(from..from + 64)?).ok()
    })
}

/// Removes bodies that were put there at least `age` ago. Returns how many were there.
pub fn remove<'a>(place: &Place, names: impl Iterator<Item = &'a Box<str>>, age: Duration) -> Result<u64, StoreError> {
    let mut removed = 0;
    for name in names {
        let path = place.blobs().join(&**name);
        let modified = fs::metadata(&path).and_then(|found| found.modified());
        // One whose time lies in the future is young.
        let is_old = modified.is_ok_and(|then| then.elapsed().is_ok_and(|elapsed| elapsed >= age));
        if is_old {
            fs::remove_file(&path).map_err(|error| failed("remove the body in", &path, error))?;
            removed += 1;
        }
    }
    Ok(removed)
}

/// Reads a body back.
///
/// # Errors
/// [`StoreError::BlobDamaged`] where it is not what was kept, [`StoreError::Io`] where it cannot be read.
pub fn read(place: &Place, sha: &str, len: u64) -> Result<Vec<u8>, StoreError> {
    let path = place.blobs().join(sha);
    let bytes = fs::read(&path).map_err(|error| failed("read the body in", &path, error))?;
    if bytes.len() as u64 != len || sha256(&bytes) != sha {
        return Err(StoreError::BlobDamaged { path });
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_is_kept_once_and_checked_when_read() {
        let folder = tempfile::tempdir().expect("a folder");
        let place = Place::find(&folder.path().join("l.jsonl")).expect("a place");
        let Ok(StoredBody::Blob { sha, len }) = keep(&place, b"abc") else { panic!("no blob") };
        // Source: FIPS 180-2, appendix B.1.
        assert_eq!(&*sha, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        keep(&place, b"abc").expect("again");
        assert_eq!(fs::read_dir(place.blobs()).expect("a folder").count(), 1);
        assert_eq!(read(&place, &sha, len).expect("reads"), b"abc");
        fs::write(place.blobs().join(&*sha), b"abd").expect("writes");
        assert!(matches!(read(&place, &sha, len), Err(StoreError::BlobDamaged { .. })));
        keep(&place, b"abc").expect("mends it");
        assert_eq!(read(&place, &sha, len).expect("reads"), b"abc");
        assert!(matches!(read(&place, &"0".repeat(64), 1), Err(StoreError::Io { .. })));
    }

    #[test]
    fn what_does_not_fit_into_a_line_is_long() {
        let text = |byte: u8, len: usize| StoredBody::Text(String::from(byte as char).repeat(len).into());
        assert!(!is_long(&text(b'x', INLINE_MAX)));
        assert!(is_long(&text(b'x', INLINE_MAX + 1)));
        assert!(is_long(&text(1, INLINE_MAX)));
        assert!(!is_long(&text(b'"', 3_000)));
        assert!(is_long(&StoredBody::Bytes(vec![0; INLINE_MAX + 1].into())));
        assert!(!is_long(&StoredBody::Bytes(vec![0; INLINE_MAX].into())));
    }
}
