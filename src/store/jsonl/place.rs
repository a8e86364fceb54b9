//! Where a ledger lies: links followed, folders made, file systems judged, every file private from its first open.

use super::files;
use crate::store::StoreError;
use nix::errno::Errno;
use nix::libc;
use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// How many symbolic links are followed. Source: Linux, path_resolution(7).
const LINKS_MAX: usize = 40;

/// A ledger's file and what lies beside it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    ledger: PathBuf,
}

impl Place {
    /// Finds the file that a path means, symbolic links followed; it need not exist.
    ///
    /// # Errors
    /// [`StoreError::Io`] where a link cannot be read or links go round.
    pub fn find(path: &Path) -> Result<Place, StoreError> {
        let mut ledger = path.to_path_buf();
        for _ in 0..LINKS_MAX {
            match fs::symlink_metadata(&ledger) {
                Ok(found) if found.is_symlink() => {
                    let target = fs::read_link(&ledger).map_err(|error| failed("read the link", &ledger, error))?;
                    ledger = folder_of(&ledger).join(target);
                }
                Ok(_) => return Ok(Place { ledger }),
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Place { ledger }),
                Err(error) => return Err(failed("look at", &ledger, error)),
            }
        }
        Err(failed("follow the links of", path, Errno::ELOOP.into()))
    }

    /// Returns the ledger's path.
    pub fn ledger(&self) -> &Path {
        &self.ledger
    }

    /// Returns the folder that the ledger lies in.
    pub fn folder(&self) -> PathBuf {
        folder_of(&self.ledger)
    }

    /// Returns the path of the lock file.
    pub fn lock(&self) -> PathBuf {
        self.beside(".lock")
    }

    /// Returns the path of the folder for long bodies.
    pub fn blobs(&self) -> PathBuf {
        self.beside(".blobs")
    }

    /// Returns the path of the folder for the index.
    pub fn index(&self) -> PathBuf {
        self.beside(".idx")
    }

    /// Returns the path of the file that a compaction writes.
    pub fn draft(&self) -> PathBuf {
        self.beside(".new")
    }

    /// Returns the path of the file that tells of a failed sync.
    pub fn sick(&self) -> PathBuf {
        self.beside(".sick")
    }

    fn beside(&self, ending: &str) -> PathBuf {
        let mut name = OsString::from(&self.ledger);
        name.push(ending);
        name.into()
    }

    /// Makes the folder where it is missing, for this user only. The first line of a ledger makes it durable.
    pub fn make_folder(&self) -> Result<(), StoreError> {
        make_folder(&self.folder())
    }

    /// Refuses a file system whose locks and syncs cannot be trusted, before anything is made there.
    pub fn check_file_system(&self) -> Result<(), StoreError> {
        let own = self.folder();
        let there = own.ancestors().find(|folder| folder.exists()).unwrap_or(Path::new("."));
        match files::file_system(there).map(network) {
            Ok(None) => Ok(()),
            Ok(Some(kind)) => Err(StoreError::NetworkFileSystem { path: self.ledger.clone(), kind }),
            Err(error) => Err(failed("look at the file system of", &self.ledger, error)),
        }
    }

    /// Opens the ledger for reading and writing; makes an empty one where there is none.
    pub fn open_to_write(&self) -> Result<File, StoreError> {
        self.refuse_what_is_no_file()?;
        files::open(private(OpenOptions::new().read(true).write(true).create(true)), &self.ledger)
            .map_err(|error| failed("open", &self.ledger, error))
    }

    /// Opens the ledger for reading.
    pub fn open_to_read(&self) -> Result<File, StoreError> {
        self.refuse_what_is_no_file()?;
        File::open(&self.ledger).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => StoreError::Missing { path: self.ledger.clone() },
            _ => failed("open", &self.ledger, error),
        })
    }

    /// Looked at before it is opened: opening a pipe waits for its other end.
    fn refuse_what_is_no_file(&self) -> Result<(), StoreError> {
        match fs::metadata(&self.ledger) {
            Ok(found) if !found.is_file() => Err(StoreError::NotAFile { path: self.ledger.clone() }),
            _ => Ok(()),
        }
    }
}

