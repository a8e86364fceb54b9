//! Ledgers of several users, folders that may not be read or written, and file systems that cannot be trusted.

use super::*;
use crate::store::Warning;
use crate::store::jsonl::files::{self, Call, Watch};
use nix::unistd::{Gid, Uid, geteuid, setfsgid, setfsuid};
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::Path;
use std::time::Duration;

/// Somebody who is not the administrator.
const SOMEBODY: u32 = 4_711;

/// This thread touches files as another user, until it is dropped.
struct As;

impl As {
    fn somebody() -> As {
        setfsgid(Gid::from_raw(SOMEBODY));
        setfsuid(Uid::from_raw(SOMEBODY));
        As
    }
}

impl Drop for As {
    fn drop(&mut self) {
        setfsuid(Uid::from_raw(0));
        setfsgid(Gid::from_raw(0));
    }
}

/// Returns whether this test may act as somebody else.
fn may_change_user() -> bool {
    if !geteuid().is_root() {
        eprintln!("SKIPPED: only root can act as another user");
    }
    geteuid().is_root()
}

/// A ledger of somebody, with an operation that is decided.
fn theirs() -> House {
    let house = House::new();
    chown(house.folder.path(), Some(SOMEBODY), Some(SOMEBODY)).expect("root may");
    let _as = As::somebody();
    confirm(&mut house.open().expect("opens"), "k0", 1);
    house
}

fn confirm(ledger: &mut Jsonl, key: &str, answer: usize) {
    end(ledger, key, answer, Verdict::Confirmed);
}

fn end(ledger: &mut Jsonl, key: &str, answer: usize, verdict: Verdict) {
    let Ok(Claimed::Ours(mut claim, _)) = run(ledger.claim(&wish(key), Now::default())) else { panic!("{key}") };
    let Fact::Settled(mut end) = settled(answer) else { unreachable!() };
    Arc::make_mut(&mut end).verdict = verdict;
    for fact in [started(), Fact::Settled(end)] {
        append(&mut claim, &fact, Durability::Now).expect("durable");
    }
}

/// Makes the ledger longer than what has no index.
fn lengthen(ledger: &mut Jsonl, verdict: Verdict) {
    for at in 0..30 {
        end(ledger, &format!("fat{at}"), 12_000, verdict);
    }
}

/// Returns every file and folder under a folder that is not somebody's.
fn not_theirs(folder: &Path, state: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for path in fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("there").path()) {
        let owner = fs::symlink_metadata(&path).expect("there");
        if path != *state {
            found.extend(((owner.uid(), owner.gid()) != (SOMEBODY, SOMEBODY)).then(|| path.clone()));
            found.extend(if path.is_dir() { not_theirs(&path, state) } else { Vec::new() });
        }
    }
    found
}

#[test]
fn what_an_administrator_makes_beside_a_ledger_belongs_to_its_owner() {
    if !may_change_user() {
        return;
    }
    let house = theirs();
    // Everything that is made on demand is made by the administrator.
    let (path, options) = (house.path(), house.options());
    fs::remove_file(path.with_extension("jsonl.lock")).expect("removes");
    // As where root keeps the user's home folder: the memory of it is the user's, too.
    let memory = options.state.as_ref().expect("one").join("ledgers");
    fs::remove_dir_all(&memory).and_then(|()| fs::create_dir(&memory)).expect("is empty");
    chown(&memory, Some(SOMEBODY), Some(SOMEBODY)).expect("root may");
    drop(run(Jsonl::open(&path, &options).expect("opens").claim(&wish("k1"), Now::default())));
    let ours = Options { state: Some(house.folder.path().join("ours")), ..options.clone() };
    let mut ledger = Jsonl::open(&path, &ours).expect("opens");
    lengthen(&mut ledger, Verdict::InDoubt);
    assert!(ledger.keep_up(Effort::Whole));
    let all = Which::Older(&|_| Retention { keep_full: Duration::ZERO, forget_after: None });
    compact(&path, &ours, all, &|| false).expect("compacts");
    confirm(&mut ledger, "long", 20_000);
    sick::tell_sick(&place::Place::find(&path).expect("a path"), "", &io::Error::other("x"), (7, 9));
    let names: Vec<_> = fs::read_dir(house.folder.path()).expect("a folder").flatten().map(|e| e.file_name()).collect();
    assert_eq!(names.len(), 7, "ledger, lock, bodies, index, .sick and two memories: {names:?}");
    assert_eq!(not_theirs(house.folder.path(), ours.state.as_ref().expect("one")), Vec::<PathBuf>::new());
    let _as = As::somebody();
    assert!(jsonl_repair(&path, &options).rewritten.is_some());
    let ledger = Jsonl::open(&path, &options).expect("opens");
    assert!(ledger.warnings().is_empty());
    assert_eq!(fs::read_dir(path.with_extension("jsonl.idx")).expect("readable").count(), 2);
}

fn jsonl_repair(path: &Path, options: &Options) -> Repaired {
    super::super::repair(path, options).expect("repairs")
}

/// A link in the place of a file could lead an administrator to one of his own.
#[test]
fn links_beside_a_ledger_are_not_followed() {
    let house = House::new();
    let mut ledger = house.open().expect("opens");
    confirm(&mut ledger, "k1", 1);
    let (path, prey) = (house.path(), house.folder.path().join("prey"));
    fs::write(&prey, "precious").expect("writes");
    for ending in ["new", "sick", "lock"] {
        let name = path.with_extension(format!("jsonl.{ending}"));
        drop(fs::remove_file(&name));
        symlink(&prey, &name).expect("a link");
        let all = Which::Older(&|_| Retention { keep_full: Duration::ZERO, forget_after: None });
        let compacted = compact(&path, &house.options(), all, &|| false);
        assert_eq!(compacted.is_ok(), ending == "new", "{ending}: {compacted:?}");
        sick::tell_sick(&place::Place::find(&path).expect("a path"), "", &io::Error::other("x"), (7, 9));
        assert_eq!(fs::read_to_string(&prey).expect("reads"), "precious", "{ending}");
        drop(fs::remove_file(&name));
        drop(fs::remove_file(path.with_extension("jsonl.sick")));
    }
}

