//! Claims of what a reader has read before: as good as the others, whatever happened in between.

use crate::compact::{all, done};
use crate::facts::*;
use crate::file::OnDisk;
use crate::suite::*;
use abide::drive::{Claimed, EntryRule, Ledger, Resolving, Wish};
use abide::engine::facts::{Fact, History, Opened, Predecessor, Resolved};
use abide::engine::moment::Now;
use abide::engine::operation::{IdempotencyKey, PartnerName};
use abide::engine::verdict::Verdict;
use abide::store::StoreError;
use abide::store::jsonl::{Effort, Found, Informed, Jsonl, JsonlClaim, Options, verify};

/// A ledger of which each operation is read before it is claimed.
pub struct ReadBefore(pub OnDisk);

/// A process that does so.
pub struct Attentive<'a> {
    house: &'a OnDisk,
    ledger: Jsonl,
}

impl Ledger for Attentive<'_> {
    type Claim = JsonlClaim;
    type Error = StoreError;

    async fn claim(&mut self, wish: &Wish, now: Now) -> Result<Claimed<JsonlClaim>, StoreError> {
        match self.house.reader().find(&wish.key, Some(&wish.opened.partner))?.pop() {
            Some(found) => Informed { ledger: &mut self.ledger, found: &found }.claim(wish, now).await,
            None => self.ledger.claim(wish, now).await,
        }
    }

    async fn resolve(&mut self, key: &IdempotencyKey, resolved: &Resolved, now: Now) -> Result<Resolving, StoreError> {
        self.ledger.resolve(key, resolved, now).await
    }
}

impl<'a> House for &'a ReadBefore {
    type Ledger = Attentive<'a>;

    fn process(&self) -> Attentive<'a> {
        Attentive { house: &self.0, ledger: self.0.process() }
    }

    fn read(&self, partner: &PartnerName, key: &IdempotencyKey) -> Option<History> {
        self.0.read(partner, key)
    }
}

fn found(house: &OnDisk, name: &str) -> Found {
    house.reader().find(&key(name), None).expect("readable").pop().expect("it is there")
}

/// Claims for a replay what was found before.
fn informed(ledger: &mut Jsonl, found: &Found) -> Claimed<JsonlClaim> {
    let name = found.key.as_str();
    let wish = Wish { entry: EntryRule::Known { rejected: false }, ..wish(name, name) };
    claim(&mut Informed { ledger, found }, &wish)
}

/// A third process runs an operation that is settled.
fn run_again(house: &OnDisk, name: &str, verdict: Verdict) {
    let (mut held, _) = ours(claim(&mut house.process(), &wish(name, name)));
    append(&mut held, &[started(2), settled(verdict, None)]);
}

#[test]
fn what_nobody_has_touched_is_claimed_as_it_was_read() {
    let house = OnDisk::new();
    house.story("k1", &done(Verdict::NotDone));
    let (found, mut ledger) = (found(&house, "k1"), house.process());
    let (mut held, history) = ours(informed(&mut ledger, &found));
    assert_eq!(history.facts[..3], found.history.facts[..]);
    assert_eq!((history.facts.len(), predecessor(&history)), (4, Predecessor::Settled));
    append(&mut held, &[started(2), settled(Verdict::Confirmed, None)]);
    drop(held);
    // Its lines refer to each other as they should.
    assert_eq!(verify(&house.path(), &house.options()).expect("readable").findings, []);
    assert!(matches!(informed(&mut ledger, &found), Claimed::Final(..)), "our own outcome counts, too");
}

#[test]
fn what_another_process_has_ended_since_is_not_run_again() {
    let house = OnDisk::new();
    house.story("k1", &done(Verdict::NotDone));
    let (found, mut ledger) = (found(&house, "k1"), house.process());
    run_again(&house, "k1", Verdict::Confirmed);
    let Claimed::Final(_, history) = informed(&mut ledger, &found) else { panic!("it would be sent twice") };
    assert_eq!(history.facts.len(), 6);
}

#[test]
fn what_another_process_works_on_is_busy_or_in_doubt() {
    let house = OnDisk::new();
    house.story("k1", &done(Verdict::NotDone));
    let (found, mut ledger) = (found(&house, "k1"), house.process());
    let (mut held, _) = ours(claim(&mut house.process(), &wish("k1", "k1")));
    append(&mut held, &[started(2)]);
    assert!(matches!(informed(&mut ledger, &found), Claimed::Busy(..)));
    drop(held);
    let (_held, history) = ours(informed(&mut ledger, &found));
    assert_eq!(predecessor(&history), Predecessor::InDoubt, "what it has started counts");
}

#[test]
fn what_an_owner_that_died_left_open_is_read_again() {
    let house = OnDisk::new();
    house.story("k1", &[started(1)]);
    let (found, mut ledger) = (found(&house, "k1"), house.process());
    let (_held, history) = ours(informed(&mut ledger, &found));
    assert_eq!(predecessor(&history), Predecessor::InDoubt);
}

