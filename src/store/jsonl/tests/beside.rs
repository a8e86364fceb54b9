//! Tasks whose syncs a thread makes.

use super::*;
use std::sync::{Condvar, Mutex};
use tokio::task::{JoinHandle, yield_now};

/// Lets syncs begin and not end.
#[derive(Debug, Default)]
pub struct Gate {
    is_shut: Mutex<bool>,
    opened: Condvar,
}

impl Gate {
    /// Waits until it is open.
    pub fn pass(&self) {
        let shut = self.is_shut.lock().expect("no panic");
        drop(self.opened.wait_while(shut, |shut| *shut).expect("no panic"));
    }

    fn set(&self, is_shut: bool) {
        *self.is_shut.lock().expect("no panic") = is_shut;
        self.opened.notify_all();
    }
}

/// Keeps the disk at work until it is dropped, also by a test that fails.
struct Shut(Arc<Plan>);

impl Shut {
    fn new(house: &House) -> Shut {
        house.plan.gate.set(true);
        Shut(house.plan.clone())
    }
}

impl Drop for Shut {
    fn drop(&mut self) {
        self.0.gate.set(false);
    }
}

impl House {
    fn beside(&self) -> Jsonl {
        let ledger = self.open().expect("opens");
        ledger.sync_beside();
        ledger
    }

    /// Waits until so many syncs have begun.
    async fn syncs_begun(&self, count: u64) {
        while self.plan.syncs.load(Ordering::Relaxed) < count {
            yield_now().await;
        }
    }

    fn syncs(&self) -> u64 {
        self.plan.syncs.load(Ordering::Relaxed)
    }
}

/// Lets a task of its own record a fact. The claim comes back with what came of it.
fn record(mut claim: JsonlClaim, fact: Fact) -> JoinHandle<(JsonlClaim, Result<(), StoreError>)> {
    tokio::spawn(async move {
        let recorded = claim.append(Now::default(), &fact, Durability::Now).await;
        (claim, recorded)
    })
}

/// Gives the other tasks all the turns that they can use without a sync.
async fn turns() {
    for _ in 0..20 {
        yield_now().await;
    }
}

#[test]
fn while_the_disk_works_tasks_go_on_and_none_is_told_of_what_it_has_not_synced() {
    let house = House::new();
    let mut ledger = house.beside();
    let (one, two) = (house.ours(&mut ledger, "k1"), house.ours(&mut ledger, "k2"));
    let before = house.syncs();
    run(async {
        let shut = Shut::new(&house);
        let one = record(one, started());
        house.syncs_begun(before + 1).await;
        let two = record(two, started());
        let Ok(Claimed::Ours(three, _)) = ledger.claim(&wish("k3"), Now::default()).await else { panic!("not ours") };
        let three = record(three, started());
        turns().await;
        let lines = std::fs::read_to_string(house.path()).expect("reads");
        assert_eq!(lines.matches("{\"t\":\"started\"").count(), 3, "all are written");
        assert!(!one.is_finished() && !two.is_finished() && !three.is_finished());
        assert_eq!(house.syncs(), before + 1, "one at a time");
        drop(shut);
        for task in [one, two, three] {
            task.await.expect("no panic").1.expect("durable");
        }
        assert_eq!(house.syncs(), before + 2, "what came meanwhile goes into one");
    });
}

#[test]
fn what_tasks_still_have_to_add_goes_into_the_same_sync() {
    let house = House::new();
    let mut ledger = house.beside();
    // So many that a thread would begin before the last one has written; fewer than the runtime runs in one turn.
    let claims: Vec<_> = (0..40).map(|number| house.ours(&mut ledger, &format!("k{number}"))).collect();
    let before = house.syncs();
    run(async {
        let tasks = claims.into_iter().enumerate().map(|(number, mut claim)| {
            tokio::spawn(async move {
                // As answers do that were on their way when the first of them was written.
                for _ in 0..number {
                    yield_now().await;
                }
                claim.append(Now::default(), &started(), Durability::Now).await
            })
        });
        for task in tasks.collect::<Vec<_>>() {
            task.await.expect("no panic").expect("durable");
        }
    });
    assert_eq!(house.syncs(), before + 1);
}

