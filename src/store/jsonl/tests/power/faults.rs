//! Calls fail, once or from then on: nothing is promised that does not hold, and it goes on well once the disk is well.

use super::bounded;
use super::check::{Loss, Next};
use super::cuts::check;
use super::disk::{Deaf, Disk, Promised};
use super::log::{Event, Fault, Kind};
use super::stage::{LEDGER, Stage, beside, scratch};
use super::work::{self, Workload};
use crate::engine::verdict::Verdict;
use crate::store::jsonl::{accept_loss, repair, this_process};
use std::fs;
use std::path::Path;

/// What came of a workload: how often something failed, how many states were checked, what was lost.
#[derive(Debug, Default)]
struct Survey {
    runs: usize,
    states: usize,
    losses: Vec<Loss>,
}

/// Runs a workload again and again: each time another call fails in another way.
fn survey(workload: Workload, step: usize) -> Survey {
    let stage = Stage::new(1);
    workload.1(&stage);
    let calls = stage.log.calls();
    drop(stage);
    let mut survey = Survey::default();
    let ways = [
        (Kind::Broken, false),
        (Kind::Broken, true),
        (Kind::Full, false),
        (Kind::Full, true),
        (Kind::Interrupted, false),
        (Kind::Short, false),
        (Kind::Short, true),
    ];
    for (way, (kind, lasts)) in ways.into_iter().enumerate() {
        for (at, call) in calls.iter().enumerate() {
            // Every sync fails once; of the other calls each way takes another part.
            let is_sync = call.starts_with("sync") && kind == Kind::Broken && !lasts;
            let is_due = is_sync || at % step == way % step;
            if !is_due || (kind == Kind::Short && *call != "write") {
                continue;
            }
            let fault = Fault { kind, at, lasts };
            if let Err(loss) = suffer(workload, fault, &mut survey) {
                survey.losses.push(format!("{}, {fault:?}: {loss}", workload.0));
            }
        }
    }
    survey
}

/// Runs a workload while calls fail.
fn suffer((_, work): Workload, fault: Fault, survey: &mut Survey) -> Result<(), Loss> {
    let stage = Stage::new(1);
    stage.log.plan(Some(fault));
    work(&stage);
    stage.log.plan(None);
    let hits = stage.log.hits();
    if hits.is_empty() && fault.kind != Kind::Short {
        return Ok(());
    }
    survey.runs += 1;
    let told = |loss: Loss| format!("{loss}; failed: {:?}", &hits[..hits.len().min(3)]);
    // A disk that takes nothing any more cannot keep that a sync failed either; only this process can refuse then.
    if hits.iter().any(|hit| hit.ends_with(".sick")) {
        return Ok(());
    }
    let (disk, promised) = stage.elsewhere(|| replay(&stage.log.events(), survey)).map_err(told)?;
    // The machine goes on, and the next process too.
    let copy = scratch();
    copy_of(stage.root(), copy.path());
    survey.states += 1;
    stage.elsewhere(|| Next::new(copy.path(), "here", &promised).check()).map_err(told)?;
    // But for the header of a new ledger, which the next line makes dirty again.
    let is_begun = fs::metadata(stage.path()).is_ok_and(|found| found.len() > 200);
    if disk.has_lost(LEDGER) && is_begun && !beside(stage.root(), ".sick").exists() {
        return Err(told("a sync failed, and nothing says so".into()));
    }
    again(&stage, &promised).map_err(told)?;
    stage.elsewhere(|| replay(&stage.log.events(), survey)).map(drop).map_err(told)
}

/// Takes in what happened, and cuts the power.
fn replay(events: &[Event], survey: &mut Survey) -> Result<(Disk, Promised), Loss> {
    let (mut disk, mut promised) = (Disk::new(Deaf::Never), Promised::default());
    for event in events {
        if !disk.take(event) {
            return Err(format!("a sync after one that failed: {event:?}"));
        }
        if let Event::Promise(promise) = event {
            promised.take(promise);
        }
    }
    cut(&disk, &promised, survey)?;
    Ok((disk, promised))
}

/// Cuts the power: nothing that was not synced is there, or something.
fn cut(disk: &Disk, promised: &Promised, survey: &mut Survey) -> Result<(), Loss> {
    let mut chance = fastrand::Rng::with_seed(3);
    let plans = disk.plans(1, &mut chance);
    let extremes = [plans.get(1), plans.last()];
    for plan in extremes.into_iter().flatten() {
        survey.states += 1;
        check(&disk.image(plan, &mut chance), "later", promised).map_err(|loss| format!("{plan:?}: {loss}"))?;
    }
    Ok(())
}

/// The disk is well: what was begun is ended.
fn again(stage: &Stage, promised: &Promised) -> Result<(), Loss> {
    if beside(stage.root(), ".sick").exists() {
        let repaired = repair(&stage.path(), &stage.options());
        // It accepts no loss.
        repaired
            .map(drop)
            .or_else(|error| if promised.accepting { Ok(()) } else { Err(format!("repair: {error:?}")) })?;
    }
    if promised.accepting {
        accept_loss(&stage.path(), &stage.options(), &this_process())
            .map_err(|error| format!("accepting: {error:?}"))?;
    }
    let mut ledger = stage.process().ok_or("the next process cannot open it")?;
    for key in promised.sent.keys() {
        let is_told = promised.told.get(key).is_some_and(|verdict| *verdict == Verdict::Confirmed);
        if stage.send(&mut ledger, key, Verdict::Confirmed).is_none() && !is_told {
            stage.show(key).ok_or_else(|| format!("{key} is not ended"))?;
        }
    }
    Ok(())
}

fn copy_of(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).expect("a folder") {
        let path = entry.expect("a file").path();
        let there = to.join(path.file_name().expect("a name"));
        if path.is_dir() {
            fs::create_dir(&there).expect("a folder");
            copy_of(&path, &there);
        } else {
            fs::copy(&path, &there).expect("copies");
        }
    }
}

#[test]
fn whatever_fails_nothing_is_promised_that_does_not_hold() {
    let (mut runs, mut states) = (0, 0);
    for workload in work::ALL {
        // A long ledger takes longer to check.
        let few = if workload.0.contains("index") { 13 } else { 5 };
        let survey = survey(workload, bounded(few, 1));
        assert!(survey.losses.is_empty(), "{} losses, such as {:#?}", survey.losses.len(), survey.losses.first());
        (runs, states) = (runs + survey.runs, states + survey.states);
    }
    assert!(runs > 300, "{runs} runs");
}
