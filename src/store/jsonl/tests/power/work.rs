//! What is done with a ledger while the power is cut, or its disk fails.
//!
//! Every step goes on after a failure, as another process would.

use super::log::Promise;
use super::stage::{Stage, beside, finished, outcome, wished};
use crate::drive::{Ledger, Resolving, Wish};
use crate::engine::facts::{Fact, Resolved};
use crate::engine::moment::{Now, Timestamp};
use crate::engine::verdict::Verdict;
use crate::store::StoreError;
use crate::store::format::{self, Header, VERSION};
use crate::store::jsonl::disk;
use crate::store::jsonl::place::{Place, failed};
use crate::store::jsonl::sick::sync_name;
use crate::store::jsonl::tests::{run, wish};
use crate::store::jsonl::{Effort, Retention, Which, accept_loss, compact, repair, this_process};
use std::fs;
use std::sync::Arc;
use std::time::Duration;

/// Something to do: its name and its steps.
pub type Workload = (&'static str, fn(&Stage));

/// All of them.
pub const ALL: [Workload; 14] = [
    ("first", first),
    ("orphan", orphan),
    ("again", again),
    ("late", late),
    ("long", long),
    ("group", group),
    ("group_beside", group_beside),
    ("indexed", indexed),
    ("compacted", compacted),
    ("compacted_with_index", compacted_with_index),
    ("forgotten", forgotten),
    ("torn", torn),
    ("repaired", repaired),
    ("accepted", accepted),
];

/// Returns the one with a name.
pub fn named(name: &str) -> Workload {
    *ALL.iter().find(|(one, _)| *one == name).expect("there is one")
}

use Verdict::{Confirmed, InDoubt, Rejected};

/// The first processes of a ledger.
fn first(stage: &Stage) {
    if let Some(mut ledger) = stage.process() {
        stage.send(&mut ledger, "k1", Confirmed);
        stage.send(&mut ledger, "k2", Rejected);
    }
    if let Some(mut ledger) = stage.process() {
        if let Some(mut held) = stage.begin(&mut ledger, "k3") {
            let fact = Fact::Finished(Arc::new(finished(held.a)));
            stage.note(&mut held, &fact);
            stage.end(held, "k3", InDoubt);
        }
        stage.begin(&mut ledger, "k4");
    }
}

/// A process dies after it has written the header of a new ledger, before that is durable.
fn orphan(stage: &Stage) {
    let place = Place::find(&stage.path()).expect("a path");
    let header = Header { v: VERSION, id: "0123456789abcdef".repeat(2).into(), generation: 0 };
    let begun = || -> Result<(), StoreError> {
        place.make_folder()?;
        let file = place.open_to_write()?;
        sync_name(&place)?;
        let line = format::header_line(&header, Timestamp::default());
        disk::write_all(&file, &line, 0).map_err(|error| failed("write", place.ledger(), error))
    };
    if begun().is_ok() {
        first(stage);
    }
}

/// Operations of dead processes are continued.
fn again(stage: &Stage) {
    stage.quiet(|| {
        let mut ledger = stage.process().expect("opens");
        stage.send(&mut ledger, "k1", InDoubt);
        stage.begin(&mut ledger, "k2");
        drop(run(ledger.claim(&wished("k3"), Now::default())));
    });
    if let Some(mut ledger) = stage.process() {
        stage.send(&mut ledger, "k1", Confirmed);
        stage.send(&mut ledger, "k2", InDoubt);
        stage.send(&mut ledger, "k3", Rejected);
    }
    if let Some(mut ledger) = stage.process() {
        stage.send(&mut ledger, "k2", Confirmed);
        drop(stage.begin(&mut ledger, "k4"));
        let Wish { key, opened, .. } = wish("k4");
        let partner = opened.partner.clone();
        let resolved = Resolved { partner, verdict: Confirmed, by: "me".into(), note: "".into() };
        if let Ok(Resolving::Recorded(_)) = run(ledger.resolve(&key, &resolved, Now::default())) {
            stage.log.promise(Promise::Told("k4".into(), Confirmed));
        }
    }
}

/// A process dies before its outcome is durable, and others read it.
fn late(stage: &Stage) {
    if let Some(mut ledger) = stage.process() {
        for key in ["k1", "k2"] {
            if let Some(mut held) = stage.begin(&mut ledger, key) {
                let fact = outcome(key, held.a, Confirmed);
                stage.note(&mut held, &fact);
            }
        }
    }
    stage.show("k1");
    if let Some(mut ledger) = stage.process() {
        stage.begin(&mut ledger, "k2");
    }
    stage.show("k2");
}

/// Bodies and answers beside the ledger.
fn long(stage: &Stage) {
    if let Some(mut ledger) = stage.process() {
        stage.send(&mut ledger, "long1", InDoubt);
        stage.send(&mut ledger, "long1-b", Confirmed);
    }
    if let Some(mut ledger) = stage.process() {
        stage.begin(&mut ledger, "long2");
        stage.send(&mut ledger, "long1", Confirmed);
    }
}

/// Several tasks of a process, and another process between them.
fn group(stage: &Stage) {
    let (Some(ledger), Some(mut other)) = (stage.process(), stage.process()) else { return };
    let keys = ["k1", "k2", "k3"];
    let begin = |key| stage.begins(ledger.clone(), key);
    let claims = run(async { <[_; 3]>::from(tokio::join!(begin(keys[0]), begin(keys[1]), begin(keys[2]))) });
    let held = stage.begin(&mut other, "k4");
    let end = async |claim: Option<_>, key| match claim {
        Some(claim) => stage.ends(claim, key, Confirmed).await,
        None => None,
    };
    let [one, two, three] = claims;
    run(async { tokio::join!(end(one, keys[0]), end(two, keys[1]), end(three, keys[2])) });
    if let Some(claim) = held {
        stage.end(claim, "k4", Confirmed);
    }
}

/// Tasks of which some write while a thread syncs what others have written.
fn group_beside(stage: &Stage) {
    let Some(ledger) = stage.process() else { return };
    ledger.sync_beside();
    let send = async |number: usize| {
        let key = format!("k{number}");
        for _ in 0..number {
            tokio::task::yield_now().await;
        }
        match stage.begins(ledger.clone(), &key).await {
            Some(held) => stage.ends(held, &key, Confirmed).await,
            None => None,
        }
    };
    run(async { tokio::join!(send(0), send(1), send(2), send(3)) });
}

/// Makes a ledger so long that it gets an index, with one run of it.
fn lengthen(stage: &Stage, name: &str) {
    if let Some(mut ledger) = stage.process() {
        for number in 0..9 {
            let verdict = if number % 3 == 0 { InDoubt } else { Confirmed };
            stage.send(&mut ledger, &format!("fat{name}{number}"), verdict);
        }
    }
}

fn keep_up(stage: &Stage) {
    if let Some(mut ledger) = stage.process() {
        // It looks at the end first, as every process does that has something to do.
        stage.send(&mut ledger, "k0", InDoubt);
        ledger.keep_up(Effort::Whole);
    }
}

/// An index gets a run, and a second one that is merged with it.
fn indexed(stage: &Stage) {
    stage.quiet(|| lengthen(stage, "a"));
    keep_up(stage);
    if let Some(mut ledger) = stage.process() {
        stage.send(&mut ledger, "fata0", Confirmed);
    }
    stage.quiet(|| lengthen(stage, "b"));
    keep_up(stage);
    if let Some(mut ledger) = stage.process() {
        stage.send(&mut ledger, "fata3", Confirmed);
        stage.send(&mut ledger, "fata1", Confirmed);
    }
}

fn shorten(stage: &Stage, which: Which<'_>) -> bool {
    stage.log.promise(Promise::Slimming);
    compact(&stage.path(), &stage.options(), which, &|| false).is_ok()
}

/// All that is decided, at once.
pub const SLIM: Which<'static> = Which::Older(&|_| Retention { keep_full: Duration::ZERO, forget_after: None });

/// A compaction while an operation is open, with bodies that nothing names.
fn compacted(stage: &Stage) {
    stage.quiet(|| {
        let mut ledger = stage.process().expect("opens");
        stage.send(&mut ledger, "long1", Confirmed);
        stage.send(&mut ledger, "long2", InDoubt);
        stage.send(&mut ledger, "k1", Confirmed);
        let stray = beside(stage.root(), ".blobs").join("0".repeat(64));
        fs::write(stray, "nobody's").expect("writes");
    });
    let Some(mut ledger) = stage.process() else { return };
    let held = stage.begin(&mut ledger, "k2");
    shorten(stage, SLIM);
    if let Some(claim) = held {
        stage.end(claim, "k2", Confirmed);
    }
    stage.send(&mut ledger, "long2", Confirmed);
    if let Some(mut ledger) = stage.process() {
        stage.send(&mut ledger, "k1", Confirmed);
        stage.send(&mut ledger, "long1-b", Confirmed);
    }
}

/// A compaction of a ledger that has an index, which begins anew.
fn compacted_with_index(stage: &Stage) {
    stage.quiet(|| {
        lengthen(stage, "a");
        lengthen(stage, "b");
        keep_up(stage);
    });
    shorten(stage, Which::One(&wish("k").opened.partner, &wish("fata1").key));
    keep_up(stage);
    if let Some(mut ledger) = stage.process() {
        stage.send(&mut ledger, "fata0", Confirmed);
        stage.send(&mut ledger, "fata1", Confirmed);
    }
}

/// Payloads that must not come back.
fn forgotten(stage: &Stage) {
    stage.quiet(|| {
        let mut ledger = stage.process().expect("opens");
        for key in ["long1", "k1", "k2"] {
            stage.send(&mut ledger, key, Confirmed);
        }
    });
    for key in ["long1", "k1"] {
        if shorten(stage, Which::One(&wish(key).opened.partner, &wish(key).key)) {
            stage.log.promise(Promise::Forgotten(key.into()));
        }
    }
    if let Some(mut ledger) = stage.process() {
        stage.send(&mut ledger, "k3", Confirmed);
    }
}

/// A torn last line and a damaged one before it are mended.
fn torn(stage: &Stage) {
    stage.quiet(|| {
        let mut ledger = stage.process().expect("opens");
        stage.send(&mut ledger, "k1", Confirmed);
        drop(stage.begin(&mut ledger, "k2"));
        let mut bytes = fs::read(stage.path()).expect("reads");
        bytes.extend_from_slice(b"{\"t\":\"ope\0\0\0\0\n");
        bytes.extend_from_slice("{\"t\":\"opened\",\"n\":3,\"k\":\"k3\",".repeat(30).as_bytes());
        fs::write(stage.path(), bytes).expect("writes");
    });
    if let Some(mut ledger) = stage.process() {
        stage.send(&mut ledger, "k3", Confirmed);
    }
    if let Some(mut ledger) = stage.process() {
        stage.send(&mut ledger, "k2", Confirmed);
    }
}

/// A sync fails, and the ledger is repaired.
fn repaired(stage: &Stage) {
    if let Some(mut ledger) = stage.process() {
        stage.send(&mut ledger, "k1", Confirmed);
        if let Some(claim) = stage.begin(&mut ledger, "k2") {
            stage.log.fail_next_sync();
            stage.end(claim, "k2", Confirmed);
        }
        stage.send(&mut ledger, "k3", Confirmed);
    }
    drop(repair(&stage.path(), &stage.options()));
    if let Some(mut ledger) = stage.process() {
        stage.send(&mut ledger, "k2", Confirmed);
        stage.send(&mut ledger, "k3", Confirmed);
    }
}

/// A damaged ledger is accepted as it is.
fn accepted(stage: &Stage) {
    stage.quiet(|| {
        let mut ledger = stage.process().expect("opens");
        stage.send(&mut ledger, "k1", Confirmed);
        stage.send(&mut ledger, "k2", InDoubt);
        drop(run(ledger.claim(&wished("gone"), Now::default())));
        stage.send(&mut ledger, "k3", Confirmed);
        let mut bytes = fs::read(stage.path()).expect("reads");
        let at = memchr::memmem::find(&bytes, b"body of gone").expect("there");
        bytes[at] = b'?';
        bytes.extend_from_slice(b"{\"t\":\"op");
        fs::write(stage.path(), bytes).expect("writes");
    });
    stage.log.promise(Promise::Accepting);
    drop(accept_loss(&stage.path(), &stage.options(), &this_process()));
    if let Some(mut ledger) = stage.process() {
        stage.send(&mut ledger, "k2", Confirmed);
        stage.send(&mut ledger, "k4", Confirmed);
    }
}
