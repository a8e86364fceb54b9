//! Records a workload, and looks at what power cuts leave of it.

use crate::alone::{Place, say};
use crate::check::{Wrong, check};
use crate::cut::{Cut, Player, after_promises, choose, too_soon, without_flushes};
use crate::disk::{Disk, Event, Recording};
use crate::kept;
use crate::machine::{self, FileSystem, Mounted};
use crate::promise::{Promise, Promises};
use crate::workload::work;
use std::fs::{self, File};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// How many cuts are looked at where nobody asks for another number.
///
/// Source: the ledger's reference, section 6: 300 in 30 to 60 s.
const CUTS: u64 = 300;
/// How many are enough for what must be noticed, and how many wrong states are kept to be looked at.
const CONTROLS: usize = 24;
const KEPT_MAX: usize = 3;
/// File systems themselves do not survive every cut: a superblock that tears, for one. One state in this many may be
/// such, and three more: what few are is left to chance.
///
/// Source: the ledger's reference, section 6: 1 in 2,000 and 1 in 700.
const UNMOUNTABLE: usize = 500;
/// How much of what is wrong with one state is shown.
const SHOWN: usize = 12;

/// What a run is asked for.
#[derive(Clone, Debug)]
pub struct Asked {
    pub kind: FileSystem,
    pub cuts: usize,
    pub seed: u64,
    /// A state that was kept, to be looked at again.
    pub again: Option<PathBuf>,
}

impl Asked {
    /// Takes what the environment says, or what is usual.
    pub fn by_environment() -> Asked {
        let text = |name: &str| std::env::var(name).ok();
        let number = |name: &str| text(name).map(|it| it.parse::<u64>().unwrap_or_else(|_| panic!("{name}={it}")));
        let kind =
            text("ABIDE_TEST_POWER_FS").map(|name| FileSystem::named(&name).unwrap_or_else(|| panic!("{name}?")));
        Asked {
            kind: kind.unwrap_or(FileSystem::Ext4),
            cuts: number("ABIDE_TEST_POWER_CUTS").unwrap_or(CUTS) as usize,
            seed: number("ABIDE_TEST_POWER_SEED").unwrap_or_else(|| fastrand::u64(..1_000_000)),
            again: text("ABIDE_TEST_POWER_AGAIN").map(PathBuf::from),
        }
    }

    /// Returns how long that may take.
    pub fn limit(&self) -> Duration {
        Duration::from_secs(120 + self.cuts as u64)
    }
}

/// Records a workload and looks at what power cuts leave of it; or looks again at what one has left.
pub fn cut_the_power(asked: &Asked, place: &Place) {
    if let Some(folder) = &asked.again {
        let (image, promises) = kept::take(folder);
        let found = Found { states: 1, ..Found::default() };
        return found.with(place, asked.kind, "again", (&image, &promises)).expect_nothing(asked);
    }
    let recording = record(asked.kind, place);
    let begun = Instant::now();
    let cuts = choose(&recording, asked.cuts, asked.seed);
    let found = look(&recording, &cuts, asked.kind, place, KEPT_MAX);
    tell(asked, &recording, &found, begun.elapsed());
    found.expect_nothing(asked);
}

/// Looks at what must be noticed: a disk that ignores flushes, and a ledger that promises before its flush is done.
pub fn notice(asked: &Asked, place: &Place) {
    let recording = record(asked.kind, place);
    for (what, wrong) in [("no flushes", without_flushes(&recording)), ("too soon", too_soon(&recording))] {
        let cuts = after_promises(&wrong, CONTROLS);
        let found = look(&wrong, &cuts, asked.kind, place, 0);
        let Found { states, wrong, unclaimed, untold, unmountable, .. } = found;
        say(&format!(
            "power cuts, {what}: {states} states, {wrong} wrong: {unclaimed} lost claims, {untold} lost outcomes"
        ));
        assert!(unclaimed > 0, "{what}: no lost claim is noticed, {unmountable} not mountable: {:#?}", found.words);
        assert!(untold > 0, "{what}: no lost outcome is noticed, {unmountable} not mountable: {:#?}", found.words);
    }
}

/// Records the workload on a disk of this kind.
fn record(kind: FileSystem, place: &Place) -> Recording {
    let (disk, mounted) = show(kind, place);
    nix::unistd::syncfs(File::open(mounted.folder()).expect("a folder")).expect("syncs");
    disk.record();
    work(&disk, mounted.folder());
    let recording = disk.recorded();
    mounted.unmount();
    recording
}

