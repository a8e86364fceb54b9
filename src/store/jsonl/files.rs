//! The calls that alter the names and the bytes of a ledger's files: all of them are made here.
//!
//! They are the system's own. Tests watch each one, let it fail, and cut the power behind it.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt};
use std::path::Path;

/// A call that is about to be made.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(not(test), expect(dead_code, reason = "tests look at what is called"))]
pub enum Call<'a> {
    /// Opens a file, which may make it or cut it to nothing.
    Open(&'a Path),
    /// Writes to a file, from an offset on.
    Write(&'a File, &'a [u8], u64),
    /// Gives a file another length.
    Truncate(&'a File, u64),
    /// Takes disk for a file.
    Reserve(&'a File),
    /// Makes what was written to a file durable.
    Sync(&'a File),
    /// Makes the names in a folder durable.
    SyncFolder(&'a Path),
    /// Gives a file the second name, in the place of whatever had it.
    Rename(&'a Path, &'a Path),
    /// Removes a name.
    Remove(&'a Path),
    /// Makes a folder.
    MakeFolder(&'a Path),
}

/// Opens a file that may be made, or cut to nothing.
pub fn open(options: &OpenOptions, path: &Path) -> io::Result<File> {
    watched(Call::Open(path), || options.open(path))
}

/// Writes at least one byte of `bytes`.
pub fn write_at(file: &File, bytes: &[u8], offset: u64) -> io::Result<usize> {
    let bytes = shortened(bytes);
    watched(Call::Write(file, bytes, offset), || file.write_at(bytes, offset))
}

/// Gives a file another length.
pub fn truncate(file: &File, len: u64) -> io::Result<()> {
    watched(Call::Truncate(file, len), || file.set_len(len))
}

/// Takes disk for `len` bytes from `offset` without changing the file's length.
#[cfg(target_os = "linux")]
pub fn reserve(file: &File, offset: u64, len: u64) -> io::Result<()> {
    use nix::fcntl::{FallocateFlags, fallocate};
    let signed = |number: u64| i64::try_from(number).map_err(|_| io::Error::from(io::ErrorKind::FileTooLarge));
    let (offset, len) = (signed(offset)?, signed(len)?);
    watched(Call::Reserve(file), || Ok(fallocate(file, FallocateFlags::FALLOC_FL_KEEP_SIZE, offset, len)?))
}

/// Takes no disk: there is no call for that which leaves the file's length alone.
#[cfg(not(target_os = "linux"))]
pub fn reserve(file: &File, _offset: u64, _len: u64) -> io::Result<()> {
    watched(Call::Reserve(file), || Err(io::ErrorKind::Unsupported.into()))
}

/// Makes durable what was written to a file, and its length.
pub fn sync_data(file: &File) -> io::Result<()> {
    watched(Call::Sync(file), || file.sync_data())
}

/// Makes durable what was written to a file, and all that the system knows about it.
pub fn sync_all(file: &File) -> io::Result<()> {
    watched(Call::Sync(file), || file.sync_all())
}

/// Makes the names in a folder durable.
pub fn sync_folder(folder: &Path) -> io::Result<()> {
    watched(Call::SyncFolder(folder), || File::open(folder)?.sync_all())
}

/// Gives a file another name, in the place of whatever has it.
pub fn rename(from: &Path, to: &Path) -> io::Result<()> {
    watched(Call::Rename(from, to), || fs::rename(from, to))
}

/// Removes a file's name.
pub fn remove(path: &Path) -> io::Result<()> {
    watched(Call::Remove(path), || fs::remove_file(path))
}

/// Makes a folder for this user only.
pub fn make_folder(folder: &Path) -> io::Result<()> {
    watched(Call::MakeFolder(folder), || DirBuilder::new().mode(0o700).create(folder))
}

/// Returns the magic number of the file system that a folder lies on.
#[cfg(target_os = "linux")]
pub fn file_system(folder: &Path) -> io::Result<u32> {
    if let Some(magic) = pretended() {
        return Ok(magic);
    }
    // The field is wider and signed on some platforms; the magic number is its low 32 bits.
    Ok((nix::sys::statfs::statfs(folder)?.filesystem_type().0 as u64 & 0xffff_ffff) as u32)
}

/// Returns no known number: there is none on other systems.
#[cfg(not(target_os = "linux"))]
pub fn file_system(_folder: &Path) -> io::Result<u32> {
    Ok(pretended().unwrap_or(0))
}

/// A new file that is written from its start to its end.
#[derive(Debug)]
pub struct Written {
    file: File,
    end: u64,
}

impl Written {
    /// Begins at the start of a file.
    pub fn new(file: File) -> Written {
        Written { file, end: 0 }
    }

    /// Returns the file.
    pub fn into_file(self) -> File {
        self.file
    }
}

impl io::Write for Written {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = write_at(&self.file, bytes, self.end)?;
        self.end += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Lets whoever watches this thread watch what `work` does on another one, too.
#[cfg(not(test))]
pub fn on_a_thread<T>(work: impl FnOnce() -> T + Send) -> impl FnOnce() -> T + Send {
    work
}

#[cfg(not(test))]
fn watched<T>(_call: Call<'_>, make: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    make()
}

#[cfg(not(test))]
fn shortened(bytes: &[u8]) -> &[u8] {
    bytes
}

#[cfg(not(test))]
const fn pretended() -> Option<u32> {
    None
}

#[cfg(test)]
pub use watching::{Watch, on_a_thread, watch};
#[cfg(test)]
use watching::{pretended, shortened, watched};

#[cfg(test)]
mod watching {
    use super::Call;
    use std::cell::RefCell;
    use std::io;
    use std::sync::Arc;

    /// Sees all calls that a thread makes.
    pub trait Watch: Send + Sync {
        /// Is told of a call before it is made; with an error it is not.
        fn before(&self, call: Call<'_>) -> io::Result<()>;

        /// Is told of a call that was made and went well.
        fn after(&self, call: Call<'_>);

        /// Returns how much of so many bytes is written by the next call.
        fn room(&self, len: usize) -> usize;

        /// Returns the magic number of the file system that everything seems to lie on.
        fn file_system(&self) -> Option<u32> {
            None
        }
    }

    thread_local! {
        static WATCH: RefCell<Option<Arc<dyn Watch>>> = const { RefCell::new(None) };
    }

    /// Lets somebody watch this thread, or nobody.
    pub fn watch(watch: Option<Arc<dyn Watch>>) {
        WATCH.set(watch);
    }

    /// Lets whoever watches this thread watch what `work` does on another one, too.
    pub fn on_a_thread<T>(work: impl FnOnce() -> T + Send) -> impl FnOnce() -> T + Send {
        let watcher = watcher();
        move || {
            watch(watcher);
            let done = work();
            watch(None);
            done
        }
    }

    fn watcher() -> Option<Arc<dyn Watch>> {
        WATCH.with_borrow(Clone::clone)
    }

    pub fn watched<T>(call: Call<'_>, make: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        let Some(watch) = watcher() else { return make() };
        watch.before(call)?;
        let made = make()?;
        watch.after(call);
        Ok(made)
    }

    pub fn pretended() -> Option<u32> {
        watcher().and_then(|watch| watch.file_system())
    }

    pub fn shortened(bytes: &[u8]) -> &[u8] {
        watcher().map_or(bytes, |watch| &bytes[..watch.room(bytes.len())])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::jsonl::disk::write_all;
    use std::sync::{Arc, Mutex};

    /// Writes down what it is told, lets files take 3 bytes at a time, and keeps everything from being removed.
    #[derive(Default)]
    struct Diary(Mutex<Vec<String>>);

    impl Watch for Diary {
        fn before(&self, call: Call<'_>) -> io::Result<()> {
            if matches!(call, Call::Remove(_)) { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
        }

        fn after(&self, call: Call<'_>) {
            let name = |path: &Path| path.file_name().expect("a name").to_string_lossy().into_owned();
            let len = |file: &File| file.metadata().expect("there").len();
            self.0.lock().expect("no panic").push(match call {
                Call::Open(path) => format!("open {}", name(path)),
                Call::Write(file, bytes, at) => format!("write {bytes:?} at {at}, {} long", len(file)),
                Call::Truncate(file, to) => format!("cut to {to}, {} long", len(file)),
                Call::Reserve(file) => format!("reserve, {} long", len(file)),
                Call::Sync(file) => format!("sync, {} long", len(file)),
                Call::SyncFolder(path) => format!("sync folder {}", name(path)),
                Call::Rename(from, to) => format!("rename {} to {}", name(from), name(to)),
                Call::Remove(path) => format!("remove {}", name(path)),
                Call::MakeFolder(path) => format!("make {}", name(path)),
            });
        }

        fn room(&self, len: usize) -> usize {
            len.min(3)
        }
    }

    #[test]
    fn a_watcher_sees_every_call_and_decides_about_it() {
        let house = tempfile::tempdir().expect("a folder");
        let (folder, path) = (house.path().join("f"), house.path().join("f/a"));
        let diary = Arc::new(Diary::default());
        watch(Some(diary.clone()));
        make_folder(&folder).expect("works");
        let file = open(OpenOptions::new().write(true).create_new(true), &path).expect("works");
        write_all(&file, &[1, 2, 3, 4, 5], 0).expect("works");
        truncate(&file, 4).expect("works");
        let is_reserved = reserve(&file, 4, 100).is_ok();
        sync_data(&file).expect("works");
        rename(&path, &folder.join("b")).expect("works");
        sync_folder(&folder).expect("works");
        remove(&folder.join("b")).expect_err("refused");
        watch(None);
        remove(&folder.join("b")).expect("works");
        let expected = [
            "make f",
            "open a",
            "write [1, 2, 3] at 0, 3 long",
            "write [4, 5] at 3, 5 long",
            "cut to 4, 4 long",
            "reserve, 4 long",
            "sync, 4 long",
            "rename a to b",
            "sync folder f",
        ];
        let expected: Vec<&str> =
            expected.into_iter().filter(|line| is_reserved || !line.starts_with("reserve")).collect();
        assert_eq!(*diary.0.lock().expect("no panic"), expected);
    }
}
