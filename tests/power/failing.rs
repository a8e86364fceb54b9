//! A disk that fails: what could not be made durable is told, and nothing is sent until it is mended.

use crate::alone::Place;
use crate::disk::Disk;
use crate::facts::{BOOT, now, started, wish};
use crate::house::{House, ending};
use crate::machine::{FileSystem, Mounted};
use crate::run::show;
use crate::workload::run;
use abide::drive::{Claim, Claimed, Durability, Ledger};
use abide::engine::facts::Fact;
use abide::engine::verdict::Verdict;
use abide::store::jsonl::{Jsonl, JsonlClaim, Reader, repair, verify};
use abide::store::{Left, StoreError, Warning};

/// Writes of an operation fail, first those of its claim, then those of its outcome.
pub fn fail(kind: FileSystem, place: &Place) {
    let (disk, mounted) = show(kind, place);
    let mut bench = Bench { house: House::new(mounted.folder(), BOOT), mounted: Some(mounted), disk };
    let mut ledger = bench.process();
    let mut held = bench.claim(&mut ledger, "claim");
    let error = bench.fails("\"k\":\"claim\"", &mut held, &started(1));
    assert!(matches!(&error, StoreError::Unrecorded { left: Left::Nothing, source } if is_unsynced(source)), "{error}");
    bench.is_sick_until_mended(&mut ledger, "claim");
    drop((held, ledger));
    let mut ledger = bench.process();
    let mut held = bench.claim(&mut ledger, "outcome");
    run(held.append(now(), &started(1), Durability::Now)).expect("the disk works");
    // An answer over several blocks, of which the first is on the disk already.
    let error = bench.fails("xxxxxxxx", &mut held, &ending("wide-outcome", 1, Verdict::Confirmed));
    assert!(matches!(&error, StoreError::Unrecorded { left: Left::Perhaps, source } if is_unsynced(source)), "{error}");
    bench.is_sick_until_mended(&mut ledger, "outcome");
    drop((held, ledger));
    // Nobody lied: the disk has it all.
    let expected = bench.ends();
    assert!(expected.contains(&("outcome".into(), true)), "{expected:?}");
    bench.mounted.take().expect("it is mounted").unmount();
    bench.mounted = Some(Mounted::new(kind, bench.disk.file(), &place.folder.join("recorded")).expect("mounts"));
    assert_eq!(bench.ends(), expected);
}

/// A ledger on a disk. Dropped in this order.
struct Bench {
    house: House,
    mounted: Option<Mounted>,
    disk: Disk,
}

impl Bench {
    /// Returns the operations, and whether the newest run of each has ended.
    fn ends(&self) -> Vec<(String, bool)> {
        let reader = Reader::open(&self.house.ledger(), &self.house.options()).expect("readable");
        reader
            .list()
            .expect("readable")
            .map(|found| (found.key.to_string(), found.history.settled().is_some()))
            .collect()
    }

    fn process(&self) -> Jsonl {
        Jsonl::open(&self.house.ledger(), &self.house.options()).expect("a healthy ledger")
    }

    fn claim(&self, ledger: &mut Jsonl, name: &str) -> JsonlClaim {
        match run(ledger.claim(&wish(name, name), now())).expect("a healthy ledger") {
            Claimed::Ours(held, _) => held,
            other => panic!("{name}: {other:?}"),
        }
    }

    /// Appends a fact while the disk fails to write `words`.
    fn fails(&self, words: &str, held: &mut JsonlClaim, fact: &Fact) -> StoreError {
        self.disk.fail_writes_of(Some(words.as_bytes()));
        run(held.append(now(), fact, Durability::Now)).expect_err("the disk fails")
    }

    /// Expects that nothing is sent, by this process and by the next, until the disk works and the ledger is mended.
    fn is_sick_until_mended(&self, ledger: &mut Jsonl, name: &str) {
        let (path, options) = (self.house.ledger(), self.house.options());
        let refused = |ledger: &mut Jsonl| {
            let error = run(ledger.claim(&wish("later", "later"), now())).expect_err("it is sick");
            assert!(matches!(error, StoreError::Sick { .. }), "{error}");
        };
        refused(ledger);
        // The system has told one process, and tells no other: a sync of theirs ends well.
        refused(&mut self.process());
        let warnings = Reader::open(&path, &options).expect("readable").warnings();
        assert!(warnings.iter().any(|warning| matches!(warning, Warning::Unsendable(StoreError::Sick { .. }))));
        assert_eq!(verify(&path, &options).expect("readable").findings.len(), 1);
        let error = repair(&path, &options).expect_err("the disk still fails");
        assert!(matches!(error, StoreError::Unsynced { .. } | StoreError::NotPersisted { .. }), "{name}: {error}");
        refused(&mut self.process());
        self.disk.fail_writes_of(None);
        let repaired = repair(&path, &options).expect("the disk works");
        assert!(repaired.rewritten.is_some() && repaired.read_back, "{name}: {repaired:?}");
        drop(self.claim(&mut self.process(), "later"));
        assert_eq!(verify(&path, &options).expect("readable").findings, []);
    }
}

fn is_unsynced(error: &StoreError) -> bool {
    matches!(error, StoreError::Unsynced { .. })
}
