//! Many tasks of one process: what they write goes into the same syncs.

use crate::facts::*;
use crate::file::OnDisk;
use crate::suite::*;
use abide::drive::{Claim, Claimed, Durability, Ledger};
use abide::engine::facts::Fact;
use abide::engine::verdict::{Evidence, Verdict};
use abide::store::StoreError;
use abide::store::jsonl::{Jsonl, verify};

fn end() -> Fact {
    settled(Verdict::Confirmed, Some(attempt(1, Evidence::Answered)))
}

/// Claims, sends and settles; false where another task has the key.
async fn operate(mut ledger: Jsonl, name: String) -> Result<bool, StoreError> {
    let Claimed::Ours(mut held, _) = ledger.claim(&wish(&name, &name), now()).await? else { return Ok(false) };
    held.append(now(), &started(1), Durability::Now).await?;
    held.append(now(), &end(), Durability::Now).await?;
    Ok(true)
}

fn all(ledger: &Jsonl, names: impl Iterator<Item = String>) -> Vec<Result<bool, StoreError>> {
    run(async {
        let tasks: Vec<_> = names.map(|name| tokio::spawn(operate(ledger.clone(), name))).collect();
        let mut done = Vec::new();
        for task in tasks {
            done.push(task.await.expect("no panic"));
        }
        done
    })
}

#[test]
fn tasks_of_one_process_share_their_syncs() {
    const TASKS: usize = 256;
    let house = OnDisk::quick();
    let ledger = house.process();
    let done = all(&ledger, (0..TASKS).map(|at| format!("k{at}")));
    assert!(done.iter().all(|done| matches!(done, Ok(true))));
    // One for all claims and one for all outcomes, and a few where a task was late.
    assert!(ledger.syncs() <= 6, "{}", ledger.syncs());
    let verified = verify(&house.path(), &house.options()).expect("readable");
    assert_eq!((verified.findings, verified.operations), (vec![], TASKS));
    let reader = house.reader();
    assert_eq!(reader.undecided().expect("readable").count(), 0);
    assert!(house.read(&partner("acme"), &key("k255")).is_some());
}

#[test]
fn of_many_tasks_with_one_key_one_wins() {
    let house = OnDisk::quick();
    let ledger = house.process();
    let done = all(&ledger, (0..64).map(|at| format!("k{}", at % 4)));
    assert_eq!(done.iter().filter(|done| matches!(done, Ok(true))).count(), 4);
    assert!(done.iter().all(Result::is_ok));
    assert_eq!(house.lines().len(), 1 + 3 * 4);
}

#[test]
fn more_than_a_batch_is_done_in_turn() {
    const TASKS: usize = 1_500;
    let house = OnDisk::quick();
    let ledger = house.process();
    let done = all(&ledger, (0..TASKS).map(|at| format!("k{at}")));
    assert_eq!(done.iter().filter(|done| matches!(done, Ok(true))).count(), TASKS);
    assert!(ledger.syncs() <= 6, "{}", ledger.syncs());
    assert_eq!(verify(&house.path(), &house.options()).expect("readable").findings, []);
}

#[test]
fn the_error_of_one_task_is_not_that_of_the_others() {
    let house = OnDisk::quick();
    let ledger = house.process();
    run(async {
        let long =
            wish_of("long", opened(&"p".repeat(70_000), abide::engine::facts::StoredBody::Text("".into()), BOOT), b"");
        let refused = tokio::spawn({
            let mut ledger = ledger.clone();
            async move { ledger.claim(&long, now()).await.map(drop) }
        });
        let fine = tokio::spawn(operate(ledger.clone(), "k1".into()));
        assert!(matches!(refused.await.expect("no panic"), Err(StoreError::TooLong { .. })));
        assert!(fine.await.expect("no panic").expect("recorded"));
    });
}

/// A task that nobody waits for any more leaves nothing alive behind.
#[test]
fn a_claim_that_nobody_takes_is_let_go() {
    let house = OnDisk::quick();
    let ledger = house.process();
    run(async {
        let dropped = tokio::spawn({
            let mut ledger = ledger.clone();
            async move { ledger.claim(&wish("k1", "k1"), now()).await.map(drop) }
        });
        tokio::task::yield_now().await;
        dropped.abort();
        assert!(dropped.await.is_err());
        assert!(operate(ledger.clone(), "k2".into()).await.expect("recorded"));
    });
    assert!(matches!(claim(&mut house.process(), &wish("k1", "k1")), Claimed::Ours(..)));
}