#[test]
fn a_sync_that_fails_beside_fails_for_all_that_waited_and_no_other_is_made() {
    let house = House::new();
    let mut ledger = house.beside();
    let claims: Vec<_> = ["k1", "k2", "k3", "k4"].map(|key| house.ours(&mut ledger, key)).into();
    let before = house.syncs();
    let claims = run(async {
        let shut = Shut::new(&house);
        let mut claims = claims.into_iter();
        let mut tasks: Vec<_> = claims.by_ref().take(2).map(|claim| record(claim, started())).collect();
        house.syncs_begun(before + 1).await;
        // These are written while the sync that will fail is under way: nobody knows what became of them.
        tasks.extend(claims.map(|claim| record(claim, started())));
        turns().await;
        house.plan.sync.store(true, Ordering::Relaxed);
        drop(shut);
        let mut back = Vec::new();
        for task in tasks {
            let (claim, recorded) = task.await.expect("no panic");
            let error = recorded.expect_err("not durable");
            assert_eq!(error.left(), Left::Nothing, "{error}");
            assert!(error.to_string().starts_with("not durable, nothing was sent"), "{error}");
            back.push(claim);
        }
        back
    });
    assert!(house.folder.path().join("l.jsonl.sick").exists());
    // The disk says that all is well now.
    house.plan.sync.store(false, Ordering::Relaxed);
    for mut claim in claims {
        append(&mut claim, &settled(1), Durability::Now).expect_err("still not durable");
    }
    assert_eq!(house.syncs(), before + 1, "it is not asked again");
    for mut ledger in [ledger, house.open().expect("opens")] {
        assert!(matches!(house.claim(&mut ledger, "k5"), Err(StoreError::Sick { .. })));
    }
}

/// Whoever writes for all may be the one that is cancelled, and so may one for whom another writes.
#[test]
fn a_task_that_is_cancelled_while_its_batch_syncs_takes_nothing_from_the_others() {
    for gone in 0..3 {
        let house = House::new();
        let mut ledger = house.beside();
        let claims = ["k0", "k1", "k2"].map(|key| house.ours(&mut ledger, key));
        let before = house.syncs();
        run(async {
            let shut = Shut::new(&house);
            let tasks = claims.map(|claim| record(claim, started()));
            house.syncs_begun(before + 1).await;
            tasks[gone].abort();
            turns().await;
            drop(shut);
            for (at, task) in tasks.into_iter().enumerate() {
                match task.await {
                    Ok((_, recorded)) => recorded.expect("durable"),
                    Err(error) => assert!(error.is_cancelled() && at == gone, "{error}"),
                }
            }
        });
        assert_eq!(house.syncs(), before + 1);
        // What it wrote is there, and nobody holds its key any more.
        let claimed = house.claim(&mut house.open().expect("opens"), &format!("k{gone}"));
        let Ok(Claimed::Ours(_, history)) = claimed else { panic!("{claimed:?}") };
        assert_eq!(history.last_attempt(), 1);
    }
}

/// Its runtime ended before a thread was free.
#[test]
fn what_a_sync_that_never_began_left_is_synced_with_what_comes_later() {
    let house = House::new();
    let mut ledger = house.beside();
    let (one, mut two) = (house.ours(&mut ledger, "k1"), house.ours(&mut ledger, "k2"));
    let before = house.syncs();
    let narrow = tokio::runtime::Builder::new_current_thread().enable_time().max_blocking_threads(1).build();
    let narrow = narrow.expect("a runtime");
    let (stop, stopped) = std::sync::mpsc::channel::<()>();
    let mut waiting = None;
    narrow.block_on(async {
        // The only thread is taken: the sync can never begin.
        drop(tokio::task::spawn_blocking(move || stopped.recv()));
        waiting = Some(record(one, started()));
        turns().await;
    });
    narrow.shutdown_background();
    assert!(run(waiting.expect("it was spawned")).is_err_and(|error| error.is_cancelled()));
    assert_eq!(house.syncs(), before);
    append(&mut two, &started(), Durability::Now).expect("durable");
    assert_eq!(house.syncs(), before + 1);
    drop(stop);
}
