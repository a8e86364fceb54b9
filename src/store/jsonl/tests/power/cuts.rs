//! The power is cut after every call, and the next process finds what was promised.

use super::bounded;
use super::check::{Loss, Next};
use super::disk::{Deaf, Disk, Image, Plan, Promised};
use super::log::Event;
use super::stage::{Stage, scratch};
use super::work::{self, Workload};
use std::collections::HashSet;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;

/// What came of a workload.
#[derive(Debug, Default)]
struct Survey {
    states: usize,
    losses: Vec<Loss>,
}

/// Puts what is left of a disk into an empty folder.
pub fn put(image: &Image, root: &Path) {
    for (name, bytes) in image {
        match bytes {
            None => fs::create_dir(root.join(name)).expect("a folder"),
            Some(bytes) => fs::write(root.join(name), &**bytes).expect("a file"),
        }
    }
}

/// Checks one state, in a folder that is made for it.
pub fn check(image: &Image, boot: &str, promised: &Promised) -> Result<(), Loss> {
    let folder = scratch();
    put(image, folder.path());
    Next::new(folder.path(), boot, promised).check()
}

/// Runs a workload, and checks the states that a power cut after each of its calls may leave.
fn survey((name, work): Workload, deaf: Deaf, seed: u64) -> Survey {
    let stage = Stage::new(seed);
    work(&stage);
    let events = stage.log.events();
    drop(stage);
    let (mut disk, mut promised, mut known) = (Disk::new(deaf), Promised::default(), HashSet::new());
    let (mut chance, mut survey) = (fastrand::Rng::with_seed(seed), Survey::default());
    for (number, event) in events.iter().enumerate() {
        assert!(disk.take(event) || deaf != Deaf::Never, "{name}: a sync after a failed one, at {number}");
        if let Event::Promise(promise) = event {
            promised.take(promise);
        }
        // The promise that a call allows is made before anything else happens.
        if matches!(events.get(number + 1), Some(Event::Promise(_))) {
            continue;
        }
        for plan in disk.plans(bounded(3, 40), &mut chance) {
            let image = disk.image(&plan, &mut chance);
            let boots: &[&str] = if plan.is_whole() { &["later", "here"] } else { &["later"] };
            for boot in boots.iter().filter(|boot| known.insert((hash(&image), promised.count, **boot))) {
                survey.states += 1;
                let checked = check(&image, boot, &promised);
                survey.losses.extend(checked.err().map(|loss| tell(name, number, event, &plan, &loss)));
            }
        }
    }
    survey
}

fn tell(name: &str, number: usize, event: &Event, plan: &Plan, loss: &str) -> Loss {
    let mut event = format!("{event:?}");
    event.truncate(event.floor_char_boundary(90));
    format!("{name}, cut after {number} ({event}), {plan:?}: {loss}")
}

fn hash(image: &Image) -> u64 {
    let mut hasher = DefaultHasher::new();
    image.hash(&mut hasher);
    hasher.finish()
}

#[test]
fn whenever_the_power_is_cut_the_next_process_finds_what_was_promised() {
    let mut states = 0;
    for workload in work::ALL {
        for seed in 0..bounded(1, 8) as u64 {
            let survey = survey(workload, Deaf::Never, seed);
            assert!(survey.losses.is_empty(), "{} losses, such as {:#?}", survey.losses.len(), survey.losses.first());
            states += survey.states;
        }
    }
    assert!(states > 1_500, "{states} states");
}

/// The promises need these syncs: on a disk that ignores them the same check finds losses.
#[test]
fn on_a_disk_that_ignores_syncs_losses_are_found() {
    let cases = [
        ("first", Deaf::Ledger, "may have left and is not there"),
        ("late", Deaf::Ledger, "was reported and is not there"),
        ("long", Deaf::Blobs, "BodyDamaged"),
        ("long", Deaf::Folders, "BodyMissing"),
        ("compacted", Deaf::Folders, "LostEnd"),
    ];
    for (name, deaf, words) in cases {
        let Survey { losses, .. } = survey(work::named(name), deaf, 1);
        assert!(losses.iter().any(|loss| loss.contains(words)), "{name}, deaf to {deaf:?}: {:#?}", losses.first());
    }
}
