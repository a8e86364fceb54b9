//! Real file systems on files: made, mounted through a loop device each, and certainly gone afterwards.

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// How large a disk is, in bytes.
const EXT4_BYTES: usize = 24 << 20;
/// Source: mkfs.btrfs(8): with mixed groups 16 MiB are enough to begin with; compaction wants room.
const BTRFS_BYTES: usize = 64 << 20;
/// How often, and how long, an unmount or the end of a loop device is waited for: 5 s in all.
const TRIES: u32 = 500;
const TRY_WAIT: Duration = Duration::from_millis(10);
/// Blocks of zeros need not be written to a new file.
const BLOCK: usize = 64 << 10;

/// A kind of file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileSystem {
    /// Data is on the disk before the names and lengths that speak of it.
    Ext4,
    /// Data may be later.
    Ext4Writeback,
    Btrfs,
}

impl FileSystem {
    /// Returns the kind with this name; `None` where there is none.
    pub fn named(name: &str) -> Option<FileSystem> {
        [FileSystem::Ext4, FileSystem::Ext4Writeback, FileSystem::Btrfs].into_iter().find(|kind| kind.name() == name)
    }

    pub const fn name(self) -> &'static str {
        match self {
            FileSystem::Ext4 => "ext4",
            FileSystem::Ext4Writeback => "ext4-writeback",
            FileSystem::Btrfs => "btrfs",
        }
    }

    /// Returns what makes it.
    pub const fn maker(self) -> &'static str {
        match self {
            FileSystem::Ext4 | FileSystem::Ext4Writeback => "mkfs.ext4",
            FileSystem::Btrfs => "mkfs.btrfs",
        }
    }

    const fn options(self) -> &'static str {
        match self {
            FileSystem::Ext4 => "loop,noinit_itable,data=ordered",
            FileSystem::Ext4Writeback => "loop,noinit_itable,data=writeback",
            FileSystem::Btrfs => "loop",
        }
    }

    /// Makes an empty one and returns its bytes. `file` is made for it, and removed.
    pub fn make(self, file: &Path) -> Vec<u8> {
        const EXT4: &str = "-q -F -b 4096 -m 0 -J size=4 -E lazy_itable_init=0,lazy_journal_init=0,nodiscard";
        const BTRFS: &str = "-q -f --mixed --nodiscard";
        let (bytes, arguments) = match self {
            FileSystem::Ext4 | FileSystem::Ext4Writeback => (EXT4_BYTES, EXT4),
            FileSystem::Btrfs => (BTRFS_BYTES, BTRFS),
        };
        write(file, &vec![0; bytes]);
        do_it(Command::new(self.maker()).args(arguments.split(' ')).arg(file)).expect("it makes file systems");
        let made = fs::read(file).expect("a file");
        fs::remove_file(file).expect("removes");
        made
    }
}

/// Writes a disk into a new file.
pub fn write(file: &Path, image: &[u8]) {
    let made = fs::File::create_new(file).expect("a new file");
    made.set_len(image.len() as u64).expect("takes its length");
    let zeros = vec![0; BLOCK];
    for (at, block) in image.chunks(BLOCK).enumerate().filter(|(_, block)| **block != zeros[..block.len()]) {
        made.write_all_at(block, (at * BLOCK) as u64).expect("takes it");
    }
}

/// A file system that is mounted. Its loop device is its own.
#[derive(Debug)]
pub struct Mounted {
    folder: PathBuf,
    file: PathBuf,
    is_mounted: bool,
}

impl Mounted {
    /// Mounts the file system in `file`, whose name no other file has, on `folder`.
    ///
    /// # Errors
    /// It is no file system, in the words of `mount`.
    pub fn new(kind: FileSystem, file: &Path, folder: &Path) -> Result<Mounted, String> {
        fs::create_dir_all(folder).expect("a folder");
        do_it(Command::new("mount").args(["-o", kind.options()]).args([file, folder]))?;
        Ok(Mounted { folder: folder.into(), file: file.into(), is_mounted: true })
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Unmounts it; its loop device is free when this returns.
    pub fn unmount(mut self) {
        self.end();
    }

    fn end(&mut self) {
        if !std::mem::take(&mut self.is_mounted) {
            return;
        }
        let mut refused = String::new();
        let unmounted = (0..TRIES).any(|_| match do_it(Command::new("umount").arg(&self.folder)) {
            Ok(()) => true,
            Err(words) => {
                refused = words;
                std::thread::sleep(TRY_WAIT);
                false
            }
        });
        let is_free = unmounted && is_free(&self.file);
        if !std::thread::panicking() {
            assert!(unmounted, "{} stays mounted: {refused}", self.folder.display());
            assert!(is_free, "the loop device of {} stays", self.file.display());
        }
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        self.end();
    }
}

/// Waits until no loop device has a file any more, by the file's name. Returns false where one keeps it.
pub fn is_free(file: &Path) -> bool {
    let name = file.file_name().and_then(|name| name.to_str()).expect("a name of our own");
    (0..TRIES).any(|_| {
        let is_used = backing_files().iter().any(|backing| backing.contains(name));
        if is_used {
            std::thread::sleep(TRY_WAIT);
        }
        !is_used
    })
}

fn backing_files() -> Vec<String> {
    let devices = fs::read_dir("/sys/block").expect("block devices");
    let paths = devices.map(|device| device.expect("a device").path().join("loop/backing_file"));
    // It is there while the device is in use.
    paths.filter_map(|path| fs::read_to_string(path).ok()).collect()
}

fn do_it(command: &mut Command) -> Result<(), String> {
    match command.output() {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => Err(format!("{command:?}: {}", String::from_utf8_lossy(&output.stderr).trim())),
        Err(error) => Err(format!("{command:?}: {error}")),
    }
}