/// Makes a disk with an empty file system, which is mounted.
pub fn show(kind: FileSystem, place: &Place) -> (Disk, Mounted) {
    let empty = kind.make(&place.disk("empty"));
    let shown = place.folder.join("shown");
    fs::create_dir(&shown).expect("a folder");
    let disk = Disk::new(empty, &shown, &place.disk("recorded")).expect("FUSE works here");
    let mounted = Mounted::new(kind, disk.file(), &place.folder.join("recorded")).expect("a new file system");
    (disk, mounted)
}

/// What looking at states came to.
#[derive(Debug, Default)]
struct Found {
    states: usize,
    /// States in which anything is wrong.
    wrong: usize,
    /// States in which something that was sent is not claimed.
    unclaimed: usize,
    /// States in which an outcome that was reported is gone.
    untold: usize,
    /// States that are no file system any more.
    unmountable: usize,
    /// What was found, for people.
    words: Vec<String>,
}

/// Looks at each state that the cuts leave, and keeps at most `kept` that are wrong.
fn look(recording: &Recording, cuts: &[Cut], kind: FileSystem, place: &Place, kept: usize) -> Found {
    let (mut player, mut found) = (Player::new(recording), Found::default());
    for (number, cut) in cuts.iter().enumerate() {
        let (image, promises) = player.play(*cut);
        let before = found.wrong;
        found.states += 1;
        found = found.with(place, kind, &format!("{number} ({cut:?})"), (&image, &promises));
        if found.wrong > before && found.wrong <= kept {
            let folder = kept::keep(number, &image, &promises);
            found.words.push(format!(
                "it is kept: ABIDE_TEST_POWER_FS={} ABIDE_TEST_POWER_AGAIN={} looks at it again",
                kind.name(),
                folder.display()
            ));
        }
    }
    found
}

impl Found {
    /// Adds what is wrong with one state, a disk and what was promised before.
    fn with(mut self, place: &Place, kind: FileSystem, name: &str, state: (&[u8], &Promises)) -> Found {
        let file = place.disk(&format!("{}", self.states));
        machine::write(&file, state.0);
        match Mounted::new(kind, &file, &place.folder.join("cut")) {
            Err(words) => {
                self.unmountable += 1;
                self.words.push(format!("{name}: {words}"));
            }
            Ok(mounted) => {
                let wrong = check(mounted.folder(), state.1);
                mounted.unmount();
                self.add(name, &wrong);
            }
        }
        fs::remove_file(&file).expect("removes");
        self
    }

    fn add(&mut self, name: &str, wrong: &[(&'static str, Wrong)]) {
        if wrong.is_empty() {
            return;
        }
        let has = |wanted: fn(&Wrong) -> bool| usize::from(wrong.iter().any(|(_, wrong)| wanted(wrong)));
        self.wrong += 1;
        self.unclaimed += has(|wrong| matches!(wrong, Wrong::Broken(Promise::Sent { .. })));
        self.untold += has(|wrong| matches!(wrong, Wrong::Broken(Promise::Told { .. })));
        let shown = wrong.iter().take(SHOWN).map(|(when, wrong)| format!("\n      {when}: {wrong}"));
        self.words.push(format!("{name}: {} in all{}", wrong.len(), shown.collect::<String>()));
    }

    /// Fails where anything is wrong.
    fn expect_nothing(&self, asked: &Asked) {
        let words = self.words.join("\n  ");
        assert_eq!(self.wrong, 0, "{} of {} states are wrong ({asked:?}):\n  {words}", self.wrong, self.states);
        let usual = 3 + self.states / UNMOUNTABLE;
        assert!(self.unmountable <= usual, "{} states cannot be mounted ({asked:?}):\n  {words}", self.unmountable);
    }
}

/// Says how a recording and a look at it went.
fn tell(asked: &Asked, recording: &Recording, found: &Found, took: Duration) {
    let count = |wanted: fn(&Event) -> bool| recording.events.iter().filter(|event| wanted(event)).count();
    say(&format!(
        "power cuts on {}, seed {}: {} writes, {} flushes, {} promises; {} states at {} ms each, {} wrong, {} not mountable",
        asked.kind.name(),
        asked.seed,
        count(|event| matches!(event, Event::Write { .. })),
        count(|event| matches!(event, Event::Flush)),
        count(|event| matches!(event, Event::Promised(_))),
        found.states,
        took.as_millis() / found.states.max(1) as u128,
        found.wrong,
        found.unmountable,
    ));
}
