//! Every scenario of latency.md 7, and who is blamed for it.

use crate::run::Told;
use crate::{names, namespaces, scenarios};
use std::collections::{BTreeMap, BTreeSet};

/// Prints every scenario, and how often which side was blamed where which was to blame.
fn print(all: &[Told]) {
    println!("{:>2}  {:24} {:14} {:28} said", "", "scenario", "to blame", "code");
    let mut counts = BTreeMap::new();
    for Told { number, name, expected: [side, code], said: [said, said_code] } in all {
        let mark = if (side, code) == (said, said_code) { "" } else { said_code };
        println!("{number:>2}  {name:24} {side:14} {code:28} {said} {mark}");
        *counts.entry((side, said)).or_insert(0u32) += 1;
    }
    println!("\n{:14} {:14} times", "to blame", "blamed");
    counts.iter().for_each(|((side, said), count)| println!("{side:14} {said:14} {count}"));
}

/// Scenarios are right by side when all their variants are: all of the twelve, and 18 of 20 with the extras. The codes
/// are held to all of it.
///
/// Source: issue 6; `cargo test --test probe matrix -- --nocapture` shows the matrix.
#[tokio::test]
async fn the_side_is_right_in_every_scenario() {
    let mut all = scenarios::told().await;
    all.extend(names::told().await);
    all.extend(crate::deep::told().await);
    let apart = namespaces::told();
    let is_whole = !apart.is_empty();
    all.extend(apart);
    all.sort_by_key(|told| told.number);
    print(&all);
    let numbers: BTreeSet<u32> = all.iter().map(|told| told.number).collect();
    let is_right =
        |number: &&u32| all.iter().filter(|told| told.number == **number).all(|told| told.expected[0] == told.said[0]);
    let right: Vec<u32> = numbers.iter().filter(is_right).copied().collect();
    let twelve = right.iter().filter(|number| **number <= 12).count();
    println!("\nside right in {twelve} of 12 scenarios, {} of 20 with the extras", right.len());
    if is_whole {
        assert_eq!((twelve, numbers.len()), (12, 20));
        assert!(right.len() >= 18, "{right:?}");
    } else {
        eprintln!("SKIPPED: the scenarios that need a network of their own: {} of 20 were played", numbers.len());
    }
    let wrong: Vec<&Told> = all.iter().filter(|told| told.expected != told.said).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}
