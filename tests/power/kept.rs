//! States that were found wrong, kept to be looked at again: a recording is never the same twice.

use crate::machine;
use crate::promise::Promises;
use std::fs;
use std::path::{Path, PathBuf};

const IMAGE: &str = "disk.img";
const PROMISES: &str = "promises.json";

/// Keeps what was on the disk after a power cut, with what had been promised. Returns where.
pub fn keep(number: usize, image: &[u8], promises: &Promises) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("abide-power-cut-{}-{number}", std::process::id()));
    fs::create_dir_all(&folder).expect("a folder");
    machine::write(&folder.join(IMAGE), image);
    fs::write(folder.join(PROMISES), serde_json::to_vec_pretty(promises).expect("JSON")).expect("writes");
    folder
}

/// Takes what was kept in a folder.
pub fn take(folder: &Path) -> (Vec<u8>, Promises) {
    let promises = fs::read(folder.join(PROMISES)).expect("promises");
    (fs::read(folder.join(IMAGE)).expect("a disk"), serde_json::from_slice(&promises).expect("JSON"))
}
