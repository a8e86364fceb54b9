//! Where a bench works, and the abide that it runs.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Installs abide under a folder, as people get it, and returns where the program lies.
///
/// `ABIDE_BENCH_PROGRAM` names one that is there already.
pub fn installed(folder: &Path) -> PathBuf {
    if let Some(program) = std::env::var_os("ABIDE_BENCH_PROGRAM") {
        return program.into();
    }
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["install", "--locked", "--quiet", "--no-track", "--path", env!("CARGO_MANIFEST_DIR"), "--root"]);
    let status = cargo.arg(folder).status().expect("Cargo starts");
    assert!(status.success(), "{cargo:?}: {status}");
    folder.join("bin/abide")
}

/// A folder that goes with its value.
pub struct Folder(pub PathBuf);

impl Folder {
    /// Makes one under `base`, or among the temporary ones where that is missing.
    pub fn new(base: &Path) -> Folder {
        let base = if base.is_dir() { base.to_path_buf() } else { std::env::temp_dir() };
        let folder = base.join(format!("abide-bench-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a new folder");
        Folder(folder)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What is left behind is a folder among other temporary ones.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