/// Makes a folder and those above it, for this user only. Their names are not durable yet.
pub fn make_folder(folder: &Path) -> Result<(), StoreError> {
    if folder.is_dir() {
        return Ok(());
    }
    let above = folder_of(folder);
    if above != folder {
        make_folder(&above)?;
    }
    match files::make_folder(folder) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && folder.is_dir() => Ok(()),
        Err(error) => Err(failed("make the folder", folder, error)),
    }
}

/// Makes a folder beside a ledger.
pub fn make_folder_beside(place: &Place, folder: &Path) -> Result<(), StoreError> {
    if !folder.is_dir() {
        make_folder(folder)?;
        // It may be somebody else's by now, who made it meanwhile: then it is none of ours.
        let made = OpenOptions::new().read(true).custom_flags(libc::O_NOFOLLOW | libc::O_DIRECTORY).open(folder);
        drop(made.map(|made| give(&made, place.ledger())));
    }
    Ok(())
}

/// Returns whether a folder cannot be synced because it is not ours to look at.
pub fn is_not_ours(error: &io::Error) -> bool {
    use io::ErrorKind::{InvalidInput, PermissionDenied, ReadOnlyFilesystem, Unsupported};
    matches!(error.kind(), PermissionDenied | ReadOnlyFilesystem | InvalidInput | Unsupported)
}

/// Makes a file that is created readable by this user only. A link in its place is not followed: it could lead an
/// administrator to a file of his own.
pub fn private(options: &mut OpenOptions) -> &mut OpenOptions {
    options.mode(0o600).custom_flags(libc::O_NOFOLLOW)
}

/// Makes a new file beside a ledger. It belongs to whoever owns `like`.
pub fn make(path: &Path, like: &Path) -> io::Result<File> {
    let file = files::open(private(OpenOptions::new().read(true).write(true).create_new(true)), path)?;
    give(&file, like);
    Ok(file)
}

/// Opens a file beside a ledger, and makes it where it is missing.
pub fn open_or_make(path: &Path, like: &Path) -> io::Result<File> {
    let open = || files::open(private(OpenOptions::new().read(true).write(true)), path);
    match open() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => match make(path, like) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => open(),
            made => made,
        },
        opened => opened,
    }
}

/// Gives what an administrator has just made to whoever owns `like`, who could not use it otherwise.
fn give(made: &File, like: &Path) {
    if !nix::unistd::geteuid().is_root() {
        return;
    }
    let (Ok(ours), Ok(theirs)) = (made.metadata(), fs::metadata(like)) else { return };
    // Only what is still ours: another may have put his own there meanwhile.
    if ours.uid() == 0 && (ours.uid(), ours.gid()) != (theirs.uid(), theirs.gid()) {
        // Where that cannot be done, e.g. in a container that does not know the owner, he is told when he comes.
        drop(std::os::unix::fs::fchown(made, Some(theirs.uid()), Some(theirs.gid())));
    }
}

fn folder_of(path: &Path) -> PathBuf {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder.into(),
        Some(_) => ".".into(),
        None => path.into(),
    }
}

/// Gives an error of the operating system its place; a full disk and a full quota have their own.
pub fn failed(doing: &'static str, path: &Path, source: io::Error) -> StoreError {
    if is_full(&source) {
        return StoreError::NoSpace { path: path.into() };
    }
    StoreError::Io { doing, path: path.into(), source }
}

/// Returns whether an error says that the disk or a quota is full.
pub fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// Returns what a network file system is called, by its magic number; `None` for a local one.
///
/// Source: statfs(2) and linux/magic.h for the numbers.
fn network(magic: u32) -> Option<&'static str> {
    const KINDS: [(u32, &str); 9] = [
        (0x6969, "NFS"),
        (0x517b, "SMB"),
        (0xff53_4d42, "SMB (cifs)"),
        (0xfe53_4d42, "SMB (smb2)"),
        (0x6573_5546, "FUSE"),
        (0x0102_1997, "9p"),
        (0x5346_414f, "AFS"),
        (0x7375_7245, "Coda"),
        (0x00c3_6400, "Ceph"),
    ];
    KINDS.iter().find(|(known, _)| *known == magic).map(|(_, kind)| *kind)
}
