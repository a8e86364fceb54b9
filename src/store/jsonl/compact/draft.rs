//! The new file of a compaction, until it takes the place of the old one.

use super::held::Held;
use crate::store::StoreError;
use crate::store::format::{self, Header};
use crate::store::jsonl::disk::write_all;
use crate::store::jsonl::files;
use crate::store::jsonl::place::{Place, failed, make};
use crate::store::jsonl::room;
use std::fs::File;
use std::os::unix::fs::MetadataExt;

/// How much is written at once, in bytes.
const CHUNK: usize = 1 << 20;

/// The new file.
pub struct Draft {
    file: File,
    buffer: Vec<u8>,
    /// Where the next line begins.
    pub end: u64,
    /// The offset up to which it is durable.
    pub durable: u64,
}

impl Draft {
    /// Begins it with a header, owned and readable as the old one. `forgets`: operations will be missing in it.
    pub fn begin(held: &Held<'_>, forgets: bool) -> Result<Draft, StoreError> {
        let (place, old) = (held.place, &held.marked);
        let path = place.draft();
        let begin = || -> std::io::Result<File> {
            match files::remove(&path) {
                // What another compaction left that was killed, or a link to somewhere else.
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
            let file = make(&path, place.ledger())?;
            let found = old.metadata()?;
            // Whoever owns the ledger keeps it, also where an administrator compacts it.
            if file.metadata()?.uid() != found.uid() || file.metadata()?.gid() != found.gid() {
                std::os::unix::fs::fchown(&file, Some(found.uid()), Some(found.gid()))?;
            }
            file.set_permissions(found.permissions())?;
            Ok(file)
        };
        let file = begin().map_err(|error| failed("write", &path, error))?;
        let mut draft = Draft { file, buffer: Vec::with_capacity(CHUNK), end: 0, durable: 0 };
        let Header { v, id, generation } = held.journal.header().clone();
        let v = if forgets { v.max(format::FORGETTING) } else { v };
        let header = Header { v, id, generation: generation + 1 };
        draft.line(place, &format::header_line(&header, held.options.now))?;
        Ok(draft)
    }

    /// Adds a line.
    pub fn line(&mut self, place: &Place, line: &[u8]) -> Result<(), StoreError> {
        self.buffer.extend_from_slice(line);
        self.end += line.len() as u64;
        if self.buffer.len() >= CHUNK { self.flush(place) } else { Ok(()) }
    }

    fn flush(&mut self, place: &Place) -> Result<(), StoreError> {
        let at = self.end - self.buffer.len() as u64;
        write_all(&self.file, &self.buffer, at).map_err(|error| failed("write", &place.draft(), error))?;
        self.buffer.clear();
        Ok(())
    }

    /// Keeps the room that claims under way need for their outcomes, as the old file did.
    pub fn reserve(&self, place: &Place) -> Result<(), StoreError> {
        room::reserve(&self.file, self.end, &place.draft(), &mut 0).map(drop)
    }

    /// Makes all lines durable.
    pub fn sync(&mut self, place: &Place) -> Result<(), StoreError> {
        self.flush(place)?;
        files::sync_data(&self.file).map_err(|source| StoreError::Unsynced { path: place.draft(), source })?;
        self.durable = self.end;
        Ok(())
    }
}
