//! A disk that remembers: a file of a file system in this process, under a loop device.
//!
//! Every write and every flush that reaches it is kept in order, with the promises that were made meanwhile.

use crate::promise::Promise;
use fuser::{
    BackgroundSession, Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo,
    LockOwner, MountOption, OpenFlags, ReplyAttr, ReplyData, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyWrite, Request,
    TimeOrNow, WriteFlags,
};
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The smallest part of a write that is on the disk or not, in bytes.
pub const SECTOR: usize = 512;
const DISK: INodeNo = INodeNo(2);
/// How long the kernel may believe what it was told: nothing ever changes.
const TTL: Duration = Duration::from_secs(3_600);

/// What happened to the disk, and what was promised in between.
#[derive(Clone, Debug)]
pub enum Event {
    /// Bytes were written at an offset. The disk may keep them for itself until the next flush.
    Write { at: usize, bytes: Vec<u8> },
    /// All that was written before is on the disk.
    Flush,
    /// Somebody was told something.
    Promised(Promise),
    /// A moment that is to be looked at closely.
    Corner,
}

/// What a disk remembers.
#[derive(Clone, Debug)]
pub struct Recording {
    /// Its content before the first event; all of it durable.
    pub base: Vec<u8>,
    pub events: Vec<Event>,
}

#[derive(Debug, Default)]
struct Surface {
    image: Vec<u8>,
    recording: Option<Recording>,
    /// Writes of blocks with these bytes in them fail.
    bad: Option<Vec<u8>>,
}

#[derive(Debug)]
struct Shared {
    surface: Mutex<Surface>,
    /// In microseconds: others get to read meanwhile what is not durable yet.
    flush_takes: AtomicU64,
}

impl Shared {
    fn surface(&self) -> MutexGuard<'_, Surface> {
        self.surface.lock().expect("nothing panics while it holds the surface")
    }
}

/// Notes what is promised, in order with what the disk does.
#[derive(Clone, Debug)]
pub struct Recorder(Arc<Shared>);

impl Recorder {
    pub fn promised(&self, promise: Promise) {
        self.note(Event::Promised(promise));
    }

    pub fn corner(&self) {
        self.note(Event::Corner);
    }

    fn note(&self, event: Event) {
        if let Some(recording) = &mut self.0.surface().recording {
            recording.events.push(event);
        }
    }
}

/// The disk. It is gone when this is dropped.
#[derive(Debug)]
pub struct Disk {
    shared: Arc<Shared>,
    file: PathBuf,
    session: Option<BackgroundSession>,
}

impl Disk {
    /// Shows a disk with this content as a file in `folder`, called as `file` is.
    pub fn new(image: Vec<u8>, folder: &Path, file: &Path) -> io::Result<Disk> {
        let name = file.file_name().expect("a name of our own");
        let surface = Mutex::new(Surface { image, ..Surface::default() });
        let shared = Arc::new(Shared { surface, flush_takes: AtomicU64::new(0) });
        let mut config = Config::default();
        config.mount_options = vec![MountOption::FSName("abide-test-disk".into())];
        let files = Files { shared: shared.clone(), name: name.into() };
        let session = fuser::spawn_mount(files, folder, &config)?;
        Ok(Disk { shared, file: folder.join(name), session: Some(session) })
    }

    /// Returns the file.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// Returns what notes promises.
    pub fn recorder(&self) -> Recorder {
        Recorder(self.shared.clone())
    }

    /// Begins to remember. What is there now counts as durable.
    pub fn record(&self) {
        let mut surface = self.shared.surface();
        surface.recording = Some(Recording { base: surface.image.clone(), events: Vec::new() });
    }

    /// Ends that, and returns what was remembered.
    pub fn recorded(&self) -> Recording {
        self.shared.surface().recording.take().expect("it was recording")
    }

    /// Lets each flush take this long.
    pub fn flush_takes(&self, wait: Duration) {
        self.shared.flush_takes.store(wait.as_micros() as u64, Ordering::Relaxed);
    }

