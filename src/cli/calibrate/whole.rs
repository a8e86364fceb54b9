//! `hlog` of `[measured]`: the file that holds all samples of what a profile keeps the percentiles of.

use super::super::request::system_words;
use abide::engine::measured::Measured;
use abide::engine::suggest::rounding::show_three_digits;
use abide::engine::suggest::seen::Seen;
use abide::engine::suggest::share::Share;
use abide::measure::hlog;
use abide::measure::recording::{self, Recording};
use std::fs;
use std::path::Path;
use std::time::Duration;

/// No larger file is read, in bytes: a line of each stage a minute for two weeks has room in it.
const LARGEST: u64 = 256 << 20;

/// Returns what a profile calls `file`: relative to `folder`, in which its own relative names are looked for, where the
/// file lies there or below, so that both can be moved together; else absolute. `None` where that is no text without
/// control characters, or there is no such file.
pub fn named(file: &Path, folder: Option<&Path>) -> Option<String> {
    let file = fs::canonicalize(file).ok()?;
    let below = folder.and_then(|folder| file.strip_prefix(folder).ok());
    let name = below.unwrap_or(&file).to_str()?;
    (!name.chars().any(char::is_control)).then(|| name.to_owned())
}

/// Reads all samples of what was `measured`.
///
/// # Errors
/// Why they are not known, in words: the file is missing or damaged, or holds another measurement.
pub fn read(file: &Path, measured: &Measured) -> Result<Recording, String> {
    let metadata = fs::metadata(file).map_err(|error| system_words(&error))?;
    // Anything else might never end, or keep whoever opens it waiting.
    if !metadata.is_file() {
        return Err("it is no file".into());
    }
    if metadata.len() > LARGEST {
        return Err(format!("more than {} MiB", LARGEST >> 20));
    }
    let bytes = fs::read(file).map_err(|error| system_words(&error))?;
    if !hlog::is_own(&bytes) {
        return Err("it is not what --hlog writes".into());
    }
    let recording = recording::read(&bytes, None).map_err(|why| why.to_string())?;
    if let Some((_, (line, why))) = recording.bad {
        return Err(format!("line {line}: {why}"));
    }
    let (known, found) = (shown(measured.samples, [measured.p95, measured.p99]), held(&recording.seen));
    match known == found {
        true => Ok(recording),
        false => Err(format!("it is of another measurement ({found}; [measured]: {known})")),
    }
}

/// Returns what `[measured]` would say of it.
fn held(seen: &Seen) -> String {
    shown(Some(seen.read.samples()), [Share::P95, Share::P99].map(|share| seen.read.value(share).ok()))
}

/// Returns what tells measurements apart, as exact as a profile keeps it.
fn shown(samples: Option<u64>, percentiles: [Option<Duration>; 2]) -> String {
    let samples = samples.map_or("no number of".into(), |samples| samples.to_string());
    // A profile keeps no shorter one.
    let shown = percentiles.map(|at| at.filter(|at| *at >= Duration::from_micros(1)).map(show_three_digits));
    let [p95, p99] = shown.map(|at| at.unwrap_or_else(|| "unknown".into()));
    format!("{samples} samples, p95 {p95}, p99 {p99}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use abide::engine::moment::Timestamp;
    use abide::engine::suggest::latencies::Sample;
    use abide::engine::suggest::sample::Taken;
    use abide::measure::recording::Slice;
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    use tempfile::TempDir;

    fn folder() -> TempDir {
        TempDir::new().expect("a folder")
    }

    /// A log of answers after 1 ms to so many.
    fn log(answers: u64) -> Vec<u8> {
        let (mut out, mut slice, at) = (Vec::new(), Slice::default(), Timestamp::from_unix_ms(1_795_000_000_000));
        hlog::write_header(&mut out, at).expect("memory takes it");
        for ms in 1..=answers {
            let read = Some(Sample::Event(Duration::from_millis(ms)));
            slice.add(&Taken { read, whole: read, ..Taken::default() }, at);
        }
        slice.write(&mut out).expect("memory takes it");
        out
    }

    #[test]
    fn a_file_is_named_from_the_folder_of_its_profile_only_where_both_move_together() {
        let (home, other) = (folder(), folder());
        let real = fs::canonicalize(home.path()).expect("a folder");
        fs::create_dir(real.join("below")).expect("a folder");
        for name in ["a.hlog", "below/it's #1 \"\\ü.hlog"] {
            fs::write(home.path().join(name), "").expect("a file");
            assert_eq!(named(&home.path().join(name), Some(&real)).as_deref(), Some(name));
            let absolute = real.join(name).to_str().map(str::to_owned);
            assert_eq!(named(&home.path().join(name), None), absolute);
            assert_eq!(named(&home.path().join(name), Some(other.path())), absolute);
        }
    }

    #[test]
    fn what_no_profile_can_say_has_no_name() {
        let home = folder();
        assert_eq!(named(&home.path().join("missing"), None), None);
        for name in [&b"two\nlines"[..], b"clear\x1b[2J", b"not\xfftext"] {
            let file = home.path().join(OsStr::from_bytes(name));
            fs::write(&file, "").expect("a file");
            assert_eq!(named(&file, None), None, "{file:?}");
        }
    }

    #[test]
    fn only_the_whole_of_the_same_measurement_is_read() {
        let (home, ms) = (folder(), Duration::from_millis);
        let file = home.path().join("a.hlog");
        let measured = Measured { samples: Some(300), p95: Some(ms(285)), p99: Some(ms(297)), ..Measured::default() };
        let with = |bytes: &[u8], measured: &Measured| {
            fs::write(&file, bytes).expect("a file");
            read(&file, measured).map(|recording| recording.seen.read.samples())
        };
        let whole = log(300);
        assert_eq!(with(&whole, &measured), Ok(300));
        let refused = |bytes: &[u8]| with(bytes, &measured).expect_err("not the whole of it");
        let other = "it is of another measurement (299 samples, p95 285ms, p99 297ms; [measured]: 300 samples, ";
        assert!(refused(&log(299)).starts_with(other), "{}", refused(&log(299)));
        assert!(refused(&whole[..whole.len() - 9]).contains("a damaged histogram"));
        assert_eq!(refused(b"1\n2\n"), "it is not what --hlog writes");
        assert_eq!(refused(b""), "it is not what --hlog writes");
        for measured in [
            Measured { samples: None, ..measured },
            Measured { p99: None, ..measured },
            Measured { p95: Some(ms(284)), ..measured },
        ] {
            assert!(with(&whole, &measured).is_err(), "{measured:?}");
        }
        assert_eq!(read(home.path(), &measured).expect_err("a folder"), "it is no file");
        assert_eq!(read(&home.path().join("b"), &measured).expect_err("nothing"), "no such file");
    }
}