#[test]
fn a_word_said_since_counts() {
    let house = OnDisk::new();
    house.story("k1", &done(Verdict::InDoubt));
    let (found, mut ledger) = (found(&house, "k1"), house.process());
    let (by, note) = ("ann".into(), "they have it".into());
    let word = Resolved { partner: partner("acme"), verdict: Verdict::Confirmed, by, note };
    let recorded = run(house.process().resolve(&key("k1"), &word, now())).expect("a healthy ledger");
    assert!(matches!(recorded, Resolving::Recorded(_)));
    assert!(matches!(informed(&mut ledger, &found), Claimed::Final(..)));
}

/// What an index covers meanwhile is not among the lines in memory any more.
#[test]
fn what_has_happened_since_counts_also_where_an_index_covers_it() {
    let house = OnDisk::quick();
    house.story("same", &done(Verdict::NotDone));
    house.story("done", &done(Verdict::NotDone));
    let (same, ended) = (found(&house, "same"), found(&house, "done"));
    run_again(&house, "done", Verdict::Confirmed);
    let mut ledger = house.process();
    crate::compact::fill(&mut ledger);
    assert!(ledger.keep_up(Effort::Short));
    for mut ledger in [ledger, house.process()] {
        assert!(matches!(informed(&mut ledger, &ended), Claimed::Final(..)));
        let (held, history) = ours(informed(&mut ledger, &same));
        assert_eq!(history.facts[..3], same.history.facts[..]);
        drop(held);
    }
}

#[test]
fn after_a_compaction_it_is_read_in_its_new_place() {
    let house = OnDisk::new();
    for name in ["old", "k1", "k2"] {
        house.story(name, &done(if name == "old" { Verdict::Confirmed } else { Verdict::NotDone }));
    }
    let (one, two) = (found(&house, "k1"), found(&house, "k2"));
    let mut late = house.process();
    all(&house).expect("compacts");
    // As long as it was, so that it is not its end that gives it away.
    for name in ["more", "yet-more"] {
        house.story(name, &done(Verdict::NotDone));
    }
    for (mut ledger, found) in [(house.process(), &one), (late.clone(), &two)] {
        let (mut held, _) = ours(informed(&mut ledger, found));
        append(&mut held, &[started(2), settled(Verdict::Confirmed, None)]);
    }
    assert_eq!(verify(&house.path(), &house.options()).expect("readable").findings, []);
    assert!(matches!(informed(&mut late, &one), Claimed::Final(..)));
    for name in ["k1", "k2"] {
        assert_eq!(named_first_line(&house, name), first_line(&house, name), "{name}");
    }
}

/// Returns where the line that ended an operation last says that its first one is.
fn named_first_line(house: &OnDisk, name: &str) -> usize {
    let lines = house.lines();
    let mut ends = lines.iter().rev().filter(|line| line.starts_with("{\"t\":\"settled\"") && is_about(line, name));
    let (_, place) = ends.next().and_then(|line| line.split_once(",\"o\":")).expect("it says so");
    place.split(',').next().and_then(|digits| digits.parse().ok()).expect("a number")
}

fn first_line(house: &OnDisk, name: &str) -> usize {
    let is_first = |line: &&String| line.starts_with("{\"t\":\"opened\"") && is_about(line, name);
    let lines = house.lines();
    let before = lines.iter().take_while(|line| !is_first(line));
    before.map(|line| line.len() + 1).sum()
}

fn is_about(line: &str, name: &str) -> bool {
    line.contains(&format!(",\"k\":\"{name}\","))
}

#[test]
fn what_is_gone_from_the_file_is_not_believed() {
    let house = OnDisk::new();
    house.story("k1", &done(Verdict::NotDone));
    let kept = house.bytes();
    house.story("k2", &done(Verdict::NotDone));
    let found = found(&house, "k2");
    house.put(&kept);
    let mut forgetful = Jsonl::open(&house.path(), &Options { state: None, ..house.options() }).expect("opens");
    assert!(matches!(informed(&mut forgetful, &found), Claimed::Unknown(_)));
}

#[test]
fn of_another_operation_nothing_is_believed() {
    let house = OnDisk::new();
    house.story("k1", &done(Verdict::NotDone));
    house.story("k2", &done(Verdict::Confirmed));
    let bank = Opened { partner: partner("bank"), ..Opened::clone(&wish("k1", "k1").opened) };
    let at_the_bank = wish_of("k1", bank, b"k1");
    story(&house, &at_the_bank, &done(Verdict::Confirmed));
    let found = house.reader().find(&key("k1"), Some(&partner("acme"))).expect("readable").pop().expect("it is there");
    for wish in [wish("k2", "k2"), at_the_bank] {
        let mut ledger = house.process();
        let claimed = claim(&mut Informed { ledger: &mut ledger, found: &found }, &wish);
        assert!(matches!(claimed, Claimed::Final(..)), "it would be sent twice");
    }
}

#[test]
fn of_another_ledger_nothing_is_believed() {
    let (house, other) = (OnDisk::new(), OnDisk::new());
    for name in ["k1", "a", "b"] {
        house.story(name, &done(Verdict::NotDone));
        other.story(name, &done(Verdict::Confirmed));
    }
    let stranger = found(&house, "k1");
    assert!(matches!(informed(&mut other.process(), &stranger), Claimed::Final(..)));
    let history = found(&other, "k1").history;
    assert!(matches!(history.facts.last().map(|last| &last.fact), Some(Fact::Settled(_))));
}
