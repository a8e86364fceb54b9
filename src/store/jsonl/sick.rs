//! A sync that failed, and who hears of it.
//!
//! The system tells it once. A later sync of the same says that all is well, whatever is on the disk; so what failed is
//! written down beside the ledger, and nothing is sent until somebody has looked at the disk.

use super::disk::write_all;
use super::files;
use super::finding::{Finding, Kind};
use super::place::{Place, failed, is_not_ours, open_or_make};
use super::this_process;
use crate::store::StoreError;
use nix::libc;
use serde::Deserialize;
use std::fs;
use std::io;
use std::path::Path;

/// What the file says that a failed sync leaves.
#[derive(Deserialize)]
struct Sick {
    #[serde(default)]
    from: u64,
}

/// Returns the finding that an earlier sync failed.
pub fn sick(place: &Place) -> Result<Option<Finding>, StoreError> {
    let path = place.sick();
    match fs::read(&path) {
        Ok(bytes) => {
            // A file that cannot be understood says as much: all of the ledger may be concerned.
            let byte = serde_json::from_slice(&bytes).map_or(0, |Sick { from }| from);
            Ok(Some(Finding { kind: Kind::Sick, line: 0, byte, len: 0, n: None, key: None }))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(failed("read", &path, error)),
    }
}

/// Tells later processes, to whom the system reports nothing any more, that the bytes `from..to` could not be synced.
///
/// What an earlier one has told stays told.
pub fn tell_sick(place: &Place, boot: &str, source: &io::Error, (from, to): (u64, u64)) {
    let from = sick(place).map_or(0, |earlier| earlier.map_or(from, |earlier| earlier.byte.min(from)));
    let sick = serde_json::json!({ "from": from, "to": to, "error": source.to_string(), "boot": boot });
    // Padded, so that it takes the place of one before it; what is left of a longer one cannot be understood.
    let text = format!("{:<511}\n", sick.to_string());
    // Where it cannot be written, this process still refuses; the error that is returned says what happened.
    drop(
        open_or_make(&place.sick(), place.ledger())
            .and_then(|file| write_all(&file, text.as_bytes(), 0).and_then(|()| files::sync_all(&file))),
    );
}

/// Returns whether an error of a sync says something about the disk. Others, such as that a share wants the right to
/// write for it, do not.
pub fn is_of_the_disk(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EIO | libc::ENOSPC | libc::EDQUOT))
}

/// Makes the names in a folder of the ledger durable. Where the disk fails, later processes hear of it.
///
/// # Errors
/// The folder cannot be synced; [`StoreError::Sick`] where a sync has failed before: this one would say that all is well.
pub fn sync_names(place: &Place, folder: &Path) -> Result<(), StoreError> {
    if place.sick().exists() {
        return Err(StoreError::Sick { path: place.sick() });
    }
    sync_told(place, folder)
}

/// Makes the ledger's name durable, and those of all folders above it: whoever made one of them may have died before it
/// was.
///
/// # Errors
/// As [`sync_names`].
pub fn sync_name(place: &Place) -> Result<(), StoreError> {
    sync_names(place, &place.folder())?;
    sync_above(place)
}

fn sync_above(place: &Place) -> Result<(), StoreError> {
    for folder in place.folder().ancestors().skip(1) {
        match sync_told(place, if folder == Path::new("") { Path::new(".") } else { folder }) {
            // Nobody makes the folders of a ledger in such a one.
            Err(StoreError::Io { source, .. }) if is_not_ours(&source) => break,
            synced => synced?,
        }
    }
    Ok(())
}

fn sync_told(place: &Place, folder: &Path) -> Result<(), StoreError> {
    files::sync_folder(folder).map_err(|source| {
        if is_of_the_disk(&source) {
            let end = fs::metadata(place.ledger()).map_or(0, |found| found.len());
            tell_sick(place, &this_process().boot, &source, (end, end));
        }
        failed("sync the folder", folder, source)
    })
}

/// Makes all names durable once more, and takes away what tells of a failed sync. The bytes are durable.
///
/// A name is written again where its folder is altered: that is what a sync after a failed one needs.
///
/// # Errors
/// A folder cannot be synced: it is still told.
pub fn recover(place: &Place) -> Result<(), StoreError> {
    sync_above(place)?;
    let bodies = place.blobs();
    if bodies.is_dir() {
        let scratch = bodies.join(format!("{:016x}.new", fastrand::u64(..)));
        open_or_make(&scratch, &bodies)
            .and_then(|_| files::remove(&scratch))
            .map_err(|error| failed("write in", &bodies, error))?;
        sync_told(place, &bodies)?;
    }
    files::remove(&place.sick()).map_err(|error| failed("remove", &place.sick(), error))?;
    sync_told(place, &place.folder())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_one_failed_sync_has_told_another_does_not_take_back() {
        let folder = tempfile::tempdir().expect("a folder");
        let place = Place::find(&folder.path().join("l.jsonl")).expect("a place");
        assert_eq!(sick(&place).expect("readable"), None);
        let told = |from, words: &str| {
            tell_sick(&place, "here", &io::Error::other(words), (from, 900));
            sick(&place).expect("readable").expect("told").byte
        };
        assert_eq!(told(400, "the disk died, and it took a long time to say so"), 400);
        assert_eq!(told(700, "it died"), 400);
        assert_eq!(told(300, "it died"), 300);
        fs::write(place.sick(), "{").expect("writes");
        assert_eq!(told(500, "it died"), 0, "nobody knows what that one said");
    }
}
