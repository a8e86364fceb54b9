//! What a power cut and a failing disk leave of a ledger.
//!
//! A workload runs on a real folder while every call that alters a file is written down, with the moments at which a
//! request may leave and an outcome is reported. A model of the disk then says what may be there if the power is cut
//! after any of those calls; each such state is put into a folder, and the next process must find in it what was promised.
//!
//! Source: T2 of the ledger's design.

mod check;
mod counts;
mod cuts;
mod disk;
mod faults;
mod log;
mod stage;
mod work;

/// Returns `many` instead of `few` where the environment asks for long runs.
fn bounded(few: usize, many: usize) -> usize {
    std::env::var("ABIDE_LONG").map_or(few, |_| many)
}

/// What alters a file otherwise than by `files` is not in the log.
#[test]
fn every_call_that_alters_a_file_is_made_in_one_place() {
    const WORDS: [&str; 8] = [
        "fs::rename",
        "fs::remove_",
        "fs::write",
        "fs::create",
        "File::create",
        "sync_all()",
        "sync_data()",
        "set_len",
    ];
    let mut folders = vec![std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src/store/jsonl")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("a file").path();
            // The locks of other systems are files that are never synced.
            if path.is_dir() || ["files.rs", "tests.rs", "flock.rs"].iter().any(|name| path.ends_with(name)) {
                folders.extend(Some(path).filter(|path| path.is_dir() && !path.ends_with("tests")));
                continue;
            }
            let text = std::fs::read_to_string(&path).expect("text");
            let code = text.split("#[cfg(test)]").next().expect("a part");
            let found = code.lines().find(|line| {
                let opens = line.contains(".create") && !line.contains("files::open");
                opens || WORDS.iter().any(|word| line.contains(word))
            });
            assert_eq!(found, None, "{}", path.display());
        }
    }
}