#[test]
fn an_index_that_may_not_be_read_is_passed_over_quietly() {
    if !may_change_user() {
        return;
    }
    let house = theirs();
    let mut ledger = house.open().expect("opens");
    lengthen(&mut ledger, Verdict::Confirmed);
    assert!(ledger.keep_up(Effort::Whole));
    let index = house.path().with_extension("jsonl.idx");
    for path in fs::read_dir(&index).expect("a folder").flatten().map(|entry| entry.path()).chain([index.clone()]) {
        chown(path, Some(0), Some(0)).expect("root may");
    }
    let _as = As::somebody();
    let reader = Reader::open(&house.path(), &house.options()).expect("readable");
    assert_eq!(reader.find(&wish("fat7").key, None).expect("readable").len(), 1);
    let mut ledger = house.open().expect("opens");
    assert!(matches!(run(ledger.claim(&wish("fat7"), Now::default())), Ok(Claimed::Final(..))));
    confirm(&mut ledger, "new", 1);
    assert!(!ledger.keep_up(Effort::Short));
    let told: Vec<Warning> = reader.warnings().into_iter().chain(ledger.warnings()).collect();
    assert!(!told.is_empty() && told.iter().all(Warning::is_detail), "{told:?}");
}

#[test]
fn a_ledger_that_may_only_be_read_is_shown_and_not_altered() {
    if !may_change_user() {
        return;
    }
    let house = theirs();
    let memory = house.folder.path().join("state");
    for path in [house.path(), house.path().with_extension("jsonl.lock"), house.folder.path().into(), memory] {
        let mode = fs::metadata(&path).expect("there").permissions().mode() & 0o555;
        fs::set_permissions(&path, PermissionsExt::from_mode(mode)).expect("root may");
    }
    let before = fs::read(house.path()).expect("reads");
    let _as = As::somebody();
    let reader = Reader::open(&house.path(), &house.options()).expect("readable");
    assert_eq!(reader.list().expect("readable").count(), 1);
    assert!(reader.warnings().is_empty());
    assert_eq!(verify(&house.path(), &house.options()).expect("readable").findings, []);
    let error = house.open().expect_err("it may not be written");
    assert!(error.to_string().contains("cannot open") && error.to_string().contains("denied"), "{error}");
    assert_eq!(fs::read(house.path()).expect("reads"), before);
}

#[test]
fn a_ledger_in_a_folder_that_may_not_be_searched_is_refused_with_its_path() {
    if !may_change_user() {
        return;
    }
    let house = theirs();
    fs::set_permissions(house.folder.path(), PermissionsExt::from_mode(0o600)).expect("root may");
    let before = fs::read(house.path()).expect("reads");
    {
        let _as = As::somebody();
        let open = || house.open().map(drop);
        let read = || Reader::open(&house.path(), &house.options()).map(drop);
        for refused in [open(), read()] {
            let error = refused.expect_err("nobody may look").to_string();
            assert!(error.contains("l.jsonl") && error.contains("denied"), "{error}");
        }
    }
    assert_eq!(fs::read(house.path()).expect("reads"), before);
}

/// Everything seems to lie on one kind of file system.
struct Share(u32);

impl Watch for Share {
    fn before(&self, _: Call<'_>) -> io::Result<()> {
        Ok(())
    }

    fn after(&self, _: Call<'_>) {}

    fn room(&self, len: usize) -> usize {
        len
    }

    fn file_system(&self) -> Option<u32> {
        Some(self.0)
    }
}

#[test]
fn a_ledger_on_a_network_share_is_only_read_unless_that_is_asked_for() {
    let house = House::new();
    let away = house.folder.path().join("away/l.jsonl");
    confirm(&mut house.open().expect("opens"), "k1", 1);
    let before = fs::read(house.path()).expect("reads");
    let (path, options) = (house.path(), house.options());
    // Source: linux/magic.h; the last one is that of ext4.
    for (magic, kind) in [(0x6969, "NFS"), (0xfe53_4d42, "SMB (smb2)"), (0x6573_5546, "FUSE"), (0xef53, "")] {
        files::watch(Some(Arc::new(Share(magic))));
        let all = Which::Older(&|_| Retention { keep_full: Duration::ZERO, forget_after: None });
        let tried = [
            Jsonl::open(&path, &options).map(drop),
            Jsonl::open(&away, &options).map(drop),
            compact(&path, &options, all, &|| false).map(drop),
            super::super::repair(&path, &options).map(drop),
            accept_loss(&path, &options, &this_process()).map(drop),
        ];
        let read = Reader::open(&path, &options).expect("readable").list().expect("readable").count();
        let asked = Jsonl::open(&path, &Options { unsafe_fs: true, ..options.clone() }).map(drop);
        files::watch(None);
        assert_eq!(read, 1);
        asked.expect("at one's own risk");
        for tried in tried {
            match (tried, kind) {
                (Ok(()), "") => {}
                (Err(error @ StoreError::NetworkFileSystem { .. }), _) if !kind.is_empty() => {
                    assert!(error.to_string().contains(kind) && error.hint().is_some(), "{error}");
                }
                (other, _) => panic!("{kind}: {other:?}"),
            }
        }
        if !kind.is_empty() {
            assert_eq!(fs::read(&path).expect("reads"), before);
            assert!(!away.parent().expect("a folder").exists());
        }
    }
}