    /// Lets writes fail that hold `bytes`; none with `None`.
    pub fn fail_writes_of(&self, bytes: Option<&[u8]>) {
        self.shared.surface().bad = bytes.map(Into::into);
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let ended = self.session.take().map(BackgroundSession::umount_and_join);
        if let Some(Err(error)) = ended
            && !std::thread::panicking()
        {
            panic!("the disk does not go away: {error}");
        }
    }
}

/// A folder with one file.
struct Files {
    shared: Arc<Shared>,
    name: OsString,
}

impl Files {
    fn attributes(&self, ino: INodeNo) -> FileAttr {
        let size = if ino == DISK { self.shared.surface().image.len() as u64 } else { 0 };
        let (kind, perm) = if ino == DISK { (FileType::RegularFile, 0o600) } else { (FileType::Directory, 0o700) };
        FileAttr {
            ino,
            size,
            blocks: size / SECTOR as u64,
            atime: UNIX_EPOCH,
            mtime: UNIX_EPOCH,
            ctime: UNIX_EPOCH,
            crtime: UNIX_EPOCH,
            kind,
            perm,
            nlink: 1,
            uid: 0,
            gid: 0,
            rdev: 0,
            blksize: 4_096,
            flags: 0,
        }
    }
}

impl Filesystem for Files {
    fn lookup(&self, _request: &Request, _parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        match name == self.name {
            true => reply.entry(&TTL, &self.attributes(DISK), Generation(0)),
            false => reply.error(Errno::ENOENT),
        }
    }

    fn getattr(&self, _request: &Request, ino: INodeNo, _file: Option<FileHandle>, reply: ReplyAttr) {
        reply.attr(&TTL, &self.attributes(ino));
    }

    fn setattr(
        &self,
        _request: &Request,
        ino: INodeNo,
        _mode: Option<u32>,
        _uid: Option<u32>,
        _gid: Option<u32>,
        _size: Option<u64>,
        _atime: Option<TimeOrNow>,
        _mtime: Option<TimeOrNow>,
        _ctime: Option<SystemTime>,
        _file: Option<FileHandle>,
        _crtime: Option<SystemTime>,
        _chgtime: Option<SystemTime>,
        _bkuptime: Option<SystemTime>,
        _flags: Option<fuser::BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        reply.attr(&TTL, &self.attributes(ino));
    }

    fn open(&self, _request: &Request, _ino: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        reply.opened(FileHandle(0), FopenFlags::empty());
    }

    fn read(
        &self,
        _request: &Request,
        _ino: INodeNo,
        _file: FileHandle,
        offset: u64,
        size: u32,
        _flags: OpenFlags,
        _owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let surface = self.shared.surface();
        let from = surface.image.len().min(offset as usize);
        let to = surface.image.len().min(from + size as usize);
        reply.data(&surface.image[from..to]);
    }

    fn write(
        &self,
        _request: &Request,
        _ino: INodeNo,
        _file: FileHandle,
        offset: u64,
        data: &[u8],
        _write_flags: WriteFlags,
        _flags: OpenFlags,
        _owner: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let mut surface = self.shared.surface();
        let Surface { image, recording, bad } = &mut *surface;
        let at = offset as usize;
        let Some(place) = image.get_mut(at..at + data.len()) else { return reply.error(Errno::ENOSPC) };
        if bad.as_ref().is_some_and(|bad| data.windows(bad.len()).any(|part| part == bad)) {
            return reply.error(Errno::EIO);
        }
        place.copy_from_slice(data);
        if let Some(recording) = recording {
            recording.events.push(Event::Write { at, bytes: data.into() });
        }
        reply.written(data.len() as u32);
    }

    fn fsync(&self, _request: &Request, _ino: INodeNo, _file: FileHandle, _data_only: bool, reply: ReplyEmpty) {
        std::thread::sleep(Duration::from_micros(self.shared.flush_takes.load(Ordering::Relaxed)));
        if let Some(recording) = &mut self.shared.surface().recording {
            recording.events.push(Event::Flush);
        }
        reply.ok();
    }
}
