//! The calls that a journal makes on its file, behind a trait so that tests can make them fail.

use super::files;
use std::fmt;
use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};

/// What a file is at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stat {
    /// Its length in bytes.
    pub len: u64,
    /// How much disk it has, in bytes.
    pub allocated: u64,
    /// Which file it is: device and inode.
    pub identity: (u64, u64),
}

/// A file that a journal is kept in.
pub trait Disk: fmt::Debug + Send + Sync {
    /// Looks at the file.
    fn stat(&self) -> io::Result<Stat>;

    /// Reads at most `buffer.len()` bytes; 0 at the end.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;

    /// Writes at least one byte of `bytes`.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize>;

    /// Cuts the file.
    fn truncate(&self, len: u64) -> io::Result<()>;

    /// Takes disk for `len` bytes from `offset` without changing the file's length.
    fn reserve(&self, offset: u64, len: u64) -> io::Result<()>;

    /// Makes all that was written before durable.
    fn sync(&self) -> io::Result<()>;
}

impl Disk for File {
    fn stat(&self) -> io::Result<Stat> {
        self.metadata().map(|found| stat_of(&found))
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        FileExt::read_at(self, buffer, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        files::write_at(self, bytes, offset)
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        files::truncate(self, len)
    }

    fn reserve(&self, offset: u64, len: u64) -> io::Result<()> {
        loop {
            match files::reserve(self, offset, len) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                done => return done,
            }
        }
    }

    fn sync(&self) -> io::Result<()> {
        files::sync_data(self)
    }
}

/// Takes what a journal needs from a file's metadata.
pub fn stat_of(found: &std::fs::Metadata) -> Stat {
    // Source: POSIX, st_blocks on Linux and macOS counts units of 512 bytes.
    Stat { len: found.len(), allocated: found.blocks() * 512, identity: (found.dev(), found.ino()) }
}

/// Reads exactly the bytes `from..to`.
///
/// # Errors
/// Also where the file ends before `to`.
pub fn read_range(disk: &dyn Disk, from: u64, to: u64) -> io::Result<Vec<u8>> {
    let len = usize::try_from(to.saturating_sub(from)).map_err(|_| io::ErrorKind::FileTooLarge)?;
    let mut bytes = vec![0; len];
    let mut done = 0;
    while done < len {
        match disk.read_at(&mut bytes[done..], from + done as u64) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(read) => done += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(bytes)
}

/// Writes all of `bytes` at `offset`.
pub fn write_all(disk: &dyn Disk, bytes: &[u8], offset: u64) -> io::Result<()> {
    let mut done = 0;
    while done < bytes.len() {
        match disk.write_at(&bytes[done..], offset + done as u64) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => done += written,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
