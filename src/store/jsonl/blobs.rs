//! Bodies that are too long for a line, each in a file named by its SHA-256.

use super::disk::{stat_of, write_all};
use super::files;
use super::place::{Place, failed, is_not_ours, make, make_folder_beside};
use super::sick::sync_names;
use crate::engine::facts::StoredBody;
use crate::store::StoreError;
use memchr::memmem::Finder;
use sha2::{Digest, Sha256};
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

/// The longest body that is kept in a line, in bytes as the line writes them.
pub const INLINE_MAX: usize = 16 * 1024;
/// What the name of a file ends with that is still written.
const DRAFT: &str = ".new";
/// How often a body is written whose draft a compaction removes: each time takes another one.
const WRITE_TRIES: u32 = 8;

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

/// Returns whether a body lies, or has to be put, beside the ledger.
pub fn lies_outside(body: &StoredBody) -> bool {
    matches!(body, StoredBody::Blob { .. }) || is_long(body)
}

/// A body that was put beside the ledger. No line names it yet.
#[derive(Debug)]
pub struct Kept {
    /// What a line says in its place.
    pub body: StoredBody,
    path: PathBuf,
    /// Open, so that no other file can get its inode number meanwhile.
    file: File,
}

impl Kept {
    /// Returns whether the file that was made durable is still there: to be asked under the append lock, before the line
    /// that names it is written.
    ///
    /// A compaction removes, under that lock, what no line names. What stands under the same name then was made by
    /// another writer, who may not have synced it.
    pub fn is_there(&self) -> bool {
        match (self.file.metadata(), fs::metadata(&self.path)) {
            (Ok(ours), Ok(there)) => stat_of(&ours).identity == stat_of(&there).identity,
            _ => false,
        }
    }
}

/// Keeps a body beside the ledger, durable when this returns.
pub fn keep(place: &Place, bytes: &[u8]) -> Result<Kept, StoreError> {
    let sha = sha256(bytes);
    let folder = place.blobs();
    let path = folder.join(&sha);
    let file = put(place, &path, bytes)?;
    sync_names(place, &folder)?;
    Ok(Kept { body: StoredBody::Blob { sha: sha.into(), len: bytes.len() as u64 }, path, file })
}

fn put(place: &Place, path: &Path, bytes: &[u8]) -> Result<File, StoreError> {
    let folder = place.blobs();
    for left in (0..WRITE_TRIES).rev() {
        make_folder_beside(place, &folder)?;
        name(place, &folder)?;
        if let Ok(file) = renew(path, bytes) {
            return Ok(file);
        }
        match write(&folder, path, bytes) {
            Ok(file) => return Ok(file),
            // A compaction took the draft for that of a dead writer.
            Err(error) if error.kind() == io::ErrorKind::NotFound && left > 0 => {}
            Err(error) => return Err(failed("keep a body in", path, error)),
        }
    }
    unreachable!("the last try ends in one way or the other")
}

/// Makes the name of the folder durable before the first body is put into it. Where there is one, that was done: whoever
/// made the folder may have died, or failed, before, and then has put nothing there.
fn name(place: &Place, folder: &Path) -> Result<(), StoreError> {
    let mut names = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.file_name());
    if names.any(|name| name.to_str().is_some_and(|name| is_hex(name, 64))) {
        return Ok(());
    }
    match sync_names(place, &place.folder()) {
        // Nobody makes anything in such a one.
        Err(StoreError::Io { source, .. }) if is_not_ours(&source) => Ok(()),
        synced => synced,
    }
}

/// Makes a body that is there already durable: the process that put it there may not have synced it yet.
fn renew(path: &Path, bytes: &[u8]) -> io::Result<File> {
    let file = File::open(path)?;
    let mut kept = Vec::with_capacity(bytes.len());
    (&file).take(bytes.len() as u64 + 1).read_to_end(&mut kept)?;
    if kept != bytes {
        return Err(io::ErrorKind::InvalidData.into());
    }
    files::sync_all(&file)?;
    Ok(file)
}

