//! Byte ranges of one lock file, held by its open file description (Linux `F_OFD_*`).
//!
//! Byte 0 is the right to append; byte 2^40 + n says that claim n is alive.

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, fcntl};
use nix::libc;
use std::fs::File;
use std::io;
use std::path::Path;

const APPEND: u64 = 0;
const LIVENESS: u64 = 1 << 40;

/// The locks of one open lock file.
#[derive(Debug)]
pub struct Kernel(File);

/// How a range is held.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Shared,
    Alone,
    Free,
}

impl Kernel {
    pub fn new(file: File, _path: &Path) -> Kernel {
        Kernel(file)
    }

    /// Takes the right to append; false while somebody else has it.
    pub fn append_alone(&self) -> io::Result<bool> {
        self.set(Kind::Alone, APPEND)
    }

    /// Keeps everybody from appending; false while somebody appends.
    pub fn append_shared(&self) -> io::Result<bool> {
        self.set(Kind::Shared, APPEND)
    }

    pub fn append_free(&self) -> io::Result<()> {
        self.set(Kind::Free, APPEND).map(drop)
    }

    /// Makes claim `n` alive; false where somebody holds it already.
    pub fn hold(&self, n: u64) -> io::Result<bool> {
        self.set(Kind::Alone, LIVENESS + n)
    }

    pub fn release(&self, n: u64) -> io::Result<()> {
        self.set(Kind::Free, LIVENESS + n).map(drop)
    }

    /// Returns whether somebody else holds claim `n`. Not for claims held here: it would let them go.
    pub fn is_held(&self, n: u64) -> io::Result<bool> {
        // Asked as a reader, so that two who ask at once do not take each other for the owner.
        let free = self.set(Kind::Shared, LIVENESS + n)?;
        if free {
            self.release(n)?;
        }
        Ok(!free)
    }

    fn set(&self, kind: Kind, byte: u64) -> io::Result<bool> {
        let kind = match kind {
            Kind::Shared => libc::F_RDLCK,
            Kind::Alone => libc::F_WRLCK,
            Kind::Free => libc::F_UNLCK,
        };
        let range = libc::flock {
            l_type: kind as libc::c_short,
            l_whence: libc::SEEK_SET as libc::c_short,
            l_start: byte as libc::off_t,
            l_len: 1,
            l_pid: 0,
        };
        match fcntl(&self.0, FcntlArg::F_OFD_SETLK(&range)) {
            Ok(_) => Ok(true),
            Err(Errno::EAGAIN | Errno::EACCES) => Ok(false),
            Err(errno) => Err(errno.into()),
        }
    }
}
