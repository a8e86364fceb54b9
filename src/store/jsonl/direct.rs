//! The disk under a file, past the system's cache.

use super::files;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// What an unbuffered read or write must be aligned to, in bytes. Source: open(2), O_DIRECT; no block is longer where it
/// is to be had.
pub const BLOCK: u64 = 4_096;
/// How much is read or written at once, in bytes.
pub const CHUNK: u64 = 1 << 20;

/// A file whose reads and writes pass the cache by.
pub struct Direct {
    file: File,
    /// Holds a part that begins at a multiple of [`BLOCK`] in memory, as such reads and writes need it.
    room: Vec<u8>,
    start: usize,
}

impl Direct {
    /// Opens a file that is there; `None` where the file system has no disk below it.
    pub fn open(path: &Path) -> Option<Direct> {
        let file = unbuffered()?.read(true).write(true).open(path).ok()?;
        let room = vec![0; (CHUNK + BLOCK) as usize];
        let start = room.as_ptr().align_offset(BLOCK as usize);
        Some(Direct { file, room, start })
    }

    /// Reads what is there from `at` on, a multiple of [`BLOCK`]; nothing at the end.
    pub fn read(&mut self, at: u64) -> io::Result<&[u8]> {
        let aligned = &mut self.room[self.start..self.start + CHUNK as usize];
        loop {
            match self.file.read_at(aligned, at) {
                Ok(read) => return Ok(&aligned[..read]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Writes at most [`CHUNK`] bytes at `at`, a multiple of [`BLOCK`]. The last block is filled up with zeros.
    pub fn write(&mut self, bytes: &[u8], at: u64) -> io::Result<()> {
        let len = bytes.len().next_multiple_of(BLOCK as usize);
        let aligned = &mut self.room[self.start..self.start + len];
        aligned[..bytes.len()].copy_from_slice(bytes);
        aligned[bytes.len()..].fill(0);
        loop {
            match files::write_at(&self.file, aligned, at) {
                Ok(written) if written == len => return Ok(()),
                Ok(_) => return Err(io::ErrorKind::WriteZero.into()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

#[cfg(target_os = "linux")]
fn unbuffered() -> Option<OpenOptions> {
    use std::os::unix::fs::OpenOptionsExt;
    let mut options = OpenOptions::new();
    options.custom_flags(nix::libc::O_DIRECT);
    Some(options)
}

#[cfg(not(target_os = "linux"))]
fn unbuffered() -> Option<OpenOptions> {
    None
}