fn write(folder: &Path, path: &Path, bytes: &[u8]) -> io::Result<File> {
    let draft = folder.join(format!("{:016x}{DRAFT}", fastrand::u64(..)));
    let written = make(&draft, folder).and_then(|file| {
        write_all(&file, bytes, 0)?;
        files::sync_all(&file)?;
        files::rename(&draft, path)?;
        Ok(file)
    });
    if written.is_err() {
        // What is left of a draft is named by nothing.
        drop(files::remove(&draft));
    }
    written
}

/// What stands before the name of a body. The search for it is prepared once.
static BEFORE: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(b"\"blob\":\"sha256:"));

/// Returns whether a line names a body.
pub fn are_named(line: &[u8]) -> bool {
    BEFORE.find(line).is_some()
}

/// Returns the names of the bodies that a line names.
pub fn named(line: &[u8]) -> impl Iterator<Item = &str> {
    BEFORE.find_iter(line).filter_map(|at| {
        let from = at + BEFORE.needle().len();
        std::str::from_utf8(line.get(from..from + 64)?).ok()
    })
}

/// Returns the names of all bodies, and of the drafts whose writers work on them or died. Other files are nobody's here.
pub fn all(place: &Place) -> Result<BTreeSet<Box<str>>, StoreError> {
    let folder = place.blobs();
    let refused = |error| failed("read the folder", &folder, error);
    let mut names = BTreeSet::new();
    let entries = match fs::read_dir(&folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(names),
        entries => entries.map_err(refused)?,
    };
    for entry in entries {
        let name = entry.map_err(refused)?.file_name();
        names.extend(name.to_str().filter(|name| is_ours(name)).map(Box::from));
    }
    Ok(names)
}

fn is_hex(text: &str, len: usize) -> bool {
    text.len() == len && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

fn is_ours(name: &str) -> bool {
    is_hex(name, 64) || name.strip_suffix(DRAFT).is_some_and(|number| is_hex(number, 16))
}

/// Removes a body or a draft, which no line may name. The append lock is held. Returns whether it was there.
pub fn remove(place: &Place, name: &str) -> Result<bool, StoreError> {
    let path = place.blobs().join(name);
    match files::remove(&path) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(failed("remove the body in", &path, error)),
    }
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
        let StoredBody::Blob { sha, len } = keep(&place, b"abc").expect("keeps").body else { panic!("no blob") };
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
    fn a_body_that_was_removed_or_replaced_is_not_the_one_that_was_kept() {
        let folder = tempfile::tempdir().expect("a folder");
        let place = Place::find(&folder.path().join("l.jsonl")).expect("a place");
        let kept = keep(&place, b"abc").expect("keeps");
        assert!(kept.is_there());
        assert!(keep(&place, b"abc").expect("again").is_there());
        assert!(kept.is_there(), "the same file");
        let sha = sha256(b"abc");
        assert!(remove(&place, &sha).expect("removes"));
        assert!(!remove(&place, &sha).expect("it is gone"));
        assert!(!kept.is_there());
        // Its maker may not have made it durable, and its inode number may be the same.
        assert!(keep(&place, b"abc").expect("keeps").is_there());
        assert!(!kept.is_there());
    }

    #[test]
    fn only_bodies_and_their_drafts_are_listed() {
        let folder = tempfile::tempdir().expect("a folder");
        let place = Place::find(&folder.path().join("l.jsonl")).expect("a place");
        assert!(all(&place).expect("nothing").is_empty());
        keep(&place, b"abc").expect("keeps");
        let draft = "0123456789abcdef.new";
        for name in [draft, "README", "x.new", &"A".repeat(64), &"0".repeat(63)] {
            fs::write(place.blobs().join(name), "").expect("writes");
        }
        let names: Vec<_> = all(&place).expect("a folder").into_iter().collect();
        assert_eq!(names, [Box::from(draft), sha256(b"abc").into()]);
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
